//! A Linux kernel in virtual time: user-mode Linux (`ARCH=um`) with time travel,
//! built from a source tree, kept in a store, and run as an ordinary program.
//!
//! ```no_run
//! let store = narrows_kernel::Store::of_user()?;
//! for kernel in store.list()? {
//!     println!("{} {} {}", kernel.id, kernel.release, kernel.binary().display());
//! }
//! # Ok::<(), narrows_kernel::StoreError>(())
//! ```

#![forbid(unsafe_code)]

mod apt;
mod building;
mod changes;
mod config;
mod controls;
mod edit;
mod error;
mod make;
mod process;
mod source;
mod store;
pub mod survey;

pub use building::{BuildOptions, Outcome, Progress, Source, Watch, build};
pub use changes::CHANGES;
pub use controls::registered_names;
pub use edit::{Change, Edit, Misfit, What};
pub use error::BuildError;
pub use store::{BuiltKernel, Store, StoreError};
