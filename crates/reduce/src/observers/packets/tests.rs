//! Journeys of made-up packets, and the truths that follow from them.

use super::*;
use narrows_core::PacketId;
use narrows_observe::Technique;
use narrows_units::Duration;

const HOSTS: [EntityId; 2] = [EntityId(0), EntityId(1)];
const OPENER: usize = 0;
const ANSWERER: usize = 1;

const MS: fn(u64) -> Instant = |ms| Instant::from_nanos(ms * 1_000_000);

fn packet(id: u64) -> Packet {
    Packet {
        id: PacketId(id),
        flow: Some(FlowId(0)),
        ..Packet::default()
    }
}

fn carrying(id: u64, bytes: &[u8]) -> Packet {
    Packet {
        bytes: bytes.to_vec(),
        ..packet(id)
    }
}

/// What happened to the packets of one flow: id, sender, when it left, and
/// when it arrived, if it did.
fn ledger(packets: &[(u64, usize, u64, Option<u64>)]) -> PacketTable {
    let mut ledger = PacketTable {
        journeys: Vec::new(),
        ways: vec![Default::default()],
        hosts: vec![HOSTS],
    };
    // In the order of time: the latest arrival is noted as a packet leaves.
    let mut events: Vec<(u64, bool, u64, usize)> = Vec::new();
    for (id, from, sent, arrived) in packets {
        events.push((*sent, false, *id, *from));
        events.extend(arrived.map(|at| (at, true, *id, *from)));
    }
    events.sort_unstable();
    for (at, arrives, id, from) in events {
        match arrives {
            true => ledger.received(MS(at), &packet(id)),
            false => ledger.sent(MS(at), HOSTS[from], &packet(id)),
        }
    }
    for (id, ..) in packets.iter().filter(|p| p.3.is_none()) {
        ledger.dropped(&packet(*id));
    }
    ledger
}

/// A round trip of `ms` that packet `first` began and packet `last` ended
/// when it passed the observer at `at`.
fn sample(quantity: Quantity, first: u64, last: u64, at: u64, ms: u64) -> Sample {
    Sample {
        at: MS(at),
        technique: Technique::Spin,
        quantity,
        value: Measured::Rtt(Duration::from_millis(ms)),
        first,
        last,
        weight: 1,
    }
}

const FULL: Quantity = Quantity::FullRtt(Side::Initiator);

#[test]
fn a_round_trip_s_truth_is_how_long_its_packets_were_under_way() {
    // The observer is 10 ms behind the opener; the answerer waits for 3 ms, and
    // the opener for 5.
    let ledger = ledger(&[
        (0, OPENER, 0, Some(30)),
        (1, ANSWERER, 33, Some(63)),
        (2, OPENER, 68, Some(98)),
    ]);
    let trip = ledger.round_trip(&sample(FULL, 0, 2, 78, 68));
    let full = RoundTrip {
        network: 60.0,
        dwell: 8.0,
    };
    assert_eq!(trip, Some(full));
    let half = ledger.round_trip(&sample(Quantity::RightRtt, 0, 1, 53, 43));
    let right = RoundTrip {
        network: 40.0,
        dwell: 3.0,
    };
    assert_eq!(half, Some(right));
}

#[test]
fn the_truth_over_all_packets_has_those_of_which_no_sample_was_taken() {
    // The tap is 10 ms from the opener; the way to the answerer takes 20 ms more, for
    // each packet a ms longer than for the one before.
    let mut packets = Vec::new();
    for i in 0..10 {
        packets.push((2 * i, OPENER, i * 100, Some(i * 100 + 30 + i)));
        packets.push((
            2 * i + 1,
            ANSWERER,
            i * 100 + 35 + i,
            Some(i * 100 + 65 + i),
        ));
    }
    let ledger = ledger(&packets);
    let mut passed = Passed::default();
    for (id, from, sent, _) in &packets {
        let to_tap = if *from == OPENER { 10 } else { 20 };
        passed.pass(MS(sent + to_tap), &packet(*id));
    }
    let mean = |quantity| ledger.all_round_trips(0, quantity, &passed, Span::WHOLE);
    // 20 ms to 29 ms there, 20 ms back.
    assert_eq!(mean(Quantity::RightRtt), Some(44.5));
    assert_eq!(mean(Quantity::LeftRtt), Some(20.0));
    // Of those that end with the 2nd to the 10th packet of the opener.
    assert_eq!(mean(FULL), Some(10.0 + 24.0 + 30.0));
    assert_eq!(mean(Quantity::UpstreamLoss(Side::Initiator)), None);
}

#[test]
fn the_truth_within_a_window_is_of_what_was_sent_or_ended_in_it() {
    // Every second packet is lost before the tap from 500 ms on, and the way behind it
    // takes 10 ms longer from then on.
    let mut packets = Vec::new();
    for i in 0..10u64 {
        let later = i >= 5;
        let arrives = (!later || i % 2 == 0).then_some(i * 100 + 30 + 10 * u64::from(later));
        packets.push((2 * i, OPENER, i * 100, arrives));
        packets.push((2 * i + 1, ANSWERER, i * 100 + 45, Some(i * 100 + 75)));
    }
    let ledger = ledger(&packets);
    let mut passed = Passed::default();
    for (id, from, sent, arrives) in &packets {
        let to_tap = if *from == OPENER { 10 } else { 20 };
        if arrives.is_some() {
            passed.pass(MS(sent + to_tap), &packet(*id));
        }
    }
    let span = |from, to| Span::between(MS(from), MS(to));
    let loss = |span| {
        let quantity = Quantity::UpstreamLoss(Side::Initiator);
        ledger.rate(0, quantity, &passed, span)
    };
    assert_eq!(loss(Span::WHOLE), Some(0.3));
    assert_eq!(loss(span(0, 500)), Some(0.0));
    assert_eq!(loss(span(500, 1_000)), Some(0.6));
    assert_eq!(
        loss(span(600, 700)),
        Some(0.0),
        "its end does not belong to it"
    );
    assert_eq!(loss(span(2_000, 3_000)), None);
    let right = |span| ledger.all_round_trips(0, Quantity::RightRtt, &passed, span);
    assert_eq!(right(span(0, 500)), Some(40.0));
    assert_eq!(right(span(700, 1_000)), Some(50.0));
    assert_eq!(right(span(2_000, 3_000)), None);
}

#[test]
fn a_probe_lost_behind_the_observer_would_have_taken_what_the_next_took_that_arrived() {
    // The edge is lost, and so is what follows it at once; the sender waits for
    // its timeout of 200 ms, and the packet after it has a longer way of 34 ms.
    let ledger = ledger(&[
        (0, OPENER, 0, None),
        (1, OPENER, 1, None),
        (2, OPENER, 200, Some(234)),
        (3, ANSWERER, 234, Some(264)),
        (4, OPENER, 265, Some(295)),
    ]);
    let trip = ledger.round_trip(&sample(FULL, 0, 4, 275, 265));
    // 24 ms behind the observer, 30 back, 10 up to it; all else is the loss's.
    let seen = RoundTrip {
        network: 64.0,
        dwell: 201.0,
    };
    assert_eq!(trip, Some(seen));
}

#[test]
fn a_probe_after_which_nothing_arrived_has_no_truth() {
    let ledger = ledger(&[
        (0, ANSWERER, 0, Some(30)),
        (1, OPENER, 31, None),
        (2, ANSWERER, 61, Some(91)),
        (3, OPENER, 92, None),
    ]);
    assert_eq!(ledger.round_trip(&sample(FULL, 1, 3, 102, 61)), None);
}

#[test]
fn the_ecn_field_is_the_end_of_the_second_byte_of_ipv4_and_in_its_middle_of_ipv6() {
    for (bytes, field) in [
        (&[0x45, 0x03][..], CE),
        (&[0x45, 0xb9], 1),
        (&[0x60, 0x30], CE),
        (&[0x6f, 0xd3], 1),
        (&[0x60, 0x03], 0),
    ] {
        assert_eq!(ecn(&carrying(0, bytes)), field, "{bytes:x?}");
    }
}

#[test]
fn rates_are_of_what_was_sent_what_passed_or_what_came() {
    let mut ledger = ledger(&[]);
    let mut passed = Passed::default();
    // Of the opener's eight packets the first is lost before the tap and the second behind
    // it; the second and third pass with CE, the third and fourth arrive with it. Of the
    // answerer's four the first is lost behind the tap.
    for id in 0..12 {
        let side = usize::from(id >= 8);
        ledger.sent(MS(id), HOSTS[side], &packet(id));
        let header = |with: bool| carrying(id, if with { &[0x45, CE] } else { &[0x45, 0] });
        if id != 0 {
            passed.pass(MS(id + 20), &header(id == 1 || id == 2));
        }
        match id {
            0 | 1 | 8 => ledger.dropped(&packet(id)),
            _ => ledger.received(MS(id + 40), &header(id == 2 || id == 3)),
        }
    }
    use Quantity as Q;
    let (one, other) = (Side::Initiator, Side::Responder);
    for (quantity, rate) in [
        (Q::UpstreamLoss(one), 0.125),
        (Q::DownstreamLoss(one), 1.0 / 7.0),
        (Q::UpstreamCe(one), 2.0 / 7.0),
        (Q::EndToEndCe(one), 2.0 / 6.0),
        (Q::DownstreamCe(one), 1.0 / 5.0),
        (Q::ThreeQuarterLoss(one), 1.0 - 0.75 * 0.875),
        (Q::HalfRoundTripLoss(other), 1.0 - 0.75 * 0.875),
        (Q::RoundTripLoss(one), 1.0 - 0.75 * 0.75),
    ] {
        let found = ledger.rate(0, quantity, &passed, Span::WHOLE);
        assert_eq!(found, Some(rate), "{quantity:?}");
    }
    let block = |first| sample(Q::UpstreamLoss(one), first, 3, 40, 1);
    assert_eq!(ledger.block(&block(0), &passed), Some(0.25));
    // What is lost behind the tap is not lost before it.
    assert_eq!(ledger.block(&block(1), &passed), Some(0.0));
}

#[test]
fn a_packet_passes_at_its_time_with_ce_or_without() {
    let mut passed = Passed::default();
    passed.pass(MS(7), &carrying(2, &[0x45, CE]));
    passed.pass(MS(9), &carrying(0, &[0x45, 2]));
    let of = |id| (passed.at(id), passed.with_ce(id));
    assert_eq!(of(2), (Some(7_000_000), true));
    assert_eq!(of(0), (Some(9_000_000), false));
    assert_eq!((of(1), of(3)), ((None, false), (None, false)));
}

/// Whatever became of the original.
#[test]
fn a_copy_that_the_path_made_was_sent_with_its_original_and_fares_on_its_own() {
    let mut ledger = ledger(&[(0, ANSWERER, 5, Some(9)), (1, OPENER, 10, None)]);
    ledger.received(MS(40), &carrying(1, &[0x45, CE]));
    let copy = |id| Packet {
        parent: Some(PacketId(1)),
        ..packet(id)
    };
    ledger.dropped(&copy(2));
    ledger.received(MS(50), &copy(3));
    let of = |id: usize| {
        let f = &ledger.journeys[id];
        (f.sent, f.received, f.dropped, f.came_with_ce, f.latest)
    };
    let sent = MS(10).as_nanos();
    assert_eq!(of(1), (sent, MS(40).as_nanos(), true, true, 0));
    assert_eq!(of(2), (sent, NEVER, true, false, 0));
    assert_eq!(of(3), (sent, MS(50).as_nanos(), false, false, 0));
    // One that is lost would have taken as long as the next packet, not as its original.
    ledger.sent(MS(20), HOSTS[OPENER], &packet(5));
    ledger.received(MS(70), &packet(5));
    let arrival = ledger.arrival(&ledger.journeys[2]);
    assert_eq!(arrival, Some(MS(60).as_nanos()));
    // Nobody sent the packet from which this one was made.
    let orphan = Packet {
        parent: Some(PacketId(9)),
        ..packet(4)
    };
    ledger.dropped(&orphan);
    assert_eq!(ledger.journeys[4].sent, NEVER);
    assert!(ledger.lost(4) && !ledger.lost(3));
}
