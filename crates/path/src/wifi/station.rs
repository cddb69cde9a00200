//! What is sent to one station, from the queue until it is passed on there.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use narrows_core::{DropCause, EntityId, Outlet, Packet, Port};
use narrows_units::{Duration, Instant, Rng};

use super::phy::{Phy, SIFS, WINDOW, block_ack, subframe};
use super::spec::WifiSpec;
use crate::percent::{Correlated, Percent};

/// How often a frame is sent again (Linux `net/mac80211`, long retry limit, and the default of
/// dot11ShortRetryLimit of IEEE Std 802.11-2020, annex C).
const RETRIES: u32 = 7;

/// A frame with its place in the order.
pub(super) struct Frame {
    number: u64,
    /// How often it was sent.
    sent: u32,
    pub(super) packet: Box<Packet>,
}

/// Where an aggregate ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bounds {
    /// Most frames of it.
    pub(super) frames: u32,
    /// Most bytes of it.
    pub(super) bytes: u32,
    /// How long it lasts at most.
    pub(super) airtime: Duration,
}

/// Frames that are sent together.
pub(super) struct Aggregate {
    pub(super) frames: Vec<Frame>,
    /// How long their PPDU lasts.
    pub(super) airtime: Duration,
    /// How long it takes then until all are answered.
    pub(super) answer: Duration,
}

/// One station as its sender and its receiver know it.
pub(super) struct Station {
    pub(super) entity: EntityId,
    /// The port that leads to it.
    pub(super) port: Port,
    mcs: Arc<Vec<(Instant, u8)>>,
    pub(super) phy: Phy,
    error: Percent,
    losses: Correlated,
    /// Frames to be sent before all that wait: those that did not arrive, and one that an
    /// aggregate had no room for.
    ahead: VecDeque<Frame>,
    /// The number of the next frame that is taken from the queue.
    next: u64,
    /// The number of the frame that the receiver passes on next.
    wanted: u64,
    /// What it has of those behind it; nothing of frames that were given up.
    arrived: BTreeMap<u64, Option<Box<Packet>>>,
    /// Frames that were given up.
    pub(super) lost: u64,
}

impl Station {
    pub(super) fn new(spec: &WifiSpec, entity: EntityId, port: Port) -> Self {
        Self {
            entity,
            port,
            mcs: Arc::clone(&spec.mcs),
            phy: spec.phy,
            error: spec.error,
            losses: Correlated::default(),
            ahead: VecDeque::new(),
            next: 0,
            wanted: 0,
            arrived: BTreeMap::new(),
            lost: 0,
        }
    }

    /// The MCS at `now` and the bits of a symbol; `None` before a recording is read.
    pub(super) fn mcs(&self, now: Instant) -> Option<(u8, u32)> {
        let after = self.mcs.partition_point(|(at, _)| *at <= now);
        let (_, mcs) = self.mcs.get(after.checked_sub(1)?)?;
        Some((*mcs, self.phy.bits(*mcs)?))
    }

    /// Sends with this MCS from now on.
    pub(super) fn set_mcs(&mut self, mcs: u8) {
        self.mcs = Arc::new(vec![(Instant::ZERO, mcs)]);
    }

    /// Whether frames are to be sent before all that wait.
    pub(super) fn is_ahead(&self) -> bool {
        !self.ahead.is_empty()
    }

    /// Takes a packet off the queue, to be sent before all that wait.
    pub(super) fn put(&mut self, packet: Box<Packet>) {
        let frame = self.number(packet);
        self.ahead.push_back(frame);
    }

    fn number(&mut self, packet: Box<Packet>) -> Frame {
        let number = self.next;
        self.next += 1;
        Frame {
            number,
            sent: 0,
            packet,
        }
    }

    /// An aggregate of what there is: first of what is ahead, then of what `pull` gives; `None` if
    /// that is nothing.
    pub(super) fn aggregate(
        &mut self,
        now: Instant,
        bounds: Bounds,
        mut pull: impl FnMut() -> Option<Box<Packet>>,
    ) -> Option<Aggregate> {
        let (mcs, bits) = self.mcs(now)?;
        let (mut frames, mut bytes) = (Vec::new(), 0);
        while frames.len() < bounds.frames as usize {
            let frame = match self.ahead.pop_front() {
                Some(frame) => frame,
                None => match pull() {
                    Some(packet) => self.number(packet),
                    None => break,
                },
            };
            let larger = bytes + subframe(frame.packet.len());
            let fits = larger <= bounds.bytes
                && self.phy.ppdu(bits, larger) <= bounds.airtime
                && frame.number < self.wanted + u64::from(WINDOW);
            // Alone a frame is sent however long it takes.
            if !fits && !frames.is_empty() {
                self.ahead.push_front(frame);
                break;
            }
            bytes = larger;
            frames.push(frame);
        }
        (!frames.is_empty()).then(|| Aggregate {
            frames,
            airtime: self.phy.ppdu(bits, bytes),
            answer: SIFS + block_ack(mcs),
        })
    }

    /// An aggregate has come to its end; `pass` takes what the receiver passes on. Whether any
    /// frame arrived, or was given up.
    pub(super) fn receive(
        &mut self,
        now: Instant,
        frames: Vec<Frame>,
        rng: &mut Rng,
        out: &mut Outlet<'_>,
        mut pass: impl FnMut(Box<Packet>, &mut Outlet<'_>),
    ) -> bool {
        let mut failed = VecDeque::new();
        let sent = frames.len();
        for mut frame in frames {
            frame.sent += 1;
            let error = self.losses.happens(self.error, Percent::ZERO, rng);
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
        let any = failed.len() < sent;
        failed.append(&mut self.ahead);
        self.ahead = failed;
        while let Some(next) = self.arrived.remove(&self.wanted) {
            self.wanted += 1;
            if let Some(packet) = next {
                pass(packet, out);
            }
        }
        any
    }
}

#[cfg(test)]
mod tests {
    use narrows_core::PacketPool;

    use super::*;
    use crate::ElementSpec;
    use crate::testing::{Record, ms};

    /// The originator's window is that of the block ack: 64 from the first that is not received
    /// (IEEE Std 802.11-2020, 10.25.6).
    #[test]
    fn no_frame_is_sent_that_is_64_or_more_behind_the_first_that_did_not_arrive() {
        let Ok(ElementSpec::Wifi(spec)) = ElementSpec::parse("wifi mcs 9") else {
            panic!("words of a link")
        };
        let (mut pool, mut record, mut sent) = (PacketPool::new(), Record::default(), Vec::new());
        let mut station = Station::new(&spec, EntityId(0), 0);
        let mut waiting: Vec<_> = (0..200).map(|_| pool.take(ms(1), None)).collect();
        let mut aggregate = |station: &mut Station| {
            let built = station.aggregate(ms(1), spec.bounds, || waiting.pop());
            built.expect("frames").frames
        };
        let mut frames = aggregate(&mut station);
        assert_eq!(frames.len(), WINDOW as usize);
        let first = frames.remove(0);
        let mut out = Outlet {
            pool: &mut pool,
            events: &mut record,
            sent: &mut sent,
        };
        let mut rng = Rng::for_name(1, "radio");
        station.receive(ms(2), frames, &mut rng, &mut out, |_, _| {
            panic!("what is behind the first waits for it")
        });
        station.ahead.push_front(first);
        let again = aggregate(&mut station);
        assert_eq!(again.iter().map(|f| f.number).collect::<Vec<_>>(), [0]);
    }
}
