//! Running a comparison.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use narrows_scenario::{Between, Campaign, Plan};

use super::model::{CellComparison, Comparison, Figure, Live, Row};
use super::table::csv;
use crate::campaign::judged;
use crate::engine::{Engine, Progress, Watch};
use crate::error::LabError;
use crate::metric::{figure, lookup, metrics};
use crate::results::{self, Folder, RunResult};
use crate::run::{Output, RunOptions, run_scenario};
use crate::summary::RunSummary;
use crate::verdict::Verdict;

/// How a comparison is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompareOptions {
    /// Seeds in the simulator, and repetitions live; at least 1.
    pub repetitions: u64,
    /// How often a live repetition is made again while its rig is not trusted.
    pub again: u64,
    /// Where results go.
    pub output: Output,
    /// [`RunRecord::command`](crate::RunRecord::command).
    pub command: Vec<String>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            repetitions: 3,
            again: 2,
            output: Output::Nowhere,
            command: Vec::new(),
        }
    }
}

/// A run in either engine.
struct Made {
    folder: String,
    result: RunResult,
}

/// Runs all cells of `campaign` in `sim` and in `live` and holds them against
/// each other. A scenario is a campaign of one cell, see
/// [`Campaign::of_one`].
///
/// The simulator's runs come first, several at a time; live runs go one by one,
/// because they measure the machine. A live repetition that the verdict does
/// not trust for reasons that the simulator does not know of is made again; if
/// no attempt is trusted the last one counts, and the comparison says so. Every
/// run has a folder of its own, `cells/<cell>/sim-1`, `cells/<cell>/live-1`,
/// made again `live-1b`, in the folder that comes back beside the comparison.
/// Being cancelled is no error.
///
/// # Errors
/// When an engine refuses a cell, a run fails in the simulator, or results
/// cannot be written. A cell that fails live says so, and the others go on.
pub fn compare(
    sim: &dyn Engine,
    live: &dyn Engine,
    campaign: &Campaign,
    options: &CompareOptions,
    watch: &Watch<'_>,
) -> Result<(Comparison, Option<PathBuf>), LabError> {
    for cell in &campaign.cells {
        for engine in [sim, live] {
            let in_cell = |why| LabError::Refused(format!("the cell {}: {why}", cell.name));
            engine.accepts(&cell.plan).map_err(in_cell)?;
        }
    }
    let folder = Folder::create(&options.output, &campaign.name)?;
    let seeds: Vec<u64> = (1..=options.repetitions.max(1)).collect();
    let mut record = results::begin_named("compare", "both", &campaign.name, &seeds);
    record.command.clone_from(&options.command);
    if let Some(folder) = &folder {
        folder.write_record(&record)?;
    }
    let started = std::time::Instant::now();
    let hall = Hall {
        campaign,
        seeds: &seeds,
        again: options.again,
        dir: folder.as_ref().map(Folder::dir),
        watch,
    };
    let simulated = hall.simulate(sim)?;
    let mut comparison = Comparison {
        name: campaign.name.clone(),
        title: campaign.title.clone(),
        repetitions: seeds.len() as u64,
        planned: campaign.cells.len(),
        ..Comparison::default()
    };
    for (index, runs) in simulated.into_iter().enumerate() {
        if watch.cancelled() || runs.len() < seeds.len() {
            break;
        }
        let Some(cell) = hall.cell(index, runs, live)? else {
            break;
        };
        comparison.cells.push(cell);
        comparison.complete = comparison.cells.len() == comparison.planned;
        comparison.checks = checks(campaign, &comparison.cells);
        if let Some(folder) = &folder {
            // A comparison takes long: what there is can be read at any time.
            folder.write_json(super::FILE, &comparison)?;
            folder.write_file("compare.csv", csv(&comparison).as_bytes())?;
        }
    }
    record.wall_s = started.elapsed().as_secs_f64();
    record.complete = comparison.complete;
    if let Some(folder) = &folder {
        folder.write_record(&record)?;
    }
    Ok((comparison, folder.map(|f| f.dir().to_path_buf())))
}

struct Hall<'a> {
    campaign: &'a Campaign,
    seeds: &'a [u64],
    again: u64,
    dir: Option<&'a Path>,
    watch: &'a Watch<'a>,
}

impl Hall<'_> {
    /// One run into `cells/<cell>/<leaf>`.
    fn run(
        &self,
        engine: &dyn Engine,
        cell: usize,
        seed: u64,
        leaf: &str,
        watch: &Watch<'_>,
    ) -> Result<Made, LabError> {
        let cell = &self.campaign.cells[cell];
        let parts: Vec<String> = cell.name.split('/').map(results::file_name).collect();
        let folder = format!("cells/{}/{leaf}", parts.join("/"));
        let options = RunOptions {
            seed: Some(seed),
            output: match self.dir {
                Some(dir) => Output::Folder(dir.join(&folder)),
                None => Output::Nowhere,
            },
            command: Vec::new(),
        };
        let result = run_scenario(engine, &cell.plan, &options, watch)?;
        Ok(Made { folder, result })
    }

    /// All seeds of all cells in the simulator, as many at a time as there are
    /// processors; fewer than all of a cell's if cancelled.
    fn simulate(&self, sim: &dyn Engine) -> Result<Vec<Vec<Made>>, LabError> {
        let cells = self.campaign.cells.len();
        let items = cells * self.seeds.len();
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<Option<Made>>> = Mutex::new((0..items).map(|_| None).collect());
        let failure = Mutex::new(None);
        let quiet = Watch {
            cancel: self.watch.cancel,
            progress: &|_| {},
        };
        let work = || {
            loop {
                let item = next.fetch_add(1, Ordering::Relaxed);
                if item >= items || self.watch.cancelled() {
                    return;
                }
                let seed = self.seeds[item % self.seeds.len()];
                let leaf = format!("sim-{seed}");
                match self.run(sim, item / self.seeds.len(), seed, &leaf, &quiet) {
                    Ok(made) if made.result.record.complete => {
                        done.lock().unwrap_or_else(|e| e.into_inner())[item] = Some(made);
                    }
                    Ok(_) => return,
                    Err(error) => {
                        let mut failure = failure.lock().unwrap_or_else(|e| e.into_inner());
                        failure.get_or_insert(error);
                        return;
                    }
                }
            }
        };
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        std::thread::scope(|scope| {
            for _ in 0..threads.min(items) {
                scope.spawn(work);
            }
        });
        if let Some(error) = failure.into_inner().unwrap_or_else(|e| e.into_inner()) {
            return Err(error);
        }
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
    ) -> Result<Option<CellComparison>, LabError> {
        let name = self.campaign.cells[index].name.clone();
        let mut attempts = Vec::new();
        let mut used = Vec::new();
        for (n, seed) in self.seeds.iter().enumerate() {
            match self.repetition(index, *seed, &sim, live, &mut attempts) {
                Ok(Some(made)) => used.push(made),
                Ok(None) => return Ok(None),
                Err(LabError::Engine(why)) => {
                    return Ok(Some(CellComparison {
                        name,
                        sim: sim.into_iter().map(|m| m.folder).collect(),
                        live: attempts,
                        error: Some(why),
                        ..CellComparison::default()
                    }));
                }
                Err(error) => return Err(error),
            }
            self.tell(index, n + 1);
        }
        let summaries = |made: &[Made]| -> Vec<RunSummary> {
            made.iter().map(|m| m.result.summary.clone()).collect()
        };
        let (rows, asked) = rows(self.campaign, index, &summaries(&sim), &summaries(&used));
        Ok(Some(CellComparison {
            name,
            sim: sim.into_iter().map(|m| m.folder).collect(),
            live: attempts,
            rows,
            asked,
            error: None,
        }))
    }

    /// One live repetition, made again while its rig is not trusted.
    fn repetition(
        &self,
        cell: usize,
        seed: u64,
        sim: &[Made],
        live: &dyn Engine,
        attempts: &mut Vec<Live>,
    ) -> Result<Option<Made>, LabError> {
        let mut attempt = 0;
        loop {
            let leaf = match attempt {
                0 => format!("live-{seed}"),
                n => format!("live-{seed}{}", char::from(b'a' + (n % 26) as u8)),
            };
            let made = self.run(live, cell, seed, &leaf, self.watch)?;
            if !made.result.record.complete {
                return Ok(None);
            }
            let verdict = &made.result.record.verdict;
            let last = attempt == self.again || !is_the_rigs(verdict, sim);
            attempts.push(Live {
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

    fn tell(&self, cell: usize, repetitions: usize) {
        let each = self.seeds.len();
        (self.watch.progress)(Progress::Compared {
            runs: cell * each + repetitions,
            of: self.campaign.cells.len() * each,
        });
    }
}

/// Whether a live run is doubted for a reason that no simulated one has: then
/// it is the rig's, and trying again may help.
fn is_the_rigs(verdict: &Verdict, sim: &[Made]) -> bool {
    let known = |check: &str| {
        let verdicts = sim.iter().map(|m| &m.result.record.verdict);
        verdicts
            .flat_map(Verdict::reasons)
            .any(|f| f.check == check)
    };
    verdict.reasons().any(|f| !known(&f.check))
}

/// The rows of a cell, and how many of them the file asks for.
fn rows(
    campaign: &Campaign,
    cell: usize,
    sim: &[RunSummary],
    live: &[RunSummary],
) -> (Vec<Row>, usize) {
    let cell = &campaign.cells[cell];
    let values = |runs: &[RunSummary]| -> Vec<Vec<Option<f64>>> {
        let of =
            |run: &RunSummary| campaign.evaluate(&mut |entity, name| figure(run, entity, name));
        runs.iter().map(of).collect()
    };
    let (in_sim, in_live) = (values(sim), values(live));
    let column = |runs: &[Vec<Option<f64>>], m: usize| Figure::of(runs.iter().map(|r| r[m]));
    let mut rows: Vec<Row> = campaign
        .metrics
        .iter()
        .enumerate()
        .map(|(m, metric)| {
            let mut row = Row::of(metric.name.clone(), column(&in_sim, m), column(&in_live, m));
            let mut bands = campaign.tolerances.iter();
            let mine = bands.find(|t| {
                t.between == Between::Engines && t.metric == m && t.cells.matches(&cell.name)
            });
            if let Some(tolerance) = mine {
                row.tolerance = Some(tolerance.bands_in_words());
                row.within = row
                    .sim
                    .median
                    .map(|s| row.live.median.is_some_and(|l| tolerance.holds(s, l)));
            }
            row
        })
        .collect();
    let asked = rows.len();
    for name in of_every_run(&cell.plan, sim, live) {
        let of = |runs: &[RunSummary]| Figure::of(runs.iter().map(|run| lookup(run, &name)));
        let (in_sim, in_live) = (of(sim), of(live));
        if in_sim.runs + in_live.runs > 0 && campaign.metric(&name).is_none() {
            rows.push(Row::of(name, in_sim, in_live));
        }
    }
    (rows, asked)
}

/// What is compared of any run: of flows goodput, share, round trips,
/// completion, retransmissions and marks; of queues time, use, marks and drops;
/// of probes round trips.
fn of_every_run(plan: &Plan, sim: &[RunSummary], live: &[RunSummary]) -> Vec<String> {
    const OF_FLOWS: [&str; 6] = [
        "goodput_mbit",
        "fct_s",
        "rtt_ms/p50",
        "rtt_ms/p95",
        "retransmissions",
        "ce_marks",
    ];
    const OF_QUEUES: [&str; 6] = [
        "sojourn_ms/mean",
        "sojourn_ms/p50",
        "sojourn_ms/p99",
        "utilisation",
        "marks",
        "drops",
    ];
    const OF_PROBES: [&str; 2] = ["rtt_ms/p50", "rtt_ms/p99"];
    let mut names = Vec::new();
    if plan.flows.len() > 1 {
        names.push("share1_pct".to_owned());
    }
    // In the order in which a run tells them, entity by entity.
    for run in sim.first().into_iter().chain(live.first()) {
        for metric in metrics(run) {
            let kind = metric.entity.split('/').next().unwrap_or_default();
            let wanted: &[&str] = match kind {
                "flow" => &OF_FLOWS,
                "link" => &OF_QUEUES,
                "probe" => &OF_PROBES,
                _ => &[],
            };
            let name = metric.key();
            if wanted.contains(&metric.metric.as_str()) && !names.contains(&name) {
                names.push(name);
            }
        }
    }
    names
}

/// The file's tolerances between engines over the cells that were compared.
fn checks(campaign: &Campaign, cells: &[CellComparison]) -> Vec<crate::campaign::CheckResult> {
    let between = campaign.tolerances.iter();
    let between = between.filter(|t| t.between == Between::Engines);
    between
        .map(|tolerance| {
            let rows = cells.iter().filter_map(|cell| {
                let row = cell.rows.get(tolerance.metric)?;
                Some((cell.name.as_str(), row.sim.median, row.live.median))
            });
            judged(campaign, tolerance, rows)
        })
        .filter(|check| check.judged > 0)
        .collect()
}
