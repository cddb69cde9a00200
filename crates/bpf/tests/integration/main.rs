//! Controls, signals and boxes as the kernel runs them: beside the native builds, by recorded
//! calls, and over sockets and packets of this machine.

mod agree;
mod agreement;
mod boxes;
#[cfg(target_os = "linux")]
mod compilers;
mod connections;
mod kept;
mod kept_files;
mod kernel_box;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod live_agreement;
#[cfg(target_os = "linux")]
mod mark;
#[cfg(target_os = "linux")]
mod mark_runs;
mod marks_kept;
#[cfg(target_os = "linux")]
mod marks_live;
#[path = "../../../mmb/tests/integration/naive/mod.rs"]
#[allow(dead_code)] // What the kernel's boxes are held against needs a part of them.
mod naive;
#[path = "../../../mmb/tests/integration/packets/mod.rs"]
#[allow(dead_code)]
mod packets;
mod recorded;
mod reload;
#[cfg(target_os = "linux")]
mod rig;
#[path = "../../../mmb/tests/integration/rules/mod.rs"]
mod rules;
mod tracked;
#[cfg(target_os = "linux")]
mod transfer;
