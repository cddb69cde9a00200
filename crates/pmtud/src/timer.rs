//! The three timers of RFC 8899 section 5.1.1.

use narrows_units::Duration;

/// How long a probe's acknowledgement is waited for (PROBE_TIMER).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeTimer {
    /// Always so long. RFC 8899 asks for one second at least, and for more than 15.
    Fixed(Duration),
    /// A retransmission timeout by the round trips of probes (RFC 6298 section 2), with a least
    /// of 10 ms instead of its second: for laboratories and for transports that measure the
    /// round trip anyway. Deviates from RFC 8899, which forbids less than a second.
    Adaptive,
}

/// When probes are given up, confirmed and raised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// PROBE_TIMER.
    pub probe: ProbeTimer,
    /// CONFIRMATION_TIMER: how often the size is confirmed after the search; never where
    /// acknowledgements of data confirm it (RFC 8899 section 5.1.1).
    pub confirmation: Option<Duration>,
    /// PMTU_RAISE_TIMER: after how long larger sizes are tried again.
    pub raise: Duration,
}

impl Timers {
    /// As RFC 8899 section 5.1.1 recommends; it names no confirmation time but that it is
    /// shorter than the raise timer: half of that here.
    pub const RFC: Self = Self {
        probe: ProbeTimer::Fixed(Duration::from_secs(15)),
        confirmation: Some(Duration::from_secs(300)),
        raise: Duration::from_secs(600),
    };

    /// The same with a probe timer that follows the round trip.
    pub const ADAPTIVE: Self = Self {
        probe: ProbeTimer::Adaptive,
        ..Self::RFC
    };
}

/// The timeout before any round trip is known (RFC 6298 section 2.1).
const INITIAL: Duration = Duration::from_secs(1);

/// The least timeout (ours; RFC 6298 section 2.4 has one second).
const LEAST: Duration = Duration::from_millis(10);

/// Smoothed round trip and its variation (RFC 6298 section 2).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoundTrip {
    smoothed: Option<Duration>,
    variation: Duration,
}

impl RoundTrip {
    /// Whether anything was measured.
    pub fn is_known(&self) -> bool {
        self.smoothed.is_some()
    }

    /// Takes a measurement: of a probe that was sent once (Karn's rule, RFC 6298 section 3).
    pub fn measured(&mut self, rtt: Duration) {
        let Some(smoothed) = self.smoothed else {
            self.smoothed = Some(rtt);
            self.variation = Duration::from_nanos(rtt.as_nanos() / 2);
            return;
        };
        let apart = rtt.as_nanos().abs_diff(smoothed.as_nanos());
        self.variation = Duration::from_nanos((3 * self.variation.as_nanos() + apart) / 4);
        self.smoothed = Some(Duration::from_nanos(
            (7 * smoothed.as_nanos() + rtt.as_nanos()) / 8,
        ));
    }

    /// How long an acknowledgement may take: SRTT + max(G, 4 RTTVAR), where the granularity
    /// G is half a round trip, so that a path that has not varied yet has some room.
    pub fn timeout(&self, timer: ProbeTimer) -> Duration {
        match (timer, self.smoothed) {
            (ProbeTimer::Fixed(time), _) => time,
            (ProbeTimer::Adaptive, None) => INITIAL,
            (ProbeTimer::Adaptive, Some(smoothed)) => {
                let smoothed = smoothed.as_nanos();
                let room = (4 * self.variation.as_nanos()).max(smoothed / 2);
                Duration::from_nanos(smoothed + room).max(LEAST)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_timeout_is_that_of_rfc_6298_by_independent_arithmetic() {
        let mut rtt = RoundTrip::default();
        assert_eq!(rtt.timeout(ProbeTimer::Adaptive), INITIAL);
        let (mut srtt, mut rttvar) = (0.0_f64, 0.0_f64);
        for (index, sample) in [50.0, 60.0, 40.0, 52.0, 200.0, 50.0]
            .into_iter()
            .enumerate()
        {
            rtt.measured(Duration::from_nanos(sample as u64 * MS));
            if index == 0 {
                (srtt, rttvar) = (sample, sample / 2.0);
            } else {
                rttvar = 0.75 * rttvar + 0.25 * (srtt - sample).abs();
                srtt = 0.875 * srtt + 0.125 * sample;
            }
            let expected = srtt + (4.0 * rttvar).max(srtt / 2.0);
            let timeout = rtt.timeout(ProbeTimer::Adaptive).as_millis_f64();
            assert!(
                (timeout - expected).abs() < 0.001,
                "{timeout} for {expected}"
            );
        }
    }

    #[test]
    fn a_steady_round_trip_leaves_half_of_itself_as_room_and_ten_milliseconds_at_least() {
        let mut rtt = RoundTrip::default();
        for _ in 0..100 {
            rtt.measured(Duration::from_millis(40));
        }
        assert_eq!(rtt.timeout(ProbeTimer::Adaptive), Duration::from_millis(60));
        let mut near = RoundTrip::default();
        near.measured(Duration::from_micros(100));
        assert_eq!(near.timeout(ProbeTimer::Adaptive), LEAST);
        let fixed = ProbeTimer::Fixed(Duration::from_secs(15));
        assert_eq!(near.timeout(fixed), Duration::from_secs(15));
    }
}
