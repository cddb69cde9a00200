//! The client.

use std::fmt;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_linux::datagrams::{DatagramSocket, LARGEST};
use narrows_linux::{Clock, random_bytes};
use narrows_pmtud::{
    Client, ClientSettings, MESSAGE_LEN, ProbeTimer, Reports, Search, Settings, Stage, Timers,
};
use narrows_results::Error;
use narrows_scenario::Refusal;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::report::PathMtu;
use super::{PORT, PORT_ALONE, failed, socket_address, system};

/// The longest wait, in milliseconds, before it is looked whether it is to end.
const LOOK: u64 = 100;

/// The longest payload of UDP over IPv4 (65,535 bytes less 28), and what fits over IPv6 into an
/// MTU of 65,535.
const LONGEST_V4: usize = 65_507;
const LONGEST_V6: usize = 65_487;

/// Undelivered datagrams that are named, each reporter and reason once (our choice).
const NAMED: usize = 8;

/// What `--search all` tries: the seven, with the report's steps, and those of QUIC's stacks.
const ALL: [&str; 13] = [
    "adaptive",
    "binary",
    "bisect",
    "table",
    "sctp",
    "linear 80",
    "step 50",
    "step 1",
    "quinn",
    "s2n-quic",
    "neqo",
    "msquic",
    "picoquic",
];

/// What a client is to find out.
#[derive(Clone, Debug)]
pub struct ProbeRequest {
    host: String,
    to: SocketAddr,
    searches: Vec<Search>,
    /// Whether packet-too-big reports are used.
    pub reports: bool,
    /// Whether timers are those of RFC 8899: 15 seconds for each probe that is lost.
    pub rfc_timers: bool,
    /// The MTU up to which is searched, where that is not the interface's.
    pub max: Option<u16>,
    /// Whether there is no server: ICMP errors of the host say what arrives.
    pub alone: bool,
}

impl ProbeRequest {
    /// The path to `host`, by `search`: the words of one, or `all`.
    ///
    /// # Errors
    /// A host that is none, words that are no search's.
    pub fn new(
        host: &str,
        search: &str,
        alone: bool,
        wanted: impl Fn(&SocketAddr) -> bool,
    ) -> Result<Self, Error> {
        let port = if alone { PORT_ALONE } else { PORT };
        let searches = match search {
            "all" => ALL.iter().map(|words| Search::parse(words)).collect(),
            words => Search::parse(words).map(|search| vec![search]),
        };
        let searches = searches.map_err(|e| {
            let allowed = format!("{}, or all", e.allowed);
            Error::Refused(Refusal::new("--search", e.found, allowed).to_string())
        })?;
        let to = socket_address("pmtud probe", host, port, wanted)?;
        let (ip, to) = match to.ip().to_canonical() {
            // Of an address of IPv4 within IPv6 the first is meant.
            IpAddr::V4(ip) => (IpAddr::V4(ip), SocketAddr::from((ip, to.port()))),
            ip => (ip, to),
        };
        if ip.is_multicast() || ip.is_unspecified() || ip == Ipv4Addr::BROADCAST {
            let found = format!("`{host}`, which is the address of no single host");
            let why = Refusal::new("pmtud probe", found, "a host's address, or its name");
            return Err(Error::Refused(why.to_string()));
        }
        Ok(Self {
            host: host.to_owned(),
            to,
            searches,
            reports: true,
            rfc_timers: false,
            max: None,
            alone,
        })
    }
}

/// What a client is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// It looks for the server.
    Greeting,
    /// So many searches are done.
    Searched(usize),
}

/// Finds out what the path carries, until that is done or `stop` is set; `None` then.
///
/// # Errors
/// When there is no way to the host, no server there, or this machine has no sockets for it.
pub fn probe(
    request: &ProbeRequest,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Option<PathMtu>, Error> {
    let mut socket = Socket::open(request)?;
    let interface = socket.interface_mtu()?;
    let asked = request.max.unwrap_or(interface).min(interface);
    let mut settings = match request.to {
        SocketAddr::V4(_) => Settings::ipv4(asked),
        SocketAddr::V6(_) => Settings::ipv6(asked),
    };
    if request.rfc_timers {
        settings.timers = Timers::RFC;
    } else if request.alone {
        // Hosts answer once a second, so that a round trip is no measure of what is lost.
        settings.timers.probe = ProbeTimer::Fixed(narrows_units::Duration::from_millis(1_500));
    }
    if !request.reports {
        settings.reports = Reports::Ignored;
    }
    let undrawn = |e| system("nothing can be drawn", e);
    let drawn = random_bytes().map_err(undrawn)?;
    let nonce = u64::from_ne_bytes(random_bytes().map_err(undrawn)?) >> 1;
    let client = ClientSettings {
        settings,
        searches: request.searches.clone(),
        back: true,
        alone: request.alone.then_some(drawn),
        stays: false,
        nonce,
    };
    let clock = Clock::starting_now();
    let mut client = Client::new(client, clock.now());
    let mut said = None;
    while !stop.load(Ordering::SeqCst) {
        client.on_timeout(clock.now());
        socket.take(&mut client, &clock)?;
        while let Some(sent) = client.poll(clock.now()) {
            socket.send(&mut client, &clock, &sent.bytes, sent.len)?;
        }
        let now = match client.stage() {
            Stage::Greeting => Progress::Greeting,
            Stage::Searching => Progress::Searched(client.found().len()),
            Stage::NoServer | Stage::Silent => return Err(no_answer(request, &socket, &client)),
            Stage::Done => {
                let about = (request.host.as_str(), request.to);
                let found = (client.found(), &socket.undelivered[..]);
                return Ok(Some(PathMtu::new(about, interface, request.alone, found)));
            }
        };
        if said != Some(now) {
            said = Some(now);
            progress(now);
        }
        let left = client
            .next_wake()
            .map(|at| at.since(clock.now()).as_nanos());
        // A part of a millisecond is waited for as a whole one.
        let left = left.map_or(LOOK, |ns| ns.div_ceil(1_000_000).min(LOOK));
        let mut files = [PollFd::new(socket.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut files, PollTimeout::from(left as u16)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(system("the socket cannot be waited for", error)),
        }
    }
    Ok(None)
}

/// Why there is no answer, as far as is known.
fn no_answer(request: &ProbeRequest, socket: &Socket, client: &Client) -> Error {
    let to = request.to;
    let mut why = match (socket.refused, client.stage(), client.found().is_empty()) {
        (true, ..) => "the host says that nobody has this port".to_owned(),
        (_, Stage::Silent, _) => {
            "it gave a token and then answered no probe, of whichever size".to_owned()
        }
        (_, _, true) => {
            "five requests for a token were not answered, so the host is not there, a filter drops \
             them, or the server gives no more tokens in a second (it counts those that it refuses)"
                .to_owned()
        }
        (_, _, false) => "it gave a token, and none in its place for a minute".to_owned(),
    };
    for undelivered in &socket.undelivered {
        why.push_str(&format!("; {undelivered}"));
    }
    let had_answered = client.stage() == Stage::Silent || !client.found().is_empty();
    Error::Engine(match had_answered {
        true => format!(
            "the server at {to} no longer answers: {why}; what it does not answer says nothing \
             about the path"
        ),
        false => format!(
            "no server answers at {to}: {why} (start `narrows pmtud serve` there, or use --tracepath, \
             which needs none and sees less)"
        ),
    })
}

/// What this host, or the path, says of datagrams.
#[derive(Clone, Copy, Debug, Default)]
struct Said {
    /// The MTU of this host's interface, which a datagram exceeds.
    own_mtu: Option<u32>,
    /// Whether something came by ICMP.
    by_icmp: bool,
}

/// Who reported, other than the host's refusal, that a datagram was not delivered, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Undelivered {
    by: IpAddr,
    error: Errno,
}

impl fmt::Display for Undelivered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.error {
            Errno::EACCES => "a filter there forbids it",
            Errno::ENETUNREACH => "there is no route",
            Errno::EHOSTUNREACH => "the host cannot be reached",
            Errno::ECONNREFUSED => "nobody has the port",
            other => other.desc(),
        };
        write!(f, "{} reports by ICMP: {what}", self.by)
    }
}

/// The socket, and whether its host refuses datagrams.
struct Socket {
    socket: DatagramSocket,
    to: SocketAddr,
    room: Vec<u8>,
    /// The host reported that nobody has the port.
    refused: bool,
    /// What else was reported, each once.
    undelivered: Vec<Undelivered>,
}

impl Socket {
    fn open(request: &ProbeRequest) -> Result<Self, Error> {
        let any: SocketAddr = match request.to {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let (socket, _) = DatagramSocket::bound(any, false).map_err(|e| failed(&e))?;
        let kept = socket.keep_path_reports();
        kept.map_err(|e| system("ICMP errors cannot be asked for", e))?;
        Ok(Self {
            socket,
            to: request.to,
            room: vec![0; LARGEST],
            refused: false,
            undelivered: Vec::new(),
        })
    }

    /// The MTU of the interface by which the host is reached: what this host says of a datagram
    /// that is longer. One that has no limit carries it, to a server that sees no message in it.
    fn interface_mtu(&mut self) -> Result<u16, Error> {
        let longest = match self.to {
            SocketAddr::V4(_) => LONGEST_V4,
            SocketAddr::V6(_) => LONGEST_V6,
        };
        match self.socket.send(self.to, 0, &vec![0; longest]) {
            Ok(()) => Ok(u16::MAX),
            Err(Errno::EMSGSIZE) => {
                let said = self.socket.path_report(&mut []).ok().flatten();
                let mtu = said.and_then(|report| report.mtu);
                mtu.and_then(|mtu| u16::try_from(mtu).ok())
                    .ok_or_else(|| system("the interface's MTU is not known", Errno::EMSGSIZE))
            }
            Err(error) => Err(self.unsent(error)),
        }
    }

    fn send(
        &mut self,
        client: &mut Client,
        clock: &Clock,
        message: &[u8; MESSAGE_LEN],
        len: u16,
    ) -> Result<(), Error> {
        let mut bytes = message.to_vec();
        bytes.resize(usize::from(len), 0);
        // What ICMP said of an earlier datagram is said here once more (ip(7)), and over when it
        // was read.
        for _ in 0..3 {
            let Err(error) = self.socket.send(self.to, 0, &bytes) else {
                return Ok(());
            };
            let said = self.take(client, clock)?;
            match (error, said.own_mtu) {
                // This host, whose interface has become smaller, quotes nothing.
                (Errno::EMSGSIZE, Some(mtu)) => {
                    client.reported(clock.now(), None, mtu, message);
                    return Ok(());
                }
                (Errno::ENOBUFS | Errno::EAGAIN, _) => return Ok(()),
                _ if said.by_icmp => {}
                _ => return Err(self.unsent(error)),
            }
        }
        // Lost, as others are on the way.
        Ok(())
    }

    fn unsent(&self, error: Errno) -> Error {
        let to = self.to.ip();
        let reason = std::io::Error::from(error);
        match reason.kind() {
            ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => Error::Engine(format!(
                "{to} cannot be reached from this machine: {reason} (`ip route get {to}` says which way it would go)"
            )),
            ErrorKind::PermissionDenied => Error::NoPermission(format!(
                "this machine does not let datagrams go to {to}: {reason} (a filter or a route of its own forbids it, or it is a broadcast address)"
            )),
            _ => system(
                &format!(
                    "no datagram can be sent to {to} (`ip route get {to}` says which way it would go)"
                ),
                reason,
            ),
        }
    }

    /// Hands on what has come: answers, and what ICMP says.
    fn take(&mut self, client: &mut Client, clock: &Clock) -> Result<Said, Error> {
        let mut said = Said::default();
        loop {
            let mut quote = [0; MESSAGE_LEN];
            let report = match self.socket.path_report(&mut quote) {
                Ok(Some(report)) => report,
                Ok(None) => continue,
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err(system("ICMP errors cannot be read", error)),
            };
            let quote = &quote[..report.quoted.min(MESSAGE_LEN)];
            let now = clock.now();
            let Some(by) = report.reporter else {
                said.own_mtu = report.mtu;
                continue;
            };
            said.by_icmp = true;
            match (report.error, report.mtu) {
                (Errno::EMSGSIZE, Some(mtu)) => client.reported(now, Some(by), mtu, quote),
                (Errno::ECONNREFUSED, _) if by == self.to.ip() => {
                    self.refused = true;
                    client.refused(now, quote);
                }
                (error, _) => {
                    let new = Undelivered { by, error };
                    if self.undelivered.len() < NAMED && !self.undelivered.contains(&new) {
                        self.undelivered.push(new);
                    }
                }
            }
        }
        loop {
            match self.socket.receive(&mut self.room) {
                Ok(Some(got)) if got.from == self.to => {
                    client.receive(clock.now(), &self.room[..got.len], got.len as u32);
                }
                Ok(_) => {}
                // Other errors than that there is nothing are in the error queue, too.
                Err(_) => return Ok(said),
            }
        }
    }
}
