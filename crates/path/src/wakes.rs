//! Who wants to be called, and when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use narrows_units::Instant;

/// An entity's number.
pub type Slot = u32;

/// The key of a slot that waits for nothing.
const ABSENT: u128 = u128::MAX;

/// Bits of a key below its time: first the order of asking, then the slot.
const SLOT_BITS: u32 = 24;

/// One pending wake at most for each slot, served by time and, at equal
/// times, in the order of asking. Asking again for the same time keeps the
/// place; asking for another time takes a new one.
#[derive(Clone, Debug, Default)]
pub struct Wakes {
    /// The key of each slot.
    due: Vec<u128>,
    /// The keys in `due`, and such as were replaced: these go when they come first.
    queue: BinaryHeap<Reverse<u128>>,
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

fn slot_of(key: u128) -> Slot {
    key as u32 & ((1 << SLOT_BITS) - 1)
}

impl Wakes {
    /// Room for `slots` slots, none of them waiting.
    pub fn new(slots: usize) -> Self {
        Self {
            due: vec![ABSENT; slots],
            ..Self::default()
        }
    }

    /// Sees to it that there is room for `slots` slots.
    pub fn reserve(&mut self, slots: Slot) {
        let slots = self.due.len().max(slots as usize);
        self.due.resize(slots, ABSENT);
    }

    /// The next to be served; it stays until [`serve`](Self::serve).
    #[inline]
    pub fn peek(&mut self) -> Option<(Instant, Slot)> {
        loop {
            let Reverse(first) = *self.queue.peek()?;
            if self.waits(first) {
                return Some((time_of(first), slot_of(first)));
            }
            self.queue.pop();
        }
    }

    /// Sets when `slot` wants to be called, or that it does not.
    #[inline]
    pub fn set(&mut self, slot: Slot, at: Option<Instant>) {
        let old = self.due[slot as usize];
        match at {
            Some(at) if old != ABSENT && time_of(old) == at => {}
            at => self.replace(slot, at),
        }
    }

    /// Sees to it that `slot` is called no later than at `at`. A call that is
    /// due earlier stays: deadlines that move away with every packet cost
    /// nothing until then, and whoever is called too early says so by asking
    /// again.
    #[inline]
    pub fn at_latest(&mut self, slot: Slot, at: Option<Instant>) {
        let old = self.due[slot as usize];
        if let Some(at) = at {
            if old == ABSENT || at < time_of(old) {
                self.replace(slot, Some(at));
            }
        }
    }

    /// Sets it after `slot` was served: even if it asks for the time just
    /// served it queues up behind others of that time.
    #[inline]
    pub fn serve(&mut self, slot: Slot, at: Option<Instant>) {
        self.replace(slot, at);
    }

    /// Sets when `slot` wants to be called, before all others of that time: for one slot.
    pub fn set_first(&mut self, slot: Slot, at: Option<Instant>) {
        match at {
            // Others begin with 1.
            Some(at) => self.put(slot, key(at, 0, slot)),
            None => self.replace(slot, None),
        }
    }

    #[inline]
    fn replace(&mut self, slot: Slot, at: Option<Instant>) {
        let Some(at) = at else {
            self.due[slot as usize] = ABSENT;
            return;
        };
        self.sequence += 1;
        self.put(slot, key(at, self.sequence, slot));
    }

    #[inline]
    fn put(&mut self, slot: Slot, new: u128) {
        self.due[slot as usize] = new;
        // Mostly the first was just served: the new key takes its place.
        match self.queue.peek() {
            Some(Reverse(first)) if !self.waits(*first) => {
                if let Some(mut first) = self.queue.peek_mut() {
                    *first = Reverse(new);
                }
            }
            _ => self.push(new),
        }
    }

    /// Whether a key in the queue has not been replaced.
    #[inline]
    fn waits(&self, key: u128) -> bool {
        self.due[slot_of(key) as usize] == key
    }

    #[inline]
    fn push(&mut self, key: u128) {
        if self.queue.len() > 2 * self.due.len() {
            let mut queue = std::mem::take(&mut self.queue);
            queue.retain(|Reverse(key)| self.waits(*key));
            self.queue = queue;
        }
        self.queue.push(Reverse(key));
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
    fn the_first_of_a_time_is_so_whenever_it_was_asked_for() {
        let mut wakes = Wakes::new(3);
        wakes.set(0, at(5));
        wakes.set(1, at(4));
        wakes.set_first(2, at(6));
        wakes.set_first(2, at(5));
        assert_eq!(wakes.peek(), Some((Instant::from_nanos(4), 1)));
        wakes.serve(1, None);
        // Once more at the time just served.
        assert_eq!(wakes.peek(), Some((Instant::from_nanos(5), 2)));
        wakes.set_first(2, at(5));
        assert_eq!(order(&mut wakes), [2, 0]);
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

    #[test]
    fn a_deadline_that_stays_keeps_its_place() {
        let mut wakes = Wakes::new(2);
        wakes.at_latest(0, at(5));
        wakes.at_latest(1, at(5));
        wakes.at_latest(0, at(5));
        assert_eq!(order(&mut wakes), [0, 1]);
    }

    #[test]
    fn a_slot_that_is_served_again_and_again_takes_no_more_room() {
        let mut wakes = Wakes::new(1);
        for i in 0..100 {
            wakes.serve(0, at(i));
            assert_eq!(wakes.queue.len(), 1);
        }
    }

    #[test]
    fn replaced_keys_are_cleared_out_when_there_are_two_for_each_slot() {
        const SLOTS: usize = 3;
        let mut wakes = Wakes::new(SLOTS);
        wakes.set(0, at(1));
        let lengths = (0..100).map(|i| {
            wakes.set(1, at(100 - i));
            wakes.queue.len()
        });
        assert_eq!(lengths.max(), Some(2 * SLOTS + 1));
        wakes.set(1, at(9));
        assert_eq!(order(&mut wakes), [0, 1]);
    }

    #[test]
    fn room_that_is_made_later_keeps_what_waits() {
        let mut wakes = Wakes::default();
        assert_eq!(wakes.peek(), None);
        for slot in 0..40 {
            wakes.reserve(slot + 1);
            wakes.set(slot, at(100 - u64::from(slot)));
        }
        assert_eq!(order(&mut wakes), (0..40).rev().collect::<Vec<_>>());
    }

    const SLOTS: usize = 20;

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
