//! Applications that scenarios name by their kind, over real sockets. Needs root, or a user
//! namespace, and TUN.

use narrows_core::{Event, EventSink, Reduce, Source};
use narrows_live::{LiveError, RunHandle};
use narrows_scenario::Draft;
use narrows_units::Instant;

/// What an application reports.
#[derive(Default)]
struct Reports(Vec<(&'static str, i64)>);

impl EventSink for Reports {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        if let Event::Telemetry {
            source: Source::Entity(_),
            field,
            value,
        } = event
        {
            // That nothing is counted yet is no event.
            if field.reduce != Reduce::Counter || value != 0 {
                self.0.push((field.name, value));
            }
        }
    }
}

impl Reports {
    fn of(&self, name: &str) -> Vec<i64> {
        let own = self.0.iter().filter(|r| r.0 == name);
        own.map(|r| r.1).collect()
    }
}

/// What an application of this kind with these keys reports over a round trip of 20 ms in two
/// seconds; `None` where this machine has no live runs.
fn reported(kind: &str, keys: &str) -> Option<Reports> {
    run(&format!(
        "up = [\"netem delay 10ms\", \"rate 20Mbit\"]\ndown = [\"netem delay 10ms\"]\n\
         [[{kind}]]\nname = \"api\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n"
    ))
}

/// What is reported in two seconds with these tables, which begin within that of the link.
fn run(tables: &str) -> Option<Reports> {
    let text = format!(
        "version = 1\nname = \"apps\"\nduration = \"2s\"\n\
         [[link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n{tables}"
    );
    let draft = Draft::read("apps.toml", text.as_bytes()).expect("TOML");
    let plan = draft.check().expect("a plan");
    let mut reports = Reports::default();
    match narrows_live::run(&plan, 1, &mut reports, &RunHandle::default()) {
        Ok(_) => Some(reports),
        Err(error) if LiveError::is_of_the_machine(&error) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn requests_are_answered_over_connections_that_are_kept_or_new() {
    // A new connection costs a round trip more.
    for (keys, trips) in [
        (
            "response = 1000\narrivals = \"think 20ms\"\ncc = \"kernel:cubic\"",
            1,
        ),
        (
            "response = 1000\narrivals = \"every 20ms\"\nconnection = \"new\"\ncc = \"kernel:cubic\"",
            2,
        ),
    ] {
        let Some(reports) = reported("request", keys) else {
            return;
        };
        let times = reports.of("response");
        assert!(times.len() >= 20, "{keys}: {times:?}");
        assert!(
            times.iter().all(|time| *time >= trips * 20_000_000),
            "{keys}: {times:?}"
        );
        assert!(reports.of("failed").is_empty(), "{keys}");
        assert!(reports.of("requests").len() >= times.len());
    }
}

#[test]
fn a_path_mtu_is_found_by_the_kernels_sockets_with_reports_of_the_path_and_without() {
    for (ip, headers) in [(4, 28), (6, 48)] {
        for silent in ["", " silent"] {
            let hop = format!("\"mtu 1400{silent}\"");
            let Some(reports) = run(&format!(
                "up = [\"netem delay 5ms\", {hop}]\ndown = [{hop}, \"netem delay 5ms\"]\n\
                 [[pmtud]]\nname = \"search\"\nfrom = \"client\"\nto = \"server\"\nip = {ip}\n"
            )) else {
                return;
            };
            assert_eq!(reports.of("found"), [1_400 - headers], "{ip}{silent}");
            let used: i64 = reports.of("ptb_used").iter().sum();
            let beside = ["ptb_refused", "probes", "sizes_tried"].map(|field| reports.of(field));
            assert_eq!(
                used,
                i64::from(silent.is_empty()),
                "{ip}{silent} {beside:?}"
            );
        }
    }
}

#[test]
fn every_kind_runs_over_the_machines_own_sockets() {
    const MS: i64 = 1_000_000;
    let own = "cc = \"kernel:cubic\"\n";
    for (kind, keys, sample, least, count) in [
        // Three half round trips, or four with a request.
        (
            "short",
            "arrivals = \"every 50ms\"",
            "completion",
            30 * MS,
            20,
        ),
        (
            "short",
            "arrivals = \"every 50ms\"\ndirection = \"down\"",
            "completion",
            40 * MS,
            20,
        ),
        // A packet each 20 ms, one way.
        ("call", "", "up_delay", 10 * MS, 60),
        ("call", "media = \"video\"", "down_delay", 10 * MS, 40),
        // The handshake, a document, and six objects over connections of which five are new.
        (
            "web",
            "page = \"1x1000 6x1000\"\nthink = \"50ms\"",
            "load",
            80 * MS,
            5,
        ),
        (
            "video",
            "ladder = \"1Mbit 2Mbit\"\nsegment = \"200ms\"\nstartup = \"200ms\"\nbuffer = \"1s\"",
            "bitrate",
            1_000_000,
            5,
        ),
    ] {
        let keys = match kind {
            "call" => keys.to_owned(),
            _ => format!("{own}{keys}"),
        };
        let Some(reports) = reported(kind, &keys) else {
            return;
        };
        let values = reports.of(sample);
        assert!(values.len() >= count, "{kind}: {keys}: {values:?}");
        assert!(
            values.iter().all(|value| *value >= least),
            "{kind}: {keys}: {values:?}"
        );
        for lost in ["failed", "repeated", "up_lost", "down_lost"] {
            assert!(reports.of(lost).is_empty(), "{kind}: {keys}: {lost}");
        }
    }
}
