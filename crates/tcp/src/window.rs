//! The receive window: how much is offered, how it grows with what the
//! application reads (Linux `tcp_select_window`, `tcp_grow_window`,
//! `tcp_rcv_space_adjust`, v6.17).

use narrows_units::{Duration, Instant};

use crate::config::{ReceiveBuffer, ReceiveTuning};

/// Largest shift (RFC 7323 §2.3).
const MAX_SCALE: u8 = 14;
/// Smallest payload whose arrival lets the window grow, bytes.
const GROWTH_MIN: u32 = 128;
/// Segments that the first window is taken to carry (`TCP_INIT_CWND`).
const FIRST_WINDOW: u64 = 10;
/// Bits of the share of memory that is payload (`TCP_RMEM_TO_WIN_SCALE`).
const RATIO_BITS: u32 = 8;
/// The share before a segment has come: half (`TCP_DEFAULT_SCALING_RATIO`).
const DEFAULT_RATIO: u64 = 1 << (RATIO_BITS - 1);
/// Memory in bytes that a received segment takes beside its payload: `sk_buff`
/// (256), headers (256) and `skb_shared_info` (320), as `ss -m` has it on v6.18
/// for single segments through veth on x86-64, whatever their size.
const SEGMENT_OVERHEAD: u64 = 832;

/// Round trips below which the buffer grows in proportion to them, microseconds
/// (`tcp_rcvbuf_low_rtt`, since v6.19).
const LOW_RTT: u64 = 1_000;

/// The window that this end offers.
#[derive(Clone, Debug)]
pub(crate) struct ReceiveWindow {
    /// Memory for received segments in bytes (`sk_rcvbuf`).
    memory: u64,
    /// Share of the memory that payload gets, in 256ths (`scaling_ratio`).
    ratio: u64,
    /// Most payload that is ever offered.
    max: u64,
    adaptive: bool,
    tuning: ReceiveTuning,
    /// Most payload that is offered now (`window_clamp`).
    clamp: u64,
    /// Soft limit that grows with arriving data (`rcv_ssthresh`).
    pub(crate) soft_limit: u64,
    /// Shift of the window field; 0 until the handshake agrees on scaling.
    pub(crate) scale: u8,
    /// Right edge that was last offered.
    right_edge: u64,
    /// Left edge when it was offered (`rcv_wup`).
    pub(crate) offered_at: u64,
    /// Payload of a full segment that this end takes (`advmss`).
    mss: u64,
    rtt_us: u64,
    rtt_probe: Option<(u64, Instant)>,
    last_echo: u32,
    /// Bytes read in the last receiver's round trip (`rcvq_space.space`).
    pub(crate) space: u64,
    space_seq: u64,
    space_time: Instant,
}

impl ReceiveWindow {
    pub(crate) fn new(
        (buffer, tuning): (ReceiveBuffer, ReceiveTuning),
        mss: u32,
        scaling: bool,
    ) -> Self {
        let (initial, max, adaptive) = match buffer {
            ReceiveBuffer::Fixed(n) => (n, n, false),
            ReceiveBuffer::Auto { initial, max } => (initial, max.max(initial), true),
        };
        let limit = if scaling { 1 << 30 } else { 65_535 };
        let (initial, max) = (initial.min(limit), max.min(limit));
        let mut window = Self {
            memory: (initial << RATIO_BITS) / DEFAULT_RATIO,
            ratio: DEFAULT_RATIO,
            max,
            adaptive,
            tuning,
            clamp: initial,
            soft_limit: initial,
            scale: 0,
            right_edge: 0,
            offered_at: 0,
            mss: u64::from(mss),
            rtt_us: 0,
            rtt_probe: None,
            last_echo: 0,
            space: 0,
            space_seq: 0,
            space_time: Instant::ZERO,
        };
        if scaling {
            window.scale = window.scale_for_max();
        }
        window
    }

    /// The smallest shift with which the largest window can be advertised.
    fn scale_for_max(&self) -> u8 {
        (0..MAX_SCALE)
            .find(|s| self.max >> s <= 65_535)
            .unwrap_or(MAX_SCALE)
    }

    /// The peer does not scale: nor do we.
    pub(crate) fn disable_scaling(&mut self) {
        self.scale = 0;
        self.max = self.max.min(65_535);
        self.clamp = self.clamp.min(self.max);
        self.soft_limit = self.soft_limit.min(self.max);
    }

    /// Payload for which there is memory (`tcp_full_space`).
    fn buffer(&self) -> u64 {
        (self.memory * self.ratio) >> RATIO_BITS
    }

    /// The window of a SYN or SYN-ACK, which is not scaled: whole segments
    /// (`tcp_select_initial_window`).
    fn first(&self) -> u64 {
        let space = self.buffer();
        let whole = if self.adaptive && space > self.mss {
            space - space % self.mss
        } else {
            space
        };
        whole.min(65_535)
    }

    /// The window field of a SYN or SYN-ACK that leaves now, where the peer's
    /// next data is number `next`.
    pub(crate) fn offer_first(&mut self, next: u64) -> u16 {
        let window = self.first();
        self.right_edge = self.right_edge.max(next + window);
        self.offered_at = next;
        window as u16
    }

    /// The peer's first data will be number `next`, and a full segment of it
    /// `mss` bytes. What our SYN has offered counts from there; who has sent none
    /// chooses now (`tcp_openreq_init_rwin`).
    pub(crate) fn start(&mut self, next: u64, mss: u32) {
        self.mss = u64::from(mss);
        let offered = match self.offered() {
            0 => self.first(),
            offered => offered,
        };
        self.offered_at = next;
        self.right_edge = next + offered;
    }

    /// Data may come, and the application has read up to `read`: one segment of
    /// the memory is kept back (`tcp_init_buffer_space`).
    pub(crate) fn begin_transfer(&mut self, now: Instant, read: u64) {
        if self.adaptive {
            let all_but_one = self.buffer().saturating_sub(self.mss);
            self.clamp = self.clamp.min(all_but_one.max(2 * self.mss));
        }
        let offered = self.offered();
        self.soft_limit = self.clamp.min(offered);
        self.space = self.soft_limit.min(FIRST_WINDOW * self.mss);
        self.space_seq = read;
        self.space_time = now;
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
    pub(crate) fn possible(&self, held: u64, peer_mss: u32) -> u64 {
        let allowed = self.buffer();
        let full = allowed.min(self.clamp);
        let mss = u64::from(peer_mss).min(full);
        let unit = 1u64 << self.scale;
        let mut free = allowed.saturating_sub(held);
        if free < full / 2 {
            free -= free % unit;
            if free < allowed / 16 || free < mss {
                return 0;
            }
        }
        free = free.min(self.soft_limit);
        if self.scale > 0 {
            return free.next_multiple_of(unit);
        }
        let now = self.offered();
        if now + mss <= free || now > free {
            free - free % mss.max(1)
        } else if mss == full && free > now + full / 2 {
            free
        } else {
            now
        }
    }

    /// Chooses the window of a segment that leaves now and returns the
    /// window field. What was offered is never taken back.
    pub(crate) fn offer(&mut self, next: u64, held: u64, peer_mss: u32) -> u16 {
        let mut window = self
            .possible(held, peer_mss)
            .max(self.open(next).next_multiple_of(1 << self.scale));
        window = window.min(65_535u64 << self.scale);
        let field = window >> self.scale;
        self.right_edge = self.right_edge.max(next + (field << self.scale));
        self.offered_at = next;
        field as u16
    }

    /// A segment of `len` bytes, longer than any before, shows how much of the
    /// memory is payload; the clamp follows (`tcp_measure_rcv_mss`,
    /// `tcp_set_window_clamp`).
    pub(crate) fn measure_overhead(&mut self, len: u32) {
        if !self.adaptive {
            return;
        }
        let len = u64::from(len);
        self.ratio = ((len << RATIO_BITS) / (len + SEGMENT_OVERHEAD)).max(1);
        let clamp = self.buffer().min(self.max);
        self.soft_limit = if clamp < self.clamp {
            self.soft_limit.min(clamp)
        } else {
            self.soft_limit.max(self.offered().min(clamp))
        };
        self.clamp = clamp;
        self.space = self.space.min(clamp);
    }

    /// A segment of `len` bytes came: the soft limit grows ahead of the
    /// sender's slow start. Returns whether it did.
    pub(crate) fn grow(&mut self, len: u32, held: u64) -> bool {
        let room = (self.buffer().saturating_sub(held))
            .min(self.clamp)
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

    /// The same from an echoed timestamp `age` old; whether older data still waits to be read.
    pub(crate) fn measure_rtt_by_echo(&mut self, echo: u32, age: Duration, waits: bool) {
        if echo == self.last_echo {
            return;
        }
        self.last_echo = echo;
        let old = self.tuning == ReceiveTuning::V6_15;
        let sample = match age.as_micros() {
            // Shorter than the clock's tick.
            0 if !old => return,
            sample => sample.max(1_000),
        };
        if self.rtt_us == 0 || !old && sample << 3 < self.rtt_us {
            self.rtt_us = sample << 3;
        } else if old || !waits {
            self.rtt_us = self.rtt_us - (self.rtt_us >> 3) + sample;
        }
    }

    /// The receiver's RTT.
    pub(crate) fn rtt(&self) -> Duration {
        Duration::from_nanos(self.rtt_us * 125)
    }

    /// The application has read up to `read` and `waits` bytes are still to be read: once per RTT,
    /// room is made for twice what it read in that RTT, and for as much growth again. `span` as in
    /// [`make_room_for`](Self::make_room_for).
    pub(crate) fn adapt(&mut self, now: Instant, read: u64, waits: u64, span: u64) {
        if self.rtt_us == 0 || now.since(self.space_time) < self.rtt() {
            return;
        }
        let mut copied = read.saturating_sub(self.space_seq);
        if self.tuning == ReceiveTuning::V6_18 {
            copied = copied.saturating_sub(waits);
        }
        if copied > self.space {
            self.make_room(copied, span);
            self.space = copied;
        }
        self.space_seq = read;
        self.space_time = now;
    }

    /// Data came out of order and ends `span` bytes behind what is due next: since v6.18 there is
    /// room for it, too.
    pub(crate) fn make_room_for(&mut self, span: u64) {
        if self.tuning == ReceiveTuning::V6_18 && self.space > 0 {
            self.make_room(self.space, span);
        }
    }

    /// Makes room for `copied` bytes in a round trip (`tcp_rcvbuf_grow`).
    fn make_room(&mut self, copied: u64, span: u64) {
        if !self.adaptive {
            return;
        }
        let grown = copied - self.space;
        let before = self.space.max(1);
        let rtt_us = self.rtt_us >> 3;
        let window = match self.tuning {
            ReceiveTuning::V6_15 => {
                let window = 2 * copied + 16 * self.mss;
                window + 2 * (window * grown / before)
            }
            ReceiveTuning::V6_18 if rtt_us < LOW_RTT => {
                2 * copied + 2 * copied * rtt_us / LOW_RTT + span
            }
            ReceiveTuning::V6_18 => 2 * copied + 4 * copied * grown / before + span,
        };
        let memory = (window.min(self.max) << RATIO_BITS) / self.ratio;
        if memory > self.memory {
            self.memory = memory;
            self.clamp = self.buffer();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(buffer: ReceiveBuffer) -> (ReceiveBuffer, ReceiveTuning) {
        (buffer, ReceiveTuning::default())
    }

    /// A window of which the SYN-ACK has left, with timestamps agreed.
    fn auto(scaling: bool, mtu: u32) -> ReceiveWindow {
        let mut w = ReceiveWindow::new(usual(ReceiveBuffer::default()), mtu - 40, scaling);
        w.start(1000, mtu - 52);
        w.offer_first(1000);
        w.begin_transfer(Instant::ZERO, 1000);
        w
    }

    #[test]
    fn scale_carries_the_largest_window() {
        assert_eq!(auto(true, 1500).scale, 12);
        assert_eq!(auto(false, 1500).scale, 0);
        let w = ReceiveWindow::new(usual(ReceiveBuffer::Fixed(6 << 20)), 1448, true);
        assert_eq!(w.scale, 7);
    }

    #[test]
    fn the_first_window_is_as_on_linux() {
        // What `ss -ti` shows of a server on v6.18 with tcp_rmem[1] 131072:
        // snd_wnd of the peer, rcv_ssthresh and rcv_space. The model's memory is
        // two bytes less, so that its window fits the field of a SYN.
        for (mtu, offered, soft_limit, space) in [
            (1500, 65_160, 64_088, 14_480),
            (9000, 62_636, 56_588, 56_588),
        ] {
            let w = auto(true, mtu);
            assert_eq!(w.offered(), offered);
            assert_eq!(w.soft_limit, soft_limit - 1);
            assert_eq!(w.space, space.min(soft_limit - 1));
        }
        let mut syn = ReceiveWindow::new(usual(ReceiveBuffer::default()), 1460, true);
        assert_eq!(syn.offer_first(0), 64_240);
    }

    #[test]
    fn a_full_segment_shows_how_much_of_the_memory_is_payload() {
        // 1448 of 2280 bytes, 8948 of 9780: 162 and 234 of 256.
        for (mtu, ratio) in [(1500, 162), (9000, 234)] {
            let mut w = auto(true, mtu);
            w.measure_overhead(mtu - 52);
            assert_eq!(w.ratio, ratio);
            assert_eq!(w.clamp, 131_070 * ratio / 256);
            assert_eq!(w.soft_limit, w.offered());
        }
    }

    #[test]
    fn small_segments_narrow_the_window() {
        let mut w = auto(true, 1500);
        w.measure_overhead(600);
        // 600 of 1432 bytes: 107 of 256.
        assert_eq!(w.clamp, 131_070 * 107 / 256);
        assert_eq!(w.soft_limit, w.clamp);
    }

    #[test]
    fn an_offer_is_never_taken_back() {
        let mut w = auto(false, 1500);
        w.measure_overhead(1448);
        w.grow(1448, 0);
        let first = u64::from(w.offer(1000, 0, 1448));
        assert_eq!(first, 65_160);
        // 80 000 bytes are held and not read: the right edge stays.
        assert_eq!(w.offer(61_000, 80_000, 1448), 5_160);
        // They are read: the window opens again.
        assert!(w.offer(61_000, 0, 1448) > 60_000);
    }

    #[test]
    fn without_scaling_the_last_offer_is_kept_while_it_fits() {
        let mut w = auto(false, 1500);
        assert_eq!(w.possible(0, 1448), 63_712, "whole segments of 64 087");
        w.measure_overhead(1448);
        // 1000 bytes are held; the offer of before is still possible.
        assert_eq!(w.possible(1_000, 1448), w.offered());
    }

    #[test]
    fn less_than_a_segment_is_offered_as_nothing() {
        let mut w = ReceiveWindow::new(usual(ReceiveBuffer::Fixed(10_000)), 1448, false);
        w.start(0, 1448);
        w.begin_transfer(Instant::ZERO, 0);
        w.offer(0, 0, 1448);
        assert_eq!(w.offer(10_000, 10_000, 1448), 0);
        assert_eq!(w.possible(9_000, 1448), 0);
        assert!(w.possible(5_000, 1448) >= 1448);
    }

    #[test]
    fn the_buffer_follows_what_is_read_per_round_trip() {
        let mut w = auto(true, 1500);
        w.measure_overhead(1448);
        w.measure_rtt_by_echo(1, Duration::from_millis(10), false);
        w.adapt(
            Instant::ZERO + Duration::from_millis(10),
            1000 + 28_960,
            0,
            0,
        );
        // 2·28960 + 16·1448 = 81088; grown by 2·81088·(28960−14480)/14480.
        assert_eq!(w.memory, 81_088 * 3 * 256 / 162);
        let before = w.memory;
        w.adapt(Instant::ZERO + Duration::from_millis(11), 1_000_000, 0, 0);
        assert_eq!(w.memory, before, "once per round trip");
    }

    /// The numbers of `tcp_rcvbuf_grow` and `tcp_rcv_rtt_update` of Linux v6.19 by hand.
    #[test]
    fn since_v6_18_the_buffer_grows_without_a_margin_and_with_what_is_out_of_order() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let mut w = auto(true, 1500);
        w.tuning = ReceiveTuning::V6_18;
        w.measure_overhead(1448);
        w.measure_rtt_by_echo(1, Duration::from_millis(10), false);
        // 28960 of 14480 before: twice that, and twice as much growth; 1448 still wait.
        w.adapt(at(10), 1000 + 30_408, 1_448, 0);
        assert_eq!((w.memory, w.space), (57_920 * 3 * 256 / 162, 28_960));
        // As much again would need less than there is, but for a gap of 200 kB.
        w.make_room_for(100_000);
        assert_eq!(w.memory, 57_920 * 3 * 256 / 162);
        w.make_room_for(200_000);
        assert_eq!(w.memory, 257_920 * 256 / 162);
        // A shorter round trip counts at once, a longer one is smoothed, or not at all while
        // data waits; one of no time is none.
        w.measure_rtt_by_echo(2, Duration::from_millis(4), true);
        assert_eq!(w.rtt(), Duration::from_millis(4));
        w.measure_rtt_by_echo(3, Duration::from_millis(12), true);
        w.measure_rtt_by_echo(4, Duration::ZERO, false);
        assert_eq!(w.rtt(), Duration::from_millis(4));
        w.measure_rtt_by_echo(5, Duration::from_millis(12), false);
        assert_eq!(w.rtt(), Duration::from_millis(5));
    }

    /// Within half a millisecond half as much again, whatever the growth.
    #[test]
    fn since_v6_19_the_buffer_grows_less_for_short_round_trips() {
        let mut w = auto(true, 1500);
        w.tuning = ReceiveTuning::V6_18;
        w.measure_overhead(1448);
        w.rtt_us = 500 << 3;
        w.adapt(
            Instant::ZERO + Duration::from_millis(1),
            1000 + 144_800,
            0,
            0,
        );
        assert_eq!(w.memory, 289_600 * 3 / 2 * 256 / 162);
    }
}
