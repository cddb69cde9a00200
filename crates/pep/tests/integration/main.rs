//! The sans-I/O proxy: requests, policy, memory, streams.

mod convert;
mod fake;
mod fuzz;
mod headers;
mod memory;
mod policy;
mod proxy;
mod rates;
mod requests;
mod socks;
mod targets;
mod tunnels;
mod via;
