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

/// What these keys of a `[[request]]` report over a round trip of 20 ms in two seconds; `None`
/// where this machine has no live runs.
fn reported(keys: &str) -> Option<Reports> {
    let text = format!(
        "version = 1\nname = \"apps\"\nduration = \"2s\"\n\
         [[link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n\
         up = [\"netem delay 10ms\", \"rate 20Mbit\"]\ndown = [\"netem delay 10ms\"]\n\
         [[request]]\nname = \"api\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n"
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
        let Some(reports) = reported(keys) else {
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
