//! TCP small queues: how much of a connection's own data may wait below TCP
//! (`tcp_small_queue_check`, Linux v5.4).
//!
//! Two bursts or about a millisecond may; the rest is held back until packets
//! are done with. That is when they leave fq, if the host has it. Without it they
//! are done with as soon as whatever TCP is doing has ended, since nothing on the
//! way out takes time, so the limit shows only where a sender is not notified
//! ([`SmallQueues::Unreported`]).

use crate::config::SmallQueues;
use crate::connection::Connection;

/// Memory that a burst takes besides its payload: 1280 bytes, an empty
/// `sk_buff` with room for headers (704 + 256 + 320, x86-64).
pub(crate) const BURST_OVERHEAD: u64 = 1280;
/// About a millisecond's worth at the pacing rate (`sk_pacing_shift` 10).
const RATE_SHIFT: u32 = 10;
/// Most bytes below a sender that is not paced (`tcp_limit_output_bytes`,
/// 1 MiB).
const UNPACED_MAX: u64 = 1 << 20;

/// What of the connection's own data waits below TCP.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Below {
    /// Bytes of memory.
    bytes: u64,
    /// Whether a packet or a timer is being processed, so that nothing below
    /// is done with before the end.
    held: bool,
    /// The application has written since.
    written: bool,
}

impl Connection {
    /// A packet or a timer is about to be processed. What was below is gone.
    pub(crate) fn begin_interrupt(&mut self) {
        self.below.bytes = 0;
        self.below.held = true;
    }

    /// The application has written: it sends on its own account once what the
    /// interrupt lets go has left.
    pub(crate) fn note_write(&mut self) {
        self.below.written = true;
    }

    /// Whether it is the application's turn to send: each packet of its is on
    /// its way before it makes the next.
    pub(crate) fn begin_write(&mut self) -> bool {
        let turn = std::mem::take(&mut self.below.written);
        if turn {
            self.below.bytes = 0;
            self.below.held = false;
        }
        turn
    }

    /// Whether a burst of `payload` bytes has to stay; retransmissions get
    /// twice the limit.
    pub(crate) fn below_is_full(&self, payload: u64, retransmission: bool) -> bool {
        let below = if self.fq.is_on() {
            self.fq.memory()
        } else if self.config.host.small_queues != SmallQueues::Off && self.below.held {
            self.below.bytes
        } else {
            return false;
        };
        let c = &self.cong;
        let mut limit = (2 * (BURST_OVERHEAD + payload)).max(c.pacing_rate >> RATE_SHIFT);
        if !c.paced && !self.fq.is_on() {
            limit = limit.min(UNPACED_MAX);
        }
        limit <<= u32::from(retransmission);
        // Linux's account begins at 1, so that just two bursts are too much.
        below + 1 > limit && self.board.packets_out > 0
    }

    /// A burst was handed down. A single segment goes as it is; a burst is cut
    /// by software into segments with memory of their own.
    pub(crate) fn hand_down(&mut self, payload: u64, segments: u64) {
        if let SmallQueues::Unreported { segment_bytes } = self.config.host.small_queues {
            self.below.bytes += match segments {
                0 | 1 => BURST_OVERHEAD + payload,
                n => n * u64::from(segment_bytes),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::Rng;

    use super::*;
    use crate::config::{HostModel, TcpConfig};

    const MSS: u64 = 1448;

    fn sender(small_queues: SmallQueues) -> Connection {
        let end = "192.0.2.1:1".parse().unwrap();
        let mut config = TcpConfig::new(end, end, narrows_cc::ControlSpec::parse("reno").unwrap());
        config.host.small_queues = small_queues;
        let mut c = Connection::client(config, Rng::for_name(1, "small queues"));
        c.board.packets_out = 1;
        c
    }

    #[test]
    fn two_bursts_may_wait_and_a_third_may_not() {
        let mut c = sender(HostModel::UNREPORTED);
        c.begin_interrupt();
        c.hand_down(MSS, 1);
        assert!(!c.below_is_full(MSS, false));
        c.hand_down(MSS, 1);
        assert!(c.below_is_full(MSS, false));
        assert!(!c.below_is_full(MSS, true), "twice for retransmissions");
        c.board.packets_out = 0;
        assert!(!c.below_is_full(MSS, false), "never to a stop");
        c.board.packets_out = 1;
        c.cong.pacing_rate = 10_000_000;
        assert!(!c.below_is_full(MSS, false), "a millisecond's worth");
    }

    #[test]
    fn segments_cut_off_a_burst_have_memory_of_their_own() {
        for (segment_bytes, full) in [(2304, false), (4352, true)] {
            let mut c = sender(SmallQueues::Unreported { segment_bytes });
            c.begin_interrupt();
            c.hand_down(2 * MSS, 2);
            assert_eq!(c.below_is_full(2 * MSS, false), full);
        }
    }

    #[test]
    fn an_interrupt_starts_afresh_and_a_writer_is_not_held() {
        let mut c = sender(HostModel::UNREPORTED);
        c.begin_interrupt();
        c.hand_down(MSS, 1);
        c.hand_down(MSS, 1);
        assert!(!c.begin_write(), "nobody wrote");
        assert!(c.below_is_full(MSS, false));
        c.note_write();
        assert!(c.begin_write());
        c.hand_down(MSS, 1);
        c.hand_down(MSS, 1);
        assert!(!c.below_is_full(MSS, false));
        c.begin_interrupt();
        assert!(!c.below_is_full(MSS, false));
    }

    #[test]
    fn nothing_is_held_where_packets_are_reported() {
        let mut c = sender(SmallQueues::Off);
        c.begin_interrupt();
        for _ in 0..100 {
            c.hand_down(2 * MSS, 2);
        }
        assert!(!c.below_is_full(MSS, false));
    }
}
