//! One run of a campaign: taken from a store or made.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Instant as WallInstant;

use narrows_results::campaign::SeedResult;
use narrows_results::folder::{self, FileRecord, Folder};
use narrows_results::metric::Figures;
use narrows_results::series;
use narrows_results::store::{Key, Others};
use narrows_results::verdict::Verdict;
use narrows_results::{Error, Progress, RunResult, reduce_run};
use narrows_scenario::{Campaign, Plan};
use narrows_units::Duration;

use super::batch::Batch;
use super::doubts::add_absent;
use super::run::THIN_INTERVALS;
use super::stored::{Asked, Fetched};

/// One seed's run of a cell.
pub(super) struct SeedDone {
    pub(super) values: Vec<Option<f64>>,
    pub(super) verdict: Verdict,
    pub(super) error: Option<String>,
    pub(super) file: Option<FileRecord>,
    /// Whether it was in a store.
    pub(super) taken: bool,
}

/// What became of a run when it was its turn.
pub(super) enum Turn {
    Done(Box<SeedDone>),
    /// Others have begun it and go first.
    OfOthers,
    Cancelled,
}

impl SeedDone {
    /// What it says of trust; of findings that the campaign expects, those that are absent
    /// cost it.
    pub(super) fn result(&self, expected: &[String]) -> SeedResult {
        if self.error.is_some() {
            return SeedResult {
                trusted: false,
                findings: vec!["failed".to_owned()],
            };
        }
        let mut verdict = self.verdict.clone();
        add_absent(&mut verdict, expected, &[checks_of(&self.verdict)]);
        let mut findings = checks_of(&verdict);
        findings.sort_unstable();
        findings.dedup();
        SeedResult {
            trusted: verdict.trusted(),
            findings,
        }
    }
}

impl Batch<'_> {
    /// Runs one seed of a cell, or takes it from a store, and keeps its results.
    pub(super) fn run_seed(&self, cell: usize, seed: usize, others: Others) -> Result<Turn, Error> {
        let plan = &self.campaign.cells[cell].plan;
        let number = self.options.seeds[seed];
        let (whole, interval) = self.kept_of(cell, seed);
        let name = &self.folders[cell];
        let folder = match self.folder {
            Some(parent) => Some(Folder::at(parent.dir().join(name))?),
            None => None,
        };
        let into = folder.as_ref().filter(|_| whole);
        let run = |dir: Option<&Path>| self.run_into(plan, number, interval, dir);
        let fetched = match (&self.options.cells, self.key_of(cell, seed)) {
            (Some(cells), Some(key)) => {
                let asked = Asked {
                    key: &key,
                    others,
                    whole,
                    into: into.map(Folder::dir),
                    watch: self.watch,
                    is_kept: !self.is_store_lost.load(Ordering::Relaxed),
                };
                cells.fetch(&asked, &run)?
            }
            _ => Fetched::Nothing,
        };
        let (record, summary, taken) = match fetched {
            Fetched::Run(stored, taken) => {
                let mut record = stored.record;
                // The texts about the scenario may have changed.
                record.scenario = serde_json::to_value(plan).unwrap_or_default();
                if let Some(folder) = into {
                    folder.write_record(&record)?;
                }
                (record, stored.summary, taken)
            }
            Fetched::OfOthers => return Ok(Turn::OfOthers),
            Fetched::Cancelled => return Ok(Turn::Cancelled),
            Fetched::Nothing | Fetched::Lost(_) => {
                if let Fetched::Lost(error) = fetched {
                    self.note_lost(&error);
                }
                let Some(mut result) = run(into.map(Folder::dir))? else {
                    return Ok(Turn::Cancelled);
                };
                if let Some(folder) = into {
                    // Cells are many: their files for Flent come when asked for.
                    folder.write_run(&mut result, false, self.watch.cancel)?;
                    if !result.record.complete {
                        return Ok(Turn::Cancelled);
                    }
                }
                (result.record, result.summary, false)
            }
        };
        if let Some(folder) = folder.as_ref().filter(|_| !whole) {
            folder.write_json_line(&format!("summary-seed-{number}.json"), &summary)?;
        }
        {
            let mut state = self.lock();
            state.events += record.events;
            state.packets += record.packets;
        }
        let figures = Figures::of(&summary);
        let values = self
            .campaign
            .evaluate(&mut |entity, column| figures.figure(entity, column));
        let file = into.map(|_| FileRecord {
            name: name.clone(),
            bytes: record.files.iter().map(|f| f.bytes).sum(),
            sha256: record.digest.clone(),
        });
        Ok(Turn::Done(Box::new(SeedDone {
            values,
            verdict: record.verdict,
            error: None,
            file,
            taken,
        })))
    }

    /// Whether all files of a run are kept, or its summary alone, and the interval of its series.
    fn kept_of(&self, cell: usize, seed: usize) -> (bool, Duration) {
        let plan = &self.campaign.cells[cell].plan;
        let whole = seed == 0 && (self.folder.is_some() || self.options.cells.is_some());
        let interval = match whole {
            true if self.options.full_series => series::interval(plan),
            true => series::interval_of_at_most(plan, THIN_INTERVALS),
            false => Duration::ZERO,
        };
        (whole, interval)
    }

    /// What names a run in a store, if one is used and keeps it.
    pub(super) fn key_of(&self, cell: usize, seed: usize) -> Option<Key> {
        let cells = self.options.cells.as_ref()?;
        let plan = &self.campaign.cells[cell].plan;
        let (_, interval) = self.kept_of(cell, seed);
        cells.key(self.engine, plan, self.options.seeds[seed], interval)
    }

    /// Says, once, that the rest is run without the store.
    fn note_lost(&self, error: &Error) {
        if !self.is_store_lost.swap(true, Ordering::Relaxed) {
            let line = format!("{error}; from here on no cell is kept");
            (self.watch.progress)(Progress::Note(&line));
        }
    }

    /// Runs `plan`, whose files in mid-run go into `dir`; `None` if cancelled.
    fn run_into(
        &self,
        plan: &Plan,
        seed: u64,
        interval: Duration,
        dir: Option<&Path>,
    ) -> Result<Option<RunResult>, Error> {
        let mut record = folder::begin(self.engine, plan, seed);
        record.commit.clone_from(&self.options.origin.commit);
        let started = WallInstant::now();
        let run = reduce_run(self.engine, plan, seed, interval, self.watch, false, dir)?;
        record.wall_s = started.elapsed().as_secs_f64();
        Ok((!run.ended.interrupted).then(|| run.into_result(record)))
    }
}

/// The names of what was found.
pub(super) fn checks_of(verdict: &Verdict) -> Vec<String> {
    verdict.findings.iter().map(|f| f.check.clone()).collect()
}

pub(super) fn failed_seed(campaign: &Campaign, why: String) -> SeedDone {
    SeedDone {
        values: vec![None; campaign.metrics.len()],
        verdict: Verdict::default(),
        error: Some(why),
        file: None,
        taken: false,
    }
}

pub(super) fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "the engine panicked: {}",
        words.unwrap_or_else(|| "it did not say why".to_owned())
    )
}
