//! What a line of words declares of each of its parameters.

use std::fmt;

/// A parameter of something that is written in words, such as a queue: the text about it in
/// refusals, lists and the guide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// How it is written, in tc's manner: `limit PACKETS`, `ecn|noecn`, or `BYTES` of a
    /// value that has no name before it.
    pub usage: &'static str,
    /// What it holds.
    pub kind: ParameterKind,
    /// Which values it takes, as a refusal says; empty of a flag.
    pub allowed: &'static str,
    /// What holds where it is not named.
    pub default: &'static str,
    /// What it is, in a sentence without its stop.
    pub about: &'static str,
}

/// What a parameter holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Whether it is named, or by which of its names.
    Flag,
    /// A number in this unit; none if the unit is empty.
    Number(&'static str),
    /// A time with its unit.
    Time,
    /// A size in bytes, or with its unit.
    Size,
    /// A rate with its unit.
    Rate,
    /// A part of a whole in per cent.
    Percentage,
    /// One of some words.
    Choice,
    /// Words with a grammar of their own.
    Words,
}

impl Parameter {
    /// One that is written like `usage`. It takes `allowed`, which is what a refusal of its
    /// value says.
    pub const fn new(
        usage: &'static str,
        kind: ParameterKind,
        allowed: &'static str,
        default: &'static str,
        about: &'static str,
    ) -> Self {
        Self {
            usage,
            kind,
            allowed,
            default,
            about,
        }
    }

    /// The words that name it: several of a flag, none of a value without a name.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let first = self.usage.split(' ').next().unwrap_or_default();
        let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase());
        first.split('|').filter(is_name)
    }

    /// How those of `parameters` that have a name are written, for a refusal.
    pub fn usages<'a>(
        parameters: impl IntoIterator<Item = &'a Self>,
    ) -> impl Iterator<Item = &'static str> {
        let parameters = parameters.into_iter();
        let named = parameters.filter(|p| p.names().next().is_some());
        named.map(|p| p.usage)
    }
}

impl ParameterKind {
    /// The unit of its values; empty of what has none, or says its own.
    pub const fn unit(self) -> &'static str {
        match self {
            Self::Number(unit) => unit,
            Self::Size => "bytes",
            Self::Percentage => "%",
            Self::Flag | Self::Time | Self::Rate | Self::Choice | Self::Words => "",
        }
    }
}

impl fmt::Display for ParameterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flag => "flag",
            Self::Number(_) => "number",
            Self::Time => "time",
            Self::Size => "size",
            Self::Rate => "rate",
            Self::Percentage => "percentage",
            Self::Choice => "choice",
            Self::Words => "words",
        })
    }
}

/// Something that is written in words, and its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The words that it begins with.
    pub name: &'static str,
    /// What it is, in a sentence with its stop.
    pub about: &'static str,
    /// All that may follow, in the order in which lists have it.
    pub parameters: &'static [Parameter],
}
