//! The signals of RFC 9506 in one flow: hands each packet's bits to the
//! estimators that read them.

use narrows_wire::efm::{Profile, Signal};

use crate::batches::{Account, BatchCounts, Count, Row};
use crate::config::{ObserverConfig, ObserverMode};
use crate::delay::{Delay, Rule};
use crate::mean::RttMeans;
use crate::reflection::Reflection;
use crate::sample::{Measured, Now, Quantity, Sample, Side, Technique, whole_id};
use crate::spin::{Shown, Spin, SpinClass};
use crate::square::{Closed, Known, Square};
use crate::trains::Trains;
use crate::visible;

/// The gap below which spindump, and with it the thesis, take two delay marks
/// for a round trip: 90 % of 250 ms.
const NAIVE_CUT_OFF_NS: u64 = 225_000_000;

/// The place of each signal in byte 12, or in the bits of a visible header.
#[derive(Clone, Copy, Debug, Default)]
struct Masks {
    spin: u8,
    vec: u8,
    delay: u8,
    square: u8,
    loss: u8,
    reflection: u8,
    train: u8,
    ecn_echo: u8,
}

impl Masks {
    fn of(profile: Profile) -> Self {
        Self {
            spin: profile.mask(Signal::Spin),
            vec: profile.mask(Signal::Vec),
            delay: profile.mask(Signal::Delay),
            square: profile.mask(Signal::Square),
            loss: profile.mask(Signal::Loss),
            reflection: profile.mask(Signal::Reflection),
            train: profile.mask(Signal::RoundTripLoss),
            ecn_echo: profile.mask(Signal::EcnEcho),
        }
    }
}

/// Whether some of these signals, bits of [`Signal`], count packets.
pub(crate) const fn count_packets(signals: u8) -> bool {
    let counting = Signal::Square as u8
        | Signal::Loss as u8
        | Signal::EcnEcho as u8
        | Signal::RoundTripLoss as u8;
    signals & counting != 0
}

/// The signals of one flow. What every packet needs comes first; what the
/// flow's profile lacks takes no room.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Signals {
    masks: Masks,
    spin: Option<Box<Spin>>,
    delay: Option<Box<Delay>>,
    /// Q of both directions.
    squares: Option<Box<[Square; 2]>>,
    /// R of both directions.
    reflections: Option<Box<[Reflection; 2]>>,
    trains: Option<Box<[Trains; 2]>>,
    /// Bits of [`Signal`].
    signals: u8,
    /// Whether a signal that was never seen is one that the sender may not have.
    optional: bool,
    /// Bits that were ever set.
    seen: u8,
    /// What was counted before there was a ledger, if anything is.
    early: Option<Box<Row>>,
    means: [Option<Box<RttMeans>>; 6],
}

impl Signals {
    /// Signals of a TCP flow with this profile.
    pub fn new(profile: Profile, config: &ObserverConfig) -> Self {
        Self::with(profile.bits(), Masks::of(profile), config)
    }

    /// Signals of a flow whose header has a place for each, whether its sender
    /// uses it or not; those of loss only where `loss`.
    pub fn visible(loss: bool, config: &ObserverConfig) -> Self {
        let masks = Masks {
            spin: visible::SPIN,
            vec: visible::VEC,
            square: if loss { visible::SQUARE } else { 0 },
            loss: if loss { visible::LOSS } else { 0 },
            ..Masks::default()
        };
        let mut signals = Signal::Spin as u8 | Signal::Vec as u8;
        if loss {
            signals |= Signal::Square as u8 | Signal::Loss as u8;
        }
        Self {
            optional: true,
            ..Self::with(signals, masks, config)
        }
    }

    fn with(signals: u8, masks: Masks, config: &ObserverConfig) -> Self {
        let has = |signal: Signal| signals & signal as u8 != 0;
        let pinned = &config.pinned;
        let rule = match (pinned.t_max, config.mode) {
            (Some(t_max), _) => Rule::Pinned(t_max.as_nanos()),
            (None, ObserverMode::Thesis) => Rule::Naive(NAIVE_CUT_OFF_NS),
            (None, ObserverMode::Rfc) => Rule::Learn,
        };
        let wave = || Square::new(pinned.block, pinned.reordering);
        let reflection = || Reflection::new(wave());
        Self {
            masks,
            signals,
            optional: false,
            seen: 0,
            spin: has(Signal::Spin).then(|| Box::new(Spin::new(config.mode))),
            delay: has(Signal::Delay).then(|| Box::new(Delay::new(rule))),
            squares: has(Signal::Square).then(|| Box::new([wave(), wave()])),
            reflections: has(Signal::Reflection).then(|| Box::new([reflection(), reflection()])),
            trains: has(Signal::RoundTripLoss).then(Box::<[Trains; 2]>::default),
            early: count_packets(signals).then(Box::default),
            means: Default::default(),
        }
    }

    /// QUIC's: the spin bit alone, of packets of which nobody on the path can
    /// tell the order.
    pub fn of_quic(config: &ObserverConfig) -> Self {
        let mut marks = Self::new(Profile::of(&[Signal::Spin]).unwrap_or_default(), config);
        if let Some(spin) = &mut marks.spin {
            spin.without_numbers();
        }
        marks
    }

    /// The spin bit of a packet that shows nothing else. `floor` is what a round
    /// trip needs at least, `parts` on the initiator's side and on the
    /// responder's, in nanoseconds.
    pub fn spin_alone(
        &mut self,
        (side, spin): (Side, bool),
        floor: Option<u64>,
        parts: [u64; 2],
        now: Now,
        out: &mut Vec<Sample>,
    ) {
        let shown = Shown {
            side,
            spin,
            vec: None,
            newer: true,
        };
        if let Some(spin) = &mut self.spin {
            spin.path(parts);
            spin.packet(shown, floor, now, out);
        }
    }

    /// Whether the flow's packets carry `signal`.
    pub fn has(&self, signal: Signal) -> bool {
        let unused = self.optional && signal == Signal::Loss && self.seen & self.masks.loss == 0;
        self.signals & signal as u8 != 0 && !unused
    }

    /// Whether packets need counting.
    pub fn counts(&self) -> bool {
        count_packets(self.signals)
    }

    pub fn spin_class(&self) -> SpinClass {
        self.spin.as_ref().map_or(SpinClass::Unknown, |s| s.class())
    }

    pub fn spin(&self) -> Option<&Spin> {
        self.spin.as_deref()
    }

    pub fn delay(&self) -> Option<&Delay> {
        self.delay.as_deref()
    }

    /// The Q wave of one side.
    pub fn square(&self, side: Side) -> Option<&Square> {
        self.squares.as_ref().map(|s| &s[side.index()])
    }

    /// The R wave of one side.
    pub fn reflection(&self, side: Side) -> Option<&Square> {
        self.reflections.as_ref().map(|r| &r[side.index()].wave)
    }

    /// A round trip between the observer and `side`, in nanoseconds.
    pub fn reached(&mut self, side: Side, rtt: u64) {
        if let Some(reflections) = &mut self.reflections {
            reflections[side.index()].reached(rtt);
        }
    }

    pub fn trains(&self, side: Side) -> Option<&Trains> {
        self.trains.as_ref().map(|t| &t[side.index()])
    }

    /// The means of a technique that reads marks.
    pub fn means(&mut self, technique: Technique) -> &mut Option<Box<RttMeans>> {
        &mut self.means[slot(technique)]
    }

    /// The means of a technique, if it has any.
    pub fn means_of(&self, technique: Technique) -> Option<&RttMeans> {
        self.means[slot(technique)].as_deref()
    }

    /// Puts what was counted without a ledger into one.
    pub fn early(&self, batches: &mut BatchCounts) {
        if let Some(early) = &self.early {
            batches.add_early(early);
        }
    }

    /// From now on there is a ledger, and it has the early counts.
    pub fn hand_over(&mut self) {
        self.early = None;
    }

    /// A packet of the flow that is no SYN, with its bits; `numbers` tell
    /// copies of it from it.
    #[allow(clippy::too_many_arguments)]
    pub fn packet(
        &mut self,
        side: Side,
        (bits, numbers): (u8, (u32, u32)),
        newer: bool,
        floor: Option<u64>,
        now: Now,
        batches: Option<&mut BatchCounts>,
        out: &mut Vec<Sample>,
    ) {
        let mut early = self.early.take();
        let mut account = match (batches, &mut early) {
            (Some(batches), _) => Account::BatchCounts(batches),
            (None, Some(early)) => Account::Early(early),
            (None, None) => Account::Nothing,
        };
        self.seen |= bits;
        let has = |mask: u8| bits & mask != 0;
        let masks = self.masks;
        if let Some(spin) = &mut self.spin {
            let shown = Shown {
                side,
                spin: has(masks.spin),
                vec: (masks.vec != 0).then_some((bits & masks.vec) >> 1),
                newer,
            };
            spin.packet(shown, floor, now, out);
        }
        if let (Some(delay), true) = (&mut self.delay, has(masks.delay)) {
            delay.mark(side, numbers, floor, now, out);
        }
        self.loss_marks(side, has(masks.loss), has(masks.ecn_echo), &mut account);
        if let (Some(trains), spin) = (&mut self.trains, has(masks.spin)) {
            let pair = trains[side.index()].packet(spin, has(masks.train), newer, now.id);
            if let Some(pair) = pair {
                account.add(side.index(), Count::Train, pair.reflected, pair.generated);
                out.push(Sample {
                    at: narrows_units::Instant::from_nanos(now.at),
                    technique: Technique::RoundTripLoss,
                    quantity: Quantity::RoundTripLoss(side),
                    value: Measured::Block {
                        sent: pair.generated,
                        received: pair.reflected,
                    },
                    first: whole_id(pair.first, now.id),
                    last: whole_id(pair.last, now.id),
                    weight: 1,
                });
            }
        }
        if self.squares.is_some() {
            self.square_packet(
                side,
                (has(masks.square), has(masks.reflection), newer),
                now,
                &mut account,
                out,
            );
        }
        self.early = early;
    }

    fn loss_marks(&self, side: Side, loss: bool, echo: bool, account: &mut Account<'_>) {
        if self.masks.loss != 0 {
            account.add(side.index(), Count::Loss, u32::from(loss), 1);
        }
        if self.masks.ecn_echo != 0 {
            account.add(side.index(), Count::EcnEcho, u32::from(echo), 1);
        }
    }

    fn square_packet(
        &mut self,
        side: Side,
        (square, bit, newer): (bool, bool, bool),
        now: Now,
        account: &mut Account<'_>,
        out: &mut Vec<Sample>,
    ) {
        let Some(squares) = &mut self.squares else {
            return;
        };
        let (own, other) = (side.index(), side.other().index());
        let mut note = |closed, technique, quantity, count, (weight, of): (u32, u32)| match closed {
            Some(Closed::Block(block)) => {
                let counted = |packets: u32| packets * weight / of;
                account.add(own, count, counted(block.received), counted(block.sent));
                out.push(block.sample(now, technique, quantity));
            }
            Some(Closed::Restart) => account.clear(own, count),
            None => {}
        };
        let closed = squares[own].packet(square, newer, now);
        let quantity = Quantity::UpstreamLoss(side);
        note(closed, Technique::Square, quantity, Count::Square, (1, 1));
        let Some(reflections) = &mut self.reflections else {
            return;
        };
        if let Some(Closed::Block(block)) = closed {
            reflections[other].passed(squares[own].blocks_of(&block), now.at);
        }
        // R reflects the other side's blocks, of which the observer knows N.
        let n = squares[other].n();
        let reflection = &mut reflections[own];
        let before = reflection.wave.n();
        let quantity = Quantity::ThreeQuarterLoss(side);
        let (technique, count) = (Technique::Reflection, Count::Reflection);
        if n != before {
            reflection.wave.set_n(n);
            if n.0 != before.0 && before.1 != Known::Pinned {
                note(Some(Closed::Restart), technique, quantity, count, (1, 1));
            }
        }
        let closed = reflection.wave.packet(bit, newer, now);
        // An average over R blocks would count a loss for less where
        // acknowledgements are fewer just after it than at other times, as where
        // SACKs are held back. Who sees nothing of the other side has no choice.
        let mut weight = (1, 1);
        if let Some(Closed::Block(block)) = closed {
            if squares[other].blocks > 0 {
                let blocks = reflection.averages(block.until);
                weight = (blocks, reflection.wave.blocks_of(&block));
            }
        }
        note(closed, technique, quantity, count, weight);
    }
}

fn slot(technique: Technique) -> usize {
    match technique {
        Technique::Spin => 0,
        Technique::SpinPacketNumber => 1,
        Technique::SpinHeuristic => 2,
        Technique::Vec => 3,
        Technique::VecNonZero => 4,
        _ => 5,
    }
}
