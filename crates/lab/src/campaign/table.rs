//! Published | measured | difference, as a file and on the terminal.

use super::model::{CampaignResult, CellResult, MetricResult};
use crate::text::{Align, TextTable};

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

/// The side-by-side table for a terminal of `width` columns, then what failed
/// and the checks. All metrics stand beside each other if there is room;
/// otherwise those that are judged, below each other.
pub fn table(result: &CampaignResult, width: usize) -> String {
    let all: Vec<&str> = result.metrics.iter().map(String::as_str).collect();
    let judged: Vec<&str> = all
        .iter()
        .copied()
        .filter(|m| rows_of(result, m).any(|r| r.tolerance.is_some()))
        .collect();
    let wide = render(result, &all);
    let fits = wide.lines().all(|line| line.chars().count() <= width);
    let mut text = if fits || judged.is_empty() {
        wide
    } else {
        let blocks: Vec<String> = judged.iter().map(|m| render(result, &[m])).collect();
        blocks.join("\n")
    };
    let troubles = troubles(result);
    for lines in [&troubles, &check_lines(result)] {
        if !lines.is_empty() {
            text.push('\n');
        }
        for line in lines {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// What failed or cannot be trusted, each kind of trouble once, with the cells
/// that have it.
fn troubles(result: &CampaignResult) -> Vec<String> {
    let mut kinds: Vec<(String, Vec<&str>)> = Vec::new();
    let mut add = |line: String, cell| match kinds.iter_mut().find(|k| k.0 == line) {
        Some(kind) => kind.1.push(cell),
        None => kinds.push((line, vec![cell])),
    };
    for cell in &result.cells {
        if let Some(why) = &cell.error {
            add(format!("failed, {why}"), cell.name.as_str());
        }
        for finding in cell.verdict.reasons() {
            add(format!("doubtful, because {}", finding.line), &cell.name);
        }
    }
    let say = |(line, cells): &(String, Vec<&str>)| match cells.as_slice() {
        [one] => format!("{one}: {line}"),
        [first, rest @ ..] => format!("{first} and {} more: {line}", rest.len()),
        [] => line.clone(),
    };
    kinds.iter().map(say).collect()
}

fn check_lines(result: &CampaignResult) -> Vec<String> {
    let mut lines: Vec<String> = result.checks.iter().map(|c| c.line.clone()).collect();
    if !result.complete {
        lines.push(format!(
            "incomplete: {} of {} cells were run",
            result.cells.len(),
            result.planned
        ));
    }
    lines
}

fn rows_of<'a>(
    result: &'a CampaignResult,
    metric: &'a str,
) -> impl Iterator<Item = &'a MetricResult> {
    result.cells.iter().filter_map(move |c| c.metric(metric))
}

/// How a metric is shown.
struct Shape<'a> {
    metric: &'a str,
    published: bool,
    spread: bool,
    judged: bool,
    decimals: usize,
}

impl<'a> Shape<'a> {
    fn of(result: &'a CampaignResult, metric: &'a str) -> Self {
        let rows = || rows_of(result, metric);
        let figures = || rows().flat_map(|r| [r.published, r.measured]).flatten();
        Self {
            metric,
            published: rows().any(|r| r.published.is_some()),
            spread: result.seeds.len() > 1,
            judged: rows().any(|r| r.tolerance.is_some()),
            // An index or a probability has its news in the third decimal.
            decimals: if figures().all(|v| v.abs() <= 1.5) {
                3
            } else {
                2
            },
        }
    }

    fn heads(&self) -> Vec<(&'static str, Align)> {
        let mut heads = Vec::new();
        if self.published {
            heads.push(("published", Align::Right));
        }
        heads.push(("measured", Align::Right));
        if self.spread {
            heads.push(("spread", Align::Right));
        }
        if self.judged {
            heads.push(("difference", Align::Right));
            heads.push(("within", Align::Left));
        }
        heads
    }

    fn cells(&self, cell: &CellResult) -> Vec<String> {
        let decimals = self.decimals;
        let show = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.decimals$}"));
        let none = MetricResult::default();
        let m = cell.metric(self.metric).unwrap_or(&none);
        let mut cells = Vec::new();
        if self.published {
            cells.push(show(m.published));
        }
        cells.push(show(m.measured));
        if self.spread {
            cells.push(show(m.measured.map(|_| m.spread)));
        }
        if self.judged {
            let signed = |d: f64| format!("{d:+.decimals$}");
            cells.push(m.difference.map_or("-".to_owned(), signed));
            let within = m.within.map_or("", |w| if w { "yes" } else { "NO" });
            cells.push(within.to_owned());
        }
        cells
    }
}

fn render(result: &CampaignResult, metrics: &[&str]) -> String {
    let shapes: Vec<Shape<'_>> = metrics.iter().map(|m| Shape::of(result, m)).collect();
    let mut heads = vec![("cell", Align::Left)];
    let mut groups = Vec::new();
    for shape in &shapes {
        groups.push((heads.len(), shape.metric));
        heads.extend(shape.heads());
    }
    let mut table = TextTable::new(&heads);
    for (first, words) in groups {
        table.group(first, words);
    }
    for cell in &result.cells {
        let mut row = vec![cell.name.clone()];
        row.extend(shapes.iter().flat_map(|s| s.cells(cell)));
        table.row(row);
    }
    table.render()
}
