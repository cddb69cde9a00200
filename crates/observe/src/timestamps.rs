//! Round trips by TCP timestamps (RFC 7323): a value is sent, and comes back
//! as an echo. Echoes of 0 count for nothing, of equal values the first.

use crate::probes::{Probe, Probes, after};
use crate::sample::{Now, Quantity, Sample, Side, Technique};

/// One probe at a time: value, echo, and echo of the echo.
#[derive(Clone, Copy, Debug, Default)]
struct Single {
    at: u64,
    packet: u32,
    value: u32,
    /// What the echoing packet carried itself.
    answer: u32,
    state: Step,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    Idle,
    Sent,
    Echoed,
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
    /// Values that were never echoed as such.
    pub rejected: u32,
}

impl Timestamps {
    /// Reads a word of each of its lines.
    pub fn touch(&self) -> u64 {
        let probes = self.values.iter().chain(&self.answers);
        let words = probes.fold(0u64, |sum, p| sum.wrapping_add(p.touch()));
        words.wrapping_add(self.single[0].at ^ self.single[1].at)
    }

    /// Reads what it points at.
    pub fn touch_far(&self) -> u64 {
        let probes = self.values.iter().chain(&self.answers);
        probes.fold(0u64, |sum, p| sum.wrapping_add(p.touch_far()))
    }

    /// A packet of `side` with this value and echo.
    pub fn packet(
        &mut self,
        side: Side,
        (value, echo): (u32, u32),
        now: Now,
        out: &mut Vec<Sample>,
    ) {
        let own = side.index();
        let fresh = self.newest[own].is_none_or(|newest| after(value, newest));
        if fresh {
            self.newest[own] = Some(value);
        }
        if echo != 0 {
            self.echoes(side, (value, echo), fresh, now, out);
        }
        if fresh {
            self.values[own].push(Probe {
                at: now.at,
                key: value,
                packet: now.id as u32,
            });
            let single = &mut self.single[own];
            if single.state == Step::Idle {
                *single = Single {
                    at: now.at,
                    packet: now.id as u32,
                    value,
                    answer: 0,
                    state: Step::Sent,
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
        out: &mut Vec<Sample>,
    ) {
        let (own, other) = (side.index(), side.other().index());
        // One at a time: the echo of the answer closes, and reopens below.
        let single = &mut self.single[own];
        if single.state == Step::Echoed && !after(single.answer, echo) {
            let quantity = Quantity::FullRtt(side);
            out.push(now.rtt(Technique::TsSingle, quantity, single.at, single.packet));
            single.state = Step::Idle;
        }
        let opposite = &mut self.single[other];
        if opposite.state == Step::Sent && !after(opposite.value, echo) {
            opposite.answer = value;
            opposite.state = Step::Echoed;
        }
        // All: the whole way round.
        let (probe, passed) = self.answers[own].answered(echo);
        self.rejected = self.rejected.saturating_add(passed);
        if let Some(probe) = probe {
            let quantity = Quantity::FullRtt(side);
            out.push(now.rtt(Technique::TsAll, quantity, probe.at, probe.packet));
        }
        // All: from the observer to this side and back.
        let (probe, passed) = self.values[other].answered(echo);
        self.rejected = self.rejected.saturating_add(passed);
        if let Some(probe) = probe {
            let part = match side {
                Side::Initiator => Quantity::LeftRtt,
                Side::Responder => Quantity::RightRtt,
            };
            out.push(now.rtt(Technique::TsAll, part, probe.at, probe.packet));
            // A value that an earlier packet carried too may be echoed for
            // that one.
            if fresh {
                self.answers[other].push(Probe {
                    key: value,
                    ..probe
                });
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
            timestamps.packet(*side, *pair, now, &mut out);
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
}
