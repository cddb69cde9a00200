//! `prio`: bands that are served in their order, by the priority that Linux gives a packet.
//!
//! Sources: Linux net/sched/sch_prio.c v6.17; iproute2 tc/q_prio.c. A band holds a pfifo
//! unless `band N queue (…)` names another queue, as tc does by `parent 1:N`.

use narrows_core::{EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Rate, Rng, Word, WordError, Words,
};

use crate::QueueSpec;
use crate::leaf::{self, Leaf};
use crate::link_facts::LinkFacts;
use crate::priority::{self, DEFAULT_MAP, MAP_ALLOWED, PRIORITIES, priority_of};
use crate::reading::{self, Holds, Parameters, is, place_of, several};

/// Least and greatest number of bands (`TCQ_MIN_PRIO_BANDS`, `TCQ_PRIO_BANDS`).
const BANDS: std::ops::RangeInclusive<u8> = 2..=16;
const BANDS_ALLOWED: &str = "2 to 16 bands";
/// Bands unless named (tc).
const DEFAULT_BANDS: u8 = 3;
const BAND_ALLOWED: &str = "a band below `bands`, then `queue` and a queue in brackets";

/// Parameters of `prio`.
#[derive(Clone, Debug, PartialEq)]
pub struct PrioConfig {
    /// How many bands there are.
    pub bands: u8,
    /// The band of each priority.
    pub priomap: [u8; PRIORITIES],
    /// The queue of each band that has another than `pfifo`, in the order of bands.
    pub queues: Vec<(u8, QueueSpec)>,
}

impl Default for PrioConfig {
    fn default() -> Self {
        Self {
            bands: DEFAULT_BANDS,
            priomap: DEFAULT_MAP,
            queues: Vec::new(),
        }
    }
}

impl PrioConfig {
    fn queue(&self, band: u8) -> QueueSpec {
        let named = self.queues.iter().find(|(of, _)| *of == band);
        named.map_or_else(QueueSpec::default, |(_, queue)| queue.clone())
    }
}

impl Parameters for PrioConfig {
    const BANDS: &'static [&'static str] = &priority::BAND_NAMES;

    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "bands NUMBER",
            ParameterKind::Number("bands"),
            BANDS_ALLOWED,
            "3",
            "Bands, which a running queue keeps",
        ),
        Parameter::new(
            "priomap P0 … P15",
            ParameterKind::Words,
            MAP_ALLOWED,
            "1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
            "The band of each priority that a packet's TOS field may give it",
        ),
        Parameter::new(
            "band NUMBER queue (…)",
            ParameterKind::Words,
            BAND_ALLOWED,
            "a pfifo in each",
            "The queue of a band, which a running queue keeps",
        ),
    ];

    fn values(&self) -> Vec<Holds> {
        let queues = self.queues.iter();
        let queues = queues.map(|(band, queue)| format!("{band} queue ({queue})"));
        vec![
            is(self.bands),
            is(priority::written(&self.priomap)),
            several("band", queues),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "bands" => {
                self.bands = words.value_where(BANDS_ALLOWED, |n: &u8| BANDS.contains(n))?;
            }
            "priomap" => priority::read_map(words, &mut self.priomap)?,
            "band" => {
                let band = words.value_where(BAND_ALLOWED, |n: &u8| *n < *BANDS.end())?;
                if !words.take_if("queue") {
                    return Err(match words.take() {
                        Some(word) => word.refused("`queue` and a queue in brackets"),
                        None => words.ended("`queue` and a queue in brackets"),
                    });
                }
                let queue = leaf::read(words)?;
                if self
                    .queues
                    .iter()
                    .any(|(of, was)| *of == band && *was != queue)
                {
                    return Err(
                        key.refused("each band once; a running queue keeps those of its bands")
                    );
                }
                self.queues.retain(|(of, _)| *of != band);
                self.queues.push((band, queue));
                self.queues.sort_by_key(|(of, _)| *of);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// As in Linux, every priority has to have a band that there is.
    fn check(&mut self, line: &str) -> Result<(), WordError> {
        let bands = self.bands;
        let refused = |key: &str, found: u8| {
            let allowed = format!("bands below {bands}");
            Err(WordError::new(
                place_of(line, key),
                format!("band {found}"),
                allowed,
            ))
        };
        if let Some(band) = self.priomap.iter().find(|band| **band >= bands) {
            let key = match place_of(line, "priomap").is_empty() {
                true => "bands",
                false => "priomap",
            };
            return refused(key, *band);
        }
        match self.queues.iter().find(|(band, _)| *band >= bands) {
            Some((band, _)) => refused("band", *band),
            None => Ok(()),
        }
    }

    fn check_change(&self, old: &Self, line: &str) -> Result<(), WordError> {
        if old.bands != self.bands {
            return Err(reading::kept(line, "bands", old.bands));
        }
        if old.queues != self.queues {
            return Err(reading::kept(line, "band", "and its queue as they are"));
        }
        Ok(())
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    fn bucket_of(&self, _: Rng, _: &Packet) -> Option<usize> {
        None
    }
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// The last band goes first.
    Backwards,
    /// A band that has packets and gives none now stops those behind it.
    Waits,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Prio {
    config: PrioConfig,
    bands: Vec<Leaf>,
    /// The band that sent last.
    last: u8,
    #[cfg(test)]
    mutant: Option<Mutant>,
}

impl Prio {
    pub fn new(config: PrioConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        let leaf = |band| Leaf::new(&config.queue(band), entity, link, &mut rng);
        Self {
            bands: (0..config.bands).map(leaf).collect(),
            last: 0,
            config,
            #[cfg(test)]
            mutant: None,
        }
    }
}

impl Queue for Prio {
    fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        let band = self.config.priomap[priority_of(&packet)];
        self.bands[usize::from(band)].enqueue(now, packet, out)
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        for index in 0..self.bands.len() {
            #[cfg(test)]
            let index = match self.mutant {
                Some(Mutant::Backwards) => self.bands.len() - 1 - index,
                _ => index,
            };
            if let Some(packet) = self.bands[index].dequeue(now, out) {
                self.last = index as u8;
                return Some(packet);
            }
            #[cfg(test)]
            if self.mutant == Some(Mutant::Waits) && !self.bands[index].is_empty() {
                return None;
            }
        }
        None
    }

    /// A packet of a band before may still come first (`prio_peek`).
    fn peek(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<u32> {
        self.bands.iter_mut().find_map(|band| band.peek(now, out))
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        leaf::earliest(self.bands.iter().map(|band| band.next_dequeue(now)))
    }

    fn next_tick(&self) -> Option<Instant> {
        leaf::earliest(self.bands.iter().map(Leaf::next_tick))
    }

    fn tick(&mut self, now: Instant) {
        self.bands.iter_mut().for_each(|band| band.tick(now));
    }

    fn counts(&self) -> QueueCounts {
        leaf::sum(self.bands.iter())
    }

    fn bands(&self) -> &'static [&'static str] {
        PrioConfig::BANDS
    }

    fn band_of(&self, _: &Packet) -> u8 {
        self.last
    }

    fn link_rate_changed(&mut self, rate: Rate) {
        let bands = self.bands.iter_mut();
        bands.for_each(|band| band.link_rate_changed(rate));
    }

    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "prio", words)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, ETHERNET, ms};

    const FRAME: u32 = 1514;

    fn queue(words: &str, mutant: Option<Mutant>) -> Bench {
        let mut b = Bench::new(words);
        let words = words.strip_prefix("prio").unwrap();
        let config = reading::fresh::<PrioConfig>(Words::new(words)).unwrap();
        let mut queue = Prio::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
        queue.mutant = mutant;
        b.queue = Box::new(queue);
        b
    }

    /// Flows in the order in which they leave, of packets with these TOS octets.
    fn order(words: &str, classes: &[u8], mutant: Option<Mutant>) -> Vec<u16> {
        let mut b = queue(words, mutant);
        for (flow, class) in classes.iter().enumerate() {
            b.offer_class(ms(1), flow as u16, *class, FRAME);
        }
        std::iter::from_fn(|| b.take(ms(1)))
            .map(|t| t.flow)
            .collect()
    }

    #[test]
    fn the_bands_go_in_their_order_and_packets_in_theirs() {
        // Bulk is band 2, best effort 1, interactive 0, interactive bulk 1.
        let classes = [0x08, 0x00, 0x10, 0x18, 0x10];
        assert_eq!(order("prio", &classes, None), [2, 4, 1, 3, 0]);
        assert_ne!(
            order("prio", &classes, Some(Mutant::Backwards)),
            [2, 4, 1, 3, 0]
        );
        let words = "prio bands 2 priomap 0 0 1 1 0 0 1 0 0 0 0 0 0 0 0 0";
        assert_eq!(order(words, &classes, None), [1, 3, 0, 2, 4]);
    }

    #[test]
    fn a_band_that_holds_its_packets_back_lets_the_next_one_send() {
        let words = "prio band 0 queue (tbf rate 1Mbit burst 1600 limit 30000)";
        let passes = |mutant| {
            let mut b = queue(words, mutant);
            (0..2).for_each(|_| assert!(b.offer_class(ms(1), 0, 0x10, FRAME).1));
            b.offer_class(ms(1), 1, 0, FRAME);
            let flows: Vec<_> = std::iter::from_fn(|| b.take(ms(1)))
                .map(|t| t.flow)
                .collect();
            // 1514 bytes less the 86 that are left take 11.424 ms at 125 kB/s.
            let next = b.queue.next_dequeue(ms(1)).map(|at| at.as_nanos());
            (flows, next)
        };
        assert_eq!(passes(None), (vec![0, 1], Some(1_000_000 + 11_424_000)));
        assert_eq!(passes(Some(Mutant::Waits)).0, [0]);
    }

    #[test]
    fn each_band_has_a_queue_and_a_name_of_its_own() {
        let mut b = queue("prio band 1 queue (pfifo limit 1)", None);
        assert!(b.offer_class(ms(1), 0, 0, FRAME).1);
        assert!(!b.offer_class(ms(1), 0, 0, FRAME).1);
        assert!(b.offer_class(ms(1), 0, 0x10, FRAME).1);
        assert_eq!(b.queue.counts().dropped, 1);
        let bands: Vec<_> = std::iter::from_fn(|| b.take(ms(1)))
            .map(|t| t.band)
            .collect();
        assert_eq!(bands, [0, 1]);
    }

    #[test]
    fn what_tc_refuses_is_refused() {
        let refused = |words: &str| {
            let e = QueueSpec::parse(words).unwrap_err();
            words[e.span].to_owned()
        };
        assert_eq!(refused("prio bands 1"), "1");
        assert_eq!(refused("prio bands 17"), "17");
        // The usual map has a band 2.
        assert_eq!(refused("prio bands 2"), "bands");
        assert_eq!(refused("prio priomap 3"), "priomap");
        assert_eq!(refused("prio band 3 queue (pfifo)"), "band");
        assert_eq!(refused("prio band 0 queue pfifo"), "pfifo");
        assert_eq!(refused("prio band 0 queue (pfifo limit 0)"), "0");
        // The queue of a band may be said again, and not be another one.
        let twice = |queue: &str| format!("prio band 0 queue (codel) band 0 queue ({queue})");
        assert!(QueueSpec::parse(&twice("codel")).is_ok());
        assert!(QueueSpec::parse(&twice("pie")).is_err());
        let mut b = queue("prio", None);
        assert!(b.queue.change(ms(1), "bands 4").is_err());
        assert!(b.queue.change(ms(1), "band 0 queue (codel)").is_err());
        b.queue.change(ms(1), "prio priomap 0").unwrap();
        b.offer_class(ms(1), 0, 0, FRAME);
        assert_eq!(b.take(ms(1)).map(|t| t.band), Some(0));
    }
}
