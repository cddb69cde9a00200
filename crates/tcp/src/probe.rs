//! Probes of a window that is shut (RFC 9293 §3.8.6.1) and of a peer that is
//! silent (RFC 9293 §3.8.4), as Linux `tcp_probe_timer`, `tcp_keepalive_timer`
//! (`net/ipv4/tcp_timer.c`), `tcp_write_wakeup`, `tcp_send_probe0`
//! (`net/ipv4/tcp_output.c`) and `tcp_ack_probe` (`net/ipv4/tcp_input.c`),
//! v6.17.

use narrows_core::{Packet, PacketPool};
use narrows_units::{Duration, Instant};

use crate::connection::Connection;
use crate::event::{TcpEvent, TcpState};
use crate::rack::TIMEOUT_MIN;
use crate::timers::Purpose;

/// Unanswered window probes before giving up, and most doublings of their
/// interval that are counted (`tcp_retries2` 15).
const WINDOW_PROBES: u32 = 15;
/// Most doublings of the interval that have an effect: as many as take
/// `TCP_RTO_MIN`, 200 ms, beyond `TCP_RTO_MAX`, 120 s (`tcp_probe0_when`).
const DOUBLINGS: u32 = 10;

impl Connection {
    /// What a window probe would be for: data or a FIN waits.
    fn waits(&self) -> bool {
        self.unsent() > 0 || self.fin_due()
    }

    /// There is something to send, nothing is out and the peer's window is
    /// shut: probe it (`tcp_check_probe_timer`).
    pub(crate) fn check_window_probe(&mut self) {
        if self.board.packets_out == 0 && self.timers.purpose() == Purpose::Idle && self.waits() {
            self.start_window_probe(0);
        }
    }

    /// Probes the window after the RTO, at least its minimum, doubled
    /// `backoff` times (`tcp_probe0_base`, `tcp_probe0_when`).
    fn start_window_probe(&mut self, backoff: u32) {
        let base = self.rtt.rto_us.max(self.rtt.min_rto_us());
        let doubled = (base << backoff.min(DOUBLINGS)).min(self.rtt.max_rto_us());
        let after = self.clamped_to_user(Duration::from_micros(doubled));
        self.start_timer(Purpose::WindowProbe, after);
    }

    /// `after`, but no longer than the user lets a window be shut
    /// (`tcp_clamp_probe0_to_user_timeout`).
    fn clamped_to_user(&self, after: Duration) -> Duration {
        let (Some(user), Some(since)) = (self.config.user_timeout, self.out.probing_since) else {
            return after;
        };
        let left = user - self.now.since(since).min(user);
        after.min(left.max(TIMEOUT_MIN))
    }

    pub(crate) fn on_window_probe_timeout(&mut self) {
        if self.board.packets_out > 0 || !self.waits() {
            self.out.probes = 0;
            self.out.probing_since = None;
            return;
        }
        // Who answers with a shut window is probed for ever (RFC 9293
        // §3.8.6.1): each ACK sets the count back, but not the user's time.
        let since: Instant = *self.out.probing_since.get_or_insert(self.now);
        let user = self.config.user_timeout;
        let timed_out = user.is_some_and(|user| since < self.now && self.now.since(since) >= user);
        if self.out.probes >= WINDOW_PROBES || timed_out {
            self.enter_closed(Some(TcpEvent::TimedOut));
            return;
        }
        self.out.probes += 1;
        self.rtt.backoff = (self.rtt.backoff + 1).min(WINDOW_PROBES);
        self.out.probe_due = true;
        self.start_window_probe(self.rtt.backoff);
    }

    /// An ACK came while nothing was out (`tcp_ack_probe`).
    pub(crate) fn window_probe_answered(&mut self) {
        if !self.waits() {
            return;
        }
        if self.window_takes_next() {
            self.rtt.backoff = 0;
            self.out.probing_since = None;
            if self.timers.purpose() == Purpose::WindowProbe {
                self.timers.stop();
            }
        } else {
            self.start_window_probe(self.rtt.backoff);
        }
    }

    /// The probe: as much as a window takes that is open but too
    /// small for a segment; otherwise the number before the first one that is
    /// not acknowledged, so that it must be answered (`tcp_write_wakeup`).
    pub(crate) fn transmit_probe(&mut self, pool: &mut PacketPool) -> Box<Packet> {
        if self.board.packets_out == 0 && self.snd.edge() > self.snd.next {
            if let Some(packet) = self.emit_new(pool, true) {
                // From now on the retransmission timer runs.
                self.out.probes = 0;
                self.out.probing_since = None;
                self.rtt.backoff = 0;
                return packet;
            }
        }
        self.build_ack(pool, self.snd.una - 1)
    }

    /// Starts to watch for a silent peer.
    pub(crate) fn start_keep_alive(&mut self) {
        if let Some(keep_alive) = self.config.keep_alive {
            self.arm_keep_alive(keep_alive.time);
        }
    }

    fn arm_keep_alive(&mut self, after: Duration) {
        self.timers.keep_alive = Some(self.tick_up(self.now + after, after));
    }

    pub(crate) fn on_keep_alive(&mut self) {
        let Some(keep_alive) = self.config.keep_alive else {
            return;
        };
        if !self.is_synchronized() || self.state == TcpState::TimeWait {
            return;
        }
        // Data that is out or waits has its own timers.
        if self.board.packets_out > 0 || self.waits() {
            self.arm_keep_alive(keep_alive.time);
            return;
        }
        let last = self.last_ack_received.max(self.delack.last_data);
        let silent = self.now.since(last);
        if silent < keep_alive.time {
            self.arm_keep_alive(keep_alive.time - silent);
            return;
        }
        let given_up = match self.config.user_timeout {
            Some(user) => self.out.probes > 0 && silent >= user,
            None => self.out.probes >= keep_alive.probes,
        };
        if given_up {
            self.out.reset = true;
            self.enter_closed(Some(TcpEvent::TimedOut));
            return;
        }
        self.out.probes += 1;
        self.out.probe_due = true;
        self.arm_keep_alive(keep_alive.interval);
    }
}
