//! `narrows pep serve` by one thread: what holds of several holds of it.

#![cfg(target_os = "linux")]

#[path = "pep/rig.rs"]
mod rig;
#[path = "pep/serve.rs"]
mod serve;

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");
const THREADS: usize = 1;
