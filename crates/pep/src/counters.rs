//! What a proxy has done.

use std::iter::Sum;

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Connections that clients opened.
    pub accepted: u64,
    /// Of these, by clients that are not admitted.
    pub denied: u64,
    /// Tunnels whose both ends were open.
    pub opened: u64,
    /// Clients that were refused: by their request, by the destination, or for want of
    /// room.
    pub refused: u64,
    /// Clients whose request did not come in time.
    pub request_timeouts: u64,
    /// Connections to destinations that did not open in time.
    pub connect_timeouts: u64,
    /// Tunnels in which nothing happened for too long.
    pub idle_timeouts: u64,
    /// Tunnels of which one end broke, and the other was reset.
    pub broken: u64,
    /// Tunnels of which both ends closed in order.
    pub closed: u64,
    /// Tunnels that went directly because the proxy that they were to go by was missing
    /// or refused.
    pub direct: u64,
    /// Payload bytes read from clients, requests not counted.
    pub bytes_up: u64,
    /// Payload bytes read from destinations.
    pub bytes_down: u64,
}

impl Sum for Counters {
    /// What several proxies have done together.
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            accepted: sum.accepted + one.accepted,
            denied: sum.denied + one.denied,
            opened: sum.opened + one.opened,
            refused: sum.refused + one.refused,
            request_timeouts: sum.request_timeouts + one.request_timeouts,
            connect_timeouts: sum.connect_timeouts + one.connect_timeouts,
            idle_timeouts: sum.idle_timeouts + one.idle_timeouts,
            broken: sum.broken + one.broken,
            closed: sum.closed + one.closed,
            direct: sum.direct + one.direct,
            bytes_up: sum.bytes_up + one.bytes_up,
            bytes_down: sum.bytes_down + one.bytes_down,
        })
    }
}
