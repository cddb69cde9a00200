//! `cnq_codel_af`: a cheap nasty queue under CoDel with approximate fairness.
//!
//! One FIFO for bulk and one for sparse flows. A packet of a flow with nothing
//! in the bulk queue goes to the sparse queue, which is served first, and
//! leaves a dummy in the bulk queue that holds its flow's place until it
//! reaches the head. Each flow has its own AQM, and its delay is weighed by
//! its share of the queue, so that the greediest are signalled first.
//!
//! Sources: draft-morton-tsvwg-cheap-nasty-queueing-01,
//! draft-morton-tsvwg-codel-approx-fair-01, chromi/sce
//! net/sched/sch_cnq_codel_af.c. Deviations:
//! * the original shapes by itself; here the element around it does;
//! * the original states a limit of 10240 packets and does not enforce it;
//!   here it is a tail drop;
//! * the original never sets the frame time that its "four frames" rule
//!   reads, which leaves the rule without effect; here it comes from the
//!   link's rate, and `mtu_time 0s` gives the original's behaviour;
//! * no SCE marks (off by default there).

mod cobalt;

use std::collections::VecDeque;

use narrows_core::{DropCause, EntityId, MarkCause, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Rate, Rng, Word, WordError, Words,
};

use self::cobalt::{Cobalt, Params, Share};
use crate::codel;
use crate::flows::FlowHash;
use crate::link_facts::LinkFacts;
use crate::meter::Meter;
use crate::reading::{self, Holds, Parameters, is, maybe, packets, read_packets};

/// Packets (`cnq_init`).
const LIMIT: u32 = 10_240;
/// Flows that are kept apart (`CNQ_QUEUES`).
const FLOWS: usize = 65_536;
/// tc's rule for CAKE: the target is a twentieth of the interval.
const RTT_TO_TARGET: u64 = 20;

/// Parameters of `cnq_codel_af`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CnqConfig {
    /// Packets that may wait.
    pub limit: u32,
    /// Interval of the schedule; `rtt` in tc.
    pub interval: Duration,
    /// Acceptable delay of a flow at its fair share.
    pub target: Duration,
    /// How long a full frame takes; unset: at the link's rate. No packet is
    /// signalled that waited for four of these or less.
    pub mtu_time: Option<Duration>,
}

impl Default for CnqConfig {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            interval: codel::INTERVAL,
            target: codel::TARGET,
            mtu_time: None,
        }
    }
}

impl Parameters for CnqConfig {
    const PARAMETERS: &'static [Parameter] = &[
        packets("limit PACKETS", "10240", "Packets that may wait"),
        Parameter::new(
            "rtt TIME",
            ParameterKind::Time,
            codel::TIME_ALLOWED,
            "100ms",
            "Interval of the schedule; it also sets target to a part of it",
        ),
        Parameter::new(
            "target TIME",
            ParameterKind::Time,
            codel::TIME_ALLOWED,
            "5ms",
            "Acceptable delay of a flow at its fair share",
        ),
        Parameter::new(
            "mtu_time TIME",
            ParameterKind::Time,
            "a time such as 10ms, 200us, 1.5s (units ns, us, ms, s)",
            "a full frame's time at the link's rate",
            "How long a full frame takes; no packet is marked or dropped that waited for four of these or less",
        ),
    ];

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.limit),
            is(self.interval),
            is(self.target),
            maybe(self.mtu_time),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "limit" => self.limit = read_packets(words)?,
            "rtt" => {
                self.interval = codel::time(words)?;
                self.target = self.interval / RTT_TO_TARGET;
            }
            "target" => self.target = codel::time(words)?,
            "mtu_time" => self.mtu_time = Some(words.value()?),
            "bandwidth" => {
                return Err(
                    WordError::new(key.span(), "`bandwidth`", reading::keys::<Self>())
                        .with_help("the rate stands before the queue: `rate 50Mbit queue …`"),
                );
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    fn bucket_of(&self, rng: Rng, packet: &Packet) -> Option<usize> {
        Some(bucket_of(rng, packet))
    }
}

/// A place in the bulk queue: a packet, or the dummy of a sparse one.
#[derive(Debug)]
struct BulkPlace {
    flow: u16,
    packet: Option<Box<Packet>>,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Cnq {
    config: CnqConfig,
    link: LinkFacts,
    params: Params,
    hash: FlowHash,
    sparse: VecDeque<Box<Packet>>,
    bulk: VecDeque<BulkPlace>,
    /// Places in the bulk queue per flow.
    places: Vec<u32>,
    cobalts: Vec<Cobalt>,
    /// Flows with a place in the bulk queue.
    active: u32,
    dummies: u32,
    /// The flow whose AQM rests next if it is idle.
    resting: u16,
    rng: Rng,
    meter: Meter,
}

/// The low bits of the hash, as `hash % 65536`.
fn bucket(hash: FlowHash, packet: &Packet) -> u16 {
    hash.of(packet) as u16
}

/// The flow that a queue made with `rng` counts `packet` among.
pub(crate) fn bucket_of(mut rng: Rng, packet: &Packet) -> usize {
    usize::from(bucket(FlowHash::new(&mut rng), packet))
}

impl Cnq {
    pub fn new(config: CnqConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        Self {
            params: params_of(&config, link),
            link,
            config,
            hash: FlowHash::new(&mut rng),
            sparse: VecDeque::new(),
            bulk: VecDeque::new(),
            places: vec![0; FLOWS],
            cobalts: vec![Cobalt::default(); FLOWS],
            active: 0,
            dummies: 0,
            resting: 0,
            rng,
            meter: Meter::new(entity, link),
        }
    }

    fn queue_up(&mut self, flow: u16, packet: Option<Box<Packet>>) {
        let places = &mut self.places[usize::from(flow)];
        self.active += u32::from(*places == 0);
        *places += 1;
        self.dummies += u32::from(packet.is_none());
        self.bulk.push_back(BulkPlace { flow, packet });
    }

    /// The head of the bulk queue, past the dummies before it.
    fn pop_bulk(&mut self) -> Option<(u16, Box<Packet>)> {
        loop {
            let place = self.bulk.pop_front()?;
            let places = &mut self.places[usize::from(place.flow)];
            *places -= 1;
            self.active -= u32::from(*places == 0);
            match place.packet {
                Some(packet) => return Some((place.flow, packet)),
                None => self.dummies -= 1,
            }
        }
    }

    /// The next packet and whether it is to be sent; `None` if none is left.
    fn next(
        &mut self,
        now: Instant,
        out: &mut Outlet<'_>,
    ) -> Option<(Box<Packet>, Option<DropCause>)> {
        if let Some(packet) = self.sparse.pop_front() {
            self.meter.left(self.meter.length(&packet));
            self.cobalts[packet.scratch as usize].rest(&self.params, now);
            return Some((packet, None));
        }
        let (flow, mut packet) = self.pop_bulk()?;
        self.meter.left(self.meter.length(&packet));
        let behind = self.places[usize::from(flow)];
        let share = Share {
            flow: behind + 1,
            active: self.active - self.dummies,
            total: self.meter.counts.backlog.packets + 1,
        };
        let sojourn = now.since(packet.held_since);
        let meter = &mut self.meter;
        let mut marked = false;
        let due = self.cobalts[usize::from(flow)].judge(
            &self.params,
            now,
            sojourn,
            share,
            &mut self.rng,
            || {
                marked = meter.mark(now, &mut packet, MarkCause::Probability, out);
                marked
            },
        );
        let cause = match due {
            // A flow's last packet is never dropped.
            _ if behind == 0 => None,
            due if due.blue => Some(DropCause::Overload),
            due if due.signal && !marked => Some(DropCause::Probability),
            _ => None,
        };
        Some((packet, cause))
    }
}

fn params_of(config: &CnqConfig, link: LinkFacts) -> Params {
    let frame_time = config.mtu_time.unwrap_or_else(|| {
        let rate = Rate::from_bits(link.rate.as_bits().max(1));
        rate.time_for(u64::from(link.frame()))
    });
    Params::new(config.target, config.interval, frame_time)
}

impl Queue for Cnq {
    fn enqueue(&mut self, now: Instant, mut packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        if self.meter.counts.backlog.packets >= self.config.limit {
            self.meter.drop(now, packet, DropCause::Overflow, out);
            return false;
        }
        let flow = bucket(self.hash, &packet);
        self.meter.entered(now, &mut packet);
        packet.scratch = u64::from(flow);
        if self.places[usize::from(flow)] > 0 {
            self.queue_up(flow, Some(packet));
        } else {
            self.queue_up(flow, None);
            self.sparse.push_back(packet);
        }
        true
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        // Dummies alone stay where they are.
        while self.meter.counts.backlog.packets > 0 {
            let (packet, verdict) = self.next(now, out)?;
            if let Some(cause) = verdict {
                self.meter.drop(now, packet, cause, out);
                continue;
            }
            let idle = usize::from(self.resting);
            if self.places[idle] == 0 {
                self.cobalts[idle].rest(&self.params, now);
            }
            self.resting = self.resting.wrapping_add(1);
            return Some(packet);
        }
        None
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        (self.meter.counts.backlog.packets > 0).then_some(now)
    }

    fn counts(&self) -> QueueCounts {
        self.meter.counts
    }

    fn link_rate_changed(&mut self, rate: Rate) {
        self.link.rate = rate;
        self.params = params_of(&self.config, self.link);
    }

    /// A lower limit refuses newcomers and drops nothing that waits.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "cnq_codel_af", words)?;
        self.params = params_of(&self.config, self.link);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
