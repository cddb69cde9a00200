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

#[cfg(test)]
mod tests {
    use narrows_units::Rate;
    use narrows_wire::Ecn::{Ect0, NotEct};

    use super::*;
    use crate::QUEUES;
    use crate::testing::{Bench, ETHERNET, ms};
    use crate::words::before;

    const FRAME: u32 = 1514;

    /// `leaf` in each queue that has others inside, where packets without a DSCP wait.
    fn around(leaf: &str) -> [String; 5] {
        [
            format!("prio band 1 queue ({leaf})"),
            format!("drr class a queue ({leaf})"),
            format!("htb class a rate 1Gbit queue ({leaf})"),
            format!("tbf rate 1Gbit burst 100000 limit 1Mb queue ({leaf})"),
            format!("bearers bearer a queue ({leaf})"),
        ]
    }

    #[test]
    fn each_queue_inside_has_its_clock_run_when_it_is_due() {
        let times = |words: &str, count: usize| {
            let mut b = Bench::new(words);
            let next = std::iter::from_fn(|| {
                let at = b.queue.next_tick()?;
                b.queue.tick(at);
                Some(at)
            });
            next.take(count).collect::<Vec<_>>()
        };
        for words in around("pi2 tupdate 10ms") {
            assert_eq!(times(&words, 3), [ms(10), ms(20), ms(30)], "{words}");
        }
        let (fast, slow) = ("queue (pi2 tupdate 10ms)", "queue (pi2 tupdate 25ms)");
        for words in [
            format!("prio band 0 {fast} band 1 {slow}"),
            format!("drr class a dscp 46 {fast} class b {slow}"),
            format!("htb class a rate 1Mbit dscp 46 {fast} class b rate 1Mbit {slow}"),
            format!("bearers bearer a dscp 46 {fast} bearer b {slow}"),
        ] {
            let want = [10, 20, 25, 30, 40, 50, 60].map(ms);
            assert_eq!(times(&words, 7), want, "{words}");
        }
        // COBALT has no clock.
        for words in around("cobalt") {
            assert_eq!(times(&words, 1), [], "{words}");
        }
    }

    #[test]
    fn each_queue_inside_learns_a_new_rate_of_the_link() {
        // COBALT signals nothing below the time of four frames: 4.8 ms at 10 Mbit/s, and
        // 48 ms at 1 Mbit/s. A link that stands still counts no frames.
        for (rate, signalled) in [(10, true), (1, false), (0, true)] {
            for words in around("cobalt") {
                let mut b = Bench::new(&words);
                b.queue.link_rate_changed(Rate::from_mbit(rate));
                for i in 0..400 {
                    b.offer(ms(i), 1, Ect0, FRAME);
                    if i >= 6 {
                        b.take(ms(i));
                    }
                }
                assert_eq!(!b.log.marks.is_empty(), signalled, "{words}, {rate} Mbit/s");
            }
        }
    }

    #[test]
    fn a_packet_that_was_looked_at_counts_as_waiting_in_any_queue() {
        for kind in QUEUES {
            let leaf = format!("{kind} {}", before(kind));
            let words = format!("tbf rate 1Mbit burst 1600 limit 1Mb queue ({leaf})");
            let mut b = Bench::new(&words);
            let waits = |b: &Bench| {
                let backlog = b.queue.backlog();
                (backlog.packets, backlog.bytes)
            };
            (0..2).for_each(|_| assert!(b.offer(ms(1), 1, NotEct, 1_400).1, "{kind}"));
            assert!(b.take(ms(1)).is_some(), "{kind}");
            assert_eq!(waits(&b), (1, 1_400), "{kind}");
            // 200 bytes of tokens are left.
            assert!(b.take(ms(1)).is_none(), "{kind}");
            assert_eq!(waits(&b), (1, 1_400), "{kind}");
            assert!(b.take(ms(100)).is_some(), "{kind}");
            assert_eq!(waits(&b), (0, 0), "{kind}");
        }
    }

    #[test]
    fn what_is_printed_of_a_leaf_is_what_it_counts() {
        let mut rng = Rng::for_name(1, "queue");
        let leaf = Leaf::new(&QueueSpec::default(), EntityId(7), ETHERNET, &mut rng);
        let want = format!("Leaf {{ counts: {:?}, .. }}", leaf.counts());
        assert_eq!(format!("{leaf:?}"), want);
    }
}
