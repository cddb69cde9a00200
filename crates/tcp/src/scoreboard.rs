//! What was sent and not yet cumulatively acknowledged.
//!
//! One entry per segment in a ring that is ordered by sequence number, so an
//! acknowledgement pops at the front and a SACK edge is found by bisection. A
//! second order, by time of last transmission, is a list threaded through the
//! ring: RACK reads only its front. Which ranges the peer holds is also
//! kept as runs, so that a SACK block that repeats what is known costs a
//! bisection and not a walk. The counters are Linux's `packets_out`,
//! `sacked_out`, `lost_out` and `retrans_out`.

use std::collections::VecDeque;

/// No entry.
const NIL: u64 = u64::MAX;

/// Flags of a segment.
pub(crate) mod flag {
    /// The peer holds it (`TCPCB_SACKED_ACKED`).
    pub(crate) const SACKED: u8 = 1;
    /// Its last transmission is taken for lost (`TCPCB_LOST`).
    pub(crate) const LOST: u8 = 2;
    /// A retransmission of it is in flight (`TCPCB_SACKED_RETRANS`).
    pub(crate) const RETRANS: u8 = 4;
    /// It was retransmitted at least once (`TCPCB_EVER_RETRANS`).
    pub(crate) const EVER: u8 = 8;
    /// It carries a FIN.
    pub(crate) const FIN: u8 = 16;
    /// The sender was limited by its application when this left.
    pub(crate) const APP_LIMITED: u8 = 32;
    /// It is in the list by time.
    pub(crate) const LINKED: u8 = 64;
    /// Its delivery has been counted in a rate sample.
    pub(crate) const RATED: u8 = 128;
}

/// One segment as it was last sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Segment {
    /// First sequence number.
    pub(crate) seq: u64,
    /// Sequence numbers that it takes, FIN included.
    pub(crate) len: u32,
    /// Bits of [`flag`].
    pub(crate) flags: u8,
    /// Whether PSH was set.
    pub(crate) push: bool,
    /// When it was last sent, µs: Linux keeps nanoseconds and reckons with
    /// these (`tcp_skb_timestamp_us`).
    pub(crate) sent_us: u64,
    /// Which of all transmissions of the connection that was, from 1.
    pub(crate) transmission: u64,
    /// `delivered` of the connection at that time.
    pub(crate) tx_delivered: u32,
    /// `delivered_ce` at that time.
    pub(crate) tx_delivered_ce: u32,
    /// Time of the delivery counted in `tx_delivered`, µs.
    pub(crate) tx_delivered_us: u64,
    /// Start of the send phase of its rate sample, µs.
    pub(crate) tx_first_us: u64,
    pub(crate) earlier: u64,
    pub(crate) later: u64,
}

impl Segment {
    /// The sequence number after it.
    pub(crate) fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }

    /// Bytes of data in it.
    pub(crate) fn data(&self) -> u32 {
        self.len - u32::from(self.is(flag::FIN))
    }

    /// Whether any of `flags` is set.
    pub(crate) fn is(&self, flags: u8) -> bool {
        self.flags & flags != 0
    }
}

/// The segments in flight.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    ring: VecDeque<Segment>,
    /// Index of the ring's front; indices grow for ever and name a segment
    /// for its whole life.
    base: u64,
    oldest: u64,
    newest: u64,
    /// Ranges held by the peer, disjoint, ascending.
    runs: VecDeque<(u64, u64)>,
    /// Every segment before this index is either not lost or on its way again.
    retransmit_from: u64,
    /// End of the highest SACKed segment.
    highest_sacked: u64,
    /// Segments out.
    pub(crate) packets_out: u32,
    /// Segments the peer holds beyond the cumulative acknowledgement.
    pub(crate) sacked_out: u32,
    /// Segments taken for lost.
    pub(crate) lost_out: u32,
    /// Retransmissions in flight.
    pub(crate) retrans_out: u32,
    /// Segments ever taken for lost.
    pub(crate) lost: u64,
}

impl Default for Scoreboard {
    fn default() -> Self {
        Self {
            ring: VecDeque::new(),
            base: 0,
            oldest: NIL,
            newest: NIL,
            runs: VecDeque::new(),
            retransmit_from: 0,
            highest_sacked: 0,
            packets_out: 0,
            sacked_out: 0,
            lost_out: 0,
            retrans_out: 0,
            lost: 0,
        }
    }
}

impl Scoreboard {
    /// `tcp_packets_in_flight`: sent, neither held by the peer nor lost.
    pub(crate) fn in_flight(&self) -> u32 {
        (self.packets_out + self.retrans_out).saturating_sub(self.sacked_out + self.lost_out)
    }

    /// Index of the first segment.
    pub(crate) fn first(&self) -> u64 {
        self.base
    }

    /// Index after the last segment.
    pub(crate) fn end(&self) -> u64 {
        self.base + self.ring.len() as u64
    }

    /// The first segment.
    pub(crate) fn head(&self) -> Option<&Segment> {
        self.ring.front()
    }

    /// The segment with index `i`.
    pub(crate) fn get(&self, i: u64) -> Option<&Segment> {
        self.ring
            .get(usize::try_from(i.checked_sub(self.base)?).ok()?)
    }

    /// The same, to be changed.
    pub(crate) fn get_mut(&mut self, i: u64) -> Option<&mut Segment> {
        self.ring
            .get_mut(usize::try_from(i.checked_sub(self.base)?).ok()?)
    }

    /// Adds a segment just sent for the first time.
    pub(crate) fn push(&mut self, segment: Segment) {
        let i = self.end();
        self.ring.push_back(segment);
        self.packets_out += 1;
        self.link(i);
    }

    /// Takes the first segment off; the caller has done the counting that
    /// depends on its flags.
    pub(crate) fn pop(&mut self) -> Option<Segment> {
        self.unlink(self.base);
        let segment = self.ring.pop_front()?;
        self.base += 1;
        self.packets_out -= 1;
        self.retransmit_from = self.retransmit_from.max(self.base);
        while let Some(run) = self.runs.front_mut() {
            if run.1 > segment.end() {
                run.0 = run.0.max(segment.end());
                break;
            }
            self.runs.pop_front();
        }
        Some(segment)
    }

    /// Puts segment `i` at the young end of the list by time.
    pub(crate) fn link(&mut self, i: u64) {
        self.unlink(i);
        let newest = self.newest;
        let Some(segment) = self.get_mut(i) else {
            return;
        };
        segment.flags |= flag::LINKED;
        segment.earlier = newest;
        segment.later = NIL;
        match self.get_mut(newest) {
            Some(before) => before.later = i,
            None => self.oldest = i,
        }
        self.newest = i;
    }

    /// Takes segment `i` out of the list by time.
    pub(crate) fn unlink(&mut self, i: u64) {
        let Some(segment) = self.get_mut(i) else {
            return;
        };
        if !segment.is(flag::LINKED) {
            return;
        }
        segment.flags &= !flag::LINKED;
        let (earlier, later) = (segment.earlier, segment.later);
        match self.get_mut(earlier) {
            Some(before) => before.later = later,
            None => self.oldest = later,
        }
        match self.get_mut(later) {
            Some(after) => after.earlier = earlier,
            None => self.newest = earlier,
        }
    }

    /// The segment sent longest ago of those that are neither held by the
    /// peer nor waiting for retransmission.
    pub(crate) fn oldest(&self) -> Option<u64> {
        (self.oldest != NIL).then_some(self.oldest)
    }

    /// The one sent next after segment `i`.
    pub(crate) fn sent_after(&self, i: u64) -> Option<u64> {
        self.get(i).map(|s| s.later).filter(|later| *later != NIL)
    }

    /// The first segment that ends after `seq`.
    pub(crate) fn find(&self, seq: u64) -> u64 {
        self.base + self.ring.partition_point(|s| s.end() <= seq) as u64
    }

    /// The highest sequence number that the peer is known to hold, `una` if it
    /// holds nothing beyond it (`tcp_highest_sack_seq`).
    pub(crate) fn highest_sack(&self, una: u64) -> u64 {
        if self.sacked_out == 0 {
            una
        } else {
            self.highest_sacked.max(una)
        }
    }

    /// Notes that the peer holds [left, right) and calls `newly` with the
    /// index of each segment inside of which that was not known.
    pub(crate) fn sack(&mut self, left: u64, right: u64, mut newly: impl FnMut(&mut Self, u64)) {
        // Only whole segments count, so that a run never hides part of one.
        let left = match self.get(self.find(left)) {
            Some(s) if s.seq < left => s.end(),
            _ => left,
        };
        let right = match self.get(self.find(right)) {
            Some(s) if s.seq < right => s.seq,
            _ => right,
        };
        if left >= right {
            return;
        }
        let first = self.runs.partition_point(|r| r.1 < left);
        let mut merged = (left, right);
        let mut at = left;
        let mut last = first;
        while let Some(&(l, r)) = self.runs.get(last).filter(|r| r.0 <= right) {
            if at < l {
                self.walk(left, right, at, l, &mut newly);
            }
            at = at.max(r);
            merged = (merged.0.min(l), merged.1.max(r));
            last += 1;
        }
        if at < right {
            self.walk(left, right, at, right, &mut newly);
        }
        if last == first {
            self.runs.insert(first, merged);
        } else {
            self.runs[first] = merged;
            self.runs.drain(first + 1..last);
        }
    }

    /// Visits the unknown segments of [left, right) that touch [from, to).
    fn walk(
        &mut self,
        left: u64,
        right: u64,
        from: u64,
        to: u64,
        newly: &mut impl FnMut(&mut Self, u64),
    ) {
        let mut i = self.find(from);
        while let Some(s) = self.get(i).copied().filter(|s| s.seq < to) {
            if s.seq >= left && s.end() <= right && !s.is(flag::SACKED) {
                self.highest_sacked = self.highest_sacked.max(s.end());
                newly(self, i);
            }
            i += 1;
        }
    }

    /// Takes segment `i` for lost, or its retransmission if that was in
    /// flight (`tcp_mark_skb_lost`).
    pub(crate) fn mark_lost(&mut self, i: u64) {
        let Some(s) = self.get_mut(i).filter(|s| !s.is(flag::SACKED)) else {
            return;
        };
        if !s.is(flag::LOST) {
            s.flags |= flag::LOST;
            self.lost_out += 1;
            self.lost += 1;
        } else if s.is(flag::RETRANS) {
            s.flags &= !flag::RETRANS;
            self.retrans_out -= 1;
            self.lost += 1;
        }
        self.retransmit_from = self.retransmit_from.min(i);
    }

    /// The next lost segment that is not on its way again.
    pub(crate) fn next_lost(&mut self) -> Option<u64> {
        if self.lost_out <= self.retrans_out {
            return None;
        }
        let mut i = self.retransmit_from.max(self.base);
        while let Some(s) = self.get(i) {
            if s.is(flag::LOST) && !s.is(flag::SACKED | flag::RETRANS) {
                self.retransmit_from = i;
                return Some(i);
            }
            i += 1;
        }
        self.retransmit_from = i;
        None
    }

    /// Takes back every verdict of loss (`tcp_undo_cwnd_reduction`).
    pub(crate) fn unmark_lost(&mut self) {
        for s in &mut self.ring {
            s.flags &= !flag::LOST;
        }
        self.lost_out = 0;
        self.retransmit_from = self.end();
    }

    /// Forgets every SACK: the peer has thrown data away.
    pub(crate) fn forget_sacks(&mut self) {
        for i in self.base..self.end() {
            if let Some(s) = self.get_mut(i).filter(|s| s.is(flag::SACKED)) {
                s.flags &= !flag::SACKED;
                self.link(i);
            }
        }
        self.sacked_out = 0;
        self.runs.clear();
    }

    /// Cuts segments with more than `mss` bytes of data, which the peer does not hold,
    /// into such of `mss`, and takes these for lost; whether there were any. Indices
    /// change.
    pub(crate) fn cut(&mut self, mss: u32) -> bool {
        let pieces = self.split(mss);
        for i in &pieces {
            self.mark_lost(*i);
        }
        !pieces.is_empty()
    }

    /// Cuts them likewise; the pieces are what the whole was. Where they stand.
    pub(crate) fn split(&mut self, mss: u32) -> Vec<u64> {
        let large = |s: &Segment| s.data() > mss && !s.is(flag::SACKED);
        if !self.ring.iter().any(large) {
            return Vec::new();
        }
        let by_time: Vec<u64> =
            std::iter::successors(self.oldest(), |i| self.sent_after(*i)).collect();
        let old = std::mem::take(&mut self.ring);
        (self.oldest, self.newest) = (NIL, NIL);
        // Where the pieces of each segment stand, from the ring's front.
        let mut pieces = Vec::with_capacity(old.len());
        let mut cut = Vec::new();
        for mut segment in old {
            segment.flags &= !flag::LINKED;
            let first = self.ring.len();
            while large(&segment) {
                cut.push(self.end());
                self.ring.push_back(Segment {
                    len: mss,
                    flags: segment.flags & !flag::FIN,
                    push: false,
                    ..segment
                });
                segment.seq += u64::from(mss);
                segment.len -= mss;
            }
            if self.ring.len() > first {
                cut.push(self.end());
            }
            self.ring.push_back(segment);
            pieces.push(first..self.ring.len());
        }
        for i in by_time {
            for piece in pieces[(i - self.base) as usize].clone() {
                self.link(self.base + piece as u64);
            }
        }
        let count = |flags| self.ring.iter().filter(|s| s.is(flags)).count() as u32;
        self.packets_out = self.ring.len() as u32;
        self.lost_out = count(flag::LOST);
        self.retrans_out = count(flag::RETRANS);
        self.retransmit_from = self.base;
        cut
    }

    /// Whether anything unacknowledged may be a retransmission
    /// (`tcp_any_retrans_done`).
    pub(crate) fn any_retransmitted(&self) -> bool {
        self.retrans_out > 0 || self.head().is_some_and(|s| s.is(flag::EVER))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(n: u64) -> Scoreboard {
        let mut b = Scoreboard::default();
        for i in 0..n {
            b.push(Segment {
                seq: i * 10,
                len: 10,
                ..Segment::default()
            });
        }
        b
    }

    fn sacked(b: &mut Scoreboard, left: u64, right: u64) -> Vec<u64> {
        let mut seen = Vec::new();
        b.sack(left, right, |b, i| {
            seen.push(i);
            b.unlink(i);
            b.sacked_out += 1;
            if let Some(s) = b.get_mut(i) {
                s.flags |= flag::SACKED;
            }
        });
        seen
    }

    #[test]
    fn a_block_names_each_segment_once() {
        let mut b = board(10);
        assert_eq!(sacked(&mut b, 20, 40), [2, 3]);
        assert_eq!(sacked(&mut b, 20, 40), []);
        assert_eq!(sacked(&mut b, 60, 80), [6, 7]);
        assert_eq!(sacked(&mut b, 10, 90), [1, 4, 5, 8]);
        assert_eq!(b.highest_sack(0), 90);
        assert_eq!(b.sacked_out, 8);
    }

    #[test]
    fn a_segment_held_in_part_is_not_held() {
        let mut b = board(4);
        assert_eq!(sacked(&mut b, 10, 25), [1]);
        assert_eq!(sacked(&mut b, 10, 30), [2]);
    }

    #[test]
    fn the_list_by_time_follows_retransmissions() {
        let mut b = board(3);
        b.link(0);
        let order: Vec<u64> = std::iter::successors(b.oldest(), |i| b.sent_after(*i)).collect();
        assert_eq!(order, [1, 2, 0]);
        b.pop();
        b.unlink(1);
        assert_eq!(b.oldest(), Some(2));
        b.unlink(2);
        assert_eq!(b.oldest(), None);
    }

    #[test]
    fn lost_segments_come_back_lowest_first() {
        let mut b = board(5);
        b.mark_lost(3);
        assert_eq!(b.next_lost(), Some(3));
        b.mark_lost(1);
        assert_eq!(b.next_lost(), Some(1));
        if let Some(s) = b.get_mut(1) {
            s.flags |= flag::RETRANS;
        }
        b.retrans_out += 1;
        assert_eq!(b.next_lost(), Some(3));
        b.mark_lost(1);
        assert_eq!(b.next_lost(), Some(1));
        assert_eq!((b.lost_out, b.retrans_out, b.lost), (2, 0, 3));
        assert_eq!(b.in_flight(), 3);
    }

    #[test]
    fn a_segment_that_is_too_large_is_cut_and_lost_and_the_others_stay() {
        let mut b = board(3);
        assert!(!b.cut(10));
        b.push(Segment {
            seq: 30,
            len: 26,
            flags: flag::FIN,
            push: true,
            ..Segment::default()
        });
        sacked(&mut b, 10, 20);
        b.link(0);
        assert!(b.cut(10));
        let lens: Vec<u32> = (0..b.end()).map(|i| b.get(i).unwrap().len).collect();
        assert_eq!(lens, [10, 10, 10, 10, 10, 6]);
        assert_eq!((b.packets_out, b.sacked_out, b.lost_out), (6, 1, 3));
        assert_eq!(b.in_flight(), 2);
        let last = b.get(5).unwrap();
        assert!(last.push && last.is(flag::FIN) && !b.get(4).unwrap().is(flag::FIN));
        let order: Vec<u64> = std::iter::successors(b.oldest(), |i| b.sent_after(*i)).collect();
        assert_eq!(order, [2, 3, 4, 5, 0]);
        assert_eq!(b.next_lost(), Some(3));
        assert!(b.cut(4), "what was not too large is now");
        assert_eq!((b.packets_out, b.lost_out), (15, 14));
    }

    /// A board that remembers everything and searches everything.
    fn naive(n: u64, blocks: &[(u64, u64)]) -> Vec<Vec<u64>> {
        let mut held = vec![false; n as usize];
        let mut sacked = Vec::new();
        for &(l, r) in blocks {
            let mut now = Vec::new();
            for i in 0..n {
                if !held[i as usize] && i * 10 >= l && i * 10 + 10 <= r {
                    held[i as usize] = true;
                    now.push(i);
                }
            }
            sacked.push(now);
        }
        sacked
    }

    proptest::proptest! {
        #[test]
        fn blocks_name_what_a_naive_board_names(
            blocks in proptest::collection::vec((0u64..300, 1u64..90), 1..40)
        ) {
            let blocks: Vec<(u64, u64)> =
                blocks.iter().map(|(l, n)| (*l, (l + n).min(300))).collect();
            let mut b = board(30);
            for (block, expected) in blocks.iter().zip(naive(30, &blocks)) {
                let mut seen = sacked(&mut b, block.0, block.1);
                seen.sort_unstable();
                proptest::prop_assert_eq!(seen, expected);
            }
            // The list by time holds what is not SACKed, in order.
            let order: Vec<u64> =
                std::iter::successors(b.oldest(), |i| b.sent_after(*i)).collect();
            let rest: Vec<u64> =
                (0..30).filter(|i| b.get(*i).is_some_and(|s| !s.is(flag::SACKED))).collect();
            proptest::prop_assert_eq!(order, rest);
        }
    }
}
