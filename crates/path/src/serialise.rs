//! The clock of a link that sends one packet after the other.

use narrows_units::{Instant, Rate};

/// Bits times this over a rate in bit/s are nanoseconds.
const NANOS: u64 = 1_000_000_000;

/// When a link of constant rate has finished each packet, exactly: the part of
/// a nanosecond that does not fit into an [`Instant`] is carried to the next
/// packet, so back-to-back packets never drift from the rate.
#[derive(Clone, Copy, Debug)]
pub struct Serialiser {
    rate: u64,
    /// The last packet ends at `end + frac/rate` nanoseconds.
    end: u64,
    frac: u64,
    /// At a rate of zero, what is left of the packet under way: bits × 10⁹.
    stalled: Option<u128>,
}

impl Serialiser {
    /// An idle link. At a rate of zero no packet ends until the rate changes.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate: rate.as_bits(),
            end: 0,
            frac: 0,
            stalled: None,
        }
    }

    /// Starts a packet of `bytes` at `now` or, if the link is still busy, when
    /// the one before ends; returns when it ends, rounded up.
    pub fn send(&mut self, now: Instant, bytes: u32) -> Instant {
        // The wake for an end with a fraction comes at the next whole
        // nanosecond; only a start later than that breaks the train.
        if now > self.end() {
            self.end = now.as_nanos();
            self.frac = 0;
        }
        // 4 GB × 8 × 10⁹ would overflow; packets are at most 64 KiB.
        let bits = u64::from(bytes) * 8 * NANOS + self.frac;
        match (bits.checked_div(self.rate), bits.checked_rem(self.rate)) {
            (Some(span), Some(frac)) => {
                self.end += span;
                self.frac = frac;
            }
            _ => self.stalled = Some(bits.into()),
        }
        self.end()
    }

    /// When the last packet ends, rounded up to a nanosecond; at a rate of zero never.
    pub fn end(&self) -> Instant {
        match self.stalled {
            Some(_) => Instant::MAX,
            None => Instant::from_nanos(self.end + u64::from(self.frac > 0)),
        }
    }

    /// Changes the rate at `now`; what is left of a packet under way goes at
    /// the new one.
    pub fn change_rate(&mut self, now: Instant, rate: Rate) {
        // Bits left × 10⁹, exact in units of the old rate.
        let left = match self.stalled.take() {
            Some(left) => left,
            None if self.end() > now => {
                u128::from(self.end - now.as_nanos()) * u128::from(self.rate)
                    + u128::from(self.frac)
            }
            None => 0,
        };
        self.rate = rate.as_bits();
        let new = u128::from(self.rate);
        if left == 0 {
            self.frac = 0;
        } else if let (Some(span), Some(frac)) = (left.checked_div(new), left.checked_rem(new)) {
            self.end = now.as_nanos() + u64::try_from(span).unwrap_or(u64::MAX / 2);
            self.frac = frac as u64;
        } else {
            self.stalled = Some(left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_at_50_mbit_takes_its_exact_time() {
        // 1514 bytes × 8 / 50 Mbit/s = 242.24 µs.
        let mut s = Serialiser::new(Rate::from_mbit(50));
        assert_eq!(s.send(Instant::ZERO, 1514).as_nanos(), 242_240);
    }

    #[test]
    fn back_to_back_packets_never_drift() {
        // At 30 Mbit/s a frame takes 403 733.3… ns; a million of them must
        // take 403.733 333 333 … s to the nanosecond.
        let mut s = Serialiser::new(Rate::from_mbit(30));
        let mut now = Instant::ZERO;
        for _ in 0..1_000_000 {
            now = s.send(now, 1514);
        }
        assert_eq!(now.as_nanos(), 403_733_333_334);
    }

    #[test]
    fn the_rest_of_a_packet_goes_at_the_new_rate() {
        let mut s = Serialiser::new(Rate::from_mbit(10));
        assert_eq!(s.send(Instant::ZERO, 1250).as_nanos(), 1_000_000);
        // A quarter is out; 7500 bits are left, at 100 Mbit/s 75 µs.
        s.change_rate(Instant::from_nanos(250_000), Rate::from_mbit(100));
        assert_eq!(s.end().as_nanos(), 325_000);
    }

    #[test]
    fn a_rate_that_changes_while_nothing_is_sent_is_that_of_the_next_packet() {
        // Idle for long, and at the nanosecond in which the end with its fraction is.
        for at in [2_000_000, 403_734] {
            let mut s = Serialiser::new(Rate::from_mbit(30));
            assert_eq!(s.send(Instant::ZERO, 1514).as_nanos(), 403_734);
            let now = Instant::from_nanos(at);
            s.change_rate(now, Rate::from_bits(12_112_000));
            assert_eq!(s.send(now, 1514).as_nanos(), at + 1_000_000);
        }
    }

    #[test]
    fn the_rest_has_the_fraction_of_a_nanosecond_in_it() {
        // A frame ends at 403 733.33 ns; of that 1.33 ns are left, 4 at a third of the rate.
        let mut s = Serialiser::new(Rate::from_mbit(30));
        s.send(Instant::ZERO, 1514);
        s.change_rate(Instant::from_nanos(403_732), Rate::from_mbit(10));
        assert_eq!(s.end().as_nanos(), 403_736);
    }

    #[test]
    fn a_rest_that_would_take_longer_than_there_is_time_ends_far_away() {
        let mut s = Serialiser::new(Rate::from_bits(1_000));
        for _ in 0..40_000 {
            s.send(Instant::ZERO, 65_535);
        }
        s.change_rate(Instant::ZERO, Rate::from_bits(1));
        assert!(s.end().as_nanos() > u64::MAX / 4, "{}", s.end());
    }

    #[test]
    fn at_a_rate_of_zero_a_packet_stays_as_it_is() {
        let mut s = Serialiser::new(Rate::from_mbit(10));
        assert_eq!(s.send(Instant::ZERO, 1250).as_nanos(), 1_000_000);
        s.change_rate(Instant::from_nanos(250_000), Rate::from_bits(0));
        assert_eq!(s.end(), Instant::MAX);
        s.change_rate(Instant::from_nanos(5_000_000), Rate::from_bits(0));
        s.change_rate(Instant::from_nanos(9_000_000), Rate::from_mbit(100));
        assert_eq!(s.end().as_nanos(), 9_075_000);
        // One that begins at such a rate has all of it before it.
        let mut s = Serialiser::new(Rate::from_bits(0));
        assert_eq!(s.send(Instant::from_nanos(7), 1250), Instant::MAX);
        s.change_rate(Instant::from_nanos(1_000), Rate::from_mbit(10));
        assert_eq!(s.end().as_nanos(), 1_001_000);
    }

    proptest! {
        #[test]
        fn any_train_ends_where_rational_arithmetic_says(
            rate in 1_000u64..100_000_000_000,
            sizes in proptest::collection::vec(20u32..9000, 1..50),
        ) {
            let mut s = Serialiser::new(Rate::from_bits(rate));
            let mut now = Instant::ZERO;
            for size in &sizes {
                now = s.send(now, *size);
            }
            let bits: u128 = sizes.iter().map(|n| u128::from(*n) * 8).sum();
            let exact = (bits * 1_000_000_000).div_ceil(u128::from(rate));
            prop_assert_eq!(u128::from(now.as_nanos()), exact);
        }
    }
}
