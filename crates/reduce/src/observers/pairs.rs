//! One technique compared with another, as where no truth is known.
//!
//! Full round trips of one direction: by how many percent those by timestamps or
//! serial numbers are longer than those by the spin bit (MAMI, deliverable D2.2,
//! §3.2.3 and §3.2.4).
//!
//! With timestamps it is done as the project's scripts do that made the published
//! figures (mami-project/three-bits-suffice, `tcp/scripts`): at every packet that
//! completes a round trip by either, the latest by the one is held against the
//! latest by the other. Serial numbers keep step with the spin bit, so that the same
//! packet often completes both and a figure would be held against itself; each of
//! theirs is held against the latest by the spin bit that an earlier packet completed.

use std::collections::BTreeMap;

use narrows_observe::{Measured, Quantity, Sample, Technique};
use narrows_scenario::Plan;

use super::Watching;
use super::spread::Errors;
use super::sums::name;
use crate::summary::{ObservationSummary, millionths};

/// What is compared.
const SPINS: [Technique; 2] = [Technique::Spin, Technique::Vec];

/// What it is compared with, at every packet that completes either.
const STAMPS: [Technique; 2] = [Technique::TsSingle, Technique::TsAll];

fn full_trip(sample: &Sample) -> Option<f64> {
    match (sample.quantity, sample.value) {
        (Quantity::FullRtt(_), Measured::Rtt(rtt)) => {
            Some(rtt.as_millis_f64()).filter(|ms| *ms > 0.0)
        }
        _ => None,
    }
}

/// What is compared: flow, the technique of the spin bit, the other one, and
/// what they are of.
type Pair = (u64, Technique, Technique, Quantity);

/// Differences in percent of the other technique's, of full round trips in the
/// order in which they were found, each with its flow.
fn compare<'a>(samples: impl IntoIterator<Item = (u64, &'a Sample)>) -> BTreeMap<Pair, Errors> {
    let samples: Vec<_> = samples
        .into_iter()
        .filter_map(|(flow, sample)| Some((flow, sample, full_trip(sample)?)))
        .collect();
    let mut latest = BTreeMap::new();
    let mut pairs: BTreeMap<Pair, Errors> = BTreeMap::new();
    let mut add = |pair: Pair, spin: f64, other: f64| {
        let longer = 100.0 * (other - spin) / other;
        pairs.entry(pair).or_default().add_difference(longer);
    };
    // A packet completes round trips of its own direction only.
    for of_one_packet in samples.chunk_by(|a, b| (a.0, a.1.last) == (b.0, b.1.last)) {
        let (flow, quantity) = (of_one_packet[0].0, of_one_packet[0].1.quantity);
        let completes = |technique| of_one_packet.iter().any(|s| s.1.technique == technique);
        for (_, serial, ms) in of_one_packet {
            if serial.technique != Technique::PsnPse {
                continue;
            }
            for spin in SPINS {
                if let Some(known) = latest.get(&(flow, spin, quantity)) {
                    add((flow, spin, Technique::PsnPse, quantity), *known, *ms);
                }
            }
        }
        for (_, sample, ms) in of_one_packet {
            latest.insert((flow, sample.technique, quantity), *ms);
        }
        for spin in SPINS {
            for stamp in STAMPS {
                if !completes(spin) && !completes(stamp) {
                    continue;
                }
                let known = |technique| latest.get(&(flow, technique, quantity));
                if let (Some(by_spin), Some(by_stamp)) = (known(spin), known(stamp)) {
                    add((flow, spin, stamp, quantity), *by_spin, *by_stamp);
                }
            }
        }
    }
    pairs
}

/// Adds a row for each pair of techniques and direction that `watching` has
/// samples of.
pub(super) fn add(plan: &Plan, watching: &Watching, sums: &mut Vec<ObservationSummary>) {
    for ((flow, spin, other, quantity), errors) in compare(watching.found.samples()) {
        let Some(seen) = watching.found.flows.get(&flow) else {
            continue;
        };
        sums.push(ObservationSummary {
            observer: watching.name.clone(),
            tap: watching.tap.clone(),
            flow: name(plan, seen),
            technique: format!("{}-to-{}", spin.name(), other.name()),
            quantity: quantity.name().to_owned(),
            unit: "%".to_owned(),
            basis: "measured".to_owned(),
            value: millionths(errors.mean().unwrap_or_default()),
            n: errors.len() as u64,
            errors: errors.spread(),
            ..ObservationSummary::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_observe::Side;
    use narrows_units::{Duration, Instant};

    fn trip(last: u64, technique: Technique, side: Side, ms: u64) -> Sample {
        Sample {
            at: Instant::from_nanos(last * 1_000_000),
            technique,
            quantity: Quantity::FullRtt(side),
            value: Measured::Rtt(Duration::from_millis(ms)),
            first: 0,
            last,
            weight: 1,
        }
    }

    /// The differences of one pair in the packets of flow 7.
    fn differences(samples: &[Sample], spin: Technique, other: Technique) -> Vec<f64> {
        let mut pairs = compare(samples.iter().map(|s| (7, s)));
        let pair = (7, spin, other, Quantity::FullRtt(Side::Initiator));
        let found = pairs.remove(&pair).expect("comparisons");
        found.in_order().to_vec()
    }

    #[test]
    fn the_latest_by_either_are_compared_when_a_packet_completes_one_or_both() {
        use Side::{Initiator, Responder};
        let mut part = trip(9, Technique::TsAll, Initiator, 1);
        part.quantity = Quantity::LeftRtt;
        let samples = [
            // Nothing to compare it with yet.
            trip(1, Technique::TsAll, Initiator, 50),
            trip(2, Technique::Vec, Initiator, 40),
            trip(3, Technique::Vec, Responder, 80),
            trip(4, Technique::TsAll, Initiator, 80),
            // One packet completes both: one comparison, of the new ones.
            trip(5, Technique::Vec, Initiator, 60),
            trip(5, Technique::TsAll, Initiator, 50),
            part,
        ];
        // A positive one says that timestamps read more.
        let found = differences(&samples, Technique::Vec, Technique::TsAll);
        assert_eq!(found, [20.0, 50.0, -20.0]);
    }

    #[test]
    fn a_serial_number_s_round_trip_is_not_compared_with_the_one_of_its_own_packet() {
        use Side::Initiator;
        let samples = [
            trip(2, Technique::Vec, Initiator, 40),
            trip(3, Technique::PsnPse, Initiator, 50),
            trip(5, Technique::Vec, Initiator, 50),
            trip(5, Technique::PsnPse, Initiator, 50),
            trip(6, Technique::PsnPse, Initiator, 50),
        ];
        let found = differences(&samples, Technique::Vec, Technique::PsnPse);
        assert_eq!(found, [20.0, 20.0, 0.0]);
    }

    #[test]
    fn flows_are_not_mixed() {
        let samples = [
            (1, trip(1, Technique::Spin, Side::Initiator, 40)),
            (2, trip(2, Technique::PsnPse, Side::Initiator, 50)),
        ];
        assert!(compare(samples.iter().map(|(flow, s)| (*flow, s))).is_empty());
    }

    #[test]
    fn packets_that_complete_neither_and_trips_of_no_time_are_not_compared() {
        use Side::Initiator;
        let samples = [
            trip(1, Technique::TsAll, Initiator, 50),
            trip(2, Technique::Spin, Initiator, 40),
            trip(3, Technique::Delay, Initiator, 45),
            trip(4, Technique::TsAll, Initiator, 0),
        ];
        let found = differences(&samples, Technique::Spin, Technique::TsAll);
        assert_eq!(found, [20.0]);
    }
}
