//! Whether applications delivered anything, and whether their hosts let them.

use narrows_scenario::{AppPlan, Delivery, Plan};

use super::checks::{Findings, part_of_window};
use crate::summary::{FieldFigures, RunSummary, SourceSummary};

/// Part of what was due that, when it fails, makes figures those of the rest (our choice).
const FAILED_SHARE: f64 = 0.5;

/// What a host counts of connections for which it had no port (`crates/host/src/api.rs`).
const NO_PORT: &str = "no_port";

/// Judges applications by what they reported in the steady window.
pub(super) fn judge(found: &mut Findings, plan: &Plan, summary: &RunSummary) {
    for app in &plan.apps {
        let (name, source) = source_of(app, summary);
        for delivery in app.spec.deliveries() {
            delivered(found, (plan, app), &name, source, &delivery);
        }
    }
    for host in &summary.sources {
        let failed = count_of(Some(host), NO_PORT);
        if failed > 0.0 {
            let name = &host.name;
            let line = format!(
                "{name} had no local port left for {failed} connections in the steady window, so \
                 that its ports limited them and not the path: a port is free again a minute \
                 after its end closed first"
            );
            found.distrust("out-of-ports", name, line);
        }
    }
}

/// Whether nothing was delivered in the steady window of something that `app` had to deliver.
pub(super) fn is_stuck(plan: &Plan, app: &AppPlan, summary: &RunSummary) -> bool {
    let (_, source) = source_of(app, summary);
    let mut deliveries = app.spec.deliveries().into_iter();
    deliveries.any(|delivery| is_missed(plan, app, source, &delivery))
}

/// The name of an application, and what it reported, if anything.
pub(super) fn source_of<'s>(
    app: &AppPlan,
    summary: &'s RunSummary,
) -> (String, Option<&'s SourceSummary>) {
    let name = format!("app/{}", app.name);
    let source = summary.sources.iter().find(|source| source.name == name);
    (name, source)
}

/// Whether some of it was due and none delivered.
fn is_missed(
    plan: &Plan,
    app: &AppPlan,
    source: Option<&SourceSummary>,
    delivery: &Delivery,
) -> bool {
    let amount = |field: narrows_core::TelemetryField| count_of(source, &field.column());
    let part = part_of_window(plan, app.start, app.stop);
    let expects = match delivery.due {
        // What still waits when it has stopped is no concern of the window.
        _ if part.is_zero() => false,
        // What reports nothing at all shows nothing either.
        Some(due) if source.is_some() => {
            amount(due) > 0.0 || delivery.waiting.map_or(0.0, amount) > 0.0
        }
        _ => part * 2 >= plan.measure.length(),
    };
    expects && amount(delivery.got) <= 0.0
}

fn delivered(
    found: &mut Findings,
    (plan, app): (&Plan, &AppPlan),
    name: &str,
    source: Option<&SourceSummary>,
    delivery: &Delivery,
) {
    let amount = |field: narrows_core::TelemetryField| count_of(source, &field.column());
    let [thing, happens] = delivery.what;
    let due = delivery.due.map_or(0.0, amount);
    if is_missed(plan, app, source, delivery) {
        let of = match due > 0.0 {
            true => format!(", of {due} that were due"),
            false => String::new(),
        };
        let line = format!("not one {thing} of {name} {happens} in the steady window{of}");
        return found.distrust("nothing-delivered", name, line);
    }
    let failed = delivery.failed.map_or(0.0, amount);
    if failed > 0.0 {
        let line = format!(
            "{failed} {thing}s of {name} failed in the steady window, in which {due} were due"
        );
        match failed >= FAILED_SHARE * due {
            true => found.distrust("failures", name, line),
            false => found.note("failures", name, line),
        }
    }
}

/// How much a source reported of a field: the total of a counter, the most of a gauge, and of
/// what is measured 1 if it was.
pub(super) fn count_of(source: Option<&SourceSummary>, column: &str) -> f64 {
    let mut fields = source.iter().flat_map(|source| &source.telemetry);
    match fields.find(|field| field.name == column).map(|f| f.figures) {
        Some(FieldFigures::Counter { total, .. }) => total,
        Some(FieldFigures::Gauge { max, .. }) => max,
        Some(FieldFigures::Sample(_)) => 1.0,
        None => 0.0,
    }
}
