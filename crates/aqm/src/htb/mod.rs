//! `htb`: a tree of classes, each with a rate of its own and a ceil up to which it borrows.
//!
//! A class that has tokens at its rate sends. One that has none, but tokens at its ceil, sends
//! as its parent's part. Of classes that may send, those that lie lower in the tree go first,
//! then those of a lower `prio`; equals take turns by their quanta.
//!
//! Sources: Linux net/sched/sch_htb.c v6.17 (without hysteresis, its default); iproute2
//! tc/q_htb.c. Classes stand in one line, in the order of their numbers in tc, and say what
//! they take (`dscp`), where tc has filters; the leaf without `dscp` is tc's `default`.

mod config;

use std::collections::BTreeSet;

use narrows_core::{EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{Duration, Instant, Rate, Rng, WordError};

pub use config::{HtbClass, HtbConfig, TICK_NS};
use config::{LEVELS, PRIORITIES};

use crate::classes::{self, ByDscp, Class as _};
use crate::leaf::{self, Leaf};
use crate::link_facts::LinkFacts;
use crate::reading::{self, Parameters};
use crate::tbf::time_of;

/// Longest time that tokens gather or are owed, ns (`mbuffer`, a minute).
const MOST: i64 = 60_000_000_000;

/// What a class may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    CannotSend,
    MayBorrow,
    CanSend,
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// Borrowing ends at nothing.
    NoCeil,
    /// What a child sends is not counted by its parent.
    ParentNotCharged,
    /// All classes are of one priority.
    OnePriority,
    /// Turns are single packets.
    OnePacket,
}

/// Classes of one priority that take turns: those with packets, in their order.
#[derive(Clone, Debug, Default)]
struct Feed {
    classes: BTreeSet<usize>,
    /// Whose turn it is; nothing after the last, so that the first is next.
    turn: Option<usize>,
    /// Whose turn it was when it left, to come back to or pass by.
    left: Option<usize>,
}

impl Feed {
    /// The class whose turn it is; at the end of the list nothing, and the first next time.
    fn current(&mut self) -> Option<usize> {
        if self.turn.is_none() {
            if let Some(left) = self.left {
                self.turn = self.classes.range(left..).next().copied();
            }
        }
        self.left = None;
        self.turn
    }

    fn advance(&mut self) {
        let after = self
            .turn
            .map(|at| self.classes.range(at + 1..).next().copied());
        self.turn = after.flatten();
    }
}

/// A class at work.
#[derive(Debug)]
struct Class {
    parent: Option<usize>,
    level: usize,
    rate: Rate,
    ceil: Rate,
    buckets: (i64, i64),
    /// Tokens at the rate and at the ceil in ns, as of `checked`.
    tokens: i64,
    ceil_tokens: i64,
    checked: Instant,
    mode: Mode,
    /// Its entry among those that wait for tokens.
    wake: Option<(Instant, u64)>,
    prio: usize,
    quantum: i64,
    deficits: [i64; LEVELS],
    /// Priorities at which packets wait here or below, as bits.
    active: u8,
    /// Children that borrow, by priority.
    feeds: [Feed; PRIORITIES],
    leaf: Option<Leaf>,
}

impl Class {
    /// Its mode `after` so many ns, and how long until the next.
    fn mode_after(&self, after: i64) -> (Mode, i64) {
        let ceil = self.ceil_tokens + after;
        if ceil < 0 {
            return (Mode::CannotSend, -ceil);
        }
        let tokens = self.tokens + after;
        match tokens >= 0 {
            true => (Mode::CanSend, 0),
            false => (Mode::MayBorrow, -tokens),
        }
    }

    /// Ns since its tokens were counted.
    fn since(&self, now: Instant) -> i64 {
        (now.since(self.checked).as_nanos() as i64).min(MOST)
    }
}

/// Tokens after so many ns, a bucket of `depth`, and a cost.
fn charged(tokens: i64, after: i64, depth: i64, cost: i64) -> i64 {
    let left = (tokens + after).min(depth) - cost;
    if left <= -MOST { 1 - MOST } else { left }
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Htb {
    config: HtbConfig,
    by_dscp: ByDscp,
    classes: Vec<Class>,
    /// The places of the leaves among the classes, in their order.
    leaves: Vec<usize>,
    /// Classes that send by themselves, by level and priority.
    rows: [[Feed; PRIORITIES]; LEVELS],
    /// Classes that wait for tokens, by level.
    waiting: [BTreeSet<(Instant, u64, usize)>; LEVELS],
    wakes: u64,
    /// The leaf that sent last, as a place among the leaves.
    last: u8,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl Htb {
    pub fn new(config: HtbConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        let mut queue = Self {
            by_dscp: ByDscp::new(config.leaves()),
            classes: Vec::new(),
            leaves: Vec::new(),
            rows: Default::default(),
            waiting: Default::default(),
            wakes: 0,
            last: 0,
            config,
            #[cfg(test)]
            mutant: None,
        };
        for (index, class) in queue.config.classes.iter().enumerate() {
            let is_leaf = queue.config.is_leaf(class);
            if is_leaf {
                queue.leaves.push(index);
            }
            queue.classes.push(Class {
                parent: queue.config.parent(class),
                level: 0,
                rate: class.rate,
                ceil: class.ceiling(),
                buckets: class.buckets(),
                tokens: 0,
                ceil_tokens: 0,
                checked: Instant::ZERO,
                mode: Mode::CanSend,
                wake: None,
                prio: class.prio as usize,
                quantum: class.turn(queue.config.r2q),
                deficits: [0; LEVELS],
                active: 0,
                feeds: Default::default(),
                leaf: is_leaf.then(|| Leaf::new(class.queue(), entity, link, &mut rng)),
            });
        }
        for index in 0..queue.classes.len() {
            let level = queue.level_of(index);
            let class = &mut queue.classes[index];
            class.level = level;
            (class.tokens, class.ceil_tokens) = class.buckets;
        }
        queue
    }

    #[cfg(test)]
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// 0 of a leaf; 7 of another class at the top, one less for each class above.
    fn level_of(&self, index: usize) -> usize {
        if self.classes[index].leaf.is_some() {
            return 0;
        }
        let (mut level, mut at) = (LEVELS - 1, index);
        while let Some(parent) = self.classes[at].parent {
            level -= 1;
            at = parent;
        }
        level
    }

    /// Puts a class that has packets where its mode lets it send from: into its row, or below
    /// its parent, and that one likewise (`htb_activate_prios`).
    fn activate(&mut self, mut index: usize) {
        let mask = self.classes[index].active;
        // Where the parent is in its place already, it stays there.
        while let (Mode::MayBorrow, Some(parent)) =
            (self.classes[index].mode, self.classes[index].parent)
        {
            for prio in bits(mask) {
                self.classes[parent].feeds[prio].classes.insert(index);
            }
            self.classes[parent].active |= mask;
            index = parent;
        }
        let class = &self.classes[index];
        if class.mode == Mode::CanSend {
            for prio in bits(mask) {
                self.rows[class.level][prio].classes.insert(index);
            }
        }
    }

    /// Takes a class away from there; its mode is still the old one (`htb_deactivate_prios`).
    fn deactivate(&mut self, mut index: usize) {
        let mut mask = self.classes[index].active;
        while let (Mode::MayBorrow, Some(parent)) =
            (self.classes[index].mode, self.classes[index].parent)
        {
            let mut empty = 0;
            for prio in bits(mask) {
                let feed = &mut self.classes[parent].feeds[prio];
                if feed.turn == Some(index) {
                    feed.left = Some(index);
                    feed.turn = None;
                }
                feed.classes.remove(&index);
                if feed.classes.is_empty() {
                    empty |= 1 << prio;
                }
            }
            mask = empty;
            self.classes[parent].active &= !mask;
            index = parent;
        }
        let class = &self.classes[index];
        if class.mode == Mode::CanSend {
            for prio in bits(mask) {
                let row = &mut self.rows[class.level][prio];
                if row.turn == Some(index) {
                    row.advance();
                }
                row.classes.remove(&index);
            }
        }
    }

    /// Gives a class its mode after so many ns; how long it lasts (`htb_change_class_mode`).
    fn change_mode(&mut self, index: usize, after: i64) -> i64 {
        let (mode, lasts) = self.classes[index].mode_after(after);
        if mode != self.classes[index].mode {
            // Neither does anything to a class without packets, or that cannot send.
            self.deactivate(index);
            self.classes[index].mode = mode;
            self.activate(index);
        }
        lasts
    }

    fn wait(&mut self, index: usize, now: Instant, lasts: i64) {
        let at = now + Duration::from_nanos(lasts.max(1) as u64);
        self.wakes += 1;
        let class = &mut self.classes[index];
        class.wake = Some((at, self.wakes));
        self.waiting[class.level].insert((at, self.wakes, index));
    }

    /// Changes the modes that are due at this level (`htb_do_events`).
    fn wake(&mut self, now: Instant, level: usize) {
        while let Some(first) = self.waiting[level].first().copied().filter(|w| w.0 <= now) {
            self.waiting[level].remove(&first);
            let index = first.2;
            self.classes[index].wake = None;
            let lasts = self.change_mode(index, self.classes[index].since(now));
            if self.classes[index].mode != Mode::CanSend {
                self.wait(index, now, lasts);
            }
        }
    }

    /// Counts a packet of `length` that left a leaf as part of a class at `level`
    /// (`htb_charge_class`).
    fn charge(&mut self, now: Instant, leaf: usize, level: usize, length: u32) {
        let mut next = Some(leaf);
        while let Some(index) = next {
            let class = &mut self.classes[index];
            let after = class.since(now);
            let (depth, ceil_depth) = class.buckets;
            let cost = time_of(class.rate, length);
            class.tokens = match class.level >= level {
                true => charged(class.tokens, after, depth, cost),
                false => class.tokens + after,
            };
            let cost = time_of(class.ceil, length);
            class.ceil_tokens = charged(class.ceil_tokens, after, ceil_depth, cost);
            #[cfg(test)]
            if self.mutant == Some(Mutant::NoCeil) {
                class.ceil_tokens = 0;
            }
            class.checked = now;
            next = class.parent;
            let old = class.mode;
            let wake = class.wake;
            let lasts = self.change_mode(index, 0);
            let class = &mut self.classes[index];
            if class.mode != old {
                if let Some((at, order)) = wake {
                    class.wake = None;
                    let level = class.level;
                    self.waiting[level].remove(&(at, order, index));
                }
                if self.classes[index].mode != Mode::CanSend {
                    self.wait(index, now, lasts);
                }
            }
            #[cfg(test)]
            if self.is(Mutant::ParentNotCharged) {
                return;
            }
        }
    }

    /// The leaf whose turn it is in a row, by the turns of the classes below each other
    /// (`htb_lookup_leaf`).
    fn lookup(&mut self, level: usize, prio: usize) -> Option<usize> {
        // The class whose children take turns; none for the row itself.
        let mut path: Vec<Option<usize>> = vec![None];
        loop {
            let feed = self.feed(level, prio, *path.last()?);
            if let Some(index) = feed.current() {
                if self.classes[index].leaf.is_some() {
                    return Some(index);
                }
                path.push(Some(index));
                continue;
            }
            // The end: the first again, and the next one above.
            feed.turn = feed.classes.first().copied();
            feed.turn?;
            if path.len() > 1 {
                path.pop();
                self.feed(level, prio, *path.last()?).advance();
            }
        }
    }

    /// What takes turns in a row, or below a class.
    fn feed(&mut self, level: usize, prio: usize, below: Option<usize>) -> &mut Feed {
        match below {
            None => &mut self.rows[level][prio],
            Some(index) => &mut self.classes[index].feeds[prio],
        }
    }

    /// Gives the turn of `leaf` in a row, or below its parent, to the next.
    fn pass_on(&mut self, leaf: usize, level: usize, prio: usize) {
        match self.classes[leaf].parent {
            Some(parent) if level > 0 => self.classes[parent].feeds[prio].advance(),
            _ => self.rows[0][prio].advance(),
        }
    }

    /// Takes a leaf without packets out of the tree.
    fn retire(&mut self, leaf: usize) {
        self.deactivate(leaf);
        self.classes[leaf].active = 0;
    }

    /// A packet of a row (`htb_dequeue_tree`).
    fn take(
        &mut self,
        now: Instant,
        level: usize,
        prio: usize,
        out: &mut Outlet<'_>,
    ) -> Option<Box<Packet>> {
        let mut leaf = self.lookup(level, prio)?;
        let mut start = leaf;
        loop {
            let queue = self.classes[leaf].leaf.as_mut()?;
            if queue.is_empty() {
                self.retire(leaf);
                if self.rows[level][prio].classes.is_empty() {
                    return None;
                }
                let next = self.lookup(level, prio)?;
                if leaf == start {
                    start = next;
                }
                leaf = next;
                continue;
            }
            // The length as the link counts it is known of a packet that was looked at.
            if let Some(length) = queue.peek(now, out) {
                let packet = queue.dequeue(now, out)?;
                self.sent(now, leaf, level, prio, length);
                return Some(packet);
            }
            if queue.is_empty() {
                // Its AQM has dropped all it had.
                continue;
            }
            self.pass_on(leaf, level, prio);
            leaf = self.lookup(level, prio)?;
            if leaf == start {
                return None;
            }
        }
    }

    fn sent(&mut self, now: Instant, leaf: usize, level: usize, prio: usize, length: u32) {
        let class = &mut self.classes[leaf];
        class.deficits[level] -= i64::from(length);
        let over = class.deficits[level] < 0;
        #[cfg(test)]
        let over = over || self.mutant == Some(Mutant::OnePacket);
        if over {
            class.deficits[level] += class.quantum;
            self.pass_on(leaf, level, prio);
        }
        if self.classes[leaf].leaf.as_ref().is_some_and(Leaf::is_empty) {
            self.retire(leaf);
        }
        self.charge(now, leaf, level, length);
        let place = self.leaves.iter().position(|index| *index == leaf);
        self.last = classes::band(place.unwrap_or_default());
    }

    /// Whether a leaf sends by itself or borrows from a class that does.
    fn may_send(&self, leaf: usize) -> bool {
        let mut at = Some(leaf);
        while let Some(class) = at.map(|index| &self.classes[index]) {
            match class.mode {
                Mode::CanSend => return true,
                Mode::CannotSend => return false,
                Mode::MayBorrow => at = class.parent,
            }
        }
        false
    }

    /// The queues of the leaves, with their places.
    fn queues(&self) -> impl Iterator<Item = (usize, &Leaf)> {
        let all = self.classes.iter().enumerate();
        all.filter_map(|(index, class)| class.leaf.as_ref().map(|leaf| (index, leaf)))
    }
}

/// The numbers of the bits that are set, from the lowest.
fn bits(mask: u8) -> impl Iterator<Item = usize> {
    (0..PRIORITIES).filter(move |bit| mask & 1 << bit != 0)
}

impl Queue for Htb {
    fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        let index = self.leaves[self.by_dscp.of(&packet)];
        let prio = self.classes[index].prio;
        #[cfg(test)]
        let prio = match self.mutant {
            Some(Mutant::OnePriority) => 0,
            _ => prio,
        };
        let Some(leaf) = &mut self.classes[index].leaf else {
            return false;
        };
        let taken = leaf.enqueue(now, packet, out);
        if !leaf.is_empty() && self.classes[index].active == 0 {
            self.classes[index].active = 1 << prio;
            self.activate(index);
        }
        taken
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        for level in 0..LEVELS {
            self.wake(now, level);
            for prio in 0..PRIORITIES {
                if self.rows[level][prio].classes.is_empty() {
                    continue;
                }
                if let Some(packet) = self.take(now, level, prio, out) {
                    return Some(packet);
                }
            }
        }
        None
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        let mut waits = false;
        let mut next = None;
        for (index, leaf) in self.queues().filter(|(_, leaf)| !leaf.is_empty()) {
            waits = true;
            if self.may_send(index) {
                next = leaf::earliest([next, leaf.next_dequeue(now)].into_iter());
            }
        }
        let wakes = self.waiting.iter().map(|level| level.first().map(|w| w.0));
        let wake = leaf::earliest(wakes).map(|at| at.max(now));
        leaf::earliest([next, wake].into_iter()).filter(|_| waits)
    }

    fn next_tick(&self) -> Option<Instant> {
        leaf::earliest(self.queues().map(|(_, leaf)| leaf.next_tick()))
    }

    fn tick(&mut self, now: Instant) {
        let leaves = self.classes.iter_mut().filter_map(|c| c.leaf.as_mut());
        leaves.for_each(|leaf| leaf.tick(now));
    }

    fn counts(&self) -> QueueCounts {
        leaf::sum(self.queues().map(|(_, leaf)| leaf))
    }

    fn bands(&self) -> &'static [&'static str] {
        HtbConfig::BANDS
    }

    fn band_of(&self, _: &Packet) -> u8 {
        self.last
    }

    fn link_rate_changed(&mut self, rate: Rate) {
        let leaves = self.classes.iter_mut().filter_map(|c| c.leaf.as_mut());
        leaves.for_each(|leaf| leaf.link_rate_changed(rate));
    }

    /// Tokens stay as they are, as in Linux; a priority holds once the class has been empty.
    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "htb", words)?;
        for (class, new) in self.classes.iter_mut().zip(&self.config.classes) {
            class.rate = new.rate;
            class.ceil = new.ceiling();
            class.buckets = new.buckets();
            class.prio = new.prio as usize;
            class.quantum = new.turn(self.config.r2q);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
