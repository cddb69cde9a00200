//! Cells whose digests are right and whose contents contradict each other.

use super::*;
use crate::folder::FileRecord;

type Change = fn(&mut RunRecord);

/// Keeps a cell, changes its record and describes it anew; its place.
fn with_record(store: &Store, key: &Key, change: impl FnOnce(&mut RunRecord)) -> PathBuf {
    let (_, mut run) = kept(store, key, 5);
    let place = store.place(&key.name());
    change(&mut run.record);
    let folder = Folder::at(place.clone()).unwrap();
    folder.write_record(&run.record).unwrap();
    cell::complete(&place, key, &run.record.files).unwrap();
    place
}

/// Changes the files that the description in `place` names.
fn with_files(place: &Path, change: impl FnOnce(&mut Vec<FileRecord>)) {
    let path = place.join("cell.json");
    let mut cell: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let mut files = serde_json::from_value(cell["files"].take()).unwrap();
    change(&mut files);
    cell["files"] = serde_json::to_value(files).unwrap();
    narrows_files::write(&path, cell.to_string()).unwrap();
}

fn file<'a>(files: &'a mut [FileRecord], name: &str) -> &'a mut FileRecord {
    files.iter_mut().find(|file| file.name == name).unwrap()
}

#[test]
fn a_record_of_another_run_than_the_key_s_is_damage() {
    let changes: [(Change, &str); 5] = [
        (|_| {}, ""),
        (|record| record.engine = "live".to_owned(), "another engine"),
        (
            |record| record.virtual_kernel = Some(VirtualKernel::default()),
            "another engine, kernel",
        ),
        (|record| record.seeds = vec![2], "kernel or seed"),
        (|record| record.complete = false, "not complete"),
    ];
    for (change, why) in changes {
        let (_dir, store) = new_store();
        let key = key(&store, 1);
        with_record(&store, &key, change);
        match why {
            "" => drop(taken(&store, &key)),
            why => {
                let damage = damage(&store, &key);
                assert!(damage.contains(why), "{damage}");
            }
        }
    }
}

#[test]
fn a_record_that_names_other_files_or_another_digest_of_them_is_damage() {
    let changes: [Change; 2] = [
        |record| record.digest = "0".repeat(64),
        |record| record.files[0].bytes += 1,
    ];
    for change in changes {
        let (_dir, store) = new_store();
        let key = key(&store, 1);
        let place = with_record(&store, &key, change);
        // The description has them as they are.
        with_files(&place, |files| {
            let length = |name: &str| fs::metadata(place.join(name)).unwrap().len();
            for file in files {
                file.bytes = length(&file.name);
            }
        });
        let damage = damage(&store, &key);
        assert!(damage.contains("run.json names other files"), "{damage}");
    }
}

#[test]
fn a_description_names_each_file_once_the_record_and_the_summary_among_them() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    kept(&store, &key, 5);
    let place = store.place(&key.name());
    let whole = fs::read(place.join("cell.json")).unwrap();
    let damaged = |change: &dyn Fn(&mut Vec<FileRecord>), why: &str| {
        with_files(&place, change);
        assert_eq!(damage(&store, &key), why);
        narrows_files::write(place.join("cell.json"), &whole).unwrap();
    };
    for name in ["run.json", "summary.json"] {
        let without = move |files: &mut Vec<FileRecord>| files.retain(|f| f.name != name);
        damaged(&without, &format!("cell.json names no {name}"));
    }
    damaged(
        &|files| files.push(files[0].clone()),
        "cell.json names `run.json` twice",
    );
    taken(&store, &key);
}

/// What is more than 256 MiB long is not read into memory.
#[test]
fn a_file_that_is_too_large_for_memory_is_damage() {
    let (_dir, store) = new_store();
    let key = key(&store, 1);
    kept(&store, &key, 5);
    let place = store.place(&key.name());
    for name in ["run.json", "summary.json"] {
        let sized = |bytes| with_files(&place, |files| file(files, name).bytes = bytes);
        sized((256 << 20) + 1);
        assert_eq!(damage(&store, &key), format!("{name} is too large"));
        sized(256 << 20);
        assert_eq!(damage(&store, &key), format!("{name} has changed"));
        let length = fs::metadata(place.join(name)).unwrap().len();
        sized(length);
        taken(&store, &key);
    }
    // A series is read into memory where it is opened.
    let (_dir, store) = new_store();
    let long = (256 << 20) + 1;
    with_record(&store, &key, |record| {
        file(&mut record.files, "series.csv.gz").bytes = long;
    });
    let why = store.read(&key.name()).unwrap_err();
    assert_eq!(why, "series.csv.gz is too large");
    assert_eq!(damage(&store, &key), "series.csv.gz has changed");

    let description = File::options()
        .write(true)
        .open(store.place(&key.name()).join("cell.json"))
        .unwrap();
    description.set_len(long).unwrap();
    assert_eq!(damage(&store, &key), "cell.json is too large");
}
