//! Timeouts: retransmission (RFC 6298), its spurious kind (F-RTO) and the
//! tail-loss probe (RFC 8985 §7); as Linux `net/ipv4/tcp_timer.c` and
//! `tcp_send_loss_probe`, v6.17.

use narrows_cc::{CaState, CwndEvent};
use narrows_core::RecoveryEvent;
use narrows_units::Duration;

use crate::congestion::REORDERING;
use crate::connection::Connection;
use crate::event::{TcpEvent, TcpState};
use crate::mtu_probing::BLACK_HOLE_RETRIES;
use crate::rack::TIMEOUT_MIN;
use crate::rtt::INITIAL_RTO_US;
use crate::scoreboard::flag;
use crate::timers::Purpose;

/// Retransmissions before data is given up (`tcp_retries2` 15).
const DATA_RETRIES: u32 = 15;
/// Least timeout, ms, of which those that data is given up after are made (`TCP_RTO_MIN`).
const LEAST_RTO_MS: u64 = 200;
/// Retransmissions of a SYN after the linear ones (`tcp_syn_retries` 6).
const SYN_RETRIES: u32 = 6;
/// Timeouts of a SYN that do not double the next one (`tcp_syn_linear_timeouts` 4,
/// since v6.5): it is sent again after 1, 2, 3, 4, 5, 7, 11, 19, 35 and 67 s.
const SYN_LINEAR_TIMEOUTS: u32 = 4;
/// Retransmissions of a SYN-ACK (`tcp_synack_retries` 5).
const SYN_ACK_RETRIES: u32 = 5;

/// How soon the timer fires whose time is over, at 1 kHz.
const ONE_TICK: Duration = Duration::from_millis(1);

impl Connection {
    fn rto(&self) -> Duration {
        Duration::from_micros(self.rtt.rto_us)
    }

    /// How long after its first retransmission data is given up (`retransmits_timed_out`,
    /// `tcp_model_timeout`): however long the timeouts really are, those are waited for that
    /// double from `TCP_RTO_MIN`, 200 ms, up to the longest. With 120 s these are ten, and
    /// six of 120 s: 924.6 s.
    fn data_give_up(&self) -> Duration {
        let user = self.config.user_timeout;
        user.unwrap_or_else(|| self.time_of_retries(DATA_RETRIES))
    }

    /// How long so many retransmissions take by that reckoning.
    fn time_of_retries(&self, retries: u32) -> Duration {
        let longest = self.rtt.max_rto_us() / 1_000;
        let doublings = (longest / LEAST_RTO_MS).max(1).ilog2().min(retries);
        let doubled = ((2u64 << doublings) - 1) * LEAST_RTO_MS;
        Duration::from_millis(doubled + u64::from(retries - doublings) * longest)
    }

    /// Retransmissions into a shut window are given up when the peer has been silent for
    /// twice the longest timeout, or when they have been made for as long as the user lets
    /// them (`tcp_rtx_probe0_timed_out`).
    fn window_gave_up(&self) -> bool {
        let since = self.since_first_retransmission();
        let user = self.config.user_timeout.unwrap_or(Duration::MAX);
        let most = Duration::from_micros(2 * self.rtt.max_rto_us()).min(user);
        since > user || self.now.since(self.last_ack_received) > most && since > most
    }

    /// The next timeout, no later than the user lets it be
    /// (`tcp_clamp_rto_to_user_timeout`); `elapsed` since the first transmission that was
    /// not answered.
    fn clamped_rto(&self, elapsed: Duration) -> Duration {
        let user = self.config.user_timeout.unwrap_or(Duration::MAX);
        let left = user - elapsed.min(user);
        self.rto().min(left.max(ONE_TICK))
    }

    /// What pacing adds before the next packet may leave at all.
    fn pacing_delay(&self) -> Duration {
        self.out.next_departure.since(self.now)
    }

    /// Since the head was sent last, µs.
    fn head_age_us(&self) -> u64 {
        let head = self.board.head();
        head.map_or(0, |s| self.now.as_micros().saturating_sub(s.sent_us))
    }

    /// Time left until the head's timeout, µs; zero or less if it is over.
    fn rto_left_us(&self) -> i64 {
        self.rtt.rto_us as i64 - self.head_age_us() as i64
    }

    /// Starts the retransmission timer anew, or stops it if nothing is out (RFC 6298
    /// §5.2, §5.3; `tcp_rearm_rto`). After a probe or a reordering wait, what has passed
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

    /// Starts the timer of the tail-loss probe, two smoothed round trips (RFC 8985
    /// §7.2; `tcp_schedule_loss_probe`). Returns whether it runs.
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

    /// The probe timer expired (RFC 8985 §7.3).
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
        // A window that has shut on data in flight: the head is the probe, and
        // a peer that answers is not given up.
        let shut = self.snd.size == 0;
        let expired = if shut {
            self.window_gave_up()
        } else {
            self.out.retransmissions > 0 && self.since_first_retransmission() >= self.data_give_up()
        };
        if expired {
            self.enter_closed(Some(TcpEvent::TimedOut));
            return;
        }
        if !shut
            && self.out.retransmissions > 0
            && self.since_first_retransmission() >= self.time_of_retries(BLACK_HOLE_RETRIES)
        {
            self.suspect_black_hole();
        }
        self.enter_loss();
        if !shut {
            let first = self.out.retransmissions == 0;
            self.totals.count_timeout(self.now, first);
            self.out.retransmissions += 1;
        }
        // RFC 6298 §5.4 to §5.6.
        self.out.retransmit_head = true;
        self.rtt.back_off();
        // Where there was none before, the one that is due is the first.
        let first = self.cong.retrans_stamp;
        let elapsed = first.map_or(Duration::ZERO, |_| self.since_first_retransmission());
        let after = self.clamped_rto(elapsed);
        self.start_timer(Purpose::Retransmit, after);
    }

    /// Since the first retransmission that is not settled, or since the head
    /// was sent if there is none (`retrans_stamp`).
    fn since_first_retransmission(&self) -> Duration {
        match self.cong.retrans_stamp {
            Some(stamp) => Duration::from_millis(u64::from(self.timestamp().wrapping_sub(stamp))),
            None => Duration::from_micros(self.head_age_us()),
        }
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
        // RFC 5681 §3.1's loss window, beside what is still in flight.
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
        // RFC 5682 §2.1 step 1, and as Linux also for repeated timeouts.
        self.cong.frto = fresh || self.out.retransmissions > 0;
        self.emit(TcpEvent::Recovery(RecoveryEvent::RetransmissionTimeout));
    }

    /// All but what was sent so recently that it may still be on its way (RFC 8985
    /// §6.3: `RACK_mark_losses_on_RTO`).
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

    /// A SYN or SYN-ACK was not answered (`tcp_retransmit_timer`,
    /// `reqsk_timer_handler`, `tcp_fastopen_synack_timer`).
    fn on_handshake_timeout(&mut self) {
        let opening = self.state == TcpState::SynSent;
        let limit = if opening {
            SYN_RETRIES + SYN_LINEAR_TIMEOUTS
        } else {
            SYN_ACK_RETRIES + u32::from(self.handshake.accepted_early)
        };
        let since = self
            .timestamp()
            .wrapping_sub(self.handshake.first_timestamp);
        let since = Duration::from_millis(u64::from(since));
        let timed_out = self.handshake.timeouts > 0
            && self
                .config
                .user_timeout
                .is_some_and(|user| opening && since >= user);
        if self.handshake.timeouts >= limit || timed_out {
            self.enter_closed(Some(TcpEvent::TimedOut));
            return;
        }
        self.totals
            .count_timeout(self.now, self.handshake.timeouts == 0);
        self.totals.retransmits += 1;
        self.handshake.timeouts += 1;
        self.handshake.sent_again += 1;
        self.handshake.due = true;
        if !opening || self.handshake.timeouts > SYN_LINEAR_TIMEOUTS {
            self.rtt.back_off();
        }
        let after = if opening {
            self.clamped_rto(since)
        } else {
            self.rto()
        };
        self.start_timer(Purpose::Retransmit, after);
    }
}
