//! Zeros at the end of a packet that are counted and not stored: as many are stored as rules may write, and
//! what leaves is what would if all of them were.

use crate::full_tables::boxed;
use crate::packets::{segment, tcp, udp};
use narrows_core::UP;
use narrows_units::Instant;
use narrows_wire::{IpFields, TcpFlags, ip};

const CLIENT: &str = "10.0.0.1:5000";
const SERVER: &str = "192.0.2.9:80";

/// An echo of that many zeros.
fn echo(zeros: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    IpFields {
        source: [10, 0, 0, 1].into(),
        destination: [192, 0, 2, 9].into(),
        traffic_class: 0,
        ttl: 64,
        protocol: ip::ICMP,
        ident: 7,
    }
    .write(&mut bytes, 8 + zeros);
    bytes.extend([8, 0, 0, 0, 0, 5, 0, 1]);
    bytes.resize(bytes.len() + zeros, 0);
    let h = crate::naive::headers(&bytes);
    crate::naive::seal(&mut bytes, &h);
    bytes
}

#[test]
fn what_no_rule_writes_is_not_stored() {
    let of_tcp = tcp(CLIENT, SERVER, segment(TcpFlags::ACK, 1, 1), &[0; 1_000]);
    let of_udp = udp(CLIENT, SERVER, &[0; 100]);
    let of_icmp = echo(100);
    // The last byte of a packet stands alone, and zeros behind it are a frame's.
    let odd = udp(CLIENT, SERVER, &[0]);
    let mut padded = odd.clone();
    padded.extend([0; 17]);
    for (packet, before, rule, after) in [
        (&of_tcp, 40, "add all mod tcp-dport 9", 40),
        (&of_tcp, 40, "add all mod tcp-payload x0102", 42),
        (&of_tcp, 41, "add all strip all", 41),
        // What QUIC has in clear is the first byte of a payload, and changes are of two bytes.
        (&of_udp, 28, "add all mod quic-spin 1", 30),
        (&of_udp, 28, "add all mod udp-payload x01020304", 32),
        (&of_udp, 28, "add all accept", 28),
        (&of_icmp, 28, "add all mod ip-ttl 3", 28),
        (&of_icmp, 28, "add all mod icmp-payload x010203", 32),
        (&odd, 28, "add all mod udp-payload x010203", 29),
        (&padded, 28, "add all mod udp-payload x010203", 30),
        (&padded, 28, "add all mod quic-spin 1", 30),
    ] {
        let mut whole = packet.clone();
        boxed(rule, 10).process(Instant::ZERO, UP, &mut whole, &mut 0);
        let mut bytes = packet[..before].to_vec();
        let mut tail = (packet.len() - before) as u32;
        boxed(rule, 10).process(Instant::ZERO, UP, &mut bytes, &mut tail);
        assert_eq!(bytes.len(), after, "{rule}");
        bytes.resize(bytes.len() + tail as usize, 0);
        assert_eq!(bytes, whole, "{rule}");
    }
}
