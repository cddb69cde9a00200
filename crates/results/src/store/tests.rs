mod forged;
mod strangers;

use std::fs::{self, File, FileTimes};
use std::time::{Duration as WallDuration, SystemTime};

use narrows_core::EventSink;
use narrows_engine::{Ended, EngineError, RunHandle, VirtualKernel};
use narrows_scenario::Draft;

use super::*;
use crate::folder::RunRecord;
use crate::series::{Series, Track};

/// An engine that is asked for its name alone.
struct Named {
    name: &'static str,
    kernel: Option<VirtualKernel>,
    alone: bool,
}

const SIM: Named = Named {
    name: "sim",
    kernel: None,
    alone: false,
};

impl Engine for Named {
    fn name(&self) -> &'static str {
        self.name
    }

    fn virtual_kernel(&self) -> Option<&VirtualKernel> {
        self.kernel.as_ref()
    }

    fn alone(&self) -> bool {
        self.alone
    }

    fn names(&self, _: &Plan) -> Vec<String> {
        Vec::new()
    }

    fn run(
        &self,
        _: &Plan,
        _: u64,
        _: &mut dyn EventSink,
        _: &RunHandle<'_>,
    ) -> Result<Ended, EngineError> {
        Err(EngineError::Failed("it runs nothing".to_owned()))
    }
}

fn plan(sets: &[&str]) -> Plan {
    let link = [
        "netem delay 5ms".to_owned(),
        "rate 10Mbit queue fq_codel".to_owned(),
    ];
    let mut draft = Draft::from_words(&link, &["cubic".to_owned()]).unwrap();
    for set in sets {
        draft.set(set).unwrap();
    }
    draft.check().unwrap()
}

const STEP: Duration = Duration::from_millis(10);

fn key(store: &Store, seed: u64) -> Key {
    store.key(&SIM, &plan(&[]), seed, STEP).unwrap()
}

fn new_store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("cells"), "1".to_owned()).unwrap();
    (dir, store)
}

/// A run whose data are of that number of points.
fn result(points: u64) -> RunResult {
    let mut result = RunResult {
        series: Series {
            interval_s: 1.0,
            tracks: vec![Track {
                entity: "flow/a".to_owned(),
                metric: "rtt_ms".to_owned(),
                t_s: (1..=points).map(|i| i as f64).collect(),
                value: (1..=points).map(|i| 0.1 * i as f64).collect(),
            }],
        },
        record: RunRecord {
            format: crate::folder::FORMAT,
            kind: "run".to_owned(),
            engine: "sim".to_owned(),
            seeds: vec![1],
            complete: true,
            wall_s: 0.123_456_789,
            ..RunRecord::default()
        },
        ..RunResult::default()
    };
    result.summary.name = "mine".to_owned();
    result.summary.jain = Some(0.1 + 0.2);
    result
}

/// Keeps such a run under `key`; what was said, and the run as it was written.
fn kept(store: &Store, key: &Key, points: u64) -> (Option<String>, RunResult) {
    let begun = store.begin(key, Others::Regardless).unwrap().unwrap();
    let mut result = result(points);
    result.record.seeds = vec![key.seed];
    let extra = begun.dir().join("captures");
    narrows_files::create_dir(&extra).unwrap();
    narrows_files::write(extra.join("a.pcapng"), b"packets").unwrap();
    begun
        .write(&mut result, false, &AtomicBool::new(false))
        .unwrap();
    (store.keep(begun, key, &result).unwrap(), result)
}

fn taken(store: &Store, key: &Key) -> StoredRun {
    match store.take(key, None).unwrap() {
        Taken::Cell(run) => *run,
        other => panic!("{other:?}"),
    }
}

fn damage(store: &Store, key: &Key) -> String {
    match store.take(key, None).unwrap() {
        Taken::Damaged(why) => why,
        other => panic!("{other:?}"),
    }
}

/// The names of all files below `dir` but a description of a cell.
fn below(dir: &Path) -> Vec<String> {
    let mut all = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => all.push(path.strip_prefix(dir).unwrap().display().to_string()),
            }
        }
    }
    all.sort();
    all
}

#[test]
fn a_cell_is_taken_as_it_was_kept_with_all_its_data() {
    let (dir, store) = new_store();
    let key = key(&store, 1);
    assert!(matches!(store.take(&key, None).unwrap(), Taken::Absent));
    let (said, made) = kept(&store, &key, 50);
    assert_eq!(said, None);
    let into = dir.path().join("out");
    let Taken::Cell(run) = store.take(&key, Some(&into)).unwrap() else {
        panic!("no cell");
    };
    assert_eq!((&run.record, &run.summary), (&made.record, &made.summary));
    let names = [
        "captures/a.pcapng",
        "series.csv.gz",
        "summary.csv",
        "summary.json",
    ];
    assert_eq!(below(&into), names);
    for name in names {
        let there = store.place(&key.name()).join(name);
        assert_eq!(fs::read(into.join(name)).unwrap(), fs::read(there).unwrap());
    }
    assert_eq!(below(&store.below(BEGUN)), Vec::<String>::new());
}

#[test]
fn whatever_decides_about_a_run_is_in_its_name_and_what_is_only_said_of_it_is_not() {
    let (dir, store) = new_store();
    let other_version = Store::open(store.dir(), "2".to_owned()).unwrap();
    let kernel = |id: &str| Named {
        name: "kernel",
        kernel: Some(VirtualKernel {
            id: id.to_owned(),
            ..VirtualKernel::default()
        }),
        alone: false,
    };
    let name = |store: &Store, engine: &Named, plan: &Plan, seed, interval| {
        store.key(engine, plan, seed, interval).unwrap().name()
    };
    // A recording that is called the same and holds something else.
    let recorded = |text: &str| {
        let text = format!("time_s,rate_mbit\n{text}\n");
        narrows_files::write(dir.path().join("rates.csv"), text).unwrap();
        let path = dir.path().join("rates.csv").display().to_string();
        let mut plan = plan(&["duration=9s"]);
        plan.files = Draft::from_words(
            &[format!("rate trace {path} queue fq_codel")],
            &["cubic".to_owned()],
        )
        .and_then(|mut draft| {
            draft.set("duration=9s")?;
            draft.check()
        })
        .map(|plan| plan.files)
        .unwrap_or_else(|e| panic!("{e}"));
        plan
    };
    let mine = plan(&[]);
    let names = [
        name(&store, &SIM, &mine, 1, STEP),
        name(&store, &SIM, &mine, 2, STEP),
        name(&store, &SIM, &mine, 1, Duration::ZERO),
        name(&other_version, &SIM, &mine, 1, STEP),
        name(&store, &kernel("a"), &mine, 1, STEP),
        name(&store, &kernel("b"), &mine, 1, STEP),
        name(&store, &SIM, &plan(&["duration=9s"]), 1, STEP),
        name(&store, &SIM, &plan(&["sample_interval=1s"]), 1, STEP),
        name(&store, &SIM, &recorded("0,1\n1,2"), 1, STEP),
        name(&store, &SIM, &recorded("0,1\n1,3"), 1, STEP),
    ];
    let different: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:#?}");

    let mut said = mine.clone();
    said.about = Some("another paragraph".to_owned());
    said.source = Some("somebody".to_owned());
    said.seed = 77;
    assert_eq!(name(&store, &SIM, &said, 1, STEP), names[0]);
}

#[test]
fn what_measures_its_machine_has_no_name() {
    let (_dir, store) = new_store();
    let live = Named { alone: true, ..SIM };
    assert_eq!(store.key(&live, &plan(&[]), 1, STEP), None);
}

#[test]
fn no_byte_of_a_cell_can_change_unseen() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    kept(&store, &key, 20);
    let place = store.place(&key.name());
    let sound = taken(&store, &key);
    let mut changed = 0;
    for name in below(&place) {
        let path = place.join(&name);
        let whole = fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            narrows_files::write(&path, &bytes).unwrap();
            match store.take(&key, None).unwrap() {
                Taken::Damaged(_) => changed += 1,
                // Space behind a JSON document.
                Taken::Cell(run) => {
                    assert!(name == "cell.json" && *run == sound, "{name}, byte {at}");
                }
                Taken::Absent => panic!("{name}, byte {at}"),
            }
        }
        for length in [0, whole.len() - 2] {
            narrows_files::write(&path, &whole[..length]).unwrap();
            damage(&store, &key);
        }
        fs::remove_file(&path).unwrap();
        damage(&store, &key);
        narrows_files::write(&path, &whole).unwrap();
    }
    assert!(changed > 1000, "{changed}");
    assert_eq!(taken(&store, &key), sound);
}

#[test]
fn what_was_copied_of_a_damaged_cell_is_removed() {
    let (dir, store) = new_store();
    let key = key(&store, 1);
    kept(&store, &key, 20);
    // The last one that is copied.
    narrows_files::write(
        store.place(&key.name()).join("captures/a.pcapng"),
        b"Packets",
    )
    .unwrap();
    let into = dir.path().join("out");
    let found = store.take(&key, Some(&into)).unwrap();
    assert!(matches!(found, Taken::Damaged(_)), "{found:?}");
    assert_eq!(below(&into), Vec::<String>::new());
}

#[test]
fn a_cell_under_another_one_s_name_or_with_files_elsewhere_is_damaged() {
    let (_dir, store) = new_store();
    let (one, two) = (key(&store, 1), key(&store, 2));
    kept(&store, &one, 5);
    let place = store.place(&two.name());
    narrows_files::create_dir_all(place.parent().unwrap()).unwrap();
    fs::rename(store.place(&one.name()), &place).unwrap();
    assert!(damage(&store, &two).contains("of another cell"));
    let description = place.join("cell.json");
    let text = fs::read_to_string(&description).unwrap();
    let text = text.replace("\"seed\":1", "\"seed\":2");
    narrows_files::write(&description, text.replace("summary.csv", "../summary.csv")).unwrap();
    assert!(damage(&store, &two).contains("outside its folder"));
}

#[test]
fn a_run_that_is_not_kept_leaves_nothing_and_one_that_is_not_complete_is_not_kept() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    let begun = store.begin(&key, Others::First).unwrap().unwrap();
    let mut interrupted = result(5);
    interrupted.record.complete = false;
    begun
        .write(&mut interrupted, false, &AtomicBool::new(false))
        .unwrap();
    store.keep(begun, &key, &interrupted).unwrap_err();
    assert!(matches!(store.take(&key, None).unwrap(), Taken::Absent));
    assert_eq!(entries_in(&store.below(BEGUN)), 0);
}

fn entries_in(dir: &Path) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

#[test]
fn of_two_that_run_one_cell_the_first_one_s_is_kept() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    let first = store.begin(&key, Others::First).unwrap().unwrap();
    assert!(store.begin(&key, Others::First).unwrap().is_none());
    let (said, run) = kept(&store, &key, 20);
    assert_eq!(said, None);
    let mut same = result(20);
    same.record.wall_s = 7.0;
    let captures = first.dir().join("captures");
    narrows_files::create_dir(&captures).unwrap();
    narrows_files::write(captures.join("a.pcapng"), b"packets").unwrap();
    first
        .write(&mut same, false, &AtomicBool::new(false))
        .unwrap();
    assert_eq!(store.keep(first, &key, &same).unwrap(), None);
    assert_eq!(taken(&store, &key).record, run.record);
    assert_eq!(entries_in(&store.below(BEGUN)), 0);
    assert_eq!(entries_in(&store.below(DAMAGED)), 0);
}

#[test]
fn a_cell_that_is_begun_as_soon_as_another_was_kept_is_left_alone() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    let first = store.begin(&key, Others::First).unwrap().unwrap();
    let path = first.dir().to_path_buf();
    let kept = first.kept();
    // The name is free from here on.
    fs::remove_dir(&path).unwrap();
    let second = store.begin(&key, Others::First).unwrap().unwrap();
    assert_eq!(second.dir(), path);
    drop(kept);
    assert!(path.is_dir());
}

#[test]
fn other_data_under_the_same_name_are_said_and_set_aside() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    kept(&store, &key, 20);
    let (said, _) = kept(&store, &key, 21);
    assert!(said.unwrap().contains("gave other data"));
    // Damaged ones are replaced, too.
    narrows_files::write(store.place(&key.name()).join("summary.csv"), "").unwrap();
    let (said, run) = kept(&store, &key, 22);
    assert!(
        said.unwrap()
            .contains("is damaged: summary.csv has changed")
    );
    assert_eq!(taken(&store, &key).record, run.record);
    assert_eq!(entries_in(&store.below(DAMAGED)), 2);
}

#[test]
fn only_a_store_or_an_empty_folder_is_taken_for_one() {
    let dir = tempfile::tempdir().unwrap();
    let open = |at: &Path| Store::open(at, "1".to_owned());
    let existing = |at: &Path| Store::existing(at, "1".to_owned());
    assert!(existing(dir.path()).is_err());
    open(dir.path()).unwrap();
    open(dir.path()).unwrap();
    existing(dir.path()).unwrap();
    let other = tempfile::tempdir().unwrap();
    narrows_files::write(other.path().join("thesis.tex"), "").unwrap();
    for refused in [open(other.path()), open(&other.path().join("thesis.tex"))] {
        assert!(refused.unwrap_err().is_refusal());
    }
    assert_eq!(below(other.path()), ["thesis.tex"]);
}

/// Sets the time at which `path` was last written to so long ago.
fn age(path: &Path, hours: u64) {
    let then = SystemTime::now() - WallDuration::from_secs(hours * 3600);
    let times = FileTimes::new().set_modified(then);
    File::open(path).unwrap().set_times(times).unwrap();
}

#[test]
fn the_newest_cells_are_found_and_a_run_is_read_without_being_used() {
    let (_dir, store) = new_store();
    let keys: Vec<Key> = (1..=4).map(|seed| key(&store, seed)).collect();
    for (key, hours) in keys.iter().zip([3, 1, 4, 2]) {
        kept(&store, key, 5);
        age(&store.place(&key.name()).join("cell.json"), hours);
    }
    let seeds = |most| {
        let (found, all) = store.newest(most).unwrap();
        let seeds = found.iter().map(|found| found.key.seed);
        (seeds.collect::<Vec<_>>(), all)
    };
    assert_eq!(seeds(3), (vec![2, 4, 1], 4));
    let run = store.read(&keys[0].name()).unwrap();
    assert_eq!(run.record.seeds, [1]);
    assert_eq!(run.series.tracks[0].value.len(), 5);
    assert_eq!(seeds(9), (vec![2, 4, 1, 3], 4));
    narrows_files::write(store.place(&keys[1].name()).join("series.csv.gz"), "").unwrap();
    assert!(store.read(&keys[1].name()).is_err());
    for odd in ["", "..", &"ü".repeat(32), &"0".repeat(64)] {
        assert!(store.read(odd).is_err(), "{odd}");
    }
}

#[test]
fn a_survey_tells_sound_cells_from_damaged_ones_and_what_is_begun() {
    let (_dir, store) = new_store();
    let keys: Vec<Key> = (1..=3).map(|seed| key(&store, seed)).collect();
    for key in &keys {
        kept(&store, key, 5);
    }
    let _begun = store.begin(&key(&store, 4), Others::First).unwrap();
    narrows_files::write(store.place(&keys[1].name()).join("summary.csv"), "").unwrap();
    let seeds = |survey: &Survey| -> Vec<u64> { survey.cells.iter().map(|c| c.key.seed).collect() };
    let outline = store.survey(false).unwrap();
    assert_eq!((seeds(&outline), outline.begun), (vec![1, 2, 3], 1));
    let read = store.survey(true).unwrap();
    assert_eq!(seeds(&read), [1, 3]);
    let [(dir, why)] = &read.damaged[..] else {
        panic!("{read:?}");
    };
    assert_eq!(
        (dir, &**why),
        (&store.place(&keys[1].name()), "summary.csv has changed")
    );
}

#[test]
fn what_is_pruned_is_of_no_use_or_was_asked_for() {
    let (_dir, store) = new_store();
    let newer = Store::open(store.dir(), "2".to_owned()).unwrap();
    let (old, damaged, fresh) = (key(&store, 1), key(&store, 2), key(&newer, 1));
    for (store, key) in [(&store, &old), (&store, &damaged), (&newer, &fresh)] {
        kept(store, key, 5);
    }
    fs::remove_file(store.place(&damaged.name()).join("run.json")).unwrap();
    let strange = store.below("zz").join("z");
    narrows_files::create_dir_all(&strange).unwrap();
    let under_way = store
        .begin(&key(&store, 3), Others::First)
        .unwrap()
        .unwrap();
    let killed = store
        .begin(&key(&store, 4), Others::First)
        .unwrap()
        .unwrap();
    age(killed.dir(), 25);
    // Its folder is old, what it writes is not.
    age(under_way.dir(), 25);
    narrows_files::write(under_way.dir().join("long.pcapng"), "").unwrap();
    age(under_way.dir(), 25);

    let pruned = newer.prune(&Unneeded::default()).unwrap();
    assert_eq!((pruned.cells, pruned.damaged, pruned.left), (0, 2, 1));
    assert!(under_way.dir().is_dir() && !killed.dir().is_dir() && !strange.is_dir());
    assert_eq!(entries_in(&store.below(DAMAGED)), 0);

    age(&store.place(&fresh.name()).join("cell.json"), 3);
    let unused = |hours: u64| Unneeded {
        unused: Some(WallDuration::from_secs(hours * 3600)),
        ..Unneeded::default()
    };
    assert_eq!(newer.prune(&unused(4)).unwrap().cells, 0);
    // What is taken is used.
    taken(&newer, &fresh);
    assert_eq!(newer.prune(&unused(2)).unwrap().cells, 0);
    let others = Unneeded {
        other_versions: true,
        ..Unneeded::default()
    };
    assert_eq!(newer.prune(&others).unwrap().cells, 1);
    assert!(matches!(store.take(&old, None).unwrap(), Taken::Absent));
    age(&store.place(&fresh.name()).join("cell.json"), 3);
    let pruned = newer.prune(&unused(2)).unwrap();
    assert!(pruned.cells == 1 && pruned.bytes > 0, "{pruned:?}");
    kept(&newer, &fresh, 5);
    let all = Unneeded {
        all: true,
        ..Unneeded::default()
    };
    assert_eq!(newer.prune(&all).unwrap().cells, 1);
    assert_eq!(newer.survey(true).unwrap().cells, []);
}

#[test]
fn a_build_of_changed_files_is_known_by_its_program() {
    let clean = version(Some("0123456789ab"), std::env::current_exe).unwrap();
    assert!(clean.ends_with("(0123456789ab)"), "{clean}");
    let unknown = version(None, std::env::current_exe).unwrap();
    assert_eq!(
        version(Some("0123456789ab-dirty"), std::env::current_exe).unwrap(),
        unknown
    );
    assert!(unknown.contains("(program "), "{unknown}");
}

#[test]
fn numbers_of_a_cell_are_read_as_they_were_written() {
    // Mantissas by a Weyl sequence, between 1 and 2.
    for i in 0..10_000_u64 {
        let mantissa = i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 12;
        let number = f64::from_bits(1.0_f64.to_bits() | mantissa) * 100.0;
        let text = serde_json::to_string(&number).unwrap();
        assert_eq!(
            serde_json::from_str::<f64>(&text).unwrap(),
            number,
            "{text}"
        );
    }
}
