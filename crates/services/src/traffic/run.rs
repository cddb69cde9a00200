//! The client: opens the transfers of a mix when each is due, and measures what arrives.

mod client;
mod figures;
mod reports;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use narrows_linux::datagrams::DatagramSocket;
use narrows_linux::{Clock, arrival};
use narrows_quic::QuicControl;
use narrows_results::Error;
use narrows_traffic::{FlowSet, Mix, Offsets, Sends, Transfer};
use narrows_units::Duration;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags};

use super::clocks::{Asked, Clocks, Difference, difference};
use super::control::{Control, PATIENCE};
use super::kpi::TrafficResult;
use super::marks::{self, Capable, CodePoint, ControlName, Mark};
use super::quic::Fetches;
use super::receiver::Values;
use super::token::Token;
use super::wire::{Answer, HEAD, Head, KEY, Opening, Request, SILENCE, SetOptions, plain};
use super::{PORT, system};
use crate::rights;
use client::{Client, Done};
use reports::Reports;

/// Questions about the server's time, at the beginning and at the end (our choice).
const QUESTIONS: usize = 20;

/// How long an answer is waited for.
const ANSWER: u16 = 50;

/// Rows that are kept (our choice): 500 flows for more than an hour, each 200 ms.
const MOST_ROWS: usize = 10_000_000;

/// What is to be run.
#[derive(Debug)]
pub struct RunRequest {
    mix: Mix,
    server: String,
    to: SocketAddr,
    token: Token,
    /// Where in their first interval clients begin.
    pub offsets: Offsets,
    /// What draws that.
    pub seed: u64,
    /// Code points, in place of the mix's.
    pub dscp: Vec<Mark<CodePoint>>,
    /// Which flows are capable of ECN.
    pub ecn: Vec<Mark<Capable>>,
    /// The congestion control of connections, in place of the mix's.
    pub control: Vec<Mark<ControlName>>,
    /// How long transfers are waited for that are not complete when the mix is over.
    pub grace: Duration,
    /// How long the server is waited for at least, if nothing of it is received.
    silence: Duration,
}

impl RunRequest {
    /// `mix` from the server at `server`, which has `token`.
    ///
    /// # Errors
    /// A server whose name is none or cannot be found, a mix without transfers.
    pub fn new(
        mix: Mix,
        server: &str,
        token: Token,
        wanted: impl Fn(&SocketAddr) -> bool,
    ) -> Result<Self, Error> {
        if mix.transfers() == 0 {
            return Err(Error::Refused("the mix has no transfer".to_owned()));
        }
        let to = crate::pmtud::socket_address("--server", server, PORT, wanted)?;
        Ok(Self {
            mix,
            server: server.to_owned(),
            to,
            token,
            offsets: Offsets::Random,
            seed: 1,
            dscp: Vec::new(),
            ecn: Vec::new(),
            control: Vec::new(),
            grace: Duration::from_secs(10),
            silence: SILENCE,
        })
    }
}

/// Runs a mix to its end, or until `stop` is set; what came of it. `began` is called once the
/// server has taken it.
///
/// # Errors
/// If the server cannot be reached, has another token, or refuses the mix.
pub fn run(
    request: &RunRequest,
    stop: &AtomicBool,
    began: impl FnOnce(),
) -> Result<TrafficResult, Error> {
    let ecn = |set: &FlowSet| Mark::of_set(&request.ecn, set);
    let all = request.mix.sets.iter();
    let connections = |set: &&FlowSet| !matches!(set.sends, Sends::Datagrams { .. });
    Mark::check(&request.dscp, "--dscp", "flows", all.clone())?;
    Mark::check(&request.ecn, "--ecn", "flows", all.clone())?;
    Mark::check(
        &request.control,
        "--cc",
        "connections",
        all.filter(connections),
    )?;
    let control = |set: &FlowSet| {
        let asked = Mark::of_set(&request.control, set).map(|name| name.0);
        asked.or_else(|| set.control.clone())
    };
    let by_quic =
        |set: &FlowSet| control(set).is_some_and(|name| QuicControl::parse(&name).is_ok());
    marks::check(
        &request.mix,
        ecn,
        by_quic,
        narrows_linux::sysctl::asks_for_ecn,
    )?;
    // A connection of each transfer that runs takes one.
    rights::all_descriptors();
    let failed = |e: std::io::Error| system(&format!("the server {}", request.to), e);
    let stream = TcpStream::connect_timeout(&request.to, PATIENCE).map_err(failed)?;
    let mut connection = Control::connected(stream, &request.token).map_err(failed)?;
    let mix = &request.mix;
    let transfers = mix.schedule(request.offsets, request.seed);
    let options = |set: &FlowSet| {
        let dscp = Mark::of_set(&request.dscp, set).map(|point| point.0);
        let datagrams = matches!(set.sends, Sends::Datagrams { .. });
        let mut options = SetOptions {
            class: dscp.or(set.dscp).unwrap_or(0) << 2,
            control: control(set).filter(|_| !datagrams),
        };
        // Of connections of TCP the ECN field is the kernel's.
        if datagrams || by_quic(set) {
            options.class |= ecn(set).map_or(0, |ecn| ecn.ecn() as u8);
        }
        options
    };
    let sets: Vec<_> = mix.sets.iter().map(options).collect();
    let last = transfers.iter().map(|t| t.start + t.sends.lasts()).max();
    let until = last.unwrap_or(Duration::ZERO) + request.grace;
    let asked = Request {
        interval_ns: mix.interval.as_nanos().max(10_000_000),
        // With the time for questions about the clock.
        lasts_ns: (until + Duration::from_secs(10)).as_nanos(),
        sets: sets.clone(),
        transfers: transfers.clone(),
    };
    connection.send(&asked).map_err(failed)?;
    let answer: Answer = connection
        .receive(std::time::Instant::now() + PATIENCE)
        .map_err(failed)?;
    let (key, tcp, udp, quic) = match answer {
        Answer::Session {
            key,
            tcp,
            udp,
            quic,
        } => (key, tcp, udp, quic),
        Answer::Refused(why) => {
            let why = format!("the server {} refuses the mix: {}", request.to, plain(&why));
            return Err(Error::Refused(why));
        }
    };
    let fetches = sets.iter().any(|set| set.quic().is_some());
    let quic = match quic.filter(|_| fetches) {
        Some(port) => Some(Fetches::new(request.to, &port, &connection.secret).map_err(failed)?),
        None if fetches => {
            let why = std::io::Error::other("it has no port for QUIC");
            return Err(failed(why));
        }
        None => None,
    };
    let clock = Clock::starting_now();
    let ports = [tcp, udp].map(|port| SocketAddr::new(request.to.ip(), port));
    let first = compare_clocks(&clock, ports[1], &key, QUESTIONS);
    began();
    let names = |t: &Transfer| mix.sets[t.set as usize].name(t.instance);
    let mut client = Client {
        epoll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)
            .map_err(|e| system("no event loop", e))?,
        clock,
        key,
        ports,
        names: transfers.iter().map(names).collect(),
        values: vec![Values::default(); sets.len()],
        done: vec![Done::default(); transfers.len()],
        flows: BTreeMap::new(),
        taken: BTreeSet::new(),
        transfers,
        capable: mix.sets.iter().map(ecn).collect(),
        quic,
        sets,
        begin: clock.now(),
        next: 0,
        opened_late: Duration::ZERO,
        rows: Vec::new(),
        reports: Reports::new(mix.transfers(), Duration::from_nanos(asked.interval_ns)),
        received_at: clock.now(),
        patience: request.silence.max(request.grace),
        interval: Duration::from_nanos(asked.interval_ns),
    };
    let began_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let began_at = began_at.map_or(0.0, |since| since.as_secs_f64());
    let mut why = client.serve(&mut connection, stop, until);
    let ran = clock.now();
    let interrupted = stop.load(Ordering::SeqCst);
    let questions = if interrupted || why.is_some() {
        3
    } else {
        QUESTIONS
    };
    let last = compare_clocks(&clock, ports[1], &key, questions);
    if client.reports.end.is_none() && why.is_none() {
        let patience = if interrupted { PATIENCE / 10 } else { PATIENCE };
        let ended = client.finish(&mut connection, std::time::Instant::now() + patience);
        why = ended.err();
    }
    let clocks = first.zip(last).map(|(first, last)| Clocks { first, last });
    let clocks = clocks.or(first.map(|first| Clocks { first, last: first }));
    let mut result = client.result(mix, clocks, began_at, ran);
    result.server = request.server.clone();
    let server_says = client.reports.end.as_ref().and_then(|end| end.why.clone());
    result.why = interrupted
        .then(|| "it was interrupted".to_owned())
        .or(why)
        .or(server_says)
        .or_else(|| client.not_run());
    result.whole = result.why.is_none();
    Ok(result)
}

/// Asks for the server's time.
fn compare_clocks(
    clock: &Clock,
    server: SocketAddr,
    key: &[u8; KEY],
    questions: usize,
) -> Option<Difference> {
    let any: SocketAddr = match server.is_ipv4() {
        true => ([0, 0, 0, 0], 0).into(),
        false => ([0_u16; 8], 0).into(),
    };
    let (socket, _) = DatagramSocket::bound(any, true).ok()?;
    let mut all = Vec::new();
    let mut room = [0; HEAD + 1];
    for _ in 0..questions {
        let sent_ns = clock.now().as_nanos();
        if socket
            .send(server, 0, &Opening::Time(sent_ns).to_bytes(key))
            .is_err()
        {
            continue;
        }
        let mut files = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
        if !matches!(poll(&mut files, PollTimeout::from(ANSWER)), Ok(1)) {
            continue;
        }
        while let Ok(Some(got)) = socket.receive(&mut room) {
            let back = got.stamp.and_then(|stamp| arrival(clock, stamp));
            let back_ns = back.unwrap_or_else(|| clock.now()).as_nanos();
            let head = Head::parse(&room[..got.len.min(room.len())], key);
            // The answer to an earlier one has its own time.
            if let Some(head) = head.filter(|h| h.transfer == u32::MAX && h.number <= sent_ns) {
                all.push(Asked {
                    sent_ns: head.number,
                    back_ns,
                    there_ns: head.sent_ns,
                });
            }
        }
    }
    difference(&all)
}

#[cfg(test)]
mod tests;
