//! How fast and in which bursts data leaves: the pacing rate
//! (`tcp_update_pacing_rate`), the internal pacing timer
//! (`tcp_update_skb_after_send`), burst size (`tcp_tso_autosize`) and the
//! wait for a larger one (`tcp_tso_should_defer`), as Linux v6.17.

use narrows_cc::CaState;
use narrows_units::{Duration, Instant};

use crate::config::{PacingUse, Segmentation};
use crate::connection::Connection;

/// Linux's ratios for algorithms that leave pacing to the stack, percent
/// (`tcp_pacing_ss_ratio`, `tcp_pacing_ca_ratio`).
const RATIOS: (u32, u32) = (200, 120);
/// A burst is what the rate carries in 2⁻¹⁰ s (`sk_pacing_shift` 10).
const BURST_SHIFT: u32 = 10;
/// Below a minimum RTT of 2⁹ µs bursts may be larger (`tcp_tso_rtt_log` 9).
const RTT_LOG: u32 = 9;
/// Data segments that leave unpaced at the start, so that the initial window
/// goes out at once.
const UNPACED: u32 = 10;
/// A third of the window is worth sending (`tcp_tso_win_divisor` 3).
const WINDOW_DIVISOR: u64 = 3;

impl Connection {
    /// Ratio × mss × cwnd / srtt, in bytes per second.
    pub(crate) fn update_pacing_rate(&mut self) {
        if self.rate_mode() {
            return;
        }
        let (slow_start, avoidance) = RATIOS;
        let c = &self.cong;
        let ratio = if c.cwnd < c.ssthresh / 2 {
            slow_start
        } else {
            avoidance
        };
        // 8·10⁶/100 turns percent and eighths of µs into bytes per second.
        let mut rate = u128::from(self.agreed.mss)
            * 80_000
            * u128::from(ratio)
            * u128::from(c.cwnd.max(self.board.packets_out));
        if self.rtt.srtt_us > 0 {
            rate /= u128::from(self.rtt.srtt_us);
        }
        self.cong.pacing_rate = u64::try_from(rate).unwrap_or(u64::MAX);
    }

    /// Whether packets are spaced out.
    fn is_paced(&self) -> bool {
        match self.config.host.pacing {
            PacingUse::AsAlgorithm | PacingUse::Internal => self.cong.paced || self.fq.is_on(),
            PacingUse::Fq | PacingUse::Always => true,
            PacingUse::Never => false,
        }
    }

    /// Whether the next packet has to wait inside TCP; if so the timer runs. Under
    /// fq it never does (`tcp_needs_internal_pacing`).
    pub(crate) fn pacing_holds(&mut self) -> bool {
        if self.is_paced() && !self.fq.is_on() && self.out.next_departure > self.now {
            self.timers.pacing = Some(self.out.next_departure);
            return true;
        }
        false
    }

    /// A burst of `bytes` of payload leaves now: the next one waits until the
    /// rate has made up for it. Time lost before is given back, up to half.
    pub(crate) fn account_burst(&mut self, bytes: u64) {
        if !self.is_paced() {
            return;
        }
        let before = self.out.next_departure;
        self.out.next_departure = before.max(self.now);
        self.fq.expect_burst(self.out.next_departure);
        let rate = self.cong.pacing_rate;
        if rate == 0 || self.totals.data_segs_out < UNPACED {
            return;
        }
        let mut gap = bytes.saturating_mul(1_000_000_000) / rate;
        let credit = self.out.next_departure.since(before).as_nanos();
        gap -= credit.min(gap / 2);
        self.out.next_departure += Duration::from_nanos(gap);
    }

    /// Most segments that leave in one burst.
    pub(crate) fn burst_segments(&self) -> u32 {
        let Segmentation::Tso {
            min_segments,
            gso_max_bytes,
            ..
        } = self.config.host.segmentation
        else {
            return 1;
        };
        let max = u64::from(gso_max_bytes);
        let mss = u64::from(self.agreed.mss.max(1));
        let mut bytes = self.cong.pacing_rate >> BURST_SHIFT;
        if let Some(more) = max.checked_shr(self.rtt.min_us() >> RTT_LOG) {
            bytes = bytes.saturating_add(more);
        }
        let by_rate = (bytes.min(max) / mss).max(u64::from(min_segments));
        let segments = match self.cc.max_tso_segs() {
            Some(limit) => by_rate.min(u64::from(limit)),
            None => by_rate,
        };
        segments.clamp(1, (max / mss).max(1)) as u32
    }

    /// How many segments the congestion window lets go at once, at most half
    /// of it (`tcp_cwnd_test`).
    pub(crate) fn cwnd_quota(&self) -> u32 {
        let room = self.cong.cwnd.saturating_sub(self.board.in_flight());
        room.min((self.cong.cwnd >> 1).max(1))
    }

    /// Whether it is better to wait for an ACK that allows a larger burst, of `most`
    /// segments, than the one of `ready` bytes of which `last` says that nothing follows.
    /// Sets `cwnd_limited` or `window_limited` to why.
    pub(crate) fn defer_burst(
        &mut self,
        ready: u64,
        last: bool,
        most: u32,
        cwnd_limited: &mut bool,
        window_limited: &mut bool,
    ) -> bool {
        if self.cong.state >= CaState::Recovery {
            return false;
        }
        // Only while the last burst is recent, so that no burst builds up.
        let recent = self.out.last_departure + Duration::from_millis(1);
        if self.out.last_departure == Instant::ZERO || self.now > recent {
            return false;
        }
        let mss = u64::from(self.agreed.mss);
        let window = self.snd.edge().saturating_sub(self.snd.next);
        let congestion = u64::from(self.cong.cwnd.saturating_sub(self.board.in_flight())) * mss;
        let limit = window.min(congestion);
        if limit >= u64::from(most) * mss || !last && limit >= ready {
            return false;
        }
        let whole = self.snd.size.min(u64::from(self.cong.cwnd) * mss);
        if limit >= whole / WINDOW_DIVISOR {
            return false;
        }
        // An ACK that is due later is not waited for.
        let Segmentation::Tso { defer, .. } = self.config.host.segmentation else {
            return false;
        };
        let Some(head) = self.board.head() else {
            return false;
        };
        let srtt_ns = u64::from(self.rtt.srtt_us) * (1_000 >> 3);
        let ack_due_ns = head.sent_us * 1_000 + srtt_ns;
        if ack_due_ns.saturating_sub(self.now.as_nanos()) > defer.as_nanos().min(srtt_ns / 2) {
            return false;
        }
        if congestion < window {
            if congestion <= ready {
                *cwnd_limited = true;
                return true;
            }
        } else if window <= ready {
            *window_limited = true;
            return true;
        }
        !(last && self.fin_due())
    }
}
