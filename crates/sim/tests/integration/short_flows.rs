//! Short flows: how long they take where it can be computed, and what becomes of many.

use crate::rig::reports::{OfApp, reports};
use crate::rig::{dumbbell, plan};

const MS: i64 = 1_000_000;

fn short(keys: &str) -> String {
    format!("[[short]]\nname = \"s\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n")
}

fn run(keys: &str) -> OfApp {
    reports(&plan(&dumbbell("pfifo limit 1000", &short(keys))), "app/s")
}

#[test]
fn on_an_empty_path_a_flow_takes_its_handshake_rounds_and_bytes() {
    // 50 Mbit/s of frames with 66 bytes of headers: 7 segments of 10,000 bytes take 1.67 ms.
    // 90,000 bytes take three windows of 10, 20 and 33 segments, and the last of them 8 ms.
    for (bytes, direction, least, most) in [
        (10_000, "up", 31_600, 32_500),
        (10_000, "down", 40_000, 41_500),
        (90_000, "up", 70_000, 79_000),
    ] {
        let keys = format!(
            "sizes = \"constant {bytes}\"\narrivals = \"every 500ms\"\ndirection = \"{direction}\""
        );
        let flows = run(&keys);
        let times = flows.values("completion");
        assert_eq!(times.len(), 20, "{keys}");
        let within = |time: &i64| (least * 1_000..most * 1_000).contains(time);
        assert!(times.iter().all(within), "{keys}: {times:?}");
        assert_eq!(flows.total("started"), 20);
        assert_eq!(flows.total("finished"), 20);
        assert_eq!(flows.total("failed"), 0);
    }
}

#[test]
fn the_slow_down_is_that_over_the_empty_path() {
    let keys = "sizes = \"constant 10000\"\narrivals = \"every 1s\"\n\
                ideal = \"rate 50Mbit rtt 20ms\"";
    let flows = run(keys);
    // 31.6 ms: three half round trips and 10,000 bytes; headers are not in it.
    let slow_downs = flows.values("slow_down");
    assert_eq!(slow_downs.len(), 10);
    assert!(
        slow_downs.iter().all(|s| (1_000..1_030).contains(s)),
        "{slow_downs:?}"
    );
}

#[test]
fn small_flows_wait_in_a_queue_as_pollaczek_and_khinchin_have_it() {
    // Flows of a packet that goes with the SYN over a link of 1 Mbit/s, so that a flow waits
    // once, in a packet of 1286 bytes. An ACK and a FIN of 66 bytes follow a round trip later,
    // when what was before them has gone.
    const PER_SECOND: f64 = 50.0;
    let run = |arrivals: &str| {
        let keys =
            format!("sizes = \"constant 1200\"\nfast_open = true\narrivals = \"{arrivals}\"");
        let text = dumbbell("pfifo limit 10000", &short(&keys))
            .replace("duration = \"10s\"", "duration = \"400s\"")
            .replace("netem delay 10ms", "netem delay 100ms limit 100000")
            .replace("rate 50Mbit", "rate 1Mbit");
        reports(&plan(&text), "app/s")
    };
    let alone = run("every 50s").values("completion");
    // Without a cookie the first one takes the handshake.
    let base = alone[1] as f64 / 1e6;
    assert_eq!(base, 110.288, "{alone:?}");
    let loaded = run("poisson 20ms");
    let waited = loaded.mean("completion", 1e6) - base;

    let seconds = |bytes: f64| bytes * 8.0 / 1e6;
    let services = [seconds(1286.0), seconds(2.0 * 66.0)];
    let load: f64 = PER_SECOND * services.iter().sum::<f64>();
    let squares: f64 = PER_SECOND * services.iter().map(|s| s * s).sum::<f64>();
    let expected = 1e3 * squares / (2.0 * (1.0 - load));
    assert!(loaded.values("completion").len() > 19_000);
    assert!(
        (waited / expected - 1.0).abs() < 0.1,
        "waited {waited} ms, expected {expected} ms at a load of {load}"
    );
}

#[test]
fn loss_delays_flows_and_breaks_none() {
    let keys = "sizes = \"constant 10000\"\narrivals = \"every 20ms\"\nstop = \"4s\"";
    let text = dumbbell("pfifo limit 1000", &short(keys));
    let clean = reports(&plan(&text), "app/s");
    let lossy = text.replace("\"netem delay 10ms\", ", "\"netem delay 10ms loss 3%\", ");
    let lossy = reports(&plan(&lossy), "app/s");
    for flows in [&clean, &lossy] {
        assert_eq!(flows.total("finished"), 200);
        assert_eq!(flows.total("failed"), 0);
    }
    let late = |flows: &OfApp| {
        let times = flows.values("completion");
        times.iter().filter(|time| **time > 100 * MS).count()
    };
    // A flow of ten packets up, of which one in 33 is lost: a SYN or the last segment takes a timeout.
    assert_eq!(late(&clean), 0);
    assert!((5..100).contains(&late(&lossy)), "{}", late(&lossy));
}

#[test]
fn flows_that_have_ended_leave_nothing_at_the_end_that_opened_them() {
    // 40,000 flows in ten seconds, more than a client has ports: none is kept by TIME-WAIT,
    // which is the server's.
    for direction in ["up", "down"] {
        let keys = format!(
            "sizes = \"constant 100\"\narrivals = \"every 250us\"\ndirection = \"{direction}\""
        );
        let flows = run(&keys);
        assert_eq!(flows.total("started"), 40_000);
        assert_eq!(flows.total("failed"), 0, "{direction}");
        assert!(
            flows.total("finished") > 39_700,
            "{}",
            flows.total("finished")
        );
    }
}
