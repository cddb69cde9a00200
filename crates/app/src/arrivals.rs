//! When something begins again, whether what came before is over or not.

use std::fmt;

use narrows_units::{Duration, Instant, Rng, Word, WordError, Words};

use crate::draw::exponential;

/// Beginnings in a row of an application that is late, before others have their turn (our
/// choice).
pub(crate) const BURST: u32 = 64;

/// The shortest time between beginnings (our choice): a hundred thousand a second are more than
/// a run has the memory for, if they do not end.
pub(crate) const SHORTEST: Duration = Duration::from_micros(10);

pub(crate) const ALLOWED: &str = "10us or more";

/// A time after which something begins again.
///
/// # Errors
/// If it is none, or shorter than [`SHORTEST`].
pub(crate) fn interval(words: &mut Words<'_>) -> Result<Duration, WordError> {
    words.checked_value(ALLOWED, |time| *time >= SHORTEST)
}

/// The times between beginnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// Constant.
    Every(Duration),
    /// Random: a Poisson process with this mean interval.
    Poisson(Duration),
}

impl Arrivals {
    /// Those that begin with `word`, which was taken from `words`; `None` if none do.
    ///
    /// # Errors
    /// If what follows is no time, or one that is too short.
    pub(crate) fn begun(word: Word<'_>, words: &mut Words<'_>) -> Result<Option<Self>, WordError> {
        let of = match word.text {
            "every" => Self::Every,
            "poisson" => Self::Poisson,
            _ => return Ok(None),
        };
        Ok(Some(of(interval(words)?)))
    }

    fn after(self, rng: &mut Rng) -> Duration {
        match self {
            Self::Every(time) => time,
            Self::Poisson(mean) => exponential(rng, mean),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every(time) => write!(f, "every {time}"),
            Self::Poisson(time) => write!(f, "poisson {time}"),
        }
    }
}

/// When the next one is due, from a beginning to an end.
#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    arrivals: Arrivals,
    rng: Rng,
    due: Option<Instant>,
    stop: Instant,
}

impl Timetable {
    /// The first at `start`, none at `stop` or later.
    pub(crate) fn new(arrivals: Arrivals, rng: Rng, start: Instant, stop: Instant) -> Self {
        Self {
            arrivals,
            rng,
            due: Some(start).filter(|at| *at < stop),
            stop,
        }
    }

    /// When it is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.due
    }

    /// Takes one that is due at `now`: when it was.
    pub(crate) fn take(&mut self, now: Instant) -> Option<Instant> {
        let due = self.due.filter(|at| *at <= now)?;
        let next = due + self.arrivals.after(&mut self.rng);
        self.due = Some(next).filter(|at| *at < self.stop);
        Some(due)
    }
}
