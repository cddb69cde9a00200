//! A bench on which tests put one element.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use narrows_core::{
    Change, DropCause, Element, ElementCounters, EntityId, Event, EventSink, Outlet, Packet,
    PacketPool, Port,
};
use narrows_units::{Duration, Instant};
use narrows_wire::{IpFields, UdpFields, ip};

use crate::ElementSpec;
use crate::site::{PortSite, Site};

/// What a test wants to know of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    Enqueued(u32),
    Dequeued { sojourn: Duration, wire_bytes: u32 },
    Dropped(DropCause),
    Marked,
    Tapped(bool),
}

#[derive(Default)]
pub struct Record(pub Vec<(Instant, Seen)>);

impl EventSink for Record {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        let seen = match event {
            Event::Enqueued {
                backlog_packets, ..
            } => Seen::Enqueued(backlog_packets),
            Event::Dequeued {
                sojourn,
                wire_bytes,
                ..
            } => Seen::Dequeued {
                sojourn,
                wire_bytes,
            },
            Event::Dropped { cause, .. } => Seen::Dropped(cause),
            Event::Marked { .. } => Seen::Marked,
            Event::Tapped { forward, .. } => Seen::Tapped(forward),
            _ => return,
        };
        self.0.push((now, seen));
    }
}

/// One element, its clock, and what came out of it.
pub struct Bench {
    pub element: Box<dyn Element>,
    pub pool: PacketPool,
    pub record: Record,
    /// Arrival order number (the packet's `scratch`), time of leaving, traffic
    /// class.
    pub left: Vec<(u64, Instant, u8)>,
    /// What each of them held, without its tail of zeros.
    pub contents: Vec<Vec<u8>>,
    /// By which port each of them left.
    pub by: Vec<Port>,
    sent: Vec<(Port, Box<Packet>)>,
    next: u64,
}

pub fn ms(n: u64) -> Instant {
    Instant::from_nanos(n * 1_000_000)
}

/// A place with the full MTU and without neighbours.
pub fn site(seed: u64) -> Site<'static> {
    Site {
        entity: EntityId(7),
        name: "link/test/up/element",
        seed,
        mtu: 1500,
        forward: true,
        addresses: OWN,
        other_end: None,
        ports: &[],
    }
}

impl Bench {
    pub fn new(words: &str) -> Self {
        Self::seeded(words, 1)
    }

    pub fn seeded(words: &str, seed: u64) -> Self {
        let spec = ElementSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"));
        Self::with(&spec, seed)
    }

    pub fn with(spec: &ElementSpec, seed: u64) -> Self {
        Self::around(spec.build(&site(seed)))
    }

    /// An element that is called so, which seeds what it draws.
    pub fn named(words: &str, name: &str) -> Self {
        let spec = ElementSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"));
        Self::around(spec.build(&Site { name, ..site(1) }))
    }

    /// A node with a port for each of `ports`, which say what it has of its own.
    pub fn node(words: &str, ports: &[&str]) -> Self {
        let spec = ElementSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"));
        let specs: Vec<_> = ports
            .iter()
            .map(|own| match *own {
                "" => spec.clone(),
                own => {
                    let own = format!("{} {own}", spec.kind());
                    spec.overlaid(&own).unwrap_or_else(|e| panic!("{own}: {e}"))
                }
            })
            .collect();
        Self::of_ports(&spec, &specs)
    }

    /// A node with these ports.
    pub fn of_ports(spec: &ElementSpec, ports: &[ElementSpec]) -> Self {
        let names: Vec<_> = (0..ports.len()).map(|i| format!("port {i}")).collect();
        let sites: Vec<_> = (0..ports.len())
            .map(|i| PortSite {
                site: Site {
                    entity: EntityId(i as u32),
                    name: &names[i],
                    ..site(1)
                },
                spec: &ports[i],
            })
            .collect();
        let first = sites[0].site;
        Self::around(spec.build(&Site {
            ports: &sites,
            ..first
        }))
    }

    fn around(element: Box<dyn Element>) -> Self {
        Self {
            element,
            pool: PacketPool::new(),
            record: Record::default(),
            left: Vec::new(),
            contents: Vec::new(),
            by: Vec::new(),
            sent: Vec::new(),
            next: 0,
        }
    }

    /// Offers an IPv4 packet of `len` bytes at `now`, after everything due
    /// until then; returns its number.
    pub fn offer(&mut self, now: Instant, len: u32, class: u8) -> u64 {
        self.offer_to(now, 0, len, class)
    }

    /// The same at a node, by `port`.
    pub fn offer_to(&mut self, now: Instant, port: Port, len: u32, class: u8) -> u64 {
        self.run_until(now);
        self.offer_unwoken(now, port, len, class)
    }

    /// The same, but the element was not woken for what was due until then, as by an engine that
    /// is late.
    pub fn offer_unwoken(&mut self, now: Instant, port: Port, len: u32, class: u8) -> u64 {
        let mut packet = self.pool.take(now, None);
        let address = |last| IpAddr::V4(Ipv4Addr::new(10, 0, 0, last));
        IpFields {
            source: address(1),
            destination: address(2),
            traffic_class: class,
            ttl: 64,
            protocol: ip::UDP,
            ident: 0,
        }
        .write(&mut packet.bytes, len as usize - 20);
        packet.zero_tail = len - 20;
        // The number travels as the birth time, which no element rewrites.
        packet.born = Instant::from_nanos(self.next);
        self.next += 1;
        self.call(now, |element, out| element.push(now, port, packet, out));
        self.next - 1
    }

    /// Wakes the element at each time that it asks for, up to `end`.
    pub fn run_until(&mut self, end: Instant) {
        while let Some(at) = self.element.next_wake().filter(|t| *t <= end) {
            self.call(at, |element, out| element.wake(at, out));
        }
    }

    /// Wakes the element at `now`, as an engine that is late does, whatever was due before.
    pub fn wake(&mut self, now: Instant) {
        self.call(now, |element, out| element.wake(now, out));
    }

    pub fn change(&mut self, now: Instant, words: &str) {
        self.change_of(now, 0, words);
    }

    /// The same of one port of a node.
    pub fn change_of(&mut self, now: Instant, port: Port, words: &str) {
        self.run_until(now);
        let words = words.to_owned();
        self.element.change(now, &Change { words, port }).unwrap();
    }

    fn call(&mut self, now: Instant, f: impl FnOnce(&mut dyn Element, &mut Outlet<'_>)) {
        let mut out = Outlet {
            pool: &mut self.pool,
            events: &mut self.record,
            sent: &mut self.sent,
        };
        f(self.element.as_mut(), &mut out);
        for (port, packet) in self.sent.drain(..) {
            self.by.push(port);
            let class = ip::traffic_class(&packet.bytes);
            self.left.push((packet.born.as_nanos(), now, class));
            self.contents.push(packet.bytes.clone());
            self.pool.give(packet);
        }
    }

    /// Packets in equal those out, dropped, and still held.
    pub fn check_conservation(&self) {
        let ElementCounters {
            packets_out,
            dropped,
            ..
        } = self.element.counters();
        assert_eq!(packets_out, self.left.len() as u64);
        assert_eq!(
            self.pool.made(),
            packets_out + dropped + self.pool.outstanding()
        );
    }
}

/// The addresses of a two-way box on the bench.
pub const OWN: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// A two-way box and its clock.
pub struct BoxBench {
    pub element: Box<dyn Element>,
    /// Addresses that it has given flows.
    pub translated: Vec<(SocketAddr, SocketAddr)>,
    pool: PacketPool,
    now: Instant,
}

struct Translations<'a>(&'a mut Vec<(SocketAddr, SocketAddr)>);

impl EventSink for Translations<'_> {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        if let Event::Translated { addresses, .. } = event {
            self.0.push(addresses);
        }
    }
}

impl BoxBench {
    pub fn new(words: &str) -> Self {
        let spec = ElementSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"));
        assert!(spec.facts().two_way);
        Self {
            element: spec.build(&site(1)),
            translated: Vec::new(),
            pool: PacketPool::new(),
            now: Instant::ZERO,
        }
    }

    /// Hands it a packet that travels as `port` says; what it sends.
    pub fn push(&mut self, port: Port, bytes: &[u8], zero_tail: u32) -> Vec<(Port, Box<Packet>)> {
        let mut packet = self.pool.take(self.now, None);
        packet.bytes.extend_from_slice(bytes);
        packet.zero_tail = zero_tail;
        let now = self.now;
        self.call(|element, out| element.push(now, port, packet, out))
    }

    pub fn change(&mut self, words: &str) {
        let words = words.to_owned();
        self.element
            .change(self.now, &Change { words, port: 0 })
            .unwrap();
    }

    /// Lets time pass, and wakes the box as it asks.
    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.element.next_wake().filter(|t| *t <= end) {
            self.now = at;
            self.call(|element, out| element.wake(at, out));
        }
        self.now = end;
    }

    fn call(
        &mut self,
        f: impl FnOnce(&mut dyn Element, &mut Outlet<'_>),
    ) -> Vec<(Port, Box<Packet>)> {
        let mut sent = Vec::new();
        let mut out = Outlet {
            pool: &mut self.pool,
            events: &mut Translations(&mut self.translated),
            sent: &mut sent,
        };
        f(self.element.as_mut(), &mut out);
        sent
    }
}

/// A datagram of `len` bytes of IP.
pub fn datagram(source: &str, destination: &str, len: usize) -> Vec<u8> {
    let parse = |text: &str| text.parse::<SocketAddr>().unwrap();
    let (source, destination) = (parse(source), parse(destination));
    let ip = IpFields {
        source: source.ip(),
        destination: destination.ip(),
        traffic_class: 0,
        ttl: 64,
        protocol: ip::UDP,
        ident: 0,
    };
    let udp = UdpFields {
        source_port: source.port(),
        destination_port: destination.port(),
    };
    let payload = vec![0; len - ip.header_len() - 8];
    let mut bytes = Vec::new();
    ip.write(&mut bytes, payload.len() + 8);
    udp.write(&mut bytes, ip.source, ip.destination, &payload, 0);
    bytes
}
