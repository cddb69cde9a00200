//! The kernel's sockets below those of a host.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use narrows_core::{Endpoint, Packet, PacketPool, Profile, SocketError};
use narrows_engine::{Carrier, SocketPlan};
use narrows_host::System;
use narrows_linux::datagrams::{DatagramSocket, LARGEST};
use narrows_units::Instant;
use narrows_wire::FlowKey;
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};

use super::error::FlowError;
use super::options::{Owner, StreamOptions};
use super::tcp::{KernelTcp, Stack};
use super::udp::Port;
use crate::Clock;

/// Tokens of UDP ports; those of other sockets are their numbers.
pub const PORTS: u64 = 1 << 32;

/// The options of sockets, as the kernel needs them.
pub struct Options {
    /// What it belongs to, for errors: `flow/NAME`.
    pub owner: String,
    /// Whether readers are in no hurry: those of flows.
    lazy: bool,
    /// Those of the kernel's TCP; else it is UDP.
    pub tcp: Option<StreamOptions>,
    /// Whether what runs over UDP waits for room.
    waits: bool,
    /// Whether datagrams may be fragmented: those of flows of the plan, whatever their
    /// size.
    fragments: bool,
}

impl Options {
    /// What `socket` asks for, with the kernel's name of its congestion control.
    pub fn new(socket: &SocketPlan, control: String) -> Self {
        let datagrams = |transport| matches!(transport, &narrows_host::Transport::Datagrams);
        let (tcp, waits) = match &socket.carrier {
            Carrier::Tcp(tcp) => (Some(StreamOptions::new(socket, tcp, control)), false),
            Carrier::Shared(transport) => (None, !datagrams(transport)),
        };
        Self {
            owner: socket.owner.clone(),
            lazy: socket.end_of().is_some() && !socket.sends(),
            tcp,
            waits,
            fragments: socket.end_of().is_some() && !waits,
        }
    }
}

/// A socket of the kernel's that waits for connections.
pub struct Listener {
    fd: OwnedFd,
    profile: usize,
    /// Whether there may be some.
    pub ready: bool,
}

/// The kernel's sockets of one host.
pub struct Kernel {
    /// What is waited with.
    pub epoll: Epoll,
    /// Why a socket was refused last.
    pub refusal: Option<FlowError>,
    /// By profile.
    pub options: Vec<Options>,
    stack: Option<Stack>,
    /// What connections are ready for, by socket.
    streams: BTreeMap<u32, Rc<Cell<EpollFlags>>>,
    /// By socket.
    pub listeners: BTreeMap<u32, Listener>,
    /// Connections whose readers are in no hurry.
    pub lazy: BTreeSet<u32>,
    /// By [`number_of`] their addresses.
    pub ports: BTreeMap<u64, Port>,
    buffer: Vec<u8>,
}

impl Kernel {
    /// Without sockets; `stack` is what connections of its TCP have in common, if there
    /// are to be such.
    pub fn new(epoll: Epoll, options: Vec<Options>, stack: Option<Stack>) -> Self {
        Self {
            epoll,
            refusal: None,
            options,
            stack,
            streams: BTreeMap::new(),
            listeners: BTreeMap::new(),
            lazy: BTreeSet::new(),
            ports: BTreeMap::new(),
            buffer: vec![0; LARGEST],
        }
    }

    /// Notes what connection `s` is ready for.
    pub fn ready(&self, s: u32, flags: EpollFlags) {
        if let Some(ready) = self.streams.get(&s) {
            ready.set(ready.get() | flags);
        }
    }

    /// Whether connections wait that were written or read for long.
    pub fn has_waiting(&self) -> bool {
        self.stack
            .as_ref()
            .is_some_and(|s| !s.again.borrow().is_empty())
    }

    /// These connections, which have their turn now.
    pub fn take_waiting(&self) -> Vec<u32> {
        let again = self.stack.as_ref().map(|stack| &stack.again);
        again.map_or_else(Vec::new, |again| again.take())
    }

    /// Ports whose readers are in no hurry.
    pub fn lazy_ports(&self) -> Vec<u64> {
        let lazy = self.ports.iter().filter(|(_, port)| port.lazy);
        lazy.map(|(number, _)| *number).collect()
    }

    /// Whether there is anything whose readers are in no hurry.
    pub fn has_lazy(&self) -> bool {
        !self.lazy.is_empty() || self.ports.values().any(|port| port.lazy)
    }

    /// The next connection to listener `s`, which is to be socket `new`.
    pub fn accept(&mut self, s: u32, new: u32) -> Option<(SocketAddr, Box<dyn Endpoint>)> {
        let listener = self.listeners.get_mut(&s)?;
        let accepted = || -> std::io::Result<(OwnedFd, SocketAddr)> {
            let listener = TcpListener::from(listener.fd.try_clone()?);
            let (connection, remote) = listener.accept()?;
            connection.set_nonblocking(true)?;
            Ok((connection.into(), remote))
        };
        let (connection, remote) = match accepted() {
            Ok(accepted) => accepted,
            Err(e) => {
                // Others are connections that were gone before they were accepted.
                listener.ready = e.kind() != std::io::ErrorKind::WouldBlock;
                return None;
            }
        };
        let profile = listener.profile;
        let options = (profile, self.options[profile].tcp.as_ref()?);
        let tcp = KernelTcp::accepted(connection, self.stack.as_ref()?, new, options, remote);
        self.watch_stream(new, profile, &tcp).ok()?;
        Some((remote, Box::new(tcp)))
    }

    fn watch_stream(&mut self, s: u32, profile: usize, tcp: &KernelTcp) -> Result<(), SocketError> {
        if let Some(socket) = tcp.socket() {
            self.watch(u64::from(s), socket)?;
        }
        self.streams.insert(s, tcp.readiness());
        if self.options[profile].lazy {
            self.lazy.insert(s);
        }
        Ok(())
    }

    /// Reports each change of the readiness of `fd` once.
    fn watch(&self, token: u64, fd: impl AsFd) -> Result<(), SocketError> {
        let flags = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLET;
        let added = self.epoll.add(fd, EpollEvent::new(flags, token));
        added.map_err(|e| SocketError::System(e as i32))
    }

    /// Sends a packet from the port that its header names.
    pub fn send(&mut self, packet: Box<Packet>, pool: &mut PacketPool) {
        let key = FlowKey::of(&packet.bytes);
        let local = key.map(|key| SocketAddr::new(key.source, key.source_port));
        match local.and_then(|local| self.ports.get_mut(&number_of(local))) {
            Some(port) => port.send(packet, pool, &mut self.buffer),
            None => pool.give(packet),
        }
    }

    /// Keeps why a socket was refused; returns the error for the application.
    fn refuse(&mut self, local: SocketAddr, error: FlowError) -> SocketError {
        let reason = match &error {
            FlowError::Socket { reason, .. } | FlowError::Control { reason, .. } => {
                reason.raw_os_error().map(Errno::from_raw)
            }
            _ => None,
        };
        self.refusal = Some(error);
        match reason {
            Some(Errno::EADDRINUSE) => SocketError::AddressInUse(local),
            Some(Errno::EADDRNOTAVAIL) => SocketError::NoPort,
            errno => SocketError::System(errno.map_or(0, |e| e as i32)),
        }
    }

    fn open_port(&mut self, profile: usize, local: SocketAddr) -> Result<(), SocketError> {
        let options = &self.options[profile];
        let made = DatagramSocket::bound(local, options.fragments);
        let (socket, roomy) = match made {
            Ok(made) => made,
            Err(error) => {
                let error = Owner(&options.owner).refused(error, "");
                return Err(self.refuse(local, error));
            }
        };
        let number = number_of(local);
        let mut port = Port::new(socket, local, profile);
        port.lazy = roomy && options.lazy && !options.waits;
        port.waits = options.waits;
        // Transports of ours take no reports; an application's datagrams do.
        port.keeps_reports =
            !options.waits && !options.fragments && port.socket.keep_path_reports().is_ok();
        if !port.lazy {
            self.watch(PORTS + number, &port.socket)?;
        }
        self.ports.insert(number, port);
        Ok(())
    }

    /// Port `number` is ready for `flags`: sends what waits, and takes some of what has
    /// arrived.
    pub fn serve_port(
        &mut self,
        number: u64,
        flags: EpollFlags,
        clock: &Clock,
        pool: &mut PacketPool,
    ) -> Vec<(Instant, Box<Packet>)> {
        let Some(port) = self.ports.get_mut(&number) else {
            return Vec::new();
        };
        if flags.contains(EpollFlags::EPOLLOUT) {
            port.flush(pool, &mut self.buffer);
        }
        port.receive(clock, pool, &mut self.buffer)
    }
}

/// The number of the UDP port at `local`: a host has one address of each version of IP.
fn number_of(local: SocketAddr) -> u64 {
    u64::from(local.is_ipv6()) << 16 | u64::from(local.port())
}

impl System for Kernel {
    fn tcp(
        &mut self,
        s: u32,
        Profile(profile): Profile,
        local: SocketAddr,
        remote: SocketAddr,
    ) -> Result<Box<dyn Endpoint>, SocketError> {
        let profile = profile as usize;
        let options = self.options[profile].tcp.as_ref();
        let (options, stack) = options
            .zip(self.stack.as_ref())
            .ok_or(SocketError::Unsupported)?;
        let socket = match options.connecting(local) {
            Ok(socket) => socket,
            Err(error) => return Err(self.refuse(local, error)),
        };
        let tcp = KernelTcp::client(socket, stack, s, (profile, options), remote);
        self.watch_stream(s, profile, &tcp)?;
        Ok(Box::new(tcp))
    }

    fn bind(
        &mut self,
        s: u32,
        Profile(profile): Profile,
        local: SocketAddr,
        backlog: Option<u32>,
    ) -> Result<(), SocketError> {
        let profile = profile as usize;
        if let (Some(options), Some(backlog)) = (&self.options[profile].tcp, backlog) {
            let fd = match options.listening(local, backlog) {
                Ok(fd) => fd,
                Err(error) => return Err(self.refuse(local, error)),
            };
            self.watch(u64::from(s), &fd)?;
            let ready = false;
            self.listeners.insert(s, Listener { fd, profile, ready });
            return Ok(());
        }
        if !self.ports.contains_key(&number_of(local)) {
            self.open_port(profile, local)?;
        }
        if let Some(port) = self.ports.get_mut(&number_of(local)) {
            port.users.insert(s);
        }
        Ok(())
    }

    fn release(&mut self, s: u32) {
        self.streams.remove(&s);
        self.listeners.remove(&s);
        self.lazy.remove(&s);
        self.ports
            .retain(|_, port| !port.users.remove(&s) || !port.users.is_empty());
    }
}
