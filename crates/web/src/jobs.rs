//! Runs, campaigns and comparisons: begun, followed, held back and ended by requests.

mod change;
mod control;
mod outcome;
mod prepare;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use narrows::results::Pace;
use narrows::scenario::Plan;
use narrows::units::Instant;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::body::{Json, Path};
use crate::engines::EngineWord;
use crate::error::{Answer, ApiError};
use crate::results;
use crate::state::{Shared, Work, aside};
use crate::stream::Stream;

pub(crate) use change::{Changed, Target, change};
pub(crate) use control::{Control, control};
pub(crate) use outcome::Outcome;
use prepare::Prepared;
pub(crate) use prepare::Start;

/// Jobs that go on at the same time: more would only slow each other down.
const MOST_ACTIVE: usize = 4;

/// Jobs that are remembered; the oldest that have ended are forgotten.
const MOST_KEPT: usize = 100;

/// All jobs.
pub(crate) struct Jobs {
    kept: Mutex<BTreeMap<u64, Arc<Job>>>,
    ended: Condvar,
    next: AtomicU64,
    stream: Arc<Stream>,
    /// What addresses of results begin with.
    pages: Arc<str>,
}

/// One of them.
pub(crate) struct Job {
    number: u64,
    pub(crate) prepared: Prepared,
    state: Mutex<JobState>,
    pub(crate) pace: Pace,
    /// Set to end it.
    cancel: AtomicBool,
    /// Held while a change is made.
    changing: Mutex<()>,
    stream: Arc<Stream>,
    pages: Arc<str>,
    /// Where its results go below.
    results: PathBuf,
}

/// What changes of a job.
struct JobState {
    phase: Phase,
    stopped: bool,
    /// The text that is run, with the changes that were made.
    text: Arc<str>,
    /// Its plan, of a run.
    plan: Option<Arc<Plan>>,
    changes: Vec<Change>,
    done: Option<(usize, usize)>,
    /// Of a comparison, the run that began last.
    doing: Option<String>,
    /// When readers of the stream last got how far it is in time.
    published: std::time::Instant,
    error: Option<String>,
    outcome: Option<Arc<Outcome>>,
}

/// How far a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Phase {
    /// It runs.
    Running,
    /// It is held.
    Paused,
    /// It came to its end.
    Done,
    /// It did not.
    Failed,
    /// It was ended.
    Cancelled,
}

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// A scenario.
    Run,
    /// A campaign.
    Campaign,
    /// The same by two engines.
    Compare,
}

/// A job, as answers have it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobAbout {
    /// By which it is asked for.
    id: String,
    /// What is run.
    kind: Kind,
    /// The name of the scenario or campaign.
    name: String,
    /// The document, if it was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<String>,
    /// What runs it.
    engine: EngineWord,
    /// How far it is.
    state: Phase,
    /// How far it is in time, or in cells.
    progress: JobProgress,
    /// The seed; of a campaign, where it is the only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
    /// Seconds of the network in a second; `null` for as fast as it goes.
    speed: Option<f64>,
    /// Whether it can be paused, slowed down and changed.
    pace: bool,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    /// What it came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Outcome>,
    /// Changes that were made while it ran.
    changes: Vec<Change>,
}

/// A job with the text that it runs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobFull {
    #[serde(flatten)]
    job: JobAbout,
    /// The text that is run, with the changes that were made.
    text: String,
}

/// How far a job is.
#[derive(Debug, Serialize, JsonSchema)]
struct JobProgress {
    /// Seconds of the network that were reached.
    virtual_s: f64,
    /// Seconds of the network that are to be run; of a campaign, those of one cell.
    duration_s: f64,
    /// Cells or repetitions that are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    done: Option<usize>,
    /// Cells or repetitions that are to be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
    /// Of a comparison, the run that began last: its cell, engine and seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    doing: Option<String>,
}

/// A change that was made while a job ran.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
struct Change {
    /// When, in seconds of the network.
    at_s: f64,
    /// The element.
    target: String,
    /// Its new words.
    to: String,
}

/// Which job was begun.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Begun {
    /// By which it is asked for.
    job: String,
}

/// All jobs.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct JobList {
    /// The newest first.
    jobs: Vec<JobAbout>,
}

fn unpoisoned<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Phase {
    fn is_active(self) -> bool {
        matches!(self, Self::Running | Self::Paused)
    }
}

impl Job {
    fn id(&self) -> String {
        self.number.to_string()
    }

    fn state(&self) -> MutexGuard<'_, JobState> {
        unpoisoned(&self.state)
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        unpoisoned(&self.changing)
    }

    fn is_active(&self) -> bool {
        self.state().phase.is_active()
    }

    pub(crate) fn about(&self) -> JobAbout {
        let state = self.state();
        let reached = self.pace.reached();
        JobAbout {
            id: self.id(),
            kind: self.prepared.kind,
            name: self.prepared.name.clone(),
            document: self.prepared.document.clone(),
            engine: self.prepared.engine,
            state: state.phase,
            progress: JobProgress {
                virtual_s: reached.as_secs_f64(),
                duration_s: self.prepared.duration.as_secs_f64(),
                done: state.done.map(|(done, _)| done),
                total: state.done.map(|(_, total)| total),
                doing: state.doing.clone().filter(|_| state.phase.is_active()),
            },
            seed: match &state.plan {
                Some(plan) => Some(plan.seed),
                None => self.prepared.seed,
            },
            speed: self.pace.speed(),
            pace: self.prepared.has_pace(),
            error: state.error.clone(),
            result: state.outcome.as_deref().cloned(),
            changes: state.changes.clone(),
        }
    }

    /// Sends the job's state to all readers of the stream.
    fn publish(&self) {
        if self.stream.is_read() {
            self.stream.send("job", &self.about());
        }
    }

    /// Ends it.
    fn stop(&self) {
        self.state().stopped = true;
        self.cancel.store(true, Ordering::SeqCst);
    }

    /// The text that is run.
    fn text(&self) -> Arc<str> {
        Arc::clone(&self.state().text)
    }

    /// The plan of a run that repeats, and how far it is.
    pub(crate) fn repeats(&self) -> Option<(Arc<Plan>, Instant)> {
        let plan = self.state().plan.clone();
        let plan = plan.filter(|_| self.prepared.has_pace())?;
        Some((plan, self.pace.reached()))
    }
}

impl Jobs {
    pub(crate) fn new(stream: Arc<Stream>, pages: &str) -> Self {
        Self {
            kept: Mutex::default(),
            ended: Condvar::new(),
            next: AtomicU64::new(1),
            stream,
            pages: pages.into(),
        }
    }

    /// All, the newest first.
    pub(crate) fn list(&self) -> Vec<JobAbout> {
        unpoisoned(&self.kept)
            .values()
            .rev()
            .map(|job| job.about())
            .collect()
    }

    pub(crate) fn get(&self, id: &str) -> Answer<Arc<Job>> {
        let number = id.parse::<u64>().ok();
        let job = number.and_then(|number| unpoisoned(&self.kept).get(&number).cloned());
        job.ok_or_else(|| ApiError::not_found("such job"))
    }

    /// Begins a job whose results go below `results`.
    fn begin(self: &Arc<Self>, prepared: Prepared, results: PathBuf) -> Answer<Arc<Job>> {
        let mut kept = unpoisoned(&self.kept);
        if kept.values().filter(|job| job.is_active()).count() >= MOST_ACTIVE {
            let message = format!("{MOST_ACTIVE} jobs are running, which is the most");
            return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, message)
                .hint("stop one of them, or wait for its end"));
        }
        while kept.len() >= MOST_KEPT {
            let oldest = kept
                .values()
                .find(|job| !job.is_active())
                .map(|job| job.number);
            let Some(oldest) = oldest else { break };
            kept.remove(&oldest);
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let pace = Pace::new(prepared.speed, prepared.paused);
        pace.set_watched(self.stream.is_read());
        let phase = if prepared.paused {
            Phase::Paused
        } else {
            Phase::Running
        };
        let job = Arc::new(Job {
            number,
            state: Mutex::new(JobState {
                phase,
                stopped: false,
                text: prepared.text.clone().into(),
                plan: prepared.plan.clone(),
                changes: Vec::new(),
                done: None,
                doing: None,
                published: std::time::Instant::now(),
                error: None,
                outcome: None,
            }),
            pace,
            cancel: AtomicBool::new(false),
            changing: Mutex::default(),
            prepared,
            stream: Arc::clone(&self.stream),
            pages: Arc::clone(&self.pages),
            results,
        });
        kept.insert(number, Arc::clone(&job));
        drop(kept);
        self.work(&job)?;
        job.publish();
        Ok(job)
    }

    /// Has a thread do the job.
    fn work(self: &Arc<Self>, job: &Arc<Job>) -> Answer<()> {
        let (jobs, job) = (Arc::clone(self), Arc::clone(job));
        let thread = std::thread::Builder::new().name(format!("job {}", job.number));
        let begun = thread.spawn(move || {
            work::run(&job);
            // Taken so that nobody who is about to wait misses it.
            drop(unpoisoned(&jobs.kept));
            jobs.ended.notify_all();
        });
        begun.map(drop).map_err(ApiError::internal)
    }

    fn forget(&self, id: &str) -> Answer<()> {
        let job = self.get(id)?;
        job.stop();
        unpoisoned(&self.kept).remove(&job.number);
        // It ends by itself; whoever waits for all at the end of the server needs it no more
        // once it has.
        Ok(())
    }

    /// Whether one goes on that has changed the machine, or has processes of its own.
    pub(crate) fn hold_machine(&self) -> bool {
        let kept = unpoisoned(&self.kept);
        let held = |job: &Arc<Job>| {
            job.prepared.engine != EngineWord::Sim || job.prepared.kind == Kind::Compare
        };
        kept.values().any(|job| job.is_active() && held(job))
    }

    /// Ends all jobs, and waits for so long until they have ended; whether they have.
    pub(crate) fn end(&self, patience: Duration) -> bool {
        let kept = unpoisoned(&self.kept);
        for job in kept.values() {
            job.stop();
        }
        let active = |kept: &mut BTreeMap<u64, Arc<Job>>| kept.values().any(|job| job.is_active());
        let waited = self.ended.wait_timeout_while(kept, patience, active);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// Begins a job.
pub(crate) async fn start(
    State(state): State<Shared>,
    Json(start): Json<Start>,
) -> Answer<Json<Begun>> {
    aside(&state, Work::Job, move |lab| {
        let results = results::folder_in(lab.documents.root())?;
        let prepared = Prepared::of(&lab.documents, start)?;
        let job = lab.jobs.begin(prepared, results)?;
        Ok(Json(Begun { job: job.id() }))
    })
    .await
}

/// Lists all jobs.
pub(crate) async fn list(State(state): State<Shared>) -> Json<JobList> {
    let jobs = state.jobs.list();
    Json(JobList { jobs })
}

/// Gives one.
pub(crate) async fn get(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<JobFull>> {
    let job = state.jobs.get(&id)?;
    Ok(Json(JobFull {
        text: job.text().to_string(),
        job: job.about(),
    }))
}

/// Gives the text that one runs.
pub(crate) async fn text(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    Ok(Json(json!({ "text": &*state.jobs.get(&id)?.text() })))
}

/// Ends one and forgets it.
pub(crate) async fn forget(
    State(state): State<Shared>,
    Path(id): Path<String>,
) -> Answer<Json<Value>> {
    state.jobs.forget(&id)?;
    Ok(Json(json!({})))
}
