//! Applications that scenarios name by their kind: requests and their responses.

use crate::rig::reports::Reports;
use crate::rig::{Digest, dumbbell, flow, plan, run};
use narrows_core::{DropCause, Event, EventSink};
use narrows_scenario::NameTable;
use narrows_sim::Outcome;
use narrows_units::{Duration, Instant};

fn request(name: &str, keys: &str) -> String {
    format!("[[request]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n")
}

/// Runs these applications, and returns what `name` reported as `field`.
fn reported(tables: &str, name: &str, fields: &[&str]) -> (Vec<Vec<(Instant, i64)>>, Outcome) {
    let plan = plan(&dumbbell("pfifo", tables));
    let mut reports = Reports::default();
    let outcome = run(&plan, 1, &mut reports);
    let id = NameTable::of(&plan).id(name).expect("a name of the run");
    (
        fields.iter().map(|field| reports.of(id, field)).collect(),
        outcome,
    )
}

const MS: i64 = 1_000_000;

#[test]
fn a_kept_connection_takes_a_round_trip_for_each_response_after_the_first() {
    let tables = request("api", "response = 1000\narrivals = \"think 100ms\"");
    let (reports, _) = reported(&tables, "app/api", &["response", "requests", "failed"]);
    let [times, requests, failed] = &reports[..] else {
        panic!()
    };
    // The first waits for the handshake, too. A request goes up at 50 Mbit/s.
    let trip = 20 * MS + 91_000;
    assert!(
        (2 * trip - MS..2 * trip + MS).contains(&times[0].1),
        "{times:?}"
    );
    assert!(
        times[1..]
            .iter()
            .all(|(_, t)| (20 * MS..trip + MS).contains(t)),
        "{times:?}"
    );
    // One each 100 ms of thought and 20 ms of waiting.
    let expected = 10_000 / 120;
    assert!(times.len().abs_diff(expected) <= 1, "{}", times.len());
    assert!(requests.len() - times.len() <= 1 && failed.is_empty());
}

#[test]
fn a_connection_of_its_own_takes_a_handshake_more_and_leaves_nothing() {
    let tables = request(
        "api",
        "response = 1000\narrivals = \"every 20ms\"\nconnection = \"new\"\nstop = \"3s\"",
    );
    let long = dumbbell("pfifo", &tables).replace("duration = \"10s\"", "duration = \"70s\"");
    let plan = plan(&long);
    let mut reports = Reports::default();
    let outcome = run(&plan, 1, &mut reports);
    let id = NameTable::of(&plan).id("app/api").expect("a name");
    let times = reports.of(id, "response");
    assert_eq!(times.len(), 150);
    assert!(
        times.iter().all(|(_, t)| (40 * MS..42 * MS).contains(t)),
        "{times:?}"
    );
    // What closed first has waited in TIME-WAIT for a minute; the listener is left.
    assert_eq!(outcome.sockets, 1);
    assert_eq!(reports.of(id, "outstanding").last().map(|r| r.1), Some(0));
}

/// Counts the packets for which there was no socket.
#[derive(Default)]
struct Late(u64);

impl EventSink for Late {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        let late = matches!(
            event,
            Event::Dropped {
                cause: DropCause::NoSocket,
                ..
            }
        );
        self.0 += u64::from(late);
    }
}

/// RFC 9000 §10.2: who closes, and who received the close, take what is still on its way, and are
/// gone after three probe timeouts.
#[test]
fn a_connection_of_quic_that_is_over_takes_late_packets_and_leaves_nothing() {
    let keys = "response = 1000\narrivals = \"every 20ms\"\nconnection = \"new\"\n\
                transport = \"quic\"\nstop = \"3s\"";
    let plan = plan(&dumbbell("pfifo", &request("api", keys)));
    let mut late = Late::default();
    let outcome = run(&plan, 1, &mut late);
    assert_eq!(late.0, 0);
    assert_eq!(outcome.sockets, 1, "the listener is left");
}

#[test]
fn a_response_is_timed_from_its_request_however_many_wait_before_it() {
    // 50 Mbit/s of responses are asked for in bursts of what a link back of 10 Mbit/s takes.
    let tables = request(
        "api",
        "response = 125000\narrivals = \"every 50ms\"\nstop = \"1s\"",
    );
    let slow = dumbbell("pfifo", &tables).replace(
        "down = [\"netem delay 10ms\"]",
        "down = [\"netem delay 10ms\", \"rate 10Mbit queue pfifo limit 10000\"]",
    );
    let plan = plan(&slow);
    let mut reports = Reports::default();
    run(&plan, 1, &mut reports);
    let id = NameTable::of(&plan).id("app/api").expect("a name");
    let times: Vec<i64> = reports.of(id, "response").iter().map(|r| r.1).collect();
    assert_eq!(times.len(), 20);
    // Each takes 100 ms and more on the link, so each waits 50 ms longer than the one before.
    assert!(
        times.windows(2).all(|pair| pair[1] > pair[0] + 40 * MS),
        "{times:?}"
    );
}

#[test]
fn requests_arrive_at_the_mean_rate_of_their_poisson_process() {
    let tables = request(
        "api",
        "request = 100\nresponse = 100\narrivals = \"poisson 1ms\"",
    );
    let (reports, _) = reported(&tables, "app/api", &["requests"]);
    // 10 000 in 10 s; six standard deviations are 600.
    assert!(
        reports[0].len().abs_diff(10_000) < 600,
        "{}",
        reports[0].len()
    );
    let gaps: Vec<u64> = reports[0]
        .windows(2)
        .map(|pair| pair[1].0.since(pair[0].0).as_nanos())
        .collect();
    let over = |times: u64| gaps.iter().filter(|gap| **gap > times * 1_000_000).count() as f64;
    let share = over(2) / over(1);
    assert!(
        (share - (1.0 / std::f64::consts::E)).abs() < 0.05,
        "{share}"
    );
}

#[test]
fn what_an_application_draws_is_seeded_by_its_name_alone() {
    let of = |tables: &str, name: &str| {
        let (reports, _) = reported(tables, name, &["requests"]);
        reports[0].iter().map(|r| r.0).collect::<Vec<_>>()
    };
    let keys = "response = 100\narrivals = \"poisson 50ms\"";
    let (one, two) = (request("one", keys), request("two", keys));
    let alone = of(&one, "app/one");
    let beside = format!("{}{two}{one}", flow("bulk", "cc = \"cubic\""));
    assert_eq!(of(&beside, "app/one"), alone);
    assert_ne!(of(&beside, "app/two"), alone);
}

#[test]
fn a_run_with_applications_repeats() {
    let tables = request("a", "arrivals = \"poisson 5ms\"\nconnection = \"new\"")
        + &request("b", "cc = \"quic:cubic\"\nresponse = \"1Mb\"")
        + &flow("bulk", "cc = \"reno\"");
    let mut plan = plan(&dumbbell("fq_codel", &tables));
    plan.duration = Duration::from_secs(2);
    let digest = |seed| {
        let mut digest = Digest::default();
        run(&plan, seed, &mut digest);
        digest.value()
    };
    assert_eq!(digest(7), digest(7));
    assert_ne!(digest(7), digest(8));
}

#[test]
fn responses_come_over_quic_as_over_tcp() {
    let keys = "response = 1000\narrivals = \"think 100ms\"\ncc = \"quic:cubic\"";
    let (reports, _) = reported(&request("api", keys), "app/api", &["response", "failed"]);
    assert!(
        reports[0].len() > 75 && reports[1].is_empty(),
        "{reports:?}"
    );
    let late = reports[0][1..].iter().filter(|(_, t)| *t > 25 * MS).count();
    assert_eq!(late, 0, "{reports:?}");
}

#[test]
fn a_server_that_cannot_be_reached_fails_the_request_and_the_client_goes_on() {
    let tables = request("api", "arrivals = \"every 1s\"\nconnection = \"new\"");
    let dead = dumbbell("pfifo", &tables).replace("netem delay 10ms\", ", "netem loss 100%\", ");
    let plan = plan(&dead);
    let mut reports = Reports::default();
    run(&plan, 1, &mut reports);
    let id = NameTable::of(&plan).id("app/api").expect("a name");
    assert_eq!(reports.of(id, "requests").len(), 10);
    assert!(reports.of(id, "response").is_empty());
    let last = reports.of(id, "outstanding").last().map(|r| r.1);
    assert!(last.is_some_and(|left| left >= 9), "{last:?}");
}
