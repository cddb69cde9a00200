//! The split proxy as a program of this machine: a [daemon](Daemon) that serves clients of
//! a network, and a [command](Run) whose connections go by one. Both run
//! [`Proxy`](narrows_pep::Proxy), the application that simulated hosts run, over the machine's
//! own [sockets](sockets): the command in one thread, the daemon in [several](worker), among
//! which its tunnels are spread.

mod config;
mod controls;
mod daemon;
mod descriptors;
mod error;
mod leg;
mod listening;
mod log;
mod memory;
mod metrics;
mod names;
mod own;
mod peers;
mod preload;
mod relay;
mod run;
#[cfg(test)]
mod said;
mod serve;
mod server;
mod service;
mod sockets;
mod status;
mod stream;
mod transfer;
mod turns;
mod worker;

pub use config::{Config, ListenerConfig, PATIENCE, PORT, STATUS, read_socket};
pub use daemon::Daemon;
pub use error::PepError;
pub use metrics::page as metrics;
pub use run::{Run, RunEnded, RunError, RunRequest, Way};
pub use serve::{Log, ServeError, check, hindrance, serve};
pub use status::{Status, TunnelStatus, status};
