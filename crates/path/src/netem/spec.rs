//! netem's words.

use std::fmt;

use narrows_core::Element;
use narrows_units::{Duration, Parameter, ParameterKind, Value, WordError, Words};

use super::element::Netem;
use super::law::Distribution;
use super::loss::{LossSpec, maybe_percent};
use crate::ElementSpec;
use crate::kind::{Facts, Kind, NamesFile, Reports};
use crate::percent::Percent;
use crate::site::Site;

/// How long the gap before a slot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotGap {
    /// Uniform between two times.
    Between(Duration, Duration),
    /// `distribution LAW MEAN JITTER`.
    Spread(Distribution, Duration, Duration),
}

/// `slot MIN [MAX] [packets N] [bytes N]`: packets wait for the next slot, and
/// a slot lets through at most so many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotSpec {
    /// The gap before each slot.
    pub gap: SlotGap,
    /// Packets in a slot; `None` for any number.
    pub packets: Option<u32>,
    /// IP bytes in a slot; the packet that reaches the number ends the slot.
    pub bytes: Option<u32>,
}

/// `netem [delay TIME [JITTER [CORRELATION]]] [distribution LAW]
/// [loss …] [ecn] [duplicate P [CORRELATION]] [corrupt P [CORRELATION]]
/// [reorder P [CORRELATION]] [gap N] [slot …] [limit N]`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetemSpec {
    /// Mean delay.
    pub delay: Duration,
    /// How far the delay strays from its mean, by `distribution`. A packet
    /// that draws a shorter delay overtakes others.
    pub jitter: Duration,
    /// How much a delay resembles the one before.
    pub delay_correlation: Percent,
    /// The law of the jitter.
    pub distribution: Distribution,
    /// Which packets are lost.
    pub loss: LossSpec,
    /// Whether ECN-capable packets are marked CE instead of being lost.
    pub ecn: bool,
    /// Chance that a packet is sent twice.
    pub duplicate: Percent,
    /// How much a draw for `duplicate` resembles the one before.
    pub duplicate_correlation: Percent,
    /// Chance that one of a packet's bits is flipped.
    pub corrupt: Percent,
    /// How much a draw for `corrupt` resembles the one before.
    pub corrupt_correlation: Percent,
    /// Chance that a packet goes ahead of all that wait.
    pub reorder: Percent,
    /// How much a draw for `reorder` resembles the one before.
    pub reorder_correlation: Percent,
    /// Only every so manieth packet may be reordered; 0 is "no reordering".
    pub gap: u32,
    /// Release in slots.
    pub slot: Option<SlotSpec>,
    /// No packet overtakes another by its jitter: as in tc where netem has a
    /// `rate`, a packet that draws a shorter delay leaves with the one before.
    pub ordered: bool,
    /// Most packets held at a time; `None` for any number.
    pub limit: Option<u32>,
}

/// The names of all clauses.
fn keys() -> String {
    let names: Vec<_> = NetemSpec::PARAMETERS
        .iter()
        .flat_map(Parameter::names)
        .collect();
    match names.split_last() {
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

impl NetemSpec {
    /// Lays `words` over what is there: each clause named replaces its like.
    pub(crate) fn apply(&mut self, words: &mut Words<'_>) -> Result<(), WordError> {
        let mut law_word = None;
        let mut reorder_word = None;
        let mut gap_word = None;
        while let Some(word) = words.take() {
            match word.text {
                "delay" | "latency" => {
                    self.delay = words.value()?;
                    self.jitter = maybe_duration(words)?.unwrap_or_default();
                    self.delay_correlation = if self.jitter.is_zero() {
                        Percent::ZERO
                    } else {
                        maybe_percent(words)?.unwrap_or_default()
                    };
                    if self.jitter.is_zero() {
                        self.distribution = Distribution::Uniform;
                    }
                }
                "distribution" => {
                    self.distribution = words.value()?;
                    law_word = Some(word);
                }
                "loss" | "drop" => self.loss = LossSpec::parse(words)?,
                "ecn" => self.ecn = true,
                "ordered" => self.ordered = true,
                "duplicate" => {
                    self.duplicate = words.value()?;
                    self.duplicate_correlation = maybe_percent(words)?.unwrap_or_default();
                }
                "corrupt" => {
                    self.corrupt = words.value()?;
                    self.corrupt_correlation = maybe_percent(words)?.unwrap_or_default();
                }
                "reorder" => {
                    self.reorder = words.value()?;
                    self.reorder_correlation = maybe_percent(words)?.unwrap_or_default();
                    reorder_word = Some(word);
                }
                "gap" => {
                    self.gap = words.value()?;
                    gap_word = Some(word);
                }
                "slot" => self.slot = parse_slot(words)?,
                "limit" => self.limit = Some(words.value()?),
                "rate" => {
                    return Err(word.refused(keys()).with_help(
                        "a rate is an element of its own: \"rate 10Mbit queue pfifo\"",
                    ));
                }
                _ => return Err(word.refused(keys())),
            }
        }
        if let Some(word) = law_word.filter(|_| self.jitter.is_zero()) {
            return Err(WordError::new(
                word.span(),
                "`distribution` without a jitter",
                "delay TIME JITTER beside it",
            ));
        }
        if let Some(word) = reorder_word.filter(|_| self.delay.is_zero()) {
            return Err(WordError::new(
                word.span(),
                "`reorder` without a delay",
                "delay TIME beside it",
            )
            .with_help("only packets that wait can be overtaken"));
        }
        if let Some(word) = gap_word.filter(|_| self.gap > 0 && self.reorder.is_zero()) {
            return Err(WordError::new(
                word.span(),
                "`gap` without a reorder probability",
                "reorder P beside it",
            ));
        }
        // A correlation of draws that decide nothing says nothing.
        if self.duplicate.is_zero() {
            self.duplicate_correlation = Percent::ZERO;
        }
        if self.corrupt.is_zero() {
            self.corrupt_correlation = Percent::ZERO;
        }
        if self.reorder.is_zero() {
            self.reorder_correlation = Percent::ZERO;
        }
        // As tc does: `reorder` alone means any packet.
        if !self.reorder.is_zero() && self.gap == 0 {
            self.gap = 1;
        }
        Ok(())
    }

    /// Whether it does nothing but hold each packet for the same time.
    pub(crate) fn is_plain(&self) -> bool {
        !self.delay.is_zero()
            && self.jitter.is_zero()
            && self.loss == LossSpec::None
            && self.duplicate.is_zero()
            && self.corrupt.is_zero()
            && self.gap == 0
            && self.slot.is_none()
    }
}

impl Kind for NetemSpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "delay TIME [JITTER [CORRELATION]]",
            ParameterKind::Time,
            Duration::ALLOWED,
            "no delay",
            "Mean delay, how far it strays, and how much a delay resembles the one before",
        ),
        Parameter::new(
            "distribution LAW",
            ParameterKind::Choice,
            Distribution::ALLOWED,
            "uniform",
            "The law of the jitter",
        ),
        Parameter::flag(
            "ordered",
            "not ordered",
            "Whether no packet overtakes another by its jitter",
        ),
        Parameter::new(
            "loss [random] P [CORRELATION] | gemodel … | state …",
            ParameterKind::Percentage,
            Percent::ALLOWED,
            "no loss",
            "Which packets are lost",
        ),
        Parameter::flag(
            "ecn",
            "no ecn",
            "Whether ECN-capable packets are marked instead of lost",
        ),
        Parameter::new(
            "duplicate P [CORRELATION]",
            ParameterKind::Percentage,
            Percent::ALLOWED,
            "0%",
            "Chance that a packet is sent twice",
        ),
        Parameter::new(
            "corrupt P [CORRELATION]",
            ParameterKind::Percentage,
            Percent::ALLOWED,
            "0%",
            "Chance that a bit of a packet is flipped, so that its receiver drops it for its checksum",
        ),
        Parameter::new(
            "reorder P [CORRELATION]",
            ParameterKind::Percentage,
            Percent::ALLOWED,
            "0%",
            "Chance that a packet goes ahead of all that wait",
        ),
        Parameter::new(
            "gap N",
            ParameterKind::Number("packets"),
            u32::ALLOWED,
            "1 beside reorder",
            "Only every so manieth packet may be reordered",
        ),
        Parameter::new(
            "slot MIN [MAX] [packets N] [bytes N]",
            ParameterKind::Time,
            Duration::ALLOWED,
            "no slots",
            "The gap before each slot of release, and how much a slot lets out",
        ),
        Parameter::new(
            "limit PACKETS",
            ParameterKind::Number("packets"),
            u32::ALLOWED,
            "any number",
            "Packets held at a time",
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let mut spec = Self::default();
        if words.peek().is_none() {
            return Err(words.ended(keys()));
        }
        spec.apply(words)?;
        Ok(spec)
    }

    /// Each clause that is not named stays.
    fn over(before: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        match before {
            ElementSpec::Netem(old) if words.peek().is_some() => {
                let mut spec = *old;
                spec.apply(words)?;
                Ok(spec)
            }
            _ => Self::parse(words),
        }
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        Box::new(Netem::new(*self, site))
    }

    fn facts(&self) -> Facts<'_> {
        Facts {
            link: None,
            holds_back: !self.delay.is_zero() || !self.jitter.is_zero() || self.slot.is_some(),
            two_way: false,
            node: false,
            translates: false,
            wraps: false,
            sets_ecn: false,
            duplicates: !self.duplicate.is_zero(),
            corrupts: !self.corrupt.is_zero(),
            mtu: None,
            tap: None,
            reports: Reports::Packets,
        }
    }

    fn base_delay(&self, _: u8, _: u32) -> Duration {
        self.delay
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        None
    }
}

fn maybe_duration(words: &mut Words<'_>) -> Result<Option<Duration>, WordError> {
    match words.peek() {
        // A percentage here would be a correlation without a jitter.
        Some(w) if w.text.starts_with(|c: char| c.is_ascii_digit() || c == '.') => {
            words.value().map(Some)
        }
        _ => Ok(None),
    }
}

fn parse_slot(words: &mut Words<'_>) -> Result<Option<SlotSpec>, WordError> {
    if words.take_if("none") {
        return Ok(None);
    }
    let gap = if words.take_if("distribution") {
        SlotGap::Spread(words.value()?, words.value()?, words.value()?)
    } else {
        let min: Duration = words.value()?;
        let at = words.peek();
        let max = maybe_duration(words)?.unwrap_or(min);
        if max < min {
            let (span, text) = at.map_or((0..0, ""), |w| (w.span(), w.text));
            return Err(WordError::new(
                span,
                format!("`{text}`"),
                format!("a longest gap of at least {min}"),
            ));
        }
        SlotGap::Between(min, max)
    };
    let (mut packets, mut bytes) = (None, None);
    loop {
        if words.take_if("packets") {
            packets = above_zero(words)?;
        } else if words.take_if("bytes") {
            bytes = above_zero(words)?;
        } else {
            return Ok(Some(SlotSpec {
                gap,
                packets,
                bytes,
            }));
        }
    }
}

/// A count; 0 stands for "any number", as in tc.
fn above_zero(words: &mut Words<'_>) -> Result<Option<u32>, WordError> {
    let n: u32 = words.value()?;
    Ok((n > 0).then_some(n))
}

impl fmt::Display for SlotSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.gap {
            SlotGap::Between(min, max) if min == max => write!(f, "slot {min}")?,
            SlotGap::Between(min, max) => write!(f, "slot {min} {max}")?,
            SlotGap::Spread(law, mean, jitter) => {
                write!(f, "slot distribution {law} {mean} {jitter}")?;
            }
        }
        if let Some(n) = self.packets {
            write!(f, " packets {n}")?;
        }
        if let Some(n) = self.bytes {
            write!(f, " bytes {n}")?;
        }
        Ok(())
    }
}

impl fmt::Display for NetemSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "netem delay {}", self.delay)?;
        if !self.jitter.is_zero() {
            write!(f, " {}", self.jitter)?;
            if !self.delay_correlation.is_zero() {
                write!(f, " {}", self.delay_correlation)?;
            }
            if self.distribution != Distribution::Uniform {
                write!(f, " distribution {}", self.distribution)?;
            }
        }
        if self.ordered {
            f.write_str(" ordered")?;
        }
        if self.loss != LossSpec::None {
            write!(f, " {}", self.loss)?;
        }
        if self.ecn {
            f.write_str(" ecn")?;
        }
        for (name, chance, correlation) in [
            ("duplicate", self.duplicate, self.duplicate_correlation),
            ("corrupt", self.corrupt, self.corrupt_correlation),
            ("reorder", self.reorder, self.reorder_correlation),
        ] {
            if !chance.is_zero() {
                write!(f, " {name} {chance}")?;
                if !correlation.is_zero() {
                    write!(f, " {correlation}")?;
                }
            }
        }
        if self.gap > 1 {
            write!(f, " gap {}", self.gap)?;
        }
        if let Some(slot) = self.slot {
            write!(f, " {slot}")?;
        }
        if let Some(limit) = self.limit {
            write!(f, " limit {limit}")?;
        }
        Ok(())
    }
}
