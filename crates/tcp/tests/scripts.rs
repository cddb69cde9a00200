//! Runs every script under `tests/scripts` against one end of a connection,
//! for IPv4 and IPv6. The script plays the peer.
//!
//! One step a line; `#` begins a comment.
//!
//! ```text
//! role client|server            which end is tested (client)
//! set KEY VALUE                 cc, ecn, sack, timestamps, nagle, buffer, option, fast-open, cookie, tso, pacing
//! open | write N | text WORD | read | close | abort
//! +10ms STEP                    time passes, then STEP
//! < FLAGS SEQ LEN FIELD…        the peer sends
//! > FLAGS SEQ LEN FIELD…        the end sends; `after 40ms` since the last step
//! none [10ms]                   the end sends nothing (for so long)
//! drop N                        the end sends N packets, whatever they are
//! expect KEY VALUE              cwnd ssthresh inflight ca state delivered delivered_ce readable cc srtt retransmits
//! event NAME                    such an event came since the last `event`
//! noevent NAME                  none came
//! ```
//! FLAGS are letters of `SFPRAEW.`: SYN FIN PSH RST AE ECE CWR ACK, `-` for
//! none. Numbers are relative to the initial ones and may say `1+3M`, where M
//! is a full segment. Fields: `ack N`, `win N`, `ecn WORD`, `ace N`, `mss N`,
//! `nomss`, `sackok`, `nosackok`, `ws N`, `ts V E` (`E` a label or a number),
//! `sack L-R`, `nosack`, `e1b N ceb N e0b N`, `nooption`, `cookie HEX`, `ask`,
//! `text WORD`, `as LABEL` (remembers the timestamp of a packet sent).

mod pipe;

use std::collections::{BTreeMap, VecDeque};
use std::path::Path as FilePath;

use narrows_packet::{Packet, PacketPool, RecoveryEvent};
use narrows_tcp::{
    AccEcnOptionUse, Config, Connection, EcnMode, HostModel, PacingUse, ReceiveBuffer, TcpEvent,
};
use narrows_units::{Duration, Instant, Rng, Value};
use narrows_wire::tcp::{AccEcnOption, FastOpenCookie};
use narrows_wire::{Ecn, Ip, IpFields, Tcp, TcpFields, TcpFlags, TcpOptions, ip};

const PEER_ISN: u32 = 4_294_960_000;

struct Player {
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
    place: String,
}

fn duration(word: &str) -> Duration {
    Duration::parse(word).unwrap_or_else(|| panic!("`{word}` is no time"))
}

fn letter(c: char) -> u16 {
    match c {
        'S' => TcpFlags::SYN,
        'F' => TcpFlags::FIN,
        'P' => TcpFlags::PSH,
        'R' => TcpFlags::RST,
        'A' => TcpFlags::AE,
        'E' => TcpFlags::ECE,
        'W' => TcpFlags::CWR,
        '.' => TcpFlags::ACK,
        '-' => 0,
        c => panic!("flag {c}"),
    }
}

fn hex(word: &str) -> Vec<u8> {
    (0..word.len() / 2)
        .map(|i| u8::from_str_radix(&word[2 * i..2 * i + 2], 16).unwrap())
        .collect()
}

fn codepoint(word: &str) -> Ecn {
    match word {
        "not" => Ecn::NotEct,
        "ect0" => Ecn::Ect0,
        "ect1" => Ecn::Ect1,
        "ce" => Ecn::Ce,
        w => panic!("ecn {w}"),
    }
}

impl Player {
    fn new(v6: bool, place: String) -> Self {
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

    fn inject(&mut self, words: &[&str]) {
        let mut fields = TcpFields {
            source_port: self.config.remote.port(),
            destination_port: self.config.local.port(),
            flags: TcpFlags(words[0].chars().map(letter).fold(0, |a, b| a | b)),
            seq: PEER_ISN.wrapping_add(self.number(words[1]) as u32),
            ..TcpFields::default()
        };
        let mut zeros = self.number(words[2]) as u32;
        let mut text = Vec::new();
        let mut ecn = Ecn::NotEct;
        let mut o = TcpOptions::default();
        let mut accecn = AccEcnOption {
            ect1_first: true,
            ..AccEcnOption::default()
        };
        let ours = self.isn.unwrap_or(0);
        let mut rest = words[3..].iter();
        let mut next = || *rest.next().unwrap_or(&"");
        loop {
            match next() {
                "" => break,
                "ack" => fields.ack = ours.wrapping_add(self.number(next()) as u32),
                "win" => self.peer_window = next().parse().unwrap(),
                "ecn" => ecn = codepoint(next()),
                "ace" => fields.flags = fields.flags.with_ace(next().parse().unwrap()),
                "mss" => o.mss = Some(next().parse().unwrap()),
                "sackok" => o.sack_permitted = true,
                "ws" => o.window_scale = Some(next().parse().unwrap()),
                "ts" => {
                    let value = next().parse().unwrap();
                    let echo = next();
                    let echo = match self.labels.get(echo) {
                        Some(v) => *v,
                        None => echo.parse().unwrap(),
                    };
                    o.timestamps = Some((value, echo));
                    if fields.flags.has(TcpFlags::SYN) {
                        self.timestamps = self.config.timestamps;
                    }
                }
                "sack" => {
                    let (l, r) = next().split_once('-').unwrap();
                    o.sack.push(
                        ours.wrapping_add(self.number(l) as u32),
                        ours.wrapping_add(self.number(r) as u32),
                    );
                }
                "e1b" => accecn.e1b = Some(next().parse().unwrap()),
                "ceb" => accecn.ceb = Some(next().parse().unwrap()),
                "e0b" => accecn.e0b = Some(next().parse().unwrap()),
                "cookie" => o.fast_open = FastOpenCookie::new(&hex(next())),
                "ask" => o.fast_open = Some(FastOpenCookie::default()),
                "text" => text = next().as_bytes().to_vec(),
                w => panic!("{}: field {w}", self.place),
            }
        }
        fields.window = self.peer_window as u16;
        if accecn.e1b.is_some() || accecn.ceb.is_some() {
            o.accecn = Some(accecn);
        }
        fields.options = o;
        if !text.is_empty() {
            zeros = zeros.saturating_sub(text.len() as u32);
        }
        let (source, destination) = (self.config.remote.ip(), self.config.local.ip());
        let mut packet = self.pool.take(self.now, None);
        IpFields {
            source,
            destination,
            traffic_class: ecn as u8,
            ttl: 64,
            protocol: ip::TCP,
            ident: 0,
        }
        .write(
            &mut packet.bytes,
            fields.header_len() + text.len() + zeros as usize,
        );
        fields.write(&mut packet.bytes, source, destination, &text, zeros);
        packet.zero_tail = zeros;
        let now = self.now;
        self.end().receive(now, &packet);
        self.pool.give(packet);
        self.collect();
    }

    fn expect_packet(&mut self, words: &[&str]) {
        if self.queue.is_empty() {
            let until = self.now + Duration::from_secs(1000);
            self.run(until, true);
        }
        let place = self.place.clone();
        let Some((at, packet)) = self.queue.pop_front() else {
            panic!("{place}: nothing was sent");
        };
        let ip = Ip::parse(&packet.bytes).unwrap();
        let tcp = Tcp::parse(&packet.bytes[ip.header_len..]).unwrap();
        let isn = *self.isn.get_or_insert(tcp.seq);
        let seq = u64::from(tcp.seq.wrapping_sub(isn));
        let len = (ip.total_len - ip.header_len - tcp.header_len) as u64;
        let seen = format!(
            "{place}: sent {:?} seq {seq} len {len} ack {} win {} ecn {:?} {:?} at {at}",
            tcp.flags,
            tcp.ack.wrapping_sub(PEER_ISN),
            tcp.window,
            ip.ecn(),
            tcp.options,
        );
        let mut flags = words[0].chars().map(letter).fold(0, |a, b| a | b);
        let mut compared = tcp.flags.0;
        if words.contains(&"ace") {
            compared &= !TcpFlags(0).with_ace(7).0;
            flags &= !TcpFlags(0).with_ace(7).0;
        }
        assert_eq!(compared, flags, "flags; {seen}");
        assert_eq!(seq, self.number(words[1]), "seq; {seen}");
        assert_eq!(len, self.number(words[2]), "len; {seen}");
        let o = &tcp.options;
        let mut sack = 0;
        let mut rest = words[3..].iter();
        let mut next = || *rest.next().unwrap_or(&"");
        loop {
            match next() {
                "" => break,
                "ack" => assert_eq!(
                    u64::from(tcp.ack.wrapping_sub(PEER_ISN)),
                    self.number(next()),
                    "ack; {seen}"
                ),
                "win" => assert_eq!(u64::from(tcp.window), self.number(next()), "win; {seen}"),
                "ecn" => assert_eq!(ip.ecn(), codepoint(next()), "ecn; {seen}"),
                "ace" => assert_eq!(
                    tcp.flags.ace(),
                    next().parse::<u8>().unwrap(),
                    "ace; {seen}"
                ),
                "mss" => assert_eq!(o.mss, Some(self.number(next()) as u16), "mss; {seen}"),
                "sackok" => assert!(o.sack_permitted, "{seen}"),
                "nosackok" => assert!(!o.sack_permitted, "{seen}"),
                "ws" => assert_eq!(o.window_scale, next().parse().ok(), "{seen}"),
                "nows" => assert_eq!(o.window_scale, None, "{seen}"),
                "ts" => {
                    let echo = next().parse::<u32>().unwrap();
                    assert_eq!(o.timestamps.map(|t| t.1), Some(echo), "{seen}");
                }
                "nots" => assert_eq!(o.timestamps, None, "{seen}"),
                "sack" => {
                    let (l, r) = next().split_once('-').unwrap();
                    let blocks = o.sack.as_slice();
                    let block = blocks.get(sack).map(|(l, r)| {
                        (
                            u64::from(l.wrapping_sub(PEER_ISN)),
                            u64::from(r.wrapping_sub(PEER_ISN)),
                        )
                    });
                    assert_eq!(block, Some((self.number(l), self.number(r))), "{seen}");
                    sack += 1;
                }
                "nosack" => assert!(o.sack.as_slice().is_empty(), "{seen}"),
                "e1b" => assert_eq!(o.accecn.and_then(|a| a.e1b), next().parse().ok(), "{seen}"),
                "ceb" => assert_eq!(o.accecn.and_then(|a| a.ceb), next().parse().ok(), "{seen}"),
                "e0b" => assert_eq!(o.accecn.and_then(|a| a.e0b), next().parse().ok(), "{seen}"),
                "nooption" => assert_eq!(o.accecn, None, "{seen}"),
                "cookie" => {
                    let cookie = o.fast_open.expect(&seen);
                    let want = next();
                    if want == "new" {
                        assert_eq!(cookie.as_slice().len(), 8, "{seen}");
                        self.config.fast_open_cookie = Some(cookie);
                    } else {
                        assert_eq!(cookie.as_slice(), hex(want), "{seen}");
                    }
                }
                "ask" => assert_eq!(o.fast_open, Some(FastOpenCookie::default()), "{seen}"),
                "nocookie" => assert_eq!(o.fast_open, None, "{seen}"),
                "text" => assert!(
                    packet.bytes[ip.header_len + tcp.header_len..].starts_with(next().as_bytes()),
                    "{seen}"
                ),
                "after" => {
                    assert_eq!(at.since(self.mark), duration(next()), "time; {seen}");
                }
                "as" => {
                    let value = o.timestamps.expect(&seen).0;
                    self.labels.insert(next().to_string(), value);
                }
                w => panic!("{place}: field {w}"),
            }
        }
        self.mark = at;
        self.now = self.now.max(at);
        self.pool.give(packet);
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

    fn step(&mut self, line: &str) {
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

fn play(file: &FilePath, v6: bool) {
    let text = std::fs::read_to_string(file).unwrap();
    let name = file.file_name().unwrap().to_string_lossy().into_owned();
    let mut player = Player::new(v6, name.clone());
    for (i, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        player.place = format!("{name}:{} ({})", i + 1, if v6 { "IPv6" } else { "IPv4" });
        player.step(line);
    }
    player.place = format!("{name}: the end");
    player.step("none");
}

#[test]
fn every_script_plays() {
    let folder = FilePath::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == "script"))
        .collect();
    files.sort();
    assert!(files.len() >= 20, "scripts are missing");
    let mut failed = Vec::new();
    for file in &files {
        for v6 in [false, true] {
            if std::panic::catch_unwind(|| play(file, v6)).is_err() {
                failed.push((file.file_name().unwrap().to_owned(), v6));
            }
        }
    }
    assert!(failed.is_empty(), "failed: {failed:?}");
}
