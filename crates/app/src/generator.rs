//! The running application.

use narrows_units::{Duration, Instant};

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
}

impl Generator {
    /// An application that has not started.
    pub fn new(spec: Traffic) -> Self {
        Self {
            spec,
            sent: 0,
            started: None,
            stopped: false,
            datagrams: 0,
        }
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
            Traffic::Cbr(cbr) if self.due(started) <= now => Want::Datagram(cbr.size),
            Traffic::Cbr(_) => Want::Nothing,
        }
    }

    /// Says that `bytes` of what it wanted were taken.
    pub fn sent(&mut self, bytes: u64) {
        self.sent += bytes;
        self.datagrams += 1;
    }

    /// When its next datagram is due.
    pub fn next(&self) -> Option<Instant> {
        match self.spec {
            Traffic::Cbr(_) if !self.stopped => self.started.map(|t| self.due(t)),
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

    /// When the next datagram is due: the n-th is n sizes of payload after the
    /// start.
    fn due(&self, started: Instant) -> Instant {
        let Traffic::Cbr(cbr) = self.spec else {
            return started;
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

    #[test]
    fn nothing_is_wanted_before_the_start() {
        let mut g = Generator::new(Traffic::Bulk);
        assert_eq!(g.want(NOW), Want::Nothing);
        g.start(NOW);
        assert_eq!(g.want(NOW), Want::Stream(u64::MAX));
        g.stop();
        assert_eq!(g.want(NOW), Want::End);
    }

    #[test]
    fn exact_bytes_are_exact() {
        let mut g = Generator::new(Traffic::Bytes(1000));
        g.start(NOW);
        g.sent(600);
        assert_eq!(g.want(NOW), Want::Stream(400));
        g.sent(400);
        assert_eq!(g.want(NOW), Want::End);
        assert_eq!(g.bytes(), 1000);
    }

    #[test]
    fn writes_come_at_their_times_and_what_was_not_taken_stays_wanted() {
        let mut g = Generator::new(Traffic::parse("writes 1000b every 10ms").unwrap());
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
        let mut g = Generator::new(Traffic::parse("cbr rate 3Mbit size 1000").unwrap());
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
}
