//! Traffic mixes in the simulator: to the byte, in the load that they say, and named where the path
//! does not carry them.

use std::fs;

use crate::support::unwatched;
use narrows_results::{RunOptions, RunResult, run_scenario};
use narrows_sim::SimEngine;

/// A tenth of trafic's example, in its shares.
const MIX: &str = "total-bandwidth: 1.25MB\ntotal-time: 60s\nflows:
  - {kind: realtime-audio, percent-bandwidth: 5%, ports-range: 5000-5099, props: {label: voice}}
  - {kind: realtime-video, percent-bandwidth: 10%, ports-range: 5100-5199, props: {label: video}}
  - {kind: scavenger, percent-bandwidth: 10%, ports-range: 5200-5299, props: {label: background}}
  - {kind: abr-video, percent-bandwidth: 33%, ports-range: 5400-5499, props: {label: segment}}
  - {kind: web-page, percent-bandwidth: 25%, ports-range: 5500-5599, props: {label: page}}
";

/// The mix over a link of this rate, in a run of 75 s; the load that the mix says, in bytes.
fn run(rate: &str, keys: &str) -> (RunResult, u64) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mix.yaml"), MIX).unwrap();
    let text = format!(
        "version = 1\nname = \"mix\"\nduration = \"75s\"\nmeasure = \"0s..75s\"\n\
         [[link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n\
         up = [\"netem delay 5ms\", \"rate {rate} queue fq_codel\"]\n\
         down = [\"netem delay 5ms\", \"rate {rate} queue fq_codel\"]\n\
         [[mix]]\nname = \"mix\"\nfile = \"mix.yaml\"\nfrom = \"client\"\nto = \"server\"\n{keys}\n"
    );
    let file = folder.path().join("mix.toml");
    fs::write(&file, text).unwrap();
    let loaded = narrows_scenario::load(file.to_str().unwrap());
    let plan = loaded.and_then(|loaded| loaded.draft()?.check()).unwrap();
    let said = narrows::traffic::Mix::read("mix.yaml", MIX)
        .unwrap()
        .bytes();
    let options = RunOptions::default();
    let run = unwatched(|watch| run_scenario(&SimEngine, &plan, &options, watch));
    (run.unwrap(), said)
}

fn total(result: &RunResult, app: &str, field: &str) -> f64 {
    let source = result
        .summary
        .sources
        .iter()
        .find(|s| s.name == app)
        .expect(app);
    let field = source
        .telemetry
        .iter()
        .find(|t| t.name == field)
        .expect(field);
    match field.figures {
        narrows_results::summary::FieldFigures::Counter { total, .. } => total,
        ref other => panic!("{other:?}"),
    }
}

fn is_found(result: &RunResult) -> bool {
    let findings = &result.record.verdict.findings;
    findings
        .iter()
        .any(|finding| finding.check == "not-carried")
}

/// Bytes of each flow and application, and all together.
fn arrived(result: &RunResult) -> (Vec<u64>, u64) {
    let mut all: Vec<u64> = result
        .summary
        .flows
        .iter()
        .map(|flow| flow.bytes_total)
        .collect();
    all.push(total(result, "app/mix-segment", "received_bytes") as u64);
    all.push(total(result, "app/mix-page", "received_bytes") as u64);
    let sum = all.iter().sum();
    (all, sum)
}

#[test]
fn a_mix_arrives_to_the_byte_over_tcp_and_quic_where_the_path_carries_it() {
    for keys in [
        "",
        "transport = \"quic\"",
        "cc = \"quic:newreno\"",
        "offsets = \"spread\"",
    ] {
        let (result, said) = run("40Mbit", keys);
        let (all, sum) = arrived(&result);
        assert_eq!(sum, said, "{keys}: {all:?}");
        // 7 calls, one video call, one background transfer; 2 and 2 clients of six objects each.
        assert_eq!(all[0], 3_810 * 126, "{keys}");
        assert_eq!(all[8], 7_500_000, "{keys}");
        assert_eq!(all[9..], [2 * 6 * 1_800_000, 2 * 6 * 1_246_000], "{keys}");
        assert_eq!(total(&result, "app/mix-page", "complete"), 12.0);
        assert!(!is_found(&result), "{}", result.record.verdict.line());
    }
}

#[test]
fn a_mix_that_the_path_does_not_carry_is_named() {
    let (result, said) = run("4Mbit", "");
    assert!(arrived(&result).1 < said);
    assert!(is_found(&result), "{}", result.record.verdict.line());
}
