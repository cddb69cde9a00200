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
}

impl Serialiser {
    /// An idle link.
    ///
    /// # Panics
    /// Never; a rate of zero counts as 1 bit/s, for scenario checking refuses
    /// it beforehand.
    pub fn new(rate: Rate) -> Self {
        Self {
            rate: rate.as_bits().max(1),
            end: 0,
            frac: 0,
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
        self.end += bits / self.rate;
        self.frac = bits % self.rate;
        self.end()
    }

    /// When the last packet ends, rounded up to a nanosecond.
    pub fn end(&self) -> Instant {
        Instant::from_nanos(self.end + u64::from(self.frac > 0))
    }

    /// Changes the rate at `now`; what is left of a packet under way goes at
    /// the new one.
    pub fn change_rate(&mut self, now: Instant, rate: Rate) {
        let new = rate.as_bits().max(1);
        if self.end() > now {
            // Bits left × 10⁹, exact in units of the old rate.
            let left = u128::from(self.end - now.as_nanos()) * u128::from(self.rate)
                + u128::from(self.frac);
            let span = left / u128::from(new);
            self.end = now.as_nanos() + u64::try_from(span).unwrap_or(u64::MAX / 2);
            self.frac = (left % u128::from(new)) as u64;
        } else {
            self.frac = 0;
        }
        self.rate = new;
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
