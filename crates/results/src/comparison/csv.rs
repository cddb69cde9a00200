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
