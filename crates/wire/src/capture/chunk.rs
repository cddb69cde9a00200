//! Packets of a capture that were read together. A chunk owns their bytes, so
//! that many of them can be looked at together.

use std::sync::Arc;

use super::Interface;
use super::order::Order;
use super::record::{Held, Record};
use crate::link;

/// Some packets in a row, filled by
/// [`CaptureReader::read_chunk`](super::CaptureReader::read_chunk). Used again
/// and again, it allocates nothing.
#[derive(Debug, Default)]
pub struct Chunk {
    pub(super) bytes: Vec<u8>,
    pub(super) held: Vec<Held>,
    pub(super) order: Order,
    pub(super) interfaces: Arc<Vec<Interface>>,
}

impl Chunk {
    /// How many packets it holds.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The packet with number `at`, from 0 in the order of the file.
    ///
    /// # Panics
    /// When there are not as many packets.
    #[inline(always)]
    pub fn record(&self, at: usize) -> Record<'_> {
        self.held[at].record(&self.bytes, self.order, &self.interfaces)
    }

    /// What was kept of the IP packet in it, as [`Record::ip_packet`] has it.
    ///
    /// # Panics
    /// When there are not as many packets.
    #[inline(always)]
    pub fn ip_packet(&self, at: usize) -> Option<&[u8]> {
        let held = &self.held[at];
        let end = held.start + held.kept as usize;
        let link = self.interfaces[held.interface].link;
        link::ip_packet(link, &self.bytes[held.start..end])
    }

    /// How many bytes of the frame were not kept, as [`Record::cut`] has it.
    ///
    /// # Panics
    /// When there are not as many packets.
    #[inline]
    pub fn cut(&self, at: usize) -> u32 {
        let held = &self.held[at];
        held.original_len.saturating_sub(held.kept)
    }

    /// Where it was captured, as [`Record::interface`] has it.
    ///
    /// # Panics
    /// When there are not as many packets.
    #[inline]
    pub fn interface(&self, at: usize) -> usize {
        self.held[at].interface
    }

    /// Its packets in the order of the file.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.len()).map(|at| self.record(at))
    }
}
