//! Latency probes: the payload, what irtt and ping put into theirs, and the
//! requesting end.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

/// Length in bytes of what a probe carries; the rest of its payload is zeros.
pub const PAYLOAD_LEN: usize = 24;

/// First four bytes of the payload, so that captures show what it is.
const MAGIC: [u8; 4] = *b"nrwp";

/// One request or its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Whether it is the reply.
    pub reply: bool,
    /// Number of the request, from 0.
    pub sequence: u64,
    /// When the request was sent; the reply repeats it.
    pub sent: Instant,
}

impl Probe {
    /// The bytes that go into the datagram.
    pub fn to_bytes(self) -> [u8; PAYLOAD_LEN] {
        let mut bytes = [0; PAYLOAD_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = u8::from(self.reply);
        bytes[8..16].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[16..].copy_from_slice(&self.sent.as_nanos().to_be_bytes());
        bytes
    }

    /// Reads a datagram's payload; `None` if it is no probe's.
    pub fn parse(payload: &[u8]) -> Option<Self> {
        let bytes = payload.first_chunk::<PAYLOAD_LEN>()?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(word)
        };
        (bytes[..4] == MAGIC && bytes[4] <= 1).then(|| Self {
            reply: bytes[4] == 1,
            sequence: word(8),
            sent: Instant::from_nanos(word(16)),
        })
    }
}

/// How long a request waits for its reply before it counts as lost. Longer
/// than any queue that is not a fault: a thousand full frames at 1 Mbit/s
/// take 12 s each way, and count as lost.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(10);

/// The requesting end: a request each interval, and what became of each.
#[derive(Clone, Debug)]
pub struct ProbeClient {
    interval: Duration,
    start: Instant,
    stop: Instant,
    sent: u64,
    /// Requests not yet given up, oldest first: when they were sent, and
    /// whether they were answered. The first has number `first`.
    waiting: VecDeque<(Instant, bool)>,
    first: u64,
}

impl ProbeClient {
    /// One that sends a request every `interval` (at least a nanosecond) from `start`
    /// until before `stop`.
    pub fn new(interval: Duration, start: Instant, stop: Instant) -> Self {
        Self {
            interval: interval.max(Duration::from_nanos(1)),
            start,
            stop,
            sent: 0,
            waiting: VecDeque::new(),
            first: 0,
        }
    }

    /// When the next request is due.
    fn due(&self) -> Option<Instant> {
        let at = self.start + self.interval * self.sent;
        (at < self.stop).then_some(at)
    }

    /// When it wants to be called.
    pub fn next_wake(&self) -> Option<Instant> {
        let lost = self.waiting.front().map(|(at, _)| *at + REPLY_TIMEOUT);
        match (self.due(), lost) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The request to send now, if one is due.
    pub fn next_request(&mut self, now: Instant) -> Option<Probe> {
        self.due().filter(|at| *at <= now)?;
        let probe = Probe {
            reply: false,
            sequence: self.sent,
            sent: now,
        };
        self.sent += 1;
        self.waiting.push_back((now, false));
        Some(probe)
    }

    /// Takes a reply; the round trip, if the request was still waiting.
    pub fn reply_received(&mut self, now: Instant, probe: Probe) -> Option<Duration> {
        let at = usize::try_from(probe.sequence.checked_sub(self.first)?).ok()?;
        let (_, answered) = self.waiting.get_mut(at)?;
        if std::mem::replace(answered, true) {
            return None;
        }
        while let Some((_, true)) = self.waiting.front() {
            self.forget();
        }
        Some(now.since(probe.sent))
    }

    /// How many requests are now given up as lost.
    pub fn lost(&mut self, now: Instant) -> u64 {
        let mut lost = 0;
        while let Some((at, answered)) = self.waiting.front() {
            if !*answered {
                if *at + REPLY_TIMEOUT > now {
                    break;
                }
                lost += 1;
            }
            self.forget();
        }
        lost
    }

    fn forget(&mut self) {
        self.waiting.pop_front();
        self.first += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_reads_back_and_nothing_else_does() {
        let probe = Probe {
            reply: true,
            sequence: u64::MAX - 3,
            sent: Instant::from_nanos(1 << 60),
        };
        let bytes = probe.to_bytes();
        assert_eq!(Probe::parse(&bytes), Some(probe));
        assert_eq!(Probe::parse(&bytes[..23]), None);
        assert_eq!(Probe::parse(&[0; 24]), None);
    }

    #[test]
    fn requests_are_answered_once_or_lost_once() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut client = ProbeClient::new(Duration::from_millis(10), at(0), at(30));
        assert!(client.next_request(Instant::ZERO).is_some());
        assert_eq!(client.next_request(at(9)), None);
        let second = client.next_request(at(10)).unwrap();
        let third = client.next_request(at(20)).unwrap();
        assert_eq!(client.next_request(at(40)), None, "the last was sent");
        assert_eq!(
            client.reply_received(at(25), third),
            Some(Duration::from_millis(5))
        );
        assert_eq!(client.reply_received(at(26), third), None, "a duplicate");
        assert_eq!(client.lost(at(9_999)), 0);
        assert_eq!(client.lost(at(10_000)), 1);
        assert_eq!(client.next_wake(), Some(at(10_010)));
        assert_eq!(client.lost(at(20_000)), 1);
        assert_eq!(client.reply_received(at(20_001), second), None, "too late");
        assert_eq!(client.next_wake(), None);
    }
}
