//! What every queue keeps beside its algorithm: its name in events, the
//! link's overhead, its backlog and its counts of marks and drops.

use narrows_core::{DropCause, EntityId, Event, MarkCause, Outlet, Packet, QueueCounts};
use narrows_units::Instant;
use narrows_wire::Ecn;
use narrows_wire::ip;

use crate::link_facts::LinkFacts;

/// Counts and reports for one queue.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    entity: EntityId,
    overhead: u32,
    pub counts: QueueCounts,
}

impl Meter {
    /// Nothing counted yet.
    pub fn new(entity: EntityId, link: LinkFacts) -> Self {
        Self {
            entity,
            overhead: link.overhead,
            counts: QueueCounts::default(),
        }
    }

    /// Bytes that the link counts for `packet`; Linux's `qdisc_pkt_len`.
    #[inline]
    pub fn length(&self, packet: &Packet) -> u32 {
        packet.len() + self.overhead
    }

    /// Counts `packet`, which begins to wait at `now`; returns its length.
    #[inline]
    pub fn entered(&mut self, now: Instant, packet: &mut Packet) -> u32 {
        packet.held_since = now;
        let length = self.length(packet);
        self.counts.backlog.packets += 1;
        self.counts.backlog.bytes += u64::from(length);
        length
    }

    /// Counts that a packet of `length` bytes waits no more.
    #[inline]
    pub fn left(&mut self, length: u32) {
        self.counts.backlog.packets -= 1;
        self.counts.backlog.bytes -= u64::from(length);
    }

    /// Sets CE if the packet allows it, and reports that unless it bore CE
    /// already. Returns whether the packet now bears CE.
    #[inline]
    pub fn mark(
        &mut self,
        now: Instant,
        packet: &mut Packet,
        cause: MarkCause,
        out: &mut Outlet<'_>,
    ) -> bool {
        match ip::ecn(&packet.bytes) {
            Ecn::NotEct => false,
            Ecn::Ce => true,
            Ecn::Ect0 | Ecn::Ect1 => {
                ip::set_ecn(&mut packet.bytes, Ecn::Ce);
                self.counts.marked += 1;
                out.events.record(
                    now,
                    Event::Marked {
                        queue: self.entity,
                        packet,
                        cause,
                    },
                );
                true
            }
        }
    }

    /// Reports the drop of a packet that does not wait (any more).
    pub fn drop(
        &mut self,
        now: Instant,
        packet: Box<Packet>,
        cause: DropCause,
        out: &mut Outlet<'_>,
    ) {
        self.counts.dropped += 1;
        out.drop(now, self.entity, packet, cause);
    }
}
