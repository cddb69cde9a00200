//! What the verdict says of applications and their hosts, in simulated runs.

use crate::support::{plan_of, run};
use narrows_results::verdict::Verdict;
use narrows_sim::SimEngine;

/// The verdict of `tables` over 10 Mbit/s and 20 ms for 12 s, with these words besides on the way
/// from the client.
fn verdict(up: &str, tables: &str) -> Verdict {
    let text = format!(
        "version = 1\nname = \"apps\"\nduration = \"12s\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
         up   = [\"netem delay 10ms{up}\", \"rate 10Mbit queue fq_codel\"]\n\
         down = [\"netem delay 10ms\", \"rate 10Mbit queue fq_codel\"]\n{tables}"
    );
    run(&SimEngine, &plan_of(&text)).record.verdict
}

fn app(kind: &str, keys: &str) -> String {
    let ends = "from = \"client\"\nto = \"server\"";
    format!("[[app]]\nkind = \"{kind}\"\nname = \"a\"\n{ends}\n{keys}\n")
}

/// Checks that speak against a run, and what they are about.
fn against(verdict: &Verdict) -> Vec<(&str, &str)> {
    let reasons = verdict.reasons();
    reasons
        .map(|f| (f.check.as_str(), f.entity.as_str()))
        .collect()
}

/// Each kind, with parameters by which it delivers something within seconds.
const KINDS: [(&str, &str); 8] = [
    ("request", ""),
    ("request", "connection = \"new\"\ntransport = \"quic\""),
    ("short", "arrivals = \"every 200ms\""),
    ("web", "page = \"1x10kb 4x20kb\"\nthink = \"1s\""),
    ("video", "ladder = \"1Mbit\""),
    ("call", ""),
    ("call", "direction = \"up\"\nmedia = \"video\""),
    ("pmtud", ""),
];

#[test]
fn an_application_that_delivers_nothing_is_not_trusted_and_one_that_delivers_is() {
    for (kind, keys) in KINDS {
        let found = verdict("", &app(kind, keys));
        assert_eq!(against(&found), [], "{kind} {keys}: {}", found.line());
        let lost = verdict(" loss 100%", &app(kind, keys));
        let about = ("nothing-delivered", "app/a");
        assert!(
            against(&lost).contains(&about),
            "{kind} {keys}: {}",
            lost.line()
        );
        // Its path is no reason to distrust what is said of it twice.
        let expected = format!(
            "{}[[change]]\nat = \"1s\"\ntarget = \"link/access/up/netem\"\nto = \"loss 0%\"\n",
            app(kind, keys)
        );
        assert!(
            !against(&verdict(" loss 100%", &expected)).contains(&about),
            "{kind} {keys}"
        );
    }
}

#[test]
fn of_a_call_each_way_is_judged() {
    let found = verdict(" loss 100%", &app("call", ""));
    let lines: Vec<&str> = found.reasons().map(|f| f.line.as_str()).collect();
    let [line] = lines[..] else {
        panic!("{lines:?}")
    };
    assert!(
        line.starts_with("not one frame from `from` to `to` of app/a was whole"),
        "{line}"
    );
}

#[test]
fn that_nothing_is_delivered_can_be_what_an_experiment_is_about() {
    let plan = plan_of(&format!(
        "version = 1\nname = \"apps\"\nduration = \"12s\"\n\
         expected = [\"nothing-delivered\"]\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
         up = [\"netem loss 100%\"]\ndown = [\"netem delay 1ms\"]\n{}",
        app("call", "")
    ));
    let found = run(&SimEngine, &plan).record.verdict;
    assert!(found.trusted(), "{}", found.line());
    let mut notes = found.findings.iter();
    assert!(notes.any(|f| f.check == "nothing-delivered"), "{found:?}");
}

#[test]
fn a_host_whose_ports_run_out_goes_on_and_is_named_with_the_connections_that_it_refused() {
    // 28,232 ports, each taken for the minute of TIME-WAIT, and 30,000 connections in twelve
    // seconds.
    let keys = "response = 100\narrivals = \"every 400us\"\nconnection = \"new\"";
    let text = format!(
        "version = 1\nname = \"ports\"\nduration = \"12s\"\nmeasure = \"8s..12s\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
         up = [\"netem delay 1ms\"]\ndown = [\"netem delay 1ms\"]\n{}",
        app("request", keys)
    );
    let result = run(&SimEngine, &plan_of(&text));
    let verdict = &result.record.verdict;
    let of_host = verdict.reasons().find(|f| f.check == "out-of-ports");
    let of_host = of_host.unwrap_or_else(|| panic!("{}", verdict.line()));
    assert_eq!(of_host.entity, "host/client");
    let sources = &result.summary.sources;
    let total = |name: &str, field: &str| {
        let source = sources.iter().find(|s| s.name == name).expect(name);
        let field = source.telemetry.iter().find(|f| f.name == field);
        field.and_then(|f| f.figures.get("total")).unwrap_or(0.0)
    };
    let refused = total("host/client", "no_port");
    assert_eq!(refused, 30_000.0 - 28_232.0);
    assert_eq!(refused, total("app/a", "failed"));
    let said = format!("left for {refused} connections");
    assert!(of_host.line.contains(&said), "{}", of_host.line);
}

/// RFC 9000 §10.2: what is late for a connection that closes is passed over. A port that is
/// closed is no hole in the routes either.
#[test]
fn packets_that_are_late_for_a_connection_that_is_over_do_not_speak_against_a_run() {
    let quic = "connection = \"new\"\ntransport = \"quic\"\narrivals = \"every 50ms\"";
    let tcp = "connection = \"new\"\narrivals = \"every 50ms\"";
    let wild = " 5ms duplicate 20% reorder 10%";
    let clean = verdict("", &app("request", quic));
    assert_eq!(clean.findings, [], "{clean:?}");
    for (keys, up) in [(quic, wild), (tcp, wild), (tcp, "")] {
        let found = verdict(up, &app("request", keys));
        assert_eq!(against(&found), [], "{keys}: {}", found.line());
    }
}
