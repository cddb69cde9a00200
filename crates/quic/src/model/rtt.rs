//! Round-trip time and timeouts (RFC 9002 §5 and §6).

use narrows_units::Duration;

/// RFC 9002 §6.2.2: the round trip that is assumed before one was measured.
const INITIAL: Duration = Duration::from_millis(333);
/// RFC 9002 §6.1.2.
const GRANULARITY: Duration = Duration::from_millis(1);

/// The round-trip time of one path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rtt {
    pub latest: Duration,
    pub smoothed: Duration,
    pub variation: Duration,
    pub least: Duration,
}

impl Rtt {
    /// A packet was acknowledged `sample` after it was sent; the other end held
    /// the acknowledgement for `held` of it (RFC 9002 §5.3).
    pub fn add(&mut self, sample: Duration, held: Duration) {
        if self.latest.is_zero() {
            // §5.3: the first sample.
            self.smoothed = sample;
            self.variation = sample / 2;
            self.least = sample;
        } else {
            // §5.2; §5.3: not adjusted below the least round trip.
            self.least = self.least.min(sample);
            let adjusted = match sample >= self.least + held {
                true => sample - held,
                false => sample,
            };
            let gap = if self.smoothed > adjusted {
                self.smoothed - adjusted
            } else {
                adjusted - self.smoothed
            };
            self.variation = (self.variation * 3 + gap) / 4;
            self.smoothed = (self.smoothed * 7 + adjusted) / 8;
        }
        self.latest = sample;
    }

    /// How long after a packet a lost one before it is given up (§6.1.2).
    pub fn loss_delay(&self) -> Duration {
        (self.latest.max(self.smoothed) * 9 / 8).max(GRANULARITY)
    }

    /// The probe timeout without its back-off (§6.2.1); `ack_delay` is the
    /// longest that the other end may hold an acknowledgement.
    pub fn probe_timeout(&self, ack_delay: Duration) -> Duration {
        if self.latest.is_zero() {
            return INITIAL * 3;
        }
        self.smoothed + (self.variation * 4).max(GRANULARITY) + ack_delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn estimates_follow_the_rfc() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.probe_timeout(MS(25)), MS(999));
        rtt.add(MS(40), MS(0));
        assert_eq!((rtt.smoothed, rtt.variation), (MS(40), MS(20)));
        assert_eq!(rtt.probe_timeout(MS(25)), MS(40 + 80 + 25));
        rtt.add(MS(64), MS(8));
        // 56 after the hold: variation (60 + 16) / 4, mean (280 + 56) / 8.
        assert_eq!((rtt.smoothed, rtt.variation), (MS(42), MS(19)));
        assert_eq!(rtt.loss_delay(), MS(72));
        // An acknowledgement delay that would make it shorter than the least is ignored.
        rtt.add(MS(42), MS(8));
        assert_eq!(rtt.smoothed, MS(42));
    }
}
