//! The responder: reports to a prober which of its probes came, and sends those that it orders.
//!
//! It answers the clients of its settings and nobody else, never with more
//! bytes than the packet that it answers has, and sends probes only to who has shown, by the
//! token in its Welcome, that it gets what goes to its address.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use narrows_pep::{Cookies, Network};
use narrows_units::{Duration, Instant};
use narrows_wire::{Icmp, Ip, Tcp, TcpFlags, ip};

use crate::message::{HEADER_LEN, Kind, Message, Range, Record};
use crate::probe::{Addresses, Over, Probe, Session, Shape, Way, is_whole, payload};

/// Bytes that are kept of a packet: the headers of IPv6 and of TCP with all options, and a
/// datagram's first byte.
const KEPT: usize = 101;

/// Sessions at a time.
const SESSIONS: usize = 16;
/// What a session's prober may be silent before another takes its place.
const IDLE: Duration = Duration::from_secs(30);
/// Records of a session, of either kind.
const RECORDS: usize = 16_384;
/// Packets of all clients that are answered in a second. A prober sends 200.
const PER_SECOND: u32 = 2_000;
/// Between two calls to a prober.
const CALL_EVERY: Duration = Duration::from_millis(500);

/// The settings of a responder.
#[derive(Clone, Debug)]
pub struct ResponderSettings {
    /// Its address and port; from the port after it, it sends what is to be new to boxes.
    pub own: SocketAddr,
    /// Who is answered.
    pub clients: Vec<Network>,
    /// Probers that it calls, so that a box at its side lets them in: their addresses and ports.
    pub calls: Vec<SocketAddr>,
}

/// What a responder has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponderCounters {
    /// Packets to its port.
    pub received: u64,
    /// Of these, from who is not to be answered.
    pub refused: u64,
    /// Beyond what is answered in a second, or in all sessions.
    pub limited: u64,
    /// What it sent: answers, ordered probes and calls.
    pub sent: u64,
    /// Sessions begun.
    pub sessions: u64,
}

/// What is kept of a packet.
#[derive(Debug)]
struct Kept {
    intact: bool,
    bytes: Vec<u8>,
}

/// What is known of a prober.
#[derive(Debug)]
struct Known {
    session: Session,
    /// Whence its messages come, by what carries them.
    peers: [Option<SocketAddr>; 2],
    seen: Instant,
    /// What came of its probes, and what routers quoted of those sent to it.
    records: [BTreeMap<u16, Kept>; 2],
}

impl Known {
    fn keep(&mut self, quoted: bool, id: u16, kept: Kept) {
        let records = &mut self.records[usize::from(quoted)];
        if records.len() < RECORDS {
            records.entry(id).or_insert(kept);
        }
    }
}

/// A responder.
#[derive(Debug)]
pub struct Responder {
    settings: ResponderSettings,
    cookies: Cookies,
    known: Vec<Known>,
    counters: ResponderCounters,
    /// The second in which so many packets were answered.
    second: (u64, u32),
    next_call: Instant,
    /// Calls of this turn that are still to be sent.
    calling: Vec<(SocketAddr, Over)>,
}

impl Responder {
    /// One whose tokens only who has `key` can make.
    pub fn new(settings: ResponderSettings, key: [u8; 32]) -> Self {
        Self {
            settings,
            cookies: Cookies::new(key),
            known: Vec::new(),
            counters: ResponderCounters::default(),
            second: (0, 0),
            next_call: Instant::ZERO,
            calling: Vec::new(),
        }
    }

    /// What it has counted.
    pub fn counters(&self) -> ResponderCounters {
        self.counters
    }

    /// When [`poll`](Self::poll) has something to send; `None` where it calls nobody.
    pub fn next_wake(&self) -> Option<Instant> {
        (!self.settings.calls.is_empty()).then_some(self.next_call)
    }

    /// The next call that is due.
    pub fn poll(&mut self, now: Instant) -> Option<Vec<u8>> {
        if self.calling.is_empty() && now >= self.next_call {
            let each = self.settings.calls.iter();
            self.calling = each
                .flat_map(|to| Over::BOTH.map(|over| (*to, over)))
                .collect();
            self.next_call = now + CALL_EVERY;
        }
        let (destination, over) = self.calling.pop()?;
        let (ends, session) = (
            Addresses {
                source: self.settings.own,
                destination,
            },
            Session {
                number: 0,
                token: [0; 16],
            },
        );
        self.counters.sent += 1;
        Some(match over {
            Over::Udp => {
                let call = message(session, Kind::Call, 0, &[]).write(HEADER_LEN);
                session.carry(over, Way::Back, ends, &call)
            }
            Over::Tcp => session.open(Way::Back, false, ends),
        })
    }

    /// Takes a packet that came to its machine, and gives the answer, if it has one.
    pub fn receive(&mut self, now: Instant, packet: &[u8]) -> Option<Vec<u8>> {
        let ip = Ip::parse(packet).ok()?;
        if ip.destination != self.settings.own.ip() {
            return None;
        }
        if matches!(ip.protocol, ip::ICMP | ip::ICMPV6) {
            self.keep_quotation(&ip, packet);
            return None;
        }
        let came = Addresses::of(packet).filter(|came| came.destination == self.settings.own)?;
        self.counters.received += 1;
        let mut clients = self.settings.clients.iter();
        if !clients.any(|network| network.contains(ip.source)) {
            self.counters.refused += 1;
            return None;
        }
        if !is_whole(packet) || !self.may_answer(now) {
            return None;
        }
        let answer = self.answer(now, came, &ip, packet)?;
        if answer.len() > packet.len() {
            return None;
        }
        self.counters.sent += 1;
        Some(answer)
    }

    fn may_answer(&mut self, now: Instant) -> bool {
        let second = now.as_nanos() / 1_000_000_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += 1;
        let may = self.second.1 <= PER_SECOND;
        self.counters.limited += u64::from(!may);
        may
    }

    fn answer(&mut self, now: Instant, came: Addresses, ip: &Ip, packet: &[u8]) -> Option<Vec<u8>> {
        let over = match ip.protocol {
            ip::UDP => Over::Udp,
            _ => Over::Tcp,
        };
        let said = payload(packet)
            .and_then(Message::parse)
            .filter(|(m, _)| m.kind != Kind::Probe);
        let Some((said, true)) = said else {
            // A probe of a session that is known, or the SYN before a first message.
            for known in &mut self.known {
                if let Some((id, intact)) = known.session.identify(packet, false) {
                    known.keep(false, id, kept(packet, intact));
                    return None;
                }
            }
            return opening(came, ip, packet);
        };
        let mut session = Session {
            number: said.session,
            token: said.token,
        };
        let shown = self.cookies.accepts(ip.source, &said.token);
        if shown {
            let at = self.place(now, session)?;
            self.known[at].seen = now;
            self.known[at].peers[over as usize] = Some(came.source);
        }
        if said.kind == Kind::Hello {
            session.token = self.cookies.of(ip.source);
            let welcome = message(session, Kind::Welcome, said.id, &[]).write(HEADER_LEN);
            return Some(session.carry(over, Way::Back, came.reversed(), &welcome));
        }
        let same = |known: &&Known| known.session == session;
        let known = self.known.iter().find(same).filter(|_| shown)?;
        match said.kind {
            Kind::Order => {
                let (order, rest) = said.body.split_first_chunk::<4>()?;
                let probe = Probe::decode(*order)?;
                let [a, b] = *rest.first_chunk::<2>()?;
                let by = match probe.shape {
                    Shape::Udp => Over::Udp,
                    _ => Over::Tcp,
                };
                // Where no message came by it, nothing changes the prober's port.
                let unknown = SocketAddr::new(ip.source, u16::from_be_bytes([a, b]));
                let own = self.settings.own;
                let port = probe.port(Way::Back, own.port(), said.id);
                let ends = Addresses {
                    source: SocketAddr::new(own.ip(), port),
                    destination: known.peers[by as usize].unwrap_or(unknown),
                };
                Some(probe.packet(Way::Back, said.id, session, ends))
            }
            Kind::Fetch => {
                let (mut range, _) = Range::parse(said.body)?;
                let most = said.body.len();
                let mut body = range.write().to_vec();
                let records = &known.records[usize::from(range.quoted)];
                for (id, kept) in records.range(range.first..=range.last) {
                    let record = Record {
                        id: *id,
                        intact: kept.intact,
                        bytes: &kept.bytes,
                    };
                    if !record.write(&mut body, most) {
                        range.last = id.checked_sub(1).filter(|last| *last >= range.first)?;
                        break;
                    }
                }
                body.splice(..range.write().len(), range.write());
                let records = message(session, Kind::Records, said.id, &body).write(0);
                Some(session.carry(over, Way::Back, came.reversed(), &records))
            }
            _ => None,
        }
    }

    /// Where the session is kept, which has shown its token.
    fn place(&mut self, now: Instant, session: Session) -> Option<usize> {
        let same = |known: &Known| known.session == session;
        if let Some(at) = self.known.iter().position(same) {
            return Some(at);
        }
        self.known.retain(|known| now.since(known.seen) < IDLE);
        if self.known.len() == SESSIONS {
            self.counters.limited += 1;
            return None;
        }
        self.counters.sessions += 1;
        self.known.push(Known {
            session,
            peers: [None; 2],
            seen: now,
            records: [BTreeMap::new(), BTreeMap::new()],
        });
        Some(self.known.len() - 1)
    }

    /// Keeps what a router quotes of a probe, behind the router's address.
    fn keep_quotation(&mut self, ip: &Ip, packet: &[u8]) {
        let above = packet.get(ip.header_len..).unwrap_or_default();
        let Some((Icmp::TimeExceeded, quoted)) = Icmp::quoted(ip.protocol, above) else {
            return;
        };
        let Ok(about) = Ip::parse(quoted) else { return };
        for known in &mut self.known {
            let peers = known.peers.iter().flatten();
            if !peers.clone().any(|peer| peer.ip() == about.destination) {
                continue;
            }
            if let Some((id, intact)) = known.session.identify(quoted, true) {
                let mut kept = kept(quoted, intact);
                let router = match ip.source {
                    IpAddr::V4(router) => router.to_ipv6_mapped(),
                    IpAddr::V6(router) => router,
                };
                kept.bytes.splice(..0, router.octets());
                known.keep(true, id, kept);
            }
        }
    }
}

fn message<'a>(session: Session, kind: Kind, id: u16, body: &'a [u8]) -> Message<'a> {
    Message {
        spin: false,
        kind,
        session: session.number,
        token: session.token,
        id,
        body,
    }
}

fn kept(packet: &[u8], intact: bool) -> Kept {
    Kept {
        intact,
        bytes: packet[..packet.len().min(KEPT)].to_vec(),
    }
}

/// The answer to a SYN that opens the way for messages over TCP.
fn opening(came: Addresses, ip: &Ip, packet: &[u8]) -> Option<Vec<u8>> {
    let tcp = Tcp::parse(packet.get(ip.header_len..)?).ok()?;
    let opens = tcp.flags == TcpFlags(TcpFlags::SYN) && tcp.window == 0;
    let session = Session {
        number: tcp.seq,
        token: [0; 16],
    };
    (ip.protocol == ip::TCP && opens).then(|| session.open(Way::Back, true, came.reversed()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "10.0.0.2:5000";

    fn responder() -> Responder {
        let settings = ResponderSettings {
            own: OWN.parse().unwrap(),
            clients: vec!["10.0.0.0/24".parse().unwrap()],
            calls: Vec::new(),
        };
        Responder::new(settings, [9; 32])
    }

    fn ends(from: &str) -> Addresses {
        Addresses {
            source: from.parse().unwrap(),
            destination: OWN.parse().unwrap(),
        }
    }

    /// A session before its token.
    const SESSION: Session = Session {
        token: [0; 16],
        ..crate::fixture::SESSION
    };

    fn order(session: Session, from: &str, len: usize) -> Vec<u8> {
        let mut body = Probe::new(Shape::Udp, narrows_wire::Ecn::Ect0)
            .encode()
            .to_vec();
        body.extend_from_slice(&4000u16.to_be_bytes());
        let order = message(session, Kind::Order, 3, &body).write(len);
        session.carry(Over::Udp, Way::Forward, ends(from), &order)
    }

    /// A responder, and the session with the token that it gave.
    fn welcomed(from: &str) -> (Responder, Session) {
        let mut responder = responder();
        let hello = message(SESSION, Kind::Hello, 1, &[]).write(64);
        let hello = SESSION.carry(Over::Udp, Way::Forward, ends(from), &hello);
        let welcome = responder.receive(Instant::ZERO, &hello).unwrap();
        let (read, intact) = Message::parse(payload(&welcome).unwrap()).unwrap();
        assert!(intact && read.kind == Kind::Welcome);
        let session = Session {
            token: read.token,
            ..SESSION
        };
        (responder, session)
    }

    #[test]
    fn who_is_not_listed_gets_no_answer() {
        let mut responder = responder();
        let from = "10.0.1.1:4000";
        let hello = message(SESSION, Kind::Hello, 1, &[]).write(64);
        let hello = SESSION.carry(Over::Udp, Way::Forward, ends(from), &hello);
        assert_eq!(responder.receive(Instant::ZERO, &hello), None);
        let syn = SESSION.open(Way::Forward, false, ends(from));
        assert_eq!(responder.receive(Instant::ZERO, &syn), None);
        assert_eq!(responder.counters().refused, 2);
        assert_eq!(responder.counters().sent, 0);
    }

    #[test]
    fn an_order_is_carried_out_for_the_address_that_got_the_token() {
        let (mut responder, session) = welcomed("10.0.0.1:4000");
        let answer = responder
            .receive(Instant::ZERO, &order(session, "10.0.0.1:4000", 200))
            .unwrap();
        assert_eq!(session.identify(&answer, false), Some((3, true)));
        for (session, from) in [(SESSION, "10.0.0.1:4000"), (session, "10.0.0.9:4000")] {
            let order = order(session, from, 200);
            assert_eq!(responder.receive(Instant::ZERO, &order), None);
        }
    }

    #[test]
    fn no_answer_is_longer_than_what_it_answers() {
        let (mut responder, session) = welcomed("10.0.0.1:4000");
        let from = "10.0.0.1:4000";
        for len in [0, 40, 60, 61, 68, 100] {
            let order = order(session, from, len);
            if let Some(answer) = responder.receive(Instant::ZERO, &order) {
                assert!(answer.len() <= order.len());
            }
        }
        for id in 1..200 {
            let probe = Probe::new(Shape::Segment, narrows_wire::Ecn::Ce);
            let probe = probe.packet(Way::Forward, id, session, ends(from));
            assert_eq!(responder.receive(Instant::ZERO, &probe), None);
        }
        for len in [0, 40, 200, 1_200] {
            let range = Range {
                quoted: false,
                first: 1,
                last: 199,
            };
            let fetch = message(session, Kind::Fetch, 1, &range.write()).write(len);
            let fetch = session.carry(Over::Tcp, Way::Forward, ends(from), &fetch);
            if let Some(answer) = responder.receive(Instant::ZERO, &fetch) {
                assert!(answer.len() <= fetch.len());
                let (read, _) = Message::parse(payload(&answer).unwrap()).unwrap();
                let (range, rest) = Range::parse(read.body).unwrap();
                assert_eq!(Record::parse(rest).unwrap().0.id, 1);
                assert!(range.last < 199);
            }
        }
    }

    #[test]
    fn more_packets_than_a_second_has_room_for_and_a_seventeenth_session_are_not_answered() {
        let mut responder = responder();
        let from = ends("10.0.0.1:4000");
        let token = Cookies::new([9; 32]).of(from.source.ip());
        let mut taken = 0;
        for number in 0..20 {
            let session = Session { number, token };
            taken += u32::from(
                responder
                    .receive(Instant::ZERO, &order(session, "10.0.0.1:4000", 200))
                    .is_some(),
            );
        }
        assert_eq!(taken, 16);
        let late = Instant::ZERO + Duration::from_secs(31);
        let session = Session { number: 99, token };
        let order = order(session, "10.0.0.1:4000", 200);
        let answered = (0..3_000).filter(|_| responder.receive(late, &order).is_some());
        assert_eq!(answered.count(), PER_SECOND as usize);
    }

    #[test]
    fn calls_go_to_the_named_prober_only_and_slowly() {
        let mut responder = responder();
        assert_eq!(responder.next_wake(), None);
        responder.settings.calls = vec!["10.0.0.7:4000".parse().unwrap()];
        let mut calls = 0;
        for ms in 0..1_000 {
            let now = Instant::ZERO + Duration::from_millis(ms);
            while let Some(call) = responder.poll(now) {
                assert_eq!(
                    Addresses::of(&call).unwrap().destination,
                    responder.settings.calls[0]
                );
                calls += 1;
            }
        }
        assert_eq!(calls, 4);
    }
}
