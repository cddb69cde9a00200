//! Opening: active, passive and simultaneous, with options, ECN negotiation
//! and Fast Open.

use narrows_core::{Packet, PacketPool};
use narrows_units::{Duration, Instant};
use narrows_wire::tcp::FastOpenCookie;
use narrows_wire::{Ecn, Tcp, TcpFields, TcpFlags, TcpOptions};

use crate::ack::seen;
use crate::config::AccEcnOptionUse;
use crate::connection::Connection;
use crate::delayed_ack::DelayedAck;
use crate::ecn::{self, Feedback};
use crate::event::{TcpEvent, TcpState};
use crate::input::Arrived;
use crate::limits::Limit;
use crate::rack::TIMEOUT_MIN;
use crate::rate_sample::micros;
use crate::reassembly::Reassembly;
use crate::rtt::FALLBACK_RTO_US;
use crate::sequence;
use crate::timers::Purpose;

/// Bytes of options that a SYN may carry: what is left is for its data.
const OPTION_ROOM: usize = 40;

/// State of the handshake.
#[derive(Clone, Debug, Default)]
pub(crate) struct Handshake {
    /// A SYN or SYN-ACK is to be sent.
    pub(crate) due: bool,
    /// The ACK that completes it is to be sent, before any data.
    pub(crate) ack_due: bool,
    /// Timeouts of the SYN or SYN-ACK (`num_timeout`).
    pub(crate) timeouts: u32,
    /// How often it was sent again, also because the peer's SYN came again
    /// (`num_retrans`).
    pub(crate) sent_again: u32,
    /// It is over, one way or the other.
    pub(crate) finished: bool,
    /// Whether the congestion control runs.
    started: bool,
    pub(crate) sent_at: Instant,
    /// Timestamp of the first SYN or SYN-ACK.
    pub(crate) first_timestamp: u32,
    pub(crate) passive: bool,
    /// ACE field of the next ACK: what the SYN-ACK was marked with.
    pub(crate) reflect: Option<u8>,
    pub(crate) option_sent_at: Instant,
    /// When the congestion control began to run.
    pub(crate) begun_at: Instant,
    /// Payload bytes in the SYN.
    pub(crate) early: u64,
    /// Data in the SYN was acknowledged by the SYN-ACK, whichever end sent it.
    pub(crate) syn_data_acked: bool,
    /// Data in the SYN was accepted.
    pub(crate) accepted_early: bool,
    /// The cookie that the server gave.
    pub(crate) cookie: Option<FastOpenCookie>,
    pub(crate) give_cookie: Option<FastOpenCookie>,
}

impl Connection {
    /// Active open. Data written before the first
    /// [`poll_transmit`](Self::poll_transmit) may travel in the SYN.
    pub fn open(&mut self, now: Instant) {
        self.advance(now);
        if self.state != TcpState::Closed || self.handshake.finished {
            return;
        }
        self.state = TcpState::SynSent;
        self.handshake.due = true;
    }

    /// The SYN, SYN-ACK or final ACK that is due.
    pub(crate) fn transmit_handshake(&mut self, pool: &mut PacketPool) -> Option<Box<Packet>> {
        if !std::mem::take(&mut self.handshake.due) {
            return None;
        }
        if self.handshake.sent_again == 0 {
            self.handshake.first_timestamp = self.timestamp();
        }
        self.handshake.sent_at = self.now;
        self.snd.next = self.snd.next.max(self.snd.una + 1);
        let packet = if self.state == TcpState::SynSent {
            self.build_syn(pool)
        } else {
            self.build_syn_ack(pool)
        };
        if self.timers.purpose() != Purpose::Retransmit {
            let after = Duration::from_micros(self.rtt.rto_us);
            self.start_timer(Purpose::Retransmit, after);
        }
        Some(packet)
    }

    fn build_syn(&mut self, pool: &mut PacketPool) -> Box<Packet> {
        let again = self.handshake.sent_again;
        // A SYN that asks for ECN may have been dropped for that: RFC 3168
        // §6.1.1.1 gives up at once, RFC 9768 §3.1.4 after one more try.
        let request = match self.ecn.request {
            Feedback::Classic if again >= 1 => Feedback::None,
            Feedback::Accurate if again >= 2 => Feedback::None,
            request => request,
        };
        let mut options = TcpOptions {
            mss: Some(self.config.mss_for(self.path_mtu) as u16),
            window_scale: self.config.window_scaling.then_some(self.window.scale),
            sack_permitted: self.config.sack,
            timestamps: self.config.timestamps.then(|| (self.timestamp(), 0)),
            ..TcpOptions::default()
        };
        let mut scratch = std::mem::take(&mut self.out.scratch);
        scratch.clear();
        let mut early = 0;
        if self.config.fast_open && again == 0 {
            let cookie = self.config.fast_open_cookie.unwrap_or_default();
            options.fast_open = Some(cookie);
            if !cookie.as_slice().is_empty() {
                let room = u64::from(self.config.advertised_mss()) - OPTION_ROOM as u64;
                early = self.outgoing.len().min(room);
                let from = self.outgoing.start();
                self.outgoing.copy_prefix(from, from + early, &mut scratch);
                self.handshake.early = early;
                self.totals.bytes_sent += early;
                self.totals.data_segs_out += u32::from(early > 0);
            }
        }
        let window = self.window.offer_first(0);
        let mut fields = TcpFields {
            seq: self.snd.una as u32,
            flags: TcpFlags(TcpFlags::SYN | ecn::syn_flags(request)),
            window,
            options,
            ..TcpFields::default()
        };
        let packet = self.packet(
            pool,
            &mut fields,
            Ecn::NotEct,
            &scratch,
            early as u32 - scratch.len() as u32,
        );
        self.out.scratch = scratch;
        packet
    }

    fn build_syn_ack(&mut self, pool: &mut PacketPool) -> Box<Packet> {
        let mut options = TcpOptions {
            mss: Some(self.config.advertised_mss() as u16),
            window_scale: (self.window.scale > 0 || self.agreed.peer_scale > 0)
                .then_some(self.window.scale),
            sack_permitted: self.agreed.sack,
            timestamps: self
                .agreed
                .timestamps
                .then(|| (self.timestamp(), self.ts_recent)),
            fast_open: self.handshake.give_cookie,
            ..TcpOptions::default()
        };
        let mut ace_flags = self.ecn.syn_ack_flags();
        if self.ecn.feedback == Feedback::Accurate {
            // A SYN-ACK that was lost may have been lost for its option, then for
            // its flags (RFC 9768 §3.2.3.2.2; so Linux v7.0). Feedback stays
            // accurate, but ECT is not set after flags of zero (§3.1.5). That of a
            // simultaneous open has the option once more, and keeps its flags
            // (`tcp_syn_options`, v6.18).
            let passive = self.handshake.passive;
            let option_due = match passive {
                true => self.handshake.sent_again == 0,
                false => self.handshake.timeouts < 2,
            };
            if option_due && self.config.accecn_option != AccEcnOptionUse::Off {
                self.accecn.fit(&mut options, 0, OPTION_ROOM);
            }
            if passive && self.handshake.timeouts > 1 {
                ace_flags = 0;
                self.ecn.capable = false;
            }
        }
        let window = self.window.offer_first(self.incoming.next);
        let mut fields = TcpFields {
            seq: self.snd.una as u32,
            ack: self.incoming.next as u32,
            flags: TcpFlags(TcpFlags::SYN | TcpFlags::ACK | ace_flags),
            window,
            options,
            ..TcpFields::default()
        };
        self.packet(pool, &mut fields, Ecn::NotEct, &[], 0)
    }

    /// A segment for a listening end.
    pub(crate) fn on_listen(&mut self, a: &Arrived<'_>) {
        let flags = a.tcp.flags;
        if flags.has(TcpFlags::RST) {
            // RFC 9293 §3.10.7.2, first step.
            return;
        }
        if flags.has(TcpFlags::ACK) {
            // Of an earlier connection (RFC 9293 §3.10.7.2, second step).
            self.config.remote = a.from();
            self.out.stray_reset = Some(a.tcp.ack);
            return;
        }
        if !flags.has(TcpFlags::SYN) || flags.has(TcpFlags::FIN) {
            // Dropped without an answer, the SYN with a FIN as in Linux.
            return;
        }
        self.config.remote = a.from();
        self.handshake.passive = true;
        self.take_syn_options(a);
        self.ecn.syn_received(flags.ace(), a.ecn);
        if self.ecn.feedback == Feedback::Accurate {
            self.accecn.handshake_received(a.ecn);
        }
        self.consider_fast_open(a);
        self.state = TcpState::SynReceived;
        self.handshake.due = true;
    }

    /// What a SYN or SYN-ACK says of its sender.
    fn take_syn_options(&mut self, a: &Arrived<'_>) {
        let options = &a.tcp.options;
        let first = sequence::first(a.tcp.seq) + 1;
        self.incoming = Reassembly::starting_at(first);
        self.first_received = first;
        let scaling = self.config.window_scaling && options.window_scale.is_some();
        if scaling {
            // RFC 7323 §2.3: a larger shift is taken for 14.
            self.agreed.peer_scale = options.window_scale.unwrap_or(0).min(14);
        } else {
            self.window.disable_scaling();
        }
        self.agreed.sack = self.config.sack && options.sack_permitted;
        self.agreed.timestamps = self.config.timestamps && options.timestamps.is_some();
        if let Some((value, _)) = options.timestamps.filter(|_| self.agreed.timestamps) {
            self.ts_recent = value;
            self.ts_recent_at = self.now;
        }
        let option_bytes = self.header_len() - 20;
        let own_mss = self.config.advertised_mss() - option_bytes;
        self.window.start(first, own_mss);
        // RFC 9293 §3.7.1 where the option is missing, for IPv6 too as in Linux
        // (`TCP_MSS_DEFAULT`); at least `TCP_MIN_MSS`.
        self.agreed.peer_mss = u32::from(options.mss.unwrap_or(536)).max(88);
        self.begin_mtu_search();
        self.set_mss();
        // The window of a SYN is not scaled (RFC 7323 §2.2).
        self.snd.size = u64::from(a.tcp.window);
        self.snd.largest = self.snd.size;
        self.snd.updated_by = first - 1;
        self.delack = DelayedAck::new(
            self.agreed
                .mss
                .min((self.window.offered() / 2).min(u64::from(u32::MAX)) as u32),
        );
    }

    /// A segment for an end that has sent a SYN.
    pub(crate) fn on_syn_sent(&mut self, a: &Arrived<'_>) {
        let flags = a.tcp.flags;
        let una = sequence::expand(a.tcp.ack, self.snd.una);
        if flags.has(TcpFlags::ACK)
            && (una <= self.snd.una || una > self.snd.next + self.handshake.early)
        {
            // An answer to something else: the peer remembers an old
            // connection (RFC 9293 §3.5.2). It is tried again at once, as what is
            // ignored may have been its end.
            if !flags.has(TcpFlags::RST) {
                self.out.stray_reset = Some(a.tcp.ack);
            }
            if self.handshake.timeouts == 0 {
                self.start_timer(Purpose::Retransmit, TIMEOUT_MIN);
            }
            return;
        }
        if flags.has(TcpFlags::ACK) && !self.echoes_handshake(a.tcp, self.timestamp()) {
            if !flags.has(TcpFlags::RST) {
                self.out.stray_reset = Some(a.tcp.ack);
            }
            return;
        }
        if flags.has(TcpFlags::RST) {
            // Only a reset that acknowledges the SYN counts (RFC 9293 §3.10.7.3).
            if flags.has(TcpFlags::ACK) {
                self.enter_closed(Some(TcpEvent::Reset));
            }
            return;
        }
        if !flags.has(TcpFlags::SYN) {
            return;
        }
        self.take_syn_options(a);
        if !flags.has(TcpFlags::ACK) {
            // Both ends opened at once (RFC 9293 §3.5 figure 7). Data of the peer's SYN is
            // not taken; that of our own is sent again when a timer expires. Nothing is
            // agreed upon for which our SYN did not ask (`tcp_ecn_rcv_syn`).
            if self.handshake.early > 0 {
                self.put_early_data_on_board();
            }
            self.ecn.grant = self.ecn.request;
            self.ecn.syn_received(flags.ace(), a.ecn);
            self.refuse_fallback();
            if self.ecn.feedback == Feedback::Accurate {
                self.accecn.handshake_received(a.ecn);
            }
            self.state = TcpState::SynReceived;
            self.handshake.due = true;
            return;
        }
        self.ecn.syn_ack_received(flags.ace(), a.ecn);
        self.refuse_fallback();
        if self.ecn.feedback == Feedback::Accurate {
            self.accecn.handshake_received(a.ecn);
            self.accecn.handshake_option(a.tcp.options.accecn);
        }
        if let Some(cookie) = a.tcp.options.fast_open {
            self.handshake.cookie = Some(cookie).filter(|c| !c.as_slice().is_empty());
        }
        self.syn_acknowledged(a, una);
        // Data of the SYN that was not taken is lost: it is sent again at once and
        // acknowledges the SYN-ACK (`tcp_rcv_fastopen_synack`).
        let early = self.handshake.early;
        let refused = early > 0 && una < self.snd.start + early;
        if !refused {
            self.acknowledge_syn_ack(a.ecn);
        }
        self.state = TcpState::Established;
        self.start_transfer();
        if refused {
            self.resend_early_data();
        }
        self.establish();
        if self.config.fast_open && !refused {
            self.take_early_data(a);
        }
    }

    /// L4STeam's tree: an algorithm for Accurate ECN runs without ECN rather than with
    /// classic feedback.
    fn refuse_fallback(&mut self) {
        if self.ecn.feedback == Feedback::Classic && self.cc.needs().accecn {
            self.ecn.feedback = Feedback::None;
            self.ecn.capable = false;
        }
    }

    /// Whether the timestamp that a segment echoes, if it does, was sent between our first
    /// SYN or SYN-ACK and `last` (`tcp_rcv_synsent_state_process`; `tcp_check_req`, since
    /// v6.15).
    fn echoes_handshake(&self, tcp: &Tcp, last: u32) -> bool {
        let first = self.handshake.first_timestamp;
        let echo = tcp
            .options
            .timestamps
            .filter(|t| self.config.timestamps && t.1 != 0);
        echo.is_none_or(|(_, echo)| echo.wrapping_sub(first) <= last.wrapping_sub(first))
    }

    /// A SYN-ACK marked `ecn` came: it is acknowledged before any data, and the ACE
    /// field of that ACK says how it was marked (RFC 9768 §3.2.2.1).
    fn acknowledge_syn_ack(&mut self, ecn: Ecn) {
        if self.ecn.feedback == Feedback::Accurate {
            self.handshake.reflect = Some(ecn::reflect(ecn));
        }
        self.handshake.ack_due = true;
    }

    /// Our SYN, and data in it, are acknowledged up to `una`.
    fn syn_acknowledged(&mut self, a: &Arrived<'_>, una: u64) {
        self.snd.una = una;
        self.snd.next = self.snd.next.max(una);
        self.push_marks.acknowledged_with_syn(una);
        self.snd.small_end = self.snd.small_end.max(una);
        let early = self.handshake.early;
        self.handshake.syn_data_acked |= early > 0 && self.bytes_acked() > early;
        let to = una.min(self.outgoing.end());
        if to > self.outgoing.start() {
            self.outgoing.release(to);
        }
        self.totals.end_timeouts(self.now);
        self.timers.stop();
        self.rtt.reset_backoff();
        self.rate.delivered = self.rate.delivered.wrapping_add(1);
        // Karn's rule (RFC 6298 §3): of a SYN that was sent again only the echoed
        // timestamp gives a round trip.
        let sample_us = if self.handshake.sent_again == 0 {
            Some(micros(
                self.now.as_micros(),
                self.handshake.sent_at.as_micros(),
            ))
        } else {
            a.tcp
                .options
                .timestamps
                .filter(|t| self.agreed.timestamps && t.1 != 0)
                .map(|t| self.timestamp().wrapping_sub(t.1).max(1) * 1_000)
        };
        match sample_us {
            Some(us) => {
                let us = us.max(1);
                self.rtt.sample_minimum(self.now, us);
                self.rtt.sample(us, self.snd.una, self.snd.next);
            }
            // RFC 6298 §5.7.
            None => self.rtt.rto_us = FALLBACK_RTO_US,
        }
    }

    /// The congestion control begins (`tcp_init_transfer`).
    pub(crate) fn start_transfer(&mut self) {
        if std::mem::replace(&mut self.handshake.started, true) {
            return;
        }
        if self.ecn.feedback != Feedback::Accurate && self.cc.needs().accecn {
            self.cc.ecn_refused();
            // Its packets would claim to be L4S without the feedback for it.
            self.ecn.capable = false;
        } else if self.ecn.feedback == Feedback::None && self.cc.needs().ecn {
            self.cc.ecn_refused();
        }
        if self.handshake.sent_again > 1 && self.handshake.timeouts > 0 {
            // RFC 5681 §3.1 has this after one lost SYN; Linux after the second.
            self.cong.cwnd = 1;
        }
        let read = self.incoming.data.start();
        self.window.begin_transfer(self.now, read);
        let facts = self.plain_facts();
        let decision = self.cc.init(&facts);
        self.apply(decision);
        self.update_pacing_rate();
        self.stamp_cwnd();
        // A socket that a listener made on the last ACK begins with the SYN as
        // received (`tcp_create_openreq_child`).
        if self.handshake.passive && self.state != TcpState::Listen {
            self.totals.segs_in = 1;
        }
        self.handshake.begun_at = self.now;
        self.last_ack_received = self.now;
        self.delack.last_data = self.now;
    }

    /// Whether there is more of this end than a listener and its memory of a
    /// SYN (Linux's request sock): counters are a socket's.
    pub(crate) fn has_socket(&self) -> bool {
        !self.handshake.passive && self.state != TcpState::Listen || self.handshake.started
    }

    /// Both ends agree.
    fn establish(&mut self) {
        self.handshake.finished = true;
        self.handshake.due = false;
        self.update_pacing_rate();
        self.limits.set(self.now, Limit::Application);
        self.start_keep_alive();
        self.emit(TcpEvent::Established {
            ecn: self.ecn.feedback == Feedback::Classic,
            accecn: self.ecn.feedback == Feedback::Accurate,
        });
    }

    /// A segment for an end that has answered a SYN. Returns whether it is to
    /// be processed further.
    pub(crate) fn on_syn_received(&mut self, a: &Arrived<'_>) -> bool {
        let flags = a.tcp.flags;
        if flags.has(TcpFlags::RST) {
            // RFC 5961 §3.2; who opened passively listens again (RFC 9293 §3.10.7.4).
            let exact = a.seq == self.incoming.next;
            if exact && self.handshake.passive && !self.handshake.accepted_early {
                self.listen_again();
            } else if exact {
                self.enter_closed(Some(TcpEvent::Reset));
            }
            return false;
        }
        let una = sequence::expand(a.tcp.ack, self.snd.una);
        let acks_syn =
            flags.has(TcpFlags::ACK) && una > sequence::first(self.iss) && una <= self.snd.next;
        if flags.has(TcpFlags::SYN) {
            let same = a.seq + 1 == self.incoming.next
                || self.handshake.accepted_early && a.seq < self.incoming.next;
            // The peer's SYN-ACK completes a simultaneous open, if it acknowledges all that
            // our SYN had; otherwise it is answered with what completes the peer's.
            let crossed = same && acks_syn && !self.handshake.passive;
            if crossed && una < self.snd.next {
                self.challenge_with_reflection();
                return false;
            }
            if !crossed {
                if same {
                    self.answer_repeated_syn();
                }
                return false;
            }
        } else if !acks_syn {
            if flags.has(TcpFlags::ACK) {
                // RFC 9293 §3.10.7.4, fifth step, SYN-RECEIVED.
                self.out.stray_reset = Some(a.tcp.ack);
            }
            return false;
        }
        let request = self.handshake.passive && !self.handshake.accepted_early;
        let sent = self.timestamp_at(self.handshake.sent_at);
        let foreign = request && self.agreed.timestamps && !self.echoes_handshake(a.tcp, sent);
        if self.is_old_timestamp(a.tcp) || foreign {
            // PAWS (RFC 7323 §5.3).
            self.challenge();
            return false;
        }
        // The new connection begins with the timestamp of the segment that made
        // it, which therefore is no news to it (`tcp_check_req`).
        self.replace_ts_recent(a.tcp, a.seq);
        if self.ecn.feedback == Feedback::Accurate {
            self.check_reflection(a);
            if self.handshake.passive || a.tcp.options.accecn.is_some() {
                self.accecn.handshake_option(a.tcp.options.accecn);
            }
        }
        self.syn_acknowledged_by_ack(a, una);
        if matches!(self.state, TcpState::SynReceived) {
            self.state = TcpState::Established;
        }
        self.start_transfer();
        self.establish();
        if flags.has(TcpFlags::SYN) {
            if self.board.packets_out > 0 {
                self.on_ack(a.tcp, a.seq, 1, seen::SYN_ACKED);
            }
            // The SYN came before: RFC 2883 §4.1.
            self.incoming.report_duplicate(a.seq, a.seq + 1);
            self.acknowledge_syn_ack(a.ecn);
            return false;
        }
        true
    }

    /// The peer's SYN came again: the SYN-ACK is sent again, at most every half
    /// second, and its timer starts anew (`tcp_check_req`).
    fn answer_repeated_syn(&mut self) {
        if !self.handshake.due && self.may_challenge() {
            self.handshake.due = true;
            self.handshake.sent_again += 1;
            self.totals.retransmits += 1;
            self.timers.stop();
        }
    }

    fn syn_acknowledged_by_ack(&mut self, a: &Arrived<'_>, una: u64) {
        let syn_end = sequence::first(self.iss) + 1;
        let early_out = self.board.packets_out > 0;
        if early_out {
            // Data of a server that began early stays on the board; the
            // acknowledgement is processed like any other afterwards.
            let next = self.snd.next;
            self.syn_acknowledged(a, syn_end);
            self.snd.next = next;
            if self.handshake.passive {
                self.rearm_retransmission();
            } else {
                self.set_transmit_timer();
            }
        } else {
            self.syn_acknowledged(a, una.min(syn_end));
        }
        self.snd.size = self.offered_by(a.tcp);
        self.snd.largest = self.snd.largest.max(self.snd.size);
        self.snd.updated_by = a.seq;
    }

    /// The last ACK of the handshake says how our SYN-ACK, never ECN-capable,
    /// was marked (RFC 9768 table 4). A field of zero, or another marking than
    /// was sent, means that the path garbles it: then nothing is sent
    /// ECN-capable.
    ///
    /// Only an ACK without data, SYN or SACK blocks reflects it surely, and what has blocks
    /// is not the first that left (`tcp_accecn_third_ack`, v6.18).
    fn check_reflection(&mut self, a: &Arrived<'_>) {
        let first = a.tcp.options.sack.as_slice().is_empty();
        let ace = if first {
            a.tcp.flags.ace()
        } else {
            ecn::reflect(Ecn::NotEct)
        };
        let garbled = a.is_pure_ack() && ecn::reflected(ace).is_some_and(|e| e != Ecn::NotEct);
        if !self.accecn.check_first(ace) || garbled {
            self.ecn.capable = false;
        }
    }

    /// A handshake was reset: wait for another.
    fn listen_again(&mut self) {
        let config = self.config.clone();
        let rng = self.rng.clone();
        let now = self.now;
        *self = Self::server(config, rng);
        self.now = now;
    }
}
