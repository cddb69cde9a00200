//! Who wants to be called, and when: an indexed heap with one slot for each
//! entity.

use narrows_units::Instant;

/// An entity's slot.
pub type Slot = u32;

/// Children of a node: shallower than a binary heap, and siblings share a
/// cache line.
const ARITY: usize = 4;

/// Slot that is not in the heap.
const ABSENT: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    /// Order of asking, which breaks ties.
    sequence: u64,
    slot: Slot,
}

impl Entry {
    fn before(&self, other: &Self) -> bool {
        (self.at, self.sequence) < (other.at, other.sequence)
    }
}

/// One pending wake at most for each slot, served by time and, at equal
/// times, in the order of asking. Asking again for the same time keeps the
/// place; asking for another time takes a new one.
#[derive(Clone, Debug, Default)]
pub struct Wakes {
    heap: Vec<Entry>,
    /// Where each slot stands in `heap`.
    place: Vec<u32>,
    sequence: u64,
}

impl Wakes {
    /// Room for `slots` slots, none of them waiting.
    pub fn new(slots: usize) -> Self {
        Self {
            heap: Vec::with_capacity(slots),
            place: vec![ABSENT; slots],
            sequence: 0,
        }
    }

    /// The next to be served; it stays until [`serve`](Self::serve).
    pub fn peek(&self) -> Option<(Instant, Slot)> {
        self.heap
            .first()
            .map(|e| (Instant::from_nanos(e.at), e.slot))
    }

    /// Sets when `slot` wants to be called, or that it does not.
    #[inline]
    pub fn set(&mut self, slot: Slot, at: Option<Instant>) {
        let place = self.place[slot as usize];
        match at {
            Some(at) => {
                let at = at.as_nanos();
                if place == ABSENT {
                    self.insert(slot, at);
                } else if self.heap[place as usize].at != at {
                    self.move_to(place as usize, at);
                }
            }
            None if place != ABSENT => self.remove(place as usize),
            None => {}
        }
    }

    /// Sees to it that `slot` is called no later than at `at`. A call that is
    /// due earlier stays: deadlines that move away with every packet cost
    /// nothing until then, and whoever is called too early says so by asking
    /// again.
    #[inline]
    pub fn at_latest(&mut self, slot: Slot, at: Option<Instant>) {
        let place = self.place[slot as usize];
        match at {
            Some(at) if place == ABSENT => self.insert(slot, at.as_nanos()),
            Some(at) if at.as_nanos() < self.heap[place as usize].at => {
                self.move_to(place as usize, at.as_nanos());
            }
            _ => {}
        }
    }

    /// Sets it after `slot` was served: even if it asks for the time just
    /// served it queues up behind others of that time.
    #[inline]
    pub fn serve(&mut self, slot: Slot, at: Option<Instant>) {
        let place = self.place[slot as usize];
        match at {
            Some(at) if place != ABSENT => self.move_to(place as usize, at.as_nanos()),
            at => self.set(slot, at),
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    fn insert(&mut self, slot: Slot, at: u64) {
        let sequence = self.next_sequence();
        let place = self.heap.len();
        self.heap.push(Entry { at, sequence, slot });
        self.place[slot as usize] = place as u32;
        self.up(place);
    }

    fn move_to(&mut self, place: usize, at: u64) {
        let sequence = self.next_sequence();
        let entry = &mut self.heap[place];
        let later = at >= entry.at;
        entry.at = at;
        entry.sequence = sequence;
        // A later sequence at the same time moves down as well.
        if later {
            self.down(place)
        } else {
            self.up(place)
        }
    }

    fn remove(&mut self, place: usize) {
        let gone = self.heap.swap_remove(place);
        self.place[gone.slot as usize] = ABSENT;
        if place < self.heap.len() {
            self.place[self.heap[place].slot as usize] = place as u32;
            if self.heap[place].before(&gone) {
                self.up(place);
            } else {
                self.down(place);
            }
        }
    }

    fn up(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / ARITY;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn down(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let first = place * ARITY + 1;
            if first >= self.heap.len() {
                break;
            }
            let last = (first + ARITY).min(self.heap.len());
            let mut least = first;
            for child in first + 1..last {
                if self.heap[child].before(&self.heap[least]) {
                    least = child;
                }
            }
            if !self.heap[least].before(&entry) {
                break;
            }
            self.put(place, self.heap[least]);
            place = least;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.place[entry.slot as usize] = place as u32;
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

    proptest! {
        #[test]
        fn any_history_is_served_as_a_sorted_list_would(
            steps in proptest::collection::vec((0u32..12, proptest::option::of(0u64..20), any::<bool>()), 0..200),
        ) {
            let mut wakes = Wakes::new(12);
            // Naive oracle: (time, order of asking) for each slot.
            let mut oracle: Vec<Option<(u64, u64)>> = vec![None; 12];
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
