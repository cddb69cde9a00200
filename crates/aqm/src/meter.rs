//! What every queue keeps beside its algorithm: its name in events, the
//! link's overhead, its backlog and its counts of marks and drops.

use narrows_packet::{Backlog, DropCause, EntityId, Event, MarkCause, Outlet, Packet};
use narrows_units::Instant;
use narrows_wire::Ecn;
use narrows_wire::ip;

use crate::spec::LinkFacts;

/// Counts and reports for one queue.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    entity: EntityId,
    overhead: u32,
    /// What waits.
    pub backlog: Backlog,
    /// Packets marked so far.
    pub marked: u64,
    /// Packets dropped so far.
    pub dropped: u64,
}

impl Meter {
    /// Nothing counted yet.
    pub fn new(entity: EntityId, link: LinkFacts) -> Self {
        Self {
            entity,
            overhead: link.overhead,
            backlog: Backlog::default(),
            marked: 0,
            dropped: 0,
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
        self.backlog.packets += 1;
        self.backlog.bytes += u64::from(length);
        length
    }

    /// Counts that a packet of `length` bytes waits no more.
    #[inline]
    pub fn left(&mut self, length: u32) {
        self.backlog.packets -= 1;
        self.backlog.bytes -= u64::from(length);
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
                self.marked += 1;
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
        self.dropped += 1;
        out.drop(now, self.entity, packet, cause);
    }
}
