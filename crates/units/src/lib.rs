//! Time, rate and size as integers, the spellings that `tc` gives them, and
//! randomness seeded by name.
//!
//! Everything above this floor takes the time as an argument and counts in
//! these types, so that a run is the same on every machine.
//!
//! ```
//! use narrows_units::{Duration, Rate, Value};
//!
//! let rate = Rate::parse("50Mbit").unwrap();
//! assert_eq!(rate.time_for(1514), Duration::from_nanos(242_240));
//! // As in tc, `bps` is bytes per second.
//! assert_eq!(Rate::parse("1MBps"), Rate::parse("8Mbit"));
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod histogram;
mod parameter;
mod rate;
mod rng;
mod time;
mod words;

pub use bytes::Bytes;
pub use histogram::Histogram;
pub use parameter::{Declared, Parameter, ParameterKind};
pub use rate::Rate;
pub use rng::{Draw, Rng, seed_of, stable_hash};
pub use time::{Duration, Instant};
pub use words::{Value, Word, WordError, WordWriter, Words, alternatives, word_for};

/// For [`written_as_words`], so that its users need no serde of their own.
#[doc(hidden)]
pub use serde;
