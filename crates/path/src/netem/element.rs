//! The running impairment.

use std::collections::VecDeque;

use narrows_core::{
    Change, DropCause, Element, ElementCounters, EntityId, Event, MarkCause, Outlet, Packet, Port,
};
use narrows_units::{Draw, Duration, Instant, Rng, WordError, Words};
use narrows_wire::ip;

use super::loss::LossState;
use super::spec::{NetemSpec, SlotGap, SlotSpec};
use crate::percent::Correlated;
use crate::site::Site;

/// Delays, loses, duplicates and reorders.
///
/// Packets wait in one line ordered by the time at which they may go. With a
/// constant delay each joins at the end; jitter puts a packet before those
/// that may go later, as netem's `tfifo` does.
pub struct Netem {
    entity: EntityId,
    spec: NetemSpec,
    rng: Rng,
    held: VecDeque<(Instant, Box<Packet>)>,
    /// When packets leave that were let out ahead of time: until then they count as held.
    gone: VecDeque<Instant>,
    loss: LossState,
    delays: Correlated,
    duplicates: Correlated,
    corruptions: Correlated,
    reorders: Correlated,
    /// Packets since the last reordered one.
    since_reorder: u32,
    slot: Slot,
    /// Whether every packet only waits for the same time.
    plain: bool,
    counters: ElementCounters,
}

/// The slot that is open or comes next.
#[derive(Clone, Copy, Debug)]
struct Slot {
    opens: Instant,
    packets_left: u32,
    bytes_left: u32,
}

impl Slot {
    fn next(spec: &SlotSpec, after: Instant, rng: &mut Rng) -> Self {
        let gap = match spec.gap {
            SlotGap::Between(min, max) => {
                let range = u128::from(max.saturating_sub(min).as_nanos());
                let extra = (u128::from(rng.draw_u32()) * range) >> 32;
                min + Duration::from_nanos(extra as u64)
            }
            SlotGap::Spread(law, mean, jitter) => {
                shifted(mean, law.deviation(rng.draw_u32(), jitter.as_nanos()))
            }
        };
        Self {
            opens: after + gap,
            packets_left: spec.packets.unwrap_or(u32::MAX),
            bytes_left: spec.bytes.unwrap_or(u32::MAX),
        }
    }
}

fn shifted(mean: Duration, by: i64) -> Duration {
    Duration::from_nanos(mean.as_nanos().saturating_add_signed(by))
}

impl Netem {
    pub(super) fn new(spec: NetemSpec, site: &Site<'_>) -> Self {
        Self {
            entity: site.entity,
            spec,
            rng: Rng::for_name(site.seed, site.name),
            held: VecDeque::new(),
            gone: VecDeque::new(),
            loss: LossState::default(),
            delays: Correlated::default(),
            duplicates: Correlated::default(),
            corruptions: Correlated::default(),
            reorders: Correlated::default(),
            since_reorder: 0,
            slot: fresh_slot(&spec),
            plain: spec.is_plain(),
            counters: ElementCounters::default(),
        }
    }

    /// What netem's enqueue does, in its order: duplicate, lose, corrupt, hold. The
    /// copy is made before the loss is decided and may itself be lost.
    fn admit(&mut self, now: Instant, mut packet: Box<Packet>, copies: bool, out: &mut Outlet<'_>) {
        let spec = &self.spec;
        let twice = copies
            && self
                .duplicates
                .happens(spec.duplicate, spec.duplicate_correlation, &mut self.rng);
        let lost = self.loss.loses(&spec.loss, &mut self.rng);
        let copy = twice.then(|| out.pool.duplicate(now, &packet));
        if lost && spec.ecn && ip::ecn(&packet.bytes).is_capable() {
            self.mark(now, &mut packet, out);
        } else if lost {
            self.drop(now, packet, DropCause::Loss, out);
            if let Some(copy) = copy {
                self.hold(now, copy, out);
            }
            return;
        }
        if let Some(copy) = copy {
            self.admit(now, copy, false, out);
        }
        let corrupted = self.corruptions.happens(
            self.spec.corrupt,
            self.spec.corrupt_correlation,
            &mut self.rng,
        );
        if corrupted {
            self.flip_a_bit(&mut packet);
        }
        self.hold(now, packet, out);
    }

    /// Flips one bit anywhere in the packet; netem does so in its linear part.
    fn flip_a_bit(&mut self, packet: &mut Packet) {
        packet.bytes.resize(packet.len() as usize, 0);
        packet.zero_tail = 0;
        let bits = packet.bytes.len() as u64 * 8;
        let bit = (u64::from(self.rng.draw_u32()) * bits) >> 32;
        if let Some(byte) = packet.bytes.get_mut(bit as usize / 8) {
            *byte ^= 1 << (bit % 8);
        }
    }

    fn mark(&mut self, now: Instant, packet: &mut Packet, out: &mut Outlet<'_>) {
        if ip::ecn(&packet.bytes) == ip::Ecn::Ce {
            return;
        }
        ip::set_ecn(&mut packet.bytes, ip::Ecn::Ce);
        self.counters.marked += 1;
        out.events.record(
            now,
            Event::Marked {
                queue: self.entity,
                packet,
                cause: MarkCause::Probability,
            },
        );
    }

    fn drop(&mut self, now: Instant, packet: Box<Packet>, cause: DropCause, out: &mut Outlet<'_>) {
        self.counters.dropped += 1;
        out.drop(now, self.entity, packet, cause);
    }

    /// Puts a packet into the line.
    fn hold(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) {
        let spec = &self.spec;
        if let Some(limit) = spec.limit {
            while self.gone.front().is_some_and(|at| *at <= now) {
                self.gone.pop_front();
            }
            if self.held.len() + self.gone.len() >= limit as usize {
                self.drop(now, packet, DropCause::Overflow, out);
                return;
            }
        }
        let ahead = spec.gap > 0
            && self.since_reorder >= spec.gap - 1
            && self
                .reorders
                .happens(spec.reorder, spec.reorder_correlation, &mut self.rng);
        if ahead {
            self.since_reorder = 0;
            // The head may be overdue when a slot holds it back.
            let at = self.held.front().map_or(now, |(t, _)| now.min(*t));
            self.held.push_front((at, packet));
            return;
        }
        self.since_reorder = self.since_reorder.saturating_add(1);
        if spec.jitter.is_zero() {
            let at = now + spec.delay;
            if self.held.back().is_none_or(|(last, _)| *last <= at) {
                self.held.push_back((at, packet));
            } else {
                // Only after a change to a shorter delay.
                self.insert(at, packet);
            }
            return;
        }
        let word = self.delays.draw(spec.delay_correlation, &mut self.rng);
        let deviation = spec.distribution.deviation(word, spec.jitter.as_nanos());
        let mut at = now + shifted(spec.delay, deviation);
        if let Some((last, _)) = self.held.back().filter(|_| spec.ordered) {
            at = at.max(*last);
        }
        self.insert(at, packet);
    }

    /// Inserts behind all that may go no later.
    fn insert(&mut self, at: Instant, packet: Box<Packet>) {
        let place = self.held.partition_point(|(t, _)| *t <= at);
        self.held.insert(place, (at, packet));
    }

    /// Lets out what may go.
    fn release(&mut self, now: Instant, out: &mut Outlet<'_>) {
        while let Some((at, _)) = self.held.front() {
            let at = *at;
            if let Some(spec) = &self.spec.slot {
                // Counted from when the head is looked at, which is before it may leave
                // (netem_dequeue, net/sched/sch_netem.c v6.17).
                if self.slot.opens < at {
                    self.slot = Slot::next(spec, now, &mut self.rng);
                }
                if self.slot.opens > now {
                    return;
                }
            }
            if at > now {
                return;
            }
            let Some((_, packet)) = self.held.pop_front() else {
                return;
            };
            if let Some(spec) = &self.spec.slot {
                let slot = &mut self.slot;
                slot.packets_left = slot.packets_left.saturating_sub(1);
                slot.bytes_left = slot.bytes_left.saturating_sub(packet.len());
                if slot.packets_left == 0 || slot.bytes_left == 0 {
                    *slot = Slot::next(spec, now, &mut self.rng);
                }
            }
            if self.spec.limit.is_some() && !self.lookahead().is_zero() {
                self.gone.push_back(at);
            }
            self.counters.packets_out += 1;
            self.counters.bytes_out += u64::from(packet.len());
            out.send(0, packet);
        }
    }
}

fn fresh_slot(spec: &NetemSpec) -> Slot {
    let limits = spec.slot.as_ref();
    Slot {
        opens: Instant::ZERO,
        packets_left: limits.and_then(|s| s.packets).unwrap_or(u32::MAX),
        bytes_left: limits.and_then(|s| s.bytes).unwrap_or(u32::MAX),
    }
}

impl Element for Netem {
    fn push(&mut self, now: Instant, _: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(packet.len());
        if self.plain {
            // No draw, no choice, and nothing that waits becomes due.
            self.hold(now, packet, out);
            return;
        }
        self.admit(now, packet, true, out);
        self.release(now, out);
    }

    fn next_wake(&self) -> Option<Instant> {
        let (at, _) = self.held.front()?;
        Some(match self.spec.slot {
            Some(_) => (*at).max(self.slot.opens),
            None => *at,
        })
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.release(now, out);
    }

    /// The delay, where it is the same for all packets.
    fn lookahead(&self) -> Duration {
        let spec = &self.spec;
        if spec.jitter.is_zero() && spec.gap == 0 && spec.slot.is_none() {
            spec.delay
        } else {
            Duration::ZERO
        }
    }

    /// netem's words; each clause named replaces its like, the rest stays.
    /// Packets already held keep their times.
    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        let mut words = Words::new(&change.words);
        words.take_if("netem");
        if words.peek().is_none() {
            return Err(words.ended("what to change: delay, loss, slot …"));
        }
        let mut spec = self.spec;
        spec.apply(&mut words)?;
        if spec.slot != self.spec.slot {
            self.slot = Slot {
                opens: now,
                ..fresh_slot(&spec)
            };
        }
        self.spec = spec;
        self.plain = spec.is_plain();
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }
}
