//! What the tests of stores have in common: a campaign, an engine that counts, a place.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_campaign::{CampaignOptions, Cells, Use, run_campaign};
use narrows_core::EventSink;
use narrows_engine::Ended;
use narrows_results::folder::CampaignFolder;
use narrows_results::store::Store;
use narrows_results::{Engine, EngineError, Error, Output, Progress, RunHandle, Watch};
use narrows_scenario::{Campaign, Plan, catalog};

use crate::support::{ModelEngine, by_seed};

/// Two flows over a link, at some rates, in as many cells.
pub fn campaign(rates: &str, more: &str) -> Campaign {
    let text = include_str!("../rates.toml").replace(RATES, rates) + more;
    let shelf = catalog::entry("mmb/boxes").unwrap().shelf();
    Campaign::read("mine.toml", text.as_bytes(), &shelf, &[]).unwrap_or_else(|e| panic!("{e}"))
}

/// Six cells.
pub const RATES: &str = "[50, 60, 70, 80, 90, 100]";

/// A model that counts what it runs, and can cancel after so many.
pub struct Counted {
    pub model: ModelEngine,
    ran: Mutex<Vec<(String, u64)>>,
    pub alone: bool,
    pub cancels_after: usize,
    pub cancel: AtomicBool,
}

impl Counted {
    pub fn new() -> Self {
        Self {
            model: ModelEngine::new(by_seed),
            ran: Mutex::new(Vec::new()),
            alone: false,
            cancels_after: usize::MAX,
            cancel: AtomicBool::new(false),
        }
    }

    /// The cells that were run since it was asked last, in order.
    pub fn ran(&self) -> Vec<String> {
        let ran = std::mem::take(&mut *self.ran.lock().unwrap());
        ran.into_iter()
            .map(|(name, seed)| format!("{name}/{seed}"))
            .collect()
    }
}

impl Engine for Counted {
    fn name(&self) -> &'static str {
        "model"
    }

    fn names(&self, plan: &Plan) -> Vec<String> {
        self.model.names(plan)
    }

    fn alone(&self) -> bool {
        self.alone
    }

    fn run(
        &self,
        plan: &Plan,
        seed: u64,
        sink: &mut dyn EventSink,
        handle: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        let mut ran = self.ran.lock().unwrap();
        ran.push((plan.name.clone(), seed));
        if ran.len() > self.cancels_after {
            self.cancel.store(true, Ordering::Relaxed);
        }
        drop(ran);
        self.model.run(plan, seed, sink, handle)
    }
}

/// Where a test has its store and its results.
pub struct Place(pub tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn store(&self, name: &str) -> Store {
        Store::open(self.0.path().join(name), "1".to_owned()).unwrap()
    }

    pub fn out(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

pub fn options(out: &Path, seeds: &[u64], cells: Option<Cells>) -> CampaignOptions {
    CampaignOptions {
        seeds: seeds.to_vec(),
        jobs: 1,
        output: Output::Folder(out.to_path_buf()),
        cells,
        ..CampaignOptions::default()
    }
}

/// Runs it; what was noted meanwhile.
pub fn run(
    engine: &Counted,
    campaign: &Campaign,
    options: &CampaignOptions,
) -> (Result<CampaignFolder, Error>, Vec<String>) {
    watched(engine, |watch| {
        run_campaign(engine, campaign, options, watch)
    })
}

/// Calls `f` with a watch; what was noted meanwhile.
pub fn watched<T>(engine: &Counted, f: impl FnOnce(&Watch<'_>) -> T) -> (T, Vec<String>) {
    let notes = Mutex::new(Vec::new());
    engine.cancel.store(false, Ordering::Relaxed);
    let done = f(&Watch {
        cancel: &engine.cancel,
        progress: &|progress| {
            if let Progress::Note(line) = progress {
                notes.lock().unwrap().push(line.to_owned());
            }
        },
    });
    (done, notes.into_inner().unwrap())
}

pub fn of(store: Store) -> Option<Cells> {
    Some(Cells::of(store, Use::Resume))
}
