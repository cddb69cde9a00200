//! One technique held against another, as those must who know no truth.
//!
//! Each full round trip by timestamps or serial numbers is compared with the
//! latest one by the spin bit of the same direction (MAMI, deliverable D2.2,
//! §3.2.3): by how many percent the spin bit's is longer. The latest is one that
//! an earlier packet completed: serial numbers keep step with the spin bit, so the
//! same packet often completes both, and a figure would be held against itself.

use std::collections::BTreeMap;

use narrows_observe::{Measured, Quantity, Sample, Technique};
use narrows_scenario::Plan;

use super::spread::Errors;
use super::sums::name;
use super::{Entry, Watching};
use crate::summary::{ObservationSummary, millionths};

/// What is compared.
const SPINS: [Technique; 2] = [Technique::Spin, Technique::Vec];

/// What it is compared with.
const OTHERS: [Technique; 3] = [Technique::TsSingle, Technique::TsAll, Technique::PsnPse];

fn full_trip(sample: &Sample) -> Option<f64> {
    match (sample.quantity, sample.value) {
        (Quantity::FullRtt(_), Measured::Rtt(rtt)) => Some(rtt.as_millis_f64()),
        _ => None,
    }
}

/// What is compared: flow, the technique of the spin bit, the other one, and
/// what they are of.
type Pair = (u64, Technique, Technique, Quantity);

/// Differences in percent, of full round trips in the order in which they were
/// found, each with its flow.
fn compare<'a>(samples: impl IntoIterator<Item = (u64, &'a Sample)>) -> BTreeMap<Pair, Errors> {
    let samples: Vec<_> = samples
        .into_iter()
        .filter_map(|(flow, sample)| Some((flow, sample, full_trip(sample)?)))
        .collect();
    let mut latest = BTreeMap::new();
    let mut pairs: BTreeMap<Pair, Errors> = BTreeMap::new();
    for of_one_packet in samples.chunk_by(|a, b| (a.0, a.1.last) == (b.0, b.1.last)) {
        for (flow, sample, ms) in of_one_packet {
            if !OTHERS.contains(&sample.technique) || *ms <= 0.0 {
                continue;
            }
            for spin in SPINS {
                if let Some(known) = latest.get(&(*flow, spin, sample.quantity)) {
                    let pair = (*flow, spin, sample.technique, sample.quantity);
                    let longer = 100.0 * (known - ms) / ms;
                    pairs.entry(pair).or_default().add_difference(longer);
                }
            }
        }
        for (flow, sample, ms) in of_one_packet {
            if SPINS.contains(&sample.technique) {
                latest.insert((*flow, sample.technique, sample.quantity), *ms);
            }
        }
    }
    pairs
}

/// Adds a row for each pair of techniques and direction that `watching` has
/// samples of.
pub(super) fn add(plan: &Plan, watching: &Watching, sums: &mut Vec<ObservationSummary>) {
    let samples = watching.found.log.iter().filter_map(|entry| match entry {
        Entry::Sample(flow, sample) => Some((*flow, sample)),
        Entry::Estimate(..) => None,
    });
    for ((flow, spin, other, quantity), errors) in compare(samples) {
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
        }
    }

    #[test]
    fn a_round_trip_is_compared_with_the_latest_of_its_direction_by_the_spin_bit() {
        use Side::{Initiator, Responder};
        let mut part = trip(9, Technique::PsnPse, Initiator, 1);
        part.quantity = Quantity::LeftRtt;
        let samples = [
            // Nothing to compare it with yet.
            trip(1, Technique::TsAll, Initiator, 50),
            trip(2, Technique::Vec, Initiator, 40),
            trip(3, Technique::Vec, Responder, 80),
            // 20 % less.
            trip(4, Technique::TsAll, Initiator, 50),
            // The spin bit's of the same packet is not the latest yet.
            trip(5, Technique::Vec, Initiator, 60),
            trip(5, Technique::TsAll, Initiator, 50),
            trip(6, Technique::TsAll, Initiator, 50),
            part,
        ];
        let mut pairs = compare(samples.iter().map(|s| (7, s)));
        let pair = (
            7,
            Technique::Vec,
            Technique::TsAll,
            Quantity::FullRtt(Initiator),
        );
        let found = pairs.remove(&pair).expect("three comparisons");
        assert!(pairs.is_empty());
        assert_eq!(found.len(), 3);
        let spread = found.spread().expect("a spread");
        assert_eq!((spread.p025, spread.p50, spread.max), (-20.0, -20.0, 20.0));
    }

    #[test]
    fn flows_are_not_mixed() {
        let samples = [
            (1, trip(1, Technique::Spin, Side::Initiator, 40)),
            (2, trip(2, Technique::PsnPse, Side::Initiator, 50)),
        ];
        assert!(compare(samples.iter().map(|(flow, s)| (*flow, s))).is_empty());
    }
}
