//! Observers of made-up packets: what lies in their windows, and what is written of it.

mod windows;

use std::io::Read as _;
use std::net::IpAddr;

use flate2::read::GzDecoder;
use narrows_core::{FlowSample, Packet, PacketId};
use narrows_observe::{
    Basis, Estimate, Interval, Measured, Quantity, Sample, Side, Technique, Unit,
};
use narrows_scenario::{Draft, NameTable};
use narrows_units::Duration;
use narrows_wire::efm::{Profile, Signal};
use narrows_wire::{IpFields, TcpFields, TcpFlags, TcpOptions, ip};

use super::window::Passing;
use super::*;
use crate::summary::ErrorSpread;

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

/// A segment between port `port` of one host and 443 of the other, capable of ECN.
fn segment(
    port: u16,
    forward: bool,
    (seq, ack): (u32, u32),
    flags: u16,
    payload: usize,
) -> Vec<u8> {
    let mut ends: [(IpAddr, u16); 2] =
        [([192, 0, 2, 1].into(), port), ([192, 0, 2, 2].into(), 443)];
    if !forward {
        ends.reverse();
    }
    let [from, to] = ends;
    let header = IpFields {
        source: from.0,
        destination: to.0,
        traffic_class: 2,
        ttl: 64,
        protocol: ip::TCP,
        ident: 0,
    };
    let tcp = TcpFields {
        source_port: from.1,
        destination_port: to.1,
        seq,
        ack,
        flags: TcpFlags(flags),
        window: 1_000,
        options: TcpOptions::default(),
    };
    let mut bytes = Vec::new();
    tcp.write_packet(&mut bytes, &header, &vec![0; payload], 0);
    bytes
}

const SYN: u16 = TcpFlags::SYN;
const ACK: u16 = TcpFlags::ACK;

const FULL: Quantity = Quantity::FullRtt(Side::Initiator);

const SCENARIO: &str = r#"
version  = 1
name     = "observed"
duration = "3s"

[[link]]
name = "l"
ends = ["client", "server"]
up   = ["netem delay 10ms", "tap mid", "netem delay 20ms", "tap far"]
down = ["tap far", "netem delay 20ms", "tap mid", "netem delay 10ms"]

[[flow]]
name = "bulk"
from = "client"
to   = "server"
cc   = "cubic"

[[observe]]
name    = "probe"
tap     = "tap/mid"
measure = "0s..3s"

[[observe]]
name    = "other"
tap     = "tap/far"
measure = "0s..3s"
mode    = "thesis"
profile = "s+d"
t_max   = "225ms"
block   = 128
reordering = 4
"#;

fn plan() -> Plan {
    let draft = Draft::read("observed.toml", SCENARIO.as_bytes());
    draft.and_then(|draft| draft.check()).expect("a plan")
}

#[test]
fn an_observer_is_set_up_as_the_scenario_says() {
    let mut plan = plan();
    assert_eq!(config(&plan.observers[0]), ObserverConfig::default());
    plan.observers[1].negotiated = true;
    let expected = ObserverConfig {
        mode: ObserverMode::Thesis,
        profile: Profile::of(&[Signal::Spin, Signal::Delay]),
        negotiated: true,
        pinned: Pinned {
            t_max: Some(Duration::from_millis(225)),
            block: Some(128),
            reordering: Some(4),
        },
        ..ObserverConfig::default()
    };
    assert_ne!(expected.profile, None);
    assert_eq!(config(&plan.observers[1]), expected);
}

/// The plan's flow: data that is acknowledged 3 ms after it arrived, and a packet that is lost
/// behind the first tap.
#[test]
fn what_passes_a_tap_is_observed_there_and_held_against_what_happened() {
    let plan = plan();
    let names = NameTable::of(&plan);
    let id = |name: &str| names.id(name).expect(name);
    let [client, server, mid, far] = ["host/client", "host/server", "tap/mid", "tap/far"].map(id);
    let refused = Observers::new(&plan, &[]).err().map(|why| why.to_string());
    assert!(refused.is_some_and(|why| why.contains("tap/mid")));
    let mut observers = Observers::new(&plan, names.as_slice()).expect("taps");
    let packet = |id, bytes| Packet {
        id: PacketId(id),
        flow: Some(FlowId(0)),
        bytes,
        ..Packet::default()
    };
    let data = packet(0, segment(40_000, true, (1, 1), ACK, 100));
    let ack = packet(1, segment(40_000, false, (1, 101), ACK, 0));
    let lost = packet(2, segment(40_000, true, (101, 1), ACK, 100));
    let (host, forward) = (client, true);
    let tapped = |tap, packet| Event::Tapped {
        tap,
        packet,
        forward,
    };
    let smoothed = FlowSample {
        srtt: Duration::from_millis(60),
        ..FlowSample::default()
    };
    let (element, cause) = (EntityId(0), narrows_core::DropCause::Loss);
    for (ms, event) in [
        (
            100,
            Event::Sent {
                host,
                packet: &data,
            },
        ),
        (110, tapped(mid, &data)),
        (130, tapped(far, &data)),
        (
            130,
            Event::Received {
                host: server,
                packet: &data,
            },
        ),
        (
            133,
            Event::Sent {
                host: server,
                packet: &ack,
            },
        ),
        (133, tapped(far, &ack)),
        (153, tapped(mid, &ack)),
        (163, Event::Received { host, packet: &ack }),
        (
            170,
            Event::Sent {
                host,
                packet: &lost,
            },
        ),
        (180, tapped(mid, &lost)),
        (
            190,
            Event::Dropped {
                element,
                packet: &lost,
                cause,
            },
        ),
        (
            500,
            Event::Sampled {
                flow: FlowId(0),
                sample: smoothed,
            },
        ),
    ] {
        observers.record(at(ms), event);
    }
    let lost_of = |quantity| {
        let first = &observers.all[0];
        observers
            .ledger
            .rate(0, quantity, &first.passed, Span::WHOLE)
    };
    assert_eq!(lost_of(Quantity::EndToEndLoss(Side::Initiator)), Some(0.5));
    assert_eq!(lost_of(Quantity::UpstreamLoss(Side::Initiator)), Some(0.0));
    let dir = tempfile::tempdir().expect("a folder");
    let keep = dir.path().join("run");
    let sums = observers.finish(&plan, &[], Some(&keep)).expect("files");
    for file in [SAMPLES, SECONDS, TOTALS] {
        assert!(keep.join(file).is_file(), "{file}");
    }
    let of = |observer: &str, technique: &str, quantity: &str| {
        let known = |s: &&ObservationSummary| {
            (
                s.observer.as_str(),
                s.technique.as_str(),
                s.quantity.as_str(),
            ) == (observer, technique, quantity)
        };
        sums.iter().find(known).expect(quantity)
    };
    let right = of("probe", "seq-ack", "right_rtt");
    assert_eq!(
        (right.tap.as_str(), right.flow.as_str()),
        ("tap/mid", "bulk")
    );
    // 20 ms to the server and 20 back, where the acknowledgement was held for 3.
    assert_eq!((right.value, right.n), (43.0, 1));
    assert_eq!(
        (right.truth, right.error, right.dwell_ms),
        (Some(40.0), Some(3.0), Some(3.0))
    );
    assert_eq!(of("probe", "ss", "smoothed_rtt").value, 60.0);
    assert_eq!(of("probe", "seen", "ip").n, 3);
    assert_eq!(of("other", "seen", "ip").n, 2);
}

#[test]
fn observers_of_a_run_that_keeps_nothing_write_no_files() {
    let plan = plan();
    let observers = Observers::new(&plan, NameTable::of(&plan).as_slice()).expect("taps");
    assert_eq!(observers.finish(&plan, &[], None).expect("no files"), []);
}

/// The first observer of the plan, which saw these of flow 7, the plan's.
fn watching(log: Vec<Entry>) -> Watching {
    let profile = Profile::of(&[Signal::Spin]).expect("a profile");
    let mut seen = Seen::begun("10.0.0.1:5".to_owned(), Some(0), profile);
    seen.all = Passing {
        bytes: 3 << 19,
        packets: 9,
        again: 2,
    };
    let mut found = Found::new(&[], Span::WHOLE);
    found.flows.insert(7, seen);
    found.log = log;
    let mut carried = Carried::default();
    carried.add(at(200), 131_072);
    carried.add(at(1_900), 65_536);
    Watching {
        name: "probe".to_owned(),
        tap: "tap/mid".to_owned(),
        at: EntityId(0),
        observer: Observer::new(ObserverConfig::default()),
        passed: Passed::default(),
        carried: vec![carried],
        found,
    }
}

fn sample(technique: Technique, quantity: Quantity, value: Measured, ms: u64) -> Sample {
    Sample {
        at: at(ms),
        technique,
        quantity,
        value,
        first: 0,
        last: 2,
        weight: 1,
    }
}

fn rtt(ms: u64) -> Measured {
    Measured::Rtt(Duration::from_millis(ms))
}

fn estimate(technique: Technique, quantity: Quantity, unit: Unit) -> Estimate {
    Estimate {
        technique,
        quantity,
        value: 0.75,
        unit,
        interval: (unit == Unit::Ms).then_some(Interval {
            low: 0.5,
            high: 1.5,
        }),
        n: 11,
        rejected: 3,
        sd: None,
        min: None,
        median: None,
        p95: None,
        basis: Basis::Measured,
    }
}

/// A round trip of 68 ms from 1010 ms on at a tap 10 ms from the opener, in which the ends held the
/// packets for 8 ms; then the opener's packets 3 and 4, of which the first is lost before the tap.
#[test]
fn samples_and_estimates_are_rows_with_the_truth_and_the_error_beside_them() {
    let plan = plan();
    let names = NameTable::of(&plan);
    let [opener, answerer] = ["host/client", "host/server"].map(|n| names.id(n).expect(n));
    let mut ledger = PacketTable::new(&plan, names.as_slice());
    let loss = Quantity::UpstreamLoss(Side::Initiator);
    let block = Sample {
        last: 4,
        ..sample(
            Technique::Square,
            loss,
            Measured::Block {
                sent: 4,
                received: 1,
            },
            1_111,
        )
    };
    let mut watching = watching(vec![
        Entry::Sample(7, sample(Technique::Spin, FULL, rtt(68), 1_078)),
        Entry::Sample(7, block),
        Entry::Estimate(7, at(2_000), estimate(Technique::Delay, FULL, Unit::Ms)),
        Entry::Estimate(7, at(2_000), estimate(Technique::Square, loss, Unit::Ratio)),
        // Of a flow that began nowhere.
        Entry::Sample(8, sample(Technique::Spin, Quantity::LeftRtt, rtt(1), 5)),
    ]);
    for (id, from, sent, seen, arrived) in [
        (0, opener, 1_000, Some(1_010), Some(1_030)),
        (1, answerer, 1_033, Some(1_053), Some(1_063)),
        (2, opener, 1_068, Some(1_078), Some(1_098)),
        (3, opener, 1_100, None, None),
        (4, opener, 1_101, Some(1_111), Some(1_131)),
    ] {
        let packet = Packet {
            id: PacketId(id),
            flow: Some(FlowId(0)),
            ..Packet::default()
        };
        ledger.sent(at(sent), from, &packet);
        if let Some(ms) = seen {
            watching.passed.pass(at(ms), &packet);
        }
        match arrived {
            Some(ms) => ledger.received(at(ms), &packet),
            None => ledger.dropped(&packet),
        }
    }
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join(SAMPLES);
    rows::write(&path, &ledger, &[watching]).expect("a file");
    let mut text = String::new();
    let gz = std::fs::read(&path).expect("a file");
    GzDecoder::new(&gz[..])
        .read_to_string(&mut text)
        .expect("text");
    let expected = [
        "t_s,tap,flow,technique,quantity,value,unit,low,high,n,rejected,truth,error,dwell_ms,observer",
        "1.078000000,tap/mid,10.0.0.1:5,spin,full_rtt_initiator,68.000000,ms,,,1,,60.000000,8.000000,8.000000,probe",
        "1.111000000,tap/mid,10.0.0.1:5,q,upstream_loss_initiator,0.750000,ratio,,,4,,0.250000,0.500000,,probe",
        "2.000000000,tap/mid,10.0.0.1:5,delay,mean_full_rtt_initiator,0.750000,ms,0.500000,1.500000,11,3,,,,probe",
        "2.000000000,tap/mid,10.0.0.1:5,q,rate_upstream_loss_initiator,0.750000,ratio,,,11,3,0.250000,0.500000,,probe",
        "0.005000000,tap/mid,,spin,left_rtt,1.000000,ms,,,1,,,,,probe",
    ];
    assert_eq!(text.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn each_second_and_the_whole_run_have_the_full_round_trips_of_a_technique() {
    let plan = plan();
    let spin = |quantity, ms, at, weight| Sample {
        weight,
        ..sample(Technique::Spin, quantity, rtt(ms), at)
    };
    let other = Quantity::FullRtt(Side::Responder);
    let watching = watching(vec![
        Entry::Sample(7, spin(FULL, 60, 1_078, 1)),
        Entry::Sample(7, spin(other, 80, 1_999, 1)),
        Entry::Sample(7, spin(FULL, 50, 2_000, 2)),
        // Half a round trip is none.
        Entry::Sample(7, spin(Quantity::LeftRtt, 10, 100, 1)),
        Entry::Sample(8, spin(FULL, 10, 100, 1)),
    ]);
    let mut srtt = SmoothedRtt::new(1);
    for (ms, rtt) in [(500, 20), (2_500, 40)] {
        let sample = FlowSample {
            srtt: Duration::from_millis(rtt),
            ..FlowSample::default()
        };
        srtt.sampled(at(ms), 0, &sample);
    }
    let flows = [FlowSummary {
        retransmissions: 7,
        ..FlowSummary::default()
    }];
    let dir = tempfile::tempdir().expect("a folder");
    seconds::write(dir.path(), &plan, &[watching], &srtt, &flows).expect("two files");
    let text = |file| std::fs::read_to_string(dir.path().join(file)).expect(file);
    assert_eq!(
        text(SECONDS),
        "second,observer,flow,technique,throughput_mibit,rtt_ms,sd_ms,n,ss_ms\n\
         0,probe,bulk,spin,1.000000,,,0,20.000000\n\
         1,probe,bulk,spin,0.500000,70.000000,10.000000,2,\n\
         2,probe,bulk,spin,0.000000,50.000000,0.000000,2,40.000000\n"
    );
    // Of 60, 80, 50 and 50 ms; the deviation is the root of 150.
    assert_eq!(
        text(TOTALS),
        "observer,flow,technique,mib,rtt_ms,sd_ms,n,ss_ms,ss_sd_ms,retransmissions\n\
         probe,bulk,spin,1.500000,60.000000,12.247449,4,30.000000,10.000000,7\n"
    );
}

#[test]
fn techniques_are_compared_in_percent_under_the_names_of_both() {
    let at_packet = |last, technique, ms| Sample {
        last,
        ..sample(technique, FULL, rtt(ms), last)
    };
    let pair = [(1, Technique::Spin, 40), (2, Technique::TsAll, 50)];
    let mut log = Vec::new();
    for flow in [7, 8] {
        log.extend(
            pair.map(|(last, technique, ms)| Entry::Sample(flow, at_packet(last, technique, ms))),
        );
    }
    let mut sums = Vec::new();
    pairs::add(&plan(), &watching(log), &mut sums);
    let errors = ErrorSpread {
        p025: 20.0,
        p50: 20.0,
        p975: 20.0,
        max: 20.0,
        short: 0.0,
    };
    // A flow whose beginning was not observed has no figures.
    let expected = ObservationSummary {
        observer: "probe".to_owned(),
        tap: "tap/mid".to_owned(),
        flow: "bulk".to_owned(),
        technique: "spin-to-ts-all".to_owned(),
        quantity: "full_rtt_initiator".to_owned(),
        unit: "%".to_owned(),
        basis: "measured".to_owned(),
        value: 20.0,
        n: 1,
        errors: Some(errors),
        ..ObservationSummary::default()
    };
    assert_eq!(sums, [expected]);
}

#[test]
fn an_observer_whose_tap_the_run_does_not_have_is_named() {
    let draft = Draft::read("observed.toml", SCENARIO.as_bytes()).expect("a scenario");
    let plan = draft.check().expect("a good one");
    let none = Observers::new(&plan, &["tap/far".to_owned()]).err();
    let (observer, tap) = ("probe".to_owned(), "tap/mid".to_owned());
    assert_eq!(none, Some(NoTap { observer, tap }));
}
