//! A segment arrives (`tcp_rcv_state_process`, `tcp_rcv_established`,
//! `tcp_data_queue`, `__tcp_ack_snd_check`; Linux `net/ipv4/tcp_input.c`,
//! v6.17).

use std::net::{IpAddr, SocketAddr};

use narrows_core::Packet;
use narrows_units::{Duration, Instant};
use narrows_wire::{Ecn, Ip, Tcp, TcpFlags, ip};

use crate::ack::seen;
use crate::config::ReceiveTuning;
use crate::connection::Connection;
use crate::delayed_ack::MAX_QUICK_ACKS;
use crate::ecn::Feedback;
use crate::event::{TcpEvent, TcpState};
use crate::reassembly::Arrival;

/// Duplicate ACKs that are never compressed (`TCP_FASTRETRANS_THRESH` 3).
const UNCOMPRESSED: u8 = 3;
/// Most ACKs compressed into one (`tcp_comp_sack_nr` 44).
const COMPRESSED_MAX: u32 = 44;
/// Longest delay of a compressed ACK (`tcp_comp_sack_delay_ns` 1 ms).
const COMPRESSED_DELAY: Duration = Duration::from_millis(1);

/// ACKs of out-of-order data that wait to be sent as one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SackCompression {
    /// ACKs not sent.
    pub(crate) pending: u32,
    at: u64,
    sent: u8,
}

/// A segment as it came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived<'a> {
    source: IpAddr,
    pub(crate) tcp: &'a Tcp,
    pub(crate) ecn: Ecn,
    /// Inner number of its first byte.
    pub(crate) seq: u64,
    /// Payload bytes.
    pub(crate) len: u32,
    /// The stored ones of them; the rest are zeros.
    pub(crate) payload: &'a [u8],
}

impl Arrived<'_> {
    pub(crate) fn from(&self) -> SocketAddr {
        SocketAddr::new(self.source, self.tcp.source_port)
    }

    /// An ACK that takes no sequence number.
    pub(crate) fn is_pure_ack(&self) -> bool {
        self.tcp.flags.has(TcpFlags::ACK) && self.end() == self.seq
    }

    pub(crate) fn end(&self) -> u64 {
        let flags = self.tcp.flags;
        self.seq
            + u64::from(self.len)
            + u64::from(flags.has(TcpFlags::SYN))
            + u64::from(flags.has(TcpFlags::FIN))
    }
}

impl Connection {
    /// Takes a packet of this connection that starts at its IP header. The
    /// caller has matched addresses and ports; a host has verified checksums.
    /// What is no TCP segment is ignored.
    pub fn receive(&mut self, now: Instant, packet: &Packet) {
        self.advance(now);
        self.begin_interrupt();
        let Ok(ip) = Ip::parse(&packet.bytes) else {
            return;
        };
        if ip.protocol != ip::TCP || ip.fragment_offset != 0 || ip.more_fragments {
            return;
        }
        let Ok(tcp) = Tcp::parse(&packet.bytes[ip.header_len..]) else {
            return;
        };
        let start = ip.header_len + tcp.header_len;
        let Some(len) = ip.total_len.checked_sub(start) else {
            return;
        };
        let stored = &packet.bytes[start.min(packet.bytes.len())..];
        let arrived = Arrived {
            source: ip.source,
            ecn: ip.ecn(),
            seq: self.peer_number(tcp.seq),
            len: len as u32,
            payload: &stored[..stored.len().min(len)],
            tcp: &tcp,
        };
        match self.state {
            TcpState::Closed => {}
            TcpState::Listen => self.on_listen(&arrived),
            TcpState::SynSent => self.on_syn_sent(&arrived),
            TcpState::TimeWait => self.on_time_wait(&arrived),
            // In SYN-RECEIVED, or a server that began early and has sent its
            // FIN already.
            _ if !self.handshake.finished => {
                if self.on_syn_received(&arrived) {
                    self.on_segment(&arrived, seen::SYN_ACKED);
                }
            }
            _ => self.on_segment(&arrived, 0),
        }
        self.count_arrival(arrived.len);
    }

    /// Counts a segment with `len` payload bytes (`tcp_segs_in`), but not what
    /// comes before a passive opener has a socket of its own.
    fn count_arrival(&mut self, len: u32) {
        if self.has_socket() {
            let t = &mut self.totals;
            t.segs_in = t.segs_in.wrapping_add(1);
            t.data_segs_in = t.data_segs_in.wrapping_add(u32::from(len > 0));
        }
    }

    /// A segment of a synchronised connection; `flags` is `SYN_ACKED` for the one
    /// that completes the handshake.
    fn on_segment(&mut self, a: &Arrived<'_>, flags: u32) {
        if !self.validate(a) {
            return;
        }
        self.count_ecn(a);
        if !a.tcp.flags.has(TcpFlags::ACK) {
            return;
        }
        let taken = a.end() - a.seq;
        if !self.on_ack(a.tcp, a.seq, taken, flags) {
            return;
        }
        self.note_fin_acked(a);
        if matches!(self.state, TcpState::Closed | TcpState::TimeWait) {
            return;
        }
        if taken > 0 {
            self.on_data(a);
        }
        self.check_ack_due(true);
        // Linux sends what waits (`tcp_data_snd_check`), then the ACK (`tcp_ack_snd_check`);
        // the application runs after that.
        self.out.ack_before_answer = self.out.ack && self.unsent() == 0;
    }

    /// RFC 9293 §3.10.7.4 first steps with RFC 5961 and PAWS (RFC 7323 §5).
    /// Returns whether the segment goes further.
    fn validate(&mut self, a: &Arrived<'_>) -> bool {
        let flags = a.tcp.flags;
        // PAWS (RFC 7323 §5.3, R1).
        if self.fails_paws(a.tcp) && !flags.has(TcpFlags::RST) && !self.is_harmless_old_ack(a) {
            // Old ACKs are common, and nobody waits for an answer (since v6.14).
            let old_ack = a.is_pure_ack() && a.seq < self.incoming.next;
            if flags.has(TcpFlags::SYN) {
                self.challenge_with_reflection();
            } else if !old_ack {
                self.answer_unacceptable(a);
            }
            return false;
        }
        if !self.is_acceptable(a) {
            if flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::RST) {
                self.challenge_with_reflection();
            } else if !flags.has(TcpFlags::RST) {
                self.answer_unacceptable(a);
            } else if self.resets_after_fin(a) {
                self.enter_closed(Some(TcpEvent::Reset));
            }
            return false;
        }
        if flags.has(TcpFlags::RST) {
            // RFC 5961 §3.2: within the window but not exact is challenged. Who has SACKs
            // may be reset by a peer that goes on from the last of them.
            let exact = a.seq == self.incoming.next
                || self.resets_after_fin(a)
                || self.agreed.sack && self.incoming.highest_block_end() == Some(a.seq);
            if exact {
                self.enter_closed(Some(TcpEvent::Reset));
            } else {
                self.challenge();
            }
            return false;
        }
        if flags.has(TcpFlags::SYN) {
            // RFC 5961 §4.2.
            self.challenge_with_reflection();
            return false;
        }
        true
    }

    /// RFC 9293 §3.10.7.4, first step. Linux takes any segment that touches the window
    /// (`tcp_sequence`), but since v6.17 one that ends beyond it only while nothing waits
    /// to be read. A FIN may be beyond the window, as in v6.12 and v7.2; v6.17 has that
    /// wait, too.
    fn is_acceptable(&self, a: &Arrived<'_>) -> bool {
        let edge = self.incoming.next + self.window.open(self.incoming.next);
        let end = a.end();
        let without_fin = end - u64::from(a.tcp.flags.has(TcpFlags::FIN));
        end >= self.window.offered_at
            && (without_fin <= edge || a.seq <= edge && self.incoming.readable() == 0)
    }

    /// After the peer's FIN a reset may be numbered as that FIN was
    /// (`tcp_reset_check`).
    fn resets_after_fin(&self, a: &Arrived<'_>) -> bool {
        a.seq + 1 == self.incoming.next
            && matches!(
                self.state,
                TcpState::CloseWait | TcpState::LastAck | TcpState::Closing
            )
    }

    /// A segment outside the window is answered with an ACK; if it repeats
    /// what was received, with a D-SACK, and quickly from then on.
    fn answer_unacceptable(&mut self, a: &Arrived<'_>) {
        if a.len > 0 && a.seq < self.incoming.next {
            self.delack
                .enter_quick_mode(MAX_QUICK_ACKS, self.window.offered());
            let right = a.end().min(self.incoming.next);
            // RFC 2883 §4.
            self.incoming.report_duplicate(a.seq, right);
            self.out.ack = true;
        } else if a.len > 0 {
            self.out.ack = true;
        } else {
            self.challenge();
        }
    }

    /// A SYN on a live connection (RFC 5961 §4): the challenge ACK for a repeated
    /// SYN-ACK reflects its ECN field again (RFC 9768 §3.2.2.1).
    pub(crate) fn challenge_with_reflection(&mut self) {
        if self.ecn.feedback == Feedback::Accurate {
            self.handshake.reflect = Some(crate::ecn::reflect(self.ecn.syn_came_with));
        }
        self.challenge();
    }

    /// Counts the packet's ECN field and processes its ECN flags.
    fn count_ecn(&mut self, a: &Arrived<'_>) {
        // With classic ECN only data says whether the peer uses it.
        self.ecn.seen |= self.ecn.feedback != Feedback::Classic && a.ecn != Ecn::NotEct;
        match self.ecn.feedback {
            Feedback::None => {}
            Feedback::Accurate => {
                // Change-triggered and increment-triggered ACKs (RFC 9768 §3.2.2.5.1).
                if self.accecn.packet_received(a.ecn, a.len) || self.accecn.overdue() {
                    self.delack.now = true;
                }
            }
            Feedback::Classic => {
                if a.tcp.flags.has(TcpFlags::CWR) {
                    // RFC 3168 §6.1.3.
                    self.ecn.echo = false;
                    if a.len > 0 {
                        self.delack.now = true;
                    }
                }
            }
        }
    }

    /// Our FIN may have been acknowledged (RFC 9293 §3.10.7.4, fifth step).
    fn note_fin_acked(&mut self, a: &Arrived<'_>) {
        if self.snd.fin.is_none_or(|fin| self.snd.una <= fin) {
            return;
        }
        match self.state {
            TcpState::FinWait1 => {
                self.state = TcpState::FinWait2;
                self.only_numbers = self.orphaned && !a.tcp.flags.has(TcpFlags::FIN);
            }
            TcpState::Closing => self.enter_time_wait(),
            TcpState::LastAck => self.enter_closed(Some(TcpEvent::Closed)),
            _ => {}
        }
    }

    /// Payload or FIN (`tcp_data_queue`).
    fn on_data(&mut self, a: &Arrived<'_>) {
        if a.end() <= self.incoming.next {
            // All of it was received before, the FIN included: D-SACK (RFC 2883 §4.1).
            self.delack
                .enter_quick_mode(MAX_QUICK_ACKS, self.window.offered());
            self.delack.schedule();
            self.incoming.report_duplicate(a.seq, a.end());
            return;
        }
        let fin = a.tcp.flags.has(TcpFlags::FIN);
        let next = self.incoming.next;
        let open = self.window.open(next);
        let end = a.seq + u64::from(a.len);
        if a.seq > next && a.seq >= next + open || open == 0 && end > next {
            // Beyond the window (RFC 9293 §3.10.7.4, first step); a FIN that is next is
            // taken even where the window is shut.
            if a.seq < next {
                // RFC 2883 §4.1.
                self.incoming.report_duplicate(a.seq, next);
            }
            self.delack
                .enter_quick_mode(MAX_QUICK_ACKS, self.window.offered());
            self.delack.schedule();
            return;
        }
        if a.len > 0 {
            let had_gap = self.incoming.has_gap();
            let waits = self.incoming.readable() > 0;
            if a.seq > next {
                self.measure_peer_mss(a);
            }
            match self.incoming.take(a.seq, end, a.payload) {
                Arrival::InOrder => self.after_in_order(a, had_gap, waits),
                // Acknowledged at once (RFC 5681 §4.2), as it leaves a gap.
                Arrival::OutOfOrder => {
                    self.totals.ooo_segs_in = self.totals.ooo_segs_in.wrapping_add(1);
                    self.process_data_ecn(a.ecn);
                    self.delack.schedule();
                    if self.incoming.take_block_dropped() && self.sack_compression.pending > 0 {
                        self.out.ack = true;
                    }
                    if self.window.grow(a.len, self.incoming.held()) {
                        self.delack.window_grew();
                    }
                    self.window.make_room_for(self.out_of_order_span());
                }
                Arrival::Duplicate => {
                    self.delack
                        .enter_quick_mode(MAX_QUICK_ACKS, self.window.offered());
                    self.delack.schedule();
                }
            }
        }
        if fin {
            self.delack.schedule();
            self.incoming.take_fin(end);
        }
        if self.incoming.finished() {
            self.on_peer_closed();
        }
    }

    /// What `a` shows of the peer's segment size and of memory (`tcp_measure_rcv_mss`).
    fn measure_peer_mss(&mut self, a: &Arrived<'_>) {
        let pushed = a.tcp.flags.has(TcpFlags::PSH) || a.tcp.flags.has(TcpFlags::FIN);
        if a.len > self.delack.peer_mss {
            self.window.measure_overhead(a.len);
        }
        self.delack
            .measure_peer_mss(a.len, pushed, self.config.advertised_mss());
    }

    /// `a` came in order; before it there may have been a gap, and data that waits to be read.
    fn after_in_order(&mut self, a: &Arrived<'_>, had_gap: bool, waits: bool) {
        let rto = Duration::from_micros(self.rtt.rto_us);
        self.measure_peer_mss(a);
        self.delack
            .data_received(self.now, self.window.offered(), rto);
        self.window.measure_rtt(self.now, self.incoming.next);
        if let Some((_, echo)) = a.tcp.options.timestamps.filter(|t| t.1 != 0) {
            if a.len >= self.delack.peer_mss {
                let age = self.timestamp().wrapping_sub(echo);
                let age = Duration::from_millis(u64::from(age));
                self.window.measure_rtt_by_echo(echo, age, waits);
            }
        }
        self.process_data_ecn(a.ecn);
        if self.window.grow(a.len, self.incoming.held()) {
            self.delack.window_grew();
        }
        // A filled gap is acknowledged at once (RFC 5681 §4.2).
        if had_gap && !self.incoming.has_gap() {
            self.delack.now = true;
        }
        self.emit(TcpEvent::Readable);
    }

    fn process_data_ecn(&mut self, ecn: Ecn) {
        if self.ecn.feedback != Feedback::None && self.ecn.data_received(ecn) {
            self.delack.enter_quick_mode(2, self.window.offered());
        }
    }

    /// The peer's FIN is in order (`tcp_fin`).
    pub(crate) fn on_peer_closed(&mut self) {
        match self.state {
            TcpState::Established => {
                self.state = TcpState::CloseWait;
                self.delack.become_interactive();
            }
            TcpState::FinWait1 => {
                self.state = TcpState::Closing;
                self.out.ack = true;
            }
            TcpState::FinWait2 if self.only_numbers => {
                self.out.time_wait_ack = Some(self.time_wait_ecn());
            }
            TcpState::FinWait2 => self.out.ack = true,
            _ => return,
        }
        self.emit(TcpEvent::PeerClosed);
        if self.state == TcpState::FinWait2 {
            self.enter_time_wait();
        }
    }

    /// Whether an ACK leaves now, later, or not at all.
    pub(crate) fn check_ack_due(&mut self, may_hold: bool) {
        if !self.delack.scheduled {
            return;
        }
        if let Some(gro) = self.config.host.gro.filter(|_| may_hold) {
            // Segments that come close together are taken as one.
            if !self.incoming.has_gap() && !self.delack.pushed {
                self.gro_count += 1;
                if self.gro_count < gro.max_segments {
                    self.timers.gro.get_or_insert(self.now + gro.hold);
                    return;
                }
            }
            self.gro_count = 0;
            self.timers.gro = None;
        }
        // RFC 5681 §4.2: an ACK for every second full-sized segment.
        let unacked = self.incoming.next.saturating_sub(self.window.offered_at);
        let two_segments = unacked > u64::from(self.delack.peer_mss)
            && self.possible_window() >= self.window.offered();
        if two_segments || self.delack.in_quick_mode() || self.delack.now {
            self.out.ack = true;
            return;
        }
        if !self.incoming.has_gap() {
            let deadline = self.delack.deadline;
            if self.delack.delay(self.now, self.rtt.srtt()) {
                self.out.ack = true;
            } else if self.delack.deadline != deadline {
                if let Some(d) = self.delack.deadline {
                    self.delack.deadline = Some(self.tick_up(d, d.since(self.now)));
                }
            }
            return;
        }
        self.compress_sack();
    }

    /// Under loss, ACKs after the third may wait for a twentieth of a round
    /// trip, so that a burst gives one.
    fn compress_sack(&mut self) {
        let c = &mut self.sack_compression;
        if !self.agreed.sack || !self.config.host.compress_sacks || c.pending >= COMPRESSED_MAX {
            self.out.ack = true;
            return;
        }
        if c.at != self.incoming.next {
            c.at = self.incoming.next;
            c.sent = 0;
        }
        if c.sent < UNCOMPRESSED {
            c.sent += 1;
            self.out.ack = true;
            return;
        }
        c.pending += 1;
        if self.timers.sack.is_none() {
            let delay = COMPRESSED_DELAY.min(self.shorter_rtt() / 20);
            self.timers.sack = Some(self.now + delay);
        }
    }

    /// From what is due next to the end of what came out of order, if the receive buffer makes room
    /// for that.
    fn out_of_order_span(&self) -> u64 {
        if self.config.host.receive_tuning == ReceiveTuning::V6_15 {
            return 0;
        }
        let end = self.incoming.highest_block_end();
        end.map_or(0, |end| end.saturating_sub(self.incoming.next))
    }

    /// The window that an ACK could offer now.
    fn possible_window(&self) -> u64 {
        self.window
            .possible(self.incoming.held(), self.delack.peer_mss)
    }

    /// The application has read `n` bytes: an ACK that waited for it, or a
    /// larger window, may be due (`tcp_cleanup_rbuf`).
    pub(crate) fn after_read(&mut self, n: u64) {
        if n == 0 || !self.handshake.finished && !self.handshake.accepted_early {
            return;
        }
        let waits = self.incoming.readable();
        let span = self.out_of_order_span();
        self.window
            .adapt(self.now, self.incoming.data.start(), waits, span);
        let unacked = self.incoming.next.saturating_sub(self.window.offered_at);
        let d = &self.delack;
        let pushed = d.pushed_twice || d.pushed && !d.interactive();
        if d.scheduled
            && (unacked > u64::from(d.peer_mss) || pushed && self.incoming.readable() == 0)
        {
            if self.config.host.gro.is_none() || self.timers.gro.is_none() {
                self.out.ack = true;
            }
            return;
        }
        if self.incoming.finished() {
            return;
        }
        let open = self.window.open(self.incoming.next);
        let possible = self.possible_window();
        if possible > 0 && possible >= 2 * open {
            self.out.ack = true;
        }
    }
}
