//! A machine's own stack below the sockets of a host.

use std::net::SocketAddr;

use narrows_core::{Endpoint, Profile, SocketError};

/// Opens a machine's sockets below those of [`Hosts`](crate::Hosts). Simulated hosts have
/// none: their packets go into links.
pub trait System {
    /// An end of a connection of the machine's own TCP, which has not begun: socket `s`.
    ///
    /// # Errors
    /// What the machine refuses.
    fn tcp(
        &mut self,
        s: u32,
        profile: Profile,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Box<dyn Endpoint>, SocketError>;

    /// Socket `s` takes what comes to `local` from now on: packets, or, where a `backlog`
    /// is given, connections.
    ///
    /// # Errors
    /// What the machine refuses.
    fn bind(
        &mut self,
        s: u32,
        profile: Profile,
        local: SocketAddr,
        backlog: Option<u32>,
    ) -> Result<(), SocketError>;

    /// Socket `s` is no more.
    fn release(&mut self, s: u32);
}
