//! A bounded table: when it is full, what was not used for the longest time
//! makes room.

use std::collections::BTreeMap;

/// No slot.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    /// The next one that was used earlier.
    older: u32,
    /// The next one that was used later.
    newer: u32,
}

/// Up to a fixed number of values by key, in the order of their last use.
#[derive(Clone, Debug)]
pub(crate) struct Table<K, V> {
    places: BTreeMap<K, u32>,
    slots: Vec<Slot<K, V>>,
    oldest: u32,
    newest: u32,
    capacity: usize,
    inserted: u64,
    evicted: u64,
}

impl<K: Copy + Ord, V: Default> Table<K, V> {
    /// An empty table for `capacity` values, at least one.
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            places: BTreeMap::new(),
            slots: Vec::new(),
            oldest: NONE,
            newest: NONE,
            capacity: capacity.clamp(1, NONE as usize),
            inserted: 0,
            evicted: 0,
        }
    }

    /// The value of `key`, which is thereby the last used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        let at = *self.places.get(key)?;
        self.refresh(at);
        Some(&mut self.slots[at as usize].value)
    }

    /// The value of `key`, made if it is not there.
    pub(crate) fn get_or_insert(&mut self, key: K) -> &mut V {
        let at = match self.places.get(&key) {
            Some(at) => {
                let at = *at;
                self.refresh(at);
                at
            }
            None => self.insert(key),
        };
        &mut self.slots[at as usize].value
    }

    /// How many values there have been.
    pub(crate) fn inserted(&self) -> u64 {
        self.inserted
    }

    /// How many values had to make room.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    fn insert(&mut self, key: K) -> u32 {
        let slot = Slot {
            key,
            value: V::default(),
            older: NONE,
            newer: NONE,
        };
        let at = if self.slots.len() < self.capacity {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let at = self.oldest;
            self.unlink(at);
            self.places.remove(&self.slots[at as usize].key);
            self.slots[at as usize] = slot;
            self.evicted += 1;
            at
        };
        self.inserted += 1;
        self.places.insert(key, at);
        self.link(at);
        at
    }

    fn refresh(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    fn unlink(&mut self, at: u32) {
        let (older, newer) = {
            let slot = &self.slots[at as usize];
            (slot.older, slot.newer)
        };
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(slot) => slot.older = older,
            None => self.newest = older,
        }
    }

    fn link(&mut self, at: u32) {
        let older = self.newest;
        let slot = &mut self.slots[at as usize];
        (slot.older, slot.newer) = (older, NONE);
        match self.slots.get_mut(older as usize) {
            Some(slot) => slot.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_holds_what_a_list_in_order_of_use_would(
            capacity in 1..6_usize,
            uses in prop::collection::vec((0..10_u8, any::<bool>()), 0..200),
        ) {
            let mut table: Table<u8, u32> = Table::new(capacity);
            let mut list: Vec<(u8, u32)> = Vec::new();
            let mut evicted = 0;
            for (key, insert) in uses {
                let at = list.iter().position(|(k, _)| *k == key);
                if let Some(at) = at {
                    let mut entry = list.remove(at);
                    entry.1 += 1;
                    *table.get(&key).unwrap() += 1;
                    prop_assert_eq!(*table.get(&key).unwrap(), entry.1);
                    list.push(entry);
                } else if insert {
                    if list.len() == capacity {
                        list.remove(0);
                        evicted += 1;
                    }
                    prop_assert_eq!(*table.get_or_insert(key), 0);
                    list.push((key, 0));
                } else {
                    prop_assert!(table.get(&key).is_none());
                }
                prop_assert_eq!(table.evicted(), evicted);
            }
        }
    }
}
