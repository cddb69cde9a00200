//! What leaves, in which order (`tcp_write_xmit`,
//! `tcp_xmit_retransmit_queue`, `tcp_send_loss_probe`; Linux
//! `net/ipv4/tcp_output.c`, v6.17).
//!
//! Linux pushes packets out where it decides on them; here decisions leave
//! flags, and [`Connection::poll_transmit`] turns them into packets at the
//! same instant, in the order in which Linux would have sent them.

use narrows_cc::CwndEvent;
use narrows_core::{Packet, PacketPool, RecoveryEvent};
use narrows_units::Instant;
use narrows_wire::Ecn;

use crate::connection::Connection;
use crate::event::{TcpEvent, TcpState};
use crate::mtu_probing::ProbeDue;
use crate::scoreboard::{Segment, flag};
use crate::sequence;

/// What is due, and the memory of sending.
#[derive(Clone, Debug, Default)]
pub(crate) struct Output {
    /// An ACK is to leave now.
    pub(crate) ack: bool,
    /// It is sent before the application gets what it acknowledges, and so before what it
    /// writes in answer.
    pub(crate) ack_before_answer: bool,
    /// An ACK for what came in TIME-WAIT is to leave now, with this codepoint.
    pub(crate) time_wait_ack: Option<Ecn>,
    /// The application has written since packets were last asked for.
    pub(crate) written: bool,
    /// What the application has written has not been pushed yet (`tcp_push`): it is before a
    /// FIN is queued, however soon after the write the stream is ended.
    pub(crate) push_due: bool,
    /// A reset is to leave.
    pub(crate) reset: bool,
    /// A reset with this number, for a segment of some other connection.
    pub(crate) stray_reset: Option<u32>,
    /// The head is to be sent again, whatever the window says.
    pub(crate) retransmit_head: bool,
    /// Lost segments are to be sent again as the window lets it.
    pub(crate) retransmit: bool,
    /// F-RTO: new data before retransmissions.
    pub(crate) try_new: bool,
    pub(crate) tail_probe_due: bool,
    /// End of what was out when the tail was probed.
    pub(crate) tail_probe_end: Option<u64>,
    pub(crate) tail_probe_retransmitted: bool,
    /// The retransmission timer counts from the head's transmission.
    pub(crate) count_waited: bool,
    pub(crate) probe_due: bool,
    /// Window or keep-alive probes without any answer (`icsk_probes_out`).
    pub(crate) probes: u32,
    /// When the first of the window probes was due that have not opened it
    /// (`icsk_probes_tstamp`).
    pub(crate) probing_since: Option<Instant>,
    /// Timeouts in a row.
    pub(crate) retransmissions: u32,
    pub(crate) pacing_released: bool,
    /// When pacing lets the next packet go.
    pub(crate) next_departure: Instant,
    /// When data last left.
    pub(crate) last_departure: Instant,
    /// TSecr of the last ACK.
    pub(crate) last_echo: Option<u32>,
    /// Segments left of the burst under way.
    burst: u32,
    /// The burst under way has more than one segment.
    joined: bool,
    pub(crate) sent_in_batch: u32,
    /// Real payload bytes of the segment being built.
    pub(crate) scratch: Vec<u8>,
}

impl Output {
    pub(crate) fn clear_all_but_reset(&mut self) {
        *self = Self {
            reset: self.reset,
            scratch: std::mem::take(&mut self.scratch),
            ..Self::default()
        };
    }
}

impl Connection {
    /// The next packet to send now; to be called until it answers `None`
    /// after every other call that may have made one due.
    pub fn poll_transmit(&mut self, now: Instant, pool: &mut PacketPool) -> Option<Box<Packet>> {
        self.advance(now);
        if std::mem::take(&mut self.out.written) && self.unsent() > 0 {
            self.restart_window_after_idle();
        }
        if self.fq.is_on() {
            self.poll_fq(pool)
        } else {
            self.poll_tcp(pool)
        }
    }

    /// The next packet that leaves TCP now.
    #[inline]
    pub(crate) fn poll_tcp(&mut self, pool: &mut PacketPool) -> Option<Box<Packet>> {
        if self.out.reset {
            self.out.reset = false;
            return Some(self.build_reset(pool));
        }
        if let Some(seq) = self.out.stray_reset.take() {
            return Some(self.build_stray_reset(pool, seq));
        }
        match self.state {
            TcpState::Closed | TcpState::Listen => return None,
            _ if !self.handshake.finished => {
                if let Some(packet) = self.transmit_handshake(pool) {
                    return Some(packet);
                }
                if !self.may_send_early() {
                    return self.transmit_ack(pool);
                }
            }
            _ => {}
        }
        if self.state == TcpState::TimeWait {
            if let Some(ecn) = self.out.time_wait_ack.take() {
                return Some(self.build_time_wait_ack(pool, ecn));
            }
            return self.transmit_ack(pool);
        }
        if std::mem::take(&mut self.handshake.ack_due) {
            return Some(self.build_ack(pool, self.acceptable_seq()));
        }
        if std::mem::take(&mut self.out.pacing_released)
            && self.board.lost_out > self.board.retrans_out
        {
            self.out.retransmit = true;
        }
        if self.out.try_new {
            if let Some(packet) = self.transmit_new(pool) {
                return Some(packet);
            }
            self.out.try_new = false;
            if self.snd.next <= self.cong.high_seq {
                self.cong.frto = false;
                self.out.retransmit = true;
            }
        }
        // Not `or_else`, which the compiler leaves as calls.
        if self.out.retransmit_head || self.out.retransmit {
            if let Some(packet) = self.transmit_retransmission(pool) {
                return Some(packet);
            }
        }
        if std::mem::take(&mut self.out.tail_probe_due) {
            if let Some(packet) = self.transmit_tail_probe(pool) {
                return Some(packet);
            }
        }
        if std::mem::take(&mut self.out.ack_before_answer) {
            if let Some(packet) = self.transmit_ack(pool) {
                return Some(packet);
            }
        }
        if !self.has_nothing_to_send() {
            if let Some(packet) = self.transmit_new(pool) {
                return Some(packet);
            }
        }
        if std::mem::take(&mut self.out.probe_due) {
            return Some(self.transmit_probe(pool));
        }
        self.transmit_ack(pool)
    }

    /// Whether both directions are agreed upon.
    pub(crate) fn is_synchronized(&self) -> bool {
        !matches!(
            self.state,
            TcpState::Closed | TcpState::Listen | TcpState::SynSent | TcpState::SynReceived
        )
    }

    /// Whether all that was written is acknowledged, which was noted: there may be ACKs to
    /// send, but for the rest nothing has changed. So it is with an end that only receives.
    fn has_nothing_to_send(&self) -> bool {
        self.limits.by_application()
            && self.outgoing.is_empty()
            && self.board.packets_out == 0
            && !self.closing
            && !self.write_refused
    }

    /// Whether a FIN is queued and was not sent (`tcp_send_fin`).
    pub(crate) fn fin_due(&self) -> bool {
        self.closing && self.snd.fin.is_none() && !self.out.push_due
    }

    fn transmit_ack(&mut self, pool: &mut PacketPool) -> Option<Box<Packet>> {
        if !std::mem::take(&mut self.out.ack) {
            return None;
        }
        Some(self.build_ack(pool, self.acceptable_seq()))
    }

    /// The number of a segment without data: the next one, or, as that would be ignored,
    /// the edge of a window that has shrunk by more than it was rounded
    /// (`tcp_acceptable_seq`).
    pub(crate) fn acceptable_seq(&self) -> u64 {
        let (next, edge) = (self.snd.next, self.snd.edge());
        if edge >= next || next - edge < 1 << self.window.scale {
            next
        } else {
            edge
        }
    }

    /// Lost segments, lowest first.
    fn transmit_retransmission(&mut self, pool: &mut PacketPool) -> Option<Box<Packet>> {
        if std::mem::take(&mut self.out.retransmit_head) && self.board.packets_out > 0 {
            return self.retransmit(self.board.first(), pool);
        }
        if !self.out.retransmit {
            return None;
        }
        if self.pacing_holds() {
            return None;
        }
        if self.board.in_flight() >= self.cong.cwnd
            || self.below_is_full(u64::from(self.agreed.mss), true)
        {
            self.out.retransmit = false;
            return None;
        }
        let Some(i) = self.board.next_lost() else {
            self.out.retransmit = false;
            return None;
        };
        let head = i == self.board.first();
        let seq = self.board.get(i).map_or(0, |s| s.seq);
        // Beyond a window that has shrunk only the head is sent.
        if !head && seq >= self.snd.edge() {
            self.out.retransmit = false;
            return None;
        }
        self.retransmit_lost(i, pool)
    }

    /// Sends the lost segment `i` again.
    pub(crate) fn retransmit_lost(&mut self, i: u64, pool: &mut PacketPool) -> Option<Box<Packet>> {
        let head = i == self.board.first();
        let packet = self.retransmit(i, pool)?;
        if self.cong.in_reduction() {
            self.cong.prr_out += 1;
        }
        if head && self.timers.purpose() != crate::timers::Purpose::Reorder {
            self.rearm_retransmission();
        }
        Some(packet)
    }

    /// Sends segment `i` again, and counts it (`tcp_retransmit_skb`).
    pub(crate) fn retransmit(&mut self, i: u64, pool: &mut PacketPool) -> Option<Box<Packet>> {
        let packet = self.send_again(i, pool)?;
        if let Some(s) = self.board.get_mut(i) {
            let counted = s.is(flag::RETRANS);
            s.flags |= flag::RETRANS;
            self.board.retrans_out += u32::from(!counted);
        }
        if self.cong.retrans_stamp.is_none() {
            self.cong.retrans_stamp = Some(self.departure_timestamp());
        }
        self.cong.undo_retrans = self.cong.undo_retrans.max(0) + 1;
        Some(packet)
    }

    /// Sends segment `i` again as a probe, which does not count as in flight
    /// a second time, nor as one that may prove needless
    /// (`__tcp_retransmit_skb`).
    pub(crate) fn send_again(&mut self, i: u64, pool: &mut PacketPool) -> Option<Box<Packet>> {
        self.before_sending_again(i);
        let mut segment = *self.board.get(i)?;
        // What was acknowledged in part is not sent again.
        if segment.seq < self.snd.una {
            segment.len -= (self.snd.una - segment.seq) as u32;
            segment.seq = self.snd.una;
        }
        let bytes = segment.len - u32::from(segment.is(flag::FIN));
        self.note_leaving(bytes);
        self.account_burst(u64::from(bytes));
        self.stamp_segment(&mut segment);
        segment.flags |= flag::EVER;
        self.hand_down(u64::from(bytes), 1);
        if let Some(s) = self.board.get_mut(i) {
            *s = segment;
        }
        self.board.link(i);
        self.totals.retransmits += 1;
        self.totals.bytes_retrans += u64::from(bytes);
        self.emit(TcpEvent::Retransmitted { bytes });
        Some(self.build_data(pool, &segment, false))
    }

    /// The tail-loss probe: new data if there is any, else the last segment
    /// again (RFC 8985 §7.3).
    fn transmit_tail_probe(&mut self, pool: &mut PacketPool) -> Option<Box<Packet>> {
        self.out.tail_probe_retransmitted = false;
        let packet = if (self.unsent() > 0 || self.fin_due()) && self.window_takes_next() {
            self.emit_new(pool, false)
        } else if self.board.packets_out > 0 && self.window_takes_last() {
            self.out.tail_probe_retransmitted = true;
            self.send_again(self.board.end() - 1, pool)
        } else {
            None
        };
        if packet.is_some() {
            self.note_tail_probe();
        }
        self.rearm_retransmission();
        packet
    }

    /// Whether the last segment begins within the window, which may have shrunk since it
    /// was sent; the first one may be sent again in any case (`__tcp_retransmit_skb`).
    fn window_takes_last(&self) -> bool {
        let last = self.board.get(self.board.end() - 1);
        last.is_some_and(|s| s.seq <= self.snd.una || s.seq < self.snd.edge())
    }

    /// The tail was probed just now.
    pub(crate) fn note_tail_probe(&mut self) {
        self.out.tail_probe_end = Some(self.snd.next);
        self.timers.stop();
        self.out.count_waited = false;
        self.emit(TcpEvent::Recovery(RecoveryEvent::TailLossProbe));
    }

    /// New data as the windows and the pacing rate let it.
    fn transmit_new(&mut self, pool: &mut PacketPool) -> Option<Box<Packet>> {
        if self.out.burst == 0 {
            match self.mtu_probe_due() {
                ProbeDue::No => {}
                ProbeDue::Waits => return None,
                ProbeDue::Now(size) => return Some(self.transmit_mtu_probe(size, pool)),
            }
            let mut cwnd_limited = false;
            let mut window_limited = false;
            let n = self.next_burst(&mut cwnd_limited, &mut window_limited);
            if n == 0 {
                self.finish_batch(cwnd_limited, window_limited);
                return if self.begin_write() || self.queue_fin() {
                    self.transmit_new(pool)
                } else {
                    None
                };
            }
            self.out.burst = n;
            self.out.joined = n > 1;
        }
        self.out.burst -= 1;
        let packet = self.emit_new(pool, false);
        if packet.is_some() {
            self.out.sent_in_batch += 1;
        } else {
            self.out.burst = 0;
        }
        if self.out.burst == 0 {
            self.out.joined = false;
        }
        packet
    }

    /// All that was written has been pushed. A FIN that comes after it is queued now: it
    /// rides on data that had to stay, and has a segment of its own if none had
    /// (`tcp_send_fin`). Returns whether it is.
    fn queue_fin(&mut self) -> bool {
        std::mem::take(&mut self.out.push_due) && self.fin_due()
    }

    /// How many segments leave now in one burst.
    fn next_burst(&mut self, cwnd_limited: &mut bool, window_limited: &mut bool) -> u32 {
        let unsent = self.unsent();
        if unsent == 0 && !self.fin_due() || self.snd.fin.is_some() {
            return 0;
        }
        if !self.out.try_new && self.pacing_holds() {
            return 0;
        }
        let quota = self.cwnd_quota();
        if quota == 0 {
            return 0;
        }
        let mss = u64::from(self.agreed.mss);
        let room = self.snd.edge().saturating_sub(self.snd.next);
        if !self.window_takes_next() {
            *window_limited = true;
            return 0;
        }
        let max = self.burst_segments();
        let ready = unsent.min(u64::from(max) * mss);
        let last = ready == unsent;
        if ready <= mss {
            // FIN rides on the last segment, or goes alone.
            if ready < mss && !self.fin_due() && self.nagle_holds() {
                return 0;
            }
        } else if self.defer_burst(ready, last, max, cwnd_limited, window_limited) {
            return 0;
        }
        let mut quota = u64::from(quota.min(max));
        if quota > 1 {
            let left = self.push_marks.left_of_piece(self.snd.next, self.piece());
            quota = quota.min(left.div_ceil(mss));
        }
        let mut segments = (ready.min(room).div_ceil(mss)).clamp(1, quota);
        // A short last segment waits on its own account.
        if segments > 1
            && segments * mss > ready.min(room)
            && (room < ready || !self.fin_due() && self.nagle_holds())
        {
            segments -= 1;
        }
        let bytes = (segments * mss).min(ready);
        if self.below_is_full(bytes, false) {
            return 0;
        }
        self.hand_down(bytes, segments);
        self.account_burst(bytes);
        segments as u32
    }

    /// Nagle's rule as Minshall changed it: a short segment waits while an
    /// earlier short one is out.
    fn nagle_holds(&self) -> bool {
        self.config.nagle && self.board.packets_out > 0 && self.snd.small_end > self.snd.una
    }

    /// Whether the peer's window takes the next segment whole, with the FIN
    /// that it may carry (`tcp_snd_wnd_test`).
    pub(crate) fn window_takes_next(&self) -> bool {
        let mss = u64::from(self.agreed.mss);
        let unsent = self.unsent();
        let fin = u64::from(self.fin_due() && unsent <= mss);
        self.snd.next + unsent.min(mss) + fin <= self.snd.edge()
    }

    /// Makes the next segment of new data, as much of it as the window takes;
    /// with PSH in any case if `push`.
    pub(crate) fn emit_new(&mut self, pool: &mut PacketPool, push: bool) -> Option<Box<Packet>> {
        let mss = u64::from(self.agreed.mss);
        let room = self.snd.edge().saturating_sub(self.snd.next);
        let unsent = self.unsent();
        let bytes = unsent.min(mss).min(room);
        let drained = bytes == unsent;
        let fin = self.fin_due() && drained && bytes < room;
        if bytes == 0 && !fin {
            return None;
        }
        Some(self.send_new(bytes, fin, push || drained, pool))
    }

    /// Sends `bytes` of new data, `fin` behind them; with PSH in any case if `push`, as they are
    /// the last that were written or a probe.
    pub(crate) fn send_new(
        &mut self,
        bytes: u64,
        fin: bool,
        push: bool,
        pool: &mut PacketPool,
    ) -> Box<Packet> {
        let seq = self.snd.next;
        let half_window = self.snd.largest >> 1;
        let marked = self.push_marks.sent(seq + bytes, half_window, self.piece());
        if push {
            self.push_marks.pushed(seq + bytes);
        }
        let mut segment = Segment {
            seq,
            len: bytes as u32 + u32::from(fin),
            flags: if fin { flag::FIN } else { 0 },
            push: push || marked,
            ..Segment::default()
        };
        self.note_leaving(bytes as u32);
        self.stamp_segment(&mut segment);
        let first = self.board.packets_out == 0;
        self.board.push(segment);
        self.snd.next = segment.end();
        if fin {
            self.snd.fin = Some(segment.end() - 1);
            self.fin_sent();
        }
        if bytes > 0 && bytes < u64::from(self.agreed.mss) {
            self.snd.small_end = segment.end();
        }
        if self.cong.in_reduction() {
            self.cong.prr_out += 1;
        }
        if first || self.timers.purpose() == crate::timers::Purpose::LossProbe {
            self.rearm_retransmission();
        }
        // At the end of a burst, so that the receiver does not wait for more of it; what
        // is sent again is no such burst (`__tcp_transmit_skb`).
        segment.push |= self.out.joined && self.out.burst == 0;
        self.build_data(pool, &segment, true)
    }

    /// `bytes` of data are about to leave, for the first time or again
    /// (`tcp_event_data_sent`); a FIN alone is no data.
    fn note_leaving(&mut self, bytes: u32) {
        if bytes == 0 {
            return;
        }
        if self.board.in_flight() == 0 {
            self.cwnd_event(CwndEvent::TxStart);
        }
        self.cong.last_sent = self.now;
        self.delack.data_sent(self.now);
    }

    fn fin_sent(&mut self) {
        self.state = match self.state {
            TcpState::Established | TcpState::SynReceived => TcpState::FinWait1,
            TcpState::CloseWait => TcpState::LastAck,
            other => other,
        };
    }

    /// Stamps a segment for RTT, RACK and rate samples.
    fn stamp_segment(&mut self, segment: &mut Segment) {
        let departure = self.departure();
        segment.sent_us = departure.as_micros();
        self.totals.transmissions += 1;
        segment.transmission = self.totals.transmissions;
        self.out.last_departure = departure;
        let out = self.board.packets_out;
        self.rate.sent(departure, out, segment);
    }

    /// Nothing more leaves now.
    pub(crate) fn finish_batch(&mut self, cwnd_limited: bool, window_limited: bool) {
        let sent = std::mem::take(&mut self.out.sent_in_batch);
        let more = self.unsent() > 0 || self.fin_due();
        let limited =
            cwnd_limited || (more || sent > 0) && self.board.in_flight() >= self.cong.cwnd;
        if sent > 0 || limited {
            self.validate_cwnd(limited);
        }
        if sent > 0 {
            self.schedule_loss_probe(false);
        }
        self.note_limit(window_limited);
        self.check_window_probe();
        self.wake_writer();
    }

    /// An ACK for a segment that is not acceptable, at most every half second
    /// for segments without data (`tcp_invalid_ratelimit` 500 ms, RFC 5961
    /// §7).
    pub(crate) fn challenge(&mut self) {
        self.out.ack |= self.may_challenge();
    }

    /// Whether a segment that is not acceptable, or a SYN that comes again, may
    /// be answered now.
    pub(crate) fn may_challenge(&mut self) -> bool {
        const PAUSE: narrows_units::Duration = narrows_units::Duration::from_millis(500);
        let may = self
            .last_challenge
            .is_none_or(|last| self.now.since(last) >= PAUSE);
        if may {
            self.last_challenge = Some(self.now);
        }
        may
    }

    /// Whether a server may send before the handshake is complete: it has
    /// accepted data in a SYN (RFC 7413 §4.2).
    pub(crate) fn may_send_early(&self) -> bool {
        self.state != TcpState::SynSent && self.handshake.accepted_early
    }

    /// Number of a wire sequence number near what the peer sends.
    pub(crate) fn peer_number(&self, wire: u32) -> u64 {
        sequence::expand(wire, self.incoming.next)
    }
}
