//! Packets that wait for their answer: a queue that costs nothing while it
//! holds one, and stops taking new ones when it is full.

/// The most that wait at a time, one of them in the queue itself. A queue that
/// is full takes no more until an answer comes, so a long path is sampled
/// instead of followed packet by packet.
const MAX_WAITING: usize = 256;

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
/// a flow are what a packet costs. So the first probe stands here, and the rest
/// in a ring that is one step away and starts with room for one.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    first: Probe,
    ring: Box<[Probe]>,
    /// Where in the ring the second probe is.
    head: u16,
    /// Probes that wait, the first one too.
    waiting: u16,
}

impl Probes {
    /// Adds a probe. `false` if its key is not above all that wait, or there
    /// is no room.
    pub fn push(&mut self, probe: Probe) -> bool {
        let waiting = usize::from(self.waiting);
        if waiting == 0 {
            self.first = probe;
            self.waiting = 1;
            return true;
        }
        let last = match waiting {
            1 => self.first.key,
            n => self.ring[self.place(n - 2)].key,
        };
        if !after(probe.key, last) || waiting == MAX_WAITING {
            return false;
        }
        if waiting > self.ring.len() {
            self.grow();
        }
        let place = self.place(waiting - 1);
        self.ring[place] = probe;
        self.waiting += 1;
        true
    }

    /// Reads what every packet needs of it.
    pub fn touch(&self) -> u64 {
        self.first.at ^ u64::from(self.waiting)
    }

    /// Reads where the next probe is taken out of the ring and put in.
    pub fn touch_far(&self) -> u64 {
        let key = |at: usize| self.ring.get(at).map_or(0, |p| u64::from(p.key));
        match usize::from(self.waiting) {
            0 | 1 => key(0),
            n => key(usize::from(self.head)).wrapping_add(key(self.place(n - 1))),
        }
    }

    /// Where the ring has the `i`th probe after the first.
    fn place(&self, i: usize) -> usize {
        let at = usize::from(self.head) + i;
        if at < self.ring.len() {
            at
        } else {
            at - self.ring.len()
        }
    }

    /// 1, 3, 7 … 255 places: with the allocator's own word before them, powers
    /// of two.
    #[cold]
    fn grow(&mut self) {
        let mut ring = vec![Probe::default(); self.ring.len() * 2 + 1];
        let (tail, front) = self.ring.split_at(usize::from(self.head));
        ring[..front.len()].copy_from_slice(front);
        ring[front.len()..front.len() + tail.len()].copy_from_slice(tail);
        self.ring = ring.into_boxed_slice();
        self.head = 0;
    }

    fn pop(&mut self) {
        self.waiting -= 1;
        if self.waiting > 0 {
            self.first = self.ring[usize::from(self.head)];
            self.head = self.place(1) as u16;
        }
    }

    /// Takes out every probe whose key is at or below `key`. Gives the one
    /// with exactly this key, if there is one, and how many others went.
    pub fn answered(&mut self, key: u32) -> (Option<Probe>, u32) {
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

    #[test]
    fn an_answer_takes_out_what_it_covers_and_gives_what_it_names() {
        let mut probes = Probes::default();
        for key in [u32::MAX - 1, u32::MAX, 0, 1] {
            assert!(probes.push(probe(key)));
        }
        assert!(!probes.push(probe(1)), "not above all that wait");
        assert_eq!(probes.answered(u32::MAX), (Some(probe(u32::MAX)), 1));
        assert_eq!(probes.answered(u32::MAX), (None, 0));
        assert_eq!(probes.answered(5), (None, 2));
        assert!(probes.push(probe(2)));
    }

    #[test]
    fn probes_keep_their_order_while_the_ring_grows_and_turns() {
        let mut probes = Probes::default();
        let mut waiting = std::collections::VecDeque::new();
        let mut key = 0;
        for round in 0..60u32 {
            for _ in 0..round % 13 {
                key += 1;
                assert!(probes.push(probe(key)));
                waiting.push_back(key);
            }
            for _ in 0..round % 7 {
                let Some(key) = waiting.pop_front() else {
                    break;
                };
                assert_eq!(probes.answered(key), (Some(probe(key)), 0));
            }
        }
        assert!(waiting.len() > 100, "the ring has grown");
        let rest = waiting.len() as u32;
        assert_eq!(probes.answered(key), (Some(probe(key)), rest - 1));
        assert_eq!(probes.answered(key), (None, 0));
    }

    #[test]
    fn a_full_queue_takes_no_more_and_samples_what_follows() {
        let mut probes = Probes::default();
        let taken = (0..1_000).filter(|k| probes.push(probe(*k))).count();
        assert_eq!(taken, MAX_WAITING);
        assert_eq!(probes.answered(0), (Some(probe(0)), 0));
        assert!(probes.push(probe(5_000)));
    }
}
