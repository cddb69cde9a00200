//! A connection begins.

use narrows_core::DropCause;
use narrows_units::{Draw, Instant};

use super::{Middlebox, Outcome, dropped, ends, passed};
use crate::connections::{Connection, Direction};
use crate::ffi::Packet;
use crate::structs::{Flow, Reading, Tracked};

/// Ports that are drawn: another one is tried as often as there are some.
const PORTS: u16 = 16_383;

impl Middlebox {
    /// The packet, which has `key` as it came, begins a connection if a stateful rule applies
    /// to it.
    pub(super) fn begin(&mut self, now: Instant, key: Flow, packet: &mut Packet<'_>) -> Outcome {
        let rule_actions = &self.rule_actions;
        let applied = self.applied.iter().copied();
        let stateful: Vec<u32> = applied
            .filter(|rule| rule_actions.get(*rule).stateful)
            .collect();
        if stateful.is_empty() {
            return passed(None);
        }
        let mut tracked = Tracked::default();
        let mut drawn = false;
        packet.leave();
        for mapping in stateful
            .iter()
            .flat_map(|rule| &rule_actions.get(*rule).action.mappings)
        {
            if packet.reading.is_there(mapping) {
                let draw = match mapping.drawn {
                    0 => 0,
                    _ => self.rng.draw_u32(),
                };
                drawn |= packet.reading.map(&mut tracked, mapping, draw);
            }
        }
        packet.begin(&mut tracked);
        let tries = if drawn { PORTS } else { 1 };
        if !(0..tries).any(|_| self.is_free(now, packet.reading, &mut tracked)) {
            self.counters.ports_used_up += 1;
            return dropped(DropCause::Overflow);
        }
        let left = packet.reading.left.key();
        let connection = Connection {
            forward: key,
            tracked,
            rules: self.connections.list_of(&stateful),
        };
        if self.connections.insert(now, connection).is_none() {
            self.counters.table_full += 1;
            return dropped(DropCause::Overflow);
        }
        self.belongs = Some(Direction::Forward);
        packet.translate(&key, &tracked, Direction::Forward);
        passed((tracked.mapped != 0).then(|| (key.protocol, ends(&left))))
    }

    /// Whether no other connection has the key of what answers; if one has, the next port is tried.
    fn is_free(&mut self, now: Instant, packet: &mut Reading, tracked: &mut Tracked) -> bool {
        let expired = |c: &Tracked, _| now >= c.expiry();
        let free = self
            .connections
            .find_live(&tracked.reverse, expired)
            .is_none();
        if !free {
            packet.next_port(tracked);
        }
        free
    }
}
