//! Path MTU discovery by datagrams over simulated hosts: the client and server of
//! `narrows pmtud` as an application.

use crate::rig::plan;
use crate::rig::reports::{OfApp, reports};

/// When searches ended, in milliseconds, and what they found.
fn found(ran: &OfApp) -> Vec<(u64, i64)> {
    let times = ran.times("found").into_iter();
    let times = times.map(|at| at.as_nanos() / 1_000_000);
    times.zip(ran.values("found")).collect()
}

/// A search over a path of 50 ms with these elements in both directions.
fn search(elements: &str, keys: &str, more: &str) -> OfApp {
    search_of(elements, elements, keys, more)
}

fn search_of(up: &str, down: &str, keys: &str, more: &str) -> OfApp {
    let text = format!(
        "duration = \"60s\"\n{more}\n\
         [[link]]\nname = \"path\"\nends = [\"client\", \"server\"]\n\
         up = [\"netem delay 25ms\"{up}]\n\
         down = [{}\"netem delay 25ms\"]\n\
         [[pmtud]]\nname = \"search\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n",
        down.trim_start_matches(", ").to_owned() + if down.is_empty() { "" } else { ", " },
    );
    reports(&plan(&text), "app/search")
}

const SEARCHES: [&str; 7] = [
    "adaptive",
    "binary",
    "table",
    "step 50",
    "linear 80",
    "bisect",
    "sctp",
];

#[test]
fn searches_find_the_size_that_a_hop_carries_with_its_reports_and_without() {
    for (ip, headers) in [(4, 28), (6, 48)] {
        for silent in ["", " silent"] {
            for (words, within) in SEARCHES.iter().zip([1, 1, 100, 50, 80, 20, 4]) {
                let hop = format!(", \"narrow: mtu 1400{silent}\"");
                let ran = search(&hop, &format!("search = \"{words}\"\nip = {ip}"), "");
                let [size] = ran.values("found")[..] else {
                    panic!("{words}: {:?}", ran.values("found"));
                };
                let limit = 1_400 - headers;
                let exact = within == 1 || silent.is_empty();
                let least = if exact { limit } else { limit - within + 1 };
                assert!((least..=limit).contains(&size), "{words}{silent}: {size}");
                assert_eq!(ran.total("ptb_used") > 0, silent.is_empty(), "{words}");
                assert_eq!(ran.total("black_holes"), 0);
            }
        }
    }
}

#[test]
fn a_report_saves_the_timers_of_what_is_lost_and_is_not_used_where_it_is_not_wanted() {
    let hop = ", \"narrow: mtu 1400\"";
    let keys = "search = \"binary\"\ntimer = \"400ms\"";
    let with = search(hop, keys, "");
    // 1472 is reported, what the report names arrives: two round trips.
    assert_eq!(with.values("search"), [100_000_000]);
    assert_eq!((with.total("ptb_used"), with.total("ptb_refused")), (1, 0));
    let without = search(hop, &format!("{keys}\nptb = \"off\""), "");
    assert_eq!(without.values("found"), [1_372]);
    assert_eq!(without.total("ptb_used"), 0);
    let tried = without.total("sizes_tried");
    let failed = tried - without.total("sizes_arrived");
    let expected = (50 * (tried - failed) + 3 * 400 * failed) * 1_000_000;
    assert_eq!(without.values("search"), [expected]);
    assert_eq!(without.total("ptb_refused"), 3 * failed, "each probe's");
}

#[test]
fn a_search_begins_at_start_and_ends_at_stop() {
    let ran = search(
        "",
        "start = \"5s\"\nstop = \"10s\"\nconfirm = \"100ms\"",
        "",
    );
    // A hello, the base, the largest.
    assert_eq!(found(&ran), [(5_150, 1_472)]);
    let last = *ran.times("probes").last().expect("probes");
    assert!((9.8..10.0).contains(&last.as_secs_f64()), "{last}");
}

/// An MTU that changes 20 s after the beginning.
fn changes(to: &str) -> String {
    format!(
        "[[change]]\nname = \"route\"\nat = \"20s\"\ntarget = \"link/path/narrow\"\n\
         to = \"mtu {to}\"\n"
    )
}

#[test]
fn an_mtu_that_falls_in_mid_run_is_found_again() {
    for to in ["1300", "1300 silent"] {
        let hop = ", \"narrow: mtu 1400\"";
        let ran = search(hop, "confirm = \"1s\"", &changes(to));
        let found = found(&ran);
        let [(_, before), (at, after)] = found[..] else {
            panic!("{to}: {found:?}");
        };
        assert_eq!((before, after), (1_372, 1_272), "{to}");
        assert!((20_000..24_000).contains(&at), "{to}: {at}");
        assert_eq!(ran.total("black_holes"), 1, "{to}");
    }
}

#[test]
fn an_mtu_that_rises_in_mid_run_is_found_by_the_raise_timer() {
    let hop = ", \"narrow: mtu 1400\"";
    let ran = search(hop, "raise = \"15s\"", &changes("1480"));
    let found = found(&ran);
    assert_eq!((found[0].1, found.last().expect("one").1), (1_372, 1_452));
    assert_eq!(ran.total("black_holes"), 0);
}

#[test]
fn a_path_that_is_cut_for_a_while_is_no_black_hole() {
    let loss = ", \"cut: netem loss 0%\"";
    let cut = |at: &str, name: &str, loss: &str| {
        format!(
            "[[change]]\nname = \"{name}\"\nat = \"{at}\"\ntarget = \"link/path/up/cut\"\nto = \"netem loss {loss}\"\n"
        )
    };
    let changes = cut("10s", "off", "100%") + &cut("40s", "on", "0%");
    let ran = search_of(loss, "", "confirm = \"1s\"", &changes);
    assert_eq!(found(&ran).len(), 1, "{:?}", found(&ran));
    assert_eq!(
        (ran.values("found")[0], ran.total("black_holes")),
        (1_472, 0)
    );
    let last = ran.values("plpmtu").last().copied();
    assert_eq!(last, Some(1_472));
}

#[test]
fn forged_reports_change_nothing_whatever_they_name() {
    for spoofed in [0, 68, 600, 1_300, 1_450] {
        let hop = format!(", \"narrow: mtu 1480 silent spoofs {spoofed}\"");
        for words in ["adaptive", "step 50"] {
            let ran = search(&hop, &format!("search = \"{words}\"\nconfirm = \"1s\""), "");
            let plain = search(
                ", \"narrow: mtu 1480 silent\"",
                &format!("search = \"{words}\"\nconfirm = \"1s\""),
                "",
            );
            assert_eq!(found(&ran), found(&plain), "{words} {spoofed}");
            assert_eq!(ran.total("ptb_used"), 0);
            // Below 68 bytes a host believes nothing, and its socket gets no error.
            let refused = ran.total("ptb_refused");
            assert_eq!(refused > 20, spoofed >= 68, "{words} {spoofed}: {refused}");
        }
    }
}

#[test]
fn a_report_that_names_too_much_or_too_little_costs_probes_and_no_result() {
    // A router that names its own MTU and not the next link's, and one that names too little.
    for (says, expected) in [(1_460, 1_372), (1_500, 1_372), (1_350, 1_322)] {
        let ran = search(&format!(", \"narrow: mtu 1400 says {says}\""), "", "");
        assert_eq!(ran.values("found").last(), Some(&expected), "{says}");
        assert_eq!(ran.total("black_holes"), 0);
    }
}

#[test]
fn limited_reports_leave_the_search_to_its_timers() {
    let hop = ", \"narrow: mtu 1400 limit 1\"";
    // The step's report is the only one in its second.
    for words in ["adaptive", "binary"] {
        let ran = search(hop, &format!("search = \"{words}\""), "");
        assert_eq!(ran.values("found"), [1_372], "{words}");
    }
}

#[test]
fn a_hop_in_one_direction_is_found_in_that_direction_alone() {
    let hop = ", \"narrow: mtu 1400\"";
    let up = search_of(hop, "", "", "");
    assert_eq!(up.values("found"), [1_372]);
    // What comes back is small, and fits.
    let down = search_of("", hop, "", "");
    assert_eq!(down.values("found"), [1_472]);
}

#[test]
fn random_loss_of_fifteen_percent_is_no_black_hole() {
    let loss = ", \"netem loss 15%\"";
    let ran = search(loss, "confirm = \"100ms\"", "");
    assert_eq!(ran.values("found"), [1_472]);
    assert_eq!(ran.total("black_holes"), 0);
    assert!(ran.total("probes") > 400, "{}", ran.total("probes"));
}
