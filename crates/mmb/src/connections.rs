//! The connections that a box tracks.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use narrows_units::{Duration, Instant, stable_hash};
use narrows_wire::{FlowKey, Icmp, TcpFlags, ip};

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

/// How long a fragmented packet is followed: Linux's `ipfrag_time`.
const FRAGMENTS: Duration = Duration::from_secs(30);
/// Fragmented packets at a time.
const MOST_FRAGMENTED: usize = 16_384;

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

/// Source, destination, protocol and identification of a fragmented packet.
type Fragmented = (IpAddr, IpAddr, u8, u32);

/// The connections of a box. An entry is found by the key of either direction.
#[derive(Debug)]
pub(crate) struct Connections {
    entries: Vec<Option<Connection>>,
    free: Vec<u32>,
    places: Places,
    fragmented: std::collections::BTreeMap<Fragmented, (FlowKey, Instant)>,
    next_sweep: Option<Instant>,
    /// No connection expires before: its sweep finds none.
    earliest_expiry: Instant,
    most: usize,
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
            fragmented: std::collections::BTreeMap::new(),
            next_sweep: None,
            earliest_expiry: Instant::ZERO,
            most,
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

    /// Adds one; `None` if the table is full.
    pub(crate) fn insert(&mut self, connection: Connection) -> Option<u32> {
        if self.len() >= self.most {
            return None;
        }
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

    /// Forgets all.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.most);
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
                connection.rules = connection.rules.iter().filter_map(|r| new(*r)).collect();
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
        self.fragmented
            .retain(|_, (_, seen)| now.since(*seen) < FRAGMENTS);
        let any = self.len() > 0 || !self.fragmented.is_empty();
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

    /// The key of the packet that comes at `now`: of a fragment, that of the first one. The
    /// first fragment has to come first; a later one that it did not precede has no ports.
    pub(crate) fn key(&mut self, now: Instant, bytes: &[u8], layout: &Layout) -> Option<FlowKey> {
        let ip = &layout.ip;
        let mut ident = ip.ident;
        if ip.more_fragments || ip.fragment_offset > 0 {
            if !layout.v4 {
                ident = fragment_ident(bytes)?;
            }
            let fragmented = (ip.source, ip.destination, ip.protocol, ident);
            if ip.fragment_offset > 0 {
                let (key, seen) = self.fragmented.get(&fragmented)?;
                return (now.since(*seen) < FRAGMENTS).then_some(*key);
            }
            let key = key_of(bytes)?;
            if self.fragmented.len() < MOST_FRAGMENTED {
                self.fragmented.insert(fragmented, (key, now));
                self.next_sweep.get_or_insert(now + SWEEP);
            }
            return Some(key);
        }
        match layout.above {
            Above::Icmp | Above::Icmp6 | Above::Udp | Above::Tcp => key_of(bytes),
            Above::Other => FlowKey::of(bytes),
        }
    }
}

/// The identification in an IPv6 fragment header.
fn fragment_ident(bytes: &[u8]) -> Option<u32> {
    let mut next = *bytes.get(6)?;
    let mut at = 40;
    loop {
        let header = bytes.get(at..at + 8)?;
        match next {
            44 => {
                return Some(u32::from_be_bytes([
                    header[4], header[5], header[6], header[7],
                ]));
            }
            51 => at += (usize::from(header[1]) + 2) * 4,
            0 | 43 | 60 | 135 => at += (usize::from(header[1]) + 1) * 8,
            _ => return None,
        }
        next = header[0];
    }
}
