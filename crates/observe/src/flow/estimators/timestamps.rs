//! Round trips by TCP timestamps (RFC 7323): a value is sent, and comes back
//! as an echo. Echoes of 0 count for nothing, of equal values the first.

use crate::probes::{EchoState, Probe, Probes, Pushed, Room, Thinning, after};
use crate::sample::{Now, Quantity, Sample, Side, Technique};

/// One probe at a time: value, echo, and echo of the echo.
#[derive(Clone, Copy, Debug, Default)]
struct Single {
    at: u64,
    packet: u32,
    value: u32,
    /// What the echoing packet carried itself.
    answer: u32,
    state: EchoState,
}

/// Timestamps of one flow.
#[derive(Debug, Default)]
pub(crate) struct Timestamps {
    single: [Single; 2],
    /// Values of each side that wait for the other to echo them.
    values: [Probes; 2],
    /// Values of the other side that echoed one of this side: when this side
    /// echoes them in turn, its probe has gone the whole way round.
    answers: [Probes; 2],
    /// The newest value of each side.
    newest: [Option<u32>; 2],
    /// Values that were never echoed as such, or for which there was no room.
    pub rejected: u32,
    /// Which values of each side are followed, as far as the echo of their echo.
    thinning: [Thinning; 2],
}

impl Timestamps {
    /// Places of the shared room that it has.
    pub fn held(&self) -> usize {
        let probes = self.values.iter().chain(&self.answers);
        probes.map(Probes::held).sum()
    }

    /// A value of `side` waits to be echoed.
    fn follow(&mut self, side: Side, probe: Probe, room: &mut Room) {
        let own = side.index();
        let values = &mut self.values[own];
        let (answers, thinning) = (&mut self.answers[own], &mut self.thinning[own]);
        if values.is_empty() && answers.is_empty() {
            *thinning = Thinning::default();
        }
        // What is never echoed here is not worth long queues.
        let echoed = self.newest[side.other().index()].is_some();
        while thinning.keeps(probe.key) {
            if values.push(probe, echoed, room) != Pushed::Full {
                return;
            }
            let queues = [&mut *values, &mut *answers];
            if !echoed || !thinning.thin(queues, &mut self.rejected) {
                break;
            }
        }
        self.rejected = self.rejected.saturating_add(1);
    }

    /// An answer to a value of `side` waits to be echoed in turn.
    fn follow_answer(&mut self, side: Side, probe: Probe, room: &mut Room) {
        let own = side.index();
        let (values, answers) = (&mut self.values[own], &mut self.answers[own]);
        while answers.push(probe, true, room) == Pushed::Full {
            let queues = [&mut *values, &mut *answers];
            if !self.thinning[own].thin(queues, &mut self.rejected) {
                self.rejected = self.rejected.saturating_add(1);
                return;
            }
        }
    }

    /// A packet of `side` with this value and echo.
    pub fn packet(
        &mut self,
        side: Side,
        (value, echo): (u32, u32),
        now: Now,
        room: &mut Room,
        out: &mut Vec<Sample>,
    ) {
        let own = side.index();
        let fresh = self.newest[own].is_none_or(|newest| after(value, newest));
        if fresh {
            self.newest[own] = Some(value);
        }
        if echo != 0 {
            self.echoes(side, (value, echo), fresh, now, room, out);
        }
        if fresh {
            let probe = Probe {
                at: now.at,
                key: value,
                packet: now.id as u32,
            };
            self.follow(side, probe, room);
            let single = &mut self.single[own];
            if single.state == EchoState::Idle {
                *single = Single {
                    at: now.at,
                    packet: now.id as u32,
                    value,
                    answer: 0,
                    state: EchoState::Sent,
                };
            }
        }
    }

    fn echoes(
        &mut self,
        side: Side,
        (value, echo): (u32, u32),
        fresh: bool,
        now: Now,
        room: &mut Room,
        out: &mut Vec<Sample>,
    ) {
        let (own, other) = (side.index(), side.other().index());
        // One at a time: the echo of the answer closes, and reopens below.
        let single = &mut self.single[own];
        if single.state == EchoState::Echoed && !after(single.answer, echo) {
            let quantity = Quantity::FullRtt(side);
            out.push(now.rtt(Technique::TsSingle, quantity, single.at, single.packet));
            single.state = EchoState::Idle;
        }
        let opposite = &mut self.single[other];
        if opposite.state == EchoState::Sent && !after(opposite.value, echo) {
            opposite.answer = value;
            opposite.state = EchoState::Echoed;
        }
        // All: the whole way round.
        let (probe, passed) = self.answers[own].answered(echo, room);
        self.rejected = self.rejected.saturating_add(passed);
        if let Some(probe) = probe {
            let quantity = Quantity::FullRtt(side);
            out.push(Sample {
                weight: self.thinning[own].weight(),
                ..now.rtt(Technique::TsAll, quantity, probe.at, probe.packet)
            });
        }
        // All: from the observer to this side and back.
        let (probe, passed) = self.values[other].answered(echo, room);
        self.rejected = self.rejected.saturating_add(passed);
        if let Some(probe) = probe {
            let part = match side {
                Side::Initiator => Quantity::LeftRtt,
                Side::Responder => Quantity::RightRtt,
            };
            out.push(Sample {
                weight: self.thinning[other].weight(),
                ..now.rtt(Technique::TsAll, part, probe.at, probe.packet)
            });
            // A value that an earlier packet carried too may be echoed for
            // that one.
            if fresh {
                let answer = Probe {
                    key: value,
                    ..probe
                };
                self.follow_answer(side.other(), answer, room);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Measured;

    const MS: u64 = 1_000_000;

    fn feed(packets: &[(u64, Side, (u32, u32))]) -> (Timestamps, Vec<(Technique, Quantity, f64)>) {
        let mut timestamps = Timestamps::default();
        let mut out = Vec::new();
        for (id, (ms, side, pair)) in packets.iter().enumerate() {
            let now = Now {
                at: ms * MS,
                id: id as u64,
            };
            timestamps.packet(*side, *pair, now, &mut Room::default(), &mut out);
        }
        let found = out.iter().map(|s| match s.value {
            Measured::Rtt(d) => (s.technique, s.quantity, d.as_millis_f64()),
            Measured::Block { .. } => (s.technique, s.quantity, f64::NAN),
        });
        (timestamps, found.collect())
    }

    #[test]
    fn value_echo_and_echo_of_the_echo_give_both_parts_and_the_whole() {
        use Side::{Initiator, Responder};
        let (_, found) = feed(&[
            (0, Initiator, (100, 0)),
            (40, Responder, (900, 100)),
            (60, Initiator, (160, 900)),
            (100, Responder, (960, 160)),
        ]);
        for wanted in [
            (Technique::TsAll, Quantity::RightRtt, 40.0),
            (Technique::TsAll, Quantity::LeftRtt, 20.0),
            (Technique::TsAll, Quantity::FullRtt(Initiator), 60.0),
            (Technique::TsAll, Quantity::FullRtt(Responder), 60.0),
            (Technique::TsSingle, Quantity::FullRtt(Initiator), 60.0),
            (Technique::TsSingle, Quantity::FullRtt(Responder), 60.0),
        ] {
            assert!(found.contains(&wanted), "{wanted:?} in {found:?}");
        }
    }

    #[test]
    fn of_equal_values_the_first_counts_and_an_echo_counts_once() {
        use Side::{Initiator, Responder};
        let (_, found) = feed(&[
            (0, Initiator, (100, 0)),
            (1, Initiator, (100, 0)),
            (40, Responder, (900, 100)),
            (41, Responder, (900, 100)),
        ]);
        assert_eq!(found, [(Technique::TsAll, Quantity::RightRtt, 40.0)]);
    }

    #[test]
    fn values_wrap() {
        use Side::{Initiator, Responder};
        let (_, found) = feed(&[
            (0, Initiator, (u32::MAX, 0)),
            (10, Initiator, (9, 0)),
            (40, Responder, (900, u32::MAX)),
            (50, Responder, (910, 9)),
        ]);
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|(_, _, ms)| *ms == 40.0));
    }

    /// Timestamps of 10 us both ways, on a path whose round trip goes from 600 ms to
    /// 100 ms and back between the observer and the responder, and is 20 ms on the other
    /// side; for 20 s. By quantity: the mean in ms, samples, and what they count for.
    fn long_path(room: &mut Room) -> (std::collections::BTreeMap<Quantity, (f64, u32, f64)>, u32) {
        let (mut timestamps, mut out) = (Timestamps::default(), Vec::new());
        let mut due = std::collections::BTreeMap::new();
        let (mut echo, mut sums) = ([0; 2], std::collections::BTreeMap::new());
        for tick in 1..2_000_000u32 {
            let at = u64::from(tick) * 10_000;
            let mut pass = |timestamps: &mut Timestamps, side: Side, pair| {
                timestamps.packet(side, pair, Now { at, id: 0 }, room, &mut out);
            };
            // What the initiator's packet of this tick echoes passed 20 ms ago.
            let (value, answer) = (tick, echo[1]);
            pass(&mut timestamps, Side::Initiator, (value, answer));
            let rtt_ms = 100.0 + 100.0 * (f64::from(tick) / 1e5 % 10.0 - 5.0).abs();
            due.insert(tick + (rtt_ms * 100.0) as u32, tick);
            while due.first_key_value().is_some_and(|(at, _)| *at <= tick) {
                let (_, value) = due.pop_first().unwrap();
                echo[0] = value;
                pass(&mut timestamps, Side::Responder, (tick, value));
            }
            echo[1] = if echo[0] == 0 {
                0
            } else {
                tick.saturating_sub(2_000)
            };
        }
        for sample in out.iter().filter(|s| s.technique == Technique::TsAll) {
            let Measured::Rtt(rtt) = sample.value else {
                continue;
            };
            let sum: &mut (f64, u32, f64) = sums.entry(sample.quantity).or_default();
            sum.0 += rtt.as_millis_f64() * f64::from(sample.weight);
            sum.1 += 1;
            sum.2 += f64::from(sample.weight);
        }
        sums.values_mut().for_each(|sum| sum.0 /= sum.2);
        (sums, timestamps.rejected)
    }

    #[test]
    fn without_room_values_and_answers_are_thinned_together_and_do_not_bias() {
        let (whole, _) = long_path(&mut Room::default());
        let (thinned, rejected) = long_path(&mut Room::none());
        assert!(rejected > 1_500_000, "{rejected}");
        for quantity in [
            Quantity::RightRtt,
            Quantity::LeftRtt,
            Quantity::FullRtt(Side::Initiator),
        ] {
            let (all, part) = (whole[&quantity], thinned[&quantity]);
            assert!(
                all.1 > 1_500_000 && all.2 == f64::from(all.1),
                "{quantity:?} {all:?}"
            );
            assert!(part.1 > 500 && part.1 < all.1 / 10, "{quantity:?} {part:?}");
            assert!(
                (part.0 / all.0 - 1.0).abs() < 0.03,
                "{quantity:?} {all:?} {part:?}"
            );
            assert!(
                (part.2 / all.2 - 1.0).abs() < 0.1,
                "{quantity:?} {all:?} {part:?}"
            );
        }
    }
}
