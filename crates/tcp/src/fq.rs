//! The fq queueing discipline below a connection (Linux `net/sched/sch_fq.c`,
//! `tcp_update_skb_after_send`, `tcp_tsq_write`; v6.17).
//!
//! With fq, TCP has no pacing timer. What the window and small queues let go leaves
//! TCP at once, with the time before which it may not go on (`skb->tstamp`, the
//! earliest departure time), counts as in flight, and waits here. Whether the
//! window limits the sender is then a question of the window alone, while TCP's own
//! timer keeps segments back inside TCP, where they do not count. Round trips are
//! measured from the departure.

use std::collections::VecDeque;

use narrows_cc::ControlSpec;
use narrows_core::{Packet, PacketPool};
use narrows_units::Instant;

use crate::config::PacingUse;
use crate::connection::Connection;
use crate::small_queues::BURST_OVERHEAD;

/// One connection's packets in fq.
#[derive(Debug, Default)]
pub(crate) struct FairQueue {
    on: bool,
    waiting: VecDeque<(Instant, u64, Box<Packet>)>,
    /// Bytes of memory of what waits.
    memory: u64,
    /// Memory beside the payload of a burst whose first packet is still to come.
    overhead: u64,
    /// When what was handed down last may go.
    departure: Instant,
}

impl FairQueue {
    pub(crate) fn new(pacing: PacingUse, cc: &ControlSpec) -> Self {
        Self {
            on: match pacing {
                PacingUse::Fq => true,
                PacingUse::AsAlgorithm => cc.wants_fq(),
                PacingUse::Internal | PacingUse::Always | PacingUse::Never => false,
            },
            ..Self::default()
        }
    }

    /// Whether the host has it.
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Bytes of memory that wait.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// A burst is about to come that may go at `departure`.
    pub(crate) fn expect_burst(&mut self, departure: Instant) {
        self.departure = departure;
        self.overhead = BURST_OVERHEAD;
    }
}

impl Connection {
    /// When what leaves TCP now enters the network.
    pub(crate) fn departure(&self) -> Instant {
        if self.fq.on {
            self.fq.departure.max(self.now)
        } else {
            self.now
        }
    }

    /// The next packet that fq lets go now. What it has room for is taken from TCP
    /// first; room comes about as packets leave (`tcp_tsq_write`). What waits when the
    /// connection ends goes then, as there is no later call for it.
    pub(crate) fn poll_fq(&mut self, pool: &mut PacketPool) -> Option<Box<Packet>> {
        loop {
            let over = self.is_over();
            let front = self.fq.waiting.front().map(|w| w.0);
            if front.is_some_and(|at| at <= self.now || over) {
                let (_, memory, packet) = self.fq.waiting.pop_front()?;
                self.fq.memory -= memory;
                self.out.pacing_released = true;
                let next = self.fq.waiting.front().map(|w| w.0);
                self.timers.pacing = next.filter(|_| !over);
                return Some(packet);
            }
            let packet = self.poll_tcp(pool)?;
            let memory = u64::from(packet.len()) + std::mem::take(&mut self.fq.overhead);
            let departure = self.departure();
            if departure <= self.now && self.fq.waiting.is_empty() || self.is_over() {
                return Some(packet);
            }
            self.fq.memory += memory;
            self.fq.waiting.push_back((departure, memory, packet));
            self.timers.pacing = self.fq.waiting.front().map(|w| w.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use narrows_units::{Duration, Rng};

    use super::*;
    use crate::config::TcpConfig;

    fn connection(pacing: PacingUse, words: &str) -> Connection {
        let end = "192.0.2.1:1".parse().unwrap();
        let mut config = TcpConfig::new(end, end, ControlSpec::parse(words).unwrap());
        config.host.pacing = pacing;
        Connection::client(config, Rng::for_name(1, "fq"))
    }

    #[test]
    fn a_host_has_fq_where_it_is_asked_for_and_where_the_algorithm_is_made_for_it() {
        for (pacing, words, on) in [
            (PacingUse::AsAlgorithm, "cubic", false),
            (PacingUse::AsAlgorithm, "prague variant 2020", false),
            (PacingUse::AsAlgorithm, "prague variant 2022", true),
            (PacingUse::AsAlgorithm, "prague", true),
            (PacingUse::Internal, "prague", false),
            (PacingUse::Never, "prague", false),
            (PacingUse::Fq, "cubic", true),
        ] {
            assert_eq!(
                connection(pacing, words).fq.is_on(),
                on,
                "{pacing:?} {words}"
            );
        }
    }

    #[test]
    fn two_bursts_wait_in_fq_and_a_third_stays_in_tcp() {
        const MSS: u64 = 1448;
        let mut c = connection(PacingUse::Fq, "cubic");
        c.board.packets_out = 1;
        c.fq.memory = BURST_OVERHEAD + MSS + 52;
        assert!(!c.below_is_full(MSS, false));
        c.fq.memory *= 2;
        assert!(c.below_is_full(MSS, false));
        assert!(!c.below_is_full(MSS, true), "twice for retransmissions");
        // Or what the pacing rate carries in a millisecond.
        c.cong.pacing_rate = 10_000_000;
        assert!(!c.below_is_full(MSS, false));
    }

    #[test]
    fn what_waits_departs_later_than_now() {
        let mut c = connection(PacingUse::Fq, "cubic");
        let later = Instant::ZERO + Duration::from_millis(3);
        c.fq.expect_burst(later);
        assert_eq!(c.departure(), later);
        c.now = later + Duration::from_millis(1);
        assert_eq!(c.departure(), c.now);
        let mut timer = connection(PacingUse::Internal, "cubic");
        timer.fq.expect_burst(later);
        assert_eq!(timer.departure(), Instant::ZERO);
    }
}
