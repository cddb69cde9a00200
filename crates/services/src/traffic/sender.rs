//! A session at the server: sends what its client asked for, on ports of its own.

mod stream;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering};

use narrows_linux::Clock;
use narrows_linux::datagrams::DatagramSocket;
use narrows_linux::tcp_options::set_traffic_class;
use narrows_traffic::Sends;
use narrows_units::{Duration, Instant};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};

use super::OUT_OF_DESCRIPTORS;
use super::control::Control;
use super::quic::{Listening, Served};
use super::timer::Timer;
use super::wire::{
    BEAT, HEAD, Head, KEY, OPENING, Opening, Report, Request, SenderEnd, StreamSample,
};
use crate::rights;
use stream::{Stream, note_written, sample_of};
pub(super) use stream::{WRITES, wanted};

/// Milliseconds between two looks at whether it is to end.
const LOOK: u16 = 50;

/// A datagram that leaves later than this after it was due is late (our choice).
const LATE: Duration = Duration::from_millis(1);

/// Datagrams sent in a row, before sockets have their turn (our choice).
const TURN: usize = 256;

/// Connections besides those of transfers: that have not said which they are (our choice).
const UNNAMED: usize = 64;

/// Bytes written at once.
const BLOCK: usize = 64 << 10;

const LISTENER: u64 = u64::MAX;
const SOCKET: u64 = u64::MAX - 1;
const CONTROL: u64 = u64::MAX - 2;
const TIMER: u64 = u64::MAX - 3;
const QUIC: u64 = u64::MAX - 4;

/// Datagrams of a transfer.
struct Datagrams {
    to: SocketAddr,
    begun: Instant,
    sent: u64,
}

/// A session.
pub(super) struct Session {
    pub(super) request: Request,
    pub(super) key: [u8; KEY],
    pub(super) control: Control,
    pub(super) listener: TcpListener,
    pub(super) socket: DatagramSocket,
    /// Where fetches by QUIC come in, if there are such.
    pub(super) quic: Option<Listening>,
    pub(super) peer: IpAddr,
    pub(super) clock: Clock,
}

struct Sender<'s> {
    session: &'s mut Session,
    epoll: Epoll,
    streams: BTreeMap<u64, Stream>,
    next_token: u64,
    datagrams: BTreeMap<usize, Datagrams>,
    quic: Option<Served>,
    /// When a transfer is to go on: datagrams by number, connections by token.
    due: BinaryHeap<Reverse<(Instant, bool, u64)>>,
    room: Vec<u8>,
    /// When the listener is looked at again, after a connection could not be taken.
    listens_from: Option<Instant>,
    /// Of connections that are gone since the last sample.
    parted: Vec<StreamSample>,
    /// When the client received a report last.
    reported_at: Instant,
    end: SenderEnd,
}

impl Session {
    /// Sends until the client ends it, is gone, its time is over or `stop` is set; how it went.
    pub(super) fn run(&mut self, stop: &AtomicBool) -> SenderEnd {
        let mut end = match Sender::new(self).and_then(|sender| sender.run(stop)) {
            Ok(end) => end,
            Err(error) => SenderEnd {
                why: Some(format!("the server failed: {error}")),
                ..SenderEnd::default()
            },
        };
        // A client that is gone does not need it.
        if self.control.send(&Report::End(end.clone())).is_err() && end.why.is_none() {
            end.why = Some("the client is gone".to_owned());
        }
        self.control.close();
        end
    }
}

impl<'s> Sender<'s> {
    fn new(session: &'s mut Session) -> io::Result<Self> {
        session.listener.set_nonblocking(true)?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let input = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
        epoll.add(&session.listener, input(LISTENER))?;
        epoll.add(&session.socket, input(SOCKET))?;
        epoll.add(&session.control.stream, input(CONTROL))?;
        let (peer, clock) = (session.peer, session.clock);
        let quic = session.quic.take();
        let quic = quic.map(|port| Served::new(port, peer, clock));
        if let Some(quic) = &quic {
            epoll.add(quic.socket(), input(QUIC))?;
        }
        let reported_at = clock.now();
        Ok(Self {
            session,
            epoll,
            streams: BTreeMap::new(),
            next_token: 0,
            datagrams: BTreeMap::new(),
            quic,
            due: BinaryHeap::new(),
            room: vec![0; narrows_linux::datagrams::LARGEST],
            listens_from: None,
            parted: Vec::new(),
            reported_at,
            end: SenderEnd::default(),
        })
    }

    fn now(&self) -> Instant {
        self.session.clock.now()
    }

    fn run(mut self, stop: &AtomicBool) -> io::Result<SenderEnd> {
        narrows_linux::wake_sharply();
        let mut timer = Timer::new()?;
        self.epoll
            .add(&timer, EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
        let until = self.now() + Duration::from_nanos(self.session.request.lasts_ns);
        let interval = Duration::from_nanos(self.session.request.interval_ns);
        let mut sample_at = self.now() + interval;
        let mut events = vec![EpollEvent::empty(); 256];
        loop {
            let now = self.now();
            if stop.load(Ordering::SeqCst) {
                self.end.why = Some("the server was stopped".to_owned());
                break;
            }
            if now >= until {
                break;
            }
            if now >= sample_at {
                self.sample()?;
                sample_at = now + interval;
            }
            if now.since(self.reported_at) >= BEAT {
                self.report(Vec::new())?;
            }
            if self.listens_from.is_some_and(|at| now >= at) {
                self.listens_from = None;
                self.listen(EpollFlags::EPOLLIN)?;
            }
            self.go_on();
            if let Some(quic) = &mut self.quic {
                quic.go_on(&self.session.request);
            }
            let next = self.due.peek().map(|Reverse((at, ..))| *at);
            let of_quic = self.quic.as_ref().and_then(Served::wakes);
            let next = next.into_iter().chain(of_quic).min();
            let next = next.map_or(sample_at, |at| at.min(sample_at));
            timer.set(&self.session.clock, next)?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::from(LOOK)) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error.into()),
            };
            for event in &events[..count] {
                match event.data() {
                    LISTENER => self.accept()?,
                    SOCKET => self.receive(),
                    QUIC => {
                        if let Some(quic) = &mut self.quic {
                            quic.receive(&self.session.request);
                        }
                    }
                    TIMER => timer.take(),
                    CONTROL => {
                        if !self.session.control.look()? {
                            self.end.why = Some("the client is gone".to_owned());
                            return Ok(self.finished());
                        }
                        if self.session.control.line::<serde_json::Value>()?.is_some() {
                            return Ok(self.finished());
                        }
                    }
                    token => self.ready(token),
                }
            }
        }
        Ok(self.finished())
    }

    fn finished(mut self) -> SenderEnd {
        // A client that is gone does not need it.
        let _ = self.sample();
        let by_quic = self.quic.take().map(Served::close);
        self.end.written.extend(by_quic.into_iter().flatten());
        let streams = std::mem::take(&mut self.streams);
        streams
            .values()
            .for_each(|stream| note_written(&mut self.end, stream));
        for (&transfer, datagrams) in &self.datagrams {
            if let Sends::Datagrams { size, .. } = self.session.request.transfers[transfer].sends {
                let bytes = datagrams.sent * u64::from(size);
                self.end.written.push((transfer as u32, bytes));
            }
        }
        self.end
    }

    /// Waits for these events of the listener.
    fn listen(&self, events: EpollFlags) -> io::Result<()> {
        let mut event = EpollEvent::new(events, LISTENER);
        Ok(self.epoll.modify(&self.session.listener, &mut event)?)
    }

    /// Accepts connections of the client.
    fn accept(&mut self) -> io::Result<()> {
        loop {
            let (socket, from) = match self.session.listener.accept() {
                Ok(accepted) => accepted,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => {
                    let none = [Errno::EMFILE, Errno::ENFILE].map(|none| Some(none as i32));
                    if none.contains(&error.raw_os_error()) {
                        self.end.descriptors = Some(rights::all_descriptors());
                    }
                    let pause = Duration::from_nanos(OUT_OF_DESCRIPTORS.as_nanos() as u64);
                    self.listens_from = Some(self.now() + pause);
                    return self.listen(EpollFlags::empty());
                }
            };
            let most = self.session.request.transfers.len() + UNNAMED;
            let known = from.ip().to_canonical() == self.session.peer.to_canonical();
            if !known || self.streams.len() >= most || socket.set_nonblocking(true).is_err() {
                continue;
            }
            let token = self.next_token;
            let input = EpollEvent::new(EpollFlags::EPOLLIN, token);
            if self.epoll.add(&socket, input).is_err() {
                continue;
            }
            self.next_token += 1;
            let begun = self.session.clock.now();
            let stream = Stream {
                socket,
                opening: Vec::new(),
                transfer: None,
                begun,
                written: 0,
                ended: false,
                wants_room: false,
                sampled: (0, 0),
                sampled_at: begun,
            };
            self.streams.insert(token, stream);
        }
    }

    /// Takes what clients' datagrams ask for.
    fn receive(&mut self) {
        let mut room = [0; OPENING + 1];
        for _ in 0..TURN {
            let got = match self.session.socket.receive(&mut room) {
                Ok(Some(got)) => got,
                Ok(None) => continue,
                Err(Errno::EAGAIN) => return,
                Err(_) => continue,
            };
            if got.from.ip().to_canonical() != self.session.peer.to_canonical() {
                continue;
            }
            let bytes = &room[..got.len.min(room.len())];
            match Opening::parse(bytes, &self.session.key) {
                Some(Opening::Time(number)) => {
                    let head = Head {
                        transfer: u32::MAX,
                        number,
                        sent_ns: self.now().as_nanos(),
                    };
                    let bytes = head.to_bytes(&self.session.key);
                    let _ = self.session.socket.send(got.from, 0, &bytes);
                }
                Some(Opening::Flow(number)) => self.begin(number as usize, got.from),
                None => {}
            }
        }
    }

    fn begin(&mut self, transfer: usize, to: SocketAddr) {
        let sends = self
            .session
            .request
            .transfers
            .get(transfer)
            .map(|t| t.sends);
        if !matches!(sends, Some(Sends::Datagrams { .. })) || self.datagrams.contains_key(&transfer)
        {
            return;
        }
        let begun = self.now();
        self.datagrams
            .insert(transfer, Datagrams { to, begun, sent: 0 });
        self.due.push(Reverse((begun, true, transfer as u64)));
    }

    /// Goes on with what is due.
    fn go_on(&mut self) {
        for _ in 0..TURN {
            let now = self.now();
            let Some(&Reverse((at, is_datagram, number))) = self.due.peek() else {
                return;
            };
            if at > now {
                return;
            }
            self.due.pop();
            match is_datagram {
                true => self.send_datagram(number as usize, at),
                false => self.write(number),
            }
        }
    }

    fn send_datagram(&mut self, transfer: usize, due: Instant) {
        let plan = &self.session.request.transfers[transfer];
        let Sends::Datagrams { rate, size, .. } = plan.sends else {
            return;
        };
        let packets = plan.sends.packets().unwrap_or(0);
        let class = self.session.request.sets[plan.set as usize].class;
        let Some(flow) = self.datagrams.get_mut(&transfer) else {
            return;
        };
        let now = self.session.clock.now();
        let head = Head {
            transfer: transfer as u32,
            number: flow.sent,
            sent_ns: now.as_nanos(),
        };
        self.room[..HEAD].copy_from_slice(&head.to_bytes(&self.session.key));
        let bytes = &self.room[..size as usize];
        match self.session.socket.send(flow.to, class, bytes) {
            Ok(()) => self.end.datagrams += 1,
            Err(_) => self.end.refused += 1,
        }
        let behind = now.since(due);
        self.end.latest_ns = self.end.latest_ns.max(behind.as_nanos());
        self.end.late += u64::from(behind > LATE);
        flow.sent += 1;
        if flow.sent < packets {
            let bits = u128::from(flow.sent) * u128::from(size) * 8_000_000_000;
            let after = u64::try_from(bits / u128::from(rate.max(1))).unwrap_or(u64::MAX);
            let next = flow.begun + Duration::from_nanos(after);
            self.due.push(Reverse((next, true, transfer as u64)));
        }
    }

    /// Connection `token` is ready to be read or written.
    fn ready(&mut self, token: u64) {
        let Some(stream) = self.streams.get_mut(&token) else {
            return;
        };
        if stream.transfer.is_some() && !stream.ended {
            self.write(token);
            return;
        }
        let mut room = [0; OPENING];
        let wanted = match stream.transfer {
            None => OPENING - stream.opening.len(),
            Some(_) => OPENING,
        };
        match stream.socket.read(&mut room[..wanted]) {
            Ok(read) if read > 0 && stream.transfer.is_none() => {
                stream.opening.extend(&room[..read]);
                if stream.opening.len() == OPENING {
                    self.open(token);
                }
            }
            // It has nothing more to say.
            Ok(read) if read > 0 => {}
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            _ => self.forget(token),
        }
    }

    /// A connection names its transfer.
    fn open(&mut self, token: u64) {
        let now = self.now();
        let Some(stream) = self.streams.get_mut(&token) else {
            return;
        };
        let request = &self.session.request;
        let transfer = match Opening::parse(&stream.opening, &self.session.key) {
            Some(Opening::Flow(number)) => number as usize,
            _ => return self.forget(token),
        };
        let Some(plan) = request.transfers.get(transfer) else {
            return self.forget(token);
        };
        let options = &request.sets[plan.set as usize];
        let ipv4 = self.session.peer.to_canonical().is_ipv4();
        let set = set_traffic_class(&stream.socket, ipv4, options.class);
        let control = options.control.as_ref().map_or(Ok(()), |name| {
            narrows_linux::tcp_options::choose_control(&stream.socket, name)
        });
        if matches!(plan.sends, Sends::Datagrams { .. }) || set.is_err() || control.is_err() {
            return self.forget(token);
        }
        stream.transfer = Some(transfer);
        stream.begun = now;
        stream.sampled_at = now;
        self.write(token);
    }

    /// Writes to a connection what is due and has room.
    fn write(&mut self, token: u64) {
        let now = self.now();
        let Some(stream) = self.streams.get_mut(&token) else {
            return;
        };
        let Some(transfer) = stream.transfer.filter(|_| !stream.ended) else {
            return;
        };
        let age = now.since(stream.begun);
        let sends = &self.session.request.transfers[transfer].sends;
        let Some((wanted, last)) = wanted(sends, age) else {
            return;
        };
        let mut blocked = false;
        let mut gone = false;
        let block = [0_u8; BLOCK];
        for _ in 0..16 {
            let left = wanted.saturating_sub(stream.written);
            if left == 0 {
                break;
            }
            let most = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
            match stream.socket.write(&block[..most]) {
                Ok(written) => stream.written += written as u64,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    blocked = true;
                    break;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    gone = true;
                    break;
                }
            }
        }
        if gone {
            return self.forget(token);
        }
        if last && stream.written >= wanted {
            stream.ended = true;
            if stream.socket.shutdown(Shutdown::Write).is_err() {
                return self.forget(token);
            }
        }
        let waits = !stream.ended && (blocked || stream.written < wanted);
        if !waits && !stream.ended {
            self.due.push(Reverse((now + WRITES, false, token)));
        }
        let input = match waits {
            true => EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT,
            false => EpollFlags::EPOLLIN,
        };
        if stream.wants_room != waits || stream.ended {
            stream.wants_room = waits;
            let _ = self
                .epoll
                .modify(&stream.socket, &mut EpollEvent::new(input, token));
        }
    }

    fn forget(&mut self, token: u64) {
        if let Some(mut stream) = self.streams.remove(&token) {
            let sample = sample_of(&mut stream, self.session.clock.now());
            self.parted.extend(sample);
            note_written(&mut self.end, &stream);
            let _ = self.epoll.delete(&stream.socket);
        }
    }

    /// Reports what connections did since the last sample.
    fn sample(&mut self) -> io::Result<()> {
        let now = self.now();
        let mut samples = std::mem::take(&mut self.parted);
        let streams = self.streams.values_mut();
        samples.extend(streams.filter_map(|stream| sample_of(stream, now)));
        samples.extend(self.quic.iter_mut().flat_map(|quic| quic.sample(now)));
        match samples.is_empty() {
            true => Ok(()),
            false => self.report(samples),
        }
    }

    fn report(&mut self, samples: Vec<StreamSample>) -> io::Result<()> {
        self.session.control.send(&Report::Samples(samples))?;
        self.reported_at = self.now();
        Ok(())
    }
}
