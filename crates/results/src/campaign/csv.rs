//! `cells.csv`: a campaign as rows.

use super::{AxisResult, CampaignResult};

/// Columns of `cells.csv` between and after those of the axes.
const CELL: &str = "cell";
const FIGURES: [&str; 7] = [
    "metric",
    "published",
    "measured",
    "spread",
    "difference",
    "tolerance",
    "within",
];

/// `cells.csv`: the cell, its value on each axis, a metric, its figures. An axis
/// that is called as another column is has `axis_` before its name.
pub fn cells_csv(result: &CampaignResult) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let decimal = |v: Option<f64>| v.map(decimal).unwrap_or_default();
    let axis = |axis: &AxisResult| match axis.name.as_str() {
        name if name == CELL || FIGURES.contains(&name) => format!("axis_{name}"),
        name => name.to_owned(),
    };
    let mut head = vec![CELL.to_owned()];
    head.extend(result.axes.iter().map(axis));
    head.extend(FIGURES.map(str::to_owned));
    // Into memory, and all rows have the same length: this does not fail.
    csv.write_record(&head).ok();
    for cell in &result.cells {
        for m in &cell.metrics {
            let mut row = vec![cell.name.clone()];
            row.extend(cell.at.iter().cloned());
            row.extend([
                m.metric.clone(),
                decimal(m.published),
                decimal(m.measured),
                decimal(m.measured.map(|_| m.spread)),
                decimal(m.difference),
                m.tolerance.clone().unwrap_or_default(),
                m.within
                    .map_or("", |w| if w { "yes" } else { "no" })
                    .to_owned(),
            ]);
            csv.write_record(&row).ok();
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
