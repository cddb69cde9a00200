//! All runs of a campaign, or some of them, on several threads.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration as WallDuration, Instant as WallInstant};

use narrows_results::campaign::CellResult;
use narrows_results::folder::{self, FileRecord, Folder};
use narrows_results::store::{Key, Others};
use narrows_results::verdict::Verdict;
use narrows_results::{Engine, Error, Progress, Watch};
use narrows_scenario::Campaign;
use narrows_units::Duration;

use super::cost::weight;
use super::doubts::add_absent;
use super::gather::{collect, write_tables};
use super::judge::metric_row;
use super::run::CampaignOptions;
use super::turn::{SeedDone, Turn, checks_of, failed_seed, panic_words};
use crate::pool;

/// Least time between two writings of what a running campaign has so far.
const CHECKPOINT: WallDuration = WallDuration::from_secs(5);

/// A finished cell.
pub(super) struct CellDone {
    pub(super) result: CellResult,
    /// All data files of its folder as one.
    pub(super) file: Option<FileRecord>,
}

/// A run that failed; of a merge, one that is not there as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRun {
    /// The cell.
    pub cell: String,
    /// The seed.
    pub seed: u64,
    /// Why.
    pub why: String,
}

/// What the workers share.
pub(super) struct State {
    /// Seeds done, cell by cell, until the cell is complete.
    pending: Vec<Vec<Option<SeedDone>>>,
    pub(super) cells: Vec<Option<CellDone>>,
    /// Runs that failed, by their numbers.
    failed: BTreeMap<usize, FailedRun>,
    weight_done: f64,
    /// What of it was taken from a store.
    weight_taken: f64,
    /// Runs that are done.
    pub(super) done: usize,
    /// Runs that were taken from a store.
    pub(super) taken: usize,
    pub(super) virtual_time: Duration,
    pub(super) events: u64,
    pub(super) packets: u64,
    written: WallInstant,
}

/// Runs under way. A run's number is that of its cell times the number of seeds, and the place
/// of its seed.
pub(super) struct Batch<'a> {
    pub(super) engine: &'a dyn Engine,
    pub(super) campaign: &'a Campaign,
    pub(super) options: &'a CampaignOptions,
    pub(super) folder: Option<&'a Folder>,
    pub(super) watch: &'a Watch<'a>,
    started: WallInstant,
    /// The runs, if not all: of a shard.
    some: Option<&'a [usize]>,
    pub(super) folders: Vec<String>,
    /// What a cell costs with all seeds, and what all runs cost.
    weights: Vec<f64>,
    weight: f64,
    /// Whether a store that is no more than a convenience turned out to be of no use.
    pub(super) is_store_lost: AtomicBool,
    state: Mutex<State>,
}

impl<'a> Batch<'a> {
    /// All runs of `campaign`, or `some` of them.
    pub(super) fn new(
        engine: &'a dyn Engine,
        campaign: &'a Campaign,
        options: &'a CampaignOptions,
        folder: Option<&'a Folder>,
        some: Option<&'a [usize]>,
        watch: &'a Watch<'a>,
    ) -> Self {
        let cells = campaign.cells.len();
        let seeds = options.seeds.len();
        let started = WallInstant::now();
        let weights: Vec<f64> = campaign.cells.iter().map(|c| weight(&c.plan)).collect();
        let of_run = |item: &usize| weights[item / seeds] / seeds as f64;
        let weight = match some {
            Some(some) => some.iter().map(of_run).sum(),
            None => weights.iter().sum(),
        };
        Self {
            engine,
            campaign,
            options,
            folder,
            watch,
            started,
            some,
            folders: folders_of(campaign),
            weights,
            weight,
            is_store_lost: AtomicBool::new(false),
            state: Mutex::new(State {
                pending: (0..cells)
                    .map(|_| (0..seeds).map(|_| None).collect())
                    .collect(),
                cells: (0..cells).map(|_| None).collect(),
                failed: BTreeMap::new(),
                weight_done: 0.0,
                weight_taken: 0.0,
                done: 0,
                taken: 0,
                virtual_time: Duration::ZERO,
                events: 0,
                packets: 0,
                written: started,
            }),
        }
    }

    /// How many runs there are.
    pub(super) fn runs(&self) -> usize {
        let all = self.campaign.cells.len() * self.options.seeds.len();
        self.some.map_or(all, <[usize]>::len)
    }

    /// Runs everything; ends early when cancelled.
    pub(super) fn work(&self) -> Result<(), Error> {
        let seeds = self.options.seeds.len();
        let jobs = match self.engine.alone() {
            true => 1,
            false => self.options.jobs,
        };
        // What others have begun comes last: by then it may be there.
        let later = Mutex::new(Vec::new());
        let first = |place: usize| -> Result<(), Error> {
            let item = self.some.map_or(place, |some| some[place]);
            if !self.run_item(item / seeds, item % seeds, Others::First)? {
                later
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(item);
            }
            Ok(())
        };
        let stop = || self.watch.cancelled();
        pool::each(self.runs(), jobs, stop, first)?;
        let later = later.into_inner().unwrap_or_else(PoisonError::into_inner);
        pool::each(later.len(), jobs, stop, |i| {
            let item = later[i];
            let done = self.run_item(item / seeds, item % seeds, Others::Regardless);
            done.map(|_| ())
        })
    }

    /// Says how much was not run, where there is a store.
    pub(super) fn note_taken(&self) {
        let Some(cells) = &self.options.cells else {
            return;
        };
        let (taken, of) = (self.lock().taken, self.runs());
        if taken > 0 {
            let line = format!("{taken} of {of} runs were taken from {}", cells.places());
            (self.watch.progress)(Progress::Note(&line));
        }
    }

    /// What would name the runs that failed in a store.
    pub(super) fn keys_of_failed(&self) -> impl Iterator<Item = Key> {
        let failed: Vec<usize> = self.lock().failed.keys().copied().collect();
        let seeds = self.options.seeds.len();
        let key = move |item| self.key_of(item / seeds, item % seeds);
        failed.into_iter().filter_map(key)
    }

    /// What has come of it, and the runs that failed.
    pub(super) fn into_state(self) -> (State, Vec<FailedRun>) {
        let mut state = self
            .state
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let failed = std::mem::take(&mut state.failed);
        (state, failed.into_values().collect())
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, State> {
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
        let seeds = self.options.seeds.len();
        let weight = self.weights[cell] / seeds as f64;
        state.weight_done += weight;
        state.done += 1;
        if let Some(why) = &done.error {
            let failed = FailedRun {
                cell: self.campaign.cells[cell].name.clone(),
                seed: self.options.seeds[seed],
                why: why.clone(),
            };
            state.failed.insert(cell * seeds + seed, failed);
        }
        if done.taken {
            state.weight_taken += weight;
            state.taken += 1;
        }
        state.virtual_time += plan.duration;
        let elapsed = self.started.elapsed();
        // What was taken cost nothing.
        let all = self.weight - state.weight_taken;
        let run = state.weight_done - state.weight_taken;
        let left = match run > 0.0 {
            true => elapsed.mul_f64((all / run - 1.0).max(0.0)),
            false => WallDuration::ZERO,
        };
        if let Some(some) = self.some {
            // A shard judges no cell, of which it may have some seeds alone.
            let (done, of) = (state.done, some.len());
            (self.watch.progress)(Progress::Runs { done, of, left });
            return Ok(true);
        }
        state.pending[cell][seed] = Some(done);
        if state.pending[cell].iter().any(Option::is_none) {
            return Ok(true);
        }
        let seeds = std::mem::take(&mut state.pending[cell]);
        let finished = self.finish_cell(cell, seeds.into_iter().flatten().collect());
        let done = state.cells.iter().flatten().count() + 1;
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
