//! Errors of the laboratory as exceptions of the package `narrows`.

use narrows::Error;
use narrows::scenario::Refusal;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// Where the exceptions are.
const MODULE: &str = "narrows._errors";

/// Why something could not be done. It becomes an exception where Python is attached.
pub enum Failure {
    /// The input was refused before anything ran.
    Refused(Box<Refusal>),
    /// The laboratory refused, or failed.
    Lab(Box<Error>),
    /// The program has a mistake: it panicked, and said so.
    Defect(String),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Lab(Box::new(error))
    }
}

impl Failure {
    /// The exception.
    pub fn raised(self, py: Python<'_>) -> PyErr {
        self.exception(py).unwrap_or_else(|error| error)
    }

    fn exception(self, py: Python<'_>) -> PyResult<PyErr> {
        let (class, text) = match &self {
            Self::Refused(refusal) => return refused(py, refusal),
            Self::Defect(why) => ("Defect", why.clone()),
            Self::Lab(error) => {
                let class = match &**error {
                    error if error.is_of_rights() => "NoPermission",
                    error if error.is_refusal() => {
                        let all = (error.to_string(), py.None(), py.None(), "", "", "");
                        return exception(py, "Refused", all.into_pyobject(py)?);
                    }
                    Error::Engine(_) => "RunFailed",
                    Error::Io { .. } | Error::Content { .. } => "FileFailed",
                    _ => "NarrowsError",
                };
                (class, error.to_string())
            }
        };
        exception(py, class, (text,).into_pyobject(py)?)
    }
}

fn refused(py: Python<'_>, refusal: &Refusal) -> PyResult<PyErr> {
    let line = refusal.line_and_column().map(|(line, _)| line);
    let all = (
        refusal.to_line(),
        refusal.file(),
        line,
        refusal.key(),
        refusal.found(),
        refusal.allowed(),
    );
    let class = match refusal.is_of_rights() {
        true => "NoPermission",
        false => "Refused",
    };
    match class {
        "Refused" => exception(py, class, all.into_pyobject(py)?),
        _ => exception(py, class, (refusal.to_line(),).into_pyobject(py)?),
    }
}

fn exception<'py>(py: Python<'py>, class: &str, words: Bound<'py, PyTuple>) -> PyResult<PyErr> {
    let class = py.import(MODULE)?.getattr(class)?;
    Ok(PyErr::from_value(class.call1(words)?))
}

/// `work` without the interpreter's lock, its failure as an exception.
pub fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, Failure> + Send,
) -> PyResult<T> {
    py.detach(work).map_err(|failure| failure.raised(py))
}
