//! ICMP errors about a connection's packet.

use narrows_units::Instant;

use super::{Middlebox, Outcome, change, dropped, passed, set_checksums};
use crate::action::Verdict;
use crate::connections::Direction;
use crate::ffi::Packet;
use crate::structs::Tracked;

impl Middlebox {
    /// The connection that an ICMP error is about, and which way the error goes.
    pub(super) fn related(
        &mut self,
        now: Instant,
        packet: &mut Packet<'_>,
    ) -> Option<(u32, Direction)> {
        if !packet.quotes() {
            return None;
        }
        let expired = |c: &Tracked, _| now >= c.expiry();
        self.connections.find_live(&packet.reading.left, expired)
    }

    /// An ICMP error about a connection: rules apply to it that it matches itself, and the
    /// `accept` of its connection.
    pub(super) fn pass_related(
        &mut self,
        (connection, direction): (u32, Direction),
        packet: &mut Packet<'_>,
    ) -> Outcome {
        self.counters.related += 1;
        self.belongs = Some(direction);
        let accepts = |rule: &&u32| {
            let verdicts = &self.rule_actions.get(**rule).action.verdicts;
            verdicts.contains(&Verdict::Accept)
        };
        self.applied.extend_from_slice(&self.matched);
        if let Some(connection) = self.connections.get(connection) {
            self.applied.extend(connection.rules.iter().filter(accepts));
            self.applied.sort_unstable();
            self.applied.dedup();
        }
        self.count(packet.reading);
        if let Some(cause) = self.verdict() {
            self.counters.dropped += 1;
            return dropped(cause);
        }
        packet.store_headers();
        if let Some(connection) = self.connections.get(connection) {
            packet.translate_error(&connection.forward, &connection.tracked, direction);
        }
        change(
            &self.rule_actions,
            &self.applied,
            packet,
            &mut self.counters,
        );
        set_checksums(&self.rule_actions, &self.applied, packet);
        passed(None)
    }
}
