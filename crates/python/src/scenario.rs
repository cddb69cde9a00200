//! Scenarios, checked: from the catalogue, files, text, or words as on the command line.

use std::sync::Arc;

use narrows::scenario::{Draft, Plan, load};
use pyo3::prelude::*;

use super::error::{Failure, detached};

/// A checked scenario.
#[pyclass(frozen, module = "narrows._narrows")]
pub struct Scenario {
    pub plan: Arc<Plan>,
    notes: Vec<String>,
}

impl Scenario {
    /// `draft` with `sets` (`NAME=VALUE`), checked.
    fn of(mut draft: Draft, sets: &[String]) -> Result<Self, Failure> {
        for set in sets {
            draft.set(set)?;
        }
        let plan = Arc::new(draft.check()?);
        let notes = draft.notes();
        Ok(Self { plan, notes })
    }
}

#[pymethods]
impl Scenario {
    /// A file, or an entry of the catalogue.
    #[staticmethod]
    fn named(py: Python<'_>, name: &str, sets: Vec<String>) -> PyResult<Self> {
        detached(py, || Self::of(load(name)?.draft()?, &sets))
    }

    /// TOML; `name` is what it is called in refusals.
    #[staticmethod]
    fn of_text(py: Python<'_>, name: &str, text: &str, sets: Vec<String>) -> PyResult<Self> {
        detached(py, || Self::of(Draft::read(name, text.as_bytes())?, &sets))
    }

    /// Words of links, flows and applications, and a test of Flent's.
    #[staticmethod]
    fn of_words(
        py: Python<'_>,
        links: Vec<String>,
        flows: Vec<String>,
        apps: Vec<String>,
        test: Option<String>,
        sets: Vec<String>,
    ) -> PyResult<Self> {
        detached(py, || {
            let draft = Draft::with_apps(&links, &flows, &apps, test.as_deref())?;
            Self::of(draft, &sets)
        })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.plan.name
    }

    /// What is said of it before it runs, a line each.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    /// All of it as a file, every default filled in.
    fn toml(&self) -> String {
        self.plan.to_toml()
    }
}

/// `document`, which is JSON, as TOML.
#[pyfunction]
pub fn toml_of_json(document: &str) -> PyResult<String> {
    let wrong = |why: String| pyo3::exceptions::PyValueError::new_err(why);
    let value: serde_json::Value =
        serde_json::from_str(document).map_err(|why| wrong(why.to_string()))?;
    toml::to_string(&value).map_err(|why| wrong(format!("TOML cannot hold it: {why}")))
}

/// A document of TOML as JSON.
#[pyfunction]
pub fn json_of_toml(text: &str) -> PyResult<String> {
    let wrong = |why: String| pyo3::exceptions::PyValueError::new_err(why);
    let value: serde_json::Value = toml::from_str(text).map_err(|why| wrong(why.to_string()))?;
    Ok(value.to_string())
}
