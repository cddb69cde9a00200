//! How much waits in a proxy: by formula for each leg, and within one budget for all.

use narrows_units::{Duration, Rate};

/// How many times what is free one direction may hold (Choudhury and Hahne 1998, dynamic
/// queue-length thresholds; 8 as switches with shared memory are shipped): a lone one
/// gets 8/9 of the budget, ten greedy ones 8/81 of it each. Of a hundred, those that came
/// first keep more.
const SHARE: u64 = 8;

/// Bytes that a path of this round trip holds at `peak`: what the window of a leg must
/// be for it to carry that rate, rounded up.
pub fn in_flight(peak: Rate, rtt: Duration) -> u64 {
    let bits = u128::from(peak.as_bits()) * u128::from(rtt.as_nanos());
    u64::try_from(bits.div_ceil(8 * 1_000_000_000)).unwrap_or(u64::MAX)
}

/// What is to wait in the proxy so that the leg that drains it stays busy: what that leg
/// can take at `peak` until the other end of a leg of round trip `feed` has reacted to
/// its taking more.
pub fn standing_backlog(peak: Rate, feed: Duration) -> u64 {
    in_flight(peak, feed)
}

/// What comes in at `feed` while the draining leg carries `dip` for a time: the further
/// room that lets the sender go on.
pub fn dip_allowance(feed: Rate, dip: Rate, lasts: Duration) -> u64 {
    let more = feed.as_bits().saturating_sub(dip.as_bits());
    in_flight(Rate::from_bits(more), lasts)
}

/// The memory that all directions of all tunnels share.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    total: u64,
    used: u64,
}

impl Budget {
    pub fn new(total: u64) -> Self {
        Self { total, used: 0 }
    }

    /// Bytes that wait.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How much more a direction that holds `held` bytes may take. Who holds more than
    /// [`SHARE`] times what is free gets nothing until it has given some back, so there
    /// is always some for who holds little.
    pub fn allowance(&self, held: u64) -> u64 {
        let free = self.total.saturating_sub(self.used);
        let threshold = free.saturating_mul(SHARE);
        // Each byte taken lowers the threshold by SHARE.
        (threshold.saturating_sub(held) / (SHARE + 1)).min(free)
    }

    /// Has another size from now on. What waits beyond it drains.
    pub fn resize(&mut self, total: u64) {
        self.total = total;
    }

    pub fn take(&mut self, bytes: u64) {
        self.used += bytes;
    }

    pub fn give(&mut self, bytes: u64) {
        self.used -= bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(mbit: u64) -> Rate {
        Rate::from_bits(mbit * 1_000_000)
    }

    #[test]
    fn the_thesis_s_feed_leg_holds_37_5_megabytes() {
        // 3 Gbit/s and 100 ms.
        let rtt = Duration::from_millis(100);
        assert_eq!(in_flight(rate(3_000), rtt), 37_500_000);
        assert_eq!(standing_backlog(rate(3_000), rtt), 37_500_000);
        assert_eq!(in_flight(Rate::from_bits(1), Duration::from_nanos(1)), 1);
    }

    #[test]
    fn a_dip_lets_in_what_does_not_go_out() {
        // Two seconds at 1.4 of 2.9 Gbit/s.
        let lasts = Duration::from_secs(2);
        assert_eq!(dip_allowance(rate(2_900), rate(1_400), lasts), 375_000_000);
        assert_eq!(dip_allowance(rate(10), rate(20), lasts), 0);
    }

    #[test]
    fn greedy_directions_share_the_budget_and_leave_some_for_a_new_one() {
        for n in [1, 2, 10] {
            let mut budget = Budget::new(9_000_000);
            let mut held = vec![0u64; n];
            // Each takes all that it may, and drains a little in its turn.
            for _ in 0..2_000 {
                for own in &mut held {
                    let drained = *own / 20;
                    budget.give(drained);
                    *own -= drained;
                    let more = budget.allowance(*own);
                    budget.take(more);
                    *own += more;
                    assert!(budget.used() <= 9_000_000);
                }
            }
            assert_eq!(budget.used(), held.iter().sum::<u64>());
            let share = 9_000_000 * SHARE / (SHARE * n as u64 + 1);
            for own in &held {
                assert!(own.abs_diff(share) <= share / 50, "{own} of {share}");
            }
            assert!(budget.allowance(0) > 0, "a new one of {n}");
        }
    }

    #[test]
    fn who_holds_too_much_gives_way_to_a_new_one() {
        let mut budget = Budget::new(900_000);
        let alone = budget.allowance(0);
        budget.take(alone);
        let other = budget.allowance(0);
        assert!(other > 0);
        budget.take(other);
        assert_eq!(budget.allowance(alone), 0);
        budget.give(alone / 2);
        assert!(budget.allowance(other) > 0);
    }
}
