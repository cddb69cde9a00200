//! The page of one run.

use maud::{Markup, html};
use narrows_results::folder::RunResult;
use narrows_results::summary::{Distribution, FlowSummary, QueueSummary, SourceSummary};
use narrows_results::text::seconds;

use super::command;
use super::crowd as together;
use super::page::{self, Library, count, fact, fixed, number};
use super::{rig, topology};
use crate::crowd;
use crate::plot::chart::Chart;
use crate::plot::figures;
use crate::plot::palette;

/// What a page says beside the run itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunPage {
    /// Where plotly.js is.
    pub library: Library,
    /// The command that repeats the run, if not the one of its `run.json`.
    pub command: Option<String>,
    /// The page that this one belongs to: its name, and a relative link.
    pub within: Option<(String, String)>,
}

impl Default for RunPage {
    fn default() -> Self {
        Self {
            library: Library::Inside,
            command: None,
            within: None,
        }
    }
}

/// The whole page.
pub fn html(run: &RunResult, about: &RunPage) -> String {
    let charts = figures::of_run(run);
    let library = (!charts.is_empty()).then_some(&about.library);
    let title = format!("{} – Narrows", run.summary.name);
    page::page(&title, library, body(run, about, &charts))
}

fn body(run: &RunResult, about: &RunPage, charts: &[Chart]) -> Markup {
    let summary = &run.summary;
    html! {
        header {
            p.kicker {
                @if let Some((name, href)) = &about.within {
                    "One cell of the campaign " a href=(page::link(href)) { (name) }
                } @else { "Narrows, one run" }
            }
            h1 { (page::path(&summary.name)) }
            @if let Some(title) = &summary.title { p { (title) } }
        }
        (page::verdict(&run.record.verdict))
        @if !run.record.complete {
            section.verdict.no { strong { "✗ incomplete" }
                " – the run did not get to its end; what follows is what there was." }
        }
        (goodputs(run))
        (queues_at_a_glance(run))
        @if !summary.topology.links.is_empty() {
            h2 { "Path" }
            (topology::draw(&summary.topology))
        }
        @if !charts.is_empty() {
            h2 { "Over time" }
            p.note { (window_note(run)) }
            @let (time, other): (Vec<_>, Vec<_>) = charts.iter().partition(|c| c.x.quantity == "time");
            div.charts { @for chart in time { (page::figure(chart, &about.library)) } }
            @if !other.is_empty() {
                h2 { "In the steady window" }
                div.charts { @for chart in other { (page::figure(chart, &about.library)) } }
            }
        }
        @if !summary.flows.is_empty() { (flows(run)) }
        @if !summary.queues.is_empty() { (queues(&summary.queues)) }
        (others(run))
        @if let Some(rig) = &run.record.rig { (rig::section(rig)) }
        h2 { "What the figures mean" }
        (definitions())
        h2 { "How to repeat this run" }
        (page::command(&command(run, about)))
        p.note {
            @if summary.engine == "live" {
                "A live run is made of real time and real kernels: no two have the same digest. How far repetitions differ, " code { "narrows compare" } " shows."
            } @else {
                "The same scenario, seed and version give the same data files, byte for byte: compare the digest below."
            }
        }
        (facts(run))
        @if summary.flows.len() > crowd::NAMED {
            p.note { "The scenario with every default filled in is in " code { "run.json" } "." }
        } @else if !run.record.scenario.is_null() {
            details {
                summary { "The scenario with every default filled in" }
                pre tabindex="0" { (serde_json::to_string_pretty(&run.record.scenario).unwrap_or_default()) }
            }
        }
    }
}

/// The command that made the run; where that is not known, one that repeats
/// it if its scenario is in the catalogue.
fn command(run: &RunResult, about: &RunPage) -> String {
    if let Some(command) = &about.command {
        return command.clone();
    }
    if !run.record.command.is_empty() {
        return command::line(&run.record.command);
    }
    let (name, seed) = (&run.summary.name, run.summary.seed.to_string());
    command::line(&["narrows", "run", name, "--seed", &seed].map(str::to_owned))
}

fn window_note(run: &RunResult) -> String {
    let window = run.summary.window;
    let flows = run.summary.flows.len();
    let drawn = figures::drawn_flows(&run.summary.flows).len();
    let mut text = format!(
        "The shaded steady window, {} s to {} s, is what tables and distributions are taken from.",
        seconds(window.from_s),
        seconds(window.to_s)
    );
    if !run.summary.topology.changes.is_empty() {
        text += " Dotted upright lines: changes of the path, which are listed above.";
    }
    if drawn < flows {
        text += &format!(" {drawn} of {flows} flows are drawn, those with most bytes.");
    }
    text
}

/// What every flow got, in groups that compete, with what each group got in all.
fn goodputs(run: &RunResult) -> Markup {
    let summary = &run.summary;
    let drawn = figures::drawn_flows(&summary.flows);
    let most = summary
        .flows
        .iter()
        .filter_map(|f| f.goodput_mbit)
        .fold(0.0, f64::max);
    let mut members = vec![Vec::new(); summary.directions.len()];
    let indices = summary.direction_indices();
    for (flow, direction) in summary.flows.iter().enumerate().zip(indices) {
        if let Some(direction) = direction {
            members[direction].push(flow);
        }
    }
    html! {
        @for (direction, mut mine) in summary.directions.iter().zip(members) {
            @let named = mine.len().min(NAMED);
            @let () = mine.sort_by_key(|(index, _)| (!drawn.contains(index), *index));
            section.goodputs aria-label=(format!("Goodput, {}", direction.label())) {
                h2 { "Goodput, " (direction.label()) }
                p.sum {
                    @if let Some(total) = direction.goodput_mbit {
                        strong { (fixed(total, 2)) " Mbit/s" }
                        @if mine.len() > 1 { " in all" }
                    }
                    @if let Some(jain) = direction.jain { ", Jain's index " @if direction.bulk_flows > 0 { "of " (direction.bulk_flows) " bulk flows " } strong { (fixed(jain, 3)) } " (1 is equal)" }
                }
                dl.bars { @for (index, flow) in &mine[..named] {
                    @let place = drawn.iter().position(|d| d == index);
                    dt { (figures::short(&flow.name)) " " small { (flow.cc) } }
                    dd {
                        @match flow.goodput_mbit {
                            Some(goodput) => {
                                span.bar style=(bar(goodput, most, place)) {}
                                (fixed(goodput, 2)) " " small { "Mbit/s" }
                            },
                            None => span.faint { "not open in the steady window" },
                        }
                    }
                } }
                @if mine.len() > named {
                    @let rest: f64 = mine[named..].iter().filter_map(|(_, f)| f.goodput_mbit).sum();
                    p.note { (mine.len() - named) " more flows, " (fixed(rest, 2)) " Mbit/s together: see the table." }
                }
            }
        }
    }
}

/// Flows of a group that are named before the table.
const NAMED: usize = 12;

/// How a flow's bar looks, as long as its goodput is of the largest.
fn bar(goodput: f64, most: f64, place: Option<usize>) -> String {
    // The longest leaves room for its number.
    const LONGEST: f64 = 70.0;
    let width = if most > 0.0 {
        goodput / most * LONGEST
    } else {
        0.0
    };
    let colour = place.map_or("--faint".to_owned(), |place| format!("--series-{place}"));
    format!("width:{width:.1}%;background:var({colour})")
}

/// The queues that were busy, each by its name, and what all elements together
/// marked and dropped.
fn queues_at_a_glance(run: &RunResult) -> Markup {
    let summary = &run.summary;
    let tile = |term: &str, value: String, unit: &str| {
        html! { div { dt { (term) } dd { (value) " " small { (unit) } } } }
    };
    let p99 = |d: &Distribution| fixed(d.p99, 2);
    let (marks, drops) = summary.signals();
    html! {
        @for (place, q) in figures::busiest(&summary.queues).into_iter().enumerate() {
            h2.tiled {
                span.swatch style=(format!("background:var(--series-{})", palette::of_queue(place, false))) {}
                "Queue " (figures::short(&q.name))
            }
            dl.tiles {
                @if let Some(used) = q.utilisation { (tile("in use", fixed(used * 100.0, 1), "% of its rate")) }
                @if q.bands.is_empty() {
                    @if let Some(d) = &q.sojourn_ms { (tile("time in queue, p99", p99(d), "ms")) }
                }
                @for band in &q.bands {
                    @if let Some(d) = &band.sojourn_ms {
                        (tile(&format!("time in queue, {}, p99", band.name.replace('_', " ")), p99(d), "ms"))
                    }
                }
                (tile("CE marks", count(q.marks.total()), "packets"))
                (tile("drops", count(q.drops.total()), "packets"))
            }
        }
        @if summary.queues.len() + summary.droppers.len() > 1 {
            p.note { "In all queues and elements together: " (count(marks)) " CE marks, " (count(drops)) " drops." }
        }
    }
}

fn facts(run: &RunResult) -> Markup {
    let (record, summary) = (&run.record, &run.summary);
    let rate = (record.wall_s > 0.0).then(|| record.virtual_s / record.wall_s);
    html! {
        dl.facts {
            (fact("engine", &summary.engine))
            (fact("seed", summary.seed))
            (fact("version", format!("narrows {}", record.version())))
            (fact("duration", format!("{} s", seconds(summary.duration_s))))
            (fact("steady window", format!("{} s to {} s", seconds(summary.window.from_s), seconds(summary.window.to_s))))
            (fact("events", count(record.events)))
            @if !record.started_utc.is_empty() { (fact("started (UTC)", &record.started_utc)) }
            (fact("took", match rate {
                Some(rate) if summary.engine == "sim" => format!("{} s, {} × real time", fixed(record.wall_s, 2), fixed(rate, 0)),
                _ => format!("{} s", fixed(record.wall_s, 2)),
            }))
            @if summary.engine != "sim" { (rig::kernel(record)) }
            @if !record.digest.is_empty() {
                div.wide { dt { "digest of the data files (SHA-256)" } dd { code { (record.digest) } } }
            }
        }
    }
}

/// A heading with its unit below.
fn head(name: &str, unit: &str, meaning: &str) -> Markup {
    html! { th scope="col" title=[(!meaning.is_empty()).then_some(meaning)] {
        (name) @if !unit.is_empty() { small { (unit) } }
    } }
}

/// A heading over text.
fn words(name: &str, unit: &str, meaning: &str) -> Markup {
    html! { th.left scope="col" title=[(!meaning.is_empty()).then_some(meaning)] {
        (name) @if !unit.is_empty() { small { (unit) } }
    } }
}

/// The cells of a distribution.
fn spread(distribution: Option<Distribution>, decimals: usize) -> Markup {
    let of = |pick: fn(&Distribution) -> f64| number(distribution.as_ref().map(pick), decimals);
    html! {
        td { (of(|d| d.min)) } td { (of(|d| d.mean)) } td { (of(|d| d.p50)) }
        td { (of(|d| d.p95)) } td { (of(|d| d.p99)) } td { (of(|d| d.max)) }
    }
}

/// What a connection agreed on about ECN.
fn ecn(flow: &FlowSummary) -> &'static str {
    match (flow.established_s, flow.accecn, flow.ecn) {
        (None, ..) => "never open",
        (_, true, _) => "AccECN",
        (_, false, true) => "classic",
        _ => "off",
    }
}

fn flows(run: &RunResult) -> Markup {
    let flows = &run.summary.flows;
    let drawn = figures::drawn_flows(flows);
    let shares = run.summary.shares_pct();
    let rows = crowd::named(flows);
    html! {
        h2 { "Flows" }
        @if rows.len() < flows.len() { (together::section(flows, rows.len())) }
        div.scroll tabindex="0" role="region" aria-label="Table of flows" {
            table.data.sortable id="flows" {
                thead { tr {
                    (head("flow", "", "")) (words("control", "", "congestion control and its parameters"))
                    (head("goodput", "Mbit/s", "")) (head("share", "%", "of the goodput of all flows that it competes with"))
                    (head("RTT min", "ms", "")) (head("mean", "ms", "")) (head("p50", "ms", ""))
                    (head("p95", "ms", "")) (head("p99", "ms", "")) (head("max", "ms", ""))
                    (head("retrans.", "segments", "retransmitted")) (head("CE marks", "packets", ""))
                    (head("drops", "packets", "")) (head("data", "MB, whole run", "payload delivered"))
                    (head("FCT", "s", "flow completion time"))
                    (words("path", "from → to", "")) (words("ECN", "negotiated", ""))
                } }
                tbody { @for (index, flow) in rows.iter().map(|index| (index, &flows[*index])) { tr {
                    th scope="row" {
                        @if let Some(place) = drawn.iter().position(|d| d == index) {
                            span.swatch style=(format!("background:var(--series-{place})")) {}
                        }
                        (figures::short(&flow.name))
                    }
                    td.left { (flow.cc) }
                    td { (number(flow.goodput_mbit, 2)) }
                    td { (number(shares[*index], 1)) }
                    (spread(flow.rtt_ms, 2))
                    td { (count(flow.retransmissions)) } td { (count(flow.ce_marks)) } td { (count(flow.drops)) }
                    td { (fixed(flow.bytes_total as f64 / 1e6, 1)) } td { (number(flow.fct_s, 3)) }
                    td.left { (flow.from) " → " (flow.to) } td.left { (ecn(flow)) }
                } } }
            }
        }
        h3 { "Congestion events over the whole run" }
        div.scroll tabindex="0" role="region" aria-label="Table of congestion events" {
            table.data.sortable id="recovery" {
                thead { tr {
                    (head("flow", "", "")) (head("ECN", "reductions", "entries to CWR on ECN feedback"))
                    (head("fast", "retransmits", "")) (head("time-outs", "RTO", "")) (head("tail-loss", "probes", ""))
                    (head("spurious", "undone", "reductions taken back")) (head("slow start", "exits", "by the algorithm's own choice"))
                    (head("limited by receiver", "s", "")) (head("by send buffer", "s", "")) (head("by application", "s", ""))
                } }
                tbody { @for flow in rows.iter().map(|index| &flows[*index]) { tr {
                    th scope="row" { (figures::short(&flow.name)) }
                    @let r = &flow.recovery;
                    @for n in [r.ecn_reductions, r.fast_retransmits, r.timeouts, r.tail_loss_probes, r.spurious_undos, r.slow_start_exits] {
                        td { (count(n)) }
                    }
                    @let l = &flow.limited;
                    @for s in [l.receive_window_s, l.send_buffer_s, l.application_s] { td { (fixed(s, 3)) } }
                } } }
            }
        }
    }
}

fn causes(counts: &[(&'static str, u64)]) -> Markup {
    let found: Vec<String> = counts
        .iter()
        .filter(|(_, n)| *n > 0)
        .map(|(cause, n)| format!("{} {}", cause.replace('_', " "), count(*n)))
        .collect();
    html! { @if found.is_empty() { span.faint { "none" } } @else { (found.join(", ")) } }
}

fn queues(queues: &[QueueSummary]) -> Markup {
    let rows = crowd::named_queues(queues);
    html! {
        h2 { "Queues" }
        (together::queues(queues.len(), rows.len()))
        div.scroll tabindex="0" role="region" aria-label="Table of queues" {
            table.data id="queues" {
                thead { tr {
                    (head("queue", "", "")) (words("element", "in tc's words", "")) (head("in use", "% of rate", ""))
                    (head("packets", "sent on", ""))
                    (head("sojourn min", "ms", "")) (head("mean", "ms", "")) (head("p50", "ms", ""))
                    (head("p95", "ms", "")) (head("p99", "ms", "")) (head("max", "ms", ""))
                    (words("CE marks", "by cause", "")) (words("drops", "by cause", "")) (head("peak", "packets", "largest backlog of the run"))
                } }
                tbody { @for queue in rows.iter().map(|index| &queues[*index]) {
                    tr {
                        th scope="row" { (figures::short(&queue.name)) }
                        td.left.words { code { (queue.words) } }
                        td { (number(queue.utilisation.map(|u| u * 100.0), 1)) } td { (count(queue.packets)) }
                        (spread(queue.sojourn_ms, 3))
                        td.left.words { (causes(&queue.marks.by_cause())) } td.left.words { (causes(&queue.drops.by_cause())) }
                        td { (queue.peak_backlog_packets) }
                    }
                    @for band in &queue.bands { tr {
                        th scope="row" { span.faint { "– " (band.name.replace('_', " ")) } }
                        td {} td {} td { (count(band.packets)) } (spread(band.sojourn_ms, 3)) td {} td {} td {}
                    } }
                } }
            }
        }
    }
}

/// Probes, and elements that drop without a queue.
fn others(run: &RunResult) -> Markup {
    let (probes, droppers) = (&run.summary.probes, &run.summary.droppers);
    html! {
        @if !probes.is_empty() {
            h2 { "Latency probes" }
            div.scroll tabindex="0" role="region" aria-label="Table of probes" {
                table.data id="probes" {
                    thead { tr {
                        (head("probe", "", "")) (head("answers", "packets", ""))
                        (head("RTT min", "ms", "")) (head("mean", "ms", "")) (head("p50", "ms", ""))
                        (head("p95", "ms", "")) (head("p99", "ms", "")) (head("max", "ms", "")) (head("lost", "packets", ""))
                    } }
                    tbody { @for probe in probes { tr {
                        th scope="row" { (figures::short(&probe.name)) }
                        td { (count(probe.rtt_ms.map_or(0, |d| d.count))) } (spread(probe.rtt_ms, 3)) td { (count(probe.lost)) }
                    } } }
                }
            }
        }
        @let sources = &run.summary.sources;
        @if !sources.is_empty() {
            @let figures = SourceSummary::figures(sources);
            h2 { "Reported by applications and other sources" }
            @if sources.len() > crowd::NAMED {
                p.note { "The first " (crowd::NAMED) " of " (count(sources.len() as u64)) "; " code { "summary.csv" } " has each of them." }
            }
            div.scroll tabindex="0" role="region" aria-label="Table of what sources report" {
                table.data.sortable id="sources" {
                    thead { tr {
                        (head("source", "", "")) (words("reports", "", "")) (words("unit", "", ""))
                        @for figure in &figures { (head(&figure.replace("per_s", "per second"), "", "")) }
                    } }
                    tbody { @for source in sources.iter().take(crowd::NAMED) { @for field in &source.telemetry { tr {
                        th scope="row" { (figures::short(&source.name)) }
                        td.left title=(field.about) { (field.name) } td.left { (field.unit) }
                        @for figure in &figures { td { (number(field.figures.get(figure), 3)) } }
                    } } } }
                }
            }
        }
        @let ways = run.summary.one_way();
        @if !ways.is_empty() {
            h2 { "One-way delay of datagrams" }
            @if ways.len() > crowd::NAMED {
                p.note { "The first " (crowd::NAMED) " of " (count(ways.len() as u64)) "; " code { "summary.csv" } " has each of them." }
            }
            div.scroll tabindex="0" role="region" aria-label="Table of one-way delays" {
                table.data id="one-way" {
                    thead { tr {
                        (head("datagrams", "", ""))
                        (head("delay min", "ms", "")) (head("mean", "ms", "")) (head("p50", "ms", ""))
                        (head("p95", "ms", "")) (head("p99", "ms", "")) (head("max", "ms", ""))
                        (head("jitter mean", "ms", "interarrival jitter, RFC 3550")) (head("max", "ms", "interarrival jitter, RFC 3550"))
                        (head("variation p95", "ms", "longer than the least delay, RFC 5481")) (head("p99", "ms", "longer than the least delay, RFC 5481"))
                        (head("lost", "% of packets", ""))
                    } }
                    tbody { @for (name, of, lost) in ways.iter().take(crowd::NAMED) { tr {
                        th scope="row" { (figures::short(name)) } (spread(Some(of.one_way_ms), 3))
                        td { (fixed(of.jitter_mean_ms, 3)) } td { (fixed(of.jitter_max_ms, 3)) }
                        td { (fixed(of.variation_ms(of.one_way_ms.p95), 3)) } td { (fixed(of.variation_ms(of.one_way_ms.p99), 3)) }
                        td { (number(*lost, 2)) }
                    } } }
                }
            }
        }
        @if !droppers.is_empty() {
            h2 { "Drops outside queues" }
            ul { @for dropper in droppers {
                li { code { (dropper.name) } ": " (causes(&dropper.drops.by_cause())) }
            } }
        }
    }
}

/// Each metric with its unit, once.
const DEFINITIONS: [(&str, &str); 14] = [
    (
        "goodput (Mbit/s)",
        "payload handed in order to the receiving application, over the part of the steady window in which the flow was open",
    ),
    (
        "throughput (Mbit/s)",
        "payload that reached the receiver per sampling interval, in whatever order, segments that it had already included; no headers",
    ),
    (
        "share (%)",
        "a flow's goodput over the sum of the goodputs of all flows that it competes with: those whose data cross a link the same way",
    ),
    (
        "Jain's index",
        "(Σx)² / (n·Σx²) of the goodputs x of bulk flows that compete: 1 is equal, 1/n is one flow alone",
    ),
    (
        "TCP RTT (ms)",
        "round-trip time samples of the sender, from sending a segment to its acknowledgement, the receiver's delay included",
    ),
    (
        "congestion window (packets)",
        "segments that the congestion control allows in flight",
    ),
    (
        "α",
        "a scalable control's moving estimate of the share of marked packets, 0 to 1",
    ),
    (
        "sojourn (ms)",
        "from a packet's arrival at the queue to the start of its transmission",
    ),
    (
        "in use (%)",
        "what the link counted (IP packet plus its overhead) over its rate times the length of the window",
    ),
    (
        "CE marks (packets)",
        "packets that a queue set to Congestion Experienced: step (a shallow threshold), coupled (probability from the classic queue), probability (the AQM's own law), overflow (in place of a drop at a limit)",
    ),
    (
        "drops (packets)",
        "packets discarded: overflow (a limit), probability (the AQM's law), overload (the AQM stopped marking), loss (random loss of the path), and others as named",
    ),
    (
        "retransmitted (segments)",
        "segments sent again, for whatever reason, in the steady window",
    ),
    (
        "FCT (s)",
        "flow completion time, from a flow's start to the delivery of its last byte; a dash for a flow without an end",
    ),
    (
        "p50, p95, p99",
        "50, 95 and 99 of 100 samples in the steady window are at most this; exact to 0.2 %",
    ),
];

fn definitions() -> Markup {
    html! {
        dl.definitions { @for (term, meaning) in DEFINITIONS { dt { (term) } dd { (meaning) } } }
    }
}
