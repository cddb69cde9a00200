//! Whether the metrics of a campaign exist, and which ones it has if it names
//! none.

use std::collections::BTreeSet;

use narrows_core::{Reduce, TelemetryField};
use narrows_path::routes::Hop;
use narrows_units::WordError;

use super::{Cell, Formula, Metric};
use crate::metrics::Entity;
use crate::parts::Traffic;
use crate::plan::Plan;
use crate::refusal::{nearest, one_of};

/// What names all metrics.
const ALL: &str = "`narrows list metrics` names all metrics";

/// Checks that at least one of `cells` has what `formula` reads; `text` is how the
/// file spells it.
///
/// # Errors
/// If none has such an entity, or the entity has no such metric.
pub(super) fn check(formula: &Formula, text: &str, cells: &[Cell]) -> Result<(), WordError> {
    let Formula::Figure { column, entity } = formula else {
        return Ok(());
    };
    let called = entity.strip_prefix("queue/").unwrap_or(entity);
    let mut lacks = None;
    for cell in cells {
        let flows = cell.plan.flows.len();
        match Entity::called(called, &cell.plan) {
            Some(entity) if entity.has(column, flows) => return Ok(()),
            Some(entity) => lacks = Some((entity, flows)),
            None => {}
        }
    }
    Err(match lacks {
        Some((entity, flows)) => no_metric(column, text, &entity, flows),
        None => no_entity(called, text, cells),
    })
}

fn no_metric(column: &str, text: &str, entity: &Entity, flows: usize) -> WordError {
    let found = format!("`{column}`, which `{}` has not", entity.name);
    let names = entity.kind.names(flows);
    let names = || names.iter().map(String::as_str);
    let near = nearest(&column.replace('/', "."), names());
    let allowed = match entity.kind.is_observer() {
        // Its names are long, and there are hundreds of them.
        true => "TECHNIQUE.QUANTITY.PART, such as `spin.full_rtt_initiator.mean`".to_owned(),
        false => one_of(entity.kind.metrics.iter().map(|m| m.name)),
    };
    let help = match near {
        _ if entity.kind.entry(column, flows).is_some() => format!(
            "the observer keeps {} alone",
            one_of(entity.techniques.iter().map(String::as_str))
        ),
        Some(near) => format!("did you mean `{near}`? {ALL}"),
        None => ALL.to_owned(),
    };
    let error = WordError::new(0..column.len(), found, allowed).with_help(help);
    error.shifted(text.len() - text.trim_start().len())
}

fn no_entity(called: &str, text: &str, cells: &[Cell]) -> WordError {
    let mut known: Vec<String> = Vec::new();
    for entity in cells.iter().flat_map(|cell| Entity::all(&cell.plan)) {
        if !known.contains(&entity.name) {
            known.push(entity.name);
        }
    }
    let known = || known.iter().map(String::as_str);
    let found = format!("`{called}`, which no cell has");
    let start = text.rfind(called).unwrap_or(0);
    let error = WordError::new(start..start + called.len(), found, one_of(known()));
    match nearest(called, known()) {
        Some(near) => error.with_help(format!("did you mean `{near}`?")),
        None => error,
    }
}

/// The metrics of a campaign that names none: of each flow its goodput, its median
/// round trip and, if it has an end, its completion time; of each probe the median
/// round trip; of each queue on a flow's way the time that 99 of 100 packets waited
/// at most; and Jain's index of several flows.
pub(super) fn by_default(cells: &[Cell]) -> Vec<Metric> {
    let mut all: Vec<Metric> = Vec::new();
    let mut add = |name: String, column: &str, entity: String| {
        if all.iter().all(|m| m.name != name) {
            let column = column.to_owned();
            let formula = Formula::Figure { column, entity };
            all.push(Metric {
                name,
                title: None,
                unit: None,
                formula,
            });
        }
    };
    for plan in cells.iter().map(|cell| &cell.plan) {
        for flow in &plan.flows {
            let of = || format!("flow/{}", flow.name);
            add(named(&flow.name, "goodput_mbit"), "goodput_mbit", of());
            if flow.transport.has_handshake() {
                add(named(&flow.name, "rtt_p50_ms"), "rtt_ms.p50", of());
            }
            if matches!(flow.traffic, Traffic::Bytes(_)) {
                add(named(&flow.name, "fct_s"), "fct_s", of());
            }
        }
        for app in &plan.apps {
            let samples = app
                .spec
                .reports()
                .iter()
                .filter(|f| f.reduce == Reduce::Sample);
            for column in samples.map(TelemetryField::column) {
                let of = format!("app/{}", app.name);
                let name = named(&app.name, &format!("{column}_p99"));
                add(name, &format!("{column}.p99"), of);
            }
        }
        for probe in &plan.probes {
            let of = format!("probe/{}", probe.name);
            add(named(&probe.name, "rtt_p50_ms"), "rtt_ms.p50", of);
        }
        for name in queues(plan) {
            let short = name.strip_prefix("link/").unwrap_or(&name);
            add(
                named(short, "sojourn_p99_ms"),
                "sojourn_ms.p99",
                name.clone(),
            );
        }
        if plan.flows.len() > 1 {
            add("jain".to_owned(), "jain", "run".to_owned());
        }
    }
    all
}

/// `prague_goodput_mbit`: letters that a formula could read otherwise become `_`.
fn named(of: &str, metric: &str) -> String {
    let plain = |c: char| if c.is_alphanumeric() { c } else { '_' };
    format!("{}_{metric}", of.chars().map(plain).collect::<String>())
}

/// The names of the queues that data passes on its way, in the plan's order.
fn queues(plan: &Plan) -> Vec<String> {
    let routes = plan.routes();
    let of_flows = plan.flows.iter().map(|f| (f.from, f.to));
    let of_probes = plan.probes.iter().map(|p| (p.from, p.to));
    // What an application fetches comes back.
    let of_apps = plan
        .apps
        .iter()
        .flat_map(|a| [(a.from, a.to), (a.to, a.from)]);
    let mut passed = BTreeSet::new();
    for (from, to) in of_flows.chain(of_probes).chain(of_apps) {
        // Who has no way there is refused by the check of the plan.
        passed.extend(routes.path(from.0, to.0).unwrap_or_default());
    }
    let links = plan.links.iter().enumerate();
    let directions = links.flat_map(|(link, l)| [(link, true, &l.up), (link, false, &l.down)]);
    directions
        .filter(|(link, up, _)| {
            passed.contains(&Hop {
                link: *link,
                up: *up,
            })
        })
        .flat_map(|(.., elements)| elements)
        .filter(|e| e.spec.facts().link.is_some())
        .map(|e| e.name.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::{Campaign, Shelf};

    struct Empty;

    impl Shelf for Empty {
        fn open(&self, _: &str) -> Result<Vec<u8>, String> {
            Err("no files".to_owned())
        }
    }

    const BASE: &str = r#"
version = 1
kind = "campaign"
name = "sweep"
cell = "{cc}"
[scenario]
duration = "6s"
[[scenario.link]]
name = "access"
ends = ["client", "server"]
up = ["netem delay 5ms", "bottleneck: rate 10Mbit queue dualpi2", "tap mid"]
down = ["netem delay 5ms", "slow: rate 1Mbit"]
[[scenario.flow]]
name = "bulk-1"
from = "client"
to = "server"
cc = "cubic"
[[scenario.flow]]
name = "short"
from = "client"
to = "server"
cc = "cubic"
bytes = 100000
[[scenario.probe]]
name = "ping"
from = "client"
to = "server"
[[scenario.observe]]
name = "mid"
tap = "tap/mid"
techniques = ["spin", "ts-single"]
[axis]
cc = ["cubic", "reno"]
[set]
"flow/bulk-1/cc" = "{cc}"
"#;

    fn read(more: &str) -> Result<Campaign, String> {
        let text = format!("{BASE}{more}");
        let read = Campaign::read("sweep.toml", text.as_bytes(), &Empty, &[]);
        read.map_err(|refusal| refusal.to_line())
    }

    fn refusal(formula: &str) -> String {
        read(&format!("[metric]\ng = \"{formula}\"\n")).expect_err(formula)
    }

    #[test]
    fn a_metric_that_no_cell_has_is_refused_with_what_there_is() {
        for (formula, parts) in [
            (
                "bogus of flow/short",
                &[
                    "`bogus`, which `flow/short` has not",
                    "`goodput_mbit`",
                    "narrows list metrics",
                ][..],
            ),
            (
                "goodput_mbits of flow/short",
                &["did you mean `goodput_mbit`?"],
            ),
            ("rtt_ms/p90 of flow/short", &["did you mean `rtt_ms.p"]),
            (
                "goodput_mbit of flow/nosuch",
                &["`flow/nosuch`, which no cell has", "`flow/bulk-1`", "`run`"],
            ),
            ("goodput_mbit of flow/shrt", &["did you mean `flow/short`?"]),
            ("share3_pct of run", &["`share3_pct`, which `run` has not"]),
            (
                "goodput_mbit of link/access/up/bottleneck",
                &["`sojourn_ms.{min,mean"],
            ),
            ("sojourn_ms.p99 of link/access/up/netem", &["`drops`"]),
            (
                "spin.full_rtt_initiator.average of observe/mid/short",
                &["TECHNIQUE.QUANTITY.PART"],
            ),
            (
                "delay.full_rtt_initiator.mean of observe/mid/short",
                &["the observer keeps `spin` or `ts-single` alone"],
            ),
        ] {
            let line = refusal(formula);
            assert!(line.starts_with("sweep.toml:"), "{line}");
            for part in parts {
                assert!(line.contains(part), "{formula}: {line}");
            }
        }
    }

    #[test]
    fn every_way_of_writing_a_metric_that_there_is_is_read() {
        for formula in [
            "rtt_ms.p99 of flow/short",
            "rtt_ms/p99 of flow/short",
            "share2_pct of run",
            "utilisation of queue/link/access/up/bottleneck",
            "low_latency.sojourn_ms.p50 of link/access/up/bottleneck",
            "drops.loss of link/access/up/netem",
            "lost of probe/ping",
            "spin.full_rtt_initiator.mean of observe/mid/bulk-1",
            "spin-to-ts-single.full_rtt_responder.error_p50 of observe/mid/bulk-1",
            "seen.ip.total of observe/mid/short",
        ] {
            let read = read(&format!("[metric]\ng = \"{formula}\"\n"));
            assert!(read.is_ok(), "{formula}: {read:?}");
        }
    }

    #[test]
    fn a_sweep_without_metrics_measures_what_its_flows_probes_and_queues_have() {
        let campaign = read("").expect("a sweep");
        let names: Vec<&str> = campaign.metrics.iter().map(|m| m.name.as_str()).collect();
        assert_eq!(
            names,
            [
                "bulk_1_goodput_mbit",
                "bulk_1_rtt_p50_ms",
                "short_goodput_mbit",
                "short_rtt_p50_ms",
                "short_fct_s",
                "ping_rtt_p50_ms",
                // The queue of the way back carries acknowledgements alone.
                "access_up_bottleneck_sojourn_p99_ms",
                "jain",
            ]
        );
        assert!(
            campaign
                .cells
                .iter()
                .all(|c| c.published.len() == names.len())
        );
    }

    #[test]
    fn published_figures_without_metrics_to_compare_are_refused() {
        let line = read("[published]\nfile = \"x.csv\"\n").expect_err("no metric");
        assert!(line.contains("[published] compares metrics"), "{line}");
    }
}
