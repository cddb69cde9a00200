//! Applications, traffic mixes, and talkers that share a bucket.

use narrows_scenario::MixPlan;

use super::*;
use crate::summary::{FieldFigures, SourceSummary, TelemetrySummary};
use crate::verdict::buckets::{meet, packet, talkers};

/// A source that counted so much of each field.
pub(super) fn source(name: &str, fields: &[(&str, f64)]) -> SourceSummary {
    let field = |&(name, total): &(&str, f64)| TelemetrySummary {
        name: name.to_owned(),
        figures: FieldFigures::Counter {
            total,
            per_s: total / 4.0,
        },
        ..TelemetrySummary::default()
    };
    SourceSummary {
        name: name.to_owned(),
        telemetry: fields.iter().map(field).collect(),
        ..SourceSummary::default()
    }
}

fn app(kind: &str, keys: &str) -> String {
    format!(
        "[[app]]\nkind = \"{kind}\"\nname = \"a\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n"
    )
}

const GET: &str = "bytes = \"1000000b\"\nclients = 2\nstarts = \"every 1s\"";

/// What is found of an application, with its line.
fn found(
    kind: &str,
    keys: &str,
    (start, stop): (u64, Option<u64>),
    sources: Vec<SourceSummary>,
) -> Vec<(Weight, String, String)> {
    let verdict = judged(
        plan_of(&format!("{SCENARIO}{}", app(kind, keys))),
        |plan, s| {
            plan.apps[0].start = at(start);
            plan.apps[0].stop = stop.map(at);
            s.sources = sources;
        },
    );
    let findings = verdict.findings.into_iter();
    findings.map(|f| (f.weight, f.check, f.line)).collect()
}

#[test]
fn an_application_of_which_something_was_due_delivers_some_of_it() {
    let whole = (0, None);
    let get = |fields: &[(&str, f64)]| {
        // Another one's figures are not its own.
        let other = source("app/b", &[("asked", 0.0), ("complete", 9.0)]);
        found("get", GET, whole, vec![other, source("app/a", fields)])
    };
    let nothing = |of: &str| {
        let line = format!("not one object of app/a was complete in the steady window{of}");
        vec![(Weight::Distrust, "nothing-delivered".to_owned(), line)]
    };
    assert_eq!(get(&[]), []);
    assert_eq!(get(&[("asked", 1.0)]), nothing(", of 1 that were due"));
    assert_eq!(get(&[("asked", 1.0), ("complete", 1.0)]), []);
    assert_eq!(get(&[("complete", 1.0)]), []);
    let waiting = |max| {
        let mut of = source("app/a", &[("unfinished", 0.0)]);
        of.telemetry[0].figures = FieldFigures::Gauge {
            min: 0.0,
            mean: 0.0,
            max,
        };
        found("get", GET, whole, vec![of])
    };
    assert_eq!(waiting(1.0), nothing(""));
    assert_eq!(waiting(0.0), []);
    // What still waits when it has stopped is no concern of the window.
    let stopped = |stop| {
        let asked = source("app/a", &[("asked", 1.0)]);
        !found("get", GET, (0, Some(stop)), vec![asked]).is_empty()
    };
    assert!(!stopped(2_000));
    assert!(stopped(2_001));
    // A page that was loaded has a time of loading.
    let mut page = source("app/a", &[("pages", 1.0), ("load_ms", 0.0)]);
    let keys = "page = \"1x10kb\"\nthink = \"1s\"";
    assert_eq!(found("web", keys, whole, vec![page.clone()]).len(), 1);
    page.telemetry[1].figures = FieldFigures::Sample(Distribution::default());
    assert_eq!(found("web", keys, whole, vec![page]), []);
}

#[test]
fn an_application_that_runs_for_half_of_the_window_and_reports_nothing_is_found() {
    let nothing = |kind, keys, times, sources| {
        let found = found(kind, keys, times, sources);
        match found.as_slice() {
            [] => false,
            [(Weight::Distrust, check, _)] if check == "nothing-delivered" => true,
            other => panic!("{other:?}"),
        }
    };
    for (kind, keys) in [("get", GET), ("video", "ladder = \"1Mbit\"")] {
        assert!(nothing(kind, keys, (0, None), vec![]));
        assert!(nothing(kind, keys, (4_000, None), vec![]));
        assert!(!nothing(kind, keys, (4_001, None), vec![]));
        assert!(nothing(kind, keys, (0, Some(4_000)), vec![]));
        assert!(!nothing(kind, keys, (0, Some(3_999)), vec![]));
    }
    let video = |played| {
        let seen = source("app/a", &[("played_ms", played)]);
        nothing("video", "ladder = \"1Mbit\"", (0, None), vec![seen])
    };
    assert!(video(0.0));
    assert!(!video(1.0));
}

#[test]
fn failures_of_half_of_what_was_due_speak_against_a_run() {
    let failed = |asked: f64, failed: f64| {
        let fields = [("asked", asked), ("complete", 1.0), ("failed", failed)];
        let found = found("get", GET, (0, None), vec![source("app/a", &fields)]);
        found.into_iter().next()
    };
    let of = |weight, asked: u64, failed: u64| {
        let line = format!(
            "{failed} objects of app/a failed in the steady window, in which {asked} were due"
        );
        Some((weight, "failures".to_owned(), line))
    };
    assert_eq!(failed(3.0, 0.0), None);
    assert_eq!(failed(3.0, 1.0), of(Weight::Note, 3, 1));
    assert_eq!(failed(2.0, 1.0), of(Weight::Distrust, 2, 1));
    assert_eq!(failed(8.0, 4.0), of(Weight::Distrust, 8, 4));
    assert_eq!(failed(8.0, 3.0), of(Weight::Note, 8, 3));
}

#[test]
fn a_host_that_had_no_port_left_is_named() {
    let found = |refused| {
        let verdict = judged(plan_of(SCENARIO), |_, summary| {
            summary.sources = vec![source("host/client", &[("no_port", refused)])];
        });
        let entities = verdict
            .reasons()
            .map(|f| (f.check.clone(), f.entity.clone()));
        entities.collect::<Vec<_>>()
    };
    assert_eq!(found(0.0), []);
    let named = ("out-of-ports".to_owned(), "host/client".to_owned());
    assert_eq!(found(1.0), [named]);
}

/// Two flows of datagrams of 8 Mbit/s, one of writes of as much, and two applications, beside the
/// scenario's, of which the first is in the mix as well.
fn mix(flows: &[usize], apps: &[usize]) -> Plan {
    let ends = "from = \"client\"\nto = \"server\"";
    let flow = |name: &str, keys: &str| format!("[[flow]]\nname = \"{name}\"\n{ends}\n{keys}\n");
    let second = app("get", &GET.replace("1000000b", "2000000b")).replace("\"a\"", "\"b\"");
    let mut plan = plan_of(&format!(
        "{SCENARIO}{}{}{}{}{second}",
        flow("cbr", "traffic = \"cbr rate 8Mbit\""),
        flow("poisson", "traffic = \"poisson rate 8Mbit\""),
        flow(
            "writes",
            "cc = \"cubic\"\ntraffic = \"writes 1000b every 1ms\""
        ),
        app("get", GET)
    ));
    plan.mixes.push(MixPlan {
        name: "m".to_owned(),
        flows: flows.to_vec(),
        apps: apps.to_vec(),
    });
    plan
}

#[test]
fn a_hundredth_of_a_mix_may_be_missing_beside_what_is_on_its_way() {
    let not_carried = |plan: Plan, bytes: [u64; 3], got: [f64; 2]| {
        let verdict = judged(plan, |_, summary| {
            for (flow, bytes) in summary.flows[2..].iter_mut().zip(bytes) {
                flow.bytes = bytes;
            }
            let app = |name: &str, got| {
                let fields = [("asked", 10.0), ("complete", 1.0), ("received_bytes", got)];
                source(name, &fields)
            };
            summary.sources = vec![app("app/a", got[0]), app("app/b", got[1])];
        });
        let found = verdict.findings.iter().find(|f| f.check == "not-carried");
        found.map(|f| {
            assert_eq!((f.weight, &*f.entity), (Weight::Distrust, "mix/m"));
            f.line.clone()
        })
    };
    // Each flow has 4 MB to send in four seconds, of which 40 kB may be missing.
    let all = [4_000_000; 3];
    let (none, enough) = ([0.0; 2], 3_960_000);
    for index in 0..3 {
        let of = |bytes| {
            let mut each = all;
            each[index] = bytes;
            not_carried(mix(&[index + 2], &[]), each, none)
        };
        assert_eq!(of(enough), None, "{index}");
        assert_eq!(
            of(3_959_999).as_deref(),
            Some(
                "the path does not carry mix/m: 8.00 Mbit/s of it were due in the steady window, \
                 and 7.92 Mbit/s arrived"
            )
        );
    }
    // Of all together 120 kB; a flow that sends what the path carries has nothing due.
    let three = || mix(&[0, 2, 3, 4], &[]);
    assert_eq!(
        not_carried(three(), [4_000_000, 3_880_000, 4_000_000], none),
        None
    );
    assert!(not_carried(three(), [4_000_000, 3_879_999, 4_000_000], none).is_some());
    // Ten objects of 1 MB, of which each of two clients may still await one.
    let one = || mix(&[], &[0]);
    assert_eq!(not_carried(one(), all, [7.9e6, 0.0]), None);
    assert_eq!(
        not_carried(one(), all, [7.899e6, 0.0]).as_deref(),
        Some(
            "the path does not carry mix/m: 20.00 Mbit/s of it were due in the steady window, and \
             15.80 Mbit/s arrived"
        )
    );
    let two = || mix(&[], &[0, 1]);
    assert_eq!(not_carried(two(), all, [7.9e6, 15.8e6]), None);
    assert!(not_carried(two(), all, [7.9e6, 15.799e6]).is_some());
    let mixed = || mix(&[2, 3], &[0, 1]);
    assert_eq!(
        not_carried(mixed(), [4_000_000, 3_920_000, 0], [7.9e6, 15.8e6]),
        None
    );
    assert!(not_carried(mixed(), [4_000_000, 3_919_000, 0], [7.9e6, 15.8e6]).is_some());
    // One that stops in the middle of the window has half as much to send.
    let mut half = mix(&[2], &[]);
    half.flows[2].stop = Some(at(4_000));
    assert_eq!(not_carried(half.clone(), [1_980_000, 0, 0], none), None);
    assert!(not_carried(half, [1_979_999, 0, 0], none).is_some());
}

#[test]
fn talkers_meet_that_differ_and_are_there_at_the_same_time() {
    let meets = |one: (u64, Option<u64>), other: (u64, Option<u64>)| {
        let mut plan = plan_of(SCENARIO);
        for (flow, (start, stop)) in plan.flows.iter_mut().zip([one, other]) {
            (flow.start, flow.stop) = (at(start), stop.map(at));
        }
        let all = talkers(&plan);
        assert!(!meet(&plan, &all[0], &all[0]), "a talker and itself");
        let both = meet(&plan, &all[0], &all[1]);
        assert_eq!(meet(&plan, &all[1], &all[0]), both);
        both
    };
    assert!(meets((0, None), (0, None)));
    assert!(meets((0, Some(2_001)), (2_000, None)));
    assert!(!meets((0, Some(2_000)), (2_000, None)));
    assert!(!meets((0, Some(1_000)), (2_000, None)));
    assert!(meets((0, None), (5_999, Some(9_000))));
    assert!(!meets((0, None), (6_000, Some(9_000))), "the run is over");
}

#[test]
fn a_queue_sees_a_talkers_addresses_ports_protocol_and_class() {
    let mut plan = plan_of(SCENARIO);
    plan.flows[0].dscp = 46;
    let talker = &talkers(&plan)[0];
    assert_eq!(talker.name, "flow/first");
    let (source, destination) = (
        "10.1.2.3:258".parse().unwrap(),
        "10.4.5.6:772".parse().unwrap(),
    );
    let bytes = packet(talker, source, destination).bytes;
    assert_eq!(bytes[1], 46 << 2);
    assert_eq!(bytes[9], narrows_wire::ip::TCP);
    assert_eq!(
        bytes[12..],
        [10, 1, 2, 3, 10, 4, 5, 6, 1, 2, 3, 4, 0, 0, 0, 0]
    );
}

#[test]
fn flows_and_probes_that_share_a_bucket_are_noted_where_their_addresses_are_known() {
    let probe = "[[probe]]\nname = \"ping\"\nfrom = \"client\"\nto = \"server\"\n";
    let text = SCENARIO.replace("queue pfifo", "queue fq_codel flows 2");
    let shared = |text: &str| {
        (1..=20)
            .flat_map(|seed| judged(plan_of(text), |_, s| s.seed = seed).findings)
            .inspect(|f| assert_eq!((f.weight, &*f.check), (Weight::Note, "shared-bucket")))
            .map(|f| f.line)
            .collect::<Vec<_>>()
    };
    // With half of the seeds; of twenty not once in 10⁶ none or all.
    let lines = shared(&text);
    let line = format!(
        "flow/first and flow/second share a bucket of {MEANT}, which takes them for one flow; \
         another seed sorts them otherwise"
    );
    assert!((1..20).contains(&lines.len()), "{lines:?}");
    assert!(lines.iter().all(|l| *l == line), "{lines:?}");
    let lines = shared(&format!("{text}{probe}"));
    assert!(
        lines
            .iter()
            .any(|l| l.contains("probe/ping share a bucket"))
    );
    assert!(shared(SCENARIO).is_empty());
    let nat = text.replace("[\"netem delay 10ms", "[\"nat\", \"netem delay 10ms");
    assert!(shared(&nat).is_empty(), "a run settles what is seen there");
}
