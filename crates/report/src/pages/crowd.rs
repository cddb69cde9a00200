//! Many flows: a table of what they come to together.

use maud::{Markup, html};
use narrows_results::summary::FlowSummary;

use super::page::{count, fixed, number};
use crate::crowd::groups;

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
                tbody { @for group in groups(flows) { tr {
                    th scope="row" { (group.name) } td { (count(group.flows.len() as u64)) }
                    td { (fixed(group.goodput_mbit(), 2)) }
                    @for value in group.spread(|f| f.goodput_mbit) { td { (number(value, 2)) } }
                    td { (number(group.spread(|f| f.rtt_ms.map(|d| d.mean))[1], 2)) }
                    td { (count(group.sum(|f| f.retransmissions))) }
                    td { (count(group.sum(|f| f.ce_marks))) }
                    td { (count(group.sum(|f| f.drops))) }
                    td { (fixed(group.sum(|f| f.bytes_total) as f64 / 1e6, 1)) }
                    td { (count(group.sum(|f| f.complete.into()))) }
                    @for value in group.spread(|f| f.fct_s) { td { (number(value, 3)) } }
                } } }
            }
        }
    }
}

/// That a table has `named` of `all` queues.
pub fn queues(all: usize, named: usize) -> Markup {
    html! { @if named < all {
        p.note {
            "Of " (count(all as u64)) " queues the " (named) " that marked, dropped and carried most; "
            code { "summary.csv" } " has each of them."
        }
    } }
}
