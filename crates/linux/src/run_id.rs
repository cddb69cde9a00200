//! The name of a run on this machine.

use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::str::FromStr;

/// The environment variable that every program of a run inherits: its id.
/// What is left of a run that was killed is known by it.
pub const RUN_VARIABLE: &str = "NARROWS_RUN";

/// What an id starts with.
const PREFIX: &str = "nw";
/// Characters after it: 32⁵ ids, so that two runs of a day do not meet.
const LENGTH: usize = 5;
/// Lower-case letters and digits that are not mistaken for each other
/// (RFC 4648's alphabet of base 32).
const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

/// The name of a run on this machine: every device, rule and process of the
/// run bears it. Short, so that the names of devices (at most 15 characters)
/// can start with it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(String);

impl RunId {
    /// A new one. It names things on this machine and decides nothing in the
    /// run, so it does not come from the run's seed: two runs of one seed must
    /// differ in it.
    pub fn random() -> Self {
        // Keyed by the operating system's random numbers.
        let mut word = RandomState::new().build_hasher().finish();
        let mut id = PREFIX.to_owned();
        for _ in 0..LENGTH {
            id.push(char::from(ALPHABET[(word % 32) as usize]));
            word /= 32;
        }
        Self(id)
    }

    /// The name of a device of this run: `<id>-<suffix>`. With a suffix of at
    /// most seven characters it fits Linux's 15.
    pub fn device(&self, suffix: impl fmt::Display) -> String {
        format!("{self}-{suffix}")
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A word that is no run's id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no run's id: `nw` and five of a-z and 2-7")]
pub struct NoRunId(String);

impl FromStr for RunId {
    type Err = NoRunId;

    fn from_str(text: &str) -> Result<Self, NoRunId> {
        let tail = text.strip_prefix(PREFIX);
        match tail {
            Some(tail) if tail.len() == LENGTH && tail.bytes().all(|b| ALPHABET.contains(&b)) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err(NoRunId(text.to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_are_read_back() {
        let (a, b) = (RunId::random(), RunId::random());
        assert_ne!(a, b);
        assert_eq!(a.to_string().parse(), Ok(a.clone()));
        assert!(a.device("123456b").len() <= 15);
        for wrong in [
            "", "nw", "nwabcd", "nwabcdef", "nwabcd1", "xxabcde", "nwABCDE",
        ] {
            assert!(wrong.parse::<RunId>().is_err(), "{wrong}");
        }
    }
}
