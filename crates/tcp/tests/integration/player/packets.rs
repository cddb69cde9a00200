//! Packets of a script: those that the peer sends, those that are expected.

use narrows_core::Packet;
use narrows_units::Instant;
use narrows_wire::tcp::{AccEcnOption, FastOpenCookie};
use narrows_wire::{Ecn, Ip, IpFields, Tcp, TcpFields, TcpFlags, TcpOptions, ip};

use super::{LONG, PEER_ISN, Player, Sent, duration, hex};

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

/// Headers and payload bytes of a packet.
fn read(packet: &Packet) -> (Ip, Tcp, u64) {
    let ip = Ip::parse(&packet.bytes).unwrap();
    let tcp = Tcp::parse(&packet.bytes[ip.header_len..]).unwrap();
    (
        ip,
        tcp,
        (ip.total_len - ip.header_len - tcp.header_len) as u64,
    )
}

impl Player {
    /// The peer sends.
    pub fn inject(&mut self, words: &[&str]) {
        let mut fields = TcpFields {
            source_port: self.remote().port(),
            destination_port: self.config.local.port(),
            flags: TcpFlags(words[0].chars().map(letter).fold(0, |a, b| a | b)),
            seq: PEER_ISN.wrapping_add(self.number(words[1]) as u32),
            ..TcpFields::default()
        };
        let mut zeros = self.number(words[2]) as u32;
        let mut text = Vec::new();
        let mut ecn = Ecn::NotEct;
        let mut o = TcpOptions::default();
        let no_counters = AccEcnOption {
            ect1_first: true,
            ..AccEcnOption::default()
        };
        let mut accecn = no_counters;
        let ours = self.socket().isn.unwrap_or(0);
        let (mut ace, mut burst, mut answer) = (false, false, 0);
        let mut rest = words[3..].iter();
        let mut next = || *rest.next().unwrap_or(&"");
        loop {
            match next() {
                "" => break,
                "ack" => fields.ack = ours.wrapping_add(self.number(next()) as u32),
                "win" => self.socket().peer_window = next().parse().unwrap(),
                "burst" => burst = true,
                "answered" => answer = self.number(next()),
                "ecn" => ecn = codepoint(next()),
                "ace" => {
                    ace = true;
                    fields.flags = fields.flags.with_ace(next().parse().unwrap());
                }
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
                        self.socket().timestamps = self.config.timestamps;
                    }
                }
                "sack" => {
                    let (l, r) = next().split_once('-').unwrap();
                    o.sack.push(
                        ours.wrapping_add(self.number(l) as u32),
                        ours.wrapping_add(self.number(r) as u32),
                    );
                }
                "e1b" => accecn.e1b = Some(self.number(next()) as u32),
                "ceb" => accecn.ceb = Some(self.number(next()) as u32),
                "e0b" => accecn.e0b = Some(self.number(next()) as u32),
                "cookie" => {
                    o.fast_open = match next() {
                        "given" => self.config.fast_open_cookie,
                        digits => FastOpenCookie::new(&hex(digits)),
                    }
                }
                "ask" => o.fast_open = Some(FastOpenCookie::default()),
                "text" => text = next().as_bytes().to_vec(),
                w => panic!("{}: field {w}", self.place),
            }
        }
        fields.window = self.socket().peer_window as u16;
        if accecn != no_counters {
            o.accecn = Some(accecn);
        }
        fields.options = o;
        if !text.is_empty() {
            zeros = zeros.saturating_sub(text.len() as u32);
        }
        if burst {
            self.inject_burst(fields, ecn, zeros, ace);
        } else {
            self.deliver(fields, ecn, &text, zeros);
        }
        if answer > 0 {
            let end = &mut self.socket().end;
            end.read(u64::MAX);
            assert_eq!(end.write_zeros(answer), answer);
        }
        self.collect();
    }

    /// Full segments back to back, as receive offload joins them: nothing is
    /// sent before the last has arrived. PSH and FIN are on the last of them,
    /// and CWR on the first, unless it is part of an ACE field.
    fn inject_burst(&mut self, mut fields: TcpFields, ecn: Ecn, bytes: u32, ace: bool) {
        let flags = fields.flags.0;
        let mut left = bytes;
        while left > 0 {
            let len = left.min(self.mss() as u32);
            left -= len;
            fields.flags.0 = match left {
                0 => flags,
                _ => flags & !(TcpFlags::PSH | TcpFlags::FIN),
            };
            if left + len < bytes && !ace {
                fields.flags.0 &= !TcpFlags::CWR;
            }
            self.deliver(fields, ecn, &[], len);
            fields.seq = fields.seq.wrapping_add(len);
        }
    }

    /// A packet of the peer arrives.
    fn deliver(&mut self, fields: TcpFields, ecn: Ecn, text: &[u8], zeros: u32) {
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
        fields.write(&mut packet.bytes, source, destination, text, zeros);
        packet.zero_tail = zeros;
        let now = self.now;
        if let Some(isn) = self.end().reopened_by(now, &packet) {
            self.reopen(isn);
        }
        self.end().receive(now, &packet);
        self.pool.give(packet);
    }

    /// The segment that was sent first, and with it as many as make up
    /// `bytes`, joined as offload does: of one instant and one burst, without
    /// a gap, full but for the last, and the same but for PSH and FIN, which
    /// only the last may have, and CWR, which the first may have alone.
    fn next_sent(&mut self, bytes: u64) -> (Instant, Box<Packet>, Ip, Tcp, u64) {
        if self.queue.is_empty() {
            let until = self.now + LONG;
            self.run(until, true);
        }
        let place = self.place.clone();
        let Some(Sent { at, peer, packet }) = self.queue.pop_front() else {
            panic!("{place}: nothing was sent");
        };
        assert_eq!(peer, self.peer, "{place}: to which peer");
        let (ip, mut tcp, mut len) = read(&packet);
        let full = self.mss();
        while len < bytes && len % full == 0 && len > 0 {
            let Some(next) = self.queue.front() else {
                break;
            };
            let (next_ip, next_tcp, more) = read(&next.packet);
            let last = TcpFlags::PSH | TcpFlags::FIN;
            let rest = next_tcp.flags.0 & !last;
            let same = (next.at, next.peer) == (at, peer)
                && next_tcp.seq == tcp.seq.wrapping_add(len as u32)
                && more > 0
                && !tcp.flags.has(last)
                && next_ip.ecn() == ip.ecn()
                && (rest == tcp.flags.0 || rest == tcp.flags.0 & !TcpFlags::CWR)
                && (next_tcp.ack, next_tcp.window, next_tcp.options)
                    == (tcp.ack, tcp.window, tcp.options);
            if !same {
                break;
            }
            tcp.flags.0 |= next_tcp.flags.0 & last;
            len += more;
            let next = self.queue.pop_front().unwrap();
            self.pool.give(next.packet);
        }
        (at, packet, ip, tcp, len)
    }

    /// The end is to send.
    pub fn expect_packet(&mut self, words: &[&str]) {
        let bytes = self.number(words[2]);
        let (at, packet, ip, tcp, len) = self.next_sent(bytes);
        let place = self.place.clone();
        let isn = *self.socket().isn.get_or_insert(tcp.seq);
        let seq = u64::from(tcp.seq.wrapping_sub(isn));
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
        assert_eq!(len, bytes, "len; {seen}");
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
                "e1b" => {
                    let want = Some(self.number(next()) as u32);
                    assert_eq!(o.accecn.and_then(|a| a.e1b), want, "{seen}");
                }
                "ceb" => {
                    let want = Some(self.number(next()) as u32);
                    assert_eq!(o.accecn.and_then(|a| a.ceb), want, "{seen}");
                }
                "e0b" => {
                    let want = Some(self.number(next()) as u32);
                    assert_eq!(o.accecn.and_then(|a| a.e0b), want, "{seen}");
                }
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
                    let word = next();
                    let (from, to) = match word.split_once('~') {
                        Some((from, to)) => (duration(from), duration(to)),
                        None => {
                            let time = duration(word);
                            (time - self.tolerance.min(time), time + self.tolerance)
                        }
                    };
                    let passed = at.since(self.mark);
                    assert!(
                        (from..=to).contains(&passed),
                        "after {passed}, not {word}; {seen}"
                    );
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
