//! Time, rate and size as integers, the spellings that `tc` gives them, and
//! randomness seeded by name.
//!
//! Everything above this floor takes the time as an argument and counts in
//! these types, so that a run is the same on every machine.

#![forbid(unsafe_code)]

mod bytes;
mod rate;
mod rng;
mod time;
mod words;

pub use bytes::Bytes;
pub use rate::Rate;
pub use rng::{Draw, Rng, seed_of, stable_hash};
pub use time::{Duration, Instant};
pub use words::{Value, Word, WordError, Words};

/// For [`written_as_words`], so that its users need no serde of their own.
#[doc(hidden)]
pub use serde;
