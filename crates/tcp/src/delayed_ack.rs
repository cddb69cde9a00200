//! When to acknowledge: delayed, quick and immediate ACKs as Linux
//! (`net/ipv4/tcp_input.c` `tcp_event_data_recv`, `__tcp_ack_snd_check`,
//! `net/ipv4/tcp_output.c` `tcp_send_delayed_ack`, v6.17).

use narrows_units::{Duration, Instant};

/// Shortest delay: 40 ms (`TCP_DELACK_MIN`, `TCP_ATO_MIN`).
const ATO_MIN: Duration = Duration::from_millis(40);
/// Longest delay: 200 ms (`TCP_DELACK_MAX`; RFC 9293 §3.8.6.3 allows 500 ms).
pub(crate) const DELAY_MAX: Duration = Duration::from_millis(200);
/// Longest delay when neither interactive nor pushed: 500 ms (HZ/2).
const DELAY_CAP: Duration = Duration::from_millis(500);
/// Most ACKs in a row that are sent at once (`TCP_MAX_QUICKACKS`).
pub(crate) const MAX_QUICK_ACKS: u32 = 16;
/// So many replies make a session interactive (`tcp_pingpong_thresh` 1).
const PINGPONG: u8 = 1;
/// Guess of the peer's segment size before it is seen (`TCP_MSS_DEFAULT`).
const MSS_DEFAULT: u32 = 536;
/// Smallest segment taken for full-sized when it is not pushed
/// (`TCP_MIN_MSS`).
const MSS_MIN: u32 = 88;

/// What is owed to the peer.
#[derive(Clone, Debug)]
pub(crate) struct DelayedAck {
    /// An ACK is owed (`ICSK_ACK_SCHED`).
    pub(crate) scheduled: bool,
    /// It is owed at once (`ICSK_ACK_NOW`).
    pub(crate) now: bool,
    /// A segment smaller than full size came (`ICSK_ACK_PUSHED`).
    pub(crate) pushed: bool,
    /// Two of them came (`ICSK_ACK_PUSHED2`).
    pub(crate) pushed_twice: bool,
    /// When the delay ends.
    pub(crate) deadline: Option<Instant>,
    /// The peer's segment size as observed.
    pub(crate) peer_mss: u32,
    /// The delay's estimate (`icsk_ack.ato`); zero before the first data.
    pub(crate) ato: Duration,
    quick: u32,
    pingpong: u8,
    /// When data came last (`icsk_ack.lrcvtime`).
    pub(crate) last_data: Instant,
    last_odd_size: u32,
}

impl DelayedAck {
    /// `hint` is the smallest of our MSS, the announced MSS and half the
    /// window.
    pub(crate) fn new(hint: u32) -> Self {
        Self {
            scheduled: false,
            now: false,
            pushed: false,
            pushed_twice: false,
            deadline: None,
            peer_mss: hint.clamp(MSS_MIN, MSS_DEFAULT),
            ato: Duration::ZERO,
            quick: 0,
            pingpong: 0,
            last_data: Instant::ZERO,
            last_odd_size: 0,
        }
    }

    /// Whether the session is interactive: data answers data.
    pub(crate) fn interactive(&self) -> bool {
        self.pingpong >= PINGPONG
    }

    /// Whether every segment is acknowledged at once.
    pub(crate) fn in_quick_mode(&self) -> bool {
        self.quick > 0 && !self.interactive()
    }

    /// The next `most` ACKs are to be quick; how many really are depends on
    /// the window, so that it is covered once.
    fn add_quick(&mut self, most: u32, window: u64) {
        let segments = (window / (2 * u64::from(self.peer_mss))).min(u64::from(most)) as u32;
        let segments = if segments == 0 { 2.min(most) } else { segments };
        self.quick = self.quick.max(segments);
    }

    /// Acknowledge quickly from now on.
    pub(crate) fn enter_quick_mode(&mut self, most: u32, window: u64) {
        self.add_quick(most, window);
        self.pingpong = 0;
        self.ato = ATO_MIN;
    }

    /// Only an answer is expected from now on.
    pub(crate) fn become_interactive(&mut self) {
        self.pingpong = PINGPONG;
    }

    /// The window grew: at least the next ACK is quick.
    pub(crate) fn window_grew(&mut self) {
        self.quick |= 1;
    }

    /// Data came in order, with `window` open.
    pub(crate) fn data_received(&mut self, now: Instant, window: u64, rto: Duration) {
        self.scheduled = true;
        if self.ato.is_zero() {
            // The first data of a connection: its window is small, do not
            // slow it down further.
            self.add_quick(MAX_QUICK_ACKS, window);
            self.ato = ATO_MIN;
        } else {
            let gap = now.since(self.last_data);
            if gap <= ATO_MIN / 2 {
                self.ato = self.ato / 2 + ATO_MIN / 2;
            } else if gap < self.ato {
                self.ato = (self.ato / 2 + gap).min(rto);
            } else if gap > rto {
                // A pause as long as an RTO: the peer restarts its window.
                self.add_quick(MAX_QUICK_ACKS, window);
            }
        }
        self.last_data = now;
    }

    /// Data came in order while an ACK was already owed; out of order data
    /// only schedules.
    pub(crate) fn schedule(&mut self) {
        self.scheduled = true;
    }

    /// Data came, in order or not: `len` payload bytes, `pushed` if PSH or FIN was set.
    pub(crate) fn measure_peer_mss(&mut self, len: u32, pushed: bool, own_mss: u32) {
        let last = std::mem::take(&mut self.last_odd_size);
        if len >= self.peer_mss {
            self.peer_mss = len.min(own_mss);
            // A full segment that ends a write: nothing more may follow.
            if pushed && len == self.peer_mss {
                self.pushed = true;
            }
            return;
        }
        if len >= MSS_DEFAULT || len >= MSS_MIN && !pushed {
            self.last_odd_size = len;
            if len == last {
                self.peer_mss = len;
                return;
            }
        }
        self.pushed_twice |= self.pushed;
        self.pushed = true;
    }

    /// Data is sent: if it answers data within the ACK timeout, the session
    /// is interactive.
    pub(crate) fn data_sent(&mut self, now: Instant) {
        if now.since(self.last_data) < self.ato {
            self.pingpong = self.pingpong.saturating_add(1);
        }
    }

    /// An acknowledgement has left, alone or with data.
    pub(crate) fn ack_sent(&mut self) {
        if self.quick > 0 {
            let used = u32::from(self.scheduled);
            if used >= self.quick {
                self.quick = 0;
                self.ato = ATO_MIN;
            } else {
                self.quick -= used;
            }
        }
        self.scheduled = false;
        self.now = false;
        self.pushed = false;
        self.pushed_twice = false;
        self.deadline = None;
    }

    /// Starts the delay. Returns whether the ACK must leave at once because
    /// an earlier delay is nearly over.
    pub(crate) fn delay(&mut self, now: Instant, srtt: Duration) -> bool {
        let mut ato = self.ato;
        if ato > ATO_MIN {
            let mut cap = if self.interactive() || self.pushed {
                DELAY_MAX
            } else {
                DELAY_CAP
            };
            if !srtt.is_zero() {
                cap = cap.min(srtt.max(ATO_MIN));
            }
            ato = ato.min(cap);
        }
        ato = ato.min(DELAY_MAX).max(Duration::from_millis(1));
        let mut deadline = now + ato;
        if let Some(running) = self.deadline {
            if running <= now + ato / 4 {
                return true;
            }
            deadline = deadline.min(running);
        }
        self.scheduled = true;
        self.deadline = Some(deadline);
        false
    }

    /// The delay is over. Returns whether an ACK is owed; Linux then takes
    /// longer next time, because nothing carried the ACK.
    pub(crate) fn expired(&mut self, rto: Duration) -> bool {
        self.deadline = None;
        if !self.scheduled {
            return false;
        }
        if self.interactive() {
            self.pingpong = 0;
            self.ato = ATO_MIN;
        } else {
            self.ato = (self.ato * 2).min(rto);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTO: Duration = Duration::from_millis(200);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(1000 + ms)
    }

    #[test]
    fn the_first_data_is_acknowledged_quickly() {
        let mut d = DelayedAck::new(1448);
        d.measure_peer_mss(1448, false, 1448);
        d.data_received(at(0), 65_535, RTO);
        assert!(d.in_quick_mode());
        for _ in 0..MAX_QUICK_ACKS {
            assert!(d.in_quick_mode());
            d.scheduled = true;
            d.ack_sent();
        }
        assert!(!d.in_quick_mode());
    }

    #[test]
    fn delay_adapts_to_the_gap_between_segments() {
        let mut d = DelayedAck::new(1448);
        d.measure_peer_mss(1448, false, 1448);
        d.data_received(at(0), 65_535, RTO);
        assert!(!d.delay(at(0), Duration::ZERO));
        assert_eq!(d.deadline, Some(at(40)));
        d.deadline = None;
        // Gaps of 30 ms: ato = 40/2 + 30 = 50 ms, then 25 + 30 = 55 ms.
        d.measure_peer_mss(1448, false, 1448);
        d.data_received(at(30), 65_535, RTO);
        d.delay(at(30), Duration::ZERO);
        assert_eq!(d.deadline, Some(at(80)));
        d.deadline = None;
        d.measure_peer_mss(1448, false, 1448);
        d.data_received(at(60), 65_535, RTO);
        // A short round trip caps it at 40 ms.
        d.delay(at(60), Duration::from_millis(5));
        assert_eq!(d.deadline, Some(at(100)));
    }

    #[test]
    fn an_expired_delay_doubles_it_unless_interactive() {
        let mut d = DelayedAck::new(1448);
        d.measure_peer_mss(1448, false, 1448);
        d.data_received(at(0), 65_535, RTO);
        d.delay(at(0), Duration::ZERO);
        assert!(d.expired(RTO));
        assert_eq!(d.ato, ATO_MIN * 2);
        d.data_sent(at(1));
        assert!(d.interactive());
        d.scheduled = true;
        assert!(d.expired(RTO));
        assert_eq!(d.ato, ATO_MIN);
        assert!(!d.interactive());
    }

    #[test]
    fn the_peers_segment_size_is_learnt() {
        let mut d = DelayedAck::new(1448);
        assert_eq!(d.peer_mss, 536);
        d.measure_peer_mss(1448, false, 1448);
        d.data_received(at(0), 65_535, RTO);
        assert_eq!(d.peer_mss, 1448);
        d.measure_peer_mss(100, true, 1448);
        d.data_received(at(0), 65_535, RTO);
        assert!(d.pushed && !d.pushed_twice);
        d.measure_peer_mss(700, true, 1448);
        d.data_received(at(0), 65_535, RTO);
        d.measure_peer_mss(700, true, 1448);
        d.data_received(at(0), 65_535, RTO);
        assert_eq!(d.peer_mss, 700);
    }
}
