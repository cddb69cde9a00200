//! A modelled flow in words: `quic-model signals s+vec window 64`.

use std::fmt;
use std::ops::RangeInclusive;

use narrows_pmtud::Search;
use narrows_units::{Duration, Rate, WordError, WordWriter, Words, word_for};
use narrows_wire::{Profile, Signal};

/// The form of the packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shape {
    /// Modelled QUIC.
    Quic,
    /// The PLUS header, and modelled QUIC's frames behind it.
    Plus,
}

impl Shape {
    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Quic => "quic-model",
            Self::Plus => "plus",
        }
    }
}

/// What the spin bit does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SpinUse {
    /// It spins.
    #[default]
    On,
    /// It has one value for the whole connection, drawn for each end.
    Fixed,
    /// It has a value drawn for each packet (RFC 9000 §17.4).
    Greased,
}

const SPIN: [(&str, SpinUse); 3] = [
    ("on", SpinUse::On),
    ("fixed", SpinUse::Fixed),
    ("greased", SpinUse::Greased),
];

/// What holds the sender back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pace {
    /// So many packets unacknowledged at a time.
    Window(u32),
    /// So many bits of UDP payload each second, whatever is lost.
    Rate(Rate),
}

/// A modelled flow, all values resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ModelSpec {
    shape: Shape,
    /// Bits of [`Signal`]: some of spin, counter, square and loss.
    signals: u8,
    spin: SpinUse,
    pace: Pace,
    ack_every: u32,
    size: u32,
    search: Option<Search>,
    least_timeout: Duration,
    block: u32,
}

/// Packets in flight unless something else is said: at 40 ms and 1200 bytes
/// 15 Mbit/s (our choice).
const WINDOW: u32 = 64;
/// Most packets in flight: the loss detection goes through all of them.
const MOST_IN_FLIGHT: u32 = 16_384;
/// RFC 9000 §13.2.2: an acknowledgement after at least two packets.
const ACK_EVERY: u32 = 2;
/// UDP payload that RFC 9000 §14 wants every path to carry.
const SIZE: u32 = 1_200;
/// What holds all headers with an acknowledgement and some data.
const LEAST_SIZE: u32 = 128;
/// UDP payload in an IPv6 packet of 1500 bytes.
const MOST_SIZE: u32 = 1_452;
/// Q block of RFC 9506 §3.2.1.
const BLOCK: u32 = 64;
/// The longest least timeout.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(60);

const BLOCKS: &str = "a power of two from 64 to 16384";
const SHAPES: &str = "`quic-model` or `plus`";
const KEYS: &str = "`signals`, `spin`, `window`, `rate`, `ack`, `size`, `search`, `timeout` or `n`";
const SIGNALS: &str =
    "`none`, or some of s, vec, q and l joined by `+`, such as s+vec (vec needs s)";
const PLUS_SIGNALS: &str = "`none`, `s` or `s+vec`: the PLUS header has no other bits";
/// Signals that a modelled header has a place for.
const SHOWN: [Signal; 4] = [Signal::Spin, Signal::Vec, Signal::Square, Signal::Loss];

impl ModelSpec {
    /// Whether a line of words begins as that of a modelled flow.
    pub fn begins(line: &str) -> bool {
        let first = line.split_whitespace().next();
        [Shape::Quic, Shape::Plus]
            .iter()
            .any(|shape| first == Some(shape.name()))
    }

    /// A flow of this shape with a spin bit and its counter, all else as it is
    /// unless something is said.
    pub const fn new(shape: Shape) -> Self {
        Self {
            shape,
            signals: Signal::Spin as u8 | Signal::Vec as u8,
            spin: SpinUse::On,
            pace: Pace::Window(WINDOW),
            ack_every: ACK_EVERY,
            size: SIZE,
            search: None,
            least_timeout: Duration::from_nanos(0),
            block: BLOCK,
        }
    }

    /// Reads a line of words: `quic-model` or `plus`, then keys with values.
    ///
    /// # Errors
    /// On an unknown word, a value out of range, or keys that do not go
    /// together.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        let first = words.needed(SHAPES)?;
        let shape = [Shape::Quic, Shape::Plus]
            .into_iter()
            .find(|s| s.name() == first.text)
            .ok_or_else(|| first.refused(SHAPES))?;
        let mut spec = Self::new(shape);
        let (mut spin, mut pace, mut block, mut size) = (None, None, None, None);
        while let Some(key) = words.take() {
            match key.text {
                "signals" => spec.signals = signals(&mut words, shape)?,
                "spin" => {
                    spin = Some(key);
                    spec.spin = words.one_of(&SPIN)?;
                }
                "window" | "rate" if pace.is_some() => {
                    return Err(key.refused("either `window` or `rate`, once"));
                }
                "window" => {
                    let window = number(&mut words, 1..=MOST_IN_FLIGHT)?;
                    pace = Some(Pace::Window(window));
                }
                "rate" => {
                    let rate = words.checked_value("more than zero", |r: &Rate| r.as_bits() > 0)?;
                    pace = Some(Pace::Rate(rate));
                }
                "ack" => spec.ack_every = number(&mut words, 1..=64)?,
                "size" | "search" if size.is_some() => {
                    return Err(key.refused("either `size` or `search`, once"));
                }
                "size" => {
                    size = Some(key);
                    spec.size = number(&mut words, LEAST_SIZE..=MOST_SIZE)?;
                }
                "search" => {
                    size = Some(key);
                    spec.search = Some(Search::read(&mut words)?);
                }
                "timeout" => {
                    let fits = |time: &Duration| *time <= LONGEST_TIMEOUT;
                    spec.least_timeout = words.checked_value("a time up to 60s", fits)?;
                }
                "n" => {
                    block = Some(key);
                    spec.block = words.value_where(BLOCKS, |n| fits_block(*n))?;
                }
                _ => return Err(key.refused(KEYS)),
            }
        }
        spec.pace = pace.unwrap_or(spec.pace);
        for (key, signal, letter) in [(spin, Signal::Spin, "s"), (block, Signal::Square, "q")] {
            if let (Some(key), false) = (key, spec.has(signal)) {
                let allowed =
                    format!("a key of a signal that is sent; add `{letter}` to `signals`");
                return Err(key.refused(allowed));
            }
        }
        Ok(spec)
    }

    /// The form of its packets.
    pub const fn shape(&self) -> Shape {
        self.shape
    }

    /// Whether its packets carry `signal`.
    pub fn has(&self, signal: Signal) -> bool {
        self.signals & signal as u8 != 0
    }

    /// What its spin bit does.
    pub fn spin(&self) -> SpinUse {
        self.spin
    }

    /// What holds its sender back.
    pub fn pace(&self) -> Pace {
        self.pace
    }

    /// Packets that call for data after which one is acknowledged at the latest.
    pub fn ack_every(&self) -> u32 {
        self.ack_every
    }

    /// How it searches for the size of its packets; `None` if that is fixed.
    pub fn search(&self) -> Option<Search> {
        self.search
    }

    /// Bytes of UDP payload in a full packet, before a search has found more.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// The least probe timeout; zero for what RFC 9002 says.
    pub fn least_timeout(&self) -> Duration {
        self.least_timeout
    }

    /// Packets in a Q block.
    pub fn block(&self) -> u32 {
        self.block
    }

    /// The signals of `of` that it sends, as a profile of their own.
    pub(super) fn profile(&self, of: &[Signal]) -> Option<Profile> {
        let sent: Vec<Signal> = of.iter().copied().filter(|s| self.has(*s)).collect();
        Profile::of(&sent).filter(|p| !p.is_none())
    }
}

fn signals(words: &mut Words<'_>, shape: Shape) -> Result<u8, WordError> {
    let allowed = match shape {
        Shape::Quic => SIGNALS,
        Shape::Plus => PLUS_SIGNALS,
    };
    let word = words.needed(allowed)?;
    if word.text == "none" {
        return Ok(0);
    }
    let mut set = 0;
    for part in word.text.split('+') {
        let found = SHOWN.into_iter().find(|signal| signal.word() == part);
        let signal = found.ok_or_else(|| word.refused(allowed))?;
        if set & signal as u8 != 0 {
            return Err(word.refused(allowed));
        }
        set |= signal as u8;
    }
    let lone_counter = set & Signal::Vec as u8 != 0 && set & Signal::Spin as u8 == 0;
    let too_many = shape == Shape::Plus && set & (Signal::Square as u8 | Signal::Loss as u8) != 0;
    if lone_counter || too_many {
        return Err(word.refused(allowed));
    }
    Ok(set)
}

fn number(words: &mut Words<'_>, range: RangeInclusive<u32>) -> Result<u32, WordError> {
    let allowed = format!("a whole number from {} to {}", range.start(), range.end());
    words.value_where(&allowed, |n| range.contains(n))
}

/// The range of `n` in the words of marks.
fn fits_block(n: u32) -> bool {
    n.is_power_of_two() && (64..=16_384).contains(&n)
}

impl fmt::Display for ModelSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = Self::new(self.shape);
        f.write_str(self.shape.name())?;
        let sent = SHOWN.into_iter().filter(|signal| self.has(*signal));
        let sent: Vec<&str> = sent.map(Signal::word).collect();
        let sent = if sent.is_empty() {
            "none".to_owned()
        } else {
            sent.join("+")
        };
        let (rate, window) = match self.pace {
            Pace::Rate(rate) => (Some(rate), None),
            Pace::Window(window) => (None, Some(window).filter(|w| *w != WINDOW)),
        };
        WordWriter::new(f)
            .some("signals", (self.signals != usual.signals).then_some(sent))
            .stated(
                "spin",
                word_for(&SPIN, &self.spin),
                word_for(&SPIN, &usual.spin),
            )
            .some("rate", rate)
            .some("window", window)
            .stated("ack", self.ack_every, usual.ack_every)
            .stated("size", self.size, usual.size)
            .stated("timeout", self.least_timeout, usual.least_timeout)
            .stated("n", self.block, usual.block)
            .some("search", self.search)
            .finish()
    }
}

narrows_units::written_as_words!(ModelSpec);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_as_they_were_written() {
        for line in [
            "quic-model",
            "plus",
            "quic-model signals none",
            "quic-model signals s+vec+q+l rate 20Mbit ack 1",
            "quic-model signals s spin greased window 200 size 1000",
            "quic-model spin fixed timeout 200ms",
            "quic-model signals q n 128",
            "quic-model window 100 search adaptive",
            "plus timeout 200ms search bisect within 1",
            "plus signals s window 100",
        ] {
            let spec = ModelSpec::parse(line).unwrap();
            assert_eq!(spec.to_string(), line);
            assert_eq!(ModelSpec::parse(&spec.to_string()), Ok(spec));
        }
    }

    #[test]
    fn a_block_has_the_lengths_that_the_senders_of_marks_have() {
        for n in (0..=15).map(|shift| 1u32 << shift) {
            let ours = ModelSpec::parse(&format!("quic-model signals q n {n}")).is_ok();
            let theirs = narrows_efm::SignalSpec::parse(&format!("d+q n {n}")).is_ok();
            assert_eq!(ours, theirs, "{n}");
        }
    }

    #[test]
    fn what_the_header_cannot_carry_or_the_flow_cannot_do_is_refused_where_it_stands() {
        for (line, at) in [
            ("quick", 0..5),
            ("quic-model speed 3", 11..16),
            ("quic-model signals vec", 19..22),
            ("quic-model signals s+s", 19..22),
            ("quic-model signals d", 19..20),
            ("plus signals s+q", 13..16),
            ("quic-model signals q spin on", 21..25),
            ("quic-model n 128", 11..12),
            ("quic-model signals q n 96", 23..25),
            ("quic-model window 0", 18..19),
            ("quic-model window 9 rate 1Mbit", 20..24),
            ("quic-model rate 0bit", 16..20),
            ("quic-model size 9000", 16..20),
            ("quic-model size 1000 search table", 21..27),
            ("quic-model search upwards", 18..25),
            ("quic-model ack", 14..14),
            ("quic-model timeout 61s", 19..22),
        ] {
            let error = ModelSpec::parse(line).unwrap_err();
            assert_eq!(error.span, at, "{line}: {error}");
        }
    }
}
