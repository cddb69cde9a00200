//! The client's side: an application whose connections go by a proxy.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use narrows_core::{
    App, ConnectionError, CountedBytes, Data, Datagram, DatagramError, Event, FlowSample, Profile,
    Relayed, SocketError, SocketEvent, SocketId, Sockets,
};
use narrows_units::{Duration, Instant};

use crate::convert::{Reader, Tlv};
use crate::request::{Layout, request};

/// When the application's first data may leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum FirstData {
    /// With the request, in the SYN where Fast Open allows it. What is in a SYN may
    /// reach the destination twice (RFC 7413 §2.1): for what bears it only.
    WithRequest,
    /// When the proxy has accepted the connection; the request alone is in the SYN.
    #[default]
    AfterHandshake,
    /// When the proxy has answered that the destination has accepted.
    AfterAnswer,
}

/// How to go by a proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Where the proxy listens.
    pub proxy: SocketAddr,
    /// How it is asked.
    pub layout: Layout,
    /// When data follows.
    pub first_data: FirstData,
}

/// A connection to the proxy.
#[derive(Debug)]
struct Path {
    /// What is left of the request: a socket may take nothing before it is open.
    request: Vec<u8>,
    /// Reads the proxy's answer, until that is here.
    answer: Option<Reader>,
    /// When data may go.
    first_data: FirstData,
    /// How far the connection has come.
    reached: FirstData,
    /// Whether the application asked for room.
    wants_room: bool,
}

/// An application whose connections go by a proxy: it opens and uses them as if they led
/// straight to their destinations.
///
/// As with Fast Open, a connection is established before it is known whether the
/// destination accepts: that it does not is a reset later.
#[derive(Debug)]
pub struct Via<A> {
    app: A,
    route: Route,
    paths: BTreeMap<SocketId, Path>,
}

impl<A: App> Via<A> {
    /// `app`, by `route`.
    pub fn new(app: A, route: Route) -> Self {
        Self {
            app,
            route,
            paths: BTreeMap::new(),
        }
    }

    /// The application, and the sockets as it sees them.
    fn parts<'a>(&'a mut self, host: &'a mut dyn Sockets) -> (&'a mut A, Through<'a>) {
        let through = Through {
            host,
            route: self.route,
            paths: &mut self.paths,
        };
        (&mut self.app, through)
    }

    /// Reads the proxy's answer as far as it is here; what then became of the connection.
    fn read_answer(&mut self, host: &mut dyn Sockets, socket: SocketId) -> Result<(), ()> {
        let Some(path) = self.paths.get_mut(&socket) else {
            return Ok(());
        };
        while let Some(reader) = &mut path.answer {
            let mut bytes = Vec::new();
            if host.read(socket, reader.wanted() as u64, Some(&mut bytes)) == 0 {
                return Ok(());
            }
            match reader.take(&bytes) {
                Ok(None) => {}
                Ok(Some((message, _))) => {
                    path.answer = None;
                    path.reached = FirstData::AfterAnswer;
                    if message.tlvs.iter().any(|tlv| matches!(tlv, Tlv::Error(_))) {
                        return Err(());
                    }
                    path.advance(host, socket);
                }
                Err(_) => return Err(()),
            }
        }
        Ok(())
    }
}

impl Path {
    /// Whether the application's data may go.
    fn is_open(&self) -> bool {
        self.request.is_empty() && self.first_data <= self.reached
    }

    /// Writes what is left of the request, and asks for room for what is next.
    fn advance(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        if !self.request.is_empty() {
            let taken = host.write(socket, Data::Bytes(&self.request));
            self.request.drain(..taken as usize);
        }
        let more = match self.is_open() {
            true => self.wants_room,
            false => !self.request.is_empty(),
        };
        host.want_room(socket, more);
    }
}

impl<A: App> App for Via<A> {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        let (app, mut through) = self.parts(host);
        app.start(&mut through)
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        let mut event = event;
        if let Some(path) = self.paths.get_mut(&socket) {
            match event {
                SocketEvent::Established { .. } => {
                    path.reached = path.reached.max(FirstData::AfterHandshake);
                    path.advance(host, socket);
                }
                SocketEvent::Writable if !path.is_open() => {
                    path.advance(host, socket);
                    if !path.is_open() {
                        return;
                    }
                }
                SocketEvent::Readable | SocketEvent::PeerClosed => {
                    let read = self.read_answer(host, socket);
                    let answered = self.paths.get(&socket).is_none_or(|p| p.answer.is_none());
                    // A proxy that ends the stream without an answer refuses as well.
                    if read.is_err() || (event == SocketEvent::PeerClosed && !answered) {
                        host.reset(socket);
                        event = SocketEvent::Broken(ConnectionError::Reset);
                    } else if !answered {
                        return;
                    }
                }
                _ => {}
            }
        }
        if matches!(event, SocketEvent::Broken(_)) {
            self.paths.remove(&socket);
        }
        let (app, mut through) = self.parts(host);
        app.on_event(socket, event, &mut through);
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let (app, mut through) = self.parts(host);
        app.on_timer(&mut through);
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        let (app, mut through) = self.parts(host);
        app.sample(&mut through);
    }

    fn end(&mut self, host: &mut dyn Sockets) {
        let (app, mut through) = self.parts(host);
        app.end(&mut through);
    }
}

/// Sockets whose connections go by a proxy.
struct Through<'a> {
    host: &'a mut dyn Sockets,
    route: Route,
    paths: &'a mut BTreeMap<SocketId, Path>,
}

impl Sockets for Through<'_> {
    fn connect(
        &mut self,
        profile: Profile,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<SocketId, SocketError> {
        let Route {
            proxy,
            layout,
            first_data,
        } = self.route;
        let request = request(layout, remote, None).ok_or(SocketError::Unreachable(remote))?;
        let socket = self.host.connect(profile, local, proxy)?;
        let mut path = Path {
            request,
            answer: (layout == Layout::Convert).then(Reader::default),
            first_data,
            reached: FirstData::WithRequest,
            wants_room: false,
        };
        path.advance(self.host, socket);
        self.paths.insert(socket, path);
        Ok(socket)
    }

    fn write(&mut self, socket: SocketId, data: Data<'_>) -> u64 {
        match self.paths.get(&socket) {
            Some(path) if !path.is_open() => 0,
            _ => self.host.write(socket, data),
        }
    }

    fn want_room(&mut self, socket: SocketId, want: bool) {
        match self.paths.get_mut(&socket) {
            Some(path) => {
                path.wants_room = want;
                path.advance(self.host, socket);
            }
            None => self.host.want_room(socket, want),
        }
    }

    fn close(&mut self, socket: SocketId) {
        self.paths.remove(&socket);
        self.host.close(socket);
    }

    fn probe(&mut self, socket: SocketId, every: Duration) {
        self.host.probe(socket, every);
    }

    fn now(&self) -> Instant {
        self.host.now()
    }

    fn record(&mut self, event: Event<'static>) {
        self.host.record(event);
    }

    fn wake_at(&mut self, at: Option<Instant>) {
        self.host.wake_at(at);
    }

    fn listen(
        &mut self,
        profile: Profile,
        local: SocketAddr,
        backlog: u32,
    ) -> Result<SocketId, SocketError> {
        self.host.listen(profile, local, backlog)
    }

    fn accept(&mut self, listener: SocketId) -> Option<(SocketId, SocketAddr)> {
        self.host.accept(listener)
    }

    fn bind(&mut self, profile: Profile, local: SocketAddr) -> Result<SocketId, SocketError> {
        self.host.bind(profile, local)
    }

    fn destination_of(&mut self, socket: SocketId) -> Option<SocketAddr> {
        self.host.destination_of(socket)
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.host.is_own(address)
    }

    fn read(&mut self, socket: SocketId, most: u64, into: Option<&mut Vec<u8>>) -> u64 {
        self.host.read(socket, most, into)
    }

    fn relay(
        &mut self,
        from: SocketId,
        to: SocketId,
        ahead: u64,
        queue: &mut CountedBytes,
    ) -> Relayed {
        self.host.relay(from, to, ahead, queue)
    }

    fn shut_down(&mut self, socket: SocketId) {
        self.host.shut_down(socket);
    }

    fn reset(&mut self, socket: SocketId) {
        self.host.reset(socket);
    }

    fn set_option(&mut self, socket: SocketId, name: &str, value: u64) -> Result<(), SocketError> {
        self.host.set_option(socket, name, value)
    }

    fn option(&mut self, socket: SocketId, name: &str) -> Option<u64> {
        self.host.option(socket, name)
    }

    fn sample(&mut self, socket: SocketId) -> Option<FlowSample> {
        self.host.sample(socket)
    }

    fn send_to(
        &mut self,
        socket: SocketId,
        to: SocketAddr,
        payload: &[u8],
        len: u32,
    ) -> Result<(), SocketError> {
        self.host.send_to(socket, to, payload, len)
    }

    fn receive_from(&mut self, socket: SocketId, into: &mut Vec<u8>) -> Option<Datagram> {
        self.host.receive_from(socket, into)
    }

    fn receive_error(&mut self, socket: SocketId, into: &mut Vec<u8>) -> Option<DatagramError> {
        self.host.receive_error(socket, into)
    }
}
