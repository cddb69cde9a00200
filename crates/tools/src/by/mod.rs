//! A transfer by a deadline: the connections of a command or a process yield as far as the
//! deadline allows (DA-LBE, `dalbe` among the congestion controls).

#[cfg(target_os = "linux")]
mod attached;
mod deadline;
#[cfg(target_os = "linux")]
mod error;
mod options;
#[cfg(target_os = "linux")]
mod own;
#[cfg(target_os = "linux")]
mod pace;
mod size;
#[cfg(target_os = "linux")]
mod transfer;

pub use deadline::deadline;
pub use options::{ByOptions, MOST_BYTES, TransferOf, control};
pub use size::size_of;
#[cfg(target_os = "linux")]
pub use {
    error::ByError,
    options::{OpenError, hindrance, open},
    own::{SocketStatus, set_deadline, set_size, status},
    pace::{Note, Reading},
    transfer::{BackgroundTransfer, Ended, Tick},
};
