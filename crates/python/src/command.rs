//! The command `narrows`, of which this process is one.

use std::ffi::OsString;

use narrows_cli::Call;
use pyo3::prelude::*;

/// Does what `words` ask for, the command's name first, and ends the process. `again` is what
/// calls it again: the program, and the words before its arguments.
#[pyfunction]
pub fn command(py: Python<'_>, words: Vec<OsString>, again: (OsString, Vec<OsString>)) {
    let call = Call {
        words,
        again: Some(again),
    };
    // What is left in standard output's buffer is written by this exit, and by no other.
    py.detach(|| std::process::exit(narrows_cli::main(call).into()))
}
