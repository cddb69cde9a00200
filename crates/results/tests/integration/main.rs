//! From a run to its figures and verdict: one program, so that it is linked once.

mod boxes;
mod controls;
mod datagrams;
mod flent;
#[cfg(target_os = "linux")]
mod live_observers;
mod modelled;
mod observed;
mod observers;
mod quic;
mod simulated;
mod support;
mod theory;
mod verdicts;
mod wireshark;
