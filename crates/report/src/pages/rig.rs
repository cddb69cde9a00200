//! What a page says about the machine of a live run, and the kernel of any.

use maud::{Markup, html};
use narrows_engine::Rig;
use narrows_results::folder::RunRecord;

use super::page::{count, fact, fixed};

/// The kernel that ran, among the facts; of one in virtual time, what it was made from and with.
pub(super) fn kernel(record: &RunRecord) -> Markup {
    let Some(built) = &record.virtual_kernel else {
        return fact("kernel", &record.kernel);
    };
    html! {
        (fact("kernel", &built.id))
        @for (name, what) in built.details().into_iter().filter(|(_, what)| !what.is_empty()) {
            @if name.starts_with("SHA") { div.wide { dt { (name) } dd { code { (what) } } } }
            @else { (fact(name, what)) }
        }
    }
}

/// The section of `rig`.
pub(super) fn section(rig: &Rig) -> Markup {
    let late = &rig.lateness;
    let us = |value: f64| format!("{} µs", fixed(value, 1));
    html! {
        h2 { "The rig" }
        dl.facts {
            (fact("kernel", &rig.kernel))
            (fact("packets that the path held back", count(late.count)))
            (fact("released late, p50", us(late.p50_us)))
            (fact("p99", us(late.p99_us)))
            (fact("p99.9", us(late.p999_us)))
            (fact("latest", us(late.max_us)))
            @if let Some(stolen) = rig.stolen_pct {
                (fact("processor time taken away", format!("{} %", fixed(stolen, 1))))
            }
            (fact("records lost", count(rig.ring_drops)))
            (fact("set up, torn down", format!("{} s, {} s", fixed(rig.set_up_s, 2), fixed(rig.tear_down_s, 2))))
        }
        @if !rig.flows.is_empty() {
            div.scroll tabindex="0" role="region" aria-label="Table of what the kernel made of flows" {
                table.data id="rig-flows" {
                    thead { tr {
                        th scope="col" { "flow" }
                        th.left scope="col" { "control" small { "as the kernel names it" } }
                        th.left scope="col" { "negotiated" }
                        th scope="col" { "burst" small { "segments at most" } }
                    } }
                    tbody { @for flow in &rig.flows { tr {
                        th scope="row" { (flow.name) }
                        td.left { (flow.congestion_control) }
                        td.left { (flow.negotiated()) }
                        td { @if flow.gso_max_segs > 0 { (flow.gso_max_segs) } @else { "–" } }
                    } } }
                }
            }
        }
        @if !rig.disciplines.is_empty() {
            p.note { "Links with datapath = \"kernel\": how long packets waited there is not known; what follows is what the kernel's queueing disciplines counted over the steady window." }
            div.scroll tabindex="0" role="region" aria-label="Table of the kernel's queueing disciplines" {
                table.data id="rig-disciplines" {
                    thead { tr {
                        th scope="col" { "element" } th.left scope="col" { "disciplines" }
                        th scope="col" { "packets" } th scope="col" { "rate" small { "Mbit/s" } }
                        th scope="col" { "drops" small { "packets" } } th scope="col" { "CE marks" small { "packets" } }
                    } }
                    tbody { @for d in &rig.disciplines { tr {
                        th scope="row" { (d.element) }
                        td.left { (d.disciplines) }
                        td { (count(d.packets)) }
                        td { (fixed(d.rate_mbit, 2)) }
                        td { (count(d.drops)) }
                        td { @match d.marks { Some(n) => (count(n)), None => span.faint { "–" } } }
                    } } }
                }
            }
        }
        @if !rig.commands.is_empty() {
            ul { @for command in &rig.commands {
                li { code { (command.line) } ": " (command.ended) }
            } }
        }
        @let notes = rig.all_notes();
        @if !notes.is_empty() { ul { @for note in &notes { li { (note) } } } }
    }
}
