//! Campaigns over a store of cells: what is there is not run again, and nothing else changes.

#[path = "../../narrows/tests/integration/support/mod.rs"]
mod support;

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_campaign::{CampaignOptions, Cells, Use, run_campaign};
use narrows_core::EventSink;
use narrows_engine::Ended;
use narrows_results::folder::CampaignFolder;
use narrows_results::store::{Others, Store};
use narrows_results::{Engine, Error, Output, Progress, Watch};
use narrows_results::{EngineError, RunHandle, series};
use narrows_scenario::{Campaign, Plan, catalog};
use support::{ModelEngine, by_seed, files};

/// Two flows over a link, at some rates, in as many cells.
fn campaign(rates: &str, more: &str) -> Campaign {
    let text = format!(
        r#"
version = 1
kind = "campaign"
name = "mine"
cell = "{{rate}}"
[scenario]
duration = "2s"
measure = "1s..2s"
[[scenario.link]]
name = "access"
ends = ["client", "server"]
up = ["netem delay 5ms", "bottleneck: rate 50Mbit queue fq_codel"]
down = ["netem delay 5ms"]
[[scenario.flow]]
name = "one"
from = "client"
to = "server"
cc = "cubic"
[[scenario.flow]]
name = "two"
from = "client"
to = "server"
cc = "cubic"
[axis]
rate = {rates}
[set]
"link/access/up/bottleneck" = "rate {{rate}}Mbit queue fq_codel"
[metric]
first = "goodput_mbit of flow/one"
{more}
"#
    );
    let shelf = catalog::entry("mmb/boxes").unwrap().shelf();
    Campaign::read("mine.toml", text.as_bytes(), &shelf, &[]).unwrap_or_else(|e| panic!("{e}"))
}

/// Six cells.
const RATES: &str = "[50, 60, 70, 80, 90, 100]";

/// A model that counts what it runs, and can cancel after so many.
struct Counted {
    model: ModelEngine,
    ran: Mutex<Vec<(String, u64)>>,
    alone: bool,
    cancels_after: usize,
    cancel: AtomicBool,
}

impl Counted {
    fn new() -> Self {
        Self {
            model: ModelEngine::new(by_seed),
            ran: Mutex::new(Vec::new()),
            alone: false,
            cancels_after: usize::MAX,
            cancel: AtomicBool::new(false),
        }
    }

    /// The cells that were run since it was asked last, in order.
    fn ran(&self) -> Vec<String> {
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
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn store(&self, name: &str) -> Store {
        Store::open(self.0.path().join(name), "1".to_owned()).unwrap()
    }

    fn out(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
}

fn options(out: &Path, seeds: &[u64], cells: Option<Cells>) -> CampaignOptions {
    CampaignOptions {
        seeds: seeds.to_vec(),
        jobs: 1,
        output: Output::Folder(out.to_path_buf()),
        cells,
        ..CampaignOptions::default()
    }
}

/// Runs it; what was noted meanwhile.
fn run(
    engine: &Counted,
    campaign: &Campaign,
    options: &CampaignOptions,
) -> (Result<CampaignFolder, Error>, Vec<String>) {
    let notes = Mutex::new(Vec::new());
    engine.cancel.store(false, Ordering::Relaxed);
    let watch = Watch {
        cancel: &engine.cancel,
        progress: &|progress| {
            if let Progress::Note(line) = progress {
                notes.lock().unwrap().push(line.to_owned());
            }
        },
    };
    let ran = run_campaign(engine, campaign, options, &watch);
    (ran, notes.into_inner().unwrap())
}

fn of(store: Store) -> Option<Cells> {
    Some(Cells::of(store, Use::Resume))
}

#[test]
fn what_is_in_the_store_is_not_run_again_and_no_byte_of_the_results_differs() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign(RATES, ""));
    let run = |out: &str, cells| run(&engine, &campaign, &options(&at.out(out), &[1, 2], cells));
    let plain = run("plain", None).0.unwrap();
    assert_eq!(engine.ran().len(), 12);
    let (first, notes) = run("first", of(at.store("cells")));
    assert_eq!((engine.ran().len(), notes.len()), (12, 0));
    let (second, notes) = run("second", of(at.store("cells")));
    assert_eq!(engine.ran(), Vec::<String>::new());
    assert!(
        notes[0].starts_with("12 of 12 runs were taken from "),
        "{notes:?}"
    );
    let whole = files(&at.out("plain"));
    assert_eq!(whole.len(), 6 * 4 + 2);
    for (name, folder) in [("first", first.unwrap()), ("second", second.unwrap())] {
        assert_eq!(folder.record.digest, plain.record.digest, "{name}");
        assert_eq!(folder.result, plain.result);
        assert_eq!(folder.record.events, plain.record.events);
        assert!(files(&at.out(name)) == whole, "{name}: files differ");
    }
}

#[test]
fn only_what_changed_is_run_and_a_changed_tolerance_only_judges_again() {
    let (at, engine) = (Place::new(), Counted::new());
    let run = |out: &str, campaign: &Campaign| {
        let options = options(&at.out(out), &[1], of(at.store("cells")));
        run(&engine, campaign, &options).0.unwrap()
    };
    run("first", &campaign(RATES, ""));
    engine.ran();
    run("more", &campaign("[50, 60, 75, 80, 90, 100]", ""));
    assert_eq!(engine.ran(), ["75/1"]);
    let check = |least: &str| {
        format!("[[check]]\nid = \"C\"\ntext = \"enough\"\nholds = \"first[50] >= {least}\"\n")
    };
    for (least, passes) in [("0.5", true), ("50", false)] {
        let judged = run(least, &campaign(RATES, &check(least)));
        assert_eq!(judged.result.checks[0].passed, passes);
    }
    assert_eq!(engine.ran(), Vec::<String>::new());
}

#[test]
fn an_interrupted_campaign_goes_on_where_it_was() {
    let (at, campaign) = (Place::new(), campaign(RATES, ""));
    let mut engine = Counted::new();
    let plain = run(
        &engine,
        &campaign,
        &options(&at.out("plain"), &[1, 2], None),
    )
    .0;
    engine.ran();
    let mut all = Vec::new();
    for turn in 0.. {
        engine.cancels_after = if turn < 4 { 3 } else { usize::MAX };
        let options = options(&at.out(&turn.to_string()), &[1, 2], of(at.store("cells")));
        let folder = run(&engine, &campaign, &options).0.unwrap();
        all.extend(engine.ran());
        if folder.record.complete {
            assert_eq!(folder.record.digest, plain.unwrap().record.digest);
            break;
        }
        assert!(turn < 4, "it goes on without end");
    }
    // Three whole ones in each of the first turns, and one that was cut.
    assert_eq!(all.len(), 12 + 3, "{all:?}");
    assert_eq!(at.store("cells").survey(true).unwrap().begun, 0);
}

#[test]
fn fresh_runs_everything_and_says_where_it_differs() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign("[50, 60]", ""));
    let run = |engine: &Counted, out: &str| {
        let fresh = Some(Cells::of(at.store("cells"), Use::Fresh));
        let (folder, notes) = run(engine, &campaign, &options(&at.out(out), &[1], fresh));
        (folder.unwrap().record.digest, notes)
    };
    let (digest, notes) = run(&engine, "first");
    assert_eq!((engine.ran().len(), notes.len()), (2, 0));
    assert_eq!(run(&engine, "second"), (digest.clone(), Vec::new()));
    assert_eq!(engine.ran().len(), 2);
    // An engine that is no function of plan and seed.
    let mut other = Counted::new();
    other.model.law = |plan, _| vec![1.0; plan.flows.len()];
    let (changed, notes) = run(&other, "third");
    assert!(changed != digest && notes.len() == 2, "{notes:?}");
    assert!(notes[0].contains("gave other data"), "{notes:?}");
}

#[test]
fn what_another_process_has_begun_comes_last_and_is_run_all_the_same() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign("[50, 60, 70]", ""));
    let store = at.store("cells");
    let plan = &campaign.cells[0].plan;
    let interval = series::interval_of_at_most(plan, narrows_campaign::THIN_INTERVALS);
    let key = store.key(&engine, plan, 1, interval).unwrap();
    let _begun = store.begin(&key, Others::First).unwrap().unwrap();
    let folder = run(
        &engine,
        &campaign,
        &options(&at.out("out"), &[1], of(store)),
    )
    .0;
    assert_eq!(engine.ran(), ["60/1", "70/1", "50/1"]);
    assert!(folder.unwrap().record.complete);
}

#[test]
fn two_at_a_time_share_a_store_and_have_the_same_results() {
    let (at, campaign) = (Place::new(), campaign(RATES, ""));
    let engine = Counted::new();
    let plain = run(
        &engine,
        &campaign,
        &options(&at.out("plain"), &[1, 2], None),
    )
    .0
    .unwrap();
    let (campaign, at) = (&campaign, &at);
    let results: Vec<_> = std::thread::scope(|scope| {
        let start = |name: &'static str| {
            scope.spawn(move || {
                let engine = Counted::new();
                let options = options(&at.out(name), &[1, 2], of(at.store("cells")));
                let folder = run(&engine, campaign, &options).0.unwrap();
                (folder.record.digest, engine.ran().len())
            })
        };
        let both = [start("a"), start("b")];
        both.map(|thread| thread.join().unwrap())
            .into_iter()
            .collect()
    });
    let ran: usize = results.iter().map(|(_, ran)| ran).sum();
    assert!(
        results
            .iter()
            .all(|(digest, _)| *digest == plain.record.digest)
    );
    assert!((12..24).contains(&ran), "{ran}");
}

#[test]
fn a_damaged_cell_is_said_set_aside_and_run_again() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign("[50, 60, 70]", ""));
    let run = |out: &str| {
        let options = options(&at.out(out), &[1], of(at.store("cells")));
        let (folder, notes) = run(&engine, &campaign, &options);
        (folder.unwrap().record.digest, notes)
    };
    let (digest, _) = run("first");
    engine.ran();
    let whole = at.store("cells").survey(true).unwrap();
    let damaged = whole
        .cells
        .iter()
        .find(|c| c.key.scenario() == "60")
        .unwrap();
    let folder = at
        .out("cells/v1")
        .join(&damaged.name[..2])
        .join(&damaged.name);
    let series = folder.join("series.csv.gz");
    let mut bytes = fs::read(&series).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&series, bytes).unwrap();
    let (again, notes) = run("second");
    assert_eq!((again, engine.ran()), (digest, vec!["60/1".to_owned()]));
    assert!(notes[0].contains("series.csv.gz has changed"), "{notes:?}");
    let survey = at.store("cells").survey(true).unwrap();
    assert_eq!((survey.cells.len(), survey.set_aside), (3, 1));
}

#[test]
fn what_failed_or_measures_its_machine_is_not_kept() {
    let (at, campaign) = (Place::new(), campaign("[50, 60]", ""));
    let mut engine = Counted::new();
    engine.model.panics_on = Some("60");
    let panics = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let failed = run(
        &engine,
        &campaign,
        &options(&at.out("a"), &[1], of(at.store("cells"))),
    )
    .0;
    std::panic::set_hook(panics);
    assert!(failed.unwrap().result.cell("60").unwrap().error.is_some());
    let survey = at.store("cells").survey(true).unwrap();
    assert_eq!((survey.cells.len(), survey.begun), (1, 0));
    let mut live = Counted::new();
    live.alone = true;
    for out in ["b", "c"] {
        run(
            &live,
            &campaign,
            &options(&at.out(out), &[1], of(at.store("cells"))),
        )
        .0
        .unwrap();
    }
    assert_eq!(live.ran().len(), 4);
    assert_eq!(at.store("cells").survey(true).unwrap().cells.len(), 1);
}

#[test]
fn cells_of_another_version_are_neither_taken_nor_lost() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign("[50, 60]", ""));
    let newer = || Store::open(at.out("cells"), "2".to_owned()).unwrap();
    let run = |out: &str, store| {
        run(&engine, &campaign, &options(&at.out(out), &[1], of(store)))
            .0
            .unwrap();
        engine.ran().len()
    };
    assert_eq!(run("a", at.store("cells")), 2);
    assert_eq!(run("b", newer()), 2);
    assert_eq!((run("c", at.store("cells")), run("d", newer())), (0, 0));
}

#[test]
fn what_stores_are_merged_from_is_the_same_as_one_run_and_nothing_is_run_or_made_up() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign(RATES, ""));
    let plain = run(&engine, &campaign, &options(&at.out("plain"), &[1], None))
        .0
        .unwrap();
    let part = |patterns: &[&str], store: &str| {
        let mut part = campaign.clone();
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        part.only(&patterns).unwrap();
        let options = options(&at.out(&format!("out-{store}")), &[1], of(at.store(store)));
        run(&engine, &part, &options).0.unwrap();
    };
    part(&["50", "60", "70"], "a");
    part(&["70", "80", "90"], "b");
    engine.ran();
    let merged = |out: &str, stores: &[&str]| {
        let merge = Cells {
            stores: stores.iter().map(|name| at.store(name)).collect(),
            how: Use::Merge,
        };
        run(
            &engine,
            &campaign,
            &options(&at.out(out), &[1], Some(merge)),
        )
    };
    let folder = merged("partly", &["a", "b"]).0.unwrap();
    let missing = folder.result.cell("100").unwrap().error.as_ref().unwrap();
    assert!(missing.contains("it is not in "), "{missing}");
    let failed = folder
        .result
        .cells
        .iter()
        .filter(|c| c.error.is_some())
        .count();
    assert_eq!(failed, 1);
    part(&["100"], "c");
    engine.ran();
    let folder = merged("all", &["a", "b", "c"]).0.unwrap();
    assert_eq!(folder.record.digest, plain.record.digest);
    assert!(
        files(&at.out("all")) == files(&at.out("plain")),
        "files differ"
    );
    assert_eq!(engine.ran(), Vec::<String>::new());

    // Two stores that do not agree on `70`, of which nobody can say who is right.
    let mut other = Counted::new();
    other.model.law = |plan, _| vec![1.0; plan.flows.len()];
    let mut one = campaign.clone();
    one.only(&["70".to_owned()]).unwrap();
    let wrong = options(&at.out("out-d"), &[1], of(at.store("d")));
    run(&other, &one, &wrong).0.unwrap();
    let folder = merged("disagree", &["d", "a", "b", "c"]).0.unwrap();
    let why = folder.result.cell("70").unwrap().error.as_ref().unwrap();
    assert!(why.contains("have other data of it"), "{why}");
}

#[test]
fn a_cell_without_series_is_kept_without_them() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign("[50]", ""));
    run(
        &engine,
        &campaign,
        &options(&at.out("a"), &[1, 2], of(at.store("cells"))),
    )
    .0
    .unwrap();
    let survey = at.store("cells").survey(true).unwrap();
    let kept: Vec<_> = survey
        .cells
        .iter()
        .map(|c| (c.key.seed, c.key.series_ns > 0))
        .collect();
    assert_eq!(kept, [(1, true), (2, false)]);
    // Alone, the second seed wants its series, too.
    engine.ran();
    run(
        &engine,
        &campaign,
        &options(&at.out("b"), &[2], of(at.store("cells"))),
    )
    .0
    .unwrap();
    assert_eq!(engine.ran(), ["50/2"]);
}
