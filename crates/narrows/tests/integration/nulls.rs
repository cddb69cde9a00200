//! What the checks of the L4S campaigns are worth: each fails where what it judges is not there, such as
//! CUBIC in Prague's place, one queue in that of many, a path without bursts. Over all cells this is in
//! `docs/campaigns.md`; here are the cells that take little time.

use crate::shapes::{account, campaign, judged};
use narrows_results::campaign::{CampaignResult, CheckResult};
use narrows_sim::SimEngine;

/// TCP Prague and its null model.
const CUBIC_FOR_PRAGUE: (&str, &str) = ("\"prague variant 2020\"", "\"cubic\"");

/// The checks called `id`, of which there is one.
fn check<'a>(result: &'a CampaignResult, id: &str) -> &'a CheckResult {
    let found = result.checks.iter().find(|check| check.group == id);
    found.unwrap_or_else(|| panic!("no check {id}: {}", account(result)))
}

/// In `cells` of the campaign `checks` pass, and with `edit` made to its text none does.
fn needs(name: &str, cells: &[&str], edit: (&str, &str), checks: &[&str]) {
    let right = judged(&SimEngine, &campaign(name, cells, &[]));
    let null = judged(&SimEngine, &campaign(name, cells, &[edit]));
    for id in checks {
        let line = &check(&right, id).line;
        assert!(line.starts_with("pass"), "{name}: {}", account(&right));
        let line = &check(&null, id).line;
        assert!(line.starts_with("FAIL"), "{name}, {edit:?}: {line}");
    }
}

#[test]
fn cubic_keeps_no_queue_when_the_rate_falls() {
    needs(
        "l4s-tests/s2",
        &["50-1Mbit/80/fq_codel/{prague,cubic}/clean"],
        CUBIC_FOR_PRAGUE,
        &["spike-1Mbit", "longer-than-cubic"],
    );
    needs(
        "l4s-tests/s3",
        &["20/{fq_codel/prague,fq_codel-noecn/cubic}/clean"],
        CUBIC_FOR_PRAGUE,
        &["standing-queue"],
    );
}

#[test]
fn a_fifo_delays_the_probe() {
    needs(
        "l4s-tests/s4",
        &["1-10Mbit/20/fq_codel/cubic"],
        (
            "up_queue = \"fq_codel\", down_queue = \"fq_codel\"",
            "up_queue = \"pfifo limit {up_limit}\", down_queue = \"pfifo limit {down_limit}\"",
        ),
        &["fq-probe"],
    );
}

#[test]
fn ports_of_their_own_and_one_for_all_are_told_apart() {
    let one = "l4s-tests/s5";
    needs(
        one,
        &["wireguard/prague-cubic"],
        ("words = \"wireguard\"", "words = \"fou sport auto\""),
        &["one-five-tuple"],
    );
    needs(
        one,
        &["fou-auto/prague-cubic"],
        ("words = \"fou sport auto\"", "words = \"fou\""),
        &["automatic-ports"],
    );
}

#[test]
fn without_a_window_nothing_is_dropped_below_it() {
    needs(
        "l4s-tests/tunnel-replay",
        &["20Mbit/{off,32}"],
        ("packets = \"32\"", "packets = \"off\""),
        &["window-32"],
    );
}

#[test]
fn cubic_bears_bursts() {
    needs(
        "l4s-tests/bursty-link",
        &["20Mbit-7ms/step-*/prague"],
        CUBIC_FOR_PRAGUE,
        &["step"],
    );
    needs(
        "l4s-tests/bursty-traffic",
        &["prague-dualpi2/{none,in-l}"],
        CUBIC_FOR_PRAGUE,
        &["prague", "Prague"],
    );
    needs(
        "l4s-tests/bursty-rivals",
        &["20/step-1ms/{none,prague}"],
        CUBIC_FOR_PRAGUE,
        &["smooth", "turned"],
    );
}

#[test]
fn a_path_without_bursts_turns_nothing_round() {
    needs(
        "l4s-tests/bursty-rivals",
        &["20/step-1ms/prague"],
        ("slot 800us 5ms packets 16 ", ""),
        &["turned"],
    );
    needs(
        "l4s-tests/between-flow-delay",
        &["frames/*/dualpi2", "even/20Mbit/fq_codel"],
        ("netem slot 33ms limit 10000", "netem limit 10000"),
        &["frames"],
    );
}

#[test]
fn cubic_harms_no_service_and_short_flows_less() {
    needs(
        "l4s-tests/service-harm",
        &["sledovanitv/fq_codel(1q)"],
        CUBIC_FOR_PRAGUE,
        &["lower", "frozen"],
    );
    needs(
        "l4s-tests/fct-harm",
        &["20ms/fq_codel(1q)/*"],
        CUBIC_FOR_PRAGUE,
        &["harm"],
    );
}

#[test]
fn a_mark_that_no_bearer_heeds_changes_nothing() {
    for (name, cells, edit, id) in [
        (
            "mami/bearers-honest",
            "audio/*",
            ("marked   = { dscp = 46 }", "marked   = { dscp = 0 }"),
            "audio",
        ),
        (
            "mami/bearers-cheat",
            "*",
            ("cheating = { dscp = 46 }", "cheating = { dscp = 0 }"),
            "liar",
        ),
        (
            "mami/bearers-many",
            "*",
            (
                "half = { low = 46, high = 0 }",
                "half = { low = 0, high = 0 }",
            ),
            "marked",
        ),
    ] {
        needs(name, &[cells], edit, &[id]);
    }
}

#[test]
fn one_queue_gives_stations_no_equal_airtime() {
    needs(
        "wifi/anomaly",
        &["*"],
        ("rule = \"airtime\"", "rule = \"fifo\""),
        &["fair", "gain"],
    );
}

#[test]
fn the_best_channel_alone_is_no_fair_share() {
    needs(
        "cell/scheduler",
        &["*"],
        ("{ rule = \"pf\" }", "{ rule = \"max-rate\" }"),
        &["pf"],
    );
}

#[test]
fn one_byte_more_is_beyond_a_quota_and_a_shortened_one_is_not_all_of_it() {
    for bytes in ["16777217", "16777215"] {
        needs(
            "mami/monroe",
            &["it-6"],
            ("bytes = 16777216", &format!("bytes = {bytes}")),
            &["quota"],
        );
    }
}

/// Every edge, those that reordering or loss made among them, gives other samples than VEC.
#[test]
fn observers_of_different_techniques_do_not_agree_about_both_sides() {
    needs(
        "mami/monroe",
        &["it-6"],
        (
            "out_d = \"vec.full_rtt_responder.n",
            "out_d = \"spin.full_rtt_responder.n",
        ),
        &["sides"],
    );
}

#[test]
fn a_fifo_has_a_mix_wait() {
    let fifo = ("words = \"fq_codel\"", "words = \"pfifo limit 413\"");
    needs(
        "mami/mixes",
        &["22Mbit/{pfifo,fq_codel,cake,dualpi2}"],
        fifo,
        &["wait", "pages"],
    );
}
