//! `sfq`: stochastic fairness queueing, flows by a hash that may be perturbed, served by
//! deficit round robin.
//!
//! Sources: Linux net/sched/sch_sfq.c v6.17; iproute2 tc/q_sfq.c; McKenney, "Stochastic
//! Fairness Queuing" (1990). The RED of each flow (`redflowlimit` and what belongs to it) is
//! not here. A new hash moves what waits when the queue is next called with somewhere to report
//! what has no room under it.

use std::collections::VecDeque;

use narrows_core::{Backlog, DropCause, EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Rng, Word, WordError, Words,
};

use crate::flows::FlowHash;
use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::reading::{Holds, Parameters, is, maybe, packets, place_of, read_packets};

/// Greatest number of packets of a flow (`SFQ_MAX_DEPTH`); also the limit unless named.
const MAX_DEPTH: u32 = 127;
/// Flows unless named (`SFQ_DEFAULT_FLOWS`).
const FLOWS: u32 = 128;
/// Greatest number of flows (`SFQ_MAX_FLOWS`).
const MAX_FLOWS: u32 = 0x1_0000 - MAX_DEPTH - 1;
/// Buckets of the hash unless named (`SFQ_DEFAULT_HASH_DIVISOR`).
const DIVISOR: u32 = 1_024;
/// Greatest number of buckets (`sfq_change`).
const MAX_DIVISOR: u32 = 65_536;
/// Greatest period of perturbation in s: what 32 bits of jiffies hold at HZ = 1000
/// (`sfq_change`).
const MAX_PERTURB: u32 = i32::MAX as u32 / 1_000;
/// Words of tc's sfq that configure RED for each flow.
const RED_WORDS: &[&str] = &[
    "redflowlimit",
    "min",
    "max",
    "avpkt",
    "burst",
    "probability",
    "ecn",
    "harddrop",
];

/// Parameters of `sfq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SfqConfig {
    /// Packets that may wait; unset: 127. No more than `depth` times the flows.
    pub limit: Option<u32>,
    /// Flows that may wait.
    pub flows: Option<u32>,
    /// Packets of a flow that may wait.
    pub depth: u32,
    /// Buckets of the hash, a power of two.
    pub divisor: u32,
    /// Bytes per flow and round; unset: one full frame, 1514 on Ethernet.
    pub quantum: Option<u32>,
    /// Period of a new hash in s; 0 for one hash for ever.
    pub perturb: u32,
    /// Whether a full flow loses its oldest packet instead of the newest.
    pub headdrop: bool,
}

impl Default for SfqConfig {
    fn default() -> Self {
        Self {
            limit: None,
            flows: None,
            depth: MAX_DEPTH,
            divisor: DIVISOR,
            quantum: None,
            perturb: 0,
            headdrop: false,
        }
    }
}

impl SfqConfig {
    /// Flows and packets that may wait, in the order in which `sfq_change` bounds them.
    fn bounds(&self) -> (u32, u32) {
        let flows = self.flows.unwrap_or(FLOWS).min(MAX_FLOWS).min(self.divisor);
        match self.limit {
            None => (flows, MAX_DEPTH),
            Some(limit) => {
                let limit = limit.min(self.depth * flows);
                (flows.min(limit), limit)
            }
        }
    }
}

impl Parameters for SfqConfig {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "limit PACKETS",
            ParameterKind::Number("packets"),
            "at least 2 packets",
            "127 packets",
            "Packets that may wait, at most depth times flows",
        ),
        Parameter::new(
            "perturb SECONDS",
            ParameterKind::Number("s"),
            "0 to 2147483 seconds",
            "0",
            "Period of a new hash; 0 for one hash for ever",
        ),
        Parameter::new(
            "quantum BYTES",
            ParameterKind::Size,
            "1 byte to 2047Mb",
            "one full frame",
            "Bytes per flow and round",
        ),
        Parameter::new(
            "divisor NUMBER",
            ParameterKind::Number("buckets"),
            "a power of two up to 65536",
            "1024",
            "Buckets of the hash",
        ),
        Parameter::new(
            "flows NUMBER",
            ParameterKind::Number("flows"),
            "at least 1 flow",
            "128 flows, or the divisor",
            "Flows that may wait",
        ),
        packets(
            "depth NUMBER",
            "127",
            "Packets of a flow that may wait; 127 are the most",
        ),
        Parameter::flag(
            "headdrop",
            "no headdrop",
            "Whether a full flow loses its oldest packet instead of the newest",
        ),
    ];

    fn values(&self) -> Vec<Holds> {
        vec![
            maybe(self.limit),
            is(self.perturb),
            maybe(self.quantum),
            is(self.divisor),
            maybe(self.flows),
            is(self.depth),
            Holds::Flag(self.headdrop),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "limit" => {
                self.limit = Some(words.value_where("at least 2 packets", |n: &u32| *n > 1)?);
            }
            "perturb" => {
                self.perturb =
                    words.value_where("0 to 2147483 seconds", |n: &u32| *n <= MAX_PERTURB)?;
            }
            "quantum" => {
                let quantum = words.value_where("1 byte to 2047Mb", |n: &Bytes| {
                    (1..1 << 31).contains(&n.get())
                })?;
                self.quantum = Some(quantum.get() as u32);
            }
            "divisor" => {
                self.divisor = words.value_where("a power of two up to 65536", |n: &u32| {
                    n.is_power_of_two() && *n <= MAX_DIVISOR
                })?;
            }
            "flows" => {
                self.flows = Some(words.value_where("at least 1 flow", |n: &u32| *n > 0)?);
            }
            "depth" => {
                let depth = read_packets(words)?;
                self.depth = depth.min(MAX_DEPTH);
            }
            "headdrop" => self.headdrop = true,
            red if RED_WORDS.contains(&red) => {
                let allowed: Vec<_> = Parameter::usages(Self::PARAMETERS).collect();
                return Err(key
                    .refused(allowed.join(", "))
                    .with_help("the RED of each flow is not here; `fq_codel` has an AQM in each"));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The kernel refuses a queue of one packet.
    fn check(&mut self, line: &str) -> Result<(), WordError> {
        match self.bounds() {
            (_, 0 | 1) => Err(WordError::new(
                place_of(line, "limit"),
                "a queue of one packet",
                "a limit, depth times flows, of at least 2 packets",
            )),
            _ => Ok(()),
        }
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    fn bucket_of(&self, mut rng: Rng, packet: &Packet) -> Option<usize> {
        let hash = FlowHash::new(&mut rng).of(packet);
        (self.perturb == 0).then_some((hash & (self.divisor - 1)) as usize)
    }
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// A full queue loses the packet that came.
    DropsNewcomer,
    /// Of flows that are equally long the one that was longest first loses.
    OldestLongest,
    /// A flow that has just come goes first.
    NewFirst,
    /// A bucket that is empty keeps its flow.
    NeverFreed,
}

/// No flow in this bucket.
const NONE: u32 = u32::MAX;

/// One flow that waits.
#[derive(Debug, Default)]
struct Slot {
    packets: VecDeque<Box<Packet>>,
    hash: u32,
    allot: i64,
    /// When its length last changed, counted in changes.
    changed: u64,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Sfq {
    config: SfqConfig,
    limit: u32,
    quantum: i64,
    hash: FlowHash,
    /// The slot of each bucket.
    buckets: Vec<u32>,
    slots: Vec<Slot>,
    /// Slots without packets; the last one is used first.
    free: Vec<u32>,
    /// Slots in their turns.
    round: VecDeque<u32>,
    changes: u64,
    next_perturb: Option<Instant>,
    perturbed: bool,
    rng: Rng,
    meter: Meter,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl Sfq {
    pub fn new(config: SfqConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        let (flows, limit) = config.bounds();
        let period = Duration::from_secs(u64::from(config.perturb));
        Self {
            limit,
            quantum: i64::from(config.quantum.unwrap_or(link.frame())),
            hash: FlowHash::new(&mut rng),
            buckets: vec![NONE; config.divisor as usize],
            slots: (0..flows).map(|_| Slot::default()).collect(),
            free: (0..flows).collect(),
            round: VecDeque::new(),
            changes: 0,
            next_perturb: (config.perturb > 0).then(|| Instant::ZERO + period),
            perturbed: false,
            rng,
            meter: Meter::new(entity, link),
            config,
            #[cfg(test)]
            mutant: None,
        }
    }

    /// The slot of the flow of `packet`, a new one if it has none; nothing if all are in use.
    fn slot_of(&mut self, packet: &Packet) -> Option<u32> {
        let hash = self.hash.of(packet) & (self.config.divisor - 1);
        let found = self.buckets[hash as usize];
        if found != NONE {
            return Some(found);
        }
        let slot = self.free.pop()?;
        self.buckets[hash as usize] = slot;
        self.slots[slot as usize].hash = hash;
        Some(slot)
    }

    /// Puts a packet that waits at the end of its flow.
    fn add(&mut self, index: u32, packet: Box<Packet>) {
        self.changes += 1;
        let slot = &mut self.slots[index as usize];
        slot.packets.push_back(packet);
        slot.changed = self.changes;
        if slot.packets.len() == 1 {
            slot.allot = self.quantum;
            #[cfg(test)]
            if self.mutant == Some(Mutant::NewFirst) {
                self.round.push_front(index);
                return;
            }
            self.round.push_back(index);
        }
    }

    /// Takes a packet off a flow, whose bucket is free if it was the last one.
    fn remove(&mut self, index: u32, oldest: bool) -> Option<Box<Packet>> {
        self.changes += 1;
        let slot = &mut self.slots[index as usize];
        let packet = match oldest {
            true => slot.packets.pop_front(),
            false => slot.packets.pop_back(),
        }?;
        slot.changed = self.changes;
        if slot.packets.is_empty() {
            #[cfg(test)]
            if self.mutant == Some(Mutant::NeverFreed) {
                return Some(packet);
            }
            self.buckets[slot.hash as usize] = NONE;
            self.free.push(index);
        }
        Some(packet)
    }

    /// Drops a packet that waits.
    fn shed(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.meter.left(self.meter.length(&packet));
        self.meter.drop(now, packet, DropCause::Overflow, out);
    }

    /// Drops a packet of the longest flow; of several the one whose length changed last. Where
    /// all have one packet, that of the flow whose turn it is.
    fn drop_longest(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<u64> {
        let slots = || self.slots.iter().zip(0u32..);
        let longest = slots().max_by_key(|(slot, _)| {
            #[cfg(test)]
            if self.mutant == Some(Mutant::OldestLongest) {
                return (slot.packets.len(), u64::MAX - slot.changed);
            }
            (slot.packets.len(), slot.changed)
        });
        let (slot, index) = longest?;
        let packet = if slot.packets.len() > 1 {
            self.remove(index, self.config.headdrop)?
        } else {
            let first = self.round.pop_front()?;
            self.remove(first, true)?
        };
        let id = packet.id.0;
        self.shed(now, packet, out);
        Some(id)
    }

    /// Sorts what waits by a new hash, flow by flow in the order of their slots; what has no
    /// room is dropped.
    fn rehash(&mut self, now: Instant, out: &mut Outlet<'_>) {
        if !std::mem::take(&mut self.perturbed) {
            return;
        }
        let mut waiting = Vec::with_capacity(self.meter.counts.backlog.packets as usize);
        for index in 0..self.slots.len() as u32 {
            while let Some(packet) = self.remove(index, true) {
                waiting.push(packet);
            }
        }
        self.round.clear();
        for packet in waiting {
            let depth = self.config.depth as usize;
            let room = self
                .slot_of(&packet)
                .filter(|slot| self.slots[*slot as usize].packets.len() < depth);
            match room {
                Some(slot) => self.add(slot, packet),
                None => self.shed(now, packet, out),
            }
        }
    }
}

impl Queue for Sfq {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        self.rehash(now, out);
        let Some(index) = self.slot_of(&packet) else {
            self.meter.drop(now, packet, DropCause::Overflow, out);
            return false;
        };
        if self.slots[index as usize].packets.len() >= self.config.depth as usize {
            if !self.config.headdrop {
                self.meter.drop(now, packet, DropCause::Overflow, out);
                return false;
            }
            // The newcomer takes the place of the oldest, so that the flow keeps its turn.
            let slot = &mut self.slots[index as usize];
            let oldest = slot.packets.pop_front();
            self.meter.entered(now, &mut packet);
            slot.packets.push_back(packet);
            if let Some(oldest) = oldest {
                self.shed(now, oldest, out);
            }
            return true;
        }
        let id = packet.id.0;
        self.meter.entered(now, &mut packet);
        self.add(index, packet);
        if self.meter.counts.backlog.packets <= self.limit {
            return true;
        }
        #[cfg(test)]
        if self.mutant == Some(Mutant::DropsNewcomer) {
            if let Some(packet) = self.remove(index, false) {
                self.shed(now, packet, out);
            }
            return false;
        }
        self.drop_longest(now, out) != Some(id)
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        self.rehash(now, out);
        loop {
            let index = *self.round.front()?;
            let slot = &mut self.slots[index as usize];
            if slot.allot <= 0 {
                slot.allot += self.quantum;
                self.round.rotate_left(1);
                continue;
            }
            let packet = self.remove(index, true)?;
            let length = self.meter.length(&packet);
            self.meter.left(length);
            let slot = &mut self.slots[index as usize];
            if slot.packets.is_empty() {
                self.round.pop_front();
            } else {
                slot.allot -= i64::from(length);
            }
            return Some(packet);
        }
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        (self.meter.counts.backlog.packets > 0).then_some(now)
    }

    fn next_tick(&self) -> Option<Instant> {
        self.next_perturb
    }

    fn tick(&mut self, now: Instant) {
        self.hash = FlowHash::new(&mut self.rng);
        self.perturbed = true;
        let period = Duration::from_secs(u64::from(self.config.perturb));
        self.next_perturb = Some(now + period);
    }

    fn waiting_mut(&mut self) -> Option<&mut Backlog> {
        Some(&mut self.meter.counts.backlog)
    }

    fn counts(&self) -> QueueCounts {
        self.meter.counts
    }

    /// Linux changes nothing of a running sfq.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        let word = Words::new(words).take();
        let span = word.map_or(0..0, |word| word.span());
        Err(WordError::new(span, "a change", "nothing")
            .with_help("the kernel has no change of a running sfq"))
    }
}

#[cfg(test)]
mod tests;
