//! A run for the terminal, and as one JSON document.

use narrows_engine::{Lateness, Rig, VirtualKernel};
use narrows_results::folder::{CampaignFolder, RunResult};
use narrows_results::summary::{
    BandSummary, DirectionSummary, Distribution, FlowSummary, QueueSummary, RunSummary,
    SourceSummary,
};
use narrows_results::text::{Align, TextTable, number, seconds};
use narrows_results::verdict::Weight;
use serde_json::{Value, json};

use crate::crowd;

/// The tables of a run: flows, queues, probes, and the verdict.
pub fn run_table(result: &RunResult) -> String {
    let summary = &result.summary;
    let mut text = format!(
        "{}: {} s of network time, steady window {} s to {} s, seed {}\n\n",
        summary.name,
        seconds(summary.duration_s),
        seconds(summary.window.from_s),
        seconds(summary.window.to_s),
        summary.seed,
    );
    let named = crowd::named(&summary.flows).len();
    if named < summary.flows.len() {
        text.push_str(&together(&summary.flows).render());
        text.push_str("summary.csv has each flow\n");
    } else {
        text.push_str(&flows(&summary.flows).render());
    }
    text.push_str(&fairness(summary));
    let queues = queues(&summary.queues);
    if !queues.is_empty() {
        text.push('\n');
        text.push_str(&queues.render());
        let (of, named) = (summary.queues.len(), crowd::NAMED);
        if named < of {
            text.push_str(&format!(
                "the {named} of {of} queues that marked, dropped and carried most; summary.csv has each\n"
            ));
        }
    }
    let mut probes = TextTable::new(&[
        ("probe", Align::Left),
        ("rtt_ms min", Align::Right),
        ("mean", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("lost", Align::Right),
    ]);
    for probe in &summary.probes {
        let d = probe.rtt_ms.as_ref();
        probes.row(vec![
            probe.name.clone(),
            number(d.map(|d| d.min)),
            number(d.map(|d| d.mean)),
            number(d.map(|d| d.p99)),
            number(d.map(|d| d.max)),
            probe.lost.to_string(),
        ]);
    }
    if !probes.is_empty() {
        text.push('\n');
        text.push_str(&probes.render());
    }
    let sources = sources(&summary.sources);
    if !sources.is_empty() {
        text.push('\n');
        text.push_str(&sources.render());
        let (of, named) = (summary.sources.len(), crowd::NAMED);
        if named < of {
            text.push_str(&format!(
                "the first {named} of {of} that report; summary.csv has each\n"
            ));
        }
    }
    let ways = one_way(summary);
    if !ways.is_empty() {
        text.push('\n');
        text.push_str(&ways.render());
        let (of, named) = (summary.one_way().len(), crowd::NAMED);
        if named < of {
            text.push_str(&format!(
                "the first {named} of {of}; summary.csv has each\n"
            ));
        }
    }
    for dropper in &summary.droppers {
        let causes = dropper.drops.text();
        text.push_str(&format!("{} dropped {causes}\n", dropper.name));
    }
    text.push('\n');
    if let Some(rig) = &result.record.rig {
        text.push_str(&rig_lines(rig, result.record.virtual_kernel.as_ref()));
    }
    for group in result.record.verdict.grouped(Weight::Note) {
        text.push_str(&format!("note: {}\n", group.line));
    }
    text.push_str(&result.record.verdict.line());
    text.push('\n');
    text
}

/// Jain's index of the bulk flows; where not all of them compete, one of each group.
fn fairness(summary: &RunSummary) -> String {
    let several = summary.directions.len() > 1;
    let line = |d: &DirectionSummary| {
        let of = match d.bulk_flows {
            0 => String::new(),
            n => format!(" of {n} bulk flows"),
        };
        let jain = format!("Jain's index{of} {:.3}", d.jain?);
        Some(match several {
            true => format!("{jain}, {}\n", d.label()),
            false => jain + "\n",
        })
    };
    summary.directions.iter().filter_map(line).collect()
}

/// What many flows come to, by control and hosts.
fn together(flows: &[FlowSummary]) -> TextTable {
    let mut table = TextTable::new(&[
        ("flows", Align::Left),
        ("number", Align::Right),
        ("goodput_mbit", Align::Right),
        ("least", Align::Right),
        ("median", Align::Right),
        ("most", Align::Right),
        ("rtt_ms mean", Align::Right),
        ("retrans", Align::Right),
        ("ce_marks", Align::Right),
        ("complete", Align::Right),
    ]);
    for group in crowd::groups(flows) {
        let mut row = vec![
            group.name.clone(),
            group.flows.len().to_string(),
            number(Some(group.goodput_mbit())),
        ];
        row.extend(group.spread(|f| f.goodput_mbit).map(number));
        row.push(number(group.spread(|f| f.rtt_ms.map(|d| d.mean))[1]));
        row.push(group.sum(|f| f.retransmissions).to_string());
        row.push(group.sum(|f| f.ce_marks).to_string());
        row.push(group.sum(|f| f.complete.into()).to_string());
        table.row(row);
    }
    table
}

fn flows(flows: &[FlowSummary]) -> TextTable {
    let completed = flows.iter().any(|f| f.fct_s.is_some());
    let mut columns = vec![
        ("flow", Align::Left),
        ("cc", Align::Left),
        ("goodput_mbit", Align::Right),
        ("rtt_ms min", Align::Right),
        ("mean", Align::Right),
        ("p99", Align::Right),
        ("retrans", Align::Right),
        ("ce_marks", Align::Right),
    ];
    if completed {
        columns.push(("fct_s", Align::Right));
    }
    let mut table = TextTable::new(&columns);
    for flow in flows {
        let d = flow.rtt_ms.as_ref();
        let mut row = vec![
            short(&flow.name).to_owned(),
            flow.cc.clone(),
            number(flow.goodput_mbit),
            number(d.map(|d| d.min)),
            number(d.map(|d| d.mean)),
            number(d.map(|d| d.p99)),
            flow.retransmissions.to_string(),
            flow.ce_marks.to_string(),
        ];
        if completed {
            row.push(number(flow.fct_s));
        }
        table.row(row);
    }
    table
}

fn short(name: &str) -> &str {
    name.strip_prefix("flow/").unwrap_or(name)
}

fn queues(queues: &[QueueSummary]) -> TextTable {
    let mut table = TextTable::new(&[
        ("queue", Align::Left),
        ("used", Align::Right),
        ("sojourn_ms p50", Align::Right),
        ("p95", Align::Right),
        ("p99", Align::Right),
        ("max", Align::Right),
        ("marks", Align::Right),
        ("drops", Align::Right),
    ]);
    let percentiles = |d: Option<&Distribution>| {
        [
            number(d.map(|d| d.p50)),
            number(d.map(|d| d.p95)),
            number(d.map(|d| d.p99)),
            number(d.map(|d| d.max)),
        ]
    };
    for queue in crowd::named_queues(queues).into_iter().map(|i| &queues[i]) {
        let mut row = vec![
            queue.name.clone(),
            queue
                .utilisation
                .map_or("-".to_owned(), |u| format!("{:.1}%", 100.0 * u)),
        ];
        row.extend(percentiles(queue.sojourn_ms.as_ref()));
        row.push(queue.marks.total().to_string());
        row.push(queue.drops.total().to_string());
        table.row(row);
        for band in &queue.bands {
            let BandSummary {
                name, sojourn_ms, ..
            } = band;
            let mut row = vec![format!("  {name}"), String::new()];
            row.extend(percentiles(sojourn_ms.as_ref()));
            row.extend([String::new(), String::new()]);
            table.row(row);
        }
    }
    table
}

/// What sources other than flows report of themselves, a row for each field.
fn sources(sources: &[SourceSummary]) -> TextTable {
    let figures = SourceSummary::figures(sources);
    let mut columns = vec![("source", Align::Left), ("reports", Align::Left)];
    columns.extend(figures.iter().map(|figure| (*figure, Align::Right)));
    let mut table = TextTable::new(&columns);
    for source in sources.iter().take(crowd::NAMED) {
        for field in &source.telemetry {
            let mut row = vec![source.name.clone(), field.name.clone()];
            row.extend(
                figures
                    .iter()
                    .map(|figure| number(field.figures.get(figure))),
            );
            table.row(row);
        }
    }
    table
}

/// Delay, jitter and loss of datagrams, a row for each direction of a probe.
fn one_way(summary: &RunSummary) -> TextTable {
    let mut table = TextTable::new(&[
        ("datagrams", Align::Left),
        ("one_way_ms min", Align::Right),
        ("mean", Align::Right),
        ("p99", Align::Right),
        ("jitter_ms mean", Align::Right),
        ("max", Align::Right),
        ("variation_ms p99", Align::Right),
        ("loss", Align::Right),
    ]);
    for (name, of, loss) in summary.one_way().into_iter().take(crowd::NAMED) {
        table.row(vec![
            name,
            number(Some(of.one_way_ms.min)),
            number(Some(of.one_way_ms.mean)),
            number(Some(of.one_way_ms.p99)),
            number(Some(of.jitter_mean_ms)),
            number(Some(of.jitter_max_ms)),
            number(Some(of.variation_ms(of.one_way_ms.p99))),
            loss.map_or_else(String::new, |pct| format!("{pct:.2}%")),
        ]);
    }
    table
}

/// The run as one JSON document: `dir`, `run` (as `run.json`), `summary` (as
/// `summary.json`).
pub fn run_json(result: &RunResult) -> Value {
    json!({ "dir": result.dir, "run": result.record, "summary": result.summary })
}

/// The campaign as one JSON document: `dir`, `run`, `campaign`.
pub fn campaign_json(folder: &CampaignFolder) -> Value {
    json!({ "dir": folder.dir, "run": folder.record, "campaign": folder.result })
}

/// The rig, a line for each thing; `built` is the kernel in virtual time, where one ran.
fn rig_lines(rig: &Rig, built: Option<&VirtualKernel>) -> String {
    // A release does not tell an edited tree from the one that it was copied from.
    let kernel = built.map_or_else(|| rig.kernel.clone(), VirtualKernel::line);
    let mut text = format!("rig: Linux {kernel}, packets left the path late by ");
    match rig.lateness.count {
        0 => text.push_str("nothing, for none was held back\n"),
        _ => text.push_str(&format!("{}\n", late(&rig.lateness))),
    }
    for flow in &rig.flows {
        let control = match flow.congestion_control.as_str() {
            "" => String::new(),
            control => format!("{control}, "),
        };
        let bursts = match flow.gso_max_segs {
            0 => String::new(),
            1 => ", segment by segment".to_owned(),
            n => format!(", bursts of {n} segments at most"),
        };
        let negotiated = flow.negotiated();
        text.push_str(&format!("  {}: {control}{negotiated}{bursts}\n", flow.name));
    }
    for d in &rig.disciplines {
        let marks = d.marks.map_or(String::new(), |n| format!(", {n} marked"));
        text.push_str(&format!(
            "  {}: {} of the kernel, {} Mbit/s, {} packets dropped{marks}; how long packets \
             waited is not known\n",
            d.element,
            d.disciplines,
            number(Some(d.rate_mbit)),
            d.drops
        ));
    }
    for command in &rig.commands {
        text.push_str(&format!("  {}: {}\n", command.name, command.ended));
    }
    text
}

/// In words: `p50 0.31 µs, p99 12.5 µs, p99.9 410 µs, max 3215 µs`.
fn late(by: &Lateness) -> String {
    let us = |value: f64| format!("{} µs", number(Some(value)));
    format!(
        "p50 {}, p99 {}, p99.9 {}, max {}",
        us(by.p50_us),
        us(by.p99_us),
        us(by.p999_us),
        us(by.max_us)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rigs_line_names_the_kernel_in_virtual_time_by_its_id() {
        let rig = Rig {
            kernel: "7.3.4".to_owned(),
            ..Rig::default()
        };
        let edited = VirtualKernel {
            id: "7.3.4-0123456789ab".to_owned(),
            source: "/src/net-next".to_owned(),
            ..VirtualKernel::default()
        };
        let line = rig_lines(&rig, Some(&edited));
        let begins = "rig: Linux 7.3.4-0123456789ab (/src/net-next), packets left";
        assert!(line.starts_with(begins), "{line}");
        let live = rig_lines(&rig, None);
        assert!(live.starts_with("rig: Linux 7.3.4, packets left"), "{live}");
    }
}
