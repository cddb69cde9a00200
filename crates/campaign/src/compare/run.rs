//! Running a comparison.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use narrows_results::Error;
use narrows_results::comparison::csv;
use narrows_results::comparison::{CellComparison, Comparison, LeftOut, Live};
use narrows_results::folder::{self, Folder, Origin, RunResult};
use narrows_results::summary::RunSummary;
use narrows_results::verdict::Verdict;
use narrows_results::{Engine, Progress, Watch};
use narrows_results::{Output, RunOptions, run_scenario};
use narrows_scenario::{Between, Campaign, Plan};

use super::hosts;
use super::judge::{Sides, checks, rows};
use super::pair;
use crate::pool;

/// How a comparison is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Seeds in the simulator, and repetitions live; at least 1.
    pub repetitions: u64,
    /// How often a live repetition is made again while its rig is not trusted.
    pub again: u64,
    /// Runs at a time; 0 for as many as there are processors. An engine that measures its
    /// machine runs one at a time, whatever this says.
    pub jobs: usize,
    /// Where results go.
    pub output: Output,
    /// What makes it.
    pub origin: Origin,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            repetitions: 3,
            again: 2,
            jobs: 0,
            output: Output::Nowhere,
            origin: Origin::default(),
        }
    }
}

/// A run in either engine.
pub(super) struct Made {
    pub folder: String,
    pub result: RunResult,
}

/// Runs all cells of `campaign` in `sim`, which is the known side and measures no
/// machine, and in `live`, the judged one, and holds them against
/// each other; of a campaign with pairs, both cells of each pair in `live`, in
/// turns. A scenario is a campaign of one cell, see
/// [`Campaign::of_one`].
///
/// The simulator's runs come first, several at a time, and then those of a kernel in
/// virtual time; live runs go one by one,
/// because they measure the machine. A cell that one of the engines refuses is left out and
/// named, unless that is all of them. A live repetition that the verdict does
/// not trust for reasons that the simulator does not know of is made again; if
/// no attempt is trusted the last one counts, and the comparison says so. Every
/// run has a folder of its own, `cells/<cell>/sim-1`, `cells/<cell>/live-1`,
/// made again `live-1b`, in the folder that comes back beside the comparison.
/// Being cancelled is no error.
///
/// # Errors
/// When an engine refuses every cell, or a cell of a pair, a run fails in the simulator, or results
/// cannot be written. A cell that fails live says so, and the others go on.
pub fn compare(
    sim: &dyn Engine,
    live: &dyn Engine,
    campaign: &Campaign,
    options: &CompareOptions,
    watch: &Watch<'_>,
) -> Result<(Comparison, Option<PathBuf>), Error> {
    let paired = campaign.pair.is_some();
    let pairs = campaign.pairs();
    let mut accepted = campaign.clone();
    let (mut left_out, mut first) = (Vec::new(), None);
    if paired {
        pair::accepts(campaign, &pairs, live)?;
    } else {
        accepted.cells.retain(|cell| {
            let refused = [sim, live].map(|engine| engine.accepts(&cell.plan).err());
            let why = refused.into_iter().flatten().next();
            let Some(why) = why else { return true };
            left_out.push(LeftOut {
                cell: cell.name.clone(),
                why: why.to_string(),
            });
            first.get_or_insert(Error::from(why).in_cell(&cell.name));
            false
        });
        if let Some(why) = first.filter(|_| accepted.cells.is_empty()) {
            return Err(why);
        }
    }
    let campaign = &accepted;
    let folder = Folder::create(&options.output, &campaign.name)?;
    let seeds: Vec<u64> = (1..=options.repetitions.max(1)).collect();
    let mut record = folder::begin_named("compare", live, &campaign.name, &seeds);
    if !paired {
        record.engine = "both".to_owned();
        let against = || sim.virtual_kernel().cloned();
        record.virtual_kernel = record.virtual_kernel.or_else(against);
    }
    record.made_by(&options.origin);
    if let Some(folder) = &folder {
        folder.write_record(&record)?;
    }
    let started = std::time::Instant::now();
    let plans = [(sim, live), (live, sim)].map(|sides| hosts::plans(sides, campaign, paired));
    let runner = Runner {
        campaign,
        plans: &plans,
        seeds: &seeds,
        // Where nothing measures a machine another try is the same one.
        again: if live.alone() { options.again } else { 0 },
        jobs: options.jobs,
        dir: folder.as_ref().map(Folder::dir),
        commit: options.origin.commit.as_deref(),
        watch,
    };
    let mut comparison = Comparison {
        name: campaign.name.clone(),
        title: campaign.title.clone(),
        sides: campaign.pair.as_ref().map_or_else(
            || [sim, live].map(|engine| engine.name().to_owned()),
            |pair| [pair.against.clone(), pair.judge.clone()],
        ),
        repetitions: seeds.len() as u64,
        version: record.version(),
        kernel: record.kernel.clone(),
        virtual_kernel: record.virtual_kernel.clone(),
        hosts: plans
            .iter()
            .flat_map(|fitted| hosts::sentences(campaign, fitted))
            .collect(),
        left_out,
        planned: if paired {
            pairs.len()
        } else {
            campaign.cells.len()
        },
        ..Comparison::default()
    };
    let between = if paired {
        Between::Pair
    } else {
        Between::Engines
    };
    let mut keep = |cell: CellComparison| -> Result<(), Error> {
        comparison.cells.push(cell);
        comparison.complete = comparison.cells.len() == comparison.planned;
        comparison.checks = checks(campaign, between, &comparison.cells);
        if let Some(folder) = &folder {
            // A comparison takes long: what there is can be read at any time.
            folder.write_json(narrows_results::comparison::FILE, &comparison)?;
            folder.write_file("compare.csv", csv(&comparison).as_bytes())?;
        }
        Ok(())
    };
    if paired {
        for (index, pair) in pairs.iter().enumerate() {
            let Some(cell) = runner.pair(index, pairs.len(), pair, live)? else {
                break;
            };
            keep(cell)?;
        }
    } else {
        let simulated: Vec<_> = runner.simulate(sim)?;
        let simulated = Mutex::new(simulated.into_iter().map(Some).collect::<Vec<_>>());
        // Cells that are done, until all before them are.
        let mut done: Vec<Option<CellComparison>> = Vec::new();
        done.resize_with(campaign.cells.len(), || None);
        let kept = Mutex::new((0, done, &mut keep));
        let jobs = if live.alone() { 1 } else { options.jobs };
        pool::each(
            campaign.cells.len(),
            jobs,
            || watch.cancelled(),
            |index| {
                let runs = locked(&simulated)[index].take().unwrap_or_default();
                if runs.len() < seeds.len() {
                    return Ok(());
                }
                let Some(cell) = runner.cell(index, runs, live)? else {
                    return Ok(());
                };
                let (next, done, keep) = &mut *locked(&kept);
                done[index] = Some(cell);
                while let Some(cell) = done.get_mut(*next).and_then(Option::take) {
                    *next += 1;
                    keep(cell)?;
                }
                Ok::<_, Error>(())
            },
        )?;
    }
    record.wall_s = started.elapsed().as_secs_f64();
    record.complete = comparison.complete;
    record.verdict = comparison.verdict();
    if let Some(folder) = &folder {
        folder.write_record(&record)?;
    }
    Ok((comparison, folder.map(|f| f.dir().to_path_buf())))
}

/// What a worker that panicked left is whole: it is changed in one step.
fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The verdict on each of these runs, in a line.
fn trust(runs: &[Made]) -> Vec<String> {
    let lines = runs.iter().map(|made| made.result.record.verdict.line());
    lines.collect()
}

/// What makes the runs of a comparison.
pub(super) struct Runner<'a> {
    pub campaign: &'a Campaign,
    /// What each side runs of every cell.
    plans: &'a [Vec<Plan>; 2],
    pub seeds: &'a [u64],
    again: u64,
    jobs: usize,
    dir: Option<&'a Path>,
    commit: Option<&'a str>,
    pub watch: &'a Watch<'a>,
}

impl Runner<'_> {
    /// One run into `cells/<cell>/<leaf>`, of the cell with this index on `side`: the side and
    /// its engine.
    fn run(
        &self,
        (side, engine): (usize, &dyn Engine),
        cell: usize,
        seed: u64,
        leaf: &str,
        watch: &Watch<'_>,
    ) -> Result<Made, Error> {
        let plan = &self.plans[side][cell];
        let cell = &self.campaign.cells[cell];
        let parts: Vec<String> = cell.name.split('/').map(folder::file_name).collect();
        let folder = format!("cells/{}/{leaf}", parts.join("/"));
        let options = RunOptions {
            seed: Some(seed),
            output: match self.dir {
                Some(dir) => Output::Folder(dir.join(&folder)),
                None => Output::Nowhere,
            },
            origin: Origin {
                command: Vec::new(),
                commit: self.commit.map(str::to_owned),
            },
        };
        (watch.progress)(Progress::Comparing {
            cell: &cell.name,
            engine: engine.name(),
            seed,
        });
        let result = run_scenario(engine, plan, &options, watch)?;
        Ok(Made { folder, result })
    }

    /// All seeds of all cells in the simulator, several at a time; fewer than all of a cell's if cancelled.
    fn simulate(&self, sim: &dyn Engine) -> Result<Vec<Vec<Made>>, Error> {
        let cells = self.campaign.cells.len();
        let items = cells * self.seeds.len();
        let done: Mutex<Vec<Option<Made>>> = Mutex::new((0..items).map(|_| None).collect());
        // Of several runs at a time no one's progress is that of all.
        let quiet = Watch {
            cancel: self.watch.cancel,
            progress: &|progress| match progress {
                Progress::Run { .. } => {}
                progress => (self.watch.progress)(progress),
            },
        };
        pool::each(
            items,
            self.jobs,
            || self.watch.cancelled(),
            |item| {
                let seed = self.seeds[item % self.seeds.len()];
                let leaf = format!("{}-{seed}", sim.name());
                let made = self.run((0, sim), item / self.seeds.len(), seed, &leaf, &quiet)?;
                if made.result.record.complete {
                    locked(&done)[item] = Some(made);
                }
                Ok::<_, Error>(())
            },
        )?;
        let mut done = done
            .into_inner()
            .unwrap_or_else(|e| e.into_inner())
            .into_iter();
        let mut take = || done.by_ref().take(self.seeds.len()).flatten().collect();
        Ok((0..cells).map(|_| take()).collect())
    }

    /// A cell's live runs, and what both engines came to; `None` if cancelled.
    fn cell(
        &self,
        index: usize,
        sim: Vec<Made>,
        live: &dyn Engine,
    ) -> Result<Option<CellComparison>, Error> {
        let name = self.campaign.cells[index].name.clone();
        let mut attempts = Vec::new();
        let mut used = Vec::new();
        for (n, seed) in self.seeds.iter().enumerate() {
            let known = |check: &str| {
                let verdicts = sim.iter().map(|m| &m.result.record.verdict);
                let mut reasons = verdicts.flat_map(Verdict::reasons);
                reasons.any(|f| f.check == check)
            };
            match self.repetition(index, *seed, None, live, &known, &mut attempts) {
                Ok(Some(made)) => used.push(made),
                Ok(None) => return Ok(None),
                Err(Error::Engine(why)) => {
                    return Ok(Some(CellComparison {
                        name,
                        sim_trust: trust(&sim),
                        sim: sim.into_iter().map(|m| m.folder).collect(),
                        live: attempts,
                        error: Some(why),
                        ..CellComparison::default()
                    }));
                }
                Err(error) => return Err(error),
            }
            self.report_progress(index, n + 1);
        }
        let sides = Sides {
            name: &name,
            plan: &self.campaign.cells[index].plan,
            between: Between::Engines,
            first: &summaries(&sim),
            second: &summaries(&used),
        };
        let (rows, asked) = rows(self.campaign, &sides);
        Ok(Some(CellComparison {
            name,
            sim_trust: trust(&sim),
            sim: sim.into_iter().map(|m| m.folder).collect(),
            live: attempts,
            rows,
            asked,
            error: None,
        }))
    }

    /// One live repetition, made again while its rig is not trusted: for
    /// reasons that are not `known` to be the cell's own. `side` is whose it
    /// is, where both sides are live.
    pub fn repetition(
        &self,
        cell: usize,
        seed: u64,
        side: Option<&str>,
        live: &dyn Engine,
        known: &dyn Fn(&str) -> bool,
        attempts: &mut Vec<Live>,
    ) -> Result<Option<Made>, Error> {
        let mut attempt = 0;
        loop {
            let leaf = match attempt {
                0 => format!("{}-{seed}", live.name()),
                n => format!(
                    "{}-{seed}{}",
                    live.name(),
                    char::from(b'a' + (n % 26) as u8)
                ),
            };
            let made = self.run((1, live), cell, seed, &leaf, self.watch)?;
            if !made.result.record.complete {
                return Ok(None);
            }
            let verdict = &made.result.record.verdict;
            let last = attempt == self.again || verdict.reasons().all(|f| known(&f.check));
            attempts.push(Live {
                side: side.map(str::to_owned),
                repetition: seed,
                folder: made.folder.clone(),
                trust: verdict.line(),
                used: last || verdict.trusted(),
            });
            if last || verdict.trusted() {
                return Ok(Some(made));
            }
            attempt += 1;
        }
    }

    fn report_progress(&self, cell: usize, repetitions: usize) {
        let each = self.seeds.len();
        (self.watch.progress)(Progress::Compared {
            runs: cell * each + repetitions,
            of: self.campaign.cells.len() * each,
        });
    }
}

/// What runs came to.
pub(super) fn summaries(made: &[Made]) -> Vec<RunSummary> {
    made.iter().map(|m| m.result.summary.clone()).collect()
}
