//! Short flows: transfers of drawn sizes that begin at drawn times, each over a connection of
//! its own, and how long each takes.

use std::fmt;

use narrows_core::{App, Reduce, SocketError, SocketEvent, SocketId, Sockets, TelemetryField};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Rate, Rng, WordError, Words, word_for,
};
use narrows_wire::ip::Ecn;

use crate::arrivals::{Arrivals, BURST, SHORTEST, Timetable};
use crate::exchange::{Ask, Exchanges, Over, Server};
use crate::kind::{Delivery, Kind, Misfit, Site};
use crate::sizes::{SIZES, Sizes};
use crate::spec::{Carries, above_zero};

/// From when a flow is due to its last byte.
const COMPLETION: TelemetryField = TelemetryField::new(
    "completion",
    "ms",
    "time from when a flow is due to begin to its last byte at the receiver",
    Reduce::Sample,
)
.in_parts(1_000_000)
.in_chart("completion time");

/// The same over what an empty path takes.
const SLOW_DOWN: TelemetryField = TelemetryField::new(
    "slow_down",
    "",
    "completion time over that on an empty path, where `ideal` says what that has",
    Reduce::Sample,
)
.in_parts(1_000);

/// Flows that began.
const STARTED: TelemetryField =
    TelemetryField::new("started", "", "flows that began", Reduce::Counter);

/// Flows that are complete.
const FINISHED: TelemetryField = TelemetryField::new(
    "finished",
    "",
    "flows of which the receiver has the last byte",
    Reduce::Counter,
);

/// Flows whose connection was lost, or could not be opened.
const FAILED: TelemetryField = TelemetryField::new(
    "failed",
    "",
    "flows that had no connection, or lost it before they were complete",
    Reduce::Counter,
);

/// Flows that are under way.
const UNFINISHED: TelemetryField = TelemetryField::new(
    "unfinished",
    "",
    "flows that have begun and are not over, at each sample",
    Reduce::Gauge,
);

/// When flows begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    At(Arrivals),
    /// At random times, so that their bytes are this rate on average.
    Load(Rate),
}

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// The end that opens the connection.
    Up,
    /// The one that answers, when it was asked.
    Down,
}

const DIRECTIONS: [(&str, Direction); 2] = [("up", Direction::Up), ("down", Direction::Down)];

/// An empty path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ideal {
    rate: Rate,
    rtt: Duration,
}

const ARRIVALS: &str = "poisson TIME, every TIME or load RATE";
const IDEAL: &str = "off or rate RATE rtt TIME";

/// The parameters of `short`.
#[derive(Clone, Debug, PartialEq)]
pub struct ShortSpec {
    sizes: Sizes,
    begin: Begin,
    direction: Direction,
    ideal: Option<Ideal>,
}

impl Default for ShortSpec {
    fn default() -> Self {
        Self {
            // Our choice: a quarter of them fit the initial window of ten segments (RFC 6928).
            sizes: Sizes::LogNormal {
                centre: crate::sizes::Centre::Median,
                size: 30_000,
                sigma: 1.0,
            },
            begin: Begin::At(Arrivals::Poisson(Duration::from_millis(100))),
            direction: Direction::Up,
            ideal: None,
        }
    }
}

impl Begin {
    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let word = words.needed(ARRIVALS)?;
        if word.text == "load" {
            return above_zero(words, Rate::as_bits).map(Self::Load);
        }
        let arrivals = Arrivals::begun(word, words)?;
        arrivals.map(Self::At).ok_or_else(|| word.refused(ARRIVALS))
    }

    /// The mean time between flows of these sizes.
    fn interval(self, sizes: &Sizes) -> Duration {
        match self {
            Self::At(Arrivals::Every(time) | Arrivals::Poisson(time)) => time,
            Self::Load(rate) => {
                let seconds = sizes.mean() * 8.0 / rate.as_bits() as f64;
                Duration::from_nanos(libm::round(seconds * 1e9).max(1.0) as u64)
            }
        }
    }

    /// The times between flows of these sizes.
    fn arrivals(self, sizes: &Sizes) -> Arrivals {
        match self {
            Self::At(arrivals) => arrivals,
            Self::Load(_) => Arrivals::Poisson(self.interval(sizes)),
        }
    }
}

impl fmt::Display for Begin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(arrivals) => arrivals.fmt(f),
            Self::Load(rate) => write!(f, "load {rate}"),
        }
    }
}

impl Ideal {
    fn parse(words: &mut Words<'_>) -> Result<Option<Self>, WordError> {
        let word = words.needed(IDEAL)?;
        match word.text {
            "off" => return Ok(None),
            "rate" => {}
            _ => return Err(word.refused(IDEAL)),
        }
        let rate = above_zero(words, Rate::as_bits)?;
        if !words.take_if("rtt") {
            return Err(words.needed("rtt TIME")?.refused("rtt TIME"));
        }
        let rtt = words.value()?;
        Ok(Some(Self { rate, rtt }))
    }

    /// What a flow of `bytes` takes at least: its handshake, the way of its data, that of a
    /// request if it waits for one, and its bytes at the rate. What the window is too small
    /// for is not in it.
    fn time(self, bytes: u64, direction: Direction) -> Duration {
        let trips = match direction {
            Direction::Up => 3,
            Direction::Down => 4,
        };
        let bits = u128::from(bytes) * 8 * 1_000_000_000;
        let sending = bits / u128::from(self.rate.as_bits().max(1));
        let sending = u64::try_from(sending).unwrap_or(u64::MAX);
        Duration::from_nanos(self.rtt.as_nanos() * trips / 2 + sending)
    }
}

impl Kind for ShortSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "sizes SIZES",
            ParameterKind::Words,
            SIZES,
            "lognormal median 30000b sigma 1",
            "Size of each flow: constant, log-normal, one of a list, or of an empirical \
             distribution as points BYTES:PART, of which PART of all flows are no larger; at \
             least 24 bytes",
        ),
        Parameter::new(
            "arrivals WHEN",
            ParameterKind::Words,
            ARRIVALS,
            "poisson 100ms",
            "When flows begin: as a Poisson process with this mean interval, at constant \
             intervals, or as the Poisson process by which their bytes are this rate on average",
        ),
        Parameter::new(
            "direction up|down",
            ParameterKind::Choice,
            "up or down",
            "up",
            "Who sends: the end that opens the connection (`from`), or the other when it was asked",
        ),
        Parameter::new(
            "ideal PATH",
            ParameterKind::Words,
            IDEAL,
            "off",
            "The empty path that `slow_down` compares with: its rate of payload and round trip",
        ),
    ];

    const REPORTS: &'static [TelemetryField] =
        &[COMPLETION, SLOW_DOWN, STARTED, FINISHED, FAILED, UNFINISHED];

    const CARRIES: Carries = Carries::Stream;

    fn codepoint(&self) -> Ecn {
        Ecn::NotEct
    }

    fn deliveries(&self) -> Vec<Delivery> {
        vec![Delivery {
            what: ["flow", "was complete"],
            due: Some(STARTED),
            waiting: Some(UNFINISHED),
            got: FINISHED,
            failed: Some(FAILED),
        }]
    }

    fn set(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), WordError> {
        match name {
            "sizes" => self.sizes = Sizes::parse(words)?,
            "arrivals" => self.begin = Begin::parse(words)?,
            "direction" => self.direction = words.one_of(&DIRECTIONS)?,
            _ => self.ideal = Ideal::parse(words)?,
        }
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        let ideal = self.ideal.map(|i| format!("rate {} rtt {}", i.rate, i.rtt));
        vec![
            self.sizes.to_string(),
            self.begin.to_string(),
            word_for(&DIRECTIONS, &self.direction).to_owned(),
            ideal.unwrap_or_else(|| "off".to_owned()),
        ]
    }

    fn misfit(&self) -> Option<Misfit> {
        let Begin::Load(_) = self.begin else {
            return None;
        };
        let mean = self.sizes.mean();
        let most = mean * 8.0 / SHORTEST.as_secs_f64();
        let too_often = self.begin.interval(&self.sizes) < SHORTEST;
        too_often.then(|| Misfit {
            name: "arrivals",
            allowed: format!(
                "a load below {}, at which flows of {mean:.0} bytes begin every {SHORTEST}",
                Rate::from_bits(most as u64)
            ),
        })
    }

    fn ends(&self, site: &Site) -> [Box<dyn App>; 2] {
        let arrivals = self.begin.arrivals(&self.sizes);
        let client = Client {
            next: Timetable::new(arrivals, site.rng("arrivals"), site.start, site.stop),
            sizes: site.rng("sizes"),
            spec: self.clone(),
            site: site.clone(),
            exchanges: Exchanges::new(),
        };
        let (spec, sink) = (self.clone(), site.clone());
        let server = Server::new(site.to, move |host, ask| {
            if spec.direction == Direction::Up {
                let flow = Flow {
                    issued: ask.issued,
                    bytes: ask.request,
                };
                spec.complete(&sink, host, flow);
            }
        });
        [Box::new(client), Box::new(server)]
    }
}

/// A flow that has begun.
#[derive(Clone, Copy, Debug)]
struct Flow {
    issued: Instant,
    bytes: u64,
}

impl ShortSpec {
    /// The receiver has all of `flow`.
    fn complete(&self, site: &Site, host: &mut dyn Sockets, flow: Flow) {
        let taken = host.now().since(flow.issued);
        site.report(host, FINISHED, 1);
        site.report(host, COMPLETION, taken.as_nanos());
        if let Some(ideal) = self.ideal {
            let least = ideal.time(flow.bytes, self.direction).as_nanos().max(1);
            let parts = u128::from(taken.as_nanos()) * u128::from(SLOW_DOWN.scale);
            let parts = parts / u128::from(least);
            site.report(host, SLOW_DOWN, u64::try_from(parts).unwrap_or(u64::MAX));
        }
    }
}

/// Opens a connection for each flow, and sends or asks.
struct Client {
    spec: ShortSpec,
    site: Site,
    next: Timetable,
    sizes: Rng,
    exchanges: Exchanges<Flow>,
}

impl Client {
    fn begin(&mut self, host: &mut dyn Sockets, at: Instant) {
        self.site.report(host, STARTED, 1);
        let bytes = self.spec.sizes.draw(&mut self.sizes).max(Ask::LEN);
        let (request, response) = match self.spec.direction {
            Direction::Up => (bytes, 0),
            Direction::Down => (Ask::LEN, bytes),
        };
        let (from, to) = (self.site.from.profile, &self.site.to);
        let Ok(socket) = self.exchanges.open(host, from, to) else {
            return self.site.report(host, FAILED, 1);
        };
        let ask = Ask {
            request,
            response,
            issued: at,
            last: true,
        };
        let flow = Flow { issued: at, bytes };
        self.exchanges.ask(host, socket, ask, flow);
    }
}

impl App for Client {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.site.announce(host, ShortSpec::REPORTS);
        host.wake_at(self.next.next());
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        for over in self.exchanges.on_event(host, socket, event) {
            match over {
                Over::Answered(flow) if self.spec.direction == Direction::Down => {
                    self.spec.complete(&self.site, host, flow);
                }
                Over::Answered(_) => {}
                Over::Lost(_) => self.site.report(host, FAILED, 1),
            }
        }
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        for _ in 0..BURST {
            let Some(due) = self.next.take(host.now()) else {
                break;
            };
            self.begin(host, due);
        }
        host.wake_at(self.next.next());
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        let awaited = self.exchanges.awaited() as u64;
        self.site.report(host, UNFINISHED, awaited);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::testing::{refused_at, with};

    #[test]
    fn words_print_back() {
        let spec = with(
            "short",
            &[
                ("sizes", "lognormal mean 2Kb sigma 0.5"),
                ("arrivals", "poisson 20ms"),
                ("arrivals", "every 1ms"),
                ("arrivals", "load 5Mbit"),
                ("direction", "down"),
                ("ideal", "rate 50Mbit rtt 20ms"),
            ],
        );
        let words = "short sizes lognormal mean 2Kb sigma 0.5 arrivals load 5Mbit \
                     direction down ideal rate 50Mbit rtt 20ms";
        assert_eq!(spec.to_string(), words);
    }

    #[test]
    fn wrong_values_are_refused_at_their_place() {
        refused_at(
            "short",
            &[
                ("sizes", "list", ""),
                ("sizes", "constant 0", "0"),
                ("arrivals", "poisson 0s", "0s"),
                ("arrivals", "load 0bit", "0bit"),
                ("arrivals", "think 1s", "think"),
                ("direction", "left", "left"),
                ("ideal", "rate 0bit rtt 1ms", "0bit"),
                ("ideal", "rate 1Mbit", ""),
                ("ideal", "rtt 1ms", "rtt"),
            ],
        );
    }

    #[test]
    fn flows_arrive_as_a_poisson_process_whose_bytes_are_the_load() {
        // 10⁵ flows of 10 000 bytes: 80 Mbit/s are 1000 a second.
        let sizes = Sizes::Constant(10_000);
        let arrivals = Begin::Load(Rate::from_bits(80_000_000)).arrivals(&sizes);
        assert_eq!(arrivals, Arrivals::Poisson(Duration::from_millis(1)));
        let rng = Rng::for_name(1, "app/short/arrivals");
        let end = Instant::from_nanos(u64::MAX);
        let mut timetable = Timetable::new(arrivals, rng, Instant::ZERO, end);
        let times: Vec<Instant> = (0..100_001).filter_map(|_| timetable.take(end)).collect();
        let gaps = times.windows(2).map(|pair| pair[1].since(pair[0]));
        let gaps: Vec<f64> = gaps.map(|gap| gap.as_nanos() as f64 / 1e6).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|g| (g - mean) * (g - mean)).sum::<f64>() / gaps.len() as f64;
        // Of an exponential distribution mean and standard deviation are one.
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
        assert!((square.sqrt() - 1.0).abs() < 0.01, "{square}");
    }

    #[test]
    fn an_empty_path_takes_its_round_trips_and_the_bytes_at_its_rate() {
        let rate = Rate::from_bits(8_000_000);
        let rtt = Duration::from_millis(20);
        let ideal = Ideal { rate, rtt };
        let of = |direction| ideal.time(10_000, direction).as_nanos() / 1_000_000;
        assert_eq!((of(Direction::Up), of(Direction::Down)), (40, 50));
    }
}
