//! Flows, probes and commands of a plan, with real sockets over a wire that
//! the test reads along.
use crate::flows_rig;

use std::sync::Arc;

use crate::flows_rig::{
    ONE, Run, Seen, delivered, established, finished, tcp_between, threads_in, with,
};
use narrows_core::FlowId;
use narrows_live::Report;
use narrows_live::flows::Commands;
use narrows_units::Duration;

#[test]
fn exact_bytes_arrive_whoever_opens_and_over_both_versions_of_ip() {
    let mut text = with("");
    for (name, more) in [
        ("a", "ip = 4"),
        ("b", "ip = 6"),
        ("c", "opens = \"server\""),
        ("d", "opens = \"server\"\nip = 6"),
    ] {
        text += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n\
             cc = \"kernel:cubic\"\ntraffic = \"bytes 1000003b\"\n{more}\n"
        );
    }
    let Some(mut run) = Run::start("exact_bytes_arrive", &text) else {
        return;
    };
    let flows = [0, 1, 2, 3].map(FlowId);
    run.until(|seen| flows.iter().all(|f| finished(seen, *f).is_some()));
    let (facts, reports) = run.stop();
    for flow in flows {
        assert_eq!(finished(&reports, flow), Some((1_000_003, true)));
        assert_eq!(delivered(&reports, flow), 1_000_003);
        assert_eq!(established(&reports, flow), Some((false, false)));
        let facts = &facts[flow.0 as usize];
        assert_eq!(facts.congestion_control, "cubic");
        assert_eq!(facts.notes, Vec::<String>::new());
    }
}

#[test]
fn a_flow_stops_at_its_time_and_all_that_was_written_arrives() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"kernel:reno\"\nstart = \"50ms\"\nstop = \"2s\"\n",
    );
    let Some(mut run) = Run::start("a_flow_stops", &text) else {
        return;
    };
    run.until(|seen| finished(seen, ONE).is_some());
    let (facts, reports) = run.stop();
    let (bytes, complete) = finished(&reports, ONE).unwrap();
    assert!(complete && bytes > 0);
    assert_eq!(delivered(&reports, ONE), bytes);
    assert_eq!(facts[0].congestion_control, "reno");
}

#[test]
fn an_application_writes_at_its_times_and_not_before() {
    let mut text = with("");
    for (name, control) in [
        ("tcp", "kernel:cubic"),
        ("answers", "kernel:cubic\"\nopens = \"server"),
        ("quic", "quic:cubic"),
    ] {
        text += &format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n\
             cc = \"{control}\"\ntraffic = \"writes 1000b every 10ms\"\n\
             [[flow]]\nname = \"{name}-stopped\"\nfrom = \"client\"\nto = \"server\"\n\
             cc = \"{control}\"\ntraffic = \"writes 700b every 5ms\"\nstop = \"1s\"\n"
        );
    }
    let Some(mut run) = Run::start("an_application_writes_at_its_times", &text) else {
        return;
    };
    let (endless, stopped) = ([0, 2, 4].map(FlowId), [1, 3, 5].map(FlowId));
    run.until(|seen| {
        let many = |flow: &FlowId| delivered(seen, *flow) >= 20_000;
        endless.iter().all(many) && stopped.iter().all(|f| finished(seen, *f).is_some())
    });
    // However late a machine is, nothing was written ahead of its time.
    let reports = run.reports().to_vec();
    let due = 1_000 * (1 + run.now().as_nanos() / 10_000_000);
    for flow in endless {
        let bytes = delivered(&reports, flow);
        assert!(bytes <= due, "{flow:?}: {bytes} of {due}");
    }
    for flow in stopped {
        let (bytes, complete) = finished(&reports, flow).unwrap();
        assert!(
            complete && bytes > 0 && bytes % 700 == 0,
            "{flow:?}: {bytes}"
        );
    }
}

#[test]
fn the_end_of_the_run_ends_a_flow_that_has_no_end() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\ncc = \"kernel:cubic\"\n\
         [[flow]]\nname = \"late\"\nfrom = \"client\"\nto = \"server\"\ncc = \"kernel:cubic\"\n\
         start = \"15s\"\n",
    );
    let Some(mut run) = Run::start("the_end_of_the_run", &text) else {
        return;
    };
    run.until(|seen| {
        let samples = |r: &&Report| matches!(r, Report::Sampled { .. });
        delivered(seen, ONE) > 100_000 && seen.iter().filter(samples).count() >= 3
    });
    let (_, reports) = run.stop();
    let (bytes, complete) = finished(&reports, ONE).unwrap();
    assert!(!complete, "bulk has no end to reach");
    assert_eq!(delivered(&reports, ONE), bytes);
    assert_eq!(finished(&reports, FlowId(1)), None, "it never began");
    let samples: Vec<_> = reports
        .iter()
        .filter_map(|r| match r {
            Report::Sampled { flow, sample } => Some((*flow, *sample)),
            _ => None,
        })
        .collect();
    assert!(samples.iter().all(|(flow, _)| *flow == ONE));
    let last = samples.last().unwrap().1;
    assert!(last.cwnd > 0 && last.delivered > 0 && last.srtt > Duration::ZERO);
    assert!(
        samples
            .windows(2)
            .all(|w| w[0].1.delivered <= w[1].1.delivered)
    );
    assert!(reports.iter().any(|r| matches!(r, Report::Limited { .. })));
}

#[test]
fn ecn_is_negotiated_as_the_plan_asks_and_dscp_is_on_every_packet() {
    let flow = |name: &str, more: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n\
             cc = \"kernel:cubic\"\ntraffic = \"bytes 100000b\"\n{more}\n"
        )
    };
    let text = with("")
        + &flow("auto", "dscp = \"AF41\"")
        + &flow("classic", "ecn = \"classic\"\ndscp = \"AF41\"")
        + &flow("off", "ecn = \"off\"\nip = 6\ndscp = \"AF41\"")
        + &flow("six", "ecn = \"classic\"\nip = 6\ndscp = \"AF41\"")
        + &flow(
            "back",
            "ecn = \"classic\"\nopens = \"server\"\ndscp = \"AF41\"",
        );
    let Some(mut run) = Run::start("ecn_is_negotiated", &text) else {
        return;
    };
    let flows = [0, 1, 2, 3, 4].map(FlowId);
    run.until(|seen| flows.iter().all(|f| finished(seen, *f).is_some()));
    let seen = run.seen();
    let (facts, reports) = run.stop();
    for (i, asked) in [false, true, false, true, true].into_iter().enumerate() {
        let flow = FlowId(i as u32);
        assert_eq!(established(&reports, flow), Some((asked, false)), "{i}");
        assert_eq!(facts[i].ecn, asked, "{i}");
        assert!(!facts[i].accecn, "{i}");
        let (client, server) = (32_768 + i as u16, 5_001 + i as u16);
        let (client, server) = if i == 4 {
            (server, client)
        } else {
            (client, server)
        };
        let packets = tcp_between(&seen, client, server);
        let syns: Vec<&Seen> = packets.iter().filter(|p| p.syn && !p.ack).collect();
        // One that was sent again on a slow machine would ask for nothing
        // (RFC 3168 §6.1.1.1), so the first shows it.
        // ECE and CWR of the SYN (RFC 3168 §6.1.1), and no AE.
        assert_eq!(syns[0].ecn_flags, if asked { 0b011 } else { 0 }, "{i}");
        for packet in &packets {
            assert_eq!(packet.class >> 2, 34, "{i}: AF41 on {packet:?}");
        }
        let data = packets.iter().filter(|p| p.payload > 0);
        let ect = if asked { 0b10 } else { 0 };
        assert!(data.clone().count() > 1);
        // What is sent again is not ECT (RFC 3168 §6.1.5), so the first shows it.
        assert_eq!(data.clone().next().unwrap().class & 3, ect, "{i}");
        assert!(asked || data.clone().all(|p| p.class & 3 == 0), "{i}");
    }
}

#[test]
fn what_the_kernel_cannot_negotiate_is_said() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"kernel:cubic\"\necn = \"accecn\"\ntraffic = \"bytes 100000b\"\n",
    );
    let Some(mut run) = Run::start("what_the_kernel_cannot", &text) else {
        return;
    };
    run.until(|seen| finished(seen, ONE).is_some());
    let (facts, reports) = run.stop();
    let facts = &facts[0];
    // A kernel that knows `tcp_ecn = 3` does it; another says what it did.
    assert_eq!(facts.accecn, facts.notes.is_empty(), "{facts:?}");
    assert_eq!(
        established(&reports, ONE),
        Some((!facts.accecn, facts.accecn))
    );
}

#[test]
fn a_control_that_needs_accurate_ecn_gets_it_from_the_handshake_on() {
    let test = "a_control_that_needs_accurate_ecn";
    let spec = narrows_cc::ControlSpec::parse("prague").unwrap();
    let name = format!("{}_prague", narrows_linux::RunId::random());
    let wanted = narrows_bpf::EcnFlags::AccEcn;
    let loaded =
        match narrows_bpf::ControlLoader::load(&spec, &name, wanted, narrows_bpf::Trace::Off) {
            Ok(loaded) if loaded.ecn() == wanted => loaded,
            Ok(_) => return eprintln!("skipped: {test}: this kernel has no AccECN for a control"),
            Err(e) => return eprintln!("skipped: {test}: {e}"),
        };
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"prague\"\ntraffic = \"bytes 100000b\"\n",
    );
    let Some(mut run) = Run::with_control(test, &text, &name) else {
        return;
    };
    run.until(|seen| finished(seen, ONE).is_some());
    let seen = run.seen();
    let (facts, reports) = run.stop();
    drop(loaded);
    assert_eq!(facts[0].congestion_control, name);
    assert!(facts[0].accecn && !facts[0].ecn, "{:?}", facts[0]);
    assert_eq!(established(&reports, ONE), Some((false, true)));
    assert_eq!(facts[0].received_ce, facts[0].delivered_ce);
    let packets = tcp_between(&seen, 32_768, 5_001);
    let syn = packets.iter().find(|p| p.syn && !p.ack).unwrap();
    assert_eq!(syn.ecn_flags, 0b111, "AE, CWR and ECE (RFC 9768 §3.1.1)");
    // Without the program that turns it into ECT(1), data is ECT(0).
    let data = packets.iter().find(|p| p.payload > 0).unwrap();
    assert_eq!(data.class & 3, 0b10);
}

#[test]
fn data_goes_with_the_syn_of_a_flow_that_comes_after_one_that_fetched_the_cookie() {
    let flow = |name: &str, more: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"client\"\nto = \"server\"\n\
             cc = \"kernel:cubic\"\nfast_open = true\ntraffic = \"bytes 5000b\"\n{more}"
        )
    };
    let text = with("") + &flow("first", "") + &flow("second", "start = \"2s\"\n");
    let Some(mut run) = Run::start("data_goes_with_the_syn", &text) else {
        return;
    };
    run.until(|seen| [0, 1].iter().all(|f| finished(seen, FlowId(*f)).is_some()));
    let seen = run.seen();
    let (facts, reports) = run.stop();
    for (i, with_data) in [(0, false), (1, true)] {
        assert_eq!(finished(&reports, FlowId(i)), Some((5_000, true)));
        assert_eq!(facts[i as usize].notes, Vec::<String>::new());
        let packets = tcp_between(&seen, 32_768 + i as u16, 5_001 + i as u16);
        let syn = packets.iter().find(|p| p.syn && !p.ack).unwrap();
        assert_eq!(syn.payload > 0, with_data, "{i}: {syn:?}");
    }
}

#[test]
fn nothing_is_sent_before_the_run_begins_and_what_begins_with_it_is_not_lost() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"kernel:cubic\"\ntraffic = \"bytes 1000b\"\n\
         [[flow]]\nname = \"two\"\nfrom = \"client\"\nto = \"server\"\n\
         traffic = \"cbr rate 1Mbit\"\n\
         [[probe]]\nname = \"p\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"10ms\"\n\
         [[command]]\nname = \"c\"\nhost = \"client\"\nrun = [\"sleep\", \"1000\"]\n",
    );
    let after = Duration::from_millis(300);
    let Some(mut run) = Run::starting_in("nothing_is_sent_before", &text, after) else {
        return;
    };
    std::thread::sleep(std::time::Duration::from_millis(100));
    let (sent, programs) = (run.seen(), flows_rig::processes_in(&run.namespaces()));
    // A machine that was away for so long has nothing to say about it.
    if run.is_early() {
        assert!(sent.is_empty() && programs == 0, "{sent:?}");
    }
    run.until(|seen| {
        let answered = seen.iter().any(|r| matches!(r, Report::ProbeRtt { .. }));
        finished(seen, ONE).is_some() && delivered(seen, FlowId(1)) > 0 && answered
    });
}

#[test]
fn a_control_that_the_kernel_does_not_have_is_refused() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"kernel:no_such_control\"\n",
    );
    let Some((refused, left)) = Run::refused("a_control_that_the_kernel", &text) else {
        return;
    };
    let line = refused.to_string();
    assert!(
        line.contains("flow/one") && line.contains("no_such_control"),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1);
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn constant_rates_keep_time_and_their_packets_the_plan_s_size() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         traffic = \"cbr rate 8Mbit size 1000\"\ndscp = \"EF\"\nstop = \"500ms\"\n",
    );
    let Some(mut run) = Run::start("constant_rates", &text) else {
        return;
    };
    // The flow is over at 500 ms; what a late thread sends or a late path
    // carries comes after that, and all of it must come.
    run.until(|seen| finished(seen, ONE).is_some() && delivered(seen, ONE) >= 500_000);
    let seen = run.seen();
    let (facts, reports) = run.stop();
    assert_eq!(facts[0].notes, Vec::<String>::new());
    let udp: Vec<&Seen> = seen.iter().filter(|p| p.ports == (32_768, 5_001)).collect();
    assert!(udp.iter().all(|p| p.payload == 1000 && p.class == 46 << 2));
    // One each millisecond from 0 until before 500 ms, however late some of
    // the thread's wake-ups were.
    assert_eq!(udp.len(), 500);
    assert!(!finished(&reports, ONE).unwrap().1);
    assert_eq!(delivered(&reports, ONE), 500_000);
}

#[test]
fn probes_are_answered_with_the_plan_s_size_class_and_ecn_field() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"kernel:cubic\"\ntraffic = \"bytes 1000b\"\n\
         [[probe]]\nname = \"p\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"10ms\"\n\
         size = 100\ndscp = \"CS5\"\necn = \"ect1\"\nstop = \"100ms\"\n",
    );
    let Some(mut run) = Run::start("probes_are_answered", &text) else {
        return;
    };
    let rtts = |seen: &[Report]| -> Vec<Duration> {
        let rtt = |r: &Report| match r {
            Report::ProbeRtt { rtt, .. } => Some(*rtt),
            _ => None,
        };
        seen.iter().filter_map(rtt).collect()
    };
    run.until(|seen| rtts(seen).len() >= 10);
    let seen = run.seen();
    let (_, reports) = run.stop();
    assert_eq!(rtts(&reports).len(), 10, "each question is answered once");
    assert!(rtts(&reports).iter().all(|rtt| *rtt > Duration::ZERO));
    for ports in [(60_000, 2_112), (2_112, 60_000)] {
        let probes: Vec<&Seen> = seen.iter().filter(|p| p.ports == ports).collect();
        assert_eq!(probes.len(), 10);
        assert!(
            probes.iter().all(|p| p.payload == 72),
            "100 bytes of packet"
        );
        assert!(probes.iter().all(|p| p.class == 40 << 2 | 1), "{probes:?}");
    }
}

#[test]
fn a_probe_that_nobody_answers_is_lost_after_its_patience() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"kernel:cubic\"\ntraffic = \"bytes 1000b\"\n\
         [[probe]]\nname = \"p\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"10ms\"\n\
         stop = \"30ms\"\n",
    );
    let Some(mut run) = Run::losing("a_probe_that_nobody", &text, |p| p.ports.1 == 2_112) else {
        return;
    };
    let lost = |seen: &[Report]| {
        let lost = |r: &&Report| matches!(r, Report::ProbeLost { .. });
        seen.iter().filter(lost).count()
    };
    run.until(|seen| lost(seen) >= 3);
    let (_, reports) = run.stop();
    assert_eq!(lost(&reports), 3);
    assert!(!reports.iter().any(|r| matches!(r, Report::ProbeRtt { .. })));
}

#[test]
fn a_flow_whose_packets_are_lost_reports_what_was_sent_again() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"kernel:cubic\"\ntraffic = \"bytes 3Mb\"\n",
    );
    // Every hundredth packet with data.
    let count = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let lose = move |p: &Seen| {
        let of_data = p.payload > 0 && p.ports.0 == 32_768;
        of_data && count.fetch_add(1, std::sync::atomic::Ordering::Relaxed) % 100 == 99
    };
    let Some(mut run) = Run::losing("a_flow_whose_packets", &text, lose) else {
        return;
    };
    run.until(|seen| finished(seen, ONE).is_some());
    let again = |reports: &[Report]| -> usize {
        let bytes = |r: &Report| match r {
            Report::Retransmitted { bytes, .. } => Some(*bytes as usize),
            _ => None,
        };
        reports.iter().filter_map(bytes).sum()
    };
    // What is reported was on the wire a second time, once the wire has
    // carried it: bytes above those that the flow has.
    let (reported, mut twice) = (again(run.reports()), 0);
    let carried = flows_rig::soon(|| {
        let data = tcp_between(&run.seen(), 32_768, 5_001).into_iter();
        let sent = data.filter(|p| p.ports.0 == 32_768).map(|p| p.payload);
        twice = sent.sum::<usize>() - (3 << 20);
        twice >= reported
    });
    assert!(
        carried,
        "{reported} bytes were reported again, and {twice} seen"
    );
    let (_, reports) = run.stop();
    assert_eq!(finished(&reports, ONE), Some((3 << 20, true)));
    assert!(again(&reports) > 0);
    let count = |of: fn(&Report) -> bool| reports.iter().filter(|r| of(r)).count();
    assert!(count(|r| matches!(r, Report::Recovery { .. })) > 0);
}

#[test]
fn no_thread_outlives_the_flows_even_if_nobody_answers() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\ncc = \"kernel:cubic\"\n\
         [[flow]]\nname = \"two\"\nfrom = \"client\"\nto = \"server\"\ntraffic = \"cbr rate 1Mbit\"\n\
         [[probe]]\nname = \"p\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"10ms\"\n",
    );
    let Some(run) = Run::losing("no_thread_outlives", &text, |_| true) else {
        return;
    };
    std::thread::sleep(std::time::Duration::from_millis(100));
    let inodes = run.namespaces();
    // One of each in each host, but nothing is checked where nothing is sent.
    let both = ["host", "host", "samples"];
    assert_eq!(threads_in(&inodes), both);
    let (facts, reports) = run.stop();
    // A joined thread is listed until the kernel has put it away.
    let gone = flows_rig::soon(|| threads_in(&inodes).is_empty());
    assert!(gone, "{:?}", threads_in(&inodes));
    assert_eq!(facts[0].congestion_control, "", "it never was established");
    assert_eq!(finished(&reports, ONE), Some((0, false)));
}

#[test]
fn commands_run_in_their_host_and_leave_output_and_status() {
    let text = with(
        "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"kernel:cubic\"\ntraffic = \"bytes 1000b\"\n\
         [[command]]\nname = \"talk\"\nhost = \"client\"\n\
         run = [\"sh\", \"-c\", \"echo to {server}; echo oops >&2; exit 3\"]\n\
         [[command]]\nname = \"last\"\nhost = \"server\"\n\
         run = [\"sh\", \"-c\", \"sleep 1000 & echo here; wait\"]\n\
         [[command]]\nname = \"timed\"\nhost = \"server\"\nstop = \"100ms\"\n\
         run = [\"sleep\", \"1000\"]\n",
    );
    let keep = tempfile::tempdir().unwrap();
    let Some(run) = Run::keeping("commands_run", &text, keep.path()) else {
        return;
    };
    let read = |name: &str| std::fs::read_to_string(keep.path().join("commands").join(name));
    let patience = std::time::Instant::now();
    while read("last.out").unwrap_or_default() != "here\n" || read("talk.err").unwrap() != "oops\n"
    {
        assert!(patience.elapsed().as_secs() < 60, "commands did not run");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let inodes = run.namespaces();
    // Past the end of `timed`, whose process may not even be in its host before.
    assert!(flows_rig::soon(|| run.now().as_nanos() > 100_000_000));
    // The shell of `last` and its sleeper stay, and nothing else.
    assert!(flows_rig::soon(|| flows_rig::processes_in(&inodes) == 2));
    let ended = run.stop_commands();
    assert_eq!(read("talk.out").unwrap(), "to 10.0.0.2\n");
    assert_eq!(
        (ended[0].status, &*ended[0].ended),
        (Some(3), "exited with 3")
    );
    assert_eq!(
        (ended[1].status, &*ended[1].ended),
        (None, "stopped with the run")
    );
    assert_eq!(
        (ended[2].status, &*ended[2].ended),
        (None, "stopped at its time")
    );
    assert!(ended[0].line.contains("10.0.0.2"), "{}", ended[0].line);
    let gone = flows_rig::soon(|| flows_rig::processes_in(&inodes) == 0);
    assert!(gone, "the sleeper is gone too");
}

#[test]
fn a_program_that_does_not_exist_is_refused_before_anything_starts() {
    for (program, words) in [
        ("no-such-program-anywhere", "PATH"),
        ("/etc/passwd", "no executable file"),
        ("/no/such/file", "there is no command"),
    ] {
        let text = with(&format!(
            "[[flow]]\nname = \"one\"\nfrom = \"client\"\nto = \"server\"\ncc = \"cubic\"\n\
             [[command]]\nname = \"c\"\nhost = \"client\"\nrun = [\"{program}\"]\n"
        ));
        let plan = flows_rig::plan(&text);
        let line = Commands::check(&plan).unwrap_err().to_string();
        assert!(line.starts_with("command/c: "), "{line}");
        assert!(line.contains(program) && line.contains(words), "{line}");
    }
}
