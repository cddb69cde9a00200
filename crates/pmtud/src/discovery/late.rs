//! What is known better later: sizes in doubt, and answers that come after their probe was given up.

use narrows_units::{Duration, Instant};

use super::{Discovery, State};

impl Discovery {
    /// The smallest size that is known not to arrive by losses, or by a router's word, alone: what
    /// was found hangs on it. `None` where nothing was given up.
    pub(crate) fn in_doubt(&self) -> Option<u16> {
        if self.plpmtu >= self.settings.max {
            return None;
        }
        match self.by_report {
            true => Some(self.plpmtu + 1),
            false => self.known.failed,
        }
    }

    /// A probe of `size` arrived that had been given up, or was reported as too large: the path
    /// carries it, and what was concluded from its loss does not hold. Probes have numbers, so that
    /// its round trip `rtt` is no ambiguous one (Karn's rule, RFC 6298 section 3). Returns whether
    /// that changed anything.
    pub(crate) fn arrived_late(&mut self, now: Instant, size: u16, rtt: Duration) -> bool {
        let changes = self.takes_late(now, size);
        // A pause that ends brings many late answers at once, of which one is enough to know by, and
        // doubles the time that is waited: what follows may be lost for its size.
        let longest = match self.round_trip.is_known() {
            true => self.probe_timeout() * 2,
            false => rtt,
        };
        if changes || !self.round_trip.is_known() {
            self.round_trip.measured(rtt.min(longest));
        }
        changes
    }

    fn takes_late(&mut self, now: Instant, size: u16) -> bool {
        match self.state {
            State::Base | State::Error if size == self.settings.base => {
                self.plpmtu = size;
                self.begin_search(now, Some(size));
                true
            }
            State::Searching | State::SearchComplete
                if size > self.plpmtu && size <= self.settings.max =>
            {
                self.known.failed = self.known.failed.filter(|failed| *failed > size);
                self.state = State::Searching;
                self.confirmation_timer = None;
                self.raise_timer = None;
                self.reported = None;
                self.by_report = false;
                self.size_arrived(now, size);
                true
            }
            _ => false,
        }
    }
}
