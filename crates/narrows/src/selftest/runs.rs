//! The runs of a self-test: of each kind of thing some.

/// One of the runs.
pub(super) struct Run {
    /// Its name.
    pub name: &'static str,
    /// What it is about.
    pub about: &'static str,
    /// The elements of its path, in both directions.
    pub links: &'static [&'static str],
    /// Its flows.
    pub flows: &'static [&'static str],
    /// Its applications.
    pub apps: &'static [&'static str],
    /// How long it lasts.
    pub duration: &'static str,
}

const fn flows(
    name: &'static str,
    about: &'static str,
    links: &'static [&'static str],
    flows: &'static [&'static str],
) -> Run {
    Run {
        name,
        about,
        links,
        flows,
        apps: &[],
        duration: "3s",
    }
}

/// All of them. None has a control whose figures depend on the platform's libm
/// (docs/determinism.md).
pub(super) const RUNS: [Run; 20] = [
    flows(
        "pfifo",
        "Reno through tail drop",
        &["netem delay 10ms", "rate 10Mbit queue pfifo limit 50"],
        &["reno"],
    ),
    flows(
        "codel",
        "CUBIC through CoDel",
        &["netem delay 10ms", "rate 10Mbit queue codel"],
        &["cubic"],
    ),
    flows(
        "fq_codel",
        "CUBIC beside Reno through FQ-CoDel",
        &["netem delay 10ms", "rate 10Mbit queue fq_codel"],
        &["cubic ecn", "reno"],
    ),
    flows(
        "cake",
        "CUBIC beside BBR through CAKE",
        &["netem delay 10ms", "rate 10Mbit queue cake"],
        &["cubic", "bbr"],
    ),
    flows(
        "pie",
        "CUBIC through PIE",
        &["netem delay 10ms", "rate 10Mbit queue pie"],
        &["cubic"],
    ),
    flows(
        "fq_pie",
        "two CUBIC flows through FQ-PIE",
        &["netem delay 5ms", "rate 10Mbit queue fq_pie"],
        &["one: cubic", "two: cubic start 500ms"],
    ),
    flows(
        "red",
        "DCTCP through RED that marks",
        &[
            "netem delay 5ms",
            "rate 10Mbit queue red limit 400000 min 30000 max 90000 avpkt 1500 ecn",
        ],
        &["dctcp"],
    ),
    flows(
        "dualpi2",
        "Prague beside CUBIC through DualPI2",
        &["netem delay 10ms", "rate 20Mbit queue dualpi2"],
        &["prague", "cubic"],
    ),
    flows(
        "sfq",
        "Vegas beside Westwood through SFQ",
        &["netem delay 10ms", "rate 10Mbit queue sfq"],
        &["vegas", "westwood"],
    ),
    flows(
        "fq",
        "Hybla through FQ",
        &["netem delay 40ms", "rate 10Mbit queue fq"],
        &["hybla"],
    ),
    flows(
        "tbf",
        "Relentless through a token bucket",
        &[
            "netem delay 10ms",
            "rate 20Mbit queue tbf rate 10Mbit burst 20kb limit 100kb",
        ],
        &["relentless"],
    ),
    flows(
        "ledbat",
        "LEDBAT yields to CUBIC",
        &["netem delay 20ms", "rate 10Mbit queue pfifo limit 100"],
        &["ledbat", "cubic start 1s"],
    ),
    flows(
        "loss",
        "random loss in bursts, and reordering",
        &[
            "netem delay 10ms loss gemodel 1% 20%",
            "netem delay 2ms reorder 5%",
            "rate 10Mbit queue fq_codel",
        ],
        &["cubic"],
    ),
    flows(
        "jitter",
        "jitter, duplicates and corruption",
        &[
            "netem delay 20ms 3ms distribution normal duplicate 1% corrupt 0.1%",
            "rate 10Mbit queue fq_codel",
        ],
        &["reno"],
    ),
    flows(
        "quic",
        "QUIC beside TCP",
        &["netem delay 10ms", "rate 10Mbit queue fq_codel"],
        &["quic:newreno", "reno"],
    ),
    flows(
        "prague",
        "two variants of Prague through a step",
        &[
            "netem delay 5ms",
            "rate 20Mbit queue dualpi2 step_thresh 1ms",
        ],
        &["prague", "older: prague variant 2022 start 200ms"],
    ),
    flows(
        "boxes",
        "boxes that translate addresses and bleach ECN",
        &[
            "up nat",
            "netem delay 5ms",
            "mmb ecn-bleach",
            "rate 10Mbit queue codel",
            "down nat",
        ],
        &["cubic ecn classic"],
    ),
    flows(
        "wifi",
        "aggregates of a Wi-Fi station",
        &["netem delay 5ms", "wifi mcs 3"],
        &["cubic"],
    ),
    Run {
        name: "applications",
        about: "a call and pages beside an upload",
        links: &["netem delay 10ms", "rate 5Mbit queue fq_codel"],
        flows: &["cubic"],
        apps: &["call", "web"],
        duration: "5s",
    },
    Run {
        name: "requests",
        about: "requests and short flows",
        links: &["netem delay 10ms", "rate 10Mbit queue cake"],
        flows: &[],
        apps: &["request", "short"],
        duration: "5s",
    },
];
