//! Source network address and port translation.
//!
//! It is no preset of the rules of `narrows-mmb`, though `snat` there translates, too: a rule's connection has
//! both ends, so that mapping and filtering depend on the peer, its ports are drawn, its time-outs are those of
//! mmb, and what comes without a connection passes. RFC 4787 wants a mapping that all peers share, and filters.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};

use narrows_core::{
    Change, DropCause, Element, ElementCounters, EntityId, Event, Outlet, Packet, Port, UP,
};
use narrows_units::{Duration, Instant, Parameter, WordError, Words};
use narrows_wire::{FlowKey, Icmp, Ip, PacketEnd, ip, set_end};

use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports, require_end};
use crate::site::Site;
use crate::tap::{nothing_to_change, pass};

/// First port that is given where the host's own is taken, and how many there are: the
/// dynamic ports (RFC 6335 §6).
const FIRST_PORT: u16 = 49_152;
const PORTS: u16 = 16_384;

/// A mapping without traffic is kept so long: TCP 2 h 4 min (RFC 5382 REQ-5), UDP 5 min
/// (RFC 4787 REQ-5), echo 60 s (RFC 5508 REQ-2). A TCP connection that was closed keeps
/// its mapping, too.
fn kept_for(protocol: u8) -> Duration {
    Duration::from_secs(match protocol {
        ip::TCP => 7440,
        ip::UDP => 300,
        _ => 60,
    })
}

/// How often old mappings are searched for.
const SWEEP: Duration = Duration::from_secs(5);

/// Protocol, and an address with its port or echo identifier.
type Key = (u8, SocketAddr);

#[derive(Clone, Copy, Debug)]
struct Mapping {
    /// Seen from the other side.
    other: SocketAddr,
    last_used: Instant,
}

/// `nat`, which has no parameters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatSpec;

impl Kind for NatSpec {
    const PARAMETERS: &'static [Parameter] = &[];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        require_end(words.clone())?;
        Ok(Self)
    }

    fn over(_: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::parse(words)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        Box::new(Nat::new(site))
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: None,
            holds_back: false,
            two_way: true,
            node: false,
            translates: true,
            wraps: false,
            sets_ecn: false,
            duplicates: false,
            corrupts: false,
            mtu: None,
            tap: None,
            reports: Reports::Packets,
        }
    }

    fn base_delay(&self, _: u8, _: u32) -> Duration {
        Duration::ZERO
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        None
    }
}

impl fmt::Display for NatSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nat")
    }
}

/// `nat`: hosts at the link's first end are seen from its second end as the box's one
/// address of each IP version. Mapping and filtering do not depend on the peer
/// (RFC 4787 REQ-1, REQ-8); a port is kept where it is free. What comes from outside
/// without a mapping is dropped. ICMP errors are translated with what they quote
/// (RFC 5508 §4).
#[derive(Clone, Debug)]
pub struct Nat {
    entity: EntityId,
    addresses: [IpAddr; 2],
    /// By the inside's address, to the outside's, and back.
    out: BTreeMap<Key, Mapping>,
    back: BTreeMap<Key, SocketAddr>,
    /// Where the search for a free port begins.
    next_port: u16,
    sweep: Option<Instant>,
    counters: ElementCounters,
}

/// The two ends of a packet that has ports or an echo identifier, and its protocol.
fn ends(bytes: &[u8]) -> Option<(u8, SocketAddr, SocketAddr)> {
    let mut key = FlowKey::of(bytes)?;
    let ip = Ip::parse(bytes).ok()?;
    match ip.protocol {
        // A later fragment has no ports.
        _ if ip.fragment_offset > 0 => return None,
        ip::TCP | ip::UDP => {}
        protocol => {
            let ident = Icmp::echo_ident(protocol, bytes.get(ip.header_len..)?)?;
            (key.source_port, key.destination_port) = (ident, ident);
        }
    }
    let source = SocketAddr::from((key.source, key.source_port));
    let destination = SocketAddr::from((key.destination, key.destination_port));
    Some((key.protocol, source, destination))
}

/// Where the packet starts that an ICMP error quotes.
fn quoted_at(bytes: &[u8]) -> Option<usize> {
    let ip = Ip::parse(bytes).ok()?;
    let above = bytes.get(ip.header_len..)?;
    let (_, quote) = Icmp::quoted(ip.protocol, above)?;
    Some(bytes.len() - quote.len())
}

impl Nat {
    pub(crate) fn new(site: &Site<'_>) -> Self {
        Self {
            entity: site.entity,
            addresses: site.addresses,
            out: BTreeMap::new(),
            back: BTreeMap::new(),
            next_port: 0,
            sweep: None,
            counters: ElementCounters::default(),
        }
    }

    /// A free port for the inside's `host`, its own if possible.
    fn outside(&mut self, protocol: u8, host: SocketAddr) -> Option<SocketAddr> {
        let address = self.addresses[usize::from(host.is_ipv6())];
        let own = SocketAddr::from((address, host.port()));
        if !self.back.contains_key(&(protocol, own)) {
            return Some(own);
        }
        for _ in 0..PORTS {
            let port = FIRST_PORT + self.next_port;
            self.next_port = (self.next_port + 1) % PORTS;
            let free = SocketAddr::from((address, port));
            if !self.back.contains_key(&(protocol, free)) {
                return Some(free);
            }
        }
        None
    }

    /// Translates what leaves the inside; whether it may go on.
    fn translate_out(&mut self, now: Instant, packet: &mut Packet, out: &mut Outlet<'_>) -> bool {
        if let Some(at) = quoted_at(&packet.bytes) {
            // About a packet whose destination this box had changed.
            let quote = packet.bytes.get(at..).and_then(ends);
            let Some((protocol, _, inside)) = quote else {
                return false;
            };
            let Some(mapping) = self.out.get(&(protocol, inside)) else {
                return false;
            };
            let outside = mapping.other;
            return set_end(&mut packet.bytes[at..], PacketEnd::Destination, outside)
                && readdress(&mut packet.bytes, PacketEnd::Source, outside);
        }
        let Some((protocol, source, destination)) = ends(&packet.bytes) else {
            return false;
        };
        let key = (protocol, source);
        if !self.out.contains_key(&key) {
            let Some(other) = self.outside(protocol, source) else {
                return false;
            };
            let last_used = now;
            self.out.insert(key, Mapping { other, last_used });
            self.back.insert((protocol, other), source);
            self.sweep.get_or_insert(now + SWEEP);
            let translated = Event::Translated {
                element: self.entity,
                flow: packet.flow,
                protocol,
                addresses: (other, destination),
            };
            out.events.record(now, translated);
        }
        let Some(mapping) = self.out.get_mut(&key) else {
            return false;
        };
        mapping.last_used = now;
        set_end(&mut packet.bytes, PacketEnd::Source, mapping.other)
    }

    /// Translates what comes from outside; whether it may go on.
    fn translate_back(&mut self, now: Instant, bytes: &mut [u8]) -> bool {
        if let Some(at) = quoted_at(bytes) {
            let quote = bytes.get(at..).and_then(ends);
            let inside = quote.and_then(|(p, source, _)| self.back.get(&(p, source)));
            return inside.copied().is_some_and(|inside| {
                set_end(&mut bytes[at..], PacketEnd::Source, inside)
                    && readdress(bytes, PacketEnd::Destination, inside)
            });
        }
        let Some((protocol, _, destination)) = ends(bytes) else {
            return false;
        };
        let Some(inside) = self.back.get(&(protocol, destination)).copied() else {
            return false;
        };
        if let Some(mapping) = self.out.get_mut(&(protocol, inside)) {
            mapping.last_used = now;
        }
        set_end(bytes, PacketEnd::Destination, inside)
    }
}

/// Gives an ICMP error the address of `to` at one end and its checksum.
fn readdress(bytes: &mut [u8], end: PacketEnd, to: SocketAddr) -> bool {
    let done = set_end(bytes, end, to);
    Icmp::seal(bytes);
    done
}

impl Element for Nat {
    fn push(&mut self, now: Instant, port: Port, mut packet: Box<Packet>, out: &mut Outlet<'_>) {
        let passes = if port == UP {
            self.translate_out(now, &mut packet, out)
        } else {
            self.translate_back(now, &mut packet.bytes)
        };
        if passes {
            pass(&mut self.counters, &packet);
            out.send(port, packet);
        } else {
            self.counters.packets_in += 1;
            self.counters.bytes_in += u64::from(packet.len());
            self.counters.dropped += 1;
            out.drop(now, self.entity, packet, DropCause::Policy);
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        self.sweep
    }

    /// Forgets mappings that were not used for long.
    fn wake(&mut self, now: Instant, _: &mut Outlet<'_>) {
        let back = &mut self.back;
        self.out.retain(|(protocol, _), mapping| {
            let keep = now.since(mapping.last_used) < kept_for(*protocol);
            if !keep {
                back.remove(&(*protocol, mapping.other));
            }
            keep
        });
        self.sweep = (!self.out.is_empty()).then(|| now + SWEEP);
    }

    fn change(&mut self, _: Instant, change: &Change) -> Result<(), WordError> {
        Err(nothing_to_change(&change.words, "nat"))
    }

    fn counters(&self) -> ElementCounters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BoxBench, OWN, datagram};
    use narrows_core::DOWN;

    const A: &str = "10.0.0.1:5000";
    const SERVER: &str = "10.0.0.9:80";

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    fn own(port: u16) -> SocketAddr {
        SocketAddr::from((OWN[0], port))
    }

    /// The ends of the one packet that went on in `port`'s direction.
    fn through(bench: &mut BoxBench, port: Port, bytes: &[u8]) -> Option<(SocketAddr, SocketAddr)> {
        let sent = bench.push(port, bytes, 0);
        let (way, packet) = sent.first()?;
        assert_eq!(*way, port);
        ends(&packet.bytes).map(|(_, source, destination)| (source, destination))
    }

    #[test]
    fn a_flow_has_the_box_s_address_outside_and_its_own_inside() {
        let mut bench = BoxBench::new("nat");
        let out = through(&mut bench, UP, &datagram(A, SERVER, 100));
        assert_eq!(out, Some((own(5000), addr(SERVER))), "its port is kept");
        let answer = datagram(SERVER, &own(5000).to_string(), 100);
        let back = through(&mut bench, DOWN, &answer);
        assert_eq!(back, Some((addr(SERVER), addr(A))));
        assert_eq!(bench.translated, [(own(5000), addr(SERVER))]);
    }

    #[test]
    fn hosts_with_the_same_port_get_different_ones() {
        let mut bench = BoxBench::new("nat");
        through(&mut bench, UP, &datagram(A, SERVER, 100));
        let out = through(&mut bench, UP, &datagram("10.0.0.2:5000", SERVER, 100));
        assert_eq!(out, Some((own(FIRST_PORT), addr(SERVER))));
        let answer = datagram(SERVER, &own(FIRST_PORT).to_string(), 100);
        let back = through(&mut bench, DOWN, &answer);
        assert_eq!(back, Some((addr(SERVER), addr("10.0.0.2:5000"))));
    }

    #[test]
    fn ports_are_given_in_turn_where_the_own_is_taken() {
        let mut bench = BoxBench::new("nat");
        for (host, port) in [
            (1, 5000),
            (2, FIRST_PORT),
            (3, FIRST_PORT + 1),
            (4, FIRST_PORT + 2),
        ] {
            let source = format!("10.0.0.{host}:5000");
            let out = through(&mut bench, UP, &datagram(&source, SERVER, 100));
            assert_eq!(out, Some((own(port), addr(SERVER))));
        }
    }

    #[test]
    fn a_mapping_is_kept_as_long_as_the_rfcs_say_and_no_longer() {
        assert_eq!(kept_for(ip::TCP), Duration::from_secs(2 * 3600 + 4 * 60));
        assert_eq!(kept_for(ip::UDP), Duration::from_secs(5 * 60));
        assert_eq!(kept_for(ip::ICMP), Duration::from_secs(60));
        let mut bench = BoxBench::new("nat");
        bench.run_for(Duration::from_secs(100));
        through(&mut bench, UP, &datagram(A, SERVER, 100));
        let first = Instant::ZERO + Duration::from_secs(105);
        assert_eq!(bench.element.next_wake(), Some(first));
        bench.run_for(Duration::from_secs(300));
        let stray = datagram(SERVER, &own(5000).to_string(), 100);
        assert_eq!(through(&mut bench, DOWN, &stray), None);
        assert_eq!(
            bench.element.next_wake(),
            None,
            "there is nothing to forget"
        );
    }

    #[test]
    fn a_later_fragment_has_no_ports_and_is_dropped() {
        let mut bench = BoxBench::new("nat");
        let mut fragment = datagram(A, SERVER, 100);
        fragment[7] = 1;
        assert!(bench.push(UP, &fragment, 0).is_empty());
        assert!(bench.push(UP, &fragment, 50).is_empty());
        let counters = bench.element.counters();
        assert_eq!((counters.packets_in, counters.bytes_in), (2, 250));
        assert_eq!((counters.packets_out, counters.dropped), (0, 2));
        assert_eq!(bench.translated, []);
    }

    #[test]
    fn nothing_comes_in_without_a_mapping_or_after_it_was_forgotten() {
        let mut bench = BoxBench::new("nat");
        let stray = datagram(SERVER, &own(5000).to_string(), 100);
        assert_eq!(through(&mut bench, DOWN, &stray), None);
        let direct = datagram(SERVER, A, 100);
        assert_eq!(through(&mut bench, DOWN, &direct), None);
        through(&mut bench, UP, &datagram(A, SERVER, 100));
        bench.run_for(Duration::from_secs(299));
        assert!(through(&mut bench, DOWN, &stray).is_some());
        bench.run_for(Duration::from_secs(306));
        assert_eq!(through(&mut bench, DOWN, &stray), None);
        assert_eq!(bench.element.counters().dropped, 3);
    }

    #[test]
    fn an_error_from_outside_reaches_the_host_with_its_own_packet_in_it() {
        let mut bench = BoxBench::new("nat");
        let sent = bench.push(UP, &datagram(A, SERVER, 100), 0);
        let mut error = Vec::new();
        let router = "10.0.0.77".parse().unwrap();
        Icmp::PortUnreachable
            .report(&mut error, router, &sent[0].1.bytes, 0)
            .unwrap();
        let inside = bench.push(DOWN, &error, 0);
        let bytes = &inside[0].1.bytes;
        let ip = Ip::parse(bytes).unwrap();
        assert_eq!(ip.destination, addr(A).ip());
        let mut sealed = bytes.clone();
        Icmp::seal(&mut sealed);
        assert_eq!(&sealed, bytes);
        let quote = &bytes[quoted_at(bytes).unwrap()..];
        assert_eq!(quote, &datagram(A, SERVER, 100)[..quote.len()]);
    }

    #[test]
    fn an_error_from_inside_is_about_the_address_that_the_outside_knows() {
        let mut bench = BoxBench::new("nat");
        through(&mut bench, UP, &datagram(A, SERVER, 100));
        let answer = datagram(SERVER, &own(5000).to_string(), 100);
        let inside = bench.push(DOWN, &answer, 0);
        let mut error = Vec::new();
        Icmp::PortUnreachable
            .report(&mut error, addr(A).ip(), &inside[0].1.bytes, 0)
            .unwrap();
        let outside = bench.push(UP, &error, 0);
        let bytes = &outside[0].1.bytes;
        assert_eq!(Ip::parse(bytes).unwrap().source, OWN[0]);
        assert_eq!(&bytes[quoted_at(bytes).unwrap()..], answer);
    }
}
