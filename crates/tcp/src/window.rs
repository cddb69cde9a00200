//! The receive window: how much is offered, how it grows with what the
//! application reads (Linux `tcp_select_window`, `tcp_grow_window`,
//! `tcp_rcv_space_adjust`, v6.17).

use narrows_units::{Duration, Instant};

use crate::config::ReceiveBuffer;

/// Largest shift (RFC 7323 §2.3).
const MAX_SCALE: u8 = 14;
/// Smallest payload whose arrival lets the window grow, bytes.
const GROWTH_MIN: u32 = 128;
/// Segments that the first window is taken to carry (`TCP_INIT_CWND`).
const FIRST_WINDOW: u64 = 10;

/// The window that this end offers.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    /// Bytes that may be held at most now.
    buffer: u64,
    /// Bytes to which `buffer` may grow.
    max: u64,
    adaptive: bool,
    /// Soft limit that grows with arriving data (`rcv_ssthresh`).
    soft_limit: u64,
    /// Shift of the window field; 0 until the handshake agrees on scaling.
    pub(crate) scale: u8,
    /// Right edge that was last offered.
    right_edge: u64,
    /// Left edge when it was offered (`rcv_wup`).
    pub(crate) offered_at: u64,
    /// Own MSS.
    mss: u64,
    rtt_us: u64,
    rtt_probe: Option<(u64, Instant)>,
    last_echo: u32,
    space: u64,
    space_seq: u64,
    space_time: Instant,
}

impl ReceiveWindow {
    pub(crate) fn new(config: ReceiveBuffer, mss: u32, scaling: bool) -> Self {
        let (initial, max, adaptive) = match config {
            ReceiveBuffer::Fixed(n) => (n, n, false),
            ReceiveBuffer::Auto { initial, max } => (initial, max.max(initial), true),
        };
        let limit = if scaling { 1 << 30 } else { 65_535 };
        let (initial, max) = (initial.min(limit), max.min(limit));
        let mut window = Self {
            buffer: initial,
            max,
            adaptive,
            soft_limit: initial,
            scale: 0,
            right_edge: 0,
            offered_at: 0,
            mss: u64::from(mss),
            rtt_us: 0,
            rtt_probe: None,
            last_echo: 0,
            space: initial.min(FIRST_WINDOW * u64::from(mss)),
            space_seq: 0,
            space_time: Instant::ZERO,
        };
        if scaling {
            window.scale = window.scale_for_max();
        }
        window
    }

    /// The smallest shift with which the largest window can be told.
    fn scale_for_max(&self) -> u8 {
        (0..MAX_SCALE)
            .find(|s| self.max >> s <= 65_535)
            .unwrap_or(MAX_SCALE)
    }

    /// The peer does not scale: nor do we.
    pub(crate) fn disable_scaling(&mut self) {
        self.scale = 0;
        self.max = self.max.min(65_535);
        self.buffer = self.buffer.min(self.max);
        self.soft_limit = self.soft_limit.min(self.max);
    }

    /// The peer's first data will be number `next`.
    pub(crate) fn start(&mut self, now: Instant, next: u64) {
        self.offered_at = next;
        self.space_seq = next;
        self.space_time = now;
        self.right_edge = next + self.buffer.min(65_535);
    }

    /// What is still open of the window last offered, seen from `next`.
    pub(crate) fn open(&self, next: u64) -> u64 {
        self.right_edge.saturating_sub(next)
    }

    /// The window of the last offer in full (`rcv_wnd`).
    pub(crate) fn offered(&self) -> u64 {
        self.right_edge.saturating_sub(self.offered_at)
    }

    /// The window that could be offered with `held` bytes in the buffer
    /// (`__tcp_select_window`): no tiny steps (RFC 9293 §3.8.6.2.2), zero when
    /// less than a segment is left.
    pub(crate) fn possible(&self, next: u64, held: u64, peer_mss: u32) -> u64 {
        let mss = u64::from(peer_mss).min(self.buffer);
        let unit = 1u64 << self.scale;
        let mut free = self.buffer.saturating_sub(held);
        if free < self.buffer / 2 {
            free -= free % unit;
            if free < self.buffer / 16 || free < mss {
                return 0;
            }
        }
        free = free.min(self.soft_limit);
        if self.scale > 0 {
            return free.next_multiple_of(unit);
        }
        let now = self.open(next);
        if now + mss <= free || now > free {
            free - free % mss.max(1)
        } else {
            now
        }
    }

    /// Chooses the window of a segment that leaves now and returns the
    /// window field. What was offered is never taken back.
    pub(crate) fn offer(&mut self, next: u64, held: u64, peer_mss: u32, syn: bool) -> u16 {
        let scale = if syn { 0 } else { self.scale };
        let mut window = self
            .possible(next, held, peer_mss)
            .max(self.open(next).next_multiple_of(1 << scale));
        window = window.min(65_535u64 << scale);
        let field = window >> scale;
        self.right_edge = self.right_edge.max(next + (field << scale));
        self.offered_at = next;
        field as u16
    }

    /// A segment of `len` bytes came: the soft limit grows ahead of the
    /// sender's slow start. Answers whether it did.
    pub(crate) fn grow(&mut self, len: u32, held: u64) -> bool {
        let room = self
            .buffer
            .saturating_sub(held)
            .saturating_sub(self.soft_limit);
        if len < GROWTH_MIN || room == 0 {
            return false;
        }
        self.soft_limit += room.min(2 * self.mss.max(u64::from(len)));
        true
    }

    /// Measures the RTT as the receiver sees it: the time in which one window
    /// of data arrives. Only the minimum counts, because the sender may pause.
    pub(crate) fn measure_rtt(&mut self, now: Instant, next: u64) {
        if let Some((edge, since)) = self.rtt_probe {
            if next < edge {
                return;
            }
            let sample = now.since(since).as_micros().max(1) << 3;
            if self.rtt_us == 0 || sample < self.rtt_us {
                self.rtt_us = sample;
            }
        }
        self.rtt_probe = Some((next + self.offered(), now));
    }

    /// The same from an echoed timestamp `age` old.
    pub(crate) fn measure_rtt_by_echo(&mut self, echo: u32, age: Duration) {
        if echo == self.last_echo {
            return;
        }
        self.last_echo = echo;
        let sample = age.as_micros().max(1_000);
        if self.rtt_us == 0 {
            self.rtt_us = sample << 3;
        } else {
            self.rtt_us = self.rtt_us - (self.rtt_us >> 3) + sample;
        }
    }

    /// The receiver's RTT.
    pub(crate) fn rtt(&self) -> Duration {
        Duration::from_nanos(self.rtt_us * 125)
    }

    /// The application has read up to `read`: once per RTT, room is made for
    /// twice what it read in that RTT, and for as much growth again.
    pub(crate) fn adapt(&mut self, now: Instant, read: u64) {
        if self.rtt_us == 0 || now.since(self.space_time) < self.rtt() {
            return;
        }
        let copied = read.saturating_sub(self.space_seq);
        if copied > self.space {
            if self.adaptive {
                let mut window = 2 * copied + 16 * self.mss;
                window += 2 * (window * (copied - self.space) / self.space.max(1));
                self.buffer = self.buffer.max(window.min(self.max));
            }
            self.space = copied;
        }
        self.space_seq = read;
        self.space_time = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auto(scaling: bool) -> ReceiveWindow {
        let mut w = ReceiveWindow::new(ReceiveBuffer::default(), 1448, scaling);
        w.start(Instant::ZERO, 1000);
        w
    }

    #[test]
    fn scale_carries_the_largest_window() {
        assert_eq!(auto(true).scale, 12);
        assert_eq!(auto(false).scale, 0);
        let w = ReceiveWindow::new(ReceiveBuffer::Fixed(6 << 20), 1448, true);
        assert_eq!(w.scale, 7);
    }

    #[test]
    fn an_offer_is_never_taken_back() {
        let mut w = auto(true);
        w.scale = 0;
        let first = u64::from(w.offer(1000, 0, 1448, false));
        assert_eq!(first, 65_535);
        // 60 000 bytes arrive and are not read: the right edge stays.
        assert_eq!(w.offer(61_000, 60_000, 1448, false), 5_535);
        // They are read: the window opens again.
        assert!(w.offer(61_000, 0, 1448, false) > 60_000);
    }

    #[test]
    fn less_than_a_segment_is_offered_as_nothing() {
        let mut w = ReceiveWindow::new(ReceiveBuffer::Fixed(10_000), 1448, false);
        w.start(Instant::ZERO, 0);
        w.offer(0, 0, 1448, false);
        assert_eq!(w.offer(10_000, 10_000, 1448, false), 0);
        assert_eq!(w.possible(10_000, 9_000, 1448), 0);
        assert!(w.possible(10_000, 5_000, 1448) >= 1448);
    }

    #[test]
    fn the_buffer_follows_what_is_read_per_round_trip() {
        let mut w = auto(true);
        w.measure_rtt_by_echo(1, Duration::from_millis(10));
        w.adapt(Instant::ZERO + Duration::from_millis(10), 1000 + 28_960);
        // 2·28960 + 16·1448 = 81088; grown by 2·81088·(28960−14480)/14480.
        assert_eq!(w.buffer, 81_088 * 3);
        let before = w.buffer;
        w.adapt(Instant::ZERO + Duration::from_millis(11), 1_000_000);
        assert_eq!(w.buffer, before, "once per round trip");
    }
}
