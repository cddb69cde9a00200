//! A machine's own TCP sockets below a proxy, served by one epoll: those of a laboratory's
//! host ([`flows`](narrows_live::flows)) are made for a plan, with addresses, ports and options of
//! its own; these for whoever comes, from and to anywhere. What both layers do alike is in
//! [`stream_calls`](narrows_linux::stream_calls).

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use narrows_bpf::SocketOptions;
use narrows_core::{
    CountedBytes, Data, Datagram, Event, FlowSample, Profile, Relayed, SocketError, SocketEvent,
    SocketId, Sockets,
};
use narrows_linux::socket_option;
use narrows_linux::stream_calls::{connection_error, first_of};
use narrows_linux::tcp_options::{RESET, TcpOptions, family, keep_alive};
use narrows_live::options_of;
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::libc;
use nix::sys::epoll::{Epoll, EpollEvent, EpollFlags};
use nix::sys::socket::{
    MsgFlags, SockaddrStorage, bind, connect, getsockopt, send, sendto, setsockopt, sockopt,
};

use super::listening::ListeningSocket;
use super::own::OwnAddresses;
use super::peers::Peers;
use super::relay::{Pipe, READ_AHEAD};
use super::stream::{Phase, Stream, socket_error};
use super::turns::{ACCEPTED, TURN};

/// Finds out where to a connection had been opened that was led here, by its socket and
/// who opened it.
pub(super) type Origin = dyn FnMut(&OwnedFd, SocketAddr) -> Option<SocketAddr> + Send;

#[derive(Debug)]
pub(super) enum Kind {
    Listener(ListeningSocket),
    Stream(Stream),
}

#[derive(Debug, Default)]
pub(super) struct Slot {
    /// How many sockets had the number before.
    generation: u32,
    pub(super) kind: Option<Kind>,
}

/// The operating system's sockets of one thread, below its proxy.
pub(super) struct OsSockets {
    pub(super) epoll: Epoll,
    begun: std::time::Instant,
    pub(super) now: Instant,
    wake: Option<Instant>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    pub(super) profiles: Vec<TcpOptions>,
    /// What sets options of sockets with controls of ours.
    controls: Vec<SocketOptions>,
    /// Listening sockets that the process was given.
    pub(super) given: BTreeMap<SocketAddr, TcpListener>,
    /// Where it listens, by which tokens.
    pub(super) listeners: BTreeMap<SocketAddr, u64>,
    /// The thread's place, where others serve the same clients.
    pub(super) peers: Option<Peers>,
    /// The address that could not be listened at.
    pub(super) refused: Option<SocketAddr>,
    origin: Box<Origin>,
    own: OwnAddresses,
    pub(super) events: VecDeque<(u64, SocketEvent)>,
    /// Sockets that move large pieces, or have more to read, in the order in which they have their
    /// turns: one, then whoever has become ready meanwhile.
    pub(super) later: VecDeque<u64>,
    deferred: Vec<u64>,
    /// Connections that were accepted in this turn: those that are kept are waited for.
    pub(super) fresh: Vec<u64>,
    /// Listeners with more clients when others have had their turn.
    pub(super) more_clients: Vec<u64>,
    /// When accepting goes on, and of which listeners.
    pub(super) exhausted: Option<(Instant, Vec<u64>)>,
    /// Until when it is not said again that none can be accepted.
    pub(super) said: Option<Instant>,
    /// What may still be read in this turn.
    pub(super) turn: usize,
    /// How many clients may still be accepted before others have their turn.
    pub(super) accepts: usize,
    pub(super) scratch: Vec<u8>,
    pub(super) pipe: Option<Pipe>,
    /// The shortest round trip to senders of whom is read what does not go out yet.
    pub(super) read_ahead: Duration,
}

impl OsSockets {
    pub fn new(epoll: Epoll, given: Vec<TcpListener>, origin: Box<Origin>) -> io::Result<Self> {
        let with_address = |listener: TcpListener| {
            listener.set_nonblocking(true)?;
            Ok((listener.local_addr()?, listener))
        };
        let given = given.into_iter().map(with_address);
        Ok(Self {
            epoll,
            begun: std::time::Instant::now(),
            now: Instant::ZERO,
            wake: None,
            slots: Vec::new(),
            free: Vec::new(),
            profiles: Vec::new(),
            controls: Vec::new(),
            given: given.collect::<io::Result<_>>()?,
            listeners: BTreeMap::new(),
            peers: None,
            refused: None,
            origin,
            own: OwnAddresses::new(),
            events: VecDeque::new(),
            later: VecDeque::new(),
            deferred: Vec::new(),
            fresh: Vec::new(),
            more_clients: Vec::new(),
            exhausted: None,
            said: None,
            turn: TURN,
            accepts: ACCEPTED,
            scratch: vec![0; TURN],
            pipe: Pipe::open(),
            read_ahead: READ_AHEAD,
        })
    }

    /// Of senders whose round trip is at least `rtt` more is read than goes out.
    pub fn read_ahead_from(&mut self, rtt: Duration) {
        self.read_ahead = rtt;
    }

    pub fn epoll(&self) -> &Epoll {
        &self.epoll
    }

    /// Sockets may have the congestion controls of `options`.
    pub fn use_controls(&mut self, options: Vec<SocketOptions>) {
        self.controls = options;
    }

    /// The next connections' options, by a number of their own.
    pub fn add_profile(&mut self, options: TcpOptions) -> Profile {
        let known = self.profiles.iter().position(|known| *known == options);
        let at = known.unwrap_or_else(|| {
            self.profiles.push(options);
            self.profiles.len() - 1
        });
        Profile(u32::try_from(at).unwrap_or(u32::MAX))
    }

    /// Reads the clock.
    pub fn tick(&mut self) {
        let ns = u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.now = Instant::ZERO + Duration::from_nanos(ns);
    }

    /// How long nothing needs to be done unless something happens.
    pub fn patience(&self) -> Option<Duration> {
        let waits = !self.later.is_empty();
        if waits || !self.more_clients.is_empty() || !self.events.is_empty() {
            return Some(Duration::ZERO);
        }
        let paused = self.exhausted.as_ref().map(|(at, _)| *at);
        let next = [self.wake, paused].into_iter().flatten().min()?;
        Some(next.since(self.now))
    }

    /// Whether the application's timer has expired, which it then is no more.
    pub fn expired(&mut self) -> bool {
        self.wake.take_if(|at| *at <= self.now).is_some()
    }

    /// The address that could not be listened at last.
    pub fn refused(&self) -> Option<SocketAddr> {
        self.refused
    }

    /// Listening sockets that were given and have no listener.
    pub fn not_taken(&self) -> impl Iterator<Item = SocketAddr> {
        self.given.keys().copied()
    }

    /// The next event for the application. Each begins a turn.
    pub fn next_event(&mut self) -> Option<(SocketId, SocketEvent)> {
        loop {
            let (token, event) = self.events.pop_front()?;
            if self.at(token).is_some() {
                self.turn = TURN;
                return Some((SocketId(token as u32), event));
            }
        }
    }

    /// What is to be done at the end of a turn: who was accepted and is kept is waited for, and
    /// SYNs go out for which there was no data.
    pub fn end_turn(&mut self) {
        for token in std::mem::take(&mut self.fresh) {
            if self.stream(token).is_some() {
                self.watch_stream(token);
            }
        }
        for token in std::mem::take(&mut self.deferred) {
            let Some(stream) = self.stream(token) else {
                continue;
            };
            if let Phase::Deferred(to) = stream.phase {
                stream.phase = Phase::Opening;
                match connect(stream.fd.as_raw_fd(), &SockaddrStorage::from(to)) {
                    Ok(()) | Err(Errno::EINPROGRESS) => {}
                    Err(why) => self.fail(token, why),
                }
                self.watch_stream(token);
            }
        }
    }

    /// What has `token` became ready for `flags`.
    pub fn ready(&mut self, token: u64, flags: EpollFlags) {
        match self.at(token).map(|slot| &slot.kind) {
            Some(Some(Kind::Listener(_))) => {
                self.events.push_back((token, SocketEvent::Incoming));
            }
            Some(Some(Kind::Stream(_))) => self.stream_ready(token, flags),
            _ => {}
        }
    }

    fn stream_ready(&mut self, token: u64, flags: EpollFlags) {
        let Some(stream) = self.stream(token) else {
            return;
        };
        if stream.phase == Phase::Over {
            return;
        }
        if flags.contains(EpollFlags::EPOLLERR) || stream.phase == Phase::Opening {
            if let Ok(code @ 1..) = getsockopt(&stream.fd, sockopt::SocketError) {
                return self.fail(token, Errno::from_raw(code));
            }
        }
        let (mut opened, mut ready) = (None, [None; 2]);
        if stream.phase == Phase::Opening && flags.contains(EpollFlags::EPOLLOUT) {
            stream.phase = Phase::Open;
            let (ecn, accecn) = (false, false);
            opened = Some(SocketEvent::Established { ecn, accecn });
            if std::mem::take(&mut stream.ending) {
                stream.end();
            }
        }
        if stream.phase == Phase::Open {
            if flags.contains(EpollFlags::EPOLLOUT) {
                stream.writable = true;
                ready[0] = stream.wants_room.then_some(SocketEvent::Writable);
            }
            let last = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP;
            stream.stops_short |= flags.intersects(last | EpollFlags::EPOLLPRI);
            if flags.intersects(last | EpollFlags::EPOLLIN) && !stream.peer_closed {
                stream.readable = true;
                ready[1] = Some(SocketEvent::Readable);
            }
        }
        self.events.extend(opened.map(|event| (token, event)));
        for event in ready.into_iter().flatten() {
            self.is_ready(token, event);
        }
    }

    pub(super) fn at(&mut self, token: u64) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(token as u32 as usize)?;
        (slot.kind.is_some() && u64::from(slot.generation) == token >> 32).then_some(slot)
    }

    pub(super) fn stream(&mut self, token: u64) -> Option<&mut Stream> {
        match &mut self.at(token)?.kind {
            Some(Kind::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    pub(super) fn token(&self, SocketId(index): SocketId) -> u64 {
        let slot = self.slots.get(index as usize);
        let generation = slot.map_or(u32::MAX, |slot| slot.generation);
        u64::from(generation) << 32 | u64::from(index)
    }

    /// The token of what is [added](Self::add) next.
    pub(super) fn next_token(&mut self) -> u64 {
        if self.free.is_empty() {
            let index = u32::try_from(self.slots.len()).unwrap_or(u32::MAX);
            self.slots.push(Slot::default());
            self.free.push(index);
        }
        self.token(SocketId(self.free[self.free.len() - 1]))
    }

    pub(super) fn add(&mut self, kind: Kind) -> u64 {
        let token = self.next_token();
        self.free.pop();
        self.slots[token as u32 as usize].kind = Some(kind);
        token
    }

    pub(super) fn watch_stream(&mut self, token: u64) {
        let flags = EpollFlags::EPOLLIN
            | EpollFlags::EPOLLPRI
            | EpollFlags::EPOLLOUT
            | EpollFlags::EPOLLRDHUP
            | EpollFlags::EPOLLET;
        let slot = &self.slots[token as u32 as usize];
        if let Some(Kind::Stream(stream)) = &slot.kind {
            let added = self.epoll.add(&stream.fd, EpollEvent::new(flags, token));
            if let Err(why) = added {
                self.fail(token, why);
            }
        }
    }

    pub(super) fn fail(&mut self, token: u64, why: Errno) {
        let Some(stream) = self.stream(token) else {
            return;
        };
        if stream.phase == Phase::Over {
            return;
        }
        stream.phase = Phase::Over;
        (stream.readable, stream.writable) = (false, false);
        let broken = SocketEvent::Broken(connection_error(why));
        self.events.push_back((token, broken));
    }
}

impl Sockets for OsSockets {
    fn now(&self) -> Instant {
        self.now
    }

    fn record(&mut self, _: Event<'static>) {}

    fn wake_at(&mut self, at: Option<Instant>) {
        self.wake = at;
    }

    fn connect(
        &mut self,
        profile: Profile,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<SocketId, SocketError> {
        let options = &self.profiles[profile.0 as usize];
        let begun = || -> nix::Result<(OwnedFd, Phase)> {
            let fd = options.socket(family(remote))?;
            if options.transparent {
                options.take_any_address(&fd, remote)?;
            }
            if let Some(local) = local {
                setsockopt(&fd, sockopt::IpBindAddressNoPort, &true)?;
                bind(fd.as_raw_fd(), &SockaddrStorage::from(local))?;
            }
            if options.fast_open {
                return Ok((fd, Phase::Deferred(remote)));
            }
            match connect(fd.as_raw_fd(), &SockaddrStorage::from(remote)) {
                Ok(()) | Err(Errno::EINPROGRESS) => Ok((fd, Phase::Opening)),
                Err(why) => Err(why),
            }
        };
        let (fd, phase) = begun().map_err(|why| socket_error(why, local, Some(remote)))?;
        let token = self.add(Kind::Stream(Stream::new(fd, None, phase)));
        if phase == Phase::Opening {
            self.watch_stream(token);
        } else {
            self.deferred.push(token);
        }
        Ok(SocketId(token as u32))
    }

    fn listen(
        &mut self,
        profile: Profile,
        local: SocketAddr,
        _: u32,
    ) -> Result<SocketId, SocketError> {
        self.listen_at(profile, local)
    }

    fn accept(&mut self, listener: SocketId) -> Option<(SocketId, SocketAddr)> {
        self.next_client(self.token(listener))
    }

    fn bind(&mut self, _: Profile, _: SocketAddr) -> Result<SocketId, SocketError> {
        Err(SocketError::Unsupported)
    }

    fn destination_of(&mut self, socket: SocketId) -> Option<SocketAddr> {
        let token = self.token(socket);
        let slot = self.slots.get(token as u32 as usize)?;
        match &slot.kind {
            Some(Kind::Stream(stream)) => (self.origin)(&stream.fd, stream.client?),
            _ => None,
        }
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.own.contains(address)
    }

    fn read(&mut self, socket: SocketId, most: u64, into: Option<&mut Vec<u8>>) -> u64 {
        let token = self.token(socket);
        match into {
            Some(into) => self.read_some(token, most, &mut |bytes| into.extend_from_slice(bytes)),
            None => self.read_some(token, most, &mut |_| {}),
        }
    }

    fn read_counted(&mut self, socket: SocketId, most: u64, into: &mut CountedBytes) -> u64 {
        let token = self.token(socket);
        self.read_some(token, most, &mut |bytes| into.append(bytes))
    }

    fn relay(
        &mut self,
        from: SocketId,
        to: SocketId,
        ahead: u64,
        queue: &mut CountedBytes,
    ) -> Relayed {
        self.relay_some(from, to, ahead, queue)
    }

    fn write(&mut self, socket: SocketId, data: Data<'_>) -> u64 {
        let token = self.token(socket);
        let bytes = first_of(data);
        let Some(stream) = self.stream(token) else {
            return 0;
        };
        let (sent, watch) = match stream.phase {
            Phase::Deferred(to) => {
                stream.phase = Phase::Opening;
                let with_syn =
                    MsgFlags::from_bits_retain(libc::MSG_FASTOPEN) | MsgFlags::MSG_NOSIGNAL;
                let to = SockaddrStorage::from(to);
                let fd = stream.fd.as_raw_fd();
                let sent = sendto(fd, bytes, &to, with_syn).or_else(|why| match why {
                    // Fast Open is switched off (net.ipv4.tcp_fastopen): the plain handshake.
                    Errno::EOPNOTSUPP => connect(fd, &to).map(|()| 0),
                    why => Err(why),
                });
                (sent, true)
            }
            Phase::Open if stream.writable => (
                send(stream.fd.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL),
                false,
            ),
            _ => return 0,
        };
        let taken = self.sent(token, sent, bytes.len());
        if watch {
            self.watch_stream(token);
        }
        taken as u64
    }

    fn want_room(&mut self, socket: SocketId, want: bool) {
        let token = self.token(socket);
        if let Some(stream) = self.stream(token) {
            let now = want && stream.writable && !stream.wants_room;
            stream.wants_room = want;
            if now {
                self.is_ready(token, SocketEvent::Writable);
            }
        }
    }

    fn probe(&mut self, socket: SocketId, every: Duration) {
        let token = self.token(socket);
        if let Some(stream) = self.stream(token) {
            // The peer may have gone meanwhile, which its own event tells.
            let _ = keep_alive(&stream.fd, every);
        }
    }

    fn shut_down(&mut self, socket: SocketId) {
        let token = self.token(socket);
        match self.stream(token) {
            Some(stream) => match stream.phase {
                Phase::Deferred(_) | Phase::Opening => stream.ending = true,
                Phase::Open => stream.end(),
                Phase::Over => {}
            },
            None => self.close(socket),
        }
    }

    fn reset(&mut self, socket: SocketId) {
        let token = self.token(socket);
        if let Some(stream) = self.stream(token) {
            // Closed, it is reset.
            let _ = setsockopt(&stream.fd, sockopt::Linger, &RESET);
            stream.phase = Phase::Over;
            (stream.readable, stream.writable) = (false, false);
        }
    }

    fn set_option(&mut self, socket: SocketId, name: &str, value: u64) -> Result<(), SocketError> {
        let token = self.token(socket);
        let slot = self.slots.get(token as u32 as usize);
        let Some(Kind::Stream(stream)) = slot.and_then(|slot| slot.kind.as_ref()) else {
            return Err(SocketError::Closed);
        };
        let options = options_of(&self.controls, &stream.fd).ok_or(SocketError::Unsupported)?;
        let set = options.set(stream.fd.as_fd(), name, value, stream.phase == Phase::Open);
        set.map_err(|e| SocketError::Option(e.to_string()))
    }

    fn sample(&mut self, socket: SocketId) -> Option<FlowSample> {
        let token = self.token(socket);
        let info = socket_option::tcp_info(&self.stream(token)?.fd)?;
        Some(info.sample())
    }

    fn close(&mut self, socket: SocketId) {
        let token = self.token(socket);
        let Some(slot) = self.at(token) else {
            return;
        };
        let kind = slot.kind.take();
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(socket.0);
        match kind {
            Some(Kind::Listener(listener)) => self.shut(&listener),
            Some(Kind::Stream(stream)) if stream.client.is_some() => self.client_gone(),
            _ => {}
        }
    }

    fn send_to(&mut self, _: SocketId, _: SocketAddr, _: &[u8], _: u32) -> Result<(), SocketError> {
        Err(SocketError::Unsupported)
    }

    fn receive_from(&mut self, _: SocketId, _: &mut Vec<u8>) -> Option<Datagram> {
        None
    }
}
