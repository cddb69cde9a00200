//! Latency probes: a datagram each interval, sent back by the other end.

use std::collections::VecDeque;

use narrows_packet::EntityId;
use narrows_traffic::probe::Probe;
use narrows_units::{Duration, Instant};

use crate::flow::Envelope;

/// How long a question waits for its answer before it counts as lost. Longer
/// than any queue that is not a fault: a thousand full frames at 1 Mbit/s
/// take 12 s each way, and count as lost.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A running probe.
pub struct ProbeState {
    pub entity: EntityId,
    pub interval: Duration,
    pub start: Instant,
    pub stop: Instant,
    /// Bytes of payload in questions and answers.
    pub payload_len: u32,
    pub question: Envelope,
    pub answer: Envelope,
    sent: u64,
    /// Questions not yet given up, oldest first: when they were sent, and
    /// whether they were answered. The first has number `first`.
    waiting: VecDeque<(Instant, bool)>,
    first: u64,
}

impl ProbeState {
    pub fn new(
        entity: EntityId,
        interval: Duration,
        (start, stop): (Instant, Instant),
        payload_len: u32,
        question: Envelope,
        answer: Envelope,
    ) -> Self {
        Self {
            entity,
            interval,
            start,
            stop,
            payload_len,
            question,
            answer,
            sent: 0,
            waiting: VecDeque::new(),
            first: 0,
        }
    }

    /// When the next question is due.
    fn due(&self) -> Option<Instant> {
        let at = self.start + self.interval * self.sent;
        (at < self.stop).then_some(at)
    }

    /// When it wants to be called.
    pub fn next_wake(&self) -> Option<Instant> {
        let lost = self.waiting.front().map(|(at, _)| *at + PATIENCE);
        match (self.due(), lost) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The question to send now, if one is due.
    pub fn ask(&mut self, now: Instant) -> Option<Probe> {
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

    /// Takes an answer; the round trip, if the question was still waiting.
    pub fn answered(&mut self, now: Instant, probe: Probe) -> Option<Duration> {
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

    /// How many questions are now given up as lost.
    pub fn lost(&mut self, now: Instant) -> u64 {
        let mut lost = 0;
        while let Some((at, answered)) = self.waiting.front() {
            if !*answered {
                if *at + PATIENCE > now {
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
