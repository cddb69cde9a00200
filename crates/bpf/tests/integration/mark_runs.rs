//! The marking programs beside the native marker, frame by frame, and on two
//! CPUs at once, by the kernel's test runs. Needs root.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use narrows_bpf::SignalOptions;
use narrows_bpf::testkit::SignalRuns;
use narrows_core::{HostHook, Packet, Role};
use narrows_efm::{SignalHook, SignalSpec};
use narrows_units::Instant;
use narrows_wire::Signal;
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::rig::{loaded, skipped};

const ETHERNET: usize = 14;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;
/// Connections of the comparison; half of them are of IPv6.
const CONNECTIONS: u16 = 8;
const PACKETS: usize = 4000;

fn load(test: &str, words: &str) -> Option<SignalRuns> {
    let spec = SignalSpec::parse(words).expect("the words name signals");
    loaded(test, SignalRuns::load(&spec, &SignalOptions::default()))
}

/// xorshift64*, so that a failure can be had again.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 33) % n
    }
}

/// What is special about a frame.
#[derive(Clone, Debug, Default)]
struct Shape {
    flags: u8,
    /// The low four bits of byte 12.
    reserved: u8,
    seq: u32,
    ack: u32,
    payload: usize,
    tcp_options: Vec<u8>,
    /// Words of options in the header of IPv4.
    ip_options: usize,
    /// Bytes 6 and 7 of the header of IPv4.
    fragment: u16,
    /// The protocol, if it is not TCP.
    protocol: Option<u8>,
    padding: usize,
}

/// Ethernet, IPv4 or IPv6, and a TCP header with a checksum from nowhere.
fn frame(connection: u16, leaves: bool, shape: &Shape) -> Vec<u8> {
    let header = 20 + shape.tcp_options.len();
    let segment = header + shape.payload;
    let (from, to) = if leaves { (1, 2) } else { (2, 1) };
    let protocol = shape.protocol.unwrap_or(6);
    let mut frame = vec![0; 12];
    if connection % 2 == 1 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend((segment as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        for end in [from, to] {
            frame.extend([0xfd, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, end]);
        }
    } else {
        let ip = 20 + 4 * shape.ip_options;
        frame.extend([8, 0, 0x40 | (ip / 4) as u8, 0]);
        frame.extend(((ip + segment) as u16).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(shape.fragment.to_be_bytes());
        frame.extend([64, protocol, 0, 0, 10, 9, 0, from, 10, 9, 0, to]);
        // NOPs.
        frame.resize(ETHERNET + ip, 1);
    }
    let ports = [40_000 + connection, 443];
    let ports = if leaves { ports } else { [ports[1], ports[0]] };
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.extend(shape.seq.to_be_bytes());
    frame.extend(shape.ack.to_be_bytes());
    let offset = ((header / 4) as u8) << 4 | shape.reserved;
    frame.extend([offset, shape.flags, 1, 0]);
    frame.extend([(shape.seq >> 3) as u8, connection as u8 ^ 0x5a, 0, 0]);
    frame.extend(&shape.tcp_options);
    frame.resize(frame.len() + shape.payload, 0x77);
    frame.resize(frame.len() + shape.padding, 0);
    frame
}

/// Options as senders write them, in several orders, and some that cannot be.
fn options(draw: &mut Draw, now: u32) -> Vec<u8> {
    let mut timestamp = vec![8, 10];
    timestamp.extend(now.to_be_bytes());
    timestamp.extend([0; 4]);
    let sack = |blocks: u8| {
        let mut sack = vec![5, 2 + 8 * blocks];
        sack.resize(usize::from(2 + 8 * blocks), 0x33);
        sack
    };
    let mut all = match draw.below(9) {
        0 => vec![],
        1..=3 => [vec![1, 1], timestamp].concat(),
        4 => [timestamp, vec![0, 0]].concat(),
        5 => [
            vec![1, 1],
            timestamp,
            vec![1, 1],
            sack(draw.below(3) as u8 + 1),
        ]
        .concat(),
        6 => [vec![1, 1], sack(1), vec![1, 1], timestamp].concat(),
        7 => [
            vec![1, 1],
            timestamp,
            vec![174, 11, 0, 0, 1, 0, 0, 1, 0, 0, 1, 1],
        ]
        .concat(),
        _ => (0..draw.below(11) * 4)
            .map(|_| draw.below(12) as u8)
            .collect(),
    };
    all.truncate(40);
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

/// The native marker's packet: all that follows the Ethernet header.
fn packet(frame: &[u8]) -> Packet {
    Packet {
        bytes: frame[ETHERNET..].to_vec(),
        ..Packet::default()
    }
}

/// Whether two frames are alike; sums of 0 and of all ones are one and the same.
fn alike(a: &[u8], b: &[u8]) -> bool {
    let at = match (a[12], a[ETHERNET] & 15) {
        (8, words) => ETHERNET + usize::from(words) * 4 + 16,
        _ => ETHERNET + 40 + 16,
    };
    let sum = |f: &[u8]| u16::from_be_bytes([f[at], f[at + 1]]) % 0xffff;
    a.len() == b.len()
        && a.iter()
            .zip(b)
            .enumerate()
            .all(|(i, (x, y))| x == y || i == at || i == at + 1)
        && (a[at..at + 2] == b[at..at + 2] || sum(a) == sum(b))
}

#[test]
fn kernel_and_native_marker_treat_every_frame_alike() {
    let test = "kernel_and_native_marker_treat_every_frame_alike";
    // Nothing in them that depends on how fast the machine is.
    for words in [
        "s",
        "s+vec vec_hold off",
        "d+q+r tmax 60s dynamic off hold off",
        "s+t",
        "s+d+q announce negotiate tmax 60s dynamic off hold off sack skip",
    ] {
        let Some(runs) = load(test, words) else {
            return;
        };
        let spec = SignalSpec::parse(words).expect("the words name signals");
        let mut native = SignalHook::new(&spec);
        let mut draw = Draw(0x9e37_79b9_7f4a_7c15);
        let mut changed = 0;
        for n in 0..PACKETS {
            let connection = draw.below(u64::from(CONNECTIONS)) as u16;
            let begins = n < 2 * usize::from(CONNECTIONS);
            let mut shape = Shape {
                flags: ACK | (draw.below(256) as u8 & 0xe9),
                reserved: draw.below(16) as u8,
                seq: 1000 + (n as u32 / 3) * 10,
                ack: 2000 + (n as u32 / 5) * 10,
                payload: [0, 0, 10, 100][draw.below(4) as usize],
                tcp_options: options(&mut draw, n as u32 / 2),
                ..Shape::default()
            };
            let mut leaves = draw.below(2) == 0;
            let mut connection = connection;
            if begins {
                // A SYN and its answer; half of the connections are opened here.
                connection = n as u16 / 2;
                let opens_here = connection % 4 < 2;
                let answer = n % 2 == 1;
                shape.flags = if answer { SYN | ACK } else { SYN };
                shape.payload = 0;
                shape.seq = 1;
                leaves = opens_here != answer;
            } else {
                match draw.below(16) {
                    0 => shape.ip_options = draw.below(4) as usize,
                    1 => shape.fragment = [0x2000, 0x0001, 0x4000][draw.below(3) as usize],
                    2 => shape.protocol = Some([17, 0, 60][draw.below(3) as usize]),
                    3 => shape.padding = 1 + draw.below(20) as usize,
                    _ => {}
                }
            }
            let bytes = frame(connection, leaves, &shape);
            let mut twin = packet(&bytes);
            let now = Instant::from_nanos(1_000_000_000 + n as u64 * 1000);
            let ran = if leaves {
                native.egress(now, Role::Initiator, &mut twin, None);
                runs.leave(&bytes, 1)
            } else {
                native.ingress(now, Role::Initiator, &mut twin, None);
                runs.arrive(&bytes, 1)
            };
            let after = ran.expect("a test run").frame;
            let expected = [&bytes[..ETHERNET], &twin.bytes].concat();
            assert!(
                alike(&after, &expected),
                "{words}: packet {n} of connection {connection}: {shape:?}\n{after:02x?}\n{expected:02x?}"
            );
            changed += usize::from(after != bytes);
        }
        assert!(changed > PACKETS / 10, "{words}: {changed} changed");
        let (kernel, native) = (runs.counters().expect("counters"), native.counters());
        assert_eq!(kernel, native, "{words}");
        assert!(native.other > 0 && native.marked > 1000, "{native:?}");
    }
}

#[test]
fn only_the_three_bits_and_the_checksum_change_whatever_stands_beside_them() {
    let test = "only_the_three_bits_and_the_checksum_change_whatever_stands_beside_them";
    for connection in [0, 1] {
        let Some(runs) = load(test, "s announce never") else {
            return;
        };
        let shape = |flags, reserved| Shape {
            flags,
            reserved,
            seq: 1,
            ..Shape::default()
        };
        // Opened from the other side, which then spins.
        let run = |leaves: bool, shape: &Shape| {
            let bytes = frame(connection, leaves, shape);
            let ran = if leaves {
                runs.leave(&bytes, 1)
            } else {
                runs.arrive(&bytes, 1)
            };
            (bytes, ran.expect("a test run").frame)
        };
        run(false, &shape(SYN, 0));
        run(true, &shape(SYN | ACK, 0));
        let mut spun = shape(ACK, 0x02);
        spun.payload = 10;
        run(false, &spun);
        let at = ETHERNET + if connection == 0 { 20 } else { 40 };
        for flags in (0..=255).filter(|flags| flags & SYN == 0) {
            for reserved in 0..16 {
                let (before, after) = run(true, &shape(flags, reserved));
                // S has 0x02; 0x08 and 0x04 belong to nobody and stay, as AE does.
                assert_eq!(after[at + 12], before[at + 12] | 0x02);
                assert_eq!(after[at + 13], flags);
                let total = |f: &[u8]| {
                    let words = f[at..at + 20].chunks(2);
                    let sum: u32 = words.map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
                    sum % 0xffff
                };
                assert_eq!(total(&after), total(&before), "{flags:#x} {reserved:#x}");
                assert_eq!(after[..at + 12], before[..at + 12]);
                assert_eq!(after[at + 18..], before[at + 18..]);
            }
        }
    }
}

/// Two CPUs send for one connection without pause while samples arrive: each is
/// sent back once.
#[test]
fn a_delay_sample_is_sent_back_once_by_two_cpus() {
    const SAMPLES: u64 = 300;
    let test = "a_delay_sample_is_sent_back_once_by_two_cpus";
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        return skipped(test, &"this machine has one CPU");
    }
    let Some(runs) = load(test, "d hold off") else {
        return;
    };
    let open = |leaves, flags| {
        let shape = Shape {
            flags,
            seq: 1,
            ..Shape::default()
        };
        frame(0, leaves, &shape)
    };
    runs.arrive(&open(false, SYN), 1).expect("a test run");
    runs.leave(&open(true, SYN | ACK), 1).expect("a test run");
    let leaving = open(true, ACK);
    let marked = Shape {
        flags: ACK,
        reserved: 0x02,
        seq: 2,
        ..Shape::default()
    };
    let arriving = frame(0, false, &marked);
    let stop = AtomicBool::new(false);
    let sent_back = || {
        let counters = runs.counters().expect("counters");
        counters.set(Signal::Delay)
    };
    thread::scope(|scope| {
        for cpu in 0..2 {
            let (stop, runs, leaving) = (&stop, &runs, &leaving);
            scope.spawn(move || {
                let mut one = CpuSet::new();
                one.set(cpu).expect("a CPU's number");
                // Where it is not allowed the two may share a CPU.
                let _ = sched_setaffinity(Pid::from_raw(0), &one);
                while !stop.load(Ordering::Relaxed) {
                    runs.leave(leaving, 2000).expect("a test run");
                }
            });
        }
        for n in 0..SAMPLES {
            assert_eq!(sent_back(), n, "before sample {n} came");
            runs.arrive(&arriving, 1).expect("a test run");
            for _ in 0..10_000 {
                if sent_back() > n {
                    break;
                }
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert_eq!(sent_back(), SAMPLES);
}
