//! `narrows pep serve` with one thread.

#![cfg(target_os = "linux")]

mod pep_rig;
mod pep_serve;

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");
const THREADS: usize = 1;
