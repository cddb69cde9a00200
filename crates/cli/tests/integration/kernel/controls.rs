//! Congestion controls of ours against those that a kernel in virtual time has of itself: the
//! same connection twice, packet by packet.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use narrows_aqm::replay::{Recorded, recording};
use narrows_units::Instant;

use super::{cells_of, has_kernel};

const PATHS: [&str; 3] = ["pfifo", "codel", "lossy"];
const CONTROLS: [&str; 7] = [
    "reno", "cubic", "dctcp", "vegas", "westwood", "hybla", "bbr",
];

/// Whether ours takes every decision as the kernel's does. On `pfifo` the time of CUBIC's curve,
/// which Linux counts in ticks, moves a packet by a millisecond after the first loss.
fn is_exact(control: &str, path: &str) -> bool {
    match control {
        "reno" | "vegas" => true,
        "cubic" => path != "pfifo",
        _ => false,
    }
}

/// What the sender sent: when, since the first packet, and how many bytes at which place of the
/// stream, since its begin.
fn sent(cell: &Path) -> Vec<(u64, u32, u32)> {
    let path = cell.join("captures/sent.pcapng");
    let file = File::open(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let packets = recording(BufReader::new(file)).expect("a capture");
    // Behind an IPv4 header without options: RFC 9293 section 3.1.
    let sequence = |packet: &Recorded| {
        let bytes = packet.bytes[24..28].try_into().expect("four bytes");
        u32::from_be_bytes(bytes)
    };
    let first = packets.first().expect("packets").clone();
    let since = |at: Instant| at.since(first.at).as_nanos();
    let each = packets.iter().map(|packet| {
        let place = sequence(packet).wrapping_sub(sequence(&first));
        (since(packet.at), place, packet.len)
    });
    each.collect()
}

#[test]
fn our_controls_send_what_the_kernels_own_send() {
    if !has_kernel("controls of ours beside those of a kernel in virtual time") {
        return;
    }
    let (_dir, cells) = cells_of("kernel/controls");
    let mut wrong = Vec::new();
    for (control, path) in CONTROLS.iter().flat_map(|c| PATHS.map(|path| (*c, path))) {
        let cells = cells.join(path);
        let of = |whose| sent(&cells.join(format!("{control}-{whose}")));
        let (ours, theirs) = (of("ours"), of("kernel"));
        let (many, few) = (ours.len().max(theirs.len()), ours.len().min(theirs.len()));
        let differs = ours
            .iter()
            .zip(&theirs)
            .position(|(ours, theirs)| ours != theirs);
        let is_wrong = match is_exact(control, path) {
            true => differs.is_some() || many != few,
            false => many - few > many * 3 / 100,
        };
        assert!(few > 5_000, "{path}/{control}: {few} packets");
        if is_wrong {
            wrong.push(format!(
                "{path}/{control}: {many} and {few} packets, from {differs:?} on"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
