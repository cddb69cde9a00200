//! Reading a word of each line of the cache that a flow's next packet will
//! need: see [`prefetch`](crate::prefetch).

use super::Flow;
use super::estimators::{Acked, Estimators, Stamped};

impl Flow {
    /// Of the flow itself, but for the handshake.
    pub(crate) fn touch(&self) -> u64 {
        let [one, two] = &self.ways;
        self.last_at ^ one.packets ^ two.packets ^ self.estimators.touch()
    }
}

impl Estimators {
    /// Of what every packet needs here.
    pub fn touch(&self) -> u64 {
        self.floor().unwrap_or_default()
    }

    /// Of what it points at.
    pub fn touch_boxes(&self) -> u64 {
        let stamped = self.stamped.as_ref().map_or(0, |s| s.touch());
        let acked = self.acked.as_ref().map_or(0, |a| a.touch());
        let marks = self.marks.as_ref().map_or(0, |m| m.touch());
        let ledger = self.ledger.as_ref().map_or(0, |l| l.touch());
        stamped ^ acked ^ marks ^ ledger
    }

    /// Of what that points at.
    pub fn touch_far(&self) -> u64 {
        let stamped = self.stamped.as_ref().map_or(0, |s| s.touch_far());
        let acked = self.acked.as_ref().map_or(0, |a| a.touch_far());
        let marks = self.marks.as_ref().map_or(0, |m| m.touch_far());
        stamped ^ acked ^ marks
    }
}

impl Stamped {
    fn touch(&self) -> u64 {
        self.timestamps.touch()
    }

    fn touch_far(&self) -> u64 {
        let all = self.all.as_ref().map_or(0, |means| means.touch());
        let single = self.single.as_ref().map_or(0, |means| means[0].touch());
        all ^ single ^ self.timestamps.touch_far()
    }
}

impl Acked {
    fn touch(&self) -> u64 {
        self.left.touch() ^ self.right.touch() ^ self.seq_ack.touch()
    }

    fn touch_far(&self) -> u64 {
        self.seq_ack.touch_far()
    }
}
