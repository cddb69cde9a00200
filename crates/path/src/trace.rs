//! A link whose rate a recording gives: mahimahi's traces.
//!
//! A trace is a text file with a whole number of milliseconds in each line, in
//! rising order. Each line is an opportunity to send [`OPPORTUNITY`] bytes at
//! that time; a time may be on several lines. After the last line the trace
//! starts again, that many milliseconds later. What waits may share an
//! opportunity or be spread over several; an opportunity that is not used is lost, and a
//! packet that arrives at an opportunity's instant is too late for it
//! (mahimahi, src/frontend/link_queue.cc, LinkQueue::rationalize).

use std::fmt;
use std::sync::Arc;

use narrows_aqm::QueueSpec;
use narrows_core::{Change, Element, ElementCounters, EventSink, Outlet, Packet, Port};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Rate, WordError, WordWriter, Words,
};

use crate::ElementSpec;
use crate::kind::{Facts, Kind, LimitedLink, LinkRate, NamesFile, Reports, usages};
use crate::percent::Percent;
use crate::rate::{
    DEFAULT_OVERHEAD, DEFAULT_QUEUE, QUEUE_PARAMETER, RateChange, RateSpec, overhead_parameter,
    read_overhead,
};
use crate::recorded::RecordedLink;
use crate::recording::{Recording, is_csv, shown};
use crate::site::Site;
use crate::waiting::{Waiting, earliest, read_queue};

/// Bytes of an opportunity: an IP packet of 1500 bytes and the 4 bytes that a
/// TUN device puts before it (mahimahi, src/frontend/link_queue.hh,
/// PACKET_SIZE).
pub const OPPORTUNITY: u32 = 1504;

/// Bytes counted for each packet above its IP length, unless configured otherwise:
/// those 4.
pub(crate) const TUN_OVERHEAD: u32 = 4;

/// Nanoseconds of a trace's unit.
const NANOS: u64 = 1_000_000;

/// The longest trace: 24 days. Times stay far below what 64 bits hold.
const LONGEST_MS: u64 = 1 << 31;

/// The parameter that only rates over time have.
const SCALE: &str = "scale";

/// The opportunities of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds from the start of a round, rising.
    times: Vec<u64>,
}

/// What is wrong with a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {what}")]
pub struct TraceError {
    /// From 1.
    pub line: usize,
    /// What was found, and what is allowed.
    pub what: String,
}

impl Trace {
    /// Reads a trace file's contents.
    ///
    /// # Errors
    /// The first line that is no whole number or lies before the one above it;
    /// and a trace without lines, or one that takes no time.
    pub fn parse(bytes: &[u8]) -> Result<Self, TraceError> {
        let mut times: Vec<u64> = Vec::new();
        let wrong = |line: usize, what: String| Err(TraceError { line, what });
        let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
        for (index, text) in body.split(|b| *b == b'\n').enumerate() {
            let line = index + 1;
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let number = std::str::from_utf8(text).ok();
            let number = number.filter(|t| t.bytes().all(|b| b.is_ascii_digit()));
            let time = number.and_then(|t| t.parse().ok());
            let Some(time) = time.filter(|t: &u64| *t <= LONGEST_MS) else {
                let shown = shown(&String::from_utf8_lossy(text));
                let allowed = format!("a whole number of milliseconds up to {LONGEST_MS}");
                return wrong(line, format!("found `{shown}`, but {allowed} is wanted"));
            };
            if let Some(last) = times.last().filter(|last| time < **last) {
                return wrong(line, format!("found {time} after {last}, but times rise"));
            }
            times.push(time);
        }
        match times.last() {
            Some(0) => wrong(times.len(), "found 0, but a trace takes time".to_owned()),
            _ => Ok(Self { times }),
        }
    }

    /// Its opportunities, in milliseconds from the start of a round, rising.
    pub(crate) fn times(&self) -> &[u64] {
        &self.times
    }

    /// How long a round is, in nanoseconds.
    fn round(&self) -> u64 {
        self.times.last().map_or(0, |ms| ms * NANOS)
    }

    /// Opportunities up to and at `at`, from the start of the run.
    fn until(&self, at: Instant) -> u64 {
        let Some(rounds) = at.as_nanos().checked_div(self.round()) else {
            return 0;
        };
        let within = at.as_nanos() - rounds * self.round();
        let of_this = self.times.partition_point(|ms| ms * NANOS <= within);
        rounds * self.times.len() as u64 + of_this as u64
    }

    /// Bytes that can be sent after `from` and not after `to`.
    pub fn bytes_between(&self, from: Instant, to: Instant) -> u64 {
        let opportunities = self.until(to).saturating_sub(self.until(from));
        opportunities * u64::from(OPPORTUNITY)
    }

    /// Its mean rate, as the link counts.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.times.len() as u128 * u128::from(OPPORTUNITY) * 8 * 1_000_000_000;
        let rate = bits.checked_div(u128::from(self.round())).unwrap_or(0);
        Rate::from_bits(u64::try_from(rate).unwrap_or(u64::MAX))
    }
}

/// `rate trace FILE [scale PERCENT] [overhead BYTES] [queue …]`.
#[derive(Clone, Debug, PartialEq)]
pub struct TraceSpec {
    /// The file, as it is written; a scenario's check reads it. One whose name ends in
    /// `.csv` holds times and rates, any other mahimahi's opportunities.
    pub file: String,
    /// What it holds; nothing until it is read, and then nothing is sent.
    pub recording: Recording,
    /// How much of the recorded rates the link has. Opportunities are as they are.
    pub scale: Percent,
    /// Bytes counted for each packet above its IP length, where that is said.
    stated_overhead: Option<u32>,
    /// The queueing discipline.
    pub queue: QueueSpec,
}

impl TraceSpec {
    /// What its file may hold.
    pub(crate) const ALLOWED: &str = "a trace: a whole number of milliseconds in each line, rising, or as NAME.csv \
         `time_s,rate_mbit` and a time and a rate in each line";

    /// Nothing said but the queue.
    pub(crate) fn with_queue(queue: QueueSpec) -> Self {
        Self {
            file: String::new(),
            recording: Recording::unread(""),
            scale: Percent::HUNDRED,
            stated_overhead: None,
            queue,
        }
    }

    /// Bytes counted for each packet above its IP length: those of a TUN device for
    /// opportunities and of Ethernet for rates, unless the words say otherwise.
    pub fn overhead(&self) -> u32 {
        self.stated_overhead.unwrap_or(match is_csv(&self.file) {
            true => DEFAULT_OVERHEAD,
            false => TUN_OVERHEAD,
        })
    }

    /// Lays what follows `rate trace` over what is there, as
    /// [`RateSpec::apply`](crate::RateSpec) does.
    pub(crate) fn apply(&mut self, words: &mut Words<'_>) -> Result<(), WordError> {
        let file = words.needed("a trace file")?;
        self.file = file.text.to_owned();
        self.recording = Recording::unread(&self.file);
        let csv = is_csv(&self.file);
        if !csv {
            self.scale = Percent::HUNDRED;
        }
        while let Some(word) = words.take() {
            match word.text {
                SCALE if csv => {
                    let allowed = "a percentage above zero";
                    self.scale =
                        words.checked_value(allowed, |scale: &Percent| !scale.is_zero())?;
                }
                "overhead" => self.stated_overhead = Some(read_overhead(words)?),
                "queue" => {
                    self.queue = read_queue(words)?;
                    return Ok(());
                }
                _ => {
                    let fitting = Self::PARAMETERS.iter();
                    let fitting = fitting.filter(|p| csv || !p.names().any(|name| name == SCALE));
                    return Err(word.refused(usages(fitting)));
                }
            }
        }
        Ok(())
    }
}

impl Kind for TraceSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "FILE",
            ParameterKind::Words,
            "a trace file",
            "",
            "Opportunities to send as mahimahi records them, or NAME.csv with times and rates",
        ),
        Parameter::new(
            "scale PERCENT",
            ParameterKind::Percentage,
            "a percentage above zero",
            "100%",
            "How much of the recorded rates the link has (NAME.csv only)",
        ),
        overhead_parameter("4; 14 with NAME.csv"),
        QUEUE_PARAMETER,
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut spec = Self::with_queue(QueueSpec::parse(DEFAULT_QUEUE)?);
        spec.apply(words)?;
        Ok(spec)
    }

    /// A recording in place of a rate keeps the queue.
    fn over(before: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut spec = match (before, before.facts().link) {
            (ElementSpec::Trace(old), _) => old.clone(),
            (_, Some(link)) => Self::with_queue(link.queue.clone()),
            (_, None) => return Self::parse(words),
        };
        spec.apply(words)?;
        Ok(spec)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        match &self.recording {
            Recording::Opportunities(trace) => Box::new(TraceLink {
                // What a queue works out of its link's rate is right on average.
                waiting: Waiting::new(&self.queue, site, trace.mean_rate(), self.overhead()),
                trace: Arc::clone(trace),
                index: 0,
                base: 0,
                wanted: false,
                in_transit: None,
            }),
            Recording::Rates(rates) => {
                let spec = RateSpec {
                    overhead: self.overhead(),
                    ..RateSpec::with_queue(self.queue.clone())
                };
                Box::new(RecordedLink::new(&spec, Arc::clone(rates), site))
            }
        }
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: Some(LimitedLink {
                rate: LinkRate::Recorded(&self.recording),
                overhead: self.overhead(),
                queue: &self.queue,
                shared: false,
            }),
            holds_back: true,
            two_way: false,
            node: false,
            translates: false,
            wraps: false,
            sets_ecn: false,
            duplicates: false,
            corrupts: false,
            mtu: None,
            tap: None,
            reports: Reports::Queue,
        }
    }

    /// At the mean rate of the recording.
    fn base_delay(&self, _: u8, mtu: u32) -> Duration {
        let rate = self.recording.mean_rate();
        match rate.as_bits() {
            0 => Duration::ZERO,
            _ => rate.time_for(u64::from(mtu + self.overhead())),
        }
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        Some(self)
    }
}

impl NamesFile for TraceSpec {
    fn name(&self) -> &str {
        &self.file
    }

    fn what(&self) -> &'static str {
        "the trace"
    }

    fn allowed(&self) -> &'static str {
        Self::ALLOWED
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        let read = Recording::parse(&self.file, self.scale, text.as_bytes());
        self.recording = read.map_err(|e| e.to_string())?;
        Ok(())
    }
}

impl fmt::Display for TraceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate trace {}", self.file)?;
        WordWriter::new(f)
            .stated(SCALE, self.scale, Percent::HUNDRED)
            .some("overhead", self.stated_overhead)
            .pair("queue", &self.queue)
            .finish()
    }
}

/// The refusal of a change of the rate, which a recording says.
pub(crate) fn no_rate(words: &str) -> WordError {
    let allowed = "queue …, for the trace says the rate";
    WordError::new(0..words.len(), format!("`{words}`"), allowed)
}

/// The running element: a queue, and a recording of when it may send.
pub struct TraceLink {
    waiting: Waiting,
    trace: Arc<Trace>,
    /// The next opportunity, in the round that began at `base` nanoseconds.
    index: usize,
    base: u64,
    /// Whether there is anything to send.
    wanted: bool,
    /// The packet of which a part is out, and the bytes that are not.
    in_transit: Option<(Box<Packet>, u32)>,
}

impl TraceLink {
    fn next_opportunity(&self) -> Option<Instant> {
        let ms = self.trace.times.get(self.index)?;
        Some(Instant::from_nanos(self.base + ms * NANOS))
    }

    fn advance(&mut self) {
        self.index += 1;
        if self.index == self.trace.times.len() {
            self.index = 0;
            self.base += self.trace.round();
        }
    }

    /// Lets the opportunities up to and at `now` go by.
    fn skip(&mut self, now: Instant) {
        if self.next_opportunity().is_none_or(|next| next > now) {
            return;
        }
        let round = self.trace.round();
        self.base = now.as_nanos() / round * round;
        let within = now.as_nanos() - self.base;
        // The last one ends the round, and so is behind `within`.
        self.index = self.trace.times.partition_point(|ms| ms * NANOS <= within);
    }

    /// Uses one opportunity.
    fn send(&mut self, now: Instant, out: &mut Outlet<'_>) {
        let mut left = OPPORTUNITY;
        while left > 0 {
            let (packet, bytes) = match self.in_transit.take() {
                Some(under_way) => under_way,
                None => match self.waiting.pull(now, out) {
                    Some(begun) => begun,
                    None => break,
                },
            };
            let sent = bytes.min(left);
            left -= sent;
            if sent < bytes {
                self.in_transit = Some((packet, bytes - sent));
            } else {
                self.waiting.let_out(packet, out);
            }
        }
        self.wanted = self.in_transit.is_some() || self.is_anyone_waiting();
    }

    fn is_anyone_waiting(&self) -> bool {
        self.waiting.queue.backlog().packets > 0
    }
}

impl Element for TraceLink {
    fn push(&mut self, now: Instant, _: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.waiting.push(now, packet, out);
        if !self.wanted && self.is_anyone_waiting() {
            self.skip(now);
            self.wanted = true;
        }
    }

    fn next_wake(&self) -> Option<Instant> {
        let opportunity = self.next_opportunity().filter(|_| self.wanted);
        earliest(opportunity, self.waiting.queue.next_tick())
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        self.waiting.tick(now);
        while self.wanted && self.next_opportunity().is_some_and(|t| t <= now) {
            self.advance();
            self.send(now, out);
        }
    }

    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        let parsed = RateChange::parse(&change.words)?;
        if parsed.rate.is_some() {
            return Err(no_rate(&change.words));
        }
        self.waiting.change(now, parsed.queue)
    }

    fn counters(&self) -> ElementCounters {
        self.waiting.counters()
    }

    fn sample(&self, now: Instant, events: &mut dyn EventSink) {
        self.waiting.sample(now, events);
    }
}

#[cfg(test)]
mod tests;
