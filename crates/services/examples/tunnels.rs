//! Traffic for measuring proxies: a server, and clients that reach it directly, by a proxy
//! that leads to it alone, or by one that is asked (RFC 8803). Run by `bench/pep`.
//!
//!   tunnels serve ADDR
//!   tunnels bulk FLOWS BYTES TO [VIA]       seconds until all have BYTES delivered
//!   tunnels echo COUNT BYTES TO [VIA]       p50 and p99 of a round trip, in microseconds
//!   tunnels busy TUNNELS STALLED MS TO [VIA]   round trips a second of all of TUNNELS
//!   tunnels idle TUNNELS TO [VIA]           says `ready`, and holds them to the end of its input
//!   tunnels churn COUNT TO [VIA]            connections a second, each for one round trip
//!
//! What a hostile client does, each until the end of its input, and says `ready` when it is at it:
//!
//!   tunnels stall TUNNELS TO [VIA]          fills tunnels to a server that does not read, in turn
//!   tunnels storm HELD TO [VIA]             holds so many, and opens others without end
//!   tunnels press FLOWS TO [VIA]            sends as much as it can
//!   tunnels knock TO [VIA]                  asks without end for what it is refused; without VIA
//!                                           it connects and leaves
//!   tunnels names COUNT SOCKS               has so many names asked for at a time, without end
//!   tunnels scrape HALVES ADDR              reads metrics without end, beside so many half requests
//!
//! What is done without end says how often in a second it was done, `press` in Mbit/s.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use narrows_pep::{Layout, Parent, request};
use narrows_pep_client::{Call, connect};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::socket::{setsockopt, sockopt};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Bytes that are written or read at once.
const AT_ONCE: usize = 128 << 10;
/// Bytes of a message of a busy tunnel.
const MESSAGE: usize = 4 << 10;
/// How long a client that is not read from tries to write more.
const STALLED: Duration = Duration::from_millis(50);
/// How long a proxy may take for its answer.
const PATIENCE: narrows_units::Duration = narrows_units::Duration::from_secs(10);
/// Threads that open and close connections.
const CHURNERS: usize = 8;

/// What a client wants of the server: its first byte.
#[derive(Clone, Copy)]
enum Service {
    /// Everything back.
    Echo = b'e' as isize,
    /// How many bytes came, at their end.
    Discard = b'd' as isize,
    /// Nothing: the server does not read.
    Stall = b's' as isize,
}

fn main() -> Result<(), Failure> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", at] => serve(at.parse()?),
        ["bulk", flows, bytes, ref way @ ..] => bulk(flows.parse()?, bytes.parse()?, Way::of(way)?),
        ["echo", count, bytes, ref way @ ..] => echo(count.parse()?, bytes.parse()?, Way::of(way)?),
        ["busy", tunnels, stalled, ms, ref way @ ..] => {
            let time = Duration::from_millis(ms.parse()?);
            busy(tunnels.parse()?, stalled.parse()?, time, Way::of(way)?)
        }
        ["idle", tunnels, ref way @ ..] => idle(tunnels.parse()?, Way::of(way)?),
        ["churn", count, ref way @ ..] => churn(count.parse()?, Way::of(way)?),
        ["stall", tunnels, ref way @ ..] => stall(tunnels.parse()?, Way::of(way)?),
        ["storm", held, ref way @ ..] => storm(held.parse()?, Way::of(way)?),
        ["press", flows, ref way @ ..] => press(flows.parse()?, Way::of(way)?),
        ["knock", ref way @ ..] => knock(Way::of(way)?),
        ["names", count, socks] => names(count.parse()?, socks.parse()?),
        ["scrape", halves, at] => scrape(halves.parse()?, at.parse()?),
        _ => Err(
            "usage: tunnels serve|bulk|echo|busy|idle|churn|stall|storm|press|knock|names|\
                  scrape …"
                .into(),
        ),
    }
}

/// How the server is reached.
#[derive(Clone, Copy)]
struct Way {
    to: SocketAddr,
    /// A proxy that is asked for it.
    via: Option<SocketAddr>,
}

impl Way {
    fn of(words: &[&str]) -> Result<Self, Failure> {
        match words {
            [to] => Ok(Self {
                to: to.parse()?,
                via: None,
            }),
            [to, via] => Ok(Self {
                to: to.parse()?,
                via: Some(via.parse()?),
            }),
            _ => Err("an address is wanted, and that of a proxy if it is to be asked".into()),
        }
    }

    /// A connection, and where a proxy is asked, once it has granted it.
    fn open(&self, service: Service) -> Result<TcpStream, Failure> {
        let mut stream = match self.via {
            Some(proxy) => {
                let (patience, or_directly) = (PATIENCE, false);
                let call = Call::by(Parent {
                    proxy,
                    patience,
                    or_directly,
                });
                connect(self.to, &call)?.stream
            }
            None => TcpStream::connect(self.to)?,
        };
        stream.set_nodelay(true)?;
        stream.write_all(&[service as u8])?;
        Ok(stream)
    }
}

/// A client at the server.
struct Client {
    stream: TcpStream,
    service: Option<u8>,
    bytes: u64,
}

/// Serves all clients, in one thread; names are asked for at the same address, without an answer.
fn serve(at: SocketAddr) -> Result<(), Failure> {
    // Where there is a server of names already, that one is asked.
    let _silent = UdpSocket::bind((at.ip(), 53));
    let listener = TcpListener::bind(at)?;
    // As the standard library asks for 128.
    nix::sys::socket::listen(&listener, nix::sys::socket::Backlog::MAXCONN)?;
    listener.set_nonblocking(true)?;
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
    let mut clients = BTreeMap::new();
    let (mut ready, mut buffer) = (vec![EpollEvent::empty(); 256], vec![0; AT_ONCE]);
    loop {
        let count = epoll.wait(&mut ready, EpollTimeout::NONE)?;
        for event in &ready[..count] {
            if event.data() == 0 {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nodelay(true)?;
                    let token = stream.as_raw_fd() as u64;
                    epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, token))?;
                    let client = Client {
                        stream,
                        service: None,
                        bytes: 0,
                    };
                    clients.insert(token, client);
                }
                continue;
            }
            let Some(client) = clients.get_mut(&event.data()) else {
                continue;
            };
            if client.service == Some(Service::Stall as u8) {
                // Its end is reported all the same: what it has sent is freed then.
                if event.events().contains(EpollFlags::EPOLLHUP) {
                    clients.remove(&event.data());
                } else {
                    let nothing = &mut EpollEvent::new(EpollFlags::empty(), event.data());
                    epoll.modify(&client.stream, nothing)?;
                }
            } else if !client.serve(&mut buffer) {
                clients.remove(&event.data());
            }
        }
    }
}

impl Client {
    /// Serves what has come; whether there may be more.
    fn serve(&mut self, buffer: &mut [u8]) -> bool {
        let most = if self.service.is_some() {
            buffer.len()
        } else {
            1
        };
        let bytes = match self.stream.read(&mut buffer[..most]) {
            Ok(0) => {
                let count = self.bytes.to_be_bytes();
                if self.service == Some(Service::Discard as u8) {
                    // Who asked may have gone.
                    let _ = self.stream.write_all(&count);
                }
                return false;
            }
            Ok(bytes) => bytes,
            Err(e) => return e.kind() == ErrorKind::Interrupted,
        };
        self.bytes += bytes as u64;
        match self.service {
            None => {
                (self.service, self.bytes) = (Some(buffer[0]), 0);
                true
            }
            Some(service) if service == Service::Echo as u8 => {
                self.stream.write_all(&buffer[..bytes]).is_ok()
            }
            _ => true,
        }
    }
}

fn bulk(flows: usize, bytes: u64, way: Way) -> Result<(), Failure> {
    let send = || -> Result<(), Failure> {
        let (mut stream, data) = (way.open(Service::Discard)?, vec![0x5a; AT_ONCE]);
        let mut left = bytes;
        while left > 0 {
            let part = left.min(AT_ONCE as u64) as usize;
            left -= stream.write(&data[..part])? as u64;
        }
        stream.shutdown(Shutdown::Write)?;
        let mut count = [0; 8];
        stream.read_exact(&mut count)?;
        match u64::from_be_bytes(count) == bytes {
            true => Ok(()),
            false => Err("bytes are missing".into()),
        }
    };
    let begun = Instant::now();
    at_once(flows, send)?;
    println!("{:.6}", begun.elapsed().as_secs_f64());
    Ok(())
}

/// Does `work` in so many threads.
fn at_once(threads: usize, work: impl Fn() -> Result<(), Failure> + Sync) -> Result<(), Failure> {
    thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let mut ended = all.into_iter().map(|thread| thread.join());
        ended.try_for_each(|end| end.map_err(|_| "a thread panicked")?)
    })
}

fn echo(count: usize, bytes: usize, way: Way) -> Result<(), Failure> {
    let mut stream = way.open(Service::Echo)?;
    let mut message = vec![1; bytes];
    let mut times = Vec::with_capacity(count);
    // The first warm up.
    for i in 0..count + count / 10 {
        let begun = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        if i >= count / 10 {
            times.push(begun.elapsed());
        }
    }
    times.sort_unstable();
    let us = |of: f64| times[(of * (count - 1) as f64) as usize].as_secs_f64() * 1e6;
    println!("{:.1} {:.1}", us(0.5), us(0.99));
    Ok(())
}

/// A connection whose server does not read. Its end could not reach that one: it is reset.
fn unread(way: Way) -> Result<TcpStream, Failure> {
    let stream = way.open(Service::Stall)?;
    stream.set_nonblocking(true)?;
    let reset = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&stream, sockopt::Linger, &reset)?;
    Ok(stream)
}

/// Says that it is at it, and waits for the end of the input.
fn at_it() -> Result<(), Failure> {
    println!("ready");
    io::copy(&mut io::stdin(), &mut io::sink())?;
    Ok(())
}

fn stall(tunnels: usize, way: Way) -> Result<(), Failure> {
    let mut held = Vec::new();
    for _ in 0..tunnels {
        held.push(unread(way)?);
        fill(&held[held.len() - 1..])?;
    }
    at_it()
}

/// Does `work` without end in several threads until the end of the input, and says how often in a
/// second.
fn without_end(
    work: impl Fn() -> Result<(), Failure> + Send + Sync + 'static,
) -> Result<(), Failure> {
    let (work, done) = (Arc::new(work), Arc::new(AtomicU64::new(0)));
    for _ in 0..CHURNERS {
        let (work, done) = (Arc::clone(&work), Arc::clone(&done));
        thread::spawn(move || {
            loop {
                // Whatever becomes of it, the next one follows.
                let ended = work();
                done.fetch_add(ended.is_ok().into(), Relaxed);
            }
        });
    }
    let begun = Instant::now();
    at_it()?;
    let rate = done.load(Relaxed) as f64 / begun.elapsed().as_secs_f64();
    println!("{rate:.0}");
    Ok(())
}

fn storm(held: usize, way: Way) -> Result<(), Failure> {
    let to = way.via.unwrap_or(way.to);
    let kept: Result<Vec<_>, _> = (0..held).map(|_| TcpStream::connect(to)).collect();
    let _kept = kept?;
    without_end(move || TcpStream::connect(to).map(drop).map_err(Into::into))
}

/// The words of a request for a destination that nobody may reach: the other proxy itself.
fn knock(way: Way) -> Result<(), Failure> {
    let Some(proxy) = way.via else {
        return without_end(move || TcpStream::connect(way.to).map(drop).map_err(Into::into));
    };
    let words = request(Layout::Convert, proxy, None).ok_or("no request for this address")?;
    without_end(move || {
        let mut stream = TcpStream::connect(proxy)?;
        stream.write_all(&words)?;
        // The refusal, and the end behind it.
        io::copy(&mut stream, &mut io::sink())?;
        Ok(())
    })
}

fn names(count: usize, socks: SocketAddr) -> Result<(), Failure> {
    let asked = Arc::new(AtomicU64::new(0));
    let ask = move || -> Result<(), Failure> {
        let name = format!("n{}.silent.example", asked.fetch_add(1, Relaxed));
        let mut stream = TcpStream::connect(socks)?;
        let mut words = vec![5, 1, 0, 5, 1, 0, 3, name.len() as u8];
        words.extend_from_slice(name.as_bytes());
        words.extend_from_slice(&80u16.to_be_bytes());
        stream.write_all(&words)?;
        // Until it is refused.
        io::copy(&mut stream, &mut io::sink())?;
        Ok(())
    };
    let ask = Arc::new(ask);
    for _ in 0..count {
        let ask = Arc::clone(&ask);
        thread::spawn(move || {
            loop {
                // Refused or reset, the next one follows.
                let _ = ask();
            }
        });
    }
    at_it()
}

fn scrape(halves: usize, at: SocketAddr) -> Result<(), Failure> {
    let half = || -> Result<TcpStream, Failure> {
        let mut stream = TcpStream::connect(at)?;
        stream.write_all(b"GET /met")?;
        Ok(stream)
    };
    let _halves = (0..halves).map(|_| half()).collect::<Result<Vec<_>, _>>()?;
    without_end(move || {
        let mut stream = TcpStream::connect(at)?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        io::copy(&mut stream, &mut io::sink())?;
        Ok(())
    })
}

fn press(flows: usize, way: Way) -> Result<(), Failure> {
    let written = Arc::new(AtomicU64::new(0));
    for _ in 0..flows {
        let mut stream = way.open(Service::Discard)?;
        let (data, written) = (vec![1; AT_ONCE], Arc::clone(&written));
        thread::spawn(move || {
            while stream.write_all(&data).is_ok() {
                written.fetch_add(1, Relaxed);
            }
        });
    }
    let begun = Instant::now();
    at_it()?;
    let bits = (written.load(Relaxed) * AT_ONCE as u64 * 8) as f64;
    println!("{:.0}", bits / 1e6 / begun.elapsed().as_secs_f64());
    Ok(())
}

fn busy(tunnels: usize, stalled: usize, time: Duration, way: Way) -> Result<(), Failure> {
    let mut held = Vec::new();
    for _ in 0..stalled {
        held.push(unread(way)?);
    }
    fill(&held)?;
    let mut streams = Vec::new();
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    for at in 0..tunnels {
        let stream = way.open(Service::Echo)?;
        epoll.add(&stream, EpollEvent::new(EpollFlags::EPOLLIN, at as u64))?;
        streams.push((stream, 0));
    }
    let (message, mut buffer) = (vec![1; MESSAGE], vec![0; MESSAGE]);
    for (stream, _) in &mut streams {
        stream.write_all(&message)?;
    }
    let (begun, mut ready, mut done) = (Instant::now(), vec![EpollEvent::empty(); 256], 0u64);
    while begun.elapsed() < time {
        let count = epoll.wait(&mut ready, EpollTimeout::NONE)?;
        for event in &ready[..count] {
            let (stream, got) = &mut streams[event.data() as usize];
            match stream.read(&mut buffer)? {
                0 => return Err("a tunnel ended".into()),
                bytes => *got += bytes,
            }
            if *got >= MESSAGE {
                *got -= MESSAGE;
                done += 1;
                stream.write_all(&message)?;
            }
        }
    }
    println!("{:.0}", done as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}

/// Writes to all of them until none takes more.
fn fill(streams: &[TcpStream]) -> Result<(), Failure> {
    let (data, mut progress) = (vec![1; AT_ONCE], Instant::now());
    while progress.elapsed() < STALLED {
        for mut stream in streams {
            match stream.write(&data) {
                Ok(_) => progress = Instant::now(),
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                Err(e) => return Err(e.into()),
            }
        }
    }
    Ok(())
}

/// Whether what is sent comes back.
fn answers(stream: &mut TcpStream) -> Result<(), Failure> {
    stream.write_all(b"?")?;
    Ok(stream.read_exact(&mut [0])?)
}

fn idle(tunnels: usize, way: Way) -> Result<(), Failure> {
    let mut held = Vec::new();
    for _ in 0..tunnels {
        let mut stream = way.open(Service::Echo)?;
        answers(&mut stream)?;
        held.push(stream);
    }
    at_it()
}

fn churn(count: usize, way: Way) -> Result<(), Failure> {
    let begun = Instant::now();
    at_once(CHURNERS, || {
        (0..count / CHURNERS).try_for_each(|_| answers(&mut way.open(Service::Echo)?))
    })?;
    println!("{:.0}", count as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}
