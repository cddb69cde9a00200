//! Requests and their responses: a client that sends the one, a server that answers with the
//! other, over connections of any transport.
//!
//! It is the example of an application that a scenario names and a campaign judges.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use narrows_core::{
    App, Data, Event, Reduce, SocketError, SocketEvent, SocketId, Sockets, TelemetryField,
};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Rng, Value, WordError, Words, word_for,
};

use crate::draw::exponential;
use crate::kind::{Kind, Site};
use crate::spec::{Carries, above_zero};

/// Connections that may wait to be accepted: Linux's default `net.core.somaxconn`.
const BACKLOG: u32 = 4_096;

/// Bytes of a request by default (our choice): a GET with the headers that browsers send.
const REQUEST: u64 = 500;

/// Bytes of a response by default (our choice): a small object.
const RESPONSE: u64 = 20_000;

/// Mean time between requests by default (our choice): ten a second.
const TIME: Duration = Duration::from_millis(100);

/// Requests issued in a row by a client that is late, before others have their turn (our
/// choice).
const BURST: u32 = 64;

/// From the request to the last byte of its response.
const RESPONSE_TIME: TelemetryField = TelemetryField::new(
    "response",
    "ms",
    "time from a request to the last byte of its response",
    Reduce::Sample,
)
.in_parts(1_000_000)
.in_chart("response time");

/// Requests that were issued.
const REQUESTS: TelemetryField =
    TelemetryField::new("requests", "", "requests that were issued", Reduce::Counter);

/// Requests whose connection was lost.
const FAILED: TelemetryField = TelemetryField::new(
    "failed",
    "",
    "requests whose connection was lost before the response was there",
    Reduce::Counter,
);

/// Requests whose response is awaited.
const OUTSTANDING: TelemetryField = TelemetryField::new(
    "outstanding",
    "",
    "requests whose response is not complete, at each sample",
    Reduce::Gauge,
);

/// When requests are issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arrivals {
    /// This time after the response to the one before: a closed loop.
    Think(Duration),
    /// At constant intervals, answered or not.
    Every(Duration),
    /// At random times, answered or not: a Poisson process with this mean interval.
    Poisson(Duration),
}

/// Over which connections requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connections {
    /// One that is kept, in the order of the requests.
    Kept,
    /// A new one for each.
    New,
}

const CONNECTIONS: [(&str, Connections); 2] =
    [("kept", Connections::Kept), ("new", Connections::New)];

const ARRIVALS: &str = "think TIME, every TIME or poisson TIME";

/// The parameters of `request`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSpec {
    request: u64,
    response: u64,
    arrivals: Arrivals,
    connection: Connections,
}

impl Default for RequestSpec {
    fn default() -> Self {
        Self {
            request: REQUEST,
            response: RESPONSE,
            arrivals: Arrivals::Think(TIME),
            connection: Connections::Kept,
        }
    }
}

impl Arrivals {
    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let word = words.needed(ARRIVALS)?;
        let of = match word.text {
            "think" => Self::Think,
            "every" => Self::Every,
            "poisson" => Self::Poisson,
            _ => return Err(word.refused(ARRIVALS)),
        };
        Ok(of(above_zero(words, Duration::as_nanos)?))
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Think(time) => write!(f, "think {time}"),
            Self::Every(time) => write!(f, "every {time}"),
            Self::Poisson(time) => write!(f, "poisson {time}"),
        }
    }
}

impl Kind for RequestSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "request BYTES",
            ParameterKind::Size,
            Bytes::ALLOWED,
            "500b",
            "Size of each request",
        ),
        Parameter::new(
            "response BYTES",
            ParameterKind::Size,
            Bytes::ALLOWED,
            "20000b",
            "Size of each response",
        ),
        Parameter::new(
            "arrivals WHEN",
            ParameterKind::Words,
            ARRIVALS,
            "think 100ms",
            "When requests are issued: a time after the response to the one before (`think`), at \
             constant intervals, or as a Poisson process with this mean interval",
        ),
        Parameter::new(
            "connection kept|new",
            ParameterKind::Choice,
            "kept or new",
            "kept",
            "Whether one connection is kept for all requests, or each opens its own",
        ),
    ];

    const REPORTS: &'static [TelemetryField] = &[RESPONSE_TIME, REQUESTS, FAILED, OUTSTANDING];

    const CARRIES: Carries = Carries::Stream;

    fn set(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), WordError> {
        match name {
            "request" => self.request = above_zero::<Bytes>(words, |b| b.get())?.get(),
            "response" => self.response = above_zero::<Bytes>(words, |b| b.get())?.get(),
            "arrivals" => self.arrivals = Arrivals::parse(words)?,
            _ => self.connection = words.one_of(&CONNECTIONS)?,
        }
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        vec![
            Bytes::new(self.request).to_string(),
            Bytes::new(self.response).to_string(),
            self.arrivals.to_string(),
            word_for(&CONNECTIONS, &self.connection).to_owned(),
        ]
    }

    fn ends(&self, site: &Site) -> [Box<dyn App>; 2] {
        let client = Client {
            rng: site.rng("arrivals"),
            spec: *self,
            site: site.clone(),
            due: Some(site.start),
            connections: BTreeMap::new(),
        };
        let server = Server {
            spec: *self,
            site: site.clone(),
            connections: BTreeMap::new(),
        };
        [Box::new(client), Box::new(server)]
    }
}

/// What is still to be written to a connection.
#[derive(Debug, Default)]
struct Outgoing {
    bytes: u64,
    /// Whether the socket reports room. A socket that has room before it takes anything, as
    /// QUIC's before its handshake, would report it for each time that it is asked to.
    waits: bool,
}

impl Outgoing {
    /// Writes as much as the socket takes.
    fn write(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        if self.bytes > 0 {
            self.bytes -= host.write(socket, Data::Zeros(self.bytes));
        }
        let waits = self.bytes > 0;
        if waits != self.waits {
            self.waits = waits;
            host.want_room(socket, waits);
        }
    }
}

/// A connection at the client.
#[derive(Debug, Default)]
struct Asking {
    /// When each request was issued whose response is not complete.
    issued: VecDeque<Instant>,
    outgoing: Outgoing,
    /// Bytes of the response to the first of `issued` that have arrived.
    arrived: u64,
}

/// Issues requests and measures how long their responses take.
struct Client {
    spec: RequestSpec,
    site: Site,
    rng: Rng,
    /// When the next request is to be issued; not while the response to the one before is
    /// awaited.
    due: Option<Instant>,
    connections: BTreeMap<SocketId, Asking>,
}

impl Client {
    fn report(&self, host: &mut dyn Sockets, field: TelemetryField, value: u64) {
        host.record(Event::Telemetry {
            source: self.site.entity.into(),
            field,
            value: i64::try_from(value).unwrap_or(i64::MAX),
        });
    }

    /// Sets the time of the request after the one that is issued at `at`.
    fn schedule(&mut self, at: Instant) {
        let next = match self.spec.arrivals {
            Arrivals::Think(_) => None,
            Arrivals::Every(time) => Some(at + time),
            Arrivals::Poisson(mean) => Some(at + exponential(&mut self.rng, mean)),
        };
        self.due = next.filter(|at| *at < self.site.stop);
    }

    /// Issues a request that was due at `at`.
    fn issue(&mut self, host: &mut dyn Sockets, at: Instant) {
        self.report(host, REQUESTS, 1);
        let kept = match self.spec.connection {
            Connections::Kept => self.connections.keys().next().copied(),
            Connections::New => None,
        };
        let socket = match kept {
            Some(socket) => Ok(socket),
            None => host.connect(self.site.from.profile, None, self.site.to.local),
        };
        let Ok(socket) = socket else {
            self.report(host, FAILED, 1);
            self.think(host.now());
            return;
        };
        let asking = self.connections.entry(socket).or_default();
        asking.issued.push_back(at);
        asking.outgoing.bytes += self.spec.request;
        self.write(host, socket);
    }

    fn write(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        if let Some(asking) = self.connections.get_mut(&socket) {
            asking.outgoing.write(host, socket);
        }
    }

    fn read(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        let read = host.read(socket, u64::MAX, None);
        let Some(asking) = self.connections.get_mut(&socket) else {
            return;
        };
        asking.arrived += read;
        let mut answered = Vec::new();
        while asking.arrived >= self.spec.response {
            let Some(issued) = asking.issued.pop_front() else {
                break;
            };
            asking.arrived -= self.spec.response;
            answered.push(issued);
        }
        let over = asking.issued.is_empty() && !answered.is_empty();
        let now = host.now();
        for issued in &answered {
            self.report(host, RESPONSE_TIME, now.since(*issued).as_nanos());
            self.think(now);
        }
        let last = self.spec.connection == Connections::New || self.due.is_none();
        if over && last {
            self.forget(host, socket);
        }
        host.wake_at(self.due);
    }

    /// What was awaited is over: the next request follows after the time to think.
    fn think(&mut self, now: Instant) {
        if let Arrivals::Think(time) = self.spec.arrivals {
            self.due = Some(now + time).filter(|at| *at < self.site.stop);
        }
    }

    fn forget(&mut self, host: &mut dyn Sockets, socket: SocketId) -> Option<Asking> {
        host.shut_down(socket);
        host.close(socket);
        self.connections.remove(&socket)
    }
}

impl App for Client {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.wake_at(self.due);
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Established { .. } | SocketEvent::Writable => self.write(host, socket),
            SocketEvent::Readable => self.read(host, socket),
            SocketEvent::PeerClosed | SocketEvent::Broken(_) => {
                let lost = self.forget(host, socket).unwrap_or_default();
                for _ in lost.issued {
                    self.report(host, FAILED, 1);
                    self.think(host.now());
                }
                host.wake_at(self.due);
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        for _ in 0..BURST {
            let Some(due) = self.due.filter(|at| *at <= host.now()) else {
                break;
            };
            self.schedule(due);
            self.issue(host, due);
        }
        host.wake_at(self.due);
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        let awaited: usize = self.connections.values().map(|c| c.issued.len()).sum();
        self.report(host, OUTSTANDING, awaited as u64);
    }
}

/// A connection at the server.
#[derive(Debug, Default)]
struct Answering {
    /// Bytes of a request that is not complete.
    arrived: u64,
    outgoing: Outgoing,
    /// The client has ended its stream.
    peer_closed: bool,
}

/// Answers each request when all of it is there.
struct Server {
    spec: RequestSpec,
    site: Site,
    connections: BTreeMap<SocketId, Answering>,
}

impl Server {
    fn serve(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        let Some(answering) = self.connections.get_mut(&socket) else {
            return;
        };
        answering.arrived += host.read(socket, u64::MAX, None);
        let complete = answering.arrived / self.spec.request;
        answering.arrived %= self.spec.request;
        answering.outgoing.bytes += complete * self.spec.response;
        answering.outgoing.write(host, socket);
        if answering.peer_closed && answering.outgoing.bytes == 0 {
            host.shut_down(socket);
            self.forget(host, socket);
        }
    }

    fn forget(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        host.close(socket);
        self.connections.remove(&socket);
    }
}

impl App for Server {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        let end = self.site.to;
        host.listen(end.profile, end.local, BACKLOG).map(|_| ())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Incoming => {
                while let Some((accepted, _)) = host.accept(socket) {
                    self.connections.insert(accepted, Answering::default());
                }
            }
            SocketEvent::Readable | SocketEvent::Writable => self.serve(host, socket),
            SocketEvent::PeerClosed => {
                if let Some(answering) = self.connections.get_mut(&socket) {
                    answering.peer_closed = true;
                }
                self.serve(host, socket);
            }
            SocketEvent::Broken(_) => self.forget(host, socket),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::AppSpec;

    #[test]
    fn words_print_back() {
        let mut spec = AppSpec::new("request").expect("a kind");
        for (name, value) in [
            ("request", "1Kb"),
            ("response", "1Mb"),
            ("arrivals", "poisson 20ms"),
            ("arrivals", "every 1s"),
            ("connection", "new"),
        ] {
            spec.set(name, value).expect(value);
        }
        let words = "request request 1Kb response 1Mb arrivals every 1s connection new";
        assert_eq!(spec.to_string(), words);
    }

    #[test]
    fn wrong_values_are_refused_at_their_place() {
        for (name, value, at) in [
            ("request", "0", "0"),
            ("response", "-1", "-1"),
            ("response", "1kb 2", "2"),
            ("arrivals", "often", "often"),
            ("arrivals", "think", ""),
            ("arrivals", "poisson 0s", "0s"),
            ("connection", "old", "old"),
        ] {
            let error = AppSpec::new("request").expect("a kind").set(name, value);
            let error = error.expect_err(value);
            assert_eq!(&value[error.span.clone()], at, "{value}: {error}");
        }
    }
}
