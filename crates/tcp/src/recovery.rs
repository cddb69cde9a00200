//! Linux's congestion-avoidance state machine: Open, Disorder, CWR, Recovery,
//! Loss (`tcp_fastretrans_alert` and what it calls, `net/ipv4/tcp_input.c`
//! v6.17), with proportional rate reduction (RFC 6937) and undo.

use narrows_cc::{CaState, CwndEvent};
use narrows_core::{INFINITE_SSTHRESH, RecoveryEvent};
use narrows_units::Duration;

use crate::ack::{Ack, seen};
use crate::connection::Connection;
use crate::ecn::Feedback;
use crate::event::TcpEvent;
use crate::timers::Purpose;

/// Largest reordering degree, segments (`tcp_max_reordering` 300).
const MAX_REORDERING: u32 = 300;
/// Least wait after the peer reneged, before SACKed segments are sent again
/// (RFC 2018 §8; `tcp_check_sack_reneging`).
const RENEGE_WAIT: Duration = Duration::from_millis(10);

impl Connection {
    /// Processes an ACK that is not plain progress in Open.
    pub(crate) fn alert(&mut self, prior_una: u64, duplicates: u32, ack: &mut Ack) {
        let ece = ack.has(seen::ECE);
        if self.board.packets_out == 0 && self.board.sacked_out > 0 {
            self.board.sacked_out = 0;
        }
        // An ECN echo proves congestion: no undo.
        if ece {
            self.cong.prior_ssthresh = 0;
        }
        if self.check_reneging(ack) {
            return;
        }
        if self.cong.state == CaState::Open {
            self.cong.retrans_stamp = None;
        } else if self.snd.una >= self.cong.high_seq {
            match self.cong.state {
                // Held until something above high_seq is acknowledged, so
                // that the reduction's effect, and the CWR flag, have
                // reached the peer. A mark seen meanwhile reduces nothing.
                CaState::Cwr if self.snd.una != self.cong.high_seq => {
                    self.end_reduction();
                    self.set_ca_state(CaState::Open);
                }
                CaState::Recovery => {
                    if !self.agreed.sack {
                        self.board.sacked_out = 0;
                    }
                    if self.try_undo_recovery() {
                        return;
                    }
                    self.end_reduction();
                }
                _ => {}
            }
        }
        match self.cong.state {
            CaState::Recovery => {
                if !ack.has(seen::UNA_ADVANCED) {
                    if !self.agreed.sack {
                        self.add_reno_sacks(duplicates, ack);
                    }
                } else if self.try_undo_partial(prior_una) {
                    return;
                }
                if self.try_undo_by_dsack() {
                    self.try_keep_open();
                }
                self.identify_losses(ack);
                if self.cong.state != CaState::Recovery {
                    if self.board.lost_out == 0 {
                        return;
                    }
                    self.enter_recovery(ece);
                }
            }
            state => {
                if state == CaState::Loss {
                    self.process_loss(duplicates, ack);
                    if self.cong.state != CaState::Loss {
                        self.totals.end_timeouts(self.now);
                    }
                    self.identify_losses(ack);
                    if self.cong.state != CaState::Open && !ack.has(seen::LOST_RETRANS) {
                        return;
                    }
                }
                if !self.agreed.sack {
                    if ack.has(seen::UNA_ADVANCED) {
                        self.board.sacked_out = 0;
                    }
                    self.add_reno_sacks(duplicates, ack);
                }
                if self.cong.state <= CaState::Disorder {
                    self.try_undo_by_dsack();
                }
                self.identify_losses(ack);
                self.try_recover(ece, ack);
            }
        }
        if self.cong.state >= CaState::Recovery {
            self.out.retransmit = true;
        }
    }

    /// Recovery if something is lost, otherwise Open, Disorder or CWR.
    fn try_recover(&mut self, ece: bool, ack: &Ack) {
        if self.board.lost_out > 0 {
            if !self.mtu_probe_lost() {
                self.enter_recovery(ece);
            }
        } else {
            self.try_to_open(ack.has(seen::ECE));
        }
    }

    fn identify_losses(&mut self, ack: &mut Ack) {
        if !self.agreed.sack {
            self.newreno_mark_lost(ack.has(seen::UNA_ADVANCED));
            return;
        }
        let retrans = self.board.retrans_out;
        if self.rack_mark_lost() {
            ack.clear(seen::SET_TIMER);
        }
        if retrans > self.board.retrans_out {
            ack.set(seen::LOST_RETRANS);
        }
    }

    /// The head is lost after three duplicate ACKs, and after each partial
    /// ACK (RFC 6582).
    fn newreno_mark_lost(&mut self, advanced: bool) {
        let state = self.cong.state;
        if state < CaState::Recovery && self.board.sacked_out >= self.cong.reordering
            || state == CaState::Recovery && advanced
        {
            self.board.mark_lost(self.board.first());
        }
    }

    /// Without SACK a duplicate ACK means that some segment has left the
    /// network (RFC 5681 §3.2).
    pub(crate) fn add_reno_sacks(&mut self, duplicates: u32, ack: &mut Ack) {
        if duplicates == 0 {
            return;
        }
        let before = self.board.sacked_out;
        self.board.sacked_out += duplicates;
        self.limit_reno_sacks(0);
        let newly = self.board.sacked_out.saturating_sub(before);
        self.count_delivered(newly, ack.has(seen::ECE));
    }

    /// More segments cannot have arrived than are out, less the holes.
    pub(crate) fn limit_reno_sacks(&mut self, extra: u32) {
        let b = &mut self.board;
        let holes = b.lost_out.max(1).min(b.packets_out);
        if b.sacked_out + holes > b.packets_out {
            b.sacked_out = b.packets_out - holes;
            self.cong.reordering = (b.packets_out + extra).clamp(1, MAX_REORDERING);
            self.cong.reord_seen += 1;
        }
    }

    /// A hole at `low` was filled without retransmission: segments were
    /// reordered, by so many at least.
    pub(crate) fn note_reordering(&mut self, low: u64) {
        let high = self.board.highest_sack(self.snd.una);
        if low >= high {
            return;
        }
        let mss = u64::from(self.agreed.mss);
        let distance = high - low;
        if distance > u64::from(self.cong.reordering) * mss {
            self.cong.reordering = distance.div_ceil(mss).min(u64::from(MAX_REORDERING)) as u32;
        }
        self.cong.reord_seen += 1;
    }

    /// The cumulative acknowledgement ends before a segment that the peer had SACKed: if
    /// it stays so, that is treated as a timeout (RFC 2018 §8).
    fn check_reneging(&mut self, ack: &mut Ack) -> bool {
        if !ack.has(seen::RENEGING) || !ack.has(seen::UNA_ADVANCED) {
            return false;
        }
        let wait = (self.rtt.srtt() / 2).max(RENEGE_WAIT);
        self.start_timer(Purpose::Retransmit, wait);
        ack.clear(seen::SET_TIMER);
        true
    }

    /// From now on needless retransmissions are counted, so that the reduction can be
    /// undone.
    pub(crate) fn init_undo(&mut self) {
        self.cong.undo_marker = Some(self.snd.una);
        let mut out = i64::from(self.board.retrans_out);
        if self.out.tail_probe_end.is_some() && self.out.tail_probe_retransmitted {
            out += 1;
        }
        self.cong.undo_retrans = if out == 0 { -1 } else { out };
    }

    /// Enters fast recovery (`tcp_enter_recovery`).
    pub(crate) fn enter_recovery(&mut self, ece: bool) {
        self.cong.prior_ssthresh = 0;
        self.init_undo();
        if !self.cong.in_reduction() {
            if !ece {
                self.cong.prior_ssthresh = self.cong.current_ssthresh();
            }
            self.begin_reduction();
        }
        self.set_ca_state(CaState::Recovery);
        self.emit(TcpEvent::Recovery(RecoveryEvent::FastRetransmit));
    }

    /// Reacts to an ECN signal, once until the reduction is over (RFC 3168 §6.1.2: once
    /// per window of data; `tcp_enter_cwr`).
    fn enter_cwr(&mut self) {
        self.cong.prior_ssthresh = 0;
        if self.cong.state < CaState::Cwr {
            self.cong.undo_marker = None;
            self.begin_reduction();
            self.set_ca_state(CaState::Cwr);
            self.emit(TcpEvent::Recovery(RecoveryEvent::CongestionExperienced));
        }
    }

    /// Starts a reduction: the algorithm names the threshold, PRR spreads the
    /// way down over a round trip (`tcp_init_cwnd_reduction`).
    pub(crate) fn begin_reduction(&mut self) {
        self.cong.high_seq = self.snd.next;
        self.out.tail_probe_end = None;
        self.cong.cwnd_cnt = 0;
        self.cong.prior_cwnd = self.cong.cwnd;
        self.cong.prr_delivered = 0;
        self.cong.prr_out = 0;
        let facts = self.plain_facts();
        self.cong.ssthresh = self.cc.ssthresh(&facts);
        self.queue_cwr();
    }

    /// The next new data carries CWR (RFC 3168 §6.1.2).
    pub(crate) fn queue_cwr(&mut self) {
        if self.ecn.feedback == Feedback::Classic {
            self.ecn.announce_cwr = true;
        }
    }

    /// PRR (RFC 6937 §3 with the slow-start bound, and the conservative
    /// bound while losses go on; `tcp_cwnd_reduction`).
    pub(crate) fn reduce_cwnd(&mut self, delivered: u32, newly_lost: u32, advanced: bool) {
        let in_flight = i64::from(self.board.in_flight());
        let c = &mut self.cong;
        if delivered == 0 || c.prior_cwnd == 0 {
            return;
        }
        c.prr_delivered += delivered;
        let room = i64::from(c.ssthresh) - in_flight;
        // RFC 6937 §3: proportional part while more than ssthresh is in flight, else the
        // reduction bound.
        let mut send = if room < 0 {
            let due = u64::from(c.ssthresh) * u64::from(c.prr_delivered);
            due.div_ceil(u64::from(c.prior_cwnd)) as i64 - i64::from(c.prr_out)
        } else {
            let mut send =
                (i64::from(c.prr_delivered) - i64::from(c.prr_out)).max(i64::from(delivered));
            if advanced && newly_lost == 0 {
                send += 1;
            }
            send.min(room)
        };
        // The first retransmission leaves at once.
        send = send.max(i64::from(c.prr_out == 0));
        c.cwnd = (in_flight + send).max(1) as u32;
    }

    /// Ends a reduction: the window is the threshold (`tcp_end_cwnd_reduction`).
    pub(crate) fn end_reduction(&mut self) {
        if self.rate_mode() {
            return;
        }
        let c = &mut self.cong;
        if c.ssthresh < INFINITE_SSTHRESH && (c.state == CaState::Cwr || c.undo_marker.is_some()) {
            c.cwnd = c.ssthresh;
            self.stamp_cwnd();
        }
        self.cwnd_event(CwndEvent::CompleteCwr);
    }

    /// Open, or Disorder while something is out of order.
    pub(crate) fn try_keep_open(&mut self) {
        let left_out = self.board.sacked_out + self.board.lost_out;
        let state = if left_out > 0 || self.board.any_retransmitted() {
            CaState::Disorder
        } else {
            CaState::Open
        };
        if self.cong.state != state {
            self.set_ca_state(state);
            self.cong.high_seq = self.snd.next;
        }
    }

    fn try_to_open(&mut self, ece: bool) {
        if !self.board.any_retransmitted() {
            self.cong.retrans_stamp = None;
        }
        if ece {
            self.enter_cwr();
        }
        if self.cong.state != CaState::Cwr {
            self.try_keep_open();
        }
    }

    /// The last ACK was for an original: for one of what was retransmitted
    /// (Eifel detection, RFC 3522), or, where nothing has been retransmitted yet
    /// because pacing or a full queue held it back, for any. Without SACK the
    /// stamp is also cleared at the end of recovery, which says nothing
    /// (`tcp_packet_delayed`, net/ipv4/tcp_input.c, Linux 6.12 and newer).
    fn packet_was_delayed(&self) -> bool {
        let Some(stamp) = self.cong.retrans_stamp else {
            return self.agreed.sack || self.snd.una < self.cong.high_seq;
        };
        let echo = self.out.last_echo.filter(|_| self.agreed.timestamps);
        echo.is_some_and(|echo| (echo.wrapping_sub(stamp) as i32) < 0)
    }

    /// Whether the last reduction was spurious.
    fn may_undo(&self) -> bool {
        self.cong.undo_marker.is_some()
            && (self.cong.undo_retrans == 0 || self.packet_was_delayed())
    }

    /// Takes the last reduction back.
    pub(crate) fn undo_reduction(&mut self, unmark: bool) {
        if unmark {
            self.board.unmark_lost();
        }
        if self.cong.prior_ssthresh > 0 {
            let facts = self.plain_facts();
            self.cong.cwnd = self.cc.undo_cwnd(&facts).max(1);
            if self.cong.prior_ssthresh > self.cong.ssthresh {
                self.cong.ssthresh = self.cong.prior_ssthresh;
                self.ecn.announce_cwr = false;
            }
        }
        self.stamp_cwnd();
        self.cong.undo_marker = None;
        self.rack.advanced = true;
        self.emit(TcpEvent::Recovery(RecoveryEvent::SpuriousUndo));
    }

    /// At the end of a recovery. Returns whether the state is to be held a
    /// little longer: without SACK, an ACK of high_seq alone may be followed
    /// by duplicates that must not start another one (RFC 6582 §3.2).
    fn try_undo_recovery(&mut self) -> bool {
        if self.may_undo() {
            self.undo_reduction(false);
        } else if self.rack.persist > 0 {
            self.rack.persist -= 1;
        }
        if self.hold_without_sack() {
            return true;
        }
        self.set_ca_state(CaState::Open);
        self.cong.reneged = false;
        false
    }

    fn hold_without_sack(&mut self) -> bool {
        if self.agreed.sack || self.snd.una != self.cong.high_seq {
            return false;
        }
        if !self.board.any_retransmitted() {
            self.cong.retrans_stamp = None;
        }
        true
    }

    /// All that was retransmitted proved needless (RFC 3708).
    fn try_undo_by_dsack(&mut self) -> bool {
        if self.cong.undo_marker.is_some() && self.cong.undo_retrans == 0 {
            self.rack.hold_window();
            self.undo_reduction(false);
            return true;
        }
        false
    }

    /// A hole was filled by a late original, not by our retransmission. Returns whether
    /// that ends the processing of this ACK, because other retransmissions are under way:
    /// what is lost nevertheless starts another recovery at once
    /// (`tcp_try_undo_partial`, since v5.11).
    fn try_undo_partial(&mut self, prior_una: u64) -> bool {
        if self.cong.undo_marker.is_none() || !self.packet_was_delayed() {
            return false;
        }
        self.note_reordering(prior_una);
        if self.board.retrans_out > 0 {
            return true;
        }
        if !self.board.any_retransmitted() {
            self.cong.retrans_stamp = None;
        }
        self.undo_reduction(true);
        self.try_keep_open();
        false
    }

    /// After a timeout, `by_frto` if F-RTO has found it spurious.
    fn try_undo_loss(&mut self, by_frto: bool) -> bool {
        if !by_frto && !self.may_undo() {
            return false;
        }
        self.undo_reduction(true);
        self.out.retransmissions = 0;
        if self.hold_without_sack() {
            return true;
        }
        if by_frto || self.agreed.sack {
            self.set_ca_state(CaState::Open);
            self.cong.reneged = false;
        }
        true
    }

    /// An ACK in Loss: F-RTO (RFC 5682 §3.1) or the end of it
    /// (`tcp_process_loss`).
    fn process_loss(&mut self, duplicates: u32, ack: &mut Ack) {
        let recovered = self.snd.una >= self.cong.high_seq;
        if ack.has(seen::UNA_ADVANCED) && self.try_undo_loss(false) {
            return;
        }
        if self.cong.frto {
            // Step 3.b: data that was never retransmitted has arrived.
            if ack.has(seen::ORIGINAL_ACKED) && self.try_undo_loss(true) {
                return;
            }
            if self.snd.next > self.cong.high_seq {
                if ack.has(seen::DATA_SACKED) || duplicates > 0 {
                    // Step 3.a: the loss was real.
                    self.cong.frto = false;
                }
            } else if ack.has(seen::UNA_ADVANCED) && !recovered {
                self.cong.high_seq = self.snd.next;
                // Step 2.b: new data instead of retransmissions, if there is
                // any and the window lets it.
                if self.unsent() > 0 && self.snd.edge() > self.snd.next {
                    self.out.try_new = true;
                    return;
                }
                self.cong.frto = false;
            }
        }
        if recovered {
            self.try_undo_recovery();
            return;
        }
        if !self.agreed.sack {
            if self.snd.next > self.cong.high_seq && duplicates > 0 {
                self.add_reno_sacks(duplicates, ack);
            } else if ack.has(seen::UNA_ADVANCED) {
                self.board.sacked_out = 0;
            }
        }
        self.out.retransmit = true;
    }
}
