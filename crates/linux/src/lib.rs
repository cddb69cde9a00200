//! Linux, as what runs on it uses it: network namespaces and user namespaces, devices, addresses, routes and
//! queueing disciplines by netlink, sockets with their options, what a run has changed on the machine and
//! undoes, and what this machine can do.
//!
//! Everything that a run makes belongs to its process by an open file and has no name outside of it, so it
//! goes away with the process, however that ends; what does not is [written down](machine::State) before it
//! is done.
//!
//! ```no_run
//! let machine = narrows_linux::machine::survey();
//! for finding in &machine.findings {
//!     println!("{}: {}", finding.name, finding.outcome.is_ok());
//! }
//! assert!(machine.runs_live());
//! ```

#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod arrival;
mod clock;
pub mod datagrams;
mod device_watch;
pub mod diag;
mod error;
pub mod foreground;
mod interfaces;
pub mod machine;
mod mount_namespace;
mod namespace;
pub mod netlink;
mod other_process;
mod queues;
mod random;
pub mod raw_packets;
mod run_id;
#[allow(unsafe_code)]
pub mod socket_option;
mod stop;
pub mod stream_calls;
pub mod sysctl;
#[allow(unsafe_code)]
pub mod system_calls;
pub mod tcp_info;
pub mod tcp_options;
#[allow(unsafe_code)]
pub mod timed_socket;
mod tun;
mod user_namespace;

pub use arrival::arrival;
pub use clock::{Clock, is_virtual_time};
pub use device_watch::{DeviceWatch, device_name};
pub use error::LinuxError;
pub use interfaces::{
    Device, LOOPBACK, Route, Veth, own_segments, remove_own_device, set_own_segments,
};
pub use mount_namespace::MountNamespace;
pub use namespace::Namespace;
pub use other_process::{OtherProcess, start_time};
pub use queues::{Qdisc, TcId, TcKind, TcPlace};
pub use random::random_bytes;
pub use run_id::{NoRunId, RUN_VARIABLE, RunId};
pub use stop::{Stop, Wait, wake_sharply};
pub use system_calls::close_on_exec;
pub use tun::{DEVICE_QUEUE, Tun, try_tun_file};
pub use user_namespace::{
    become_root_of_own_user_namespace, forbidding_switch, gain_rights_in_own_user_namespace,
    has_rights,
};
