//! `drr`: classes that take turns, each with as many bytes as its quantum.
//!
//! Sources: Linux net/sched/sch_drr.c v6.17; iproute2 tc/q_drr.c; Shreedhar and Varghese,
//! "Efficient Fair Queuing using Deficit Round Robin" (1995). Which packets are of which class
//! the line says (`dscp`), where tc has filters; a class without takes the rest, so that none is
//! unclassified, which Linux drops. Weights are the quanta: 3028 and 1514 are 2 : 1.

use std::collections::VecDeque;
use std::fmt;

use narrows_core::{EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Bytes, Duration, Instant, Parameter, ParameterKind, Rate, Rng, Word, WordError, WordWriter,
    Words,
};

use crate::QueueSpec;
use crate::classes::{
    self, ByDscp, CLASS_PARAMETER, Class, DSCP_PARAMETER, Dscps, QUEUE_PARAMETER,
};
use crate::leaf::{self, Leaf};
use crate::link_facts::LinkFacts;
use crate::reading::{self, Holds, Parameters, several};

/// Classes of one queue: a DSCP each, and one for the rest.
const MAX_CLASSES: usize = 65;
const QUANTUM_ALLOWED: &str = "a size from 1b to 4095Mb";

/// A class of `drr`.
#[derive(Clone, Debug, PartialEq)]
pub struct DrrClass {
    /// Its name.
    pub name: String,
    /// Bytes of a turn; unset: one full frame, 1514 on Ethernet.
    pub quantum: Option<u32>,
    /// What it takes; unset: what no other class takes.
    pub dscps: Option<Dscps>,
    /// Its queue.
    pub queue: QueueSpec,
}

impl fmt::Display for DrrClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        WordWriter::new(f)
            .some("dscp", self.dscps.as_ref())
            .some("quantum", self.quantum)
            .some("queue", leaf::written(&self.queue))
            .finish()
    }
}

impl Class for DrrClass {
    const WORD: &'static str = "class";

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            quantum: None,
            dscps: None,
            queue: QueueSpec::default(),
        }
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn dscps(&self) -> Option<&Dscps> {
        self.dscps.as_ref()
    }

    fn queue(&self) -> &QueueSpec {
        &self.queue
    }
}

/// Parameters of `drr`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrrConfig {
    /// The classes, in their order.
    pub classes: Vec<DrrClass>,
    /// The one that is being read.
    current: Option<usize>,
}

impl Parameters for DrrConfig {
    const BANDS: &'static [&'static str] = crate::classes::BAND_NAMES;

    const PARAMETERS: &'static [Parameter] = &[
        CLASS_PARAMETER,
        DSCP_PARAMETER,
        Parameter::new(
            "quantum BYTES",
            ParameterKind::Size,
            QUANTUM_ALLOWED,
            "one full frame",
            "Bytes of the class in a turn: its weight",
        ),
        QUEUE_PARAMETER,
    ];

    fn values(&self) -> Vec<Holds> {
        vec![several("class", &self.classes)]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        let class = |config: &mut Self| -> Result<usize, WordError> {
            classes::current(&mut config.classes, config.current, key)?;
            Ok(config.current.unwrap_or_default())
        };
        match key.text {
            "class" => {
                self.current = Some(classes::begin(&mut self.classes, words)?);
                if self.classes.len() > MAX_CLASSES {
                    return Err(key.refused("at most 65 classes"));
                }
            }
            "dscp" => {
                let at = class(self)?;
                self.classes[at].dscps = Some(words.value()?);
            }
            "quantum" => {
                let at = class(self)?;
                let quantum = words
                    .value_where(QUANTUM_ALLOWED, |n: &Bytes| (1..1 << 32).contains(&n.get()))?;
                self.classes[at].quantum = Some(quantum.get() as u32);
            }
            "queue" => {
                let at = class(self)?;
                self.classes[at].queue = leaf::read(words)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn check(&mut self, line: &str) -> Result<(), WordError> {
        self.current = None;
        classes::check(self.classes.iter(), line)
    }

    fn check_change(&self, old: &Self, line: &str) -> Result<(), WordError> {
        let kept = |c: &DrrConfig| -> Vec<_> {
            let each = c.classes.iter().cloned();
            each.map(|class| DrrClass {
                quantum: None,
                ..class
            })
            .collect()
        };
        match kept(self) == kept(old) {
            true => Ok(()),
            false => Err(reading::kept(
                line,
                "class",
                "with its queue and DSCPs as they are",
            )),
        }
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    /// Flows of one class are not kept apart.
    fn bucket_of(&self, _: Rng, _: &Packet) -> Option<usize> {
        None
    }
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// What is left of a deficit is forgotten in the next turn.
    Forgets,
    /// A class that was empty keeps its old deficit.
    NotReset,
    /// A packet as long as the deficit has to wait.
    Strict,
}

/// A class at work.
#[derive(Debug)]
struct Turn {
    leaf: Leaf,
    quantum: u32,
    deficit: u64,
    listed: bool,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Drr {
    config: DrrConfig,
    frame: u32,
    by_dscp: ByDscp,
    turns: Vec<Turn>,
    active: VecDeque<usize>,
    /// The class that sent last.
    last: u8,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl Drr {
    pub fn new(config: DrrConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        let turns = config.classes.iter().map(|class| Turn {
            leaf: Leaf::new(class.queue(), entity, link, &mut rng),
            quantum: class.quantum.unwrap_or(link.frame()),
            deficit: 0,
            listed: false,
        });
        Self {
            frame: link.frame(),
            by_dscp: ByDscp::new(config.classes.iter()),
            turns: turns.collect(),
            active: VecDeque::with_capacity(config.classes.len()),
            last: 0,
            config,
            #[cfg(test)]
            mutant: None,
        }
    }

    #[cfg(test)]
    fn is(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }
}

impl Queue for Drr {
    fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        let index = self.by_dscp.of(&packet);
        let turn = &mut self.turns[index];
        let taken = turn.leaf.enqueue(now, packet, out);
        if !turn.listed && !turn.leaf.is_empty() {
            turn.listed = true;
            #[cfg(test)]
            if self.mutant == Some(Mutant::NotReset) {
                self.active.push_back(index);
                return taken;
            }
            turn.deficit = u64::from(turn.quantum);
            self.active.push_back(index);
        }
        taken
    }

    /// A class whose queue gives nothing now is passed over and keeps its turn; Linux stops
    /// there, and warns that such a queue does not belong into a class.
    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        let mut idle = 0;
        while idle < self.active.len() {
            let index = *self.active.front()?;
            #[cfg(test)]
            let (forgets, strict) = (self.is(Mutant::Forgets), self.is(Mutant::Strict));
            let turn = &mut self.turns[index];
            let Some(length) = turn.leaf.peek(now, out) else {
                self.active.pop_front();
                if turn.leaf.is_empty() {
                    turn.listed = false;
                } else {
                    self.active.push_back(index);
                    idle += 1;
                }
                continue;
            };
            let length = u64::from(length);
            #[cfg(test)]
            let length = length + u64::from(strict);
            if length > turn.deficit {
                #[cfg(test)]
                if forgets {
                    turn.deficit = 0;
                }
                turn.deficit += u64::from(turn.quantum);
                self.active.rotate_left(1);
                idle = 0;
                continue;
            }
            turn.deficit -= length;
            let packet = turn.leaf.dequeue(now, out)?;
            if turn.leaf.is_empty() {
                turn.listed = false;
                self.active.pop_front();
            }
            self.last = classes::band(index);
            return Some(packet);
        }
        None
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        leaf::earliest(self.turns.iter().map(|turn| turn.leaf.next_dequeue(now)))
    }

    fn next_tick(&self) -> Option<Instant> {
        leaf::earliest(self.turns.iter().map(|turn| turn.leaf.next_tick()))
    }

    fn tick(&mut self, now: Instant) {
        self.turns.iter_mut().for_each(|turn| turn.leaf.tick(now));
    }

    fn counts(&self) -> QueueCounts {
        leaf::sum(self.turns.iter().map(|turn| &turn.leaf))
    }

    fn bands(&self) -> &'static [&'static str] {
        DrrConfig::BANDS
    }

    fn band_of(&self, _: &Packet) -> u8 {
        self.last
    }

    fn link_rate_changed(&mut self, rate: Rate) {
        let turns = self.turns.iter_mut();
        turns.for_each(|turn| turn.leaf.link_rate_changed(rate));
    }

    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "drr", words)?;
        for (turn, class) in self.turns.iter_mut().zip(&self.config.classes) {
            turn.quantum = class.quantum.unwrap_or(self.frame);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, ETHERNET, ms};

    /// DSCP 46 in the DS field.
    const EF: u8 = 46 << 2;

    fn queue(words: &str, mutant: Option<Mutant>) -> Bench {
        let mut b = Bench::new(words);
        let words = words.strip_prefix("drr").unwrap();
        let config = reading::fresh::<DrrConfig>(Words::new(words)).unwrap();
        let mut queue = Drr::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
        queue.mutant = mutant;
        b.queue = Box::new(queue);
        b
    }

    fn bands(b: &mut Bench) -> Vec<u8> {
        std::iter::from_fn(|| b.take(ms(1)))
            .map(|t| t.band)
            .collect()
    }

    /// Six packets of `length` of each of two classes, the first with twice the weight.
    fn order(length: u32, mutant: Option<Mutant>) -> Vec<u8> {
        let mut b = queue(
            "drr class a dscp 46 quantum 2000 class b quantum 1000",
            mutant,
        );
        for _ in 0..6 {
            b.offer_class(ms(1), 1, EF, length);
            b.offer_class(ms(1), 2, 0, length);
        }
        bands(&mut b)
    }

    #[test]
    fn quanta_are_weights_and_what_is_left_of_one_counts_in_the_next() {
        assert_eq!(order(1_000, None)[..9], [0, 0, 1, 0, 0, 1, 0, 0, 1]);
        assert_ne!(order(1_000, Some(Mutant::Strict)), order(1_000, None));
        // 2000 hold two packets of 800 and leave 400, so that the next turn has three; 1000
        // hold one and leave 200, then 400, 600 and, at the fourth turn, 800 for another.
        let want = [0, 0, 1, 0, 0, 0, 1, 0, 1, 1, 1, 1];
        assert_eq!(order(800, None), want);
        assert_ne!(order(800, Some(Mutant::Forgets)), want);
    }

    fn comes_back_with_a_quantum(mutant: Option<Mutant>) -> bool {
        let words = "drr class a dscp 46 quantum 2000 class b quantum 1000";
        let mut b = queue(words, mutant);
        b.offer_class(ms(1), 1, EF, 100);
        if bands(&mut b) != [0] {
            return false;
        }
        // A class that was empty starts with one quantum, two such packets, and no 1900 bytes.
        for class in [EF, EF, EF, 0] {
            b.offer_class(ms(1), 1, class, 1_000);
        }
        bands(&mut b) == [0, 0, 1, 0]
    }

    #[test]
    fn a_class_that_comes_back_has_one_quantum() {
        assert!(comes_back_with_a_quantum(None));
        assert!(!comes_back_with_a_quantum(Some(Mutant::NotReset)));
    }

    #[test]
    fn classes_are_chosen_by_dscp_and_have_queues_of_their_own() {
        let words = "drr class a dscp 46,34 queue (pfifo limit 1) class b dscp 8 class c";
        let mut b = queue(words, None);
        let taken: Vec<_> = [EF, 34 << 2, 8 << 2, 0, 63 << 2]
            .into_iter()
            .map(|class| b.offer_class(ms(1), 1, class | 1, 100).1)
            .collect();
        assert_eq!(taken, [true, false, true, true, true]);
        let mut bands = bands(&mut b);
        bands.sort_unstable();
        assert_eq!(bands, [0, 1, 2, 2]);
    }

    #[test]
    fn a_class_that_drops_all_it_has_gives_its_turn_away() {
        // CoDel drops from its head; the class may be empty when its turn comes.
        let words = "drr class a dscp 46 queue (codel limit 1) class b";
        let mut b = queue(words, None);
        b.offer_class(ms(1), 1, EF, 1_000);
        b.offer_class(ms(1), 2, 0, 1_000);
        assert_eq!(bands(&mut b), [0, 1]);
        assert!(b.queue.next_dequeue(ms(1)).is_none());
    }

    #[test]
    fn a_class_that_holds_its_packets_back_lets_the_others_send() {
        let words = "drr class a dscp 46 queue (tbf rate 1Mbit burst 1600 limit 30000) class b";
        let mut b = queue(words, None);
        for class in [EF, EF, 0] {
            assert!(b.offer_class(ms(1), 1, class, 1_514).1);
        }
        assert_eq!(bands(&mut b), [0, 1]);
        // 1514 bytes less the 86 that are left take 11.424 ms at 125 kB/s.
        let at = b.queue.next_dequeue(ms(1)).unwrap();
        assert_eq!(at.as_nanos(), 1_000_000 + 11_424_000);
        assert_eq!(b.take(at).map(|t| t.band), Some(0));
    }

    #[test]
    fn lines_that_leave_packets_without_a_class_or_in_two_are_refused() {
        let refused = |words: &str| {
            let e = QueueSpec::parse(words).unwrap_err();
            (words[e.span].to_owned(), e.found)
        };
        assert_eq!(refused("drr").1, "0 classes without `dscp`");
        assert_eq!(refused("drr class a dscp 46").1, "0 classes without `dscp`");
        assert_eq!(refused("drr class a class b").1, "2 classes without `dscp`");
        assert_eq!(refused("drr quantum 5").0, "quantum");
        assert_eq!(refused("drr class a class a").0, "a");
        assert_eq!(refused("drr class a dscp 64").0, "64");
        assert!(
            refused("drr class a dscp 8 class b dscp 8 class c")
                .1
                .contains("DSCP 8")
        );
        assert_eq!(refused("drr class a quantum 0").0, "0");
        assert_eq!(refused("drr class a queue (red)").0, "red");
    }

    #[test]
    fn a_change_gives_other_quanta_and_no_other_classes() {
        let mut b = queue("drr class a dscp 46 class b", None);
        b.queue.change(ms(1), "drr class a quantum 3028").unwrap();
        for class in [EF, EF, 0] {
            b.offer_class(ms(1), 1, class, 1_514);
        }
        assert_eq!(bands(&mut b), [0, 0, 1]);
        for words in ["class c dscp 8", "class a dscp 5", "class a queue (codel)"] {
            assert!(b.queue.change(ms(1), words).is_err(), "{words}");
        }
    }

    #[test]
    fn there_is_a_class_for_each_dscp_and_one_for_the_rest() {
        let line = |rest: &str| {
            let each: String = (0..64).map(|n| format!(" class c{n} dscp {n}")).collect();
            format!("drr{each}{rest}")
        };
        assert!(QueueSpec::parse(&line(" class rest")).is_ok());
        let e = QueueSpec::parse(&line(" class rest class more")).unwrap_err();
        assert_eq!(e.allowed, "at most 65 classes");
    }
}
