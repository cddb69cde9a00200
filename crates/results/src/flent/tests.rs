//! Names, columns and numbers of the file, of runs made by hand.

mod written;

use std::io::Read;

use flate2::read::GzDecoder;

use super::names::Names;
use super::*;
use crate::series::{Series, Track};
use crate::summary::{
    Distribution, FlowSummary, ProbeSummary, QueueSummary, RunSummary, TopologyLink,
};

const QUEUE: &str = "link/access/up/bottleneck";

fn flow(name: &str, from: &str, to: &str) -> FlowSummary {
    FlowSummary {
        name: format!("flow/{name}"),
        from: from.to_owned(),
        to: to.to_owned(),
        cc: "cubic hystart off".to_owned(),
        ..FlowSummary::default()
    }
}

fn up(name: &str) -> FlowSummary {
    flow(name, "client", "server")
}

fn down(name: &str) -> FlowSummary {
    flow(name, "server", "client")
}

fn track(entity: &str, metric: &str, rows: &[(f64, f64)]) -> Track {
    let (t_s, value) = rows.iter().copied().unzip();
    Track {
        entity: entity.to_owned(),
        metric: metric.to_owned(),
        t_s,
        value,
    }
}

fn goodput(flow: &str, rows: &[(f64, f64)]) -> Track {
    track(&format!("flow/{flow}"), "goodput_mbit", rows)
}

/// A run of one second in intervals of a quarter; `asked` is what its scenario has of flows.
fn run(flows: Vec<FlowSummary>, asked: Value, probes: &[&str], tracks: Vec<Track>) -> RunResult {
    let probe = |name: &&str| ProbeSummary {
        name: format!("probe/{name}"),
        ..ProbeSummary::default()
    };
    let link = TopologyLink {
        ends: ("client".to_owned(), "server".to_owned()),
        ..TopologyLink::default()
    };
    let mut run = RunResult::default();
    run.record.virtual_s = 6.0;
    run.record.narrows = "1.2.3".to_owned();
    run.record.scenario = json!({ "flows": asked });
    run.summary = RunSummary {
        name: "two flows".to_owned(),
        engine: "sim".to_owned(),
        seed: 7,
        duration_s: 20.0,
        flows,
        probes: probes.iter().map(probe).collect(),
        ..RunSummary::default()
    };
    run.summary.topology.links = vec![link];
    run.series = Series {
        interval_s: 0.25,
        tracks,
    };
    run
}

/// The file of a run.
fn file(run: &RunResult) -> Value {
    let gz = to_gz(run).unwrap().expect("samples");
    let mut text = String::new();
    GzDecoder::new(gz.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.ends_with("}\n"));
    serde_json::from_str(&text).unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect()
}

#[test]
fn the_time_line_has_the_ends_of_all_intervals() {
    let grid = |interval_s, tracks: &[&[(f64, f64)]]| {
        let tracks = tracks.iter().map(|rows| goodput("a", rows)).collect();
        Grid::of(&Series { interval_s, tracks })
    };
    let four = grid(0.05, &[&[(0.05, 1.0), (0.2, 1.0)], &[(0.1, 1.0)]]).unwrap();
    assert_eq!((four.step_s(), four.len()), (0.05, 4));
    // Three times 0.05 would be 0.15000000000000002.
    assert_eq!(four.times().collect::<Vec<_>>(), [0.05, 0.1, 0.15, 0.2]);
    let index = [0.0, 0.05, 0.1, 0.15, 0.2].map(|t| four.index(t));
    assert_eq!(index, [0, 0, 1, 2, 3]);
    assert!(grid(0.05, &[]).is_none());
    assert!(grid(0.05, &[&[]]).is_none());
    assert!(grid(0.0, &[&[(0.2, 1.0)]]).is_none());
    assert!(
        to_gz(&run(vec![up("a")], json!([]), &[], vec![]))
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_gauge_without_a_row_is_not_there_and_a_counter_is_zero() {
    let mut run = run(
        vec![up("a")],
        json!([]),
        &[],
        vec![
            goodput("a", &[(0.25, 1.0), (1.0, 3.0)]),
            track("flow/a", "srtt_ms", &[(0.5, 20.0)]),
            track(QUEUE, "sojourn_ms", &[(0.5, 7.0)]),
            track(QUEUE, "marks", &[(0.5, 4.0), (1.0, 2.0)]),
            track(QUEUE, "throughput_mbit", &[(1.0, 9.0)]),
        ],
    );
    for name in [QUEUE, "link/idle/up/rate"] {
        run.summary.queues.push(QueueSummary {
            name: name.to_owned(),
            words: "rate 50Mbit".to_owned(),
            ..QueueSummary::default()
        });
    }
    let file = file(&run);
    let results = &file["results"];
    let queue = format!("qdisc_stats_{QUEUE}");
    assert_eq!(results["TCP upload::1"], json!([1.0, null, null, 3.0]));
    let rtt = &results["TCP upload::1::tcp_rtt"];
    assert_eq!(*rtt, json!([null, 20.0, null, null]));
    assert_eq!(
        results[format!("{queue}::ecn_mark")],
        json!([0.0, 4.0, 0.0, 2.0])
    );
    assert_eq!(
        results[format!("{queue}::dropped")],
        json!([0.0, 0.0, 0.0, 0.0])
    );
    assert_eq!(
        keys(results),
        [
            "TCP upload avg",
            "TCP upload fairness",
            "TCP upload sum",
            "TCP upload::1",
            "TCP upload::1::tcp_rtt",
            &format!("{queue}::dropped"),
            &format!("{queue}::ecn_mark"),
        ]
    );
    // Of an interval in which nothing was measured there is no row.
    let raw = &file["raw_values"];
    assert_eq!(keys(raw), ["TCP upload::1", &queue]);
    assert_eq!(
        raw["TCP upload::1"],
        json!([
            { "t": 0.25, "dur": 0.25, "val": 1.0 },
            { "t": 0.5, "dur": 0.25, "tcp_rtt": 20.0 },
            { "t": 1.0, "dur": 0.25, "val": 3.0 },
        ])
    );
    assert_eq!(
        raw[&queue],
        json!([
            { "t": 0.25, "dur": 0.25, "dropped": 0.0, "ecn_mark": 0.0 },
            { "t": 0.5, "dur": 0.25, "delay": 7.0, "dropped": 0.0, "ecn_mark": 4.0 },
            { "t": 0.75, "dur": 0.25, "dropped": 0.0, "ecn_mark": 0.0 },
            { "t": 1.0, "dur": 0.25, "dropped": 0.0, "ecn_mark": 2.0 },
        ])
    );
    let metadata = &file["metadata"];
    assert_eq!(
        metadata["SERIES_META"][&queue],
        json!({ "UNITS": "misc", "NARROWS_NAME": QUEUE, "QDISC": "rate 50Mbit" })
    );
    assert_eq!(
        metadata["TEST_PARAMETERS"],
        json!({
            "cc_algos": "cubic",
            "upload_streams": 1,
            "qdisc_stats_hosts": format!("{QUEUE},link/idle/up/rate"),
            "qdisc_stats_interfaces": "bottleneck,rate",
        })
    );
}

#[test]
fn a_run_is_called_as_the_test_that_has_such_flows() {
    let samples = || vec![goodput("x", &[(0.25, 1.0)])];
    let cbr = || json!([{ "traffic": "bulk" }, { "traffic": "cbr rate 1Mbit" }]);
    let cases = [
        (
            vec![up("a"), up("b")],
            json!([]),
            &[][..],
            "tcp_nup",
            vec!["TCP upload::1", "TCP upload::2"],
        ),
        (
            vec![down("a"), down("b")],
            json!([]),
            &[],
            "tcp_ndown",
            vec!["TCP download::1", "TCP download::2"],
        ),
        (
            vec![up("a"), down("b")],
            json!([]),
            &["p"],
            "rrul_var",
            vec!["TCP upload::a", "TCP download::b"],
        ),
        // Datagrams have a name of their own, and make no other test of it.
        (
            vec![up("a"), down("b")],
            cbr(),
            &[],
            "tcp_nup",
            vec!["TCP upload::1", "UDP download::b"],
        ),
        (
            vec![down("a"), up("b")],
            cbr(),
            &[],
            "tcp_ndown",
            vec!["TCP download::1", "UDP upload::b"],
        ),
        (vec![], json!([]), &["p"], "ping", vec![]),
        (
            vec![up("up")],
            json!([]),
            &["ping"],
            "tcp_1up",
            vec!["TCP upload"],
        ),
        (
            vec![down("down")],
            json!([]),
            &["ping"],
            "tcp_1down",
            vec!["TCP download"],
        ),
        (
            vec![up("up1"), up("up2")],
            json!([]),
            &["ping"],
            "tcp_2up",
            vec!["TCP upload::1", "TCP upload::2"],
        ),
    ];
    for (flows, asked, probes, test, expected) in cases {
        let run = run(flows, asked, probes, samples());
        let names = Names::of(&run);
        assert_eq!(
            (names.test, names.flows),
            (
                test,
                expected.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>()
            )
        );
        let own = test_of(&run).map(|own| own.name);
        assert_eq!(own, (probes == ["ping"]).then_some(test));
    }
    // Of several that have such flows it is the one that the scenario names.
    let mut named = run(vec![up("up1"), up("up2")], json!([]), &["ping"], samples());
    named.record.scenario["test"] = json!("tcp_nup");
    assert_eq!(Names::of(&named).test, "tcp_nup");
    // Modelled flows and calls, whose delay is measured one way, are no streams of a test.
    named.summary.flows.push(FlowSummary {
        one_way: Some(Default::default()),
        ..up("call")
    });
    assert_eq!(test_of(&named).map(|own| own.name), Some("tcp_nup"));
}

#[test]
fn parameters_and_probes_are_those_of_the_test() {
    let of = |flows, asked, probes: &[&str]| {
        let names = Names::of(&run(flows, asked, probes, vec![]));
        (names.parameters, names.probes, names.delay_s)
    };
    let late = |mut flow: FlowSummary| {
        flow.start_s = 5.0;
        flow
    };
    let extra = |name: &str| format!("Ping (ms) ICMP {name} (extra)");
    let one_way = of(vec![late(up("a")), up("b")], json!([]), &["p", "q", "r"]);
    assert_eq!(
        one_way,
        (
            json!({ "cc_algos": "cubic,cubic", "upload_streams": 2, "ping_hosts": "q,r" }),
            vec!["Ping (ms) ICMP".to_owned(), extra("q"), extra("r")],
            0.0
        )
    );
    let (parameters, ..) = of(vec![down("a"), down("b"), down("c")], json!([]), &[]);
    assert_eq!(
        parameters,
        json!({ "cc_algos": "cubic,cubic,cubic", "download_streams": 3 })
    );
    let cbr = json!([{}, {}, { "traffic": "cbr rate 1Mbit" }, {}]);
    let flows = vec![up("a"), down("b"), up("call"), down("c")];
    let (parameters, probes, _) = of(flows, cbr, &["p", "q"]);
    assert_eq!(
        parameters,
        json!({
            "cc_algos": "cubic,cubic,cubic",
            "bidir_streams": 3,
            "labels": "a,b,c",
            "ping_hosts": "q",
        })
    );
    assert_eq!(probes, ["Ping (ms)::ICMP".to_owned(), extra("q")]);
    // Flent's own test pings alone until its flows begin.
    let own = of(vec![late(up("up"))], json!([]), &["far", "ping"]);
    assert_eq!(
        own,
        (
            json!({ "cc_algos": "cubic", "ping_hosts": "far" }),
            vec![extra("far"), "Ping (ms) ICMP".to_owned()],
            5.0
        )
    );
}

#[test]
fn the_near_host_is_at_the_first_end_of_the_first_link_that_a_flow_touches() {
    let hosts = |from: &str, to: &str| {
        let mut run = run(vec![flow("a", from, to)], json!([]), &[], vec![]);
        let link = |a: &str, b: &str| TopologyLink {
            ends: (a.to_owned(), b.to_owned()),
            ..TopologyLink::default()
        };
        run.summary.topology.links = vec![
            link("x", "y"),
            link("client", "gate"),
            link("gate", "server"),
        ];
        let names = Names::of(&run);
        [names.near, names.far].map(Option::unwrap)
    };
    for (from, to, near, far) in [
        ("client", "server", "client", "server"),
        ("server", "client", "client", "server"),
        ("client", "gate", "client", "gate"),
        ("gate", "client", "client", "gate"),
        // It leaves by the second end, or arrives there.
        ("gate", "server", "server", "gate"),
        ("server", "gate", "server", "gate"),
        ("here", "server", "here", "server"),
        ("server", "here", "here", "server"),
        ("here", "there", "here", "there"),
    ] {
        assert_eq!(hosts(from, to), [near, far], "{from} to {to}");
    }
    let none = Names::of(&run(vec![], json!([]), &["p"], vec![]));
    assert_eq!((none.near, none.far), (None, None));
}

#[test]
fn the_version_of_ip_is_said_where_all_flows_have_the_same() {
    let version = |asked: Value| {
        let flows = vec![up("a"), up("b")];
        Names::of(&run(flows, asked, &[], vec![])).ip_version
    };
    assert_eq!(version(json!([{ "ip": "6" }, { "ip": "6" }])), Some(6));
    assert_eq!(version(json!([{ "ip": "4" }, { "ip": "6" }])), None);
    assert_eq!(version(json!([{ "ip": "6" }, { "ip": "4" }])), None);
    assert_eq!(version(json!([])), None, "another version's folder");
    assert_eq!(version(json!("what is this")), None);
}

#[test]
fn a_flow_has_its_mean_over_the_time_that_it_took() {
    let meta = |start_s, finished_s| {
        let of = FlowSummary {
            start_s,
            finished_s,
            bytes_total: 1_000_000,
            ..up("a")
        };
        let tracks = vec![
            goodput("a", &[(0.25, 1.0)]),
            track("flow/a", "retransmissions", &[(0.25, 2.0), (1.0, 3.0)]),
        ];
        let file = file(&run(vec![of], json!([{ "dscp": 46 }]), &[], tracks));
        file["metadata"]["SERIES_META"]["TCP upload::1"].clone()
    };
    let expected = |mean: Option<f64>, elapsed: f64| {
        json!({
            "UNITS": "Mbits/s",
            "MEAN_VALUE": mean,
            "ELAPSED_TIME": elapsed,
            "BYTES_RECVD": 1_000_000,
            "CONG_CONTROL": "cubic hystart off",
            "DATA_TOS": 184,
            "TCP_RETRANSMIT": 5.0,
            "NARROWS_NAME": "flow/a",
        })
    };
    assert_eq!(meta(1.0, Some(5.0)), expected(Some(2.0), 4.0));
    // Until the run's end, at 6 s.
    assert_eq!(meta(1.0, None), expected(Some(1.6), 5.0));
    assert_eq!(meta(6.0, None), expected(None, 0.0));
    assert_eq!(meta(7.0, None), expected(None, 0.0));
    let asked = json!([{ "traffic": "cbr rate 1Mbit" }]);
    let call = file(&run(
        vec![up("a")],
        asked,
        &[],
        vec![goodput("a", &[(0.25, 1.0)])],
    ));
    let meta = &call["metadata"]["SERIES_META"]["UDP upload::a"];
    assert_eq!(
        (&meta["CONG_CONTROL"], &meta["TCP_RETRANSMIT"]),
        (&Value::Null, &json!(0.0))
    );
}

#[test]
fn sum_mean_and_fairness_are_of_the_flows_of_one_way_that_have_a_value() {
    let asked = json!([{}, {}, { "traffic": "cbr rate 1Mbit" }]);
    let tracks = || {
        vec![
            goodput("a", &[(0.25, 1.0), (0.5, 2.0), (1.0, 0.0)]),
            goodput("b", &[(0.25, 3.0)]),
            goodput("call", &[(0.25, 7.0), (0.75, 7.0)]),
        ]
    };
    let file_of = |flows, probes: &[&str], more: Vec<Track>| {
        let all = tracks().into_iter().chain(more).collect();
        file(&run(flows, asked.clone(), probes, all))
    };
    for (flows, word) in [
        (vec![up("a"), up("b"), up("call")], "upload"),
        (vec![down("a"), down("b"), down("call")], "download"),
    ] {
        let file = file_of(flows, &[], vec![]);
        let of = |what: &str| &file["results"][format!("TCP {word} {what}")];
        assert_eq!(*of("sum"), json!([4.0, 2.0, null, 0.0]));
        assert_eq!(*of("avg"), json!([2.0, 2.0, null, 0.0]));
        // Jain's index of 1 and 3 is 16 / (2 * 10); of nothing there is none.
        assert_eq!(*of("fairness"), json!([0.8, 1.0, null, null]));
        let units = |what: &str| &file["metadata"]["SERIES_META"][format!("TCP {word} {what}")];
        assert_eq!(*units("sum"), json!({ "UNITS": "Mbits/s" }));
        assert_eq!(*units("fairness"), json!({ "UNITS": "Idx" }));
        let computed = keys(&file["results"])
            .into_iter()
            .filter(|k| !k.contains("::"));
        assert_eq!(computed.count(), 3, "none of the other way, and no totals");
    }
    // Both ways: totals, and a mean of the pings of this host.
    let pings = vec![
        track("probe/p", "rtt_ms", &[(0.25, 10.0), (0.75, 30.0)]),
        track("probe/q", "rtt_ms", &[(0.25, 20.0)]),
    ];
    let both = file_of(
        vec![up("a"), down("b"), up("call")],
        &["p", "q"],
        pings.clone(),
    );
    let results = &both["results"];
    assert_eq!(results["TCP upload sum"], json!([1.0, 2.0, null, 0.0]));
    assert_eq!(results["TCP download sum"], json!([3.0, null, null, null]));
    assert_eq!(results["TCP totals"], json!([4.0, 2.0, null, 0.0]));
    assert_eq!(results["Ping (ms)::ICMP"], json!([10.0, null, 30.0, null]));
    assert_eq!(results["Ping (ms) avg"], json!([10.0, null, 30.0, null]));
    assert_eq!(results["TCP upload fairness"], Value::Null);
    let alone = file_of(vec![up("a"), down("b"), up("call")], &[], vec![]);
    assert_eq!(alone["results"]["Ping (ms) avg"], Value::Null);
    assert_eq!(alone["results"]["TCP totals"], json!([4.0, 2.0, null, 0.0]));
}

#[test]
fn rrul_has_the_mean_of_all_its_probes() {
    let test = FlentTest::named("rrul_be", None).unwrap();
    let flows = test.flows.iter().map(|of| match of.down {
        true => down(&of.name),
        false => up(&of.name),
    });
    let mut probes: Vec<&str> = test.probes.iter().map(|p| p.name).collect();
    probes.push("more");
    let tracks = vec![
        track("probe/ping", "rtt_ms", &[(0.25, 10.0)]),
        track("probe/more", "rtt_ms", &[(0.25, 20.0)]),
        goodput("up-BE", &[(0.25, 4.0)]),
    ];
    let file = file(&run(flows.collect(), json!([]), &probes, tracks));
    assert_eq!(file["metadata"]["NAME"], "rrul_be");
    let results = &file["results"];
    assert_eq!(results["TCP upload BE"], json!([4.0]));
    assert_eq!(results["TCP totals"], json!([4.0]));
    assert_eq!(results["Ping (ms) avg"], json!([15.0]));
    assert_eq!(results["TCP upload fairness"], Value::Null);
    let parameters = &file["metadata"]["TEST_PARAMETERS"];
    assert_eq!(parameters["ping_hosts"], "more");
    assert_eq!(parameters["bidir_streams"], Value::Null);
}

#[test]
fn metadata_says_what_ran_where_and_for_how_long() {
    let mut of = run(
        vec![FlowSummary {
            start_s: 5.0,
            ..up("up")
        }],
        json!([{ "ip": "4" }]),
        &["ping"],
        vec![goodput("up", &[(0.25, 1.0)])],
    );
    of.summary.window.from_s = 2.5;
    of.summary.window.to_s = 6.0;
    of.summary.probes[0].rtt_ms = Some(Distribution {
        mean: 12.5,
        ..Distribution::default()
    });
    let file = file(&of);
    assert_eq!(
        (&file["version"], &file["x_values"]),
        (&json!(4), &json!([0.25]))
    );
    let mut metadata = file["metadata"].clone();
    let series = metadata["SERIES_META"].take();
    let ping = json!({ "UNITS": "ms", "MEAN_VALUE": 12.5, "NARROWS_NAME": "probe/ping" });
    assert_eq!(series["Ping (ms) ICMP"], ping);
    assert_eq!(
        metadata,
        json!({
            "NAME": "tcp_1up",
            "TITLE": "two flows, seed 7",
            "HOST": "server",
            "HOSTS": ["server"],
            "LOCAL_HOST": "client",
            "LENGTH": 10.0,
            "TOTAL_LENGTH": 20.0,
            "DELAY": 5.0,
            "STEP_SIZE": 0.25,
            "TIME": "1970-01-01T00:00:00.000000Z",
            "T0": "1970-01-01T00:00:00.000000Z",
            "IP_VERSION": 4,
            "TEST_PARAMETERS": { "cc_algos": "cubic" },
            "NOTE": "Made by Narrows 1.2.3 (sim). Steady window: --data-cutoff=2.5,6. TCP upload: \
                     flow/up, cubic hystart off. Ping (ms) ICMP: probe/ping, UDP datagrams.",
            "DATA_FILENAME": "run.flent.gz",
            "FLENT_VERSION": "narrows 1.2.3",
            "FAILED_RUNNERS": 0,
            "BATCH_NAME": null,
            "BATCH_TIME": null,
            "BATCH_TITLE": null,
            "BATCH_UUID": null,
            "NARROWS_SCENARIO": "two flows",
            "NARROWS_SEED": 7,
            "NARROWS_ENGINE": "sim",
            "SERIES_META": null,
        })
    );
}

#[test]
fn of_an_interval_in_which_no_flow_has_a_value_nothing_is_computed() {
    let tracks = vec![goodput("a", &[(0.25, 1.0), (1.0, 0.0)])];
    let run = run(vec![up("a")], json!([]), &[], tracks);
    let grid = Grid::of(&run.series).unwrap();
    let computed = Names::of(&run).computed(&run, &run.series.by_name(), &grid);
    let expected = [
        ("TCP upload avg", vec![Some(1.0), None, None, Some(0.0)]),
        ("TCP upload sum", vec![Some(1.0), None, None, Some(0.0)]),
        ("TCP upload fairness", vec![Some(1.0), None, None, None]),
    ];
    let computed: Vec<_> = computed.into_iter().map(|(n, _, v)| (n, v)).collect();
    assert_eq!(computed, expected.map(|(n, v)| (n.to_owned(), v)));
}
