//! Foreign files in a store, missing ones, and what `survey` reports of its cells.

use super::*;
use crate::store::survey::Found;

#[test]
fn a_store_is_in_the_users_cache_and_has_the_version_of_its_program() {
    let cache = narrows_files::cache();
    let expected = cache.map(|cache| cache.join("narrows/cells"));
    assert_eq!(Store::of_user(), expected);
    let (_dir, store) = new_store();
    assert_eq!(store.version(), "1");
}

#[test]
fn a_path_that_cannot_be_read_is_an_error_and_no_refusal() {
    let dir = tempfile::tempdir().unwrap();
    // Longer than the name of a file may be.
    let failed = Store::open(dir.path().join("x".repeat(300)), "1".to_owned()).unwrap_err();
    assert!(matches!(failed, Error::Io { .. }), "{failed:?}");
}

#[test]
fn a_file_in_the_place_of_a_cells_shelf_is_damage_and_in_that_of_begun_runs_an_error() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    let shelf = store.place(&key.name()).parent().unwrap().to_owned();
    narrows_files::write(&shelf, "").unwrap();
    damage(&store, &key);
    fs::remove_dir(store.below(BEGUN)).unwrap();
    narrows_files::write(store.below(BEGUN), "").unwrap();
    assert!(store.begin(&key, Others::First).is_err());
}

#[test]
fn what_another_process_set_aside_first_is_no_error_and_what_cannot_be_is_one() {
    let (_dir, store) = new_store();
    store.set_aside(&store.below("ab").join("gone")).unwrap();
    narrows_files::write(store.below("cd"), "").unwrap();
    assert!(store.set_aside(&store.below("cd").join("below")).is_err());
}

#[test]
fn how_long_the_run_of_a_cell_took_is_read_from_its_record() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    kept(&store, &key, 5);
    let survey = store.survey(false).unwrap();
    assert_eq!(store.wall_s(&survey.cells[0]), Ok(0.123_456_789));
    let record = store.place(&key.name()).join("run.json");
    narrows_files::write(record, "{}").unwrap();
    let why = store.wall_s(&survey.cells[0]).unwrap_err();
    assert_eq!(why, "run.json has changed");
    let gone = Found {
        name: "0".repeat(64),
        ..survey.cells[0].clone()
    };
    assert!(store.wall_s(&gone).is_err());
}

#[test]
fn files_beside_the_shelves_are_passed_over_and_what_is_set_aside_is_no_cell() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    kept(&store, &key, 20);
    // Other data under the same name: what was there is set aside.
    kept(&store, &key, 21);
    narrows_files::write(store.dir().join(LAYOUT).join("readme"), "").unwrap();
    narrows_files::write(store.below(BEGUN).join("readme"), "").unwrap();
    let _begun = [2, 3].map(|seed| {
        let begun = store.begin(&super::key(&store, seed), Others::First);
        begun.unwrap().unwrap()
    });
    let survey = store.survey(true).unwrap();
    assert_eq!((survey.cells.len(), survey.damaged.len()), (1, 0));
    assert_eq!((survey.begun, survey.set_aside), (2, 1));
    let (found, all) = store.newest(9).unwrap();
    assert_eq!((found, all), (survey.cells, 1));
}

#[test]
fn what_was_damaged_and_what_was_set_aside_before_are_counted_together_when_removed() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    for points in [20, 21, 22] {
        kept(&store, &key, points);
    }
    narrows_files::write(store.place(&key.name()).join("summary.csv"), "").unwrap();
    narrows_files::write(store.below(DAMAGED).join("stray"), "").unwrap();
    let pruned = store.prune(&Unneeded::default()).unwrap();
    assert_eq!((pruned.damaged, pruned.cells), (4, 0));
    assert_eq!(entries_in(&store.below(DAMAGED)), 0);
}
