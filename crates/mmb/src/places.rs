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
        let hash = (hash ^ hash >> 32) as u32;
        Self { at, hash }
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
