//! A flow of the plan: an application that sends, and one that receives.

use std::net::SocketAddr;
use std::sync::Arc;

use narrows_core::{App, Data, Profile, SocketError, SocketEvent, SocketId, Sockets};
use narrows_units::{Instant, Rng};

use crate::account::FlowAccount;
use crate::generator::{Generator, Want};
use crate::spec::{Carries, Traffic};

/// Connections that may wait for an end that answers one.
const BACKLOG: u32 = 1;

/// Datagrams sent in a row by a sender that is late, before others have their turn (our
/// choice).
const BURST: u32 = 64;

impl Traffic {
    /// The application of the end that sends, until `stop`; `rng` draws what is random about
    /// it.
    pub fn sender(&self, end: End, rng: Rng, stop: Option<Instant>) -> Box<dyn App> {
        let generator = Generator::new(*self, rng);
        match self.carries() {
            Carries::Stream => Box::new(Source::new(end, generator, stop)),
            Carries::Datagrams => Box::new(DatagramSource::new(end, generator, stop)),
        }
    }

    /// The application of the end that receives.
    pub fn receiver(&self, end: End) -> Box<dyn App> {
        match self.carries() {
            Carries::Stream => Box::new(Sink::new(end)),
            Carries::Datagrams => Box::new(DatagramSink::new(end)),
        }
    }
}

/// One end of a flow.
#[derive(Clone, Debug)]
pub struct End {
    /// Its socket's options.
    pub profile: Profile,
    /// Its address.
    pub local: SocketAddr,
    /// The other end's address.
    pub remote: SocketAddr,
    /// Whether it opens the connection.
    pub opens: bool,
    /// When the flow begins.
    pub start: Instant,
    /// What both ends know.
    pub account: Arc<FlowAccount>,
}

impl End {
    /// Before the start: an end that answers listens, one that opens waits.
    fn prepare(&self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        if self.opens {
            host.wake_at(Some(self.start));
        } else {
            host.listen(self.profile, self.local, BACKLOG)?;
        }
        Ok(())
    }

    /// The start of the end that opens.
    fn open(&self, host: &mut dyn Sockets) -> Option<SocketId> {
        self.account.start();
        match host.connect(self.profile, Some(self.local), self.remote) {
            Ok(socket) => Some(socket),
            Err(_) => {
                self.account.break_off(host);
                None
            }
        }
    }
}

/// The application that sends, over a connection.
#[derive(Debug)]
pub struct Source {
    end: End,
    generator: Generator,
    stop: Option<Instant>,
    socket: Option<SocketId>,
    /// It has ended its stream.
    ended: bool,
}

impl Source {
    /// One that sends what `generator` wants until `stop`.
    pub fn new(end: End, generator: Generator, stop: Option<Instant>) -> Self {
        Self {
            end,
            generator,
            stop,
            socket: None,
            ended: false,
        }
    }

    /// Writes what is wanted now, as far as there is room; the end of the stream is
    /// written by itself, after what comes before has been sent.
    fn supply(&mut self, host: &mut dyn Sockets) {
        let Some(socket) = self.socket.filter(|_| !self.ended) else {
            return;
        };
        match self.generator.want(host.now()) {
            Want::Stream(bytes) => {
                let taken = host.write(socket, Data::Zeros(bytes));
                self.generator.sent(taken);
                self.end.account.write(self.generator.bytes());
            }
            Want::End => self.finish(host, socket),
            Want::Datagram(_) | Want::Nothing => {}
        }
    }

    fn finish(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        if !std::mem::replace(&mut self.ended, true) {
            host.want_room(socket, false);
            host.shut_down(socket);
        }
    }

    fn begin(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        self.socket = Some(socket);
        self.generator.start(self.end.start);
        host.want_room(socket, true);
    }

    /// Sets the timer to what comes next.
    fn schedule(&self, host: &mut dyn Sockets) {
        let next_write = self.generator.next_write(host.now());
        let next = next_write.into_iter().chain(self.stop).min();
        host.wake_at(next);
    }
}

impl App for Source {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.end.prepare(host)?;
        if !self.end.opens {
            self.schedule(host);
        }
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Incoming => {
                if let Some((socket, _)) = host.accept(socket) {
                    self.begin(host, socket);
                    self.schedule(host);
                }
            }
            SocketEvent::Established { ecn, accecn } => {
                self.end.account.establish(host, ecn, accecn);
            }
            SocketEvent::Writable => self.supply(host),
            SocketEvent::Readable => {
                host.read(socket, u64::MAX, None);
            }
            SocketEvent::PeerClosed => self.finish(host, socket),
            SocketEvent::Acknowledged => host.close(socket),
            SocketEvent::Broken(_) => {
                self.ended = true;
                self.end.account.break_off(host);
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        if self.end.opens && self.socket.is_none() && self.end.start <= now {
            if let Some(socket) = self.end.open(host) {
                self.begin(host, socket);
            }
        }
        if self.stop.is_some_and(|t| t <= now) {
            self.stop = None;
            self.generator.stop();
            self.end.account.stop();
        }
        self.supply(host);
        self.schedule(host);
    }
}

/// The application that receives, over a connection.
#[derive(Debug)]
pub struct Sink {
    end: End,
}

impl Sink {
    /// The other end of a [`Source`].
    pub fn new(end: End) -> Self {
        Self { end }
    }
}

impl App for Sink {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.end.prepare(host)
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Incoming => {
                host.accept(socket);
            }
            SocketEvent::Readable => {
                let bytes = host.read(socket, u64::MAX, None);
                if bytes > 0 {
                    self.end.account.deliver(host, bytes);
                }
            }
            SocketEvent::PeerClosed => {
                host.close(socket);
                self.end.account.arrive(host);
            }
            SocketEvent::Broken(_) => self.end.account.break_off(host),
            _ => {}
        }
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        self.end.open(host);
    }

    fn end(&mut self, host: &mut dyn Sockets) {
        self.end.account.end(host);
    }
}

/// The application that sends datagrams.
#[derive(Debug)]
pub struct DatagramSource {
    end: End,
    generator: Generator,
    stop: Option<Instant>,
    socket: Option<SocketId>,
}

impl DatagramSource {
    /// One that sends what `generator` wants until `stop`.
    pub fn new(end: End, generator: Generator, stop: Option<Instant>) -> Self {
        Self {
            end,
            generator,
            stop,
            socket: None,
        }
    }
}

impl App for DatagramSource {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.socket = Some(host.bind(self.end.profile, self.end.local)?);
        host.wake_at(Some(self.end.start));
        Ok(())
    }

    fn on_event(&mut self, _: SocketId, _: SocketEvent, _: &mut dyn Sockets) {}

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        self.end.account.start();
        // Datagrams are due by the plan's times, however late this timer is.
        self.generator.start(self.end.start);
        let Some(socket) = self.socket else { return };
        for _ in 0..BURST {
            // What was due before the stop is sent before it.
            let due_later = |stop| self.generator.next().is_none_or(|due| due >= stop);
            if self.stop.is_some_and(|stop| stop <= now && due_later(stop)) {
                self.stop = None;
                self.generator.stop();
                self.end.account.stop();
                self.end.account.finish(host, false);
            }
            let Want::Datagram(bytes) = self.generator.want(now) else {
                break;
            };
            // A path that is missing was refused before the run.
            let _ = host.send_to(socket, self.end.remote, &[], bytes);
            self.generator.sent(u64::from(bytes));
        }
        host.wake_at(self.generator.next().into_iter().chain(self.stop).min());
    }
}

/// The application that receives datagrams.
#[derive(Debug)]
pub struct DatagramSink {
    end: End,
    payload: Vec<u8>,
}

impl DatagramSink {
    /// The other end of a [`DatagramSource`].
    pub fn new(end: End) -> Self {
        let payload = Vec::new();
        Self { end, payload }
    }
}

impl App for DatagramSink {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.bind(self.end.profile, self.end.local).map(|_| ())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        if event == SocketEvent::Readable {
            while let Some(datagram) = host.receive_from(socket, &mut self.payload) {
                self.end.account.deliver(host, u64::from(datagram.len));
            }
        }
    }

    fn end(&mut self, host: &mut dyn Sockets) {
        self.end.account.end(host);
    }
}
