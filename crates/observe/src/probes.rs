//! Packets that wait for their answer: a queue that costs nothing while it
//! holds one, and stops taking new ones when it is full.

use std::collections::VecDeque;

/// The most that wait at a time. A queue that is full takes no more until an
/// answer comes, so a long path is sampled instead of followed packet by packet.
const MAX_WAITING: usize = 256;

/// One packet that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    /// When it passed, in nanoseconds.
    pub at: u64,
    /// What its answer will name: a sequence number or a timestamp.
    pub key: u32,
    /// The low half of its id.
    pub packet: u32,
}

/// Probes in the order of their keys, which wrap.
#[derive(Debug, Default)]
pub(crate) struct Probes {
    first: Option<Probe>,
    // Boxed: most flows never have a second one waiting.
    #[allow(clippy::box_collection)]
    more: Option<Box<VecDeque<Probe>>>,
}

impl Probes {
    /// Adds a probe. `false` if its key is not above all that wait, or there
    /// is no room.
    pub fn push(&mut self, probe: Probe) -> bool {
        let last = self.last();
        if last.is_some_and(|last| !after(probe.key, last)) {
            return false;
        }
        if last.is_none() {
            self.first = Some(probe);
            return true;
        }
        // Room for one: where flows are many, each has few packets in flight.
        let more = self
            .more
            .get_or_insert_with(|| Box::new(VecDeque::with_capacity(1)));
        let room = more.len() < MAX_WAITING - 1;
        if room {
            more.push_back(probe);
        }
        room
    }

    fn last(&self) -> Option<u32> {
        let back = self.more.as_ref().and_then(|m| m.back());
        back.or(self.first.as_ref()).map(|p| p.key)
    }

    /// Takes out every probe whose key is at or below `key`. Gives the one
    /// with exactly this key, if there is one, and how many others went.
    pub fn answered(&mut self, key: u32) -> (Option<Probe>, u32) {
        let mut passed = 0;
        while let Some(probe) = self.first {
            if after(probe.key, key) {
                break;
            }
            self.first = self.more.as_mut().and_then(|m| m.pop_front());
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
    fn a_full_queue_takes_no_more_and_samples_what_follows() {
        let mut probes = Probes::default();
        let taken = (0..1_000).filter(|k| probes.push(probe(*k))).count();
        assert_eq!(taken, MAX_WAITING);
        assert_eq!(probes.answered(0), (Some(probe(0)), 0));
        assert!(probes.push(probe(5_000)));
    }
}
