//! Flows over TCP, and what flows over TCP and QUIC do alike, through a
//! bottleneck.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::rig::{Digest, Record, dumbbell, flow, plan, run};
use narrows_core::{DropCause, RecoveryEvent};
use narrows_units::{Duration, Instant};

/// Payload share of a 50 Mbit/s link: MSS 1448 in frames of 1514 bytes.
const IDEAL_MBIT: f64 = 50.0 * 1448.0 / 1514.0;

/// A control of either transport, for what holds over both.
const EITHER: [&str; 2] = ["cc = \"cubic\"", "cc = \"quic:cubic\""];

#[test]
fn a_lone_flow_fills_the_link() {
    for (queue, words) in [
        ("pfifo limit 200", "cc = \"reno\""),
        ("pfifo limit 200", "cc = \"cubic\""),
        ("fq_codel", "cc = \"cubic\"\necn = true"),
        ("dualpi2", "cc = \"prague\""),
    ] {
        let toml = dumbbell(queue, &flow("lone", words));
        let mut record = Record::default();
        run(&plan(&toml), 1, &mut record);
        let mbit = record.goodput_mbit(0, 3, 10);
        assert!(
            (0.95 * IDEAL_MBIT..=1.001 * IDEAL_MBIT).contains(&mbit),
            "{queue} {words}: {mbit}"
        );
        assert_eq!(record.established.len(), 1, "{queue} {words}");
    }
}

#[test]
fn either_end_may_open_and_send() {
    let ends = ["opens = \"server\"", "ip = 6", "opens = \"server\"\nip = 6"];
    for (control, ends) in EITHER.iter().flat_map(|c| ends.map(|e| (c, e))) {
        let words = format!("{control}\ntraffic = \"bytes 3Mb\"\n{ends}");
        let toml = dumbbell("pfifo", &flow("odd", &words));
        let mut record = Record::default();
        let outcome = run(&plan(&toml), 1, &mut record);
        let [(at, 0, bytes, true)] = record.finished[..] else {
            panic!("{words}: {:?}", record.finished);
        };
        assert_eq!(bytes, 3 << 20, "{words}");
        assert!(at < Instant::from_nanos(3_000_000_000), "{words}: {at}");
        assert!(outcome.flows[0].established && outcome.flows[0].complete);
    }
}

#[test]
fn exact_bytes_arrive_exactly_over_a_lossy_path() {
    let link = r#"
duration = "60s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms loss random 2% duplicate 1% reorder 1%", "rate 10Mbit"]
down = ["netem delay 10ms 2ms loss random 2%"]
"#;
    for (control, seed) in EITHER.iter().flat_map(|c| (1..4).map(move |s| (c, s))) {
        let words = format!("{control}\ntraffic = \"bytes 1234567\"");
        let toml = link.to_owned() + &flow("odd", &words);
        let mut record = Record::default();
        run(&plan(&toml), seed, &mut record);
        let total: u64 = record.delivered.iter().map(|(_, _, n)| n).sum();
        assert_eq!(total, 1_234_567, "{control}");
        let [(_, 0, _, true)] = record.finished[..] else {
            panic!("{control}: {:?}", record.finished);
        };
        let mut recoveries = record.recoveries.iter().map(|(_, _, event)| event);
        assert!(recoveries.any(|e| *e == RecoveryEvent::FastRetransmit));
    }
}

#[test]
fn what_is_corrupted_is_dropped_where_its_checksum_is_looked_at_and_sent_again() {
    let path = r#"
duration = "20s"
[[link]]
name = "access"
ends = ["client", "server"]
up   = ["netem delay 10ms corrupt 2%", "rate 10Mbit"]
down = ["netem delay 10ms corrupt 2%"]
"#;
    let words = "cc = \"cubic\"\nbytes = 2000000\nopens = \"client\"";
    let plan = plan(&format!("{path}{}", flow("one", words)));
    let mut record = Record::default();
    let outcome = run(&plan, 1, &mut record);
    let bytes: u64 = record.delivered.iter().map(|(_, _, bytes)| bytes).sum();
    assert_eq!(bytes, 2_000_000, "all of it, once");
    // Of some 2000 packets; a bit of an address or the protocol leads elsewhere.
    let of = |cause: DropCause| record.drops.iter().filter(|(_, c)| *c == cause).count();
    let share = of(DropCause::Malformed) as f64 / outcome.packets as f64;
    assert!((0.012..0.028).contains(&share), "{share}");
    assert_eq!(of(DropCause::Loss), 0);
}

#[test]
fn a_stopped_flow_ends_soon_and_leaves_the_link_to_others() {
    // A flow over QUIC has larger headers, so a smaller share of the link.
    for (control, share) in EITHER.into_iter().zip([0.95, 0.9]) {
        let stopped = format!("{control}\nstop = \"4s\"");
        let toml = dumbbell(
            "fq_codel",
            &(flow("long", control) + &flow("short", &stopped)),
        );
        let mut record = Record::default();
        run(&plan(&toml), 1, &mut record);
        let (at, _, _, complete) = *record.finished.iter().find(|f| f.1 == 1).unwrap();
        assert!(complete, "{control}: {:?}", record.finished);
        let late = at.since(Instant::from_nanos(4_000_000_000));
        assert!(late < Duration::from_millis(500), "{control}: {late}");
        assert!(record.goodput_mbit(1, 2, 4) > 0.4 * IDEAL_MBIT, "{control}");
        assert!(
            record.goodput_mbit(0, 6, 10) > share * IDEAL_MBIT,
            "{control}"
        );
    }
}

#[test]
fn samples_come_at_their_interval_and_only_while_a_flow_lives() {
    let flows = flow(
        "a",
        "cc = \"cubic\"\nstart = \"1s\"\ntraffic = \"bytes 1Mb\"",
    );
    let toml = dumbbell("fq_codel", &flows);
    let mut record = Record::default();
    run(&plan(&toml), 1, &mut record);
    assert_eq!(record.queue_samples.len(), 200);
    let interval = 50_000_000;
    assert!(
        record
            .samples
            .iter()
            .all(|(t, _, _)| t.as_nanos() % interval == 0)
    );
    let (first, last) = (record.samples[0].0, record.samples.last().unwrap().0);
    assert_eq!(first.as_nanos(), 1_000_000_000);
    assert!(last <= record.finished[0].0);
    assert!(last < Instant::from_nanos(3_000_000_000));
}

#[test]
fn one_seed_gives_one_digest_and_another_seed_another() {
    for flows in [
        flow("a", "cc = \"cubic\"\necn = true") + &flow("b", "cc = \"prague\""),
        flow("a", "cc = \"quic:cubic\"") + &flow("b", "cc = \"quic:newreno\"\nspin = \"on\""),
    ] {
        let mut plan = plan(&dumbbell("dualpi2", &flows));
        plan.duration = Duration::from_secs(2);
        let digest = |seed| {
            let mut digest = Digest::default();
            run(&plan, seed, &mut digest);
            digest.value()
        };
        assert_eq!(digest(1), digest(1), "{flows}");
        assert_ne!(digest(1), digest(2), "{flows}");
    }
}

#[test]
fn no_congestion_control_starves_another_of_its_kind() {
    for cc in ["reno", "cubic"] {
        let words = format!("cc = \"{cc}\"\necn = true");
        let toml = dumbbell("fq_codel", &(flow("a", &words) + &flow("b", &words)));
        let mut record = Record::default();
        run(&plan(&toml), 1, &mut record);
        let (a, b) = (record.goodput_mbit(0, 3, 10), record.goodput_mbit(1, 3, 10));
        assert!((a / (a + b) - 0.5).abs() < 0.03, "{cc}: {a} {b}");
    }
}

/// `up` and `down` between a client and a server for ten seconds, and one flow.
fn bare(up: &str, words: &str) -> String {
    let flow = flow("lone", words);
    format!(
        "duration = \"10s\"\n[[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
         up = [{up}]\n{flow}"
    )
}

#[test]
fn a_flow_over_a_way_that_takes_no_time_is_refused() {
    for control in ["cc = \"cubic\"", "cc = \"prague\"", "cc = \"quic:cubic\""] {
        for up in ["", "\"netem delay 0ms\"", "\"remark dscp 8\", \"tap mid\""] {
            let plan = plan(&bare(up, control));
            let refused = narrows_sim::accepts(&plan).expect_err("it would never end");
            let text = plan.placed(&refused.about(), refused);
            assert!(
                text.starts_with("test.toml:8:1: flow/lone: nothing on its way takes time"),
                "{text}"
            );
        }
        for up in [
            "\"netem delay 1us\"",
            "\"netem delay 0ms 1ms\"",
            "\"rate 1Gbit\"",
        ] {
            narrows_sim::accepts(&plan(&bare(up, control))).expect("time passes");
        }
    }
    // What has an end comes to it.
    let mut record = Record::default();
    run(
        &plan(&bare("", "cc = \"cubic\"\ntraffic = \"bytes 3Mb\"")),
        1,
        &mut record,
    );
    assert_eq!(record.finished.len(), 1);
    assert!(record.finished[0].3);
}

/// A change in mid-run takes the last delay away, so that the instant never
/// ends; the caller's wish does end it.
#[test]
fn a_run_ends_when_asked_although_its_time_stands_still() {
    for control in EITHER {
        let change =
            "[[change]]\nat = \"1s\"\ntarget = \"link/access/up/netem\"\nto = \"delay 0ms\"\n";
        let text = bare("\"netem delay 1s\"", control) + change;
        let cancel = AtomicBool::new(false);
        let still = AtomicU64::new(0);
        let progress = |now: Instant| {
            if now > Instant::ZERO + Duration::from_millis(999)
                && still.fetch_add(1, Ordering::Relaxed) > 2
            {
                cancel.store(true, Ordering::Relaxed);
            }
        };
        let handle = narrows_sim::RunHandle {
            cancel: Some(&cancel),
            progress: Some(&progress),
            ..narrows_sim::RunHandle::default()
        };
        let outcome = narrows_sim::run(&plan(&text), 1, &mut Record::default(), &handle);
        let outcome = outcome.expect("it was asked to end");
        assert!(outcome.interrupted);
        assert!(
            outcome.virtual_time < Duration::from_secs(10),
            "{}",
            outcome.virtual_time
        );
    }
}
