//! Two connections and a path between them that loses, delays, duplicates and
//! marks packets as it is configured.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use narrows_core::{Packet, PacketPool};
use narrows_tcp::{Connection, TcpConfig, TcpEvent};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{Ecn, ip};

/// What the path does to packets, in parts per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Path {
    /// One-way delay.
    pub delay: Duration,
    /// Serialisation rate in bytes per second; 0 for none.
    pub rate: u64,
    /// Packets that the bottleneck holds; 0 for any number.
    pub limit: usize,
    pub loss: u32,
    pub duplicate: u32,
    /// Packets delayed by up to `jitter` more than others.
    pub reorder: u32,
    pub jitter: Duration,
    pub mark: u32,
}

struct Direction {
    path: Path,
    free_at: Instant,
    departures: std::collections::VecDeque<Instant>,
    pub packets: u64,
    pub lost: u64,
    pub marked: u64,
}

/// Whether a packet that leaves end `usize` goes on; it may be changed.
pub type Filter = Box<dyn FnMut(Instant, usize, &mut Packet) -> bool>;

pub struct Pipe {
    pub now: Instant,
    pub ends: [Connection; 2],
    pub events: [Vec<(Instant, TcpEvent)>; 2],
    pub pool: PacketPool,
    pub rng: Rng,
    directions: [Direction; 2],
    flying: BTreeMap<(Instant, u64), (usize, Box<Packet>)>,
    order: u64,
    /// Called for each packet that leaves: (now, from, packet) → deliver it?
    pub filter: Option<Filter>,
}

pub fn address(host: u8, v6: bool) -> SocketAddr {
    if v6 {
        format!("[2001:db8::{host}]:{}", 1000 + u16::from(host))
            .parse()
            .unwrap()
    } else {
        format!("192.0.2.{host}:{}", 1000 + u16::from(host))
            .parse()
            .unwrap()
    }
}

pub fn config(cc: &str, v6: bool) -> (TcpConfig, TcpConfig) {
    let spec = narrows_cc::ControlSpec::parse(cc).unwrap();
    (
        TcpConfig::new(address(1, v6), address(2, v6), spec.clone()),
        TcpConfig::new(address(2, v6), address(1, v6), spec),
    )
}

impl Pipe {
    pub fn new(client: TcpConfig, server: TcpConfig, paths: [Path; 2], seed: u64) -> Self {
        let d = |path| Direction {
            path,
            free_at: Instant::ZERO,
            departures: std::collections::VecDeque::new(),
            packets: 0,
            lost: 0,
            marked: 0,
        };
        Self {
            now: Instant::ZERO + Duration::from_secs(1),
            ends: [
                Connection::client(client, Rng::for_name(seed, "client")),
                Connection::server(server, Rng::for_name(seed, "server")),
            ],
            events: [Vec::new(), Vec::new()],
            pool: PacketPool::new(),
            rng: Rng::for_name(seed, "path"),
            directions: paths.map(d),
            flying: BTreeMap::new(),
            order: 0,
            filter: None,
        }
    }

    pub fn open(&mut self) {
        self.ends[0].open(self.now);
        self.flush();
    }

    pub fn lost(&self, from: usize) -> u64 {
        self.directions[from].lost
    }

    pub fn marked(&self, from: usize) -> u64 {
        self.directions[from].marked
    }

    pub fn packets(&self, from: usize) -> u64 {
        self.directions[from].packets
    }

    /// Packets on their way.
    pub fn in_flight(&self) -> u64 {
        self.flying.len() as u64
    }

    fn dice(&mut self, per_mille: u32) -> bool {
        per_mille > 0 && self.rng.below(1000) < per_mille
    }

    fn launch(&mut self, from: usize, mut packet: Box<Packet>) {
        if let Some(mut filter) = self.filter.take() {
            let pass = filter(self.now, from, &mut packet);
            self.filter = Some(filter);
            if !pass {
                self.directions[from].lost += 1;
                return self.pool.give(packet);
            }
        }
        let path = self.directions[from].path;
        self.directions[from].packets += 1;
        if self.dice(path.loss) {
            self.directions[from].lost += 1;
            return self.pool.give(packet);
        }
        if self.dice(path.mark) && ip::ecn(&packet.bytes).is_capable() {
            ip::set_ecn(&mut packet.bytes, Ecn::Ce);
            self.directions[from].marked += 1;
        }
        let now = self.now;
        let d = &mut self.directions[from];
        let mut at = now;
        if path.rate > 0 {
            while d.departures.front().is_some_and(|t| *t <= now) {
                d.departures.pop_front();
            }
            if path.limit > 0 && d.departures.len() >= path.limit {
                d.lost += 1;
                return self.pool.give(packet);
            }
            let wire = u64::from(packet.len()) + 14;
            d.free_at =
                d.free_at.max(now) + narrows_units::Rate::from_bits(8 * path.rate).time_for(wire);
            d.departures.push_back(d.free_at);
            at = d.free_at;
        }
        at += path.delay;
        if self.dice(path.duplicate) {
            let copy = self.pool.duplicate(now, &packet);
            self.fly(at + Duration::from_micros(10), from, copy);
        }
        if self.dice(path.reorder) {
            at += Duration::from_nanos(
                u64::from(self.rng.below(path.jitter.as_micros() as u32)) * 1_000,
            );
        }
        self.fly(at, from, packet);
    }

    fn fly(&mut self, at: Instant, from: usize, packet: Box<Packet>) {
        self.order += 1;
        self.flying.insert((at, self.order), (from, packet));
    }

    /// Lets both ends send and speak.
    pub fn flush(&mut self) {
        for from in 0..2 {
            while let Some(packet) = self.ends[from].poll_transmit(self.now, &mut self.pool) {
                self.launch(from, packet);
            }
            while let Some(event) = self.ends[from].poll_event() {
                self.events[from].push((self.now, event));
            }
        }
    }

    /// One step to the next thing that happens, not beyond `until`; false if
    /// there is none.
    pub fn step(&mut self, until: Instant) -> bool {
        let packet = self.flying.keys().next().map(|k| k.0);
        let timer = self.ends.iter().filter_map(Connection::next_timeout).min();
        let next = match (packet, timer) {
            (Some(p), Some(t)) => p.min(t),
            (Some(t), None) | (None, Some(t)) => t,
            (None, None) => return false,
        };
        if next > until {
            self.now = until;
            return false;
        }
        self.now = self.now.max(next);
        if packet == Some(next) {
            if let Some((_, (from, packet))) = self.flying.pop_first() {
                self.ends[1 - from].receive(self.now, &packet);
                self.pool.give(packet);
            }
        } else {
            for end in &mut self.ends {
                if end.next_timeout().is_some_and(|t| t <= next) {
                    end.on_timeout(self.now);
                }
            }
        }
        self.flush();
        true
    }
}
