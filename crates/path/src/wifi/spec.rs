//! The words of `wifi`.

use std::fmt;
use std::sync::Arc;

use narrows_aqm::QueueSpec;
use narrows_core::Element;
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Rate, Word, WordError, WordWriter, Words,
};

use super::phy::{
    AIFS, AMPDU_MAX, CW_MIN, MCS_MAX, PPDU_MAX, Phy, SIFS, SLOT, WINDOW, block_ack, is_width,
    subframe,
};
use super::radio::WifiRadio;
use super::station::Bounds;
use crate::ElementSpec;
use crate::kind::{Facts, Kind, LimitedLink, LinkRate, NamesFile, Reports, usages};
use crate::percent::Percent;
use crate::rate::{DEFAULT_QUEUE, QUEUE_PARAMETER};
use crate::recording::{Rates, Recording, is_csv, number, steps};
use crate::site::Site;
use crate::waiting::read_queue;

/// The first line of a recording of MCS.
const HEADER: &str = "time_s,mcs";

/// Most stations beside this one.
const MOST_STATIONS: u32 = 100;

pub(super) const ALLOWED_MCS: &str = "0 to 9, or trace FILE.csv";
pub(super) const CHANNELS_MCS: &str = "one that 802.11ac has, 0 to 9: not 9 at 20 MHz with 1, 2 or 4 streams, \
                                       6 at 80 MHz and 9 at 160 MHz with 3";
const ALLOWED_WIDTH: &str = "20, 40, 80 or 160";
const ALLOWED_STREAMS: &str = "1 to 4";
const ALLOWED_FRAMES: &str = "1 to 64";
const ALLOWED_BYTES: &str = "1544 to 1048575 bytes";
pub(super) const ALLOWED_TIME: &str = "100us to 5484us";
const ALLOWED_ERROR: &str = "a percentage below 100%";
const ALLOWED_STATIONS: &str = "at most 100";

/// `wifi mcs N|trace FILE.csv [width MHZ] …`.
#[derive(Clone, Debug, PartialEq)]
pub struct WifiSpec {
    /// The file of the MCS over time, if one is named.
    file: Option<String>,
    /// From each time on, an MCS; nothing until the file is read.
    pub(super) mcs: Arc<Vec<(Instant, u8)>>,
    pub(super) phy: Phy,
    /// Where an aggregate ends.
    pub(super) bounds: Bounds,
    /// Chance that a frame of it does not arrive.
    pub(super) error: Percent,
    /// Stations beside this one that always send.
    pub(super) stations: u32,
    /// How long each of those holds the medium.
    pub(super) theirs: Duration,
    pub(super) queue: QueueSpec,
    /// The rate of full aggregates over time.
    recording: Recording,
}

impl WifiSpec {
    /// The packets of a wire that packets of 1500 bytes fill.
    fn rate(&self, mcs: u8) -> Rate {
        let Some(bits) = self.phy.bits(mcs) else {
            return Rate::default();
        };
        let one = subframe(1500);
        let fits = |count: &u32| {
            let bytes = count * one;
            bytes <= self.bounds.bytes && self.phy.ppdu(bits, bytes) <= self.bounds.airtime
        };
        let count = (1..=self.bounds.frames)
            .take_while(fits)
            .last()
            .unwrap_or(1);
        let backoff = SLOT * u64::from(CW_MIN) / 2;
        let cycle = AIFS + backoff + self.phy.ppdu(bits, count * one) + SIFS + block_ack(mcs);
        let alone = u128::from(count) * 1500 * 8 * 1_000_000_000 / u128::from(cycle.as_nanos());
        let share = 1.0 - self.error.fraction();
        Rate::from_bits((alone as f64 * share) as u64)
    }

    /// Works out what follows from the MCS.
    fn settle(&mut self) {
        let steps = self.mcs.iter().map(|(at, mcs)| (*at, self.rate(*mcs)));
        self.recording = Recording::Rates(Arc::new(Rates::new(steps.collect())));
    }

    pub(super) fn mean_rate(&self) -> Rate {
        self.recording.mean_rate()
    }

    /// Whether it has an MCS, or a recording of them.
    pub(super) fn has_mcs(&self) -> bool {
        self.file.is_some() || !self.mcs.is_empty()
    }

    /// Reads the value of `word`, of all but the queue; whether there is such a word.
    pub(super) fn take(
        &mut self,
        word: Word<'_>,
        words: &mut Words<'_>,
    ) -> Result<bool, WordError> {
        match word.text {
            "mcs" if words.take_if("trace") => {
                let file = words.needed("a file whose name ends in .csv")?;
                if !is_csv(file.text) {
                    return Err(file.refused("a file whose name ends in .csv"));
                }
                self.file = Some(file.text.to_owned());
                self.mcs = Arc::default();
            }
            "mcs" => {
                let fits = |mcs: &u32| *mcs <= u32::from(MCS_MAX);
                let mcs = words.value_where(ALLOWED_MCS, fits)? as u8;
                self.file = None;
                self.mcs = Arc::new(vec![(Instant::ZERO, mcs)]);
            }
            "width" => self.phy.width = words.value_where(ALLOWED_WIDTH, |w| is_width(*w))?,
            "streams" => {
                let fits = |n: &u32| (1..=4).contains(n);
                self.phy.streams = words.value_where(ALLOWED_STREAMS, fits)?;
            }
            "short-gi" => self.phy.short = true,
            "frames" => {
                let fits = |n: &u32| (1..=WINDOW).contains(n);
                self.bounds.frames = words.value_where(ALLOWED_FRAMES, fits)?;
            }
            "bytes" => {
                let range = u64::from(subframe(1500))..=u64::from(AMPDU_MAX);
                let fits = |bytes: &Bytes| range.contains(&bytes.get());
                self.bounds.bytes = words.value_where(ALLOWED_BYTES, fits)?.get() as u32;
            }
            "airtime" => self.bounds.airtime = time_on_the_air(words)?,
            "error" => {
                let fits = |error: &Percent| *error != Percent::HUNDRED;
                self.error = words.value_where(ALLOWED_ERROR, fits)?;
            }
            "stations" => {
                let fits = |n: &u32| *n <= MOST_STATIONS;
                self.stations = words.value_where(ALLOWED_STATIONS, fits)?;
            }
            "theirs" => self.theirs = time_on_the_air(words)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// All words have been taken, that of the MCS at `mcs_at`.
    pub(super) fn finish(&mut self, mcs_at: Option<Word<'_>>) -> Result<(), WordError> {
        for (_, mcs) in self.mcs.iter() {
            if self.phy.bits(*mcs).is_none() {
                let span = mcs_at.map_or(0..0, |word| word.span());
                let found = format!("MCS {mcs} at {} MHz", self.phy.width);
                return Err(WordError::new(span, found, CHANNELS_MCS));
            }
        }
        self.settle();
        Ok(())
    }

    /// Lays words over what is there.
    fn apply(&mut self, words: &mut Words<'_>) -> Result<(), WordError> {
        let mut mcs_at = None;
        while let Some(word) = words.take() {
            match word.text {
                "queue" => {
                    self.queue = read_queue(words)?;
                    break;
                }
                "mcs" => mcs_at = Some(word),
                _ => {}
            }
            if !self.take(word, words)? {
                return Err(word.refused(usages(Self::PARAMETERS)));
            }
        }
        self.finish(mcs_at)
    }

    /// Writes all but the queue.
    pub(super) fn write(&self, words: &mut WordWriter<'_, '_>) {
        match (&self.file, self.mcs.first()) {
            (Some(file), _) => words.pair("mcs trace", file),
            (None, mcs) => words.some("mcs", mcs.map(|(_, mcs)| mcs)),
        };
        words
            .stated("width", self.phy.width, 80)
            .stated("streams", self.phy.streams, 1)
            .word_if(self.phy.short, "short-gi")
            .stated("frames", self.bounds.frames, WINDOW)
            .stated("bytes", self.bounds.bytes, AMPDU_MAX)
            .stated("airtime", self.bounds.airtime, PPDU_MAX)
            .stated("error", self.error, Percent::ZERO)
            .stated("stations", self.stations, 0)
            .stated("theirs", self.theirs, DEFAULT_THEIRS);
    }

    /// Its rate and queue, as of any link of limited rate.
    pub(super) fn limited(&self, shared: bool) -> LimitedLink<'_> {
        LimitedLink {
            rate: LinkRate::Recorded(&self.recording),
            overhead: 0,
            queue: &self.queue,
            shared,
        }
    }

    pub(super) fn plain() -> Result<Self, WordError> {
        Ok(Self {
            file: None,
            mcs: Arc::default(),
            phy: Phy {
                width: 80,
                streams: 1,
                short: false,
            },
            bounds: Bounds {
                frames: WINDOW,
                bytes: AMPDU_MAX,
                airtime: PPDU_MAX,
            },
            error: Percent::ZERO,
            stations: 0,
            theirs: DEFAULT_THEIRS,
            queue: QueueSpec::parse(DEFAULT_QUEUE)?,
            recording: Recording::Rates(Arc::default()),
        })
    }
}

/// How long another station holds the medium: an aggregate and its answer (our choice).
const DEFAULT_THEIRS: Duration = Duration::from_micros(2_000);

/// A time that something may be on the air.
pub(super) fn time_on_the_air(words: &mut Words<'_>) -> Result<Duration, WordError> {
    let range = Duration::from_micros(100)..=PPDU_MAX;
    words.value_where(ALLOWED_TIME, |time| range.contains(time))
}

impl Kind for WifiSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "mcs MCS",
            ParameterKind::Words,
            ALLOWED_MCS,
            "",
            "Modulation and coding of 802.11ac: one, or over time from a file whose first line is `time_s,mcs`",
        ),
        Parameter::new(
            "width MHZ",
            ParameterKind::Number("MHz"),
            ALLOWED_WIDTH,
            "80",
            "Width of the channel",
        ),
        Parameter::new(
            "streams NUMBER",
            ParameterKind::Number(""),
            ALLOWED_STREAMS,
            "1",
            "Spatial streams",
        ),
        Parameter::flag(
            "short-gi",
            "long guard intervals",
            "Whether guard intervals are short",
        ),
        Parameter::new(
            "frames NUMBER",
            ParameterKind::Number("frames"),
            ALLOWED_FRAMES,
            "64",
            "Most frames of an aggregate, which a block ack answers",
        ),
        Parameter::new(
            "bytes BYTES",
            ParameterKind::Size,
            ALLOWED_BYTES,
            "1048575",
            "Most bytes of an aggregate",
        ),
        Parameter::new(
            "airtime TIME",
            ParameterKind::Time,
            ALLOWED_TIME,
            "5484us",
            "How long an aggregate lasts at most",
        ),
        Parameter::new(
            "error PERCENT",
            ParameterKind::Percentage,
            ALLOWED_ERROR,
            "0%",
            "Chance that a frame does not arrive; it is sent again in the next aggregate, up to seven times, and those behind it wait for it",
        ),
        Parameter::new(
            "stations NUMBER",
            ParameterKind::Number("stations"),
            ALLOWED_STATIONS,
            "0",
            "Other stations that always have something to send, and get the medium as often",
        ),
        Parameter::new(
            "theirs TIME",
            ParameterKind::Time,
            ALLOWED_TIME,
            "2ms",
            "How long each of them then holds it",
        ),
        QUEUE_PARAMETER,
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut spec = Self::plain()?;
        spec.apply(words)?;
        if !spec.has_mcs() {
            return Err(words.ended("mcs MCS"));
        }
        Ok(spec)
    }

    /// What is not named stays; in place of another link, its queue.
    fn over(before: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        let (mut spec, complete) = match (before, before.facts().link) {
            (ElementSpec::Wifi(old), _) => (old.clone(), true),
            (_, link) => {
                let mut spec = Self::plain()?;
                if let Some(link) = link {
                    spec.queue = link.queue.clone();
                }
                (spec, false)
            }
        };
        spec.apply(words)?;
        if !complete && !spec.has_mcs() {
            return Err(words.ended("mcs MCS"));
        }
        Ok(spec)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        Box::new(WifiRadio::link(self, site))
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: Some(self.limited(self.stations > 0)),
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

    /// A lone frame after the mean backoff.
    fn base_delay(&self, _: u8, mtu: u32) -> Duration {
        let first = self.mcs.first().and_then(|(_, mcs)| self.phy.bits(*mcs));
        let Some(bits) = first else {
            return Duration::ZERO;
        };
        AIFS + SLOT * u64::from(CW_MIN) / 2 + self.phy.ppdu(bits, subframe(mtu))
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        match self.file {
            Some(_) => Some(self),
            None => None,
        }
    }
}

impl NamesFile for WifiSpec {
    fn name(&self) -> &str {
        self.file.as_deref().unwrap_or_default()
    }

    fn what(&self) -> &'static str {
        "the trace"
    }

    fn allowed(&self) -> &'static str {
        "a first line `time_s,mcs`, and a time and an MCS of the channel in each further line"
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        let mcs = |text: &str| {
            let mcs = number(text, f64::from(MCS_MAX)).filter(|n| libm::trunc(*n) == *n)? as u8;
            self.phy.bits(mcs).map(|_| mcs)
        };
        let wanted = format!(
            "an MCS up to {MCS_MAX} that {} MHz with {} streams have, such as `1.5,7`,",
            self.phy.width, self.phy.streams
        );
        let steps = steps(text.as_bytes(), HEADER, &wanted, mcs);
        self.mcs = Arc::new(steps.map_err(|e| e.to_string())?);
        self.settle();
        Ok(())
    }
}

impl fmt::Display for WifiSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("wifi")?;
        let mut words = WordWriter::new(f);
        self.write(&mut words);
        words.pair("queue", &self.queue).finish()
    }
}
