//! Capture files: pcapng written, pcap and pcapng read.
//!
//! Written here rather than with an existing crate for three reasons: stamps
//! must be read in the resolution that each interface states (`if_tsresol`),
//! a packet's counted zero tail must reach the file without being built in
//! memory first, and hostile input must cost no more memory than it has bytes.

mod compressed;
mod order;
mod pcapng;
mod reader;
mod record;
mod window;
mod writer;

pub use compressed::decompressed;
pub use reader::{CaptureError, CaptureReader};
pub use record::Record;
pub use writer::{PcapngWriter, ToWrite};

use crate::link::LinkType;

/// A place at which packets were captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name; empty if the file gives none.
    pub name: String,
    /// How its frames start.
    pub link: LinkType,
    /// Most bytes kept of each packet; 0 for no limit.
    pub snaplen: u32,
}

/// Which way a packet passed its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Towards the host that the interface belongs to.
    Inbound,
    /// Away from it.
    Outbound,
}

#[cfg(test)]
mod tests;
