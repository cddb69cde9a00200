//! Traces of real kernels, kept: what the kernel decided, the native build
//! decides as well, call by call. Needs no privileges.

use std::collections::BTreeSet;

use crate::kept_files::Kind;
use crate::recorded::calls::Trace;
use narrows_bpf::Hook;
use narrows_cc::ControlSpec;

const KEPT: Kind<Trace> = Kind {
    folder: "tests/traces",
    read: |input| Trace::read(input),
    write: |trace, out| trace.write(out),
};

#[test]
fn kernel_and_native_build_decide_alike_in_every_kept_trace() {
    let mut seen = BTreeSet::new();
    let mut states = BTreeSet::new();
    let mut algorithms = BTreeSet::new();
    for path in KEPT.files() {
        let trace = KEPT.open(&path);
        let replayed = trace
            .replay()
            .unwrap_or_else(|d| panic!("{}: {d}", path.display()));
        assert_eq!(replayed.sockets, 2, "{}", path.display());
        assert!(replayed.calls[&Hook::PktsAcked] > 500, "{}", path.display());
        seen.extend(replayed.calls.keys().copied());
        let entered = trace.records.iter().filter(|r| r.hook == Hook::SetState);
        states.extend(entered.map(|r| r.argument));
        algorithms.insert(trace.spec.name().to_owned());
        println!(
            "{}: {} calls, Linux {}",
            trace.spec,
            trace.records.len(),
            trace.kernel
        );
    }
    assert_eq!(Vec::from_iter(algorithms), ["cubic", "prague", "reno"]);
    assert_eq!(Vec::from_iter(seen), Hook::ALL[..10], "all but a timer");
    assert!(
        states.is_superset(&BTreeSet::from([0, 1, 2, 3, 4])),
        "{states:?}"
    );
}

#[test]
fn one_altered_decision_fact_or_answer_is_found() {
    for path in KEPT.files() {
        let trace = KEPT.open(&path);
        let name = path.display();
        let find = |hook: Hook, skip: usize| {
            let mut all = trace.records.iter().enumerate();
            let found = all.by_ref().filter(|(_, r)| r.hook == hook && !r.sample);
            found.map(|(i, _)| i).nth(skip)
        };
        let deciding = find(Hook::CongAvoid, 200).or_else(|| find(Hook::CongControl, 200));
        let i = deciding.expect("the window was decided");
        let mut decision = trace.clone();
        decision.records[i].decision.cwnd += 1;
        assert_eq!(
            decision.replay().expect_err("a wrong window").index,
            i,
            "{name}"
        );

        let mut fact = trace.clone();
        fact.records[i].facts.in_flight ^= 1;
        assert_eq!(fact.replay().expect_err("a wrong fact").index, i, "{name}");

        let i = find(Hook::Ssthresh, 0).expect("a reduction");
        let mut answer = trace.clone();
        answer.records[i].answer += 1;
        assert_eq!(
            answer.replay().expect_err("a wrong threshold").index,
            i,
            "{name}"
        );

        let i = find(Hook::Init, 0).expect("a beginning");
        let mut headless = trace.clone();
        headless.records.remove(i);
        assert!(headless.replay().is_err(), "{name}");
    }
}

/// The facts of one algorithm are no proof for another.
#[test]
fn other_parameters_do_not_decide_alike() {
    for path in KEPT.files() {
        let trace = KEPT.open(&path);
        let other = match trace.spec.to_string().as_str() {
            "cubic" => "cubic beta 700",
            "cubic hystart++" => "cubic hystart off",
            "reno" => "cubic",
            "prague variant 2020" => "prague variant 2022",
            "prague variant 2022" => "prague variant 2020",
            "prague variant 2024" => "prague_rounds variant 2024",
            spec => panic!("{spec} has no rival here"),
        };
        let other = Trace {
            spec: ControlSpec::parse(other).expect("words"),
            ..trace
        };
        assert!(
            other.replay().is_err(),
            "{} as {}",
            path.display(),
            other.spec
        );
    }
}

#[test]
fn a_trace_is_read_as_it_was_written_and_refused_when_damaged() {
    let trace = KEPT.open(&KEPT.files()[0]);
    KEPT.survives_a_file(&trace);
    let shorter = Trace {
        records: trace.records[..10].to_vec(),
        ..trace
    };
    KEPT.survives_a_file(&shorter);
}
