//! Fewer points that draw the same picture.
//!
//! A run of minutes has more samples than a figure has columns of pixels. M4
//! (Jugel et al., "M4: A Visualization-Oriented Time Series Data Aggregation",
//! VLDB 2014) keeps the first, least, greatest and last point of each column;
//! at that many columns a line through them covers the same pixels as one
//! through all points, so no peak is lost.

/// At most four points per column, for `columns` equal columns between the
/// first and the last x. Points must be in order of x. A point whose y is NaN
/// (an interruption) is kept where a column holds nothing else.
pub fn thin(points: &[[f64; 2]], columns: usize) -> Vec<[f64; 2]> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let width = (last[0] - first[0]) / columns.max(1) as f64;
    if points.len() <= 4 * columns || width <= 0.0 {
        return points.to_vec();
    }
    let column = |p: &[f64; 2]| (((p[0] - first[0]) / width) as usize).min(columns - 1);
    points
        .chunk_by(|a, b| column(a) == column(b))
        .flat_map(keep)
        .collect()
}

/// First, least, greatest and last point of one column, in order of x.
fn keep(points: &[[f64; 2]]) -> Vec<[f64; 2]> {
    let mut least = 0;
    let mut greatest = 0;
    for (index, point) in points.iter().enumerate() {
        if point[1] < points[least][1] || points[least][1].is_nan() {
            least = index;
        }
        if point[1] > points[greatest][1] || points[greatest][1].is_nan() {
            greatest = index;
        }
    }
    let mut kept = vec![0, least, greatest, points.len() - 1];
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|index| points[index]).collect()
}

/// `value` to so many significant digits: what a figure can show, and no more
/// bytes on the page.
pub fn digits(value: f64, significant: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    format!("{value:.*e}", (significant - 1).max(0) as usize)
        .parse()
        .unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_spike_of_one_sample_survives() {
        let mut points: Vec<[f64; 2]> = (0..100_000).map(|i| [i as f64, 1.0]).collect();
        points[54_321][1] = 900.0;
        let thinned = thin(&points, 200);
        assert!(thinned.len() <= 800);
        assert!(thinned.contains(&[54_321.0, 900.0]));
    }

    #[test]
    fn digits_are_significant_ones() {
        assert_eq!(digits(12_345.678, 4), 12_350.0);
        assert_eq!(digits(0.000_123_45, 3), 0.000_123);
        assert_eq!(digits(-0.0, 3), 0.0);
        assert!(digits(f64::NAN, 3).is_nan());
    }

    proptest! {
        #[test]
        fn each_column_keeps_its_least_and_greatest(
            ys in prop::collection::vec(-1e6f64..1e6, 2..3000),
            columns in 1usize..64,
        ) {
            let points: Vec<[f64; 2]> =
                ys.iter().enumerate().map(|(i, y)| [i as f64 * 0.05, *y]).collect();
            let thinned = thin(&points, columns);
            prop_assert!(thinned.len() <= (4 * columns).max(points.len().min(4 * columns)));
            prop_assert!(thinned.windows(2).all(|w| w[0][0] < w[1][0]));
            prop_assert_eq!(thinned.first(), points.first());
            prop_assert_eq!(thinned.last(), points.last());
            let extreme = |p: &[[f64; 2]]| p.iter().fold((f64::MAX, f64::MIN), |(l, h), v| {
                (l.min(v[1]), h.max(v[1]))
            });
            prop_assert_eq!(extreme(&thinned), extreme(&points));
        }
    }
}
