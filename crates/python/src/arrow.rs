//! Arrow's C data interface and C stream interface, by which tables reach polars, pandas, pyarrow
//! and DuckDB without being copied. The layout of the structures, what their members mean and who
//! releases what is as of
//! <https://arrow.apache.org/docs/format/CDataInterface.html> and
//! <https://arrow.apache.org/docs/format/CStreamInterface.html>.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr;

use super::column::{Batch, Batches, Column, Field, Kind, Values};

/// A field may have rows without a value.
const NULLABLE: i64 = 2;

/// What a call answers that did what it was asked for.
const DONE: c_int = 0;

/// `struct ArrowSchema`.
#[repr(C)]
pub struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
pub struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
pub struct ArrowArrayStream {
    get_schema: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int>,
    get_next: Option<unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int>,
    get_last_error: Option<unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char>,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

// SAFETY: what a structure points to is its own, and read alone by one thread at a time.
unsafe impl Send for ArrowSchema {}
// SAFETY: as of the schema; the buffers are in an `Arc` and never written.
unsafe impl Send for ArrowArray {}
// SAFETY: as of the schema.
unsafe impl Send for ArrowArrayStream {}

impl Drop for ArrowSchema {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is not released yet, as `release` is still there.
            unsafe { release(self) };
        }
    }
}

impl Drop for ArrowArray {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is not released yet, as `release` is still there.
            unsafe { release(self) };
        }
    }
}

impl Drop for ArrowArrayStream {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: it is not released yet, as `release` is still there.
            unsafe { release(self) };
        }
    }
}

/// What a schema points to. A consumer may move a child out: it copies the structure, and sets
/// `release` of the one here to null.
struct OwnSchema {
    format: *mut c_char,
    name: *mut c_char,
    children: Vec<*mut ArrowSchema>,
}

/// What an array points to.
struct OwnArray {
    /// Keeps the buffers.
    _column: Option<Column>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
}

impl Drop for OwnSchema {
    fn drop(&mut self) {
        for child in &self.children {
            // SAFETY: each is from `Box::into_raw` in `schema`, and freed here alone.
            drop(unsafe { Box::from_raw(*child) });
        }
        for text in [self.format, self.name] {
            // SAFETY: each is from `CString::into_raw` in `schema`, and freed here alone.
            drop(unsafe { CString::from_raw(text) });
        }
    }
}

impl Drop for OwnArray {
    fn drop(&mut self) {
        for child in &self.children {
            // SAFETY: each is from `Box::into_raw` in `array`, and freed here alone.
            drop(unsafe { Box::from_raw(*child) });
        }
    }
}

/// What a stream has still to give.
struct OwnStream {
    table: Batches,
    next: usize,
}

unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: whoever releases a schema gives one that was made by `schema`, once: its private
    // data are a box of ours. Children that were moved out have no `release` here.
    unsafe {
        drop(Box::from_raw((*schema).private_data.cast::<OwnSchema>()));
        (*schema).release = None;
    }
}

unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: as of a schema; the private data were made by `array`.
    unsafe {
        drop(Box::from_raw((*array).private_data.cast::<OwnArray>()));
        (*array).release = None;
    }
}

unsafe extern "C" fn release_stream(stream: *mut ArrowArrayStream) {
    // SAFETY: as of a schema; the private data were made by `stream`.
    unsafe {
        drop(Box::from_raw((*stream).private_data.cast::<OwnStream>()));
        (*stream).release = None;
    }
}

unsafe extern "C" fn stream_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the stream is not released, so its private data are there; `out` is room for a
    // schema whose former contents mean nothing.
    unsafe {
        let own = &*(*stream).private_data.cast::<OwnStream>();
        ptr::write(out, table_schema(&own.table.fields));
    }
    DONE
}

unsafe extern "C" fn stream_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: as of its schema; nobody else uses the stream meanwhile, as the interface demands.
    unsafe {
        let own = &mut *(*stream).private_data.cast::<OwnStream>();
        let next = own.table.batches.get(own.next).map(batch_array);
        own.next += 1;
        // An array without `release` is the end.
        ptr::write(out, next.unwrap_or_else(released_array));
    }
    DONE
}

unsafe extern "C" fn stream_last_error(_: *mut ArrowArrayStream) -> *const c_char {
    // Nothing of it can fail.
    ptr::null()
}

/// A stream of the rows of `table`.
pub fn stream(table: Batches) -> ArrowArrayStream {
    let own = Box::new(OwnStream { table, next: 0 });
    ArrowArrayStream {
        get_schema: Some(stream_schema),
        get_next: Some(stream_next),
        get_last_error: Some(stream_last_error),
        release: Some(release_stream),
        private_data: Box::into_raw(own).cast(),
    }
}

/// The schema of a table: a struct without nulls.
pub fn table_schema(fields: &[Field]) -> ArrowSchema {
    schema("+s", "", 0, fields.iter().map(field_schema).collect())
}

fn field_schema(field: &Field) -> ArrowSchema {
    kind_schema(field.kind, &field.name)
}

/// The schema of a column.
pub fn kind_schema(kind: Kind, name: &str) -> ArrowSchema {
    let format = match kind {
        Kind::Float => "g",
        Kind::Whole => "l",
        // With offsets of 64 bits.
        Kind::Text => "U",
    };
    schema(format, name, NULLABLE, Vec::new())
}

fn schema(format: &str, name: &str, flags: i64, children: Vec<ArrowSchema>) -> ArrowSchema {
    let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
    let boxed = |child| Box::into_raw(Box::new(child));
    let mut own = Box::new(OwnSchema {
        format: text(format).into_raw(),
        name: text(name).into_raw(),
        children: children.into_iter().map(boxed).collect(),
    });
    ArrowSchema {
        format: own.format,
        name: own.name,
        metadata: ptr::null(),
        flags,
        n_children: own.children.len() as i64,
        children: own.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_schema),
        private_data: Box::into_raw(own).cast(),
    }
}

/// The rows of a batch: a struct of its columns.
fn batch_array(batch: &Batch) -> ArrowArray {
    let children = batch.columns.iter().map(column_array).collect();
    array(batch.rows, 0, None, vec![ptr::null()], children)
}

/// The values of a column, where they are.
pub fn column_array(column: &Column) -> ArrowArray {
    let column = column.clone();
    let present = column.present.as_ref();
    let mut buffers = vec![present.map_or(ptr::null(), |bits| bits.as_ptr().cast())];
    match &column.values {
        Values::Floats(all) => buffers.push(all.as_ptr().cast()),
        Values::Wholes(all) => buffers.push(all.as_ptr().cast()),
        Values::Texts(all) => {
            buffers.push(all.ends.as_ptr().cast());
            buffers.push(all.bytes.as_ptr().cast());
        }
    }
    let (rows, absent) = (column.len(), column.absent);
    array(rows, absent, Some(column), buffers, Vec::new())
}

fn array(
    rows: usize,
    absent: usize,
    column: Option<Column>,
    buffers: Vec<*const c_void>,
    children: Vec<ArrowArray>,
) -> ArrowArray {
    let boxed = |child| Box::into_raw(Box::new(child));
    let mut own = Box::new(OwnArray {
        _column: column,
        buffers,
        children: children.into_iter().map(boxed).collect(),
    });
    ArrowArray {
        length: rows as i64,
        null_count: absent as i64,
        offset: 0,
        n_buffers: own.buffers.len() as i64,
        n_children: own.children.len() as i64,
        buffers: own.buffers.as_mut_ptr(),
        children: own.children.as_mut_ptr(),
        dictionary: ptr::null_mut(),
        release: Some(release_array),
        private_data: Box::into_raw(own).cast(),
    }
}

fn released_array() -> ArrowArray {
    ArrowArray {
        length: 0,
        null_count: 0,
        offset: 0,
        n_buffers: 0,
        n_children: 0,
        buffers: ptr::null_mut(),
        children: ptr::null_mut(),
        dictionary: ptr::null_mut(),
        release: None,
        private_data: ptr::null_mut(),
    }
}

/// Where the numbers of a column are, for NumPy's `__array_interface__`.
pub fn address(column: &Column) -> Option<usize> {
    match &column.values {
        Values::Floats(all) => Some(all.as_ptr() as usize),
        Values::Wholes(all) => Some(all.as_ptr() as usize),
        Values::Texts(_) => None,
    }
}
