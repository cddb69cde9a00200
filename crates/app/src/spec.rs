//! What an application sends, in words.

use std::fmt;

use narrows_units::{Bytes, Duration, Rate, Value, WordError, Words};

/// What a flow's application sends:
///
/// | Words | Application |
/// |---|---|
/// | `bulk` | as much as the connection takes until it is stopped |
/// | `bytes N` | exactly N bytes (`bytes 10Mb` is 10·2²⁰, as tc counts), then the end of the stream |
/// | `writes BYTES every TIME` | BYTES into the connection at the start and after each TIME: what is limited by its application, and what keeps a constant rate |
/// | `cbr rate RATE [size BYTES]` | UDP datagrams of constant size at a constant bit rate |
/// | `poisson rate RATE [size BYTES]` | the same at random times, a Poisson process of that mean rate: background that keeps flows from falling into step |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Traffic {
    /// Without end.
    #[default]
    Bulk,
    /// An exact number of bytes.
    Bytes(u64),
    /// A write of a constant size at constant intervals.
    Writes(WritesSpec),
    /// Datagrams at a constant rate.
    Cbr(DatagramSpec),
    /// Datagrams with exponentially distributed gaps.
    Poisson(DatagramSpec),
}

/// What an application sends over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carries {
    /// Connections, whatever their transport.
    Stream,
    /// Plain datagrams over UDP.
    Datagrams,
}

/// Writes of one size, evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WritesSpec {
    /// Bytes of each write.
    pub bytes: u64,
    /// From one to the next.
    pub every: Duration,
}

/// Datagrams of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramSpec {
    /// Mean rate of payload.
    pub rate: Rate,
    /// Payload of each datagram in bytes.
    pub size: u32,
}

/// Payload that fills a 1500-byte IPv4 packet over UDP, in bytes.
const DEFAULT_SIZE: u32 = 1_472;

/// Payload that fits a datagram over IPv4: 65535 − 20 − 8 bytes.
const MAX_SIZE: u32 = 65_507;

/// The shortest time between datagrams, and between writes (our choice): a run counts in
/// nanoseconds, and 1472 bytes each 100 ns are 118 Gbit/s.
const SHORTEST_GAP: Duration = Duration::from_nanos(100);
const SHORTEST_WRITES: Duration = Duration::from_micros(1);

const KINDS: &str = "bulk, bytes N, writes BYTES every TIME, cbr rate RATE [size BYTES], or \
                     poisson rate RATE [size BYTES]";

impl Traffic {
    /// The words that it begins with.
    pub const WORDS: [&str; 5] = ["bulk", "bytes", "writes", "cbr", "poisson"];

    /// Reads the words of a flow's traffic.
    ///
    /// # Errors
    /// When they are no application's.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        let kind = words.needed(KINDS)?;
        let spec = match kind.text {
            "bulk" => Self::Bulk,
            "bytes" => Self::Bytes(above_zero::<Bytes>(&mut words, |b| b.get())?.get()),
            "writes" => Self::Writes(WritesSpec::parse(&mut words)?),
            "cbr" => Self::Cbr(DatagramSpec::parse(&mut words)?),
            "poisson" => Self::Poisson(DatagramSpec::parse(&mut words)?),
            _ => return Err(kind.refused(KINDS)),
        };
        words.finish("the end of the traffic's words")?;
        Ok(spec)
    }

    /// Whether it goes on until it is stopped.
    pub const fn is_endless(&self) -> bool {
        !matches!(self, Self::Bytes(_))
    }

    /// What it sends over.
    pub const fn carries(&self) -> Carries {
        match self {
            Self::Bulk | Self::Bytes(_) | Self::Writes(_) => Carries::Stream,
            Self::Cbr(_) | Self::Poisson(_) => Carries::Datagrams,
        }
    }
}

impl WritesSpec {
    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let bytes = above_zero::<Bytes>(words, |b| b.get())?.get();
        if !words.take_if("every") {
            return Err(words.needed("every TIME")?.refused("every TIME"));
        }
        let every = words.checked_value("1us or more", |time| *time >= SHORTEST_WRITES)?;
        Ok(Self { bytes, every })
    }
}

impl DatagramSpec {
    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let (mut rate, mut size) = (None, DEFAULT_SIZE);
        let mut rate_at = 0..0;
        while let Some(word) = words.take() {
            match word.text {
                "rate" => {
                    rate_at = words.peek().map_or(0..0, |word| word.span());
                    rate = Some(above_zero(words, Rate::as_bits)?);
                }
                "size" => {
                    let allowed = format!("1 to {MAX_SIZE} bytes of payload");
                    size = words.checked_value(allowed, |n| (1..=MAX_SIZE).contains(n))?;
                }
                _ => return Err(word.refused("rate RATE or size BYTES")),
            }
        }
        let rate = rate.ok_or_else(|| words.ended("rate RATE"))?;
        let most = u64::from(size) * 8 * 1_000_000_000 / SHORTEST_GAP.as_nanos();
        if rate.as_bits() > most {
            let most = Rate::from_bits(most);
            let allowed = format!("at most {most}, a datagram of {size} bytes each {SHORTEST_GAP}");
            return Err(WordError::new(rate_at, format!("`{rate}`"), allowed));
        }
        Ok(Self { rate, size })
    }
}

/// A value that is not nought.
pub(crate) fn above_zero<T: Value + Copy>(
    words: &mut Words<'_>,
    number: impl Fn(T) -> u64,
) -> Result<T, WordError> {
    words.checked_value("more than zero", |value| number(*value) > 0)
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bulk => f.write_str("bulk"),
            Self::Bytes(n) => write!(f, "bytes {}", Bytes::new(*n)),
            Self::Writes(WritesSpec { bytes, every }) => {
                write!(f, "writes {} every {every}", Bytes::new(*bytes))
            }
            Self::Cbr(datagrams) => write!(f, "cbr {datagrams}"),
            Self::Poisson(datagrams) => write!(f, "poisson {datagrams}"),
        }
    }
}

impl fmt::Display for DatagramSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rate {}", self.rate)?;
        match self.size {
            DEFAULT_SIZE => Ok(()),
            size => write!(f, " size {size}"),
        }
    }
}

narrows_units::written_as_words!(Traffic);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_print_back() {
        for words in [
            "bulk",
            "bytes 1000b",
            "bytes 10Mb",
            "writes 1448b every 200us",
            "writes 64Kb every 250ms",
            "cbr rate 5Mbit",
            "cbr rate 64Kbit size 160",
            "poisson rate 10Mbit",
            "poisson rate 1Mbit size 512",
        ] {
            let spec = Traffic::parse(words).unwrap();
            assert_eq!(spec.to_string(), words);
        }
        assert_eq!(Traffic::parse("bytes 1500"), Ok(Traffic::Bytes(1500)));
    }

    #[test]
    fn wrong_words_are_refused_at_their_place() {
        for (words, at) in [
            ("", ""),
            ("bytes", ""),
            ("bytes 0", "0"),
            ("bytes -1", "-1"),
            ("bulk now", "now"),
            ("writes", ""),
            ("writes 0 every 1ms", "0"),
            ("writes 1000", ""),
            ("writes 1000 at 1ms", "at"),
            ("writes 1000 every 0s", "0s"),
            ("cbr", ""),
            ("cbr rate 0bit", "0bit"),
            ("poisson", ""),
            ("poisson every 1ms", "every"),
            ("cbr rate 1Mbit size 70000", "70000"),
            ("torrent", "torrent"),
            ("writes 1000 every 1ns", "1ns"),
            ("cbr rate 1Tbit", "1Tbit"),
            ("poisson rate 1Gbit size 1", "1Gbit"),
        ] {
            let error = Traffic::parse(words).unwrap_err();
            assert_eq!(&words[error.span.clone()], at, "{words}: {error}");
        }
    }
}
