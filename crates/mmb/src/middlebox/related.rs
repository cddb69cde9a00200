//! ICMP errors about a connection's packet.

use narrows_units::Instant;
use narrows_wire::Icmp;

use super::{Middlebox, Outcome, change, dropped, passed, set_checksums};
use crate::action::Verdict;
use crate::connections::{Direction, key_of};
use crate::edit::Edit;
use crate::layout::{Above, Layout};

impl Middlebox {
    /// The connection that an ICMP error is about, which way the error goes, and where its
    /// quotation starts.
    pub(super) fn related(
        &mut self,
        now: Instant,
        bytes: &[u8],
        layout: &Layout,
    ) -> Option<(u32, Direction, usize)> {
        if !matches!(layout.above, Above::Icmp | Above::Icmp6) {
            return None;
        }
        let message = &bytes[layout.ip.header_len..];
        let (_, quoted) = Icmp::quoted(layout.ip.protocol, message)?;
        let at = bytes.len() - quoted.len();
        let key = key_of(quoted)?.reversed();
        if key.source.is_ipv4() != layout.v4 {
            return None;
        }
        let (connection, direction) = self.connections.find_live(now, &key, 0)?;
        Some((connection, direction, at))
    }

    /// An ICMP error about a connection: rules apply to it that it matches itself, and the
    /// `accept` of its connection.
    pub(super) fn pass_related(
        &mut self,
        (connection, direction, at): (u32, Direction, usize),
        bytes: &mut Vec<u8>,
        layout: &Layout,
        zero_tail: &mut u32,
    ) -> Outcome {
        self.counters.related += 1;
        self.belongs = Some(direction);
        let accepts = |rule: &&u32| {
            let verdicts = &self.deeds.get(**rule).action.verdicts;
            verdicts.contains(&Verdict::Accept)
        };
        self.applied.extend_from_slice(&self.matched);
        if let Some(connection) = self.connections.get(connection) {
            self.applied.extend(connection.rules.iter().filter(accepts));
            self.applied.sort_unstable();
            self.applied.dedup();
        }
        self.count(layout);
        if let Some(cause) = self.verdict() {
            self.counters.dropped += 1;
            return dropped(cause);
        }
        if let Some(connection) = self.connections.get(connection) {
            connection.translate_error(bytes, at, direction);
        }
        let mut edit = Edit {
            bytes,
            zero_tail,
            layout: *layout,
            mtu: self.settings.mtu as usize,
        };
        change(&self.deeds, &self.applied, &mut edit, &mut self.counters);
        set_checksums(&self.deeds, &self.applied, &mut edit);
        passed(None)
    }
}
