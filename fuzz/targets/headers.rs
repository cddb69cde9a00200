//! Packets, frames of every link layer, and datagrams.

#![no_main]

#[path = "../../crates/wire/tests/targets/mod.rs"]
#[allow(dead_code)]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    targets::packet(bytes);
    targets::frame(bytes);
    targets::datagram(bytes);
});
