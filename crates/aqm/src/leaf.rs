//! A queue inside another: what `prio`, `drr`, `htb` and `tbf` have behind a class or a band.

use narrows_core::{EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Instant, Rng, Word, WordError, Words};

use crate::QueueSpec;
use crate::link_facts::LinkFacts;

/// What stands behind `queue`.
pub(crate) const ALLOWED: &str = "a queue in brackets, such as (fq_codel flows 1)";

/// Reads the brackets behind `queue`.
pub(crate) fn read(words: &mut Words<'_>) -> Result<QueueSpec, WordError> {
    let Word { text, start } = words.bracketed(ALLOWED)?;
    QueueSpec::parse(text).map_err(|e| e.shifted(start))
}

/// The brackets of a queue that is not the usual one.
pub(crate) fn written(queue: &QueueSpec) -> Option<String> {
    (*queue != QueueSpec::default()).then(|| format!("({queue})"))
}

/// The queue, and a packet that was taken off it to be looked at, as Linux's
/// `qdisc_peek_dequeued` does (include/net/sch_generic.h v6.17): it still counts as waiting.
pub(crate) struct Leaf {
    queue: Box<dyn Queue>,
    held: Option<Box<Packet>>,
    /// The length, as the link counts it, of the packet that was looked at last, taken off or not.
    seen: Option<u32>,
    /// Whether the queue itself goes on counting the packet that was taken off.
    counts_held: bool,
    overhead: u32,
}

impl Leaf {
    /// A leaf of the queue that is named `entity` in events. Each leaf has its own generator,
    /// seeded by a draw of its queue's.
    pub fn new(spec: &QueueSpec, entity: EntityId, link: LinkFacts, rng: &mut Rng) -> Self {
        let own = Rng::for_name(rng.draw_u64(), "leaf");
        let mut queue = spec.build(entity, link, own);
        Self {
            counts_held: queue.waiting_mut().is_some(),
            queue,
            held: None,
            seen: None,
            overhead: link.overhead,
        }
    }

    /// Takes or drops `packet`; returns whether it was taken.
    pub fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        self.queue.enqueue(now, packet, out)
    }

    /// The length of the packet that leaves next, as the link counts it; it stays. Nothing
    /// where the queue gives none now.
    pub fn peek(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<u32> {
        if self.held.is_none() {
            self.seen = self.queue.peek(now, out);
            if self.seen.is_none() {
                let packet = self.queue.dequeue(now, out)?;
                let length = packet.len() + self.overhead;
                if let Some(waiting) = self.queue.waiting_mut() {
                    waiting.packets += 1;
                    waiting.bytes += u64::from(length);
                }
                (self.held, self.seen) = (Some(packet), Some(length));
            }
        }
        self.seen
    }

    /// The packet that leaves next.
    pub fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        let seen = self.seen.take();
        let Some(packet) = self.held.take() else {
            return self.queue.dequeue(now, out);
        };
        if let Some(waiting) = self.queue.waiting_mut() {
            waiting.packets -= 1;
            waiting.bytes -= u64::from(seen.unwrap_or_default());
        }
        Some(packet)
    }

    /// The length of the packet that was looked at.
    pub fn peeked(&self) -> Option<u32> {
        self.seen
    }

    /// Whether a packet waits.
    pub fn is_empty(&self) -> bool {
        self.held.is_none() && self.queue.backlog().packets == 0
    }

    /// When it may give a packet, if it holds any.
    pub fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        match self.held {
            Some(_) => Some(now),
            None => self.queue.next_dequeue(now),
        }
    }

    /// When its own clock is due.
    pub fn next_tick(&self) -> Option<Instant> {
        self.queue.next_tick()
    }

    /// Runs its own clock if it is due.
    pub fn tick(&mut self, now: Instant) {
        if self.queue.next_tick().is_some_and(|at| at <= now) {
            self.queue.tick(now);
        }
    }

    /// What waits, the packet that was looked at among it, and what was marked and dropped.
    pub fn counts(&self) -> QueueCounts {
        let mut counts = self.queue.counts();
        if self.held.is_some() && !self.counts_held {
            counts.backlog.packets += 1;
            counts.backlog.bytes += u64::from(self.seen.unwrap_or_default());
        }
        counts
    }

    /// The link's rate has changed.
    pub fn link_rate_changed(&mut self, rate: narrows_units::Rate) {
        self.queue.link_rate_changed(rate);
    }
}

impl std::fmt::Debug for Leaf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leaf")
            .field("counts", &self.counts())
            .finish_non_exhaustive()
    }
}

/// The counts of several leaves together.
pub(crate) fn sum<'a>(leaves: impl Iterator<Item = &'a Leaf>) -> QueueCounts {
    leaves.fold(QueueCounts::default(), |mut sum, leaf| {
        let counts = leaf.counts();
        sum.backlog.packets += counts.backlog.packets;
        sum.backlog.bytes += counts.backlog.bytes;
        sum.marked += counts.marked;
        sum.dropped += counts.dropped;
        sum
    })
}

/// The earliest of what several leaves ask for.
pub(crate) fn earliest(times: impl Iterator<Item = Option<Instant>>) -> Option<Instant> {
    times.flatten().min()
}
