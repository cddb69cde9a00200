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

    /// A flag, which is named or is not.
    pub const fn flag(usage: &'static str, default: &'static str, about: &'static str) -> Self {
        Self::new(usage, ParameterKind::Flag, "", default, about)
    }

    /// The words that name it: several of a flag, none of a value without a name.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let first = self.usage.split(' ').next().unwrap_or_default();
        let is_name = |name: &&str| name.starts_with(|c: char| c.is_ascii_lowercase());
        first.split('|').filter(is_name)
    }

    /// The words that a choice is between, where its usage names them: `direction up|down`.
    pub fn choices(&self) -> impl Iterator<Item = &'static str> {
        let words = self.usage.split(' ').nth(1);
        let choices = words
            .filter(|words| words.contains('|'))
            .unwrap_or_default();
        let choices = choices.split('|');
        choices.filter(|word| word.starts_with(|c: char| c.is_ascii_lowercase()))
    }

    /// The words of the least and of the greatest value, as what is allowed names them:
    /// `1 to 255`, `a time from 1us to 4s`, `at least 2 packets`, `at most 100 bytes`, `10us or
    /// more`.
    pub fn ends(&self) -> [Option<&'static str>; 2] {
        let words: Vec<_> = self.allowed.split([' ', ',']).collect();
        let is_number = |word: &&'static str| {
            let digits = word.trim_start_matches('-');
            digits.starts_with(|c: char| c.is_ascii_digit())
        };
        let after = |place: usize| words.get(place + 1).copied().filter(is_number);
        let before = |place: usize| words[..place].iter().rev().copied().find(is_number);
        let place = |word: &str| words.iter().position(|w| *w == word);
        if let Some(to) = place("to") {
            return [before(to), after(to)];
        }
        let least = place("least").and_then(after);
        let more = place("more").and_then(before);
        [least.or(more), place("most").and_then(after)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_of_a_range_are_read_from_what_is_allowed() {
        for (allowed, ends) in [
            ("1 to 255", [Some("1"), Some("255")]),
            ("a time from 1us to 4s", [Some("1us"), Some("4s")]),
            ("1 byte to 2048Mb", [Some("1"), Some("2048Mb")]),
            ("-64 to 256 bytes", [Some("-64"), Some("256")]),
            (
                "an MTU, 68 to 65535, such as 1420",
                [Some("68"), Some("65535")],
            ),
            ("at least 2 packets", [Some("2"), None]),
            ("100ms or more", [Some("100ms"), None]),
            ("at most 100 bytes", [None, Some("100")]),
            ("a power of two up to 65536", [None, Some("65536")]),
            ("a rate above zero", [None, None]),
        ] {
            let kind = ParameterKind::Number("");
            let parameter = Parameter::new("n NUMBER", kind, allowed, "", "A number");
            assert_eq!(parameter.ends(), ends, "{allowed}");
        }
    }

    #[test]
    fn choices_are_those_of_the_usage() {
        let of = |usage| Parameter::new(usage, ParameterKind::Choice, "", "", "");
        let choices = |usage| of(usage).choices().collect::<Vec<_>>();
        assert_eq!(choices("direction up|down"), ["up", "down"]);
        assert!(choices("distribution LAW").is_empty());
        assert!(choices("if ecn E").is_empty());
        assert!(choices("ecn|noecn").is_empty());
    }
}
