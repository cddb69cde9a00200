//! The estimators of one flow. They need nothing of what else is kept of it but
//! what each packet brings them.

mod handshake;
mod seq_ack;
mod timestamps;

use narrows_units::Duration;
use narrows_wire::efm::Profile;
use narrows_wire::{Ecn, TcpFlags};

use self::handshake::Handshake;
use self::seq_ack::SeqAck;
use self::timestamps::Timestamps;
use super::EcnCounts;
use super::way::Order;
use crate::batches::{BatchCounts, Count};
use crate::classify::Segment;
use crate::config::{ObserverConfig, ObserverMode};
use crate::estimate::{Basis, Estimate, of_mean, of_means};
use crate::mean::{Mean, RttMeans};
use crate::probes::Room;
use crate::sample::{Measured, Now, Quantity, Sample, Side, Technique};
use crate::signals::Signals;

/// Round trips by timestamps, and their means.
#[derive(Debug, Default)]
pub(crate) struct Stamped {
    pub timestamps: Timestamps,
    pub all: Option<Box<RttMeans>>,
    pub single: Option<Box<[Mean; 2]>>,
}

/// Round trips by acknowledgements, and their means.
#[derive(Debug, Default)]
pub(crate) struct Acked {
    pub seq_ack: SeqAck,
    pub left: Mean,
    pub right: Mean,
}

/// What a segment does to the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    None,
    /// A SYN.
    Asked,
    /// A SYN-ACK.
    Answered,
    /// The first acknowledgement of the initiator.
    Acknowledged,
}

/// What the estimators need to know of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passed {
    pub now: Now,
    pub segment: Segment,
    /// Where the newest data of its side ended before it.
    pub newest: u32,
    pub side: Side,
    pub ecn: Ecn,
    pub order: Order,
    /// The signals that it carries.
    pub profile: Profile,
    /// Whether packets before it carried any.
    pub marked: bool,
    /// Whether the flow's counts are kept in a ledger from it on.
    pub counting: bool,
    pub opening: Opening,
}

/// What they keep. The handshake, which few packets need, comes last.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Estimators {
    pub stamped: Option<Box<Stamped>>,
    pub acked: Option<Box<Acked>>,
    pub signals: Option<Box<Signals>>,
    pub batches: Option<Box<BatchCounts>>,
    /// The least full round trip that is sure, for judging edges.
    floor: u64,
    pub handshake: Handshake,
}

impl Default for Estimators {
    fn default() -> Self {
        Self {
            stamped: None,
            acked: None,
            signals: None,
            batches: None,
            floor: u64::MAX,
            handshake: Handshake::default(),
        }
    }
}

impl Estimators {
    /// Places of the shared room that they have.
    pub fn held(&self) -> usize {
        let stamped = self.stamped.as_ref().map_or(0, |s| s.timestamps.held());
        stamped + self.acked.as_ref().map_or(0, |a| a.seq_ack.held())
    }

    /// A segment. Adds the samples that it completes to `out`.
    #[inline]
    pub fn segment(
        &mut self,
        passed: &Passed,
        config: &ObserverConfig,
        room: &mut Room,
        out: &mut Vec<Sample>,
    ) {
        let Passed { segment, side, .. } = passed;
        self.count(*side, passed.ecn);
        let flags = segment.flags;
        if flags.has(TcpFlags::RST) {
            return;
        }
        let begun = out.len();
        match passed.opening {
            Opening::None => {}
            Opening::Asked => self.handshake.syn(passed.now),
            Opening::Answered => self.handshake.syn_ack(passed.now, out),
            Opening::Acknowledged => self.handshake.ack(passed.now, out),
        }
        if let Some(pair) = segment.timestamps {
            let stamped = self.stamped.get_or_insert_with(Default::default);
            stamped
                .timestamps
                .packet(*side, pair, passed.now, room, out);
        }
        if !flags.has(TcpFlags::SYN) {
            if !(passed.marked && config.mode == ObserverMode::Thesis) {
                self.acknowledged(passed, room, out);
            }
            if passed.marked || config.profile.is_some() {
                self.marked(passed, config, out);
            }
        }
        self.take(out, begun, config.mode == ObserverMode::Rfc);
    }

    fn acknowledged(&mut self, passed: &Passed, room: &mut Room, out: &mut Vec<Sample>) {
        let Passed { segment, side, .. } = passed;
        if segment.payload > 0 || segment.flags.has(TcpFlags::FIN) {
            let acked = self.acked.get_or_insert_with(Default::default);
            if passed.order.new_data {
                acked.seq_ack.data(*side, segment.end(), passed.now, room);
            } else {
                acked.seq_ack.again(*side, passed.newest);
            }
        }
        if let (Some(acked), true) = (&mut self.acked, segment.flags.has(TcpFlags::ACK)) {
            acked.seq_ack.ack(*side, segment.ack, passed.now, room, out);
        }
    }

    fn marked(&mut self, passed: &Passed, config: &ObserverConfig, out: &mut Vec<Sample>) {
        let floor = self.floor();
        let signals = self.signals.get_or_insert_with(|| {
            let mut signals = Box::new(Signals::new(passed.profile, config));
            if let Some(right) = self.handshake.parts().1 {
                signals.reached(Side::Responder, right.as_nanos());
            }
            signals
        });
        let batches = self.batches.as_deref_mut();
        let segment = &passed.segment;
        let bits = (segment.flags.measurement_bits(), (segment.seq, segment.ack));
        let newer = passed.order.newer;
        signals.packet(passed.side, bits, newer, floor, passed.now, batches, out);
    }

    /// Adds what handshake, acknowledgements and timestamps came to.
    pub fn estimates(&self, all: &mut Vec<Estimate>) {
        self.handshake.estimates(all);
        if let Some(acked) = &self.acked {
            let rejected = u64::from(acked.seq_ack.rejected);
            let how = (Technique::SeqAck, rejected, Basis::Measured);
            all.extend(of_mean(&acked.left, Quantity::LeftRtt, how));
            all.extend(of_mean(&acked.right, Quantity::RightRtt, how));
        }
        if let Some(stamped) = &self.stamped {
            if let Some(single) = &stamped.single {
                for side in Side::BOTH {
                    let how = (Technique::TsSingle, 0, Basis::Measured);
                    let mean = &single[side.index()];
                    all.extend(of_mean(mean, Quantity::FullRtt(side), how));
                }
            }
            let rejected = u64::from(stamped.timestamps.rejected);
            let how = (Technique::TsAll, rejected, Basis::Measured);
            of_means(stamped.all.as_deref(), how, all);
        }
    }

    /// Keeps counts in a ledger from now on, those so far too.
    #[cold]
    pub fn begin_ledger(&mut self, early: &EcnCounts) {
        let mut batches = Box::<BatchCounts>::default();
        self.early(early, &mut batches);
        if let Some(signals) = &mut self.signals {
            signals.hand_over();
        }
        self.batches = Some(batches);
    }

    /// Keeps counts in an empty ledger from now on.
    pub fn restart_ledger(&mut self) {
        if let Some(signals) = &mut self.signals {
            signals.hand_over();
        }
        self.batches = Some(Box::default());
    }

    /// Puts what was counted before there was a ledger into one.
    pub fn early(&self, early: &EcnCounts, batches: &mut BatchCounts) {
        for side in Side::BOTH {
            let [_, ect1, ect0, ce] = early[side.index()];
            let capable = ect0.saturating_add(ect1).saturating_add(ce);
            batches.add(side.index(), Count::Ce, ce, capable);
        }
        if let Some(signals) = &self.signals {
            signals.early(batches);
        }
    }

    /// Counts a packet in the ledger, if there is one.
    pub fn count(&mut self, side: Side, ecn: Ecn) {
        if let Some(batches) = &mut self.batches {
            batches.packet();
            if ecn.is_capable() {
                batches.add(side.index(), Count::Ce, u32::from(ecn == Ecn::Ce), 1);
            }
        }
    }

    /// The least full round trip that is sure, in nanoseconds.
    pub fn floor(&self) -> Option<u64> {
        (self.floor != u64::MAX).then_some(self.floor)
    }

    /// A round trip between the observer and one end, for pairing blocks.
    fn reached(&mut self, part: Quantity, rtt: Duration) {
        let side = match part {
            Quantity::LeftRtt => Side::Initiator,
            Quantity::RightRtt => Side::Responder,
            _ => return,
        };
        if let Some(signals) = &mut self.signals {
            signals.reached(side, rtt.as_nanos());
        }
    }

    /// Adds samples from `begun` on to the means of their techniques. Those that span
    /// a timeout are removed if `timed`, as TCP's are.
    pub fn take(&mut self, samples: &mut Vec<Sample>, begun: usize, timed: bool) {
        let mut at = begun;
        while let Some(sample) = samples.get(at) {
            if self.takes(sample, timed) {
                at += 1;
            } else {
                samples.remove(at);
            }
        }
    }

    fn takes(&mut self, sample: &Sample, timed: bool) -> bool {
        let Measured::Rtt(rtt) = sample.value else {
            return true;
        };
        let ms = rtt.as_millis_f64();
        let full = matches!(sample.quantity, Quantity::FullRtt(_));
        let add = |mean: &mut Mean| {
            if timed && !mean.add_timely(ms) {
                return false;
            }
            if !timed {
                mean.add(ms);
            }
            if sample.weight > 1 {
                mean.repeat(ms, sample.weight - 1);
            }
            true
        };
        match sample.technique {
            Technique::Handshake => {
                self.handshake.keep(sample.quantity, rtt);
                self.reached(sample.quantity, rtt);
            }
            Technique::SeqAck => {
                self.reached(sample.quantity, rtt);
                if let Some(acked) = &mut self.acked {
                    let mean = match sample.quantity {
                        Quantity::LeftRtt => &mut acked.left,
                        _ => &mut acked.right,
                    };
                    mean.add(ms);
                    if sample.weight > 1 {
                        mean.repeat(ms, sample.weight - 1);
                    }
                }
            }
            Technique::TsAll => {
                if let Some(stamped) = &mut self.stamped {
                    if !add(mean_of(&mut stamped.all, sample.quantity)) {
                        return false;
                    }
                }
            }
            Technique::TsSingle => {
                if let (Some(stamped), Quantity::FullRtt(side)) =
                    (&mut self.stamped, sample.quantity)
                {
                    let means = stamped.single.get_or_insert_with(Default::default);
                    if !add(&mut means[side.index()]) {
                        return false;
                    }
                }
            }
            // Kept with the numbers themselves.
            Technique::PsnPse => {}
            // Its signals are dropped rather than held.
            Technique::Delay => {
                if let Some(signals) = &mut self.signals {
                    mean_of(signals.means(sample.technique), sample.quantity).add(ms);
                }
                return true;
            }
            _ => {
                let signals = self.signals.as_mut();
                return signals
                    .is_none_or(|m| add(mean_of(m.means(sample.technique), sample.quantity)));
            }
        }
        if full {
            self.floor = self.floor.min(rtt.as_nanos());
        }
        true
    }
}

/// The mean of `quantity`.
fn mean_of(means: &mut Option<Box<RttMeans>>, quantity: Quantity) -> &mut Mean {
    let means = means.get_or_insert_with(Default::default);
    match quantity {
        Quantity::FullRtt(side) => &mut means.full[side.index()],
        Quantity::LeftRtt => &mut means.left,
        _ => &mut means.right,
    }
}

/// Adds a round trip to the mean of its quantity.
pub(super) fn add(means: &mut Option<Box<RttMeans>>, quantity: Quantity, ms: f64) {
    mean_of(means, quantity).add(ms);
}
