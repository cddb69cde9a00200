//! Runs, and what is made of one.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use narrows::report::pages::{self, RunPage};
use narrows::report::plot::{self, Format, Frame, chart::Chart};
use narrows::report::table::{run_json, run_table};
use narrows::scenario::Refusal;
use narrows::{Error, RunOptions, RunResult, run_scenario};
use pyo3::prelude::*;

use super::column::{Batches, Column, Floats, Kind, Texts};
use super::engine;
use super::error::{Failure, detached};
use super::scenario::Scenario;
use super::table::Table;
use super::watched::watched;

/// A run's results.
#[pyclass(frozen, module = "narrows._narrows")]
pub struct RunData {
    run: Arc<RunResult>,
}

impl RunData {
    pub fn of(run: RunResult) -> Self {
        Self { run: Arc::new(run) }
    }
}

/// Runs `scenario`.
#[pyfunction]
#[pyo3(signature = (scenario, *, engine, out, progress))]
pub fn run(
    py: Python<'_>,
    scenario: &Scenario,
    engine: String,
    out: Option<PathBuf>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<RunData> {
    let plan = scenario.plan.clone();
    let cancel = Arc::new(AtomicBool::new(false));
    let run = watched(py, progress.as_ref(), &cancel, move |watch| {
        let options = RunOptions {
            seed: None,
            output: engine::output(out),
            origin: engine::origin(),
        };
        let engine = engine::engine(&engine)?;
        let run = run_scenario(&*engine, &plan, &options, watch)?;
        if let Some(dir) = run.dir.as_ref().filter(|_| !run.record.digest.is_empty()) {
            pages::write_run(dir, &run, &RunPage::default())?;
        }
        Ok(run)
    })?;
    Ok(RunData::of(run))
}

#[pymethods]
impl RunData {
    /// `dir`, `run` (as `run.json`) and `summary` (as `summary.json`), as JSON.
    fn json(&self, py: Python<'_>) -> String {
        py.detach(|| run_json(&self.run).to_string())
    }

    /// The tables that the command prints.
    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| run_table(&self.run))
    }

    /// The page `report.html`.
    fn html(&self, py: Python<'_>) -> String {
        py.detach(|| pages::run_html(&self.run, &RunPage::default()))
    }

    #[getter]
    fn trusted(&self) -> bool {
        self.run.record.verdict.trusted()
    }

    /// `trust: yes`, or `trust: no, because …`.
    #[getter]
    fn trust_line(&self) -> String {
        self.run.record.verdict.line()
    }

    /// The entity, the metric and the number of samples of each series.
    fn tracks(&self) -> Vec<(String, String, usize)> {
        let tracks = self.run.series.tracks.iter();
        tracks
            .map(|t| (t.entity.clone(), t.metric.clone(), t.value.len()))
            .collect()
    }

    /// Times and values of one series.
    fn series(&self, entity: &str, metric: &str) -> Option<Table> {
        let tracks = &self.run.series.tracks;
        let at = tracks
            .iter()
            .position(|t| t.entity == entity && t.metric == metric)?;
        let mut table = Batches::new(&[("t_s", Kind::Float), ("value", Kind::Float)]);
        table.push(self.columns(at).into());
        Some(Table::of(table))
    }

    /// Every series, one behind the other: the rows of `series.csv.gz`.
    fn all_series(&self) -> Table {
        let mut table = Batches::new(&[
            ("t_s", Kind::Float),
            ("entity", Kind::Text),
            ("metric", Kind::Text),
            ("value", Kind::Float),
        ]);
        for (at, track) in self.run.series.tracks.iter().enumerate() {
            let [times, values] = self.columns(at);
            let name = |text| Column::texts(Texts::repeated(text, track.value.len()));
            table.push(vec![
                times,
                name(&track.entity),
                name(&track.metric),
                values,
            ]);
        }
        Table::of(table)
    }

    /// The name and the title of each figure.
    fn figures(&self, py: Python<'_>) -> Vec<(String, String)> {
        named(py.detach(|| plot::figures::of_run(&self.run)))
    }

    /// A figure as a file of that format.
    fn draw(&self, py: Python<'_>, name: &str, format: &str, width: &str) -> PyResult<Vec<u8>> {
        detached(py, || {
            draw(plot::figures::of_run(&self.run), name, format, width)
        })
    }
}

impl RunData {
    fn columns(&self, track: usize) -> [Column; 2] {
        [
            Column::floats(Floats::Times(self.run.clone(), track)),
            Column::floats(Floats::Values(self.run.clone(), track)),
        ]
    }
}

/// Colours of figures: of flows in their order, of text, of axes and of grids.
#[pyfunction]
pub fn palette() -> (Vec<String>, String, String, String) {
    use plot::palette::{AXIS, FLOWS, GRID, INK, hex, on_light};
    let flows = (0..FLOWS).map(|place| hex(on_light(place))).collect();
    (flows, hex(INK), hex(AXIS), hex(GRID))
}

/// The names and titles of charts.
pub fn named(charts: Vec<Chart>) -> Vec<(String, String)> {
    charts.into_iter().map(|c| (c.id, c.title)).collect()
}

/// The chart of that name, drawn.
pub fn draw(charts: Vec<Chart>, name: &str, format: &str, width: &str) -> Result<Vec<u8>, Failure> {
    let known: Vec<String> = charts.iter().map(|c| format!("`{}`", c.id)).collect();
    let Some(chart) = charts.into_iter().find(|chart| chart.id == name) else {
        let allowed = match known.is_empty() {
            true => "none, as there are no data to draw".to_owned(),
            false => known.join(", "),
        };
        return Err(Refusal::new("figure", format!("`{name}`"), allowed).into());
    };
    let format: Format = format.parse().map_err(|why: Error| Failure::from(why))?;
    let frame = match width {
        "column" => Frame::COLUMN,
        "page" => Frame::PAGE,
        "screen" => Frame::SCREEN,
        other => {
            let allowed = "`column`, `page` or `screen`";
            return Err(Refusal::new("width", format!("`{other}`"), allowed).into());
        }
    };
    Ok(plot::render(&chart, format, &frame)?)
}
