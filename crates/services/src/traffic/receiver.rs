//! The flows of a mix at the client.

use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};

use narrows_linux::datagrams::DatagramSocket;
use narrows_linux::tcp_options::{TcpOptions, begin_to_connect, family};
use narrows_linux::{Clock, arrival};
use narrows_traffic::{Sends, Transfer};
use narrows_units::{Duration, Instant};
use nix::errno::Errno;

use super::marks::ArrivedMarks;
use super::wire::{Head, KEY, OPENING, Opening, SetOptions};

/// Times that a flow of datagrams is asked for, and the time between (our choice).
const TRIES: u32 = 25;
const AGAIN: Duration = Duration::from_millis(200);

/// Ports that are tried until one is free (our choice).
const PORTS_TRIED: u32 = 1_000;

/// Datagrams or blocks read in a row, before others have their turn.
const TURN: usize = 64;

/// How much longer than by our clock a time may be by that of another host, beside a hundredth of
/// it (our choice).
const SLACK: Duration = Duration::from_millis(10);

/// The most nanoseconds that may have passed by the clock of another host in `time` of ours.
pub(super) fn by_another_clock(time: Duration) -> u128 {
    let ns = u128::from(time.as_nanos());
    ns + ns / 100 + u128::from(SLACK.as_nanos())
}

/// Values of a set that are kept; beyond that each second one is dropped, evenly (our choice).
const MOST_VALUES: usize = 200_000;

/// Values, evenly thinned where they are too many.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    kept: Vec<(u64, i64)>,
    seen: u64,
    /// One in 2^this is kept.
    thinned: u32,
}

impl Values {
    /// Adds one that was measured at `at_ns`.
    pub(super) fn add(&mut self, at_ns: u64, value: i64) {
        if self.seen % (1 << self.thinned) == 0 {
            self.kept.push((at_ns, value));
        }
        self.seen += 1;
        if self.kept.len() >= MOST_VALUES {
            let mut place = 0;
            self.kept.retain(|_| {
                place += 1;
                place % 2 == 1
            });
            self.thinned += 1;
        }
    }

    pub(super) fn kept(&self) -> &[(u64, i64)] {
        &self.kept
    }
}

/// What arrived of a flow in an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Interval {
    pub(super) bytes: u64,
    pub(super) packets: u64,
    /// Sum and greatest of arrival less departure, each by its own clock, in nanoseconds.
    pub(super) sum_ns: i128,
    pub(super) max_ns: Option<i64>,
    /// When it began.
    pub(super) began: Instant,
    /// Numbers seen up to its beginning.
    pub(super) expected_before: u64,
}

impl Interval {
    /// One that begins `began`, after so many numbers were seen.
    const fn new(began: Instant, expected_before: u64) -> Self {
        Self {
            bytes: 0,
            packets: 0,
            sum_ns: 0,
            max_ns: None,
            began,
            expected_before,
        }
    }
}

/// A socket for datagrams at a port of its own. Ports of such sockets may be shared, so that the kernel
/// gives out one that is `taken` again, whose datagrams would then go astray.
pub(super) fn bound(
    server: SocketAddr,
    fragments: bool,
    taken: &BTreeSet<u16>,
) -> nix::Result<(DatagramSocket, u16)> {
    let any: SocketAddr = match server.is_ipv4() {
        true => ([0, 0, 0, 0], 0).into(),
        false => ([0_u16; 8], 0).into(),
    };
    for _ in 0..PORTS_TRIED {
        let (socket, _) = DatagramSocket::bound(any, fragments).map_err(Errno::from)?;
        let port = socket.local()?.port();
        if !taken.contains(&port) {
            return Ok((socket, port));
        }
    }
    Err(Errno::EADDRINUSE)
}

/// Datagrams of a transfer.
#[derive(Debug)]
pub(super) struct Datagrams {
    pub(super) socket: DatagramSocket,
    /// Its port, which no other flow has.
    pub(super) port: u16,
    to: SocketAddr,
    tries: u32,
    /// When it is asked for again, until something arrives.
    pub(super) again: Option<Instant>,
    pub(super) packets: u64,
    /// Bytes of each.
    size: u32,
    /// The rate of the flow, in bits a second.
    rate: u64,
    opened: Instant,
    /// The traffic class that they are sent with.
    class: u8,
    /// What they bore instead.
    pub(super) marks: ArrivedMarks,
    pub(super) received: u64,
    pub(super) bytes: u64,
    /// One more than the highest number.
    pub(super) expected: u64,
    /// The last 64 numbers below `expected`, the last in the lowest bit.
    seen: u64,
    transit: Option<i64>,
    jitter_ns: f64,
    pub(super) interval: Interval,
}

/// A connection of a transfer.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) socket: TcpStream,
    opening: Vec<u8>,
    pub(super) received: u64,
}

/// How a step went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Goes,
    Over,
    /// Why.
    Broke(String),
}

impl Step {
    fn broke(error: &std::io::Error) -> Self {
        let error = Errno::from_raw(error.raw_os_error().unwrap_or_default());
        Self::Broke(error.desc().to_owned())
    }
}

impl Datagrams {
    /// Asks for `transfer`, whose number is `number`, in datagrams of a traffic class.
    pub(super) fn open(
        server: SocketAddr,
        transfer: &Transfer,
        class: u8,
        number: u32,
        key: &[u8; KEY],
        now: Instant,
        taken: &BTreeSet<u16>,
    ) -> nix::Result<Self> {
        let Sends::Datagrams { rate, size, .. } = transfer.sends else {
            return Err(Errno::EINVAL);
        };
        let (socket, port) = bound(server, true, taken)?;
        let mut new = Self {
            socket,
            port,
            to: server,
            tries: 0,
            again: None,
            packets: transfer.sends.packets().unwrap_or(0),
            size,
            rate,
            opened: now,
            class,
            marks: ArrivedMarks::default(),
            received: 0,
            bytes: 0,
            expected: 0,
            seen: 0,
            transit: None,
            jitter_ns: 0.0,
            interval: Interval::new(now, 0),
        };
        new.ask(number, key, now);
        Ok(new)
    }

    /// Asks, and again until something arrives; `false` if that was often enough.
    pub(super) fn ask(&mut self, number: u32, key: &[u8; KEY], now: Instant) -> bool {
        self.tries += 1;
        self.again = (self.tries <= TRIES).then(|| now + AGAIN);
        // What is lost on the way is lost here, too: it is asked again.
        let _ = self
            .socket
            .send(self.to, 0, &Opening::Flow(number).to_bytes(key));
        self.again.is_some()
    }

    /// Whether a datagram can have left by now. None leaves before it is due, and the flow does not
    /// begin before it was asked for.
    fn can_have_left(&self, number: u64, now: Instant) -> bool {
        let open = by_another_clock(now.since(self.opened));
        let bits = u128::from(number) * u128::from(self.size) * 8;
        number < self.packets && bits * 1_000_000_000 <= open * u128::from(self.rate)
    }

    /// Takes what has arrived, with its values; `Over` with the last one.
    pub(super) fn receive(
        &mut self,
        number: u32,
        key: &[u8; KEY],
        clock: &Clock,
        values: &mut Values,
        room: &mut [u8],
    ) -> Step {
        for _ in 0..TURN {
            let got = match self.socket.receive(room) {
                Ok(Some(got)) => got,
                Ok(None) => continue,
                Err(Errno::EAGAIN) => return Step::Goes,
                // What ICMP says is of one datagram.
                Err(_) => continue,
            };
            let head = Head::parse(&room[..got.len.min(room.len())], key).filter(|head| {
                head.transfer == number
                    && got.from == self.to
                    && got.len == self.size as usize
                    && self.can_have_left(head.number, clock.now())
            });
            let Some(head) = head else {
                continue;
            };
            self.again = None;
            if !self.is_new(head.number) {
                continue;
            }
            let at = got.stamp.and_then(|stamp| arrival(clock, stamp));
            let at = at.unwrap_or_else(|| clock.now()).as_nanos();
            let transit = at as i64 - head.sent_ns as i64;
            if let Some(before) = self.transit {
                // RFC 3550 §6.4.1.
                let change = transit.abs_diff(before) as f64;
                self.jitter_ns += (change - self.jitter_ns) / 16.0;
            }
            self.transit = Some(transit);
            self.received += 1;
            self.marks.note(self.class, got.class);
            self.bytes += got.len as u64;
            self.interval.packets += 1;
            self.interval.bytes += got.len as u64;
            self.interval.sum_ns += i128::from(transit);
            self.interval.max_ns = self.interval.max_ns.max(Some(transit));
            values.add(at, transit);
            if self.received == self.packets {
                return Step::Over;
            }
        }
        Step::Goes
    }

    /// Takes note of a number; whether it is the first of it.
    fn is_new(&mut self, number: u64) -> bool {
        if number >= self.expected {
            let ahead = number - self.expected + 1;
            self.seen = self.seen.checked_shl(ahead.min(64) as u32).unwrap_or(0) | 1;
            self.expected = number + 1;
            return true;
        }
        let back = self.expected - 1 - number;
        // One that is so late is taken for a second one.
        if back >= 64 || self.seen >> back & 1 == 1 {
            return false;
        }
        self.seen |= 1 << back;
        true
    }

    pub(super) fn jitter_ms(&self) -> f64 {
        self.jitter_ns / 1e6
    }

    /// What the interval up to `now` had, and how many numbers; the next begins.
    pub(super) fn take_interval(&mut self, now: Instant) -> (Interval, u64) {
        let next = Interval::new(now, self.expected);
        let was = std::mem::replace(&mut self.interval, next);
        (was, self.expected - was.expected_before)
    }
}

impl Stream {
    /// Connects to ask for transfer `number`.
    pub(super) fn open(
        server: SocketAddr,
        number: u32,
        key: &[u8; KEY],
        set: &SetOptions,
    ) -> nix::Result<Self> {
        let options = TcpOptions {
            traffic_class: Some(set.class),
            ..TcpOptions::default()
        };
        let socket = options.socket(family(server)).map_err(Errno::from)?;
        begin_to_connect(&socket, server)?;
        Ok(Self {
            socket: TcpStream::from(socket),
            opening: Opening::Flow(number).to_bytes(key).to_vec(),
            received: 0,
        })
    }

    /// Whether it is still to be opened, for which it has to be writable.
    pub(super) fn opens(&self) -> bool {
        !self.opening.is_empty()
    }

    /// Goes on with what the socket is ready for; `Over` at the end of the stream.
    pub(super) fn ready(&mut self, room: &mut [u8]) -> Step {
        while self.opens() {
            match self.socket.write(&self.opening) {
                Ok(written) => {
                    self.opening.drain(..written.min(OPENING));
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Step::Goes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Step::broke(&e),
            }
        }
        for _ in 0..TURN {
            match self.socket.read(room) {
                Ok(0) => return Step::Over,
                Ok(read) => self.received += read as u64,
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Step::Goes,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Step::broke(&e),
            }
        }
        Step::Goes
    }
}

#[cfg(test)]
mod tests {
    use super::super::wire::HEAD;
    use super::*;

    #[test]
    fn values_that_are_too_many_are_thinned_evenly() {
        let mut values = Values::default();
        for i in 0..1_000_000 {
            values.add(i, i as i64);
        }
        assert!(values.kept().len() < MOST_VALUES);
        let gaps: Vec<_> = values.kept().windows(2).map(|p| p[1].0 - p[0].0).collect();
        assert!(gaps.iter().all(|gap| *gap == gaps[0]), "{:?}", &gaps[..10]);
        assert!(values.kept().last().unwrap().0 > 990_000);
    }

    #[test]
    fn no_two_flows_have_one_port() {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let mut taken = BTreeSet::new();
        let mut sockets = Vec::new();
        for _ in 0..300 {
            let (socket, port) = bound(to, true, &taken).unwrap();
            assert!(taken.insert(port), "{port}");
            sockets.push(socket);
        }
    }

    /// A flow of 100 datagrams of 100 bytes, one each second.
    fn flow(to: SocketAddr, key: &[u8; KEY], now: Instant) -> Datagrams {
        let transfer = Transfer {
            set: 0,
            instance: 0,
            start: Duration::ZERO,
            sends: Sends::Datagrams {
                rate: 800,
                size: 100,
                until: narrows_traffic::Until::Bytes(10_000),
            },
        };
        Datagrams::open(to, &transfer, 0, 7, key, now, &BTreeSet::new()).unwrap()
    }

    #[test]
    fn numbers_count_once_however_they_are_ordered() {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let mut flow = flow(to, &[0; KEY], Instant::from_nanos(0));
        let numbers = [0, 1, 1, 3, 2, 2, 90, 3, 89, 90, 91, 0];
        let new: Vec<bool> = numbers.iter().map(|n| flow.is_new(*n)).collect();
        let expected = [
            true, true, false, true, true, false, true, false, true, false, true, false,
        ];
        assert_eq!(new, expected);
        assert_eq!(flow.expected, 92);
    }

    #[test]
    fn a_datagram_has_the_key_the_size_and_a_number_that_can_have_left() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let (server, _) = DatagramSocket::bound(any, true).unwrap();
        let clock = Clock::starting_now();
        let key = [5; KEY];
        let mut flow = flow(server.local().unwrap(), &key, clock.now());
        let to = SocketAddr::from(([127, 0, 0, 1], flow.port));
        let send = |transfer, number, key: &[u8; KEY], size: usize| {
            let head = Head {
                transfer,
                number,
                sent_ns: 0,
            };
            let mut bytes = vec![0; size];
            bytes[..HEAD].copy_from_slice(&head.to_bytes(key));
            server.send(to, 0, &bytes).unwrap();
        };
        send(7, 0, &[6; KEY], 100);
        send(8, 0, &key, 100);
        send(7, 0, &key, 99);
        send(7, 0, &key, 101);
        send(7, 100, &key, 100);
        send(7, u64::MAX, &key, 100);
        // It is due after 99 s.
        send(7, 99, &key, 100);
        let mut room = vec![0; 65_536];
        let mut values = Values::default();
        let step = flow.receive(7, &key, &clock, &mut values, &mut room);
        assert_eq!((step, flow.received), (Step::Goes, 0));
        send(7, 0, &key, 100);
        flow.receive(7, &key, &clock, &mut values, &mut room);
        assert_eq!((flow.received, flow.bytes), (1, 100));
        let later = |s| flow.opened + Duration::from_secs(s);
        assert!(!flow.can_have_left(99, later(97)));
        assert!(flow.can_have_left(99, later(99)));
        assert!(flow.can_have_left(0, flow.opened));
    }

    #[test]
    fn intervals_follow_one_another_over_the_time_that_a_flow_is_open() {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let at = |ms| Instant::from_nanos(0) + Duration::from_millis(ms);
        let mut flow = flow(to, &[0; KEY], at(50));
        let began: Vec<_> = [200, 400, 430]
            .map(|ms| flow.take_interval(at(ms)).0.began)
            .to_vec();
        assert_eq!(began, [at(50), at(200), at(400)]);
    }
}
