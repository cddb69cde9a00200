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
