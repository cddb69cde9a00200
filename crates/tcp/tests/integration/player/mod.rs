//! Plays a script against an end of a connection, or several.

mod expect;
mod packets;

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use narrows_core::{Packet, PacketPool};
use narrows_tcp::{
    AccEcnOptionUse, Connection, EcnMode, HostModel, KeepAlive, MtuProbing, MtuProbingUse,
    PacingUse, ReceiveBuffer, TcpConfig, TcpEvent,
};
use narrows_units::{Duration, Instant, Rng, Value};
use narrows_wire::tcp::FastOpenCookie;

use crate::pipe;

/// The peer's initial sequence number: near the end, so that it wraps.
const PEER_ISN: u32 = 4_294_960_000;

/// How long a packet that is expected is waited for.
const LONG: Duration = Duration::from_secs(100_000);

/// The end that one peer talks to, and what the script knows of it.
struct Socket {
    end: Connection,
    events: Vec<TcpEvent>,
    isn: Option<u32>,
    timestamps: bool,
    peer_window: u32,
}

/// A packet that an end sent.
struct Sent {
    at: Instant,
    peer: u16,
    packet: Box<Packet>,
}

/// A host, the script so far, and what the host has sent.
pub struct Player {
    config: TcpConfig,
    server: bool,
    /// By the peer's number.
    sockets: BTreeMap<u16, Socket>,
    /// The peer that the next steps are about.
    peer: u16,
    now: Instant,
    mark: Instant,
    tolerance: Duration,
    pool: PacketPool,
    queue: VecDeque<Sent>,
    labels: BTreeMap<String, u32>,
    /// Where in which script, for messages.
    pub place: String,
}

/// A time such as `40ms`.
fn duration(word: &str) -> Duration {
    Duration::parse(word).unwrap_or_else(|| panic!("`{word}` is no time"))
}

/// `off`, `black-hole` or `always`, then `KEY VALUE` of what is not as usual.
fn mtu_probing(words: &str) -> MtuProbing {
    let mut words = words.split_whitespace();
    let mut probing = MtuProbing {
        when: match words.next() {
            Some("black-hole") => MtuProbingUse::BlackHole,
            Some("always") => MtuProbingUse::Always,
            _ => MtuProbingUse::Off,
        },
        ..MtuProbing::default()
    };
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        let number = || value.parse().unwrap();
        match key {
            "base" => probing.base_mss = number(),
            "floor" => probing.floor = number(),
            "threshold" => probing.threshold = number(),
            "interval" => probing.interval = duration(value),
            _ => panic!("mtu-probing {key}"),
        }
    }
    probing
}

/// Bytes from hexadecimal digits.
fn hex(word: &str) -> Vec<u8> {
    (0..word.len() / 2)
        .map(|i| u8::from_str_radix(&word[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

impl Player {
    /// Nothing set up yet.
    pub fn new(v6: bool, place: String) -> Self {
        let (mut config, _) = pipe::config("reno", v6);
        config.host.tick = Duration::ZERO;
        Self {
            config,
            server: false,
            sockets: BTreeMap::new(),
            peer: 0,
            now: Instant::ZERO + Duration::from_secs(1),
            mark: Instant::ZERO + Duration::from_secs(1),
            tolerance: Duration::ZERO,
            pool: PacketPool::new(),
            queue: VecDeque::new(),
            labels: BTreeMap::new(),
            place,
        }
    }

    fn mss(&self) -> u64 {
        let full = if self.config.local.is_ipv4() {
            1460
        } else {
            1440
        };
        let timestamps = self.sockets.get(&self.peer).is_some_and(|s| s.timestamps);
        if timestamps { full - 12 } else { full }
    }

    /// `1+3M`
    fn number(&self, word: &str) -> u64 {
        word.split('+')
            .map(|term| match term.strip_suffix('M') {
                Some("") => self.mss(),
                Some(n) => n.parse::<u64>().unwrap() * self.mss(),
                None => term
                    .parse::<u64>()
                    .unwrap_or_else(|_| panic!("{}: number `{term}`", self.place)),
            })
            .sum()
    }

    /// The peer's address.
    fn remote(&self) -> SocketAddr {
        let mut remote = self.config.remote;
        remote.set_port(remote.port() + self.peer);
        remote
    }

    /// The socket of the peer that the script is about: a new one if it has
    /// none. Each listens for itself, which together is a listener.
    fn socket(&mut self) -> &mut Socket {
        let remote = self.remote();
        let (config, server, peer) = (&self.config, self.server, self.peer);
        self.sockets.entry(peer).or_insert_with(|| {
            let mut config = config.clone();
            config.remote = remote;
            let rng = match peer {
                0 => Rng::for_name(7, "end"),
                n => Rng::for_name(7, &format!("end {n}")),
            };
            Socket {
                end: if server {
                    Connection::server(config, rng)
                } else {
                    Connection::client(config, rng)
                },
                events: Vec::new(),
                isn: None,
                timestamps: false,
                peer_window: 65_535,
            }
        })
    }

    /// The listener takes the peer's SYN in the place of the end, which is in TIME-WAIT, and answers
    /// with this number. Numbers stay relative to the first ones.
    fn reopen(&mut self, isn: u32) {
        let config = TcpConfig {
            isn: Some(isn),
            ..self.config.clone()
        };
        let now = self.now;
        self.end().abort(now);
        self.collect();
        self.socket().end = Connection::server(config, Rng::for_name(7, "end reopened"));
    }

    fn end(&mut self) -> &mut Connection {
        &mut self.socket().end
    }

    fn collect(&mut self) {
        let at = self.now;
        self.socket();
        for (peer, socket) in &mut self.sockets {
            while let Some(packet) = socket.end.poll_transmit(at, &mut self.pool) {
                let peer = *peer;
                self.queue.push_back(Sent { at, peer, packet });
            }
            while let Some(event) = socket.end.poll_event() {
                socket.events.push(event);
            }
        }
    }

    /// Time passes up to `until`; stops at the first packet if `first`.
    fn run(&mut self, until: Instant, first: bool) {
        self.socket();
        let next = |sockets: &BTreeMap<u16, Socket>| {
            let times = sockets.values().filter_map(|s| s.end.next_timeout());
            times.min().filter(|t| *t <= until)
        };
        while let Some(t) = next(&self.sockets) {
            self.now = self.now.max(t);
            for socket in self.sockets.values_mut() {
                if socket.end.next_timeout().is_some_and(|t| t <= self.now) {
                    socket.end.on_timeout(self.now);
                }
            }
            self.collect();
            if first && !self.queue.is_empty() {
                return;
            }
        }
        if !first {
            self.now = until;
        }
    }

    fn set(&mut self, key: &str, value: &str) {
        let on = value != "off";
        let c = &mut self.config;
        match key {
            "cc" => c.cc = narrows_cc::ControlSpec::parse(value).unwrap(),
            "ecn" => {
                c.ecn = match value {
                    "off" => EcnMode::Off,
                    "classic" => EcnMode::Classic,
                    "accecn" => EcnMode::AccEcn,
                    "auto" => EcnMode::Auto,
                    v => panic!("ecn {v}"),
                }
            }
            "option" => {
                c.accecn_option = match value {
                    "off" => AccEcnOptionUse::Off,
                    "minimum" => AccEcnOptionUse::Minimum,
                    _ => AccEcnOptionUse::Full,
                }
            }
            "sack" => c.sack = on,
            "timestamps" => c.timestamps = on,
            "nagle" => c.nagle = on,
            "fast-open" => c.fast_open = on,
            "cookie" => c.fast_open_cookie = FastOpenCookie::new(&hex(value)),
            "compress" => c.host.compress_sacks = on,
            "send-buffer" => c.host.send_buffer = HostModel::AUTO_SEND_BUFFER,
            "tso" => c.host.segmentation = HostModel::TSO,
            "pacing" => c.host.pacing = PacingUse::Always,
            "buffer" => c.receive_buffer = ReceiveBuffer::Fixed(value.parse().unwrap()),
            "cwnd" => c.initial_cwnd = value.parse().unwrap(),
            "keep-alive" => {
                let mut words = value.split_whitespace();
                let linux = KeepAlive::default();
                c.keep_alive = Some(KeepAlive {
                    time: words.next().map_or(linux.time, duration),
                    interval: words.next().map_or(linux.interval, duration),
                    probes: words.next().map_or(linux.probes, |n| n.parse().unwrap()),
                });
            }
            "user-timeout" => c.user_timeout = on.then(|| duration(value)),
            "max-rto" => c.max_rto = duration(value),
            "mtu" => c.mtu = value.parse().unwrap(),
            "above-ip" => {
                let ip = if c.local.is_ipv4() { 20 } else { 40 };
                c.mtu = ip + value.parse::<u32>().unwrap();
            }
            "mtu-probing" => c.host.mtu_probing = mtu_probing(value),
            "tolerance" => self.tolerance = duration(value),
            k => panic!("{}: set {k}", self.place),
        }
    }

    /// The network reports that it takes packets of `takes` bytes above IP, about the
    /// one with `seq`.
    fn too_big(&mut self, takes: u32, seq: u32) {
        let (now, config) = (self.now, self.config.clone());
        let socket = self.socket();
        let ip = narrows_wire::IpFields {
            source: config.local.ip(),
            destination: socket.end.remote().ip(),
            traffic_class: 0,
            ttl: 64,
            protocol: narrows_wire::ip::TCP,
            ident: 0,
        };
        let mut quote = Vec::new();
        ip.write(&mut quote, 1400);
        quote.extend_from_slice(&[0; 4]);
        let isn = socket.isn.expect("it has sent something");
        quote.extend_from_slice(&isn.wrapping_add(seq).to_be_bytes());
        let mtu = takes + ip.header_len() as u32;
        socket.end.packet_too_big(now, mtu, &quote);
    }

    /// Does one line.
    pub fn step(&mut self, line: &str) {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let Some(wait) = words[0].strip_prefix('+') {
            let until = self.now + duration(wait);
            self.run(until, false);
            self.mark = self.now;
            words.remove(0);
            if words.is_empty() {
                return;
            }
        }
        let now = self.now;
        match words[0] {
            "role" => self.server = words[1] == "server",
            "set" => self.set(words[1], &words[2..].join(" ")),
            "peer" => self.peer = words[1].parse().unwrap(),
            "again" => {
                self.sockets.remove(&self.peer);
            }
            "open" => {
                self.end().open(now);
                self.collect();
            }
            "queue" => {
                let n = self.number(words[1]);
                self.end().write_zeros(n);
            }
            "write" => {
                let n = self.number(words[1]);
                assert_eq!(self.end().write_zeros(n), n);
                self.collect();
            }
            "text" => {
                self.end().write(words[1].as_bytes());
                self.collect();
            }
            "read" => {
                match words.get(1) {
                    Some(n) => {
                        let n = self.number(n);
                        self.end().read(n);
                    }
                    None => {
                        self.end().read(u64::MAX);
                    }
                }
                self.collect();
            }
            "readtext" => {
                let mut out = Vec::new();
                self.end().read_into(u64::MAX, &mut out);
                assert_eq!(out, words[1].as_bytes(), "{}", self.place);
                self.collect();
            }
            "close" => {
                self.end().close(now);
                self.collect();
            }
            "release" => {
                self.end().release(now);
                self.collect();
            }
            "abort" => {
                self.end().abort(now);
                self.collect();
            }
            "<" => {
                self.mark = now;
                self.inject(&words[1..]);
            }
            "toobig" => {
                let (takes, seq) = (self.number(words[1]), self.number(words[2]));
                self.too_big(takes as u32, seq as u32);
                self.collect();
            }
            ">" => self.expect_packet(&words[1..]),
            "none" => {
                if let Some(wait) = words.get(1) {
                    let until = now + duration(wait);
                    self.run(until, false);
                }
                assert!(
                    self.queue.is_empty(),
                    "{}: something was sent at {}",
                    self.place,
                    self.queue[0].at
                );
            }
            "drop" => {
                for _ in 0..self.number(words[1]) {
                    if self.queue.is_empty() {
                        self.run(now + LONG, true);
                    }
                    let sent = self.queue.pop_front().expect(&self.place);
                    self.now = self.now.max(sent.at);
                    self.mark = sent.at;
                    self.pool.give(sent.packet);
                }
            }
            "expect" => {
                assert!(words.len() > 2 && words.len() % 2 == 1, "{}", self.place);
                for pair in words[1..].chunks(2) {
                    self.expect(pair[0], pair[1]);
                }
            }
            "event" => {
                let events = std::mem::take(&mut self.socket().events);
                let came = events.iter().any(|e| self.is_event(words[1], e));
                assert!(came, "{}: {events:?}", self.place);
            }
            "noevent" => {
                self.socket();
                let events = &self.sockets[&self.peer].events;
                let came = events.iter().any(|e| self.is_event(words[1], e));
                assert!(!came, "{}: {events:?}", self.place);
            }
            w => panic!("{}: step {w}", self.place),
        }
    }
}
