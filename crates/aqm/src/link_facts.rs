//! What queues know of their links.

use narrows_units::Rate;

/// What a queue needs to know of the link that it feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// Rate at which the link drains the queue when the run starts.
    pub rate: Rate,
    /// Bytes that the link counts per packet beside the IP packet.
    pub overhead: u32,
    /// Largest IP packet of the link in bytes.
    pub mtu: u32,
}

impl LinkFacts {
    /// Bytes that the link counts for its largest packet: Linux's
    /// `psched_mtu`, 1514 for Ethernet.
    pub const fn frame(&self) -> u32 {
        self.mtu + self.overhead
    }
}
