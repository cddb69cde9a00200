//! Whether a spin bit spins at all: QUIC lets any end leave it alone.

use crate::sample::Side;

/// Packets of a direction before its bit can be called random or fixed.
const ENOUGH_PACKETS: u32 = 64;
/// Packets before a bit that changes rarely is believed to spin. Of 31 random
/// changes, 9 or fewer happen in 1.5 % of cases.
const FEW_PACKETS: u32 = 32;
/// Of so many edges of a bit that spins, less than one is out of turn: a packet
/// that comes late makes two. That none of twelve is happens to 3 % of random
/// bits of which 25 % are, the least of the tests below.
const ORDERLY: u32 = 12;

/// What the spin bit of a flow does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpinClass {
    /// Too little was seen; no spin figure is given.
    #[default]
    Unknown,
    /// It changes about once in a round trip.
    Spinning,
    /// It keeps one value, as RFC 9000 §17.4 has it on some connections.
    Fixed,
    /// It changes at random from packet to packet.
    Greased,
}

impl SpinClass {
    /// The word for it in every output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Spinning => "spinning",
            Self::Fixed => "fixed",
            Self::Greased => "greased",
        }
    }
}

/// What a direction's bit has done so far.
#[derive(Clone, Copy, Debug, Default)]
struct Habit {
    packets: u32,
    edges: u32,
    first_edge: u64,
    last_edge: u64,
}

/// The order of edges. A bit that spins sends one edge round, which passes in one
/// direction and then in the other, when the path has let it. Random bits keep to
/// neither, however few packets there are in a round trip: where the initiator draws
/// them or both do, about 43 % of edges follow one of their own direction, and where
/// the responder does, its edges come before those that they would answer were there.
#[derive(Clone, Copy, Debug, Default)]
struct Turns {
    last: Option<(Side, u64)>,
    edges: u32,
    out_of_turn: u32,
    /// What the path needs on its initiator's side and on its responder's, in
    /// nanoseconds, by the handshake; 0 where that was not seen.
    parts: [u64; 2],
}

impl Turns {
    fn edge(&mut self, side: Side, at: u64) {
        self.edges = self.edges.saturating_add(1);
        if let Some((before, then)) = self.last {
            // The handshake's answers take longer than others, as keys are made.
            let early = at.saturating_sub(then) < self.parts[side.index()] / 2;
            self.out_of_turn += u32::from(before == side || early);
        }
        self.last = Some((side, at));
    }

    /// Whether fewer than one edge in [`ORDERLY`] is out of turn. Until there are
    /// as many, one is too many, and `at_once` says whether none is enough.
    fn kept(&self, at_once: bool) -> bool {
        let few = self.edges < ORDERLY && self.out_of_turn == 0;
        at_once && few || (self.out_of_turn + 1).saturating_mul(ORDERLY) <= self.edges
    }
}

impl Habit {
    /// `floor` is a round trip that the path is known to need at least, in
    /// nanoseconds, if edges are to be believed for coming as slowly, `rarity`
    /// whether they are for coming with few packets.
    fn class(&self, floor: Option<u64>, rarity: bool) -> SpinClass {
        if self.edges == 0 {
            return if self.packets >= ENOUGH_PACKETS {
                SpinClass::Fixed
            } else {
                SpinClass::Unknown
            };
        }
        if self.edges < 2 {
            return SpinClass::Unknown;
        }
        let gap = (self.last_edge - self.first_edge) / u64::from(self.edges - 1);
        // Random bits change on half of all packets.
        let rare = u64::from(self.edges) * 10 <= u64::from(self.packets) * 3;
        let believed = rarity && rare && self.packets >= FEW_PACKETS;
        if floor.is_some_and(|f| gap >= f / 2) || believed {
            SpinClass::Spinning
        } else if !rare && self.packets >= ENOUGH_PACKETS {
            SpinClass::Greased
        } else {
            SpinClass::Unknown
        }
    }
}

/// What both directions have done, and what that makes of the bit.
#[derive(Debug)]
#[repr(C)]
pub(super) struct Habits {
    ways: [Habit; 2],
    pub class: SpinClass,
    /// Whether packets show in which order they were sent.
    pub numbered: bool,
    turns: Turns,
}

impl Default for Habits {
    fn default() -> Self {
        Self {
            ways: Default::default(),
            class: SpinClass::Unknown,
            numbered: true,
            turns: Turns::default(),
        }
    }
}

impl Habits {
    /// What the path needs at least on the initiator's side and on the
    /// responder's, in nanoseconds; 0 where that is unknown.
    pub fn path(&mut self, parts: [u64; 2]) {
        self.turns.parts = parts;
    }

    /// A packet that was sent after all before it.
    pub fn packet(&mut self, side: Side) {
        let packets = &mut self.ways[side.index()].packets;
        *packets = packets.saturating_add(1);
    }

    /// The packet shows another value than the one before.
    pub fn edge(&mut self, side: Side, at: u64) {
        let way = &mut self.ways[side.index()];
        if way.edges == 0 {
            way.first_edge = at;
        }
        way.edges = way.edges.saturating_add(1);
        way.last_edge = at.max(way.first_edge);
        self.turns.edge(side, at);
    }

    /// Judges anew after a packet. `floor` is a round trip that the path is known to
    /// need at least, in nanoseconds.
    pub fn judge(&mut self, side: Side, floor: Option<u64>, at: u64) {
        let way = &self.ways[side.index()];
        // An edge may change the verdict at once, mere packets only in time.
        let edge = way.edges > 0 && way.last_edge == at;
        if !edge && way.packets % ENOUGH_PACKETS != 0 {
            return;
        }
        // Where only one direction is seen there is no order to keep. A stack
        // that shows the numbers of its packets is set to spin; of others most do.
        let [one, other] = self.ways.map(|w| w.packets);
        let one_way = one.min(other) == 0 && one.max(other) >= FEW_PACKETS;
        let orderly = one_way || self.turns.kept(self.numbered);
        // An initiator that repeats the few random bits of its responder changes
        // rarely: time for the responder to show that they are random.
        let rarity = orderly || self.numbered || one.min(other) >= ENOUGH_PACKETS;
        let floor = floor.filter(|_| orderly);
        let classes = self.ways.map(|w| w.class(floor, rarity));
        let has = |class| classes.contains(&class);
        self.class = if has(SpinClass::Greased) {
            SpinClass::Greased
        } else if has(SpinClass::Spinning) {
            SpinClass::Spinning
        } else if has(SpinClass::Fixed) {
            SpinClass::Fixed
        } else {
            SpinClass::Unknown
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::Spin;
    use super::super::tests::{MS, feed, feed_above};
    use super::*;
    use crate::config::ObserverMode;
    use narrows_units::Rng;

    #[test]
    fn random_and_fixed_bits_give_no_figure() {
        for greased in [true, false] {
            for seed in 0..50 {
                let mut rng = Rng::for_name(seed, "grease");
                let packets: Vec<_> = (0..500)
                    .map(|t| (t * MS, Side::Initiator, greased && rng.unit() < 0.5))
                    .collect();
                let mut spin = Spin::new(ObserverMode::Rfc);
                let out = feed(&mut spin, &packets, |_| true);
                let wanted = if greased {
                    SpinClass::Greased
                } else {
                    SpinClass::Fixed
                };
                assert_eq!(spin.class(), wanted);
                assert!(out.len() < 100, "seed {seed}: {}", out.len());
            }
        }
    }

    /// Packets of a slow flow in 10 ms of path, seen beside its initiator: of the
    /// initiator one in 4 ms, of the responder one in 8 ms. The ends in `greased`
    /// show random bits.
    fn slow(greased: [bool; 2], seed: u64) -> Vec<(u64, Side, bool)> {
        let mut rng = Rng::for_name(seed, "slow");
        let (mut packets, mut answer) = (Vec::new(), false);
        for at in (0..4_000).step_by(4) {
            let value = if greased[0] {
                rng.unit() < 0.5
            } else {
                !answer
            };
            packets.push((at * MS, Side::Initiator, value));
            if at % 8 == 0 && at >= 12 {
                let arrived =
                    |p: &&(u64, Side, bool)| p.1 == Side::Initiator && p.0 + 10 * MS <= at * MS;
                let reflected = packets.iter().rev().find(arrived).is_some_and(|p| p.2);
                answer = if greased[1] {
                    rng.unit() < 0.5
                } else {
                    reflected
                };
                packets.push((at * MS, Side::Responder, answer));
            }
        }
        packets
    }

    #[test]
    fn random_bits_as_slow_as_round_trips_are_told_from_a_spin() {
        let judged = |greased: [bool; 2], seed| {
            let mut spin = Spin::new(ObserverMode::Rfc);
            spin.without_numbers();
            spin.path([0, 10 * MS]);
            let packets = slow(greased, seed);
            let out = feed_above(&mut spin, Some(10 * MS), &packets, |_| true);
            (spin.class(), out.len())
        };
        let (class, samples) = judged([false, false], 0);
        assert_eq!(class, SpinClass::Spinning);
        assert!(samples > 400, "{samples}");
        for greased in [[true, false], [false, true], [true, true]] {
            let judged: Vec<_> = (0..100).map(|seed| judged(greased, seed)).collect();
            let believed = judged.iter().filter(|(_, samples)| *samples > 0).count();
            assert!(believed <= 10, "{greased:?}: {believed} of 100");
            assert!(judged.iter().all(|(class, _)| *class == SpinClass::Greased));
        }
    }
}
