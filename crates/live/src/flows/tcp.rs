//! The kernel's TCP as a transport behind a socket: one connection of a plan's host, sampled,
//! with ECN and a control as the plan says. A proxy's connections are
//! many, nobody's flows, and read and written in pairs: they are another layer, and what both
//! layers do alike is in [`stream_calls`](narrows_linux::stream_calls).

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};

use narrows_bpf::SocketOptions;
use narrows_core::{
    Data, Endpoint, EndpointEvent, FlowSample, Packet, PacketPool, SocketError, SocketEvent,
};
use narrows_linux::socket_option::tcp_info;
use narrows_linux::stream_calls::{AT_ONCE, connection_error, errno, first_of};
use narrows_linux::tcp_info::EcnLayout;
use narrows_linux::tcp_options::control_of;
use narrows_units::Instant;
use nix::errno::Errno;
use nix::sys::epoll::EpollFlags;
use nix::sys::socket::{
    MsgFlags, Shutdown, SockaddrStorage, connect, getsockopt, recv, send, shutdown, sockopt,
};

use super::ecn_switch::{Ask, EcnSwitch};
use super::facts::EndFacts;
use super::options::StreamOptions;
use crate::own_controls::options_of;
use crate::sample::SenderWatch;
use crate::{Clock, Reporter};

/// Reads in a row, so that no connection keeps the others of its host waiting.
const READS: usize = 16;

/// `TCP_SYN_SENT`, `TCP_CLOSE` (net/tcp_states.h).
const SYN_SENT: u8 = 2;
const CLOSE: u8 = 7;

/// What is known of flows' ends, by profile.
pub type EndTable = Rc<RefCell<BTreeMap<usize, EndFacts>>>;

/// What the connections of a host have in common.
#[derive(Clone)]
pub struct Stack {
    ecn: Rc<EcnSwitch>,
    /// How the kernel says what was negotiated.
    layout: EcnLayout,
    /// What sets options of sockets with controls of ours.
    options: Rc<[SocketOptions]>,
    /// Receives bytes that are discarded.
    waste: Rc<RefCell<Vec<u8>>>,
    /// Connections that have more to do when others have had their turn.
    pub again: Rc<RefCell<Vec<u32>>>,
    clock: Clock,
    reporter: Reporter,
    /// What was seen of each flow's sender.
    watches: Rc<[Arc<Mutex<SenderWatch>>]>,
    ends: EndTable,
}

impl Stack {
    /// Of the calling thread's namespace. What its connections know of flows' ends goes
    /// to `ends`, what was seen of their senders to `watches`, too.
    pub fn new(
        ecn: EcnSwitch,
        clock: Clock,
        reporter: &Reporter,
        watches: Vec<Arc<Mutex<SenderWatch>>>,
        ends: EndTable,
        options: Vec<SocketOptions>,
    ) -> Self {
        Self {
            ecn: Rc::new(ecn),
            layout: EcnLayout::of_this_kernel(),
            options: options.into(),
            waste: Rc::new(RefCell::new(vec![0; AT_ONCE])),
            again: Rc::default(),
            clock,
            reporter: reporter.clone(),
            watches: watches.into(),
            ends,
        }
    }
}

/// Where a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The SYN waits for the first data.
    Deferred,
    /// It has sent a SYN.
    Opening,
    /// It is open, or was.
    Open,
    /// It is gone.
    Over,
}

/// A connection of the kernel's.
pub struct KernelTcp {
    /// `None` once it was reset.
    socket: Option<OwnedFd>,
    stack: Stack,
    /// Its number among the host's sockets.
    number: u32,
    /// Which options it has.
    options: StreamOptions,
    profile: usize,
    /// What its socket became ready for.
    ready: Rc<Cell<EpollFlags>>,
    remote: SocketAddr,
    ask: Ask,
    phase: Phase,
    readable: bool,
    writable: bool,
    /// The application has ended its stream before the connection was open.
    ending: bool,
    peer_closed: bool,
    /// The application is done with it.
    closing: bool,
    events: VecDeque<SocketEvent>,
}

impl KernelTcp {
    /// Socket `number`, which will connect `socket` to `remote`.
    pub fn client(
        socket: OwnedFd,
        stack: &Stack,
        number: u32,
        (profile, options): (usize, &StreamOptions),
        remote: SocketAddr,
    ) -> Self {
        Self {
            socket: Some(socket),
            stack: stack.clone(),
            number,
            options: options.clone(),
            profile,
            ready: Rc::new(Cell::new(EpollFlags::empty())),
            remote,
            ask: Ask::default(),
            phase: Phase::Opening,
            readable: false,
            writable: false,
            ending: false,
            peer_closed: false,
            closing: false,
            events: VecDeque::new(),
        }
    }

    /// Socket `number`, which was accepted.
    pub fn accepted(
        socket: OwnedFd,
        stack: &Stack,
        number: u32,
        options: (usize, &StreamOptions),
        remote: SocketAddr,
    ) -> Self {
        let mut new = Self::client(socket, stack, number, options, remote);
        new.establish();
        new
    }

    /// Its socket, unless it was reset.
    pub fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    /// What its socket becomes ready for is to be put here.
    pub fn readiness(&self) -> Rc<Cell<EpollFlags>> {
        Rc::clone(&self.ready)
    }

    /// Adds to what is known of its flow's end, if it belongs to one.
    fn note(&self, what: impl FnOnce(&mut EndFacts)) {
        let mut ends = self.stack.ends.borrow_mut();
        if let Some(flow) = self.options.flow {
            let new = || EndFacts::of(flow, self.options.sends);
            what(ends.entry(self.profile).or_insert_with(new));
        }
    }

    /// Samples the socket of a flow; `last`: as its connection ends.
    fn sample(&self, last: bool) {
        let Some(socket) = &self.socket else { return };
        let (now, stack) = (self.stack.clock.now(), &self.stack);
        self.note(|end| {
            // Nothing is known of a connection that never was.
            if last && (end.sampled_last || end.congestion_control.is_empty()) {
                return;
            }
            end.sampled_last = last;
            end.info = tcp_info(socket).or(end.info);
            end.congestion_control = control_of(socket);
            if let (true, true, Some(info)) = (last, end.sends, &end.info) {
                let watch = stack.watches[end.flow].lock();
                let mut watch = watch.unwrap_or_else(PoisonError::into_inner);
                watch.sample(now, info, &mut |report| stack.reporter.report(now, report));
            }
        });
    }

    /// Its socket has become ready for what `flags` say.
    fn become_ready(&mut self, flags: EpollFlags) {
        let Some(socket) = &self.socket else { return };
        if self.closing {
            self.linger();
            return;
        }
        if self.phase == Phase::Opening {
            if let Ok(code @ 1..) = getsockopt(socket, sockopt::SocketError) {
                return self.fail(Errno::from_raw(code));
            }
            match tcp_info(socket).map(|info| info.state) {
                Some(SYN_SENT) => return,
                Some(CLOSE) => return self.fail(Errno::ECONNRESET),
                _ => self.establish(),
            }
        }
        self.writable |= flags.contains(EpollFlags::EPOLLOUT);
        if flags.intersects(EpollFlags::EPOLLIN | EpollFlags::EPOLLRDHUP) {
            self.poll_readable();
        }
        if flags.contains(EpollFlags::EPOLLERR) && self.phase != Phase::Deferred {
            let socket = self.socket.as_ref();
            if let Some(Ok(code @ 1..)) = socket.map(|s| getsockopt(s, sockopt::SocketError)) {
                self.fail(Errno::from_raw(code));
            }
        }
    }

    /// Has it served again for `flags` when others have had their turn.
    fn wait_turn(&self, flags: EpollFlags) {
        self.ready.set(self.ready.get() | flags);
        self.stack.again.borrow_mut().push(self.number);
    }

    /// There may be something to read.
    fn poll_readable(&mut self) {
        let open = self.phase == Phase::Open && !self.peer_closed;
        if open && !self.events.contains(&SocketEvent::Readable) {
            self.readable = true;
            self.events.push_back(SocketEvent::Readable);
        }
    }

    fn establish(&mut self) {
        self.phase = Phase::Open;
        self.writable = true;
        let info = self.socket.as_ref().and_then(tcp_info);
        let accecn = info.as_ref().is_some_and(|i| self.stack.layout.accecn(i));
        let ecn = info.is_some_and(|i| i.ecn()) && !accecn;
        self.events
            .push_back(SocketEvent::Established { ecn, accecn });
        self.sample(false);
        if std::mem::take(&mut self.ending) {
            self.end_stream();
        }
    }

    fn end_stream(&mut self) {
        if let Some(Err(e)) = self
            .socket
            .as_ref()
            .map(|s| shutdown(s.as_raw_fd(), Shutdown::Write))
        {
            self.fail(e);
        }
    }

    fn fail(&mut self, why: Errno) {
        if self.phase == Phase::Over {
            return;
        }
        let action = match self.phase {
            Phase::Deferred | Phase::Opening => "cannot connect",
            Phase::Open | Phase::Over => "was broken off",
        };
        self.sample(true);
        self.note(|end| {
            let sentence = format!("{action}: {}", why.desc());
            end.broken.get_or_insert(sentence);
        });
        self.phase = Phase::Over;
        (self.readable, self.writable) = (false, false);
        let broken = SocketEvent::Broken(connection_error(why));
        self.events.push_back(broken);
    }

    /// After its application is done with it: data that comes yet is answered by a
    /// reset, and the end of both streams ends it.
    fn linger(&mut self) {
        let Some(socket) = &self.socket else { return };
        let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
        let unread = matches!(recv(socket.as_raw_fd(), &mut [0], flags), Ok(1..));
        if unread || tcp_info(socket).is_none_or(|info| info.state == CLOSE) {
            self.socket = None;
        }
    }

    fn receive_some(&mut self, most: usize, into: Option<&mut Vec<u8>>) -> nix::Result<usize> {
        let socket = self.socket.as_ref().ok_or(Errno::EBADF)?.as_raw_fd();
        let most = most.min(AT_ONCE);
        match into {
            // With `MSG_TRUNC` the kernel counts bytes and does not copy them.
            None => {
                let flags = MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
                recv(socket, &mut self.stack.waste.borrow_mut()[..most], flags)
            }
            Some(into) => {
                let start = into.len();
                into.resize(start + most, 0);
                let got = recv(socket, &mut into[start..], MsgFlags::MSG_DONTWAIT);
                into.truncate(start + got.unwrap_or(0));
                got
            }
        }
    }
}

impl KernelTcp {
    /// Its socket, and what sets options of it if its control is one of ours.
    fn control_options(&self) -> Option<(&OwnedFd, &SocketOptions)> {
        let socket = self.socket.as_ref()?;
        Some((socket, options_of(&self.stack.options, socket)?))
    }
}

impl Endpoint for KernelTcp {
    fn set_option(&mut self, name: &str, value: u64) -> Result<(), SocketError> {
        let established = self.phase == Phase::Open;
        let (socket, options) = self.control_options().ok_or(SocketError::Unsupported)?;
        let set = options.set(socket.as_fd(), name, value, established);
        set.map_err(|e| SocketError::Option(e.to_string()))
    }

    fn option(&self, name: &str) -> Option<u64> {
        let (socket, options) = self.control_options()?;
        options.of(socket.as_fd()).ok()?.option(name)
    }

    fn open(&mut self, _: Instant) {
        let (ask, note) = self.stack.ecn.ask(self.options.ecn, self.options.needs);
        self.ask = ask;
        self.note(|end| end.notes.extend(note.map(str::to_owned)));
        let Some(socket) = &self.socket else { return };
        let remote = SockaddrStorage::from(self.remote);
        let opened = self
            .stack
            .ecn
            .asking(self.ask, || connect(socket.as_raw_fd(), &remote));
        match opened {
            // With a cookie, the SYN goes out with the first data.
            Ok(Ok(())) if self.options.with_syn() => {
                (self.phase, self.writable) = (Phase::Deferred, true);
            }
            Ok(Ok(()) | Err(Errno::EINPROGRESS)) => {}
            Ok(Err(e)) => self.fail(e),
            Err(e) => self.fail(errno(&e)),
        }
    }

    fn receive(&mut self, _: Instant, _: &Packet) {}

    fn poll_transmit(&mut self, _: Instant, _: &mut PacketPool) -> Option<Box<Packet>> {
        None
    }

    fn next_timeout(&mut self) -> Option<Instant> {
        None
    }

    fn on_timeout(&mut self, _: Instant) {}

    fn poll_event(&mut self) -> Option<EndpointEvent> {
        let ready = self.ready.replace(EpollFlags::empty());
        if !ready.is_empty() {
            self.become_ready(ready);
        }
        self.events.pop_front().map(EndpointEvent::Socket)
    }

    fn room(&self) -> u64 {
        if self.writable { AT_ONCE as u64 } else { 0 }
    }

    fn write(&mut self, data: Data<'_>) -> u64 {
        let Some(socket) = self.socket.as_ref().filter(|_| self.writable) else {
            return 0;
        };
        let bytes = first_of(data);
        let send = || send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL);
        let sent = if self.phase == Phase::Deferred {
            self.phase = Phase::Opening;
            self.writable = false;
            let asked = self.stack.ecn.asking(self.ask, send);
            asked.unwrap_or_else(|e| Err(errno(&e)))
        } else {
            send()
        };
        match sent {
            Ok(taken) => {
                if taken < bytes.len() {
                    self.writable = false;
                } else if taken == AT_ONCE && self.writable {
                    self.writable = false;
                    self.wait_turn(EpollFlags::EPOLLOUT);
                }
                taken as u64
            }
            Err(Errno::EAGAIN | Errno::EINPROGRESS) => {
                self.writable = false;
                0
            }
            Err(Errno::EINTR) => 0,
            Err(e) => {
                self.fail(e);
                0
            }
        }
    }

    fn read(&mut self, most: u64, mut into: Option<&mut Vec<u8>>) -> u64 {
        let mut total = 0;
        for _ in 0..READS {
            if total >= most || !self.readable {
                break;
            }
            let part = usize::try_from(most - total).unwrap_or(AT_ONCE);
            match self.receive_some(part, into.as_deref_mut()) {
                Ok(0) => {
                    (self.readable, self.peer_closed) = (false, true);
                    self.sample(true);
                    self.events.push_back(SocketEvent::PeerClosed);
                }
                Ok(bytes) => total += bytes as u64,
                Err(Errno::EAGAIN) => self.readable = false,
                Err(Errno::EINTR) => {}
                Err(e) => self.fail(e),
            }
        }
        if self.readable && total > 0 {
            self.wait_turn(EpollFlags::EPOLLIN);
        }
        total
    }

    fn shut_down(&mut self, _: Instant) {
        match self.phase {
            Phase::Deferred | Phase::Opening => self.ending = true,
            Phase::Open => self.end_stream(),
            Phase::Over => {}
        }
    }

    fn close(&mut self, now: Instant) {
        self.events.clear();
        self.sample(true);
        if self.phase != Phase::Open {
            self.socket = None;
            return;
        }
        self.shut_down(now);
        self.closing = true;
        self.linger();
    }

    fn abort(&mut self, _: Instant) {
        self.sample(true);
        // Its `SO_LINGER` makes that a reset.
        (self.socket, self.phase) = (None, Phase::Over);
    }

    fn is_closed(&self) -> bool {
        self.socket.is_none()
    }

    fn sample(&self, _: Instant) -> FlowSample {
        let info = self.socket.as_ref().and_then(tcp_info);
        info.map(|info| info.sample()).unwrap_or_default()
    }
}

impl Drop for KernelTcp {
    fn drop(&mut self) {
        self.sample(true);
    }
}
