use std::fs;

use narrows_campaign::{Cells, THIN_INTERVALS, Use};
use narrows_results::series;
use narrows_results::store::{Others, Store};
use narrows_scenario::Campaign;

use crate::rig::{Counted, Place, RATES, campaign, of, options, run};
use crate::support::files;

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
    let interval = series::interval_of_at_most(plan, THIN_INTERVALS);
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
fn a_damaged_cell_is_reported_set_aside_and_run_again() {
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

#[test]
fn a_store_that_cannot_be_written_ends_a_campaign_only_if_runs_have_to_be_kept() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign("[50, 60, 70]", ""));
    let plain = run(&engine, &campaign, &options(&at.out("plain"), &[1], None));
    let digest = plain.0.unwrap().record.digest;
    let store = at.store("cells");
    // A cell that is there is still taken.
    let mut one = campaign.clone();
    one.only(&["60".to_owned()]).unwrap();
    let kept = options(&at.out("one"), &[1], of(store.clone()));
    run(&engine, &one, &kept).0.unwrap();
    engine.ran();
    for shelf in 0..=255 {
        // No other cell has a place.
        let shelf = at.out("cells/v1").join(format!("{shelf:02x}"));
        if !shelf.exists() {
            fs::write(shelf, "").unwrap();
        }
    }
    let cells = |must_keep| {
        Some(Cells {
            must_keep,
            ..Cells::of(store.clone(), Use::Resume)
        })
    };
    let (ended, _) = run(
        &engine,
        &campaign,
        &options(&at.out("a"), &[1], cells(true)),
    );
    assert!(matches!(ended, Err(narrows_results::Error::Io { .. })));
    engine.ran();
    let (ended, notes) = run(
        &engine,
        &campaign,
        &options(&at.out("b"), &[1], cells(false)),
    );
    let folder = ended.unwrap();
    assert!(folder.record.complete);
    assert_eq!(folder.record.digest, digest);
    // The first one twice: for the store, and without it.
    assert_eq!(engine.ran(), ["50/1", "50/1", "70/1"]);
    let lost = notes.iter().filter(|n| n.contains("no cell is kept"));
    assert_eq!(lost.count(), 1, "{notes:?}");
    assert_eq!(store.survey(true).unwrap().begun, 0);
}
