//! The connections that a box tracks.

use std::collections::VecDeque;
use std::sync::Arc;

use narrows_units::{Duration, Instant};
use narrows_wire::ip;

use crate::ffi::kept_for;
use crate::fragments::{Followed, Fragments};
use crate::places::Places;
use crate::structs::{Flow, Fragmented, Tracked};

/// How often old connections are searched for at most, as in mmb 0.4.
const SWEEP: Duration = Duration::from_secs(5);

/// Connections at a time, as in mmb 0.4.
pub(crate) const MOST: usize = 1_000_000;

/// Connections that may have to make room for new ones: those that began last.
const NEWEST: usize = 65_536;
/// How many of them are tried before there is no room.
const TRIED: usize = 64;

/// Which of a connection's two directions a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// That of the packet that began it.
    Forward,
    /// The other one.
    Reverse,
}

/// A tracked connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Of forward packets as they come.
    pub forward: Flow,
    pub tracked: Tracked,
    /// The rules whose connection it is, in their order: one list for all connections that began
    /// alike, which stays in the cache.
    pub rules: Arc<[u32]>,
}

/// The connections of a box. An entry is found by the key of either direction.
#[derive(Clone, Debug)]
pub(crate) struct Connections {
    entries: Vec<Option<Connection>>,
    free: Vec<u32>,
    places: Places,
    fragments: Fragments,
    next_sweep: Option<Instant>,
    /// No connection expires before: its sweep finds none.
    earliest_expiry: Instant,
    most: usize,
    /// The forward keys of the connections that began last, the oldest first.
    newest: VecDeque<Flow>,
    /// How many made room for others.
    evicted: u64,
    /// The rules of the newest connection.
    newest_rules: Arc<[u32]>,
}

impl Connections {
    /// At most so many.
    pub(crate) fn new(most: usize) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            places: Places::default(),
            fragments: Fragments::default(),
            next_sweep: None,
            earliest_expiry: Instant::ZERO,
            most,
            newest: VecDeque::new(),
            evicted: 0,
            newest_rules: Arc::new([]),
        }
    }

    /// The list of these rules, which is that of the newest connection if they are the same.
    pub(crate) fn list_of(&mut self, rules: &[u32]) -> Arc<[u32]> {
        if *self.newest_rules != *rules {
            self.newest_rules = rules.into();
        }
        Arc::clone(&self.newest_rules)
    }

    fn key_at(entries: &[Option<Connection>], place: u32) -> Option<&Flow> {
        let connection = entries[(place / 2) as usize].as_ref()?;
        Some(match place % 2 {
            0 => &connection.forward,
            _ => &connection.tracked.reverse,
        })
    }

    /// The connection that packets with this key belong to.
    fn find(&self, key: &Flow) -> Option<(u32, Direction)> {
        let is = |at| Self::key_at(&self.entries, at) == Some(key);
        let at = self.places.find(key.hash(), is)?;
        let direction = match at % 2 {
            0 => Direction::Forward,
            _ => Direction::Reverse,
        };
        Some((at / 2, direction))
    }

    /// The connection that packets with this key belong to; one that `is_over` is forgotten.
    pub(crate) fn find_live(
        &mut self,
        key: &Flow,
        is_over: impl Fn(&Tracked, Direction) -> bool,
    ) -> Option<(u32, Direction)> {
        let (at, direction) = self.find(key)?;
        if self.get(at).is_none_or(|c| is_over(&c.tracked, direction)) {
            self.remove(at);
            return None;
        }
        Some((at, direction))
    }

    pub(crate) fn get(&self, at: u32) -> Option<&Connection> {
        self.entries.get(at as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, at: u32) -> Option<&mut Connection> {
        self.entries.get_mut(at as usize)?.as_mut()
    }

    /// One of the connections that began last and have had no answer makes room, the oldest first: a
    /// flood of openings takes the place of its own. Whether one did.
    fn make_room(&mut self) -> bool {
        for _ in 0..TRIED {
            let Some(key) = self.newest.pop_front() else {
                return false;
            };
            let found = self.find(&key);
            let Some((at, Direction::Forward)) = found else {
                continue;
            };
            if self.get(at).is_some_and(|c| !c.tracked.is_assured()) {
                self.remove(at);
                self.evicted += 1;
                return true;
            }
        }
        false
    }

    /// How many made room for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Adds one; `None` if the table is full.
    pub(crate) fn insert(&mut self, now: Instant, connection: Connection) -> Option<u32> {
        if self.len() >= self.most && !self.make_room() {
            return None;
        }
        if self.newest.len() == NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(connection.forward);
        let keys = [connection.forward, connection.tracked.reverse];
        self.next_sweep.get_or_insert(now + SWEEP);
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as u32
        });
        self.entries[at as usize] = Some(connection);
        // Packets from an end to itself look the same both ways; all of them go forward.
        let different = if keys[0] == keys[1] { 1 } else { 2 };
        for (key, at) in keys[..different].iter().zip(at * 2..) {
            self.places.insert(key.hash(), at);
        }
        Some(at)
    }

    pub(crate) fn remove(&mut self, at: u32) {
        let Some(connection) = self.entries[at as usize].take() else {
            return;
        };
        let keys = [connection.forward, connection.tracked.reverse];
        for (key, at) in keys.iter().zip(at * 2..) {
            self.places.remove(key.hash(), at);
        }
        self.free.push(at);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// All, in the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Connection> {
        self.entries.iter().flatten()
    }

    /// Renumbers the rules of all connections; those that are left without are forgotten.
    pub(crate) fn renumber(&mut self, new: impl Fn(u32) -> Option<u32>) {
        for at in 0..self.entries.len() {
            if let Some(connection) = &mut self.entries[at] {
                let mut rules: Vec<u32> = connection.rules.iter().filter_map(|r| new(*r)).collect();
                rules.sort_unstable();
                connection.rules = rules.into();
                if connection.rules.is_empty() {
                    self.remove(at as u32);
                }
            }
        }
    }

    /// Forgets what was idle too long, if it is time to.
    pub(crate) fn sweep(&mut self, now: Instant) {
        if self.next_sweep.is_none_or(|at| now < at) {
            return;
        }
        if now >= self.earliest_expiry {
            self.remove_expired(now);
        }
        let any = self.fragments.sweep(now) || self.len() > 0;
        self.next_sweep = any.then(|| now + SWEEP);
    }

    /// Walks over all connections.
    fn remove_expired(&mut self, now: Instant) {
        // What begins, or gets a packet, from now on is kept for so long at least.
        self.earliest_expiry = now + kept_for(ip::TCP, [0; 2]);
        for at in 0..self.entries.len() {
            let Some(connection) = &self.entries[at] else {
                continue;
            };
            match connection.tracked.expiry() {
                expiry if expiry <= now => self.remove(at as u32),
                expiry => self.earliest_expiry = self.earliest_expiry.min(expiry),
            }
        }
    }

    /// What is known of the packet of a later fragment.
    pub(crate) fn followed(&self, now: Instant, of: &Fragmented) -> Option<Followed> {
        self.fragments.find(now, of)
    }

    /// Follows the packet whose first fragment has `key`. Whether there is room.
    pub(crate) fn follow(
        &mut self,
        now: Instant,
        of: Fragmented,
        key: Flow,
        connected: bool,
    ) -> bool {
        self.next_sweep.get_or_insert(now + SWEEP);
        self.fragments.follow(now, of, key, connected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A connection of UDP, whose ports are its own.
    fn connection(number: u8, last_active: Instant) -> Connection {
        let flow = |side| Flow {
            source_port: [side, number],
            protocol: ip::UDP,
            ..Flow::default()
        };
        Connection {
            forward: flow(1),
            tracked: Tracked {
                reverse: flow(2),
                last_active: last_active.as_nanos(),
                ..Tracked::default()
            },
            rules: Arc::new([0]),
        }
    }

    #[test]
    fn a_connection_that_is_forgotten_leaves_neither_of_its_keys() {
        let mut connections = Connections::new(10);
        for number in 0..4 {
            let at = connections.insert(Instant::ZERO, connection(number, Instant::ZERO));
            assert_eq!(at, Some(number.into()));
        }
        for number in 0..4 {
            connections.remove(number.into());
            let gone = connection(number, Instant::ZERO);
            for key in [gone.forward, gone.tracked.reverse] {
                assert_eq!(connections.places.find(key.hash(), |_| true), None);
            }
        }
        assert_eq!(connections.len(), 0);
    }

    #[test]
    fn a_walk_over_all_connections_finds_when_the_next_one_can_expire() {
        let now = Instant::ZERO + Duration::from_secs(1_000);
        let mut connections = Connections::new(10);
        connections.insert(now, connection(1, now));
        connections.remove_expired(now);
        // One that begins now and is not answered.
        let new = now + kept_for(ip::TCP, [0; 2]);
        assert_eq!(connections.earliest_expiry, new);
        let idle = now - Duration::from_secs(500);
        connections.insert(now, connection(2, idle));
        connections.remove_expired(now);
        let expires = idle + kept_for(ip::UDP, [0; 2]);
        assert!(expires < new);
        assert_eq!(connections.earliest_expiry, expires);
    }
}
