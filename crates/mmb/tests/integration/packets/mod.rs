//! Packets for tests: built from parts, or drawn.

use std::net::SocketAddr;

use narrows_units::{Draw, Rng};
use narrows_wire::{IpFields, TcpFields, TcpFlags, TcpOptions, UdpFields, ip};

/// A TCP packet.
pub fn tcp(from: &str, to: &str, fields: TcpFields, payload: &[u8]) -> Vec<u8> {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let fields = TcpFields {
        source_port: from.port(),
        destination_port: to.port(),
        ..fields
    };
    let mut above = Vec::new();
    fields.write(&mut above, from.ip(), to.ip(), payload, 0);
    whole(from, to, ip::TCP, &above)
}

/// A datagram.
pub fn udp(from: &str, to: &str, payload: &[u8]) -> Vec<u8> {
    let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
    let fields = UdpFields {
        source_port: from.port(),
        destination_port: to.port(),
    };
    let mut above = Vec::new();
    fields.write(&mut above, from.ip(), to.ip(), payload, 0);
    whole(from, to, ip::UDP, &above)
}

/// A packet without options or extension headers in fragments with `size` bytes above IP, a multiple of
/// eight.
pub fn pieces(packet: &[u8], ident: u16, size: usize) -> Vec<Vec<u8>> {
    let v4 = packet[0] >> 4 == 4;
    let (header, above) = packet.split_at(if v4 { 20 } else { 40 });
    let last = above.len().div_ceil(size) - 1;
    let piece = |(number, part): (usize, &[u8])| {
        let (offset, more) = ((number * size / 8) as u16, u16::from(number < last));
        let mut bytes = header.to_vec();
        if v4 {
            bytes[2..4].copy_from_slice(&(20 + part.len() as u16).to_be_bytes());
            bytes[4..6].copy_from_slice(&ident.to_be_bytes());
            bytes[6..8].copy_from_slice(&(more << 13 | offset).to_be_bytes());
            bytes[10..12].fill(0);
            let sum = narrows_wire::checksum::of(&bytes);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let next = std::mem::replace(&mut bytes[6], 44);
            bytes[4..6].copy_from_slice(&(8 + part.len() as u16).to_be_bytes());
            bytes.extend([next, 0]);
            bytes.extend((offset << 3 | more).to_be_bytes());
            bytes.extend(u32::from(ident).to_be_bytes());
        }
        bytes.extend(part);
        bytes
    };
    above.chunks(size).enumerate().map(piece).collect()
}

fn whole(from: SocketAddr, to: SocketAddr, protocol: u8, above: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    IpFields {
        source: from.ip(),
        destination: to.ip(),
        traffic_class: 0,
        ttl: 64,
        protocol,
        ident: 7,
    }
    .write(&mut bytes, above.len());
    bytes.extend_from_slice(above);
    bytes
}

/// A segment with these flags and numbers.
pub fn segment(flags: u16, seq: u32, ack: u32) -> TcpFields {
    TcpFields {
        flags: TcpFlags(flags),
        seq,
        ack,
        window: 1000,
        options: TcpOptions::default(),
        ..TcpFields::default()
    }
}

fn bytes(rng: &mut Rng, len: u32) -> Vec<u8> {
    (0..len).map(|_| rng.draw_u32() as u8).collect()
}

/// One of few values, so that rules meet packets.
fn few(rng: &mut Rng) -> u16 {
    [80, 443, 5000, 49_152, 0, 65_535][rng.below(6) as usize]
}

/// A packet of any kind that rules know, whole and with good checksums.
pub fn drawn(rng: &mut Rng) -> Vec<u8> {
    let v4 = rng.below(2) == 0;
    let mut packet = if v4 { ip4(rng) } else { ip6(rng) };
    let protocol = [6, 6, 6, 17, 17, if v4 { 1 } else { 58 }, 47][rng.below(7) as usize];
    let next = packet.1;
    packet.0[next] = protocol;
    let above = match protocol {
        6 => drawn_tcp(rng),
        17 => {
            let mut above = [few(rng).to_be_bytes(), few(rng).to_be_bytes()].concat();
            let n = rng.below(20);
            let payload = bytes(rng, n);
            above.extend((8 + payload.len() as u16).to_be_bytes());
            // No checksum, now and then.
            let absent = v4 && rng.below(4) == 0;
            above.extend(if absent { [0, 0] } else { [1, 1] });
            above.extend(payload);
            above
        }
        _ => {
            let n = 8 + rng.below(20);
            bytes(rng, n)
        }
    };
    let mut packet = packet.0;
    let start = packet.len();
    packet.extend(above);
    let len = packet.len() as u16;
    if v4 {
        packet[2..4].copy_from_slice(&len.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&(len - 40).to_be_bytes());
    }
    if rng.below(12) == 0 && v4 {
        // A later fragment: what is above IP is payload.
        packet[6..8].copy_from_slice(&[0x20, 3]);
    }
    let _ = start;
    let h = super::naive::headers(&packet);
    super::naive::seal(&mut packet, &h);
    packet
}

/// The header, and where its protocol stands.
fn ip4(rng: &mut Rng) -> (Vec<u8>, usize) {
    let words = rng.below(2) * rng.below(3);
    let mut h = vec![0x45 + words as u8, rng.draw_u32() as u8, 0, 0];
    h.extend(few(rng).to_be_bytes());
    h.extend([[0, 0x40, 0x80][rng.below(3) as usize], 0]);
    h.extend([rng.draw_u32() as u8, 0, 0, 0]);
    h.extend([10, 0, 0, rng.below(3) as u8, 10, 0, 1, rng.below(3) as u8]);
    h.resize(20 + 4 * words as usize, 1);
    (h, 9)
}

fn ip6(rng: &mut Rng) -> (Vec<u8>, usize) {
    let mut h = vec![0x60 | rng.below(16) as u8];
    h.extend(bytes(rng, 3));
    h.extend([0, 0, 0, rng.draw_u32() as u8]);
    for _ in 0..2 {
        h.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        h.push(rng.below(3) as u8);
    }
    let mut next = 6;
    for _ in 0..rng.below(3) {
        h[next] = [0, 60, 43, 135][rng.below(4) as usize];
        next = h.len();
        let words = rng.below(2);
        h.extend([0, words as u8]);
        h.extend(bytes(rng, 6 + 8 * words));
    }
    (h, next)
}

fn drawn_tcp(rng: &mut Rng) -> Vec<u8> {
    let mut options = Vec::new();
    for _ in 0..rng.below(5) {
        let option: &[u8] = match rng.below(8) {
            0 => &[2, 4, 5, 0xb4],
            1 => &[3, 3, 7],
            2 => &[4, 2],
            3 => &[8, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            4 => &[5, 10, 0, 0, 0, 1, 0, 0, 0, 2],
            5 => &[1],
            6 => &[34, 6, 9, 9, 9, 9],
            _ => &[22, 4, 1, 2],
        };
        if options.len() + option.len() <= 40 {
            options.extend_from_slice(option);
        }
    }
    // A list that cannot be read, now and then.
    if rng.below(10) == 0 && options.len() < 38 {
        options.extend([2, 60]);
    }
    let fill = rng.below(2) as u8;
    options.resize(options.len().next_multiple_of(4), fill);
    let mut above = [few(rng).to_be_bytes(), few(rng).to_be_bytes()].concat();
    above.extend(bytes(rng, 8));
    above.push((((20 + options.len()) / 4) << 4) as u8 | rng.below(16) as u8);
    above.push(rng.draw_u32() as u8);
    above.extend(bytes(rng, 2));
    above.extend([0, 0]);
    above.extend(few(rng).to_be_bytes());
    above.extend(options);
    let n = rng.below(2) * rng.below(40);
    above.extend(bytes(rng, n));
    above
}
