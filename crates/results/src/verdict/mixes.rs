//! Whether the path carried the traffic mixes that were offered to it.

use narrows_scenario::{FlowPlan, MixPlan, Plan, Traffic};

use super::apps::{count_of, source_of};
use super::checks::{Findings, part_of_window};
use crate::summary::RunSummary;

/// Part of the bytes that were due that may be missing (our choice): what is on its way when the
/// window ends.
const MISSING_SHARE: f64 = 0.01;

/// Names the mixes of which less arrived in the steady window than was due.
pub(super) fn judge(found: &mut Findings, plan: &Plan, summary: &RunSummary) {
    for mix in &plan.mixes {
        let (due, got, waits) = carried(plan, mix, summary);
        let missing = due - got - waits;
        if missing > MISSING_SHARE * due {
            let seconds = plan.measure.length().as_secs_f64().max(1e-9);
            let mbit = |bytes: f64| bytes * 8.0 / seconds / 1e6;
            let line = format!(
                "the path does not carry mix/{}: {:.2} Mbit/s of it were due in the steady window, \
                 and {:.2} Mbit/s arrived",
                mix.name,
                mbit(due),
                mbit(got)
            );
            found.distrust("not-carried", &format!("mix/{}", mix.name), line);
        }
    }
}

/// Bytes that were due in the steady window, that arrived in it, and that may be on their way at its end: an object
/// of each client.
fn carried(plan: &Plan, mix: &MixPlan, summary: &RunSummary) -> (f64, f64, f64) {
    let (mut due, mut got, mut waits) = (0.0, 0.0, 0.0);
    for &i in &mix.flows {
        let (Some(flow), Some(seen)) = (plan.flows.get(i), summary.flows.get(i)) else {
            continue;
        };
        if let Some(bytes) = due_of(plan, flow) {
            due += bytes;
            got += seen.bytes as f64;
        }
    }
    for &i in &mix.apps {
        let Some(app) = plan.apps.get(i) else {
            continue;
        };
        let (_, source) = source_of(app, summary);
        let value = |name: &str| {
            app.spec
                .parameters()
                .find(|(n, _)| *n == name)
                .map(|(_, v)| v)
        };
        let number = |words: Option<String>| {
            let words = words.unwrap_or_default();
            <narrows_units::Bytes as narrows_units::Value>::parse(&words)
                .map_or(0.0, |b| b.get() as f64)
        };
        let bytes = number(value("bytes"));
        due += count_of(source, "asked") * bytes;
        got += count_of(source, "received_bytes");
        waits += bytes * number(value("clients"));
    }
    (due, got, waits)
}

/// Bytes that a flow of a constant rate has to send in the steady window; `None` of one that sends
/// what the path carries.
fn due_of(plan: &Plan, flow: &FlowPlan) -> Option<f64> {
    let part = part_of_window(plan, flow.start, flow.stop);
    let per_s = match flow.traffic {
        Traffic::Cbr(datagrams) | Traffic::Poisson(datagrams) => {
            datagrams.rate.as_bits() as f64 / 8.0
        }
        Traffic::Writes(writes) => writes.bytes as f64 / writes.every.as_secs_f64(),
        _ => return None,
    };
    Some(per_s * part.as_secs_f64())
}
