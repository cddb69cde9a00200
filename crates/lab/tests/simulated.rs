//! The laboratory on the real simulator.

mod support;

use std::fs;
use std::path::Path;
use std::process::Command;

use narrows_lab::{Output, RunOptions, RunResult, SimEngine, run_scenario};
use narrows_scenario::Plan;
use narrows_wire::capture::CaptureReader;
use support::{SCENARIO, plan_of, run, run_to, unwatched};

/// The two flows with a tap before the bottleneck and captures at it and at
/// the client.
fn plan() -> Plan {
    let text = SCENARIO.replace(
        r#"up   = ["netem delay 10ms", "#,
        r#"up   = ["netem delay 10ms", "tap mid", "#,
    );
    let text = format!(
        "{text}\n[[capture]]\nname = \"mid\"\nat = \"tap/mid\"\n\
         [[capture]]\nname = \"client\"\nat = \"host/client\"\nsnaplen = 100\n"
    );
    plan_of(&text)
}

fn captured(dir: &Path) -> RunResult {
    run_to(&SimEngine, &plan(), 1, dir)
}

#[test]
fn two_runs_have_one_digest_captures_included() {
    let dirs: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
    let (first, second) = (captured(dirs[0].path()), captured(dirs[1].path()));
    assert_eq!(first.record.digest, second.record.digest);
    let names: Vec<&str> = first.record.files.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "captures/client.pcapng",
            "captures/mid.pcapng",
            "run.flent.gz",
            "series.csv.gz",
            "summary.csv",
            "summary.json"
        ]
    );
}

/// An application that writes at times of its own: a path that is fast enough
/// carries exactly what it writes, a slower one what it can.
#[test]
fn what_an_application_writes_at_times_of_its_own_is_carried() {
    let delivered = |rate: &str| {
        let text = format!(
            r#"
version  = 1
name     = "writes"
duration = "4s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["rate {rate} queue pfifo limit 1000", "netem delay 5ms"]
down = ["netem delay 5ms"]

[[flow]]
name = "data"
from = "client"
to   = "server"
cc   = "cubic"
traffic = "writes 1000b every 10ms"
start = "5ms"
stop = "2s"
"#
        );
        let result = run(&SimEngine, &plan_of(&text));
        assert!(
            result.record.verdict.trusted(),
            "{:?}",
            result.record.verdict
        );
        result.summary.flows[0].bytes_total
    };
    // 0, 10, … 1990 ms after the start, at 5 ms.
    assert_eq!(delivered("10Mbit"), 200_000);
    let slow = delivered("400Kbit");
    assert!((100_000..200_000).contains(&slow), "{slow}");
}

/// What our own numbers say, what our own reader reads, and, where it is
/// installed, what tshark counts, are the same packets.
#[test]
fn a_capture_holds_the_packets_that_the_run_counted() {
    let dir = tempfile::tempdir().unwrap();
    let result = captured(dir.path());
    let path = dir.path().join("captures/client.pcapng");
    let mut reader = CaptureReader::new(fs::File::open(&path).unwrap()).unwrap();
    let mut packets = 0;
    while reader.read().unwrap().is_some() {
        packets += 1;
    }
    assert_eq!(reader.interfaces()[0].name, "host/client");
    // The client sends one direction and receives the other; a packet on its
    // way at the end was sent and not received.
    let seen: u64 = result
        .summary
        .flows
        .iter()
        .flat_map(|f| f.codepoints.sent.iter().chain(&f.codepoints.received))
        .sum();
    assert!(
        packets * 2 >= seen - 400 && packets * 2 <= seen + 400,
        "{packets} of {seen}"
    );

    let tshark = Command::new("tshark")
        .args([
            "-o",
            "tcp.check_checksum:TRUE",
            "-o",
            "ip.check_checksum:TRUE",
        ])
        .args([
            "-Y",
            "_ws.malformed || tcp.checksum.status == 0 || ip.checksum.status == 0",
        ])
        .arg("-r")
        .arg(dir.path().join("captures/mid.pcapng"))
        .output();
    match tshark {
        Ok(output) if output.status.success() => {
            let bad = String::from_utf8_lossy(&output.stdout).into_owned();
            assert_eq!(
                bad.lines().count(),
                0,
                "{}",
                bad.lines().next().unwrap_or("")
            );
        }
        _ => eprintln!("skipped the part with tshark: it is not installed"),
    }
}

/// RFC 9331's point: in a DualPI2 bottleneck a Prague flow waits less than a
/// CUBIC flow does. The figures stand in the two bands of the queue.
#[test]
fn the_bands_of_dualpi2_come_out_apart() {
    let text = SCENARIO.replace("queue fq_codel", "queue dualpi2");
    let result = run(&SimEngine, &plan_of(&text));
    let queue = result.summary.queue("link/access/up/bottleneck").unwrap();
    let p50 = |band: usize| queue.bands[band].sojourn_ms.unwrap().p50;
    assert_eq!(queue.bands[0].name, "classic");
    assert!(p50(0) > 5.0 * p50(1), "{} and {}", p50(0), p50(1));
    assert!(queue.marks.coupled > 0 && queue.marks.probability > 0);
    assert!(queue.utilisation.unwrap() > 0.9);
    assert_eq!(result.record.verdict.line(), "trust: yes");
}

/// A stream of datagrams has no handshake and no control, but a goodput like
/// any other flow, from its start on.
#[test]
fn datagrams_are_measured_without_a_handshake() {
    let flow = "\n[[flow]]\nname = \"call\"\nfrom = \"client\"\nto = \"server\"\n\
                start = \"1s\"\ntraffic = \"cbr rate 2Mbit\"\n";
    let result = run(&SimEngine, &plan_of(&format!("{SCENARIO}{flow}")));
    assert_eq!(result.record.verdict.line(), "trust: yes");
    let call = result.summary.flow("call").unwrap();
    assert_eq!(call.cc, "none");
    let goodput = call.goodput_mbit.unwrap();
    assert!((1.9..=2.1).contains(&goodput), "{goodput}");
    let track = result.series.track("flow/call", "goodput_mbit").unwrap();
    assert_eq!((track.t_s[0], track.t_s.len()), (1.05, 100));
}

/// RFC 7413 §2: the first connection asks for a cookie; the next one to the
/// same server has it, and its data go with the SYN.
#[test]
fn the_second_connection_with_fast_open_sends_data_in_its_syn() {
    let links = SCENARIO.split("[[flow]]").next().unwrap();
    let flow = |name: &str, start: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\ncc = \"cubic\"\n\
             fast_open = true\nbytes = \"1000\"\nstart = \"{start}\"\n"
        )
    };
    let capture = "[[capture]]\nname = \"client\"\nat = \"host/client\"\nsnaplen = 100\n";
    let text = format!(
        "{links}{}{}{capture}",
        flow("cold", "0s"),
        flow("warm", "1s")
    );
    let dir = tempfile::tempdir().unwrap();
    let result = run_to(&SimEngine, &plan_of(&text), 1, dir.path());
    assert!(result.summary.flows.iter().all(|f| f.bytes_total == 1000));
    let file = fs::File::open(dir.path().join("captures/client.pcapng")).unwrap();
    let mut reader = CaptureReader::new(file).unwrap();
    let mut syns = Vec::new();
    while let Some(packet) = reader.read().unwrap() {
        // The flags of TCP after an IPv4 header without options.
        if packet.bytes[33] & 0x12 == 0x02 {
            let headers = 20 + usize::from(packet.bytes[32] >> 4) * 4;
            syns.push(packet.original_len as usize - headers);
        }
    }
    assert_eq!(syns, [0, 1000]);
}

#[test]
fn what_needs_a_kernel_is_refused_before_anything_is_written() {
    let command =
        "[[command]]\nname = \"ping\"\nhost = \"client\"\nrun = [\"ping\", \"{server}\"]\n";
    for (text, sentence) in [
        (
            SCENARIO.replace("cc   = \"cubic\"", "cc   = \"kernel:bbr\""),
            "flow/second: `kernel:bbr` runs in a kernel only; give the flow one of Narrows' own \
             controls, kernel:reno or kernel:cubic, or run it with --engine live",
        ),
        (
            format!("{SCENARIO}\n{command}"),
            "command/ping: the simulator runs no programs; take [[command]] out, or run it with \
             --engine live",
        ),
    ] {
        let plan = plan_of(&text);
        let dir = tempfile::tempdir().unwrap();
        let options = RunOptions {
            output: Output::Folder(dir.path().join("out")),
            ..RunOptions::default()
        };
        let error = unwatched(|w| run_scenario(&SimEngine, &plan, &options, w));
        let error = error.unwrap_err();
        assert!(error.is_refusal());
        assert_eq!(error.to_string(), sentence);
        assert!(!dir.path().join("out").exists());
    }
}

#[test]
fn a_kernels_cubic_is_simulated_as_our_own() {
    let goodputs = |cc: &str| {
        let text = SCENARIO.replace("cc   = \"cubic\"", &format!("cc   = \"{cc}\""));
        let summary = run(&SimEngine, &plan_of(&text)).summary;
        assert_eq!(summary.flows[1].cc, cc);
        summary
            .flows
            .iter()
            .map(|f| f.bytes_total)
            .collect::<Vec<_>>()
    };
    assert_eq!(goodputs("kernel:cubic"), goodputs("cubic"));
}

#[test]
fn a_flow_fills_the_opportunities_of_a_trace_beside_its_scenario() {
    let dir = tempfile::tempdir().unwrap();
    // 12 full packets every 10 ms in three bursts: 14.4 Mbit/s.
    let trace: String = [2, 3, 10]
        .iter()
        .map(|at| format!("{at}\n").repeat(4))
        .collect();
    fs::write(dir.path().join("up.trace"), trace).unwrap();
    let text = SCENARIO.replace("rate 50Mbit queue", "rate trace up.trace queue");
    let file = dir.path().join("traced.toml");
    fs::write(&file, text).unwrap();
    let loaded = narrows_scenario::load(file.to_str().unwrap()).unwrap();
    let plan = loaded.draft().unwrap().check().unwrap();
    let summary = run(&SimEngine, &plan).summary;
    let queue = summary.queue("link/access/up/bottleneck").unwrap();
    assert_eq!(queue.words, "rate trace up.trace queue fq_codel");
    let rate = 12.0 * 1504.0 * 8.0 / 10_000.0;
    assert!((queue.rate_mbit.unwrap() - rate).abs() < 1e-6);
    assert!((0.95..=1.0).contains(&queue.utilisation.unwrap()));
    let goodput: f64 = summary.flows.iter().filter_map(|f| f.goodput_mbit).sum();
    let ideal = rate * 1448.0 / 1504.0;
    assert!((0.95..1.001).contains(&(goodput / ideal)), "{goodput}");
}
