//! Timestamps as the receiver uses them: protection against wrapped sequence
//! numbers, and which timestamp is echoed (RFC 7323 §4.3, §5; Linux
//! `tcp_paws_check`, `tcp_replace_ts_recent`, v6.17).

use narrows_units::Duration;
use narrows_wire::Tcp;

use crate::connection::Connection;
use crate::input::Arrived;

/// A timestamp kept for longer proves nothing: at 1 MHz, the fastest clock of a Linux
/// host, its sign has changed by then (`TCP_PAWS_WRAP`, since v6.7; RFC 7323 §5.5 says
/// 24 days, of a clock of 1 kHz).
const PAWS_AGE: Duration = Duration::from_secs(2_147);
/// Ticks by which a segment may be older than the timestamp to echo, as it may be one
/// that was reordered (`TCP_PAWS_WINDOW`).
const PAWS_WINDOW: i32 = 1;
/// The fastest clock, in Hz, that a peer is taken to have when its reordered ACKs are
/// let through (`tcp_tsval_replay`).
const REPLAY_HZ: u64 = 1_200;

impl Connection {
    /// Whether the timestamp of a segment is older than the one to echo, so that
    /// the segment may be left over from an earlier wrap of the sequence numbers.
    pub(crate) fn is_old_timestamp(&self, tcp: &Tcp) -> bool {
        self.is_older_by_more_than(0, tcp)
    }

    /// The same for a segment of an established connection, which may be older by
    /// [`PAWS_WINDOW`] (`tcp_validate_incoming`).
    pub(crate) fn fails_paws(&self, tcp: &Tcp) -> bool {
        self.is_older_by_more_than(PAWS_WINDOW, tcp)
    }

    /// A peer that began with a timestamp of zero did not mean it (`tcp_paws_check`).
    fn is_older_by_more_than(&self, ticks: i32, tcp: &Tcp) -> bool {
        self.timestamp_step(tcp).is_some_and(|step| step < -ticks)
            && self.ts_recent != 0
            && self.now.since(self.ts_recent_at) < PAWS_AGE
    }

    /// Whether the timestamp of a segment is newer than the one to echo.
    pub(crate) fn is_new_timestamp(&self, tcp: &Tcp) -> bool {
        self.timestamp_step(tcp).is_some_and(|step| step > 0)
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

    /// A reordered duplicate ACK with an old timestamp is let through, if it changes
    /// nothing (`tcp_disordered_ack_check`).
    pub(crate) fn is_harmless_old_ack(&self, a: &Arrived<'_>) -> bool {
        let age = self.timestamp_step(a.tcp).unwrap_or(0).unsigned_abs();
        let replayed = self.rtt.rto_us * REPLAY_HZ / 1_000_000;
        a.is_pure_ack()
            && a.seq == self.incoming.next
            && a.tcp.ack == self.snd.una as u32
            && !self.may_update_window(a.tcp, a.seq, self.snd.una)
            && u64::from(age) <= replayed
    }
}
