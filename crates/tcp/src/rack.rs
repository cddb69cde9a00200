//! Loss by time: RACK (RFC 8985 §6 as Linux `net/ipv4/tcp_recovery.c`,
//! v6.17).

use narrows_cc::CaState;
use narrows_units::Duration;

use crate::connection::Connection;
use crate::rate_sample::{RateSample, micros};
use crate::scoreboard::flag;
use crate::timers::Purpose;

/// Recoveries after which a widened reordering window is narrowed again
/// (RFC 8985 §6.2 step 4, `TCP_RACK_RECOVERY_THRESH` 16).
const PERSIST: u8 = 16;
/// Least time between timer and expiry: two ticks of 1 ms
/// (`TCP_TIMEOUT_MIN_US`).
pub(crate) const TIMEOUT_MIN: Duration = Duration::from_millis(2);

/// RACK's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rack {
    /// The latest transmission of those that were delivered.
    ///
    /// Linux compares times, and ends of segments where these are equal. In virtual
    /// time acknowledgements that arrive together are worked on at one instant, and
    /// a retransmission and what left on account of the acknowledgement before it
    /// have the same one: by their ends, the retransmission would seem to be the
    /// earlier, and would be taken for lost before it can be acknowledged.
    latest: u64,
    rtt_us: u32,
    /// Something was delivered since losses were last detected.
    pub(crate) advanced: bool,
    /// The peer reported a duplicate since the window was last adapted.
    pub(crate) dsack_seen: bool,
    /// Reordering window in quarters of the minimum RTT.
    steps: u8,
    /// Recoveries left before the window is narrowed.
    pub(crate) persist: u8,
    last_delivered: u32,
}

impl Default for Rack {
    fn default() -> Self {
        Self {
            latest: 0,
            rtt_us: 0,
            advanced: false,
            dsack_seen: false,
            steps: 1,
            persist: 0,
            last_delivered: 0,
        }
    }
}

impl Rack {
    /// The window proved too narrow or not: keep it wide for a while.
    pub(crate) fn hold_window(&mut self) {
        self.persist = (self.persist + 1).min(PERSIST);
    }

    /// A segment sent at `sent_us`, by this transmission, was delivered.
    pub(crate) fn delivered(
        &mut self,
        now_us: u64,
        sent_us: u64,
        transmission: u64,
        retransmitted: bool,
        min_rtt_us: u32,
    ) {
        let rtt_us = micros(now_us, sent_us);
        // RFC 8985 §6.2 step 2: a retransmission that seems acknowledged in less than
        // the least round trip was not; its original was.
        if retransmitted && rtt_us < min_rtt_us {
            return;
        }
        self.advanced = true;
        self.rtt_us = rtt_us;
        self.latest = self.latest.max(transmission);
    }

    /// Adapts the reordering window once per round trip (RFC 8985 §6.2
    /// step 4).
    pub(crate) fn adapt(&mut self, sample: &RateSample, delivered: u32) {
        if sample.prior_delivered == 0 {
            return;
        }
        if (sample.prior_delivered.wrapping_sub(self.last_delivered) as i32) < 0 {
            self.dsack_seen = false;
        }
        if self.dsack_seen {
            self.steps = self.steps.saturating_add(1);
            self.dsack_seen = false;
            self.last_delivered = delivered;
            self.persist = PERSIST;
        } else if self.persist == 0 {
            self.steps = 1;
        }
    }
}

impl Connection {
    /// How long a segment may be overtaken before it is lost, µs (RFC 8985 §6.2
    /// step 4: none once three duplicates came on a path that does not reorder).
    fn reordering_window_us(&self) -> u64 {
        if self.cong.reord_seen == 0
            && (self.cong.state >= CaState::Recovery
                || self.board.sacked_out >= self.cong.reordering)
        {
            return 0;
        }
        let quarter = u64::from(self.rtt.min_us() >> 2);
        (quarter * u64::from(self.rack.steps)).min(u64::from(self.rtt.srtt_us >> 3))
    }

    /// Time left before a segment sent at `sent_us` is lost, in µs; zero or
    /// less if it is.
    pub(crate) fn rack_remaining_us(&self, sent_us: u64, window_us: u64) -> i64 {
        let age = self.now.as_micros().saturating_sub(sent_us);
        (u64::from(self.rack.rtt_us) + window_us) as i64 - age as i64
    }

    /// Marks what was overtaken for too long (RFC 8985 §6.2 step 5); returns the
    /// longest time that an overtaken segment still has, 0 if there is none.
    fn detect_losses(&mut self) -> u64 {
        let window = self.reordering_window_us();
        let mut longest = 0;
        let mut next = self.board.oldest();
        while let Some(i) = next {
            next = self.board.sent_after(i);
            let Some(s) = self.board.get(i).copied() else {
                break;
            };
            // Already lost and waiting to be sent again.
            if s.is(flag::LOST) && !s.is(flag::RETRANS) {
                continue;
            }
            if s.transmission >= self.rack.latest {
                break;
            }
            let left = self.rack_remaining_us(s.sent_us, window);
            if left <= 0 {
                self.board.mark_lost(i);
                self.board.unlink(i);
            } else {
                longest = longest.max(left as u64);
            }
        }
        longest
    }

    /// Detects losses after a delivery. Returns whether the reordering
    /// timer now runs in place of the retransmission timer.
    pub(crate) fn rack_mark_lost(&mut self) -> bool {
        if !self.rack.advanced {
            return false;
        }
        self.rack.advanced = false;
        let left = self.detect_losses();
        if left == 0 {
            return false;
        }
        self.start_timer(Purpose::Reorder, Duration::from_micros(left) + TIMEOUT_MIN);
        true
    }

    /// The reordering timer expired (RFC 8985 §6.2 step 5).
    pub(crate) fn on_reorder_timeout(&mut self) {
        let in_flight = self.board.in_flight();
        let lost = self.board.lost;
        self.detect_losses();
        if self.board.in_flight() != in_flight {
            if self.cong.state != CaState::Recovery {
                self.enter_recovery(false);
                if !self.rate_mode() {
                    let newly = (self.board.lost - lost) as u32;
                    self.reduce_cwnd(1, newly, false);
                }
            }
            self.out.retransmit = true;
        }
        self.rearm_retransmission();
    }
}
