//! Published | measured | difference, as a file and on the terminal.

use super::model::{CampaignResult, CellResult, MetricResult};
use crate::text::{Align, TextTable, number};

/// `cells.csv`.
pub fn cells_csv(result: &CampaignResult) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let decimal = |v: Option<f64>| v.map(decimal).unwrap_or_default();
    let mut write = |row: [&str; 8]| {
        // Into memory, and all rows have eight cells: this does not fail.
        csv.write_record(row).ok();
    };
    write([
        "cell",
        "metric",
        "published",
        "measured",
        "spread",
        "difference",
        "tolerance",
        "within",
    ]);
    for cell in &result.cells {
        for m in &cell.metrics {
            write([
                &cell.name,
                &m.metric,
                &decimal(m.published),
                &decimal(m.measured),
                &decimal(m.measured.map(|_| m.spread)),
                &decimal(m.difference),
                m.tolerance.as_deref().unwrap_or_default(),
                m.within.map_or("", |w| if w { "yes" } else { "no" }),
            ]);
        }
    }
    let bytes = csv.into_inner().unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Six decimals at most, and no zeros at the end.
fn decimal(value: f64) -> String {
    let text = format!("{value:.6}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0" } else { text }.to_owned()
}

/// The side-by-side table for a terminal of `width` columns, the checks, and
/// what failed. Of a metric that is judged, published, measured, difference
/// and whether it is within its band; of others, if there is room, published
/// and measured.
pub fn table(result: &CampaignResult, width: usize) -> String {
    let judged: Vec<&str> = result
        .metrics
        .iter()
        .map(String::as_str)
        .filter(|m| rows_of(result, m).any(|r| r.tolerance.is_some()))
        .collect();
    let all: Vec<&str> = result.metrics.iter().map(String::as_str).collect();
    let wide = render(result, &all);
    let fits = wide.lines().all(|line| line.chars().count() <= width);
    let mut text = if fits || judged.is_empty() {
        wide
    } else {
        render(result, &judged)
    };
    for cell in &result.cells {
        if let Some(why) = &cell.error {
            text.push_str(&format!("failed: {}: {why}\n", cell.name));
        }
        for finding in cell.verdict.reasons() {
            text.push_str(&format!("doubtful: {}: {}\n", cell.name, finding.line));
        }
    }
    if !result.checks.is_empty() {
        text.push('\n');
    }
    for check in &result.checks {
        text.push_str(&check.line);
        text.push('\n');
    }
    if !result.complete {
        text.push_str(&format!(
            "incomplete: {} of {} cells were run\n",
            result.cells.len(),
            result.planned
        ));
    }
    text
}

fn rows_of<'a>(
    result: &'a CampaignResult,
    metric: &'a str,
) -> impl Iterator<Item = &'a MetricResult> {
    result.cells.iter().filter_map(move |c| c.metric(metric))
}

fn render(result: &CampaignResult, metrics: &[&str]) -> String {
    let several = result.seeds.len() > 1;
    let mut heads: Vec<(String, Align)> = vec![("cell".to_owned(), Align::Left)];
    for metric in metrics {
        let published = rows_of(result, metric).any(|r| r.published.is_some());
        if published {
            heads.push((format!("{metric} published"), Align::Right));
        }
        heads.push((
            if published {
                "measured".to_owned()
            } else {
                (*metric).to_owned()
            },
            Align::Right,
        ));
        if several {
            heads.push(("spread".to_owned(), Align::Right));
        }
        if rows_of(result, metric).any(|r| r.tolerance.is_some()) {
            heads.push(("difference".to_owned(), Align::Right));
            heads.push(("within".to_owned(), Align::Left));
        }
    }
    let borrowed: Vec<(&str, Align)> = heads.iter().map(|(h, a)| (h.as_str(), *a)).collect();
    let mut table = TextTable::new(&borrowed);
    for cell in &result.cells {
        table.row(line_of(result, cell, metrics, several));
    }
    table.render()
}

fn line_of(
    result: &CampaignResult,
    cell: &CellResult,
    metrics: &[&str],
    several: bool,
) -> Vec<String> {
    let mut line = vec![cell.name.clone()];
    for metric in metrics {
        let none = MetricResult::default();
        let m = cell.metric(metric).unwrap_or(&none);
        if rows_of(result, metric).any(|r| r.published.is_some()) {
            line.push(number(m.published));
        }
        line.push(number(m.measured));
        if several {
            line.push(number(m.measured.map(|_| m.spread)));
        }
        if rows_of(result, metric).any(|r| r.tolerance.is_some()) {
            line.push(m.difference.map_or("-".to_owned(), signed));
            line.push(match (m.within, &m.tolerance) {
                (Some(true), Some(band)) => band.clone(),
                (Some(false), Some(band)) => format!("OUTSIDE {band}"),
                _ => String::new(),
            });
        }
    }
    line
}

fn signed(value: f64) -> String {
    let text = number(Some(value));
    if value > 0.0 {
        format!("+{text}")
    } else {
        text
    }
}
