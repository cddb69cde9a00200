//! The socket interface over a machine's own sockets.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use narrows_packet::{
    Data, Datagram, Endpoint, Event, Profile, Role, SocketError, SocketId, Sockets,
};
use narrows_units::Instant;
use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::error::FlowError;
use super::host::{Host, MadeBy, PORTS};
use super::options::Owner;
use super::socket::{Carrier, Kind, Socket, Stream};
use super::tcp::KernelTcp;
use super::udp::{Datagrams, Port};

/// What application `app` may do on its host.
pub struct Api<'h> {
    /// The host.
    pub host: &'h mut Host,
    /// The application's index.
    pub app: usize,
}

impl Api<'_> {
    /// The socket, if it is this application's.
    fn own(&mut self, socket: SocketId) -> Option<&mut Socket> {
        let app = self.app;
        let socket = self.host.sockets.get_mut(socket.0 as usize)?.as_mut()?;
        (socket.app == Some(app)).then_some(socket)
    }

    fn stream(&mut self, socket: SocketId) -> Option<&mut Stream> {
        self.own(socket).and_then(Socket::stream)
    }

    /// Notes that a connection has something to send, or an event to report.
    fn note(&mut self, socket: SocketId) {
        if self.host.current == Some(socket.0) {
            self.host.changed = true;
        } else if self.own(socket).is_some() {
            self.host.mark_dirty(socket.0);
        }
    }

    /// Keeps why a socket was refused; what the application is told.
    fn refuse(&mut self, local: SocketAddr, error: FlowError) -> SocketError {
        let reason = match &error {
            FlowError::Socket { reason, .. } | FlowError::Control { reason, .. } => {
                reason.raw_os_error()
            }
            _ => None,
        };
        self.host.refusal = Some(error);
        match reason {
            Some(nix::libc::EADDRINUSE) => SocketError::AddressInUse(local),
            Some(nix::libc::EADDRNOTAVAIL) => SocketError::NoPort,
            errno => SocketError::System(errno.unwrap_or_default()),
        }
    }

    /// The host's address of the IP version of `remote`, with a port that the kernel chooses.
    fn any_port(&self, remote: SocketAddr) -> SocketAddr {
        let [four, six] = self.host.addresses;
        SocketAddr::new(if remote.is_ipv4() { four } else { six }, 0)
    }

    fn open(&mut self, profile: Profile, kind: Kind) -> u32 {
        self.host.open(kind, Some(self.app), profile.0 as usize)
    }

    /// A connection of the kernel's, from now on.
    fn kernel(
        &mut self,
        profile: Profile,
        tcp: KernelTcp,
        remote: SocketAddr,
    ) -> Result<SocketId, SocketError> {
        let stream = Stream::new(Carrier::Kernel(Box::new(tcp)), remote);
        let s = self.open(profile, Kind::Stream(stream));
        self.host.watch_socket(s)?;
        if let MadeBy::Kernel(options) = &self.host.profiles[profile.0 as usize].made_by {
            if options.lazy {
                self.host.read_now_and_then(s);
            }
        }
        self.note(SocketId(s));
        Ok(SocketId(s))
    }

    /// The UDP port at `local`, which is opened unless it is there.
    fn port(&mut self, profile: Profile, local: SocketAddr) -> Result<usize, SocketError> {
        let at = |port: &Option<Port>| port.as_ref().is_some_and(|p| p.local() == local);
        if let Some(p) = self.host.ports.iter().position(at) {
            return Ok(p);
        }
        let port = Port::bind(local).map_err(|e| {
            let owner = &self.host.profiles[profile.0 as usize].owner;
            let error = Owner(owner).cannot(format!("have {local}"))(e);
            self.refuse(local, error)
        })?;
        let free = self.host.ports.iter().position(Option::is_none);
        let p = free.unwrap_or(self.host.ports.len());
        let event = EpollEvent::new(EpollFlags::EPOLLIN, PORTS + p as u64);
        let added = self.host.epoll.add(&port.io, event);
        added.map_err(|e| SocketError::System(e as i32))?;
        if p == self.host.ports.len() {
            self.host.ports.push(Some(port));
        } else {
            self.host.ports[p] = Some(port);
        }
        Ok(p)
    }

    fn accept_from_kernel(&mut self, listener: SocketId) -> Option<(SocketId, SocketAddr)> {
        let socket = self.own(listener)?;
        let profile = Profile(socket.profile as u32);
        let Kind::KernelListener(fd) = &socket.kind else {
            return None;
        };
        let accepted = || -> std::io::Result<(OwnedFd, SocketAddr)> {
            let listener = TcpListener::from(fd.try_clone()?);
            let (connection, remote) = listener.accept()?;
            connection.set_nonblocking(true)?;
            Ok((connection.into(), remote))
        };
        // An error is a connection that was gone before it was accepted.
        let (connection, remote) = accepted().ok()?;
        let tcp = KernelTcp::accepted(connection, self.host.stack.as_ref()?, remote);
        let socket = self.kernel(profile, tcp, remote).ok()?;
        Some((socket, remote))
    }
}

impl Sockets for Api<'_> {
    fn now(&self) -> Instant {
        self.host.clock.now()
    }

    fn record(&mut self, event: Event<'static>) {
        self.host.reporter.report(self.host.clock.now(), event);
    }

    fn wake_at(&mut self, at: Option<Instant>) {
        self.host.wakes.set(Host::app_slot(self.app), at);
    }

    fn connect(
        &mut self,
        profile: Profile,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<SocketId, SocketError> {
        let local = local.unwrap_or_else(|| self.any_port(remote));
        let index = profile.0 as usize;
        match &self.host.profiles[index].made_by {
            MadeBy::Datagrams => Err(SocketError::Unsupported),
            MadeBy::Kernel(options) => {
                let stack = self.host.stack.as_ref().ok_or(SocketError::Unsupported)?;
                let (ask, note) = stack.ecn.ask(options.ecn, options.needs);
                let with_syn = options.with_syn();
                let socket = match options.connecting(local) {
                    Ok(socket) => socket,
                    Err(error) => return Err(self.refuse(local, error)),
                };
                let mut tcp = KernelTcp::client(socket, stack, remote, ask, with_syn);
                tcp.open(self.host.clock.now());
                if let Some(end) = self.host.end_of(index) {
                    end.notes.extend(note.map(str::to_owned));
                }
                self.kernel(profile, tcp, remote)
            }
            MadeBy::Us(_) => {
                let p = self.port(profile, local)?;
                let made = self.host.make(index, Role::Initiator, local, remote);
                let mut endpoint = made.ok_or(SocketError::Unsupported)?;
                endpoint.open(self.host.clock.now());
                let stream = Stream::new(Carrier::Port(endpoint, p), remote);
                let s = self.open(profile, Kind::Stream(stream));
                if let Some(port) = &mut self.host.ports[p] {
                    port.connections.insert(remote, s);
                }
                self.note(SocketId(s));
                Ok(SocketId(s))
            }
        }
    }

    fn listen(
        &mut self,
        profile: Profile,
        local: SocketAddr,
        backlog: u32,
    ) -> Result<SocketId, SocketError> {
        match &self.host.profiles[profile.0 as usize].made_by {
            MadeBy::Datagrams => Err(SocketError::Unsupported),
            MadeBy::Kernel(options) => {
                let socket = match options.listening(local, backlog) {
                    Ok(socket) => socket,
                    Err(error) => return Err(self.refuse(local, error)),
                };
                let s = self.open(profile, Kind::KernelListener(socket));
                self.host.watch_socket(s)?;
                Ok(SocketId(s))
            }
            MadeBy::Us(_) => {
                let port = self.port(profile, local)?;
                let s = self.open(
                    profile,
                    Kind::Listener {
                        port,
                        pending: VecDeque::new(),
                        waiting: 0,
                        backlog,
                    },
                );
                if let Some(port) = &mut self.host.ports[port] {
                    port.listener = Some(s);
                }
                Ok(SocketId(s))
            }
        }
    }

    fn accept(&mut self, listener: SocketId) -> Option<(SocketId, SocketAddr)> {
        let app = self.app;
        let child = match &mut self.own(listener)?.kind {
            Kind::KernelListener(_) => return self.accept_from_kernel(listener),
            Kind::Listener {
                pending, waiting, ..
            } => {
                let child = pending.pop_front()?;
                *waiting = waiting.saturating_sub(1);
                child
            }
            _ => return None,
        };
        let socket = self.host.sockets[child as usize].as_mut()?;
        socket.app = Some(app);
        let stream = socket.stream()?;
        stream.listener = None;
        let remote = stream.remote;
        self.note(SocketId(child));
        Some((SocketId(child), remote))
    }

    fn bind(&mut self, profile: Profile, local: SocketAddr) -> Result<SocketId, SocketError> {
        let options = &self.host.profiles[profile.0 as usize];
        if !matches!(options.made_by, MadeBy::Datagrams) {
            return Err(SocketError::Unsupported);
        }
        let (socket, roomy) = match Owner(&options.owner).datagrams(local, options.class) {
            Ok(made) => made,
            Err(error) => return Err(self.refuse(local, error)),
        };
        let lazy = roomy && options.flow.is_some() && !options.sends;
        let s = self.open(profile, Kind::Datagrams(Datagrams::new(socket)));
        if lazy {
            self.host.read_now_and_then(s);
        } else {
            self.host.watch_socket(s)?;
        }
        Ok(SocketId(s))
    }

    fn read(&mut self, socket: SocketId, most: u64, into: Option<&mut Vec<u8>>) -> u64 {
        let Some(stream) = self.stream(socket) else {
            return 0;
        };
        let bytes = stream.endpoint().read(most, into);
        // A window update may be due; the kernel may have said that this is the end.
        if bytes > 0 || stream.kernel().is_some() {
            self.note(socket);
        }
        bytes
    }

    fn write(&mut self, socket: SocketId, data: Data<'_>) -> u64 {
        let Some(stream) = self.stream(socket) else {
            return 0;
        };
        if stream.endpoint().room() == 0 || data.is_empty() {
            return 0;
        }
        let taken = stream.endpoint().write(data);
        // The kernel takes nothing, too, where the connection is gone.
        if taken > 0 || stream.kernel().is_some() {
            self.note(socket);
        }
        taken
    }

    fn want_room(&mut self, socket: SocketId, want: bool) {
        if let Some(stream) = self.stream(socket) {
            stream.wants_room = want;
            if want {
                self.note(socket);
            }
        }
    }

    fn shut_down(&mut self, socket: SocketId) {
        let now = self.host.clock.now();
        match self.own(socket).map(|s| &mut s.kind) {
            Some(Kind::Stream(stream)) => stream.endpoint().shut_down(now),
            Some(Kind::Listener { .. } | Kind::KernelListener(_)) => self.close(socket),
            Some(Kind::Datagrams(_)) | None => return,
        }
        self.note(socket);
    }

    fn reset(&mut self, socket: SocketId) {
        self.host.look(socket.0, true);
        let now = self.host.clock.now();
        if let Some(stream) = self.stream(socket) {
            stream.endpoint().abort(now);
            self.note(socket);
        }
    }

    fn close(&mut self, socket: SocketId) {
        self.host.look(socket.0, true);
        let now = self.host.clock.now();
        let Some(used) = self.own(socket) else { return };
        if let Some(stream) = used.stream() {
            stream.endpoint().close(now);
            stream.wants_room = false;
        }
        let listens = matches!(used.kind, Kind::Listener { .. });
        used.app = None;
        if listens {
            self.host.reset_waiting(now, socket.0);
        }
        self.host.mark_dirty(socket.0);
    }

    fn send_to(
        &mut self,
        socket: SocketId,
        to: SocketAddr,
        payload: &[u8],
        len: u32,
    ) -> Result<(), SocketError> {
        let mut buffer = std::mem::take(&mut self.host.buffer);
        let sent = match self.own(socket).map(|s| &mut s.kind) {
            None => Err(SocketError::Closed),
            Some(Kind::Datagrams(datagrams)) => datagrams
                .send(to, payload, len, &mut buffer)
                .map_err(|e| SocketError::System(e as i32)),
            Some(_) => Err(SocketError::Unsupported),
        };
        self.host.buffer = buffer;
        sent
    }

    fn receive_from(&mut self, socket: SocketId, into: &mut Vec<u8>) -> Option<Datagram> {
        let clock = self.host.clock;
        let mut buffer = std::mem::take(&mut self.host.buffer);
        let received = match self.own(socket).map(|s| &mut s.kind) {
            Some(Kind::Datagrams(datagrams)) => datagrams.receive(&clock, into, &mut buffer),
            _ => None,
        };
        self.host.buffer = buffer;
        received
    }
}
