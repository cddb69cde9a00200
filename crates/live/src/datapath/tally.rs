//! What the elements of a path have counted, asked for while it is driven.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use narrows_core::{ElementCounters, EntityId};

/// The counters of each element, by which it reports.
type Counted = Vec<(EntityId, ElementCounters)>;

/// Where another thread asks a path what its elements have counted.
#[derive(Debug, Default)]
pub struct Tally {
    asked: AtomicBool,
    /// What was counted when it was asked for last; none while that is not known.
    counted: Mutex<Option<Counted>>,
    answered: Condvar,
}

impl Tally {
    /// What each element has counted by now; `None` if no path answers within `patience`. A path
    /// looks every 20 ms whether it is asked.
    pub fn ask(&self, patience: Duration) -> Option<Counted> {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        *counted = None;
        self.asked.store(true, Ordering::Release);
        let waited = self
            .answered
            .wait_timeout_while(counted, patience, |counted| counted.is_none());
        let (counted, _) = waited.unwrap_or_else(PoisonError::into_inner);
        // Others that ask at the same time get it, too.
        counted.clone()
    }

    /// Answers with what `count` says, if that was asked for.
    pub(super) fn answer(&self, count: impl FnOnce() -> Counted) {
        if !self.asked.swap(false, Ordering::AcqRel) {
            return;
        }
        let counted = count();
        *self.counted.lock().unwrap_or_else(PoisonError::into_inner) = Some(counted);
        self.answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_answers_who_asks_and_nobody_else() {
        let tally = Tally::default();
        assert_eq!(tally.ask(Duration::ZERO), None);
        let one = (EntityId(1), ElementCounters::default());
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| tally.ask(Duration::from_secs(60)));
            while !asking.is_finished() {
                tally.answer(|| vec![one]);
                std::thread::yield_now();
            }
            assert_eq!(asking.join().ok().flatten(), Some(vec![one]));
        });
        tally.answer(|| panic!("nobody has asked"));
    }
}
