//! A flow's counts over time, kept in a ledger once there is enough to count.

use narrows_wire::Ecn;

use super::Flow;
use super::way::Way;
use crate::ledger::{Count, Ledger};
use crate::sample::Side;

/// Packets needed before a flow's counts are kept in batches.
const BATCHED_FROM: u64 = 64;

impl Flow {
    /// Counts a packet in the ledger, which exists once the flow is worth one.
    pub(super) fn count(&mut self, side: Side, ecn: Ecn) {
        if self.ledger.is_none() {
            if self.ways[0].packets + self.ways[1].packets < BATCHED_FROM {
                return;
            }
            let capable = |w: &Way| w.ecn[1..].iter().any(|n| *n > 0);
            let marked = self.marks.as_ref().is_some_and(|m| m.counts());
            if !marked && !self.ways.iter().any(capable) {
                return;
            }
            let mut ledger = Box::<Ledger>::default();
            self.early(&mut ledger, Some((side, ecn)));
            if let Some(marks) = &mut self.marks {
                marks.hand_over();
            }
            self.ledger = Some(ledger);
        }
        if let Some(ledger) = &mut self.ledger {
            ledger.packet();
            if ecn.is_capable() {
                ledger.add(side.index(), Count::Ce, u32::from(ecn == Ecn::Ce), 1);
            }
        }
    }

    /// Puts what was counted before there was a ledger into one, without the
    /// packet that is being counted.
    fn early(&self, ledger: &mut Ledger, without: Option<(Side, Ecn)>) {
        for side in Side::BOTH {
            let mut ecn = self.ways[side.index()].ecn;
            if let Some((_, codepoint)) = without.filter(|(s, _)| *s == side) {
                ecn[codepoint as usize] -= 1;
            }
            let [_, ect1, ect0, ce] = ecn;
            ledger.add(
                side.index(),
                Count::Ce,
                ce,
                ect0.saturating_add(ect1).saturating_add(ce),
            );
        }
        if let Some(marks) = &self.marks {
            marks.early(ledger);
        }
    }

    /// Calls `with` with the counts of the flow so far.
    pub(crate) fn with_ledger(&self, with: impl FnOnce(&Ledger)) {
        if let Some(ledger) = &self.ledger {
            with(ledger);
        } else {
            let mut ledger = Ledger::default();
            self.early(&mut ledger, None);
            with(&ledger);
        }
    }
}
