//! Packets, links and a place for events, for the tests of this crate.

use std::net::{IpAddr, Ipv4Addr};

use narrows_core::{
    DropCause, EntityId, Event, EventSink, MarkCause, Outlet, Packet, PacketPool, Port, Queue,
};
use narrows_units::{Instant, Rate, Rng};
use narrows_wire::{Ecn, IpFields};

use crate::{LinkFacts, QueueSpec};

pub(crate) const ETHERNET: LinkFacts = LinkFacts {
    rate: Rate::from_mbit(10),
    overhead: 14,
    mtu: 1500,
};

/// Marks and drops in the order in which they happened.
#[derive(Default)]
pub(crate) struct Log {
    pub marks: Vec<(Instant, u64, MarkCause)>,
    pub drops: Vec<(Instant, u64, DropCause)>,
}

impl EventSink for Log {
    fn record(&mut self, now: Instant, event: Event<'_>) {
        match event {
            Event::Marked { packet, cause, .. } => self.marks.push((now, packet.id.0, cause)),
            Event::Dropped { packet, cause, .. } => self.drops.push((now, packet.id.0, cause)),
            _ => {}
        }
    }
}

/// A queue with what it needs around it.
pub(crate) struct Bench {
    pub queue: Box<dyn Queue>,
    pub pool: PacketPool,
    pub log: Log,
    sent: Vec<(Port, Box<Packet>)>,
}

impl Bench {
    pub fn new(words: &str) -> Self {
        Self::on(words, ETHERNET)
    }

    pub fn on(words: &str, link: LinkFacts) -> Self {
        let spec = QueueSpec::parse(words).unwrap();
        Self {
            queue: spec.build(EntityId(7), link, Rng::for_name(1, "queue")),
            pool: PacketPool::new(),
            log: Log::default(),
            sent: Vec::new(),
        }
    }

    /// Offers a packet of `flow` that counts `length` bytes on the link.
    pub fn offer(&mut self, now: Instant, flow: u16, ecn: Ecn, length: u32) -> (u64, bool) {
        let packet = packet(&mut self.pool, now, flow, ecn, length);
        self.offer_packet(now, packet)
    }

    /// The same of a packet with this traffic class.
    pub fn offer_class(&mut self, now: Instant, flow: u16, class: u8, length: u32) -> (u64, bool) {
        self.offer_between(now, [1, 1], flow, class, length)
    }

    /// Offers a packet from one host to another, each the last byte of its address, with
    /// `traffic_class`, that counts `length` bytes on the link.
    pub fn offer_between(
        &mut self,
        now: Instant,
        ends: [u8; 2],
        flow: u16,
        traffic_class: u8,
        length: u32,
    ) -> (u64, bool) {
        let packet = between(&mut self.pool, now, ends, flow, traffic_class, length);
        self.offer_packet(now, packet)
    }

    /// Offers `packet`.
    pub fn offer_packet(&mut self, now: Instant, packet: Box<Packet>) -> (u64, bool) {
        let id = packet.id.0;
        let mut out = Outlet {
            pool: &mut self.pool,
            events: &mut self.log,
            sent: &mut self.sent,
        };
        (id, self.queue.enqueue(now, packet, &mut out))
    }

    /// Takes the next packet and gives it back to the pool.
    pub fn take(&mut self, now: Instant) -> Option<Taken> {
        let mut out = Outlet {
            pool: &mut self.pool,
            events: &mut self.log,
            sent: &mut self.sent,
        };
        let packet = self.queue.dequeue(now, &mut out)?;
        let band = self.queue.band_of(&packet);
        assert!(usize::from(band) < self.queue.bands().len(), "band {band}");
        let taken = Taken {
            id: packet.id.0,
            flow: u16::from_be_bytes([packet.bytes[20], packet.bytes[21]]),
            ends: [packet.bytes[15], packet.bytes[19]],
            length: packet.len() + ETHERNET.overhead,
            dscp: narrows_wire::ip::dscp(&packet.bytes),
            ecn: narrows_wire::ip::ecn(&packet.bytes),
            held_since: packet.held_since,
            band,
        };
        self.pool.give(packet);
        Some(taken)
    }

    /// Takes the next packet when the queue gives it, which may be later than `now`.
    pub fn take_from(&mut self, now: &mut Instant) -> Option<Taken> {
        *now = self.queue.next_dequeue(*now)?;
        self.take(*now)
    }

    /// Runs the queue's clock up to `now`.
    pub fn tick_until(&mut self, now: Instant) {
        while let Some(at) = self.queue.next_tick().filter(|at| *at <= now) {
            self.queue.tick(at);
        }
    }
}

/// What is known of a packet that was let go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub id: u64,
    pub flow: u16,
    /// The last bytes of its addresses.
    pub ends: [u8; 2],
    pub length: u32,
    pub dscp: u8,
    pub ecn: Ecn,
    pub held_since: Instant,
    pub band: u8,
}

/// A UDP-like packet of `flow` whose length with overhead is `length`.
pub(crate) fn packet(
    pool: &mut PacketPool,
    now: Instant,
    flow: u16,
    ecn: Ecn,
    length: u32,
) -> Box<Packet> {
    between(pool, now, [1, 1], flow, ecn as u8, length)
}

/// The same between hosts of which the last byte of the address is given, with the whole
/// traffic class.
pub(crate) fn between(
    pool: &mut PacketPool,
    now: Instant,
    ends: [u8; 2],
    flow: u16,
    traffic_class: u8,
    length: u32,
) -> Box<Packet> {
    let mut packet = pool.take(now, None);
    let ip_len = length - ETHERNET.overhead;
    let fields = IpFields {
        source: IpAddr::V4(Ipv4Addr::new(10, 0, 0, ends[0])),
        destination: IpAddr::V4(Ipv4Addr::new(10, 0, 1, ends[1])),
        traffic_class,
        ttl: 64,
        protocol: narrows_wire::ip::UDP,
        ident: 0,
    };
    fields.write(&mut packet.bytes, ip_len as usize - 20);
    packet.bytes.extend_from_slice(&flow.to_be_bytes());
    packet.bytes.extend_from_slice(&[0, 80, 0, 0, 0, 0]);
    packet.zero_tail = ip_len - packet.bytes.len() as u32;
    packet
}

pub(crate) fn ms(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

pub(crate) fn us(us: u64) -> Instant {
    Instant::from_nanos(us * 1_000)
}
