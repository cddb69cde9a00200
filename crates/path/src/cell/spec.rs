//! The words of `cell`.

use std::fmt;
use std::sync::Arc;

use narrows_aqm::QueueSpec;
use narrows_core::Element;
use narrows_units::{
    Duration, Parameter, ParameterKind, Rate, Value, WordError, WordWriter, Words,
};

use super::channel::Carries;
use super::element::{Cell, Terminal};
use super::radio::{BLOCKS, CQI_MAX, Distance, TTI, bytes, cqi_at};
use super::schedule::Scheduler;
use crate::ElementSpec;
use crate::kind::{Facts, Kind, LimitedLink, LinkRate, NamesFile, Reports, usages};
use crate::percent::Percent;
use crate::rate::QUEUE_PARAMETER;
use crate::recording::{Rates, Recording, is_csv, number, steps};
use crate::site::{PortSite, Site};
use crate::trace::{TUN_OVERHEAD, TraceSpec};
use crate::waiting::read_queue;

/// The first line of a recording of channel quality.
const HEADER: &str = "time_s,cqi";

const ALLOWED_BLOCKS: &str = "6 to 100";
const ALLOWED_CQI: &str = "0 to 15, or trace FILE.csv";
const ALLOWED_WINDOW: &str = "1ms to 100s";
const ALLOWED_DELAY: &str = "1ms to 1s";
const ALLOWED_ERROR: &str = "a percentage below 100%";

/// The time over which proportional fairness averages: 99 subframes and this one (ns-3
/// `PfFfMacScheduler`).
const DEFAULT_WINDOW: Duration = Duration::from_millis(100);

/// From a transport block's subframe until the terminal has its packets (MAMI D2.2 table 6: 3 ms).
const DEFAULT_DELAY: Duration = Duration::from_millis(3);

/// What waits for a terminal: its default bearer alone.
const DEFAULT_QUEUE: &str = "bearers bearer default";

/// A channel as it is written.
#[derive(Clone, Debug, PartialEq)]
enum Channel {
    /// None: the port is a wire, to what is no terminal.
    Wire,
    /// This quality.
    Cqi(u8),
    /// A recording of it.
    File(String),
    /// That of a distance.
    Distance(Distance),
    /// A recording of what the terminal had.
    Trace(String),
}

/// `cell blocks N [cqi N|cqi trace FILE.csv|distance D|trace FILE] … [queue …]`. Of a port alone its channel and
/// queue may be said; one without a channel is a wire.
#[derive(Clone, Debug, PartialEq)]
pub struct CellSpec {
    /// Resource blocks of a subframe.
    pub(super) blocks: Option<u32>,
    pub(super) scheduler: Scheduler,
    /// The time over which rates are averaged.
    pub(super) window: Duration,
    /// How long a transport block takes from its subframe on.
    pub(super) delay: Duration,
    /// Chance that a transport block is not decoded.
    pub(super) error: Percent,
    channel: Channel,
    /// What a terminal that has the cell to itself has in each subframe.
    pub(super) carries: Carries,
    /// What waits for the terminal.
    pub(super) queue: QueueSpec,
    /// The rate of a terminal that has the cell to itself.
    recording: Recording,
}

impl CellSpec {
    fn plain() -> Result<Self, WordError> {
        Ok(Self {
            blocks: None,
            scheduler: Scheduler::ProportionalFair,
            window: DEFAULT_WINDOW,
            delay: DEFAULT_DELAY,
            error: Percent::ZERO,
            channel: Channel::Wire,
            carries: Carries::default(),
            queue: QueueSpec::parse(DEFAULT_QUEUE)?,
            recording: Recording::Rates(Arc::default()),
        })
    }

    /// The rate of a terminal of this quality that has all blocks.
    fn rate(&self, cqi: u8) -> Rate {
        let subframes = Duration::from_secs(1).as_nanos() / TTI.as_nanos();
        Rate::from_bits(8 * bytes(self.blocks.unwrap_or_default(), cqi) * subframes)
    }

    /// Whether the port leads to what is no terminal.
    pub(super) fn is_wire(&self) -> bool {
        self.channel == Channel::Wire
    }

    pub(super) fn mean_rate(&self) -> Rate {
        self.recording.mean_rate()
    }

    /// Bytes counted for each packet above its IP length: those that mahimahi counts in its traces.
    pub(super) fn overhead(&self) -> u32 {
        match self.recording {
            Recording::Opportunities(_) => TUN_OVERHEAD,
            Recording::Rates(_) => 0,
        }
    }

    /// Works out what follows from the words.
    fn settle(&mut self) {
        let blocks = self.blocks.unwrap_or_default();
        match &self.channel {
            Channel::Cqi(cqi) => self.carries = Carries::quality(*cqi),
            Channel::Distance(far) => self.carries = Carries::quality(cqi_at(*far, blocks)),
            Channel::Trace(_) => self.carries = Carries::recorded(&self.recording, blocks),
            Channel::File(_) | Channel::Wire => {}
        }
        if let Carries::Quality(cqi) = &self.carries {
            let rates = cqi.iter().map(|(at, cqi)| (*at, self.rate(*cqi)));
            self.recording = Recording::Rates(Arc::new(Rates::new(rates.collect())));
        }
    }

    /// Lays words over what is there; of the port of a cell, which keeps what all terminals share.
    fn apply(&mut self, words: &mut Words<'_>, port: bool) -> Result<(), WordError> {
        while let Some(word) = words.take() {
            let shared = |allowed: &str, holds: &dyn fmt::Display| match port {
                true => format!("{holds}, which all terminals share"),
                false => allowed.to_owned(),
            };
            match word.text {
                "blocks" => {
                    let holds = self.blocks.unwrap_or_default();
                    let fits = |n: &u32| BLOCKS.contains(n) && (!port || *n == holds);
                    self.blocks = Some(words.value_where(&shared(ALLOWED_BLOCKS, &holds), fits)?);
                }
                "scheduler" => {
                    let holds = self.scheduler;
                    let fits = |rule: &Scheduler| !port || *rule == holds;
                    let allowed = shared(Scheduler::ALLOWED, &holds);
                    self.scheduler = words.value_where(&allowed, fits)?;
                }
                "window" => {
                    let holds = self.window;
                    let range = TTI..=Duration::from_secs(100);
                    let fits = |w: &Duration| range.contains(w) && (!port || *w == holds);
                    self.window = words.value_where(&shared(ALLOWED_WINDOW, &holds), fits)?;
                }
                "delay" => {
                    let holds = self.delay;
                    let range = TTI..=Duration::from_secs(1);
                    let fits = |d: &Duration| range.contains(d) && (!port || *d == holds);
                    self.delay = words.value_where(&shared(ALLOWED_DELAY, &holds), fits)?;
                }
                "error" => {
                    let holds = self.error;
                    let fits = |e: &Percent| *e != Percent::HUNDRED && (!port || *e == holds);
                    self.error = words.value_where(&shared(ALLOWED_ERROR, &holds), fits)?;
                }
                "cqi" if words.take_if("trace") => {
                    let file = words.needed("a file whose name ends in .csv")?;
                    if !is_csv(file.text) {
                        return Err(file.refused("a file whose name ends in .csv"));
                    }
                    self.channel = Channel::File(file.text.to_owned());
                    self.carries = Carries::default();
                }
                "cqi" => {
                    let fits = |cqi: &u32| *cqi <= u32::from(CQI_MAX);
                    self.channel = Channel::Cqi(words.value_where(ALLOWED_CQI, fits)? as u8);
                }
                "distance" => self.channel = Channel::Distance(words.value()?),
                "trace" => {
                    let file = words.needed("a trace file")?.text;
                    self.channel = Channel::Trace(file.to_owned());
                    self.recording = Recording::unread(file);
                }
                "queue" => {
                    self.queue = read_queue(words)?;
                    break;
                }
                _ => return Err(word.refused(usages(Self::PARAMETERS))),
            }
        }
        self.settle();
        Ok(())
    }

    /// The cell with these terminals, of which others than cells have none.
    pub(super) fn cell(&self, site: &Site<'_>, ports: &[PortSite<'_>]) -> Cell {
        let ports = ports.iter().filter_map(|port| match port.spec {
            ElementSpec::Cell(spec) => Some(Terminal::new(spec, &port.site)),
            _ => None,
        });
        Cell::new(self, site, ports.collect())
    }
}

impl Kind for CellSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "blocks NUMBER",
            ParameterKind::Number("blocks"),
            ALLOWED_BLOCKS,
            "",
            "Resource blocks of 180 kHz, which all terminals share: 6, 15, 25, 50, 75 and 100 in channels of 1.4 to 20 MHz",
        ),
        Parameter::new(
            "cqi CQI",
            ParameterKind::Words,
            ALLOWED_CQI,
            "a wire",
            "Channel quality of a terminal, 0 without service: one, or over time from a file whose first line is `time_s,cqi`",
        ),
        Parameter::new(
            "distance DISTANCE",
            ParameterKind::Words,
            Distance::ALLOWED,
            "a wire",
            "In place of a quality, how far the terminal is away",
        ),
        Parameter::new(
            "trace FILE",
            ParameterKind::Words,
            "a trace file",
            "a wire",
            "In place of a quality, a recording of what the terminal has while all blocks are its own, in the formats of `rate trace`",
        ),
        Parameter::new(
            "scheduler RULE",
            ParameterKind::Words,
            Scheduler::ALLOWED,
            "pf",
            "Who gets the blocks: proportional fair, one after the other, or the best channel",
        ),
        Parameter::new(
            "window TIME",
            ParameterKind::Time,
            ALLOWED_WINDOW,
            "100ms",
            "The time over which proportional fairness averages rates",
        ),
        Parameter::new(
            "delay TIME",
            ParameterKind::Time,
            ALLOWED_DELAY,
            "3ms",
            "From the beginning of a subframe until the terminal has its packets",
        ),
        Parameter::new(
            "error PERCENT",
            ParameterKind::Percentage,
            ALLOWED_ERROR,
            "0%",
            "Chance that a transport block is not decoded; it is sent again after 8 ms, up to three times, and what is behind it waits",
        ),
        Parameter::new(
            "queue QUEUE …",
            ParameterKind::Words,
            QUEUE_PARAMETER.allowed,
            DEFAULT_QUEUE,
            QUEUE_PARAMETER.about,
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut spec = Self::plain()?;
        spec.apply(words, false)?;
        if spec.blocks.is_none() {
            return Err(words.ended("blocks NUMBER"));
        }
        Ok(spec)
    }

    fn over(before: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        match before {
            ElementSpec::Cell(old) => {
                let mut spec = old.clone();
                spec.apply(words, true)?;
                Ok(spec)
            }
            _ => Self::parse(words),
        }
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        let spec = ElementSpec::Cell(self.clone());
        let alone = [PortSite {
            site: *site,
            spec: &spec,
        }];
        Box::new(match site.ports {
            [] => self.cell(site, &alone),
            ports => self.cell(site, ports),
        })
    }

    fn facts(&self) -> Facts<'_> {
        let radio = !self.is_wire();
        Facts {
            link: radio.then_some(LimitedLink {
                rate: LinkRate::Recorded(&self.recording),
                overhead: self.overhead(),
                queue: &self.queue,
                shared: true,
            }),
            holds_back: radio,
            two_way: false,
            node: true,
            translates: false,
            wraps: false,
            sets_ecn: false,
            duplicates: false,
            corrupts: false,
            mtu: None,
            tap: None,
            reports: match radio {
                true => Reports::Queue,
                false => Reports::Packets,
            },
        }
    }

    /// As many subframes as the packet needs with all blocks, the last of which takes the delay. A
    /// recording that is no quality counts by its mean.
    fn base_delay(&self, _: u8, mtu: u32) -> Duration {
        if self.is_wire() {
            return Duration::ZERO;
        }
        let bytes = match &self.carries {
            Carries::Quality(steps) => {
                let cqi = steps.first().map_or(0, |(_, cqi)| *cqi);
                bytes(self.blocks.unwrap_or_default(), cqi)
            }
            Carries::Rates(_) | Carries::Opportunities(_) => self.mean_rate().bytes_in(TTI),
        };
        match bytes {
            0 => self.delay,
            bytes => self.delay + TTI * (u64::from(mtu + self.overhead()).div_ceil(bytes) - 1),
        }
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        match self.channel {
            Channel::File(_) | Channel::Trace(_) => Some(self),
            _ => None,
        }
    }
}

impl NamesFile for CellSpec {
    fn name(&self) -> &str {
        match &self.channel {
            Channel::File(file) | Channel::Trace(file) => file,
            _ => "",
        }
    }

    fn what(&self) -> &'static str {
        "the trace"
    }

    fn allowed(&self) -> &'static str {
        match self.channel {
            Channel::Trace(_) => TraceSpec::ALLOWED,
            _ => {
                "a first line `time_s,cqi`, and a time and a CQI from 0 to 15 in each further line"
            }
        }
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        if let Channel::Trace(file) = &self.channel {
            let read = Recording::parse(file, Percent::HUNDRED, text.as_bytes());
            self.recording = read.map_err(|e| e.to_string())?;
            self.settle();
            return Ok(());
        }
        let cqi = |text: &str| {
            let cqi = number(text, f64::from(CQI_MAX))?;
            (libm::trunc(cqi) == cqi).then_some(cqi as u8)
        };
        let wanted = "a CQI from 0 to 15, such as `1.5,7`,";
        let steps = steps(text.as_bytes(), HEADER, wanted, cqi);
        self.carries = Carries::Quality(Arc::new(steps.map_err(|e| e.to_string())?));
        self.settle();
        Ok(())
    }
}

impl fmt::Display for CellSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cell")?;
        let mut words = WordWriter::new(f);
        words.some("blocks", self.blocks);
        match &self.channel {
            Channel::Wire => &mut words,
            Channel::Cqi(cqi) => words.pair("cqi", cqi),
            Channel::File(file) => words.pair("cqi trace", file),
            Channel::Distance(far) => words.pair("distance", far),
            Channel::Trace(file) => words.pair("trace", file),
        };
        words
            .stated("scheduler", self.scheduler, Scheduler::ProportionalFair)
            .stated("window", self.window, DEFAULT_WINDOW)
            .stated("delay", self.delay, DEFAULT_DELAY)
            .stated("error", self.error, Percent::ZERO)
            .pair("queue", &self.queue)
            .finish()
    }
}
