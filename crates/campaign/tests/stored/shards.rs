use std::path::Path;

use narrows_campaign::{
    CampaignOptions, Cells, Costs, Division, Shard, ShardDone, Use, merge_campaign, run_shard,
};
use narrows_results::{Error, Output};
use narrows_scenario::Campaign;

use crate::rig::{Counted, Place, RATES, campaign, of, options, run, watched};
use crate::support::files;

/// Runs one shard of `campaign` with these seeds; what it ran.
fn shard(
    engine: &Counted,
    campaign: &Campaign,
    (number, count): (u64, u64),
    seeds: &[u64],
    cells: Option<Cells>,
) -> (Result<ShardDone, Error>, Vec<String>) {
    let mut division = Division::new(Shard::new(number, count).unwrap(), Costs::default());
    let part = division.part(campaign, seeds);
    let options = CampaignOptions {
        output: Output::Nowhere,
        ..options(Path::new(""), seeds, cells)
    };
    let done = watched(engine, |watch| {
        run_shard(engine, campaign, &options, &part, watch)
    });
    (done.0, engine.ran())
}

#[test]
fn shards_run_every_run_once_and_merge_to_what_one_campaign_is() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign(RATES, ""));
    let plain = run(
        &engine,
        &campaign,
        &options(&at.out("plain"), &[1, 2, 3], None),
    );
    let plain = plain.0.unwrap();
    let mut all = engine.ran();
    let mut ran = Vec::new();
    let mut stores = Vec::new();
    for number in 1..=4 {
        let store = at.store(&format!("shard-{number}"));
        stores.push(store.clone());
        let (done, some) = shard(&engine, &campaign, (number, 4), &[1, 2, 3], of(store));
        let done = done.unwrap();
        assert_eq!((done.done, done.taken), (some.len(), 0));
        assert!((4..=5).contains(&some.len()), "{some:?}");
        ran.extend(some);
    }
    all.sort();
    ran.sort();
    assert_eq!(ran, all);
    let merge = Cells {
        stores,
        how: Use::Merge,
        must_keep: true,
    };
    let options = options(&at.out("merged"), &[1, 2, 3], Some(merge));
    let merged = watched(&engine, |watch| {
        merge_campaign(&engine, &campaign, &options, watch)
    });
    assert_eq!(merged.0.unwrap().folder.record.digest, plain.record.digest);
    assert_eq!(engine.ran(), Vec::<String>::new());
    assert!(
        files(&at.out("merged")) == files(&at.out("plain")),
        "files differ"
    );
}

#[test]
fn what_a_store_has_changes_no_shard_and_is_not_run_again() {
    let (at, engine, campaign) = (Place::new(), Counted::new(), campaign(RATES, ""));
    let store = at.store("cells");
    let (_, whole) = shard(&engine, &campaign, (2, 2), &[1], of(at.store("empty")));
    // Another shard's runs, and one of this one's.
    shard(&engine, &campaign, (1, 2), &[1], of(store.clone()))
        .0
        .unwrap();
    let mut one = campaign.clone();
    one.only(&[whole[0].split('/').next().unwrap().to_owned()])
        .unwrap();
    shard(&engine, &one, (1, 1), &[1], of(store.clone()))
        .0
        .unwrap();
    let (done, ran) = shard(&engine, &campaign, (2, 2), &[1], of(store));
    assert_eq!(ran, whole[1..]);
    assert_eq!(done.unwrap().taken, 1);
}

#[test]
fn runs_that_fail_are_named_and_an_interrupt_ends_a_shard() {
    let (at, campaign) = (Place::new(), campaign(RATES, ""));
    let mut engine = Counted::new();
    engine.model.panics_on = Some("60");
    let panics = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let (done, _) = shard(&engine, &campaign, (1, 1), &[1], of(at.store("cells")));
    std::panic::set_hook(panics);
    let done = done.unwrap();
    assert_eq!(done.done, 6);
    let [failed] = &done.failed[..] else {
        panic!("{done:?}");
    };
    assert_eq!((failed.cell.as_str(), failed.seed), ("60", 1));
    assert!(failed.why.contains("panicked"), "{failed:?}");
    let mut engine = Counted::new();
    engine.cancels_after = 2;
    let (done, _) = shard(&engine, &campaign, (1, 1), &[1], of(at.store("other")));
    assert_eq!(done.unwrap().done, 2);
}

#[test]
fn a_shard_that_could_leave_nothing_is_refused() {
    let (at, campaign) = (Place::new(), campaign("[50]", ""));
    let mut engine = Counted::new();
    let (refused, _) = shard(&engine, &campaign, (1, 1), &[1], None);
    assert!(refused.unwrap_err().is_refusal());
    engine.alone = true;
    let (refused, ran) = shard(&engine, &campaign, (1, 1), &[1], of(at.store("cells")));
    assert!(refused.unwrap_err().is_refusal() && ran.is_empty());
}
