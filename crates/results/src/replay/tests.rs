//! Which packets a replay finds again, and what is recorded of each.

use narrows_core::{Band, DropCause, FlowId, MarkCause, PacketId};
use narrows_scenario::NameTable;
use narrows_units::Duration;

use super::*;
use crate::scripted::{Scripted, at, packet, plan};

const QUEUE: &str = "link/access/up/bottleneck";

/// A packet goes up and is marked, one that was made from it is dropped, and another one comes
/// down.
fn script(names: &NameTable, report: &mut dyn FnMut(u64, Event<'_>)) {
    let id = |name: &str| names.id(name).unwrap();
    let (client, server, queue) = (id("host/client"), id("host/server"), id(QUEUE));
    let tap = id("tap/mid");
    let mut bytes = vec![0; 20];
    // The first two bytes of an IPv4 header: version and length, DSCP and ECN.
    bytes[..2].copy_from_slice(&[0x45, 0x01]);
    let first = &Packet {
        bytes,
        zero_tail: 80,
        ..packet(1)
    };
    let copy = &Packet {
        id: PacketId(2),
        parent: Some(PacketId(1)),
        ..Packet::default()
    };
    let other = &packet(3);
    let sent = |host, packet| Event::Sent { host, packet };
    report(10, sent(client, first));
    report(
        12,
        Event::Tapped {
            tap,
            packet: first,
            forward: true,
        },
    );
    report(
        14,
        Event::Enqueued {
            queue,
            backlog_packets: 1,
            backlog_bytes: 100,
        },
    );
    report(
        15,
        Event::Marked {
            queue,
            packet: first,
            cause: MarkCause::Step,
        },
    );
    report(
        16,
        Event::Dequeued {
            queue,
            packet: first,
            sojourn: Duration::from_millis(2),
            wire_bytes: 100,
            band: Band::new(&["all"], 0),
        },
    );
    report(
        20,
        Event::Received {
            host: server,
            packet: first,
        },
    );
    report(
        22,
        Event::Dropped {
            element: queue,
            packet: copy,
            cause: DropCause::Overflow,
        },
    );
    report(23, sent(server, other));
    report(
        24,
        Event::Tapped {
            tap,
            packet: other,
            forward: false,
        },
    );
}

fn whole() -> PacketQuery {
    PacketQuery {
        to: at(4000),
        most: 100,
        ..PacketQuery::default()
    }
}

/// What is found, and how many events the engine handed out.
fn found(query: &PacketQuery, cancelled: bool) -> (Vec<PacketEvent>, usize) {
    let engine = Scripted::new(&script);
    let cancel = AtomicBool::new(cancelled);
    let found = packets(&engine, &plan(), 1, query, &cancel).unwrap();
    (found, engine.handed_out.into_inner())
}

/// When, and which.
fn found_at(query: &PacketQuery) -> Vec<(u64, u64)> {
    let (found, _) = found(query, false);
    let ms = |at: Instant| at.since(Instant::ZERO).as_nanos() / 1_000_000;
    found.into_iter().map(|e| (ms(e.at), e.id)).collect()
}

#[test]
fn each_event_has_its_place_its_packet_and_what_else_is_known() {
    let (found, handed_out) = found(&whole(), false);
    assert_eq!(handed_out, 9);
    let row = |ms, id, place: &str, what, detail: Option<&str>| PacketEvent {
        id,
        parent: (id == 2).then_some(1),
        at: at(ms),
        flow: (id != 2).then(|| "flow/first".to_owned()),
        place: place.to_owned(),
        what,
        bytes: if id == 1 { 100 } else { 0 },
        ecn: if id == 1 { Ecn::Ect1 } else { Ecn::NotEct },
        detail: detail.map(str::to_owned),
    };
    assert_eq!(
        found,
        [
            row(10, 1, "host/client", "sent", None),
            row(12, 1, "tap/mid", "tapped", Some("up")),
            row(15, 1, QUEUE, "marked", Some("step")),
            row(16, 1, QUEUE, "dequeued", Some("waited 2ms")),
            row(20, 1, "host/server", "received", None),
            row(22, 2, QUEUE, "dropped", Some("overflow")),
            row(23, 3, "host/server", "sent", None),
            row(24, 3, "tap/mid", "tapped", Some("down")),
        ]
    );
}

#[test]
fn both_ends_of_the_time_that_is_asked_for_belong_to_it_and_the_run_goes_no_further() {
    let query = PacketQuery {
        from: at(12),
        to: at(20),
        ..whole()
    };
    assert_eq!(found_at(&query), [(12, 1), (15, 1), (16, 1), (20, 1)]);
    // The run ends with the first event behind it.
    assert_eq!(found(&query, false).1, 7);
}

#[test]
fn the_run_ends_when_as_many_were_found_as_are_wanted_or_nobody_waits_any_more() {
    let query = PacketQuery { most: 2, ..whole() };
    assert_eq!(found_at(&query), [(10, 1), (12, 1)]);
    assert_eq!(found(&query, false).1, 3);
    let late = PacketQuery {
        from: at(24),
        ..whole()
    };
    for query in [whole(), late] {
        assert_eq!(found(&query, true), (Vec::new(), 1));
    }
}

#[test]
fn a_packet_is_found_with_what_was_made_from_it() {
    let of = |packet| {
        let query = PacketQuery {
            packet: Some(packet),
            ..whole()
        };
        found_at(&query)
    };
    let first = [(10, 1), (12, 1), (15, 1), (16, 1), (20, 1), (22, 2)];
    assert_eq!(of(1), first);
    assert_eq!(of(2), [(22, 2)]);
    assert_eq!(of(3), [(23, 3), (24, 3)]);
    assert_eq!(of(4), []);
}

#[test]
fn a_place_is_asked_for_by_its_name_or_by_whole_parts_at_its_beginning() {
    let of = |place: &str| {
        let query = PacketQuery {
            place: place.to_owned(),
            ..whole()
        };
        found_at(&query)
    };
    let queue = [(15, 1), (16, 1), (22, 2)];
    for place in [QUEUE, "link/access/up", "link/access", "link"] {
        assert_eq!(of(place), queue, "{place}");
    }
    assert_eq!(of("tap/mid"), [(12, 1), (24, 3)]);
    for place in ["link/acc", "bottleneck", "access/up"] {
        assert_eq!(of(place), [], "{place}");
    }
}

#[test]
fn what_belongs_to_no_known_flow_or_place_is_found_without_their_names() {
    fn script(_: &NameTable, report: &mut dyn FnMut(u64, Event<'_>)) {
        let packet = &Packet {
            flow: Some(FlowId(7)),
            ..packet(1)
        };
        let host = EntityId(1000);
        report(1, Event::Sent { host, packet });
    }
    let engine = Scripted::new(&script);
    let found = packets(&engine, &plan(), 1, &whole(), &AtomicBool::new(false)).unwrap();
    let [event] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((&event.flow, &*event.place), (&None, ""));
}
