//! The page of the laboratory and its HTTP interface: documents are read, checked, changed and
//! run, and what runs come to is seen while they go on.
//!
//! [`Server::bind`] listens, [`Server::serve`] answers until its end is asked for. What the page
//! does is possible for any program that has the token; [`describe`] is the description of all
//! requests.
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use narrows_web::{Options, Server};
//!
//! let server = Server::bind(Options::of_folder("."))?;
//! assert!(server.url().starts_with("http://127.0.0.1:"));
//! let end = AtomicBool::new(true);
//! server.serve(&end)?;
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

mod api;
mod body;
mod check;
mod documents;
mod engines;
mod error;
mod guard;
mod jobs;
mod packets;
mod page;
mod results;
mod server;
mod state;
mod store;
mod stream;
mod text;
mod topologies;

pub use api::describe;
pub use server::{Options, Server};
