//! How far a measured figure may be from the published one.

use std::fmt;

/// One band of tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Band {
    /// At most so much above or below, in the metric's own unit (percentage
    /// points of a share).
    Points(f64),
    /// At most so many times larger or smaller.
    Factor(f64),
    /// For a share in percent: its odds s/(100−s) at most so many times larger
    /// or smaller. Where a share is a few percent, points cannot judge it.
    Odds(f64),
}

/// Room for the last bit of a decimal.
const SLACK: f64 = 1e-9;

impl Band {
    /// Whether `measured` is close enough to `published`.
    pub fn holds(&self, published: f64, measured: f64) -> bool {
        match *self {
            Self::Points(most) => (measured - published).abs() <= most + SLACK,
            Self::Factor(most) => within_factor(published, measured, most),
            Self::Odds(most) => {
                let odds = |share: f64| share / (100.0 - share);
                within_factor(odds(published), odds(measured), most)
            }
        }
    }
}

/// Neither may be zero or negative: no factor leads there.
fn within_factor(a: f64, b: f64, most: f64) -> bool {
    a > 0.0 && b > 0.0 && (a / b).max(b / a) <= most + SLACK
}

impl fmt::Display for Band {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Points(n) => write!(f, "±{n}"),
            Self::Factor(n) => write!(f, "factor {n}"),
            Self::Odds(n) => write!(f, "odds {n}×"),
        }
    }
}

/// All of `bands` in words, `±5 and odds 1.6×`.
pub(super) fn words(bands: &[Band]) -> String {
    let words: Vec<String> = bands.iter().map(Band::to_string).collect();
    words.join(" and ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_absolute_and_include_their_ends() {
        assert!(Band::Points(5.0).holds(60.0, 65.0));
        assert!(Band::Points(5.0).holds(60.0, 55.0));
        assert!(!Band::Points(5.0).holds(60.0, 65.01));
        assert!(Band::Points(0.1).holds(0.3, 0.2));
    }

    #[test]
    fn factors_go_both_ways_and_never_through_zero() {
        assert!(Band::Factor(1.6).holds(24.0, 15.0));
        assert!(Band::Factor(1.6).holds(15.0, 24.0));
        assert!(!Band::Factor(1.6).holds(24.0, 14.9));
        assert!(!Band::Factor(1e9).holds(24.0, 0.0));
    }

    #[test]
    fn odds_see_what_points_do_not() {
        // A published share of 3.3 %, and a measured one of 8 %.
        assert!(Band::Points(5.0).holds(3.3, 8.0));
        assert!(!Band::Odds(1.6).holds(3.3, 8.0));
        assert!(Band::Odds(1.6).holds(50.0, 61.5));
        assert!(!Band::Odds(1.6).holds(50.0, 61.6));
        assert!(!Band::Odds(1.6).holds(50.0, 100.0));
    }
}
