//! Many flows: a table of what they come to together, and which of them have a row of
//! their own.

use std::collections::BTreeMap;

use maud::{Markup, html};
use narrows_results::summary::FlowSummary;

use super::page::{count, fixed, number};

/// Flows that have a row of their own; of more, those with most bytes. A table of
/// thousands is read by nobody, and `summary.csv` has all of them.
pub const NAMED: usize = 50;

/// Rows of the table of groups; what is in further groups is summed up in a last row.
const GROUPS: usize = 50;

/// Indices of the flows that have a row, in the scenario's order.
pub fn named(flows: &[FlowSummary]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..flows.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(flows[*index].bytes_total));
    order.truncate(NAMED);
    order.sort_unstable();
    order
}

/// Flows with the same control from and to the same hosts.
fn groups(flows: &[FlowSummary]) -> Vec<(String, Vec<&FlowSummary>)> {
    let mut groups: Vec<Vec<&FlowSummary>> = Vec::new();
    let mut known: BTreeMap<[&str; 3], usize> = BTreeMap::new();
    for flow in flows {
        let at = *known
            .entry([&flow.cc, &flow.from, &flow.to])
            .or_insert(groups.len());
        if at == groups.len() {
            groups.push(Vec::new());
        }
        groups[at].push(flow);
    }
    let others: Vec<_> = groups.drain(GROUPS.min(groups.len())..).flatten().collect();
    let called = |flow: &FlowSummary| format!("{}, {} → {}", flow.cc, flow.from, flow.to);
    let groups = groups.into_iter().map(|group| (called(group[0]), group));
    let rest = (!others.is_empty()).then(|| ("all others".to_owned(), others));
    groups.chain(rest).collect()
}

/// Least, median and greatest of what flows have.
fn spread(flows: &[&FlowSummary], of: fn(&FlowSummary) -> Option<f64>) -> [Option<f64>; 3] {
    let mut values: Vec<f64> = flows.iter().filter_map(|flow| of(flow)).collect();
    values.sort_by(f64::total_cmp);
    // Of an even number the lower one of the middle two: a flow's own figure.
    let middle = values.len().saturating_sub(1) / 2;
    [values.first(), values.get(middle), values.last()].map(|value| value.copied())
}

/// What all flows come to, of which `named` have a row further down.
pub fn section(flows: &[FlowSummary], named: usize) -> Markup {
    html! {
        p.note {
            "All " (count(flows.len() as u64)) " flows by control and hosts. The tables below name the "
            (named) " with most bytes; " code { "summary.csv" } " has each of them."
        }
        div.scroll tabindex="0" role="region" aria-label="Table of all flows by control and hosts" {
            table.data id="crowd" {
                thead { tr {
                    th scope="col" { "flows" } th scope="col" { "number" }
                    th scope="col" { "goodput" small { "Mbit/s, sum" } }
                    @for part in ["least", "median", "most"] { th scope="col" { (part) small { "Mbit/s" } } }
                    th scope="col" { "RTT mean" small { "ms, median" } }
                    th scope="col" { "retrans." small { "segments" } }
                    th scope="col" { "CE marks" small { "packets" } } th scope="col" { "drops" small { "packets" } }
                    th scope="col" { "data" small { "MB, whole run" } }
                    th scope="col" { "complete" small { "flows" } }
                    @for part in ["FCT least", "median", "most"] { th scope="col" { (part) small { "s" } } }
                } }
                tbody { @for (name, flows) in groups(flows) { tr {
                    th scope="row" { (name) } td { (count(flows.len() as u64)) }
                    td { (fixed(flows.iter().filter_map(|f| f.goodput_mbit).sum(), 2)) }
                    @for value in spread(&flows, |f| f.goodput_mbit) { td { (number(value, 2)) } }
                    td { (number(spread(&flows, |f| f.rtt_ms.map(|d| d.mean))[1], 2)) }
                    td { (count(flows.iter().map(|f| f.retransmissions).sum())) }
                    td { (count(flows.iter().map(|f| f.ce_marks).sum())) }
                    td { (count(flows.iter().map(|f| f.drops).sum())) }
                    td { (fixed(flows.iter().map(|f| f.bytes_total).sum::<u64>() as f64 / 1e6, 1)) }
                    td { (count(flows.iter().filter(|f| f.complete).count() as u64)) }
                    @for value in spread(&flows, |f| f.fct_s) { td { (number(value, 3)) } }
                } } }
            }
        }
    }
}
