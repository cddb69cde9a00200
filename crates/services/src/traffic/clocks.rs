//! How far apart two hosts' clocks are, by round trips, and how sure that is.

use serde::Serialize;

/// A question about the time that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    /// When it was asked, by our clock.
    pub(super) sent_ns: u64,
    /// When the answer was here.
    pub(super) back_ns: u64,
    /// What the other clock showed in between.
    pub(super) there_ns: u64,
}

/// The difference of two clocks: the other one's less ours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Difference {
    /// By our clock, when it was so.
    pub(super) at_ns: u64,
    /// In nanoseconds.
    pub(super) ns: i64,
    /// By how much that may be wrong at most, whatever the two ways of a round trip took: half of
    /// the shortest.
    pub(super) within_ns: u64,
}

/// The difference that the shortest of some round trips shows.
pub(super) fn difference(asked: &[Asked]) -> Option<Difference> {
    let trip = |one: &Asked| one.back_ns.saturating_sub(one.sent_ns);
    let shortest = asked.iter().min_by_key(|one| trip(one))?;
    let at_ns = shortest.sent_ns + trip(shortest) / 2;
    let ns = i128::from(shortest.there_ns) - i128::from(at_ns);
    Some(Difference {
        at_ns,
        ns: i64::try_from(ns).ok()?,
        within_ns: trip(shortest).div_ceil(2),
    })
}

/// Two clocks over the time of a run: differences at its beginning and its end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Clocks {
    pub(super) first: Difference,
    pub(super) last: Difference,
}

impl Clocks {
    /// The difference at a time of ours, on the line between the two.
    pub(super) fn at(&self, at_ns: u64) -> i64 {
        let span = i128::from(self.last.at_ns) - i128::from(self.first.at_ns);
        if span <= 0 {
            return self.first.ns;
        }
        let gone = (i128::from(at_ns) - i128::from(self.first.at_ns)).clamp(0, span);
        let change = i128::from(self.last.ns) - i128::from(self.first.ns);
        let ns = i128::from(self.first.ns) + change * gone / span;
        i64::try_from(ns).unwrap_or(self.first.ns)
    }

    /// By how much a one-way delay may be wrong.
    pub(super) fn within_ns(&self) -> u64 {
        self.first.within_ns.max(self.last.within_ns)
    }

    /// The drift, in parts of a million; `None` where it is within what the two comparisons may be
    /// wrong by.
    pub(super) fn drift_ppm(&self) -> Option<f64> {
        let span = self.last.at_ns.saturating_sub(self.first.at_ns);
        let change = i128::from(self.last.ns) - i128::from(self.first.ns);
        let wrong = u128::from(self.first.within_ns) + u128::from(self.last.within_ns);
        (span > 0 && change.unsigned_abs() > wrong).then(|| change as f64 / span as f64 * 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A question over a path that takes `there` and `back`, to a clock that is `ahead`.
    fn asked(sent: u64, there: u64, back: u64, ahead: i64) -> Asked {
        Asked {
            sent_ns: sent,
            back_ns: sent + there + back,
            there_ns: (sent + there).checked_add_signed(ahead).unwrap(),
        }
    }

    #[test]
    fn the_true_difference_is_within_the_bound_however_unequal_the_two_ways_are() {
        for ahead in [-1_000_000_i64, 0, 5_000_000_000] {
            for (there, back) in [(1_000, 1_000), (2_000, 0), (0, 2_000), (50_000, 1_000)] {
                let all = [
                    asked(10_000_000, there, back, ahead),
                    asked(20_000_000, 900_000, 900_000, ahead),
                ];
                let found = difference(&all).unwrap();
                let error = (found.ns - ahead).unsigned_abs();
                assert!(
                    error <= found.within_ns + 1,
                    "{ahead} {there} {back}: {found:?}"
                );
                assert!(found.within_ns <= (there + back).div_ceil(2));
            }
        }
        assert_eq!(difference(&[]), None);
    }

    #[test]
    fn a_clock_that_drifts_is_followed_between_beginning_and_end() {
        let of = |at_ns, ns| Difference {
            at_ns,
            ns,
            within_ns: 10,
        };
        let clocks = Clocks {
            first: of(0, 1_000),
            last: of(1_000_000_000, 51_000),
        };
        assert_eq!(clocks.at(500_000_000), 26_000);
        assert_eq!((clocks.at(0), clocks.at(2_000_000_000)), (1_000, 51_000));
        assert_eq!(clocks.drift_ppm(), Some(50.0));
        let still = Clocks {
            first: of(5, 7),
            last: of(5, 9),
        };
        assert_eq!((still.at(9), still.drift_ppm()), (7, None));
        // Of 20 ns of which any may be an error.
        let noise = Clocks {
            first: of(0, 1_000),
            last: of(10_000, 1_020),
        };
        assert_eq!(noise.drift_ppm(), None);
    }
}
