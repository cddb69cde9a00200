//! One technique held against another, as those must who know no truth.
//!
//! Each full round trip by timestamps or serial numbers is compared with the
//! latest one by the spin bit of the same direction (MAMI, deliverable D2.2,
//! §3.2.3): by how many percent the spin bit's is longer.

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

/// Adds a row for each pair of techniques and direction that `watching` has
/// samples of.
pub(super) fn add(plan: &Plan, watching: &Watching, sums: &mut Vec<ObservationSummary>) {
    let mut latest = BTreeMap::new();
    let mut pairs: BTreeMap<_, Errors> = BTreeMap::new();
    for entry in &watching.found.log {
        let Entry::Sample(flow, sample) = entry else {
            continue;
        };
        let Some(ms) = full_trip(sample) else {
            continue;
        };
        if SPINS.contains(&sample.technique) {
            latest.insert((*flow, sample.technique, sample.quantity), ms);
        }
        if !OTHERS.contains(&sample.technique) {
            continue;
        }
        for spin in SPINS {
            let Some(known) = latest.get(&(*flow, spin, sample.quantity)) else {
                continue;
            };
            if ms > 0.0 {
                let key = (*flow, spin, sample.technique, sample.quantity);
                let longer = 100.0 * (known - ms) / ms;
                pairs.entry(key).or_default().add_difference(longer);
            }
        }
    }
    for ((flow, spin, other, quantity), errors) in pairs {
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
