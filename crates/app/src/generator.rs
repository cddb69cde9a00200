//! The running application.

use narrows_units::{Duration, Instant, Rng};

use crate::draw::exponential_ns;
use crate::spec::Traffic;

/// What an application wants to send now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Nothing yet; see [`Generator::next`].
    Nothing,
    /// Up to so many bytes of a stream, `u64::MAX` for "all that you take".
    Stream(u64),
    /// One datagram with so many bytes of payload.
    Datagram(u32),
    /// Nothing ever again: the stream ends here.
    End,
}

/// An application that sends: asks to write, receives how much was taken, and says
/// when it wants to be asked again.
#[derive(Clone, Debug)]
pub struct Generator {
    spec: Traffic,
    sent: u64,
    started: Option<Instant>,
    stopped: bool,
    /// Datagrams sent, which fixes the time of the next one without drift.
    datagrams: u64,
    /// Where gaps are random, from the start to the next datagram.
    after: Duration,
    rng: Rng,
}

impl Generator {
    /// An application that has not started; `rng` draws what is random about it.
    pub fn new(spec: Traffic, rng: Rng) -> Self {
        let mut new = Self {
            spec,
            sent: 0,
            started: None,
            stopped: false,
            datagrams: 0,
            after: Duration::ZERO,
            rng,
        };
        new.draw_gap();
        new
    }

    /// Of a Poisson process, the next gap: exponentially distributed, with the mean
    /// that gives the rate.
    fn draw_gap(&mut self) {
        let Traffic::Poisson(datagrams) = self.spec else {
            return;
        };
        let bits = f64::from(datagrams.size) * 8.0;
        let mean_ns = bits * 1e9 / datagrams.rate.as_bits() as f64;
        self.after += exponential_ns(&mut self.rng, mean_ns);
    }

    /// Starts it.
    pub fn start(&mut self, now: Instant) {
        self.started.get_or_insert(now);
    }

    /// Stops it: it sends no more.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// What it wants to send now.
    pub fn want(&self, now: Instant) -> Want {
        let Some(started) = self.started else {
            return Want::Nothing;
        };
        if self.stopped {
            return Want::End;
        }
        match self.spec {
            Traffic::Bulk => Want::Stream(u64::MAX),
            Traffic::Bytes(n) if self.sent < n => Want::Stream(n - self.sent),
            Traffic::Bytes(_) => Want::End,
            Traffic::Writes(_) => match self.written(started, now).saturating_sub(self.sent) {
                0 => Want::Nothing,
                bytes => Want::Stream(bytes),
            },
            Traffic::Cbr(datagrams) | Traffic::Poisson(datagrams) if self.due(started) <= now => {
                Want::Datagram(datagrams.size)
            }
            Traffic::Cbr(_) | Traffic::Poisson(_) => Want::Nothing,
        }
    }

    /// Says that `bytes` of what it wanted were taken.
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.datagrams += 1;
        self.draw_gap();
    }

    /// When its next datagram is due.
    pub fn next(&self) -> Option<Instant> {
        match self.spec {
            Traffic::Cbr(_) | Traffic::Poisson(_) if !self.stopped => {
                self.started.map(|t| self.due(t))
            }
            _ => None,
        }
    }

    /// When it writes next, after `now`.
    pub fn next_write(&self, now: Instant) -> Option<Instant> {
        let (Traffic::Writes(w), Some(started), false) = (self.spec, self.started, self.stopped)
        else {
            return None;
        };
        let writes = 1 + now.since(started).as_nanos() / w.every.as_nanos().max(1);
        Some(if now < started {
            started
        } else {
            started + w.every * writes
        })
    }

    /// Bytes that the application has written until `now`: one write at the
    /// start, and one after each interval.
    fn written(&self, started: Instant, now: Instant) -> u64 {
        let Traffic::Writes(w) = self.spec else {
            return 0;
        };
        if now < started {
            return 0;
        }
        let since = now.since(started);
        let writes = 1 + since.as_nanos() / w.every.as_nanos().max(1);
        writes.saturating_mul(w.bytes)
    }

    /// When the next datagram is due: at a constant rate the n-th is n sizes of
    /// payload after the start.
    fn due(&self, started: Instant) -> Instant {
        let cbr = match self.spec {
            Traffic::Cbr(cbr) => cbr,
            Traffic::Poisson(_) => return started + self.after,
            _ => return started,
        };
        let bits = u128::from(self.datagrams) * u128::from(cbr.size) * 8 * 1_000_000_000;
        let after = bits / u128::from(cbr.rate.as_bits().max(1));
        started + Duration::from_nanos(u64::try_from(after).unwrap_or(u64::MAX))
    }

    /// Bytes taken so far.
    pub fn bytes(&self) -> u64 {
        self.sent
    }

    /// How many bytes the receiver gets if all goes well; `None` if that was
    /// never fixed.
    pub fn total(&self) -> Option<u64> {
        match self.spec {
            Traffic::Bytes(n) => Some(n),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(5);

    fn generator(words: &str, seed: u64) -> Generator {
        let traffic = Traffic::parse(words).unwrap();
        Generator::new(traffic, Rng::for_name(seed, "flow/background"))
    }

    #[test]
    fn nothing_is_wanted_before_the_start() {
        let mut g = generator("bulk", 1);
        assert_eq!(g.want(NOW), Want::Nothing);
        g.start(NOW);
        assert_eq!(g.want(NOW), Want::Stream(u64::MAX));
        g.stop();
        assert_eq!(g.want(NOW), Want::End);
    }

    #[test]
    fn exact_bytes_are_exact() {
        let mut g = generator("bytes 1000b", 1);
        g.start(NOW);
        g.sent(600);
        assert_eq!(g.want(NOW), Want::Stream(400));
        g.sent(400);
        assert_eq!(g.want(NOW), Want::End);
        assert_eq!(g.bytes(), 1000);
    }

    #[test]
    fn writes_come_at_their_times_and_what_was_not_taken_stays_wanted() {
        let mut g = generator("writes 1000b every 10ms", 1);
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        g.start(at(5));
        assert_eq!(g.want(at(5)), Want::Stream(1000));
        g.sent(1000);
        assert_eq!(g.want(at(14)), Want::Nothing);
        assert_eq!(g.next_write(at(14)), Some(at(15)));
        assert_eq!(g.want(at(15)), Want::Stream(1000));
        g.sent(400);
        assert_eq!(g.want(at(15)), Want::Stream(600));
        assert_eq!(g.want(at(35)), Want::Stream(2600));
        g.sent(2600);
        assert_eq!(g.want(at(44)), Want::Nothing);
        assert_eq!(g.next_write(at(45)), Some(at(55)));
        g.stop();
        assert_eq!((g.want(at(60)), g.next_write(at(60))), (Want::End, None));
    }

    #[test]
    fn a_constant_rate_is_kept_without_drift() {
        // 3 Mbit/s in datagrams of 1000 bytes: one each 2 666 666.6… ns.
        let mut g = generator("cbr rate 3Mbit size 1000", 1);
        g.start(Instant::ZERO);
        let mut now = Instant::ZERO;
        for _ in 0..3_000 {
            now = g.next().unwrap();
            assert_eq!(g.want(now), Want::Datagram(1000));
            g.sent(1000);
            assert_eq!(g.want(now), Want::Nothing);
        }
        assert_eq!(g.next().unwrap().as_nanos(), 8_000_000_000);
        assert!(now < g.next().unwrap());
    }

    /// When the datagrams of 20,000 gaps are due.
    fn random_times(words: &str, seed: u64) -> Vec<Instant> {
        let mut g = generator(words, seed);
        g.start(Instant::ZERO);
        let due = |_| {
            let now = g.next().unwrap();
            assert_eq!(g.want(now), Want::Datagram(1000));
            g.sent(1000);
            now
        };
        (0..20_000).map(due).collect()
    }

    #[test]
    fn a_poisson_process_has_its_rate_and_gaps_that_vary_as_much_as_they_last() {
        // 10 Mbit/s in datagrams of 1000 bytes: 800 µs apart on average.
        let times = random_times("poisson rate 10Mbit size 1000", 1);
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|pair| pair[1].since(pair[0]).as_nanos() as f64 / 1e3)
            .collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let squares: f64 = gaps.iter().map(|g| (g - mean) * (g - mean)).sum();
        let deviation = (squares / gaps.len() as f64).sqrt();
        // Four standard errors: 800 / sqrt(20,000) µs each.
        assert!((mean - 800.0).abs() < 23.0, "{mean}");
        assert!((deviation / mean - 1.0).abs() < 0.05, "{deviation}");
        // Of an exponential distribution e^-1 are longer than the mean.
        let longer = gaps.iter().filter(|g| **g > mean).count() as f64;
        assert!((longer / 20_000.0 - 0.368).abs() < 0.015, "{longer}");
    }

    #[test]
    fn random_times_are_those_of_the_seed() {
        let words = "poisson rate 10Mbit size 1000";
        assert_eq!(random_times(words, 1), random_times(words, 1));
        assert_ne!(random_times(words, 1), random_times(words, 2));
    }
}
