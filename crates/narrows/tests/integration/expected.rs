//! Cells that are meant to fail: the campaign can be trusted if they do, and only then.

use crate::support::unwatched;
use narrows_campaign::{CampaignOptions, run_campaign};
use narrows_results::folder::CampaignFolder;
use narrows_scenario::{Campaign, catalog};
use narrows_sim::SimEngine;

/// A box that lets everything through, and one that lets nothing through.
const BOXES: &str = r#"
version = 1
kind = "campaign"
name = "mine"
cell = "{box}"
[scenario]
duration = "4s"
[[scenario.link]]
name = "access"
ends = ["client", "server"]
up = ["netem delay 5ms", "bottleneck: rate 5Mbit queue fq_codel", "box: mmb add all accept"]
down = ["netem delay 5ms"]
[[scenario.flow]]
name = "bulk"
from = "client"
to = "server"
cc = "cubic"
[axis.box]
open = { rules = "add all accept" }
shut = { rules = "add all drop" }
[set]
"link/access/up/box" = "mmb {rules}"
[metric]
rate_mbit = "goodput_mbit of flow/bulk"
"#;

fn run(campaign: &Campaign) -> CampaignFolder {
    let options = CampaignOptions {
        seeds: vec![1, 2],
        ..CampaignOptions::default()
    };
    unwatched(|w| run_campaign(&SimEngine, campaign, &options, w)).unwrap()
}

/// The campaign with these findings expected in `cells`.
fn expecting(cells: &str) -> CampaignFolder {
    let more = format!(
        "[[expected]]\ncells = \"{cells}\"\n\
         verdict = [\"never-started\", \"nothing-delivered\", \"idle-bottleneck\"]\n"
    );
    let text = format!("{BOXES}{more}");
    let shelf = catalog::entry("mmb/boxes").unwrap().shelf();
    run(&Campaign::read("mine.toml", text.as_bytes(), &shelf, &[]).unwrap())
}

#[test]
fn a_cell_that_fails_as_it_is_meant_to_is_trusted() {
    let folder = expecting("shut");
    assert!(
        folder.record.verdict.trusted(),
        "{}",
        folder.record.verdict.line()
    );
    let shut = folder.result.cell("shut").unwrap();
    assert!(shut.verdict.findings.len() >= 3);
    for finding in &shut.verdict.findings {
        assert!(finding.line.starts_with("as expected, "), "{finding:?}");
    }
}

#[test]
fn a_cell_that_is_meant_to_fail_and_does_not_is_not_trusted() {
    let folder = expecting("*");
    assert!(!folder.record.verdict.trusted());
    let open = folder.result.cell("open").unwrap();
    let absent: Vec<_> = open.verdict.reasons().map(|f| &*f.check).collect();
    assert_eq!(absent, ["expected-absent"; 3], "{}", open.verdict.line());
    assert!(folder.result.cell("shut").unwrap().verdict.trusted());
}

#[test]
fn what_fails_behind_the_ready_boxes_is_what_their_campaign_says() {
    let entry = catalog::entry("mmb/boxes").unwrap();
    let mut campaign =
        Campaign::read(&entry.file(), entry.text.as_bytes(), &entry.shelf(), &[]).unwrap();
    let cells = "{udp-block/quic,spin-clear/quic,reserved-clear/prague,none/quic}";
    campaign.only(&[cells.to_owned()]).unwrap();
    let options = CampaignOptions::default();
    let folder = unwatched(|w| run_campaign(&SimEngine, &campaign, &options, w)).unwrap();
    for cell in &folder.result.cells {
        assert!(
            cell.verdict.trusted(),
            "{}: {}",
            cell.name,
            cell.verdict.line()
        );
    }
    assert_eq!(folder.result.cells.len(), 4);
}
