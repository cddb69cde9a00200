//! `compare.csv`: a comparison as rows.

use std::fmt::Write;

use super::{Comparison, Figure};

/// `compare.csv`: a line for each metric of each cell.
pub fn csv(comparison: &Comparison) -> String {
    let [first, second] = &comparison.sides;
    let of = |side: &str| format!("{side},{side}_min,{side}_max,{side}_runs");
    let mut text = format!(
        "cell,metric,{},{},difference,tolerance,within,verdict\n",
        of(first),
        of(second)
    );
    let value = |v: Option<f64>| v.map(|v| v.to_string()).unwrap_or_default();
    for cell in &comparison.cells {
        for row in &cell.rows {
            let of = |f: &Figure| {
                let [median, min, max] = [f.median, f.min, f.max].map(value);
                format!("{median},{min},{max},{}", f.runs)
            };
            writeln!(
                text,
                "{},{},{},{},{},{},{},{}",
                quoted(&cell.name),
                quoted(&row.metric),
                of(&row.first),
                of(&row.second),
                value(row.difference),
                row.tolerance.clone().unwrap_or_default(),
                row.within.map(|w| w.to_string()).unwrap_or_default(),
                row.verdict(),
            )
            .ok();
        }
    }
    text
}

/// A cell's name may hold a comma.
fn quoted(text: &str) -> String {
    match text.contains([',', '"']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comparison::{CellComparison, Row};

    #[test]
    fn a_row_has_both_sides_and_a_name_with_a_comma_is_quoted() {
        let figure = |values: &[f64]| Figure::of(values.iter().copied().map(Some));
        let both = Row {
            tolerance: Some("±5".to_owned()),
            within: Some(true),
            ..Row::of("jain".to_owned(), figure(&[0.5, 1.0]), figure(&[1.0, 1.5]))
        };
        let one = Row::of("rate \"1\"".to_owned(), figure(&[]), figure(&[2.0]));
        let comparison = Comparison {
            sides: ["sim", "live"].map(str::to_owned),
            cells: vec![CellComparison {
                name: "50Mbit,cubic".to_owned(),
                rows: vec![both, one],
                ..CellComparison::default()
            }],
            ..Comparison::default()
        };
        let expected = "cell,metric,sim,sim_min,sim_max,sim_runs,live,live_min,live_max,\
                        live_runs,difference,tolerance,within,verdict\n\
                        \"50Mbit,cubic\",jain,0.75,0.5,1,2,1.25,1,1.5,2,0.5,±5,true,\
                        same within the spread\n\
                        \"50Mbit,cubic\",\"rate \"\"1\"\"\",,,,0,2,2,2,1,,,,\
                        on one side only\n";
        assert_eq!(csv(&comparison), expected);
    }
}
