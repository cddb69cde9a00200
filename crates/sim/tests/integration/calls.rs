//! Calls: delay, loss and opinion where they can be computed.

use crate::rig::reports::{OfApp, reports};
use crate::rig::{dumbbell, flow, plan};

const US: i64 = 1_000;

fn call(keys: &str) -> String {
    format!("[[call]]\nname = \"c\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n")
}

fn run(text: &str) -> OfApp {
    reports(&plan(text), "app/c")
}

#[test]
fn on_an_empty_path_speech_takes_its_way_and_sounds_as_good_as_it_can() {
    let received = run(&dumbbell("pfifo", &call("")));
    // Up a packet of 214 bytes at 50 Mbit/s, 34 us; down there is no rate.
    let up = received.values("up_delay");
    assert!(
        up.iter().all(|d| (10_034 * US..10_035 * US).contains(d)),
        "{up:?}"
    );
    let down = received.values("down_delay");
    assert!(down.iter().all(|d| *d == 10_000 * US), "{down:?}");
    // Ten seconds, of which the last is not over.
    assert_eq!((up.len(), down.len()), (500, 500));
    assert_eq!(
        (received.total("up_frames"), received.total("up_lost")),
        (451, 0)
    );
    assert_eq!(received.total("down_late"), 0);
    // R = 93.2 - 0.024 * 30 ms, by Annex B 4.395.
    assert_eq!(received.values("up_mos"), [4_395]);
}

#[test]
fn what_is_lost_is_counted_and_heard() {
    let text = dumbbell("pfifo", &call("window = \"2s\""))
        .replace(
            "down = [\"netem delay 10ms\"]",
            "down = [\"netem delay 10ms loss 5%\"]",
        )
        .replace("duration = \"10s\"", "duration = \"61s\"");
    let received = run(&text);
    let (packets, lost) = (received.total("down_packets"), received.total("down_lost"));
    assert_eq!(packets, 3_001);
    // 150 of 3000; four standard deviations are 48.
    assert!((102..198).contains(&lost), "{lost}");
    assert_eq!(received.total("down_late"), lost, "what is lost is late");
    assert_eq!(received.total("up_lost"), 0);
    // 95 * 5 / (5 + 25.1) = 15.8 less than 92.5: 76.7, by Annex B 3.90.
    let mos = received.mean("down_mos", 1e3);
    assert!((3.75..4.0).contains(&mos), "{mos}");
    assert!(received.mean("up_mos", 1e3) > 4.38);
}

#[test]
fn a_frame_of_video_takes_as_long_as_its_packets_at_the_bottleneck() {
    let received = run(&dumbbell(
        "pfifo",
        &call("media = \"video\"\ndirection = \"up\""),
    ));
    let delays = received.values("up_delay");
    assert_eq!(delays.len(), 300);
    // 9457 bytes in eight packets with 42 bytes of headers: 1567 us. The key frame at the
    // start: 47,286 bytes in 40 packets, 7834 us.
    assert!(
        (17_834 * US..17_836 * US).contains(&delays[0]),
        "{}",
        delays[0]
    );
    let ordinary = delays[1..].iter();
    assert!(
        ordinary
            .clone()
            .all(|d| (11_566 * US..11_568 * US).contains(d)),
        "{delays:?}"
    );
    assert!(received.values("up_mos").is_empty(), "G.107 is of speech");
    assert!(received.values("down_frames").is_empty());
    assert_eq!(received.total("up_late"), 0);
}

#[test]
fn frames_behind_an_upload_are_late_and_speech_is_harder_to_follow() {
    // A FIFO of 250 ms at 50 Mbit/s that CUBIC fills.
    let tables = |with: &str| format!("{}{with}", call("window = \"2s\""));
    let beside = tables(&flow("upload", "cc = \"cubic\""));
    let alone = run(&dumbbell("pfifo limit 1000", &tables("")));
    let received = run(&dumbbell("pfifo limit 1000", &beside));
    assert_eq!(alone.total("up_late"), 0);
    assert!(
        received.total("up_late") > 100,
        "{}",
        received.total("up_late")
    );
    // The way down is free.
    assert_eq!(received.total("down_late"), 0);
    let least = |received: &OfApp, field| received.values(field).into_iter().min();
    assert!(
        least(&received, "up_mos") < Some(4_000),
        "{:?}",
        received.values("up_mos")
    );
    assert_eq!(least(&received, "down_mos"), least(&alone, "down_mos"));
}

#[test]
fn a_codepoint_is_marked_where_packets_without_one_are_dropped() {
    let of = |codepoint: &str| {
        let keys = format!(
            "media = \"video rate 20Mbit\"\ndirection = \"up\"\ncodepoint = \"{codepoint}\""
        );
        let text = dumbbell("codel limit 10000 ecn", &call(&keys));
        run(&text.replace("rate 50Mbit", "rate 20.5Mbit"))
    };
    assert_eq!(of("ect0").total("up_lost"), 0);
    assert!(of("not-ect").total("up_lost") > 10);
}
