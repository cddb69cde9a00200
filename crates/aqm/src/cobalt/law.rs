//! The law of COBALT: a CoDel schedule whose counter decays step by step, and BLUE against
//! what does not respond.
//!
//! Behaviour from Linux net/sched/sch_cake.c v6.17 (`cobalt_should_drop`,
//! `cobalt_queue_full`, `cobalt_queue_empty`).

use narrows_core::DropCause;
use narrows_units::{Draw, Duration, Instant, Rng};

use crate::inverse_root::{neighbouring, scaled};

/// Step up of BLUE's probability, 2⁻³²: 1/256 (`p_inc`).
pub(crate) const BLUE_UP: u32 = 1 << 24;
/// Step down of BLUE's probability, 2⁻³²: 1/4096 (`p_dec`).
pub(crate) const BLUE_DOWN: u32 = 1 << 20;
/// No signal for packets that waited no longer than this many full frames take
/// (`cobalt_should_drop`).
const MIN_FRAMES: u64 = 4;
/// Full frames of each bulk flow that a shaper of arriving traffic allows for
/// (`cobalt_should_drop`).
const FRAMES_OF_A_FLOW: u64 = 2;

/// Parameters of the law, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Params {
    pub target: u64,
    pub interval: u64,
    /// How long a full frame takes on the link.
    pub frame_time: u64,
}

/// What is due for a packet that leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// The schedule signals, and the packet can be marked.
    pub mark: bool,
    /// The schedule signals, and the packet cannot be marked.
    pub loss: bool,
    /// BLUE drops it, whether it can be marked or not.
    pub blue: bool,
}

impl Due {
    /// Why the packet is to be dropped, if it is.
    pub fn drops(self) -> Option<DropCause> {
        match self {
            Self { blue: true, .. } => Some(DropCause::Overload),
            Self { loss: true, .. } => Some(DropCause::Probability),
            _ => None,
        }
    }
}

/// State of the law for one queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cobalt {
    /// Grows with signals, decays with time.
    count: u32,
    /// 1/√count · 2³²; 0 until the count first changes, so that the first signal of all
    /// waits for no interval (Linux clears it with all else).
    inverse_root: u32,
    /// When the next signal or the next decay is due.
    next: u64,
    /// When BLUE's probability last changed.
    blue_since: u64,
    /// BLUE's probability, 2⁻³².
    blue: u32,
    signalling: bool,
}

impl Cobalt {
    fn spacing(&self, params: &Params) -> u64 {
        scaled(params.interval, self.inverse_root)
    }

    /// Sets the count, which differs by one, and moves the schedule by its spacing.
    fn step_to(&mut self, count: u32, params: &Params) {
        self.count = count;
        self.inverse_root = neighbouring(count, self.inverse_root);
        self.next += self.spacing(params);
    }

    /// A limit was reached and the oldest packet of this queue dropped: BLUE goes up, at
    /// most once per target, and a signal is due at once.
    pub fn overflowed(&mut self, params: &Params, time: Instant) {
        let now = time.as_nanos();
        if now.saturating_sub(self.blue_since) > params.target {
            self.blue = self.blue.saturating_add(BLUE_UP);
            self.blue_since = now;
        }
        self.signalling = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// The queue was to send and is empty: BLUE goes down, at most once per target, and the
    /// count decays by a step that is due.
    pub fn ran_empty(&mut self, params: &Params, time: Instant) {
        let now = time.as_nanos();
        if self.blue > 0 && now.saturating_sub(self.blue_since) > params.target {
            self.blue = self.blue.saturating_sub(BLUE_DOWN);
            self.blue_since = now;
        }
        self.signalling = false;
        if self.count > 0 && now >= self.next {
            self.step_to(self.count - 1, params);
        }
    }

    /// Whether nothing is left to decay.
    pub fn is_at_rest(&self, time: Instant) -> bool {
        self.blue == 0 && self.count == 0 && time.as_nanos() >= self.next
    }

    /// BLUE's probability, 2⁻³².
    pub fn blue(&self) -> u32 {
        self.blue
    }

    /// What is due for a packet that leaves after `sojourn` and can be marked if it is
    /// `capable`. `bulk_flows` is the number of flows for which a shaper of arriving
    /// traffic allows; 0 elsewhere.
    pub fn judge(
        &mut self,
        params: &Params,
        time: Instant,
        sojourn: Duration,
        bulk_flows: u32,
        capable: bool,
        rng: &mut Rng,
    ) -> Due {
        let (now, sojourn) = (time.as_nanos(), sojourn.as_nanos());
        let frames = MIN_FRAMES.max(u64::from(bulk_flows) * FRAMES_OF_A_FLOW);
        let over = sojourn > params.target && sojourn > params.frame_time * frames;
        let is_due = self.count > 0 && now >= self.next;
        let mut overdue = now.saturating_sub(self.next);

        if over && !self.signalling {
            self.next = now + self.spacing(params);
        }
        self.signalling = over;
        if over {
            self.count = self.count.max(1);
        }

        let mut due = Due::default();
        if is_due && over {
            due.mark = capable;
            due.loss = !capable;
            self.step_to(self.count.saturating_add(1), params);
            overdue = now.saturating_sub(self.next);
        } else if is_due {
            // Leaving the state of signalling moves no schedule: all steps are due.
            while self.count > 0 && now >= self.next {
                self.step_to(self.count - 1, params);
            }
            overdue = 0;
        }
        // No draw where the answer is known, as in Linux.
        due.blue = self.blue > 0 && rng.draw_u32() < self.blue;

        if self.count == 0 {
            self.next = now + params.interval;
        } else if overdue > 0 && !due.loss && !due.blue {
            // A long pause earns no row of signals.
            self.next = now;
        }
        due
    }
}

#[cfg(test)]
mod tests;
