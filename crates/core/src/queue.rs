//! The discipline inside a rate-limited element.

use narrows_units::Instant;

use crate::element::Outlet;
use crate::packet::Packet;

/// What waits in a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backlog {
    /// Packets.
    pub packets: u32,
    /// Bytes, as the link counts them (IP packet plus overhead).
    pub bytes: u64,
}

/// What a queue counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// What waits.
    pub backlog: Backlog,
    /// Packets marked CE so far.
    pub marked: u64,
    /// Packets dropped so far.
    pub dropped: u64,
}

/// A band of a queue: one of the names that the queue has for its bands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Band {
    names: &'static [&'static str],
    index: u8,
}

impl Band {
    /// The band at `index` of those with these names.
    #[inline]
    pub const fn new(names: &'static [&'static str], index: u8) -> Self {
        debug_assert!((index as usize) < names.len(), "a band that has a name");
        Self { names, index }
    }

    /// The names of all bands of its queue.
    #[inline]
    pub const fn names(self) -> &'static [&'static str] {
        self.names
    }

    /// Its index among them.
    #[inline]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// A queueing discipline: a pure state machine behind two calls.
///
/// A queue reports its own marks and drops through `out.events` and
/// `out.pool`; the element around it reports enqueue and dequeue. It sets
/// `held_since` of a packet that it takes. Lengths count the link's
/// per-packet overhead, which the queue is given when it is built, as tc's
/// `qdisc_pkt_len` does.
pub trait Queue: Send {
    /// Takes or drops `packet`; returns whether it was taken.
    fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool;

    /// The packet to send now, if any; may drop or mark on the way.
    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>>;

    /// The length, as the link counts it, of the packet that [`dequeue`](Self::dequeue) would
    /// give now, which stays: another one may still overtake it. `None` where nothing waits, or
    /// where only taking a packet off shows which one it is.
    fn peek(&mut self, _now: Instant, _out: &mut Outlet<'_>) -> Option<u32> {
        None
    }

    /// Where it counts what waits, if its limits count a packet that a queue around it has
    /// taken off to look at (Linux's `qdisc_peek_dequeued`): that one adds it and takes it off
    /// again.
    fn waiting_mut(&mut self) -> Option<&mut Backlog> {
        None
    }

    /// When [`dequeue`](Self::dequeue) may succeed although nothing is
    /// enqueued in between: `now` if it may at once, `None` if the queue is
    /// empty.
    fn next_dequeue(&self, now: Instant) -> Option<Instant>;

    /// Whether a packet that waits goes before `begun`, one of this queue of which a part has been
    /// sent, where a medium sends packets in segments.
    fn overtakes(&self, _begun: &Packet) -> bool {
        false
    }

    /// When the queue's own clock (PI's update, RED's adaptation) wants a
    /// call of [`tick`](Self::tick); `None` if it has none.
    fn next_tick(&self) -> Option<Instant> {
        None
    }

    /// Runs the queue's own clock.
    fn tick(&mut self, _now: Instant) {}

    /// What waits, and what was marked and dropped.
    fn counts(&self) -> QueueCounts;

    /// What waits.
    fn backlog(&self) -> Backlog {
        self.counts().backlog
    }

    /// The AQM's current probability, for the record; 0 where there is none.
    fn probability(&self) -> f64 {
        0.0
    }

    /// The names of the queue's bands, which its figures are called by: words of lower-case
    /// letters, digits and `_`. A queue without bands has one.
    fn bands(&self) -> &'static [&'static str] {
        &["all"]
    }

    /// The band of a packet that has just left: an index into [`bands`](Self::bands).
    fn band_of(&self, _packet: &Packet) -> u8 {
        0
    }

    /// The link's rate has changed; queues that derive parameters from the
    /// rate (RED's idle decay) take note.
    fn link_rate_changed(&mut self, _rate: narrows_units::Rate) {}

    /// New parameters in tc's words, in mid-run; what is not named stays.
    ///
    /// # Errors
    /// When the words are not this queue's.
    fn change(&mut self, now: Instant, words: &str) -> Result<(), narrows_units::WordError>;
}
