//! The server: lets clients in that have the token, within limits, each with a thread and ports of
//! its own, so that none takes anything of another.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use narrows_linux::datagrams::DatagramSocket;
use narrows_linux::tcp_options::{TcpOptions, bind_to, choose_control, family};
use narrows_linux::{Clock, random_bytes};
use narrows_results::Error;
use narrows_traffic::{Sends, Until};
use narrows_units::{Duration, Rate};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use super::control::{Control, PATIENCE};
use super::quic::Listening;
use super::sender::Session;
use super::token::Token;
use super::wire::{Answer, HEAD, Request, client_of};
use super::{OUT_OF_DESCRIPTORS, PORT, system};
use crate::rights;

/// Milliseconds between two looks at whether it is to end.
const LOOK: u16 = 100;

/// Connections that have not shown the token yet, in all and of one client (our choice).
const PENDING: usize = 64;
const PENDING_OF_CLIENT: usize = 8;

/// How long the end waits for sessions to end.
const ENDING: std::time::Duration = std::time::Duration::from_millis(500);

/// How much a server does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Sessions at a time, in all. One client has half of them at most, so that another finds a
    /// place.
    pub sessions: usize,
    /// Transfers of a session.
    pub transfers: usize,
    /// The sum of constant rates of a session, at any time of it.
    pub rate: Rate,
    /// How long a session may last.
    pub lasts: Duration,
}

impl Default for ServeLimits {
    /// Our choice: a mix that fills 1 Gbit/s for an hour.
    fn default() -> Self {
        Self {
            sessions: 8,
            transfers: 20_000,
            rate: Rate::from_mbit(1_000),
            lasts: Duration::from_secs(3_600),
        }
    }
}

/// What a server is to do.
#[derive(Debug)]
pub struct TrafficServer {
    at: Vec<SocketAddr>,
    limits: ServeLimits,
    token: Token,
    gives_up_rights: bool,
}

/// What a server has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TrafficCounts {
    /// Sessions that were served.
    pub sessions: u64,
    /// Connections that did not show the token.
    pub unauthenticated: u64,
    /// Sessions that were refused, by a limit or as malformed.
    pub refused: u64,
    /// Connections beyond those that may wait.
    pub crowded: u64,
    /// Datagrams sent.
    pub datagrams: u64,
    /// Bytes sent.
    pub bytes: u64,
}

impl fmt::Display for TrafficCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} sessions were served, with {} bytes of which some were in {} datagrams; {} were \
             refused, {} connections did not show the token, {} were too many at once",
            self.sessions,
            self.bytes,
            self.datagrams,
            self.refused,
            self.unauthenticated,
            self.crowded
        )
    }
}

/// Who is there.
#[derive(Debug, Default)]
struct Present {
    counts: TrafficCounts,
    pending: Pending,
    sessions: BTreeMap<u128, usize>,
}

/// Connections that have not shown the token yet, by number, the oldest first.
#[derive(Debug, Default)]
struct Pending {
    next: u64,
    waiting: BTreeMap<u64, (u128, TcpStream)>,
}

impl Pending {
    /// Takes a place for a connection of a client: its number, if the client has not too many. Where
    /// all places are taken, the oldest connection is ended: who has the token shows it at once.
    fn take(&mut self, client: u128, stream: TcpStream) -> Option<u64> {
        let has = self.waiting.values().filter(|(of, _)| *of == client);
        if has.count() >= PENDING_OF_CLIENT {
            return None;
        }
        if self.waiting.len() >= PENDING {
            if let Some((_, (_, oldest))) = self.waiting.pop_first() {
                // Its thread then ends.
                let _ = oldest.shutdown(Shutdown::Both);
            }
        }
        let number = self.next;
        self.next += 1;
        self.waiting.insert(number, (client, stream));
        Some(number)
    }

    /// Gives a place back.
    fn give(&mut self, number: u64) {
        self.waiting.remove(&number);
    }
}

impl Present {
    fn total(of: &BTreeMap<u128, usize>) -> usize {
        of.values().sum()
    }

    /// Takes a place of `of` for a client, if `most` in all and `most_of_client` leave one.
    fn take(
        of: &mut BTreeMap<u128, usize>,
        client: u128,
        most: usize,
        most_of_client: usize,
    ) -> bool {
        let has = of.get(&client).copied().unwrap_or(0);
        let fits = Self::total(of) < most && has < most_of_client;
        if fits {
            of.insert(client, has + 1);
        }
        fits
    }

    fn give(of: &mut BTreeMap<u128, usize>, client: u128) {
        if let Some(has) = of.get_mut(&client) {
            *has -= 1;
            if *has == 0 {
                of.remove(&client);
            }
        }
    }
}

/// What the threads of a server share.
struct Shared {
    limits: ServeLimits,
    token: Token,
    clock: Clock,
    present: Mutex<Present>,
    stop: AtomicBool,
}

impl Shared {
    fn with<T>(&self, act: impl FnOnce(&mut Present) -> T) -> T {
        act(&mut self.present.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl TrafficServer {
    /// A server at these addresses, of both versions of IP where none is named.
    ///
    /// # Errors
    /// A word that is no address.
    pub fn new(addresses: &[String], limits: ServeLimits, token: Token) -> Result<Self, Error> {
        let named = addresses
            .iter()
            .map(|word| crate::pmtud::socket_address("traffic serve", word, PORT, |_| true));
        let mut at = named.collect::<Result<Vec<_>, _>>()?;
        if at.is_empty() {
            at.push((Ipv4Addr::UNSPECIFIED, PORT).into());
            at.push((Ipv6Addr::UNSPECIFIED, PORT).into());
        }
        Ok(Self {
            at,
            limits,
            token,
            gives_up_rights: false,
        })
    }

    /// Has the whole process give up what only root may, and become `nobody`, once its sockets
    /// are open.
    #[must_use]
    pub fn giving_up_rights(self) -> Self {
        Self {
            gives_up_rights: true,
            ..self
        }
    }

    /// Serves until `stop` is set; `ready` is called once it does.
    ///
    /// # Errors
    /// When an address cannot be had.
    pub fn serve(
        self,
        stop: &AtomicBool,
        ready: impl FnOnce(&[SocketAddr]),
    ) -> Result<TrafficCounts, Error> {
        // A connection of each transfer that runs takes one.
        rights::all_descriptors();
        let mut listeners = Vec::new();
        let several = self.at.len() > 1;
        for address in self.at {
            match listen(address) {
                Ok(listener) => listeners.push(listener),
                // A machine without IPv6 serves what it has.
                Err(Errno::EAFNOSUPPORT) if address.ip().is_unspecified() && several => {}
                Err(error) => {
                    let why = format!("{address} cannot be served: {}", error.desc());
                    return Err(match error {
                        Errno::EACCES | Errno::EPERM => Error::NoPermission(why),
                        _ => Error::Engine(why),
                    });
                }
            }
        }
        if self.gives_up_rights {
            rights::give_up(None)?;
        }
        let at = listeners.iter().filter_map(|l| l.local_addr().ok());
        ready(&at.collect::<Vec<_>>());
        let shared = Arc::new(Shared {
            limits: self.limits,
            token: self.token,
            clock: Clock::starting_now(),
            present: Mutex::new(Present::default()),
            stop: AtomicBool::new(false),
        });
        while !stop.load(Ordering::SeqCst) {
            let files = listeners.iter();
            let mut files: Vec<_> = files
                .map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN))
                .collect();
            match poll(&mut files, PollTimeout::from(LOOK)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(system("sockets cannot be waited for", error)),
            }
            for listener in &listeners {
                loop {
                    match listener.accept() {
                        Ok((stream, from)) => admit(&shared, stream, from.ip()),
                        Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                        Err(_) => {
                            std::thread::sleep(OUT_OF_DESCRIPTORS);
                            break;
                        }
                    }
                }
            }
        }
        shared.stop.store(true, Ordering::SeqCst);
        let until = std::time::Instant::now() + ENDING;
        while std::time::Instant::now() < until && shared.with(|p| !p.sessions.is_empty()) {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        Ok(shared.with(|present| present.counts))
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, Errno> {
    let options = TcpOptions::default();
    let socket = options.socket(family(address))?;
    bind_to(&socket, address)?;
    // All connections of a mix may come at once: `net.core.somaxconn` alone bounds them.
    options.listen(&socket, nix::sys::socket::Backlog::MAXALLOWABLE)?;
    Ok(socket.into())
}

/// Gives a connection a thread, if there is a place for one.
fn admit(shared: &Arc<Shared>, stream: TcpStream, from: IpAddr) {
    let client = client_of(from);
    let place = stream.try_clone().ok().and_then(|second| {
        shared.with(|present| {
            let full = present.pending.waiting.len() >= PENDING;
            let place = present.pending.take(client, second);
            present.counts.crowded += u64::from(place.is_none() || full);
            place
        })
    });
    let Some(place) = place else {
        return;
    };
    let thread = Arc::clone(shared);
    let body = move || {
        let control = stream
            .set_nonblocking(false)
            .and_then(|()| Control::accepted(stream, &thread.token));
        match control {
            Ok(control) => talk(&thread, control, from, client, place),
            Err(_) => thread.with(|present| {
                present.pending.give(place);
                present.counts.unauthenticated += 1;
            }),
        }
    };
    let named = std::thread::Builder::new().name("traffic session".to_owned());
    if named.spawn(body).is_err() {
        shared.with(|present| present.pending.give(place));
    }
}

/// Serves a client that has the token.
fn talk(shared: &Shared, mut control: Control, from: IpAddr, client: u128, place: u64) {
    let request = control.receive::<Request>(std::time::Instant::now() + PATIENCE);
    let taken = shared.with(|present| {
        present.pending.give(place);
        let most = shared.limits.sessions;
        Present::take(&mut present.sessions, client, most, most.div_ceil(2))
    });
    let begun = match request {
        Err(_) => Err("the request is none".to_owned()),
        Ok(_) if !taken => Err(format!(
            "{} sessions run, of which one client may have half",
            shared.limits.sessions
        )),
        Ok(request) => within(&shared.limits, &request)
            .and_then(|()| has_controls(&request))
            .map(|()| request),
    };
    let begun = match begun {
        Ok(request) => session(shared, control, request, from),
        Err(why) => Err((control, why)),
    };
    match begun {
        Ok(mut session) => {
            let end = session.run(&shared.stop);
            shared.with(|present| {
                present.counts.sessions += 1;
                present.counts.datagrams += end.datagrams;
                present.counts.bytes += end.written.iter().map(|(_, bytes)| bytes).sum::<u64>();
            });
        }
        Err((mut control, why)) => {
            shared.with(|present| present.counts.refused += 1);
            // A client that is gone does not need it.
            let _ = control.send(&Answer::Refused(why));
            control.close();
        }
    }
    if taken {
        shared.with(|present| Present::give(&mut present.sessions, client));
    }
}

/// Opens the ports of a session, and says so.
fn session(
    shared: &Shared,
    mut control: Control,
    request: Request,
    peer: IpAddr,
) -> Result<Session, (Control, String)> {
    let by_quic = request.sets.iter().any(|set| set.quic().is_some());
    let opened = || -> std::io::Result<_> {
        let local = SocketAddr::new(control.stream.local_addr()?.ip(), 0);
        let listener = listen(local)?;
        let tcp = listener.local_addr()?.port();
        // The same number for both, where it is free.
        let (socket, udp) = match DatagramSocket::bound(SocketAddr::new(local.ip(), tcp), true) {
            Ok((socket, _)) => (socket, tcp),
            Err(_) => {
                let (socket, _) = DatagramSocket::bound(local, true).map_err(Errno::from)?;
                let udp = socket.local()?.port();
                (socket, udp)
            }
        };
        let quic = match by_quic {
            true => Some(Listening::at(local.ip(), &control.secret)?),
            false => None,
        };
        Ok((listener, tcp, socket, udp, quic, random_bytes()?))
    };
    let (listener, tcp, socket, udp, quic, key) = match opened() {
        Ok(opened) => opened,
        Err(error) => return Err((control, format!("no ports can be had: {error}"))),
    };
    let (quic, port) = quic.unzip();
    let answer = Answer::Session {
        key,
        tcp,
        udp,
        quic: port,
    };
    if control.send(&answer).is_err() {
        return Err((control, "the client is gone".to_owned()));
    }
    Ok(Session {
        request,
        key,
        control,
        listener,
        socket,
        quic,
        peer,
        clock: shared.clock,
    })
}

/// Whether this host lets its connections have the congestion controls of a request; why not.
fn has_controls(request: &Request) -> Result<(), String> {
    let of_kernel = request.sets.iter().filter(|set| set.quic().is_none());
    let named = of_kernel.filter_map(|set| set.control.as_ref());
    let named: BTreeSet<_> = named.collect();
    for name in named {
        let tried = TcpOptions::default()
            .socket(family(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))))
            .map_err(Errno::from)
            .and_then(|socket| choose_control(&socket, name));
        tried.map_err(|error| match error {
            Errno::ENOENT => format!(
                "the server's kernel does not have the congestion control `{name}`: `sysctl \
                 net.ipv4.tcp_available_congestion_control` lists what it has"
            ),
            Errno::EPERM => format!(
                "the server may not use the congestion control `{name}`: `sysctl \
                 net.ipv4.tcp_allowed_congestion_control` lists what it may"
            ),
            error => format!("the congestion control `{name}`: {}", error.desc()),
        })?;
    }
    Ok(())
}

/// Whether a request is within the limits; why not.
fn within(limits: &ServeLimits, request: &Request) -> Result<(), String> {
    let transfers = &request.transfers;
    if transfers.is_empty() || transfers.len() > limits.transfers {
        let (n, most) = (transfers.len(), limits.transfers);
        return Err(format!("{n} transfers; allowed are 1 to {most}"));
    }
    if request.lasts_ns > limits.lasts.as_nanos() {
        let lasts = Duration::from_nanos(request.lasts_ns);
        return Err(format!(
            "a session of {lasts}; the longest is {}",
            limits.lasts
        ));
    }
    if request.interval_ns < 10_000_000 {
        return Err("samples more often than each 10 ms".to_owned());
    }
    for set in &request.sets {
        let fits = |name: &String| {
            name.len() < 16
                && name
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
        };
        if set.quic().is_none() && !set.control.as_ref().is_none_or(fits) {
            return Err("a congestion control whose name is none".to_owned());
        }
    }
    // Rates that begin and end, by time.
    let mut changes = Vec::new();
    for transfer in transfers {
        if transfer.set as usize >= request.sets.len() {
            return Err("a transfer of a set that is not there".to_owned());
        }
        let over = |time: Duration| time > limits.lasts;
        let (rate, until) = match transfer.sends {
            Sends::Get(_) => continue,
            Sends::Bulk(time) if over(time) => return Err(format!("a transfer of {time}")),
            Sends::Bulk(_) => continue,
            Sends::Datagrams { rate, size, until } => {
                if !(HEAD as u32..=65_507).contains(&size) {
                    return Err(format!(
                        "datagrams of {size} bytes; allowed are {HEAD} (a number, a time and a key \
                         are in each) to 65507"
                    ));
                }
                let most = u64::from(size) * 8 * 1_000_000;
                if rate > most {
                    return Err(format!(
                        "datagrams of {size} bytes at {rate} bit/s; allowed is one each microsecond"
                    ));
                }
                (rate, until)
            }
            Sends::Paced { rate, until } => (rate, until),
        };
        if rate == 0 || rate > limits.rate.as_bits() {
            return Err(format!("{rate} bit/s; allowed is up to {}", limits.rate));
        }
        let lasts = match until {
            Until::Time(time) => time,
            Until::Bytes(bytes) => Rate::from_bits(rate).time_for(bytes),
        };
        if over(lasts) || over(transfer.start) {
            return Err(format!("a transfer of {lasts} from {}", transfer.start));
        }
        let rate = i128::from(rate);
        changes.push((transfer.start + lasts, -rate));
        changes.push((transfer.start, rate));
    }
    changes.sort_unstable();
    let mut sum = 0;
    for (_, change) in changes {
        sum += change;
        if sum > i128::from(limits.rate.as_bits()) {
            return Err(format!(
                "{sum} bit/s in all; allowed is up to {}",
                limits.rate
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
