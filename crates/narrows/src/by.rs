//! A transfer by a deadline: the connections of a command or a process yield as far as the
//! deadline allows (DA-LBE, `dalbe` among the congestion controls).
//!
//! ```no_run
//! # #[cfg(target_os = "linux")]
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use narrows::by::{self, ByOptions, TransferOf};
//!
//! let backup = ["rsync", "-a", "/home", "backup:/"].map(Into::into).to_vec();
//! let mut options = ByOptions::new(by::deadline("06:00")?, TransferOf::Command(backup));
//! options.size = Some(by::size_of("/home".as_ref())?);
//! options.control = by::control(["over", "cubic"])?;
//! let ended = by::open(&options)?.run(&mut |reading, notes| {
//!     println!("{} bytes, weight {:.2}", reading.acked, reading.weight);
//!     for note in notes {
//!         println!("{note}");
//!     }
//! })?;
//! println!("{} bytes over {} connections", ended.reading.acked, ended.connections);
//! # Ok(())
//! # }
//! # #[cfg(not(target_os = "linux"))]
//! # fn main() {}
//! ```
//!
//! A program under it can give a connection of its own a size and a deadline: `set_size`,
//! `set_deadline` and `status`, in C those of `include/narrows_by.h`.

pub use narrows_tools::by::*;
