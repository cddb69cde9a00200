//! The delay bit (RFC 9506 §2.2): one marked packet that goes to and fro.

use crate::sample::{Now, Quantity, Sample, Side, Technique};
use crate::square::Known;

/// The client's T_Max until a round trip is known, and the most it can be: the
/// example of RFC 9506 §2.2.3.
const ASSUMED_T_MAX_NS: u64 = 1_000_000_000;
/// What is added to two round trips for T_Max, until the flow shows another
/// (RFC 9506 §2.2.3).
const ADDED_NS: u64 = 100_000_000;
/// The observer's margin K below the client's T_Max, as a divisor (§2.2.2: for
/// instance 10 %).
const MARGIN: u64 = 10;
/// Gaps by which T_Max is learnt: the least of the most recent.
const REMEMBERED: usize = 8;
/// Round trips in a row that exceed what was learnt before it is forgotten.
const PATIENCE: u8 = 5;
/// Two marks of one side closer than this, with the same numbers, are one
/// packet that the network has doubled.
const DOUBLED_NS: u64 = 1_000_000;

#[derive(Clone, Copy, Debug)]
struct Mark {
    at: u64,
    packet: u32,
    numbers: (u32, u32),
    /// Whether the other side has not answered it yet.
    waits: bool,
}

/// How marks are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// By what the flow shows of T_Max.
    Learn,
    /// By a pinned T_Max, in nanoseconds.
    Pinned(u64),
    /// As spindump and the thesis do: every gap below a cut-off counts,
    /// whether the mark came back or was made anew.
    Naive(u64),
}

/// The delay bit of one flow.
#[derive(Debug)]
pub(crate) struct Delay {
    rule: Rule,
    last: [Option<Mark>; 2],
    /// Gaps after which the initiator made a new mark.
    renewals: [u64; REMEMBERED],
    renewed: u32,
    too_long: u8,
    /// The last full round trip; 0 before the first.
    rtt: u64,
    /// Gaps that were no round trip.
    pub rejected: u32,
}

impl Delay {
    pub fn new(rule: Rule) -> Self {
        Self {
            rule,
            last: [None; 2],
            renewals: [0; REMEMBERED],
            renewed: 0,
            too_long: 0,
            rtt: 0,
            rejected: 0,
        }
    }

    /// The client's T_Max in nanoseconds, and how it is known.
    ///
    /// Until a mark was lost that passed here, it is worked out of the round trip
    /// as RFC 9506 §2.2.3 lets both sides do. A client with a longer, fixed one
    /// costs samples by that only where round trips grow to twice as long and
    /// 100 ms from one sample to the next.
    pub fn t_max(&self) -> (u64, Known) {
        let filled = (self.renewed as usize).min(REMEMBERED);
        match (self.rule, self.renewals[..filled].iter().min()) {
            (Rule::Pinned(t) | Rule::Naive(t), _) => (t, Known::Pinned),
            (Rule::Learn, Some(t)) => (*t, Known::Learnt),
            (Rule::Learn, None) if self.rtt > 0 => {
                let t = self.rtt.saturating_mul(2).saturating_add(ADDED_NS);
                (t.min(ASSUMED_T_MAX_NS), Known::Assumed)
            }
            (Rule::Learn, None) => (ASSUMED_T_MAX_NS, Known::Assumed),
        }
    }

    /// Gaps below this are round trips (§2.2.2).
    fn cut_off(&self) -> u64 {
        match (self.rule, self.t_max().0) {
            (Rule::Naive(cut_off), _) => cut_off,
            (_, t_max) => t_max - t_max / MARGIN,
        }
    }

    /// A marked packet with its sequence and acknowledgement numbers. `floor` is
    /// the shortest full round trip that other packets of the flow gave, as its
    /// handshake.
    pub fn mark(
        &mut self,
        side: Side,
        numbers: (u32, u32),
        floor: Option<u64>,
        now: Now,
        out: &mut Vec<Sample>,
    ) {
        if self.rtt == 0 {
            self.rtt = floor.unwrap_or(0);
        }
        let own = self.last[side.index()];
        let opposite = self.last[side.other().index()];
        let naive = matches!(self.rule, Rule::Naive(_));
        // Whether this mark may be one that went round.
        let mut came_back = true;
        if let Some(before) = own {
            let gap = now.at.saturating_sub(before.at);
            if !naive && gap < DOUBLED_NS && before.numbers == numbers {
                self.rejected += 1;
                return;
            }
            // A mark that went round passed in the other direction meanwhile.
            let went_round = opposite.is_none() || !before.waits;
            if naive || went_round {
                came_back = self.full(side, gap, before, now, out);
            } else {
                came_back = false;
                self.rejected += 1;
                if side == Side::Initiator && gap > self.rtt {
                    self.renewals[self.renewed as usize % REMEMBERED] = gap;
                    self.renewed += 1;
                }
            }
        }
        if let Some(before) = opposite {
            let gap = now.at.saturating_sub(before.at);
            let part = match side {
                Side::Initiator => Quantity::LeftRtt,
                Side::Responder => Quantity::RightRtt,
            };
            // The responder only reflects; the initiator may have made it anew.
            let answers = before.waits && (came_back || side == Side::Responder);
            if before.waits && side == Side::Responder && gap < ASSUMED_T_MAX_NS && self.rtt > 0 {
                // The whole round trip has become at least as long.
                self.rtt = self.rtt.max(gap);
            }
            if (naive || answers) && gap < self.cut_off() {
                out.push(now.rtt(Technique::Delay, part, before.at, before.packet));
            }
        }
        if let Some(opposite) = &mut self.last[side.other().index()] {
            opposite.waits = false;
        }
        self.last[side.index()] = Some(Mark {
            at: now.at,
            packet: now.id as u32,
            numbers,
            waits: true,
        });
    }

    /// A gap between two marks of one side; whether it is a round trip.
    fn full(
        &mut self,
        side: Side,
        gap: u64,
        before: Mark,
        now: Now,
        out: &mut Vec<Sample>,
    ) -> bool {
        if gap < self.cut_off() {
            self.too_long = 0;
            self.rtt = gap;
            let quantity = Quantity::FullRtt(side);
            out.push(now.rtt(Technique::Delay, quantity, before.at, before.packet));
            return true;
        }
        self.rejected += 1;
        self.too_long += 1;
        if self.too_long >= PATIENCE {
            // The path has become longer, and a T_Max that follows it with it.
            self.too_long = 0;
            self.renewed = 0;
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Measured;
    use narrows_units::Rng;

    const MS: u64 = 1_000_000;

    /// A client with this T_Max, 10 ms from the observer, the server 20 ms on
    /// the other side; each crossing loses the mark with probability `loss`.
    fn run(rule: Rule, t_max: u64, loss: f64, seed: u64) -> (Delay, Vec<f64>, Vec<f64>) {
        let mut rng = Rng::for_name(seed, "delay");
        let mut delay = Delay::new(rule);
        let mut out = Vec::new();
        let (mut t, mut id) = (0u64, 0u64);
        for _ in 0..1_000 {
            // Each leg: where it passes the observer, and when it is lost.
            let sent = t;
            let legs = [
                (10, Some(Side::Initiator)),
                (20, None),
                (20, Some(Side::Responder)),
                (10, None),
            ];
            let mut arrived = true;
            for (ms, passes) in legs {
                if rng.unit() < loss {
                    arrived = false;
                    break;
                }
                t += ms * MS;
                if let Some(side) = passes {
                    id += 1;
                    delay.mark(side, (id as u32, 0), None, Now { at: t, id }, &mut out);
                }
            }
            if !arrived {
                t = sent + t_max + MS / 10;
            }
        }
        let of = |q| {
            let all = out.iter().filter(move |s| s.quantity == q);
            all.map(|s| match s.value {
                Measured::Rtt(d) => d.as_millis_f64(),
                Measured::Block { .. } => f64::NAN,
            })
            .collect()
        };
        let full = of(Quantity::FullRtt(Side::Initiator));
        let left = of(Quantity::LeftRtt);
        (delay, full, left)
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn a_mark_that_goes_round_gives_full_and_left_round_trips() {
        let (delay, full, left) = run(Rule::Learn, 100 * MS, 0.0, 1);
        assert_eq!(full.len(), 999);
        assert!(full.iter().all(|v| *v == 60.0) && left.iter().all(|v| *v == 20.0));
        assert_eq!(delay.t_max(), (220 * MS, Known::Assumed));
    }

    #[test]
    fn loss_costs_samples_and_no_accuracy_whatever_t_max_is() {
        for t_max in [100, 220, 1_000] {
            for loss in [0.001, 0.01, 0.05] {
                let (delay, full, left) = run(Rule::Learn, t_max * MS, loss, 7);
                assert!((mean(&full) - 60.0).abs() < 0.6, "{t_max} {loss}");
                assert!((mean(&left) - 20.0).abs() < 1.0, "{t_max} {loss}");
                if loss > 0.005 {
                    let (learnt, known) = delay.t_max();
                    assert_eq!(known, Known::Learnt);
                    assert!(learnt.abs_diff(t_max * MS) < MS, "{learnt}");
                }
            }
        }
    }

    #[test]
    fn a_cut_off_above_the_clients_t_max_reads_renewals_as_round_trips() {
        // The thesis: 225 ms at the observer, 100 ms at the client.
        let (_, full, _) = run(Rule::Naive(225 * MS), 100 * MS, 0.05, 7);
        assert!(mean(&full) > 65.0, "{}", mean(&full));
        let (_, full, _) = run(Rule::Pinned(100 * MS), 100 * MS, 0.05, 7);
        assert_eq!(mean(&full), 60.0);
    }

    /// A client that writes every `every` ms, 20 ms from the server and halfway
    /// from the observer: each write makes a mark anew, for the answer to the one
    /// before came while there was nothing to send.
    fn writes(every: u64, floor: Option<u64>) -> (Delay, Vec<Sample>) {
        let mut delay = Delay::new(Rule::Learn);
        let mut out = Vec::new();
        for i in 0..100 {
            let at = i * every * MS;
            for (side, at) in [(Side::Initiator, at), (Side::Responder, at + 10 * MS)] {
                let id = 2 * i + u64::from(side == Side::Responder);
                let now = Now { at, id };
                delay.mark(side, (id as u32, 0), floor, now, &mut out);
            }
        }
        (delay, out)
    }

    #[test]
    fn a_mark_that_waited_for_the_application_is_no_round_trip() {
        let (delay, out) = writes(200, Some(20 * MS));
        assert_eq!(delay.rejected, 99 + 99);
        assert!(out.iter().all(|s| s.quantity == Quantity::RightRtt));
        assert_eq!(out.len(), 100);
        // Without a handshake in sight nothing distinguishes it from a round trip.
        let (_, out) = writes(200, None);
        assert!(out.iter().any(|s| s.quantity != Quantity::RightRtt));
    }

    #[test]
    fn round_trips_that_grow_beyond_the_observer_are_followed() {
        let mut delay = Delay::new(Rule::Learn);
        let mut out = Vec::new();
        let (mut at, mut id) = (0, 0);
        // From 20 to 500 ms between two marks.
        for right in [10, 10, 490, 490, 490] {
            for (side, wait) in [(Side::Initiator, right), (Side::Responder, 10)] {
                let now = Now { at, id };
                delay.mark(side, (id as u32, 0), Some(20 * MS), now, &mut out);
                (at, id) = (at + wait * MS, id + 1);
            }
        }
        let full = out
            .iter()
            .filter(|s| s.quantity == Quantity::FullRtt(Side::Initiator));
        assert_eq!(full.count(), 4);
    }

    #[test]
    fn a_doubled_packet_is_one_mark() {
        let mut delay = Delay::new(Rule::Learn);
        let mut out = Vec::new();
        for (id, at) in [(0, 0), (1, 10), (2, 60 * MS)] {
            let number = u32::from(id == 2);
            delay.mark(Side::Initiator, (number, 0), None, Now { at, id }, &mut out);
        }
        assert_eq!((out.len(), delay.rejected), (1, 1));
        assert_eq!(out[0].first, 0);
    }
}
