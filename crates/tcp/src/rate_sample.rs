//! Delivery rate samples (draft-cheng-iccrg-delivery-rate-estimation as
//! Linux `net/ipv4/tcp_rate.c`, v6.17).

use narrows_units::Instant;

use crate::connection::Connection;
use crate::scoreboard::{Segment, flag};

/// What the sender keeps between ACKs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateSampler {
    /// Segments delivered; wraps, as Linux's.
    pub(crate) delivered: u32,
    /// Of these, reported as CE-marked.
    pub(crate) delivered_ce: u32,
    /// When `delivered` last grew.
    delivered_us: u64,
    /// When the segment that was delivered last had been sent.
    first_tx_us: u64,
    /// Application-limited until `delivered` passes this; 0 if not.
    app_limited: u32,
    best_delivered: u32,
    best_interval_us: u32,
    /// The application did not limit the sender in that sample: the opposite,
    /// so that no sample at all reads as limited, as in Linux.
    best_unlimited: bool,
}

/// The sample that one ACK gives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RateSample {
    prior_us: u64,
    last_sent_us: u64,
    last_end: u64,
    send_us: u32,
    /// `delivered` when the sampled segment left; 0 if there is none.
    pub(crate) prior_delivered: u32,
    /// Segments in flight before the ACK.
    pub(crate) prior_in_flight: u32,
    /// Segments delivered over the interval; negative if invalid.
    pub(crate) delivered: i32,
    /// The interval in µs; 0 if invalid.
    pub(crate) interval_us: u32,
    /// The application limited the sender during it.
    pub(crate) app_limited: bool,
    /// RTT for the congestion control in µs; 0 if none.
    pub(crate) rtt_us: u32,
    /// Segments newly delivered by the ACK.
    pub(crate) acked_sacked: u32,
    /// Segments newly taken for lost.
    pub(crate) losses: u32,
}

/// Whether (`t1`, `end1`) was sent after (`t2`, `end2`); segments of one burst
/// have one time, so the sequence decides (`tcp_skb_sent_after`).
pub(crate) fn sent_after(t1: u64, t2: u64, end1: u64, end2: u64) -> bool {
    t1 > t2 || t1 == t2 && end1 > end2
}

/// From `earlier` to `later`, both in whole µs of the clock. A difference of
/// whole µs is not the whole µs of a difference, and Linux takes the former
/// (`tcp_stamp_us_delta`).
pub(crate) fn micros(later: u64, earlier: u64) -> u32 {
    u32::try_from(later.saturating_sub(earlier)).unwrap_or(u32::MAX)
}

impl RateSampler {
    /// Stamps a segment that departs at `now` with `packets_out` out before it.
    pub(crate) fn sent(&mut self, now: Instant, packets_out: u32, segment: &mut Segment) {
        let now = now.as_micros();
        if packets_out == 0 {
            // A send phase cannot begin before there is something to send.
            self.first_tx_us = now;
            self.delivered_us = now;
        }
        segment.tx_first_us = self.first_tx_us;
        segment.tx_delivered_us = self.delivered_us;
        segment.tx_delivered = self.delivered;
        segment.tx_delivered_ce = self.delivered_ce;
        segment.flags &= !(flag::APP_LIMITED | flag::RATED);
        if self.app_limited != 0 {
            segment.flags |= flag::APP_LIMITED;
        }
    }

    /// A segment was delivered: the one sent last is the sample's.
    pub(crate) fn segment_delivered(&mut self, segment: &Segment, sample: &mut RateSample) {
        if segment.is(flag::RATED) {
            return;
        }
        if sample.last_end == 0
            || sent_after(
                segment.sent_us,
                sample.last_sent_us,
                segment.end(),
                sample.last_end,
            )
        {
            sample.prior_delivered = segment.tx_delivered;
            sample.prior_us = segment.tx_delivered_us;
            sample.app_limited = segment.is(flag::APP_LIMITED);
            sample.last_sent_us = segment.sent_us;
            sample.last_end = segment.end();
            sample.send_us = micros(segment.sent_us, segment.tx_first_us);
            self.first_tx_us = segment.sent_us;
        }
    }

    /// Completes the sample (`tcp_rate_gen`).
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        newly: u32,
        lost: u32,
        reneged: bool,
        min_rtt_us: u32,
        sample: &mut RateSample,
    ) {
        let now = now.as_micros();
        if self.app_limited != 0 && (self.delivered.wrapping_sub(self.app_limited) as i32) > 0 {
            self.app_limited = 0;
        }
        if newly > 0 {
            self.delivered_us = now;
        }
        sample.acked_sacked = newly;
        sample.losses = lost;
        if sample.last_end == 0 || reneged {
            sample.delivered = -1;
            sample.interval_us = 0;
            return;
        }
        sample.delivered = self.delivered.wrapping_sub(sample.prior_delivered) as i32;
        let ack_us = micros(now, sample.prior_us);
        sample.interval_us = sample.send_us.max(ack_us);
        // Shorter than any round trip: ACKs were compressed beyond use.
        if min_rtt_us != u32::MAX && sample.interval_us < min_rtt_us || sample.interval_us == 0 {
            sample.interval_us = 0;
            sample.delivered = -1;
            return;
        }
        let better = u64::from(sample.delivered.unsigned_abs()) * u64::from(self.best_interval_us)
            >= u64::from(self.best_delivered) * u64::from(sample.interval_us);
        if !sample.app_limited || better {
            self.best_delivered = sample.delivered.unsigned_abs();
            self.best_interval_us = sample.interval_us;
            self.best_unlimited = !sample.app_limited;
        }
    }

    /// Whether what is sent now counts as application-limited.
    pub(crate) fn is_marked_app_limited(&self) -> bool {
        self.app_limited != 0
    }

    /// Whether the application limited the sender in the sample that
    /// [`delivery_rate`](Self::delivery_rate) is of.
    pub(crate) fn is_app_limited(&self) -> bool {
        !self.best_unlimited
    }

    /// Delivery rate of the last valid sample, bytes per second.
    pub(crate) fn delivery_rate(&self, mss: u32) -> u64 {
        u64::from(self.best_delivered) * u64::from(mss) * 1_000_000
            / u64::from(self.best_interval_us.max(1))
            * u64::from(self.best_interval_us > 0)
    }
}

impl Connection {
    /// The application has nothing more to send although the window would let
    /// it (`tcp_rate_check_app_limited`).
    pub(crate) fn check_app_limited(&mut self) {
        if self.unsent() < u64::from(self.agreed.mss)
            && self.board.in_flight() < self.cong.cwnd
            && self.board.lost_out <= self.board.retrans_out
        {
            self.mark_app_limited();
        }
    }

    /// Samples count as application-limited until what is in flight is delivered.
    pub(crate) fn mark_app_limited(&mut self) {
        let end = self.rate.delivered.wrapping_add(self.board.in_flight());
        self.rate.app_limited = end.max(1);
    }
}
