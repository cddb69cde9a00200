//! A Linux kernel in virtual time: user-mode Linux (`ARCH=um`) with time travel,
//! built from a source tree, kept in a store, and run as an ordinary program.
//!
//! ```no_run
//! let store = narrows_kernel::Store::of_user()?;
//! for kernel in store.list()? {
//!     println!("{} {} {}", kernel.made.id, kernel.made.release, kernel.binary().display());
//! }
//! # Ok::<(), narrows_kernel::StoreError>(())
//! ```
//!
//! A [`VirtualMachine`] boots one and runs a plan in it: the kernel's first process is the same
//! program that booted it, which there calls [`serve`] with the engine that is to run.

#![forbid(unsafe_code)]

mod apt;
#[cfg(target_os = "linux")]
mod boot;
mod building;
mod changes;
mod config;
mod controls;
#[cfg(target_os = "linux")]
mod cores;
mod edit;
#[cfg(target_os = "linux")]
mod ended;
#[cfg(target_os = "linux")]
mod engine;
mod error;
#[cfg(target_os = "linux")]
mod events;
#[cfg(target_os = "linux")]
mod frames;
#[cfg(target_os = "linux")]
mod guest;
#[cfg(target_os = "linux")]
mod job;
#[cfg(target_os = "linux")]
mod kernel_engine;
mod make;
mod process;
mod source;
mod store;
pub mod survey;

#[cfg(target_os = "linux")]
pub use boot::{GUEST, KEEPER, become_kernel};
pub use building::{BuildOptions, BuildProgress, BuildWatch, Outcome, Source, build};
pub use changes::changes;
pub use controls::registered_names;
pub use edit::{Change, Edit, Misfit, What};
#[cfg(target_os = "linux")]
pub use engine::{KernelError, VirtualMachine};
pub use error::BuildError;
#[cfg(target_os = "linux")]
pub use guest::{GuestError, Runner, serve};
#[cfg(target_os = "linux")]
pub use kernel_engine::{KernelEngine, run_in_guest};
pub use store::{BuiltKernel, Store, StoreError};
