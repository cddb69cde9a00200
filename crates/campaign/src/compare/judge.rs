//! What the runs of two sides come to, figure by figure, and what the file's
//! tolerances say of it.

use narrows_results::campaign::CheckResult;
use narrows_results::comparison::{CellComparison, Figure, Row};
use narrows_results::metric::{figure, lookup, metrics};
use narrows_results::summary::RunSummary;
use narrows_scenario::{Between, Campaign, Plan, Tolerance};

use crate::matrix::{check_of, judged};

/// The runs of a cell on both sides, or those of a pair of cells.
pub(super) struct Sides<'a> {
    /// The cell, or the two values that name the pair, as tolerances fit it.
    pub name: &'a str,
    /// What ran.
    pub plan: &'a Plan,
    /// Which tolerances are meant.
    pub between: Between,
    /// The side that is known: the simulator's, or the one that a pair is
    /// held against.
    pub first: &'a [RunSummary],
    /// The other.
    pub second: &'a [RunSummary],
}

/// The rows of a cell, and how many of them the file asks for.
pub(super) fn rows(campaign: &Campaign, sides: &Sides<'_>) -> (Vec<Row>, usize) {
    let values = |runs: &[RunSummary]| -> Vec<Vec<Option<f64>>> {
        let of =
            |run: &RunSummary| campaign.evaluate(&mut |entity, name| figure(run, entity, name));
        runs.iter().map(of).collect()
    };
    let (first, second) = (values(sides.first), values(sides.second));
    let column = |runs: &[Vec<Option<f64>>], m: usize| Figure::of(runs.iter().map(|r| r[m]));
    let row = |name: String, first, second| match sides.between {
        Between::Pair => Row::of_pair(name, first, second),
        _ => Row::of(name, first, second),
    };
    let mut rows: Vec<Row> = campaign
        .metrics
        .iter()
        .enumerate()
        .map(|(m, metric)| {
            let mut row = row(metric.name.clone(), column(&first, m), column(&second, m));
            let mut bands = campaign.tolerances.iter();
            let mine = bands.find(|t| {
                t.between == sides.between && t.metric == m && t.cells.matches(sides.name)
            });
            if let Some(tolerance) = mine {
                row.tolerance = Some(words(tolerance));
                row.within = within(tolerance, &row);
            }
            row
        })
        .collect();
    let asked = rows.len();
    for name in of_every_run(sides.plan, sides.first, sides.second) {
        let of = |runs: &[RunSummary]| Figure::of(runs.iter().map(|run| lookup(run, &name)));
        let (first, second) = (of(sides.first), of(sides.second));
        if first.runs + second.runs > 0 && campaign.metric(&name).is_none() {
            rows.push(row(name, first, second));
        }
    }
    (rows, asked)
}

/// The band in words.
fn words(tolerance: &Tolerance) -> String {
    match (tolerance.between, tolerance.bands.is_empty()) {
        (Between::Pair, true) => "own spread".to_owned(),
        (Between::Pair, false) => format!("own spread or {}", tolerance.bands_in_words()),
        _ => tolerance.bands_in_words(),
    }
}

/// Whether the second side lies where `tolerance` wants it beside the first;
/// `None` where there is nothing to hold it against.
fn within(tolerance: &Tolerance, row: &Row) -> Option<bool> {
    let known = row.first.median?;
    let in_band = || {
        let second = row.second.median;
        second.is_some_and(|second| tolerance.holds(known, second))
    };
    if tolerance.between != Between::Pair {
        return Some(in_band());
    }
    match tolerance.bands.is_empty() {
        // With one run there is no spread to hold it against.
        true => row.same,
        false => Some(row.same == Some(true) || in_band()),
    }
}

/// What is compared of any run: of flows goodput, share, round trips,
/// completion, retransmissions, marks, windows and rates of marks and losses; of queues time, use, marks and drops;
/// of probes round trips.
fn of_every_run(plan: &Plan, first: &[RunSummary], second: &[RunSummary]) -> Vec<String> {
    const OF_FLOWS: [&str; 9] = [
        "goodput_mbit",
        "fct_s",
        "rtt_ms.p50",
        "rtt_ms.p95",
        "retransmissions",
        "ce_marks",
        "mean_window_packets",
        "mark_pct",
        "loss_pct",
    ];
    const OF_QUEUES: [&str; 6] = [
        "sojourn_ms.mean",
        "sojourn_ms.p50",
        "sojourn_ms.p99",
        "utilisation",
        "marks",
        "drops",
    ];
    const OF_PROBES: [&str; 2] = ["rtt_ms.p50", "rtt_ms.p99"];
    let mut names = Vec::new();
    if plan.flows.len() > 1 {
        names.push("share1_pct".to_owned());
    }
    // In the order in which a run reports them, entity by entity.
    for run in first.first().into_iter().chain(second.first()) {
        for metric in metrics(run) {
            let kind = metric.entity.split('/').next().unwrap_or_default();
            let wanted: &[&str] = match kind {
                "flow" => &OF_FLOWS,
                "link" => &OF_QUEUES,
                "probe" => &OF_PROBES,
                _ => &[],
            };
            let name = metric.key();
            if wanted.contains(&metric.metric.as_str()) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The file's tolerances of this kind over the cells that were compared.
pub(super) fn checks(
    campaign: &Campaign,
    between: Between,
    cells: &[CellComparison],
) -> Vec<CheckResult> {
    let mine = campaign.tolerances.iter().filter(|t| t.between == between);
    mine.map(|tolerance| {
        let rows = cells.iter().filter_map(|cell| {
            let row = cell.rows.get(tolerance.metric)?;
            Some((cell.name.as_str(), row))
        });
        match between {
            Between::Pair => {
                let inside = rows.filter_map(|(name, row)| Some((name, row.within?)));
                check_of(
                    campaign,
                    tolerance,
                    &words(tolerance),
                    tolerance.count(inside),
                )
            }
            _ => {
                let medians = |(name, row): (_, &Row)| (name, row.first.median, row.second.median);
                let rows: Vec<_> = rows.map(medians).collect();
                judged(campaign, tolerance, rows)
            }
        }
    })
    .filter(|check| check.judged > 0)
    .collect()
}
