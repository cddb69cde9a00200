//! Numbers of entries, by hashes of their keys.

use hashbrown::HashTable;

/// A number, and as much of the hash of its entry's key as distinguishes most keys: no entry is
/// read while the table grows, and few are for another key.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: u32,
    hash: u32,
}

impl Place {
    fn of(at: u32, hash: u64) -> Self {
        Self {
            at,
            hash: hash as u32,
        }
    }

    /// The hash for the table, which reads both ends of it.
    fn spread(&self) -> u64 {
        u64::from(self.hash) << 32 | u64::from(self.hash)
    }
}

/// Finds entries that stand elsewhere.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places(HashTable<Place>);

impl Places {
    /// Room for so many entries.
    pub(crate) fn with_room(entries: usize) -> Self {
        Self(HashTable::with_capacity(entries))
    }

    /// Gives back what room is left.
    pub(crate) fn shrink(&mut self) {
        self.0.shrink_to_fit(Place::spread);
    }

    /// The number of the entry whose key has that hash and for which `is` holds.
    pub(crate) fn find(&self, hash: u64, is: impl Fn(u32) -> bool) -> Option<u32> {
        let wanted = Place::of(0, hash);
        let is = |place: &Place| place.hash == wanted.hash && is(place.at);
        Some(self.0.find(wanted.spread(), is)?.at)
    }

    /// Adds an entry that is not there.
    pub(crate) fn insert(&mut self, hash: u64, at: u32) {
        let place = Place::of(at, hash);
        self.0.insert_unique(place.spread(), place, Place::spread);
    }

    /// Removes an entry, if it is there.
    pub(crate) fn remove(&mut self, hash: u64, at: u32) {
        let hash = Place::of(at, hash).spread();
        if let Ok(found) = self.0.find_entry(hash, |place| place.at == at) {
            found.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_the_one_whose_hash_and_key_are_wanted() {
        let mut places = Places::default();
        places.insert(5, 1);
        places.insert(6, 2);
        assert_eq!(places.find(5, |at| at == 1), Some(1));
        assert_eq!(places.find(5, |_| false), None, "another key");
        assert_eq!(places.find(5, |at| at == 2), None, "another hash");
        places.remove(5, 3);
        assert_eq!(places.find(5, |_| true), Some(1));
        places.remove(5, 1);
        assert_eq!(places.find(5, |_| true), None);
        assert_eq!(places.find(6, |_| true), Some(2));
    }

    #[test]
    fn both_ends_of_a_hash_are_those_that_are_kept_of_it() {
        let spread = Place::of(0, 0x8765_4321).spread();
        assert_eq!(spread, 0x8765_4321_8765_4321);
    }

    #[test]
    fn there_is_room_for_what_was_announced_and_what_is_left_is_given_back() {
        let mut places = Places::with_room(1_000);
        assert!(places.0.capacity() >= 1_000);
        for at in 0..10 {
            places.insert(at.into(), at);
        }
        places.shrink();
        assert!((10..100).contains(&places.0.capacity()));
        for at in 0..10 {
            assert_eq!(places.find(at.into(), |found| found == at), Some(at));
        }
    }
}
