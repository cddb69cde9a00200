//! Received data: what is in order, what is beyond a gap, and which SACK
//! blocks report it to the peer (RFC 2018, RFC 2883).

use std::collections::VecDeque;

use narrows_core::CountedBytes;
use narrows_wire::SackList;

/// Blocks remembered for SACK options: as many as a header without other
/// options can carry.
const BLOCKS: usize = 4;

/// What became of a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It moved the left edge.
    InOrder,
    /// It lies beyond a gap.
    OutOfOrder,
    /// Nothing of it was new.
    Duplicate,
}

/// The receive queue.
#[derive(Clone, Debug)]
pub(crate) struct Reassembly {
    /// In-order bytes that were not read, and stored bytes beyond gaps.
    pub(crate) data: CountedBytes,
    /// The next sequence number expected in order.
    pub(crate) next: u64,
    /// Ranges beyond a gap, disjoint, ascending.
    ranges: VecDeque<(u64, u64)>,
    /// Bytes in `ranges`.
    beyond: u64,
    /// The same as SACK blocks, the one touched last first.
    blocks: Vec<(u64, u64)>,
    /// A duplicate to report (D-SACK) with the next acknowledgement.
    duplicate: Option<(u64, u64)>,
    /// A SACK block was dropped to make room for another.
    block_dropped: bool,
    /// Number of the peer's FIN, once it was seen.
    pub(crate) fin: Option<u64>,
}

impl Reassembly {
    /// Expects `next` first.
    pub(crate) fn starting_at(next: u64) -> Self {
        Self {
            data: CountedBytes::starting_at(next),
            next,
            ranges: VecDeque::new(),
            beyond: 0,
            blocks: Vec::with_capacity(BLOCKS + 1),
            duplicate: None,
            block_dropped: false,
            fin: None,
        }
    }

    /// Bytes held, read or not, in order or not.
    pub(crate) fn held(&self) -> u64 {
        self.data.len() + self.beyond
    }

    /// In-order bytes that were not read.
    pub(crate) fn readable(&self) -> u64 {
        self.data.len()
    }

    /// Whether there is a gap.
    pub(crate) fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Whether the peer's FIN is in order.
    pub(crate) fn finished(&self) -> bool {
        self.fin.is_some_and(|fin| self.next > fin)
    }

    /// Takes [seq, end) whose first bytes are `stored` and the rest zeros.
    pub(crate) fn take(&mut self, seq: u64, end: u64, stored: &[u8]) -> Arrival {
        if end <= self.next {
            self.report_duplicate(seq, end);
            return Arrival::Duplicate;
        }
        if seq <= self.next {
            if seq < self.next {
                self.report_duplicate(seq, self.next);
            }
            self.store_unheld(seq, self.next, end, stored);
            self.next = end;
            self.join();
            return Arrival::InOrder;
        }
        self.take_beyond(seq, end, stored)
    }

    /// The peer's FIN is at `at`.
    pub(crate) fn take_fin(&mut self, at: u64) {
        self.fin = Some(at);
        self.accept_fin();
    }

    /// Counts the FIN when everything before it is here. Nothing can be missing
    /// then, and nothing is reported as received twice (`tcp_fin`).
    fn accept_fin(&mut self) {
        if self.fin == Some(self.next) {
            self.next += 1;
            self.ranges.clear();
            self.beyond = 0;
            self.blocks.clear();
            self.duplicate = None;
        }
    }

    /// Merges ranges that the left edge has reached.
    fn join(&mut self) {
        while let Some(&(l, r)) = self.ranges.front().filter(|r| r.0 <= self.next) {
            if l < self.next {
                self.extend_duplicate(l, r.min(self.next));
            }
            self.next = self.next.max(r);
            self.beyond -= r - l;
            self.ranges.pop_front();
        }
        let next = self.next;
        self.blocks.retain(|b| b.1 > next);
        self.data.extend_to(next);
        self.accept_fin();
    }

    fn take_beyond(&mut self, seq: u64, end: u64, stored: &[u8]) -> Arrival {
        let first = self.ranges.partition_point(|r| r.1 < seq);
        let mut last = first;
        let mut merged = (seq, end);
        let mut covered = 0;
        let mut at = seq;
        while let Some(&(l, r)) = self.ranges.get(last).filter(|r| r.0 <= end) {
            let overlap = (l.max(seq), r.min(end));
            if overlap.0 < overlap.1 {
                if covered == 0 {
                    self.report_duplicate(overlap.0, overlap.1);
                } else {
                    self.extend_duplicate(overlap.0, overlap.1);
                }
                covered += overlap.1 - overlap.0;
            }
            if at < l {
                self.store(seq, at, l, stored);
            }
            at = at.max(r);
            merged = (merged.0.min(l), merged.1.max(r));
            last += 1;
        }
        if at < end {
            self.store(seq, at, end, stored);
        }
        self.beyond += (end - seq) - covered;
        if last == first {
            self.ranges.insert(first, merged);
        } else {
            self.ranges[first] = merged;
            self.ranges.drain(first + 1..last);
        }
        if covered == end - seq {
            return Arrival::Duplicate;
        }
        // The block that holds the newest segment comes first (RFC 2018 §4).
        self.blocks.retain(|b| b.1 < merged.0 || b.0 > merged.1);
        self.blocks.insert(0, merged);
        self.block_dropped |= self.blocks.len() > BLOCKS;
        self.blocks.truncate(BLOCKS);
        Arrival::OutOfOrder
    }

    /// Keeps of [from, to) what no range beyond a gap holds already.
    fn store_unheld(&mut self, seq: u64, mut from: u64, to: u64, stored: &[u8]) {
        let mut i = 0;
        while let Some(&(l, r)) = self.ranges.get(i).filter(|r| r.0 < to) {
            if from < l {
                self.store(seq, from, l, stored);
            }
            from = from.max(r);
            i += 1;
        }
        if from < to {
            self.store(seq, from, to, stored);
        }
    }

    /// Keeps what was really written of [from, to) of a segment at `seq`.
    fn store(&mut self, seq: u64, from: u64, to: u64, stored: &[u8]) {
        let left = (from - seq) as usize;
        let right = ((to - seq) as usize).min(stored.len());
        if left < right {
            self.data.store(from, &stored[left..right]);
        }
    }

    /// Notes a duplicate for the next acknowledgement.
    pub(crate) fn report_duplicate(&mut self, left: u64, right: u64) {
        if left < right {
            self.duplicate = Some((left, right));
        }
    }

    fn extend_duplicate(&mut self, left: u64, right: u64) {
        match &mut self.duplicate {
            Some(d) if left <= d.1 && d.0 <= right => *d = (d.0.min(left), d.1.max(right)),
            Some(_) => {}
            None => self.report_duplicate(left, right),
        }
    }

    /// Whether the next acknowledgement has blocks to carry.
    pub(crate) fn has_blocks(&self) -> bool {
        self.duplicate.is_some() || !self.blocks.is_empty()
    }

    /// End of the highest block.
    pub(crate) fn highest_block_end(&self) -> Option<u64> {
        self.blocks.iter().map(|block| block.1).max()
    }

    /// Whether a SACK block was dropped since the last call: an ACK that
    /// waits would no longer report it.
    pub(crate) fn take_block_dropped(&mut self) -> bool {
        std::mem::take(&mut self.block_dropped)
    }

    /// Up to `room` blocks, a duplicate first; the duplicate is reported once.
    pub(crate) fn write_blocks(&mut self, room: usize, list: &mut SackList) {
        if room == 0 {
            return;
        }
        if let Some((l, r)) = self.duplicate.take() {
            list.push(l as u32, r as u32);
        }
        for (l, r) in &self.blocks {
            if list.as_slice().len() >= room {
                break;
            }
            list.push(*l as u32, *r as u32);
        }
    }

    /// Reads up to `max` bytes; with `out`, copies them there.
    pub(crate) fn read(&mut self, max: u64, out: Option<&mut Vec<u8>>) -> u64 {
        let n = self.data.len().min(max);
        let from = self.data.start();
        if let Some(out) = out {
            self.data.copy_all(from, from + n, out);
        }
        self.data.release(from + n);
        n
    }

    /// Reads up to `max` bytes to the end of `out`.
    pub(crate) fn read_counted(&mut self, max: u64, out: &mut CountedBytes) -> u64 {
        self.data.move_to(max, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(r: &mut Reassembly, room: usize) -> Vec<(u32, u32)> {
        let mut list = SackList::default();
        r.write_blocks(room, &mut list);
        list.as_slice().to_vec()
    }

    #[test]
    fn the_block_touched_last_is_named_first() {
        let mut r = Reassembly::starting_at(0);
        assert_eq!(r.take(20, 30, b""), Arrival::OutOfOrder);
        assert_eq!(r.take(40, 50, b""), Arrival::OutOfOrder);
        assert_eq!(r.take(60, 70, b""), Arrival::OutOfOrder);
        assert_eq!(blocks(&mut r, 3), [(60, 70), (40, 50), (20, 30)]);
        r.take(30, 40, b"");
        assert_eq!(blocks(&mut r, 3), [(20, 50), (60, 70)]);
        assert_eq!(r.held(), 40);
        assert_eq!(r.take(0, 20, b""), Arrival::InOrder);
        assert_eq!((r.next, r.readable()), (50, 50));
        assert_eq!(blocks(&mut r, 3), [(60, 70)]);
    }

    #[test]
    fn duplicates_are_reported_once_and_first() {
        let mut r = Reassembly::starting_at(0);
        r.take(0, 10, b"");
        assert_eq!(r.take(0, 10, b""), Arrival::Duplicate);
        assert_eq!(blocks(&mut r, 3), [(0, 10)]);
        assert!(!r.has_blocks());
        r.take(20, 40, b"");
        assert_eq!(r.take(20, 30, b""), Arrival::Duplicate);
        assert_eq!(blocks(&mut r, 3), [(20, 30), (20, 40)]);
    }

    #[test]
    fn written_bytes_survive_overlap_and_reordering() {
        let mut r = Reassembly::starting_at(0);
        r.take(4, 8, b"efgh");
        r.take(2, 6, b"cdXX");
        r.take(0, 3, b"abc");
        let mut out = Vec::new();
        assert_eq!(r.read(100, Some(&mut out)), 8);
        assert_eq!(out, b"abcdefgh");
    }

    #[test]
    fn a_fin_beyond_a_gap_waits() {
        let mut r = Reassembly::starting_at(0);
        r.take(10, 20, b"");
        r.take_fin(20);
        assert!(!r.finished());
        r.take(0, 10, b"");
        assert!(r.finished());
        assert_eq!((r.next, r.readable()), (21, 20));
    }

    proptest::proptest! {
        #[test]
        fn any_order_of_any_pieces_gives_the_stream(
            pieces in proptest::collection::vec((0usize..400, 1usize..60, 0usize..60), 1..60)
        ) {
            let stream: Vec<u8> = (0..500usize).map(|i| if i % 7 < 3 { 0 } else { i as u8 }).collect();
            let mut r = Reassembly::starting_at(1000);
            let mut held = vec![false; 500];
            for (at, len, cut) in pieces {
                let end = (at + len).min(500);
                // What is not stored must be zeros.
                let stored = (at..end).rev().find(|i| stream[*i] != 0).map_or(at, |i| i + 1);
                let stored = stored.max(at + cut.min(end - at));
                let arrival = r.take(1000 + at as u64, 1000 + end as u64, &stream[at..stored]);
                let new = held[at..end].iter().any(|h| !h);
                held[at..end].fill(true);
                let edge = held.iter().position(|h| !h).unwrap_or(500);
                proptest::prop_assert_eq!(arrival == Arrival::Duplicate, !new);
                proptest::prop_assert_eq!(r.next, 1000 + edge as u64);
                proptest::prop_assert_eq!(
                    r.held(),
                    held.iter().filter(|h| **h).count() as u64
                );
                proptest::prop_assert_eq!(
                    r.has_gap(),
                    held[edge..].iter().any(|h| *h)
                );
            }
            let mut out = Vec::new();
            let n = r.read(u64::MAX, Some(&mut out)) as usize;
            proptest::prop_assert_eq!(&out[..], &stream[..n]);
        }
    }
}
