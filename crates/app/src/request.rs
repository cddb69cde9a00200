//! Requests and their responses: a client that sends the one, a server that answers with the
//! other, over connections of any transport.
//!
//! It is the example of an application that a scenario names and a campaign judges.

use std::fmt;

use narrows_core::{App, Reduce, SocketError, SocketEvent, SocketId, Sockets, TelemetryField};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Value, WordError, Words, word_for,
};
use narrows_wire::ip::Ecn;

use crate::arrivals::{Arrivals, BURST, Timetable, interval};
use crate::exchange::{Ask, Exchanges, Over, Server};
use crate::kind::{Delivery, Kind, Misfit, Site};
use crate::spec::{Carries, above_zero};

/// Bytes of a request by default (our choice): a GET with the headers that browsers send.
const REQUEST: u64 = 500;

/// Bytes of a response by default (our choice): a small object.
const RESPONSE: u64 = 20_000;

/// Mean time between requests by default (our choice): ten a second.
const TIME: Duration = Duration::from_millis(100);

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
enum Issue {
    /// This time after the response to the one before: a closed loop.
    Think(Duration),
    /// Answered or not.
    Open(Arrivals),
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

/// What a request's size may be.
const REQUEST_SIZES: &str = "a size of at least 24 bytes, in which it says for how many it asks";

/// The parameters of `request`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSpec {
    request: u64,
    response: u64,
    arrivals: Issue,
    connection: Connections,
}

impl Default for RequestSpec {
    fn default() -> Self {
        Self {
            request: REQUEST,
            response: RESPONSE,
            arrivals: Issue::Think(TIME),
            connection: Connections::Kept,
        }
    }
}

impl Issue {
    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let word = words.needed(ARRIVALS)?;
        if word.text == "think" {
            return interval(words).map(Self::Think);
        }
        let arrivals = Arrivals::begun(word, words)?;
        arrivals
            .map(Self::Open)
            .ok_or_else(|| word.refused(ARRIVALS))
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Think(time) => write!(f, "think {time}"),
            Self::Open(arrivals) => arrivals.fmt(f),
        }
    }
}

impl Kind for RequestSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "request BYTES",
            ParameterKind::Size,
            REQUEST_SIZES,
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

    fn codepoint(&self) -> Ecn {
        Ecn::NotEct
    }

    fn deliveries(&self) -> Vec<Delivery> {
        vec![Delivery {
            what: ["request", "was answered"],
            due: Some(REQUESTS),
            waiting: Some(OUTSTANDING),
            got: RESPONSE_TIME,
            failed: Some(FAILED),
        }]
    }

    fn set(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), WordError> {
        match name {
            "request" => {
                let fits = |size: &Bytes| size.get() >= Ask::LEN;
                self.request = words.checked_value(REQUEST_SIZES, fits)?.get();
            }
            "response" => self.response = above_zero::<Bytes>(words, |b| b.get())?.get(),
            "arrivals" => self.arrivals = Issue::parse(words)?,
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

    fn misfit(&self) -> Option<Misfit> {
        None
    }

    fn ends(&self, site: &Site) -> [Box<dyn App>; 2] {
        let next = match self.arrivals {
            Issue::Think(time) => Next::Think {
                time,
                due: Some(site.start),
            },
            Issue::Open(arrivals) => {
                let rng = site.rng("arrivals");
                Next::Open(Timetable::new(arrivals, rng, site.start, site.stop))
            }
        };
        let client = Client {
            next,
            spec: *self,
            site: site.clone(),
            exchanges: Exchanges::new(),
        };
        let server = Server::new(site.to, |_, _| {});
        [Box::new(client), Box::new(server)]
    }
}

/// When the next request is to be issued.
enum Next {
    /// Not while the response to the one before is awaited.
    Think {
        time: Duration,
        due: Option<Instant>,
    },
    Open(Timetable),
}

impl Next {
    fn due(&self) -> Option<Instant> {
        match self {
            Self::Think { due, .. } => *due,
            Self::Open(timetable) => timetable.next(),
        }
    }

    fn take(&mut self, now: Instant) -> Option<Instant> {
        match self {
            Self::Think { due, .. } => due.take_if(|at| *at <= now),
            Self::Open(timetable) => timetable.take(now),
        }
    }
}

/// Issues requests and measures how long their responses take.
struct Client {
    spec: RequestSpec,
    site: Site,
    next: Next,
    /// With when each was issued.
    exchanges: Exchanges<Instant>,
}

impl Client {
    /// Issues a request that was due at `at`.
    fn issue(&mut self, host: &mut dyn Sockets, at: Instant) {
        self.site.report(host, REQUESTS, 1);
        let kept = match self.spec.connection {
            Connections::Kept => self.exchanges.first(),
            Connections::New => None,
        };
        let socket = match kept {
            Some(socket) => Ok(socket),
            None => self
                .exchanges
                .open(host, self.site.from.profile, &self.site.to),
        };
        let Ok(socket) = socket else {
            return self.over(host, Over::Lost(at));
        };
        let ask = Ask {
            request: self.spec.request,
            response: self.spec.response,
            issued: at,
            last: false,
        };
        self.exchanges.ask(host, socket, ask, at);
    }

    /// What was awaited is over: the next request follows after the time to think.
    fn over(&mut self, host: &mut dyn Sockets, over: Over<Instant>) {
        let now = host.now();
        match over {
            Over::Answered(issued) => {
                let time = now.since(issued).as_nanos();
                self.site.report(host, RESPONSE_TIME, time);
            }
            Over::Lost(_) => self.site.report(host, FAILED, 1),
        }
        if let Next::Think { time, due } = &mut self.next {
            *due = Some(now + *time).filter(|at| *at < self.site.stop);
        }
    }
}

impl App for Client {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.site.announce(host, RequestSpec::REPORTS);
        host.wake_at(self.next.due());
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        let over = self.exchanges.on_event(host, socket, event);
        if over.is_empty() {
            return;
        }
        for over in over {
            self.over(host, over);
        }
        let last = self.spec.connection == Connections::New || self.next.due().is_none();
        if last && self.exchanges.is_idle(socket) {
            self.exchanges.forget(host, socket);
        }
        host.wake_at(self.next.due());
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        for _ in 0..BURST {
            let Some(due) = self.next.take(host.now()) else {
                break;
            };
            self.issue(host, due);
        }
        host.wake_at(self.next.due());
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        let awaited = self.exchanges.awaited() as u64;
        self.site.report(host, OUTSTANDING, awaited);
    }
}

#[cfg(test)]
mod tests {
    use crate::kind::testing::{refused_at, with};

    #[test]
    fn words_print_back() {
        let spec = with(
            "request",
            &[
                ("request", "1Kb"),
                ("response", "1Mb"),
                ("arrivals", "poisson 20ms"),
                ("arrivals", "every 1s"),
                ("connection", "new"),
            ],
        );
        let words = "request request 1Kb response 1Mb arrivals every 1s connection new";
        assert_eq!(spec.to_string(), words);
    }

    #[test]
    fn wrong_values_are_refused_at_their_place() {
        refused_at(
            "request",
            &[
                ("request", "23", "23"),
                ("response", "-1", "-1"),
                ("response", "1kb 2", "2"),
                ("arrivals", "often", "often"),
                ("arrivals", "think", ""),
                ("arrivals", "think 1ns", "1ns"),
                ("arrivals", "poisson 0s", "0s"),
                ("connection", "old", "old"),
            ],
        );
    }
}
