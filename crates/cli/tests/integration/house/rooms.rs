//! Which crate may use which, and how large one may be.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use super::{floors, folder, list, metadata, ours, product, sources, text};
use crate::tree::{files, root};

#[test]
fn a_crate_uses_only_crates_of_lower_floors() {
    let metadata = metadata();
    let floors = floors();
    let present: BTreeSet<_> = ours(&metadata).iter().map(|p| text(p, "name")).collect();
    let listed: BTreeSet<_> = floors.keys().map(String::as_str).collect();
    assert_eq!(
        present, listed,
        "the crates, and those with a floor in CONTRIBUTING.md"
    );
    let mut wrong = Vec::new();
    for package in ours(&metadata) {
        let name = text(package, "name");
        for used in list(package, "dependencies") {
            let other = text(used, "name");
            if used["path"].is_null() {
                continue;
            }
            // Any test may use the mutation fuzzer, and nothing else may; a crate's own
            // tests name it again to ask for its controls of tests.
            let wrongly = match other {
                "narrows-fuzz" => text(used, "kind") != "dev",
                _ if other == name => text(used, "kind") != "dev",
                _ => floors[other] >= floors[name],
            };
            if wrongly {
                wrong.push(format!("{name} uses {other}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}

/// Results, what judges campaigns and what draws pages link no engine, and nothing that only Linux has: a folder
/// is read without a simulator, libbpf or netlink.
#[test]
fn what_reads_results_links_no_engine() {
    const READERS: [&str; 5] = [
        "narrows-reduce",
        "narrows-results",
        "narrows-campaign",
        "narrows-report",
        "narrows-descriptors",
    ];
    const ENGINES: [&str; 5] = [
        "narrows-sim",
        "narrows-live",
        "narrows-kernel",
        "narrows-linux",
        "narrows-bpf",
    ];
    let metadata = metadata();
    let mut links: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in ours(&metadata) {
        let used = list(package, "dependencies").iter();
        let linked = used.filter(|used| text(used, "kind") != "dev" && !used["path"].is_null());
        links.insert(
            text(package, "name"),
            linked.map(|used| text(used, "name")).collect(),
        );
    }
    for reader in READERS {
        let mut reached = vec![reader];
        let mut next = 0;
        while let Some(name) = reached.get(next) {
            for used in &links[name] {
                if !reached.contains(used) {
                    reached.push(used);
                }
            }
            next += 1;
        }
        assert!(
            reached.contains(&"narrows-scenario"),
            "{reader} is above the plan"
        );
        for engine in ENGINES {
            assert!(!reached.contains(&engine), "{reader} links {engine}");
        }
    }
}

/// Lines of Rust, C, the page and the Python package, tests left out: a crate with more of them
/// does several things, and is to be divided.
#[test]
fn no_crate_has_more_than_8_percent_of_the_tree() {
    let metadata = metadata();
    let read = |file: PathBuf| fs::read_to_string(file).expect("a source file");
    let lines = |package: &&Value| -> (String, usize) {
        let rust = sources(package)
            .into_iter()
            .map(|file| product(&read(file)));
        let home = folder(package);
        let c = [".c", ".h"].map(|ending| files(&home, ending)).concat();
        let of_tests = |file: &PathBuf| file.starts_with(home.join("tests"));
        let c = c.into_iter().filter(|file| !of_tests(file)).map(read);
        let count = rust.chain(c).map(|code| code.lines().count()).sum();
        (text(package, "name").to_owned(), count)
    };
    let rooms: BTreeMap<String, usize> = ours(&metadata).iter().map(lines).collect();
    let page = files(&root().join("web/src"), ".ts");
    let package = files(&root().join("python/narrows"), ".py");
    let faces = page
        .into_iter()
        .chain(package)
        .map(|file| read(file).lines().count());
    let all = rooms.values().sum::<usize>() + faces.sum::<usize>();
    let (largest, size) = rooms.iter().max_by_key(|(_, size)| **size).expect("crates");
    assert!(
        size * 100 <= all * 8,
        "{largest} has {size} of {all} lines: divide it by what it does"
    );
}

/// `scripts/test` runs the tests of a package that it does not name at the lowest priority, where a timeout
/// may pass: a package that was renamed must not get there unseen.
#[test]
fn the_packages_whose_tests_run_in_real_time_exist() {
    let script = fs::read_to_string(root().join("scripts/test")).expect("scripts/test");
    let live = script.lines().find_map(|line| line.strip_prefix("LIVE='"));
    let live = live.and_then(|line| line.strip_suffix('\'')).expect("LIVE");
    let metadata = metadata();
    let present: BTreeSet<_> = ours(&metadata).iter().map(|p| text(p, "name")).collect();
    let named: BTreeSet<_> = live.split(' ').collect();
    assert!(named.contains("narrows-live"));
    let unknown: Vec<_> = named.difference(&present).collect();
    assert_eq!(unknown, Vec::<&&str>::new());
}
