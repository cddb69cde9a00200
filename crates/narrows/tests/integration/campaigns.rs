//! Campaigns: parallel cells, published beside measured, the null model.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{ModelEngine, by_seed, equal_shares, files, unwatched};
use narrows::report::table::campaign_table as table;
use narrows::results::campaign::cells_csv;
use narrows::results::folder::{CampaignFolder, open, open_run};
use narrows::{CampaignOptions, Output, Progress, Results, Watch, run_campaign};
use narrows_scenario::{Campaign, Plan, catalog};

/// A campaign of the catalogue, of which each run lasts two seconds: the model
/// engine needs no more.
fn campaign(name: &str, only: &str) -> Campaign {
    let entry = catalog::entry(name).unwrap();
    let sets = ["duration=2s", "measure=1s..2s"].map(str::to_owned);
    let mut campaign = Campaign::read(&entry.file(), entry.text.as_bytes(), &entry.shelf(), &sets)
        .unwrap_or_else(|e| panic!("{e}"));
    campaign
        .only(&[only.to_owned()])
        .unwrap_or_else(|e| panic!("{e}"));
    campaign
}

fn run(engine: &ModelEngine, campaign: &Campaign, options: &CampaignOptions) -> CampaignFolder {
    unwatched(|watch| run_campaign(engine, campaign, options, watch)).unwrap()
}

fn into(dir: &Path, jobs: usize, seeds: &[u64]) -> CampaignOptions {
    CampaignOptions {
        seeds: seeds.to_vec(),
        jobs,
        output: Output::Folder(dir.to_path_buf()),
        ..CampaignOptions::default()
    }
}

#[test]
fn the_number_of_jobs_changes_no_byte() {
    let campaign = campaign("l4s-tests/s1", "50Mbit/20-*/*/prague-*");
    let engine = ModelEngine::new(by_seed);
    let dirs: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let alone = run(&engine, &campaign, &into(dirs[0].path(), 1, &[1, 2, 3]));
    let four = run(&engine, &campaign, &into(dirs[1].path(), 4, &[1, 2, 3]));
    assert_eq!(alone.record.digest, four.record.digest);
    let (a, b) = (files(dirs[0].path()), files(dirs[1].path()));
    assert!(a == b, "files differ");
    // Sixteen cells, each with the first seed's three files and two summaries;
    // cells.csv and campaign.json.
    assert_eq!(a.len(), 16 * 5 + 2);
}

#[test]
fn a_campaign_reads_as_what_was_written_and_each_cell_is_a_run() {
    let campaign = campaign("l4s-tests/s1", "50Mbit/10-10/dualpi2/*");
    let dir = tempfile::tempdir().unwrap();
    let made = run(
        &ModelEngine::new(by_seed),
        &campaign,
        &into(dir.path(), 2, &[1]),
    );
    let Results::Campaign(read) = open(dir.path()).unwrap() else {
        panic!("it is a campaign");
    };
    assert_eq!(*read, made);
    assert!(made.record.complete);
    for cell in &made.result.cells {
        assert_eq!(cell.folder, format!("cells/{}", cell.name));
        let run = open_run(&dir.path().join(&cell.folder)).unwrap();
        assert!(run.record.complete);
        assert_eq!(
            run.summary.flows[0].goodput_mbit,
            cell.metric("rate1_mbit").unwrap().measured
        );
    }
}

#[test]
fn figures_are_medians_with_their_spread() {
    let campaign = campaign("l4s-tests/s1", "50Mbit/10-10/pfifo/prague-cubic");
    let options = CampaignOptions {
        seeds: vec![1, 2, 3],
        ..CampaignOptions::default()
    };
    let engine = ModelEngine::new(|plan, seed| match seed {
        1 => vec![30.0, 10.0],
        2 => vec![20.0, 20.0],
        _ => by_seed(plan, seed).iter().map(|_| 10.0).collect(),
    });
    let folder = run(&engine, &campaign, &options);
    let rate = folder.result.cells[0].metric("rate1_mbit").unwrap();
    assert!((rate.measured.unwrap() - 20.0).abs() < 0.05);
    assert!((rate.spread - 20.0).abs() < 0.05);
    assert_eq!(rate.by_seed.len(), 3);
    // heistp/l4s-tests: 9.78 Mbit/s for Prague beside CUBIC.
    assert_eq!(rate.published, Some(9.78));
    assert!((rate.difference.unwrap() - 10.22).abs() < 0.05);
}

/// heistp/l4s-tests, S1 at 50 Mbit/s. A model that knows nothing, and answers
/// "equal shares", must not pass for a network: the bands are worth what they
/// make it fail.
#[test]
fn a_model_of_equal_shares_fails_the_published_tables() {
    let engine = ModelEngine::new(equal_shares);
    let options = CampaignOptions::default();
    let s1 = run(&engine, &campaign("l4s-tests/s1", "50Mbit/*"), &options).result;
    assert_eq!(s1.cells.len(), 96);
    let check = |group: &str| {
        s1.checks
            .iter()
            .find(|c| c.group.starts_with(group))
            .unwrap_or_else(|| panic!("no check of {group}"))
    };
    for group in ["dualpi2", "pfifo"] {
        let check = check(group);
        assert_eq!(check.judged, 24);
        assert!(!check.passed, "{}", check.line);
    }
    assert!(!s1.passed());
    let s6 = run(&engine, &campaign("l4s-tests/s6", "*"), &options).result;
    assert!(s6.checks.iter().all(|c| !c.passed && c.inside == 0));
}

/// The other way round: a model that answers with the published rates passes.
#[test]
fn a_model_of_the_published_rates_passes() {
    fn published(plan: &Plan, _: u64) -> Vec<f64> {
        let cells = &campaign("l4s-tests/s1", "50Mbit/*/*/*").cells;
        let cell = cells.iter().find(|c| c.name == plan.name).unwrap();
        cell.published[..2].iter().map(|p| p.unwrap()).collect()
    }
    let campaign = campaign("l4s-tests/s1", "50Mbit/160-10/*");
    let folder = run(
        &ModelEngine::new(published),
        &campaign,
        &CampaignOptions::default(),
    );
    for check in &folder.result.checks {
        assert!(
            check.passed && check.inside == check.judged,
            "{}",
            check.line
        );
    }
    // A band for each queue, and the check of two Prague flows' RTTs.
    assert_eq!(folder.result.checks.len(), 5);
    assert!(folder.result.passed());
}

#[test]
fn a_cell_that_fails_says_why_and_stops_no_other() {
    let campaign = campaign("l4s-tests/s1", "50Mbit/10-10/*/prague-cubic");
    let mut engine = ModelEngine::new(by_seed);
    engine.panics_on = Some("cnq_codel_af");
    let dir = tempfile::tempdir().unwrap();
    let folder = run(&engine, &campaign, &into(dir.path(), 2, &[1]));
    assert_eq!(folder.result.cells.len(), 4);
    let cell = folder
        .result
        .cell("50Mbit/10-10/cnq_codel_af/prague-cubic")
        .unwrap();
    assert!(cell.error.as_deref().unwrap().contains("has no law"));
    assert_eq!(cell.metrics[0].measured, None);
    assert_eq!(cell.metric("share1_pct").unwrap().within, Some(false));
    assert!(!folder.result.passed());
    assert!(folder.record.verdict.line().contains("one cell failed"));
    assert!(table(&folder.result, Some(120)).contains("prague-cubic: failed, the engine panicked"));
}

#[test]
fn an_interrupted_campaign_keeps_the_cells_that_were_done() {
    let campaign = campaign("l4s-tests/s1", "50Mbit/10-10/*");
    let dir = tempfile::tempdir().unwrap();
    let cancel = AtomicBool::new(false);
    let progress = |p: Progress<'_>| {
        if let Progress::Cells { done: 5.., .. } = p {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let watch = Watch {
        cancel: &cancel,
        progress: &progress,
    };
    let engine = ModelEngine::new(by_seed);
    run_campaign(&engine, &campaign, &into(dir.path(), 1, &[1]), &watch).unwrap();
    let Results::Campaign(read) = open(dir.path()).unwrap() else {
        panic!("it is a campaign");
    };
    assert!(!read.record.complete && !read.result.complete);
    assert_eq!((read.result.cells.len(), read.result.planned), (5, 16));
    assert!(table(&read.result, Some(80)).contains("incomplete: 5 of 16 cells"));
}

#[test]
fn progress_counts_every_cell_once_and_ends_with_nothing_left() {
    let campaign = campaign("l4s-tests/s1", "50Mbit/10-10/*");
    let seen = Mutex::new(Vec::new());
    let cancel = AtomicBool::new(false);
    let progress = |p: Progress<'_>| {
        if let Progress::Cells { done, of, left, .. } = p {
            seen.lock().unwrap().push((done, of, left));
        }
    };
    let watch = Watch {
        cancel: &cancel,
        progress: &progress,
    };
    let options = CampaignOptions {
        jobs: 3,
        ..CampaignOptions::default()
    };
    run_campaign(&ModelEngine::new(by_seed), &campaign, &options, &watch).unwrap();
    let seen = seen.into_inner().unwrap();
    let counts: Vec<usize> = seen.iter().map(|s| s.0).collect();
    assert_eq!(counts, (1..=16).collect::<Vec<_>>());
    assert!(seen.iter().all(|s| s.1 == 16));
    assert!(seen.last().unwrap().2.as_millis() == 0);
}

#[test]
fn the_table_puts_published_beside_measured() {
    let campaign = campaign("l4s-tests/s1", "*/160-10/dualpi2/*");
    let folder = run(
        &ModelEngine::new(equal_shares),
        &campaign,
        &CampaignOptions::default(),
    );
    insta::assert_snapshot!("table_wide", table(&folder.result, Some(200)));
    insta::assert_snapshot!("table_narrow", table(&folder.result, Some(80)));
    insta::assert_snapshot!("cells_csv", cells_csv(&folder.result));
}
