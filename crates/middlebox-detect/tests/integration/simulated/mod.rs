//! A prober and a responder with a path between them: elements, boxes and routers, in virtual
//! time.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use narrows_core::{DOWN, Element, EntityId, NullSink, Outlet, Packet, PacketPool, Port, UP};
use narrows_middlebox_detect::{
    Detection, Prober, ProberSettings, Responder, ResponderSettings, Verdict, Way,
};
use narrows_mmb::{LinkBox, Middlebox, ReadyBox, Settings, commands};
use narrows_path::{ElementSpec, Site};
use narrows_units::{Duration, Instant, Rng};
use narrows_wire::{Icmp, Ip, ip};

/// What a box's own address is.
const OWN: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// What a packet meets.
enum Node {
    /// An element for each way.
    Elements([Box<dyn Element>; 2]),
    /// A box that sees these ways.
    Boxed(Box<LinkBox>, [bool; 2]),
    /// One that takes a hop, and says so when none is left.
    Router(IpAddr),
}

/// A path from the prober, first, to the responder, last.
pub struct Path {
    nodes: Vec<Node>,
    seed: u64,
    v6: bool,
    calls: bool,
    answers: bool,
}

impl Path {
    pub fn new(seed: u64) -> Self {
        Self {
            nodes: Vec::new(),
            seed,
            v6: false,
            calls: false,
            answers: true,
        }
    }

    /// Over IPv6.
    pub fn over_v6(mut self) -> Self {
        self.v6 = true;
        self
    }

    /// With a responder that calls the prober.
    pub fn called(mut self) -> Self {
        self.calls = true;
        self
    }

    /// To a host without a responder.
    pub fn unanswered(mut self) -> Self {
        self.answers = false;
        self
    }

    /// With the element of these words in both ways.
    pub fn element(mut self, words: &str) -> Self {
        let spec = ElementSpec::parse(words).unwrap_or_else(|e| panic!("{words}: {e}"));
        let at = self.nodes.len();
        let build = |way: &str| {
            let name = format!("link/path/{way}/{at}");
            spec.build(&Site {
                entity: EntityId(0),
                name: &name,
                seed: self.seed,
                mtu: 1500,
                forward: way == "up",
                addresses: OWN,
                other_end: None,
                ports: &[],
            })
        };
        self.nodes.push(Node::Elements(["up", "down"].map(build)));
        self
    }

    /// With a box that sees packets of `ways`; what comes from the side of `inside`, the prober's
    /// with [`Way::Forward`], is from its inside.
    pub fn boxed(mut self, rules: &str, ways: &[Way], inside: Way) -> Self {
        let mut interfaces = ["inside", "outside"].map(str::to_owned);
        if inside == Way::Back {
            interfaces.reverse();
        }
        let settings = Settings {
            own: OWN,
            interfaces,
            ..Settings::default()
        };
        let mut middlebox = Middlebox::new(settings, Rng::for_name(self.seed, "box"));
        let text = ReadyBox::named(rules).map_or(rules, |ready| ready.rules);
        middlebox.apply(&commands(text).unwrap()).unwrap();
        let sees = Way::BOTH.map(|way| ways.contains(&way));
        let link = LinkBox::new(EntityId(0), middlebox);
        self.nodes.push(Node::Boxed(Box::new(link), sees));
        self
    }

    /// With so many routers.
    pub fn routers(mut self, count: u8) -> Self {
        for _ in 0..count {
            self.nodes.push(Node::Router(self.router(self.nodes.len())));
        }
        self
    }

    /// The address of the router that stands behind so many nodes.
    fn router(&self, at: usize) -> IpAddr {
        match self.v6 {
            true => IpAddr::from([0xfd01, 0, 0, 0, 0, 0, 0, at as u16 + 1]),
            false => IpAddr::from([10, 1, 0, at as u8 + 1]),
        }
    }

    /// What a prober finds out about it.
    pub fn detect(self) -> Detection {
        let [own, target] = match self.v6 {
            true => ["[fd00::1]:40000", "[fd00::2]:8804"],
            false => ["10.0.0.1:40000", "10.0.0.2:8804"],
        }
        .map(|address| address.parse().unwrap());
        let settings = ResponderSettings {
            own: target,
            clients: ["0.0.0.0/0", "::/0"]
                .map(|network| network.parse().unwrap())
                .to_vec(),
            calls: if self.calls { vec![own] } else { Vec::new() },
        };
        let rng = Rng::for_name(self.seed, "prober");
        Run {
            prober: Prober::new(ProberSettings::new(own, target), rng),
            responder: self.answers.then(|| Responder::new(settings, [7; 32])),
            ends: [own.ip(), target.ip()],
            nodes: self.nodes,
            pool: PacketPool::new(),
            now: Instant::ZERO,
            arrived: Vec::new(),
        }
        .run()
    }
}

struct Run {
    prober: Prober,
    responder: Option<Responder>,
    ends: [IpAddr; 2],
    nodes: Vec<Node>,
    pool: PacketPool,
    now: Instant,
    /// Packets that have come to an end of the path, and which way they went.
    arrived: Vec<(Port, Vec<u8>)>,
}

impl Run {
    fn run(mut self) -> Detection {
        loop {
            while let Some(packet) = self.prober.poll(self.now) {
                self.send(UP, &packet);
            }
            while let Some(call) = self.responder.as_mut().and_then(|r| r.poll(self.now)) {
                self.send(DOWN, &call);
            }
            while !self.arrived.is_empty() {
                for (port, packet) in std::mem::take(&mut self.arrived) {
                    self.arrive(port, &packet);
                }
            }
            let Some(own) = self.prober.next_wake() else {
                return self.prober.detection().expect("it is done").clone();
            };
            let calls = self.responder.as_ref().and_then(Responder::next_wake);
            let elements = self.nodes.iter().flat_map(|node| match node {
                Node::Elements(both) => both.iter().filter_map(|e| e.next_wake()).min(),
                _ => None,
            });
            let next = elements.chain(calls).fold(own, Instant::min);
            assert!(next < Instant::ZERO + Duration::from_secs(300), "it ends");
            self.now = self.now.max(next);
            self.wake();
        }
    }

    /// What an end says to a packet that has come to it.
    fn arrive(&mut self, port: Port, packet: &[u8]) {
        let Ok(ip) = Ip::parse(packet) else { return };
        if ip.destination != self.ends[usize::from(port == UP)] {
            return;
        }
        if port == DOWN {
            return self.prober.receive(self.now, packet);
        }
        let answer = match &mut self.responder {
            Some(responder) => responder.receive(self.now, packet),
            None => {
                let mut out = Vec::new();
                // As a host without a socket at the port.
                let told = (ip.protocol == ip::UDP)
                    .then(|| Icmp::PortUnreachable.report(&mut out, ip.destination, packet, 0));
                told.map(|_| out)
            }
        };
        if let Some(answer) = answer {
            self.send(DOWN, &answer);
        }
    }

    fn send(&mut self, port: Port, bytes: &[u8]) {
        let mut packet = self.pool.take(self.now, None);
        packet.bytes.extend_from_slice(bytes);
        let first = if port == UP { 0 } else { self.nodes.len() };
        self.pass(first, port, packet);
    }

    /// Takes a packet on its way from before the node `at`, or, on its way down, from behind it.
    fn pass(&mut self, at: usize, port: Port, packet: Box<Packet>) {
        let node = match port {
            UP => Some(at).filter(|at| *at < self.nodes.len()),
            _ => at.checked_sub(1),
        };
        let Some(node) = node else {
            self.arrived.push((port, packet.bytes.clone()));
            return self.pool.give(packet);
        };
        let mut sent = Vec::new();
        let mut out = Outlet {
            pool: &mut self.pool,
            events: &mut NullSink,
            sent: &mut sent,
        };
        match &mut self.nodes[node] {
            Node::Elements(both) => {
                both[usize::from(port)].push(self.now, 0, packet, &mut out);
                self.leave(node, port, sent);
            }
            Node::Boxed(link, sees) => {
                match sees[usize::from(port)] {
                    true => link.push(self.now, port, packet, &mut out),
                    false => out.send(port, packet),
                }
                self.leave(node, port, sent);
            }
            Node::Router(address) => {
                let mut packet = packet;
                if Ip::parse(&packet.bytes).is_ok_and(|ip| ip.ttl > 1) {
                    ip::take_hop(&mut packet.bytes);
                    return self.leave(node, port, vec![(0, packet)]);
                }
                let mut error = out.pool.take(self.now, None);
                Icmp::TimeExceeded.report(&mut error.bytes, *address, &packet.bytes, 0);
                out.pool.give(packet);
                self.leave(node, 1 - port, vec![(0, error)]);
            }
        }
    }

    /// Takes what a node lets out further.
    fn leave(&mut self, node: usize, port: Port, sent: Vec<(Port, Box<Packet>)>) {
        for (_, packet) in sent {
            let next = if port == UP { node + 1 } else { node };
            self.pass(next, port, packet);
        }
    }

    fn wake(&mut self) {
        for at in 0..self.nodes.len() {
            for port in [UP, DOWN] {
                let mut sent = Vec::new();
                if let Node::Elements(both) = &mut self.nodes[at] {
                    let element = &mut both[usize::from(port)];
                    if element.next_wake().is_some_and(|time| time <= self.now) {
                        let mut out = Outlet {
                            pool: &mut self.pool,
                            events: &mut NullSink,
                            sent: &mut sent,
                        };
                        element.wake(self.now, &mut out);
                    }
                }
                self.leave(at, port, sent);
            }
        }
    }
}

/// The boxes that were found, with their ways.
pub fn found(detection: &Detection) -> Vec<(&'static str, Way)> {
    let found = detection.findings.iter();
    found
        .filter(|f| f.verdict == Verdict::Found)
        .map(|f| (f.name, f.way))
        .collect()
}
