//! Tables and columns as Python has them: for Arrow's consumers, for NumPy, and as plain lists.

use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PyTuple};

use super::arrow;
use super::column::{Batches, Cell, Column, Kind, Values};

/// Rows with named columns.
#[pyclass(frozen, module = "narrows._narrows")]
pub struct Table {
    table: Batches,
}

impl Table {
    pub fn of(table: Batches) -> Self {
        Self { table }
    }

    fn index(&self, name: &str) -> PyResult<usize> {
        let found = self.table.fields.iter().position(|f| f.name == name);
        found.ok_or_else(|| {
            let known = self.names().join(", ");
            PyKeyError::new_err(format!("there is no column {name:?}; there are {known}"))
        })
    }

    fn names(&self) -> Vec<String> {
        self.table.fields.iter().map(|f| f.name.clone()).collect()
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.names()
    }

    fn __len__(&self) -> usize {
        self.table.rows()
    }

    /// Arrow's stream of the rows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // A producer may give what it has.
        let _ = requested_schema;
        let stream = arrow::stream(self.table.clone());
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// Arrow's schema of the rows.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = arrow::table_schema(&self.table.fields);
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// One column, without its numbers being copied where they lie together.
    fn column(&self, name: &str) -> PyResult<ColumnOfTable> {
        let at = self.index(name)?;
        let kind = self.table.fields[at].kind;
        let column = match self.table.batches.as_slice() {
            [only] => only.columns[at].clone(),
            many => {
                let mut all = super::column::Growing::new(kind);
                for batch in many {
                    let column = &batch.columns[at];
                    (0..batch.rows).for_each(|row| all.push(&column.cell(row)));
                }
                all.done()
            }
        };
        Ok(ColumnOfTable {
            name: name.to_owned(),
            column,
        })
    }

    /// The columns as lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let all = PyDict::new(py);
        for (at, field) in self.table.fields.iter().enumerate() {
            let list = PyList::empty(py);
            for batch in &self.table.batches {
                for row in 0..batch.rows {
                    list.append(value(py, &batch.columns[at].cell(row))?)?;
                }
            }
            all.set_item(&field.name, list)?;
        }
        Ok(all)
    }

    fn __repr__(&self) -> String {
        let (rows, names) = (self.table.rows(), self.names().join(", "));
        format!("<narrows.Table of {rows} rows: {names}>")
    }
}

/// The values of one column.
#[pyclass(frozen, name = "Column", module = "narrows._narrows")]
pub struct ColumnOfTable {
    name: String,
    column: Column,
}

#[pymethods]
impl ColumnOfTable {
    /// What it is called.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __len__(&self) -> usize {
        self.column.len()
    }

    fn __getitem__<'py>(&self, py: Python<'py>, index: isize) -> PyResult<Bound<'py, PyAny>> {
        let len = self.column.len();
        let at = match index < 0 {
            true => index.checked_add_unsigned(len),
            false => Some(index),
        };
        let at = at.and_then(|at| usize::try_from(at).ok());
        match at.filter(|at| *at < len) {
            Some(at) => value(py, &self.column.cell(at)),
            None => Err(PyIndexError::new_err(format!("{index} of {len} values"))),
        }
    }

    /// The values as a list, `None` where there is none.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for row in 0..self.column.len() {
            list.append(value(py, &self.column.cell(row))?)?;
        }
        Ok(list)
    }

    /// Arrow's schema and array of the values.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        let _ = requested_schema;
        let schema = arrow::kind_schema(self.column.kind(), &self.name);
        let array = arrow::column_array(&self.column);
        Ok((
            PyCapsule::new_with_value(py, schema, c"arrow_schema")?,
            PyCapsule::new_with_value(py, array, c"arrow_array")?,
        ))
    }

    /// Arrow's schema of the values.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = arrow::kind_schema(self.column.kind(), &self.name);
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// NumPy's view of the numbers, which cannot be written to.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let order = match cfg!(target_endian = "little") {
            true => '<',
            false => '>',
        };
        let kind = match &self.column.values {
            // Where there is none, a float is NaN.
            Values::Floats(_) => 'f',
            Values::Wholes(_) if self.column.absent == 0 => 'i',
            Values::Wholes(_) => {
                let why = "has rows without a value, which whole numbers of NumPy cannot say; \
                           to_list or an Arrow consumer have them";
                return Err(PyTypeError::new_err(format!("{} {why}", self.name)));
            }
            Values::Texts(_) => {
                let why = "holds texts; to_list or an Arrow consumer have them";
                return Err(PyTypeError::new_err(format!("{} {why}", self.name)));
            }
        };
        let about = PyDict::new(py);
        about.set_item("version", 3)?;
        about.set_item("typestr", format!("{order}{kind}8"))?;
        about.set_item("shape", PyTuple::new(py, [self.column.len()])?)?;
        let address = arrow::address(&self.column).unwrap_or_default();
        about.set_item("data", (address, true))?;
        Ok(about)
    }

    fn __repr__(&self) -> String {
        let kind = match self.column.kind() {
            Kind::Float | Kind::Whole => "numbers",
            Kind::Text => "texts",
        };
        format!(
            "<narrows.Column {} of {} {kind}>",
            self.name,
            self.column.len()
        )
    }
}

fn value<'py>(py: Python<'py>, cell: &Cell) -> PyResult<Bound<'py, PyAny>> {
    Ok(match cell {
        Cell::Float(value) => value.into_pyobject(py)?.into_any(),
        Cell::Whole(value) => value.into_pyobject(py)?.into_any(),
        Cell::Text(value) => value.into_pyobject(py)?.into_any(),
        Cell::Absent => py.None().into_bound(py),
    })
}
