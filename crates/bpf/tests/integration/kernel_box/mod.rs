//! A box and its programs in the kernel, and packets as they take them.

use narrows_bpf::testkit::BoxRuns;
use narrows_mmb::{Command, Middlebox, Settings};
use narrows_units::Rng;

/// Bytes of an Ethernet header.
pub const ETHERNET: usize = 14;

/// How often a test draws its random packets, `usual` of them, anew with other rules: until they are
/// as many as `NARROWS_PACKETS` says, where that is set.
pub fn rounds(usual: u32) -> u32 {
    let asked = std::env::var("NARROWS_PACKETS");
    let asked = asked.ok().and_then(|n| n.parse::<u32>().ok());
    asked.unwrap_or(usual).div_ceil(usual)
}

pub fn boxed(commands: &[Command]) -> Middlebox {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    middlebox.apply(commands).expect("rules of known names");
    middlebox
}

/// The box's programs; `None`, said on standard error, where they cannot be loaded.
pub fn loaded(middlebox: &Middlebox, test: &str) -> Option<BoxRuns> {
    let program = middlebox.program().expect("rules that the program can do");
    if nix::unistd::geteuid().is_root() && narrows_bpf::not_built().is_none() {
        return Some(BoxRuns::load(&program).unwrap_or_else(|e| panic!("{e}")));
    }
    let why = narrows_bpf::not_built().unwrap_or("loading programs needs root");
    eprintln!("skipped: {test}: {why}");
    None
}

/// The packet as an Ethernet frame.
pub fn frame(packet: &[u8]) -> Vec<u8> {
    let kind: [u8; 2] = if packet[0] >> 4 == 4 {
        [8, 0]
    } else {
        [0x86, 0xdd]
    };
    [&[2; 12][..], &kind, packet].concat()
}

/// A frame that is not IP, with that type.
pub fn other_frame(ether_type: u16) -> Vec<u8> {
    [&[2; 12][..], &ether_type.to_be_bytes(), &[7; 46]].concat()
}

/// A checksum of 0xffff, which only packets with wrong ones have but for UDP, is 0 as well;
/// of the two the kernel's arithmetic and ours may take another one.
pub fn has_double_zero(packet: &[u8]) -> bool {
    let h = super::naive::headers(packet);
    let at = match h.transport {
        "tcp" => h.above + 16,
        "icmp" | "icmp6" => h.above + 2,
        _ => return h.v4 && packet[10..12] == [0xff; 2],
    };
    packet[at..at + 2] == [0xff; 2] || h.v4 && packet[10..12] == [0xff; 2]
}
