//! DSCP and ECN as words.

use std::fmt;

use narrows_units::Value;
use narrows_wire::Ecn;

/// A differentiated-services code point, 0 to 63.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Dscp(pub u8);

/// Names by which tc and `ip` know code points (RFC 2474, RFC 2597, RFC 3246,
/// RFC 5865, RFC 8622). The first name of a value is the one that prints.
const NAMES: &[(&str, u8)] = &[
    ("cs0", 0),
    ("be", 0),
    ("default", 0),
    ("le", 1),
    ("cs1", 8),
    ("af11", 10),
    ("af12", 12),
    ("af13", 14),
    ("cs2", 16),
    ("af21", 18),
    ("af22", 20),
    ("af23", 22),
    ("cs3", 24),
    ("af31", 26),
    ("af32", 28),
    ("af33", 30),
    ("cs4", 32),
    ("af41", 34),
    ("af42", 36),
    ("af43", 38),
    ("cs5", 40),
    ("voice-admit", 44),
    ("ef", 46),
    ("cs6", 48),
    ("cs7", 56),
];

impl fmt::Display for Dscp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match NAMES.iter().find(|(_, value)| *value == self.0) {
            Some((name, _)) => f.pad(name),
            None => fmt::Display::fmt(&self.0, f),
        }
    }
}

impl Value for Dscp {
    const ALLOWED: &'static str = "a DSCP: 0 to 63, or a name such as cs1, af41, ef, le";

    fn parse(word: &str) -> Option<Self> {
        let lower = word.to_ascii_lowercase();
        if let Some((_, value)) = NAMES.iter().find(|(name, _)| *name == lower) {
            return Some(Self(*value));
        }
        let value = match lower.strip_prefix("0x") {
            Some(hex) => u8::from_str_radix(hex, 16).ok()?,
            None => lower.parse().ok()?,
        };
        (value < 64).then_some(Self(value))
    }
}

/// An ECN codepoint as a word: `not-ect`, `ect1`, `ect0`, `ce`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EcnWord(pub Ecn);

impl fmt::Display for EcnWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self.0 {
            Ecn::NotEct => "not-ect",
            Ecn::Ect1 => "ect1",
            Ecn::Ect0 => "ect0",
            Ecn::Ce => "ce",
        })
    }
}

impl Value for EcnWord {
    const ALLOWED: &'static str = "one of not-ect, ect0, ect1, ce";

    fn parse(word: &str) -> Option<Self> {
        Some(Self(match word.to_ascii_lowercase().as_str() {
            "not-ect" => Ecn::NotEct,
            "ect1" => Ecn::Ect1,
            "ect0" => Ecn::Ect0,
            "ce" => Ecn::Ce,
            _ => return None,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_point_prints_and_reads_back() {
        for value in 0..64 {
            let dscp = Dscp(value);
            assert_eq!(Dscp::parse(&dscp.to_string()), Some(dscp));
        }
        assert_eq!(Dscp::parse("0x2e"), Some(Dscp(46)));
        assert_eq!(Dscp::parse("EF"), Some(Dscp(46)));
        for word in ["64", "-1", "af14", "", "0x40"] {
            assert_eq!(Dscp::parse(word), None, "{word}");
        }
    }

    #[test]
    fn every_ecn_codepoint_prints_and_reads_back() {
        for bits in 0..4 {
            let word = EcnWord(Ecn::from_bits(bits));
            assert_eq!(EcnWord::parse(&word.to_string()), Some(word));
        }
        assert_eq!(EcnWord::parse("ect"), None);
    }
}
