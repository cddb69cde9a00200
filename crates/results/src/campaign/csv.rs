//! `cells.csv`: a campaign as tidy rows.

use super::{AxisResult, CampaignResult, SeedResult};

/// Columns of `cells.csv` before and after those of the axes.
const CELL: &str = "cell";
const FIGURES: [&str; 12] = [
    "seed",
    "metric",
    "unit",
    "value",
    "median",
    "spread",
    "published",
    "difference",
    "tolerance",
    "within",
    "trust",
    "findings",
];

/// `cells.csv`: a row for each cell, seed and metric. It has the cell, its place on each
/// axis (a number where the axis has numbers, whose unit ends the column's name), the seed's
/// own `value`, what the cell comes to over all seeds (`median` to `within`), and what the
/// verdict on the seed's run says. An axis that is called as another column is has `axis_`
/// before its name.
pub fn cells_csv(result: &CampaignResult) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    let decimal = |v: Option<f64>| v.map(decimal).unwrap_or_default();
    let word = |v: Option<bool>| v.map_or("", |v| if v { "yes" } else { "no" }).to_owned();
    let columns: Vec<_> = result.axes.iter().map(AxisResult::column).collect();
    let mut head = vec![CELL.to_owned()];
    head.extend(columns.iter().map(|(name, _)| match name.as_str() {
        name if name == CELL || FIGURES.contains(&name) => format!("axis_{name}"),
        name => name.to_owned(),
    }));
    head.extend(FIGURES.map(str::to_owned));
    // Into memory, and all rows have the same length: this does not fail.
    csv.write_record(&head).ok();
    for cell in &result.cells {
        let axes = result.axes.iter().zip(&columns).zip(&cell.at);
        let axes = axes.map(|((axis, (_, numbers)), value)| {
            let place = axis.values.iter().position(|v| v == value);
            let number = numbers.as_ref().zip(place).and_then(|(n, p)| n.get(p));
            number.map_or_else(|| value.clone(), f64::to_string)
        });
        let mut stem = vec![cell.name.clone()];
        stem.extend(axes);
        stem.resize(1 + columns.len(), String::new());
        for (place, seed) in result.seeds.iter().enumerate() {
            let of = cell.by_seed.get(place);
            for m in &cell.metrics {
                let mut row = stem.clone();
                row.extend([
                    seed.to_string(),
                    m.metric.clone(),
                    result.title_of(&m.metric).unit,
                    decimal(m.by_seed.get(place).copied().flatten()),
                    decimal(m.measured),
                    decimal(m.measured.map(|_| m.spread)),
                    decimal(m.published),
                    decimal(m.difference),
                    m.tolerance.clone().unwrap_or_default(),
                    word(m.within),
                    word(of.map(|seed| seed.trusted)),
                    of.map(|seed: &SeedResult| seed.findings.join(" "))
                        .unwrap_or_default(),
                ]);
                csv.write_record(&row).ok();
            }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::campaign::{CellResult, MetricResult};

    #[test]
    fn each_seed_has_a_row_with_axes_as_numbers_and_its_own_verdict() {
        let axis = |name: &str, values: &[&str]| AxisResult {
            name: name.to_owned(),
            values: values.iter().map(|v| (*v).to_owned()).collect(),
        };
        let result = CampaignResult {
            seeds: vec![1, 7],
            axes: vec![axis("rate", &["500kbit", "50Mbit"]), axis("seed", &["a"])],
            metrics: vec!["rtt_ms".to_owned()],
            cells: vec![CellResult {
                name: "500kbit/a".to_owned(),
                at: vec!["500kbit".to_owned(), "a".to_owned()],
                metrics: vec![MetricResult {
                    metric: "rtt_ms".to_owned(),
                    published: Some(2.0),
                    measured: Some(1.5),
                    spread: 1.0,
                    by_seed: vec![Some(1.0), Some(2.0)],
                    difference: Some(-0.5),
                    ..MetricResult::default()
                }],
                by_seed: vec![
                    SeedResult {
                        trusted: true,
                        findings: Vec::new(),
                    },
                    SeedResult {
                        trusted: false,
                        findings: vec!["short-window".to_owned(), "ecn".to_owned()],
                    },
                ],
                ..CellResult::default()
            }],
            ..CampaignResult::default()
        };
        assert_eq!(
            cells_csv(&result),
            "cell,rate_mbit,axis_seed,seed,metric,unit,value,median,spread,published,difference,\
             tolerance,within,trust,findings\n\
             500kbit/a,0.5,a,1,rtt_ms,ms,1,1.5,1,2,-0.5,,,yes,\n\
             500kbit/a,0.5,a,7,rtt_ms,ms,2,1.5,1,2,-0.5,,,no,short-window ecn\n"
        );
    }
}
