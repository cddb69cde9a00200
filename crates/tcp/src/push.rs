//! Which segments have PSH (`tcp_sendmsg_locked`, `tcp_push`, `forced_push`; Linux v6.17).
//!
//! A write fills pieces of memory, each as long as the largest burst
//! (`tcp_xmit_size_goal`). PSH is set on the end of a write, and within one on the end of a
//! piece once half of the largest window was written since the last PSH. Where a burst is cut
//! off a piece, PSH stays with what is left (`tso_fragment`).
//!
//! Linux decides as the application writes. Here it is decided as data is sent, with the
//! largest window and the pieces of that time.

use std::collections::VecDeque;

/// Where PSH is due in what was written and not sent.
#[derive(Clone, Debug, Default)]
pub(crate) struct PushMarks {
    /// End of what was pushed last (`pushed_seq`).
    pushed: u64,
    /// Where the piece begins of which the next byte to send is part.
    piece_start: u64,
    /// Ends of writes that are not sent.
    writes: VecDeque<u64>,
}

impl PushMarks {
    /// Nothing is written, and `next` is the first number that will be.
    pub(crate) fn starting_at(next: u64) -> Self {
        Self {
            pushed: next,
            piece_start: next,
            writes: VecDeque::new(),
        }
    }

    /// What is below `next` was acknowledged with the SYN.
    pub(crate) fn acknowledged_with_syn(&mut self, next: u64) {
        self.pushed = self.pushed.max(next);
        self.piece_start = self.piece_start.max(next);
        while self.writes.front().is_some_and(|end| *end <= next) {
            self.writes.pop_front();
        }
    }

    /// The application writes on from `from`, in pieces of `piece` bytes; what is sent ends at
    /// `sent`.
    pub(crate) fn continued(&mut self, from: u64, sent: u64, piece: u64) {
        if sent >= from {
            self.piece_start = from;
        } else if from < self.piece_start + piece {
            // Of a piece that was sent in part the rest is kept, and takes more.
            self.piece_start = self.piece_start.max(sent);
        }
    }

    /// The same, of a write of its own, the numbers from `from` to `to`.
    pub(crate) fn written(&mut self, from: u64, to: u64, sent: u64, piece: u64) {
        if from == to {
            return;
        }
        self.continued(from, sent, piece);
        // Where the last piece has room, what it ended with is no end any more.
        if (from - self.piece_start) % piece != 0 && self.writes.back() == Some(&from) {
            self.writes.pop_back();
        }
        self.writes.push_back(to);
    }

    /// How much of the piece is left of which the byte `next`, the first to be sent, is part:
    /// no burst is cut off two pieces (`tcp_write_xmit`).
    pub(crate) fn left_of_piece(&self, next: u64, piece: u64) -> u64 {
        piece - next.saturating_sub(self.piece_start) % piece
    }

    /// A segment that ends at `end` has PSH in any case.
    pub(crate) fn pushed(&mut self, end: u64) {
        self.pushed = self.pushed.max(end);
    }

    /// Whether PSH is set on a segment that ends at `end`, where `half_window` bytes, half of
    /// the largest window so far, go without.
    pub(crate) fn sent(&mut self, end: u64, half_window: u64, piece: u64) -> bool {
        let before = self.pushed;
        while self.writes.front().is_some_and(|write| *write <= end) {
            self.pushed = self.writes.pop_front().unwrap_or(end);
        }
        while self.piece_start + piece <= end {
            self.piece_start += piece;
            if self.piece_start > self.pushed + half_window {
                self.pushed = self.piece_start;
            }
        }
        self.pushed != before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ends of the segments of `mss` bytes, up to `end`, that have PSH.
    fn pushed(marks: &mut PushMarks, mss: u64, end: u64, half: u64, piece: u64) -> Vec<u64> {
        (1..=end / mss)
            .map(|n| n * mss)
            .filter(|at| marks.sent(*at, half, piece))
            .collect()
    }

    #[test]
    fn within_a_write_psh_is_at_ends_of_pieces_once_half_the_window_went_without() {
        let mut marks = PushMarks::starting_at(0);
        marks.written(0, 1_000, 0, 40);
        // Half the window ends within the third piece, so it is pushed at the end of it.
        let at = pushed(&mut marks, 10, 1_000, 100, 40);
        assert_eq!(at, [120, 240, 360, 480, 600, 720, 840, 960, 1_000]);
        // As much as half of it exactly is not enough (`after`).
        let mut marks = PushMarks::starting_at(0);
        marks.written(0, 400, 0, 40);
        assert_eq!(pushed(&mut marks, 10, 400, 80, 40), [120, 240, 360, 400]);
    }

    #[test]
    fn a_write_that_a_piece_takes_moves_its_end() {
        let mut marks = PushMarks::starting_at(0);
        marks.written(0, 20, 0, 40);
        marks.written(20, 30, 0, 40);
        marks.written(30, 80, 0, 40);
        // The second piece is full, so that its end stays one.
        marks.written(80, 100, 0, 40);
        assert_eq!(pushed(&mut marks, 10, 100, 1_000, 40), [80, 100]);
    }

    #[test]
    fn what_went_with_the_syn_is_pushed_and_a_piece_begins_behind_it() {
        let mut marks = PushMarks::starting_at(0);
        marks.written(0, 50, 0, 40);
        marks.acknowledged_with_syn(50);
        marks.written(50, 400, 50, 40);
        let at = |marks: &mut PushMarks, end: u64| pushed(marks, 10, end, 100, 40);
        // 40 a piece from 50 on, and the first beyond 150; no end of a write at 50.
        assert_eq!(at(&mut marks, 400), [170, 290, 400]);
        // Written at once, and sent in part with the SYN.
        let mut marks = PushMarks::starting_at(0);
        marks.written(0, 400, 0, 40);
        marks.acknowledged_with_syn(50);
        assert_eq!(at(&mut marks, 400), [170, 290, 400]);
    }

    #[test]
    fn what_is_sent_takes_no_more() {
        let mut marks = PushMarks::starting_at(0);
        marks.written(0, 20, 0, 40);
        assert!(!marks.sent(10, 1_000, 40));
        assert!(marks.sent(20, 1_000, 40));
        marks.written(20, 40, 20, 40);
        assert!(marks.sent(40, 1_000, 40));
        // Sent in part, the rest has room for a whole piece again.
        marks.written(40, 70, 40, 40);
        assert!(!marks.sent(60, 1_000, 40));
        marks.written(70, 120, 60, 40);
        assert!(
            !marks.sent(80, 19, 40),
            "70 is no end any more, 80 no end of a piece"
        );
        assert!(!marks.sent(90, 1_000, 40));
        assert!(marks.sent(100, 39, 40), "60 and a piece");
    }

    #[test]
    fn pieces_of_a_segment_push_where_half_the_window_ends() {
        let mut marks = PushMarks::starting_at(0);
        marks.written(0, 100, 0, 10);
        assert_eq!(pushed(&mut marks, 10, 100, 25, 10), [30, 60, 90, 100]);
    }
}
