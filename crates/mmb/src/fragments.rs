//! Packets in fragments: what a later fragment belongs to, the first one knows.

use std::collections::BTreeMap;

use narrows_units::Instant;

use crate::ffi::is_followed;
use crate::structs::{Flow, Fragmented};

/// Fragmented packets at a time.
const MOST: usize = 16_384;

/// What is known of a fragmented packet, whose first fragment went on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Followed {
    /// The key of the first one, as it came.
    pub key: Flow,
    /// Whether it belonged to a connection.
    pub connected: bool,
    seen: Instant,
}

/// The fragmented packets that are followed.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fragments(BTreeMap<Fragmented, Followed>);

impl Fragments {
    /// What is known of the packet.
    pub(crate) fn find(&self, now: Instant, of: &Fragmented) -> Option<Followed> {
        let followed = self.0.get(of)?;
        is_followed(followed.seen, now).then_some(*followed)
    }

    /// Follows the packet whose first fragment has `key`. Whether there is room.
    pub(crate) fn follow(
        &mut self,
        now: Instant,
        of: Fragmented,
        key: Flow,
        connected: bool,
    ) -> bool {
        let room = self.0.len() < MOST || self.0.contains_key(&of);
        if room {
            let followed = Followed {
                key,
                connected,
                seen: now,
            };
            self.0.insert(of, followed);
        }
        room
    }

    /// Forgets what was followed for long enough; whether any is left.
    pub(crate) fn sweep(&mut self, now: Instant) -> bool {
        self.0.retain(|_, f| is_followed(f.seen, now));
        !self.0.is_empty()
    }
}
