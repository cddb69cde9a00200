//! `narrows pep` as operators, their clients and attackers meet it: real daemons on loopback and
//! in networks of their own.

#![cfg(target_os = "linux")]

mod connect;
mod controls;
mod faults;
mod gone;
mod hostile;
mod operators;
mod rig;
mod run;
mod serve;
mod service;
mod socks;
mod systemd;
mod threads;

const NARROWS: &str = env!("CARGO_BIN_EXE_narrows");
/// Of a daemon whose test does not say another number.
const THREADS: usize = 3;
