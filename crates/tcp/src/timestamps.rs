//! Timestamps as the receiver uses them: protection against wrapped sequence
//! numbers, and which timestamp is echoed (RFC 7323 §4.3, §5; Linux
//! `tcp_paws_check`, `tcp_replace_ts_recent`, v6.17).

use narrows_units::Duration;
use narrows_wire::Tcp;

use crate::connection::Connection;
use crate::input::Arrived;

/// Timestamps older than 24 days prove nothing (RFC 7323 §5.5,
/// `TCP_PAWS_24DAYS`).
const PAWS_AGE: Duration = Duration::from_secs(24 * 24 * 3600);

impl Connection {
    /// Whether the timestamp of a segment is older than the one to echo, so that
    /// the segment may be left over from an earlier wrap of the sequence numbers.
    pub(crate) fn is_old_timestamp(&self, tcp: &Tcp) -> bool {
        self.timestamp_step(tcp).is_some_and(|step| step < 0)
            && self.now.since(self.ts_recent_at) < PAWS_AGE
    }

    /// Milliseconds by which a segment's timestamp is newer than the one to echo.
    fn timestamp_step(&self, tcp: &Tcp) -> Option<i32> {
        let (value, _) = tcp.options.timestamps.filter(|_| self.agreed.timestamps)?;
        Some(value.wrapping_sub(self.ts_recent) as i32)
    }

    /// Keeps the timestamp of an acceptable segment at `seq` if it reaches back to
    /// the last ACK sent, which then is the one to echo (RFC 7323 §4.3). Answers
    /// whether it is newer.
    pub(crate) fn replace_ts_recent(&mut self, tcp: &Tcp, seq: u64) -> bool {
        let Some(step) = self.timestamp_step(tcp) else {
            return false;
        };
        if seq > self.window.offered_at || self.is_old_timestamp(tcp) {
            return false;
        }
        self.ts_recent = self.ts_recent.wrapping_add_signed(step);
        self.ts_recent_at = self.now;
        step > 0
    }

    /// A reordered pure ACK with an old timestamp is let through
    /// (`tcp_disordered_ack`).
    pub(crate) fn is_harmless_old_ack(&self, a: &Arrived<'_>) -> bool {
        let age = self.timestamp_step(&a.tcp).unwrap_or(0).unsigned_abs();
        a.len == 0
            && a.seq == self.incoming.next
            && a.tcp.ack == self.snd.una as u32
            && u64::from(age) * 1_000 <= self.rtt.rto_us
    }
}
