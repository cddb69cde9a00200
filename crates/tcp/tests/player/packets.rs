//! Packets of a script: those that the peer sends, those that are expected.

use narrows_units::Duration;
use narrows_wire::tcp::{AccEcnOption, FastOpenCookie};
use narrows_wire::{Ecn, Ip, IpFields, Tcp, TcpFields, TcpFlags, TcpOptions, ip};

use super::{PEER_ISN, Player, duration, hex};

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
    /// The peer sends.
    pub fn inject(&mut self, words: &[&str]) {
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

    /// The end is to send.
    pub fn expect_packet(&mut self, words: &[&str]) {
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
}
