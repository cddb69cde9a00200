//! A run of one of Flent's tests as Flent draws it: downloads, uploads and pings, one below the
//! other, with their totals before them.
//!
//! These are the panels of Flent's `all_scaled` and its `totals`. Flent smooths the mean over ten
//! samples and cuts outliers off; here curves are as they were measured.

use std::collections::BTreeMap;

use narrows_results::folder::RunResult;
use narrows_scenario::{FlentFlow, FlentTest};

use super::chart::{Axis, Chart, Curve, Range, Shape};
use super::figures::{extent, points, time, window};
use super::palette;

/// The place in the palette of a mean: that of the first probe, which is the darkest.
const DARK: usize = palette::of_probe(0);

/// The figures of such a run, in the order of reading.
pub(super) fn of_run(run: &RunResult, test: &FlentTest) -> Vec<Chart> {
    let goodput = || Axis::of("goodput", "Mbit/s");
    let ways = [("download", true), ("upload", false)];
    let flows = |down: bool| test.flows.iter().filter(move |flow| flow.down == down);
    let totals = ways.map(|(word, down)| {
        let mut curve = Curve::new(word, sum(run, flows(down)));
        curve.colour = Some(usize::from(!down));
        curve
    });
    let mut charts = Vec::new();
    if totals.iter().all(|curve| !curve.points.is_empty()) {
        let title = format!("{}: all downloads and all uploads", test.name);
        charts.push(chart(run, "totals", &title, goodput(), totals.to_vec()));
    }
    for (word, down) in ways {
        let drawn = flows(down).take(palette::FLOWS);
        let of_flow = |flow: &FlentFlow| (format!("flow/{}", flow.name), legend(flow, word));
        let mut curves = curves(run, drawn.map(of_flow), "goodput_mbit");
        let count = flows(down).count();
        if count > 1 {
            let mut mean = sum(run, flows(down));
            mean.iter_mut().for_each(|point| point[1] /= count as f64);
            let mut curve = Curve::new("mean", mean);
            curve.colour = Some(DARK);
            curves.push(curve);
        }
        let title = format!("{}: each {word}", test.name);
        charts.push(chart(run, word, &title, goodput(), curves));
    }
    let pings = test.probes.iter().map(|probe| {
        let name = probe.series.trim_start_matches("Ping (ms) ");
        // Narrows' own is a datagram, too.
        let name = if name == "ICMP" { probe.name } else { name };
        (format!("probe/{}", probe.name), name.to_owned())
    });
    let title = format!("{}: round trip of each ping", test.name);
    let y = Axis::of("round trip", "ms");
    charts.push(chart(run, "ping", &title, y, curves(run, pings, "rtt_ms")));
    charts
}

/// A flow in the legend: of "TCP upload BE2" it is BE2.
fn legend(flow: &FlentFlow, word: &str) -> String {
    let series = flow.series.as_str();
    let series = series.strip_prefix(&format!("TCP {word}"));
    match series.unwrap_or_default().trim_start_matches([':', ' ']) {
        "" => flow.name.clone(),
        name => name.to_owned(),
    }
}

/// A metric of these entities, each with its name in the legend.
fn curves(
    run: &RunResult,
    entities: impl Iterator<Item = (String, String)>,
    metric: &str,
) -> Vec<Curve> {
    let mut curves = Vec::new();
    for (entity, name) in entities {
        if let Some(track) = run.series.track(&entity, metric) {
            let mut curve = Curve::new(name, points(track, run.series.interval_s));
            curve.colour = Some(curves.len());
            curves.push(curve);
        }
    }
    curves
}

fn chart(run: &RunResult, what: &str, title: &str, y: Axis, curves: Vec<Curve>) -> Chart {
    let said: Vec<String> = curves
        .iter()
        .filter_map(|curve| {
            let (_, mean, _) = extent(curve, window(run))?;
            Some(format!("{}: mean {mean:.2}", curve.name))
        })
        .collect();
    let sentence = format!(
        "{title} over time, in {}; in the steady window {}.",
        y.unit,
        said.join("; ")
    );
    let y = y.over(Range::FromZero);
    Chart::curves(
        &format!("flent-{what}"),
        title,
        time(run),
        y,
        Shape::Line,
        curves,
    )
    .describe(sentence)
    .window(window(run))
}

/// The sum of the goodputs of flows at each time at which one of them has one.
fn sum<'f>(run: &RunResult, flows: impl Iterator<Item = &'f FlentFlow>) -> Vec<[f64; 2]> {
    // Times are whole microseconds, which a float does not order as keys do.
    let mut sums: BTreeMap<u64, f64> = BTreeMap::new();
    for flow in flows {
        let name = format!("flow/{}", flow.name);
        let Some(track) = run.series.track(&name, "goodput_mbit") else {
            continue;
        };
        for (t, value) in track.t_s.iter().zip(&track.value) {
            *sums.entry((t * 1e6).round() as u64).or_default() += value;
        }
    }
    sums.into_iter()
        .map(|(us, sum)| [us as f64 / 1e6, sum])
        .collect()
}
