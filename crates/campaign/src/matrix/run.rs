//! Running a campaign's cells in parallel.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration as WallDuration, Instant as WallInstant};

use narrows_results::Error;
use narrows_results::campaign::{CellResult, SeedResult};
use narrows_results::folder::{self, CampaignFolder, FileRecord, Folder, Origin};
use narrows_results::metric::Figures;
use narrows_results::series;
use narrows_results::store::Others;
use narrows_results::verdict::Verdict;
use narrows_results::{Engine, Progress, Watch};
use narrows_results::{Output, RunResult, reduce_run};
use narrows_scenario::{Campaign, Plan};
use narrows_units::Duration;

use super::cost::weight;
use super::doubts::{add_absent, campaign_verdict};
use super::gather::{collect, write_tables};
use super::judge::metric_row;
use super::stored::{Asked, Cells, Fetched};
use crate::pool;

/// How a campaign is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CampaignOptions {
    /// Seeds of each cell, the campaign's own if empty; figures are medians
    /// over them.
    pub seeds: Vec<u64>,
    /// Cells at a time; 0 for as many as there are processors. An engine that
    /// measures its machine runs one at a time, whatever this says.
    pub jobs: usize,
    /// Where results go.
    pub output: Output,
    /// Whether series are kept at the scenario's own sampling interval.
    /// Otherwise a cell's series has at most [`THIN_INTERVALS`] points, which
    /// is what a page can show, and a full matrix stays small.
    pub full_series: bool,
    /// What makes it.
    pub origin: Origin,
    /// Where runs are taken from and kept, if anywhere; not those of an engine that measures
    /// its machine.
    pub cells: Option<Cells>,
}

impl Default for CampaignOptions {
    fn default() -> Self {
        Self {
            seeds: Vec::new(),
            jobs: 0,
            output: Output::Nowhere,
            full_series: false,
            origin: Origin::default(),
            cells: None,
        }
    }
}

/// Points of a thin series.
pub const THIN_INTERVALS: u64 = 600;

/// Least time between two writings of what a running campaign has so far.
const CHECKPOINT: WallDuration = WallDuration::from_secs(5);

/// Runs all cells of `campaign` with all seeds.
///
/// The first seed's run of each cell is kept in `cells/<cell>/`, of the others
/// their summaries. The folder is readable at any time: `run.json` says
/// `complete: false` until the end. What is written does not depend on the
/// number of jobs. A cell that fails has its reason in
/// [`CellResult::error`]; the others go on. Being cancelled is no error: the
/// result has the cells that were done. What is in a store of [`CampaignOptions::cells`] is
/// not run again.
///
/// # Errors
/// When there is no cell or no seed, or results cannot be written.
pub fn run_campaign(
    engine: &dyn Engine,
    campaign: &Campaign,
    options: &CampaignOptions,
    watch: &Watch<'_>,
) -> Result<CampaignFolder, Error> {
    let options = &CampaignOptions {
        seeds: match options.seeds.as_slice() {
            [] => campaign.seeds.clone(),
            seeds => seeds.to_vec(),
        },
        ..options.clone()
    };
    if campaign.cells.is_empty() || options.seeds.is_empty() {
        return Err(Error::Refused(
            "nothing to run: the campaign has no cell, or no seed was given".to_owned(),
        ));
    }
    for cell in &campaign.cells {
        let accepted = engine.accepts(&cell.plan);
        accepted.map_err(|error| Error::from(error).in_cell(&cell.name))?;
    }
    let folder = Folder::create(&options.output, &campaign.name)?;
    let mut record = folder::begin_named("campaign", engine, &campaign.name, &options.seeds);
    record.made_by(&options.origin);
    if let Some(folder) = &folder {
        folder.write_record(&record)?;
    }
    let started = WallInstant::now();
    let batch = Batch::new(engine, campaign, options, folder.as_ref(), watch, started);
    batch.work()?;
    batch.note_taken();

    let state = batch.state.into_inner().unwrap_or_else(|e| e.into_inner());
    let result = collect(campaign, &options.seeds, &state.cells);
    record.wall_s = started.elapsed().as_secs_f64();
    record.virtual_s = state.virtual_time.as_secs_f64();
    record.events = state.events;
    record.packets = state.packets;
    record.verdict = campaign_verdict(&result);
    record.complete = result.complete;
    if let Some(folder) = &folder {
        write_tables(folder, &result)?;
        let mut files =
            folder.digest_files(vec!["campaign.json".to_owned(), "cells.csv".to_owned()])?;
        files.extend(state.cells.iter().flatten().filter_map(|c| c.file.clone()));
        files.sort_by(|a, b| a.name.cmp(&b.name));
        record.digest = folder::digest_of(&files);
        record.files = files;
        folder.write_record(&record)?;
    }
    Ok(CampaignFolder {
        dir: folder.map(|f| f.dir().to_path_buf()).unwrap_or_default(),
        record,
        result,
    })
}

/// A finished cell.
pub(super) struct CellDone {
    pub(super) result: CellResult,
    /// All data files of its folder as one.
    file: Option<FileRecord>,
}

/// One seed's run of a cell.
struct SeedDone {
    values: Vec<Option<f64>>,
    verdict: Verdict,
    error: Option<String>,
    file: Option<FileRecord>,
    /// Whether it was in a store.
    taken: bool,
}

/// What became of a run when it was its turn.
enum Turn {
    Done(Box<SeedDone>),
    /// Others have begun it and go first.
    OfOthers,
    Cancelled,
}

impl SeedDone {
    /// What it says of trust; of findings that the campaign expects, those that are absent
    /// cost it.
    fn result(&self, expected: &[String]) -> SeedResult {
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

/// What the workers share.
struct State {
    /// Seeds done, cell by cell, until the cell is complete.
    pending: Vec<Vec<Option<SeedDone>>>,
    cells: Vec<Option<CellDone>>,
    weight_done: f64,
    /// What of it was taken from a store.
    weight_taken: f64,
    /// Runs that were taken from a store.
    taken: usize,
    virtual_time: Duration,
    events: u64,
    packets: u64,
    written: WallInstant,
}

struct Batch<'a> {
    engine: &'a dyn Engine,
    campaign: &'a Campaign,
    options: &'a CampaignOptions,
    folder: Option<&'a Folder>,
    watch: &'a Watch<'a>,
    started: WallInstant,
    folders: Vec<String>,
    weights: Vec<f64>,
    state: Mutex<State>,
}

impl<'a> Batch<'a> {
    fn new(
        engine: &'a dyn Engine,
        campaign: &'a Campaign,
        options: &'a CampaignOptions,
        folder: Option<&'a Folder>,
        watch: &'a Watch<'a>,
        started: WallInstant,
    ) -> Self {
        let cells = campaign.cells.len();
        let seeds = options.seeds.len();
        Self {
            engine,
            campaign,
            options,
            folder,
            watch,
            started,
            folders: folders_of(campaign),
            weights: campaign.cells.iter().map(|c| weight(&c.plan)).collect(),
            state: Mutex::new(State {
                pending: (0..cells)
                    .map(|_| (0..seeds).map(|_| None).collect())
                    .collect(),
                cells: (0..cells).map(|_| None).collect(),
                weight_done: 0.0,
                weight_taken: 0.0,
                taken: 0,
                virtual_time: Duration::ZERO,
                events: 0,
                packets: 0,
                written: started,
            }),
        }
    }

    /// Runs everything; ends early when cancelled.
    fn work(&self) -> Result<(), Error> {
        let seeds = self.options.seeds.len();
        let jobs = match self.engine.alone() {
            true => 1,
            false => self.options.jobs,
        };
        // What others have begun comes last: by then it may be there.
        let later = Mutex::new(Vec::new());
        let first = |item: usize| -> Result<(), Error> {
            if !self.run_item(item / seeds, item % seeds, Others::First)? {
                later
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(item);
            }
            Ok(())
        };
        let stop = || self.watch.cancelled();
        pool::each(self.campaign.cells.len() * seeds, jobs, stop, first)?;
        let later = later.into_inner().unwrap_or_else(PoisonError::into_inner);
        pool::each(later.len(), jobs, stop, |i| {
            let item = later[i];
            let done = self.run_item(item / seeds, item % seeds, Others::Regardless);
            done.map(|_| ())
        })
    }

    /// Says how much was not run, where there is a store.
    fn note_taken(&self) {
        let Some(cells) = &self.options.cells else {
            return;
        };
        let (taken, of) = (
            self.lock().taken,
            self.campaign.cells.len() * self.options.seeds.len(),
        );
        if taken > 0 {
            let line = format!("{taken} of {of} runs were taken from {}", cells.places());
            (self.watch.progress)(Progress::Note(&line));
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // A worker that panicked in a run has been caught before; the state is
        // whole.
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Whether that is all for it; `false` where others have begun it and go first.
    fn run_item(&self, cell: usize, seed: usize, others: Others) -> Result<bool, Error> {
        let plan = &self.campaign.cells[cell].plan;
        let run = || self.run_seed(cell, seed, others);
        let done = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(Turn::Done(done))) => *done,
            // Cancelled in mid-run: it leaves nothing behind.
            Ok(Ok(Turn::Cancelled)) => return Ok(true),
            Ok(Ok(Turn::OfOthers)) => return Ok(false),
            Ok(Err(Error::Engine(why))) => failed_seed(self.campaign, why),
            Ok(Err(error)) => return Err(error),
            Err(panic) => failed_seed(self.campaign, panic_words(&*panic)),
        };
        let mut state = self.lock();
        let weight = self.weights[cell] / self.options.seeds.len() as f64;
        state.weight_done += weight;
        if done.taken {
            state.weight_taken += weight;
            state.taken += 1;
        }
        state.virtual_time += plan.duration;
        state.pending[cell][seed] = Some(done);
        if state.pending[cell].iter().any(Option::is_none) {
            return Ok(true);
        }
        let seeds = std::mem::take(&mut state.pending[cell]);
        let finished = self.finish_cell(cell, seeds.into_iter().flatten().collect());
        let done = state.cells.iter().flatten().count() + 1;
        let elapsed = self.started.elapsed();
        // What was taken cost nothing.
        let all = self.weights.iter().sum::<f64>() - state.weight_taken;
        let run = state.weight_done - state.weight_taken;
        let left = match run > 0.0 {
            true => elapsed.mul_f64((all / run - 1.0).max(0.0)),
            false => WallDuration::ZERO,
        };
        (self.watch.progress)(Progress::Cells {
            cell: &finished.result,
            done,
            of: self.campaign.cells.len(),
            elapsed,
            left,
        });
        state.cells[cell] = Some(finished);
        if let Some(folder) = self.folder.filter(|_| state.written.elapsed() > CHECKPOINT) {
            write_tables(
                folder,
                &collect(self.campaign, &self.options.seeds, &state.cells),
            )?;
            state.written = WallInstant::now();
        }
        Ok(true)
    }

    /// Runs one seed of a cell, or takes it from a store, and keeps its results.
    fn run_seed(&self, cell: usize, seed: usize, others: Others) -> Result<Turn, Error> {
        let plan = &self.campaign.cells[cell].plan;
        let number = self.options.seeds[seed];
        let cells = self.options.cells.as_ref();
        let whole = seed == 0 && (self.folder.is_some() || cells.is_some());
        let interval = match whole {
            true if self.options.full_series => series::interval(plan),
            true => series::interval_of_at_most(plan, THIN_INTERVALS),
            false => Duration::ZERO,
        };
        let name = &self.folders[cell];
        let folder = match self.folder {
            Some(parent) => Some(Folder::at(parent.dir().join(name))?),
            None => None,
        };
        let into = folder.as_ref().filter(|_| whole);
        let run = |dir: Option<&Path>| self.run_into(plan, number, interval, dir);
        let keyed = cells.and_then(|c| Some((c, c.key(self.engine, plan, number, interval)?)));
        let (record, summary, taken) = match keyed {
            Some((cells, key)) => {
                let asked = Asked {
                    key: &key,
                    others,
                    whole,
                    into: into.map(Folder::dir),
                    watch: self.watch,
                };
                let (stored, taken) = match cells.fetch(&asked, &run)? {
                    Fetched::Run(stored, taken) => (*stored, taken),
                    Fetched::OfOthers => return Ok(Turn::OfOthers),
                    Fetched::Cancelled => return Ok(Turn::Cancelled),
                };
                let mut record = stored.record;
                // What a scenario says of itself may have changed.
                record.scenario = serde_json::to_value(plan).unwrap_or_default();
                if let Some(folder) = into {
                    folder.write_record(&record)?;
                }
                (record, stored.summary, taken)
            }
            None => {
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

    fn finish_cell(&self, cell: usize, mut seeds: Vec<SeedDone>) -> CellDone {
        let plan = &self.campaign.cells[cell];
        let metrics = (0..self.campaign.metrics.len())
            .map(|m| {
                let by_seed = seeds.iter().map(|s| s.values[m]).collect();
                metric_row(self.campaign, plan, m, by_seed)
            })
            .collect();
        let by_seed = seeds.iter().map(|s| s.result(&plan.expected)).collect();
        let mut verdict = Verdict::default();
        // What failed has no verdict.
        let judged = seeds.iter().filter(|seed| seed.error.is_none());
        let found: Vec<Vec<String>> = judged.map(|seed| checks_of(&seed.verdict)).collect();
        for seed in &mut seeds {
            for finding in seed.verdict.findings.drain(..) {
                let known = |f: &narrows_results::verdict::Finding| {
                    (&f.check, &f.entity) == (&finding.check, &finding.entity)
                };
                if !verdict.findings.iter().any(known) {
                    verdict.findings.push(finding);
                }
            }
        }
        add_absent(&mut verdict, &plan.expected, &found);
        verdict.findings.sort_by_key(|f| f.weight);
        let file = seeds.iter_mut().find_map(|s| s.file.take());
        CellDone {
            result: CellResult {
                name: plan.name.clone(),
                at: plan.at.clone(),
                folder: file.as_ref().map(|f| f.name.clone()).unwrap_or_default(),
                metrics,
                verdict,
                by_seed,
                error: seeds.into_iter().find_map(|s| s.error),
            },
            file,
        }
    }
}

/// The names of what was found.
fn checks_of(verdict: &Verdict) -> Vec<String> {
    verdict.findings.iter().map(|f| f.check.clone()).collect()
}

fn failed_seed(campaign: &Campaign, why: String) -> SeedDone {
    SeedDone {
        values: vec![None; campaign.metrics.len()],
        verdict: Verdict::default(),
        error: Some(why),
        file: None,
        taken: false,
    }
}

fn panic_words(panic: &(dyn std::any::Any + Send)) -> String {
    let words = panic
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned());
    format!(
        "the engine panicked: {}",
        words.unwrap_or_else(|| "it did not say why".to_owned())
    )
}

/// A folder below the campaign's for each cell: `cells/` and the cell's name,
/// spelled for file systems and unique.
fn folders_of(campaign: &Campaign) -> Vec<String> {
    let mut taken = std::collections::BTreeSet::new();
    let spell = |name: &str| {
        let parts: Vec<String> = name.split('/').map(folder::file_name).collect();
        format!("cells/{}", parts.join("/"))
    };
    campaign
        .cells
        .iter()
        .map(|cell| {
            let stem = spell(&cell.name);
            let mut name = stem.clone();
            let mut n = 1;
            while !taken.insert(name.clone()) {
                n += 1;
                name = format!("{stem}-{n}");
            }
            name
        })
        .collect()
}
