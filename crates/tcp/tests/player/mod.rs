//! Plays a script against one end of a connection.

mod packets;

use std::collections::{BTreeMap, VecDeque};

use narrows_packet::{Packet, PacketPool, RecoveryEvent};
use narrows_tcp::{
    AccEcnOptionUse, Config, Connection, EcnMode, HostModel, PacingUse, ReceiveBuffer, TcpEvent,
};
use narrows_units::{Duration, Instant, Rng, Value};
use narrows_wire::tcp::FastOpenCookie;

use crate::pipe;

/// The peer's initial sequence number: near the end, so that it wraps.
const PEER_ISN: u32 = 4_294_960_000;

/// One end, its script so far, and what it has sent.
pub struct Player {
    config: Config,
    server: bool,
    end: Option<Connection>,
    now: Instant,
    mark: Instant,
    pool: PacketPool,
    queue: VecDeque<(Instant, Box<Packet>)>,
    events: Vec<TcpEvent>,
    isn: Option<u32>,
    labels: BTreeMap<String, u32>,
    timestamps: bool,
    peer_window: u32,
    /// Where in which script, for messages.
    pub place: String,
}

/// A time such as `40ms`.
fn duration(word: &str) -> Duration {
    Duration::parse(word).unwrap_or_else(|| panic!("`{word}` is no time"))
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
            end: None,
            now: Instant::ZERO + Duration::from_secs(1),
            mark: Instant::ZERO + Duration::from_secs(1),
            pool: PacketPool::new(),
            queue: VecDeque::new(),
            events: Vec::new(),
            isn: None,
            labels: BTreeMap::new(),
            timestamps: false,
            peer_window: 65_535,
            place,
        }
    }

    fn mss(&self) -> u64 {
        let full = if self.config.local.is_ipv4() {
            1460
        } else {
            1440
        };
        if self.timestamps { full - 12 } else { full }
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

    fn end(&mut self) -> &mut Connection {
        if self.end.is_none() {
            let rng = Rng::for_name(7, "end");
            self.end = Some(if self.server {
                Connection::server(self.config.clone(), rng)
            } else {
                Connection::client(self.config.clone(), rng)
            });
        }
        self.end.as_mut().unwrap()
    }

    fn collect(&mut self) {
        let now = self.now;
        self.end();
        let end = self.end.as_mut().unwrap();
        while let Some(packet) = end.poll_transmit(now, &mut self.pool) {
            self.queue.push_back((now, packet));
        }
        while let Some(event) = end.poll_event() {
            self.events.push(event);
        }
    }

    /// Time passes up to `until`; stops at the first packet if `first`.
    fn run(&mut self, until: Instant, first: bool) {
        while let Some(t) = self.end().next_timeout().filter(|t| *t <= until) {
            self.now = self.now.max(t);
            let now = self.now;
            self.end().on_timeout(now);
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
            "cc" => c.cc = narrows_cc::Spec::parse(value).unwrap(),
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
            "tso" => c.host.segmentation = HostModel::TSO,
            "pacing" => c.host.pacing = PacingUse::Always,
            "buffer" => c.receive_buffer = ReceiveBuffer::Fixed(value.parse().unwrap()),
            "cwnd" => c.initial_cwnd = value.parse().unwrap(),
            "keep-alive" => c.keep_alive = Some(duration(value)),
            k => panic!("{}: set {k}", self.place),
        }
    }

    fn expect(&mut self, key: &str, value: &str) {
        let now = self.now;
        let place = self.place.clone();
        let end = self.end();
        let s = end.sample(now);
        let got = match key {
            "cwnd" => s.cwnd.to_string(),
            "ssthresh" => s.ssthresh.to_string(),
            "inflight" => s.in_flight.to_string(),
            "ca" => format!("{:?}", end.ca_state()),
            "state" => format!("{:?}", end.state()),
            "delivered" => s.delivered.to_string(),
            "delivered_ce" => s.delivered_ce.to_string(),
            "received_ce" => end.received_ce().to_string(),
            "retransmits" => s.retransmits.to_string(),
            "readable" => end.readable().to_string(),
            "cc" => end.congestion_control().to_string(),
            "srtt" => s.srtt.to_string(),
            k => panic!("{place}: expect {k}"),
        };
        let value = match key {
            "readable" => self.number(value).to_string(),
            _ => value.to_string(),
        };
        assert_eq!(got, value, "{place}: {key}");
    }

    fn has_event(&self, name: &str) -> bool {
        self.events.iter().any(|e| match name {
            "established" => matches!(e, TcpEvent::Established { .. }),
            "established-classic" => {
                matches!(
                    e,
                    TcpEvent::Established {
                        ecn: true,
                        accecn: false
                    }
                )
            }
            "established-accecn" => matches!(e, TcpEvent::Established { accecn: true, .. }),
            "established-plain" => {
                matches!(
                    e,
                    TcpEvent::Established {
                        ecn: false,
                        accecn: false
                    }
                )
            }
            "fast" => *e == TcpEvent::Recovery(RecoveryEvent::FastRetransmit),
            "rto" => *e == TcpEvent::Recovery(RecoveryEvent::RetransmissionTimeout),
            "tlp" => *e == TcpEvent::Recovery(RecoveryEvent::TailLossProbe),
            "cwr" => *e == TcpEvent::Recovery(RecoveryEvent::CongestionExperienced),
            "undo" => *e == TcpEvent::Recovery(RecoveryEvent::SpuriousUndo),
            "closed" => *e == TcpEvent::Closed,
            "peer-closed" => *e == TcpEvent::PeerClosed,
            "reset" => *e == TcpEvent::Reset,
            "timed-out" => *e == TcpEvent::TimedOut,
            n => panic!("{}: event {n}", self.place),
        })
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
            "again" => {
                self.end = None;
                self.isn = None;
                self.events.clear();
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
            "cork" => {
                let on = words[1] == "on";
                self.end().cork(on);
                self.collect();
            }
            "close" => {
                self.end().close(now);
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
                    self.queue[0].0
                );
            }
            "drop" => {
                for _ in 0..self.number(words[1]) {
                    if self.queue.is_empty() {
                        self.run(now + Duration::from_secs(100), true);
                    }
                    let (at, packet) = self.queue.pop_front().expect(&self.place);
                    self.now = self.now.max(at);
                    self.pool.give(packet);
                }
            }
            "expect" => self.expect(words[1], words[2]),
            "event" => {
                assert!(
                    self.has_event(words[1]),
                    "{}: {:?}",
                    self.place,
                    self.events
                );
                self.events.clear();
            }
            "noevent" => {
                assert!(!self.has_event(words[1]), "{}", self.place);
            }
            w => panic!("{}: step {w}", self.place),
        }
    }
}
