//! The rules' meaning, written down a second time and as plainly as possible: one packet, one
//! rule, one field after the other, by names; checksums are computed anew. What tests hold
//! the box against.

use std::cmp::Ordering;

use narrows_core::{Port, UP};
use narrows_mmb::{Condition, Constraint, Field, Named, Rule, Strip, Target, Test, Value};
use narrows_wire::Ip;
use narrows_wire::checksum::{self, Sum};

/// Where things are in a packet as it came.
#[derive(Clone, Debug)]
pub struct Headers {
    pub v4: bool,
    pub above: usize,
    pub protocol: u8,
    /// `tcp`, `udp`, `icmp`, `icmp6`, or nothing.
    pub transport: &'static str,
    pub total: usize,
    pub fragment: bool,
}

pub fn headers(bytes: &[u8]) -> Headers {
    let ip = Ip::parse(bytes).expect("the tests' packets have an IP header");
    let v4 = bytes[0] >> 4 == 4;
    let rest = bytes.len().saturating_sub(ip.header_len);
    let transport = match (ip.protocol, v4) {
        _ if ip.fragment_offset > 0 => "",
        (6, _) if rest >= 20 => "tcp",
        (17, _) if rest >= 8 => "udp",
        (1, true) if rest >= 8 => "icmp",
        (58, false) if rest >= 8 => "icmp6",
        _ => "",
    };
    Headers {
        v4,
        above: ip.header_len,
        protocol: ip.protocol,
        transport,
        total: bytes.len(),
        fragment: ip.fragment_offset > 0 || ip.more_fragments,
    }
}

/// Bit offset from the start of the packet and bits.
fn bits(name: &str, h: &Headers) -> Option<(usize, usize)> {
    let (family, of) = name.split_once('-')?;
    let start = h.above * 8;
    let (there, base) = match family {
        "ip" => (h.v4, 0),
        "ip6" => (!h.v4, 0),
        "quic" => (h.transport == "udp" && h.total > h.above + 8, start + 64),
        _ => (h.transport == family, start),
    };
    let (at, width) = match (family, of) {
        ("ip" | "ip6", "ver") => (0, 4),
        ("ip", "ihl") => (4, 4),
        ("ip", "dscp") => (8, 6),
        ("ip", "ecn" | "non-ect" | "ect0" | "ect1" | "ce") => (14, 2),
        ("ip", "len") => (16, 16),
        ("ip", "id") => (32, 16),
        ("ip", "flags") => (48, 3),
        ("ip", "res") => (48, 1),
        ("ip", "df") => (49, 1),
        ("ip", "mf") => (50, 1),
        ("ip", "frag-offset") => (51, 13),
        ("ip", "ttl") => (64, 8),
        ("ip", "proto") => (72, 8),
        ("ip", "checksum") => (80, 16),
        ("ip", "saddr") => (96, 32),
        ("ip", "daddr") => (128, 32),
        ("ip6", "traffic-class") => (4, 8),
        ("ip6", "dscp") => (4, 6),
        ("ip6", "ecn" | "non-ect" | "ect0" | "ect1" | "ce") => (10, 2),
        ("ip6", "flow-label") => (12, 20),
        ("ip6", "len") => (32, 16),
        ("ip6", "next") => (48, 8),
        ("ip6", "hop-limit") => (56, 8),
        ("ip6", "saddr") => (64, 128),
        ("ip6", "daddr") => (192, 128),
        ("icmp" | "icmp6", "type") => (0, 8),
        ("icmp" | "icmp6", "code") => (8, 8),
        ("icmp" | "icmp6", "checksum") => (16, 16),
        ("icmp" | "icmp6", "ident") => (32, 16),
        ("udp" | "tcp", "sport") => (0, 16),
        ("udp" | "tcp", "dport") => (16, 16),
        ("udp", "len") => (32, 16),
        ("udp", "checksum") => (48, 16),
        ("quic", "long") => (0, 1),
        ("quic", "fixed") => (1, 1),
        ("quic", "spin") => (2, 1),
        ("tcp", "seq-num") => (32, 32),
        ("tcp", "ack-num") => (64, 32),
        ("tcp", "offset") => (96, 4),
        ("tcp", "res") => (100, 4),
        ("tcp", "ae") => (103, 1),
        ("tcp", "flags") => (104, 8),
        ("tcp", "cwr") => (104, 1),
        ("tcp", "ece") => (105, 1),
        ("tcp", "urg") => (106, 1),
        ("tcp", "ack") => (107, 1),
        ("tcp", "push") => (108, 1),
        ("tcp", "rst") => (109, 1),
        ("tcp", "syn") => (110, 1),
        ("tcp", "fin") => (111, 1),
        ("tcp", "win") => (112, 16),
        ("tcp", "checksum") => (128, 16),
        ("tcp", "urg-ptr") => (144, 16),
        _ => return None,
    };
    there.then_some((base + at, width))
}

fn bit(bytes: &[u8], at: usize) -> u128 {
    u128::from(bytes[at / 8] >> (7 - at % 8) & 1)
}

fn read_bits(bytes: &[u8], (at, width): (usize, usize)) -> u128 {
    (at..at + width).fold(0, |value, at| value << 1 | bit(bytes, at))
}

fn write_bits(bytes: &mut [u8], (at, width): (usize, usize), value: u128) {
    for i in 0..width {
        let one = value >> (width - 1 - i) & 1 == 1;
        let mask = 0x80 >> ((at + i) % 8);
        bytes[(at + i) / 8] = bytes[(at + i) / 8] & !mask | if one { mask } else { 0 };
    }
}

/// The kinds of named options and extension headers.
fn kind_of(named: Named) -> Option<u8> {
    Some(match named.field.name() {
        "tcp-opt-mss" => 2,
        "tcp-opt-wscale" => 3,
        "tcp-opt-sackp" => 4,
        "tcp-opt-sack" => 5,
        "tcp-opt-timestamp" => 8,
        "tcp-opt-mptcp" => 30,
        "tcp-opt-fast-open" => 34,
        "ip6-eh-hopbyhop" => 0,
        "ip6-eh-routing" => 43,
        "ip6-eh-fragment" => 44,
        "ip6-eh-esp" => 50,
        "ip6-eh-ah" => 51,
        "ip6-eh-destopt" => 60,
        "ip6-eh-mobility" => 135,
        "ip6-eh-hip" => 139,
        "ip6-eh-shim6" => 140,
        _ => return named.kind,
    })
}

type OptionList = Vec<(u8, Vec<u8>)>;

/// The options of a TCP packet, and whether they could all be read.
fn options(bytes: &[u8], h: &Headers) -> (OptionList, bool) {
    let (mut found, mut at) = (Vec::new(), h.above + 20);
    let end = h.above + usize::from(bytes[h.above + 12] >> 4) * 4;
    while at < end && bytes[at] != 0 {
        if bytes[at] == 1 {
            at += 1;
            continue;
        }
        let len = if at + 1 < end {
            usize::from(bytes[at + 1])
        } else {
            0
        };
        if len < 2 || at + len > end {
            return (found, false);
        }
        found.push((bytes[at], bytes[at + 2..at + len].to_vec()));
        at += len;
    }
    (found, true)
}

/// Where what the options hold stands in the packet.
fn places(bytes: &[u8], h: &Headers) -> Vec<usize> {
    let mut at = h.above + 20;
    let mut found = Vec::new();
    for (_, body) in options(bytes, h).0 {
        while bytes[at] == 1 {
            at += 1;
        }
        found.push(at + 2);
        at += 2 + body.len();
    }
    found
}

/// Where the payload of the field's layer starts.
fn payload(name: &str, bytes: &[u8], h: &Headers) -> Option<usize> {
    let family = name.strip_suffix("-payload")?;
    match family {
        "ip" => h.v4.then_some(h.above),
        "ip6" => (!h.v4).then_some(h.above),
        "tcp" if h.transport == "tcp" => Some(h.above + usize::from(bytes[h.above + 12] >> 4) * 4),
        _ => (h.transport == family).then_some(h.above + 8),
    }
}

/// Extension headers of the tests' packets, which are whole.
fn extensions(bytes: &[u8], h: &Headers) -> Vec<u8> {
    let mut found = Vec::new();
    if h.v4 {
        return found;
    }
    let (mut next, mut at) = (bytes[6], 40);
    while [0, 43, 44, 51, 60, 135].contains(&next) && at < h.above {
        found.push(next);
        at += match next {
            44 => 8,
            51 => (usize::from(bytes[at + 1]) + 2) * 4,
            _ => (usize::from(bytes[at + 1]) + 1) * 8,
        };
        let last = next == 44 && h.fragment && h.transport.is_empty();
        next = bytes[found_at(bytes, &found)];
        if last {
            break;
        }
    }
    if [50, 139, 140, 253, 254].contains(&next) && at == h.above && h.protocol == next {
        found.push(next);
    }
    found
}

/// Where the "next header" of the last of `found` stands.
fn found_at(bytes: &[u8], found: &[u8]) -> usize {
    let mut at = 40;
    for kind in &found[..found.len() - 1] {
        at += match kind {
            44 => 8,
            51 => (usize::from(bytes[at + 1]) + 2) * 4,
            _ => (usize::from(bytes[at + 1]) + 1) * 8,
        };
    }
    at
}

enum Found {
    Number(u128),
    Bytes(Vec<u8>),
    There,
}

fn read(named: Named, bytes: &[u8], h: &Headers, port: Port) -> Option<Found> {
    let name = named.field.name();
    let way = |first: bool| Some(Found::Number(if first { 0 } else { 1 }));
    match name {
        "in" => return way(port == UP),
        "out" => return way(port != UP),
        "net-proto" => return Some(Found::Number(if h.v4 { 4 } else { 6 })),
        "ip6-proto" => {
            return (!h.v4).then_some(Found::Number(h.protocol.into()));
        }
        _ => {}
    }
    if let Some(at) = payload(name, bytes, h) {
        return (h.total > at).then(|| Found::Bytes(bytes[at..].to_vec()));
    }
    if name.starts_with("ip6-eh") {
        let kind = kind_of(named);
        let all = extensions(bytes, h);
        let there = all.iter().any(|k| kind.is_none_or(|kind| *k == kind));
        return there.then_some(Found::There);
    }
    if named.field.is_option() {
        if h.transport != "tcp" {
            return None;
        }
        let kind = kind_of(named);
        let (all, _) = options(bytes, h);
        let (_, body) = all
            .into_iter()
            .find(|(k, _)| kind.is_none_or(|kind| *k == kind))?;
        return Some(Found::Bytes(body));
    }
    bits(name, h).map(|at| Found::Number(read_bits(bytes, at)))
}

fn constant(name: &str) -> Option<u128> {
    match name.split_once('-')?.1 {
        "non-ect" => Some(0),
        "ect1" => Some(1),
        "ect0" => Some(2),
        "ce" => Some(3),
        _ => None,
    }
}

fn ordered(condition: Condition, order: Ordering) -> bool {
    match condition {
        Condition::Equal => order == Ordering::Equal,
        Condition::NotEqual => order != Ordering::Equal,
        Condition::Less => order == Ordering::Less,
        Condition::Greater => order == Ordering::Greater,
        Condition::AtMost => order != Ordering::Greater,
        Condition::AtLeast => order != Ordering::Less,
    }
}

fn width(name: &str) -> usize {
    match name {
        "tcp-opt-mss" => 2,
        "tcp-opt-wscale" => 1,
        _ => 8,
    }
}

pub fn holds(constraint: &Constraint, bytes: &[u8], h: &Headers, port: Port) -> bool {
    let name = constraint.named.field.name();
    let is_flag = constraint.named.field.values().starts_with("0 or 1");
    let found = read(constraint.named, bytes, h, port);
    let positive = match (&constraint.test, found) {
        (_, None) => false,
        (Test::Alone, Some(Found::Number(n))) => match constant(name) {
            Some(value) => n == value,
            None => !is_flag || n == 1,
        },
        (Test::Alone, Some(_)) => true,
        (Test::Is(condition, value), Some(found)) => match (value, found) {
            (Value::Number(v), Found::Number(n)) => ordered(*condition, n.cmp(v)),
            (Value::Number(v), Found::Bytes(b)) => {
                let n = b.iter().fold(0u128, |n, byte| n << 8 | u128::from(*byte));
                b.len() == width(name) && ordered(*condition, n.cmp(v))
            }
            (Value::Prefix { address, length }, Found::Number(n)) => {
                let all = if name.starts_with("ip6") { 128 } else { 32 };
                let inside = *length == 0 || n >> (all - length) == address >> (all - length);
                inside == (*condition == Condition::Equal)
            }
            (Value::Bytes(v), Found::Bytes(b)) => {
                let equal = if constraint.named.field.is_option() {
                    b == *v
                } else {
                    b.starts_with(v)
                };
                equal == (*condition == Condition::Equal)
            }
            (Value::Interface(interface), Found::Number(n)) => {
                let side = u128::from(interface == "outside");
                (n == side) == (*condition == Condition::Equal)
            }
            _ => false,
        },
    };
    positive != constraint.negated
}

pub fn matches(rule: &Rule, bytes: &[u8], port: Port) -> bool {
    let h = headers(bytes);
    rule.constraints().all(|c| holds(&c, bytes, &h, port))
}

/// Sets the checksums of a packet whose headers were at `h`, whatever they say now.
pub fn seal(bytes: &mut [u8], h: &Headers) {
    if h.v4 {
        let end = h.above;
        bytes[10..12].fill(0);
        let sum = checksum::of(&bytes[..end]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    }
    let at = h.above
        + match h.transport {
            "tcp" => 16,
            "udp" => 6,
            "icmp" | "icmp6" => 2,
            _ => return,
        };
    let absent = h.transport == "udp" && bytes[at..at + 2] == [0, 0];
    if absent {
        return;
    }
    bytes[at..at + 2].fill(0);
    let mut sum = Sum::default();
    if h.transport != "icmp" {
        let addresses = if h.v4 { 12..20 } else { 8..40 };
        sum.add(&bytes[addresses]);
        sum.add_word(h.protocol.into());
        sum.add(&((bytes.len() - h.above) as u32).to_be_bytes());
    }
    sum.add(&bytes[h.above..]);
    let mut sum = sum.finish();
    if h.transport == "udp" && sum == 0 {
        sum = 0xffff;
    }
    bytes[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

fn value_bytes(name: &str, value: Option<&Value>) -> Vec<u8> {
    match value {
        Some(Value::Number(n)) => n.to_be_bytes()[16 - width(name)..].to_vec(),
        Some(Value::Bytes(b)) => b.clone(),
        _ => Vec::new(),
    }
}

fn length(list: &OptionList) -> usize {
    list.iter().map(|(_, body)| 2 + body.len()).sum()
}

/// What stateless rules make of a packet, whose drops are certain: what leaves, if anything.
/// Whether it is a fragment that hides what is above IP (RFC 1858 §3).
pub fn is_tiny(packet: &[u8]) -> bool {
    let ip = Ip::parse(packet).expect("as above");
    let h = headers(packet);
    let whole = match (ip.protocol, h.v4) {
        (6, _) => h.transport == "tcp" && tcp_is_whole(packet, h.above),
        (17, _) | (1, true) | (58, false) => !h.transport.is_empty(),
        _ => true,
    };
    match ip.fragment_offset {
        0 => ip.more_fragments && !whole,
        8 => ip.protocol == 6,
        _ => false,
    }
}

fn tcp_is_whole(packet: &[u8], at: usize) -> bool {
    let len = usize::from(packet[at + 12] >> 4) * 4;
    (20..=packet.len() - at).contains(&len)
}

/// What becomes of the packet: its bytes, or `None` if it is dropped.
pub fn apply(rules: &[Rule], packet: &[u8], port: Port) -> Option<Vec<u8>> {
    let mut bytes = changed(rules, packet, port)?;
    let h = headers(packet);
    // Checksums that rules set stand, whatever else they change.
    for target in rules
        .iter()
        .filter(|r| matches(r, packet, port))
        .flat_map(Rule::targets)
    {
        if let Target::Set(named, Some(Value::Number(n))) = target {
            let name = named.field.name();
            if let Some(at) = bits(name, &h).filter(|_| name.ends_with("-checksum")) {
                write_bits(&mut bytes, at, *n);
            }
        }
    }
    Some(bytes)
}

fn changed(rules: &[Rule], packet: &[u8], port: Port) -> Option<Vec<u8>> {
    if is_tiny(packet) && !rules.is_empty() {
        return None;
    }
    let matched: Vec<&Rule> = rules.iter().filter(|r| matches(r, packet, port)).collect();
    'verdict: for rule in &matched {
        for target in rule.targets() {
            match target {
                Target::Drop(_) => return None,
                Target::Accept => break 'verdict,
                _ => {}
            }
        }
    }
    let h = headers(packet);
    let mut bytes = packet.to_vec();
    let targets = || matched.iter().flat_map(|rule| rule.targets());
    for target in targets() {
        let Target::Set(named, value) = target else {
            continue;
        };
        let name = named.field.name();
        if name.ends_with("-checksum") {
            continue;
        }
        if let (Some(at), Some(Value::Bytes(new))) = (payload(name, packet, &h), value) {
            let len = new.len().min(bytes.len().saturating_sub(at));
            bytes[at..at + len].copy_from_slice(&new[..len]);
        } else if let Some(at) = bits(name, &h) {
            let value = match value {
                Some(Value::Number(n)) => *n,
                _ => constant(name).expect("a field that is set has a value"),
            };
            write_bits(&mut bytes, at, value);
        }
    }
    seal(&mut bytes, &h);
    let (mut list, readable) = if h.transport == "tcp" && !h.fragment {
        options(packet, &h)
    } else {
        (Vec::new(), false)
    };
    if !readable {
        return Some(bytes);
    }
    let before = list.clone();
    // Whether an option came, went or changed its length.
    let mut moved = false;
    let mut kept: Vec<(usize, Vec<u8>)> = Vec::new();
    for (number, rule) in matched.iter().enumerate() {
        for target in rule.targets() {
            if let Target::Strip(Strip::AllBut(named)) = target {
                if kept.last().is_none_or(|(of, _)| *of != number) {
                    kept.push((number, Vec::new()));
                }
                if let Some((_, kinds)) = kept.last_mut() {
                    kinds.extend(kind_of(*named));
                }
            }
        }
    }
    for (number, rule) in matched.iter().enumerate() {
        let mut whitelisted = false;
        for target in rule.targets() {
            match target {
                Target::Set(named, value) if named.field.is_option() => {
                    let body = value_bytes(named.field.name(), value.as_ref());
                    let mut changed = list.clone();
                    let number = named.field.values().starts_with("a number");
                    let mut longer = false;
                    for (kind, old) in &mut changed {
                        if Some(*kind) == kind_of(*named) && (!number || old.len() == body.len()) {
                            longer |= old.len() != body.len();
                            old.clone_from(&body);
                        }
                    }
                    if length(&changed) <= 40 {
                        moved |= longer;
                        list = changed;
                    }
                }
                Target::Add(named, value) => {
                    let body = value_bytes(named.field.name(), value.as_ref());
                    let kind = kind_of(*named).expect("an option that is added has a kind");
                    if length(&list) + 2 + body.len() <= 40 {
                        moved = true;
                        list.push((kind, body));
                    }
                }
                Target::Strip(Strip::All) => {
                    moved |= !list.is_empty();
                    list.clear();
                }
                Target::Strip(Strip::This(named)) => {
                    let all = list.len();
                    list.retain(|(kind, _)| Some(*kind) != kind_of(*named));
                    moved |= list.len() < all;
                }
                Target::Strip(Strip::AllBut(_)) if !whitelisted => {
                    whitelisted = true;
                    let of = kept.iter().find(|(of, _)| *of == number);
                    let (_, kinds) = of.expect("its list was collected");
                    let all = list.len();
                    list.retain(|(kind, _)| kinds.contains(kind));
                    moved |= list.len() < all;
                }
                _ => {}
            }
        }
    }
    if !moved {
        for (at, (_, body)) in places(packet, &h).into_iter().zip(&list) {
            bytes[at..at + body.len()].copy_from_slice(body);
        }
        if list != before {
            seal(&mut bytes, &h);
        }
        return Some(bytes);
    }
    let mut new = Vec::new();
    for (kind, body) in &list {
        new.extend([*kind, 2 + body.len() as u8]);
        new.extend(body);
    }
    new.resize(new.len().next_multiple_of(4), 1);
    let old = h.above + 20..h.above + usize::from(packet[h.above + 12] >> 4) * 4;
    let (was, is) = (old.len(), new.len());
    bytes.splice(old, new);
    if was != is {
        // The lengths that a rule may have set are those of the packet again.
        write_bits(&mut bytes, (h.above * 8 + 96, 4), ((20 + is) / 4) as u128);
        let (at, of_header) = if h.v4 { (2, 0) } else { (4, 40) };
        let len = (bytes.len() - of_header) as u16;
        if bytes[at..at + 2] != [0, 0] {
            bytes[at..at + 2].copy_from_slice(&len.to_be_bytes());
        }
    }
    seal(&mut bytes, &h);
    Some(bytes)
}

/// Every field, for tests that draw one.
pub fn fields() -> Vec<Field> {
    Field::all().collect()
}
