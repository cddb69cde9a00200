//! Flows that tests of what is written have in common.

use std::net::IpAddr;

use narrows_wire::{IpFields, TcpFields, TcpFlags, TcpOptions, ip};

/// A millisecond in nanoseconds.
pub const MS: u64 = 1_000_000;
/// The code of s+d+q on SYN and SYN-ACK.
pub const CODE: u16 = 5;

/// One segment between 192.0.2.1:40000 and 192.0.2.2:443.
pub fn segment(forward: bool, seq: u32, ack: u32, flags: u16, payload: usize) -> Vec<u8> {
    let ends: [(IpAddr, u16); 2] = [
        ([192, 0, 2, 1].into(), 40_000),
        ([192, 0, 2, 2].into(), 443),
    ];
    let (from, to) = if forward {
        (ends[0], ends[1])
    } else {
        (ends[1], ends[0])
    };
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

/// A second of a flow that spins each 40 ms and carries delay and square bits:
/// data each millisecond, acknowledged 10 ms after it passed here. One packet
/// in fifty is lost before it comes here.
pub fn flow() -> Vec<(u64, Vec<u8>)> {
    let ack = TcpFlags::ACK;
    let mut packets = vec![
        (0, segment(true, 0, 0, TcpFlags::SYN | CODE << 9, 0)),
        (
            10 * MS,
            segment(false, 0, 1, TcpFlags::SYN | ack | CODE << 9, 0),
        ),
        (20 * MS, segment(true, 1, 1, ack, 0)),
    ];
    for n in 0..1_000u32 {
        let at = (30 + u64::from(n)) * MS;
        let end = 1 + (n + 1) * 100;
        let marks = |time: u32, count: u32| {
            let spin = (time / 40 % 2) as u16;
            let square = (count / 64 % 2) as u16;
            let delay = u16::from(time % 40 == 0);
            spin << 11 | square << 10 | delay << 9
        };
        if n % 50 != 49 {
            packets.push((at, segment(true, end - 100, 1, ack | marks(n, n), 100)));
            let answered = marks(n.wrapping_sub(10).min(n), n);
            packets.push((at + 10 * MS, segment(false, 1, end, ack | answered, 0)));
        }
    }
    packets.sort_by_key(|(at, _)| *at);
    packets
}
