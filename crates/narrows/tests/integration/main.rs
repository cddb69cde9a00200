//! The library as its callers have it, from runs to campaigns: one program, so that it is
//! linked once.

mod amended;
mod bbr;
mod boxes;
mod campaigns;
mod compare;
mod controls;
mod coverage;
mod datagrams;
mod expected;
mod fixed_link;
mod flent;
#[cfg(target_os = "linux")]
mod live_observers;
mod mixes;
mod modelled;
mod nulls;
mod observed;
mod observers;
mod proxies;
mod quic;
mod runs;
mod shapes;
mod simulated;
mod support;
mod theory;
mod verdicts;
mod wireshark;
mod yielding;
