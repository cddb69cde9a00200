//! Who decides how fast a QUIC flow sends, in words.

use std::fmt;
use std::sync::Arc;

use narrows_units::{WordError, Words};
use quinn_proto::congestion::{BbrConfig, ControllerFactory, CubicConfig, NewRenoConfig};

/// What precedes the name of one of quinn's controls.
pub const PREFIX: &str = "quic:";

const NAMES: &str = "quic:cubic, quic:newreno or quic:bbr";

/// One of quinn's congestion controls; they are quinn's own code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QuicControl {
    /// CUBIC (RFC 9438), quinn's default.
    #[default]
    Cubic,
    /// NewReno (RFC 9002 §7).
    NewReno,
    /// BBR, which quinn calls experimental.
    Bbr,
}

impl QuicControl {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cubic, Self::NewReno, Self::Bbr];

    /// Reads a line of words, `quic:cubic`.
    ///
    /// # Errors
    /// When it is not the name of one of them, or something follows it.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        let word = words.needed(NAMES)?;
        let name = word.text.strip_prefix(PREFIX);
        let control = Self::ALL.into_iter().find(|c| name == Some(c.name()));
        let control = control.ok_or_else(|| word.refused(NAMES))?;
        words.finish("nothing (quinn's controls have quinn's parameters)")?;
        Ok(control)
    }

    /// Its name alone: `cubic`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::NewReno => "newreno",
            Self::Bbr => "bbr",
        }
    }

    /// Whether two runs with one seed are alike. quinn's BBR draws the phase
    /// of its gain cycle from the operating system's randomness (quinn-proto
    /// 0.11, `congestion/bbr`), and cannot be given a seed.
    pub const fn repeats(self) -> bool {
        !matches!(self, Self::Bbr)
    }

    /// What builds it for a connection.
    pub fn factory(self) -> Arc<dyn ControllerFactory + Send + Sync> {
        match self {
            Self::Cubic => Arc::new(CubicConfig::default()),
            Self::NewReno => Arc::new(NewRenoConfig::default()),
            Self::Bbr => Arc::new(BbrConfig::default()),
        }
    }
}

impl fmt::Display for QuicControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.name())
    }
}

narrows_units::written_as_words!(QuicControl);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back_as_written_and_others_are_refused_with_their_place() {
        for control in QuicControl::ALL {
            assert_eq!(QuicControl::parse(&control.to_string()).unwrap(), control);
        }
        for (words, at) in [
            ("cubic", 0..5),
            ("quic:reno", 0..9),
            ("quic:cubic hystart off", 11..18),
        ] {
            let error = QuicControl::parse(words).unwrap_err();
            assert_eq!(error.span, at, "{words}: {error}");
        }
    }
}
