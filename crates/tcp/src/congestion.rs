//! The congestion window and the state machine's memory, and how the
//! congestion control is called and its decisions applied.

use narrows_cc::{CaState, ControlMode, CwndEvent, Decision, Facts, Flags, Pacing};
use narrows_core::{INFINITE_SSTHRESH, RecoveryEvent};
use narrows_units::Instant;

use crate::config::{PacingUse, Segmentation};
use crate::connection::Connection;
use crate::event::TcpEvent;
use crate::rate_sample::RateSample;

/// Duplicate ACKs that mean loss without other evidence (RFC 5681 §3.2,
/// `tcp_reordering` 3).
pub(crate) const REORDERING: u32 = 3;

/// State of congestion control outside the algorithm; names as in Linux's
/// `struct tcp_sock`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Congestion {
    pub(crate) cwnd: u32,
    pub(crate) cwnd_cnt: u32,
    pub(crate) clamp: u32,
    pub(crate) ssthresh: u32,
    pub(crate) prior_cwnd: u32,
    /// Threshold before the last reduction; 0 if that may not be undone.
    pub(crate) prior_ssthresh: u32,
    pub(crate) state: CaState,
    pub(crate) high_seq: u64,
    pub(crate) undo_marker: Option<u64>,
    /// Retransmissions not yet shown to be needless; negative if none were
    /// made since the reduction.
    pub(crate) undo_retrans: i64,
    /// Timestamp of the first retransmission since.
    pub(crate) retrans_stamp: Option<u32>,
    pub(crate) reordering: u32,
    pub(crate) reord_seen: u32,
    pub(crate) frto: bool,
    pub(crate) reneged: bool,
    pub(crate) prr_delivered: u32,
    pub(crate) prr_out: u32,
    pub(crate) pacing_rate: u64,
    pub(crate) paced: bool,
    cwnd_limited: bool,
    max_packets_out: u32,
    usage_seq: u64,
    used: u32,
    stamp: Instant,
    pub(crate) last_sent: Instant,
}

impl Congestion {
    pub(crate) fn new(cwnd: u32, clamp: u32) -> Self {
        Self {
            cwnd: cwnd.max(1),
            cwnd_cnt: 0,
            clamp,
            ssthresh: INFINITE_SSTHRESH,
            prior_cwnd: 0,
            prior_ssthresh: 0,
            state: CaState::Open,
            high_seq: 0,
            undo_marker: None,
            undo_retrans: 0,
            retrans_stamp: None,
            reordering: REORDERING,
            reord_seen: 0,
            frto: false,
            reneged: false,
            prr_delivered: 0,
            prr_out: 0,
            pacing_rate: 0,
            paced: false,
            cwnd_limited: false,
            max_packets_out: 0,
            usage_seq: 0,
            used: 0,
            stamp: Instant::ZERO,
            last_sent: Instant::ZERO,
        }
    }

    /// CWR or Recovery: the window is on its way down.
    pub(crate) fn in_reduction(&self) -> bool {
        matches!(self.state, CaState::Cwr | CaState::Recovery)
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// Whether the window, not the application, limits the sender; in slow
    /// start it may grow to twice what was used (`tcp_is_cwnd_limited`).
    pub(crate) fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited || self.in_slow_start() && self.cwnd < 2 * self.max_packets_out
    }

    /// The threshold that a restart keeps: three quarters of the window
    /// (`tcp_current_ssthresh`).
    pub(crate) fn current_ssthresh(&self) -> u32 {
        if self.in_reduction() {
            self.ssthresh
        } else {
            self.ssthresh.max((self.cwnd >> 1) + (self.cwnd >> 2))
        }
    }
}

impl Connection {
    /// What the algorithm receives.
    pub(crate) fn facts(&mut self, sample: &RateSample, ece: bool, ts_echo: u32) -> Facts {
        let c = &self.cong;
        let mut flags = Flags::TAKES_MSS;
        if c.is_cwnd_limited() {
            flags |= Flags::CWND_LIMITED;
        }
        if ece {
            flags |= Flags::ACK_ECE;
        }
        if sample.app_limited {
            flags |= Flags::APP_LIMITED;
        }
        if c.in_slow_start() {
            flags |= Flags::IN_SLOW_START;
        }
        if self.unsent() > 0 {
            flags |= Flags::UNSENT;
        }
        let pacing = if self.fq.is_on() {
            Pacing::Fq
        } else if c.paced || self.config.host.pacing == PacingUse::Always {
            Pacing::Needed
        } else {
            Pacing::None
        };
        Facts {
            now_ns: self.now.as_nanos(),
            pacing_rate: c.pacing_rate,
            mss: self.agreed.mss,
            cwnd: c.cwnd,
            cwnd_cnt: c.cwnd_cnt,
            ssthresh: c.ssthresh,
            prior_cwnd: c.prior_cwnd,
            in_flight: self.board.in_flight(),
            snd_una: self.snd.una as u32,
            snd_nxt: self.snd.next as u32,
            high_seq: c.high_seq as u32,
            delivered: self.rate.delivered,
            delivered_ce: self.rate.delivered_ce,
            acked_sacked: sample.acked_sacked,
            lost: self.board.lost as u32,
            srtt_us: self.rtt.srtt_us,
            min_rtt_us: self.rtt.min_us(),
            rtt_us: sample.rtt_us,
            rs_delivered: sample.delivered,
            rs_interval_us: sample.interval_us,
            rs_prior_delivered: sample.prior_delivered,
            rs_prior_in_flight: sample.prior_in_flight,
            rs_losses: sample.losses,
            gso_max_size: match self.config.host.segmentation {
                Segmentation::OneSegment => 0,
                Segmentation::Tso { gso_max_bytes, .. } => gso_max_bytes,
            },
            ts_echo,
            random: self.rng.draw_u64() as u32,
            packets_out: self.board.packets_out,
            ca_state: c.state as u8,
            pacing_status: pacing as u8,
            flags,
            cwnd_clamp: c.clamp,
            header: self.config.ip_header() + self.header_len(),
            last_sent_ns: c.last_sent.as_nanos(),
        }
    }

    /// The same outside an ACK.
    pub(crate) fn plain_facts(&mut self) -> Facts {
        self.facts(&RateSample::default(), false, 0)
    }

    /// Does what the algorithm decided.
    pub(crate) fn apply(&mut self, decision: Decision) {
        if let Some(cwnd) = decision.cwnd() {
            self.cong.cwnd = cwnd.max(1);
        }
        if let Some(cnt) = decision.cwnd_cnt() {
            self.cong.cwnd_cnt = cnt;
        }
        if let Some(ssthresh) = decision.ssthresh() {
            self.cong.ssthresh = ssthresh;
        }
        if let Some(rate) = decision.pacing_rate() {
            self.cong.pacing_rate = rate;
        }
        if decision.set & Decision::PACING_STATUS != 0 {
            self.cong.paced = decision.pacing_status != Pacing::None as u16;
        }
        if let Some(mss) = decision.mss() {
            self.agreed.mss = mss.clamp(1, self.full_mss());
        }
        if decision.set & Decision::APP_LIMITED != 0 {
            self.mark_app_limited();
        }
        if decision.events & Decision::SLOW_START_EXIT != 0 {
            self.emit(TcpEvent::Recovery(RecoveryEvent::SlowStartExit));
        }
    }

    /// Passes `event` to the algorithm.
    pub(crate) fn cwnd_event(&mut self, event: CwndEvent) {
        let mut facts = self.plain_facts();
        if event == CwndEvent::TxStart && self.rate.is_marked_app_limited() {
            facts.flags |= Flags::APP_LIMITED;
        }
        let decision = self.cc.cwnd_event(&facts, event);
        self.apply(decision);
    }

    /// Enters `state`; the algorithm is called first (`tcp_set_ca_state`).
    pub(crate) fn set_ca_state(&mut self, state: CaState) {
        let facts = self.plain_facts();
        let decision = self.cc.set_state(&facts, state);
        self.apply(decision);
        self.cong.state = state;
    }

    /// Whether the algorithm owns recovery and pacing.
    pub(crate) fn rate_mode(&self) -> bool {
        self.cc.mode() == ControlMode::Rate
    }

    /// The window was changed by the stack or for it.
    pub(crate) fn stamp_cwnd(&mut self) {
        self.cong.stamp = self.now;
    }

    /// Congestion window validation (RFC 7661 in spirit, RFC 2861 in Linux:
    /// `tcp_cwnd_validate`): remembers how much of the window was used.
    pub(crate) fn validate_cwnd(&mut self, limited: bool) {
        let out = self.board.packets_out;
        let c = &mut self.cong;
        if self.snd.una >= c.usage_seq || limited || !c.cwnd_limited && out > c.max_packets_out {
            c.cwnd_limited = limited;
            c.max_packets_out = out;
            c.usage_seq = self.snd.next;
        }
        if c.is_cwnd_limited() {
            c.used = 0;
            c.stamp = self.now;
            return;
        }
        c.used = c.used.max(out);
        let idle_us = self.now.since(c.stamp).as_micros();
        if idle_us >= self.rtt.rto_us && !self.rate_mode() {
            self.shrink_unused_window();
        }
    }

    /// The application left much of the window unused for an RTO: half of that
    /// is taken back.
    fn shrink_unused_window(&mut self) {
        let c = &mut self.cong;
        if c.state == CaState::Open && !self.write_refused {
            let used = c.used.max(self.config.initial_cwnd);
            if used < c.cwnd {
                c.ssthresh = c.current_ssthresh();
                c.cwnd = (c.cwnd + used) >> 1;
            }
            c.used = 0;
        }
        c.stamp = self.now;
    }

    /// The application has written, or the peer's window changed while data
    /// waits: if nothing is out and nothing was sent for longer than an RTO, the
    /// window is halved for each RTO down to the initial one (RFC 5681 §4.1,
    /// `tcp_slow_start_after_idle_check`, `tcp_cwnd_restart`).
    pub(crate) fn restart_window_after_idle(&mut self) {
        if self.board.packets_out > 0 || self.rate_mode() || !self.is_synchronized() {
            return;
        }
        let rto = self.rtt.rto_us.max(1);
        let mut idle = self.now.since(self.cong.last_sent).as_micros();
        if self.cong.last_sent == Instant::ZERO || idle <= rto {
            return;
        }
        self.cwnd_event(CwndEvent::CwndRestart);
        let c = &mut self.cong;
        c.ssthresh = c.current_ssthresh();
        let floor = self.config.initial_cwnd.min(c.cwnd);
        while idle > rto && c.cwnd > floor {
            idle -= rto;
            c.cwnd >>= 1;
        }
        c.cwnd = c.cwnd.max(floor);
        c.stamp = self.now;
        c.used = 0;
    }
}
