//! Packets that wait for their answer: a queue that costs nothing while it
//! holds one, and grows as far as the path is long.
//!
//! A queue that took no more when it is full would follow packets where the path
//! is short and pass them over where it is long, and its round trips would be
//! too short on average. So a full queue is thinned instead: from then on it
//! keeps one key in two, four, eight …, by a hash of the key. That depends
//! neither on round trips nor on how the receiver spaces its acknowledgements,
//! and each that is kept counts for the others (Horvitz and Thompson 1952).

/// The most that wait at a time in one queue, one of them in the queue itself: a
/// path of 1 Gbit/s and 600 ms has 52,000 segments of 1448 bytes under way, twice as
/// many with a buffer of its bandwidth-delay product, and twice that where slow start
/// has overshot.
const MAX_WAITING: usize = 1 << 18;
/// Places that each queue may have of its own.
const OWN: usize = (1 << 8) - 1;
/// Places beyond these, of all queues together: 256 MiB, 64 queues of the
/// longest kind.
const SHARED: usize = 1 << 24;
/// One key in 2^23 is the least that is kept: 2^31 sequence numbers, of which each
/// byte is a segment, then fit in the places that a queue has of its own.
const THINNEST: u8 = 23;

/// Memory for long queues that all flows share.
#[derive(Debug)]
pub(crate) struct Room {
    places: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { places: SHARED }
    }
}

impl Room {
    /// No room at all.
    #[cfg(test)]
    pub fn none() -> Self {
        Self { places: 0 }
    }

    fn take(&mut self, places: usize) -> bool {
        let left = self.places.checked_sub(places);
        self.places = left.unwrap_or(self.places);
        left.is_some()
    }

    /// Takes back what queues [held](Probes::held) that are gone.
    pub fn give_back(&mut self, places: usize) {
        self.places += places;
    }
}

/// Which keys a queue keeps: one in 2^n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Thinning(u8);

impl Thinning {
    /// Whether a key is one of those that are kept.
    pub fn keeps(self, key: u32) -> bool {
        self.0 == 0 || mixed(key) & (self.weight() - 1) == 0
    }

    /// How many keys each that is kept counts for.
    pub fn weight(self) -> u32 {
        1 << self.0
    }

    /// Keeps half as many from now on: removes the others from `queues`, which share it,
    /// and counts them. `false` where that goes no further.
    #[cold]
    pub fn thin(&mut self, queues: [&mut Probes; 2], removed: &mut u32) -> bool {
        if self.0 == THINNEST {
            return false;
        }
        let bit = self.0;
        self.0 += 1;
        for queue in queues {
            // One more bit, as a queue may hold what came by way of keys in another.
            let gone = queue.retain(|key| mixed(key) >> bit & 1 == 0);
            *removed = removed.saturating_add(gone);
        }
        true
    }
}

/// Mixes all bits of a key into each bit (the finalizer of MurmurHash3).
const fn mixed(key: u32) -> u32 {
    let mut h = key;
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

/// Where a number is that its receiver echoes and whose echo is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum EchoState {
    #[default]
    Idle,
    Sent,
    Echoed,
}

/// What became of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pushed {
    Waits,
    /// Its key is not above all that wait.
    OutOfOrder,
    Full,
}

/// One packet that waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Probe {
    /// When it passed, in nanoseconds.
    pub at: u64,
    /// What its answer will name: a sequence number or a timestamp.
    pub key: u32,
    /// The low half of its id.
    pub packet: u32,
}

/// Probes in the order of their keys, which wrap.
///
/// Where flows are many, each has few packets in flight and the cache misses of
/// a flow are what a packet costs. So the first probe is here, and the rest
/// in a ring that is one step away and starts with room for one.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    first: Probe,
    ring: Box<[Probe]>,
    /// Where in the ring the second probe is.
    head: u32,
    /// Probes that wait, the first one too.
    waiting: u32,
}

impl Probes {
    /// Adds a probe. Where `long`, the queue may become longer than the places that
    /// each has of its own.
    pub fn push(&mut self, probe: Probe, long: bool, room: &mut Room) -> Pushed {
        let waiting = self.waiting as usize;
        if waiting == 0 {
            self.first = probe;
            self.waiting = 1;
            return Pushed::Waits;
        }
        let last = match waiting {
            1 => self.first.key,
            n => self.ring[self.place(n - 2)].key,
        };
        if !after(probe.key, last) {
            return Pushed::OutOfOrder;
        }
        if waiting > self.ring.len() && !self.grow(long, room) {
            return Pushed::Full;
        }
        let place = self.place(waiting - 1);
        self.ring[place] = probe;
        self.waiting += 1;
        Pushed::Waits
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Places of the shared room that it has.
    pub fn held(&self) -> usize {
        self.ring.len().saturating_sub(OWN)
    }

    /// Where the ring has the `i`th probe after the first.
    fn place(&self, i: usize) -> usize {
        let at = self.head as usize + i;
        if at < self.ring.len() {
            at
        } else {
            at - self.ring.len()
        }
    }

    /// 1, 3, 7 … places: with the allocator's own word before them, powers of two.
    #[cold]
    fn grow(&mut self, long: bool, room: &mut Room) -> bool {
        let places = self.ring.len() * 2 + 1;
        let more = places.saturating_sub(OWN) - self.held();
        if places >= MAX_WAITING || more > 0 && !(long && room.take(more)) {
            return false;
        }
        let mut ring = vec![Probe::default(); places];
        let (tail, front) = self.ring.split_at(self.head as usize);
        ring[..front.len()].copy_from_slice(front);
        ring[front.len()..front.len() + tail.len()].copy_from_slice(tail);
        self.ring = ring.into_boxed_slice();
        self.head = 0;
        true
    }

    fn pop(&mut self) {
        self.waiting -= 1;
        if self.waiting > 0 {
            self.first = self.ring[self.head as usize];
            self.head = self.place(1) as u32;
        }
    }

    /// Removes those whose keys do not `stay`, and says how many.
    fn retain(&mut self, stay: impl Fn(u32) -> bool) -> u32 {
        let waiting = self.waiting as usize;
        let mut kept = 0;
        for i in 0..waiting {
            let probe = match i {
                0 => self.first,
                i => self.ring[self.place(i - 1)],
            };
            if !stay(probe.key) {
                continue;
            }
            match kept {
                0 => self.first = probe,
                n => {
                    let place = self.place(n - 1);
                    self.ring[place] = probe;
                }
            }
            kept += 1;
        }
        self.waiting = kept as u32;
        (waiting - kept) as u32
    }

    /// Takes out every probe whose key is at or below `key`. Gives the one
    /// with exactly this key, if there is one, and how many others went. A long
    /// queue that is empty then gives its places back.
    pub fn answered(&mut self, key: u32, room: &mut Room) -> (Option<Probe>, u32) {
        let found = self.remove_through(key);
        if self.waiting == 0 && self.ring.len() > OWN {
            room.give_back(self.held());
            self.ring = Box::default();
            self.head = 0;
        }
        found
    }

    fn remove_through(&mut self, key: u32) -> (Option<Probe>, u32) {
        let mut passed = 0;
        while self.waiting > 0 {
            let probe = self.first;
            if after(probe.key, key) {
                break;
            }
            self.pop();
            if probe.key == key {
                return (Some(probe), passed);
            }
            passed += 1;
        }
        (None, passed)
    }
}

/// Whether `a` is after `b` in the serial arithmetic of sequence numbers and
/// timestamps (RFC 9293 §3.4, RFC 7323 §5.2).
pub(crate) const fn after(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(key: u32) -> Probe {
        Probe {
            at: 1,
            key,
            packet: key,
        }
    }

    impl Probes {
        fn add(&mut self, key: u32) -> Pushed {
            self.push(probe(key), true, &mut Room::default())
        }

        fn answer(&mut self, key: u32) -> (Option<Probe>, u32) {
            self.answered(key, &mut Room::default())
        }
    }

    #[test]
    fn an_answer_takes_out_what_it_covers_and_gives_what_it_names() {
        let mut probes = Probes::default();
        for key in [u32::MAX - 1, u32::MAX, 0, 1] {
            assert_eq!(probes.add(key), Pushed::Waits);
        }
        assert_eq!(probes.add(1), Pushed::OutOfOrder);
        assert_eq!(probes.answer(u32::MAX), (Some(probe(u32::MAX)), 1));
        assert_eq!(probes.answer(u32::MAX), (None, 0));
        assert_eq!(probes.answer(5), (None, 2));
        assert_eq!(probes.add(2), Pushed::Waits);
    }

    #[test]
    fn probes_keep_their_order_while_the_ring_grows_and_turns() {
        let mut probes = Probes::default();
        let mut waiting = std::collections::VecDeque::new();
        let mut key = 0;
        for round in 0..60u32 {
            for _ in 0..round % 13 {
                key += 1;
                assert_eq!(probes.add(key), Pushed::Waits);
                waiting.push_back(key);
            }
            for _ in 0..round % 7 {
                let Some(key) = waiting.pop_front() else {
                    break;
                };
                assert_eq!(probes.answer(key), (Some(probe(key)), 0));
            }
        }
        assert!(waiting.len() > 100, "the ring has grown");
        let odd = probes.retain(|key| key % 2 == 0) as usize;
        waiting.retain(|key| key % 2 == 0);
        assert!(odd.abs_diff(waiting.len()) <= 1);
        let half = waiting[20];
        assert_eq!(probes.answer(half), (Some(probe(half)), 20));
        let rest = waiting.len() as u32 - 21;
        assert_eq!(probes.answer(key + 1), (None, rest));
        assert_eq!(probes.answer(key), (None, 0));
    }

    #[test]
    fn a_queue_takes_all_that_a_gigabit_and_600_ms_have_under_way_and_no_more_than_it_may() {
        let (mut probes, mut room) = (Probes::default(), Room::default());
        let mut push = |key| probes.push(probe(key), true, &mut room) == Pushed::Waits;
        let taken = (0..300_000).take_while(|key| push(*key)).count();
        assert_eq!(taken, MAX_WAITING);
        assert!(taken as f64 > 4.0 * 1e9 * 0.6 / 8.0 / 1448.0);
        assert_eq!(size_of_val(&*probes.ring), (MAX_WAITING - 1) * 16, "4 MiB");
        // What is answered gives its places back.
        assert_eq!(room.places, SHARED - (MAX_WAITING - 1 - OWN));
        assert_eq!(probes.answered(100_000, &mut room).1, 100_000);
        assert_eq!(probes.answered(300_000, &mut room).0, None);
        assert_eq!((room.places, probes.held()), (SHARED, 0));
    }

    #[test]
    fn a_queue_that_may_not_be_long_or_finds_no_room_stops_at_its_own_places() {
        for (long, places) in [(false, SHARED), (true, 0), (true, 255)] {
            let (mut probes, mut room) = (Probes::default(), Room { places });
            let mut push = |key| probes.push(probe(key), long, &mut room) == Pushed::Waits;
            assert_eq!((0..1_000).take_while(|key| push(*key)).count(), OWN + 1);
            assert_eq!(room.places, places);
        }
    }

    #[test]
    fn thinning_keeps_one_in_two_four_eight_of_any_keys() {
        for step in [1, 2, 1_448, 2 * 1_448, 65_536] {
            let (mut probes, mut thinning, mut removed) =
                (Probes::default(), Thinning::default(), 0);
            for i in 0..100_000u32 {
                assert_eq!(
                    probes.add(i.wrapping_mul(step) & (u32::MAX >> 1)),
                    match i {
                        _ if i.wrapping_mul(step) >> 31 == 0 => Pushed::Waits,
                        _ => break,
                    }
                );
            }
            let all = probes.waiting;
            for halved in [2, 4, 8] {
                assert!(thinning.thin([&mut probes, &mut Probes::default()], &mut removed));
                assert_eq!(thinning.weight(), halved);
                assert_eq!(removed + probes.waiting, all);
                let share = f64::from(probes.waiting * halved) / f64::from(all);
                assert!((share - 1.0).abs() < 0.05, "{step} {halved} {share}");
            }
            assert!(thinning.keeps(probes.first.key));
        }
    }
}
