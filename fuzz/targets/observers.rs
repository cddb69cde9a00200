//! An observer of all packets of a capture file, with every estimator.

#![no_main]

#[path = "../../crates/observe/tests/integration/targets/mod.rs"]
#[allow(dead_code)]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    targets::read(bytes);
});
