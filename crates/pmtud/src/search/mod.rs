//! Which size is tried next.

mod adaptive;
mod bisect;
mod stacks;

use std::fmt;

use narrows_units::{WordError, Words, word_for};

use crate::settings::Reports;
use stacks::STACKS;
pub use stacks::Stack;

/// The sizes of the table search of the MAMI report, section 3.1: payload of UDP over IPv4
/// on links with MTUs of 1260, 1360, 1400, 1426, 1440, 1492 and 1500 bytes.
const TABLE: [u16; 7] = [1_232, 1_332, 1_372, 1_398, 1_412, 1_464, 1_472];

/// First step of SCTP's search in bytes (Linux v6.17 include/net/sctp/constants.h,
/// SCTP_PL_BIG_STEP).
const SCTP_BIG_STEP: u16 = 32;

/// Its second (SCTP_PL_MIN_STEP).
const SCTP_MIN_STEP: u16 = 4;

/// Where bisection as QUIC's stacks do it stops, in bytes between what arrived and what did
/// not (quinn `minimum_change`, s2n-quic `PROBE_THRESHOLD`).
const BISECT_WITHIN: u16 = 20;

/// What is known of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// Bytes of a packet below the datagram.
    pub headers: u16,
    /// BASE_PLPMTU.
    pub base: u16,
    /// MAX_PLPMTU.
    pub max: u16,
    /// The largest size that arrived in this search; `None` before any, where `base` is only
    /// expected to.
    pub arrived: Option<u16>,
    /// The smallest size that was given up in this search.
    pub failed: Option<u16>,
    /// Whether the size that was tried last is that one.
    pub failed_last: bool,
}

impl Known {
    /// The largest size that can be relied on.
    fn lower(&self) -> u16 {
        self.arrived.unwrap_or(self.base)
    }

    /// Whether `size` can still be found to be carried.
    fn is_open(&self, size: u16) -> bool {
        let above = match self.arrived {
            Some(arrived) => size > arrived,
            None => size >= self.base,
        };
        above && size <= self.max && self.failed.is_none_or(|failed| size < failed)
    }

    /// `size` if it can be tried.
    fn open(&self, size: u16) -> Option<u16> {
        self.is_open(size).then_some(size)
    }
}

/// A strategy: from what is known to the next size, or the end of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Search {
    /// BASE_PLPMTU, then so many bytes more, until one fails (MAMI report, section 3.1).
    Step(u16),
    /// The sizes of a table upwards, until one fails (the same).
    Table,
    /// The largest first, then halves, to the byte (the same).
    Binary,
    /// So many bytes more each time, at last the largest.
    Linear(u16),
    /// Halves upwards, as the stacks of QUIC do it.
    Bisect {
        /// No size below is tried.
        floor: u16,
        /// It ends where no more than this is between what arrived and what failed.
        within: u16,
    },
    /// Steps of 32 bytes, then of 4 from the last that arrived (Linux v6.17
    /// net/sctp/transport.c).
    Sctp,
    /// The largest first, then the MTUs that are usual, then thirds between them.
    Adaptive,
    /// What a known stack does.
    Of(Stack),
}

/// The words of each search, with what they mean.
pub const SEARCHES: [(&str, &str); 8] = [
    (
        "step BYTES",
        "from the base upwards by so many bytes, until one fails",
    ),
    (
        "table",
        "the sizes of the MAMI report upwards, until one fails",
    ),
    ("binary", "the largest, then halves, to the byte"),
    ("linear BYTES", "upwards by so many bytes, and the largest"),
    (
        "bisect [floor BYTES] [within BYTES]",
        "halves upwards, as QUIC's stacks do it",
    ),
    (
        "sctp",
        "steps of 32 bytes, then of 4, as Linux's SCTP does it",
    ),
    (
        "adaptive",
        "the largest, then MTUs that are usual, by thirds",
    ),
    (
        "quinn|s2n-quic|neqo|msquic|picoquic",
        "as these QUIC stacks do it, which ignore packet-too-big reports",
    ),
];

/// The same in a refusal.
pub const SEARCH_WORDS: &str = "step BYTES, table, binary, linear BYTES, bisect [floor BYTES] [within BYTES], \
                     sctp, adaptive, quinn, s2n-quic, neqo, msquic, or picoquic";

impl Search {
    /// Reads a search's words.
    ///
    /// # Errors
    /// When they are no search's, or a number is 0.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        let search = Self::read(&mut words)?;
        words.finish("the end of the search's words")?;
        Ok(search)
    }

    /// Reads a search's words, which others may follow.
    ///
    /// # Errors
    /// When they are no search's, or a number is 0.
    pub fn read(words: &mut Words<'_>) -> Result<Self, WordError> {
        let kind = words.needed(SEARCH_WORDS)?;
        Ok(match kind.text {
            "step" => Self::Step(bytes(words)?),
            "table" => Self::Table,
            "binary" => Self::Binary,
            "linear" => Self::Linear(bytes(words)?),
            "bisect" => {
                let (mut floor, mut within) = (0, BISECT_WITHIN);
                while let Some(word) = words.take() {
                    match word.text {
                        "floor" => floor = bytes(words)?,
                        "within" => within = bytes(words)?,
                        _ => return Err(word.refused("floor BYTES or within BYTES")),
                    }
                }
                Self::Bisect { floor, within }
            }
            "sctp" => Self::Sctp,
            "adaptive" => Self::Adaptive,
            word => match STACKS.iter().find(|(name, _)| *name == word) {
                Some((_, stack)) => Self::Of(*stack),
                None => return Err(kind.refused(SEARCH_WORDS)),
            },
        })
    }

    /// What such a search does about packet-too-big reports where `set` is asked for: QUIC's stacks
    /// ignore them (RFC 9000 section 14.2.1 lets them).
    pub fn reports(self, set: Reports) -> Reports {
        match self {
            Self::Of(_) => Reports::Ignored,
            _ => set,
        }
    }

    /// The next size to try, larger than what arrived and smaller than what failed; `None`
    /// where the search is over.
    pub fn next(self, known: &Known) -> Option<u16> {
        let next = match self {
            Self::Step(step) => known.failed.is_none().then(|| upwards(known, step))?,
            Self::Table if known.failed.is_some() => None,
            Self::Table => TABLE.into_iter().find(|size| known.is_open(*size)),
            Self::Binary => bisect::from_the_largest(known),
            Self::Linear(step) => {
                let next = upwards(known, step);
                known.failed.is_none().then(|| next.or(Some(known.max)))?
            }
            Self::Bisect { floor, within } => bisect::upwards(known, floor, within),
            Self::Sctp => sctp(known),
            Self::Adaptive => adaptive::next(known),
            Self::Of(stack) => stack.next(known),
        };
        next.and_then(|size| known.open(size))
    }
}

/// A number of bytes that is not 0.
fn bytes(words: &mut Words<'_>) -> Result<u16, WordError> {
    words.checked_value("1 to 65535 bytes", |bytes: &u16| *bytes > 0)
}

/// The base first, then `step` above what arrived.
fn upwards(known: &Known, step: u16) -> Option<u16> {
    match known.arrived {
        None => Some(known.base),
        Some(arrived) => known.open(arrived.saturating_add(step)),
    }
}

/// Large steps until one fails, then small ones.
fn sctp(known: &Known) -> Option<u16> {
    let step = match known.failed {
        None => SCTP_BIG_STEP,
        Some(_) => SCTP_MIN_STEP,
    };
    upwards(known, step)
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Step(step) => write!(f, "step {step}"),
            Self::Table => f.write_str("table"),
            Self::Binary => f.write_str("binary"),
            Self::Linear(step) => write!(f, "linear {step}"),
            Self::Bisect { floor, within } => {
                f.write_str("bisect")?;
                if *floor > 0 {
                    write!(f, " floor {floor}")?;
                }
                if *within != BISECT_WITHIN {
                    write!(f, " within {within}")?;
                }
                Ok(())
            }
            Self::Sctp => f.write_str("sctp"),
            Self::Adaptive => f.write_str("adaptive"),
            Self::Of(stack) => f.write_str(word_for(&STACKS, stack)),
        }
    }
}

#[cfg(test)]
mod tests;
