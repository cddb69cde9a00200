//! How far two sides lie apart over all cells of a comparison, metric by metric.

use super::Comparison;

/// One metric over the cells that have it on both sides.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    /// Which.
    pub metric: String,
    /// Cells that have it on both sides.
    pub cells: usize,
    /// Second less first, the middle one: a side that is always above shows here.
    pub bias: f64,
    /// What half of the cells differ by at most, in the metric's unit.
    pub median: f64,
    /// What 95 of 100 differ by at most.
    pub p95: f64,
    /// The largest.
    pub max: f64,
    /// The cell that has the largest.
    pub furthest: String,
}

/// The metrics that the file asks for, in its order.
pub fn differences(comparison: &Comparison) -> Vec<Differences> {
    let asked = |cell: &super::CellComparison| {
        let rows = cell.rows.iter().take(cell.asked);
        rows.map(|row| row.metric.clone()).collect::<Vec<_>>()
    };
    let names = comparison.cells.iter().map(asked).find(|n| !n.is_empty());
    let of = |metric: String| {
        let cells = comparison.cells.iter();
        let found = cells.filter_map(|c| Some((c.name.as_str(), c.row(&metric)?.difference?)));
        let mut found: Vec<(&str, f64)> = found.collect();
        found.sort_by(|a, b| a.1.total_cmp(&b.1));
        let bias = rank(&found, 50)?.1;
        found.sort_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
        let (furthest, max) = *found.last()?;
        Some(Differences {
            metric,
            cells: found.len(),
            bias,
            median: rank(&found, 50)?.1.abs(),
            p95: rank(&found, 95)?.1.abs(),
            max: max.abs(),
            furthest: furthest.to_owned(),
        })
    };
    names
        .unwrap_or_default()
        .into_iter()
        .filter_map(of)
        .collect()
}

/// The least of sorted figures that `percent` of 100 do not exceed.
fn rank<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let place = (sorted.len() * percent).div_ceil(100);
    sorted.get(place.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::super::{CellComparison, Figure, Row};
    use super::*;

    fn cell(n: usize, first: f64, second: f64) -> CellComparison {
        let figure = |value| Figure::of([Some(value)]);
        CellComparison {
            name: format!("cell-{n}"),
            rows: vec![
                Row::of("share".to_owned(), figure(first), figure(second)),
                Row::of("other".to_owned(), figure(0.0), figure(9.0)),
            ],
            asked: 1,
            ..CellComparison::default()
        }
    }

    #[test]
    fn differences_are_ranked_by_their_size_and_say_which_cell_is_furthest() {
        // Of twenty cells one is 7 below, the others are 0.1, 0.2, … 1.9 above.
        let near = (1..20).map(|n| cell(n, 50.0, 50.0 + n as f64 / 10.0));
        let comparison = Comparison {
            cells: near.chain([cell(20, 50.0, 43.0)]).collect(),
            ..Comparison::default()
        };
        let all = differences(&comparison);
        assert_eq!(all.len(), 1, "only what the file asks for");
        let share = &all[0];
        assert_eq!((share.metric.as_str(), share.cells), ("share", 20));
        assert_eq!(share.furthest, "cell-20");
        let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(near(share.median, 1.0) && near(share.p95, 1.9) && near(share.max, 7.0));
        assert!(near(share.bias, 0.9), "the sign counts: {}", share.bias);
    }

    #[test]
    fn a_cell_without_a_figure_on_one_side_is_not_counted() {
        let mut lacking = cell(1, 1.0, 2.0);
        lacking.rows[0] = Row::of(
            "share".to_owned(),
            Figure::default(),
            Figure::of([Some(1.0)]),
        );
        let comparison = Comparison {
            cells: vec![lacking],
            ..Comparison::default()
        };
        assert!(differences(&comparison).is_empty());
    }
}
