//! What an engine is ([`Engine`]), and what all of them have in common: the applications that they build from a plan, on their
//! hosts and with the options of their sockets; how a run is followed and cancelled; how it
//! ended, and what is known of the machine that it ran on.
//!
//! ```
//! use narrows_quic::Epoch;
//! use narrows_engine::Setup;
//! use narrows_scenario::Draft;
//!
//! let link = ["netem delay 5ms".to_owned()];
//! let plan = Draft::from_words(&link, &["cubic".to_owned()]).unwrap().check().unwrap();
//! let setup = Setup::of(&plan, 1, Epoch::at(std::time::Instant::now()), None).unwrap();
//! // The flow's sender and its receiver.
//! assert_eq!(setup.apps.len(), 2);
//! ```
//!
//! ```
//! use std::sync::atomic::{AtomicBool, Ordering};
//!
//! use narrows_engine::RunHandle;
//! use narrows_units::Instant;
//!
//! let cancel = AtomicBool::new(false);
//! let handle = RunHandle { cancel: Some(&cancel), ..RunHandle::default() };
//! assert!(handle.tick(Instant::ZERO));
//! cancel.store(true, Ordering::Relaxed);
//! assert!(!handle.tick(Instant::ZERO));
//! ```

#![forbid(unsafe_code)]

mod apps;
mod causes;
mod engine;
mod handle;
mod rig;
mod setup;
mod split;
mod virtual_kernel;

use std::sync::Arc;

use narrows_efm::HostSignals;
use narrows_scenario::Plan;
use narrows_units::Duration;

pub use causes::{DropCounts, MarkCounts};
pub use engine::{Engine, EngineError};
pub use handle::{Amended, RunHandle};
pub use rig::{CommandFacts, DisciplineFacts, FlowFacts, Lateness, Rig};
pub use setup::{Carrier, Setup, SetupError, SocketPlan, TcpPlan};
pub use virtual_kernel::VirtualKernel;

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ended {
    /// Events that the engine processed.
    pub events: u64,
    /// Packets made.
    pub packets: u64,
    /// Network time that was run.
    pub virtual_time: Duration,
    /// Whether it was cancelled.
    pub interrupted: bool,
    /// What is known of the machine, where it had a part in the run.
    pub rig: Option<Rig>,
    /// What the plan's signals (`[[mark]]`) did at each of their hosts.
    pub signals: Vec<HostSignals>,
    /// The plan that was run, where changes were added to it while the run went on.
    pub amended: Option<Arc<Plan>>,
}
