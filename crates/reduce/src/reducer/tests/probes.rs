//! What probes come to.

use narrows_scenario::endpoints::{ASKER_PORTS, PROBE_PORTS};
use narrows_wire::{IpFields, UdpFields, ip};

use super::*;

const PROBES: &str = r#"
version  = 1
name     = "probes"
duration = "4s"
measure  = "1s..3s"

[[link]]
name = "access"
ends = ["client", "server"]
up   = ["rate 10Mbit"]

[[probe]]
name = "ping"
from = "client"
to   = "server"

[[probe]]
name = "pong"
from = "server"
to   = "client"

[[flow]]
name = "bulk"
from = "client"
to   = "server"
cc   = "cubic"
"#;

/// A question of probe `number`, or the answer to one, that was made at `born`.
fn datagram(number: u16, answers: bool, born: u64) -> Packet {
    let mut ports = [ASKER_PORTS + number, PROBE_PORTS + number];
    if answers {
        ports.reverse();
    }
    let [source_port, destination_port] = ports;
    let (source, destination) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    let header = IpFields {
        source,
        destination,
        traffic_class: 0,
        ttl: 64,
        protocol: ip::UDP,
        ident: 0,
    };
    let udp = UdpFields {
        source_port,
        destination_port,
    };
    let mut bytes = Vec::new();
    header.write(&mut bytes, 8);
    udp.write(&mut bytes, source, destination, &[], 0);
    Packet {
        born: at(born),
        bytes,
        ..Packet::default()
    }
}

/// Each question is there after 10 ms and answered 30 ms later, but for the last, which is lost;
/// the second takes 16 ms longer.
fn record(names: &NameTable, sink: &mut dyn EventSink) {
    let [client, server] = ["host/client", "host/server"].map(|n| names.id(n).expect(n));
    let (ping, pong) = (names.id("probe/ping"), names.id("probe/pong"));
    let (ping, pong) = (ping.expect("a probe"), pong.expect("a probe"));
    for (number, probe, from, to, sent, there) in [
        (0, ping, client, server, 1_100, 10),
        (1, pong, server, client, 1_200, 10),
        (0, ping, client, server, 1_600, 26),
        (0, ping, client, server, 1_700, 10),
    ] {
        let question = datagram(number, false, sent);
        let answer = datagram(number, true, sent + there);
        sink.record(
            at(sent),
            Event::Sent {
                host: from,
                packet: &question,
            },
        );
        sink.record(
            at(sent + there),
            Event::Received {
                host: to,
                packet: &question,
            },
        );
        sink.record(
            at(sent + there),
            Event::Sent {
                host: to,
                packet: &answer,
            },
        );
        sink.record(
            at(sent + there + 30),
            Event::Received {
                host: from,
                packet: &answer,
            },
        );
        let rtt = Duration::from_millis(there + 30);
        sink.record(at(sent + there + 30), Event::ProbeRtt { probe, rtt });
    }
    let lost = datagram(0, false, 1_800);
    sink.record(
        at(1_800),
        Event::Sent {
            host: client,
            packet: &lost,
        },
    );
    for _ in 0..2 {
        sink.record(at(1_900), Event::ProbeLost { probe: ping });
    }
}

fn plan() -> Plan {
    let draft = Draft::read("probes.toml", PROBES.as_bytes());
    draft.and_then(|draft| draft.check()).expect("a plan")
}

#[test]
fn a_probe_has_its_round_trips_and_the_delay_of_questions_and_answers() {
    let plan = plan();
    let (mut reducer, names) = reducer(&plan);
    record(&names, &mut reducer);
    let reduced = reducer.finish(&plan, "sim", 1, at(4_000));
    let [ping, pong] = &reduced.summary.probes[..] else {
        panic!("two probes: {:?}", reduced.summary.probes)
    };
    assert_eq!(
        (ping.name.as_str(), pong.name.as_str()),
        ("probe/ping", "probe/pong")
    );
    assert_eq!(
        [(ping.asked, ping.lost), (pong.asked, pong.lost)],
        [(4, 1), (1, 0)]
    );
    let rtt = ping.rtt_ms.expect("answers");
    assert_eq!((rtt.count, rtt.min, rtt.max), (3, 40.0, 56.0));
    let (there, back) = (ping.there.expect("questions"), ping.back.expect("answers"));
    let of = |way: crate::summary::OneWaySummary| (way.one_way_ms.min, way.one_way_ms.max);
    assert_eq!((of(there), of(back)), ((10.0, 26.0), (30.0, 30.0)));
    assert_eq!(pong.rtt_ms.expect("an answer").count, 1);
    let series = Series::of(&reduced);
    let rows = |metric| {
        let track = series.track("probe/ping", metric).expect(metric);
        (track.t_s.clone(), track.value.clone())
    };
    assert_eq!(rows("rtt_ms"), (vec![1.5, 2.0], vec![40.0, 48.0]));
    assert_eq!(rows("lost"), (vec![2.0], vec![2.0]));
    assert_eq!(rows("there_one_way_ms"), (vec![1.5, 2.0], vec![10.0, 18.0]));
    assert_eq!(rows("back_one_way_ms"), (vec![1.5, 2.0], vec![30.0, 30.0]));
}

#[test]
fn a_stretch_has_the_figures_of_its_probes_and_the_next_has_none_of_them() {
    let plan = plan();
    let names = NameTable::of(&plan);
    let mut cut = Cut::new(&plan, names.as_slice().to_vec());
    record(&names, &mut cut);
    let found = cut.at(at(2_000));
    let values = |entity: &str| {
        let of = found.iter().find(|of| of.entity == entity).expect(entity);
        let named = of
            .values
            .iter()
            .map(|(name, value)| (name.as_str(), *value));
        named.collect::<Vec<_>>()
    };
    // Questions take 16 ms more than the first, and then 16 less: 1 ms of jitter, and a sixteenth of
    // the other 15 more.
    assert_eq!(
        values("probe/ping"),
        [
            ("rtt_ms", 45.333_332),
            ("lost", 2.0),
            ("there_one_way_ms", 15.333_333),
            ("there_jitter_ms", 1.9375),
            ("back_one_way_ms", 30.0),
            ("back_jitter_ms", 0.0),
        ]
    );
    assert_eq!(values("probe/pong")[0], ("rtt_ms", 40.0));
    assert!(found.iter().all(|of| !of.values.is_empty()), "{found:?}");
    assert_eq!(cut.at(at(3_000)), []);
}
