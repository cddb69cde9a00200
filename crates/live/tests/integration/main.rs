//! The engine over real sockets and namespaces: one program, so that it is linked once.

#[cfg(target_os = "linux")]
mod apps;
#[cfg(target_os = "linux")]
mod boxes;
mod datapath;
#[cfg(target_os = "linux")]
mod engine;
#[cfg(target_os = "linux")]
mod flows;
#[cfg(target_os = "linux")]
mod flows_quic;
#[cfg(target_os = "linux")]
mod flows_relay;
#[cfg(target_os = "linux")]
mod flows_rig;
#[cfg(target_os = "linux")]
#[path = "../../../sim/tests/integration/relay_apps/mod.rs"]
mod relay_apps;
#[cfg(target_os = "linux")]
mod world;
#[cfg(target_os = "linux")]
mod world_killed;
#[cfg(target_os = "linux")]
mod world_rig;
#[cfg(target_os = "linux")]
mod world_safety;
#[cfg(target_os = "linux")]
mod world_unprivileged;
