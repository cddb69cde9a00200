//! Whether a kind of packet is blocked, or was lost as others are.
//!
//! A trial sends pairs: a test and a control, next to each other, which of them goes first being
//! drawn. If nothing on the path treats the two kinds differently, then of a pair of which only one
//! arrives it is the test with probability 1/2, whatever the losses are: rare or frequent, alone
//! or in bursts. A test counts as blocked when no test has arrived and, of [`DECISIVE`] pairs,
//! the control has. That happens by chance in 2^-20 of all trials at most, also when one looks
//! after every pair, for the first test that arrives ends it.

use narrows_units::Rng;
use narrows_wire::Ecn;

use crate::probe::{Probe, Shape, Way};

/// Pairs of which only the control arrived that show a block: 2^-20 is about one in a million.
pub(crate) const DECISIVE: usize = 20;

/// Pairs after which nothing is to be expected of a trial whose controls do not arrive.
const HOPELESS: usize = 40;

/// What a trial asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Question {
    /// Is UDP dropped where TCP passes?
    Udp,
    /// Is a SYN with data dropped where one without passes?
    SynData,
    /// Is a datagram dropped that is new to the path, where one of known ports passes?
    FreshUdp,
    /// The same of a SYN.
    FreshSyn,
}

impl Question {
    pub(crate) const ALL: [Self; 4] = [Self::Udp, Self::SynData, Self::FreshUdp, Self::FreshSyn];

    /// The test and its control. Codepoints change from pair to pair, not within one.
    pub(crate) fn pair(self, ecn: Ecn) -> [Probe; 2] {
        let syn = Probe::new(Shape::Syn, Ecn::NotEct);
        let udp = Probe::new(Shape::Udp, ecn);
        match self {
            Self::Udp => [udp, Probe::new(Shape::Segment, ecn)],
            Self::SynData => [Probe::new(Shape::SynData, Ecn::NotEct), syn],
            Self::FreshUdp => [udp.fresh(), udp],
            Self::FreshSyn => [syn.fresh(), syn],
        }
    }
}

/// What a trial has come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// A test arrived.
    Passes,
    /// Tests are blocked.
    Blocked,
    /// More pairs may decide it.
    Open,
    /// Neither arrives, however often it is tried.
    Hopeless,
}

/// A trial of one way.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub way: Way,
    pub question: Question,
    /// Tests and controls by their identifiers.
    pub pairs: Vec<[u16; 2]>,
}

impl Trial {
    pub(crate) fn new(way: Way, question: Question) -> Self {
        Self {
            way,
            question,
            pairs: Vec::new(),
        }
    }

    /// How many tests and controls arrived of how many, where `arrived` says which did.
    pub(crate) fn counts(&self, arrived: impl Fn(u16) -> bool) -> [usize; 3] {
        let of = |which: usize| {
            self.pairs
                .iter()
                .filter(|pair| arrived(pair[which]))
                .count()
        };
        [of(0), of(1), self.pairs.len()]
    }

    pub(crate) fn outcome(&self, arrived: impl Fn(u16) -> bool) -> Outcome {
        let [tests, controls, pairs] = self.counts(arrived);
        match (tests, controls) {
            (1.., _) => Outcome::Passes,
            (0, DECISIVE..) => Outcome::Blocked,
            (0, 0) if pairs >= HOPELESS => Outcome::Hopeless,
            _ => Outcome::Open,
        }
    }
}

/// Puts `items` into an order that is drawn (Fisher and Yates).
pub(crate) fn shuffle<T>(items: &mut [T], rng: &mut Rng) {
    for end in (1..items.len()).rev() {
        items.swap(end, rng.below(end as u32 + 1) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(pairs: u16) -> Trial {
        let mut trial = Trial::new(Way::Forward, Question::Udp);
        trial.pairs = (0..pairs).map(|n| [2 * n, 2 * n + 1]).collect();
        trial
    }

    #[test]
    fn twenty_controls_without_a_test_decide_and_one_test_decides_otherwise() {
        let controls = |id: u16| id % 2 == 1;
        assert_eq!(trial(19).outcome(controls), Outcome::Open);
        assert_eq!(trial(20).outcome(controls), Outcome::Blocked);
        assert_eq!(
            trial(20).outcome(|id| id == 30 || controls(id)),
            Outcome::Passes
        );
        assert_eq!(trial(39).outcome(|_| false), Outcome::Open);
        assert_eq!(trial(40).outcome(|_| false), Outcome::Hopeless);
        assert_eq!(trial(90).outcome(|id| id == 1), Outcome::Open);
    }

    /// Losses of bursts that fit a pair just so, at the worst rate: still at most 2^-20 is
    /// expected, and with 6 instead of 20 pairs the share is what the rule says.
    #[test]
    fn the_order_within_a_pair_makes_chance_a_coin() {
        let mut rng = Rng::for_name(1, "coin");
        let trials = 200_000;
        let few = 6;
        let blocked = (0..trials).filter(|_| {
            // Exactly one of each pair is lost, always the first one sent.
            (0..few).all(|_| rng.below(2) == 0)
        });
        let share = blocked.count() as f64 / f64::from(trials);
        let expected = 1.0 / f64::from(1 << few);
        assert!((share / expected - 1.0).abs() < 0.1, "{share} {expected}");
    }

    #[test]
    fn a_shuffled_list_has_the_same_items() {
        let mut items: Vec<u32> = (0..100).collect();
        shuffle(&mut items, &mut Rng::for_name(1, "items"));
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
