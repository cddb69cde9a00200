//! The figures of a run.

use narrows_results::folder::RunResult;
use narrows_results::series::Track;
use narrows_results::summary::{BandSummary, FlowSummary, QueueSummary};

use super::chart::{Axis, Bars, Chart, Curve, Range, Shape};
use super::{flent, palette, telemetry};

/// A curve is interrupted where its track has no value for so long (seconds).
const PAUSE_S: f64 = 1.0;

/// All figures of a run that have data, in the order of reading.
pub fn of_run(run: &RunResult) -> Vec<Chart> {
    let test = narrows_results::flent::test_of(run);
    let mut charts = match &test {
        Some(test) => flent::of_run(run, test),
        None => vec![throughput(run)],
    };
    charts.extend([
        flows(
            run,
            "rtt",
            "TCP round-trip time of each flow",
            "rtt_ms",
            Axis::of("TCP RTT", "ms").over(Range::FromZero),
        ),
        flows(
            run,
            "cwnd",
            "Congestion window of each flow",
            "cwnd_packets",
            Axis::of("congestion window", "packets").over(Range::FromZero),
        ),
    ]);
    charts.extend(telemetry::of_run(run));
    let queues = busiest(&run.summary.queues);
    for (place, queue) in queues.iter().enumerate() {
        let suffix = match place {
            0 => String::new(),
            n => format!("-{}", n + 1),
        };
        charts.push(sojourn(run, queue, place, &suffix));
        charts.push(sojourn_cdf(queue, place, &suffix));
    }
    charts.push(signals(&queues));
    if test.is_none() {
        charts.push(probes(run));
    }
    charts.retain(|chart| !chart.is_empty());
    let changes = run.summary.topology.changes.iter().map(|change| change.0);
    let changes: Vec<f64> = changes.collect();
    for chart in charts.iter_mut().filter(|c| c.x.quantity == "time") {
        chart.changes.clone_from(&changes);
    }
    charts
}

/// The queues worth a figure: those that waited, marked or dropped, the
/// busiest first; if none did, the busiest alone.
pub fn busiest(queues: &[QueueSummary]) -> Vec<&QueueSummary> {
    let signals = |q: &QueueSummary| q.marks.total() + q.drops.total();
    // Below a tenth of a millisecond there is serialisation, not queueing.
    let waited = |q: &QueueSummary| q.sojourn_ms.is_some_and(|d| d.p99 >= 0.1);
    let mut order: Vec<&QueueSummary> = queues.iter().filter(|q| q.packets > 0).collect();
    let load = |q: &QueueSummary| q.utilisation.unwrap_or(0.0);
    order.sort_by(|a, b| load(b).total_cmp(&load(a)));
    let mut chosen: Vec<&QueueSummary> = order
        .iter()
        .copied()
        .filter(|q| signals(q) > 0 || waited(q))
        .take(palette::QUEUES)
        .collect();
    if chosen.is_empty() {
        chosen.extend(order.first());
    }
    chosen
}

/// Indices of the flows that are drawn, in the scenario's order: as many as have
/// a colour, those with most bytes. The place in this list is the flow's colour.
pub fn drawn_flows(flows: &[FlowSummary]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(flows[*index].bytes_total));
    order.truncate(palette::FLOWS);
    order.sort_unstable();
    order
}

/// The part of a full name that distinguishes it from its like: `flow/prague` is
/// `prague`.
pub fn short(name: &str) -> &str {
    name.strip_prefix("flow/")
        .or_else(|| name.strip_prefix("probe/"))
        .or_else(|| name.strip_prefix("link/"))
        .unwrap_or(name)
}

/// The points of a track, interrupted by NaN where it was silent.
pub(super) fn points(track: &Track, interval_s: f64) -> Vec<[f64; 2]> {
    let pause = PAUSE_S.max(interval_s * 4.0);
    let mut points: Vec<[f64; 2]> = Vec::with_capacity(track.t_s.len());
    for (t, value) in track.t_s.iter().zip(&track.value) {
        if let Some(last) = points.last() {
            if t - last[0] > pause {
                points.push([last[0] + interval_s, f64::NAN]);
            }
        }
        points.push([*t, *value]);
    }
    points
}

pub(super) fn time(run: &RunResult) -> Axis {
    Axis::of("time", "s").over(Range::Fixed(0.0, run.summary.duration_s.max(1e-3)))
}

pub(super) fn window(run: &RunResult) -> Option<(f64, f64)> {
    let window = run.summary.window;
    (window.to_s > window.from_s).then_some((window.from_s, window.to_s))
}

/// What the receivers got over time. Where the path does not see packets, and in
/// results of older versions, that is what was handed to the application.
fn throughput(run: &RunResult) -> Chart {
    let seen = run
        .series
        .of_metric("throughput_mbit")
        .any(|track| track.entity.starts_with("flow/"));
    flows(
        run,
        "throughput",
        "Throughput of each flow at its receiver",
        if seen {
            "throughput_mbit"
        } else {
            "goodput_mbit"
        },
        Axis::of("throughput", "Mbit/s").over(Range::FromZero),
    )
}

/// One metric of the flows over time.
pub(super) fn flows(run: &RunResult, id: &str, title: &str, metric: &str, y: Axis) -> Chart {
    let drawn = drawn_flows(&run.summary.flows).into_iter();
    let names = drawn.map(|index| &*run.summary.flows[index].name);
    lines(run, id, title, names, metric, y)
}

/// One metric of these entities over time, each with the colour of its place.
pub(super) fn lines<'a>(
    run: &RunResult,
    id: &str,
    title: &str,
    names: impl Iterator<Item = &'a str>,
    metric: &str,
    y: Axis,
) -> Chart {
    let mut curves = Vec::new();
    for (place, name) in names.enumerate() {
        if let Some(track) = run.series.track(name, metric) {
            let mut curve = Curve::new(short(name), points(track, run.series.interval_s));
            curve.colour = Some(place);
            curves.push(curve);
        }
    }
    let said: Vec<String> = curves
        .iter()
        .filter_map(|curve| {
            let (low, mean, high) = extent(curve, window(run))?;
            Some(format!(
                "{}: mean {mean:.3}, between {low:.3} and {high:.3}",
                curve.name
            ))
        })
        .collect();
    let sentence = format!(
        "{title} over time, in {}; in the steady window {}.",
        y.unit,
        said.join("; ")
    );
    let chart = Chart::curves(id, title, time(run), y, Shape::Line, curves);
    chart.describe(sentence).window(window(run))
}

/// Least, mean and greatest value of a curve within a window.
pub(super) fn extent(curve: &Curve, window: Option<(f64, f64)>) -> Option<(f64, f64, f64)> {
    let (from, to) = window.unwrap_or((f64::NEG_INFINITY, f64::INFINITY));
    let values: Vec<f64> = curve
        .points
        .iter()
        .filter(|p| p[0] > from && p[0] <= to && p[1].is_finite())
        .map(|p| p[1])
        .collect();
    let first = *values.first()?;
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let (low, high) = values
        .iter()
        .fold((first, first), |(l, h), v| (l.min(*v), h.max(*v)));
    Some((low, mean, high))
}

/// What a band is called in a legend.
fn band(name: &str) -> String {
    name.replace('_', " ")
}

/// The bands of the queue at that place among those that are drawn, with their colours: of
/// two, the shades of the queue. The last one, which is served first, comes first.
fn bands(queue: &QueueSummary, place: usize) -> impl Iterator<Item = (&BandSummary, usize)> {
    let shades = queue.bands.len() <= 2;
    let bands = queue.bands.iter().rev().take(palette::FLOWS).enumerate();
    bands.map(move |(at, band)| match shades {
        true => (band, palette::of_queue(place, at > 0)),
        false => (band, at),
    })
}

/// Sojourn over time of the queue at that place among those that are drawn.
fn sojourn(run: &RunResult, queue: &QueueSummary, place: usize, suffix: &str) -> Chart {
    // The maximum lies behind the mean, in the lighter shade.
    let of_all = |metric: &str, name: &str, light| {
        let colour = palette::of_queue(place, light);
        (metric.to_owned(), name.to_owned(), colour)
    };
    let metrics: Vec<(String, String, usize)> = if queue.bands.is_empty() {
        vec![
            of_all("sojourn_max_ms", "maximum", true),
            of_all("sojourn_ms", "mean", false),
        ]
    } else {
        bands(queue, place)
            .map(|(b, colour)| {
                let metric = format!("sojourn_{}_ms", b.name);
                (metric, format!("{}, mean", band(&b.name)), colour)
            })
            .collect()
    };
    let curves: Vec<Curve> = metrics
        .into_iter()
        .filter_map(|(metric, name, colour)| {
            let track = run.series.track(&queue.name, &metric)?;
            let mut curve = Curve::new(name, points(track, run.series.interval_s));
            curve.colour = Some(colour);
            Some(curve)
        })
        .collect();
    // Bands differ by a factor of tens: only a logarithm shows both.
    let range = match queue.bands.is_empty() {
        true => Range::FromZero,
        false => Range::Log,
    };
    let interval = run.series.interval_s * 1e3;
    let title = format!("Time in queue, {}", short(&queue.name));
    let sentence = format!(
        "Time that packets waited in {} ({}), per interval of {interval} ms{}.",
        queue.name,
        queue.words,
        median_and_tail(queue)
    );
    let y = Axis::of("sojourn", "ms").over(range);
    Chart::curves(
        &format!("sojourn{suffix}"),
        &title,
        time(run),
        y,
        Shape::Line,
        curves,
    )
    .describe(sentence)
    .window(window(run))
}

/// Median and 99th percentile of a queue's sojourn, band by band.
fn median_and_tail(queue: &QueueSummary) -> String {
    let bands = queue
        .bands
        .iter()
        .map(|b| (band(&b.name), b.sojourn_ms))
        .chain(
            queue
                .bands
                .is_empty()
                .then_some(("all packets".to_owned(), queue.sojourn_ms)),
        );
    bands
        .filter_map(|(name, d)| {
            let d = d?;
            Some(format!(
                "; {name}: median {:.3} ms, 99th percentile {:.3} ms",
                d.p50, d.p99
            ))
        })
        .collect()
}

/// Distribution of the same queue's sojourn in the steady window.
fn sojourn_cdf(queue: &QueueSummary, place: usize, suffix: &str) -> Chart {
    let percent = |cdf: &[(f64, f64)]| -> Vec<[f64; 2]> {
        cdf.iter().map(|(ms, share)| [*ms, share * 100.0]).collect()
    };
    let mut curves: Vec<Curve> = bands(queue, place)
        .map(|(b, colour)| {
            let mut curve = Curve::new(band(&b.name), percent(&b.sojourn_cdf));
            curve.colour = Some(colour);
            curve
        })
        .collect();
    if curves.is_empty() {
        let mut curve = Curve::new("all packets", percent(&queue.sojourn_cdf));
        curve.colour = Some(palette::of_queue(place, false));
        curves.push(curve);
    }
    let range = match queue.bands.is_empty() {
        true => Range::FromZero,
        false => Range::Log,
    };
    let title = format!("Distribution of time in queue, {}", short(&queue.name));
    let sentence = format!(
        "Share of packets that waited at most so long in {} in the steady window{}.",
        queue.name,
        median_and_tail(queue)
    );
    Chart::curves(
        &format!("sojourn-cdf{suffix}"),
        &title,
        Axis::of("sojourn", "ms").over(range),
        Axis::of("share of packets", "%").over(Range::Fixed(0.0, 100.0)),
        Shape::Cdf,
        curves,
    )
    .describe(sentence)
}

/// Marks and drops of the queues by cause.
fn signals(queues: &[&QueueSummary]) -> Chart {
    type Counts = Vec<(String, u64)>;
    let all: Vec<(&str, Counts)> = queues
        .iter()
        .map(|q| {
            let marks = q.marks.by_cause().map(|(c, n)| (format!("mark: {c}"), n));
            let drops = q.drops.by_cause().map(|(c, n)| (format!("drop: {c}"), n));
            let counts = marks.into_iter().chain(drops).collect();
            (short(&q.name), counts)
        })
        .collect();
    let causes = all.first().map_or(0, |(_, counts)| counts.len());
    let kept: Vec<usize> = (0..causes)
        .filter(|cause| all.iter().any(|(_, counts)| counts[*cause].1 > 0))
        .collect();
    let categories: Vec<String> = kept
        .iter()
        .map(|c| all[0].1[*c].0.replace('_', " "))
        .collect();
    let bars = all
        .iter()
        .enumerate()
        .map(|(place, (name, counts))| Bars {
            name: (*name).into(),
            values: kept.iter().map(|c| counts[*c].1 as f64).collect(),
            colour: palette::of_queue(place, false),
        })
        .collect();
    let said: Vec<String> = all
        .iter()
        .flat_map(|(name, counts)| {
            kept.iter()
                .map(move |c| format!("{name}, {}: {}", counts[*c].0, counts[*c].1))
        })
        .collect();
    Chart::bars(
        "signals",
        "CE marks and drops by cause",
        Axis::names("cause"),
        Axis::of("marks and drops", "packets").over(Range::FromZero),
        categories,
        bars,
    )
    .describe(format!(
        "CE marks and drops in the steady window. {}.",
        said.join("; ")
    ))
}

/// Round-trip times of the latency probes.
fn probes(run: &RunResult) -> Chart {
    let curves = run
        .summary
        .probes
        .iter()
        .take(palette::PROBES)
        .enumerate()
        .filter_map(|(place, probe)| {
            let track = run.series.track(&probe.name, "rtt_ms")?;
            let mut curve = Curve::new(short(&probe.name), points(track, run.series.interval_s));
            curve.colour = Some(palette::of_probe(place));
            Some(curve)
        })
        .collect();
    Chart::curves(
        "probe-rtt",
        "Round-trip time of the latency probes",
        time(run),
        Axis::of("probe RTT", "ms").over(Range::FromZero),
        Shape::Line,
        curves,
    )
    .describe("Round-trip time of each latency probe over time.")
    .window(window(run))
}
