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

mod store;

pub use store::{BuiltKernel, Store, StoreError};
