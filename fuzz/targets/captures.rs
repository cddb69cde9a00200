//! Files of pcap and pcapng, compressed or not, and the packets in them.

#![no_main]

#[path = "../../crates/wire/tests/targets/mod.rs"]
#[allow(dead_code)]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    targets::capture(bytes);
    targets::pieces(bytes);
    targets::compressed(bytes);
});
