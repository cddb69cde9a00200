//! A receiver's window against replayed packets.

/// Which of the newest sequence numbers have been seen. A packet that is below the window or was
/// there before is refused (RFC 4303 §3.4.3). Kept as RFC 6479 proposes: blocks of bits in a
/// ring, of which a newer number clears those that it enters, so that nothing is shifted.
#[derive(Clone, Debug)]
pub(super) struct ReplayWindow {
    size: u64,
    /// A power of two of them, one more than the window spans.
    blocks: Vec<u64>,
    /// The highest number; `None` before the first packet.
    highest: Option<u64>,
}

const BLOCK: u64 = u64::BITS as u64;

impl ReplayWindow {
    /// One of `size` packets, of which nothing was seen.
    pub(super) fn new(size: u32) -> Self {
        let size = u64::from(size);
        // What it spans may begin in the middle of a block.
        let blocks = (size.div_ceil(BLOCK) + 1).next_power_of_two();
        Self {
            size,
            blocks: vec![0; blocks as usize],
            highest: None,
        }
    }

    /// The highest number that was seen.
    pub(super) fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Whether the packet with the number `seq` is let in; if so it has been seen.
    pub(super) fn accepts(&mut self, seq: u64) -> bool {
        let blocks = self.blocks.len();
        let place = |block: u64| (block % blocks as u64) as usize;
        match self.highest {
            Some(highest) if seq <= highest => {
                if highest - seq >= self.size {
                    return false;
                }
            }
            before => {
                let entered = before.map_or(0, |highest| highest / BLOCK + 1)..=seq / BLOCK;
                // The ring is entered once at most.
                for block in entered.rev().take(blocks) {
                    self.blocks[place(block)] = 0;
                }
                self.highest = Some(seq);
            }
        }
        let bit = 1 << (seq % BLOCK);
        let block = &mut self.blocks[place(seq / BLOCK)];
        let new = *block & bit == 0;
        *block |= bit;
        new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_as_far_below_the_highest_as_the_window_is_wide_is_refused() {
        // RFC 4303 §3.4.3: the window's right edge is the highest number.
        for size in [1, 32, 63, 64, 65, 128, 1000] {
            let mut window = ReplayWindow::new(size);
            assert!(window.accepts(5000));
            assert!(!window.accepts(5000), "twice");
            assert!(!window.accepts(5000 - u64::from(size)), "{size}");
            assert_eq!(window.accepts(5001 - u64::from(size)), size > 1, "{size}");
        }
    }

    proptest! {
        #[test]
        fn it_says_of_each_packet_what_a_set_of_all_numbers_says(
            size in 1u32..300,
            steps in prop::collection::vec((any::<bool>(), 0u64..400, 0u64..5000), 1..400),
        ) {
            let mut window = ReplayWindow::new(size);
            let (mut seen, mut highest) = (BTreeSet::new(), 0u64);
            for (back, by, far) in steps {
                // Mostly near the highest, now and then far ahead.
                let seq = match (back, by) {
                    (true, _) => highest.saturating_sub(by),
                    (false, 399) => highest + far,
                    (false, _) => highest + by % 4,
                };
                let below = seen.last().is_some_and(|h| seq + u64::from(size) <= *h);
                let allowed = !below && !seen.contains(&seq);
                prop_assert_eq!(window.accepts(seq), allowed, "{} after {}", seq, highest);
                if allowed {
                    seen.insert(seq);
                    highest = highest.max(seq);
                }
            }
        }
    }
}
