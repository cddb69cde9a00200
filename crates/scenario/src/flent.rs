//! Flent's tests by their names: the flows and probes that each of them is.
//!
//! Facts are those of Flent 2.3.0 (`flent/tests/*.conf`): which streams there are, their markings
//! and what their series are called.

mod expand;

use narrows_units::{Declared, Parameter, ParameterKind};

pub(crate) use expand::{expand, times};

/// Flent's `DELAY`: flows begin so long after the probes, and end so long before them.
pub(crate) const DELAY: &str = "5s";

/// Flent's `LENGTH` of 60 s, and its `DELAY` before and after it.
pub(crate) const TOTAL_LENGTH: &str = "70s";

/// Flent's `STEP_SIZE`: a question of each probe in so long a time.
pub(crate) const STEP_SIZE: &str = "200ms";

/// Most flows of a test in one direction: Flent's `tcp_50up` has 50.
pub(crate) const MOST_STREAMS: u64 = 128;

/// One of Flent's tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlentTest {
    /// Its name.
    pub name: &'static str,
    /// Its flows.
    pub flows: Vec<FlentFlow>,
    /// Its probes.
    pub probes: Vec<FlentProbe>,
}

/// A flow of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlentFlow {
    /// What it is called in a scenario.
    pub name: String,
    /// Whether its data go to the client.
    pub down: bool,
    /// Its code point by name.
    pub dscp: &'static str,
    /// What Flent calls its series.
    pub series: String,
}

/// A probe of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlentProbe {
    /// What it is called in a scenario.
    pub name: &'static str,
    /// Its code point by name.
    pub dscp: &'static str,
    /// What Flent calls its series.
    pub series: &'static str,
}

/// A ping of best effort, which all tests have. Flent's is an ICMP echo; here it is a datagram of
/// that length, as every probe is.
const PING: FlentProbe = probe("ping", "cs0", "Ping (ms) ICMP");

/// The classes of `rrul`: Flent's word, and the code point.
const CLASSES: [(&str, &str); 4] = [("BE", "cs0"), ("BK", "cs1"), ("CS5", "cs5"), ("EF", "ef")];

/// Four flows of one class.
const BEST_EFFORT: [(&str, &str); 4] = [
    ("BE", "cs0"),
    ("BE2", "cs0"),
    ("BE3", "cs0"),
    ("BE4", "cs0"),
];

/// The probes of `rrul`.
const OF_CLASSES: [FlentProbe; 4] = [
    probe("udp-EF", "ef", "Ping (ms) UDP EF"),
    probe("udp-BK", "cs1", "Ping (ms) UDP BK"),
    probe("udp-BE", "cs0", "Ping (ms) UDP BE"),
    PING,
];

/// The probes of `rrul_be`.
const OF_BEST_EFFORT: [FlentProbe; 4] = [
    probe("udp-BE1", "cs0", "Ping (ms) UDP BE1"),
    probe("udp-BE2", "cs0", "Ping (ms) UDP BE2"),
    probe("udp-BE3", "cs0", "Ping (ms) UDP BE3"),
    PING,
];

const fn probe(name: &'static str, dscp: &'static str, series: &'static str) -> FlentProbe {
    FlentProbe { name, dscp, series }
}

const fn test(name: &'static str, about: &'static str) -> Declared {
    Declared {
        name,
        about,
        parameters: &[],
    }
}

const fn of_streams(name: &'static str, about: &'static str) -> Declared {
    const STREAMS: &[Parameter] = &[Parameter::new(
        "streams NUMBER",
        ParameterKind::Number("flows"),
        "1 to 128",
        "4",
        "How many flows there are",
    )];
    Declared {
        name,
        about,
        parameters: STREAMS,
    }
}

/// How many flows `tcp_nup` and `tcp_ndown` have where nothing is said. Flent has one for each
/// processor, which would make a run depend on the machine.
const STREAMS: u64 = 4;

/// All tests. Where one has the flows and probes of another and more, it comes first.
pub const FLENT_TESTS: &[Declared] = &[
    test(
        "rrul",
        "Four flows up and four down, of best effort, CS1, CS5 and EF, beside a ping and probes of EF, CS1 and best effort.",
    ),
    test(
        "rrul_be",
        "Four flows up and four down beside a ping and three probes, all of best effort.",
    ),
    test(
        "rrul_noclassification",
        "Four flows up and four down of best effort, beside the probes of rrul.",
    ),
    test(
        "rrul_icmp",
        "Four flows up and four down beside a ping, all of best effort.",
    ),
    test("tcp_1up", "One flow up beside a ping."),
    test("tcp_2up", "Two flows up beside a ping."),
    test("tcp_4up", "Four flows up beside a ping."),
    test("tcp_8up", "Eight flows up beside a ping."),
    test("tcp_12up", "Twelve flows up beside a ping."),
    test("tcp_50up", "Fifty flows up beside a ping."),
    test("tcp_1down", "One flow down beside a ping."),
    test("tcp_2down", "Two flows down beside a ping."),
    test("tcp_4down", "Four flows down beside a ping."),
    test("tcp_6down", "Six flows down beside a ping."),
    test("tcp_8down", "Eight flows down beside a ping."),
    test("tcp_12down", "Twelve flows down beside a ping."),
    test("tcp_upload", "One flow up beside a ping."),
    test("tcp_download", "One flow down beside a ping."),
    test("tcp_bidirectional", "A flow up and one down beside a ping."),
    of_streams("tcp_nup", "Flows up beside a ping."),
    of_streams("tcp_ndown", "Flows down beside a ping."),
];

/// Their names.
pub(crate) const NAMES: [&str; FLENT_TESTS.len()] = {
    let mut names = [""; FLENT_TESTS.len()];
    let mut at = 0;
    while at < names.len() {
        names[at] = FLENT_TESTS[at].name;
        at += 1;
    }
    names
};

impl FlentTest {
    /// The test of this name; with so many flows, if it is one that lets that be said.
    pub fn named(name: &str, streams: Option<u64>) -> Option<Self> {
        let declared = FLENT_TESTS.iter().find(|test| test.name == name)?;
        let lone = |name: &str, down| FlentFlow {
            name: name.to_owned(),
            down,
            dscp: "cs0",
            series: format!("TCP {}", word(down)),
        };
        let flows = match name {
            "rrul" => both_ways(&CLASSES),
            "rrul_be" | "rrul_icmp" | "rrul_noclassification" => both_ways(&BEST_EFFORT),
            "tcp_1up" => vec![lone("up", false)],
            "tcp_1down" => vec![lone("down", true)],
            "tcp_upload" => vec![lone("upload", false)],
            "tcp_download" => vec![lone("download", true)],
            "tcp_bidirectional" => vec![lone("download", true), lone("upload", false)],
            _ => {
                let count = name.strip_prefix("tcp_")?;
                let down = count.ends_with("down");
                let count = count.trim_end_matches(if down { "down" } else { "up" });
                let count = count.parse().ok().or(streams).unwrap_or(STREAMS);
                (1..=count).map(|number| numbered(number, down)).collect()
            }
        };
        let probes = match name {
            "rrul" | "rrul_noclassification" => OF_CLASSES.to_vec(),
            "rrul_be" => OF_BEST_EFFORT.to_vec(),
            _ => vec![PING],
        };
        Some(Self {
            name: declared.name,
            flows,
            probes,
        })
    }

    /// The test that has these flows and, perhaps among others, these probes, by their names. Of
    /// several, as of `tcp_8up` and of `tcp_nup` with eight flows, it is the one that is called
    /// `name`, and the first if none is.
    pub fn of(name: &str, flows: &[&str], probes: &[&str]) -> Option<Self> {
        let streams = Some(flows.len() as u64);
        if streams > Some(MOST_STREAMS) {
            return None;
        }
        let tests = FLENT_TESTS
            .iter()
            .filter_map(|test| Self::named(test.name, streams));
        let fits = |test: &Self| {
            test.flows.len() == flows.len()
                && test.flows.iter().all(|f| flows.contains(&&*f.name))
                && test.probes.iter().all(|p| probes.contains(&p.name))
        };
        tests.filter(fits).min_by_key(|test| test.name != name)
    }
}

/// Flent's word for a direction.
const fn word(down: bool) -> &'static str {
    match down {
        true => "download",
        false => "upload",
    }
}

fn numbered(number: u64, down: bool) -> FlentFlow {
    FlentFlow {
        name: format!("{}{number}", if down { "down" } else { "up" }),
        down,
        dscp: "cs0",
        series: format!("TCP {}::{number}", word(down)),
    }
}

fn both_ways(classes: &[(&str, &'static str)]) -> Vec<FlentFlow> {
    let ways = [false, true].into_iter();
    let of = |down, class: &str, dscp| FlentFlow {
        name: format!("{}-{class}", if down { "down" } else { "up" }),
        down,
        dscp,
        series: format!("TCP {} {class}", word(down)),
    };
    ways.flat_map(|down| {
        classes
            .iter()
            .map(move |(class, dscp)| of(down, class, *dscp))
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(test: &FlentTest) -> (Vec<&str>, Vec<&str>) {
        let flows = test.flows.iter().map(|flow| &*flow.name).collect();
        (flows, test.probes.iter().map(|probe| probe.name).collect())
    }

    #[test]
    fn each_test_is_known_by_the_names_of_its_flows_and_probes() {
        for declared in FLENT_TESTS {
            let streams = (!declared.parameters.is_empty()).then_some(5);
            let test = FlentTest::named(declared.name, streams).expect(declared.name);
            let (flows, probes) = names(&test);
            let found = FlentTest::of("", &flows, &probes).expect(declared.name);
            assert_eq!(found, test);
        }
        let eight = FlentTest::named("tcp_ndown", Some(8)).expect("a test");
        let (flows, probes) = names(&eight);
        for (name, found) in [
            ("tcp_ndown", "tcp_ndown"),
            ("tcp_8down", "tcp_8down"),
            ("", "tcp_8down"),
            ("rrul", "tcp_8down"),
        ] {
            let test = FlentTest::of(name, &flows, &probes);
            assert_eq!(test.map(|test| test.name), Some(found), "{name}");
        }
    }

    #[test]
    fn flows_that_are_no_tests_are_none() {
        let (rrul, probes) = (FlentTest::named("rrul", None).expect("a test"), &["ping"]);
        let (mut flows, _) = names(&rrul);
        assert_eq!(
            FlentTest::of("", &flows, probes),
            None,
            "probes are missing"
        );
        assert_eq!(FlentTest::of("", &["up1", "down1"], probes), None);
        assert_eq!(FlentTest::of("", &["up", "down"], probes), None);
        assert_eq!(FlentTest::of("", &["up"], &["other"]), None);
        flows.pop();
        let (_, probes) = names(&rrul);
        assert_eq!(
            FlentTest::of("", &flows, &probes),
            None,
            "a flow is missing"
        );
        assert_eq!(FlentTest::named("tcp_7up", None), None);
    }

    #[test]
    fn rrul_has_a_flow_each_way_in_each_class_of_flent() {
        let rrul = FlentTest::named("rrul", None).expect("a test");
        let of = |down| {
            let flows = rrul.flows.iter().filter(move |flow| flow.down == down);
            flows.map(|f| (f.dscp, &*f.series)).collect::<Vec<_>>()
        };
        let up = ["BE", "BK", "CS5", "EF"].map(|class| format!("TCP upload {class}"));
        let dscp = ["cs0", "cs1", "cs5", "ef"];
        let expected: Vec<_> = dscp.into_iter().zip(up.iter().map(|s| &**s)).collect();
        assert_eq!(of(false), expected);
        let down: Vec<_> = of(true).iter().map(|(dscp, _)| *dscp).collect();
        assert_eq!(down, dscp);
        assert!(rrul.flows.iter().all(|f| f.series.contains(if f.down {
            "download"
        } else {
            "upload"
        })));
    }
}
