//! What a connection's packets get in place of what they have, and back.

use std::net::SocketAddr;

use narrows_units::{Draw, Instant, Rng};
use narrows_wire::{FlowKey, Ip, PacketEnd, TcpFlags, checksum, icmp, ip, set_end};

use crate::action::Mapping;
use crate::connections::{Connection, Connections, Direction, Shifts, destination, source};
use crate::edit::Edit;
use crate::field::Layer;
use crate::layout::{Above, write_bits};
use crate::options::options;

/// Ports that are drawn, as in mmb 0.4: 49152 to 65534.
const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = 16_383;

const SACK: u8 = 5;

/// How the packets of a new connection are to leave, or why they cannot.
#[derive(Debug)]
pub(crate) struct Plan {
    /// The key as they leave.
    pub left: FlowKey,
    pub mapped: Mapped,
    pub shifts: Shifts,
}

/// Which of a connection's addresses and ports its packets get other ones for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mapped {
    /// Of the source: address, port.
    pub source: [bool; 2],
    /// Of the destination.
    pub destination: [bool; 2],
}

impl Mapped {
    pub(crate) fn any(self) -> bool {
        [self.source, self.destination].concat().contains(&true)
    }
}

/// Another version of IP, or a port of another protocol, is not there to be mapped.
fn is_there(field_name: &str, key: &FlowKey) -> bool {
    match field_name.split_once('-') {
        Some(("ip", _)) => key.source.is_ipv4(),
        Some(("ip6", _)) => key.source.is_ipv6(),
        Some(("tcp", _)) => key.protocol == ip::TCP,
        Some(("icmp", _)) => key.protocol == ip::ICMP,
        Some(("icmp6", _)) => key.protocol == ip::ICMPV6,
        _ => key.protocol == ip::UDP,
    }
}

/// Works out how packets that have `key` after all other changes leave. `None` if no
/// port is free, or another connection's packets look the same.
pub(crate) fn plan<'a>(
    key: FlowKey,
    ident: u32,
    now: Instant,
    mappings: impl Iterator<Item = &'a Mapping>,
    connections: &mut Connections,
    rng: &mut Rng,
) -> Option<Plan> {
    let mut plan = Plan {
        left: key,
        mapped: Mapped::default(),
        shifts: Shifts::default(),
    };
    let mut drawn = false;
    for Mapping { field, value } in mappings {
        let name = field.name();
        if !is_there(name, &key) {
            continue;
        }
        let address = |value: u128| match key.source.is_ipv4() {
            true => std::net::Ipv4Addr::from(value as u32).into(),
            false => std::net::Ipv6Addr::from(value).into(),
        };
        let (left, mapped, shifts) = (&mut plan.left, &mut plan.mapped, &mut plan.shifts);
        match (name, *value) {
            ("ip-saddr" | "ip6-saddr", Some(value)) => {
                (left.source, mapped.source[0]) = (address(value), true);
            }
            ("ip-daddr" | "ip6-daddr", Some(value)) => {
                (left.destination, mapped.destination[0]) = (address(value), true);
            }
            ("tcp-sport" | "udp-sport", value) => {
                let port = value.map(|value| value as u16);
                drawn |= port.is_none();
                left.source_port = port.unwrap_or_else(|| draw_port(rng));
                mapped.source[1] = true;
            }
            ("tcp-dport" | "udp-dport", value) => {
                let port = value.map(|value| value as u16);
                left.destination_port = port.unwrap_or_else(|| draw_port(rng));
                mapped.destination[1] = true;
            }
            ("icmp-ident" | "icmp6-ident", value) => {
                let ident = value.map(|value| value as u16);
                drawn |= ident.is_none();
                left.source_port = ident.unwrap_or_else(|| draw_port(rng));
                left.destination_port = left.source_port;
                // It stands for both ports.
                (mapped.source[1], mapped.destination[1]) = (true, true);
            }
            ("ip-id", Some(value)) => shifts.set_ident = Some((value as u16, ident as u16)),
            ("ip-id", None) => shifts.ident = rng.draw_u32() as u16,
            ("ip6-flow-label", value) => {
                let label = value.map_or_else(|| rng.draw_u32() & 0xf_ffff, |value| value as u32);
                shifts.set_label = Some((label, ident));
            }
            ("tcp-seq-num", _) => shifts.seq = rng.draw_u32(),
            ("tcp-ack-num", _) => shifts.ack = rng.draw_u32(),
            _ => {}
        }
    }
    let tries = if drawn { PORTS } else { 1 };
    for _ in 0..tries {
        let taken = connections.find_live(now, &plan.left.reversed(), 0);
        if taken.is_none() {
            return Some(plan);
        }
        let drawn = plan.left.source_port.wrapping_sub(FIRST_PORT);
        let next = drawn.wrapping_add(1) % PORTS;
        plan.left.source_port = FIRST_PORT + next;
        if matches!(key.protocol, ip::ICMP | ip::ICMPV6) {
            // The identifier stands for both.
            plan.left.destination_port = plan.left.source_port;
        }
    }
    None
}

fn draw_port(rng: &mut Rng) -> u16 {
    FIRST_PORT + rng.below(u32::from(PORTS)) as u16
}

/// The end of a packet that `have` is, with what is mapped taken from `to`.
fn mixed(have: SocketAddr, to: SocketAddr, [address, port]: [bool; 2]) -> Option<SocketAddr> {
    let ip = if address { to.ip() } else { have.ip() };
    let port_number = if port { to.port() } else { have.port() };
    (address || port).then(|| SocketAddr::new(ip, port_number))
}

impl Connection {
    /// The source and the destination of a packet of the connection that has `have` now, if
    /// they change.
    fn ends(&self, direction: Direction, have: &FlowKey) -> [(PacketEnd, Option<SocketAddr>); 2] {
        let (mapped, first, second) = (self.mapped, PacketEnd::Source, PacketEnd::Destination);
        match direction {
            Direction::Forward => [
                (
                    first,
                    mixed(source(have), destination(&self.reverse), mapped.source),
                ),
                (
                    second,
                    mixed(destination(have), source(&self.reverse), mapped.destination),
                ),
            ],
            Direction::Reverse => [
                (
                    second,
                    mixed(destination(have), source(&self.forward), mapped.source),
                ),
                (
                    first,
                    mixed(source(have), destination(&self.forward), mapped.destination),
                ),
            ],
        }
    }

    /// What is added to sequence numbers, and to acknowledgement numbers and SACK blocks.
    fn number_shifts(&self, direction: Direction) -> (u32, u32) {
        match direction {
            Direction::Forward => (self.shifts.seq, self.shifts.ack),
            Direction::Reverse => (
                self.shifts.ack.wrapping_neg(),
                self.shifts.seq.wrapping_neg(),
            ),
        }
    }

    /// Changes a packet of the connection, which has `key` now.
    pub(crate) fn translate(&self, edit: &mut Edit<'_>, key: &FlowKey, direction: Direction) {
        for (end, to) in self.ends(direction, key) {
            if let Some(to) = to {
                set_end(edit.bytes, end, to);
            }
        }
        let forward = direction == Direction::Forward;
        let shifts = &self.shifts;
        let ident = edit.layout.ip.ident;
        if edit.layout.v4 {
            let shift = if forward {
                shifts.ident
            } else {
                shifts.ident.wrapping_neg()
            };
            let mut new = (ident as u16).wrapping_add(shift);
            if let Some((value, original)) = shifts.set_ident {
                new = replaced(forward, new, value, original);
            }
            if u32::from(new) != ident {
                edit.set_bits(Layer::Ip4, 32, 16, new.into());
            }
        } else if let Some((value, original)) = shifts.set_label {
            let new = replaced(forward, ident, value, original);
            edit.set_bits(Layer::Ip6, 12, 20, new.into());
        }
        let (seq, ack) = self.number_shifts(direction);
        if edit.layout.above == Above::Tcp && (seq, ack) != (0, 0) {
            shift_numbers(edit, seq, ack);
        }
    }

    /// Gives the packet that an error quotes, which goes in `direction`, the identification or the flow
    /// label that it had before it was changed.
    fn undo_ident(&self, quoted: &mut [u8], direction: Direction) {
        let Ok(header) = Ip::parse(quoted) else {
            return;
        };
        let reverse = direction == Direction::Reverse;
        let undone = |have: u32, (value, original): (u32, u32)| match reverse {
            true => replaced(false, have, value, original),
            false => replaced(false, have, original, value),
        };
        let shifts = &self.shifts;
        if header.source.is_ipv4() {
            let old = header.ident as u16;
            let shift = match reverse {
                true => shifts.ident.wrapping_neg(),
                false => shifts.ident,
            };
            let mut new = u32::from(old.wrapping_add(shift));
            if let Some((value, original)) = shifts.set_ident {
                new = undone(new, (value.into(), original.into()));
            }
            quoted[4..6].copy_from_slice(&(new as u16).to_be_bytes());
            let sum = u16::from_be_bytes([quoted[10], quoted[11]]);
            let sum = match u32::from(old) == new {
                true => sum,
                false => checksum::update(sum, old, new as u16),
            };
            quoted[10..12].copy_from_slice(&sum.to_be_bytes());
        } else if let Some(both) = shifts.set_label {
            let new = undone(header.ident, both);
            write_bits(quoted, 12, 20, new.into());
        }
    }

    /// Changes an ICMP error about a packet of the connection that went in the direction
    /// other than `direction`, in which the error goes, and what it quotes at `at`.
    pub(crate) fn translate_error(&self, bytes: &mut [u8], at: usize, direction: Direction) {
        let Some(outer) = FlowKey::of(bytes) else {
            return;
        };
        let Some(quoted) = bytes.get(at..).and_then(crate::connections::key_of) else {
            return;
        };
        let (seq, ack) = self.number_shifts(match direction {
            Direction::Forward => Direction::Reverse,
            Direction::Reverse => Direction::Forward,
        });
        let before = bytes[at..].to_vec();
        // What the quoted packet had before it was changed.
        shift_quoted(&mut bytes[at..], seq.wrapping_neg(), ack.wrapping_neg());
        for (end, to) in self.ends(direction, &quoted.reversed()) {
            let Some(to) = to else { continue };
            // The quotation travelled the other way.
            let (quoted_end, was) = match end {
                PacketEnd::Source => (PacketEnd::Destination, destination(&quoted)),
                PacketEnd::Destination => (PacketEnd::Source, source(&quoted)),
            };
            set_end(&mut bytes[at..], quoted_end, to);
            let outer_end = match end {
                PacketEnd::Source => outer.source,
                PacketEnd::Destination => outer.destination,
            };
            if outer_end == was.ip() {
                set_end(bytes, end, to);
            }
        }
        self.undo_ident(&mut bytes[at..], direction);
        // The error's own checksum, by what changed of the quotation.
        let sum_at = at - icmp::HEADER_LEN + 2;
        let mut sum = u16::from_be_bytes([bytes[sum_at], bytes[sum_at + 1]]);
        for (old, new) in before.chunks_exact(2).zip(bytes[at..].chunks_exact(2)) {
            if old != new {
                let word = |pair: &[u8]| u16::from_be_bytes([pair[0], pair[1]]);
                sum = checksum::update(sum, word(old), word(new));
            }
        }
        bytes[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Forward packets get `value`; reverse ones that have it get what it replaced.
fn replaced<T: PartialEq>(forward: bool, have: T, value: T, original: T) -> T {
    if forward {
        value
    } else if have == value {
        original
    } else {
        have
    }
}

fn shift_numbers(edit: &mut Edit<'_>, seq: u32, ack: u32) {
    let start = edit.layout.ip.header_len;
    edit.shift(start + 4, seq);
    if u16::from(edit.bytes[start + 13]) & TcpFlags::ACK == 0 {
        return;
    }
    edit.shift(start + 8, ack);
    let list = start + 20;
    let blocks: Vec<_> = options(edit.options())
        .filter(|(kind, _)| *kind == SACK)
        .map(|(_, body)| body)
        .collect();
    for body in blocks {
        // Whole numbers of the option: what follows it is not its.
        for at in body.clone().step_by(4).filter(|at| at + 4 <= body.end) {
            edit.shift(list + at, ack);
        }
    }
}

/// Changes the sequence numbers in the part of a TCP packet that an error quotes.
fn shift_quoted(bytes: &mut [u8], seq: u32, ack: u32) {
    let Ok(ip) = Ip::parse(bytes) else { return };
    if ip.protocol != ip::TCP || ip.fragment_offset > 0 {
        return;
    }
    let start = ip.header_len;
    let acks = bytes
        .get(start + 13)
        .is_some_and(|flags| u16::from(*flags) & TcpFlags::ACK != 0);
    for (at, shift) in [(start + 4, seq), (start + 8, if acks { ack } else { 0 })] {
        let Some(old) = bytes.get(at..at + 4) else {
            return;
        };
        let old = [old[0], old[1], old[2], old[3]];
        let new = u32::from_be_bytes(old).wrapping_add(shift).to_be_bytes();
        bytes[at..at + 4].copy_from_slice(&new);
        let Some(sum) = bytes.get(start + 16..start + 18) else {
            continue;
        };
        let mut sum = u16::from_be_bytes([sum[0], sum[1]]);
        for half in [0, 2] {
            let word = |of: [u8; 4]| u16::from_be_bytes([of[half], of[half + 1]]);
            sum = checksum::update(sum, word(old), word(new));
        }
        bytes[start + 16..start + 18].copy_from_slice(&sum.to_be_bytes());
    }
}
