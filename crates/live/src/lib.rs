//! The live engine: runs a checked [`Plan`](narrows_scenario::Plan) with the
//! machine's own transport stacks.
//!
//! Hosts are network namespaces; each link is a pair of TUN devices with the
//! same elements between them that the simulator runs, driven in real time.
//! Flows are real sockets driven by the same traffic generators. What paths,
//! sockets and congestion controls report comes as the simulator's events.
//!
//! ```no_run
//! # #[cfg(target_os = "linux")]
//! # fn main() {
//! let machine = narrows_live::machine::survey();
//! for finding in &machine.findings {
//!     println!("{}: {}", finding.name, finding.outcome.is_ok());
//! }
//! assert!(machine.runs_live());
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```

#![deny(unsafe_code)]

#[cfg(target_os = "linux")]
mod bursts;
#[cfg(target_os = "linux")]
pub mod by;
#[cfg(target_os = "linux")]
mod check;
#[cfg(target_os = "linux")]
mod clock;
#[cfg(target_os = "linux")]
mod control_records;
#[cfg(target_os = "linux")]
mod controls;
#[cfg(target_os = "linux")]
pub mod datapath;
#[cfg(target_os = "linux")]
pub mod detect;
#[cfg(target_os = "linux")]
mod device_box;
#[cfg(target_os = "linux")]
mod device_watch;
#[cfg(target_os = "linux")]
mod disciplines;
#[cfg(target_os = "linux")]
mod engine;
#[cfg(target_os = "linux")]
mod error;
#[cfg(target_os = "linux")]
pub mod flows;
#[cfg(target_os = "linux")]
pub mod foreground;
#[cfg(target_os = "linux")]
mod live_engine;
pub mod machine;
#[cfg(target_os = "linux")]
mod own_controls;
#[cfg(target_os = "linux")]
pub mod pep;
#[cfg(target_os = "linux")]
mod random;
mod report;
#[cfg(target_os = "linux")]
pub mod sample;
#[cfg(target_os = "linux")]
pub mod shell;
#[cfg(target_os = "linux")]
mod signals;
#[cfg(target_os = "linux")]
mod steal_time;
#[cfg(target_os = "linux")]
mod stream_calls;
#[cfg(target_os = "linux")]
pub mod world;

#[cfg(target_os = "linux")]
pub use check::{check, check_plan};
#[cfg(target_os = "linux")]
pub use clock::Clock;
#[cfg(target_os = "linux")]
pub use device_box::{BoxQuestion, BoxSocket, DeviceBox, ask as ask_box};
#[cfg(target_os = "linux")]
pub use device_watch::DeviceWatch;
#[cfg(target_os = "linux")]
pub use engine::run;
#[cfg(target_os = "linux")]
pub use error::LiveError;
pub use live_engine::{LiveEngine, refused};
pub use narrows_bpf::BoxConnection;
#[cfg(target_os = "linux")]
pub use narrows_bpf::{SignalCounters, SignalOptions};
pub use narrows_engine::{CommandFacts, Ended, FlowFacts, RunHandle};
pub use narrows_scenario::NameTable;
pub use report::{Report, Reporter, Reports, reports};
#[cfg(target_os = "linux")]
pub use signals::DeviceSignals;
#[cfg(target_os = "linux")]
pub use world::{Namespace, RunId, Tun, World, become_root_of_own_user_namespace};
