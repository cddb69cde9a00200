//! Round trips by sequence and acknowledgement numbers: data passes, and the
//! acknowledgement of exactly it comes back (as tcptrace does). What was in
//! flight when something was sent again says nothing (Karn and Partridge 1987).

use crate::probes::{Probe, Probes, Pushed, Room, Thinning, after};
use crate::sample::{Now, Quantity, Sample, Side, Technique};

/// Data in flight of one flow.
#[derive(Debug, Default)]
pub(crate) struct SeqAck {
    waiting: [Probes; 2],
    /// Data up to here is ambiguous, per sending side.
    ambiguous: [Option<u32>; 2],
    /// Data whose acknowledgement said nothing, or for which there was no room.
    pub rejected: u32,
    /// Which data is followed, per sending side.
    thinning: [Thinning; 2],
    /// Whether acknowledgements of a side's data pass here.
    answered: [bool; 2],
}

impl SeqAck {
    /// Places of the shared room that it has.
    pub fn held(&self) -> usize {
        self.waiting.iter().map(Probes::held).sum()
    }

    /// New data of `side` that ends before `end`.
    pub fn data(&mut self, side: Side, end: u32, now: Now, room: &mut Room) {
        let own = side.index();
        let (waiting, thinning) = (&mut self.waiting[own], &mut self.thinning[own]);
        let probe = Probe {
            at: now.at,
            key: end,
            packet: now.id as u32,
        };
        if waiting.is_empty() {
            *thinning = Thinning::default();
        }
        while thinning.keeps(end) {
            // What is never answered here is not worth long queues.
            let answered = self.answered[own];
            if waiting.push(probe, answered, room) != Pushed::Full {
                return;
            }
            let queues = [&mut *waiting, &mut Probes::default()];
            if !answered || !thinning.thin(queues, &mut self.rejected) {
                break;
            }
        }
        self.rejected = self.rejected.saturating_add(1);
    }

    /// Data of `side` was sent again or came late, when all up to `newest` had
    /// been sent.
    pub fn again(&mut self, side: Side, newest: u32) {
        self.ambiguous[side.index()] = Some(newest);
    }

    /// An acknowledgement by `side` of all before `ack`.
    pub fn ack(&mut self, side: Side, ack: u32, now: Now, room: &mut Room, out: &mut Vec<Sample>) {
        let sender = side.other().index();
        self.answered[sender] = true;
        let (probe, passed) = self.waiting[sender].answered(ack, room);
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
        out.push(Sample {
            weight: self.thinning[sender].weight(),
            ..now.rtt(Technique::SeqAck, part, probe.at, probe.packet)
        });
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
        let (mut seq_ack, mut room) = (SeqAck::default(), Room::default());
        let mut out = Vec::new();
        for (at, end) in [(0, 100), (1, 200), (2, 300)] {
            seq_ack.data(Side::Responder, end, now(at), &mut room);
        }
        seq_ack.ack(Side::Initiator, 200, now(20), &mut room, &mut out);
        seq_ack.ack(Side::Initiator, 200, now(21), &mut room, &mut out);
        seq_ack.ack(Side::Initiator, 250, now(22), &mut room, &mut out);
        assert_eq!(values(&out), [(Quantity::LeftRtt, ns(19))]);
        assert_eq!((out[0].first, out[0].last), (1, 20));
    }

    #[test]
    fn what_was_in_flight_at_a_retransmission_says_nothing() {
        let (mut seq_ack, mut room) = (SeqAck::default(), Room::default());
        let mut out = Vec::new();
        seq_ack.data(Side::Initiator, 100, now(0), &mut room);
        seq_ack.data(Side::Initiator, 200, now(1), &mut room);
        seq_ack.again(Side::Initiator, 200);
        seq_ack.data(Side::Initiator, 300, now(40), &mut room);
        seq_ack.ack(Side::Responder, 200, now(50), &mut room, &mut out);
        assert_eq!((out.len(), seq_ack.rejected), (0, 1));
        seq_ack.ack(Side::Responder, 300, now(60), &mut room, &mut out);
        assert_eq!(values(&out), [(Quantity::RightRtt, ns(20))]);
    }

    /// A path whose round trip goes from 600 ms to 100 ms and back, with 100 segments a ms, of which every `per_ack`th is acknowledged; for `seconds`. Mean of
    /// the samples in ms, how many were taken, how many segments they count for, and
    /// what the mean of all of them would be.
    fn long_path(room: &mut Room, per_ack: u32, seconds: u64) -> (f64, usize, f64, f64, u32) {
        let mut seq_ack = SeqAck::default();
        let mut out = Vec::new();
        let mut under_way = std::collections::VecDeque::<(u64, u32, f64)>::new();
        let (mut end, mut all, mut truth) = (0u32, 0u32, 0.0);
        // In mid-flow acknowledgements pass from the first moment on.
        seq_ack.ack(Side::Responder, end, now(0), room, &mut out);
        for us in (0..seconds * 1_000_000).step_by(10) {
            let at = us * 1_000;
            while under_way.front().is_some_and(|(due, ..)| *due <= at) {
                let (_, ack, rtt_ms) = under_way.pop_front().unwrap();
                seq_ack.ack(Side::Responder, ack, now(at), room, &mut out);
                all += 1;
                truth += rtt_ms;
            }
            end = end.wrapping_add(1_448);
            seq_ack.data(Side::Initiator, end, now(at), room);
            let rtt_ms = 100.0 + 100.0 * (us as f64 / 1e6 % 10.0 - 5.0).abs();
            if (us / 10) as u32 % per_ack == 0 {
                under_way.push_back((at + (rtt_ms * 1e6) as u64, end, rtt_ms));
            }
        }
        let ms = |s: &Sample| match s.value {
            Measured::Rtt(rtt) => rtt.as_millis_f64() * f64::from(s.weight),
            Measured::Block { .. } => f64::NAN,
        };
        let weight: f64 = out.iter().map(|s| f64::from(s.weight)).sum();
        let mean = out.iter().map(ms).sum::<f64>() / weight;
        (
            mean,
            out.len(),
            weight,
            truth / f64::from(all),
            seq_ack.rejected,
        )
    }

    #[test]
    fn every_acknowledgement_of_a_long_path_gives_a_sample() {
        let (mean, samples, weight, truth, rejected) = long_path(&mut Room::default(), 2, 20);
        assert!((mean / truth - 1.0).abs() < 0.01, "{mean} {truth}");
        assert!(samples > 900_000 && weight == samples as f64, "{samples}");
        assert_eq!(rejected, 0);
    }

    #[test]
    fn where_there_is_no_room_what_is_left_out_is_counted_and_does_not_bias() {
        // The queue has 256 places where 10,000 to 60,000 segments are under way.
        for per_ack in [1, 2, 7] {
            let mut room = Room::none();
            let (mean, samples, weight, truth, rejected) = long_path(&mut room, per_ack, 20);
            assert!(
                (mean / truth - 1.0).abs() < 0.03,
                "{per_ack}: {mean} {truth}"
            );
            let share = weight * f64::from(per_ack) / 2e6;
            assert!((share - 1.0).abs() < 0.1, "{per_ack}: {share}");
            assert!(
                rejected > 1_950_000 && samples > 500,
                "{rejected} {samples}"
            );
        }
    }

    #[test]
    fn data_whose_acknowledgements_pass_elsewhere_takes_no_room() {
        let (mut seq_ack, mut room) = (SeqAck::default(), Room::default());
        for i in 1..100_000u32 {
            seq_ack.data(Side::Initiator, i * 1_448, now(i.into()), &mut room);
        }
        assert_eq!((seq_ack.held(), seq_ack.rejected), (0, 100_000 - 1 - 256));
    }
}
