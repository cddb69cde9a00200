//! The window that an observer's figures are of.

use narrows_observe::{Flow, Side};
use narrows_scenario::{Plan, Window};
use narrows_units::Instant;

/// A window in nanoseconds of the run, without its end. One that lasts until the end of the
/// run has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    from: u64,
    to: u64,
}

impl Span {
    /// Everything.
    pub(super) const WHOLE: Self = Self {
        from: 0,
        to: u64::MAX,
    };

    /// That of a run's observer.
    pub(super) fn of(plan: &Plan, window: Window) -> Self {
        let ends_early = window.to < Instant::ZERO + plan.duration;
        let to = if ends_early { window.to } else { Instant::MAX };
        Self::between(window.from, to)
    }

    pub(super) fn between(from: Instant, to: Instant) -> Self {
        Self {
            from: from.as_nanos(),
            to: to.as_nanos(),
        }
    }

    /// Its first nanosecond.
    pub(super) fn from(self) -> u64 {
        self.from
    }

    /// Whether nothing lies outside.
    pub(super) fn is_whole(self) -> bool {
        (self.from, self.to) == (0, u64::MAX)
    }

    pub(super) fn contains(self, at: u64) -> bool {
        self.from <= at && at < self.to
    }

    /// Whether all of interval number `index`, each of which is `length` long, lies inside.
    pub(super) fn has(self, index: usize, length: u64) -> bool {
        let start = index as u64 * length;
        self.from <= start && start + length <= self.to
    }

    /// Where a run is at `now`.
    pub(super) fn phase(self, now: Instant) -> Phase {
        match now.as_nanos() {
            ns if ns < self.from => Phase::Before,
            ns if ns < self.to => Phase::Inside,
            _ => Phase::After,
        }
    }
}

/// Where a run is as to a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Phase {
    Before,
    Inside,
    After,
}

/// What passed of a flow, both ways together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passing {
    /// IP bytes.
    pub bytes: u64,
    pub packets: u64,
    /// Segments that were sent again or came late.
    pub again: u64,
}

impl Passing {
    /// Until now.
    pub(super) fn of(flow: &Flow) -> Self {
        let both = |count: &dyn Fn(Side) -> u64| Side::BOTH.into_iter().map(count).sum();
        Self {
            bytes: both(&|side| flow.bytes(side)),
            packets: both(&|side| flow.packets(side)),
            again: both(&|side| u64::from(flow.again(side))),
        }
    }

    /// What passed since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes - earlier.bytes,
            packets: self.packets - earlier.packets,
            again: self.again - earlier.again,
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_scenario::Draft;
    use narrows_units::Duration;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn a_window_that_lasts_until_the_end_of_the_run_has_no_end() {
        let mut draft =
            Draft::from_words(&["rate 1Mbit".to_owned()], &["cubic".to_owned()]).expect("words");
        draft.set("duration=4s").expect("a time");
        let plan = draft.check().expect("a plan");
        for (from, to, end, whole) in [
            (0, 4_000, u64::MAX, true),
            (1_000, 4_000, u64::MAX, false),
            (0, 3_999, 3_999_000_000, false),
            (1_000, 3_000, 3_000_000_000, false),
        ] {
            let (from, to) = (at(from), at(to));
            let span = Span::of(&plan, Window { from, to });
            assert_eq!((span.from, span.to), (from.as_nanos(), end));
            assert_eq!(span.is_whole(), whole);
        }
        assert!(Span::WHOLE.is_whole());
    }

    #[test]
    fn a_run_is_inside_from_the_first_nanosecond_of_a_window_until_its_end() {
        let span = Span::between(at(1_000), at(3_000));
        for (ms, phase) in [
            (0, Phase::Before),
            (999, Phase::Before),
            (1_000, Phase::Inside),
            (2_999, Phase::Inside),
            (3_000, Phase::After),
            (5_000, Phase::After),
        ] {
            assert_eq!(span.phase(at(ms)), phase, "{ms}");
            assert_eq!(span.contains(at(ms).as_nanos()), phase == Phase::Inside);
        }
        // Each interval of 400 ms that lies inside as a whole.
        let has = |index: &usize| span.has(*index, 400_000_000);
        let inside: Vec<usize> = (0..10).filter(has).collect();
        assert_eq!(inside, [3, 4, 5, 6]);
        let even = Span::between(at(800), at(2_000));
        let has = |index: &usize| even.has(*index, 400_000_000);
        assert_eq!((0..10).filter(has).collect::<Vec<_>>(), [2, 3, 4]);
    }

    #[test]
    fn what_passed_since_is_the_difference_of_each_count() {
        let passing = |bytes, packets, again| Passing {
            bytes,
            packets,
            again,
        };
        let since = passing(9_000, 7, 5).since(passing(2_000, 3, 4));
        assert_eq!((since.bytes, since.packets, since.again), (7_000, 4, 1));
    }
}
