//! COBALT with approximate fairness: a CoDel schedule whose counter decays
//! step by step, and BLUE against flows that do not respond.
//!
//! Behaviour from draft-morton-tsvwg-codel-approx-fair-01 and
//! chromi/sce net/sched/sch_cnq_codel_af.c (the snapshot that discounts
//! dummies from the active flows).

use narrows_units::{Draw, Duration, Instant, Rng};

use crate::cobalt::{BLUE_DOWN, BLUE_UP};
use crate::inverse_root::{neighbouring, scaled};

/// BLUE acts above this many intervals of weighted delay (`blue_thresh`).
const BLUE_INTERVALS: u64 = 4;
/// No CE signal for packets that waited no longer than this many frames take.
const MIN_FRAMES: u64 = 4;

/// Parameters in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Params {
    pub target: u64,
    pub interval: u64,
    /// How long a full frame takes on the link.
    pub frame_time: u64,
}

impl Params {
    pub fn new(target: Duration, interval: Duration, frame_time: Duration) -> Self {
        Self {
            target: target.as_nanos(),
            interval: interval.as_nanos(),
            frame_time: frame_time.as_nanos(),
        }
    }
}

/// What a packet's flow and the queue hold as the packet leaves the bulk
/// queue, the packet included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    /// Packets of the flow in the bulk queue.
    pub flow: u32,
    /// Flows that stay in the bulk queue, and not by a dummy.
    pub active: u32,
    /// Packets waiting in all.
    pub total: u32,
}

/// What is due for a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// A signal of the schedule: mark, or drop what cannot be marked.
    pub signal: bool,
    /// BLUE drops it, marked or not.
    pub blue: bool,
}

/// State of one flow's AQM.
#[derive(Clone, Debug, Default)]
pub(super) struct Cobalt {
    /// Grows with signals, decays with time.
    count: u32,
    /// 1/√count · 2³²; 0 until the first signal, which thus waits for no
    /// interval.
    inverse_root: u32,
    /// When the next signal or the next decay is due.
    next: u64,
    blue_since: u64,
    /// BLUE's probability, 2⁻³².
    blue: u32,
    signalling: bool,
}

impl Cobalt {
    fn refresh_root(&mut self) {
        self.inverse_root = neighbouring(self.count, self.inverse_root);
    }

    fn spacing(&self, params: &Params) -> u64 {
        scaled(params.interval, self.inverse_root)
    }

    /// One signal less for each spacing that passed without need.
    fn decay(&mut self, params: &Params, now: u64) {
        while self.count > 0 && now >= self.next {
            self.count -= 1;
            self.refresh_root();
            self.next += self.spacing(params);
        }
    }

    /// The flow's queue is empty, or the packet went by the sparse queue.
    pub fn rest(&mut self, params: &Params, time: Instant) {
        let now = time.as_nanos();
        if self.blue > 0 && now.saturating_sub(self.blue_since) > params.target {
            self.blue = self.blue.saturating_sub(BLUE_DOWN);
            self.blue_since = now;
        }
        self.decay(params, now);
        if self.signalling {
            self.next = now + self.spacing(params);
            self.signalling = false;
        }
    }

    /// The weighted delay is far beyond target: BLUE goes up, and a signal is
    /// due at once.
    fn escalate(&mut self, params: &Params, now: u64) {
        if now.saturating_sub(self.blue_since) > params.target {
            self.blue = self.blue.saturating_add(BLUE_UP);
            self.blue_since = now;
        }
        self.signalling = true;
        self.next = now;
        self.count = self.count.max(1);
    }

    /// What is due for a packet that waited for `sojourn` in the bulk queue.
    /// `marks` sets CE and says whether it could.
    pub fn judge(
        &mut self,
        params: &Params,
        time: Instant,
        sojourn: Duration,
        share: Share,
        rng: &mut Rng,
        marks: impl FnOnce() -> bool,
    ) -> Due {
        let now = time.as_nanos();
        let sojourn = sojourn.as_nanos();
        // Delay × flow's backlog × flows against target × whole backlog: a
        // flow at its fair share is measured by the plain target.
        let weighted = u128::from(sojourn) * u128::from(share.flow) * u128::from(share.active);
        let exceeds = |limit: u64| weighted > u128::from(limit) * u128::from(share.total);
        let over = exceeds(params.target) && sojourn > params.frame_time * MIN_FRAMES;
        let mut overdue = now.saturating_sub(self.next);
        let mut is_due = self.count > 0 && now >= self.next;

        if over && !self.signalling {
            self.signalling = true;
            self.next = now + self.spacing(params);
            is_due = false;
        } else if !over && self.signalling {
            self.signalling = false;
            self.next = now + self.spacing(params);
        }
        if over {
            self.count = self.count.max(1);
        }

        let mut due = Due::default();
        let mut lost = false;
        if is_due && self.signalling {
            due.signal = true;
            lost = !marks();
            self.count = self.count.saturating_add(1);
            self.refresh_root();
            self.next += self.spacing(params);
            overdue = now.saturating_sub(self.next);
        } else if is_due {
            // The first step is due by the schedule that was read above, even
            // where leaving the signalling state has just moved it.
            self.count -= 1;
            self.refresh_root();
            self.next += self.spacing(params);
            self.decay(params, now);
            overdue = now.saturating_sub(self.next);
        }

        if exceeds(params.interval * BLUE_INTERVALS) {
            self.escalate(params, now);
        }
        due.blue = self.blue > 0 && rng.draw_u32() < self.blue;

        if self.count == 0 {
            self.next = now + params.interval;
        } else if overdue > 0 && !lost && !due.blue {
            // A long pause earns no row of signals.
            self.next = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const PARAMS: Params = Params {
        target: 5 * MS,
        interval: 100 * MS,
        frame_time: 242_240,
    };

    fn at(ms: u64) -> Instant {
        Instant::from_nanos(ms * MS)
    }

    fn signals(share: Share, sojourn: Duration, for_ms: u64) -> Vec<u64> {
        let mut cobalt = Cobalt::default();
        let mut rng = Rng::for_name(1, "q");
        (1..for_ms)
            .filter(|t| {
                cobalt
                    .judge(&PARAMS, at(*t), sojourn, share, &mut rng, || true)
                    .signal
            })
            .collect()
    }

    #[test]
    fn a_flow_at_its_fair_share_is_measured_by_the_plain_target() {
        let fair = Share {
            flow: 25,
            active: 4,
            total: 100,
        };
        assert!(signals(fair, Duration::from_millis(5), 1_000).is_empty());
        assert!(!signals(fair, Duration::from_nanos(5 * MS + 1), 1_000).is_empty());
    }

    #[test]
    fn a_flow_above_its_share_is_signalled_at_a_lower_delay() {
        // Twice the fair share: half the target.
        let greedy = Share {
            flow: 50,
            active: 4,
            total: 100,
        };
        assert!(signals(greedy, Duration::from_micros(2_500), 1_000).is_empty());
        assert!(!signals(greedy, Duration::from_micros(2_501), 1_000).is_empty());
        // Half the fair share: twice the target.
        let modest = Share {
            flow: 25,
            active: 2,
            total: 100,
        };
        assert!(signals(modest, Duration::from_millis(10), 1_000).is_empty());
        assert!(!signals(modest, Duration::from_micros(10_001), 1_000).is_empty());
    }

    #[test]
    fn a_delay_of_four_frames_is_never_signalled() {
        let greedy = Share {
            flow: 100,
            active: 50,
            total: 100,
        };
        let four_frames = Duration::from_nanos(4 * PARAMS.frame_time);
        assert!(signals(greedy, four_frames, 1_000).is_empty());
        let more = Duration::from_nanos(4 * PARAMS.frame_time + 1);
        assert!(!signals(greedy, more, 1_000).is_empty());
    }

    #[test]
    fn signals_come_closer_by_one_over_root_of_count() {
        let alone = Share {
            flow: 10,
            active: 1,
            total: 10,
        };
        let at = signals(alone, Duration::from_millis(8), 2_000);
        for (i, pair) in at.windows(2).enumerate() {
            // The first signal makes the count two.
            let want = 100.0 / (i as f64 + 2.0).sqrt();
            let gap = (pair[1] - pair[0]) as f64;
            assert!((gap - want).abs() < 1.6, "{i}: {gap} {want}");
        }
        assert!(at.len() > 90);
    }

    #[test]
    fn the_count_decays_step_by_step_once_the_delay_is_low() {
        let share = Share {
            flow: 10,
            active: 1,
            total: 10,
        };
        let mut rng = Rng::for_name(1, "q");
        let mut cobalt = Cobalt::default();
        let mut judge = |cobalt: &mut Cobalt, t, delay_ms| {
            let delay = Duration::from_millis(delay_ms);
            cobalt.judge(&PARAMS, at(t), delay, share, &mut rng, || true);
            cobalt.count
        };
        let peak = (1..1_000).map(|t| judge(&mut cobalt, t, 8)).last().unwrap();
        assert!(peak > 20);
        let mut last = peak;
        for t in 1_000..9_000 {
            let count = judge(&mut cobalt, t, 1);
            assert!(last - count <= 1, "{t}");
            last = count;
        }
        assert_eq!(last, 0);
    }

    #[test]
    fn the_count_decays_while_the_flow_rests() {
        let mut cobalt = Cobalt {
            count: 9,
            inverse_root: neighbouring(9, 0),
            next: 0,
            ..Cobalt::default()
        };
        cobalt.rest(&PARAMS, at(10_000));
        assert_eq!(cobalt.count, 0);
    }

    #[test]
    fn blue_rises_by_1_256_per_target_and_falls_by_1_4096() {
        let share = Share {
            flow: 10,
            active: 1,
            total: 10,
        };
        let mut rng = Rng::for_name(1, "q");
        let mut cobalt = Cobalt::default();
        for t in 1..=600u64 {
            let delay = Duration::from_millis(401);
            cobalt.judge(&PARAMS, at(1_000 + t), delay, share, &mut rng, || true);
        }
        // Once per more than 5 ms, in steps of a millisecond: each sixth.
        assert_eq!(cobalt.blue, 100 * BLUE_UP);
        let peak = cobalt.blue;
        cobalt.rest(&PARAMS, at(1_600));
        assert_eq!(cobalt.blue, peak, "not before a target has passed");
        cobalt.rest(&PARAMS, at(1_601));
        assert_eq!(cobalt.blue, peak - BLUE_DOWN);
    }

    #[test]
    fn blue_drops_with_its_probability() {
        let share = Share {
            flow: 1,
            active: 1,
            total: 10,
        };
        let mut rng = Rng::for_name(1, "q");
        let mut cobalt = Cobalt {
            blue: 1 << 30,
            ..Cobalt::default()
        };
        let n = 20_000u64;
        let hits = (0..n)
            .filter(|t| {
                let delay = Duration::from_millis(1);
                cobalt
                    .judge(&PARAMS, at(1 + t), delay, share, &mut rng, || true)
                    .blue
            })
            .count() as f64;
        assert!((hits / n as f64 - 0.25).abs() < 0.02, "{hits}");
    }

    #[test]
    fn blue_rises_above_four_intervals_of_weighted_delay_and_not_at_them() {
        let share = Share {
            flow: 10,
            active: 1,
            total: 10,
        };
        for (sojourn, blue) in [(400 * MS, 0), (400 * MS + 1, BLUE_UP)] {
            let (mut cobalt, mut rng) = (Cobalt::default(), Rng::for_name(1, "q"));
            let sojourn = Duration::from_nanos(sojourn);
            cobalt.judge(&PARAMS, at(1_000), sojourn, share, &mut rng, || true);
            assert_eq!(cobalt.blue, blue, "{sojourn}");
        }
    }

    #[test]
    fn with_nothing_to_decay_the_next_step_is_an_interval_away() {
        let share = Share {
            flow: 1,
            active: 1,
            total: 1,
        };
        let (mut cobalt, mut rng) = (Cobalt::default(), Rng::for_name(1, "q"));
        cobalt.judge(&PARAMS, at(7), Duration::ZERO, share, &mut rng, || true);
        assert_eq!(cobalt.next, 107 * MS);
    }

    #[test]
    fn signals_begin_and_decay_a_spacing_from_now() {
        let share = Share {
            flow: 1,
            active: 1,
            total: 1,
        };
        let low = Duration::from_millis(1);
        let high = Duration::from_millis(8);
        for (signalling, count, next, sojourn) in [
            (false, 9, 1_001, high),
            (true, 9, 1_001, low),
            // Due at this very time, it is not overdue.
            (false, 0, 1_000, high),
        ] {
            let mut cobalt = Cobalt {
                count,
                inverse_root: neighbouring(9, 1 << 30),
                next: next * MS,
                signalling,
                ..Cobalt::default()
            };
            let spacing = cobalt.spacing(&PARAMS);
            let mut rng = Rng::for_name(1, "q");
            cobalt.judge(&PARAMS, at(1_000), sojourn, share, &mut rng, || true);
            assert_eq!(cobalt.signalling, !signalling);
            assert_eq!(cobalt.next, 1_000 * MS + spacing, "{signalling} {count}");
        }
    }
}
