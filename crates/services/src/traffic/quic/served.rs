//! The server's connections of a session.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use narrows_linux::datagrams::{DatagramSocket, LARGEST};
use narrows_linux::{Clock, random_bytes};
use narrows_quic::{Connection, QuicConfig, QuicControl, QuicEvent, Tls};
use narrows_traffic::{Sends, Transfer};
use narrows_units::{Instant, Rng};
use narrows_wire::Ecn;
use nix::errno::Errno;

use super::super::sender::{WRITES, wanted};
use super::super::token::{Purpose, Secret};
use super::super::wire::{OPENING, Opening, QuicPort, Request, SetOptions, StreamSample};
use super::{MTU, TURN, number_of, stream_key};

/// The port of a session, before any connection.
pub(in super::super) struct Listening {
    socket: DatagramSocket,
    local: SocketAddr,
    tls: Arc<Tls>,
    secret: Secret,
    seed: u64,
}

impl Listening {
    /// A port at this address, and what the client is to know of it.
    pub(in super::super) fn at(ip: IpAddr, secret: &Secret) -> io::Result<(Self, QuicPort)> {
        let bound = DatagramSocket::bound(SocketAddr::new(ip, 0), false);
        let (socket, _) = bound.map_err(Errno::from)?;
        let local = socket.local()?;
        let (tls, certificate) = narrows_live::tls::server()?;
        let port = QuicPort {
            port: local.port(),
            certificate: secret.tag(Purpose::Certificate, &certificate),
        };
        let new = Self {
            socket,
            local,
            tls: Arc::new(tls),
            secret: secret.clone(),
            seed: u64::from_ne_bytes(random_bytes()?),
        };
        Ok((new, port))
    }
}

/// One connection.
struct End {
    connection: Connection,
    transfer: u32,
    class: u8,
    /// What was read of the client's stream.
    opening: Vec<u8>,
    /// When the client had named the transfer.
    begun: Option<Instant>,
    written: u64,
    /// All is written, and its end.
    ended: bool,
    /// At the last sample: bytes and lost packets.
    sampled: (u64, u64),
    /// When that was.
    sampled_at: Instant,
    /// When it is to go on by itself.
    wakes: Option<Instant>,
}

/// The connections of a session by the client's addresses.
pub(in super::super) struct Served {
    port: Listening,
    peer: IpAddr,
    clock: Clock,
    ends: BTreeMap<SocketAddr, End>,
    wakes: BTreeSet<(Instant, SocketAddr)>,
    /// Transfers for which there was a connection: none has a second one.
    taken: BTreeSet<u32>,
    /// Of connections that are gone since the last sample.
    parted: Vec<StreamSample>,
    /// Bytes written on those that are gone.
    written: Vec<(u32, u64)>,
    /// Where datagrams are read to.
    room: Vec<u8>,
}

impl Served {
    pub(in super::super) fn new(port: Listening, peer: IpAddr, clock: Clock) -> Self {
        Self {
            port,
            peer: peer.to_canonical(),
            clock,
            ends: BTreeMap::new(),
            wakes: BTreeSet::new(),
            taken: BTreeSet::new(),
            parted: Vec::new(),
            written: Vec::new(),
            room: vec![0; LARGEST],
        }
    }

    pub(in super::super) fn socket(&self) -> &DatagramSocket {
        &self.port.socket
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(super) fn connections(&self) -> usize {
        self.ends.len()
    }

    /// When a connection is to go on by itself.
    pub(in super::super) fn wakes(&self) -> Option<Instant> {
        self.wakes.first().map(|(at, _)| *at)
    }

    /// Takes some of what has arrived.
    pub(in super::super) fn receive(&mut self, request: &Request) {
        let mut room = std::mem::take(&mut self.room);
        let mut reached = BTreeSet::new();
        for _ in 0..TURN {
            let got = match self.port.socket.receive(&mut room) {
                Ok(Some(got)) => got,
                Err(Errno::EAGAIN) => break,
                // What ICMP says is of one datagram.
                Ok(None) | Err(_) => continue,
            };
            let bytes = &room[..got.len.min(room.len())];
            if got.from.ip().to_canonical() != self.peer {
                continue;
            }
            let (now, ecn) = (self.clock.now(), Ecn::from_bits(got.class));
            match self.ends.get_mut(&got.from) {
                Some(end) => end.connection.receive_payload(now, ecn, bytes),
                None => self.accept(request, got.from, ecn, bytes, now),
            }
            reached.insert(got.from);
        }
        self.room = room;
        for from in reached {
            self.go(request, from);
        }
    }

    /// Takes a connection that a datagram opens, if it is to be there.
    fn accept(
        &mut self,
        request: &Request,
        from: SocketAddr,
        ecn: Ecn,
        bytes: &[u8],
        now: Instant,
    ) {
        let Some(transfer) = number_of(&self.port.secret, bytes) else {
            return;
        };
        let Some((control, class)) = asked(request, transfer) else {
            return;
        };
        if self.taken.contains(&transfer) {
            return;
        }
        let config = QuicConfig {
            local: self.port.local,
            remote: from,
            control,
            ecn: Ecn::from_bits(class) != Ecn::NotEct,
            dscp: class >> 2,
            mtu: MTU,
            window: OPENING as u32,
            spin: false,
            flow: None,
            tls: Some(Arc::clone(&self.port.tls)),
        };
        let rng = Rng::for_name(self.port.seed, &transfer.to_string());
        let mut connection = Connection::server(config, self.clock.epoch(), rng);
        connection.receive_payload(now, ecn, bytes);
        // It was no packet that the handshake takes.
        if connection.is_drained() {
            return;
        }
        self.taken.insert(transfer);
        let end = End {
            connection,
            transfer,
            class,
            opening: Vec::new(),
            begun: None,
            written: 0,
            ended: false,
            sampled: (0, 0),
            sampled_at: now,
            wakes: None,
        };
        self.ends.insert(from, end);
    }

    /// Goes on with what is due.
    pub(in super::super) fn go_on(&mut self, request: &Request) {
        for _ in 0..TURN {
            let now = self.clock.now();
            match self.wakes.first() {
                Some(&(at, from)) if at <= now => self.go(request, from),
                _ => return,
            }
        }
    }

    /// Goes on with the connection of an address.
    fn go(&mut self, request: &Request, from: SocketAddr) {
        let now = self.clock.now();
        let Some(end) = self.ends.get_mut(&from) else {
            return;
        };
        if let Some(at) = end.wakes.take() {
            self.wakes.remove(&(at, from));
        }
        end.connection.on_timeout(now);
        let over = end.look(now, &self.port.secret);
        let plan = &request.transfers[end.transfer as usize];
        let due = end.write(plan, now);
        let more = end.send(&self.port.socket, from, now);
        if over {
            self.forget(from, now);
            return;
        }
        let timeout = end.connection.next_timeout();
        let at = timeout.into_iter().chain(due).chain(more).min();
        end.wakes = at;
        self.wakes.extend(at.map(|at| (at, from)));
    }

    fn forget(&mut self, from: SocketAddr, now: Instant) {
        let Some(mut end) = self.ends.remove(&from) else {
            return;
        };
        if let Some(at) = end.wakes {
            self.wakes.remove(&(at, from));
        }
        self.parted.extend(end.sample(now));
        if end.begun.is_some() {
            self.written.push((end.transfer, end.written));
        }
    }

    /// What connections did since the last sample.
    pub(in super::super) fn sample(&mut self, now: Instant) -> Vec<StreamSample> {
        let mut samples = std::mem::take(&mut self.parted);
        let ends = self.ends.values_mut();
        samples.extend(ends.filter_map(|end| end.sample(now)));
        samples
    }

    /// Closes all connections: bytes that were written for each transfer.
    pub(in super::super) fn close(mut self) -> Vec<(u32, u64)> {
        let now = self.clock.now();
        for (from, end) in &mut self.ends {
            end.connection.close(now);
            end.send(&self.port.socket, *from, now);
        }
        let ends = self.ends.values().filter(|end| end.begun.is_some());
        let open = ends.map(|end| (end.transfer, end.written));
        self.written.extend(open);
        self.written
    }
}

/// The congestion control and traffic class of a transfer, if it is one by QUIC.
fn asked(request: &Request, number: u32) -> Option<(QuicControl, u8)> {
    let transfer: &Transfer = request.transfers.get(number as usize)?;
    let set: &SetOptions = request.sets.get(transfer.set as usize)?;
    let control = set.quic()?;
    (!matches!(transfer.sends, Sends::Datagrams { .. })).then_some((control, set.class))
}

impl End {
    /// Takes what happened; whether the connection is over.
    fn look(&mut self, now: Instant, secret: &Secret) -> bool {
        let mut over = false;
        while let Some(event) = self.connection.poll_event() {
            match event {
                QuicEvent::Readable if self.begun.is_none() => self.read_opening(now, secret),
                QuicEvent::Closed | QuicEvent::Broken(_) => over = true,
                _ => {}
            }
        }
        over
    }

    /// Reads which transfer the client names.
    fn read_opening(&mut self, now: Instant, secret: &Secret) {
        let most = OPENING - self.opening.len();
        let (_, ended) = self.connection.read(most as u64, Some(&mut self.opening));
        if self.opening.len() < OPENING && !ended {
            return;
        }
        match Opening::parse(&self.opening, &stream_key(secret)) {
            Some(Opening::Flow(number)) if number == self.transfer => {
                self.begun = Some(now);
                self.sampled_at = now;
            }
            _ => self.connection.close(now),
        }
    }

    /// Writes what is due and has room; when more is due, if that is known.
    fn write(&mut self, plan: &Transfer, now: Instant) -> Option<Instant> {
        let begun = self.begun.filter(|_| !self.ended)?;
        let (wanted, last) = wanted(&plan.sends, now.since(begun))?;
        let left = wanted.saturating_sub(self.written);
        self.written += self.connection.write_zeros(left);
        let all = self.written >= wanted;
        self.connection.has_more(!all);
        if all && last {
            self.ended = self.connection.finish();
        }
        (all && !self.ended).then(|| now + WRITES)
    }

    /// Sends what may leave; when it goes on, if that was only a part. What the host does not take is
    /// lost as on a path.
    fn send(&mut self, socket: &DatagramSocket, to: SocketAddr, now: Instant) -> Option<Instant> {
        for _ in 0..TURN {
            let (ecn, payload) = self.connection.poll_payload(now)?;
            let _ = socket.send(to, self.class & !3 | ecn as u8, payload);
        }
        Some(now)
    }

    /// What it did since its last sample; `None` if that is nothing and it has ended.
    fn sample(&mut self, now: Instant) -> Option<StreamSample> {
        self.begun?;
        let sample = self.connection.sample();
        let (bytes, before) = self.sampled;
        if self.ended && bytes == self.written && sample.retransmits == before {
            return None;
        }
        let began = std::mem::replace(&mut self.sampled_at, now);
        self.sampled = (self.written, sample.retransmits);
        let local = self.connection.config().local;
        let headers = if local.is_ipv4() { 28 } else { 48 };
        let lost = sample.retransmits.saturating_sub(before);
        Some(StreamSample {
            transfer: self.transfer,
            at_ns: began.as_nanos(),
            span_ns: now.since(began).as_nanos(),
            bytes: self.written - bytes,
            retransmissions: u32::try_from(lost).unwrap_or(u32::MAX),
            cwnd: self.connection.window(),
            rtt_us: u32::try_from(sample.srtt.as_nanos() / 1_000).unwrap_or(u32::MAX),
            rttvar_us: None,
            pmtu: u32::from(self.connection.payload()) + headers,
        })
    }
}
