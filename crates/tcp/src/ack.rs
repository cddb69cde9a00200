//! An acknowledgement, in Linux's order of steps (`tcp_ack`,
//! `net/ipv4/tcp_input.c` v6.17 with AccECN's of v6.18): SACK, cumulative
//! edge, AccECN, the algorithm's `in_ack_event`, tail-loss probe, state
//! machine, timers, rate sample, then the window.

use narrows_cc::CaState;
use narrows_core::RecoveryEvent;
use narrows_units::Duration;
use narrows_wire::Tcp;

use crate::accecn::AckFacts;
use crate::config::SendBuffer;
use crate::congestion::REORDERING;
use crate::connection::Connection;
use crate::ecn::Feedback;
use crate::event::TcpEvent;
use crate::rate_sample::{RateSample, micros};
use crate::scoreboard::flag;
use crate::sequence;

/// What was seen in an acknowledgement (Linux's `FLAG_…`).
pub(crate) mod seen {
    pub(crate) const DATA: u32 = 1;
    pub(crate) const WINDOW_UPDATE: u32 = 2;
    pub(crate) const DATA_ACKED: u32 = 4;
    pub(crate) const RETRANS_ACKED: u32 = 8;
    /// It completed the handshake.
    pub(crate) const SYN_ACKED: u32 = 0x10;
    pub(crate) const DATA_SACKED: u32 = 0x20;
    pub(crate) const ECE: u32 = 0x40;
    pub(crate) const LOST_RETRANS: u32 = 0x80;
    /// Never retransmitted data was acknowledged.
    pub(crate) const ORIGINAL_ACKED: u32 = 0x200;
    pub(crate) const UNA_ADVANCED: u32 = 0x400;
    pub(crate) const DSACK: u32 = 0x800;
    pub(crate) const SET_TIMER: u32 = 0x1000;
    pub(crate) const RENEGING: u32 = 0x2000;
    pub(crate) const MAYBE_DELAYED: u32 = 0x1_0000;
    pub(crate) const DSACK_TLP: u32 = 0x2_0000;
    pub(crate) const TS_PROGRESS: u32 = 0x4_0000;

    pub(crate) const NOT_DUPLICATE: u32 = DATA | WINDOW_UPDATE | DATA_ACKED;
    pub(crate) const ALERT: u32 = DATA_SACKED | ECE | DSACK;
    pub(crate) const PROGRESS: u32 = DATA_ACKED | DATA_SACKED;
}

/// One acknowledgement while it is processed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ack {
    pub(crate) flags: u32,
    pub(crate) sample: RateSample,
    /// When the first and last of newly SACKed, never retransmitted segments
    /// were sent.
    pub(crate) sacked_sent: Option<(u64, u64)>,
    /// Lowest sequence number that arrived out of order.
    pub(crate) reordered: u64,
    /// Segments newly SACKed, needless copies included.
    pub(crate) sack_delivered: u32,
    /// Payload bytes newly delivered.
    pub(crate) delivered_bytes: u64,
    pub(crate) echo: u32,
}

impl Ack {
    pub(crate) fn has(&self, bits: u32) -> bool {
        self.flags & bits != 0
    }

    pub(crate) fn set(&mut self, bits: u32) {
        self.flags |= bits;
    }

    pub(crate) fn clear(&mut self, bits: u32) {
        self.flags &= !bits;
    }
}

impl Connection {
    /// Sequence numbers of ours that the peer has acknowledged
    /// (`tp->bytes_acked`): without the SYN if it was a SYN-ACK's.
    pub(crate) fn bytes_acked(&self) -> u64 {
        let first = sequence::first(self.iss) + u64::from(self.handshake.passive);
        self.snd.una.saturating_sub(first)
    }

    /// Processes the acknowledgement in `tcp`, a segment that begins at `seq`
    /// and has `len` sequence numbers; of it `flags` are known already. Answers
    /// whether it was acceptable.
    pub(crate) fn on_ack(&mut self, tcp: &Tcp, seq: u64, len: u64, flags: u32) -> bool {
        let prior_una = self.snd.una;
        let una = sequence::expand(tcp.ack, prior_una);
        if una > self.snd.next {
            // Of something not sent: dropped, without the ACK that RFC 9293 §3.10.7.4
            // asks for, as in Linux.
            return false;
        }
        let mut ack = Ack {
            flags,
            reordered: self.snd.next,
            ..Ack::default()
        };
        self.out.last_echo = tcp.options.timestamps.map(|t| t.1).filter(|t| *t != 0);
        ack.echo = self.out.last_echo.unwrap_or(0);
        let delivered = self.rate.delivered;
        if una < prior_una {
            // RFC 5961 §5.2, and nothing that was never sent (`tcp_ack`).
            let bound = self.snd.largest.min(self.bytes_acked());
            if una + bound < prior_una {
                self.challenge();
                return false;
            }
            self.on_old_ack(tcp, prior_una, &mut ack);
            return true;
        }
        if self.replace_ts_recent(tcp, seq) {
            ack.set(seen::TS_PROGRESS);
        }
        let prior_out = self.board.packets_out;
        let prior_fack = self.board.highest_sack(prior_una);
        let prior_sacked = self.board.sacked_out;
        let lost = self.board.lost;
        let reneged = self.cong.reneged;
        if una > prior_una {
            ack.set(seen::UNA_ADVANCED);
            self.out.retransmissions = 0;
        }
        ack.sample.prior_in_flight = self.board.in_flight();
        self.check_app_limited();
        if len > 0 {
            ack.set(seen::DATA);
        }
        self.update_send_window(tcp, seq, una, &mut ack);
        if self.agreed.sack && !tcp.options.sack.as_slice().is_empty() {
            self.on_sack(tcp, prior_una, &mut ack);
        }
        // RFC 3168 §6.1.2; on a SYN the flag means something else (§6.1.1).
        let classic_echo = self.ecn.feedback == Feedback::Classic
            && tcp.flags.has(narrows_wire::TcpFlags::ECE)
            && !tcp.flags.has(narrows_wire::TcpFlags::SYN);
        if classic_echo {
            ack.set(seen::ECE);
        }
        self.count_delivered(ack.sack_delivered, classic_echo);
        self.out.probes = 0;
        self.last_ack_received = self.now;
        if prior_out == 0 {
            self.on_accurate_feedback(tcp, delivered, &mut ack);
            self.in_ack_event(&ack);
            if ack.has(seen::DSACK) {
                self.alert(prior_una, 0, &mut ack);
            }
            self.window_probe_answered();
            self.end_tail_probe(una, &ack);
            return true;
        }
        self.clean_acked(una, prior_una, prior_fack, prior_sacked, &mut ack);
        self.rack.adapt(&ack.sample, self.rate.delivered);
        self.on_accurate_feedback(tcp, delivered, &mut ack);
        self.in_ack_event(&ack);
        self.end_tail_probe(una, &ack);
        let dubious = !ack.has(seen::NOT_DUPLICATE)
            || ack.has(seen::ALERT)
            || self.cong.state != CaState::Open;
        if dubious {
            let duplicate = !ack.has(seen::UNA_ADVANCED | seen::NOT_DUPLICATE | seen::DSACK);
            self.alert(prior_una, u32::from(duplicate), &mut ack);
        }
        if ack.has(seen::SET_TIMER) {
            self.set_transmit_timer();
        }
        let newly = self.rate.delivered.wrapping_sub(delivered);
        let newly_lost = (self.board.lost - lost) as u32;
        self.rate.finish(
            self.now,
            newly,
            newly_lost,
            reneged,
            self.rtt.min_us(),
            &mut ack.sample,
        );
        self.control(newly, newly_lost, &ack);
        true
    }

    /// An ACK of something already acknowledged may still carry SACKs.
    fn on_old_ack(&mut self, tcp: &Tcp, prior_una: u64, ack: &mut Ack) {
        if !self.agreed.sack || tcp.options.sack.as_slice().is_empty() {
            return;
        }
        self.on_sack(tcp, prior_una, ack);
        self.count_delivered(ack.sack_delivered, false);
        self.alert(prior_una, 0, ack);
    }

    /// The window that a segment offers: that of a SYN is not scaled (RFC 7323 §2.2).
    pub(crate) fn offered_by(&self, tcp: &Tcp) -> u64 {
        let scale = match tcp.flags.has(narrows_wire::TcpFlags::SYN) {
            true => 0,
            false => self.agreed.peer_scale,
        };
        u64::from(tcp.window) << scale
    }

    /// RFC 9293 §3.10.7.4 with Linux's laxer rule for old segments
    /// (`tcp_may_update_window`).
    pub(crate) fn may_update_window(&self, tcp: &Tcp, seq: u64, una: u64) -> bool {
        let s = &self.snd;
        una > s.una || seq > s.updated_by || seq == s.updated_by && self.offered_by(tcp) > s.size
    }

    fn update_send_window(&mut self, tcp: &Tcp, seq: u64, una: u64, ack: &mut Ack) {
        let size = self.offered_by(tcp);
        if self.may_update_window(tcp, seq, una) {
            let s = &mut self.snd;
            ack.set(seen::WINDOW_UPDATE);
            s.updated_by = seq;
            s.largest = s.largest.max(size);
            let changed = std::mem::replace(&mut s.size, size) != size;
            if changed && self.unsent() > 0 {
                self.restart_window_after_idle();
            }
        }
        let s = &mut self.snd;
        let acked_from = s.una.max(self.outgoing.start());
        s.una = una;
        let acked_to = una.min(self.outgoing.end());
        if acked_to > acked_from {
            self.outgoing.release(acked_to);
            if self.write_refused && self.config.host.send_buffer == SendBuffer::Unlimited {
                self.write_refused = false;
                self.emit(TcpEvent::Writable);
            }
        }
    }

    /// Counts segments as delivered; with classic feedback an echo counts all
    /// of them as marked (`tcp_count_delivered`).
    pub(crate) fn count_delivered(&mut self, segments: u32, echo: bool) {
        self.rate.delivered = self.rate.delivered.wrapping_add(segments);
        if echo && self.ecn.feedback == Feedback::Classic {
            self.rate.delivered_ce = self.rate.delivered_ce.wrapping_add(segments);
        }
    }

    /// Takes what is cumulatively acknowledged off the board
    /// (`tcp_clean_rtx_queue`) and samples the RTT.
    fn clean_acked(
        &mut self,
        una: u64,
        prior_una: u64,
        prior_fack: u64,
        prior_sacked: u32,
        ack: &mut Ack,
    ) {
        let now_us = self.now.as_micros();
        let echo = ack.has(seen::ECE);
        let mut first_sent = None;
        let mut last_sent = 0;
        let mut acked = 0u32;
        let mut reordered = self.snd.next;
        while let Some(&s) = self.board.head().filter(|s| s.end() <= una) {
            if s.is(flag::RETRANS) {
                self.board.retrans_out -= 1;
            }
            let again = s.is(flag::EVER | flag::RETRANS);
            if again {
                ack.set(seen::RETRANS_ACKED);
            } else if !s.is(flag::SACKED) {
                last_sent = s.sent_us;
                first_sent.get_or_insert(s.sent_us);
                reordered = reordered.min(s.seq);
                if s.end() <= self.cong.high_seq {
                    ack.set(seen::ORIGINAL_ACKED);
                }
            }
            if s.is(flag::SACKED) {
                self.board.sacked_out -= 1;
            } else if self.agreed.sack {
                self.count_delivered(1, echo);
                ack.delivered_bytes += u64::from(s.len);
                // An echo older than the retransmission is of the original (RFC 8985
                // §6.2, step 2).
                let spurious =
                    s.is(flag::EVER) && self.agreed.timestamps && self.echo_is_before(s.sent_us);
                if !spurious {
                    self.rack.delivered(
                        now_us,
                        s.sent_us,
                        s.transmission,
                        s.is(flag::EVER | flag::RETRANS),
                        self.rtt.min_us(),
                    );
                }
            } else {
                ack.delivered_bytes += u64::from(s.len);
            }
            if s.is(flag::LOST) {
                self.board.lost_out -= 1;
            }
            acked += 1;
            self.rate.segment_delivered(&s, &mut ack.sample);
            ack.set(seen::DATA_ACKED);
            self.board.pop();
        }
        let head = self.board.head().copied();
        if head.is_some_and(|h| h.is(flag::SACKED)) && self.agreed.sack {
            ack.set(seen::RENEGING);
        }
        let since = |sent: u64| micros(now_us, sent);
        let mut seq_rtt = None;
        let mut ca_rtt = None;
        if let Some(first) = first_sent.filter(|_| !ack.has(seen::RETRANS_ACKED)) {
            seq_rtt = Some(since(first));
            ca_rtt = Some(since(last_sent));
            if acked == 1
                && prior_sacked == 0
                && una - prior_una < u64::from(self.agreed.mss)
                && ack.sample.prior_delivered.wrapping_add(1) == self.rate.delivered
                && !ack.has(seen::ALERT)
            {
                ack.set(seen::MAYBE_DELAYED);
            }
        }
        let sack_rtt = ack.sacked_sent.map(|(first, last)| {
            ca_rtt = Some(since(last));
            since(first)
        });
        let updated = self.update_rtt(seq_rtt, sack_rtt, ca_rtt, ack);
        if ack.has(seen::DATA_ACKED) {
            ack.set(seen::SET_TIMER);
            self.mtu_probe_acknowledged();
            if !self.agreed.sack {
                self.remove_reno_sacks(acked, ack);
            } else if reordered < prior_fack {
                self.note_reordering(reordered);
            }
        } else if let (Some(head), true, Some(sack_rtt)) = (head, updated, sack_rtt) {
            // The timer may start anew only if what was SACKed had been sent
            // after the head was: otherwise it would never fire.
            if sack_rtt > since(head.sent_us) {
                ack.set(seen::SET_TIMER);
            }
        }
        // Also when nothing was: of a D-SACK alone, say.
        let mut sample = ack.sample;
        sample.acked_sacked = acked;
        let facts = self.facts(&sample, echo, ack.echo);
        let decision = self.cc.pkts_acked(&facts);
        self.apply(decision);
    }

    /// Whether the echoed timestamp is from before `sent_us`.
    fn echo_is_before(&self, sent_us: u64) -> bool {
        let sent = ((sent_us / 1_000) as u32).wrapping_add(self.ts_offset);
        self.out
            .last_echo
            .is_some_and(|echo| (echo.wrapping_sub(sent) as i32) < 0)
    }

    /// `tcp_ack_update_rtt`: from segments never retransmitted, from SACKs, or
    /// from the echoed timestamp (Karn's rule, RFC 6298 §3, RFC 7323 §4).
    fn update_rtt(
        &mut self,
        seq_rtt: Option<u32>,
        sack_rtt: Option<u32>,
        mut ca_rtt: Option<u32>,
        ack: &mut Ack,
    ) -> bool {
        let mut rtt = seq_rtt.or(sack_rtt);
        if rtt.is_none() && ack.has(seen::DATA_ACKED) {
            if let Some(echo) = self.out.last_echo {
                let ms = self.timestamp().wrapping_sub(echo);
                if ms < 1 << 22 {
                    rtt = Some(ms.max(1) * 1_000);
                    ca_rtt = rtt;
                }
            }
        }
        ack.sample.rtt_us = ca_rtt.map_or(0, |r| r.max(1));
        let (Some(rtt), Some(ca_rtt)) = (rtt, ca_rtt) else {
            return false;
        };
        if !(ack.has(seen::MAYBE_DELAYED) && ca_rtt > self.rtt.min_us()) {
            self.rtt.sample_minimum(self.now, ca_rtt);
        }
        self.rtt.sample(rtt, self.snd.una, self.snd.next);
        self.emit(TcpEvent::RttSample(Duration::from_micros(u64::from(
            ca_rtt,
        ))));
        true
    }

    /// Without SACK: one segment filled the hole, the rest were the
    /// duplicates' (`tcp_remove_reno_sacks`).
    fn remove_reno_sacks(&mut self, acked: u32, ack: &mut Ack) {
        if acked > 0 {
            let newly = acked.saturating_sub(self.board.sacked_out).max(1);
            self.count_delivered(newly, ack.has(seen::ECE));
            self.board.sacked_out = self.board.sacked_out.saturating_sub(acked - 1);
        }
        self.limit_reno_sacks(acked);
        if ack.has(seen::RETRANS_ACKED) {
            ack.clear(seen::ORIGINAL_ACKED);
        }
    }

    /// Counts CE marks that the peer reports by AccECN. The ACE field of the ACK
    /// that completes the handshake is no counter (RFC 9768 §3.2.2.1).
    fn on_accurate_feedback(&mut self, tcp: &Tcp, delivered: u32, ack: &mut Ack) {
        if self.ecn.feedback != Feedback::Accurate || ack.has(seen::SYN_ACKED) {
            return;
        }
        if !self.accecn.check_first(tcp.flags.ace()) {
            self.ecn.capable = false;
            return;
        }
        if !ack.has(seen::PROGRESS | seen::TS_PROGRESS) {
            return;
        }
        let new_ce = self.accecn.ack_received(&AckFacts {
            ace: tcp.flags.ace(),
            option: tcp.options.accecn,
            delivered: self.rate.delivered.wrapping_sub(delivered),
            delivered_bytes: ack.delivered_bytes,
            bytes_sent: self.totals.bytes_sent,
            mss: self.agreed.mss,
            certain: self.agreed.sack || matches!(self.cong.state, CaState::Open | CaState::Cwr),
            delivered_ce: self.rate.delivered_ce,
        });
        if new_ce > 0 {
            self.rate.delivered_ce = self.rate.delivered_ce.wrapping_add(new_ce);
            ack.set(seen::ECE);
        }
    }

    fn in_ack_event(&mut self, ack: &Ack) {
        if !self.cc.sees_acks() {
            // The next hook's facts have the random word that they have always had.
            self.rng.draw_u64();
            return;
        }
        let facts = self.facts(&ack.sample, ack.has(seen::ECE), ack.echo);
        let decision = self.cc.in_ack_event(&facts);
        self.apply(decision);
    }

    /// Ends a tail-loss probe's episode (RFC 8985 §7.4; `tcp_process_tlp_ack`).
    fn end_tail_probe(&mut self, una: u64, ack: &Ack) {
        let Some(end) = self.out.tail_probe_end.filter(|end| una >= *end) else {
            return;
        };
        if !self.out.tail_probe_retransmitted || ack.has(seen::DSACK_TLP) {
            self.out.tail_probe_end = None;
        } else if una > end {
            // The probe repaired a loss: it counts as congestion.
            self.begin_reduction();
            self.set_ca_state(CaState::Cwr);
            self.end_reduction();
            self.try_keep_open();
            self.emit(TcpEvent::Recovery(RecoveryEvent::FastRetransmit));
        } else if !ack.has(seen::UNA_ADVANCED | seen::NOT_DUPLICATE | seen::DATA_SACKED) {
            self.out.tail_probe_end = None;
        }
    }

    /// The window after an acknowledgement (`tcp_cong_control`).
    fn control(&mut self, newly: u32, newly_lost: u32, ack: &Ack) {
        let ece = ack.has(seen::ECE);
        if self.rate_mode() {
            let facts = self.facts(&ack.sample, ece, ack.echo);
            let decision = self.cc.cong_control(&facts);
            self.apply(decision);
            return;
        }
        if self.cong.in_reduction() {
            self.reduce_cwnd(newly, newly_lost, ack.has(seen::UNA_ADVANCED));
        } else if self.may_raise_cwnd(ack) {
            let facts = self.facts(&ack.sample, ece, ack.echo);
            let decision = self.cc.cong_avoid(&facts, newly);
            self.apply(decision);
            self.stamp_cwnd();
        }
        self.update_pacing_rate();
    }

    /// With much reordering SACKs count as progress too.
    fn may_raise_cwnd(&self, ack: &Ack) -> bool {
        if self.cong.reordering > REORDERING {
            ack.has(seen::PROGRESS)
        } else {
            ack.has(seen::DATA_ACKED)
        }
    }
}
