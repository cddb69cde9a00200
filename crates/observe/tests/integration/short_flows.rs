//! What is known of flows of few packets.

use std::net::IpAddr;

use narrows_observe::{Nothing, Observer, ObserverConfig, Quantity, Side, Technique};
use narrows_units::Instant;
use narrows_wire::{IpFields, TcpFields, TcpFlags, ip};

/// An observer of flows with this profile, and a connection that passes it.
struct Point {
    observer: Observer,
    packets: u64,
}

impl Point {
    fn new(profile: &str) -> Self {
        let profile = (profile != "none").then(|| profile.parse().unwrap());
        let config = ObserverConfig {
            profile,
            ..ObserverConfig::default()
        };
        Self {
            observer: Observer::new(config),
            packets: 0,
        }
    }

    fn pass(&mut self, side: Side, flags: u16, numbers: (u32, u32), payload: u32) {
        let ends: [(IpAddr, u16); 2] =
            [([10, 0, 0, 1].into(), 40_000), ([10, 0, 0, 2].into(), 443)];
        let (from, to) = (ends[side.index()], ends[side.other().index()]);
        let tcp = TcpFields {
            source_port: from.1,
            destination_port: to.1,
            seq: numbers.0,
            ack: numbers.1,
            flags: TcpFlags(flags),
            ..TcpFields::default()
        };
        let ip = IpFields {
            source: from.0,
            destination: to.0,
            traffic_class: 0,
            ttl: 64,
            protocol: ip::TCP,
            ident: 0,
        };
        let mut bytes = Vec::new();
        ip.write(&mut bytes, tcp.header_len() + payload as usize);
        tcp.write(&mut bytes, from.0, to.0, &[], payload);
        self.packets += 1;
        let at = Instant::from_nanos(self.packets * 1_000_000);
        self.observer
            .observe(&bytes, at, self.packets, &mut Nothing);
    }
}

#[test]
fn the_example_of_rfc_9506_has_an_estimate_of_round_trip_loss() {
    let mut point = Point::new("s+t");
    // Spin and T of section 3.1.
    let bits = "01 01 00 01 11 10 11 00 00 10 10 10 01 00 01 01 10 11 10 00 00 10 00";
    for (n, packet) in bits.split(' ').enumerate() {
        let bit = |at: usize, mask: u16| {
            if packet.as_bytes()[at] == b'1' {
                mask
            } else {
                0
            }
        };
        // Byte 12 has spin in 0x02 and T in 0x08.
        let flags = TcpFlags::ACK | (bit(0, 0x02) | bit(1, 0x08)) << 8;
        point.pass(Side::Initiator, flags, (1 + 100 * n as u32, 1), 100);
    }
    let flow = point.observer.flows().next().unwrap();
    let estimates = Observer::estimates(flow);
    let found = estimates
        .iter()
        .find(|e| e.technique == Technique::RoundTripLoss)
        .expect("an estimate");
    assert_eq!(found.quantity, Quantity::RoundTripLoss(Side::Initiator));
    assert_eq!(found.n, 5);
    assert!((found.value - 0.2).abs() < 1e-9, "{}", found.value);
}

#[test]
fn a_fin_is_acknowledged_as_data_is_and_syn_and_fin_that_are_sent_again_count() {
    use Side::{Initiator, Responder};
    let mut point = Point::new("none");
    let (syn, ack, fin) = (TcpFlags::SYN, TcpFlags::ACK, TcpFlags::FIN);
    point.pass(Initiator, syn, (100, 0), 0);
    point.pass(Initiator, syn, (100, 0), 0);
    point.pass(Responder, syn | ack, (500, 101), 0);
    point.pass(Initiator, ack, (101, 501), 0);
    point.pass(Initiator, ack | fin, (101, 501), 0);
    point.pass(Responder, ack, (501, 102), 0);
    point.pass(Responder, ack | fin, (501, 102), 0);
    point.pass(Responder, ack | fin, (501, 102), 0);
    point.pass(Initiator, ack, (102, 502), 0);
    let flow = point.observer.flows().next().unwrap();
    assert_eq!((flow.again(Initiator), flow.again(Responder)), (1, 1));
    let estimates = Observer::estimates(flow);
    let seq_ack: Vec<_> = estimates
        .iter()
        .filter(|e| e.technique == Technique::SeqAck)
        .map(|e| (e.quantity, e.value, e.rejected))
        .collect();
    // The answer to the FIN that was sent twice says nothing.
    assert_eq!(seq_ack, [(Quantity::RightRtt, 1.0, 1)]);
}
