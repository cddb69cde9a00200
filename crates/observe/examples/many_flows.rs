//! Writes a pcap file with TCP flows for measuring how fast captures are read:
//! `many_flows FILE FLOWS PACKETS [marked]`. Each flow opens with a handshake;
//! then data and acknowledgements of all flows take turns, with timestamps.
//! With `marked`, flows carry s+d+q and d+q+l by turns, one packet in a
//! thousand of the data is lost before the observer, and marks are as senders
//! set them on a path of 20 ms. Frames are Ethernet, cut to 96 bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr};

use narrows_wire::{IpFields, TcpFields, TcpFlags, TcpOptions, ip};

/// Bytes kept of each frame.
const SNAPLEN: usize = 96;
/// Payload of a data segment.
const PAYLOAD: u32 = 1_448;
/// Between packets, in microseconds.
const GAP_US: u64 = 2;
/// Data segments in a round trip of one flow.
const PER_ROUND: u32 = 20;

#[derive(Clone, Copy, Default)]
struct Flow {
    step: u32,
    data: u32,
    acks: u32,
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| words.get(i).and_then(|w| w.parse::<u64>().ok());
    let (Some(path), Some(flows), Some(packets)) = (words.first(), number(1), number(2)) else {
        eprintln!("usage: many_flows FILE FLOWS PACKETS [marked]");
        std::process::exit(2);
    };
    let marked = words.get(3).is_some_and(|w| w == "marked");
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    // Magic, version 2.4, zone, accuracy, snap length, Ethernet.
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, SNAPLEN as u32, 1] {
        out.write_all(&word.to_le_bytes())?;
    }
    let mut all = vec![Flow::default(); flows as usize];
    let mut frame = Vec::new();
    for n in 0..packets {
        let which = n % flows;
        let flow = &mut all[which as usize];
        let length = write_packet(&mut frame, which as u32, flow, marked, n * GAP_US);
        let us = n * GAP_US;
        let kept = frame.len().min(SNAPLEN);
        for word in [
            (us / 1_000_000) as u32,
            (us % 1_000_000) as u32,
            kept as u32,
            length,
        ] {
            out.write_all(&word.to_le_bytes())?;
        }
        out.write_all(&frame[..kept])?;
    }
    out.flush()
}

/// The next packet of a flow; gives the frame's length on the wire.
fn write_packet(frame: &mut Vec<u8>, which: u32, flow: &mut Flow, marked: bool, us: u64) -> u32 {
    // Handshake, then two data segments and an acknowledgement by turns.
    let step = flow.step;
    flow.step += 1;
    let code: u16 = match (marked, which % 2) {
        (false, _) => 0,
        (true, 0) => 5,
        (true, _) => 6,
    };
    let (flags, forward, payload) = match step {
        0 => (TcpFlags::SYN | code << 9, true, 0),
        1 => (TcpFlags::SYN | TcpFlags::ACK | code << 9, false, 0),
        2 => (TcpFlags::ACK, true, 0),
        _ if (step - 3) % 3 == 2 => (TcpFlags::ACK, false, 0),
        _ => (TcpFlags::ACK, true, PAYLOAD),
    };
    let count = if forward {
        &mut flow.data
    } else {
        &mut flow.acks
    };
    if step > 2 {
        *count += 1;
        if forward && *count % 1_000 == 999 {
            *count += 1; // lost on its way here
        }
    }
    let count = *count;
    let per_round = if forward { PER_ROUND } else { PER_ROUND / 2 };
    let round = count / per_round;
    let bits = if marked && step > 1 {
        let square = (count / 64 % 2) as u16;
        let delay = u16::from(count % per_round == 0);
        let third = if code == 5 {
            round as u16 % 2
        } else {
            u16::from(count % 1_000 == 500)
        };
        third << 11 | square << 10 | delay << 9
    } else {
        0
    };
    let client = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + which / 20_000));
    let server = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    let (source, destination) = if forward {
        (client, server)
    } else {
        (server, client)
    };
    let ports = (20_000 + (which % 20_000) as u16, 443);
    let (source_port, destination_port) = if forward { ports } else { (ports.1, ports.0) };
    let sent = flow.data.saturating_sub(1);
    let stamp = (us / 1_000) as u32 + 1;
    let echo = stamp.saturating_sub(10);
    let tcp = TcpFields {
        source_port,
        destination_port,
        seq: if forward {
            1 + sent * PAYLOAD - u32::from(step == 0)
        } else {
            u32::from(step > 1)
        },
        ack: if forward {
            u32::from(step > 0)
        } else {
            1 + flow.data * PAYLOAD
        },
        flags: TcpFlags(flags | bits),
        window: 1_000,
        options: TcpOptions {
            timestamps: Some((stamp, if step == 0 { 0 } else { echo })),
            ..TcpOptions::default()
        },
    };
    let header = IpFields {
        source,
        destination,
        traffic_class: 2,
        ttl: 64,
        protocol: ip::TCP,
        ident: step,
    };
    let mut packet = Vec::with_capacity(SNAPLEN);
    header.write(&mut packet, tcp.header_len() + payload as usize);
    tcp.write(&mut packet, source, destination, &[], payload);
    frame.clear();
    frame.extend_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0]);
    frame.extend_from_slice(&packet);
    frame.resize(
        frame.len() + (SNAPLEN.saturating_sub(frame.len())).min(payload as usize),
        0,
    );
    14 + packet.len() as u32 + payload
}
