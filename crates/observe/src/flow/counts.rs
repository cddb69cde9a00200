//! A flow's counts over time, kept in a ledger once there is enough to count.

use narrows_wire::Ecn;

use super::way::Way;
use super::{EcnCounts, Flow};
use crate::batches::BatchCounts;
use crate::sample::Side;

/// Packets needed before a flow's counts are kept in batches.
const BATCHED_FROM: u64 = 64;

impl Flow {
    /// Whether the flow's counts are worth a ledger, from the packet on that was
    /// counted last. `marked` says that its signals count packets.
    #[inline]
    pub(super) fn begins_counting(&mut self, marked: bool) -> bool {
        if self.counted || self.ways[0].packets + self.ways[1].packets < BATCHED_FROM {
            return false;
        }
        let capable = |w: &Way| w.ecn[1..].iter().any(|n| *n > 0);
        self.counted = marked || self.ways.iter().any(capable);
        self.counted
    }

    /// Packets before one of `side` with this codepoint, which was counted last.
    #[cold]
    pub(crate) fn counts_before(&self, side: Side, ecn: Ecn) -> EcnCounts {
        let mut early = self.ecn_counts();
        early[side.index()][ecn as usize] -= 1;
        early
    }

    fn ecn_counts(&self) -> EcnCounts {
        [self.ways[0].ecn, self.ways[1].ecn]
    }

    /// Counts anew.
    pub(crate) fn restart_counts(&mut self) {
        self.counted = true;
        self.estimators.restart_ledger();
    }

    /// Calls `with` with the counts of the flow so far.
    pub(crate) fn with_batches(&self, with: impl FnOnce(&BatchCounts)) {
        if let Some(batches) = &self.estimators.batches {
            with(batches);
        } else {
            let mut batches = BatchCounts::default();
            self.estimators.early(&self.ecn_counts(), &mut batches);
            with(&batches);
        }
    }
}
