//! How much waits in a proxy: by formula for each leg, and within one budget for all.

use narrows_units::{Duration, Rate};

/// How many times what is free one direction may hold (Choudhury and Hahne 1998, dynamic
/// queue-length thresholds; 8 as switches with shared memory are shipped): ten greedy ones of as
/// many clients hold a tenth each of what [`CLIENT_SHARE`] leaves them.
pub(crate) const SHARE: u64 = 8;

/// How many times what is free all tunnels of one client may hold (our choice: one client gets
/// half of the budget at most, and whoever comes next half of what is left).
pub(crate) const CLIENT_SHARE: u64 = 1;

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

/// How much more those may take who hold `held` bytes and may hold `share` times what is free,
/// where `used` bytes of `total` are taken. Who holds more than that gets nothing until some is
/// given back, so there is some left for who holds little.
pub(crate) fn allowance(share: u64, total: u64, used: u64, held: u64) -> u64 {
    let free = total.saturating_sub(used);
    let threshold = free.saturating_mul(share);
    // Each byte taken lowers the threshold by `share`.
    (threshold.saturating_sub(held) / (share + 1)).min(free)
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
}
