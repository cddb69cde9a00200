//! Campaigns, comparisons, and results that lie in folders.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use narrows::campaign::Cells;
use narrows::load::{self, Campaigns};
use narrows::report::pages;
use narrows::report::plot;
use narrows::report::table::{campaign_json, campaign_table, comparison_table};
use narrows::results::campaign::CampaignResult;
use narrows::results::comparison::Comparison;
use narrows::results::folder::CampaignFolder;
use narrows::results::{Results, open};
use narrows::scenario::{self, Refusal};
use narrows::{CampaignOptions, CompareOptions, run_campaign};
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use serde_json::json;

use super::column::{Batches, Cell, Growing, Kind};
use super::engine;
use super::error::{Failure, detached};
use super::run::{RunData, draw, named};
use super::scenario::Scenario;
use super::table::Table;
use super::watched::watched;

/// What is run: a file or an entry of the catalogue, or the text of a file.
#[derive(Clone, FromPyObject)]
pub struct Source {
    /// Its name, in refusals too.
    #[pyo3(item)]
    pub name: String,
    /// Its text, if it is not to be looked up.
    #[pyo3(item)]
    pub text: Option<String>,
    /// `NAME=VALUE`, for every cell.
    #[pyo3(item)]
    pub sets: Vec<String>,
    /// Patterns of cells.
    #[pyo3(item)]
    pub only: Vec<String>,
}

impl Source {
    /// The campaign, with the cells that are meant.
    pub fn campaign(&self) -> Result<scenario::Campaign, Failure> {
        let mut campaign = match &self.text {
            Some(text) => {
                // Files that it names are in the current folder.
                let here = scenario::Beside(Path::new(""));
                scenario::Campaign::read(&self.name, text.as_bytes(), &here, &self.sets)?
            }
            None => {
                let Campaigns { collection, files } = load::campaigns(&self.name)?;
                if collection.is_some() {
                    let found = format!("`{}`, which is a collection", self.name);
                    return Err(Refusal::new("", found, "one of its campaigns").into());
                }
                let [only] = files.as_slice() else {
                    let found = format!("`{}`, which is several campaigns", self.name);
                    return Err(Refusal::new("", found, "one campaign").into());
                };
                only.campaign(&self.sets)?
            }
        };
        campaign.only(&self.only)?;
        Ok(campaign)
    }
}

/// A campaign's results.
#[pyclass(frozen, module = "narrows._narrows")]
pub struct CampaignData {
    folder: Arc<CampaignFolder>,
}

impl CampaignData {
    pub fn of(folder: CampaignFolder) -> Self {
        Self {
            folder: Arc::new(folder),
        }
    }
}

/// Runs all cells of a campaign in this process.
#[pyfunction]
#[pyo3(signature = (source, *, engine, seeds, jobs, out, store, fresh, progress))]
#[allow(clippy::too_many_arguments)] // Each has its name on the other side.
pub fn campaign(
    py: Python<'_>,
    source: Source,
    engine: String,
    seeds: Vec<u64>,
    jobs: usize,
    out: Option<PathBuf>,
    store: Option<PathBuf>,
    fresh: bool,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<CampaignData> {
    let cancel = Arc::new(AtomicBool::new(false));
    let folder = watched(py, progress.as_ref(), &cancel, move |watch| {
        let engine = engine::engine(&engine)?;
        let campaign = source.campaign()?;
        let cells = match store.filter(|_| !engine.alone()) {
            Some(store) => {
                let store = narrows::results::store::Store::open(store, engine::version()?)?;
                let how = match fresh {
                    true => narrows::campaign::Use::Fresh,
                    false => narrows::campaign::Use::Resume,
                };
                Some(Cells::of(store, how))
            }
            None => None,
        };
        let options = CampaignOptions {
            seeds,
            jobs,
            output: engine::output(out),
            origin: engine::origin(),
            cells,
            ..CampaignOptions::default()
        };
        let folder = run_campaign(&*engine, &campaign, &options, watch)?;
        if !folder.dir.as_os_str().is_empty() {
            pages::again(&folder.dir)?;
        }
        Ok(folder)
    })?;
    Ok(CampaignData::of(folder))
}

#[pymethods]
impl CampaignData {
    /// `dir`, `run` (as `run.json`) and `campaign` (as `campaign.json`), as JSON.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| campaign_json(&self.folder).to_string())
    }

    /// The tables that the command prints.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| campaign_table(&self.folder.result, None))
    }

    #[getter]
    fn trusted(&self) -> bool {
        self.folder.record.verdict.trusted()
    }

    #[getter]
    fn trust_line(&self) -> String {
        self.folder.record.verdict.line()
    }

    /// Whether every cell ran and every check passed.
    #[getter]
    fn passed(&self) -> bool {
        self.folder.result.passed()
    }

    /// A row for each cell, metric and seed.
    fn table(&self) -> Table {
        Table::of(rows(&self.folder.result))
    }

    fn figures(&self, py: Python<'_>) -> Vec<(String, String)> {
        named(py.detach(|| plot::comparison::of_campaign(&self.folder.result)))
    }

    fn draw(&self, py: Python<'_>, name: &str, format: &str, width: &str) -> PyResult<Vec<u8>> {
        detached(py, || {
            let charts = plot::comparison::of_campaign(&self.folder.result);
            draw(charts, name, format, width)
        })
    }
}

/// `cell`, a column for each axis, `seed`, `metric`, `value`, `published`.
fn rows(result: &CampaignResult) -> Batches {
    let axes = result
        .axes
        .iter()
        .map(|axis| (axis.name.as_str(), Kind::Text));
    let mut fields = vec![("cell", Kind::Text)];
    fields.extend(axes);
    fields.extend([
        ("seed", Kind::Whole),
        ("metric", Kind::Text),
        ("value", Kind::Float),
        ("published", Kind::Float),
    ]);
    let mut columns: Vec<Growing> = fields.iter().map(|(_, kind)| Growing::new(*kind)).collect();
    let float = |value: Option<f64>| value.map_or(Cell::Absent, Cell::Float);
    for cell in &result.cells {
        for metric in &cell.metrics {
            for (seed, value) in result.seeds.iter().zip(&metric.by_seed) {
                let mut row = vec![Cell::Text(cell.name.clone())];
                row.extend(cell.at.iter().cloned().map(Cell::Text));
                row.extend([
                    Cell::Whole(i64::try_from(*seed).unwrap_or(i64::MAX)),
                    Cell::Text(metric.metric.clone()),
                    float(*value),
                    float(metric.published),
                ]);
                columns.iter_mut().zip(&row).for_each(|(c, v)| c.push(v));
            }
        }
    }
    let mut table = Batches::new(&fields);
    table.push(columns.into_iter().map(Growing::done).collect());
    table
}

/// A comparison's results.
#[pyclass(frozen, module = "narrows._narrows")]
pub struct ComparisonData {
    found: Arc<Comparison>,
    dir: Option<PathBuf>,
}

/// What is compared: what a campaign is made of, or a scenario.
#[derive(FromPyObject)]
pub enum Compared<'py> {
    Scenario(Bound<'py, Scenario>),
    Source(Source),
}

/// Runs the same in two engines.
#[pyfunction]
#[pyo3(signature = (what, *, engine, against, repetitions, again, jobs, out, progress))]
#[allow(clippy::too_many_arguments)] // Each has its name on the other side.
pub fn compare(
    py: Python<'_>,
    what: Compared<'_>,
    engine: String,
    against: String,
    repetitions: u64,
    again: u64,
    jobs: usize,
    out: Option<PathBuf>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<ComparisonData> {
    let made = match what {
        Compared::Scenario(scenario) => {
            let plan = (*scenario.get().plan).clone();
            Ok(scenario::Campaign::of_one(plan))
        }
        Compared::Source(source) => Err(source),
    };
    let cancel = Arc::new(AtomicBool::new(false));
    let (found, dir) = watched(py, progress.as_ref(), &cancel, move |watch| {
        if against == "live" {
            let allowed = "`sim`, whose runs repeat";
            return Err(Refusal::new("against", "`live`", allowed).into());
        }
        if engine == against {
            let allowed = "two different engines";
            return Err(Refusal::new("engine", "the same engine twice", allowed).into());
        }
        let campaign = match made {
            Ok(campaign) => campaign,
            Err(Source { text: Some(_), .. }) => {
                let allowed = "a scenario, or the name of a campaign";
                return Err(Refusal::new("", "the text of a campaign", allowed).into());
            }
            Err(source) => load::cells(&source.name, &source.sets, &source.only)?,
        };
        let options = CompareOptions {
            repetitions,
            again,
            jobs,
            output: engine::output(out),
            origin: engine::origin(),
        };
        let (known, judged) = (engine::engine(&against)?, engine::engine(&engine)?);
        let (found, dir) = narrows::compare(&*known, &*judged, &campaign, &options, watch)?;
        if let Some(dir) = &dir {
            pages::again(dir)?;
        }
        Ok((found, dir))
    })?;
    Ok(ComparisonData {
        found: Arc::new(found),
        dir,
    })
}

#[pymethods]
impl ComparisonData {
    /// `dir` and `compare` (as `compare.json`), as JSON.
    fn json(&self) -> String {
        json!({ "dir": self.dir, "compare": *self.found }).to_string()
    }

    fn text(&self) -> String {
        comparison_table(&self.found)
    }

    #[getter]
    fn trusted(&self) -> bool {
        self.found.verdict().trusted()
    }

    #[getter]
    fn passed(&self) -> bool {
        self.found.passed()
    }
}

/// Reads a results folder.
#[pyfunction]
pub fn open_results(py: Python<'_>, dir: PathBuf) -> PyResult<Py<PyAny>> {
    match detached(py, || Ok(open(&dir)?))? {
        Results::Run(run) => RunData::of(*run).into_py_any(py),
        Results::Campaign(folder) => CampaignData::of(*folder).into_py_any(py),
        Results::Comparison(folder) => {
            let data = ComparisonData {
                found: Arc::new(folder.result),
                dir: Some(folder.dir),
            };
            data.into_py_any(py)
        }
        Results::Collection(folder) => {
            let found = format!("{}, a collection", folder.dir.display());
            let allowed = "the folder of a run, a comparison or one of its campaigns";
            Err(Failure::from(Refusal::new("", found, allowed)).raised(py))
        }
    }
}

/// The differences of two results folders, metric by metric: as JSON and as the table that the
/// command prints.
#[pyfunction]
pub fn diff(py: Python<'_>, a: PathBuf, b: PathBuf) -> PyResult<(String, String)> {
    detached(py, || {
        let diff = narrows::diff(&open(&a)?, &open(&b)?)?;
        let json = serde_json::to_string(&diff).unwrap_or_default();
        Ok((json, diff.table()))
    })
}
