//! Lines of queues at random, for the tests of this crate: each parameter there or not, with
//! values that tc takes.

use proptest::prelude::*;

use crate::QueueSpec;

/// A kind of queue, what its line has in any case, and for each parameter the ways to write it.
type Grammar = (
    &'static str,
    &'static str,
    &'static [&'static [&'static str]],
);

const GRAMMARS: &[Grammar] = &[
    (
        "fq_pie",
        "",
        &[
            &["limit 1", "limit 4294967295"],
            &["flows 1", "flows 65536", "flows 1024"],
            &["target 1us", "target 2000s", "target 15ms"],
            &["tupdate 16ms"],
            &["alpha 1", "alpha 32"],
            &["beta 1", "beta 20"],
            &["quantum 1", "quantum 1Mb", "quantum 1514"],
            &["memory_limit 1", "memory_limit 4095Mb"],
            &["ecn_prob 1", "ecn_prob 99"],
            &["ecn", "noecn"],
            &["bytemode", "nobytemode"],
            &["dq_rate_estimator", "no_dq_rate_estimator"],
        ],
    ),
    (
        "dualq",
        "",
        &[
            &[
                "aqm pi2",
                "aqm pie",
                "aqm pie uncoupled",
                "aqm pie coupled",
                "aqm cred",
                "aqm red",
            ],
            &["limit 1", "limit 4294967295"],
            &["target 1us", "target 4s"],
            &["l_target 5ms"],
            &["tupdate 15ms", "tupdate 16ms"],
            &["alpha 0.16", "alpha 30"],
            &["beta 1.6", "beta 1.25"],
            &["coupling_factor 1", "coupling_factor 255"],
            &["step_thresh 1us"],
            &["min 0", "min 100"],
            &["max 101", "max 300"],
            &["l_min 0", "l_min 27"],
            &["l_max 28", "l_max 80"],
            &["priority", "shift 30ms", "shift 1us", "wrr 1:1", "wrr 10:5"],
            &["dscp 0", "dscp 63"],
        ],
    ),
    (
        "sfq",
        "",
        &[
            &["limit 2", "limit 127", "limit 4294967295"],
            &["perturb 0", "perturb 10"],
            &["quantum 1", "quantum 1514"],
            &["divisor 2", "divisor 65536"],
            &["flows 2", "flows 65000"],
            &["depth 1", "depth 300"],
            &["headdrop"],
        ],
    ),
    (
        "prio",
        "bands 5",
        &[
            &["priomap 0 1 2 3 4 3 2 1", "priomap 4"],
            &[
                "band 0 queue (pfifo)",
                "band 4 queue (fq_codel flows 1 target 1ms)",
            ],
            &["band 3 queue (prio band 0 queue (codel ecn))"],
        ],
    ),
    (
        "drr",
        "class a",
        &[
            &["quantum 1", "quantum 64Kb"],
            &[
                "queue (sfq perturb 10)",
                "queue (red limit 400000 avpkt 1000)",
            ],
            &[
                "class b dscp 46,34 quantum 100",
                "class 1:10 dscp 0 queue (drr class x)",
            ],
        ],
    ),
    (
        "bearers",
        "bearer a",
        &[
            &["qci 5", "qci 70"],
            &["queue (pfifo limit 5)", "queue (codel ecn)"],
            &[
                "bearer b dscp 46,34 qci 7",
                "bearer x dscp 0 queue (bearers bearer y)",
            ],
        ],
    ),
    (
        "fq",
        "",
        &[
            &["limit 1", "limit 4294967295"],
            &["flow_limit 1"],
            &["quantum 1", "quantum 1048576"],
            &["initial_quantum 0", "initial_quantum 2147483647"],
            &["maxrate 8bit", "maxrate 10Mbit"],
            &["buckets 2"],
            &["pacing", "nopacing"],
            &["refill_delay 1ms"],
            &["bands 3 priomap 0 0 0 0 1 1 1 1 2 2 2 2 0 1 2 0"],
            &["weights 16384 16384 2147483647"],
            &["low_rate_threshold 1Mbit"],
            &["orphan_mask 0", "orphan_mask 65535"],
            &["ce_threshold 5ms"],
        ],
    ),
    (
        "htb",
        "class 1:1 rate 10Mbit class rest parent 1:1 rate 1Mbit",
        &[
            &[
                "class 1:10 parent 1:1 rate 2Mbit dscp 8",
                "class x rate 1bps dscp 3",
            ],
            &["ceil 4Mbit"],
            &["burst 15Kb", "burst 1"],
            &["cburst 15Kb"],
            &["prio 0", "prio 7", "prio 4294967295"],
            &["quantum 1514"],
            &["r2q 1", "r2q 100"],
            &["class 1:11 parent 1:1 rate 1Mbit dscp 46 queue (fq_codel)"],
        ],
    ),
    (
        "tbf",
        "rate 1Mbit burst 2000 latency 50ms",
        &[
            &["peakrate 2Mbit mtu 1514"],
            &["queue (codel)", "queue (tbf rate 2Mbit burst 9 limit 9)"],
        ],
    ),
    (
        "pi2",
        "",
        &[
            &["variant rfc9332", "variant conext-2016"],
            &["limit 1", "limit 4294967295"],
            &["target 1us", "target 4s", "target 15ms"],
            &["tupdate 16ms", "tupdate 32ms"],
            &["alpha 0.16", "alpha 0.15"],
            &["beta 3.2", "beta 3"],
            &["coupling_factor 1", "coupling_factor 255"],
            &["ecn", "noecn"],
        ],
    ),
];

fn line_of((kind, always, parameters): Grammar) -> impl Strategy<Value = String> {
    let each: Vec<_> = parameters
        .iter()
        .map(|ways| proptest::option::of(proptest::sample::select(*ways)))
        .collect();
    each.prop_map(move |words| {
        let words: Vec<_> = words.into_iter().flatten().collect();
        let line = format!("{kind} {always} {}", words.join(" "));
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    })
}

/// A queue of one of the [`GRAMMARS`].
pub(crate) fn any_of_grammars() -> impl Strategy<Value = QueueSpec> {
    proptest::sample::select(GRAMMARS)
        .prop_flat_map(line_of)
        .prop_map(|line| QueueSpec::parse(&line).unwrap_or_else(|e| panic!("{line}: {e}")))
}

#[test]
fn every_parameter_of_these_kinds_is_written() {
    for (kind, always, parameters) in GRAMMARS {
        let declared = crate::QUEUE_KINDS.iter().find(|d| d.name == *kind);
        let declared = declared.unwrap_or_else(|| panic!("{kind} is no queue"));
        let ways = parameters.iter().flat_map(|ways| ways.iter());
        let named: Vec<_> = ways
            .flat_map(|way| way.split(' '))
            .chain(always.split(' '))
            .collect();
        for p in declared.parameters {
            for name in p.names() {
                assert!(named.contains(&name), "{kind} {name}");
            }
        }
    }
}
