//! How a radio comes to its turn on the medium.

use narrows_units::{Duration, Rng};

use super::phy::{AIFS, CW_MAX, CW_MIN, SLOT};

/// A radio that contends with others.
pub(super) struct Medium {
    /// Draws backoffs and whatever else is random of the radio.
    pub(super) rng: Rng,
    /// The contention window in slots.
    window: u32,
    /// Others that always have something to send.
    stations: u32,
    /// How long each of those holds the medium.
    theirs: Duration,
}

impl Medium {
    pub(super) fn new(rng: Rng, stations: u32, theirs: Duration) -> Self {
        Self {
            rng,
            window: CW_MIN,
            stations,
            theirs,
        }
    }

    /// How long it takes until the radio may send.
    pub(super) fn access(&mut self, was_idle: bool) -> Duration {
        let backoff = SLOT * u64::from(self.rng.below(self.window + 1));
        let mut wait = AIFS + backoff;
        if self.stations == 0 {
            return wait;
        }
        if was_idle {
            // What came while another station was sending.
            wait += self.rng.within(self.theirs);
        }
        // All have something to send, and each wins as often.
        let others = AIFS + SLOT * u64::from(CW_MIN) / 2 + self.theirs;
        while self.rng.below(self.stations + 1) > 0 {
            wait += others;
        }
        wait
    }

    /// What was sent came to its end: whether any of it arrived.
    pub(super) fn ended(&mut self, arrived: bool) {
        self.window = match arrived {
            true => CW_MIN,
            false => (2 * self.window + 1).min(CW_MAX),
        };
    }
}
