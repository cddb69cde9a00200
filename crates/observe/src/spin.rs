//! The spin bit (RFC 9506 §2.1), read in five ways at once.

mod class;

use crate::config::ObserverMode;
use crate::heuristic::Plausible;
use crate::sample::{Now, Quantity, Sample, Side, Technique};

use class::Habits;
pub use class::SpinClass;

/// Round trips longer than this are no round trips: spindump's bound.
const LONGEST_NS: u64 = 60_000_000_000;
/// The last edge of one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Wave {
    value: Option<bool>,
    edge: Option<(u64, u32)>,
    /// Whether the edge waits for the other direction's.
    waits: bool,
}

/// The waves of both directions as one technique sees them.
#[derive(Debug)]
struct Waves {
    technique: Technique,
    sides: [Wave; 2],
}

impl Waves {
    fn new(technique: Technique) -> Self {
        Self {
            technique,
            sides: Default::default(),
        }
    }

    /// Whether `value` differs from what this side showed last.
    fn changes(&self, side: Side, value: bool) -> bool {
        let before = self.sides[side.index()].value;
        before.is_some_and(|b| b != value)
    }

    fn set(&mut self, side: Side, value: bool) {
        self.sides[side.index()].value = Some(value);
    }

    /// An edge to `value`: closes the whole round trip of its direction if
    /// `full`, and the component from the other direction's edge if `part`.
    /// The responder repeats a value, the initiator inverts it, so an edge of
    /// the responder answers an equal one and an edge of the initiator an
    /// inverse one.
    fn edge(
        &mut self,
        side: Side,
        value: bool,
        now: Now,
        (full, part): (bool, bool),
        out: &mut Vec<Sample>,
    ) {
        let (own, other) = (side.index(), side.other().index());
        if let (Some((at, packet)), true) = (self.sides[own].edge, full) {
            if now.at.saturating_sub(at) <= LONGEST_NS {
                out.push(now.rtt(self.technique, Quantity::FullRtt(side), at, packet));
            }
        }
        let (answers, component) = match side {
            Side::Responder => (Some(value), Quantity::RightRtt),
            Side::Initiator => (Some(!value), Quantity::LeftRtt),
        };
        let opposite = &mut self.sides[other];
        if let (Some((at, packet)), true) = (opposite.edge, opposite.waits) {
            if opposite.value == answers {
                opposite.waits = false;
                if part && now.at.saturating_sub(at) <= LONGEST_NS {
                    out.push(now.rtt(self.technique, component, at, packet));
                }
            }
        }
        self.sides[own] = Wave {
            value: Some(value),
            edge: Some((now.at, now.id as u32)),
            waits: true,
        };
    }
}

/// What a packet shows of the spin signal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub side: Side,
    pub spin: bool,
    /// The valid edge counter, where the profile has one.
    pub vec: Option<u8>,
    /// Whether the packet was sent after all before it.
    pub newer: bool,
}

/// All readings of one flow's spin bit. What a packet touches that changes
/// nothing comes first, in a line of the cache.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Spin {
    habits: Habits,
    /// The value of each side that all readings have seen last, if they agree.
    agreed: [Option<bool>; 2],
    /// Only every edge, whatever the bit does otherwise.
    naive: bool,
    basic: Waves,
    ordered: Waves,
    heuristic: Waves,
    plausible: [Plausible; 2],
    vec: Waves,
    nonzero: Waves,
    /// Edges that a technique did not take, in the order of [`TECHNIQUES`].
    rejected: [u32; 5],
}

/// The techniques, in the order in which their rejections are counted.
const TECHNIQUES: [Technique; 5] = [
    Technique::Spin,
    Technique::SpinPacketNumber,
    Technique::SpinHeuristic,
    Technique::Vec,
    Technique::VecNonZero,
];

impl Spin {
    pub fn new(mode: ObserverMode) -> Self {
        let [basic, ordered, heuristic, vec, nonzero] = TECHNIQUES.map(Waves::new);
        Self {
            habits: Habits::default(),
            agreed: [None; 2],
            naive: mode == ObserverMode::Thesis,
            basic,
            ordered,
            heuristic,
            plausible: Default::default(),
            vec,
            nonzero,
            rejected: [0; 5],
        }
    }

    /// Packets do not show in which order they were sent: nothing is said of
    /// what their numbers would give.
    pub fn without_numbers(&mut self) {
        self.habits.numbered = false;
    }

    /// What the path needs at least on the initiator's side and on the
    /// responder's, in nanoseconds; 0 where that is unknown.
    pub fn path(&mut self, parts: [u64; 2]) {
        self.habits.path(parts);
    }

    pub fn class(&self) -> SpinClass {
        self.habits.class
    }

    /// Edges that were seen and not taken by `technique`.
    pub fn rejected(&self, technique: Technique) -> u32 {
        let at = TECHNIQUES.iter().position(|t| *t == technique);
        at.map_or(0, |at| self.rejected[at])
    }

    /// A packet. Samples go to `out` once the bit is known to spin.
    pub fn packet(&mut self, shown: Shown, floor: Option<u64>, now: Now, out: &mut Vec<Sample>) {
        let Shown { side, spin, .. } = shown;
        let own = side.index();
        if self.agreed[own] == Some(spin) && shown.vec.unwrap_or(0) == 0 {
            if shown.newer {
                self.habits.packet(side);
                self.habits.judge(side, floor, now.at);
            }
            return;
        }
        let held = out.len();
        if self.basic.changes(side, spin) {
            self.basic.edge(side, spin, now, (true, true), out);
        } else {
            self.basic.set(side, spin);
        }
        if self.naive {
            self.habits.class = SpinClass::Spinning;
            return;
        }
        self.ordered(shown, now, out);
        self.heuristic(shown, now, out);
        if let Some(vec) = shown.vec {
            self.counted(shown, vec, now, out);
        }
        // The others follow the bit, this one the order of packets.
        let ordered = self.ordered.sides[own].value;
        self.agreed[own] = ordered.filter(|value| *value == spin);
        if shown.newer {
            self.habits.judge(side, floor, now.at);
        }
        if self.habits.class != SpinClass::Spinning {
            for sample in out.drain(held..) {
                let at = TECHNIQUES.iter().position(|t| *t == sample.technique);
                self.rejected[at.unwrap_or_default()] += 1;
            }
        }
    }

    fn ordered(&mut self, shown: Shown, now: Now, out: &mut Vec<Sample>) {
        let change = self.ordered.changes(shown.side, shown.spin);
        if !shown.newer {
            self.rejected[1] += u32::from(change);
            return;
        }
        self.habits.packet(shown.side);
        if !change {
            self.ordered.set(shown.side, shown.spin);
            return;
        }
        self.habits.edge(shown.side, now.at);
        if !self.habits.numbered {
            self.ordered.set(shown.side, shown.spin);
            return;
        }
        self.ordered
            .edge(shown.side, shown.spin, now, (true, true), out);
    }

    fn heuristic(&mut self, shown: Shown, now: Now, out: &mut Vec<Sample>) {
        let Shown { side, spin, .. } = shown;
        if !self.heuristic.changes(side, spin) {
            self.heuristic.set(side, spin);
            return;
        }
        let before = self.heuristic.sides[side.index()].edge;
        let taken = before
            .is_none_or(|(at, _)| self.plausible[side.index()].takes(now.at.saturating_sub(at)));
        if taken {
            self.heuristic.edge(side, spin, now, (true, false), out);
        } else {
            // The value is followed, the time of the last edge is not.
            self.heuristic.set(side, spin);
            self.rejected[2] += 1;
        }
    }

    /// Edges with a counter: 1 begins a measurement, 2 completes a component,
    /// 3 the whole round trip (draft-trammell-tsvwg-spin-00 §4).
    fn counted(&mut self, shown: Shown, vec: u8, now: Now, out: &mut Vec<Sample>) {
        let Shown { side, spin, .. } = shown;
        if vec == 0 {
            self.rejected[3] += u32::from(self.vec.changes(side, spin));
            self.rejected[4] += u32::from(self.nonzero.changes(side, spin));
            self.vec.set(side, spin);
            self.nonzero.set(side, spin);
            return;
        }
        self.vec.edge(side, spin, now, (vec == 3, vec >= 2), out);
        self.nonzero.edge(side, spin, now, (true, false), out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Measured;

    pub(super) const MS: u64 = 1_000_000;

    /// A spinning flow: the observer is 10 ms from the initiator and 20 ms
    /// from the responder, one way; both send a packet each millisecond.
    fn spinning(ms: u64) -> Vec<(u64, Side, bool)> {
        let mut packets = Vec::new();
        for t in 0..ms {
            // The value changes each 60 ms at the initiator, 30 ms later at
            // the responder; they pass the observer 10 and 20 ms later.
            let at = |delay: u64| t.checked_sub(delay).map(|t| (t / 60) % 2 == 1);
            packets.push((t * MS, Side::Initiator, at(10).unwrap_or(false)));
            packets.push((t * MS, Side::Responder, at(50).unwrap_or(false)));
        }
        packets
    }

    pub(super) fn feed(
        spin: &mut Spin,
        packets: &[(u64, Side, bool)],
        newer: impl Fn(usize) -> bool,
    ) -> Vec<Sample> {
        feed_above(spin, None, packets, newer)
    }

    /// The same over a path that is known to need `floor` at least.
    pub(super) fn feed_above(
        spin: &mut Spin,
        floor: Option<u64>,
        packets: &[(u64, Side, bool)],
        newer: impl Fn(usize) -> bool,
    ) -> Vec<Sample> {
        let mut out = Vec::new();
        for (i, (at, side, value)) in packets.iter().enumerate() {
            let shown = Shown {
                side: *side,
                spin: *value,
                vec: None,
                newer: newer(i),
            };
            let now = Now {
                at: *at,
                id: i as u64,
            };
            spin.packet(shown, floor, now, &mut out);
        }
        out
    }

    fn values(out: &[Sample], technique: Technique, quantity: Quantity) -> Vec<f64> {
        out.iter()
            .filter(|s| (s.technique, s.quantity) == (technique, quantity))
            .map(|s| match s.value {
                Measured::Rtt(d) => d.as_millis_f64(),
                Measured::Block { .. } => f64::NAN,
            })
            .collect()
    }

    #[test]
    fn edges_give_full_left_and_right_round_trips() {
        let mut spin = Spin::new(ObserverMode::Rfc);
        let out = feed(&mut spin, &spinning(1_000), |_| true);
        assert_eq!(spin.class(), SpinClass::Spinning);
        for technique in [Technique::Spin, Technique::SpinPacketNumber] {
            for (quantity, ms) in [
                (Quantity::FullRtt(Side::Initiator), 60.0),
                (Quantity::FullRtt(Side::Responder), 60.0),
                (Quantity::RightRtt, 40.0),
                (Quantity::LeftRtt, 20.0),
            ] {
                let found = values(&out, technique, quantity);
                assert!(found.len() > 10, "{technique:?} {quantity:?}");
                assert!(found.iter().all(|v| *v == ms), "{quantity:?}: {found:?}");
            }
        }
        for sample in &out {
            assert!(sample.first < sample.last);
        }
    }

    #[test]
    fn a_late_packet_makes_false_edges_only_for_who_does_not_look_at_the_order() {
        let mut packets = spinning(2_000);
        // 500 ms: an old packet of the other value, not newer.
        let at = packets.iter().position(|p| p.0 == 500 * MS).unwrap();
        let value = packets[at].2;
        packets.insert(at, (500 * MS - 1, Side::Initiator, !value));
        let mut spin = Spin::new(ObserverMode::Rfc);
        let out = feed(&mut spin, &packets, |i| i != at);
        let full = Quantity::FullRtt(Side::Initiator);
        let least = |technique| {
            values(&out, technique, full)
                .into_iter()
                .fold(1e9, f64::min)
        };
        assert!(least(Technique::Spin) < 1.0);
        assert_eq!(least(Technique::SpinPacketNumber), 60.0);
        assert!(least(Technique::SpinHeuristic) >= 6.0);
        // The late packet, and a round trip before the bit was known to spin.
        assert_eq!(spin.rejected(Technique::SpinPacketNumber), 2);
    }

    #[test]
    fn the_counter_begins_at_one_completes_a_part_at_two_and_the_whole_at_three() {
        let mut spin = Spin::new(ObserverMode::Rfc);
        spin.habits.class = SpinClass::Spinning;
        let mut out = Vec::new();
        let edges = [
            (0, Side::Initiator, true, 1),
            (40, Side::Responder, true, 2),
            (60, Side::Initiator, false, 3),
            (100, Side::Responder, false, 3),
            (105, Side::Responder, true, 0), // a false edge
            (120, Side::Initiator, true, 3),
        ];
        for (id, (ms, side, value, vec)) in edges.into_iter().enumerate() {
            let shown = Shown {
                side,
                spin: value,
                vec: Some(vec),
                newer: true,
            };
            let now = Now {
                at: ms * MS,
                id: id as u64,
            };
            spin.counted(shown, vec, now, &mut out);
        }
        let found = |q| values(&out, Technique::Vec, q);
        assert_eq!(found(Quantity::RightRtt), [40.0, 40.0]);
        assert_eq!(found(Quantity::FullRtt(Side::Initiator)), [60.0, 60.0]);
        assert_eq!(found(Quantity::FullRtt(Side::Responder)), [60.0]);
        assert_eq!(spin.rejected(Technique::Vec), 1);
    }
}
