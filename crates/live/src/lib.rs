//! The live engine: runs a checked [`Plan`](narrows_scenario::Plan) with the
//! machine's own transport stacks.
//!
//! Hosts are network namespaces; each link is a pair of TUN devices with the
//! same elements between them that the simulator runs, driven in real time.
//! Flows are real sockets driven by the same traffic generators. What paths,
//! sockets and congestion controls report comes as the simulator's events.
//! What it takes of the machine is in `narrows-linux`.
//!
//! ```
//! use narrows_scenario::Draft;
//!
//! let link = ["rate 10Mbit queue fq_codel".to_owned()];
//! let draft = Draft::from_words(&link, &["cubic".to_owned()]).unwrap();
//! let plan = draft.check().unwrap();
//! // Nothing is made yet: the words that no live run has are refused.
//! narrows_live::check_plan(&plan).unwrap();
//! ```

#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod bursts;
mod check;
mod control_records;
mod controls;
pub mod datapath;
mod disciplines;
mod engine;
mod error;
pub mod flows;
mod live_engine;
mod own_controls;
mod report;
pub mod sample;
mod signals;
mod steal_time;
pub mod tls;
mod world;

pub use check::{check, check_network, check_plan};
pub use disciplines::Counted;
pub use engine::run;
pub use error::LiveError;
pub use live_engine::{LiveEngine, refused};
pub use narrows_engine::{CommandFacts, Ended, FlowFacts, RunHandle};
pub use narrows_scenario::NameTable;
pub use own_controls::{OwnControls, options_of};
pub use report::{Report, Reporter, Reports, reports};
pub use world::World;

use narrows_linux::{Clock, Namespace, RunId};
