//! Who wants to be called, and when: a tournament in which every entity has a
//! fixed seat.

use narrows_units::Instant;

/// An entity's seat.
pub type Slot = u32;

/// Players of one round: one cache line of keys. A tournament beats a heap
/// here because most changes are to players that were not about to win, and
/// those end after one comparison.
const ROUND: usize = 4;

/// The key of a slot that waits for nothing.
const ABSENT: u128 = u128::MAX;

/// Bits of a key below its time: first the order of asking, then the slot.
const SLOT_BITS: u32 = 24;

/// One pending wake at most for each slot, served by time and, at equal
/// times, in the order of asking. Asking again for the same time keeps the
/// place; asking for another time takes a new one.
#[derive(Clone, Debug, Default)]
pub struct Wakes {
    /// `rounds[0]` holds a key for each slot; each further round the smallest
    /// key of every [`ROUND`] of the one before; the last has one key.
    rounds: Vec<Vec<u128>>,
    sequence: u64,
}

/// The key of a wake: smaller is earlier, and no two are alike.
fn key(at: Instant, sequence: u64, slot: Slot) -> u128 {
    // 2⁴⁰ requests are more than a month-long run makes.
    u128::from(at.as_nanos()) << 64 | u128::from(sequence << SLOT_BITS | u64::from(slot))
}

fn time_of(key: u128) -> Instant {
    Instant::from_nanos((key >> 64) as u64)
}

impl Wakes {
    /// Room for `slots` slots, none of them waiting.
    pub fn new(slots: usize) -> Self {
        let mut rounds = Vec::new();
        let mut players = slots.max(1);
        while players > 1 || rounds.is_empty() {
            rounds.push(vec![ABSENT; players.next_multiple_of(ROUND)]);
            players = players.div_ceil(ROUND);
        }
        rounds.push(vec![ABSENT]);
        Self {
            rounds,
            sequence: 0,
        }
    }

    /// Sees to it that there is room for `slots` slots; more than there are double the
    /// room, so that one at a time is cheap.
    pub fn reserve(&mut self, slots: Slot) {
        let have = self.rounds.first().map_or(0, Vec::len);
        if slots as usize <= have {
            return;
        }
        let mut grown = Self::new((slots as usize).max(2 * have));
        grown.sequence = self.sequence;
        if let Some(keys) = self.rounds.first() {
            grown.rounds[0][..keys.len()].copy_from_slice(keys);
        }
        for i in 1..grown.rounds.len() {
            let (below, above) = grown.rounds.split_at_mut(i);
            for (winner, players) in above[0].iter_mut().zip(below[i - 1].chunks(ROUND)) {
                *winner = players.iter().copied().min().unwrap_or(ABSENT);
            }
        }
        *self = grown;
    }

    /// The next to be served; it stays until [`serve`](Self::serve).
    #[inline]
    pub fn peek(&self) -> Option<(Instant, Slot)> {
        let first = *self.rounds.last()?.first()?;
        let slot = first as u32 & ((1 << SLOT_BITS) - 1);
        (first != ABSENT).then(|| (time_of(first), slot))
    }

    /// Sets when `slot` wants to be called, or that it does not.
    #[inline]
    pub fn set(&mut self, slot: Slot, at: Option<Instant>) {
        let old = self.rounds[0][slot as usize];
        match at {
            Some(at) if old != ABSENT && time_of(old) == at => {}
            None if old == ABSENT => {}
            at => self.replace(slot, old, at),
        }
    }

    /// Sees to it that `slot` is called no later than at `at`. A call that is
    /// due earlier stays: deadlines that move away with every packet cost
    /// nothing until then, and whoever is called too early says so by asking
    /// again.
    #[inline]
    pub fn at_latest(&mut self, slot: Slot, at: Option<Instant>) {
        let old = self.rounds[0][slot as usize];
        if let Some(at) = at {
            if old == ABSENT || at < time_of(old) {
                self.replace(slot, old, Some(at));
            }
        }
    }

    /// Sets it after `slot` was served: even if it asks for the time just
    /// served it queues up behind others of that time.
    #[inline]
    pub fn serve(&mut self, slot: Slot, at: Option<Instant>) {
        let old = self.rounds[0][slot as usize];
        if old != ABSENT || at.is_some() {
            self.replace(slot, old, at);
        }
    }

    #[inline]
    fn replace(&mut self, slot: Slot, mut old: u128, at: Option<Instant>) {
        let mut new = match at {
            Some(at) => {
                self.sequence += 1;
                key(at, self.sequence, slot)
            }
            None => ABSENT,
        };
        let mut place = slot as usize;
        self.rounds[0][place] = new;
        for i in 1..self.rounds.len() {
            let (below, above) = self.rounds.split_at_mut(i);
            place /= ROUND;
            let winner = &mut above[0][place];
            if new < *winner {
                // Beats whoever had won, itself included.
                old = std::mem::replace(winner, new);
            } else if *winner == old {
                // Had won; who does now must be found out.
                new = match below[i - 1][place * ROUND..].first_chunk::<ROUND>() {
                    Some([a, b, c, d]) => (*a.min(b)).min(*c.min(d)),
                    None => ABSENT,
                };
                *winner = new;
            } else {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(ns: u64) -> Option<Instant> {
        Some(Instant::from_nanos(ns))
    }

    fn order(wakes: &mut Wakes) -> Vec<Slot> {
        let mut served = Vec::new();
        while let Some((_, slot)) = wakes.peek() {
            served.push(slot);
            wakes.serve(slot, None);
        }
        served
    }

    #[test]
    fn equal_times_are_served_in_the_order_of_asking() {
        let mut wakes = Wakes::new(4);
        for slot in [2, 0, 3, 1] {
            wakes.set(slot, at(5));
        }
        assert_eq!(order(&mut wakes), [2, 0, 3, 1]);
    }

    #[test]
    fn asking_again_for_the_same_time_keeps_the_place() {
        let mut wakes = Wakes::new(3);
        wakes.set(0, at(5));
        wakes.set(1, at(5));
        wakes.set(0, at(5));
        wakes.set(2, at(4));
        wakes.set(2, at(5));
        assert_eq!(order(&mut wakes), [0, 1, 2]);
    }

    #[test]
    fn one_that_was_served_queues_up_behind_others_of_its_time() {
        let mut wakes = Wakes::new(2);
        wakes.set(0, at(5));
        wakes.set(1, at(5));
        wakes.serve(0, at(5));
        assert_eq!(order(&mut wakes), [1, 0]);
    }

    #[test]
    fn a_deadline_that_moves_away_leaves_the_earlier_call() {
        let mut wakes = Wakes::new(1);
        wakes.at_latest(0, at(5));
        wakes.at_latest(0, at(9));
        wakes.at_latest(0, None);
        assert_eq!(wakes.peek(), Some((Instant::from_nanos(5), 0)));
        wakes.at_latest(0, at(3));
        assert_eq!(wakes.peek(), Some((Instant::from_nanos(3), 0)));
    }

    /// Enough for four rounds.
    const SLOTS: usize = 70;

    proptest! {
        #[test]
        fn any_history_is_served_as_a_sorted_list_would(
            steps in proptest::collection::vec((0..SLOTS as u32, proptest::option::of(0u64..40), any::<bool>()), 0..400),
        ) {
            let mut wakes = Wakes::new(SLOTS);
            // Naive oracle: (time, order of asking) for each slot.
            let mut oracle: Vec<Option<(u64, u64)>> = vec![None; SLOTS];
            let mut sequence = 0;
            for (slot, time, served) in steps {
                let entry = &mut oracle[slot as usize];
                let keeps = !served && entry.map(|e| e.0) == time && time.is_some();
                if !keeps {
                    sequence += 1;
                    *entry = time.map(|t| (t, sequence));
                }
                let asked = time.map(Instant::from_nanos);
                if served {
                    wakes.serve(slot, asked);
                } else {
                    wakes.set(slot, asked);
                }
                let first = oracle
                    .iter()
                    .enumerate()
                    .filter_map(|(i, e)| e.map(|e| (e, i as u32)))
                    .min()
                    .map(|((t, _), i)| (Instant::from_nanos(t), i));
                prop_assert_eq!(wakes.peek(), first);
            }
        }
    }
}
