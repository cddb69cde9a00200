//! The first bytes of connections to a split proxy.

#![no_main]

#[path = "../../crates/pep/tests/integration/targets/mod.rs"]
mod targets;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| targets::request(bytes));
