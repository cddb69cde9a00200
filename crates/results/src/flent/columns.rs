//! Series on one time line, written without being copied.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use crate::series::{ByName, Series, Track};

/// The time line that all columns of a file share: ends of intervals.
pub(super) struct Grid {
    step_s: f64,
    len: usize,
}

impl Grid {
    /// That of `series`; `None` if it has no rows.
    pub(super) fn of(series: &Series) -> Option<Self> {
        let step_s = series.interval_s;
        let last = series
            .tracks
            .iter()
            .filter_map(|t| t.t_s.last().copied())
            .fold(0.0, f64::max);
        let grid = Self {
            step_s,
            len: (last / step_s).round() as usize,
        };
        (step_s > 0.0 && grid.len > 0).then_some(grid)
    }

    /// Length of an interval in seconds.
    pub(super) fn step_s(&self) -> f64 {
        self.step_s
    }

    /// Number of intervals.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The ends of intervals in seconds.
    pub(super) fn times(&self) -> impl Iterator<Item = f64> + '_ {
        (0..self.len).map(|i| self.time(i))
    }

    fn time(&self, index: usize) -> f64 {
        // Intervals are whole microseconds; the product is a hair off.
        ((index + 1) as f64 * self.step_s * 1e6).round() / 1e6
    }

    /// The interval that ends at `t_s`.
    pub(super) fn index(&self, t_s: f64) -> usize {
        ((t_s / self.step_s).round() as usize).saturating_sub(1)
    }
}

/// One value for each interval, `null` where there is none.
pub(super) enum Column<'a> {
    /// That of a series.
    Of(Values<'a>, usize),
    /// One that was computed.
    Computed(Vec<Option<f64>>),
}

impl Serialize for Column<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Computed(values) => values.serialize(serializer),
            Self::Of(values, len) => {
                let mut seq = serializer.serialize_seq(Some(*len))?;
                let mut next = 0;
                for at in 0..*len {
                    seq.serialize_element(&values.at(at, &mut next))?;
                }
                seq.end()
            }
        }
    }
}

/// What a series is to Flent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Not there where it has no row.
    Gauge,
    /// Zero where it has no row.
    Counter,
}

/// A series by interval; `track` is `None` for a counter that never counted.
#[derive(Clone)]
pub(super) struct Values<'a> {
    kind: Kind,
    track: Option<&'a Track>,
    /// The interval of each of its rows.
    index: Vec<u32>,
}

impl Values<'_> {
    /// The value in interval `at`; `next` is the row to read, and moves on.
    fn at(&self, at: usize, next: &mut usize) -> Option<f64> {
        let found = self.index.get(*next).is_some_and(|i| *i as usize == at);
        match (self.track, self.kind) {
            (Some(track), _) if found => {
                *next += 1;
                Some(track.value[*next - 1])
            }
            (_, Kind::Counter) => Some(0.0),
            _ => None,
        }
    }
}

/// Flent's key for a series, the series' metric, and what it is.
pub(super) type Key = (&'static str, &'static str, Kind);

/// Flent's raw values of one entity: an object for each interval that has any.
pub(super) struct Rows<'a> {
    columns: Vec<(&'static str, Values<'a>)>,
    times: Vec<f64>,
    step_s: f64,
}

impl<'a> Rows<'a> {
    /// The series of `entity` under the keys that Flent has for them.
    pub(super) fn of(series: &ByName<'a>, grid: &Grid, entity: &str, keys: &[Key]) -> Self {
        let columns = keys.iter().filter_map(|&(key, metric, kind)| {
            let track = series.get(&(entity, metric)).copied();
            if track.is_none() && kind == Kind::Gauge {
                return None;
            }
            let times = track.map_or(&[][..], |t| &t.t_s);
            let index = times.iter().map(|t| grid.index(*t) as u32).collect();
            Some((key, Values { kind, track, index }))
        });
        Self {
            columns: columns.collect(),
            times: grid.times().collect(),
            step_s: grid.step_s,
        }
    }

    /// Whether nothing was ever measured.
    pub(super) fn is_empty(&self) -> bool {
        self.columns.iter().all(|(_, v)| v.index.is_empty())
    }

    /// The same by column.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&'static str, Column<'a>)> + '_ {
        let len = self.times.len();
        let columns = self.columns.iter();
        columns.map(move |(key, values)| (*key, Column::Of(values.clone(), len)))
    }
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        let mut next = vec![0; self.columns.len()];
        for (at, t) in self.times.iter().enumerate() {
            let columns = self.columns.iter().zip(&mut next);
            let values: Vec<_> = columns
                .filter_map(|((key, values), next)| Some((*key, values.at(at, next)?)))
                .collect();
            if !values.is_empty() {
                let (t, step_s) = (*t, self.step_s);
                seq.serialize_element(&Row { t, step_s, values })?;
            }
        }
        seq.end()
    }
}

/// The values at the end of an interval.
struct Row {
    t: f64,
    step_s: f64,
    values: Vec<(&'static str, f64)>,
}

impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("t", &self.t)?;
        map.serialize_entry("dur", &self.step_s)?;
        for (key, value) in &self.values {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
