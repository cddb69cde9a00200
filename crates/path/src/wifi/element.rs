//! The running station.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use narrows_core::{
    Change, DropCause, Element, ElementCounters, EntityId, EventSink, Outlet, Packet, Port,
};
use narrows_units::{Duration, Instant, Rate, Rng, WordError, Words};

use super::phy::{AIFS, CW_MAX, CW_MIN, Phy, SIFS, SLOT, WINDOW, block_ack, subframe};
use super::spec::WifiSpec;
use crate::percent::Correlated;
use crate::percent::Percent;
use crate::site::Site;
use crate::waiting::{Waiting, earliest};

/// How often a frame is sent again (Linux `net/mac80211`, long retry limit, and the default of
/// dot11ShortRetryLimit of IEEE Std 802.11-2020, annex C).
const RETRIES: u32 = 7;

/// A frame with its place in the order.
struct Frame {
    number: u64,
    /// How often it was sent.
    sent: u32,
    packet: Box<Packet>,
}

/// What the station does.
enum Phase {
    /// There is nothing to send.
    Idle,
    /// It waits for its turn on the medium.
    Contends { until: Instant },
    /// These frames arrive at that time, and are answered for so long.
    Sends {
        until: Instant,
        frames: Vec<Frame>,
        answer: Duration,
    },
    /// A block ack comes, up to that time.
    Answered { until: Instant },
}

/// A station that sends aggregates of what waits.
pub struct WifiLink {
    entity: EntityId,
    waiting: Waiting,
    mcs: Arc<Vec<(Instant, u8)>>,
    phy: Phy,
    frames: u32,
    bytes: u32,
    airtime: Duration,
    error: Percent,
    stations: u32,
    theirs: Duration,
    rng: Rng,
    losses: Correlated,
    phase: Phase,
    /// The contention window in slots.
    window: u32,
    /// Frames to be sent before all that wait: those that did not arrive, and one that an
    /// aggregate had no room for.
    ahead: VecDeque<Frame>,
    /// The number of the next frame that is taken from the queue.
    next: u64,
    /// The number of the frame that the receiver passes on next.
    wanted: u64,
    /// What it has of those behind it; nothing of frames that were given up.
    arrived: BTreeMap<u64, Option<Box<Packet>>>,
    /// When a queue that holds packets back may give one.
    retry: Option<Instant>,
    /// Frames that were given up.
    lost: u64,
}

impl WifiLink {
    /// One at `site` whose rate is `rate` on average.
    pub(super) fn new(spec: &WifiSpec, rate: Rate, site: &Site<'_>) -> Self {
        Self {
            entity: site.entity,
            waiting: Waiting::new(&spec.queue, site, rate, 0),
            mcs: Arc::clone(&spec.mcs),
            phy: spec.phy,
            frames: spec.frames,
            bytes: spec.bytes,
            airtime: spec.airtime,
            error: spec.error,
            stations: spec.stations,
            theirs: spec.theirs,
            rng: Rng::for_name(site.seed, site.name),
            losses: Correlated::default(),
            phase: Phase::Idle,
            window: CW_MIN,
            ahead: VecDeque::new(),
            next: 0,
            wanted: 0,
            arrived: BTreeMap::new(),
            retry: None,
            lost: 0,
        }
    }

    /// The MCS at `now` and the bits of a symbol; `None` before a recording is read.
    fn mcs(&self, now: Instant) -> Option<(u8, u32)> {
        let after = self.mcs.partition_point(|(at, _)| *at <= now);
        let (_, mcs) = self.mcs.get(after.checked_sub(1)?)?;
        Some((*mcs, self.phy.bits(*mcs)?))
    }

    /// How long it takes until the station may send.
    fn access(&mut self, was_idle: bool) -> Duration {
        let backoff = SLOT * u64::from(self.rng.below(self.window + 1));
        let mut wait = AIFS + backoff;
        if self.stations == 0 {
            return wait;
        }
        if was_idle {
            // What came while another station was sending.
            wait += self.rng.within(self.theirs);
        }
        // All have something to send, and each wins as often.
        let others = AIFS + SLOT * u64::from(CW_MIN) / 2 + self.theirs;
        while self.rng.below(self.stations + 1) > 0 {
            wait += others;
        }
        wait
    }

    /// Waits for the medium if there is anything to send.
    fn contend(&mut self, now: Instant, was_idle: bool) {
        let any = !self.ahead.is_empty() || self.waiting.queue.backlog().packets > 0;
        self.phase = match any && self.mcs(now).is_some() {
            true => Phase::Contends {
                until: now + self.access(was_idle),
            },
            false => Phase::Idle,
        };
    }

    /// Sends an aggregate of what there is.
    fn send(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.retry = None;
        let Some((mcs, bits)) = self.mcs(now) else {
            self.phase = Phase::Idle;
            return;
        };
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while frames.len() < self.frames as usize {
            let frame = match self.ahead.pop_front() {
                Some(frame) => frame,
                None => match self.waiting.pull(now, out) {
                    Some((packet, _)) => {
                        let number = self.next;
                        self.next += 1;
                        Frame {
                            number,
                            sent: 0,
                            packet,
                        }
                    }
                    None => break,
                },
            };
            let larger = bytes + subframe(frame.packet.len());
            let fits = larger <= self.bytes
                && self.phy.ppdu(bits, larger) <= self.airtime
                && frame.number < self.wanted + u64::from(WINDOW);
            // Alone a frame is sent however long it takes.
            if !fits && !frames.is_empty() {
                self.ahead.push_front(frame);
                break;
            }
            bytes = larger;
            frames.push(frame);
        }
        if frames.is_empty() {
            // A queue that shapes by itself says when; never now again.
            let soonest = now + Duration::from_nanos(1);
            let next = self.waiting.queue.next_dequeue(now);
            self.retry = next.map(|at| at.max(soonest));
            self.phase = Phase::Idle;
            return;
        }
        let until = now + self.phy.ppdu(bits, bytes);
        let answer = SIFS + block_ack(mcs);
        self.phase = Phase::Sends {
            until,
            frames,
            answer,
        };
    }

    /// An aggregate has come to its end.
    fn receive(&mut self, now: Instant, frames: Vec<Frame>, out: &mut Outlet<'_>) {
        let mut failed = VecDeque::new();
        let sent = frames.len();
        for mut frame in frames {
            frame.sent += 1;
            let error = self
                .losses
                .happens(self.error, Percent::ZERO, &mut self.rng);
            if !error {
                self.arrived.insert(frame.number, Some(frame.packet));
            } else if frame.sent > RETRIES {
                self.arrived.insert(frame.number, None);
                self.lost += 1;
                out.drop(now, self.entity, frame.packet, DropCause::Loss);
            } else {
                failed.push_back(frame);
            }
        }
        self.window = match failed.len() == sent {
            true => (2 * self.window + 1).min(CW_MAX),
            false => CW_MIN,
        };
        failed.append(&mut self.ahead);
        self.ahead = failed;
        while let Some(next) = self.arrived.remove(&self.wanted) {
            self.wanted += 1;
            if let Some(packet) = next {
                self.waiting.let_out(packet, out);
            }
        }
    }
}

impl Element for WifiLink {
    fn push(&mut self, now: Instant, _: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.waiting.push(now, packet, out);
        if matches!(self.phase, Phase::Idle) {
            self.contend(now, true);
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let phase = match &self.phase {
            Phase::Idle => self.retry,
            Phase::Contends { until } | Phase::Sends { until, .. } | Phase::Answered { until } => {
                Some(*until)
            }
        };
        earliest(phase, self.waiting.queue.next_tick())
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.waiting.tick(now);
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Contends { until } if until <= now => self.send(now, out),
            Phase::Sends {
                until,
                frames,
                answer,
            } if until <= now => {
                self.receive(now, frames, out);
                let until = now + answer;
                self.phase = Phase::Answered { until };
            }
            Phase::Answered { until } if until <= now => self.contend(now, false),
            Phase::Idle if self.retry.is_some_and(|at| at <= now) => {
                self.retry = None;
                self.contend(now, true);
            }
            phase => self.phase = phase,
        }
    }

    /// `mcs N` and `queue …`, either or both.
    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        let mut words = Words::new(&change.words);
        words.take_if("wifi");
        let mut queue = None;
        if words.peek().is_none() {
            return Err(words.ended("mcs N or queue …"));
        }
        let mut mcs = None;
        while let Some(word) = words.take() {
            match word.text {
                "mcs" => {
                    let phy = self.phy;
                    let fits =
                        |mcs: &u32| u8::try_from(*mcs).is_ok_and(|mcs| phy.bits(mcs).is_some());
                    mcs = Some(words.checked_value("an MCS of the channel", fits)? as u8);
                }
                "queue" => {
                    let rest = words.rest();
                    queue = Some((rest.text, rest.start));
                    break;
                }
                _ => return Err(word.refused("mcs N or queue …")),
            }
        }
        self.waiting.change(now, queue)?;
        if let Some(mcs) = mcs {
            self.mcs = Arc::new(vec![(Instant::ZERO, mcs)]);
        }
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        let counters = self.waiting.counters();
        ElementCounters {
            dropped: counters.dropped + self.lost,
            ..counters
        }
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        self.waiting.sample(now, events);
    }
}
