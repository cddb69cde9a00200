//! Whole runs on this machine: what comes in comes out, events are in order,
//! a caller can cancel, and errors are returned in time. Needs root, or a user
//! namespace, and TUN.
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_engine::Rig;
use narrows_live::{Ended, LiveError, RunHandle};

use narrows_core::{Event, EventSink, FlowId};
use narrows_scenario::{Draft, Plan};
use narrows_units::{Duration, Instant};

fn plan(toml: &str) -> Plan {
    let text = format!("version = 1\nname = \"test\"\n{toml}");
    match Draft::read("test.toml", text.as_bytes()).and_then(|d| d.check()) {
        Ok(plan) => plan,
        Err(refusal) => panic!("{refusal:?}\n{text}"),
    }
}

#[derive(Default)]
struct Record {
    last: Instant,
    established: u32,
    delivered: u64,
    finished: u32,
    sent: u64,
    sent_ids: Vec<u64>,
    received: u64,
    received_bytes: u64,
    backlog: i64,
    /// Congestion windows of a proxy's far leg, in order.
    far_windows: Vec<i64>,
    /// The rate that a flow's control says it was given last.
    given: Option<i64>,
    received_ids: Vec<u64>,
    of_the_flow: u64,
    dropped: u64,
    samples: u32,
    rtts: Vec<Duration>,
}

impl EventSink for Record {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        assert!(now >= self.last, "time goes on");
        self.last = now;
        match event {
            Event::Established { .. } => self.established += 1,
            Event::Delivered { bytes, .. } => self.delivered += bytes,
            Event::Finished { .. } => self.finished += 1,
            Event::Sent { packet, .. } => {
                self.sent += 1;
                self.sent_ids.push(packet.id.0);
                self.of_the_flow += u64::from(packet.flow == Some(FlowId(0)));
            }
            Event::Received { packet, .. } => {
                self.received += 1;
                self.received_bytes += u64::from(packet.len());
                self.received_ids.push(packet.id.0);
            }
            Event::Dropped { .. } => self.dropped += 1,
            Event::Telemetry { field, value, .. } if field.name == "proxy_backlog" => {
                self.backlog = self.backlog.max(value);
            }
            Event::Telemetry { field, value, .. } if field.name == "far_cwnd" => {
                self.far_windows.push(value);
            }
            Event::Telemetry { field, value, .. } if field.name == "given" => {
                self.given = Some(value);
            }
            Event::Sampled { .. } => self.samples += 1,
            Event::ProbeRtt { rtt, .. } => self.rtts.push(rtt),
            _ => {}
        }
    }
}

/// Runs `plan`, or says why `test` cannot be run here.
fn run(test: &str, plan: &Plan, handle: &RunHandle<'_>) -> Option<(Ended, Rig, Record)> {
    run_unless(test, plan, handle, LiveError::is_of_the_machine)
}

/// Runs `plan`, or says why `test` is skipped: for an error that `skips`.
fn run_unless(
    test: &str,
    plan: &Plan,
    handle: &RunHandle<'_>,
    skips: impl Fn(&LiveError) -> bool,
) -> Option<(Ended, Rig, Record)> {
    let mut record = Record::default();
    match narrows_live::run(plan, 1, &mut record, handle) {
        Ok(mut ended) => {
            let rig = ended.rig.take().expect("a live run has a rig");
            Some((ended, rig, record))
        }
        Err(error) if skips(&error) => {
            eprintln!("skipped: {test}: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_transfer_arrives_whole_and_is_seen_on_its_way() {
    for ip in [4, 6] {
        let plan = plan(&format!(
            "duration = \"1500ms\"\n\
             [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
             up = [\"netem delay 5ms\", \"rate 20Mbit queue fq_codel\"]\ndown = [\"netem delay 5ms\"]\n\
             [[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\nip = {ip}\n\
             cc = \"kernel:reno\"\ntraffic = \"bytes 500000\"\n\
             [[probe]]\nname = \"p\"\nfrom = \"client\"\nto = \"server\"\ninterval = \"100ms\"\n"
        ));
        let name = "a_transfer_arrives_whole_and_is_seen_on_its_way";
        let Some((outcome, rig, record)) = run(name, &plan, &RunHandle::default()) else {
            return;
        };
        assert_eq!(record.established, 1);
        assert_eq!(record.finished, 1);
        assert!(record.delivered > 100_000, "{}", record.delivered);
        assert!(record.of_the_flow > 100 && record.samples > 0);
        assert!(record.sent >= record.received && record.received > 100);
        // The path alone takes this long.
        assert!(!record.rtts.is_empty());
        assert!(record.rtts.iter().all(|r| *r >= Duration::from_millis(10)));
        assert_eq!(rig.flows.len(), 1);
        assert_eq!(rig.flows[0].congestion_control, "reno");
        assert!(rig.lateness.count > 0);
        assert!(!outcome.interrupted);
        assert_eq!(outcome.virtual_time, plan.duration);
    }
}

#[test]
fn a_run_that_is_cancelled_ends_and_says_so() {
    let plan = plan(
        "duration = \"1h\"\n\
         [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\nup = [\"rate 10Mbit\"]\n\
         [[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\ncc = \"kernel:reno\"\n",
    );
    let cancel = AtomicBool::new(false);
    let progress = |_: Instant| cancel.store(true, Ordering::Relaxed);
    let handle = RunHandle {
        cancel: Some(&cancel),
        progress: Some(&progress),
        ..RunHandle::default()
    };
    let name = "a_run_that_is_cancelled_ends_and_says_so";
    let Some((outcome, ..)) = run(name, &plan, &handle) else {
        return;
    };
    assert!(outcome.interrupted);
    assert!(outcome.virtual_time < plan.duration);
}

#[test]
fn a_packet_is_the_same_one_on_both_sides_of_a_router() {
    for ip in [4, 6] {
        let plan = plan(&format!(
            "duration = \"1500ms\"\n\
             [[router]]\nname = \"r\"\n\
             [[link]]\nname = \"one\"\nends = [\"client\", \"r\"]\nup = [\"netem delay 2ms\"]\n\
             [[link]]\nname = \"two\"\nends = [\"r\", \"server\"]\n\
             up = [\"netem delay 2ms duplicate 30%\"]\n\
             [[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\nip = {ip}\n\
             traffic = \"cbr rate 1Mbit\"\nstop = \"500ms\"\n",
        ));
        let name = "a_packet_is_the_same_one_on_both_sides_of_a_router";
        let Some((outcome, _, record)) = run(name, &plan, &RunHandle::default()) else {
            return;
        };
        // A second after the flow's end nothing is on its way.
        assert!(record.sent > 20);
        assert_eq!(record.dropped, 0);
        let arrived = |id: &&u64| record.received_ids.contains(id);
        assert_eq!(
            record.sent_ids.iter().filter(arrived).count() as u64,
            record.sent
        );
        // Copies are packets of their own, and nothing else is.
        let copies = record.received - record.sent;
        assert!(copies > 0);
        assert_eq!(outcome.packets, record.sent + copies);
    }
}

/// A link that the kernel carries by a token bucket and a FIFO, which kernels
/// have where they have anything.
const KERNEL_LINK: &str = "duration = \"2500ms\"\nmeasure = \"1s..2500ms\"\n\
     [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\ndatapath = \"kernel\"\n\
     up = [\"bottleneck: rate 10Mbit queue pfifo limit 20\"]\n";

#[test]
fn the_kernels_own_queue_limits_a_flow_and_its_counters_say_so() {
    let name = "the_kernels_own_queue_limits_a_flow_and_its_counters_say_so";
    for ip in [4, 6] {
        let plan = plan(&format!(
            "{KERNEL_LINK}[[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\nip = {ip}\n\
             cc = \"kernel:reno\"\n"
        ));
        let Some((_, rig, record)) = run_or_skip(name, &plan) else {
            return;
        };
        let [bottleneck] = rig.disciplines.as_slice() else {
            panic!("{:?}", rig);
        };
        assert_eq!(bottleneck.element, "link/access/up/bottleneck");
        assert_eq!(bottleneck.disciplines, "tbf, pfifo");
        assert!(bottleneck.packets > 0 && bottleneck.marks.is_none());
        assert_eq!(record.established, 1);
        // 10 Mbit/s for 2.5 s are 3.1 MB; without the bucket it is gigabytes.
        assert!(
            (1..3_200_000).contains(&record.delivered),
            "{}",
            record.delivered
        );
        assert_eq!((record.sent, rig.lateness.count), (0, 0));
        assert!(rig.notes.iter().any(|n| n.contains("link/access")));
    }
}

#[test]
fn an_element_that_the_kernel_has_not_got_is_refused_by_name() {
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\ncc = \"kernel:reno\"\n";
    let tap = KERNEL_LINK.replace("up = [", "up = [\"tap mid\", ");
    let changed = format!(
        "{KERNEL_LINK}[[change]]\nat = \"1s\"\ntarget = \"link/access/up/bottleneck\"\n\
         to = \"rate 5Mbit\"\n"
    );
    for (text, named) in [(tap, "tap/mid"), (changed, "link/access")] {
        let plan = plan(&format!("{text}{flow}"));
        match narrows_live::run(&plan, 1, &mut Record::default(), &RunHandle::default()) {
            Err(error) if error.is_of_the_machine() => {
                eprintln!("skipped: an_element_that_the_kernel_has_not_got: {error}");
                return;
            }
            Err(error) => assert!(error.to_string().contains(named), "{error}"),
            Ok(_) => panic!("{named} ran"),
        }
    }
}

#[test]
fn every_discipline_that_this_kernel_has_takes_its_parameters() {
    let name = "every_discipline_that_this_kernel_has_takes_its_parameters";
    let flow = "[[flow]]\nname = \"f\"\nfrom = \"client\"\nto = \"server\"\ncc = \"kernel:reno\"\n";
    for words in [
        "rate 10Mbit queue bfifo limit 60000",
        "rate 10Mbit overhead 24 queue codel limit 500 ecn",
        "rate 10Mbit queue fq_codel flows 16 target 5ms",
        "rate 10Mbit queue pie limit 200 target 15ms ecn",
        "rate 10Mbit queue dualpi2",
        "netem delay 5ms 1ms loss 1% duplicate 1% reorder 5%",
        "netem delay 5ms loss gemodel 1% 10%",
    ] {
        let link = KERNEL_LINK.replace("rate 10Mbit queue pfifo limit 20", words);
        let Some((_, rig, record)) =
            run_or_skip(&format!("{name}: {words}"), &plan(&format!("{link}{flow}")))
        else {
            continue;
        };
        assert!(record.delivered > 0, "{words}");
        let counted = &rig.disciplines[0];
        assert!(counted.packets > 0, "{words}: {counted:?}");
        let marks = ["codel", "pie", "dualpi2"]
            .iter()
            .any(|kind| words.contains(kind));
        assert_eq!(counted.marks.is_some(), marks, "{words}");
    }
}

/// As [`run`], and skips where the kernel lacks a discipline.
fn run_or_skip(test: &str, plan: &Plan) -> Option<(Ended, Rig, Record)> {
    let skips =
        |e: &LiveError| e.is_of_the_machine() || matches!(e, LiveError::NoDiscipline { .. });
    run_unless(test, plan, &RunHandle::default(), skips)
}

#[test]
fn a_link_carries_the_integral_of_its_recorded_rates() {
    let name = "a_link_carries_the_integral_of_its_recorded_rates";
    let dir = tempfile::tempdir().unwrap();
    // With half a second in which nothing is sent: 16 Mbit in 2 s.
    let rates = "time_s,rate_mbit\n0,16\n0.5,4\n1,0\n1.5,12\n";
    std::fs::write(dir.path().join("walk.csv"), rates).unwrap();
    let file = dir.path().join("recorded.toml");
    let text = "version = 1\nname = \"recorded\"\nduration = \"2s\"\n\
        [[link]]\nname = \"access\"\nends = [\"client\", \"server\"]\n\
        up = [\"rate trace walk.csv overhead 0 queue pfifo limit 1000\"]\n\
        [[flow]]\nname = \"load\"\nfrom = \"client\"\nto = \"server\"\n\
        traffic = \"cbr rate 40Mbit\"\nstart = \"0s\"\n";
    std::fs::write(&file, text).unwrap();
    let loaded = narrows_scenario::load(file.to_str().unwrap()).unwrap();
    let plan = loaded.draft().unwrap().check().unwrap();
    let Some((_, _, record)) = run(name, &plan, &RunHandle::default()) else {
        return;
    };
    let mbit = record.received_bytes as f64 * 8.0 / 1e6;
    assert!((16.0 * 0.98..=16.0 * 1.001).contains(&mbit), "{mbit}");
}

#[test]
fn what_goes_by_a_proxy_arrives_whole_in_both_directions() {
    let name = "what_goes_by_a_proxy_arrives_whole_in_both_directions";
    for layout in ["rfc8803", "thesis"] {
        let plan = plan(&format!(
            "duration = \"2s\"\n\
             [[link]]\nname = \"wire\"\nends = [\"client\", \"tower\"]\n\
             up = [\"netem delay 5ms\", \"rate 50Mbit\"]\ndown = [\"netem delay 5ms\"]\n\
             [[link]]\nname = \"air\"\nends = [\"tower\", \"phone\"]\n\
             up = [\"netem delay 2ms\", \"rate 20Mbit queue fq_codel\"]\n\
             down = [\"netem delay 2ms\"]\n\
             [[proxy]]\nname = \"pep\"\nhost = \"tower\"\nlayout = \"{layout}\"\n\
             near_cc = \"kernel:reno\"\nfar_cc = \"kernel:reno\"\nbacklog = 200000\n\
             near_window = 200000\nfar_unsent = 40000\n\
             [[flow]]\nname = \"up\"\nfrom = \"client\"\nto = \"phone\"\nvia = \"pep\"\n\
             cc = \"kernel:reno\"\nbytes = 500000\n\
             [[flow]]\nname = \"down\"\nfrom = \"phone\"\nto = \"client\"\nvia = \"pep\"\n\
             opens = \"client\"\ncc = \"kernel:reno\"\nbytes = 500000\nfast_open = true\n"
        ));
        let Some((_, _, record)) = run(name, &plan, &RunHandle::default()) else {
            return;
        };
        assert_eq!(
            (record.finished, record.delivered),
            (2, 1_000_000),
            "{layout}"
        );
        assert!(
            record.backlog > 0 && record.backlog <= 200_000,
            "{}",
            record.backlog
        );
    }
}

#[test]
fn a_leg_is_given_the_rate_of_its_link_in_the_kernel() {
    let name = "a_leg_is_given_the_rate_of_its_link_in_the_kernel";
    // The hint is that of an element that data does not pass: what it falls to is far below
    // the window of the path that it does. It falls more than once, for a connection that does
    // not fill its window just then, as on a machine that is busy, is given nothing.
    let plan = plan(
        "duration = \"2s\"\nsample_interval = \"10ms\"\n\
         [[link]]\nname = \"wire\"\nends = [\"client\", \"tower\"]\n\
         up = [\"netem delay 1ms\", \"rate 200Mbit\"]\ndown = [\"netem delay 1ms\"]\n\
         [[link]]\nname = \"air\"\nends = [\"tower\", \"phone\"]\n\
         up = [\"netem delay 10ms\", \"rate 100Mbit\"]\n\
         down = [\"back: rate 100Mbit\", \"netem delay 10ms\"]\n\
         [[change]]\nat = \"1s\"\ntarget = \"link/air/down/back\"\nto = \"rate 500Kbit\"\n\
         [[change]]\nat = \"1.2s\"\ntarget = \"link/air/down/back\"\nto = \"rate 499Kbit\"\n\
         [[change]]\nat = \"1.4s\"\ntarget = \"link/air/down/back\"\nto = \"rate 500Kbit\"\n\
         [[change]]\nat = \"1.6s\"\ntarget = \"link/air/down/back\"\nto = \"rate 499Kbit\"\n\
         [[proxy]]\nname = \"pep\"\nhost = \"tower\"\nnear_cc = \"kernel:reno\"\n\
         far_cc = \"quickstart\"\nfar_hint = \"link/air/down/back\"\n\
         [[flow]]\nname = \"bulk\"\nfrom = \"client\"\nto = \"phone\"\nvia = \"pep\"\n\
         cc = \"quickstart rate 10000000\"\n",
    );
    let skips =
        |error: &LiveError| error.is_of_the_machine() || matches!(error, LiveError::Control { .. });
    let Some((_, rig, record)) = run_unless(name, &plan, &RunHandle::default(), skips) else {
        return;
    };
    assert_eq!(rig.notes, Vec::<String>::new());
    let windows = &record.far_windows;
    let grown = windows.iter().position(|window| *window > 50);
    let grown = grown.unwrap_or_else(|| panic!("it never grew: {windows:?}"));
    // 500 kbit/s hold two segments over 20 ms, CUBIC's smallest window.
    let least = windows[grown..].iter().min();
    assert!(least.is_some_and(|window| *window < 10), "{windows:?}");
    // The flow's sender says what it was given itself, and not the leg's.
    assert_eq!(record.given, Some(80_000_000));
}
