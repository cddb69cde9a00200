//! Prints what a run of the marking programs costs for each profile, by the
//! kernel's own test runs, beside the bar of 100 ns. Needs root.

use narrows_bpf::mark_cost;
use narrows_efm::Spec;

/// An Ethernet frame of IPv4 with a TCP segment with timestamps, 10.0.0.1 to .2
/// where it leaves.
fn frame(leaves: bool, flags: u8, seq: u32, payload: usize) -> Vec<u8> {
    let total = 20 + 32 + payload;
    let mut frame = vec![0; 14];
    frame[12] = 8;
    frame.extend([
        0x45,
        0,
        (total >> 8) as u8,
        total as u8,
        0,
        0,
        0x40,
        0,
        64,
        6,
    ]);
    frame.extend([0, 0]);
    let (from, to) = if leaves { (1, 2) } else { (2, 1) };
    frame.extend([10, 0, 0, from, 10, 0, 0, to]);
    let ports: [u16; 2] = if leaves { [40_000, 443] } else { [443, 40_000] };
    frame.extend(ports.iter().flat_map(|port| port.to_be_bytes()));
    frame.extend(seq.to_be_bytes());
    frame.extend(1u32.to_be_bytes());
    frame.extend([0x80, flags, 1, 0, 0, 0, 0, 0]);
    frame.extend([1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 1]);
    frame.resize(14 + total, 0);
    frame
}

fn main() {
    println!("profile   out ns/run   in ns/run   bar 100");
    for words in ["s", "d", "d+q", "s+vec", "s+d+q", "d+q+r"] {
        let spec = Spec::parse(words).expect("the words name signals");
        let cost = mark_cost(
            &spec,
            &frame(true, 0x02, 1, 0),
            &frame(false, 0x12, 1, 0),
            &frame(true, 0x10, 2, 1000),
            &frame(false, 0x10, 2, 1000),
            2_000_000,
        );
        match cost {
            Ok(cost) => println!("{words:<9} {:>10} {:>11}", cost.out_ns, cost.in_ns),
            Err(e) => println!("{words:<9} {e}"),
        }
    }
}
