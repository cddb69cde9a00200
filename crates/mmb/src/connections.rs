//! The connections that a box tracks.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use narrows_units::{Duration, Instant, stable_hash};
use narrows_wire::{FlowKey, Icmp, TcpFlags, ip};

use crate::fragments::{Followed, Fragmented, Fragments};
use crate::layout::{Above, Layout};
use crate::places::Places;
use crate::translate::Mapped;

/// Idle time-outs of mmb 0.4 (`mmb_conn.h`): an established TCP connection, another TCP
/// connection, UDP. What is neither is kept as long as a TCP connection that is not
/// established.
const ESTABLISHED: Duration = Duration::from_secs(14_400);
const TRANSIENT: Duration = Duration::from_secs(120);
const UDP: Duration = Duration::from_secs(600);

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

/// The connection's key in a packet; of ICMP echo the identifier stands for both ports.
pub(crate) fn key_of(bytes: &[u8]) -> Option<FlowKey> {
    let mut key = FlowKey::of(bytes)?;
    if matches!(key.protocol, ip::ICMP | ip::ICMPV6) {
        let ip = narrows_wire::Ip::parse(bytes).ok()?;
        let ident = Icmp::echo_ident(key.protocol, bytes.get(ip.header_len..)?)?;
        (key.source_port, key.destination_port) = (ident, ident);
    }
    Some(key)
}

/// The source of packets with this key.
pub(crate) fn source(key: &FlowKey) -> SocketAddr {
    SocketAddr::from((key.source, key.source_port))
}

/// Their destination.
pub(crate) fn destination(key: &FlowKey) -> SocketAddr {
    SocketAddr::from((key.destination, key.destination_port))
}

/// What is changed in packets of a connection and undone in those of the other direction,
/// besides addresses and ports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shifts {
    /// Added to forward sequence numbers.
    pub seq: u32,
    /// Added to forward acknowledgement numbers.
    pub ack: u32,
    /// Added to forward IPv4 identifications.
    pub ident: u16,
    /// The identification that forward packets get, and the one that reverse ones get in its place.
    pub set_ident: Option<(u16, u16)>,
    /// The flow label that forward packets get, and the one that reverse ones get in its place.
    pub set_label: Option<(u32, u32)>,
}

/// A tracked connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// Of forward packets as they come.
    pub forward: FlowKey,
    /// Of reverse packets as they come.
    pub reverse: FlowKey,
    /// What forward packets get of the addresses and ports that `reverse` knows.
    pub mapped: Mapped,
    pub shifts: Shifts,
    /// The rules whose connection it is, in their order: one list for all connections that began
    /// alike, which stays in the cache.
    pub rules: Arc<[u32]>,
    pub last_active: Instant,
    /// TCP flags seen, forward and reverse.
    pub flags: [u8; 2],
    /// Whether a reverse packet came.
    pub replied: bool,
    /// What the forward and the reverse end acknowledged last, in the numbers of the other end.
    pub acked: [Option<u32>; 2],
}

/// The flags, the sequence and the acknowledgement number of a TCP header.
pub(crate) fn numbers(header: &[u8]) -> Option<(u8, u32, u32)> {
    let header: &[u8; 14] = header.first_chunk()?;
    let number = |at: usize| {
        header[at..at + 4]
            .iter()
            .fold(0, |n, b| n << 8 | u32::from(*b))
    };
    Some((header[13], number(4), number(8)))
}

/// Whether a TCP connection is open of which these flags were seen, forward and reverse: SYN and ACK
/// both ways, and neither FIN nor RST.
pub fn is_established(flags: [u8; 2]) -> bool {
    const OPEN: u8 = (TcpFlags::SYN | TcpFlags::ACK) as u8;
    flags.iter().all(|flags| flags & OPEN == OPEN) && !is_closing(flags)
}

fn is_closing(flags: [u8; 2]) -> bool {
    const CLOSED: u8 = (TcpFlags::FIN | TcpFlags::RST) as u8;
    flags.iter().any(|flags| flags & CLOSED != 0)
}

/// How long a connection of `protocol` is kept without packets; of TCP these flags were seen, forward
/// and reverse.
pub fn kept_for(protocol: u8, flags: [u8; 2]) -> Duration {
    match protocol {
        ip::TCP if is_established(flags) => ESTABLISHED,
        ip::UDP => UDP,
        _ => TRANSIENT,
    }
}

impl Connection {
    pub(crate) fn is_established(&self) -> bool {
        is_established(self.flags)
    }

    fn is_closing(&self) -> bool {
        is_closing(self.flags)
    }

    /// A packet of it comes at `now`, with these flags, sequence and acknowledgement number if it is of TCP.
    /// A RST counts only with the number that the other end waits for (RFC 5961 §3.2), as far as that is
    /// known: anybody can send another one.
    pub(crate) fn see(&mut self, now: Instant, direction: Direction, tcp: Option<(u8, u32, u32)>) {
        const RST: u8 = TcpFlags::RST as u8;
        const ACK: u8 = TcpFlags::ACK as u8;
        self.last_active = now;
        self.replied |= direction == Direction::Reverse;
        let Some((mut flags, seq, ack)) = tcp else {
            return;
        };
        let (own, other) = match direction {
            Direction::Forward => (0, 1),
            Direction::Reverse => (1, 0),
        };
        if flags & RST != 0 {
            if self.acked[other].is_some_and(|waits_for| waits_for != seq) {
                flags &= !RST;
            }
        } else if flags & ACK != 0 {
            // As the other end has its numbers, before or after they are shifted.
            self.acked[own] = Some(match direction {
                Direction::Forward => ack.wrapping_add(self.shifts.ack),
                Direction::Reverse => ack.wrapping_sub(self.shifts.seq),
            });
        }
        self.flags[own] |= flags;
    }

    /// Whether its other end has shown itself: it makes no room for others.
    fn is_assured(&self) -> bool {
        match self.forward.protocol {
            ip::TCP => self.is_established(),
            _ => self.replied,
        }
    }

    /// When it is forgotten without further packets.
    pub(crate) fn expiry(&self) -> Instant {
        self.last_active + kept_for(self.forward.protocol, self.flags)
    }

    fn has_expired(&self, now: Instant) -> bool {
        now >= self.expiry()
    }
}

fn hash(key: &FlowKey) -> u64 {
    let mut bytes = [0u8; 40];
    let octets = |address: IpAddr| match address {
        IpAddr::V4(a) => u128::from(u32::from(a)),
        IpAddr::V6(a) => u128::from(a),
    };
    bytes[..16].copy_from_slice(&octets(key.source).to_le_bytes());
    bytes[16..32].copy_from_slice(&octets(key.destination).to_le_bytes());
    bytes[32..34].copy_from_slice(&key.source_port.to_le_bytes());
    bytes[34..36].copy_from_slice(&key.destination_port.to_le_bytes());
    bytes[36] = key.protocol;
    bytes[37] = u8::from(key.source.is_ipv4());
    stable_hash(0, &bytes)
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
    newest: VecDeque<FlowKey>,
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

    fn key_at(entries: &[Option<Connection>], place: u32) -> Option<&FlowKey> {
        let connection = entries[(place / 2) as usize].as_ref()?;
        Some(match place % 2 {
            0 => &connection.forward,
            _ => &connection.reverse,
        })
    }

    /// The connection that packets with this key belong to.
    fn find(&self, key: &FlowKey) -> Option<(u32, Direction)> {
        let is = |at| Self::key_at(&self.entries, at) == Some(key);
        let at = self.places.find(hash(key), is)?;
        let direction = match at % 2 {
            0 => Direction::Forward,
            _ => Direction::Reverse,
        };
        Some((at / 2, direction))
    }

    /// The connection that packets with this key belong to; one that was idle too long is forgotten, and so is a closed connection whose
    /// beginner begins another one.
    pub(crate) fn find_live(
        &mut self,
        now: Instant,
        key: &FlowKey,
        flags: u8,
    ) -> Option<(u32, Direction)> {
        const SYN: u8 = TcpFlags::SYN as u8;
        const OPENING: u8 = (TcpFlags::SYN | TcpFlags::ACK) as u8;
        let (at, direction) = self.find(key)?;
        let begins = flags & OPENING == SYN && direction == Direction::Forward;
        let gone = self
            .get(at)
            .is_none_or(|c| c.has_expired(now) || begins && c.is_closing());
        if gone {
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
            if self.get(at).is_some_and(|c| !c.is_assured()) {
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
    pub(crate) fn insert(&mut self, connection: Connection) -> Option<u32> {
        if self.len() >= self.most && !self.make_room() {
            return None;
        }
        if self.newest.len() == NEWEST {
            self.newest.pop_front();
        }
        self.newest.push_back(connection.forward);
        let keys = [connection.forward, connection.reverse];
        self.next_sweep
            .get_or_insert(connection.last_active + SWEEP);
        let at = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            (self.entries.len() - 1) as u32
        });
        self.entries[at as usize] = Some(connection);
        // Packets from an end to itself look the same both ways; all of them go forward.
        let different = if keys[0] == keys[1] { 1 } else { 2 };
        for (key, at) in keys[..different].iter().zip(at * 2..) {
            self.places.insert(hash(key), at);
        }
        Some(at)
    }

    pub(crate) fn remove(&mut self, at: u32) {
        let Some(connection) = self.entries[at as usize].take() else {
            return;
        };
        let keys = [connection.forward, connection.reverse];
        for (key, at) in keys.iter().zip(at * 2..) {
            self.places.remove(hash(key), at);
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
        self.earliest_expiry = now + TRANSIENT;
        for at in 0..self.entries.len() {
            let Some(connection) = &self.entries[at] else {
                continue;
            };
            match connection.expiry() {
                expiry if expiry <= now => self.remove(at as u32),
                expiry => self.earliest_expiry = self.earliest_expiry.min(expiry),
            }
        }
    }

    /// The key of a packet that is no later fragment.
    pub(crate) fn key(bytes: &[u8], layout: &Layout) -> Option<FlowKey> {
        match layout.above {
            Above::Other if !layout.ip.more_fragments => FlowKey::of(bytes),
            _ => key_of(bytes),
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
        key: FlowKey,
        connected: bool,
    ) -> bool {
        self.next_sweep.get_or_insert(now + SWEEP);
        self.fragments.follow(now, of, key, connected)
    }
}
