//! A box as an element of a path: what it lets out, reports and counts.

use crate::full_tables::boxed;
use crate::packets::{segment, tcp, udp};
use narrows_core::{
    Change, DOWN, DropCause, Element, ElementCounters, EntityId, Event, EventSink, FlowId, Outlet,
    Packet, PacketPool, Port, UP,
};
use narrows_mmb::LinkBox;
use narrows_units::Instant;
use narrows_wire::TcpFlags;

const BOX: EntityId = EntityId(9);

/// The events of boxes.
#[derive(Debug, PartialEq, Eq)]
enum Reported {
    Dropped(EntityId, u32, DropCause),
    /// The flow, the protocol, and both ends.
    Translated(EntityId, Option<FlowId>, u8, [String; 2]),
    /// The rule, its packets, and those that it dropped.
    Rule(EntityId, [u64; 3]),
}

#[derive(Default)]
struct Log(Vec<Reported>);

impl EventSink for Log {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        self.0.push(match event {
            Event::Dropped {
                element,
                packet,
                cause,
            } => Reported::Dropped(element, packet.len(), cause),
            Event::Translated {
                element,
                flow,
                protocol,
                addresses: (from, to),
            } => Reported::Translated(element, flow, protocol, [from, to].map(|a| a.to_string())),
            Event::RuleSampled {
                element,
                rule,
                packets,
                dropped,
            } => Reported::Rule(element, [rule.into(), packets, dropped]),
            other => panic!("{other:?}"),
        });
    }
}

/// An element, and what went on at it.
struct Bench {
    element: LinkBox,
    pool: PacketPool,
    log: Log,
    sent: Vec<(Port, Box<Packet>)>,
}

impl Bench {
    fn new(rules: &str) -> Self {
        Self {
            element: LinkBox::new(BOX, boxed(rules, 10)),
            pool: PacketPool::new(),
            log: Log::default(),
            sent: Vec::new(),
        }
    }

    /// A packet of flow 3 with so many zeros behind its bytes.
    fn push(&mut self, port: Port, bytes: &[u8], zero_tail: u32) {
        let mut packet = self.pool.take(Instant::ZERO, Some(FlowId(3)));
        packet.bytes.extend_from_slice(bytes);
        packet.zero_tail = zero_tail;
        let mut out = Outlet {
            pool: &mut self.pool,
            events: &mut self.log,
            sent: &mut self.sent,
        };
        self.element.push(Instant::ZERO, port, packet, &mut out);
    }
}

/// A segment to that port of a server.
fn to(port: u16) -> Vec<u8> {
    let server = format!("192.0.2.9:{port}");
    tcp("10.0.0.1:5000", &server, segment(TcpFlags::ACK, 1, 1), &[])
}

#[test]
fn packets_that_pass_leave_as_they_travel_and_all_are_counted_with_their_bytes() {
    let mut bench = Bench::new("add udp-dport 53 drop\nadd tcp-dport 81 add tcp-opt 253 x0102");
    let question = udp("10.0.0.1:5000", "192.0.2.9:53", b"who?");
    assert_eq!(question.len(), 32);
    bench.push(UP, &to(80), 0);
    bench.push(DOWN, &to(82), 0);
    // The option makes it four bytes longer.
    bench.push(UP, &to(81), 0);
    bench.push(UP, &question, 0);
    bench.push(DOWN, &question, 0);
    let counted = ElementCounters {
        packets_in: 5,
        bytes_in: 3 * 40 + 2 * 32,
        packets_out: 3,
        bytes_out: 3 * 40 + 4,
        dropped: 2,
        marked: 0,
    };
    assert_eq!(bench.element.counters(), counted);
    let left: Vec<(Port, u32)> = bench
        .sent
        .iter()
        .map(|(port, p)| (*port, p.len()))
        .collect();
    assert_eq!(left, [(UP, 40), (DOWN, 40), (UP, 44)]);
    let dropped = || Reported::Dropped(BOX, 32, DropCause::Policy);
    assert_eq!(bench.log.0, [dropped(), dropped()]);
}

#[test]
fn zeros_that_are_not_stored_count_as_bytes() {
    let mut bench = Bench::new("add tcp-dport 80 mod ip-ttl 3");
    let whole = tcp(
        "10.0.0.1:5000",
        "192.0.2.9:80",
        segment(TcpFlags::ACK, 1, 1),
        &[0; 1_000],
    );
    bench.push(UP, &whole[..40], 1_000);
    let counters = bench.element.counters();
    assert_eq!((counters.bytes_in, counters.bytes_out), (1_040, 1_040));
    assert_eq!(bench.sent[0].1.zero_tail, 1_000);
}

#[test]
fn a_flow_that_gets_other_ends_is_reported_with_these() {
    let mut bench = Bench::new("add tcp-dport 80 mod tcp-dport 8080");
    bench.push(UP, &to(80), 0);
    bench.push(UP, &to(81), 0);
    let ends = ["10.0.0.1:5000", "192.0.2.9:8080"].map(str::to_owned);
    let reported = Reported::Translated(BOX, Some(FlowId(3)), 6, ends);
    assert_eq!(bench.log.0, [reported]);
    assert_eq!(bench.sent.len(), 2);
}

#[test]
fn a_change_is_commands_and_a_wrong_one_is_refused_where_it_stands() {
    let mut bench = Bench::new("add udp-dport 53 drop");
    let mut change = |words: &str| {
        let words = words.to_owned();
        let change = Change { words, port: 0 };
        bench.element.change(Instant::ZERO, &change)
    };
    assert_eq!(
        change("add tcp-dport 80 drop; add tcp-dport 81 drop"),
        Ok(())
    );
    let error = change("flush; add tcp-dprt 80 drop").unwrap_err();
    assert_eq!(error.span, 11..19);
    let error = change("flush; del 1").unwrap_err();
    assert_eq!(
        error.to_string(),
        "found `flush; del 1`, but there is no rule 1: there are no rules is expected here"
    );
    assert_eq!(error.span, 0..12);
    assert_eq!(change("del 3"), Ok(()));
    // Of those that were refused none was applied.
    bench.push(UP, &to(80), 0);
    bench.push(UP, &to(81), 0);
    let dropped = Reported::Dropped(BOX, 40, DropCause::Policy);
    assert_eq!(bench.log.0, [dropped]);
}

#[test]
fn rules_that_applied_to_packets_are_sampled_with_what_they_dropped() {
    let mut bench = Bench::new("add tcp-dport 80 drop\nadd tcp-dport 81 drop\nadd all accept");
    for port in [80, 80, 82] {
        bench.push(UP, &to(port), 0);
    }
    let mut log = Log::default();
    bench.element.sample(Instant::ZERO, &mut log);
    let rule = |counted: [u64; 3]| Reported::Rule(BOX, counted);
    assert_eq!(log.0, [rule([1, 2, 2]), rule([3, 3, 0])]);
}

#[test]
fn of_a_long_list_the_first_rules_are_sampled() {
    let mut bench = Bench::new(&"add all mod ip-ttl 3\n".repeat(LinkBox::SAMPLED_RULES + 1));
    bench.push(UP, &to(80), 0);
    let mut log = Log::default();
    bench.element.sample(Instant::ZERO, &mut log);
    assert_eq!(log.0.len(), LinkBox::SAMPLED_RULES);
}
