use std::fs;
use std::path::Path;

use narrows_campaign::{CampaignOptions, Cells, Merged, Use, merge_campaign};
use narrows_results::Error;
use narrows_results::store::{Difference, Store};
use narrows_scenario::Campaign;

use crate::rig::{Counted, Place, RATES, campaign, of, options, run, watched};
use crate::support::files;

/// A campaign, the stores that it was run into in parts, and an engine that runs nothing more.
struct Sweep {
    at: Place,
    engine: Counted,
    campaign: Campaign,
}

impl Sweep {
    fn new(rates: &str) -> Self {
        Self {
            at: Place::new(),
            engine: Counted::new(),
            campaign: campaign(rates, ""),
        }
    }

    /// Runs the cells of these names into `store`.
    fn part(&self, patterns: &[&str], store: Store) {
        let mut part = self.campaign.clone();
        let patterns: Vec<String> = patterns.iter().map(|p| (*p).to_owned()).collect();
        part.only(&patterns).unwrap();
        let options = CampaignOptions {
            output: narrows_results::Output::Nowhere,
            ..options(Path::new(""), &[1], of(store))
        };
        run(&self.engine, &part, &options).0.unwrap();
        self.engine.ran();
    }

    fn merge(&self, out: &str, stores: &[&str]) -> (Result<Merged, Error>, Vec<String>) {
        let merge = Cells {
            stores: stores.iter().map(|name| self.at.store(name)).collect(),
            how: Use::Merge,
            must_keep: true,
        };
        let options = options(&self.at.out(out), &[1], Some(merge));
        let merged = watched(&self.engine, |watch| {
            merge_campaign(&self.engine, &self.campaign, &options, watch)
        });
        assert_eq!(self.engine.ran(), Vec::<String>::new(), "something was run");
        merged
    }

    /// The folder of the only cell called `name` in `store`.
    fn cell(&self, store: &str, name: &str) -> std::path::PathBuf {
        let survey = self.at.store(store).survey(false).unwrap();
        let mut of_name = survey.cells.iter().filter(|c| c.key.scenario() == name);
        let found = of_name.next().unwrap();
        assert!(of_name.next().is_none());
        let shelf = self.at.out(store).join("v1").join(&found.name[..2]);
        shelf.join(&found.name)
    }
}

fn missing(merged: &Merged) -> Vec<(&str, &str)> {
    let runs = merged.missing.iter();
    runs.map(|run| (run.cell.as_str(), run.why.as_str()))
        .collect()
}

#[test]
fn what_stores_are_merged_from_is_the_same_as_one_run_and_nothing_is_run_or_made_up() {
    let sweep = Sweep::new(RATES);
    let at = &sweep.at;
    let plain = run(
        &sweep.engine,
        &sweep.campaign,
        &options(&at.out("plain"), &[1], None),
    )
    .0
    .unwrap();
    sweep.part(&["50", "60", "70"], at.store("a"));
    sweep.part(&["70", "80", "90"], at.store("b"));
    let merged = sweep.merge("partly", &["a", "b"]).0.unwrap();
    let [(cell, why)] = missing(&merged)[..] else {
        panic!("{merged:?}");
    };
    assert!(cell == "100" && why.contains("it is not in "), "{why}");
    assert_eq!(merged.near, []);
    let failed = merged.folder.result.cells.iter();
    let failed: Vec<_> = failed.filter(|c| c.error.is_some()).collect();
    assert!(failed.len() == 1 && failed[0].name == "100");
    sweep.part(&["100"], at.store("c"));
    let merged = sweep.merge("all", &["a", "b", "c"]).0.unwrap();
    assert_eq!(merged.folder.record.digest, plain.record.digest);
    assert_eq!((merged.missing.len(), merged.near.len()), (0, 0));
    assert!(
        files(&at.out("all")) == files(&at.out("plain")),
        "files differ"
    );
}

#[test]
fn stores_that_disagree_are_not_merged() {
    let sweep = Sweep::new("[50, 60]");
    sweep.part(&["50", "60"], sweep.at.store("a"));
    let mut other = Counted::new();
    other.model.law = |plan, _| vec![1.0; plan.flows.len()];
    let mut one = sweep.campaign.clone();
    one.only(&["50".to_owned()]).unwrap();
    let wrong = options(&sweep.at.out("out-d"), &[1], of(sweep.at.store("d")));
    run(&other, &one, &wrong).0.unwrap();
    for stores in [["a", "d"], ["d", "a"]] {
        let merged = sweep.merge(&stores.concat(), &stores).0.unwrap();
        let [("50", why)] = missing(&merged)[..] else {
            panic!("{merged:?}");
        };
        assert!(why.contains("have other data of it"), "{why}");
    }
}

#[test]
fn a_damaged_cell_is_not_merged_and_a_sound_one_of_another_store_is() {
    let sweep = Sweep::new("[50, 60]");
    for store in ["a", "b"] {
        sweep.part(&["50", "60"], sweep.at.store(store));
    }
    let damaged = sweep.cell("a", "50");
    fs::write(damaged.join("summary.csv"), "").unwrap();
    let before = files(&sweep.at.out("a"));
    let merged = sweep.merge("alone", &["a"]).0.unwrap();
    let [("50", why)] = missing(&merged)[..] else {
        panic!("{merged:?}");
    };
    assert!(why.contains("it is damaged in ") && why.contains("summary.csv has changed"));
    let (merged, notes) = sweep.merge("both", &["a", "b"]);
    assert_eq!(missing(&merged.unwrap()), []);
    assert!(notes[0].contains("summary.csv has changed"), "{notes:?}");
    // A store that is merged is only read.
    assert!(files(&sweep.at.out("a")) == before, "the store has changed");
}

#[test]
fn cells_of_other_versions_or_values_are_named_and_not_taken() {
    let sweep = Sweep::new("[50, 60, 70]");
    let newer = Store::open(sweep.at.out("cells"), "2".to_owned()).unwrap();
    sweep.part(&["50", "60"], newer);
    let options = options(&sweep.at.out("other"), &[1], of(sweep.at.store("cells")));
    let mut other = campaign("[70]", "");
    other.cells[0].plan.duration = narrows_units::Duration::from_secs(3);
    run(&sweep.engine, &other, &options).0.unwrap();
    sweep.engine.ran();
    let merged = sweep.merge("out", &["cells"]).0.unwrap();
    assert_eq!(merged.missing.len(), 3);
    let version = Difference::Version("2".to_owned());
    assert_eq!(merged.near, [(version, 2), (Difference::Values, 1)]);
}

#[test]
fn an_engine_whose_runs_are_in_no_store_is_refused() {
    let mut sweep = Sweep::new("[50]");
    sweep.engine.alone = true;
    let refused = sweep.merge("out", &["cells"]).0.unwrap_err();
    assert!(refused.is_refusal(), "{refused}");
    assert!(!sweep.at.out("out").exists());
}
