//! Blocks of a square wave: the Q bit (RFC 9506 §3.2) and, with blocks whose
//! length follows what arrived, the R bit (§3.4).
//!
//! A change of value is accepted when more packets carry the new value than
//! reordering explains (§3.2.2 calls it the Marking Block Threshold). Fewer
//! packets than that are kept with the run that they came in: they are packets
//! of a neighbour that came late, or the few that a burst left of a block. So
//! no packet is lost to the account, and over some blocks the sum is right
//! whichever they were.

use narrows_units::Instant;

use crate::sample::{Measured, Now, Quantity, Sample, Technique, whole_id};

/// The shortest block that RFC 9506 §3.2.1 allows, and its default.
const SHORTEST: u32 = 64;
/// The longest block that is accepted.
const LONGEST: u32 = 1 << 15;
/// Packets with the new value before a change is accepted, until the flow
/// shows how far its packets are reordered: spindump's constant.
const ASSUMED_REORDERING: u32 = 10;
/// Blocks whose median decides on N.
const LEARNT_FROM: usize = 4;
/// Runs in a row that are too long for N before a longer N is accepted.
const TOO_LONG: u8 = 4;

/// How a parameter of a signal is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Assumed,
    Learnt,
    Pinned,
}

/// Packets of the old value in a row that show that those of the new one before
/// them began no block: they belong to the run's account.
const NO_BLOCK: u32 = 3;

/// Packets of one value in a row.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    packets: u32,
    /// Those of them that were not sent after all before them.
    late: u32,
    first: u32,
    last: u32,
}

impl Run {
    fn add(&mut self, id: u32, newer: bool) {
        self.late += u32::from(!newer);
        if self.packets == 0 {
            self.first = id;
        }
        self.packets += 1;
        self.last = id;
    }
}

/// What a packet did to the account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    /// A block, or three of which a burst took the middle one.
    Block(Block),
    /// N turned out to be another: what was counted before does not count.
    Restart,
}

/// A closed run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub sent: u32,
    pub received: u32,
    /// When the first packet of the block after it came, in nanoseconds.
    pub until: u64,
    first: u32,
    last: u32,
}

impl Block {
    pub fn sample(&self, now: Now, technique: Technique, quantity: Quantity) -> Sample {
        Sample {
            at: Instant::from_nanos(now.at),
            technique,
            quantity,
            value: Measured::Block {
                sent: self.sent,
                received: self.received,
            },
            first: whole_id(self.first, now.id),
            last: whole_id(self.last, now.id),
            weight: 1,
        }
    }
}

/// The square wave of one direction. What every packet touches comes first.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Square {
    run: Run,
    /// Packets of the other value that may begin the next block.
    next: Run,
    /// When the first of those came, in nanoseconds.
    next_at: u64,
    /// Packets of the run's value since the last of those.
    since_next: u32,
    /// Packets of the other value that began none.
    stray: u32,
    n: u32,
    reordering: u32,
    value: bool,
    /// Whether the run began with a change that was seen.
    whole: bool,
    known: Known,
    /// Whether N is another wave's.
    borrowed: bool,
    /// Whether the run before was a few packets longer than N by a burst.
    burst_goes_on: bool,
    reordering_known: Known,
    learning: u8,
    too_long: u8,
    lengths: [u32; LEARNT_FROM],
    /// Blocks that were counted, and that were not.
    pub blocks: u32,
    pub rejected: u32,
}

impl Square {
    /// A wave whose N and reordering threshold are pinned, or learnt.
    pub fn new(n: Option<u32>, reordering: Option<u32>) -> Self {
        let known = |pinned: bool| {
            if pinned {
                Known::Pinned
            } else {
                Known::Assumed
            }
        };
        Self {
            run: Run::default(),
            next: Run::default(),
            next_at: 0,
            since_next: 0,
            stray: 0,
            value: false,
            whole: false,
            n: n.unwrap_or(SHORTEST).clamp(4, LONGEST),
            known: known(n.is_some()),
            borrowed: false,
            burst_goes_on: false,
            reordering: reordering.unwrap_or(ASSUMED_REORDERING),
            reordering_known: known(reordering.is_some()),
            lengths: [0; LEARNT_FROM],
            learning: 0,
            too_long: 0,
            blocks: 0,
            rejected: 0,
        }
    }

    /// N and how it is known.
    pub fn n(&self) -> (u32, Known) {
        (self.n, self.known)
    }

    /// Takes N from elsewhere: R blocks are judged by the N of the Q blocks
    /// that they reflect.
    pub fn set_n(&mut self, (n, known): (u32, Known)) {
        if n != self.n {
            self.rejected += self.blocks;
            self.blocks = 0;
        }
        (self.n, self.known, self.borrowed) = (n, known, true);
    }

    /// How many blocks a closed run counts for: one, or those that a burst joined.
    pub fn blocks_of(&self, block: &Block) -> u32 {
        (block.sent / self.n).max(1)
    }

    /// Packets of the new value that make a change: fewer than N/2.
    fn threshold(&self) -> u32 {
        self.reordering.clamp(1, self.n / 2 - 1)
    }

    /// A packet with this bit. `newer` is whether it was sent after all before
    /// it; one that was not shows how far packets are reordered.
    pub fn packet(&mut self, bit: bool, newer: bool, now: Now) -> Option<Closed> {
        let id = now.id as u32;
        if self.run.packets == 0 {
            self.value = bit;
        }
        if bit == self.value {
            self.run.add(id, newer);
            if self.next.packets > 0 {
                // The old value while a change may be under way.
                if !newer {
                    self.late(self.next.packets);
                }
                self.since_next += 1;
                if self.since_next >= NO_BLOCK {
                    self.stray += self.next.packets;
                    self.next = Run::default();
                }
            }
            return None;
        }
        if self.next.packets == 0 {
            self.next_at = now.at;
            if !newer && self.whole && self.run.packets < self.n / 2 {
                // The value of the block before, this far into the new one.
                self.late(self.run.packets);
            }
        }
        self.next.add(id, newer);
        self.since_next = 0;
        (self.next.packets >= self.threshold())
            .then(|| self.close())
            .flatten()
    }

    /// Learns from a packet that came `by` packets late: the threshold is
    /// twice the worst.
    fn late(&mut self, by: u32) {
        let wanted = by.saturating_mul(2).min(self.n / 2 - 1);
        if self.reordering_known != Known::Pinned && wanted > self.reordering {
            self.reordering = wanted;
            self.reordering_known = Known::Learnt;
        }
    }

    fn close(&mut self) -> Option<Closed> {
        let run = self.run;
        let received = run.packets + self.stray;
        self.run = self.next;
        self.next = Run::default();
        self.stray = 0;
        self.value = !self.value;
        if !self.whole {
            // It began before the observer could see where.
            self.whole = true;
            return None;
        }
        let fixed = self.borrowed || self.known == Known::Pinned;
        let restart = !fixed && self.learn(received);
        if restart {
            self.rejected += self.blocks + 1;
            self.blocks = 0;
            return Some(Closed::Restart);
        }
        self.blocks += 1;
        let sent = self.sent(&run);
        Some(Closed::Block(Block {
            sent,
            received,
            until: self.next_at,
            first: run.first,
            last: run.last,
        }))
    }

    /// How many packets were sent for a run: N, or 3 N where a burst took the block
    /// between two of the same value (RFC 9506 §3.2.2). The packets of the run's own value
    /// decide: those of a neighbour that came late have the other one. Copies that the
    /// path made may lengthen it by as many as came late.
    ///
    /// Of a burst of nearly 2 N that leaves a few packets of both blocks that it cut, the
    /// later few lengthen one run and the earlier few the next: one block was lost, not two.
    fn sent(&mut self, run: &Run) -> u32 {
        let threshold = self.threshold();
        let longer = run.packets > self.n + run.late.min(threshold);
        let by_few = run.packets <= self.n + threshold;
        let burst = longer && !(by_few && self.burst_goes_on);
        self.burst_goes_on = burst && by_few;
        if burst { 3 * self.n } else { self.n }
    }

    /// Takes the length of a block into account; true if N changed, and blocks
    /// had been counted with the old one.
    fn learn(&mut self, received: u32) -> bool {
        let before = self.n;
        if let Some(slot) = self.lengths.get_mut(usize::from(self.learning)) {
            *slot = received;
            self.learning += 1;
            let mut seen = self.lengths;
            let seen = &mut seen[..usize::from(self.learning)];
            seen.sort_unstable();
            self.n = power_above(seen[seen.len() / 2]);
            if self.learning as usize == LEARNT_FROM {
                self.known = Known::Learnt;
            }
        } else if received > self.n + self.threshold() {
            // A burst that takes a block makes one such run, not many.
            self.too_long += 1;
            if self.too_long >= TOO_LONG && self.n < LONGEST {
                self.n *= 2;
                self.too_long = 0;
            }
        } else {
            self.too_long = 0;
        }
        self.n != before && self.blocks > 0
    }
}

/// The power of two that blocks of this length come from: up to a tenth longer
/// by packets of neighbours, else shorter by loss.
fn power_above(length: u32) -> u32 {
    let least = length - length / 10;
    least.next_power_of_two().clamp(SHORTEST, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Rng;
    use proptest::prelude::*;

    /// Feeds the packets that `keep` keeps of `total`, in blocks of `n`, and
    /// sums what the closed blocks say; also how many packets the blocks span.
    fn feed(square: &mut Square, n: u32, order: impl IntoIterator<Item = u32>) -> (u32, u32) {
        let (mut sums, mut newest) = ((0, 0), 0);
        for packet in order {
            let newer = packet >= newest;
            newest = newest.max(packet);
            let now = Now {
                at: u64::from(packet),
                id: u64::from(packet),
            };
            match square.packet(packet / n % 2 == 1, newer, now) {
                Some(Closed::Block(b)) => {
                    sums.0 += b.sent;
                    sums.1 += b.received;
                }
                Some(Closed::Restart) => sums = (0, 0),
                None => {}
            }
        }
        sums
    }

    #[test]
    fn blocks_are_counted_from_the_first_change_on() {
        let mut square = Square::new(None, None);
        // The observer joins in the middle of a block.
        assert_eq!(feed(&mut square, 64, 30..64 * 11), (64 * 9, 64 * 9));
        assert_eq!(square.n(), (64, Known::Learnt));
    }

    #[test]
    fn n_is_learnt_whatever_power_of_two_it_is() {
        for n in [64, 128, 256, 1024] {
            let mut square = Square::new(None, None);
            let mut rng = Rng::for_name(u64::from(n), "n");
            let order = (0..n * 12).filter(|_| rng.unit() >= 0.2);
            let (sent, received) = feed(&mut square, n, order);
            assert_eq!(square.n(), (n, Known::Learnt));
            let loss = 1.0 - f64::from(received) / f64::from(sent);
            assert!((loss - 0.2).abs() < 0.1, "{n}: {loss}");
        }
    }

    #[test]
    fn a_pinned_n_is_not_learnt_away() {
        let mut square = Square::new(Some(128), None);
        feed(&mut square, 64, 0..64 * 20);
        assert_eq!(square.n(), (128, Known::Pinned));
    }

    #[test]
    fn reordering_over_an_edge_loses_nothing_and_raises_the_threshold() {
        let mut order: Vec<u32> = (0..64 * 20).collect();
        for block in 2..18 {
            // One packet comes 12 late, across the edge.
            let at = (block * 64 - 3) as usize;
            order[at..at + 13].rotate_left(1);
        }
        let mut square = Square::new(None, None);
        let (sent, received) = feed(&mut square, 64, order);
        assert_eq!(sent, received);
        assert_eq!(square.reordering_known, Known::Learnt);
    }

    proptest! {
        /// Burst identity (RFC 9506 §3.2.2): a burst shorter than 2 N is counted to
        /// the packet, wherever it falls.
        #[test]
        fn a_burst_is_counted_to_the_packet(start in 300u32..900, length in 0u32..128) {
            let n = 64;
            let mut square = Square::new(Some(n), None);
            let order = (0..n * 40).filter(|p| !(start..start + length).contains(p));
            let (sent, received) = feed(&mut square, n, order);
            prop_assert_eq!(sent - received, length);
        }

        /// Copies that the path makes lengthen blocks, and are no burst.
        #[test]
        fn a_few_copies_are_not_taken_for_a_burst(seed in 0u64..100) {
            let n = 64;
            let mut square = Square::new(Some(n), None);
            let mut rng = Rng::for_name(seed, "copies");
            let order = (0..n * 40).flat_map(|p| vec![p; 1 + usize::from(rng.below(50) == 0)]);
            let order: Vec<u32> = order.collect();
            let (mut sums, mut newest) = ((0, 0), None);
            for packet in &order {
                let newer = newest < Some(*packet);
                newest = newest.max(Some(*packet));
                let now = Now { at: u64::from(*packet), id: u64::from(*packet) };
                if let Some(Closed::Block(b)) = square.packet(packet / n % 2 == 1, newer, now) {
                    sums.0 += b.sent;
                    sums.1 += b.received;
                }
            }
            prop_assert_eq!(sums.0, 38 * n);
            prop_assert!(sums.1 >= sums.0);
        }

        /// Packets moved by less than the threshold change no sum by more than
        /// what is at its two ends.
        #[test]
        fn reordering_alone_is_no_loss(seed in 0u64..1_000) {
            let n = 64;
            let mut rng = Rng::for_name(seed, "order");
            let mut order: Vec<(u32, u32)> =
                (0..n * 50).map(|p| (p + if rng.unit() < 0.05 { rng.below(8) } else { 0 }, p)).collect();
            order.sort_by_key(|(at, _)| *at);
            let mut square = Square::new(Some(n), None);
            let (sent, received) = feed(&mut square, n, order.into_iter().map(|(_, p)| p));
            prop_assert!(sent.abs_diff(received) <= 8, "{} {}", sent, received);
            prop_assert!(sent >= 47 * n);
        }
    }
}
