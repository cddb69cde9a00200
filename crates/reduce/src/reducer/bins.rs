//! The series of one entity: a column of numbers per metric.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// A value that may be missing in an interval.
    Gauge,
    /// A count that is mostly zero; zeros are not written.
    Counter,
}

/// The series of one entity.
#[derive(Clone, Debug, Default)]
pub struct Columns {
    /// Full name.
    pub entity: String,
    /// Name and kind of each column.
    heads: Vec<(&'static str, Column)>,
    /// Row by row; NaN where there is no value.
    values: Vec<f32>,
    /// Intervals that passed before the entity was first seen.
    first: Option<usize>,
    /// Columns that are the entity's own: how many of the others are before it, its name, and
    /// the intervals that have a value, with it.
    declared: Vec<(usize, String, Sparse)>,
}

/// Intervals that have a value, with it.
type Sparse = Vec<(usize, f32)>;

impl Columns {
    pub(super) fn new(heads: &[(&'static str, Column)]) -> Self {
        Self {
            heads: heads.to_vec(),
            ..Self::default()
        }
    }

    pub(super) fn named(mut self, entity: String) -> Self {
        self.entity = entity;
        self
    }

    /// Adds the row of interval number `interval`, which follows the last one.
    pub(super) fn push(&mut self, interval: usize, row: &[f32]) {
        debug_assert_eq!(row.len(), self.heads.len());
        self.first.get_or_insert(interval);
        self.values.extend_from_slice(row);
    }

    /// Adds a column that the entity declared itself, after all others.
    pub(super) fn declare(&mut self, name: String, points: Vec<(usize, f32)>) {
        self.declare_after(self.heads.len(), name, points);
    }

    /// The same after so many of the columns that its like all have.
    pub(super) fn declare_after(&mut self, heads: usize, name: String, points: Vec<(usize, f32)>) {
        self.declared.push((heads, name, points));
    }

    /// The columns in order: metric, and the intervals that have a value, with
    /// it. A column without any is left out.
    pub fn tracks(&self) -> impl Iterator<Item = (&str, Vec<(usize, f32)>)> + '_ {
        let heads = self.heads.len();
        let declared_after = |heads| {
            let declared = self.declared.iter().filter(move |d| d.0 == heads);
            declared.map(|(_, name, points)| (name.as_str(), points.clone()))
        };
        (0..heads)
            .flat_map(move |c| {
                let column = (self.heads[c].0, self.column(c).collect());
                declared_after(c).chain(std::iter::once(column))
            })
            .chain(declared_after(heads))
            .filter(|(_, points): &(_, Vec<_>)| !points.is_empty())
    }

    fn column(&self, column: usize) -> impl Iterator<Item = (usize, f32)> + '_ {
        let first = self.first.unwrap_or(0);
        let counter = self.heads[column].1 == Column::Counter;
        self.values
            .chunks_exact(self.heads.len())
            .enumerate()
            .map(move |(i, row)| (first + i, row[column]))
            .filter(move |(_, v)| !(v.is_nan() || counter && *v == 0.0))
    }
}

/// Mean of `count` values that sum up to `sum_ns`, in ms; NaN without values.
pub(super) fn mean_ms(sum_ns: u64, count: u64) -> f32 {
    if count == 0 {
        f32::NAN
    } else {
        (sum_ns as f64 / count as f64 / 1e6) as f32
    }
}

/// `bytes` in `seconds`, in Mbit/s.
pub(super) fn mbit(bytes: u64, seconds: f64) -> f32 {
    (bytes as f64 * 8.0 / seconds / 1e6) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_of_the_intervals_from_the_one_in_which_an_entity_was_first_seen() {
        let mut columns = Columns::new(&[("rtt_ms", Column::Gauge), ("drops", Column::Counter)]);
        for (interval, row) in [(3, [1.0, 0.0]), (4, [f32::NAN, 2.0]), (5, [0.0, 0.0])] {
            columns.push(interval, &row);
        }
        columns.declare_after(1, "own".to_owned(), vec![(4, 7.0)]);
        columns.declare_after(1, "none".to_owned(), Vec::new());
        let tracks: Vec<_> = columns.tracks().collect();
        // A count of zero has no row, a gauge of zero has.
        let expected = [
            ("rtt_ms", vec![(3, 1.0), (5, 0.0)]),
            ("own", vec![(4, 7.0)]),
            ("drops", vec![(4, 2.0)]),
        ];
        assert_eq!(tracks, expected);
    }
}
