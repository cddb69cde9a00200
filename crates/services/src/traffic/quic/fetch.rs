//! The client's connections.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;

use narrows_linux::Clock;
use narrows_linux::datagrams::DatagramSocket;
use narrows_quic::{Connection, QuicConfig, QuicControl, QuicEvent, STREAM_WINDOW, Tls};
use narrows_units::{Instant, Rng};
use narrows_wire::Ecn;
use nix::errno::Errno;

use super::super::marks::ArrivedMarks;
use super::super::receiver::{Step, bound};
use super::super::token::{Purpose, Secret};
use super::super::wire::{Opening, QuicPort, plain};
use super::{MTU, TURN, id_of, stream_key};

/// What all connections of a session have.
pub(in super::super) struct Fetches {
    server: SocketAddr,
    tls: Arc<Tls>,
    secret: Secret,
    seed: u64,
}

impl Fetches {
    /// From the server at `server` that has `port`.
    pub(in super::super) fn new(
        server: SocketAddr,
        port: &QuicPort,
        secret: &Secret,
    ) -> std::io::Result<Self> {
        let (known, tag) = (secret.clone(), port.certificate);
        let proven = move |shown: &[u8]| known.proves(Purpose::Certificate, shown, &tag);
        Ok(Self {
            server: SocketAddr::new(server.ip(), port.port),
            tls: Arc::new(narrows_live::tls::client(proven)?),
            secret: secret.clone(),
            seed: u64::from_ne_bytes(narrows_linux::random_bytes()?),
        })
    }

    /// Connects to ask for transfer `number`, in packets of a traffic class.
    pub(in super::super) fn open(
        &self,
        number: u32,
        control: QuicControl,
        class: u8,
        clock: &Clock,
        taken: &BTreeSet<u16>,
    ) -> nix::Result<Fetch> {
        let (socket, port) = bound(self.server, false, taken)?;
        let config = QuicConfig {
            local: socket.local()?,
            remote: self.server,
            control,
            ecn: Ecn::from_bits(class) != Ecn::NotEct,
            dscp: class >> 2,
            mtu: MTU,
            window: STREAM_WINDOW,
            spin: false,
            flow: None,
            tls: Some(Arc::clone(&self.tls)),
        };
        let rng = Rng::for_name(self.seed, &number.to_string());
        let mut connection = Connection::client(config, clock.epoch(), rng);
        connection.address_first(&id_of(&self.secret, number));
        let now = clock.now();
        connection.open(now);
        let opening = Opening::Flow(number).to_bytes(&stream_key(&self.secret));
        let mut fetch = Fetch {
            socket,
            port,
            to: self.server,
            class,
            connection,
            opening: opening.to_vec(),
            received: 0,
            packets: 0,
            marks: ArrivedMarks::default(),
            capable: false,
            wakes: None,
        };
        fetch.go(now);
        Ok(fetch)
    }
}

/// The connection of a transfer.
pub(in super::super) struct Fetch {
    pub(in super::super) socket: DatagramSocket,
    /// Its port, which no other flow has.
    pub(in super::super) port: u16,
    to: SocketAddr,
    /// The traffic class of its packets.
    class: u8,
    connection: Connection,
    /// What is still to be said to have the transfer.
    opening: Vec<u8>,
    pub(in super::super) received: u64,
    /// Datagrams that arrived, and what they bore.
    pub(in super::super) packets: u64,
    pub(in super::super) marks: ArrivedMarks,
    /// Whether any arrived as capable of ECN, or marked.
    pub(in super::super) capable: bool,
    /// When it is to go on by itself.
    pub(in super::super) wakes: Option<Instant>,
}

impl Fetch {
    /// Takes some of what has arrived; `Over` at the end of the stream.
    pub(in super::super) fn ready(&mut self, clock: &Clock, room: &mut [u8]) -> Step {
        for _ in 0..TURN {
            let got = match self.socket.receive(room) {
                Ok(Some(got)) if got.from == self.to => got,
                Err(Errno::EAGAIN) => break,
                // What ICMP says is of one datagram.
                Ok(_) | Err(_) => continue,
            };
            self.packets += 1;
            let ecn = Ecn::from_bits(got.class);
            self.capable |= ecn != Ecn::NotEct;
            // The sender gives up ECN by itself where the path clears it: that is no change.
            let sent = self.class & !3 | got.class & 3;
            self.marks.note(sent, got.class);
            let bytes = &room[..got.len.min(room.len())];
            self.connection.receive_payload(clock.now(), ecn, bytes);
        }
        self.go(clock.now())
    }

    /// Goes on at a time.
    pub(in super::super) fn go(&mut self, now: Instant) -> Step {
        self.connection.on_timeout(now);
        if !self.opening.is_empty() {
            let said = self.connection.write(&self.opening) as usize;
            self.opening.drain(..said);
            if said > 0 && self.opening.is_empty() {
                self.connection.finish();
            }
        }
        let mut step = Step::Goes;
        while let Some(event) = self.connection.poll_event() {
            let next = match event {
                QuicEvent::Readable => {
                    let (bytes, ended) = self.connection.read(u64::MAX, None);
                    self.received += bytes;
                    match ended {
                        true => Step::Over,
                        false => Step::Goes,
                    }
                }
                QuicEvent::Closed => Step::Over,
                QuicEvent::Broken(why) => Step::Broke(plain(&why)),
                _ => Step::Goes,
            };
            if step == Step::Goes {
                step = next;
            }
        }
        let more = self.send(now);
        self.wakes = self.connection.next_timeout().into_iter().chain(more).min();
        step
    }

    /// Sends what may leave; when it goes on, if that was only a part.
    fn send(&mut self, now: Instant) -> Option<Instant> {
        for _ in 0..TURN {
            let (ecn, payload) = self.connection.poll_payload(now)?;
            let class = self.class & !3 | ecn as u8;
            // What the host does not take is lost as on a path.
            let _ = self.socket.send(self.to, class, payload);
        }
        Some(now)
    }

    /// Closes the connection, and sends CONNECTION_CLOSE.
    pub(in super::super) fn close(&mut self, now: Instant) {
        self.connection.close(now);
        self.send(now);
    }
}
