//! How errors spread: what a mean hides.

use crate::summary::{ErrorSpread, millionths};

/// A sample shorter than this share of the truth is none of a round trip: a
/// false edge made it. The tenth is that below which MAMI's heuristic rejects
/// edges (deliverable D2.2, §3.2.2).
const SHORT: f64 = 0.1;

/// Samples and their errors, in the order in which they came.
#[derive(Default)]
pub(super) struct Errors {
    all: Vec<f64>,
    short: u64,
}

impl Errors {
    /// A sample of `value` where the truth was `truth`.
    pub(super) fn add(&mut self, value: f64, truth: f64) {
        self.all.push(value - truth);
        self.short += u64::from(value < SHORT * truth);
    }

    /// A difference that is none from a truth.
    pub(super) fn add_difference(&mut self, difference: f64) {
        self.all.push(difference);
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// As they were added.
    #[cfg(test)]
    pub(super) fn in_order(&self) -> &[f64] {
        &self.all
    }

    /// How many are above `bound`.
    pub(super) fn above(&self, bound: f64) -> usize {
        self.all.iter().filter(|e| **e > bound).count()
    }

    /// Their mean; `None` of none.
    pub(super) fn mean(&self) -> Option<f64> {
        let n = self.all.len();
        (n > 0).then(|| self.all.iter().sum::<f64>() / n as f64)
    }

    /// Where they lie.
    pub(super) fn spread(mut self) -> Option<ErrorSpread> {
        self.all.sort_by(f64::total_cmp);
        let last = self.all.len().checked_sub(1)?;
        let at = |share: f64| millionths(self.all[(share * last as f64).round() as usize]);
        Some(ErrorSpread {
            p025: at(0.025),
            p50: at(0.5),
            p975: at(0.975),
            max: at(1.0),
            short: millionths(self.short as f64 / self.all.len() as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_of_false_edges_shows_in_the_lower_tail_and_as_its_share() {
        let mut errors = Errors::default();
        for i in 0..1_000 {
            let false_edge = i % 10 == 0;
            errors.add(if false_edge { 0.5 } else { 40.25 }, 40.0);
        }
        assert_eq!(errors.len(), 1_000);
        assert!((errors.mean().unwrap() + 3.725).abs() < 1e-9);
        let spread = errors.spread().unwrap();
        assert_eq!((spread.p025, spread.p50), (-39.5, 0.25));
        assert_eq!((spread.p975, spread.max, spread.short), (0.25, 0.25, 0.1));
        assert_eq!(Errors::default().spread(), None);
    }

    #[test]
    fn a_sample_is_short_below_a_tenth_of_the_truth_and_an_error_above_a_bound_is_greater() {
        let mut errors = Errors::default();
        assert_eq!((errors.mean(), errors.above(0.0)), (None, 0));
        for value in [3.9, 4.0, 5.0, 42.0] {
            errors.add(value, 40.0);
        }
        assert_eq!((errors.above(2.0), errors.above(1.9)), (0, 1));
        assert_eq!(errors.spread().unwrap().short, 0.25);
    }
}
