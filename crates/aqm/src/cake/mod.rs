//! `cake`: a shaper, tins by the DS field, flows and hosts apart, each flow under COBALT, and
//! a filter of ACKs.
//!
//! Sources: tc-cake(8); iproute2 tc/q_cake.c; Linux net/sched/sch_cake.c v6.17. Deviations:
//! * `memlimit` counts what the link counts, Linux the memory of a packet (`truesize`);
//! * flows are distinguished by a hash of our own, keyed like that of fq_codel, which ignores
//!   the IPv6 flow label;
//! * of queues that are equally long the first one is shortened, in Linux the one that its
//!   heap finds;
//! * deficits of tins are counted only where nothing shapes, which alone reads them;
//! * `nat` changes nothing, for no element translates behind a queue of the same host;
//!   there are no marks of a firewall, classes of filters or packets of segmentation
//!   offload.

mod ack_filter;
mod config;
mod framing;
mod isolation;
mod rounds;
mod shaper;
mod tin;
mod tins;

use narrows_core::{DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Instant, Rng, WordError};
use narrows_wire::ip;

pub use ack_filter::AckFilter;
pub use config::CakeConfig;
pub use framing::{Cells, Framing};
pub use isolation::FlowMode;
pub use tins::{Diffserv, TIN_NAMES};

use self::shaper::{Gate, Pace};
use self::tin::Tin;
use crate::flows::FlowHash;
use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::reading;

/// Full frames whose bytes may wait at most, unless `memlimit` says more (`sch->limit`).
const LIMIT: u64 = 10_240;
/// Products of rate and round trip that may wait (`cake_reconfigure`).
const MEMORY_PRODUCTS: u64 = 4;
/// Bytes that may wait however slow the shaper is (`cake_reconfigure`).
const LEAST_MEMORY: u64 = 4 << 20;
/// Where a packet's scratch holds its tin; below are the bytes that it counts.
const TIN_SHIFT: u32 = 32;

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Cake {
    config: CakeConfig,
    link: LinkFacts,
    meter: Meter,
    hash: FlowHash,
    rng: Rng,
    tins: Vec<Tin>,
    /// The tin that was last served.
    current: usize,
    pace: Pace,
    gate: Gate,
    memory: u64,
    reconfigured: bool,
}

/// Bytes that `packet` counts for the shaper.
fn charged(packet: &Packet) -> u32 {
    packet.scratch as u32
}

/// The tin that `packet` was in.
fn tin_of(packet: &Packet) -> usize {
    (packet.scratch >> TIN_SHIFT) as usize
}

impl Cake {
    pub fn new(config: CakeConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        let mut cake = Self {
            config,
            link,
            meter: Meter::new(entity, link),
            hash: FlowHash::new(&mut rng),
            rng,
            tins: Vec::new(),
            current: 0,
            pace: Pace::default(),
            gate: Gate::default(),
            memory: 0,
            reconfigured: false,
        };
        cake.configure();
        cake
    }

    /// Gives all tins what the configuration says. Tins that are no longer used keep what
    /// waits in them until it can be reported as dropped.
    fn configure(&mut self) {
        let c = &self.config;
        let rate = c.bandwidth.map_or(0, |rate| rate.as_bytes());
        self.pace = Pace::new(rate);
        let shares = c.diffserv.shares(rate);
        while self.tins.len() < shares.len() {
            self.tins.push(Tin::new(c.flows, self.hash));
        }
        for (tin, share) in self.tins.iter_mut().zip(shares) {
            tin.isolation.change_mode(c.flows);
            tin.configure(share, c.target(), c.rtt, self.link.frame());
        }
        let limit = c.memlimit.map(|limit| limit.get());
        let ceiling = LIMIT * u64::from(self.link.frame());
        let usual = match rate {
            0 => u64::MAX,
            _ => {
                let products = u128::from(rate) * u128::from(c.rtt.as_micros() * MEMORY_PRODUCTS);
                LEAST_MEMORY.max((products / 1_000_000) as u64)
            }
        };
        self.memory = limit.unwrap_or(usual.min(ceiling));
    }

    /// After a change: drops what waits in tins that are no longer used, and what exceeds
    /// the limit.
    fn settle(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.reconfigured = false;
        let used = self.config.diffserv.shares(0).len();
        for mut tin in self.tins.drain(used..) {
            for flow in &mut tin.flows {
                for packet in flow.packets.drain(..) {
                    self.meter.left(self.meter.length(&packet));
                    self.meter.drop(now, packet, DropCause::Overflow, out);
                }
            }
        }
        self.current = self.current.min(used - 1);
        while self.meter.counts.backlog.bytes > self.memory {
            self.shorten(now, out);
        }
    }

    /// Drops the oldest packet of the longest queue; returns its id.
    fn shorten(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<narrows_core::PacketId> {
        let mut longest = (0, 0, 0);
        for (t, tin) in self.tins.iter().enumerate() {
            for (queue, bytes) in tin.backlogs.iter().enumerate() {
                if *bytes > longest.2 {
                    longest = (t, queue, *bytes);
                }
            }
        }
        let tin = &mut self.tins[longest.0];
        let packet = tin.pull(longest.1 as u16, |p| self.meter.length(p))?;
        let params = tin.params;
        tin.flows[longest.1].cobalt.overflowed(&params, now);
        let id = packet.id;
        self.drop(now, longest.0, packet, DropCause::Overflow, out);
        Some(id)
    }

    /// Reports the drop of a packet that has been taken out of `tin`. On arriving traffic it
    /// has used the link all the same.
    fn drop(
        &mut self,
        now: Instant,
        tin: usize,
        packet: Box<Packet>,
        cause: DropCause,
        out: &mut Outlet<'_>,
    ) {
        self.meter.left(self.meter.length(&packet));
        if self.config.ingress {
            self.charge(now, tin, charged(&packet), true);
        }
        self.meter.drop(now, packet, cause, out);
    }

    /// Charges `bytes` to the shaper and to `tin`.
    fn charge(&mut self, now: Instant, tin: usize, bytes: u32, dropped: bool) {
        if self.pace.shapes() {
            let tin = &mut self.tins[tin];
            tin.schedule.charge(tin.pace, bytes, now.as_nanos());
            self.gate.charge(self.pace, bytes, dropped);
        }
    }

    /// Charges a packet to its flow and, where nothing shapes, to the round of the tins.
    fn charge_rounds(&mut self, tin: usize, queue: u16, bytes: u32) {
        let unshaped = !self.pace.shapes();
        let tin = &mut self.tins[tin];
        tin.flows[usize::from(queue)].deficit -= bytes as i32;
        if unshaped {
            tin.deficit -= bytes as i32;
        }
    }

    /// Chooses the tin to serve: with a shaper the last one that is below its threshold, or
    /// else the one that will be first; without one in turn by weight. `None` if there is
    /// nothing to serve.
    fn choose_tin(&mut self, now: u64) -> Option<usize> {
        if self.pace.shapes() {
            let mut best: Option<(i64, usize)> = None;
            for (t, tin) in self.tins.iter().enumerate().filter(|(_, t)| t.is_active()) {
                let until = tin.schedule.until(now);
                if until <= 0 || best.is_none_or(|(least, _)| until <= least) {
                    best = Some((until, t));
                }
            }
            self.current = best?.1;
            return Some(self.current);
        }
        if !self.tins.iter().any(Tin::is_active) {
            return None;
        }
        loop {
            let count = self.tins.len();
            let tin = &mut self.tins[self.current];
            if tin.deficit >= 0 && tin.is_active() {
                return Some(self.current);
            }
            if tin.deficit <= 0 {
                tin.deficit += tin.weight;
            }
            self.current = (self.current + 1) % count;
        }
    }

    /// The ACK that the newest packet of `queue` makes superfluous is dropped.
    fn filter_acks(&mut self, now: Instant, tin: usize, queue: u16, out: &mut Outlet<'_>) {
        let at = usize::from(queue);
        let packets = &mut self.tins[tin].flows[at].packets;
        let Some(ack) = ack_filter::superfluous(packets, self.config.ack_filter)
            .and_then(|place| packets.remove(place))
        else {
            return;
        };
        self.tins[tin].backlogs[at] -= self.meter.length(&ack);
        self.tins[tin].packets -= 1;
        self.drop(now, tin, ack, DropCause::Policy, out);
    }

    /// The next packet of `queue` after the marks and drops that are due; `None` if the
    /// queue ran empty, or the shaper has to be asked again.
    fn serve(
        &mut self,
        now: Instant,
        t: usize,
        queue: u16,
        out: &mut Outlet<'_>,
    ) -> Option<Box<Packet>> {
        let ingress = self.config.ingress;
        loop {
            let tin = &mut self.tins[t];
            let Some(mut packet) = tin.pull(queue, |p| self.meter.length(p)) else {
                tin.ran_empty(queue, now);
                return None;
            };
            let flow = &mut tin.flows[usize::from(queue)];
            let bulk = if ingress { tin.bulk } else { 0 };
            let capable = ip::ecn(&packet.bytes).is_capable();
            let due = flow.cobalt.judge(
                &tin.params,
                now,
                now.since(packet.held_since),
                bulk,
                capable,
                &mut self.rng,
            );
            // The last packet of a queue may be marked, and is not dropped.
            let drops = due.drops().filter(|_| !flow.packets.is_empty());
            let bytes = charged(&packet);
            if let Some(cause) = drops {
                self.drop(now, t, packet, cause, out);
                if ingress {
                    self.charge_rounds(t, queue, bytes);
                    return None;
                }
                continue;
            }
            self.meter.left(self.meter.length(&packet));
            if due.mark {
                self.meter
                    .mark(now, &mut packet, MarkCause::Probability, out);
            }
            self.charge(now, t, bytes, false);
            self.charge_rounds(t, queue, bytes);
            return Some(packet);
        }
    }
}

impl Queue for Cake {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        if self.reconfigured {
            self.settle(now, out);
        }
        let dscp = ip::dscp(&packet.bytes);
        if self.config.wash && dscp != 0 {
            ip::set_dscp(&mut packet.bytes, 0);
        }
        let t = usize::from(self.config.diffserv.tin_of(dscp));
        let tin = &mut self.tins[t];
        let queue = tin.isolation.queue_of(&packet);
        if tin.packets == 0 {
            tin.schedule.refresh(now.as_nanos());
            if self.meter.counts.backlog.packets == 0 {
                self.gate.refresh(now.as_nanos());
            }
        }
        let id = packet.id;
        let length = self.meter.entered(now, &mut packet);
        let framed = self.config.framing.length(&packet, self.link.overhead);
        packet.scratch = u64::from(framed) | (t as u64) << TIN_SHIFT;
        tin.backlogs[usize::from(queue)] += length;
        tin.packets += 1;
        tin.flows[usize::from(queue)].packets.push_back(packet);
        if self.config.ack_filter != AckFilter::Off {
            self.filter_acks(now, t, queue, out);
        }
        self.tins[t].arrived(queue, &mut self.rng);
        let mut taken = true;
        while self.meter.counts.backlog.bytes > self.memory {
            taken &= self.shorten(now, out) != Some(id);
        }
        taken
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        if self.reconfigured {
            self.settle(now, out);
        }
        let mut first = true;
        let mut tin = None;
        while self.meter.counts.backlog.packets > 0 {
            // After a drop on arriving traffic Linux asks neither shaper nor tins again.
            let t = match tin.take() {
                Some(t) => t,
                None if self.gate.opens() > now.as_nanos() => return None,
                None => self.choose_tin(now.as_nanos())?,
            };
            let Some(queue) = self.tins[t].turn(first, &mut self.rng) else {
                continue;
            };
            first = false;
            if let Some(packet) = self.serve(now, t, queue, out) {
                return Some(packet);
            }
            let emptied = self.tins[t].flows[usize::from(queue)].packets.is_empty();
            tin = (!emptied).then_some(t);
        }
        None
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        let waits = self.meter.counts.backlog.packets > 0;
        waits.then(|| now.max(Instant::from_nanos(self.gate.opens())))
    }

    fn counts(&self) -> QueueCounts {
        self.meter.counts
    }

    fn bands(&self) -> &'static [&'static str] {
        tins::names(self.config.diffserv)
    }

    /// The tin, by its number in [`TIN_NAMES`].
    fn band_of(&self, packet: &Packet) -> u8 {
        tin_of(packet) as u8
    }

    /// What waits in tins that are no longer used, or beyond a lower limit, is dropped when
    /// the queue is next called with somewhere to report it.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "cake", words)?;
        self.configure();
        self.reconfigured = true;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
