//! The progress of a transfer, the goals of its connections, and the notes for its user.

use std::fmt;

use narrows_bpf::{TransferGoal, TransferTally};
use narrows_cc::{ControlSpec, Controller, Facts};

/// Weights of a connection that begins, of 1000.
const LEAST_WEIGHT: u32 = 50;
const MOST_WEIGHT: u32 = 1000;
/// Seconds over which the rate is averaged.
const RATE_OVER: f64 = 3.0;
/// Bytes of a segment, which the law does not go by.
const MSS: u32 = 1448;
/// The law's word that a deadline is out of reach: so many intervals in a row in which best
/// effort is reckoned to be too slow.
const SHORT_OF: f64 = 6.0;
/// What is said of a size in excess of this part of it, and these bytes: requests of the
/// protocol above are no mistake.
const EXCESS: (u64, u64) = (100, 65_536);
/// A program that received so many bytes, and this many times what it sent, downloads.
const DOWNLOADED: (u64, u64) = (1_000_000, 10);

/// How far a transfer is.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Bytes that were delivered.
    pub acked: u64,
    /// Of so many, where that is known.
    pub size: Option<u64>,
    /// Bytes that came the other way.
    pub received: u64,
    /// Connections that are open.
    pub connections: u64,
    /// Bytes per second of late.
    pub rate: f64,
    /// Bytes per second at which the rest is delivered by the deadline; `None` without a
    /// size, past the deadline, and when all is delivered.
    pub target: Option<f64>,
    /// 0.05 yields to everything, 1 is best effort.
    pub weight: f64,
    /// Seconds to the deadline; negative past it.
    pub left_s: f64,
    /// Seconds until all is delivered at this rate.
    pub finish_s: Option<f64>,
}

/// Something that the user should know, said once.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Note {
    /// Best effort is slower than it has to be.
    OutOfReach {
        /// Bytes per second that it sends.
        rate: f64,
        /// With this weight: at best effort it would send `rate / weight`, as far as the rate
        /// goes with the weight.
        weight: f64,
        /// Bytes per second that it would have to send.
        target: f64,
    },
    /// It is slower than it has to be, and not for the network's sake.
    HeldUp {
        /// Bytes per second that it reaches.
        rate: f64,
        /// Bytes per second that it would have to.
        target: f64,
    },
    /// More was sent than was said.
    Exceeded {
        /// Bytes that were said.
        size: u64,
    },
    /// The deadline has passed with bytes left.
    Late {
        /// How many.
        remaining: u64,
    },
    /// The program hardly sends.
    Receives,
    /// The kernel refused connections.
    Refused,
    /// Connections without the feedback that their control needs.
    Plain,
}

fn mbit(rate: f64) -> String {
    format!("{:.1} Mbit/s", rate * 8.0 / 1e6)
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfReach {
                rate,
                weight,
                target,
            } => {
                write!(f, "the deadline is out of reach: ")?;
                if *weight < 0.995 {
                    let reach = mbit(rate / weight);
                    write!(f, "it sends {} with weight {weight:.2}, ", mbit(*rate))?;
                    write!(f, "which is some {reach} at best effort, ")?;
                } else {
                    write!(f, "at best effort it sends {}, ", mbit(*rate))?;
                }
                write!(f, "and {} would be needed", mbit(*target))
            }
            Self::HeldUp { rate, target } => write!(
                f,
                "it sends {}, where {} are needed: its program, or the other end, holds it up, \
                 and not the network",
                mbit(*rate),
                mbit(*target)
            ),
            Self::Exceeded { size } => write!(
                f,
                "more than {size} bytes were sent: the rest is best effort, as nobody knows how \
                 much that is"
            ),
            Self::Late { remaining } => write!(
                f,
                "the deadline has passed with {remaining} bytes left, which are best effort now"
            ),
            Self::Receives => f.write_str(
                "this program receives and hardly sends, and it is the sender whose rate is \
                 controlled: run `narrows by` at the other end",
            ),
            Self::Refused => f.write_str(
                "the kernel did not let some connections use the control; they are as they \
                 would be without",
            ),
            Self::Plain => f.write_str(
                "some connections have no Accurate ECN from their other end, which `over dctcp` \
                 needs: they are the kernel's Reno",
            ),
        }
    }
}

/// The pace of a transfer. The law runs here as well, on the sum of all connections: a
/// connection that begins has its weight, also where none lives for an interval.
#[derive(Debug)]
pub(super) struct Pace {
    spec: ControlSpec,
    size: Option<u64>,
    law: Option<(Controller, Facts)>,
    weight: f64,
    short: bool,
    rate: f64,
    last: Option<(u64, TransferTally)>,
    said: Vec<std::mem::Discriminant<Note>>,
}

impl Pace {
    pub(super) fn new(spec: &ControlSpec, size: Option<u64>) -> Self {
        Self {
            spec: spec.clone(),
            size,
            law: None,
            weight: f64::from(LEAST_WEIGHT) / f64::from(MOST_WEIGHT),
            short: false,
            rate: 0.0,
            last: None,
            said: Vec::new(),
        }
    }

    /// What connections are to reach, `left_ns` before the deadline.
    pub(super) fn goal(&self, now_ns: u64, left_ns: i64) -> TransferGoal {
        let weight = (self.weight * f64::from(MOST_WEIGHT)).round() as u32;
        TransferGoal {
            deadline_ns: now_ns.saturating_add_signed(left_ns),
            size: self.size,
            first_weight: weight.clamp(LEAST_WEIGHT, MOST_WEIGHT),
        }
    }

    /// Takes over what was done until now; what is to be said is added to `notes`.
    pub(super) fn take(
        &mut self,
        now_ns: u64,
        left_ns: i64,
        tally: &TransferTally,
        notes: &mut Vec<Note>,
    ) -> Reading {
        let (then_ns, former) = self.last.unwrap_or((now_ns, TransferTally::default()));
        self.last = Some((now_ns, *tally));
        let delta = tally.acked.saturating_sub(former.acked);
        let seconds = now_ns.saturating_sub(then_ns) as f64 / 1e9;
        if seconds > 0.0 {
            let part = (seconds / RATE_OVER).min(1.0);
            self.rate += part * (delta as f64 / seconds - self.rate);
        }
        self.run_law(now_ns, left_ns, tally, delta);
        let remaining = self.size.map(|size| size.saturating_sub(tally.acked));
        let left_s = left_ns as f64 / 1e9;
        let rest = remaining.filter(|rest| *rest > 0).map(|rest| rest as f64);
        let reading = Reading {
            acked: tally.acked,
            size: self.size,
            received: tally.received,
            connections: tally.connections,
            rate: self.rate,
            target: rest.filter(|_| left_ns > 0).map(|rest| rest / left_s),
            weight: tally.weight.unwrap_or(self.weight),
            left_s,
            finish_s: rest
                .filter(|_| self.rate > 0.0)
                .map(|rest| rest / self.rate),
        };
        self.note(&reading, tally, notes);
        reading
    }

    /// The law, on all connections as if they were one.
    fn run_law(&mut self, now_ns: u64, left_ns: i64, tally: &TransferTally, delta: u64) {
        let over = self.size.is_some_and(|size| tally.acked >= size);
        if left_ns <= 0 || over {
            // What is still sent is best effort.
            self.weight = 1.0;
            return;
        }
        let Some(size) = self.size else { return };
        if self.law.is_none() && tally.connections > 0 {
            self.law = begin(&self.spec, size, now_ns, left_ns);
        }
        let Some((law, facts)) = &mut self.law else {
            return;
        };
        facts.now_ns = now_ns;
        let mut rest = delta;
        while rest > 0 {
            // Sequence numbers are compared within half of their range.
            let step = rest.min(1 << 30) as u32;
            facts.snd_una = facts.snd_una.wrapping_add(step);
            facts.snd_nxt = facts.snd_una;
            law.pkts_acked(facts);
            rest -= u64::from(step);
        }
        if law.timer_at().is_some_and(|at| at <= now_ns) {
            law.timer(facts);
        }
        for (field, value) in law.telemetry() {
            match field.name {
                "w" => self.weight = field.in_units(value),
                "short_of" => self.short = field.in_units(value) >= SHORT_OF,
                _ => {}
            }
        }
    }

    fn note(&mut self, reading: &Reading, tally: &TransferTally, notes: &mut Vec<Note>) {
        let mut say = |note: Note| {
            let kind = std::mem::discriminant(&note);
            if !self.said.contains(&kind) {
                self.said.push(kind);
                notes.push(note);
            }
        };
        let all_short = tally.senders > 0 && tally.short_of == tally.senders;
        let missed = reading.target.filter(|target| reading.rate < *target);
        if let Some(target) = missed.filter(|_| all_short || self.short) {
            let (rate, weight) = (reading.rate, reading.weight);
            say(match tally.limited * 2 > tally.senders {
                true => Note::HeldUp { rate, target },
                false => Note::OutOfReach {
                    rate,
                    weight,
                    target,
                },
            });
        }
        if let Some(size) = self.size {
            if tally.acked > size + size / EXCESS.0 + EXCESS.1 {
                say(Note::Exceeded { size });
            }
            if reading.left_s <= 0.0 && tally.acked < size && tally.senders > 0 {
                say(Note::Late {
                    remaining: size - tally.acked,
                });
            }
        }
        let (least, times) = DOWNLOADED;
        if tally.received > least.max(times * tally.acked) {
            say(Note::Receives);
        }
        if tally.refused > 0 {
            say(Note::Refused);
        }
        if tally.plain > 0 {
            say(Note::Plain);
        }
    }
}

/// DA-LBE by the error alone: there is no price of a sum of connections.
fn begin(spec: &ControlSpec, size: u64, now_ns: u64, left_ns: i64) -> Option<(Controller, Facts)> {
    let mut spec = spec.clone();
    let left_us = u64::try_from(left_ns).ok()? / 1000;
    for (name, value) in [("policy", 0), ("size", size), ("deadline", left_us)] {
        spec.set_option(name, value).ok()?;
    }
    let mut law = Controller::new(&spec);
    let facts = Facts {
        now_ns,
        mss: MSS,
        // Past slow start, which the sum of connections has none of.
        cwnd: 10,
        ssthresh: 10,
        ..Facts::default()
    };
    law.init(&facts);
    Some((law, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// Passes of a transfer of `mbit` each 250 ms, until `end` s after the start, with a
    /// deadline of 60 s; what was said.
    fn run(
        size: Option<u64>,
        mbit: f64,
        end: u64,
        change: impl Fn(&mut TransferTally),
    ) -> (Reading, Vec<Note>) {
        let spec = ControlSpec::parse("dalbe over vegas").unwrap();
        let mut pace = Pace::new(&spec, size);
        let (mut notes, mut reading) = (Vec::new(), Reading::default());
        for tick in 0..end * 4 {
            let now = SECOND + tick * SECOND / 4;
            let mut tally = TransferTally {
                acked: (mbit / 8.0 * 1e6 * tick as f64 / 4.0) as u64,
                opened: 1,
                connections: 1,
                senders: 1,
                ..TransferTally::default()
            };
            change(&mut tally);
            let left = 60 * SECOND as i64 - (now - SECOND) as i64;
            reading = pace.take(now, left, &tally, &mut notes);
            assert!((50..=1000).contains(&pace.goal(now, left).first_weight));
        }
        (reading, notes)
    }

    #[test]
    fn a_transfer_at_its_target_says_nothing() {
        let (reading, notes) = run(Some(60_000_000), 8.0, 30, |_| {});
        assert_eq!(notes, []);
        assert!((reading.rate - 1e6).abs() < 1e3, "{reading:?}");
        assert!((reading.target.unwrap() - 1e6).abs() < 1e5, "{reading:?}");
        let finish = reading.finish_s.unwrap();
        assert!((finish - reading.left_s).abs() < 1.0, "{reading:?}");
    }

    #[test]
    fn weight_rises_with_the_sum_of_connections_that_come_and_go() {
        // A quarter of what is needed, over connections that last for no interval.
        let (reading, notes) = run(Some(240_000_000), 8.0, 50, |tally| tally.weight = None);
        assert_eq!(reading.weight, 1.0, "{reading:?}");
        assert!(matches!(notes[..], [Note::OutOfReach { .. }]), "{notes:?}");
    }

    #[test]
    fn a_deadline_is_said_to_be_out_of_reach_before_best_effort_is_tried() {
        // 0.3 Mbit/s with a weight of 0.12, where 34 are needed: 2.5 at best effort.
        let (reading, notes) = run(Some(240_000_000), 0.4, 6, |_| {});
        assert!(reading.weight < 0.2, "{reading:?}");
        let [note @ Note::OutOfReach { weight, .. }] = &notes[..] else {
            panic!("{notes:?}");
        };
        assert!(*weight < 0.2, "{notes:?}");
        let said = note.to_string();
        assert!(said.contains("with weight 0.12"), "{said}");
        // 0.8 of 8 may do, which is twenty times as much at best effort.
        let (_, notes) = run(Some(60_000_000), 0.8, 9, |_| {});
        assert_eq!(notes, []);
    }

    #[test]
    fn who_holds_a_transfer_up_is_named() {
        let (_, notes) = run(Some(240_000_000), 8.0, 50, |tally| tally.limited = 1);
        assert!(matches!(notes[..], [Note::HeldUp { .. }]), "{notes:?}");
    }

    #[test]
    fn a_wrong_size_and_a_missed_deadline_are_said_once() {
        let (reading, notes) = run(Some(10_000_000), 8.0, 30, |_| {});
        assert_eq!(notes, [Note::Exceeded { size: 10_000_000 }]);
        assert_eq!((reading.weight, reading.target), (1.0, None));
        let (reading, notes) = run(Some(60_100_000), 8.0, 61, |_| {});
        assert!(matches!(notes[..], [Note::Late { .. }]), "{notes:?}");
        assert!(reading.left_s < 0.0 && reading.target.is_none());
    }

    #[test]
    fn a_download_is_no_transfer_of_this_end() {
        let (_, notes) = run(None, 0.001, 5, |tally| tally.received = 2_000_000);
        assert_eq!(notes, [Note::Receives]);
    }
}
