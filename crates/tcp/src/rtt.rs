//! Round-trip time and the retransmission timeout (RFC 6298 as Linux keeps
//! it, `tcp_rtt_estimator`, `tcp_set_rto`, `tcp_update_rtt_min`, v6.17).

use narrows_units::{Duration, Instant};

/// Timeout before the first sample: 1 s (RFC 6298 §2.1, `TCP_TIMEOUT_INIT`).
pub(crate) const INITIAL_RTO_US: u64 = 1_000_000;
/// Timeout after a handshake whose SYN was lost and that gave no sample: 3 s
/// (RFC 6298 §5.7, `TCP_TIMEOUT_FALLBACK`).
pub(crate) const FALLBACK_RTO_US: u64 = 3_000_000;
/// How long a minimum is kept: 300 s (`tcp_min_rtt_wlen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(300);

/// The smallest value of the last while, from three candidates (the windowed
/// filter of BBR's authors).
#[derive(Clone, Copy, Debug)]
struct WindowedMin {
    best: [(Instant, u32); 3],
}

impl WindowedMin {
    fn take(&mut self, now: Instant, value: u32) {
        let sample = (now, value);
        if value <= self.best[0].1 || now.since(self.best[2].0) > MIN_RTT_WINDOW {
            self.best = [sample; 3];
            return;
        }
        if value <= self.best[1].1 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value <= self.best[2].1 {
            self.best[2] = sample;
        }
        let age = now.since(self.best[0].0);
        if age > MIN_RTT_WINDOW {
            self.best = [self.best[1], self.best[2], sample];
            if now.since(self.best[0].0) > MIN_RTT_WINDOW {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].0 == self.best[0].0 && age > MIN_RTT_WINDOW / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].0 == self.best[1].0 && age > MIN_RTT_WINDOW / 2 {
            self.best[2] = sample;
        }
    }
}

/// The estimator of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Rtt {
    /// Smoothed RTT in 1/8 µs; 0 before the first sample.
    pub(crate) srtt_us: u32,
    /// Mean deviation in 1/4 µs.
    pub(crate) mdev_us: u32,
    mdev_max_us: u32,
    rttvar_us: u32,
    window_end: u64,
    min_rto_us: u32,
    /// Longest timeout in µs.
    max_rto_us: u32,
    /// Timeout in µs, backed off if it has fired.
    pub(crate) rto_us: u64,
    /// How often it has doubled, or the interval of window probes
    /// (`icsk_backoff`).
    pub(crate) backoff: u32,
    /// The last sample in µs; 0 before the first.
    pub(crate) latest_us: u32,
    minimum: WindowedMin,
}

impl Rtt {
    pub(crate) fn new(min_rto: Duration, max_rto: Duration) -> Self {
        Self {
            srtt_us: 0,
            mdev_us: 0,
            mdev_max_us: 0,
            rttvar_us: 0,
            window_end: 0,
            min_rto_us: min_rto.as_micros() as u32,
            max_rto_us: max_rto.as_micros() as u32,
            rto_us: INITIAL_RTO_US,
            backoff: 0,
            latest_us: 0,
            minimum: WindowedMin {
                best: [(Instant::ZERO, u32::MAX); 3],
            },
        }
    }

    /// The shortest RTO, µs.
    pub(crate) fn min_rto_us(&self) -> u64 {
        u64::from(self.min_rto_us)
    }

    /// The longest timeout.
    pub(crate) fn max_rto_us(&self) -> u64 {
        u64::from(self.max_rto_us)
    }

    /// The minimum RTT in µs; `u32::MAX` before the first sample.
    pub(crate) fn min_us(&self) -> u32 {
        self.minimum.best[0].1
    }

    /// Takes a sample for the minimum alone.
    pub(crate) fn sample_minimum(&mut self, now: Instant, us: u32) {
        self.minimum.take(now, us.max(1));
    }

    /// Takes a sample of `us`; `una` and `next` are the send window's edges.
    ///
    /// RFC 6298 §2: SRTT ← 7/8 SRTT + 1/8 R and RTTVAR ← 3/4 RTTVAR + 1/4
    /// |SRTT − R|, with Linux's two changes: a sample below the mean moves the
    /// deviation by an eighth of that, and the deviation that counts is the
    /// largest of the last window, never below the minimum RTO, and decays
    /// once a window.
    pub(crate) fn sample(&mut self, us: u32, una: u64, next: u64) {
        self.latest_us = us;
        let us = i64::from(us);
        if self.srtt_us == 0 {
            self.srtt_us = (us as u32) << 3;
            self.mdev_us = (us as u32) << 1;
            self.rttvar_us = self.mdev_us.max(self.min_rto_us);
            self.mdev_max_us = self.rttvar_us;
            self.window_end = next;
        } else {
            let error = us - i64::from(self.srtt_us >> 3);
            self.srtt_us = (i64::from(self.srtt_us) + error) as u32;
            let mut change = error.abs() - i64::from(self.mdev_us >> 2);
            if error < 0 && change > 0 {
                change >>= 3;
            }
            self.mdev_us = (i64::from(self.mdev_us) + change) as u32;
            if self.mdev_us > self.mdev_max_us {
                self.mdev_max_us = self.mdev_us;
                self.rttvar_us = self.rttvar_us.max(self.mdev_max_us);
            }
            if una > self.window_end {
                if self.mdev_max_us < self.rttvar_us {
                    self.rttvar_us -= (self.rttvar_us - self.mdev_max_us) >> 2;
                }
                self.window_end = next;
                self.mdev_max_us = self.min_rto_us;
            }
        }
        self.srtt_us = self.srtt_us.max(1);
        self.set_rto();
        self.backoff = 0;
    }

    /// RTO = SRTT + RTTVAR, where the deviation is kept four times its size.
    fn set_rto(&mut self) {
        self.rto_us = u64::from((self.srtt_us >> 3) + self.rttvar_us).min(self.max_rto_us());
    }

    /// Doubles the timeout after it fired (RFC 6298 §5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff += 1;
        self.rto_us = (self.rto_us * 2).min(self.max_rto_us());
    }

    /// Takes the doubling back.
    pub(crate) fn reset_backoff(&mut self) {
        if self.backoff > 0 {
            self.backoff = 0;
            if self.srtt_us > 0 {
                self.set_rto();
            } else {
                self.rto_us = INITIAL_RTO_US;
            }
        }
    }

    /// The smoothed RTT.
    pub(crate) fn srtt(&self) -> Duration {
        Duration::from_nanos(u64::from(self.srtt_us) * 125)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rtt() -> Rtt {
        Rtt::new(Duration::from_millis(200), Duration::from_secs(120))
    }

    #[test]
    fn first_sample_sets_srtt_and_rttvar() {
        let mut r = rtt();
        assert_eq!(r.rto_us, 1_000_000);
        r.sample(20_000, 1, 1);
        assert_eq!(r.srtt_us >> 3, 20_000);
        // RTTVAR = R/2, K·RTTVAR = 2R = 40 ms, lifted to the 200 ms minimum.
        assert_eq!(r.rto_us, 220_000);
        let mut r = rtt();
        r.sample(300_000, 1, 1);
        assert_eq!(r.rto_us, 900_000);
    }

    #[test]
    fn smoothing_is_by_one_eighth() {
        let mut r = rtt();
        r.sample(80_000, 1, 1);
        r.sample(160_000, 1, 1);
        assert_eq!(r.srtt_us >> 3, 90_000);
        // mdev: 160 ms + (80 ms − 40 ms) = 200 ms in units of a quarter.
        assert_eq!(r.mdev_us, 200_000);
    }

    #[test]
    fn a_sample_below_the_mean_moves_the_deviation_by_an_eighth() {
        let mut r = rtt();
        r.sample(100_000, 1, 1);
        let before = r.mdev_us;
        r.sample(20_000, 1, 1);
        // |error| 80 ms − mdev/4 50 ms = 30 ms, of which one eighth.
        assert_eq!(r.mdev_us, before + 30_000 / 8);
    }

    #[test]
    fn deviation_decays_once_a_window_and_rests_at_the_minimum() {
        let mut r = rtt();
        r.sample(400_000, 1, 10);
        let first = r.rttvar_us;
        for i in 0..200u64 {
            r.sample(400_000, 10 + 10 * i + 1, 10 + 10 * (i + 1));
        }
        assert!(r.rttvar_us < first);
        assert!(r.rttvar_us <= 200_003, "{}", r.rttvar_us);
        assert_eq!(r.rto_us, 400_000 + u64::from(r.rttvar_us));
    }

    #[test]
    fn timeout_doubles_up_to_two_minutes_and_comes_back() {
        let mut r = rtt();
        r.sample(100_000, 1, 1);
        assert_eq!(r.rto_us, 300_000);
        for expected in [600_000, 1_200_000, 2_400_000] {
            r.back_off();
            assert_eq!(r.rto_us, expected);
        }
        for _ in 0..20 {
            r.back_off();
        }
        assert_eq!(r.rto_us, 120_000_000);
        r.reset_backoff();
        assert_eq!(r.rto_us, 300_000);
    }

    #[test]
    fn minimum_is_forgotten_after_its_window() {
        let mut r = rtt();
        r.sample_minimum(Instant::ZERO, 10);
        for s in 1..299 {
            r.sample_minimum(Instant::from_nanos(s * 1_000_000_000), 20);
        }
        assert_eq!(r.min_us(), 10);
        for s in 299..310 {
            r.sample_minimum(Instant::from_nanos(s * 1_000_000_000), 20);
        }
        assert_eq!(r.min_us(), 20);
    }
}
