//! Timeouts: retransmission (RFC 6298), its spurious kind (F-RTO), the
//! tail-loss probe (RFC 8985 §7), window and keep-alive probes; as Linux
//! `net/ipv4/tcp_timer.c` and `tcp_send_loss_probe`, v6.17.

use narrows_cc::{CaState, CwndEvent};
use narrows_packet::RecoveryEvent;
use narrows_units::Duration;

use crate::congestion::REORDERING;
use crate::connection::Connection;
use crate::event::{State, TcpEvent};
use crate::rack::TIMEOUT_MIN;
use crate::rtt::INITIAL_RTO_US;
use crate::scoreboard::flag;
use crate::timers::Purpose;

/// Retransmissions of data before giving up (`tcp_retries2` 15, about
/// 15 minutes).
const DATA_RETRIES: u32 = 15;
/// Retransmissions of a SYN (`tcp_syn_retries` 6).
const SYN_RETRIES: u32 = 6;
/// Retransmissions of a SYN-ACK (`tcp_synack_retries` 5).
const SYN_ACK_RETRIES: u32 = 5;
/// Time between keep-alive probes (`tcp_keepalive_intvl` 75 s).
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(75);
/// Keep-alive probes without an answer (`tcp_keepalive_probes` 9).
const KEEP_ALIVE_PROBES: u32 = 9;

impl Connection {
    fn rto(&self) -> Duration {
        Duration::from_micros(self.rtt.rto_us)
    }

    /// What pacing adds before the next packet may leave at all.
    fn pacing_delay(&self) -> Duration {
        self.out.next_departure.since(self.now)
    }

    /// Time left until the head's timeout, µs; zero or less if it is over.
    fn rto_left_us(&self) -> i64 {
        let age = self
            .board
            .head()
            .map_or(0, |s| self.now.as_micros().saturating_sub(s.sent_us));
        self.rtt.rto_us as i64 - age as i64
    }

    /// Starts the retransmission timer anew, or stops it if nothing is out
    /// (`tcp_rearm_rto`). After a probe or a reordering wait, what has passed
    /// already counts.
    pub(crate) fn rearm_retransmission(&mut self) {
        if self.board.packets_out == 0 {
            self.timers.stop();
            return;
        }
        let waited = matches!(self.timers.purpose(), Purpose::LossProbe | Purpose::Reorder)
            || std::mem::take(&mut self.out.count_waited);
        let after = if waited {
            Duration::from_micros(self.rto_left_us().max(1) as u64)
        } else {
            self.rto()
        };
        let after = after + self.pacing_delay();
        self.start_timer(Purpose::Retransmit, after);
    }

    /// Starts the timer for what is out: a probe if one makes sense, else the
    /// timeout (`tcp_set_xmit_timer`).
    pub(crate) fn set_transmit_timer(&mut self) {
        if !self.schedule_loss_probe(true) {
            self.rearm_retransmission();
        }
    }

    /// Two round trips without news, and the tail is probed
    /// (`tcp_schedule_loss_probe`).
    pub(crate) fn schedule_loss_probe(&mut self, advancing: bool) -> bool {
        if self.board.packets_out == 0
            || !self.agreed.sack
            || !matches!(self.cong.state, CaState::Open | CaState::Cwr)
        {
            return false;
        }
        let mut after = if self.rtt.srtt_us > 0 {
            let base = Duration::from_micros(u64::from(self.rtt.srtt_us >> 2));
            if self.board.packets_out == 1 {
                base + Duration::from_micros(self.rtt.min_rto_us())
            } else {
                base + TIMEOUT_MIN
            }
        } else {
            Duration::from_micros(INITIAL_RTO_US)
        };
        let left = if advancing {
            self.rtt.rto_us as i64
        } else {
            self.rto_left_us()
        };
        if left > 0 {
            after = after.min(Duration::from_micros(left as u64));
        }
        let after = after + self.pacing_delay();
        self.start_timer(Purpose::LossProbe, after);
        true
    }

    /// Time for a probe of the tail.
    pub(crate) fn on_loss_probe_timeout(&mut self) {
        self.out.count_waited = true;
        if self.out.tail_probe_end.is_some() || self.board.packets_out == 0 {
            self.rearm_retransmission();
            return;
        }
        self.out.tail_probe_due = true;
    }

    /// The retransmission timer fired.
    pub(crate) fn on_retransmission_timeout(&mut self) {
        if !self.handshake.finished {
            self.on_handshake_timeout();
            return;
        }
        if self.board.packets_out == 0 {
            return;
        }
        self.out.tail_probe_end = None;
        if self.out.retransmissions >= DATA_RETRIES {
            self.enter_closed(Some(TcpEvent::TimedOut));
            return;
        }
        self.enter_loss();
        self.out.retransmissions += 1;
        self.out.retransmit_head = true;
        self.rtt.back_off();
        let after = self.rto();
        self.start_timer(Purpose::Retransmit, after);
    }

    /// Everything unacknowledged is taken for lost (`tcp_enter_loss`).
    fn enter_loss(&mut self) {
        let fresh = self.cong.state < CaState::Recovery;
        self.mark_lost_by_timeout();
        // Once per window of data.
        if self.cong.state <= CaState::Disorder
            || self.snd.una >= self.cong.high_seq
            || self.cong.state == CaState::Loss && self.out.retransmissions == 0
        {
            self.cong.prior_ssthresh = self.cong.current_ssthresh();
            self.cong.prior_cwnd = self.cong.cwnd;
            let facts = self.plain_facts();
            self.cong.ssthresh = self.cc.ssthresh(&facts);
            self.cwnd_event(CwndEvent::Loss);
            self.init_undo();
        }
        self.cong.cwnd = self.board.in_flight() + 1;
        self.cong.cwnd_cnt = 0;
        self.stamp_cwnd();
        if self.cong.state <= CaState::Disorder && self.board.sacked_out >= REORDERING {
            self.cong.reordering = self.cong.reordering.min(REORDERING);
        }
        self.set_ca_state(CaState::Loss);
        self.cong.high_seq = self.snd.next;
        self.out.tail_probe_end = None;
        self.queue_cwr();
        self.cong.frto = fresh || self.out.retransmissions > 0;
        self.tell(TcpEvent::Recovery(RecoveryEvent::RetransmissionTimeout));
    }

    /// All but what was sent so recently that it may still be on its way.
    fn mark_lost_by_timeout(&mut self) {
        let first = self.board.first();
        let reneged = self.board.head().is_some_and(|s| s.is(flag::SACKED));
        if reneged {
            self.board.forget_sacks();
            self.cong.reneged = true;
        } else if !self.agreed.sack {
            self.board.sacked_out = 0;
        }
        for i in first..self.board.end() {
            let Some(s) = self.board.get(i).copied() else {
                break;
            };
            if !reneged
                && self.agreed.sack
                && i != first
                && self.rack_remaining_us(s.sent_us, 0) > 0
            {
                continue;
            }
            self.board.mark_lost(i);
        }
    }

    /// A SYN or SYN-ACK was not answered.
    fn on_handshake_timeout(&mut self) {
        let limit = if self.state == State::SynSent {
            SYN_RETRIES
        } else {
            SYN_ACK_RETRIES
        };
        if self.handshake.retransmissions >= limit {
            self.enter_closed(Some(TcpEvent::TimedOut));
            return;
        }
        self.handshake.retransmissions += 1;
        self.handshake.due = true;
        self.rtt.back_off();
        let after = self.rto();
        self.start_timer(Purpose::Retransmit, after);
    }

    /// There is something to send, nothing is out and the peer's window is
    /// shut: probe it (`tcp_check_probe_timer`).
    pub(crate) fn check_window_probe(&mut self) {
        if self.board.packets_out == 0
            && self.timers.purpose() == Purpose::Idle
            && (self.unsent() > 0 || self.fin_due())
        {
            let after = self.window_probe_interval();
            self.start_timer(Purpose::WindowProbe, after);
        }
    }

    /// The RTO, at least its minimum, doubled with each probe until the window
    /// opens.
    fn window_probe_interval(&self) -> Duration {
        let base = self.rtt.rto_us.max(self.rtt.min_rto_us());
        let doubled = base << self.out.probe_backoff.min(9);
        Duration::from_micros(doubled.min(crate::rtt::MAX_RTO_US))
    }

    pub(crate) fn on_window_probe_timeout(&mut self) {
        if self.board.packets_out > 0 || self.unsent() == 0 && !self.fin_due() {
            self.out.window_probes = 0;
            self.out.probe_backoff = 0;
            return;
        }
        if self.out.window_probes >= DATA_RETRIES
            && self.now.since(self.last_received) > Duration::from_micros(crate::rtt::MAX_RTO_US)
        {
            self.enter_closed(Some(TcpEvent::TimedOut));
            return;
        }
        self.out.window_probes += 1;
        self.out.probe_backoff += 1;
        self.out.probe_due = true;
        let after = self.window_probe_interval();
        self.start_timer(Purpose::WindowProbe, after);
    }

    /// An ACK came while nothing was out (`tcp_ack_probe`).
    pub(crate) fn window_probe_answered(&mut self) {
        if self.unsent() == 0 && !self.fin_due() {
            return;
        }
        let next = self.unsent().min(u64::from(self.agreed.mss));
        if self.snd.next + next <= self.snd.edge() {
            self.out.probe_backoff = 0;
            if self.timers.purpose() == Purpose::WindowProbe {
                self.timers.stop();
            }
        } else {
            let after = self.window_probe_interval();
            self.start_timer(Purpose::WindowProbe, after);
        }
    }

    /// Starts watching for a silent peer.
    pub(crate) fn start_keep_alive(&mut self) {
        if let Some(idle) = self.config.keep_alive {
            self.timers.keep_alive = Some(self.now + idle);
        }
    }

    pub(crate) fn on_keep_alive(&mut self) {
        let Some(idle) = self.config.keep_alive else {
            return;
        };
        if !self.is_synchronized() || self.state == State::TimeWait {
            return;
        }
        let silent = self.now.since(self.last_received);
        if self.board.packets_out > 0 || silent < idle {
            let wait = if silent < idle { idle - silent } else { idle };
            self.timers.keep_alive = Some(self.now + wait);
            return;
        }
        if self.out.keep_alive_probes >= KEEP_ALIVE_PROBES {
            self.out.reset = true;
            self.enter_closed(Some(TcpEvent::TimedOut));
            return;
        }
        self.out.keep_alive_probes += 1;
        self.out.probe_due = true;
        self.timers.keep_alive = Some(self.now + KEEP_ALIVE_INTERVAL);
    }
}
