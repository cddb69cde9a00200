//! Round trips by sequence and acknowledgement numbers: data passes, and the
//! acknowledgement of exactly it comes back (as tcptrace does). What was in
//! flight when something was sent again says nothing (Karn and Partridge 1987).

use crate::probes::{Probe, Probes, after};
use crate::sample::{Now, Quantity, Sample, Side, Technique};

/// Data in flight of one flow.
#[derive(Debug, Default)]
pub(crate) struct SeqAck {
    waiting: [Probes; 2],
    /// Data up to here is ambiguous, per sending side.
    ambiguous: [Option<u32>; 2],
    /// Data whose acknowledgement said nothing.
    pub rejected: u32,
}

impl SeqAck {
    /// Reads a word of each of its lines.
    pub fn touch(&self) -> u64 {
        let [one, two] = &self.waiting;
        one.touch() ^ two.touch() ^ u64::from(self.rejected)
    }

    /// Reads what it points at.
    pub fn touch_far(&self) -> u64 {
        let [one, two] = &self.waiting;
        one.touch_far() ^ two.touch_far()
    }

    /// New data of `side` that ends before `end`.
    pub fn data(&mut self, side: Side, end: u32, now: Now) {
        self.waiting[side.index()].push(Probe {
            at: now.at,
            key: end,
            packet: now.id as u32,
        });
    }

    /// Data of `side` was sent again or came late, when all up to `newest` had
    /// been sent.
    pub fn again(&mut self, side: Side, newest: u32) {
        self.ambiguous[side.index()] = Some(newest);
    }

    /// An acknowledgement by `side` of all before `ack`.
    pub fn ack(&mut self, side: Side, ack: u32, now: Now, out: &mut Vec<Sample>) {
        let sender = side.other().index();
        let (probe, passed) = self.waiting[sender].answered(ack);
        let Some(probe) = probe else {
            self.rejected = self.rejected.saturating_add(passed);
            return;
        };
        if self.ambiguous[sender].is_some_and(|newest| !after(ack, newest)) {
            self.rejected = self.rejected.saturating_add(1);
            return;
        }
        self.ambiguous[sender] = None;
        let part = match side {
            Side::Initiator => Quantity::LeftRtt,
            Side::Responder => Quantity::RightRtt,
        };
        out.push(now.rtt(Technique::SeqAck, part, probe.at, probe.packet));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Measured;

    fn now(at: u64) -> Now {
        Now { at, id: at }
    }

    fn values(out: &[Sample]) -> Vec<(Quantity, Measured)> {
        out.iter().map(|s| (s.quantity, s.value)).collect()
    }

    fn ns(n: u64) -> Measured {
        Measured::Rtt(narrows_units::Duration::from_nanos(n))
    }

    #[test]
    fn an_acknowledgement_answers_the_data_that_ends_where_it_does() {
        let mut seq_ack = SeqAck::default();
        let mut out = Vec::new();
        for (at, end) in [(0, 100), (1, 200), (2, 300)] {
            seq_ack.data(Side::Responder, end, now(at));
        }
        seq_ack.ack(Side::Initiator, 200, now(20), &mut out);
        seq_ack.ack(Side::Initiator, 200, now(21), &mut out);
        seq_ack.ack(Side::Initiator, 250, now(22), &mut out);
        assert_eq!(values(&out), [(Quantity::LeftRtt, ns(19))]);
        assert_eq!((out[0].first, out[0].last), (1, 20));
    }

    #[test]
    fn what_was_in_flight_at_a_retransmission_says_nothing() {
        let mut seq_ack = SeqAck::default();
        let mut out = Vec::new();
        seq_ack.data(Side::Initiator, 100, now(0));
        seq_ack.data(Side::Initiator, 200, now(1));
        seq_ack.again(Side::Initiator, 200);
        seq_ack.data(Side::Initiator, 300, now(40));
        seq_ack.ack(Side::Responder, 200, now(50), &mut out);
        assert_eq!((out.len(), seq_ack.rejected), (0, 1));
        seq_ack.ack(Side::Responder, 300, now(60), &mut out);
        assert_eq!(values(&out), [(Quantity::RightRtt, ns(20))]);
    }
}
