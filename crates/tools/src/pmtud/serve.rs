//! The server.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_linux::datagrams::{DatagramSocket, LARGEST};
use narrows_linux::{Clock, random_bytes};
use narrows_pmtud::{Server, ServerSettings};
use narrows_results::Error;
use narrows_scenario::Refusal;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::unistd::{User, geteuid};
use serde::Serialize;

use super::{PORT, socket_address, system};
use crate::rights;

/// Milliseconds between two looks at whether it is to end.
const LOOK: u16 = 100;

/// Datagrams of a socket that are taken in a row, before it is looked whether it is to end.
const TURN: u32 = 1_000;

/// Whom a server that root starts becomes, unless another is named.
const NOBODY: &str = "nobody";

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

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ServeCounts {
    /// Datagrams that came.
    pub received: u64,
    /// Tokens given.
    pub welcomed: u64,
    /// Probes answered.
    pub answered: u64,
    /// Datagrams that are no message of a client.
    pub malformed: u64,
    /// Probes without the token of their address.
    pub unauthenticated: u64,
    /// Beyond a rate.
    pub limited: u64,
    /// Answers that the first link did not take.
    pub too_long: u64,
}

impl fmt::Display for ServeCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} datagrams came: {} tokens given, {} probes answered; not answered: {} that are no \
             message, {} without a token, {} beyond the rates; {} answers too long for the first link",
            self.received,
            self.welcomed,
            self.answered,
            self.malformed,
            self.unauthenticated,
            self.limited,
            self.too_long
        )
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
) -> Result<ServeCounts, Error> {
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
    give_up_rights(request.user.as_deref())?;
    let key = random_bytes().map_err(|e| system("no key can be drawn", e))?;
    let mut server = Server::new(request.settings, key);
    let clock = Clock::starting_now();
    let mut room = vec![0; LARGEST];
    let mut too_long = 0;
    ready(&at);
    while !stop.load(Ordering::SeqCst) {
        for socket in &sockets {
            too_long += answer_all(&mut server, &clock, socket, &mut room);
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
    let counts = server.counts();
    Ok(ServeCounts {
        received: counts.received,
        welcomed: counts.welcomed,
        answered: counts.answered,
        malformed: counts.malformed,
        unauthenticated: counts.unauthenticated,
        limited: counts.limited,
        too_long,
    })
}

/// Answers what has come to a socket; how many answers the first link did not take.
fn answer_all(server: &mut Server, clock: &Clock, socket: &DatagramSocket, room: &mut [u8]) -> u64 {
    let mut too_long = 0;
    for _ in 0..TURN {
        let got = match socket.receive(room) {
            Ok(Some(got)) => got,
            Ok(None) => continue,
            Err(Errno::EAGAIN) => return too_long,
            // What ICMP says of an answer concerns its client alone.
            Err(_) => continue,
        };
        let datagram = &room[..got.len];
        let len = got.len as u32;
        if let Some(answer) = server.receive(clock.now(), got.from.ip(), datagram, len) {
            let mut bytes = answer.bytes.to_vec();
            bytes.resize(usize::from(answer.len), 0);
            too_long += u64::from(socket.send(got.from, 0, &bytes) == Err(Errno::EMSGSIZE));
        }
    }
    too_long
}

/// Has nothing that only root may, now that the sockets are open.
fn give_up_rights(user: Option<&str>) -> Result<(), Error> {
    rights::gain_no_more().map_err(|e| system("rights cannot be given up", e))?;
    if !geteuid().is_root() {
        return match user {
            Some(_) => Err(Error::NoPermission(
                "only root can become another user: leave --user out, or run it with sudo"
                    .to_owned(),
            )),
            None => Ok(()),
        };
    }
    let name = user.unwrap_or(NOBODY);
    let found = User::from_name(name).ok().flatten().ok_or_else(|| {
        let why = Refusal::new("--user", format!("`{name}`"), "a user of this machine");
        Error::Refused(why.to_string())
    })?;
    let become_user = rights::become_user(&found);
    become_user.map_err(|e| system(&format!("the process cannot become {name}"), e))
}
