//! A campaign whose cells are run wherever somebody can: each by a call of its own, into a store.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows::campaign::{Cells, THIN_INTERVALS, Use};
use narrows::results::series;
use narrows::results::store::{Store, Taken};
use narrows::scenario::{self, Campaign};
use narrows::units::Duration;
use narrows::{CampaignOptions, Engine, Error, run_campaign};
use pyo3::prelude::*;
use serde_json::json;

use super::campaign::{CampaignData, Source};
use super::engine;
use super::error::detached;
use super::watched::watched;

/// A campaign, and the store that its cells are in.
#[pyclass(frozen, module = "narrows._narrows")]
pub struct SweepData {
    campaign: Arc<Campaign>,
    seeds: Vec<u64>,
    engine: String,
    store: Store,
    cancel: Arc<AtomicBool>,
}

impl SweepData {
    /// The campaign with one cell alone.
    fn alone(&self, cell: usize) -> Campaign {
        let all = &*self.campaign;
        Campaign {
            cells: vec![all.cells[cell].clone()],
            name: all.name.clone(),
            title: all.title.clone(),
            about: all.about.clone(),
            source: all.source.clone(),
            seeds: all.seeds.clone(),
            axes: all.axes.clone(),
            pair: all.pair.clone(),
            metrics: all.metrics.clone(),
            figures: all.figures.clone(),
            key_findings: all.key_findings.clone(),
            tolerances: all.tolerances.clone(),
            shapes: all.shapes.clone(),
        }
    }

    fn cell(&self, index: usize) -> PyResult<&scenario::Cell> {
        let cells = &self.campaign.cells;
        cells.get(index).ok_or_else(|| {
            let why = format!("cell {index} of {}", cells.len());
            pyo3::exceptions::PyIndexError::new_err(why)
        })
    }

    fn options(&self, how: Use, seeds: Vec<u64>) -> CampaignOptions {
        CampaignOptions {
            seeds,
            jobs: 1,
            cells: Some(Cells::of(self.store.clone(), how)),
            origin: engine::origin(),
            ..CampaignOptions::default()
        }
    }
}

/// The digests of the data of each seed's run of a cell, as the store has them; `None` where one
/// is not there.
fn digests(
    store: &Store,
    engine: &dyn Engine,
    cell: &scenario::Cell,
    seeds: &[u64],
) -> Result<Option<Vec<String>>, Error> {
    let mut all = Vec::new();
    for (place, seed) in seeds.iter().enumerate() {
        // As a campaign keeps them: the first seed's run with its series, the others' summaries.
        let interval = match place {
            0 => series::interval_of_at_most(&cell.plan, THIN_INTERVALS),
            _ => Duration::ZERO,
        };
        let Some(key) = store.key(engine, &cell.plan, *seed, interval) else {
            return Ok(None);
        };
        match store.take(&key, None)? {
            Taken::Cell(run) => all.push(run.record.digest),
            Taken::Absent | Taken::Damaged(_) => return Ok(None),
        }
    }
    Ok(Some(all))
}

#[pymethods]
impl SweepData {
    /// Reads the campaign, and opens the store.
    #[new]
    fn new(
        py: Python<'_>,
        source: Source,
        seeds: Vec<u64>,
        engine: String,
        store: PathBuf,
    ) -> PyResult<Self> {
        detached(py, || {
            let is_alone = engine::engine(&engine)?.alone();
            if is_alone {
                let allowed = "`sim`: runs of an engine that measures its machine are in no store";
                return Err(
                    scenario::Refusal::new("engine", format!("`{engine}`"), allowed).into(),
                );
            }
            let campaign = source.campaign()?;
            let seeds = match seeds.is_empty() {
                true => campaign.seeds.clone(),
                false => seeds,
            };
            Ok(Self {
                campaign: Arc::new(campaign),
                seeds,
                engine,
                store: Store::open(store, engine::version()?)?,
                cancel: Arc::new(AtomicBool::new(false)),
            })
        })
    }

    /// The names of the cells.
    fn cells(&self) -> Vec<String> {
        let cells = self.campaign.cells.iter();
        cells.map(|cell| cell.name.clone()).collect()
    }

    #[getter]
    fn name(&self) -> &str {
        &self.campaign.name
    }

    /// The version by which the store knows its cells.
    #[getter]
    fn version(&self) -> &str {
        self.store.version()
    }

    /// The digests of each seed's data of a cell, if all of them are in the store.
    fn stored(&self, py: Python<'_>, index: usize) -> PyResult<Option<Vec<String>>> {
        let cell = self.cell(index)?;
        detached(py, || {
            let engine = engine::engine(&self.engine)?;
            Ok(digests(&self.store, &*engine, cell, &self.seeds)?)
        })
    }

    /// Runs all seeds of a cell into the store, or takes them from it; `error`, `trust` and
    /// `digests`, as JSON.
    fn run_cell(&self, py: Python<'_>, index: usize) -> PyResult<String> {
        self.cell(index)?;
        let alone = self.alone(index);
        let (name, store) = (self.engine.clone(), self.store.clone());
        let options = self.options(Use::Resume, self.seeds.clone());
        watched(py, None, &self.cancel, move |watch| {
            let engine = engine::engine(&name)?;
            let folder = run_campaign(&*engine, &alone, &options, watch)?;
            let cell = folder.result.cells.first();
            let digests = digests(&store, &*engine, &alone.cells[0], &options.seeds)?;
            Ok(json!({
                "complete": folder.result.complete,
                "error": cell.and_then(|cell| cell.error.clone()),
                "trusted": cell.is_some_and(|cell| cell.verdict.trusted()),
                "digests": digests,
            })
            .to_string())
        })
    }

    /// Ends the cells that run by this object.
    fn cancel(&self) {
        self.cancel.store(true, Ordering::SeqCst);
    }

    /// The results of the cells `indices` from the store, with `out` as a results folder. `failed`
    /// are the reasons of cells that are not there.
    fn gather(
        &self,
        py: Python<'_>,
        indices: Vec<usize>,
        failed: Vec<(String, String)>,
        out: Option<PathBuf>,
    ) -> PyResult<CampaignData> {
        let indices: BTreeSet<usize> = indices.into_iter().collect();
        let mut chosen = (*self.campaign).clone();
        let mut place = 0;
        chosen.cells.retain(|_| {
            place += 1;
            indices.contains(&(place - 1))
        });
        let mut options = self.options(Use::Merge, self.seeds.clone());
        options.output = engine::output(out);
        options.jobs = 0;
        let name = self.engine.clone();
        let cancel = Arc::new(AtomicBool::new(false));
        let folder = watched(py, None, &cancel, move |watch| {
            let engine = engine::engine(&name)?;
            let mut folder = run_campaign(&*engine, &chosen, &options, watch)?;
            for (name, why) in failed {
                let mut cells = folder.result.cells.iter_mut();
                if let Some(cell) = cells.find(|cell| cell.name == name) {
                    cell.error = Some(why);
                }
            }
            if !folder.dir.as_os_str().is_empty() {
                narrows::report::pages::again(&folder.dir)?;
            }
            Ok(folder)
        })?;
        Ok(CampaignData::of(folder))
    }
}

/// Where the user's store is, if there is a home.
#[pyfunction]
pub fn store_of_user() -> Option<PathBuf> {
    Store::of_user()
}
