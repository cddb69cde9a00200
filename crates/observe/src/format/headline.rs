//! Which of several round trips one line shows.
//!
//! A timestamp, a serial number or a spin edge comes back with the next packet that the
//! other end sends, and an application may let that one wait. An acknowledgement, an
//! answer to a SYN and the delay bit (RFC 9506 §2.2: held for a millisecond at most) do
//! not wait for an application. So the latter are what the former are held against.

use crate::estimate::Estimate;
use crate::sample::{Quantity, Technique};

/// In the order in which a line prefers them: signals that exist to be read on the way,
/// then what has most samples; parts of a path after the whole of it.
const ROUND_TRIPS: [Technique; 6] = [
    Technique::Delay,
    Technique::Spin,
    Technique::PsnPse,
    Technique::TsAll,
    Technique::SeqAck,
    Technique::Handshake,
];

/// A mean beyond this multiple of what acknowledgements and handshake show holds waits of
/// an application. Delayed ACKs and the granularity of timestamps stay below it; one wait
/// of a round trip in each round trip reaches it. Our own choice.
const HELD: f64 = 2.0;

/// A mean beyond this multiple of the handshake's is marked: a queue, a slow end or a wait
/// lengthens it. Our own choice.
const REMARKABLE: f64 = 3.0;

/// The round trips that a line shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Headline<'a> {
    pub estimate: &'a Estimate,
    /// Nothing in the flow shows whether waits of an application are in it.
    pub may_hold_waits: bool,
    /// How many times the handshake's it is, where that is remarkable.
    pub times_handshake: Option<f64>,
}

/// Whether samples last until an end's application sends, rather than until its stack
/// answers.
pub(super) const fn may_hold_waits(technique: Technique) -> bool {
    !matches!(
        technique,
        Technique::Delay | Technique::SeqAck | Technique::Handshake
    )
}

/// Whether a mean that [may hold waits](may_hold_waits) does, beside the mean of the same
/// part of the path that cannot.
pub(super) fn holds_waits(mean_ms: f64, without_ms: f64) -> bool {
    mean_ms > HELD * without_ms
}

/// The round trips that say most of the path; `None` where a flow gave none.
pub(super) fn of(all: &[Estimate]) -> Option<Headline<'_>> {
    let mut unsure = None;
    for technique in ROUND_TRIPS {
        let Some(estimate) = best(all, technique) else {
            continue;
        };
        if !may_hold_waits(technique) {
            return Some(shown(all, estimate, false));
        }
        match without_waits(all, estimate.quantity) {
            Some(without) if holds_waits(estimate.value, without) => {}
            Some(_) => return Some(shown(all, estimate, false)),
            None => unsure = unsure.or(Some(estimate)),
        }
    }
    unsure.map(|estimate| shown(all, estimate, true))
}

fn shown<'a>(all: &[Estimate], estimate: &'a Estimate, may_hold_waits: bool) -> Headline<'a> {
    let handshake = mean(all, Technique::Handshake, estimate.quantity);
    Headline {
        estimate,
        may_hold_waits,
        times_handshake: handshake
            .map(|handshake| estimate.value / handshake)
            .filter(|times| *times > REMARKABLE),
    }
}

/// Of a technique's round trips those of the whole path, or else of the part with the
/// most samples; of equally many, the first.
fn best(all: &[Estimate], technique: Technique) -> Option<&Estimate> {
    let of_it = all.iter().filter(|e| e.technique == technique);
    of_it
        .rev()
        .max_by_key(|e| (matches!(e.quantity, Quantity::FullRtt(_)), e.n))
}

/// What acknowledgements, or else the handshake, show of a part of the path; of the whole
/// of it the sum of its parts. Milliseconds.
fn without_waits(all: &[Estimate], quantity: Quantity) -> Option<f64> {
    let part = |quantity| {
        mean(all, Technique::SeqAck, quantity).or(mean(all, Technique::Handshake, quantity))
    };
    match quantity {
        Quantity::FullRtt(_) => part(Quantity::LeftRtt)
            .zip(part(Quantity::RightRtt))
            .map(|(left, right)| left + right)
            .or(mean(all, Technique::Handshake, quantity)),
        part_of_it => part(part_of_it),
    }
}

/// The mean of a technique's round trips, full ones of whichever side; milliseconds.
fn mean(all: &[Estimate], technique: Technique, quantity: Quantity) -> Option<f64> {
    let same = |q: Quantity| match (q, quantity) {
        (Quantity::FullRtt(_), Quantity::FullRtt(_)) => true,
        (a, b) => a == b,
    };
    all.iter()
        .find(|e| e.technique == technique && same(e.quantity))
        .map(|e| e.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::{Basis, Unit};
    use crate::sample::Side;

    const FULL: Quantity = Quantity::FullRtt(Side::Initiator);

    fn estimate(technique: Technique, quantity: Quantity, value: f64, n: u64) -> Estimate {
        Estimate {
            technique,
            quantity,
            value,
            unit: Unit::Ms,
            interval: None,
            n,
            rejected: 0,
            sd: None,
            min: None,
            median: None,
            p95: None,
            basis: Basis::Measured,
        }
    }

    fn by(all: &[Estimate]) -> (Technique, Quantity, bool, bool) {
        let shown = of(all).unwrap();
        let e = shown.estimate;
        (
            e.technique,
            e.quantity,
            shown.may_hold_waits,
            shown.times_handshake.is_some(),
        )
    }

    #[test]
    fn timestamps_that_waited_for_the_application_are_not_the_headline() {
        let all = [
            estimate(Technique::TsAll, FULL, 104.0, 90),
            estimate(Technique::SeqAck, Quantity::RightRtt, 0.06, 80),
            estimate(Technique::Handshake, Quantity::LeftRtt, 0.01, 1),
            estimate(Technique::Handshake, FULL, 0.05, 1),
        ];
        assert_eq!(
            by(&all),
            (Technique::SeqAck, Quantity::RightRtt, false, false)
        );
    }

    #[test]
    fn of_an_idle_flow_only_the_handshake_cannot_hold_waits() {
        let all = [
            estimate(Technique::Spin, FULL, 950.0, 20),
            estimate(Technique::TsAll, FULL, 1000.0, 20),
            estimate(Technique::Handshake, FULL, 20.0, 1),
        ];
        assert_eq!(by(&all), (Technique::Handshake, FULL, false, false));
    }

    #[test]
    fn a_queue_that_acknowledgements_show_as_well_is_no_wait() {
        let all = [
            estimate(Technique::TsAll, FULL, 310.0, 900),
            estimate(Technique::SeqAck, Quantity::RightRtt, 290.0, 900),
            estimate(Technique::Handshake, Quantity::LeftRtt, 10.0, 1),
            estimate(Technique::Handshake, FULL, 20.0, 1),
        ];
        // Fifteen times the handshake, and marked as that.
        assert_eq!(by(&all), (Technique::TsAll, FULL, false, true));
    }

    #[test]
    fn the_delay_bit_goes_first_as_it_holds_no_waits() {
        let all = [
            estimate(Technique::Delay, FULL, 21.0, 3),
            estimate(Technique::TsAll, FULL, 22.0, 900),
            estimate(Technique::Handshake, FULL, 20.0, 1),
        ];
        assert_eq!(by(&all), (Technique::Delay, FULL, false, false));
    }

    #[test]
    fn a_flow_joined_in_its_middle_shows_what_it_has_and_that_waits_may_be_in_it() {
        let all = [estimate(Technique::TsAll, FULL, 104.0, 90)];
        assert_eq!(by(&all), (Technique::TsAll, FULL, true, false));
        assert!(of(&[]).is_none());
    }

    #[test]
    fn parts_are_held_against_the_same_part() {
        let all = [
            estimate(Technique::TsAll, Quantity::LeftRtt, 5.0, 90),
            estimate(Technique::SeqAck, Quantity::RightRtt, 40.0, 50),
            estimate(Technique::Handshake, Quantity::LeftRtt, 1.0, 1),
        ];
        assert_eq!(
            by(&all),
            (Technique::SeqAck, Quantity::RightRtt, false, false)
        );
    }
}
