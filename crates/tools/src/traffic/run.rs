//! The client: opens the transfers of a mix when each is due, and measures what arrives.

mod figures;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use narrows_linux::datagrams::{DatagramSocket, LARGEST};
use narrows_linux::{Clock, arrival};
use narrows_results::Error;
use narrows_traffic::{FlowSet, Mix, Offsets, Sends, Transfer};
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::clocks::{Asked, Clocks, Difference, difference};
use super::control::{Control, PATIENCE};
use super::kpi::TrafficResult;
use super::marks::{self, ArrivedMarks, Capable, CodePoint, Mark};
use super::receiver::{Datagrams, Interval, Step, Stream, Values};
use super::timer::Timer;
use super::token::Token;
use super::wire::{
    Answer, HEAD, Head, KEY, Opening, Report, Request, SenderEnd, SetOptions, StreamSample,
};
use super::{PORT, system};

/// The longest wait, in milliseconds, before it is looked whether it is to end.
const LOOK: u16 = 50;

/// Questions about the server's time, at the beginning and at the end (our choice).
const QUESTIONS: usize = 20;

/// How long an answer is waited for.
const ANSWER: u16 = 50;

/// How long a flow of datagrams is waited for after its last datagram was due.
const AFTER: Duration = Duration::from_secs(1);

/// Rows that are kept (our choice): 500 flows for more than an hour, each 200 ms.
const MOST_ROWS: usize = 10_000_000;

const CONTROL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

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
    /// The congestion control of all connections, in place of the mix's.
    pub control: Option<String>,
    /// How long transfers are waited for that are not complete when the mix is over.
    pub grace: Duration,
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
            control: None,
            grace: Duration::from_secs(10),
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
    Mark::check(&request.dscp, "--dscp", &request.mix)?;
    Mark::check(&request.ecn, "--ecn", &request.mix)?;
    let control = request.control.as_deref();
    marks::check(
        &request.mix,
        ecn,
        control,
        narrows_linux::sysctl::asks_for_ecn,
    )?;
    let failed = |e: std::io::Error| system(&format!("the server {}", request.to), e);
    let stream = TcpStream::connect_timeout(&request.to, PATIENCE).map_err(failed)?;
    let mut control = Control::connected(stream, &request.token).map_err(failed)?;
    let mix = &request.mix;
    let transfers = mix.schedule(request.offsets, request.seed);
    let options = |set: &FlowSet| {
        let dscp = Mark::of_set(&request.dscp, set).map(|point| point.0);
        // Of connections the ECN field is the kernel's.
        let datagrams = matches!(set.sends, Sends::Datagrams { .. });
        let field = ecn(set)
            .filter(|_| datagrams)
            .map_or(0, |ecn| ecn.ecn() as u8);
        SetOptions {
            class: dscp.or(set.dscp).unwrap_or(0) << 2 | field,
            control: request.control.clone().or_else(|| set.control.clone()),
        }
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
    control.send(&asked).map_err(failed)?;
    let answer: Answer = control
        .receive(std::time::Instant::now() + PATIENCE)
        .map_err(failed)?;
    let (key, tcp, udp) = match answer {
        Answer::Session { key, tcp, udp } => (key, tcp, udp),
        Answer::Refused(why) => {
            let why = format!("the server {} refuses the mix: {why}", request.to);
            return Err(Error::Refused(why));
        }
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
        sets,
        begin: clock.now(),
        next: 0,
        opened_late: Duration::ZERO,
        rows: Vec::new(),
        samples: Vec::new(),
        end: None,
        interval: Duration::from_nanos(asked.interval_ns),
    };
    let began_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let began_at = began_at.map_or(0.0, |since| since.as_secs_f64());
    let why = client.serve(&mut control, stop, until);
    let seconds = clock.now().since(client.begin).as_secs_f64();
    let interrupted = stop.load(Ordering::SeqCst);
    let questions = if interrupted || why.is_some() {
        3
    } else {
        QUESTIONS
    };
    let last = compare_clocks(&clock, ports[1], &key, questions);
    if client.end.is_none() && why.is_none() {
        let patience = if interrupted { PATIENCE / 10 } else { PATIENCE };
        client.finish(&mut control, std::time::Instant::now() + patience);
    }
    let clocks = first.zip(last).map(|(first, last)| Clocks { first, last });
    let clocks = clocks.or(first.map(|first| Clocks { first, last: first }));
    let mut result = client.result(mix, clocks, began_at);
    result.server = request.server.clone();
    result.seconds = seconds;
    let server_says = client.end.as_ref().and_then(|end| end.why.clone());
    result.why = why
        .or(server_says)
        .or_else(|| interrupted.then(|| "it was interrupted".to_owned()));
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
            let head = Head::parse(&room[..got.len.min(room.len())]);
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

/// A flow that is open.
enum Flow {
    Datagrams(Datagrams, Instant),
    Stream(Stream),
}

/// What became of a transfer.
#[derive(Clone, Copy, Debug, Default)]
struct Done {
    begun: bool,
    complete: bool,
    failed: bool,
    bytes: u64,
    received: u64,
    completion: Option<Duration>,
    /// Whether both ends of a connection agreed on ECN.
    ecn: bool,
    marks: ArrivedMarks,
    jitter_ms: Option<f64>,
}

/// An interval of a flow of datagrams, before clocks are compared.
struct Row {
    transfer: u32,
    at: Instant,
    interval: Interval,
    expected: u64,
    jitter_ms: f64,
}

struct Client {
    epoll: Epoll,
    clock: Clock,
    key: [u8; KEY],
    /// Of connections, of datagrams.
    ports: [SocketAddr; 2],
    transfers: Vec<Transfer>,
    names: Vec<String>,
    sets: Vec<SetOptions>,
    /// Of each set, whether it is capable of ECN.
    capable: Vec<Option<Capable>>,
    values: Vec<Values>,
    done: Vec<Done>,
    flows: BTreeMap<u32, Flow>,
    /// Ports of flows of datagrams.
    taken: BTreeSet<u16>,
    begin: Instant,
    /// The transfer that begins next.
    next: usize,
    opened_late: Duration,
    rows: Vec<Row>,
    samples: Vec<StreamSample>,
    end: Option<SenderEnd>,
    interval: Duration,
}

impl Client {
    /// Runs until all transfers are over, their time is, or `stop` is set; why it broke off, if it
    /// did.
    fn serve(
        &mut self,
        control: &mut Control,
        stop: &AtomicBool,
        lasts: Duration,
    ) -> Option<String> {
        match self.try_serve(control, stop, lasts) {
            Ok(why) => why,
            Err(error) => Some(format!("this end failed: {error}")),
        }
    }

    fn try_serve(
        &mut self,
        control: &mut Control,
        stop: &AtomicBool,
        lasts: Duration,
    ) -> std::io::Result<Option<String>> {
        narrows_linux::wake_sharply();
        let mut timer = Timer::new()?;
        let input = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        self.epoll.add(&timer, input(TIMER))?;
        self.epoll.add(&control.stream, input(CONTROL))?;
        let mut events = vec![EpollEvent::empty(); 256];
        let mut room = vec![0; LARGEST];
        let mut sample_at = self.begin + self.interval;
        let until = self.begin + lasts;
        loop {
            let now = self.clock.now();
            if stop.load(Ordering::SeqCst) || now >= until {
                break;
            }
            self.begin_due(now);
            self.look_after(now);
            if now >= sample_at {
                self.sample(now);
                sample_at = now + self.interval;
            }
            if self.next == self.transfers.len() && self.flows.is_empty() {
                break;
            }
            let next = self.transfers.get(self.next).map(|t| self.begin + t.start);
            timer.set(&self.clock, next.map_or(sample_at, |at| at.min(sample_at)))?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(LOOK)) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in &events[..count] {
                match event.data() {
                    TIMER => timer.take(),
                    CONTROL => {
                        let open = control.look()?;
                        self.take_reports(control)?;
                        if self.end.is_some() {
                            self.sample(self.clock.now());
                            return Ok(None);
                        }
                        if !open {
                            self.sample(self.clock.now());
                            return Ok(Some("the server is gone".to_owned()));
                        }
                    }
                    number => self.ready(number as u32, &mut room),
                }
            }
        }
        self.sample(self.clock.now());
        let open: Vec<u32> = self.flows.keys().copied().collect();
        open.into_iter()
            .for_each(|number| self.close(number, false));
        Ok(None)
    }

    fn take_reports(&mut self, control: &mut Control) -> std::io::Result<()> {
        while let Some(report) = control.line::<Report>()? {
            self.take_report(report);
        }
        Ok(())
    }

    /// Keeps what the server reports, as much as there is room for: it may send without end.
    fn take_report(&mut self, report: Report) {
        match report {
            Report::Samples(samples) => {
                let room = MOST_ROWS.saturating_sub(self.samples.len());
                self.samples.extend(samples.into_iter().take(room));
            }
            Report::End(end) => self.end = Some(end),
        }
    }

    /// Ends the session, and takes what the server knows.
    fn finish(&mut self, control: &mut Control, until: std::time::Instant) {
        if control.send(&serde_json::json!({ "end": true })).is_err() {
            return;
        }
        while self.end.is_none() {
            match control.receive::<Report>(until) {
                Ok(report) => self.take_report(report),
                Err(_) => return,
            }
        }
    }

    /// Opens what is due.
    fn begin_due(&mut self, now: Instant) {
        while let Some(transfer) = self.transfers.get(self.next) {
            let due = self.begin + transfer.start;
            if due > now {
                return;
            }
            let number = self.next as u32;
            self.opened_late = self.opened_late.max(self.clock.now().since(due));
            let set = &self.sets[transfer.set as usize];
            let packets = transfer.sends.packets();
            let opened = match packets {
                Some(packets) => {
                    let flow = {
                        let (server, key) = (self.ports[1], &self.key);
                        Datagrams::open(server, packets, set.class, number, key, now, &self.taken)
                    };
                    let last = now + transfer.sends.lasts() + AFTER;
                    flow.map(|flow| Flow::Datagrams(flow, last))
                }
                None => Stream::open(self.ports[0], number, &self.key, set).map(Flow::Stream),
            };
            let watched = opened.and_then(|flow| {
                let (input, both) = (
                    EpollFlags::EPOLLIN,
                    EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT,
                );
                match &flow {
                    Flow::Datagrams(d, _) => {
                        self.epoll
                            .add(&d.socket, EpollEvent::new(input, number.into()))?;
                    }
                    Flow::Stream(s) => {
                        self.epoll
                            .add(&s.socket, EpollEvent::new(both, number.into()))?;
                    }
                }
                Ok(flow)
            });
            let done = &mut self.done[self.next];
            done.begun = true;
            match watched {
                Ok(flow) => {
                    if let Flow::Datagrams(datagrams, _) = &flow {
                        self.taken.insert(datagrams.port);
                    }
                    self.flows.insert(number, flow);
                }
                Err(_) => done.failed = true,
            }
            self.next += 1;
        }
    }

    /// Asks again for flows of datagrams that do not come, and gives up those whose time is over.
    fn look_after(&mut self, now: Instant) {
        let mut over = Vec::new();
        for (&number, flow) in &mut self.flows {
            let Flow::Datagrams(flow, last) = flow else {
                continue;
            };
            let lost = flow.again.is_some_and(|at| at <= now)
                && flow.ask(number, &self.key, now) == Step::Lost;
            if lost || now >= *last {
                over.push(number);
            }
        }
        over.into_iter()
            .for_each(|number| self.close(number, false));
    }

    /// The socket of a transfer is ready.
    fn ready(&mut self, number: u32, room: &mut [u8]) {
        let set = self.transfers[number as usize].set as usize;
        let step = match self.flows.get_mut(&number) {
            Some(Flow::Datagrams(flow, _)) => {
                flow.receive(number, &self.clock, &mut self.values[set], room)
            }
            Some(Flow::Stream(stream)) => {
                let opened = stream.opens();
                let step = stream.ready(room);
                if opened && !stream.opens() && step == Step::Goes {
                    let mut input = EpollEvent::new(EpollFlags::EPOLLIN, number.into());
                    // It would be served once more for nothing, and no more.
                    let _ = self.epoll.modify(&stream.socket, &mut input);
                }
                step
            }
            None => return,
        };
        if step != Step::Goes {
            self.close(number, step == Step::Over);
        }
    }

    /// A transfer is over, at its end or before.
    fn close(&mut self, number: u32, ended: bool) {
        let now = self.clock.now();
        let Some(flow) = self.flows.remove(&number) else {
            return;
        };
        let transfer = &self.transfers[number as usize];
        let done = &mut self.done[number as usize];
        match flow {
            Flow::Datagrams(mut flow, _) => {
                let _ = self.epoll.delete(&flow.socket);
                self.taken.remove(&flow.port);
                let (interval, expected) = flow.take_interval();
                if expected > 0 {
                    self.rows.push(Row {
                        transfer: number,
                        at: now,
                        interval,
                        expected,
                        jitter_ms: flow.jitter_ms(),
                    });
                }
                done.bytes = flow.bytes;
                done.received = flow.received;
                done.marks = flow.marks;
                done.complete = flow.received == flow.packets;
                done.failed = flow.received == 0;
                done.jitter_ms = (flow.received > 1).then(|| flow.jitter_ms());
            }
            Flow::Stream(stream) => {
                let _ = self.epoll.delete(&stream.socket);
                let info = narrows_linux::socket_option::tcp_info(&stream.socket);
                done.ecn = info.is_some_and(|info| info.ecn());
                done.bytes = stream.received;
                let all = transfer.sends.bytes();
                done.complete = ended && all.is_none_or(|all| stream.received == all);
                done.failed = !ended;
                let due = self.begin + transfer.start;
                let is_object = matches!(transfer.sends, Sends::Get(_));
                done.completion = (done.complete && is_object).then(|| now.since(due));
            }
        }
    }

    /// Notes what flows of datagrams got in the interval before `now`.
    fn sample(&mut self, now: Instant) {
        for (&number, flow) in &mut self.flows {
            let Flow::Datagrams(flow, _) = flow else {
                continue;
            };
            let (interval, expected) = flow.take_interval();
            if self.rows.len() < MOST_ROWS {
                self.rows.push(Row {
                    transfer: number,
                    at: now,
                    interval,
                    expected,
                    jitter_ms: flow.jitter_ms(),
                });
            }
        }
    }
}
