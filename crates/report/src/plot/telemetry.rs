//! Charts of what sources report of themselves, by what the sources declare.

use narrows_results::campaign::MetricTitle;
use narrows_results::folder::RunResult;
use narrows_results::summary::{FieldFigures, TelemetrySummary};

use super::chart::{Axis, Chart, Curve, Range, Shape};
use super::figures::{drawn_flows, flows, lines, points, short, time, window};
use super::palette;

/// What reports, and what.
type Reports<'a> = (&'a str, &'a [TelemetrySummary]);

/// The charts that the senders of flows declare, for each flow, then a chart of all flows for
/// each other field; then the same of other sources, those of a kind (`app/…`) together.
pub fn of_run(run: &RunResult) -> Vec<Chart> {
    let summary = &run.summary;
    let shown = drawn_flows(&summary.flows).into_iter();
    let shown = shown.map(|index| &summary.flows[index]);
    let mut charts: Vec<Chart> = shown
        .flat_map(|flow| declared(run, (&flow.name, &flow.telemetry)))
        .collect();
    let all = summary.flows.iter().flat_map(|flow| &flow.telemetry);
    charts.extend(alone(all).map(|field| {
        let (title, axis) = (title(field), axis(field));
        flows(run, &field.name, &title, &field.name, axis)
    }));
    let mut kinds: Vec<(&str, Vec<Reports<'_>>)> = Vec::new();
    for source in &summary.sources {
        let kind = source.name.split('/').next().unwrap_or_default();
        let reports: Reports<'_> = (&source.name, &source.telemetry);
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, of_kind)) => of_kind.push(reports),
            None => kinds.push((kind, vec![reports])),
        }
    }
    for (kind, sources) in kinds {
        let drawn = sources.iter().take(palette::FLOWS);
        charts.extend(drawn.flat_map(|source| declared(run, *source)));
        let all = sources.iter().flat_map(|(_, fields)| *fields);
        charts.extend(alone(all).map(|field| {
            let reports = |f: &TelemetrySummary| f.name == field.name;
            let having = sources.iter().filter(|(_, f)| f.iter().any(reports));
            let names = having.map(|(name, _)| *name).take(palette::FLOWS);
            let (id, title) = (format!("{kind}-{}", field.name), title(field));
            lines(run, &id, &title, names, &field.name, axis(field))
        }));
    }
    charts
}

/// The fields that are drawn alone, each once.
fn alone<'a>(
    fields: impl Iterator<Item = &'a TelemetrySummary>,
) -> impl Iterator<Item = &'a TelemetrySummary> {
    let mut once: Vec<&TelemetrySummary> = Vec::new();
    for field in fields.filter(|field| field.chart.is_empty()) {
        if once.iter().all(|f| f.name != field.name) {
            once.push(field);
        }
    }
    once.into_iter()
}

fn title(field: &TelemetrySummary) -> String {
    let per_interval = match field.figures {
        FieldFigures::Counter { .. } => ", per interval",
        FieldFigures::Gauge { .. } | FieldFigures::Sample(_) => "",
    };
    format!("{}: {}{per_interval}", field.name, field.about)
}

fn axis(field: &TelemetrySummary) -> Axis {
    // Of a share, the sentence begins with what it is a share of.
    let unit = match field.unit.as_str() {
        "" if field.about.starts_with("share ") => {
            field.about.split(',').next().unwrap_or_default()
        }
        unit => spelled(unit),
    };
    let quantity = MetricTitle::of_name(&field.name).title;
    // The unit is said once.
    let quantity = quantity.strip_suffix(unit).unwrap_or(&quantity).trim_end();
    Axis::of(quantity, unit).over(range([field].into_iter()))
}

/// From zero, unless a value is less.
fn range<'a>(mut fields: impl Iterator<Item = &'a TelemetrySummary>) -> Range {
    match fields.any(|f| f.figures.min().is_some_and(|min| min < 0.0)) {
        true => Range::Data,
        false => Range::FromZero,
    }
}

/// A unit as people write it.
fn spelled(unit: &str) -> &str {
    match unit {
        "" => "no unit",
        "mbit" => "Mbit/s",
        unit => unit,
    }
}

/// The charts that a source declares, each of fields with one unit.
fn declared(run: &RunResult, (source, fields): Reports<'_>) -> Vec<Chart> {
    let mut charts: Vec<Vec<&TelemetrySummary>> = Vec::new();
    for field in fields.iter().filter(|f| !f.chart.is_empty()) {
        let alike = |f: &TelemetrySummary| (&f.chart, &f.unit) == (&field.chart, &field.unit);
        match charts.iter_mut().find(|chart| alike(chart[0])) {
            Some(chart) => chart.push(field),
            None => charts.push(vec![field]),
        }
    }
    let interval_s = run.series.interval_s;
    let chart = |fields: Vec<&TelemetrySummary>| {
        let (name, first) = (short(source), fields[0]);
        let curves = fields.iter().filter_map(|field| {
            let track = run.series.track(source, &field.name)?;
            Some(Curve::new(&field.name, points(track, interval_s)))
        });
        let said: Vec<String> = fields
            .iter()
            .map(|f| format!("{} ({}): {}", f.name, f.about, figure(f)))
            .collect();
        let title = format!("{name}: {}", first.chart);
        let sentence = format!("{title}; in the steady window {}.", said.join("; "));
        let id = format!("{}-{}", name.replace('/', "-"), first.name);
        let y = Axis::of("value", spelled(&first.unit)).over(range(fields.iter().copied()));
        Chart::curves(&id, &title, time(run), y, Shape::Step, curves.collect())
            .describe(sentence)
            .window(window(run))
    };
    charts.into_iter().map(chart).collect()
}

/// The figure by which a field is described.
fn figure(field: &TelemetrySummary) -> String {
    match field.figures {
        FieldFigures::Counter { total, .. } => format!("total {total:.3}"),
        FieldFigures::Gauge { mean, .. } => format!("mean {mean:.3}"),
        FieldFigures::Sample(d) => format!("mean {:.3}, p99 {:.3}", d.mean, d.p99),
    }
}
