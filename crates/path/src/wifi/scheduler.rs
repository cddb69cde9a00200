//! Whose turn it is at an access point.
//!
//! `airtime` is deficit round robin over the time that frames are on the air, as Linux's ath9k has it
//! since 4.11 (`ath_txq_schedule` of drivers/net/wireless/ath/ath9k/xmit.c, commit 63fefa050477) and
//! mac80211 since 5.1 (`ieee80211_next_txq` of net/mac80211/tx.c): algorithm 3 of Høiland-Jørgensen and
//! others, "Ending the Anomaly" (USENIX ATC 2017), which takes the two lists from FQ-CoDel (RFC 8290).
//! Differences: ath9k and mac80211 charge when the hardware reports a transmission, with several under
//! way; here one is, and it is charged as it begins. What comes from stations is not charged. mac80211 has
//! one list, and a quantum that is a station's weight, 256 µs by default.

use std::collections::VecDeque;
use std::fmt;

use narrows_units::{Duration, Value};

/// Who sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AirtimeRule {
    /// Packets leave in the order of arrival: one queue for all stations.
    Fifo,
    /// Stations take turns by airtime, each with a queue of its own.
    Airtime,
}

impl Value for AirtimeRule {
    const ALLOWED: &'static str = "fifo or airtime";

    fn parse(word: &str) -> Option<Self> {
        match word {
            "fifo" => Some(Self::Fifo),
            "airtime" => Some(Self::Airtime),
            _ => None,
        }
    }
}

impl fmt::Display for AirtimeRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fifo => "fifo",
            Self::Airtime => "airtime",
        })
    }
}

/// Airtime that a station gets in a turn (`ATH_AIRTIME_QUANTUM` of ath9k: 300 µs).
pub(super) const DEFAULT_QUANTUM: Duration = Duration::from_micros(300);

/// A station in the rounds.
#[derive(Clone, Copy)]
struct Turn {
    /// Airtime that it may still take, in ns; below zero what it owes.
    deficit: i64,
    /// Whether it is in one of the lists.
    listed: bool,
}

/// Deficit round robin over airtime.
pub(super) struct Rounds {
    quantum: i64,
    turns: Vec<Turn>,
    /// Stations for which something came while they had nothing, which go first.
    new: VecDeque<usize>,
    /// The others for which something waits, and some of which it did.
    old: VecDeque<usize>,
}

/// A time as what is added to a deficit; the longest PPDU is far from the end of the range.
fn signed(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

impl Rounds {
    pub(super) fn new(quantum: Duration, stations: usize) -> Self {
        let quantum = signed(quantum);
        let turn = Turn {
            deficit: quantum,
            listed: false,
        };
        Self {
            quantum,
            turns: vec![turn; stations],
            new: VecDeque::new(),
            old: VecDeque::new(),
        }
    }

    /// Something waits for `station`.
    pub(super) fn list(&mut self, station: usize) {
        let turn = &mut self.turns[station];
        if !std::mem::replace(&mut turn.listed, true) {
            self.new.push_back(station);
        }
    }

    /// The station whose turn it is, of those that are `ready` to send.
    ///
    /// A station that owes airtime is given quanta of it also when it has become empty, and leaves
    /// the lists only then: it cannot get rid of what it owes by a pause. What it is given it
    /// keeps, but more than one quantum it never has.
    pub(super) fn next(&mut self, mut ready: impl FnMut(usize) -> bool) -> Option<usize> {
        loop {
            let is_new = !self.new.is_empty();
            let list = if is_new { &mut self.new } else { &mut self.old };
            let station = *list.front()?;
            let turn = &mut self.turns[station];
            if turn.deficit <= 0 {
                turn.deficit += self.quantum;
                list.pop_front();
                self.old.push_back(station);
            } else if ready(station) {
                return Some(station);
            } else {
                list.pop_front();
                // Through the old ones once more, so that by short pauses it does not go first
                // every time (RFC 8290, section 4.2).
                if is_new && !self.old.is_empty() {
                    self.old.push_back(station);
                } else {
                    turn.listed = false;
                }
            }
        }
    }

    /// `station` sends for so long.
    pub(super) fn charge(&mut self, station: usize, airtime: Duration) {
        self.turns[station].deficit -= signed(airtime);
    }

    /// Nothing waits for any station, so that no time was taken from another: debts are forgotten.
    pub(super) fn settle(&mut self) {
        self.next(|_| false);
    }
}
