//! Adaptive video: rates, start and stalls where they can be computed.

use crate::rig::reports::{OfApp, reports};
use crate::rig::{dumbbell, plan};

const MS: i64 = 1_000_000;

/// A player of a minute, with `down` on the way to it, which has a delay of 10 ms.
fn run(keys: &str, down: &str) -> OfApp {
    let table = format!("[[video]]\nname = \"v\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n");
    let text = dumbbell("pfifo limit 1000", &table)
        .replace("duration = \"10s\"", "duration = \"60s\"")
        .replace(
            "down = [\"netem delay 10ms\"]",
            &format!("down = [\"netem delay 10ms limit 100000\", \"{down}\"]"),
        );
    reports(&plan(&text), "app/v")
}

const THREE: &str = "ladder = \"1Mbit 2Mbit 4Mbit\"";

#[test]
fn a_line_that_carries_it_shows_the_highest_rate_without_a_stall() {
    for rule in ["throughput", "bola"] {
        let seen = run(
            &format!("{THREE}\nrule = \"{rule}\""),
            "rate 6Mbit queue fq_codel",
        );
        assert_eq!(
            (seen.total("stalls"), seen.total("stalled")),
            (0, 0),
            "{rule}"
        );
        let rates = seen.values("bitrate");
        assert_eq!(
            (rates[0], rates.last()),
            (1_000_000, Some(&4_000_000)),
            "{rule}: {rates:?}"
        );
        // The first segment: 500 kB at 6 Mbit/s with headers, 697 ms, behind 40 ms.
        let start = seen.values("start");
        assert_eq!(start.len(), 1);
        assert!(
            (735 * MS..830 * MS).contains(&start[0]),
            "{rule}: {start:?}"
        );
        // It never holds more than its buffer and the segment that was asked for below it.
        let most = seen.values("buffer").into_iter().max().expect("samples");
        assert!((20_000 * MS..34_000 * MS).contains(&most), "{rule}: {most}");
    }
}

#[test]
fn bola_takes_the_highest_rate_when_its_buffer_says_so_and_the_other_rule_at_once() {
    let first = |rule: &str| {
        let seen = run(
            &format!("{THREE}\nrule = \"{rule}\""),
            "rate 20Mbit queue fq_codel",
        );
        let rates = seen.values("bitrate");
        rates.iter().position(|rate| *rate == 4_000_000)
    };
    assert_eq!(first("throughput"), Some(1));
    // Above 24.43 s: seven segments of 4 s, less what was played.
    assert!(first("bola") >= Some(6), "{:?}", first("bola"));
}

#[test]
fn a_rate_that_the_line_does_not_carry_stalls_as_long_as_it_lacks() {
    // Segments of 500 kB, which take 8.36 s of 500 kbit/s with headers: each plays for 4 s and
    // is waited for as long again.
    let seen = run("ladder = \"1Mbit\"", "rate 500Kbit queue pfifo limit 20");
    let shown = seen.values("bitrate").len() as i64;
    assert!((6..=7).contains(&shown), "{shown}");
    let stalls = seen.total("stalls");
    assert!((shown - 1..=shown).contains(&stalls), "{stalls} of {shown}");
    // In all: a minute, without the start and what was played.
    let start = seen.values("start")[0];
    let played = 4_000 * MS * shown;
    let expected = 60_000 * MS - start - played;
    let stalled = seen.total("stalled");
    assert!(
        (expected - stalled).abs() < 4_000 * MS,
        "{stalled} for {expected}"
    );
}

#[test]
fn a_rate_that_falls_is_followed_before_a_stall() {
    let table = "[[video]]\nname = \"v\"\nfrom = \"client\"\nto = \"server\"\n\
                 ladder = \"1Mbit 2Mbit 4Mbit\"\n\
                 [[change]]\nname = \"fall\"\nat = \"70s\"\ntarget = \"link/access/down/line\"\nto = \"rate 1500Kbit\"\n";
    let text = dumbbell("pfifo limit 1000", table)
        .replace("duration = \"10s\"", "duration = \"140s\"")
        .replace(
            "down = [\"netem delay 10ms\"]",
            "down = [\"netem delay 10ms limit 100000\", \"line: rate 6Mbit queue fq_codel\"]",
        );
    // Its buffer of 30 s is full. 1.43 Mbit/s of payload take 11 s for each of two segments of 4
    // Mbit/s and 5.6 s for two of 2 Mbit/s, until the mean has followed.
    let seen = reports(&plan(&text), "app/v");
    let rates = seen.values("bitrate");
    assert!(rates.contains(&4_000_000), "{rates:?}");
    assert_eq!(rates.last(), Some(&1_000_000), "{rates:?}");
    assert_eq!(seen.total("stalls"), 0, "the buffer lasts for it");
    assert!(seen.total("switches") >= 2);
}

#[test]
fn paced_video_comes_as_fast_as_it_is_asked_for() {
    let seen = run(
        "ladder = \"4Mbit\"\npace = 1.25",
        "rate 50Mbit queue pfifo limit 1000",
    );
    let at = seen.times("bitrate");
    let gaps: Vec<u64> = at
        .windows(2)
        .map(|p| p[1].since(p[0]).as_nanos() / 1_000_000)
        .collect();
    // The first half of the buffer comes at once, each segment in 0.4 s or less. Then a
    // segment takes 4 s / 1.25, until the buffer is full and one is asked for each 4 s.
    assert!(gaps[..2].iter().all(|gap| *gap < 450), "{gaps:?}");
    let paced = gaps
        .iter()
        .filter(|gap| (3_150..3_260).contains(*gap))
        .count();
    assert!(paced >= 10, "{gaps:?}");
    assert_eq!(seen.total("stalls"), 0);
}

#[test]
fn loss_lowers_the_rate() {
    // CUBIC at 2 % of loss and 20 ms has some 5 Mbit/s (1.22 segments a round trip over
    // the root of the loss).
    let keys = "ladder = \"2Mbit 8Mbit 16Mbit\"";
    let mean = |down: &str| run(keys, down).mean("bitrate", 1e6);
    let (clean, lossy) = (mean("netem limit 10000"), mean("netem loss 2%"));
    assert!(clean > 14.0 && lossy < 8.0, "{clean} {lossy}");
}
