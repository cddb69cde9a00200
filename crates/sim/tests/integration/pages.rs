//! Web pages: how long they take where it can be computed, and what loss does to them.

use crate::rig::reports::{OfApp, reports};
use crate::rig::{dumbbell, plan};

const MS: i64 = 1_000_000;

fn web(keys: &str) -> String {
    format!("[[web]]\nname = \"w\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n")
}

/// With `down` on the way back, which has a delay of 10 ms.
fn run(keys: &str, down: &str) -> OfApp {
    let text = dumbbell("pfifo limit 1000", &web(keys));
    let text = text.replace(
        "down = [\"netem delay 10ms\"]",
        &format!("down = [\"netem delay 10ms limit 10000\"{down}]"),
    );
    reports(&plan(&text), "app/w")
}

#[test]
fn a_page_takes_a_round_trip_for_each_handshake_and_each_object_of_a_connection() {
    for (page, connections, least) in [
        // The handshake and the document.
        ("1x1000", 6, 40),
        // Then six objects one after the other.
        ("1x1000 6x1000", 1, 160),
        // Or over the connection that there is, twice, and five that are opened.
        ("1x1000 7x1000", 6, 80),
        // Two by two: two over the first while the second is opened, then two and two.
        ("1x1000 6x1000", 2, 120),
        // Each level waits for all of the one before.
        ("1x1000 1x1000 1x1000 1x1000", 6, 100),
    ] {
        let keys = format!("page = \"{page}\"\nconnections = {connections}\nthink = \"1s\"");
        let pages = run(&keys, "");
        let loads = pages.values("load");
        assert!(loads.len() >= 8, "{page}: {loads:?}");
        let within = |load: &i64| (least * MS..(least + 3) * MS).contains(load);
        assert!(
            loads.iter().all(within),
            "{page} by {connections}: {loads:?}"
        );
        assert_eq!(pages.total("repeated"), 0);
        let objects = page
            .split(' ')
            .map(|level| level.split('x').next().expect("a count"));
        let objects: i64 = objects
            .map(|count| count.parse::<i64>().expect("a number"))
            .sum();
        let loaded = objects * loads.len() as i64;
        let more = pages.total("objects") - loaded;
        assert!((0..objects).contains(&more), "{page}: {more}");
    }
}

#[test]
fn the_median_page_takes_its_bytes_at_the_rate_of_the_line_and_little_more() {
    // 2652 kB in segments of 1448 bytes and 66 of headers: 1.135 s at 20 Mbit/s. Four levels
    // and slow starts add some round trips.
    let pages = run("think = \"1s\"", ", \"rate 20Mbit queue fq_codel\"");
    let loads = pages.values("load");
    assert!(loads.len() >= 3, "{loads:?}");
    let within = |load: &i64| (1_135 * MS..1_700 * MS).contains(load);
    assert!(loads.iter().all(within), "{loads:?}");
    let pages_begun = pages.total("pages");
    assert!(pages_begun - loads.len() as i64 <= 1, "{pages_begun}");
}

#[test]
fn loss_makes_pages_slow_and_leaves_none_unfinished() {
    let keys = "page = \"1x10kb 20x10kb\"\nthink = \"100ms\"";
    let clean = run(keys, "");
    let lossy = run(keys, ", \"netem loss 2%\"");
    let mean = |pages: &OfApp| pages.mean("load", 1e6);
    assert!(
        mean(&lossy) > 1.5 * mean(&clean),
        "{} {}",
        mean(&lossy),
        mean(&clean)
    );
    assert!(lossy.total("pages") - lossy.values("load").len() as i64 <= 1);
    assert_eq!(lossy.total("repeated"), 0);
}
