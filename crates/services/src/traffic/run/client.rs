//! The session of a client: its flows, and the control connection beside them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_linux::Clock;
use narrows_linux::datagrams::LARGEST;
use narrows_traffic::{Sends, Transfer};
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags, EpollTimeout};

use super::super::control::Control;
use super::super::marks::{ArrivedMarks, Capable};
use super::super::quic::{Fetch, Fetches};
use super::super::receiver::{Datagrams, Interval, Step, Stream, Values, by_another_clock};
use super::super::timer::Timer;
use super::super::wire::{KEY, Report, SetOptions};
use super::MOST_ROWS;
use super::reports::{Known, Reports};
use crate::rights;

/// The longest wait, in milliseconds, before it is looked whether it is to end.
const LOOK: u16 = 50;

/// How long a flow of datagrams is waited for after its last datagram was due.
const AFTER: Duration = Duration::from_secs(1);

const CONTROL: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

/// A flow that is open.
pub(super) enum Flow {
    Datagrams(Box<Datagrams>, Instant),
    Stream(Stream),
    Quic(Box<Fetch>),
}

impl Flow {
    /// Bytes that were received of it.
    const fn received(&self) -> u64 {
        match self {
            Self::Datagrams(flow, _) => flow.bytes,
            Self::Stream(stream) => stream.received,
            Self::Quic(fetch) => fetch.received,
        }
    }
}

impl Flow {
    /// The port of UDP that no other flow has.
    fn port(&self) -> Option<u16> {
        match self {
            Self::Datagrams(flow, _) => Some(flow.port),
            Self::Quic(fetch) => Some(fetch.port),
            Self::Stream(_) => None,
        }
    }
}

/// Why a transfer could not be opened.
fn not_opened(error: Errno) -> String {
    match error {
        Errno::EMFILE | Errno::ENFILE => format!(
            "no file descriptor is left of the {} that this process may have (`ulimit -n`)",
            rights::all_descriptors()
        ),
        error => error.desc().to_owned(),
    }
}

/// Whether a connection that the server ended after a time had less than all; how much.
pub(super) fn ended_early(sends: &Sends, received: u64, open: Duration) -> Option<String> {
    match *sends {
        // The time is the server's.
        Sends::Bulk(time) => (by_another_clock(open) < u128::from(time.as_nanos()))
            .then(|| format!("the connection ended after {open} of {time}")),
        _ => {
            let all = sends.bytes().filter(|all| received != *all)?;
            Some(format!(
                "the connection ended after {received} of {all} bytes"
            ))
        }
    }
}

/// What became of a transfer.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// When it was opened, or was to be.
    pub(super) opened: Option<Instant>,
    /// When its last byte was received.
    pub(super) last: Option<Instant>,
    pub(super) complete: bool,
    /// Why not all of it was received, of a connection that broke off or was not opened.
    pub(super) failed: Option<String>,
    /// It failed by itself, not because the time of the run was over.
    pub(super) broke: bool,
    pub(super) bytes: u64,
    pub(super) received: u64,
    pub(super) completion: Option<Duration>,
    /// Whether both ends of a connection agreed on ECN.
    pub(super) ecn: bool,
    pub(super) marks: ArrivedMarks,
    pub(super) jitter_ms: Option<f64>,
}

/// Why a flow is closed.
enum Closing {
    /// The server has sent all of it.
    Over,
    /// It broke off: why.
    Broke(String),
    /// Its time is over.
    Time,
}

impl Closing {
    /// Why a flow is closed after a step, if it is.
    fn after(step: Step) -> Option<Self> {
        match step {
            Step::Goes => None,
            Step::Over => Some(Self::Over),
            Step::Broke(why) => Some(Self::Broke(why)),
        }
    }
}

/// An interval of a flow of datagrams, before clocks are compared.
pub(super) struct Row {
    pub(super) transfer: u32,
    pub(super) until: Instant,
    pub(super) interval: Interval,
    pub(super) expected: u64,
    pub(super) jitter_ms: f64,
}

pub(super) struct Client {
    pub(super) epoll: Epoll,
    pub(super) clock: Clock,
    pub(super) key: [u8; KEY],
    /// Of connections, of datagrams.
    pub(super) ports: [SocketAddr; 2],
    pub(super) transfers: Vec<Transfer>,
    pub(super) names: Vec<String>,
    pub(super) sets: Vec<SetOptions>,
    /// Of each set, whether it is capable of ECN.
    pub(super) capable: Vec<Option<Capable>>,
    /// Opens connections of QUIC, if the mix has such.
    pub(super) quic: Option<Fetches>,
    pub(super) values: Vec<Values>,
    pub(super) done: Vec<Done>,
    pub(super) flows: BTreeMap<u32, Flow>,
    /// Ports of flows of datagrams.
    pub(super) taken: BTreeSet<u16>,
    pub(super) begin: Instant,
    /// The transfer that begins next.
    pub(super) next: usize,
    pub(super) opened_late: Duration,
    pub(super) rows: Vec<Row>,
    pub(super) reports: Reports,
    /// When something of the server was received last.
    pub(super) received_at: Instant,
    /// How long nothing of the server may be received.
    pub(super) patience: Duration,
    pub(super) interval: Duration,
}

impl Client {
    /// Runs until all transfers are over, their time is, or `stop` is set; why it broke off, if it
    /// did.
    pub(super) fn serve(
        &mut self,
        control: &mut Control,
        stop: &AtomicBool,
        lasts: Duration,
    ) -> Option<String> {
        let why = match self.try_serve(control, stop, lasts) {
            Ok(why) => why,
            Err(error) => Some(format!("this end failed: {error}")),
        };
        // Whatever ended it, what was received of open flows counts.
        let open: Vec<u32> = self.flows.keys().copied().collect();
        open.into_iter()
            .for_each(|number| self.close(number, Closing::Time));
        why
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
        let mut until = self.begin + lasts;
        let mut broke: Option<String> = None;
        self.received_at = self.clock.now();
        loop {
            let now = self.clock.now();
            if stop.load(Ordering::SeqCst) || now >= until {
                return Ok(broke);
            }
            if broke.is_none() {
                self.begin_due(now);
            }
            let wakes = self.look_after(now);
            if now >= sample_at {
                self.sample(now);
                sample_at = now + self.interval;
            }
            let all_begun = self.next == self.transfers.len() || broke.is_some();
            if all_begun && self.flows.is_empty() {
                return Ok(broke);
            }
            let next = self.transfers.get(self.next).filter(|_| !all_begun);
            let next = next.map(|t| self.begin + t.start);
            let next = next.into_iter().chain(wakes).min();
            timer.set(&self.clock, next.map_or(sample_at, |at| at.min(sample_at)))?;
            // Before what has arrived is read: of a process that was stopped, that is not old.
            let looked = self.clock.now();
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(LOOK)) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in &events[..count] {
                match event.data() {
                    TIMER => timer.take(),
                    CONTROL => {
                        if let Some(why) = self.reported(control) {
                            broke = Some(why);
                            // Datagrams that left before are on their way.
                            until = until.min(self.clock.now() + AFTER);
                            let _ = self.epoll.delete(&control.stream);
                        }
                    }
                    number => self.ready(number as u32, &mut room),
                }
            }
            if broke.is_none() && looked.since(self.received_at) > self.patience {
                let time = self.patience;
                return Ok(Some(format!(
                    "nothing was received from the server for {time}"
                )));
            }
        }
    }

    /// Reads what the server reports; why the session is over, if it is.
    fn reported(&mut self, control: &mut Control) -> Option<String> {
        self.received_at = self.clock.now();
        let open = match control.look() {
            Ok(open) => open,
            Err(error) => return Some(format!("the server sent {error}")),
        };
        loop {
            match control.line::<Report>() {
                Ok(Some(report)) => {
                    if let Err(why) = self.take_report(report) {
                        return Some(why);
                    }
                }
                Ok(None) => break,
                Err(error) => return Some(format!("the server sent {error}")),
            }
        }
        match &self.reports.end {
            Some(end) => Some(end.why.clone().unwrap_or_else(|| {
                "the server ended the session before the mix was over".to_owned()
            })),
            None => (!open).then(|| "the server is gone".to_owned()),
        }
    }

    fn take_report(&mut self, report: Report) -> Result<(), String> {
        let known = Known {
            now: self.clock.now(),
            transfers: &self.transfers,
            opened: &|number| self.done.get(number).and_then(|done| done.opened),
        };
        self.reports.take(report, known)
    }

    /// Ends the session, and takes what the server knows.
    ///
    /// # Errors
    /// If it does not say that.
    pub(super) fn finish(
        &mut self,
        control: &mut Control,
        until: std::time::Instant,
    ) -> Result<(), String> {
        let failed = |error| format!("the server did not report the end of its session: {error}");
        // A server that has ended it takes nothing more, and its report is here or on its way.
        let _ = control.send(&serde_json::json!({ "end": true }));
        while self.reports.end.is_none() {
            let report = control.receive::<Report>(until).map_err(failed)?;
            self.take_report(report)?;
        }
        Ok(())
    }

    /// Opens what is due.
    fn begin_due(&mut self, now: Instant) {
        while let Some(transfer) = self.transfers.get(self.next).cloned() {
            let due = self.begin + transfer.start;
            if due > now {
                return;
            }
            let number = self.next as u32;
            self.opened_late = self.opened_late.max(self.clock.now().since(due));
            let set = &self.sets[transfer.set as usize];
            let opened = match transfer.sends {
                Sends::Datagrams { .. } => {
                    let flow = {
                        let (server, key) = (self.ports[1], &self.key);
                        Datagrams::open(server, &transfer, set.class, number, key, now, &self.taken)
                    };
                    let last = now + transfer.sends.lasts() + AFTER;
                    flow.map(|flow| Flow::Datagrams(Box::new(flow), last))
                }
                _ => match (&self.quic, set.quic()) {
                    (Some(quic), Some(control)) => {
                        let fetch = quic.open(number, control, set.class, &self.clock, &self.taken);
                        fetch.map(|fetch| Flow::Quic(Box::new(fetch)))
                    }
                    _ => Stream::open(self.ports[0], number, &self.key, set).map(Flow::Stream),
                },
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
                    Flow::Quic(fetch) => {
                        self.epoll
                            .add(&fetch.socket, EpollEvent::new(input, number.into()))?;
                    }
                }
                Ok(flow)
            });
            let done = &mut self.done[self.next];
            done.opened = Some(now);
            match watched {
                Ok(flow) => {
                    self.taken.extend(flow.port());
                    self.flows.insert(number, flow);
                }
                Err(error) => {
                    done.failed = Some(not_opened(error));
                    done.broke = true;
                }
            }
            self.next += 1;
        }
    }

    /// Asks again for flows of datagrams that do not come, and gives up those whose time is over; goes on
    /// with connections of QUIC, and returns when the first of them is to go on again.
    fn look_after(&mut self, now: Instant) -> Option<Instant> {
        let (mut over, mut wakes) = (Vec::new(), None);
        for (&number, flow) in &mut self.flows {
            match flow {
                Flow::Datagrams(flow, last) => {
                    let asks = flow.again.is_some_and(|at| at <= now);
                    let lost = asks && !flow.ask(number, &self.key, now);
                    if lost || now >= *last {
                        over.push((number, Closing::Time));
                    }
                }
                Flow::Quic(fetch) => {
                    if fetch.wakes.is_some_and(|at| at <= now) {
                        let closing = Closing::after(fetch.go(now));
                        over.extend(closing.map(|closing| (number, closing)));
                    }
                    wakes = wakes.into_iter().chain(fetch.wakes).min();
                }
                Flow::Stream(_) => {}
            }
        }
        over.into_iter()
            .for_each(|(number, closing)| self.close(number, closing));
        wakes
    }

    /// The socket of a transfer is ready.
    fn ready(&mut self, number: u32, room: &mut [u8]) {
        let set = self.transfers[number as usize].set as usize;
        let Some(flow) = self.flows.get_mut(&number) else {
            return;
        };
        let before = flow.received();
        let step = match flow {
            Flow::Datagrams(flow, _) => {
                flow.receive(number, &self.key, &self.clock, &mut self.values[set], room)
            }
            Flow::Stream(stream) => {
                let opened = stream.opens();
                let step = stream.ready(room);
                if opened && !stream.opens() && step == Step::Goes {
                    let mut input = EpollEvent::new(EpollFlags::EPOLLIN, number.into());
                    // It would be served once more for nothing, and no more.
                    let _ = self.epoll.modify(&stream.socket, &mut input);
                }
                step
            }
            Flow::Quic(fetch) => fetch.ready(&self.clock, room),
        };
        if flow.received() > before {
            self.received_at = self.clock.now();
            self.done[number as usize].last = Some(self.received_at);
        }
        if let Some(closing) = Closing::after(step) {
            self.close(number, closing);
        }
    }

    /// A transfer is over, at its end or before.
    fn close(&mut self, number: u32, closing: Closing) {
        let now = self.clock.now();
        let Some(flow) = self.flows.remove(&number) else {
            return;
        };
        if let Some(port) = flow.port() {
            self.taken.remove(&port);
        }
        let transfer = &self.transfers[number as usize];
        let done = &mut self.done[number as usize];
        match flow {
            Flow::Datagrams(mut flow, _) => {
                let _ = self.epoll.delete(&flow.socket);
                let (interval, expected) = flow.take_interval(now);
                if expected > 0 || interval.packets > 0 {
                    self.rows.push(Row {
                        transfer: number,
                        until: now,
                        interval,
                        expected,
                        jitter_ms: flow.jitter_ms(),
                    });
                }
                done.bytes = flow.bytes;
                done.received = flow.received;
                done.marks = flow.marks;
                done.complete = flow.received == flow.packets;
                done.jitter_ms = (flow.received > 1).then(|| flow.jitter_ms());
            }
            connection => {
                done.bytes = connection.received();
                match connection {
                    Flow::Stream(stream) => {
                        let _ = self.epoll.delete(&stream.socket);
                        let info = narrows_linux::socket_option::tcp_info(&stream.socket);
                        done.ecn = info.is_some_and(|info| info.ecn());
                    }
                    Flow::Quic(mut fetch) => {
                        fetch.close(now);
                        let _ = self.epoll.delete(&fetch.socket);
                        done.ecn = fetch.capable;
                        done.received = fetch.packets;
                        done.marks = fetch.marks;
                    }
                    Flow::Datagrams(..) => {}
                }
                let open = done.opened.map_or(Duration::ZERO, |at| now.since(at));
                let early = || ended_early(&transfer.sends, done.bytes, open);
                (done.failed, done.broke) = match closing {
                    Closing::Over => {
                        let early = early();
                        let broke = early.is_some();
                        (early, broke)
                    }
                    Closing::Broke(why) => (Some(why), true),
                    Closing::Time => (Some("not complete when the run ended".to_owned()), false),
                };
                done.complete = done.failed.is_none();
                let due = self.begin + transfer.start;
                let is_object = matches!(transfer.sends, Sends::Get(_));
                done.completion = (done.complete && is_object).then(|| now.since(due));
            }
        }
        debug_assert!(
            !self.flows.is_empty() || self.taken.is_empty(),
            "no flow has the ports {:?}",
            self.taken
        );
    }

    /// Notes what flows of datagrams got in the interval before `now`.
    fn sample(&mut self, now: Instant) {
        for (&number, flow) in &mut self.flows {
            let Flow::Datagrams(flow, _) = flow else {
                continue;
            };
            let (interval, expected) = flow.take_interval(now);
            if self.rows.len() < MOST_ROWS {
                self.rows.push(Row {
                    transfer: number,
                    until: now,
                    interval,
                    expected,
                    jitter_ms: flow.jitter_ms(),
                });
            }
        }
    }
}
