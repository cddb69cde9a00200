//! SACK and D-SACK blocks of an acknowledgement (RFC 2018, RFC 2883;
//! `tcp_sacktag_write_queue`, v6.17).

use narrows_cc::CaState;
use narrows_wire::Tcp;

use crate::ack::{Ack, seen};
use crate::connection::Connection;
use crate::scoreboard::flag;
use crate::sequence;

impl Connection {
    /// Takes the blocks of `tcp`.
    pub(crate) fn on_sack(&mut self, tcp: &Tcp, prior_una: u64, ack: &mut Ack) {
        let mut blocks = [(0u64, 0u64); 4];
        let mut n = 0;
        for (l, r) in tcp.options.sack.as_slice() {
            blocks[n] = (
                sequence::expand(*l, prior_una),
                sequence::expand(*r, prior_una),
            );
            n += 1;
        }
        let acked = sequence::expand(tcp.ack, prior_una);
        let first = blocks[0];
        // RFC 2883 §4: below the cumulative ACK, or within the second block.
        let duplicate =
            first.0 < acked || n > 1 && first.0 >= blocks[1].0 && first.1 <= blocks[1].1;
        if duplicate && self.take_dsack(first, ack) {
            self.count_needless(first, prior_una);
        }
        blocks[..n].sort_unstable();
        for &(left, right) in &blocks[..n] {
            let left = left.max(self.snd.una);
            if left < right && right <= self.snd.next {
                self.take_block(left, right, ack);
            }
        }
        if self.cong.state != CaState::Loss || self.cong.undo_marker.is_some() {
            self.note_reordering(ack.reordered);
        }
    }

    /// A duplicate was reported (`tcp_dsack_seen`). Returns whether the report is used.
    fn take_dsack(&mut self, (left, right): (u64, u64), ack: &mut Ack) -> bool {
        if left >= right || right > self.snd.next || right - left > self.snd.largest.max(1) {
            return false;
        }
        let mss = u64::from(self.agreed.mss);
        let segments = (right - left).div_ceil(mss).max(1);
        if segments == 1 && self.out.tail_probe_end == Some(right) {
            ack.set(seen::DSACK_TLP);
        }
        self.totals.dsack_dups += segments;
        // More than was ever retransmitted: the network duplicates.
        if self.totals.dsack_dups > self.totals.retransmits {
            return false;
        }
        if self.cong.reord_seen > 0 && !ack.has(seen::DSACK_TLP) {
            self.rack.dsack_seen = true;
        }
        ack.set(seen::DSACK);
        ack.sack_delivered += segments as u32;
        true
    }

    /// Retransmissions since the reduction that proved needless.
    fn count_needless(&mut self, (left, right): (u64, u64), prior_una: u64) {
        let Some(marker) = self.cong.undo_marker else {
            return;
        };
        if self.cong.undo_retrans <= 0 || right <= marker {
            return;
        }
        if right <= prior_una {
            let segments = (right - left).div_ceil(u64::from(self.agreed.mss)).max(1);
            self.cong.undo_retrans = (self.cong.undo_retrans - segments as i64).max(0);
            return;
        }
        // Still on the board: the copy has arrived, so it is not in flight.
        let mut i = self.board.find(left);
        while let Some(s) = self.board.get_mut(i).filter(|s| s.seq < right) {
            if s.is(flag::RETRANS | flag::EVER) && s.end() > marker {
                self.cong.undo_retrans = (self.cong.undo_retrans - 1).max(0);
            }
            if s.is(flag::RETRANS) && s.is(flag::SACKED) {
                s.flags &= !flag::RETRANS;
                self.board.retrans_out -= 1;
            }
            i += 1;
        }
    }

    /// Tags the segments of one block (`tcp_sacktag_one`).
    fn take_block(&mut self, left: u64, right: u64, ack: &mut Ack) {
        let now_us = self.now.as_micros();
        let min_rtt = self.rtt.min_us();
        let fack = self.board.highest_sack(self.snd.una);
        let high_seq = self.cong.high_seq;
        let (rack, rate) = (&mut self.rack, &mut self.rate);
        self.board.sack(left, right, |board, i| {
            let Some(s) = board.get(i).copied() else {
                return;
            };
            let retransmitted = s.is(flag::EVER | flag::RETRANS);
            rack.delivered(now_us, s.sent_us, s.transmission, retransmitted, min_rtt);
            let mut clear = 0;
            if s.is(flag::RETRANS) {
                // If the segment is not marked lost, its retransmission counts as in
                // flight still.
                if s.is(flag::LOST) {
                    clear = flag::LOST | flag::RETRANS;
                    board.lost_out -= 1;
                    board.retrans_out -= 1;
                }
            } else {
                if !retransmitted {
                    if s.seq < fack {
                        ack.reordered = ack.reordered.min(s.seq);
                    }
                    if s.end() <= high_seq {
                        ack.set(seen::ORIGINAL_ACKED);
                    }
                    let first = ack.sacked_sent.map_or(s.sent_us, |t| t.0);
                    ack.sacked_sent = Some((first, s.sent_us));
                }
                if s.is(flag::LOST) {
                    clear = flag::LOST;
                    board.lost_out -= 1;
                }
            }
            rate.segment_delivered(&s, &mut ack.sample);
            board.unlink(i);
            if let Some(s) = board.get_mut(i) {
                s.flags = s.flags & !clear | flag::SACKED | flag::RATED;
            }
            board.sacked_out += 1;
            ack.set(seen::DATA_SACKED);
            ack.sack_delivered += 1;
            ack.delivered_bytes += u64::from(s.len);
        });
    }
}
