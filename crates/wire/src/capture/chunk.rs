//! Packets of a capture that were read together. A chunk owns their bytes, so
//! that it can be read further while another thread looks at them.

use std::sync::Arc;

use super::Interface;
use super::order::Order;
use super::record::{Held, Record};

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
    /// When there are not as many.
    #[inline]
    pub fn record(&self, at: usize) -> Record<'_> {
        self.held[at].record(&self.bytes, self.order, &self.interfaces)
    }

    /// Its packets in the order of the file.
    pub fn records(&self) -> impl Iterator<Item = Record<'_>> {
        (0..self.len()).map(|at| self.record(at))
    }
}
