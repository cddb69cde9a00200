//! `fq_pie`: flows kept apart by a hash, served by deficit round robin with new flows first,
//! each under the PIE law.
//!
//! Source: Linux net/sched/sch_fq_pie.c v6.17; iproute2 tc/q_fq_pie.c. As in Linux,
//! `memory_limit` drops nothing: the kernel counts how often it is exceeded, and goes on.

use std::collections::VecDeque;

use narrows_core::{Backlog, DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Rng, Word, WordError, Words,
};
use narrows_wire::ip;

use crate::flows::FlowHash;
use crate::jiffies;
use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::pie::PieConfig;
use crate::pie::control::{MAX_PROBABILITY, Pie};
use crate::reading::{self, Holds, Parameters, is, maybe, packets};
use crate::rounds::Rounds;

/// Packets in all flows together (`fq_pie_init`).
const LIMIT: u32 = 10_240;
/// Hash buckets (`fq_pie_init`).
const FLOWS: u32 = 1_024;
/// Greatest number of flows (`fq_pie_change`).
const MAX_FLOWS: u32 = 65_536;
/// Bytes in all flows together (`fq_pie_init`).
const MEMORY_LIMIT: u64 = 32 << 20;
/// Per cent of probability up to which packets are marked (`fq_pie_init`).
const ECN_PROB: u32 = 10;
/// Flows whose probability is updated in one go; the next go is a tick later
/// (`fq_pie_timer`).
const UPDATED_AT_ONCE: usize = 2_048;

/// Parameters of `fq_pie`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FqPieConfig {
    /// The law of each flow; its limit is that of all flows together.
    pub pie: PieConfig,
    /// Hash buckets.
    pub flows: u32,
    /// Bytes per flow and round; unset: one full frame, 1514 on Ethernet.
    pub quantum: Option<u32>,
    /// Kept for its word: Linux counts what exceeds it and drops nothing.
    pub memory_limit: Bytes,
    /// Per cent of probability up to which packets are marked.
    pub ecn_prob: u32,
}

impl Default for FqPieConfig {
    fn default() -> Self {
        Self {
            pie: PieConfig {
                limit: LIMIT,
                ..PieConfig::default()
            },
            flows: FLOWS,
            quantum: None,
            memory_limit: Bytes::new(MEMORY_LIMIT),
            ecn_prob: ECN_PROB,
        }
    }
}

impl Parameters for FqPieConfig {
    const PARAMETERS: &'static [Parameter] = &[
        packets(
            "limit PACKETS",
            "10240",
            "Packets that may wait in all flows together",
        ),
        Parameter::new(
            "flows NUMBER",
            ParameterKind::Number("flows"),
            "1 to 65536 flows",
            "1024",
            "Hash buckets, which a running queue keeps",
        ),
        PieConfig::PARAMETERS[1],
        PieConfig::PARAMETERS[2],
        PieConfig::PARAMETERS[3],
        PieConfig::PARAMETERS[4],
        Parameter::new(
            "quantum BYTES",
            ParameterKind::Size,
            "1 to 1048576 bytes",
            "one full frame",
            "Bytes per flow and round",
        ),
        Parameter::new(
            "memory_limit BYTES",
            ParameterKind::Size,
            "1 byte to 4095Mb",
            "32Mb",
            "Accepted for tc's sake: Linux counts what exceeds it and drops nothing",
        ),
        Parameter::new(
            "ecn_prob PERCENTAGE",
            ParameterKind::Number("%"),
            "1 to 99 per cent",
            "10",
            "Probability up to which packets are marked instead of dropped",
        ),
        PieConfig::PARAMETERS[5],
        PieConfig::PARAMETERS[6],
        PieConfig::PARAMETERS[7],
    ];

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.pie.limit),
            is(self.flows),
            is(self.pie.target),
            is(self.pie.tupdate),
            is(self.pie.alpha),
            is(self.pie.beta),
            maybe(self.quantum),
            is(self.memory_limit),
            is(self.ecn_prob),
            Holds::Flag(self.pie.ecn),
            Holds::Flag(self.pie.bytemode),
            Holds::Flag(self.pie.dq_rate_estimator),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "flows" => {
                self.flows =
                    words.value_where("1 to 65536 flows", |n: &u32| (1..=MAX_FLOWS).contains(n))?;
            }
            "quantum" => {
                let quantum = words.value_where("1 to 1048576 bytes", |n: &Bytes| {
                    (1..=1 << 20).contains(&n.get())
                })?;
                self.quantum = Some(quantum.get() as u32);
            }
            "memory_limit" => {
                self.memory_limit = words.value_where("1 byte to 4095Mb", |n: &Bytes| {
                    (1..1 << 32).contains(&n.get())
                })?;
            }
            "ecn_prob" => {
                self.ecn_prob =
                    words.value_where("1 to 99 per cent", |n: &u32| (1..100).contains(n))?;
            }
            _ => return self.pie.set(key, words),
        }
        Ok(true)
    }

    /// The number of flows is fixed when the queue is made.
    fn check_change(&self, old: &Self, line: &str) -> Result<(), WordError> {
        match old.flows == self.flows {
            true => Ok(()),
            false => Err(reading::kept(line, "flows", old.flows)),
        }
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    fn bucket_of(&self, mut rng: Rng, packet: &Packet) -> Option<usize> {
        let flows = self.flows as usize;
        (flows > 1).then(|| FlowHash::new(&mut rng).bucket(flows, packet))
    }
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// One law for all flows.
    OneLaw,
    /// The law is fed the backlog of all flows.
    AllBacklog,
    /// Packets are marked at any probability.
    MarksAlways,
}

/// One bucket of the hash.
#[derive(Debug)]
struct Flow {
    packets: VecDeque<Box<Packet>>,
    /// Bytes.
    backlog: u64,
    pie: Pie,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct FqPie {
    config: FqPieConfig,
    frame: u32,
    hash: FlowHash,
    flows: Vec<Flow>,
    rounds: Rounds,
    meter: Meter,
    next_update: Instant,
    /// The first flow that the next update is for.
    cursor: usize,
    over_limit: bool,
    rng: Rng,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl FqPie {
    pub fn new(config: FqPieConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        let flows = config.flows as usize;
        let flow = || Flow {
            packets: VecDeque::new(),
            backlog: 0,
            pie: Pie::new(),
        };
        Self {
            frame: link.frame(),
            hash: FlowHash::new(&mut rng),
            flows: std::iter::repeat_with(flow).take(flows).collect(),
            rounds: Rounds::new(flows, quantum_of(&config, link.frame())),
            meter: Meter::new(entity, link),
            next_update: Instant::ZERO + jiffies::HALF_SECOND,
            cursor: 0,
            over_limit: false,
            rng,
            config,
            #[cfg(test)]
            mutant: None,
        }
    }

    /// Why a packet of `flow` is not taken, if so; marks it if that is what is due.
    fn refuses(
        &mut self,
        now: Instant,
        flow: usize,
        packet: &mut Packet,
        out: &mut Outlet<'_>,
    ) -> Option<DropCause> {
        if self.meter.counts.backlog.packets >= self.config.pie.limit {
            return Some(DropCause::Overflow);
        }
        #[cfg(test)]
        let flow = match self.mutant {
            Some(Mutant::OneLaw) => 0,
            _ => flow,
        };
        let length = self.meter.length(packet);
        let Flow { pie, backlog, .. } = &mut self.flows[flow];
        let backlog = *backlog;
        #[cfg(test)]
        let backlog = match self.mutant {
            Some(Mutant::AllBacklog) => self.meter.counts.backlog.bytes,
            _ => backlog,
        };
        let (law, frame) = (&self.config.pie, self.frame);
        if !pie.drops(law, backlog, length, frame, &mut self.rng) {
            return None;
        }
        let mark_up_to = MAX_PROBABILITY / 100 * u64::from(self.config.ecn_prob);
        let overload = pie.probability > mark_up_to;
        #[cfg(test)]
        let overload = overload && self.mutant != Some(Mutant::MarksAlways);
        let cause = MarkCause::Probability;
        if law.ecn && !overload && self.meter.mark(now, packet, cause, out) {
            return None;
        }
        let capable = law.ecn && ip::ecn(&packet.bytes).is_capable();
        Some(match capable {
            true => DropCause::Overload,
            false => DropCause::Probability,
        })
    }

    /// The next packet by deficit round robin.
    fn next(&mut self, now: Instant) -> Option<Box<Packet>> {
        loop {
            let index = self.rounds.next()?;
            let flow = &mut self.flows[index];
            let Some(packet) = flow.packets.pop_front() else {
                self.rounds.had_none(index);
                continue;
            };
            let length = self.meter.length(&packet);
            self.meter.left(length);
            self.rounds.spent(index, length);
            flow.backlog -= u64::from(length);
            let law = &self.config.pie;
            flow.pie
                .dequeued(law, now, packet.held_since, flow.backlog, length);
            return Some(packet);
        }
    }

    /// After a lower limit: dequeues and drops what exceeds it.
    fn trim(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if !std::mem::take(&mut self.over_limit) {
            return;
        }
        while self.meter.counts.backlog.packets > self.config.pie.limit {
            let Some(packet) = self.next(now) else {
                return;
            };
            self.meter.drop(now, packet, DropCause::Overflow, out);
        }
    }
}

fn quantum_of(config: &FqPieConfig, frame: u32) -> i64 {
    i64::from(config.quantum.unwrap_or(frame))
}

impl Queue for FqPie {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        self.trim(now, out);
        let index = self.hash.bucket(self.flows.len(), &packet);
        if let Some(cause) = self.refuses(now, index, &mut packet, out) {
            self.flows[index].pie.accumulated = 0;
            self.meter.drop(now, packet, cause, out);
            return false;
        }
        let length = self.meter.entered(now, &mut packet);
        let flow = &mut self.flows[index];
        flow.backlog += u64::from(length);
        flow.packets.push_back(packet);
        self.rounds.begin(index);
        true
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        self.trim(now, out);
        self.next(now)
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        (self.meter.counts.backlog.packets > 0).then_some(now)
    }

    fn next_tick(&self) -> Option<Instant> {
        Some(self.next_update)
    }

    fn tick(&mut self, now: Instant) {
        let end = (self.cursor + UPDATED_AT_ONCE).min(self.flows.len());
        for flow in &mut self.flows[self.cursor..end] {
            flow.pie.update(&self.config.pie, flow.backlog);
        }
        let is_round = end == self.flows.len();
        self.cursor = if is_round { 0 } else { end };
        let pause = match is_round {
            true => self.config.pie.tupdate,
            false => Duration::from_nanos(1),
        };
        self.next_update = jiffies::expiry(now, pause);
    }

    fn waiting_mut(&mut self) -> Option<&mut Backlog> {
        Some(&mut self.meter.counts.backlog)
    }

    fn counts(&self) -> QueueCounts {
        self.meter.counts
    }

    /// The greatest of any flow.
    fn probability(&self) -> f64 {
        let all = self.flows.iter().map(|flow| flow.pie.probability);
        let most = all.max().unwrap_or_default();
        most.min(MAX_PROBABILITY) as f64 / MAX_PROBABILITY as f64
    }

    /// What waits beyond a lower limit is dropped when the queue is next called with
    /// somewhere to report it.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "fq_pie", words)?;
        self.rounds
            .set_quantum(quantum_of(&self.config, self.frame));
        self.over_limit = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use narrows_wire::Ecn::{self, Ect0, NotEct};

    use super::*;
    use crate::testing::{Bench, ETHERNET, ms, us};

    const FRAME: u32 = 1514;

    fn queue(words: &str, mutant: Option<Mutant>) -> Bench {
        let mut b = Bench::new(words);
        let words = words.strip_prefix("fq_pie").unwrap();
        let config = reading::fresh::<FqPieConfig>(Words::new(words)).unwrap();
        let mut queue = FqPie::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
        queue.mutant = mutant;
        b.queue = Box::new(queue);
        b
    }

    /// A frame each 800 µs of flow 1 and each 16 ms of flow 2, against departures each
    /// millisecond: flow 1 alone has too much, flow 2 never has two packets.
    fn overloaded(words: &str, ecn: Ecn, mutant: Option<Mutant>) -> (Bench, Vec<u64>) {
        let mut b = queue(words, mutant);
        let mut of_two = Vec::new();
        for step in 0..100_000u64 {
            let now = us(200 * step);
            b.tick_until(now);
            if step % 4 == 0 {
                b.offer(now, 1, ecn, FRAME);
            }
            if step % 80 == 0 {
                of_two.push(b.offer(now, 2, ecn, FRAME).0);
            }
            if step % 5 == 0 {
                b.take(now);
            }
        }
        (b, of_two)
    }

    fn drops_the_flow_that_has_too_much_alone(mutant: Option<Mutant>) -> bool {
        let (b, of_two) = overloaded("fq_pie", NotEct, mutant);
        let dropped: Vec<_> = b.log.drops.iter().map(|d| d.1).collect();
        dropped.len() > 3_000 && !of_two.iter().any(|id| dropped.contains(id))
    }

    #[test]
    fn each_flow_has_a_law_of_its_own() {
        assert!(drops_the_flow_that_has_too_much_alone(None));
        assert!(!drops_the_flow_that_has_too_much_alone(Some(
            Mutant::OneLaw
        )));
    }

    #[test]
    fn a_flow_of_less_than_two_frames_is_never_dropped_whatever_the_others_have() {
        // RFC 8033 §5 safeguards on the flow's own backlog: here its law is at 100 %.
        let kept = |mutant| {
            let mut b = queue("fq_pie", mutant);
            let config = FqPieConfig::default();
            let mut queue = FqPie::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
            queue.mutant = mutant;
            for flow in &mut queue.flows {
                flow.pie.burst = 0;
                flow.pie.probability = MAX_PROBABILITY;
                flow.pie.delay = u64::from(u32::MAX);
            }
            b.queue = Box::new(queue);
            (0..20).all(|flow| b.offer(ms(1), flow, NotEct, FRAME).1)
        };
        assert!(kept(None));
        assert!(!kept(Some(Mutant::AllBacklog)));
    }

    fn marks_end_at_ecn_prob(mutant: Option<Mutant>) -> bool {
        let (b, _) = overloaded("fq_pie ecn", Ect0, mutant);
        let overload = b.log.drops.iter().filter(|d| d.2 == DropCause::Overload);
        !b.log.marks.is_empty() && overload.count() > 300
    }

    #[test]
    fn marks_end_above_ecn_prob_and_go_on_below_it() {
        assert!(marks_end_at_ecn_prob(None));
        assert!(!marks_end_at_ecn_prob(Some(Mutant::MarksAlways)));
        // Never yielding, the flow needs less than 99 % at first.
        let (b, _) = overloaded("fq_pie ecn ecn_prob 99 limit 100000", Ect0, None);
        let first_drop = b
            .log
            .drops
            .first()
            .map_or(ms(u64::MAX / 2_000_000), |d| d.0);
        let (early, _) = overloaded("fq_pie ecn", Ect0, None);
        assert!(first_drop > early.log.drops[0].0);
        assert!(overloaded("fq_pie", Ect0, None).0.log.marks.is_empty());
    }

    #[test]
    fn more_than_2048_flows_are_updated_tick_by_tick() {
        let mut b = Bench::new("fq_pie flows 5000 tupdate 15ms");
        let mut at = Vec::new();
        for _ in 0..4 {
            let tick = b.queue.next_tick().unwrap();
            at.push(tick.as_nanos() / 1_000_000);
            b.queue.tick(tick);
        }
        assert_eq!(at, [500, 501, 502, 517]);
    }

    #[test]
    fn limits_hold_and_memory_limit_drops_nothing_as_in_linux() {
        let mut b = Bench::new("fq_pie limit 20");
        let taken = (0..30).filter(|i| b.offer(ms(1), i % 3, NotEct, FRAME).1);
        assert_eq!(taken.count(), 20);
        b.queue.change(ms(1), "limit 5 quantum 300").unwrap();
        let left = std::iter::from_fn(|| b.take(ms(2))).count();
        assert_eq!(left, 5);
        let mut b = Bench::new("fq_pie memory_limit 1500");
        assert!((0..30).all(|i| b.offer(ms(1), i % 3, NotEct, FRAME).1));
    }

    #[test]
    fn a_new_flow_goes_before_one_that_has_had_its_quantum() {
        let mut b = Bench::new("fq_pie");
        (0..3).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, FRAME).1));
        assert_eq!(b.take(ms(1)).unwrap().flow, 1);
        b.offer(ms(1), 2, NotEct, FRAME);
        assert_eq!(b.take(ms(1)).unwrap().flow, 2);
    }

    #[test]
    fn a_running_queue_keeps_its_number_of_flows() {
        let mut b = Bench::new("fq_pie flows 16");
        let e = b.queue.change(ms(1), "fq_pie flows 8").unwrap_err();
        assert_eq!((e.span, e.allowed.as_str()), (7..12, "flows 16"));
    }

    #[test]
    fn up_to_ecn_prob_itself_packets_are_marked() {
        let ten_percent = MAX_PROBABILITY / 100 * 10;
        for (probability, marks) in [(ten_percent, 1), (ten_percent + 1, 0)] {
            let mut b = Bench::new("fq_pie");
            let config = reading::fresh::<FqPieConfig>(Words::new("ecn")).unwrap();
            let mut queue = FqPie::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
            for flow in &mut queue.flows {
                flow.backlog = 50_000;
                (flow.pie.burst, flow.pie.probability) = (0, probability);
                flow.pie.delay = u64::from(u32::MAX);
                // 8.5 expected drops have passed: one is due.
                flow.pie.accumulated = MAX_PROBABILITY / 2 * 17;
            }
            b.queue = Box::new(queue);
            assert_eq!(b.offer(ms(1), 1, Ect0, FRAME).1, marks == 1);
            assert_eq!(b.log.marks.len(), marks);
        }
    }

    #[test]
    fn flows_take_turns_of_their_quantum() {
        let order = |words: &str| {
            let mut b = queue(words, None);
            for flow in [1, 1, 1, 1, 2, 2, 2, 2] {
                b.offer(ms(1), flow, NotEct, FRAME);
            }
            let all = std::iter::from_fn(|| b.take(ms(1)));
            all.map(|t| t.flow).collect::<Vec<_>>()
        };
        assert_eq!(order("fq_pie"), [1, 2, 1, 2, 1, 2, 1, 2]);
        assert_eq!(order("fq_pie quantum 3028"), [1, 1, 2, 2, 1, 1, 2, 2]);
    }
}
