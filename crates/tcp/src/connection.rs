//! The connection as its host sees it.

use std::collections::VecDeque;
use std::net::SocketAddr;

use narrows_cc::{CaState, Controller, OptionError};
use narrows_core::{CountedBytes, SocketFacts};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::tcp::FastOpenCookie;

use crate::accecn::AccEcn;
use crate::config::{EcnMode, SendBuffer, TcpConfig};
use crate::congestion::Congestion;
use crate::delayed_ack::DelayedAck;
use crate::ecn::{EcnState, Feedback};
use crate::event::{TcpEvent, TcpState};
use crate::fq::FairQueue;
use crate::limits::Limits;
use crate::mtu_probing::MtuSearch;
use crate::output::Output;
use crate::push::PushMarks;
use crate::rack::Rack;
use crate::rate_sample::RateSampler;
use crate::reassembly::Reassembly;
use crate::rtt::Rtt;
use crate::scoreboard::Scoreboard;
use crate::sequence;
use crate::small_queues::Below;
use crate::timers::Timers;
use crate::window::ReceiveWindow;

/// What the handshake agreed on besides ECN.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Agreed {
    pub(crate) timestamps: bool,
    pub(crate) sack: bool,
    /// Shift of the peer's window field.
    pub(crate) peer_scale: u8,
    /// The peer's announced MSS.
    pub(crate) peer_mss: u32,
    /// Payload bytes of a full segment that this end sends.
    pub(crate) mss: u32,
}

/// The send window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SendWindow {
    /// Number of the first byte of data, after our SYN.
    pub(crate) start: u64,
    /// Oldest unacknowledged number.
    pub(crate) una: u64,
    /// Next number to send.
    pub(crate) next: u64,
    /// Bytes that the peer takes from `una`, where that is no SYN.
    pub(crate) size: u64,
    /// Largest window ever seen.
    pub(crate) largest: u64,
    /// Sequence number of the segment that last set the window.
    pub(crate) updated_by: u64,
    /// Number of our FIN, once it was sent.
    pub(crate) fin: Option<u64>,
    /// End of the last segment sent that was not full (Minshall).
    pub(crate) small_end: u64,
}

impl SendWindow {
    /// The first number that the peer does not take yet.
    pub(crate) fn edge(&self) -> u64 {
        self.una.max(self.start) + self.size
    }
}

/// Totals since the start; what each counts is said where
/// [`TcpInfo`](narrows_core::TcpInfo) has it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_retrans: u64,
    pub(crate) retransmits: u64,
    /// Segments with data or FIN that left, each time.
    pub(crate) transmissions: u64,
    pub(crate) segs_out: u32,
    pub(crate) segs_in: u32,
    pub(crate) data_segs_out: u32,
    pub(crate) data_segs_in: u32,
    pub(crate) ooo_segs_in: u32,
    pub(crate) dsack_dups: u64,
    pub(crate) timeouts: u16,
    pub(crate) timeout_recoveries: u16,
    timeout_time: Duration,
    timeouts_since: Option<Instant>,
}

impl Totals {
    /// A retransmission timeout; `first` of a row (`tcp_update_rto_stats`).
    pub(crate) fn count_timeout(&mut self, now: Instant, first: bool) {
        if first {
            self.timeout_recoveries = self.timeout_recoveries.saturating_add(1);
            self.timeouts_since = Some(now);
        }
        self.timeouts = self.timeouts.saturating_add(1);
    }

    /// What the timeouts began is over.
    pub(crate) fn end_timeouts(&mut self, now: Instant) {
        self.timeout_time = self.timeout_time(now);
        self.timeouts_since = None;
    }

    /// Time spent in recoveries by timeout.
    pub(crate) fn timeout_time(&self, now: Instant) -> Duration {
        let under_way = self.timeouts_since.map(|since| now.since(since));
        self.timeout_time + under_way.unwrap_or_default()
    }
}

/// One end of a TCP connection.
///
/// After every call that takes `now` or touches a buffer, its host calls
/// [`poll_transmit`](Self::poll_transmit) until that answers `None`, then
/// reads [`next_timeout`](Self::next_timeout). Packets that are to be
/// acknowledged one by one have to be followed by such a round each.
#[derive(Debug)]
pub struct Connection {
    pub(crate) config: TcpConfig,
    pub(crate) rng: Rng,
    pub(crate) now: Instant,
    pub(crate) state: TcpState,
    pub(crate) events: VecDeque<TcpEvent>,
    pub(crate) ident: u32,
    pub(crate) agreed: Agreed,
    /// The largest IP packet that the path takes, as far as is known.
    pub(crate) path_mtu: u32,
    pub(crate) mtu_search: MtuSearch,

    pub(crate) iss: u32,
    /// Number of the peer's first byte.
    pub(crate) first_received: u64,
    pub(crate) snd: SendWindow,
    pub(crate) outgoing: CountedBytes,
    pub(crate) push_marks: PushMarks,
    pub(crate) closing: bool,
    /// The application has closed the socket, and reads no more (`SOCK_DEAD`).
    pub(crate) orphaned: bool,
    /// Nothing is left of the connection but its numbers: Linux's time-wait socket, in
    /// FIN-WAIT-2 already (`tcp_time_wait`).
    pub(crate) only_numbers: bool,
    pub(crate) write_refused: bool,
    pub(crate) board: Scoreboard,
    pub(crate) out: Output,
    pub(crate) below: Below,
    pub(crate) fq: FairQueue,
    /// Size of the send buffer, where it is modelled.
    pub(crate) buffer_bytes: u64,

    pub(crate) incoming: Reassembly,
    pub(crate) window: ReceiveWindow,
    pub(crate) delack: DelayedAck,
    pub(crate) sack_compression: crate::input::SackCompression,
    pub(crate) gro_count: u32,
    pub(crate) ts_recent: u32,
    pub(crate) ts_recent_at: Instant,
    pub(crate) ts_offset: u32,
    pub(crate) last_challenge: Option<Instant>,
    /// When an acceptable ACK came last (`rcv_tstamp`).
    pub(crate) last_ack_received: Instant,

    pub(crate) rtt: Rtt,
    pub(crate) rack: Rack,
    pub(crate) rate: RateSampler,
    pub(crate) cong: Congestion,
    pub(crate) cc: Controller,
    pub(crate) ecn: EcnState,
    pub(crate) accecn: AccEcn,
    pub(crate) timers: Timers,
    pub(crate) limits: Limits,
    pub(crate) totals: Totals,
    pub(crate) handshake: crate::handshake::Handshake,
}

impl Connection {
    /// An end that will open the connection.
    pub fn client(config: TcpConfig, rng: Rng) -> Self {
        Self::new(config, rng, TcpState::Closed)
    }

    /// An end that listens and adopts the first SYN's sender.
    pub fn server(config: TcpConfig, rng: Rng) -> Self {
        Self::new(config, rng, TcpState::Listen)
    }

    fn new(config: TcpConfig, mut rng: Rng, state: TcpState) -> Self {
        let drawn = rng.draw_u64() as u32;
        let iss = config.isn.unwrap_or(drawn);
        let first = sequence::first(iss);
        let mss = config.advertised_mss();
        let cc = Controller::new(&config.cc);
        let fq = FairQueue::new(config.host.pacing, &config.cc);
        let needs = cc.needs();
        let needed = if needs.accecn {
            Feedback::Accurate
        } else if needs.ecn {
            Feedback::Classic
        } else {
            Feedback::None
        };
        let (request, grant) = match config.ecn {
            EcnMode::Off => (Feedback::None, Feedback::None),
            EcnMode::Classic => (Feedback::Classic, Feedback::Classic),
            EcnMode::AccEcn => (Feedback::Accurate, Feedback::Accurate),
            EcnMode::Auto => (needed, Feedback::Accurate),
        };
        let ecn = EcnState {
            request,
            grant,
            ..EcnState::default()
        };
        Self {
            rtt: Rtt::new(config.min_rto, config.max_rto),
            window: ReceiveWindow::new(
                (config.receive_buffer, config.host.receive_tuning),
                mss,
                config.window_scaling,
            ),
            cong: Congestion::new(config.initial_cwnd, config.cwnd_clamp),
            delack: DelayedAck::new(mss),
            iss,
            first_received: 0,
            snd: SendWindow {
                start: first + 1,
                una: first,
                next: first,
                small_end: first,
                ..SendWindow::default()
            },
            outgoing: CountedBytes::starting_at(first + 1),
            push_marks: PushMarks::starting_at(first + 1),
            ident: rng.draw_u64() as u32,
            ts_offset: {
                let drawn = rng.draw_u64() as u32;
                config.timestamp_offset.unwrap_or(drawn)
            },
            path_mtu: config.mtu,
            mtu_search: MtuSearch::default(),
            config,
            rng,
            now: Instant::ZERO,
            state,
            events: VecDeque::new(),
            agreed: Agreed {
                peer_mss: 536,
                mss,
                ..Agreed::default()
            },
            closing: false,
            orphaned: false,
            only_numbers: false,
            write_refused: false,
            board: Scoreboard::default(),
            out: Output::default(),
            below: Below::default(),
            fq,
            buffer_bytes: 0,
            incoming: Reassembly::starting_at(0),
            sack_compression: crate::input::SackCompression::default(),
            gro_count: 0,
            ts_recent: 0,
            ts_recent_at: Instant::ZERO,
            last_challenge: None,
            last_ack_received: Instant::ZERO,
            rack: Rack::default(),
            rate: RateSampler::default(),
            cc,
            ecn,
            accecn: AccEcn::default(),
            timers: Timers::default(),
            limits: Limits::default(),
            totals: Totals::default(),
            handshake: crate::handshake::Handshake::default(),
        }
    }

    /// What happened since, in order.
    pub fn poll_event(&mut self) -> Option<TcpEvent> {
        self.events.pop_front()
    }

    /// Writes `data`; returns how many bytes the send buffer took.
    pub fn write(&mut self, data: &[u8]) -> usize {
        let taken = self.room(data.len() as u64) as usize;
        self.check_app_limited();
        self.outgoing.append(&data[..taken]);
        self.mark_written(taken as u64);
        taken
    }

    /// Writes zeros that are only counted; returns how many were taken.
    pub fn write_zeros(&mut self, bytes: u64) -> u64 {
        let taken = self.room(bytes);
        self.check_app_limited();
        self.outgoing.append_zeros(taken);
        self.mark_written(taken);
        taken
    }

    /// `bytes` were just written. PSH is due at their end, unless the send buffer is not
    /// modelled: then they are the next part of one long write.
    fn mark_written(&mut self, bytes: u64) {
        let (end, sent, piece) = (self.outgoing.end(), self.snd.next, self.piece());
        let from = end - bytes;
        match self.config.host.send_buffer {
            SendBuffer::Auto { .. } => self.push_marks.written(from, end, sent, piece),
            SendBuffer::Unlimited => self.push_marks.continued(from, sent, piece),
        }
    }

    /// How much of a write of `bytes` fits.
    fn room(&mut self, bytes: u64) -> u64 {
        if self.closing || (self.state == TcpState::Closed && self.handshake.finished) {
            return 0;
        }
        let room = match self.buffer_room() {
            Some(room) => room,
            None => {
                let most = self.config.send_buffer;
                most.saturating_sub(self.outgoing.len())
            }
        };
        self.write_refused |= room < bytes;
        if room > 0 {
            self.note_write();
            self.out.written = true;
            self.out.push_due = true;
        }
        room.min(bytes)
    }

    /// Bytes in order and not yet read.
    pub fn readable(&self) -> u64 {
        self.incoming.readable()
    }

    /// Reads and discards up to `max` bytes; returns how many. A window update
    /// or an ACK may then be due, so [`poll_transmit`](Self::poll_transmit)
    /// is to be called.
    pub fn read(&mut self, max: u64) -> u64 {
        let n = self.incoming.read(max, None);
        self.after_read(n);
        n
    }

    /// Reads up to `max` bytes into `out`; returns how many.
    pub fn read_into(&mut self, max: u64, out: &mut Vec<u8>) -> u64 {
        let n = self.incoming.read(max, Some(out));
        self.after_read(n);
        n
    }

    /// Reads up to `max` bytes to the end of `out`, zeros as zeros; returns how many.
    pub fn read_counted(&mut self, max: u64, out: &mut CountedBytes) -> u64 {
        let n = self.incoming.read_counted(max, out);
        self.after_read(n);
        n
    }

    /// No more data will be written (half-close); what was written is still
    /// delivered, and reading goes on.
    pub fn close(&mut self, now: Instant) {
        self.advance(now);
        match self.state {
            TcpState::Listen => self.enter_closed(None),
            TcpState::Closed if self.handshake.finished => {}
            TcpState::SynSent if self.outgoing.is_empty() && !self.handshake.finished => {
                self.enter_closed(Some(TcpEvent::Closed));
            }
            _ => self.closing = true,
        }
    }

    /// The application is done with the socket in both directions (`close`): the same as
    /// [`close`](Self::close), but that in FIN-WAIT-2 nothing is left but the connection's
    /// numbers, from which the peer's FIN is acknowledged.
    pub fn release(&mut self, now: Instant) {
        self.close(now);
        self.orphaned = true;
        self.only_numbers |= self.state == TcpState::FinWait2;
    }

    /// Resets the connection.
    pub fn abort(&mut self, now: Instant) {
        self.advance(now);
        let synchronized = !matches!(
            self.state,
            TcpState::Closed | TcpState::Listen | TcpState::SynSent | TcpState::TimeWait
        );
        self.out.reset = synchronized;
        self.enter_closed(Some(TcpEvent::Closed));
    }

    /// The cookie that the server gave, for the next connection to it
    /// (RFC 7413 §4.1.3).
    pub fn fast_open_cookie(&self) -> Option<FastOpenCookie> {
        self.handshake.cookie
    }

    /// How long the sender was limited since it was established: by the
    /// receive window, by its own buffer, and by having nothing in flight and
    /// nothing to send.
    pub fn limited(&self) -> (Duration, Duration, Duration) {
        self.limits.totals(self.now)
    }

    /// What a host hook is given of the socket.
    pub fn socket_facts(&self) -> SocketFacts {
        SocketFacts {
            // Linux's `total_retrans` and `dsack_dups`, which a hook in its kernel
            // can ask for. What a timeout takes for lost and is acknowledged
            // before it was sent again was not lost.
            lost: self.totals.retransmits,
            spurious: self.totals.dsack_dups,
            delivered_ce: u64::from(self.rate.delivered_ce),
            srtt: self.rtt.srtt(),
        }
    }

    /// Whether nothing more will happen.
    pub fn is_closed(&self) -> bool {
        self.is_over() && !self.out.reset
    }

    /// Whether it is closed, but for a reset that may still have to leave.
    pub(crate) fn is_over(&self) -> bool {
        self.state == TcpState::Closed
    }

    /// The state.
    pub fn state(&self) -> TcpState {
        self.state
    }

    /// The congestion-avoidance state.
    pub fn ca_state(&self) -> CaState {
        self.cong.state
    }

    /// CE-marked packets received so far, as AccECN reports to the peer.
    pub fn received_ce(&self) -> u32 {
        self.accecn.received_ce
    }

    /// How it was set up.
    pub fn config(&self) -> &TcpConfig {
        &self.config
    }

    /// The peer's address.
    pub fn remote(&self) -> SocketAddr {
        self.config.remote
    }

    /// The name of the congestion control in use: it falls back to Reno when
    /// the ECN that it needs was not negotiated.
    pub fn congestion_control(&self) -> &'static str {
        self.cc.name()
    }

    /// Sets an option of its congestion control, see
    /// [`ControlSpec::option`](narrows_cc::ControlSpec::option): before the connection is
    /// established or while it runs.
    ///
    /// # Errors
    /// [`OptionError`].
    pub fn set_option(&mut self, name: &str, value: u64) -> Result<(), OptionError> {
        self.cc.set_option(name, value)
    }

    /// The value of an option of its congestion control, if it has one of that name.
    pub fn option(&self, name: &str) -> Option<u64> {
        self.cc.option(name)
    }

    /// Payload bytes written and not yet sent.
    pub fn unsent(&self) -> u64 {
        let data_next = self.snd.next.max(self.outgoing.start());
        self.outgoing.end().saturating_sub(data_next)
    }

    /// Payload bytes sent or waiting, not yet acknowledged.
    pub fn unacknowledged(&self) -> u64 {
        self.outgoing.len()
    }

    /// The clock moves; it never goes back.
    pub(crate) fn advance(&mut self, now: Instant) {
        self.now = self.now.max(now);
    }

    pub(crate) fn emit(&mut self, event: TcpEvent) {
        self.events.push_back(event);
    }

    /// The timestamp clock, 1 kHz as Linux's (`TCP_TS_HZ`).
    pub(crate) fn timestamp(&self) -> u32 {
        self.timestamp_at(self.now)
    }

    /// The timestamp of what leaves now: its departure's (`tcp_skb_timestamp_ts`).
    pub(crate) fn departure_timestamp(&self) -> u32 {
        self.timestamp_at(self.departure())
    }

    pub(crate) fn timestamp_at(&self, at: Instant) -> u32 {
        ((at.as_nanos() / 1_000_000) as u32).wrapping_add(self.ts_offset)
    }

    /// The connection is over.
    pub(crate) fn enter_closed(&mut self, event: Option<TcpEvent>) {
        if self.state != TcpState::Closed {
            self.state = TcpState::Closed;
            self.cc.release();
        }
        self.handshake.finished = true;
        self.timers = Timers::default();
        self.out.clear_all_but_reset();
        self.limits.stop(self.now);
        if let Some(event) = event {
            self.emit(event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_may_move_between_threads() {
        fn movable<T: Send>() {}
        movable::<Connection>();
    }
}
