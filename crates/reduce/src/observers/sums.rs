//! What the samples of each flow and technique come to.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use narrows_observe::{Estimate, Measured, Sample, Technique, Unit};
use narrows_scenario::Plan;
use narrows_wire::efm::Signal;

use super::packets::PacketTable;
use super::pairs;
use super::seconds::{SmoothedRtt, Spread};
use super::spread::Errors;
use super::window::Passing;
use super::{Entry, Seen, Watching};
use crate::summary::{ObservationSummary, millionths};

/// By how much the two ends may lengthen a sample of a technique whose marks they
/// drop rather than hold for more than 1 ms each, in milliseconds (RFC 9506
/// §2.2.2).
const HELD_AT_MOST_MS: f64 = 2.0;
/// These techniques.
const BOUNDED: [(Signal, Technique); 2] = [
    (Signal::Delay, Technique::Delay),
    (Signal::Vec, Technique::Vec),
];

/// Round trips of one technique and quantity.
#[derive(Default)]
struct Trips {
    values: Vec<f64>,
    truths: Spread,
    errors: Errors,
    dwells: f64,
}

impl Trips {
    fn add(&mut self, ledger: &PacketTable, sample: &Sample) {
        let Measured::Rtt(rtt) = sample.value else {
            return;
        };
        let value = rtt.as_millis_f64();
        let trip = ledger.round_trip(sample);
        for _ in 0..sample.weight {
            self.values.push(value);
            if let Some(trip) = trip {
                self.truths.add(trip.network);
                self.dwells += trip.dwell;
                self.errors.add(value, trip.network);
            }
        }
    }
}

/// Adds what `watching` found to `sums`: one for each estimate.
pub(super) fn add(
    plan: &Plan,
    ledger: &PacketTable,
    srtt: &SmoothedRtt,
    watching: &Watching,
    sums: &mut Vec<ObservationSummary>,
) {
    let span = watching.found.span;
    for seen in watching.found.flows.values() {
        let of_flow = |technique: &str, quantity: &str, unit: &str| ObservationSummary {
            observer: watching.name.clone(),
            tap: watching.tap.clone(),
            flow: name(plan, seen),
            technique: technique.to_owned(),
            quantity: quantity.to_owned(),
            unit: unit.to_owned(),
            basis: "measured".to_owned(),
            ..ObservationSummary::default()
        };
        let Passing {
            bytes,
            packets,
            again,
        } = seen.inside;
        if packets == 0 {
            continue;
        }
        sums.push(ObservationSummary {
            value: millionths(bytes as f64 / f64::from(1 << 20)),
            n: packets,
            ..of_flow("seen", "ip", "MiB")
        });
        sums.push(ObservationSummary {
            value: again as f64,
            n: packets,
            ..of_flow("seen", "again_or_late", "packets")
        });
        let Some(flow) = seen.plan else { continue };
        let carried = watching.carried.get(flow);
        if let Some(growth) = carried.and_then(|c| c.growth(span)) {
            sums.push(ObservationSummary {
                value: millionths(growth),
                n: packets,
                ..of_flow("seen", "growth", "Mbit/s per s")
            });
        }
        let smoothed = srtt.within(flow, span);
        if let Some(mean) = smoothed.mean() {
            sums.push(ObservationSummary {
                value: millionths(mean),
                sd: smoothed.sd().map(millionths),
                n: smoothed.n,
                ..of_flow("ss", "smoothed_rtt", "ms")
            });
        }
    }
    let mut trips: BTreeMap<_, Trips> = BTreeMap::new();
    for (flow, sample) in watching.found.samples() {
        let key = (flow, sample.technique, sample.quantity);
        trips.entry(key).or_default().add(ledger, sample);
    }
    for (id, seen) in &watching.found.flows {
        for (signal, technique) in BOUNDED {
            if !seen.profile.has(signal) || seen.plan.is_none() || seen.inside.packets == 0 {
                continue;
            }
            let errors = trips
                .iter()
                .filter(|((f, t, _), _)| (f, t) == (id, &technique));
            let (inflated, n) = errors.fold((0, 0), |(inflated, n), (_, trips)| {
                let more = trips.errors.above(HELD_AT_MOST_MS);
                (inflated + more, n + trips.errors.len())
            });
            sums.push(ObservationSummary {
                observer: watching.name.clone(),
                tap: watching.tap.clone(),
                flow: name(plan, seen),
                technique: technique.name().to_owned(),
                quantity: "inflated".to_owned(),
                unit: "samples".to_owned(),
                basis: "measured".to_owned(),
                value: inflated as f64,
                n: n as u64,
                ..ObservationSummary::default()
            });
        }
    }
    let mut of_all = BTreeMap::new();
    for entry in &watching.found.log {
        let Entry::Estimate(flow, _, estimate) = entry else {
            continue;
        };
        let Some(seen) = watching.found.flows.get(flow) else {
            continue;
        };
        let mut sum = ObservationSummary {
            observer: watching.name.clone(),
            tap: watching.tap.clone(),
            flow: name(plan, seen),
            ..of(estimate)
        };
        match estimate.unit {
            Unit::Ratio => {
                let truth = seen
                    .plan
                    .and_then(|f| ledger.rate(f, estimate.quantity, &watching.passed, span));
                sum.truth = truth.map(millionths);
                sum.error = truth.map(|t| millionths(estimate.value - t));
            }
            Unit::Ms => {
                let key = (*flow, estimate.technique, estimate.quantity);
                if let Some(trips) = trips.get_mut(&key) {
                    against_truth(&mut sum, trips);
                }
                let truth = seen.plan.and_then(|f| {
                    let quantity = estimate.quantity;
                    let truth = || ledger.all_round_trips(f, quantity, &watching.passed, span);
                    *of_all.entry((f, quantity)).or_insert_with(truth)
                });
                sum.truth_all = truth.map(millionths);
                sum.error_all = truth.map(|t| millionths(estimate.value - t));
            }
        }
        sums.push(sum);
    }
    pairs::add(plan, watching, sums);
}

/// The flow's name in the plan; of others, addresses and ports.
pub(super) fn name(plan: &Plan, seen: &Seen) -> String {
    match seen.plan.and_then(|f| plan.flows.get(f)) {
        Some(flow) => flow.name.clone(),
        None => seen.called.clone(),
    }
}

fn of(estimate: &Estimate) -> ObservationSummary {
    ObservationSummary {
        technique: estimate.technique.name().to_owned(),
        quantity: estimate.quantity.name().to_owned(),
        unit: estimate.unit.name().to_owned(),
        basis: estimate.basis.name().to_owned(),
        value: millionths(estimate.value),
        low: estimate.interval.map(|i| millionths(i.low)),
        high: estimate.interval.map(|i| millionths(i.high)),
        n: estimate.n,
        rejected: estimate.rejected,
        sd: estimate.sd.map(millionths),
        min: estimate.min.map(millionths),
        ..ObservationSummary::default()
    }
}

fn against_truth(sum: &mut ObservationSummary, trips: &mut Trips) {
    trips.values.sort_by(f64::total_cmp);
    let at = |share: f64| {
        let last = trips.values.len().checked_sub(1)?;
        Some(millionths(
            trips.values[(share * last as f64).round() as usize],
        ))
    };
    (sum.p50, sum.p95) = (at(0.5), at(0.95));
    let n = trips.errors.len() as f64;
    if let Some(error) = trips.errors.mean() {
        sum.truth = trips.truths.mean().map(millionths);
        sum.truth_sd = trips.truths.sd().map(millionths);
        sum.error = Some(millionths(error));
        sum.dwell_ms = Some(millionths(trips.dwells / n));
        sum.errors = std::mem::take(&mut trips.errors).spread();
    }
}
