//! Adaptive video: a player that asks for segment after segment over one connection, at the bit
//! rate that its rule chooses, and plays them from its buffer.

use narrows_core::{App, Reduce, SocketError, SocketEvent, SocketId, Sockets, TelemetryField};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Value, WordError, Words, word_for,
};
use narrows_wire::ip::Ecn;

use crate::abr::{Chooser, LADDER, Ladder, RULES, Rule};
use crate::exchange::{Ask, Exchanges, Over, Server};
use crate::kind::{Delivery, Kind, Misfit, Site};
use crate::spec::{Carries, above_zero};

/// Bytes of a request (our choice): a GET with the headers that browsers send.
const REQUEST: u64 = 500;

/// Video in a segment by default (our choice, as most services have it).
const SEGMENT: Duration = Duration::from_secs(4);

/// The shortest segment (our choice): shorter ones are chunks of it.
const SHORTEST: Duration = Duration::from_millis(100);

const SEGMENTS: &str = "100ms or more";

/// Video that is held by default (dash.js `bufferTimeAtTopQuality`).
const BUFFER: Duration = Duration::from_secs(30);

/// Video that is there before it is played, at first and after a stall, by default (our
/// choice: a segment).
const START_UP: Duration = Duration::from_secs(4);

/// Bytes of the blocks in which paced video is asked for: those of YouTube's servers (Rao et
/// al., Network Characteristics of Video Streaming Traffic, CoNEXT 2011).
const BLOCK: u64 = 64 << 10;

const PACE: &str = "off, or a number from 1 to 100";

/// From the beginning to the first picture.
const START: TelemetryField = TelemetryField::new(
    "start",
    "ms",
    "time from the beginning to the first picture",
    Reduce::Sample,
)
.in_parts(1_000_000);

/// How long it played.
const PLAYED: TelemetryField =
    TelemetryField::new("played", "ms", "video that was played", Reduce::Counter)
        .in_parts(1_000_000);

/// Times at which playing stopped.
const STALLS: TelemetryField = TelemetryField::new(
    "stalls",
    "",
    "times at which playing stopped, as the buffer was empty",
    Reduce::Counter,
);

/// How long it stood still.
const STALLED: TelemetryField = TelemetryField::new(
    "stalled",
    "ms",
    "time for which playing stood still after it had begun",
    Reduce::Counter,
)
.in_parts(1_000_000);

/// Bit rate of each segment.
const BITRATE: TelemetryField = TelemetryField::new(
    "bitrate",
    "mbit",
    "bit rate of each segment that arrived",
    Reduce::Sample,
)
.in_parts(1_000_000)
.in_chart("bit rate of video");

/// Segments at another rate than the one before.
const SWITCHES: TelemetryField = TelemetryField::new(
    "switches",
    "",
    "segments of another bit rate than the one before",
    Reduce::Counter,
);

/// Segments whose connection was lost.
const REPEATED: TelemetryField = TelemetryField::new(
    "repeated",
    "",
    "segments that are asked for again, as the connection was lost",
    Reduce::Counter,
);

/// Video that is held.
const HELD: TelemetryField = TelemetryField::new(
    "buffer",
    "s",
    "video that is there and not played, at each sample",
    Reduce::Gauge,
)
.in_parts(1_000_000_000);

/// The parameters of `video`.
#[derive(Clone, Debug, PartialEq)]
pub struct VideoSpec {
    ladder: Ladder,
    rule: Rule,
    segment: Duration,
    buffer: Duration,
    startup: Duration,
    /// How much faster than it is played video is asked for, in thousandths.
    pace: Option<u64>,
}

impl Default for VideoSpec {
    fn default() -> Self {
        Self {
            ladder: Ladder::default(),
            rule: Rule::Throughput,
            segment: SEGMENT,
            buffer: BUFFER,
            startup: START_UP,
            pace: None,
        }
    }
}

impl Kind for VideoSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "ladder RATES",
            ParameterKind::Words,
            LADDER,
            "hd",
            "Bit rates that there are. `hd` and `uhd` are the average ones of Apple's HLS \
             Authoring Specification: H.264 from 145 kbit/s to 7.8 Mbit/s and HEVC to 16.8 Mbit/s",
        ),
        Parameter::new(
            "rule throughput|bola",
            ParameterKind::Choice,
            "throughput or bola",
            "throughput",
            "What chooses the bit rate of the next segment: nine tenths of the mean throughput of \
             the last ones, or the buffer as BOLA has it, both as in dash.js. The first has the \
             lowest",
        ),
        Parameter::new(
            "segment TIME",
            ParameterKind::Time,
            SEGMENTS,
            "4s",
            "Video in a segment",
        ),
        Parameter::new(
            "buffer TIME",
            ParameterKind::Time,
            Duration::ALLOWED,
            "30s",
            "The next segment is asked for when less video than this is there: most that is held is \
             this and a segment",
        ),
        Parameter::new(
            "startup TIME",
            ParameterKind::Time,
            Duration::ALLOWED,
            "4s",
            "Video that is there before it is played, at first and after a stall; no more than \
             `buffer`",
        ),
        Parameter::new(
            "pace off|NUMBER",
            ParameterKind::Words,
            PACE,
            "off",
            "How many times faster than it is played video is asked for, in blocks of 64 kB, once \
             half of the buffer is full; services have 1.25",
        ),
    ];

    const REPORTS: &'static [TelemetryField] = &[
        START, PLAYED, STALLS, STALLED, BITRATE, SWITCHES, REPEATED, HELD,
    ];

    const CARRIES: Carries = Carries::Stream;

    fn codepoint(&self) -> Ecn {
        Ecn::NotEct
    }

    fn deliveries(&self) -> Vec<Delivery> {
        vec![Delivery {
            what: ["picture", "was shown"],
            due: None,
            waiting: None,
            got: PLAYED,
            failed: None,
        }]
    }

    fn set(&mut self, name: &str, words: &mut Words<'_>) -> Result<(), WordError> {
        match name {
            "ladder" => self.ladder = Ladder::parse(words)?,
            "rule" => self.rule = words.one_of(&RULES)?,
            "segment" => {
                self.segment = words.checked_value(SEGMENTS, |time| *time >= SHORTEST)?;
            }
            "buffer" => self.buffer = above_zero(words, Duration::as_nanos)?,
            "startup" => self.startup = above_zero(words, Duration::as_nanos)?,
            _ => {
                self.pace = match words.take_if("off") {
                    true => None,
                    false => {
                        let fits = |n: &f64| (1.0..=100.0).contains(n);
                        let times = words.value_where(PACE, fits)?;
                        Some(libm::round(times * 1e3) as u64)
                    }
                };
            }
        }
        Ok(())
    }

    fn values(&self) -> Vec<String> {
        let pace = self.pace.map(|pace| (pace as f64 / 1e3).to_string());
        vec![
            self.ladder.to_string(),
            word_for(&RULES, &self.rule).to_owned(),
            self.segment.to_string(),
            self.buffer.to_string(),
            self.startup.to_string(),
            pace.unwrap_or_else(|| "off".to_owned()),
        ]
    }

    fn misfit(&self) -> Option<Misfit> {
        (self.startup > self.buffer).then(|| Misfit {
            name: "startup",
            allowed: format!("at most what `buffer` asks for, {}", self.buffer),
        })
    }

    fn ends(&self, site: &Site) -> [Box<dyn App>; 2] {
        let buffer = self.buffer.as_secs_f64();
        let player = Player {
            chooser: Chooser::new(self.rule, self.ladder.clone(), buffer),
            screen: Screen::new(site.start),
            spec: self.clone(),
            site: site.clone(),
            download: None,
            due: Some(site.start).filter(|at| *at < site.stop),
            last: None,
            exchanges: Exchanges::new(),
        };
        let server = Server::new(site.to, |_, _| {});
        [Box::new(player), Box::new(server)]
    }
}

/// What the viewer sees, up to a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Screen {
    at: Instant,
    shows: Shows,
    /// Video that is there and not played.
    buffer: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shows {
    /// Nothing yet.
    Nothing,
    Video,
    /// The last picture.
    Still,
}

/// What happened on the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Video was played for this time.
    played: Duration,
    /// Playing stopped.
    stall: bool,
    /// It stood still for this time.
    still: Duration,
}

impl Screen {
    fn new(at: Instant) -> Self {
        Self {
            at,
            shows: Shows::Nothing,
            buffer: Duration::ZERO,
        }
    }

    /// Plays up to `now`.
    fn play(&mut self, now: Instant) -> Seen {
        let passed = now.since(self.at);
        self.at = self.at.max(now);
        let mut seen = Seen::default();
        match self.shows {
            Shows::Nothing => {}
            Shows::Still => seen.still = passed,
            Shows::Video => {
                let played = passed.min(self.buffer);
                self.buffer -= played;
                seen.played = played;
                if self.buffer == Duration::ZERO {
                    self.shows = Shows::Still;
                    seen.stall = true;
                    seen.still = passed - played;
                }
            }
        }
        seen
    }

    /// A segment is here; whether it begins to play, with `enough` there.
    fn add(&mut self, segment: Duration, enough: Duration) -> bool {
        self.buffer += segment;
        let begins = self.shows != Shows::Video && self.buffer >= enough;
        if begins {
            self.shows = Shows::Video;
        }
        begins
    }

    /// When the buffer is empty.
    fn runs_out(&self) -> Option<Instant> {
        (self.shows == Shows::Video).then(|| self.at + self.buffer)
    }
}

/// A segment that is asked for.
#[derive(Clone, Copy, Debug)]
struct Download {
    place: usize,
    bytes: u64,
    /// Bytes that are here.
    here: u64,
    /// When it began.
    began: Instant,
    /// When what is awaited was asked for, and how long it was for what is here.
    asked: Instant,
    active: Duration,
    paced: bool,
}

/// Plays video.
struct Player {
    spec: VideoSpec,
    site: Site,
    chooser: Chooser,
    screen: Screen,
    download: Option<Download>,
    /// When to ask for the next segment, or block of it; not while one is awaited.
    due: Option<Instant>,
    /// The place of the last segment in the ladder.
    last: Option<usize>,
    /// With the bytes of each block.
    exchanges: Exchanges<u64>,
}

impl Player {
    /// Plays up to now, and reports what the viewer saw.
    fn play(&mut self, host: &mut dyn Sockets) {
        let seen = self.screen.play(host.now());
        if seen.played > Duration::ZERO {
            self.site.report(host, PLAYED, seen.played.as_nanos());
        }
        if seen.stall {
            self.site.report(host, STALLS, 1);
        }
        if seen.still > Duration::ZERO {
            self.site.report(host, STALLED, seen.still.as_nanos());
        }
    }

    /// Asks for a new segment, or for more of the present one.
    fn ask(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        self.due = None;
        let begun = self.screen.shows != Shows::Nothing;
        let download = match self.download {
            Some(download) => download,
            None => {
                let buffer = self.screen.buffer;
                let place = self.chooser.choose(buffer.as_secs_f64(), begun);
                let nanos = u128::from(self.spec.segment.as_nanos());
                let bits = u128::from(self.spec.ladder.rate(place)) * nanos / 1_000_000_000;
                Download {
                    place,
                    bytes: u64::try_from(bits / 8).unwrap_or(u64::MAX).max(1),
                    here: 0,
                    began: now,
                    asked: now,
                    active: Duration::ZERO,
                    paced: self.spec.pace.is_some() && buffer * 2 >= self.spec.buffer,
                }
            }
        };
        let left = download.bytes - download.here;
        let bytes = if download.paced {
            left.min(BLOCK)
        } else {
            left
        };
        self.download = Some(Download {
            asked: now,
            ..download
        });
        let socket = match self.exchanges.first() {
            Some(kept) => Ok(kept),
            None => self
                .exchanges
                .open(host, self.site.from.profile, &self.site.to),
        };
        let Ok(socket) = socket else {
            return self.repeat(host);
        };
        let ask = Ask {
            request: REQUEST,
            response: bytes,
            issued: now,
            last: false,
        };
        self.exchanges.ask(host, socket, ask, bytes);
    }

    /// A block is here.
    fn receive(&mut self, host: &mut dyn Sockets, bytes: u64) {
        let now = host.now();
        let Some(mut download) = self.download.take() else {
            return;
        };
        download.here += bytes;
        download.active += now.since(download.asked);
        if download.here < download.bytes {
            self.due = Some(self.after(&download).max(now));
            self.download = Some(download);
            return;
        }
        let seconds = download.active.as_secs_f64().max(1e-9);
        self.chooser.measured(download.bytes as f64 * 8.0 / seconds);
        let place = download.place;
        if self.last.replace(place).is_some_and(|last| last != place) {
            self.site.report(host, SWITCHES, 1);
        }
        let rate = self.spec.ladder.rate(place);
        self.site.report(host, BITRATE, rate);
        let first = self.screen.shows == Shows::Nothing;
        let enough = self.spec.startup;
        if self.screen.add(self.spec.segment, enough) && first {
            let start = now.since(self.site.start).as_nanos();
            self.site.report(host, START, start);
        }
        // While nothing plays the buffer does not fall; it is not full before it plays.
        let more = self.screen.buffer.saturating_sub(self.spec.buffer);
        let next = match download.paced {
            true => self.after(&download).max(now + more),
            false => now + more,
        };
        self.due = Some(next);
    }

    /// When more is asked for than the paced `download` has.
    fn after(&self, download: &Download) -> Instant {
        let rate = u128::from(self.spec.ladder.rate(download.place));
        let faster = u128::from(self.spec.pace.unwrap_or(1_000));
        let nanos = u128::from(download.here) * 8 * 1_000_000_000 * 1_000 / (rate * faster).max(1);
        download.began + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The connection is lost: what is missing is asked for again, a segment's time later so
    /// that a host without a way is not asked without end.
    fn repeat(&mut self, host: &mut dyn Sockets) {
        self.site.report(host, REPEATED, 1);
        self.due = Some(host.now() + self.spec.segment);
    }

    fn schedule(&mut self, host: &mut dyn Sockets) {
        let (now, stop) = (host.now(), self.site.stop);
        // The session ends with its stop: what is missing then is no stall.
        self.due = self.due.filter(|at| *at < stop);
        let empty = self.screen.runs_out().filter(|at| *at < stop && *at > now);
        host.wake_at(self.due.into_iter().chain(empty).min());
    }

    fn is_over(&self, now: Instant) -> bool {
        now >= self.site.stop
    }
}

impl App for Player {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.site.announce(host, VideoSpec::REPORTS);
        host.wake_at(self.due);
        Ok(())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        let over = self.exchanges.on_event(host, socket, event);
        if over.is_empty() || self.is_over(host.now()) {
            return;
        }
        self.play(host);
        for over in over {
            match over {
                Over::Answered(bytes) => self.receive(host, bytes),
                Over::Lost(_) => self.repeat(host),
            }
        }
        self.schedule(host);
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        self.play(host);
        if self.due.is_some_and(|due| due <= now) {
            self.ask(host);
        }
        self.schedule(host);
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        let now = host.now();
        if now < self.site.start || self.is_over(now) {
            return;
        }
        self.play(host);
        let held = self.screen.buffer.as_nanos();
        self.site.report(host, HELD, held);
    }
}

#[cfg(test)]
mod tests;
