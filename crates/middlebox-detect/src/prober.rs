//! The prober: reaches a responder, sends and orders probes in pairs until every box is judged,
//! and asks routers where the boxes stand that it has found.

use std::collections::VecDeque;
use std::net::SocketAddr;

use narrows_units::{Duration, Instant, Rng};
use narrows_wire::Ecn;

use crate::finding::{Detection, OtherChange};
use crate::judge::judge;
use crate::locate::{self, MOST_HOPS};
use crate::message::{HEADER_LEN, Kind, Message, Range};
use crate::probe::{Addresses, OTHER_TTL, Over, Probe, Session, Shape, TTL, Way};
use crate::probe_log::ProbeLog;
use crate::trial::{Outcome, Question, Trial, shuffle};

mod receive;

/// Greetings by each carrier before a round: one may be lost.
const GREETINGS: usize = 3;
/// Pairs of a trial in a round.
const PAIRS: usize = 12;
/// Rounds at most: at 10 % of loss each way, fewer than 3 are needed.
const ROUNDS: u32 = 12;
/// Bytes of IP of a packet that asks for records, and of its answer: any path of IPv6 takes the first (RFC 8200
/// §5), any host of IPv4 the second (RFC 791 §3.1), and serial lines the third (`SL_MTU`, drivers/net/slip/slip.h
/// of Linux). The next one is tried when so many in a row have had no answer.
const FETCH_LENS: [usize; 3] = [1_280, 576, 296];
const TOO_LONG: u32 = 4;
/// Bytes of an order's message: no probe is longer than its packet.
const ORDER_LEN: usize = 88;
/// Bytes of a hello's message, with room for its answer.
const HELLO_LEN: usize = HEADER_LEN;
/// Between two hellos, and how often one is tried: 6 s.
const HELLO_EVERY: Duration = Duration::from_millis(150);
const HELLOS: usize = 40;
/// Hellos that are sent for the other carrier when one has been answered.
const HELLOS_MORE: usize = 20;
/// How long the last of several probes is waited for: four round trips, within bounds.
const LEAST_WAIT: Duration = Duration::from_millis(250);
const MOST_WAIT: Duration = Duration::from_secs(2);
/// Requests for one range of records.
const FETCHES: u32 = 40;
/// Hops in a row that do not answer, after which no further one is asked.
const SILENT: u8 = 4;
/// Refusals by the host (port unreachable) that show that it has no responder.
const REFUSALS: u32 = 3;
/// Without a responder: how often a hop is asked what it has not answered.
const ASKED: u32 = 3;
/// Linux answers one host with six ICMP errors at once and one in a second from then on
/// (`icmp_ratelimit`, `XRLIM_BURST_FACTOR`; ip-sysctl). What it did not answer is asked again
/// after this time,
const REST: Duration = Duration::from_millis(1_100);
/// and where routers are to answer, packets are sent so far apart.
const APART: Duration = Duration::from_millis(50);

/// The settings of a prober.
#[derive(Clone, Copy, Debug)]
pub struct ProberSettings {
    /// Its address and port. It also sends from the 64 ports after that.
    pub own: SocketAddr,
    /// The responder's address and port.
    pub target: SocketAddr,
    /// Packets in a second at most.
    pub per_second: u32,
    /// When it ends with what it has.
    pub limit: Duration,
}

impl ProberSettings {
    /// From `own` to `target`: 200 packets in a second, for two minutes at most.
    pub const fn new(own: SocketAddr, target: SocketAddr) -> Self {
        Self {
            own,
            target,
            per_second: 200,
            limit: Duration::from_secs(120),
        }
    }
}

/// What a prober does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It looks for the responder.
    Reaching,
    /// It sends the probes of a round, the first being 1.
    Probing(u32),
    /// It asks what came.
    Asking,
    /// It asks routers where the boxes stand.
    Locating,
    /// There is no responder: it asks routers what they see.
    Alone,
    /// It has ended.
    Done,
}

/// How far it is without a responder.
#[derive(Clone, Copy, Debug, Default)]
struct Alone {
    /// The hop that is asked, and how often it was.
    hop: u8,
    asked: u32,
    /// Hops in a row that did not answer.
    silent: u8,
    /// Whether the host itself has answered.
    reached: bool,
}

/// What is to be sent.
#[derive(Clone, Copy, Debug)]
enum Due {
    Hello(Over),
    /// A hello with the token: the responder then knows the session, and whence its messages
    /// come by this carrier.
    Greeting(Over),
    Probe(u16),
}

/// A prober.
#[derive(Debug)]
pub struct Prober {
    settings: ProberSettings,
    rng: Rng,
    session: Session,
    begun: Option<Instant>,
    stage: Stage,
    queue: VecDeque<Due>,
    /// Not before this time is the next packet sent.
    next: Instant,
    /// When the stage goes on by itself.
    deadline: Instant,
    /// By which carrier the responder has answered.
    welcomed: [bool; 2],
    over: Over,
    /// When each hello was sent, and how many before the first answer.
    hellos: Vec<Instant>,
    unanswered: usize,
    round_trip: Duration,
    round: u32,
    /// What is asked for, and how often it was.
    fetch: (Range, u32),
    /// Which of the lengths fits the path.
    fetch_len: usize,
    log: ProbeLog,
    trials: Vec<Trial>,
    refusals: u32,
    alone: Alone,
    reset: Option<Vec<u8>>,
    detection: Detection,
}

impl Prober {
    /// One whose session and order of probes are drawn from `rng`.
    pub fn new(settings: ProberSettings, mut rng: Rng) -> Self {
        let ways = Way::BOTH.into_iter();
        let trials = ways.flat_map(|way| Question::ALL.map(|q| Trial::new(way, q)));
        Self {
            session: Session {
                number: (rng.draw_u64() >> 32) as u32,
                token: [0; 16],
            },
            settings,
            rng,
            begun: None,
            stage: Stage::Reaching,
            queue: VecDeque::new(),
            next: Instant::ZERO,
            deadline: Instant::ZERO,
            welcomed: [false; 2],
            over: Over::Udp,
            hellos: Vec::new(),
            unanswered: 0,
            round_trip: Duration::ZERO,
            round: 0,
            fetch: (
                Range {
                    quoted: false,
                    first: 0,
                    last: 0,
                },
                0,
            ),
            fetch_len: 0,
            log: ProbeLog::default(),
            trials: trials.collect(),
            refusals: 0,
            alone: Alone::default(),
            reset: None,
            detection: Detection::default(),
        }
    }

    #[cfg(test)]
    pub(crate) fn session(&self) -> Session {
        self.session
    }

    /// What it does now.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What it has found out, once it is [`Stage::Done`].
    pub fn detection(&self) -> Option<&Detection> {
        (self.stage == Stage::Done).then_some(&self.detection)
    }

    /// When [`poll`](Self::poll) is to be called; `None` once it is done.
    pub fn next_wake(&self) -> Option<Instant> {
        match self.stage {
            Stage::Done => None,
            _ if self.queue.is_empty() && self.reset.is_none() => {
                Some(self.deadline.max(self.next))
            }
            _ => Some(self.next),
        }
    }

    /// The packet that is due at `now`, if one is. To be called until there is none.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        let begun = *self.begun.get_or_insert(now);
        loop {
            if self.stage == Stage::Done || now < self.next {
                return None;
            }
            let interval = self.interval();
            let due = self.reset.take().or_else(|| {
                let due = self.queue.pop_front()?;
                if self.queue.is_empty() && !matches!(due, Due::Hello(_)) {
                    self.deadline = now + interval + self.wait();
                }
                self.packet(due)
            });
            if due.is_some() {
                self.next = now + interval;
                return due;
            }
            if now.since(begun) >= self.settings.limit {
                self.detection.cut_short = Some("the time is over");
                self.end();
            } else if now < self.deadline {
                return None;
            } else if let Some(packet) = self.go_on(now) {
                self.next = now + interval;
                return Some(packet);
            }
        }
    }

    fn interval(&self) -> Duration {
        let interval = Duration::from_secs(1) / u64::from(self.settings.per_second.max(1));
        match self.stage {
            Stage::Locating | Stage::Alone => interval.max(APART),
            _ => interval,
        }
    }

    fn wait(&self) -> Duration {
        (self.round_trip * 4).clamp(LEAST_WAIT, MOST_WAIT)
    }

    /// What follows when the queue is empty and its answers have been waited for; may be a
    /// packet.
    fn go_on(&mut self, now: Instant) -> Option<Vec<u8>> {
        match self.stage {
            Stage::Reaching => self.reach(now),
            Stage::Probing(_) | Stage::Locating => {
                let quoted = self.stage == Stage::Locating;
                let last = self.log.last();
                let range = Range {
                    quoted,
                    first: self.fetch.0.last.saturating_add(1).min(last),
                    last,
                };
                self.fetch = (range, 0);
                self.stage = Stage::Asking;
            }
            Stage::Asking => return self.ask(now),
            Stage::Alone => self.next_hop(now),
            Stage::Done => {}
        }
        None
    }

    fn reach(&mut self, now: Instant) {
        let enough = match self.welcomed {
            [true, true] => 0,
            [false, false] => HELLOS,
            _ => self.unanswered + HELLOS_MORE,
        };
        if self.hellos.len() < enough && self.refusals < REFUSALS {
            self.hellos.push(now);
            let lacking = Over::BOTH.into_iter();
            let lacking = lacking.filter(|over| !self.welcomed[*over as usize]);
            self.queue = lacking.map(Due::Hello).collect();
            self.deadline = now + HELLO_EVERY;
            return;
        }
        if self.welcomed == [false; 2] {
            self.stage = Stage::Alone;
            return;
        }
        self.detection.responder = true;
        let trials: Vec<usize> = (0..self.trials.len()).collect();
        self.begin_round(&trials);
    }

    /// Sends pairs of these trials, in an order that is drawn.
    fn begin_round(&mut self, trials: &[usize]) {
        self.round += 1;
        self.stage = Stage::Probing(self.round);
        for _ in 0..GREETINGS {
            let welcomed = Over::BOTH.into_iter();
            let welcomed = welcomed.filter(|over| self.welcomed[*over as usize]);
            self.queue.extend(welcomed.map(Due::Greeting));
        }
        let mut pairs: Vec<(usize, Ecn, u8)> = Vec::new();
        for trial in trials {
            // All four codepoints with one, then with the other.
            let ttl = |n: usize| [TTL, OTHER_TTL][n / 4 % 2];
            pairs.extend((0..PAIRS).map(|n| (*trial, Ecn::from_bits(n as u8), ttl(n))));
        }
        shuffle(&mut pairs, &mut self.rng);
        for (at, ecn, ttl) in pairs {
            let Trial { way, question, .. } = self.trials[at];
            let [test, control] = question.pair(ecn).map(|probe| Probe { ttl, ..probe });
            let ids = [self.log.enter(way, test), self.log.enter(way, control)];
            let [Some(test), Some(control)] = ids else {
                self.detection.cut_short = Some("too many probes were lost");
                return;
            };
            self.trials[at].pairs.push([test, control]);
            let mut order = [test, control];
            shuffle(&mut order, &mut self.rng);
            self.queue.extend(order.map(Due::Probe));
        }
    }

    /// Asks for the next records, by the other carrier now and then.
    fn ask(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.fetch.1 == FETCHES {
            self.detection.cut_short = Some("the responder has stopped to answer");
            self.end();
            return None;
        }
        if self.fetch.1 > 0 && self.fetch.1 % TOO_LONG == 0 {
            self.fetch_len = (self.fetch_len + 1).min(FETCH_LENS.len() - 1);
        }
        self.fetch.1 += 1;
        if self.fetch.1 % 4 == 0 && self.welcomed == [true; 2] {
            self.over = match self.over {
                Over::Udp => Over::Tcp,
                Over::Tcp => Over::Udp,
            };
        }
        self.deadline = now + self.wait();
        let header = if self.settings.own.is_ipv4() { 20 } else { 40 };
        let len = FETCH_LENS[self.fetch_len] - header - self.over.header_len();
        Some(self.say(self.over, Kind::Fetch, 0, &self.fetch.0.write(), len))
    }

    /// All records of a round, or all quotations, are there.
    fn asked(&mut self) {
        if self.fetch.0.quoted {
            return self.end();
        }
        let open: Vec<usize> = self.unsettled();
        if !open.is_empty() && self.round < ROUNDS && self.detection.cut_short.is_none() {
            return self.begin_round(&open);
        }
        let findings = judge(&self.log, &self.trials);
        for (way, probe) in locate::plan(&findings, &self.log) {
            self.queue
                .extend(self.log.enter(way, probe).map(Due::Probe));
        }
        self.detection.findings = findings;
        self.stage = Stage::Locating;
        if self.queue.is_empty() {
            self.end();
        }
    }

    /// Trials that another round may decide, and those whose probes it takes to say that what
    /// comes is as it was sent.
    fn unsettled(&self) -> Vec<usize> {
        let outcome = |trial: &Trial| trial.outcome(|id| self.log.arrived(id));
        let lacks = Way::BOTH.map(|way| {
            let udp = self.trials.iter().any(|trial| {
                trial.way == way
                    && trial.question == Question::Udp
                    && outcome(trial) == Outcome::Passes
            });
            self.log.lacks(way, udp)
        });
        let open = |trial: &Trial| {
            let kind = matches!(trial.question, Question::Udp | Question::SynData);
            match outcome(trial) {
                Outcome::Open => true,
                Outcome::Passes | Outcome::Blocked => kind && lacks[trial.way.index()],
                Outcome::Hopeless => false,
            }
        };
        let trials = self.trials.iter().enumerate();
        trials
            .filter(|(_, trial)| open(trial))
            .map(|(at, _)| at)
            .collect()
    }

    /// Without a responder: the probes to the next hop, or those that this one did not answer,
    /// unless the host has been reached or nobody answers any more.
    fn next_hop(&mut self, now: Instant) {
        let all = [
            Probe::new(Shape::Udp, Ecn::Ect0),
            Probe::new(Shape::Udp, Ecn::Ect1),
            Probe::new(Shape::Udp, Ecn::Ce),
            Probe::new(Shape::Syn, Ecn::NotEct),
            Probe::new(Shape::Segment, Ecn::NotEct),
        ];
        let Alone {
            hop,
            asked,
            reached,
            ..
        } = self.alone;
        let quoted = |probe: &Probe| self.log.quotations.iter().any(|q| q.probe == *probe);
        let here = all.map(|probe| Probe { ttl: hop, ..probe });
        let answered = here.iter().any(quoted);
        // To TCP a host does not answer by quoting.
        let asks = |probe: &&Probe| probe.shape == Shape::Udp || !reached;
        let left = here.iter().filter(|probe| !quoted(probe)).filter(asks);
        let mut left: Vec<Probe> = left.copied().collect();
        if hop == 0 || left.is_empty() || asked == ASKED {
            self.alone.silent = match answered || hop == 0 {
                true => 0,
                false => self.alone.silent + 1,
            };
            if reached || self.alone.silent == SILENT || hop == MOST_HOPS {
                return self.end();
            }
            self.alone.hop += 1;
            self.alone.asked = 0;
            left = all
                .map(|probe| Probe {
                    ttl: hop + 1,
                    ..probe
                })
                .to_vec();
        } else if answered {
            self.next = now + REST;
        }
        self.alone.asked += 1;
        for probe in left {
            let id = self.log.enter(Way::Forward, probe);
            self.queue.extend(id.map(Due::Probe));
        }
        self.deadline = now + REST;
    }

    fn end(&mut self) {
        self.stage = Stage::Done;
        self.queue.clear();
        let done = &mut self.detection;
        if done.responder {
            let mut findings = judge(&self.log, &self.trials);
            for at in 0..findings.len() {
                findings[at].place = locate::place(&findings[at], &findings, &self.log);
            }
            done.findings = findings;
        } else {
            done.findings = locate::judge_quotations(&self.log, self.settings.target.ip());
        }
        done.hops = Way::BOTH.map(|way| self.log.hops(way));
        for way in Way::BOTH {
            let (sent, came) = self.log.counts(way);
            done.sent[way.index()] = sent;
            done.came[way.index()] = came;
        }
        let others = self.log.others();
        done.others = others
            .map(|(way, field, packets)| OtherChange {
                way,
                field,
                packets,
            })
            .collect();
    }

    fn packet(&self, due: Due) -> Option<Vec<u8>> {
        match due {
            // The SYN opens the way for what follows it over TCP.
            Due::Hello(Over::Tcp) if self.hellos.len() % 2 == 1 => {
                Some(self.session.open(Way::Forward, false, self.ends()))
            }
            Due::Hello(over) => {
                // By its number it is known how long the answer took.
                let id = self.hellos.len() as u16;
                Some(self.say(over, Kind::Hello, id, &[], HELLO_LEN))
            }
            Due::Greeting(over) => Some(self.say(over, Kind::Hello, 0, &[], HELLO_LEN)),
            Due::Probe(id) => {
                let (way, probe) = self.log.shot(id)?;
                if way == Way::Forward {
                    return Some(self.sent(id, way, probe));
                }
                let mut order = probe.encode().to_vec();
                order.extend_from_slice(&self.settings.own.port().to_be_bytes());
                Some(self.say(self.over, Kind::Order, id, &order, ORDER_LEN))
            }
        }
    }

    fn ends(&self) -> Addresses {
        Addresses {
            source: self.settings.own,
            destination: self.settings.target,
        }
    }

    /// A message to the responder, of `len` bytes at least.
    fn say(&self, over: Over, kind: Kind, id: u16, body: &[u8], len: usize) -> Vec<u8> {
        let message = Message {
            spin: false,
            kind,
            session: self.session.number,
            token: self.session.token,
            id,
            body,
        };
        let payload = message.write(len);
        self.session
            .carry(over, Way::Forward, self.ends(), &payload)
    }

    /// A probe as its sender sent it.
    fn sent(&self, id: u16, way: Way, probe: Probe) -> Vec<u8> {
        let mut ends = match way {
            Way::Forward => self.ends(),
            Way::Back => self.ends().reversed(),
        };
        ends.source
            .set_port(probe.port(way, ends.source.port(), id));
        probe.packet(way, id, self.session, ends)
    }
}
