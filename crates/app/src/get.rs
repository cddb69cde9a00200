//! Clients that each fetch an object now and then, over a connection of its own each time: pages,
//! segments of video and downloads of a traffic mix.

use std::collections::BTreeSet;
use std::fmt;

use narrows_core::{App, Reduce, SocketError, SocketEvent, SocketId, Sockets, TelemetryField};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Value, WordError, Words, word_for,
};
use narrows_wire::ip::Ecn;

use crate::arrivals::BURST;
use crate::exchange::{Ask, Exchanges, Over, Server};
use crate::kind::{Delivery, Kind, Misfit, Site};
use crate::spec::{Carries, above_zero};

/// Bytes of an object by default: the web page of trafic's mixer.
const OBJECT: u64 = 1_246_000;

/// Bytes of the request for one (our choice): a GET with the headers that browsers send.
const REQUEST: u64 = 500;

/// Time between the objects of a client by default: that of trafic's web page.
const PERIOD: Duration = Duration::from_secs(10);

/// The shortest period (our choice), so that a timetable has an end.
const SHORTEST: Duration = Duration::from_millis(1);

/// Most clients of one application (our choice).
const MAX_CLIENTS: u32 = 10_000;

/// Most times of `at` (our choice).
const MAX_TIMES: usize = 1_000;

const COMPLETION: TelemetryField = TelemetryField::new(
    "completion",
    "ms",
    "time from when an object is due to its last byte",
    Reduce::Sample,
)
.in_parts(1_000_000)
.in_chart("completion time");

const ASKED: TelemetryField =
    TelemetryField::new("asked", "", "objects that were due", Reduce::Counter);

const COMPLETE: TelemetryField =
    TelemetryField::new("complete", "", "objects that are there", Reduce::Counter);

const RECEIVED: TelemetryField = TelemetryField::new(
    "received",
    "bytes",
    "bytes of objects that arrived, incomplete ones as well",
    Reduce::Counter,
);

const FAILED: TelemetryField = TelemetryField::new(
    "failed",
    "",
    "objects whose connection was lost",
    Reduce::Counter,
);

const UNFINISHED: TelemetryField = TelemetryField::new(
    "unfinished",
    "",
    "objects that are awaited, at each sample",
    Reduce::Gauge,
);

/// When each client asks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Starts {
    Every {
        period: Duration,
        times: Option<u32>,
    },
    At(Vec<Duration>),
}

const STARTS: &str = "every TIME [times NUMBER], at least 1ms, or at TIME TIME …";

/// Where in the first period clients begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Offsets {
    Random,
    Spread,
    Together,
}

const OFFSETS: [(&str, Offsets); 3] = [
    ("random", Offsets::Random),
    ("spread", Offsets::Spread),
    ("together", Offsets::Together),
];

impl Starts {
    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let word = words.needed(STARTS)?;
        match word.text {
            "every" => {
                let period =
                    words.checked_value("1ms or more", |time: &Duration| *time >= SHORTEST)?;
                let times = match words.take_if("times") {
                    true => Some(words.checked_value("1 and more", |n: &u32| *n > 0)?),
                    false => None,
                };
                Ok(Self::Every { period, times })
            }
            "at" => {
                let mut times = Vec::new();
                while words.peek().is_some() || times.is_empty() {
                    let room = times.len() < MAX_TIMES;
                    let allowed = format!("up to {MAX_TIMES} times such as 5s");
                    times.push(words.checked_value(allowed, |_: &Duration| room)?);
                }
                times.sort_unstable();
                Ok(Self::At(times))
            }
            _ => Err(word.refused(STARTS)),
        }
    }
}

impl fmt::Display for Starts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every { period, times } => {
                write!(f, "every {period}")?;
                times.map_or(Ok(()), |times| write!(f, " times {times}"))
            }
            Self::At(times) => {
                f.write_str("at")?;
                times.iter().try_for_each(|time| write!(f, " {time}"))
            }
        }
    }
}

/// The parameters of `get`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GetSpec {
    bytes: u64,
    clients: u32,
    starts: Starts,
    offsets: Offsets,
}

impl Default for GetSpec {
    fn default() -> Self {
        Self {
            bytes: OBJECT,
            clients: 1,
            starts: Starts::Every {
                period: PERIOD,
                times: None,
            },
            offsets: Offsets::Random,
        }
    }
}

impl Kind for GetSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "bytes BYTES",
            ParameterKind::Size,
            Bytes::ALLOWED,
            "1246000b",
            "Size of each object",
        ),
        Parameter::new(
            "clients NUMBER",
            ParameterKind::Number("clients"),
            "1 to 10000",
            "1",
            "How many clients there are",
        ),
        Parameter::new(
            "starts WHEN",
            ParameterKind::Words,
            STARTS,
            "every 10s",
            "When each client asks, whether the object before is there or not: at constant \
             intervals, so many times if that is said, or at these times after its beginning",
        ),
        Parameter::new(
            "offsets random|spread|together",
            ParameterKind::Choice,
            "random, spread or together",
            "random",
            "Where in the first interval of `every` each client begins: drawn, evenly, or all at once",
        ),
    ];

    const REPORTS: &'static [TelemetryField] =
        &[COMPLETION, ASKED, COMPLETE, RECEIVED, FAILED, UNFINISHED];

    const CARRIES: Carries = Carries::Stream;

    fn codepoint(&self) -> Ecn {
        Ecn::NotEct
    }

    fn deliveries(&self) -> Vec<Delivery> {
        vec![Delivery {
            what: ["object", "was complete"],
            due: Some(ASKED),
            waiting: Some(UNFINISHED),
            got: COMPLETE,
            failed: Some(FAILED),
        }]
    }

    fn set(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), WordError> {
        match name {
            "bytes" => self.bytes = above_zero::<Bytes>(words, |b| b.get())?.get(),
            "clients" => {
                let fits = |n: &u32| (1..=MAX_CLIENTS).contains(n);
                self.clients = words.checked_value("1 to 10000", fits)?;
            }
            "starts" => self.starts = Starts::parse(words)?,
            _ => self.offsets = words.one_of(&OFFSETS)?,
        }
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        vec![
            Bytes::new(self.bytes).to_string(),
            self.clients.to_string(),
            self.starts.to_string(),
            word_for(&OFFSETS, &self.offsets).to_owned(),
        ]
    }

    fn misfit(&self) -> Option<Misfit> {
        None
    }

    fn ends(&self, site: &Site) -> [Box<dyn App>; 2] {
        let client = Client {
            timetable: Timetable::new(self, site),
            bytes: self.bytes,
            site: site.clone(),
            exchanges: Exchanges::new(),
        };
        let server = Server::new(site.to, |_, _| {});
        [Box::new(client), Box::new(server)]
    }
}

/// When each client asks next.
#[derive(Debug)]
struct Timetable {
    /// When, which client, and how many times it asked before.
    due: BTreeSet<(Instant, u32, u32)>,
    starts: Starts,
    begins: Vec<Instant>,
    stop: Instant,
}

impl Timetable {
    fn new(spec: &GetSpec, site: &Site) -> Self {
        let mut rng = site.rng("offsets");
        let clients = spec.clients;
        let mut offset = |client: u32| match (&spec.starts, spec.offsets) {
            (Starts::At(_), _) | (_, Offsets::Together) => Duration::ZERO,
            (Starts::Every { period, .. }, Offsets::Random) => rng.within(*period),
            (Starts::Every { period, .. }, Offsets::Spread) => {
                let ns = u128::from(period.as_nanos()) * u128::from(client) / u128::from(clients);
                Duration::from_nanos(ns as u64)
            }
        };
        let mut new = Self {
            due: BTreeSet::new(),
            starts: spec.starts.clone(),
            begins: (0..clients).map(|c| site.start + offset(c)).collect(),
            stop: site.stop,
        };
        (0..clients).for_each(|client| new.note(client, 0));
        new
    }

    /// Notes when `client` asks after it asked `times` times.
    fn note(&mut self, client: u32, times: u32) {
        let begins = self.begins[client as usize];
        let after = match &self.starts {
            Starts::Every {
                period,
                times: most,
            } => most
                .is_none_or(|most| times < most)
                .then(|| *period * u64::from(times)),
            Starts::At(list) => list.get(times as usize).copied(),
        };
        let at = after.map(|after| begins + after);
        self.due.extend(
            at.filter(|at| *at < self.stop)
                .map(|at| (at, client, times)),
        );
    }

    fn next(&self) -> Option<Instant> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// Takes one that is due at `now`: when it was.
    fn take(&mut self, now: Instant) -> Option<Instant> {
        let (at, client, times) = *self.due.first().filter(|(at, ..)| *at <= now)?;
        self.due.pop_first();
        self.note(client, times + 1);
        Some(at)
    }
}

/// The clients of one application.
struct Client {
    timetable: Timetable,
    bytes: u64,
    site: Site,
    /// With when each object was due.
    exchanges: Exchanges<Instant>,
}

impl Client {
    fn ask(&mut self, host: &mut dyn Sockets, at: Instant) {
        self.site.report(host, ASKED, 1);
        let opened = self
            .exchanges
            .open(host, self.site.from.profile, &self.site.to);
        let Ok(socket) = opened else {
            return self.site.report(host, FAILED, 1);
        };
        let ask = Ask {
            request: REQUEST,
            response: self.bytes,
            issued: at,
            last: true,
        };
        self.exchanges.ask(host, socket, ask, at);
    }
}

impl App for Client {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.site.announce(host, GetSpec::REPORTS);
        host.wake_at(self.timetable.next());
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        let over = self.exchanges.on_event(host, socket, event);
        let arrived = self.exchanges.take_arrived();
        if arrived > 0 {
            self.site.report(host, RECEIVED, arrived);
        }
        for over in over {
            match over {
                Over::Answered(due) => {
                    let taken = host.now().since(due).as_nanos();
                    self.site.report(host, COMPLETE, 1);
                    self.site.report(host, COMPLETION, taken);
                }
                Over::Lost(_) => self.site.report(host, FAILED, 1),
            }
        }
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        for _ in 0..BURST {
            let Some(due) = self.timetable.take(host.now()) else {
                break;
            };
            self.ask(host, due);
        }
        host.wake_at(self.timetable.next());
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        let awaited = self.exchanges.awaited() as u64;
        self.site.report(host, UNFINISHED, awaited);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use narrows_core::{EntityId, Profile};

    use super::*;
    use crate::AppSpec;
    use crate::kind::SiteEnd;
    use crate::kind::testing::{refused_at, with};

    #[test]
    fn words_print_back() {
        let parameters = [
            ("bytes", "1800000b"),
            ("clients", "27"),
            ("starts", "at 0s 5s 15s"),
            ("starts", "every 10s times 6"),
            ("offsets", "spread"),
        ];
        let words = "get bytes 1800000b clients 27 starts every 10s times 6 offsets spread";
        assert_eq!(with("get", &parameters).to_string(), words);
    }

    #[test]
    fn wrong_values_are_refused_at_their_place() {
        refused_at(
            "get",
            &[
                ("bytes", "0", "0"),
                ("clients", "0", "0"),
                ("clients", "10001", "10001"),
                ("starts", "often", "often"),
                ("starts", "every 10us", "10us"),
                ("starts", "every 1s times 0", "0"),
                ("starts", "at", ""),
                ("starts", "at 1s now", "now"),
                ("offsets", "even", "even"),
            ],
        );
    }

    /// When the clients of `parameters` ask, in a run of 60 s.
    fn times(parameters: &[(&str, &str)], seed: u64) -> Vec<Duration> {
        let AppSpec::Get(spec) = with("get", parameters) else {
            panic!("another kind");
        };
        let end = SiteEnd {
            profile: Profile(0),
            local: SocketAddr::from(([0, 0, 0, 0], 1)),
        };
        let site = Site {
            entity: EntityId(0),
            name: "app/get".to_owned(),
            seed,
            from: end,
            to: end,
            start: Instant::ZERO,
            stop: Instant::ZERO + Duration::from_secs(60),
        };
        let mut timetable = Timetable::new(&spec, &site);
        let all = std::iter::from_fn(|| timetable.take(Instant::MAX));
        all.map(|at| at.since(Instant::ZERO)).collect()
    }

    #[test]
    fn each_client_asks_as_often_as_it_is_to_whatever_is_drawn() {
        let random = [("clients", "25"), ("starts", "every 10s times 6")];
        let drawn = times(&random, 1);
        assert_eq!(drawn.len(), 150);
        assert_eq!(drawn, times(&random, 1));
        assert_ne!(drawn, times(&random, 2));
        assert!(drawn.is_sorted());
        let spread = times(&[("clients", "4"), ("offsets", "spread")], 1);
        let first: Vec<_> = spread[..4].iter().map(|t| t.as_millis()).collect();
        assert_eq!(first, [0, 2_500, 5_000, 7_500]);
        // In whatever order they are named.
        let at = times(&[("clients", "2"), ("starts", "at 5s 0s 70s")], 1);
        let seconds: Vec<_> = at.iter().map(|t| t.as_millis() / 1_000).collect();
        assert_eq!(seconds, [0, 0, 5, 5]);
    }
}
