//! The server.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_linux::datagrams::{DatagramSocket, LARGEST};
use narrows_linux::{Clock, random_bytes};
use narrows_pmtud::{Server, ServerCounts, ServerSettings};
use narrows_results::Error;
use narrows_scenario::Refusal;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::{PORT, socket_address, system};
use crate::rights;

/// Milliseconds between two looks at whether it is to end.
const LOOK: u16 = 100;

/// Datagrams of a socket that are taken in a row, before it is looked whether it is to end.
const TURN: u32 = 1_000;

/// What a server is to do.
#[derive(Clone, Debug)]
pub struct ServeRequest {
    /// Where it is asked.
    pub at: Vec<SocketAddr>,
    /// How much it does.
    pub settings: ServerSettings,
    /// Whom the process becomes, where root starts it.
    pub user: Option<String>,
}

impl ServeRequest {
    /// A server at these addresses, of both versions of IP where none is named.
    ///
    /// # Errors
    /// A word that is no address, a rate of 0.
    pub fn new(
        addresses: &[String],
        settings: ServerSettings,
        user: Option<String>,
    ) -> Result<Self, Error> {
        for (option, rate) in [
            ("--per-client", settings.per_client),
            ("--in-all", settings.in_all),
            ("--tokens", settings.tokens),
        ] {
            if rate == 0 {
                let why = Refusal::new(option, "`0`", "1 and more datagrams a second");
                return Err(Error::Refused(why.to_string()));
            }
        }
        let named = addresses
            .iter()
            .map(|word| socket_address("pmtud serve", word, PORT, |_| true));
        let mut at = named.collect::<Result<Vec<_>, _>>()?;
        if at.is_empty() {
            at.push((Ipv4Addr::UNSPECIFIED, PORT).into());
            at.push((Ipv6Addr::UNSPECIFIED, PORT).into());
        }
        Ok(Self { at, settings, user })
    }
}

/// Answers clients until `stop` is set; `ready` is called once it does.
///
/// # Errors
/// When an address cannot be had, or rights cannot be given up.
pub fn serve(
    request: &ServeRequest,
    stop: &AtomicBool,
    ready: impl FnOnce(&[SocketAddr]),
) -> Result<ServerCounts, Error> {
    let mut sockets = Vec::new();
    let mut at = Vec::new();
    for address in &request.at {
        match DatagramSocket::bound(*address, false) {
            Ok((socket, _)) => {
                sockets.push(socket);
                at.push(*address);
            }
            // A machine without IPv6 serves what it has.
            Err(error)
                if address.ip().is_unspecified()
                    && request.at.len() > 1
                    && error.errno() == Errno::EAFNOSUPPORT => {}
            Err(error) => {
                let why = format!("{address} cannot be served: {error}");
                return Err(match error.errno() {
                    Errno::EACCES | Errno::EPERM => Error::NoPermission(why),
                    _ => Error::Engine(why),
                });
            }
        }
    }
    rights::give_up(request.user.as_deref())?;
    let key = random_bytes().map_err(|e| system("no key can be drawn", e))?;
    let mut server = Server::new(request.settings, key);
    let clock = Clock::starting_now();
    let mut room = vec![0; LARGEST];
    ready(&at);
    while !stop.load(Ordering::SeqCst) {
        for socket in &sockets {
            answer_all(&mut server, &clock, socket, &mut room);
        }
        let files = sockets.iter();
        let mut files: Vec<_> = files
            .map(|socket| PollFd::new(socket.as_fd(), PollFlags::POLLIN))
            .collect();
        match poll(&mut files, PollTimeout::from(LOOK)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(system("sockets cannot be waited for", error)),
        }
    }
    Ok(server.counts())
}

/// Answers what has come to a socket.
fn answer_all(server: &mut Server, clock: &Clock, socket: &DatagramSocket, room: &mut [u8]) {
    for _ in 0..TURN {
        let got = match socket.receive(room) {
            Ok(Some(got)) => got,
            Ok(None) => continue,
            Err(Errno::EAGAIN) => return,
            // What ICMP says of an answer concerns its client alone.
            Err(_) => continue,
        };
        let datagram = &room[..got.len];
        let len = got.len as u32;
        if let Some(answer) = server.receive(clock.now(), got.from.ip(), datagram, len) {
            let mut bytes = answer.bytes.to_vec();
            bytes.resize(usize::from(answer.len), 0);
            if socket.send(got.from, 0, &bytes) == Err(Errno::EMSGSIZE) {
                server.note_too_long();
            }
        }
    }
}
