//! Columns of numbers and texts that are shared, and tables of them.

use std::ops::Deref;
use std::sync::Arc;

use narrows::RunResult;

/// Numbers with a fraction, where they already lie.
#[derive(Clone)]
pub enum Floats {
    /// The times of a track of a run's series.
    Times(Arc<RunResult>, usize),
    /// Its values.
    Values(Arc<RunResult>, usize),
    /// Numbers that were made for a table.
    Own(Arc<Vec<f64>>),
}

impl Deref for Floats {
    type Target = [f64];

    fn deref(&self) -> &[f64] {
        match self {
            Self::Times(run, track) => &run.series.tracks[*track].t_s,
            Self::Values(run, track) => &run.series.tracks[*track].value,
            Self::Own(all) => all,
        }
    }
}

/// Texts one behind the other.
#[derive(Debug)]
pub struct Texts {
    /// Where each begins, and where the last one ends.
    pub ends: Vec<i64>,
    /// All of them.
    pub bytes: Vec<u8>,
}

impl Default for Texts {
    fn default() -> Self {
        Self {
            ends: vec![0],
            bytes: Vec::new(),
        }
    }
}

impl Texts {
    pub fn push(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
        self.ends.push(self.bytes.len() as i64);
    }

    /// So many times the same.
    pub fn repeated(text: &str, times: usize) -> Self {
        Self {
            ends: (0..=times).map(|n| (n * text.len()) as i64).collect(),
            bytes: text.as_bytes().repeat(times),
        }
    }

    fn get(&self, row: usize) -> String {
        let range = self.ends[row] as usize..self.ends[row + 1] as usize;
        String::from_utf8_lossy(&self.bytes[range]).into_owned()
    }

    fn len(&self) -> usize {
        self.ends.len() - 1
    }
}

/// What kind of values a column has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers with a fraction, of 64 bits.
    Float,
    /// Whole numbers of 64 bits with a sign.
    Whole,
    /// UTF-8.
    Text,
}

/// The values of a column.
#[derive(Clone)]
pub enum Values {
    Floats(Floats),
    Wholes(Arc<Vec<i64>>),
    Texts(Arc<Texts>),
}

/// One value.
pub enum Cell {
    Float(f64),
    Whole(i64),
    Text(String),
    Absent,
}

/// Values of a kind, of which some may be absent.
#[derive(Clone)]
pub struct Column {
    pub values: Values,
    /// A bit for each row, the lowest of a byte first, that is set where the row has a value; `None`
    /// where all have.
    pub present: Option<Arc<Vec<u8>>>,
    /// How many have none.
    pub absent: usize,
}

impl Column {
    pub fn floats(floats: Floats) -> Self {
        Self::whole_of(Values::Floats(floats))
    }

    pub fn texts(texts: Texts) -> Self {
        Self::whole_of(Values::Texts(Arc::new(texts)))
    }

    fn whole_of(values: Values) -> Self {
        Self {
            values,
            present: None,
            absent: 0,
        }
    }

    pub fn len(&self) -> usize {
        match &self.values {
            Values::Floats(all) => all.len(),
            Values::Wholes(all) => all.len(),
            Values::Texts(all) => all.len(),
        }
    }

    pub fn kind(&self) -> Kind {
        match &self.values {
            Values::Floats(_) => Kind::Float,
            Values::Wholes(_) => Kind::Whole,
            Values::Texts(_) => Kind::Text,
        }
    }

    pub fn cell(&self, row: usize) -> Cell {
        let is_set = |bits: &Arc<Vec<u8>>| bits[row / 8] & (1 << (row % 8)) != 0;
        if !self.present.as_ref().is_none_or(is_set) {
            return Cell::Absent;
        }
        match &self.values {
            Values::Floats(all) => Cell::Float(all[row]),
            Values::Wholes(all) => Cell::Whole(all[row]),
            Values::Texts(all) => Cell::Text(all.get(row)),
        }
    }
}

/// A column that grows by a value at a time.
pub struct Growing {
    values: GrowingValues,
    present: Vec<u8>,
    len: usize,
    absent: usize,
}

enum GrowingValues {
    Floats(Vec<f64>),
    Wholes(Vec<i64>),
    Texts(Texts),
}

impl Growing {
    pub fn new(kind: Kind) -> Self {
        Self {
            values: match kind {
                Kind::Float => GrowingValues::Floats(Vec::new()),
                Kind::Whole => GrowingValues::Wholes(Vec::new()),
                Kind::Text => GrowingValues::Texts(Texts::default()),
            },
            present: Vec::new(),
            len: 0,
            absent: 0,
        }
    }

    /// Adds a value; one of another kind is absent.
    pub fn push(&mut self, cell: &Cell) {
        let present = match (&mut self.values, cell) {
            (GrowingValues::Floats(all), Cell::Float(value)) => {
                all.push(*value);
                true
            }
            (GrowingValues::Wholes(all), Cell::Whole(value)) => {
                all.push(*value);
                true
            }
            (GrowingValues::Texts(all), Cell::Text(value)) => {
                all.push(value);
                true
            }
            (GrowingValues::Floats(all), _) => {
                all.push(f64::NAN);
                false
            }
            (GrowingValues::Wholes(all), _) => {
                all.push(0);
                false
            }
            (GrowingValues::Texts(all), _) => {
                all.push("");
                false
            }
        };
        if self.len % 8 == 0 {
            self.present.push(0);
        }
        self.present[self.len / 8] |= u8::from(present) << (self.len % 8);
        self.absent += usize::from(!present);
        self.len += 1;
    }

    pub fn done(self) -> Column {
        Column {
            values: match self.values {
                GrowingValues::Floats(all) => Values::Floats(Floats::Own(Arc::new(all))),
                GrowingValues::Wholes(all) => Values::Wholes(Arc::new(all)),
                GrowingValues::Texts(all) => Values::Texts(Arc::new(all)),
            },
            present: (self.absent > 0).then(|| Arc::new(self.present)),
            absent: self.absent,
        }
    }
}

/// What a column of a table is called, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    pub kind: Kind,
}

/// Rows of a table that lie together: a column for each of its fields, all of one length.
#[derive(Clone)]
pub struct Batch {
    pub columns: Vec<Column>,
    pub rows: usize,
}

/// Batches with the same fields.
#[derive(Clone)]
pub struct Batches {
    pub fields: Arc<Vec<Field>>,
    pub batches: Vec<Batch>,
}

impl Batches {
    pub fn new(fields: &[(&str, Kind)]) -> Self {
        let field = |(name, kind): &(&str, Kind)| Field {
            name: (*name).to_owned(),
            kind: *kind,
        };
        Self {
            fields: Arc::new(fields.iter().map(field).collect()),
            batches: Vec::new(),
        }
    }

    /// Adds rows; `columns` are as the fields.
    pub fn push(&mut self, columns: Vec<Column>) {
        let rows = columns.first().map_or(0, Column::len);
        self.batches.push(Batch { columns, rows });
    }

    pub fn rows(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows).sum()
    }
}
