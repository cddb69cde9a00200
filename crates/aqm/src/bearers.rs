//! `bearers`: the queues of a mobile terminal's bearers, served by the priority of their QCI.
//!
//! Sources: 3GPP TS 23.401 §4.7.2 (bearers and traffic flow templates), TS 23.203 table 6.1.7
//! (priorities), TS 36.321 §5.4.3.1 (what has a higher priority goes first). Which packets a
//! bearer takes the line says by their DSCP, the template that operators use for marked traffic;
//! a bearer without takes the rest, as the default one does. Deviations: guaranteed and prioritised
//! bit rates do not exist, so that a bearer of high priority can use up the terminal's share.

use std::fmt;

use narrows_core::{EntityId, Outlet, Packet, Queue, QueueCounts};
use narrows_units::{
    Duration, Instant, Parameter, ParameterKind, Rate, Rng, Word, WordError, WordWriter, Words,
};

use crate::QueueSpec;
use crate::classes::{self, ByDscp, Class, DSCP_PARAMETER, Dscps, NAME_ALLOWED};
use crate::leaf::{self, Leaf};
use crate::link_facts::LinkFacts;
use crate::reading::{self, Holds, Parameters, several};

/// Bearers of a terminal at most (TS 24.007 §11.2.3.1.5: EPS bearer identities 5 to 15).
const MAX_BEARERS: usize = 11;

/// The QCI of a default bearer (TS 23.203 table 6.1.7, note 6).
const DEFAULT_QCI: u8 = 9;

/// QCI and priority in tenths; the lowest goes first (TS 23.203 table 6.1.7, release 13).
const PRIORITIES: [(u8, u8); 13] = [
    (1, 20),
    (2, 40),
    (3, 30),
    (4, 50),
    (5, 10),
    (6, 60),
    (7, 70),
    (8, 80),
    (9, 90),
    (65, 7),
    (66, 20),
    (69, 5),
    (70, 55),
];
const QCI_ALLOWED: &str = "a QCI: 1 to 9, 65, 66, 69 or 70";

/// What a bearer holds unless its line says otherwise: as much as ns-3's unacknowledged mode
/// (`LteRlcUm`, MaxTxBufferSize).
const DEFAULT_QUEUE: &str = "bfifo limit 10240";

fn priority(qci: u8) -> Option<u8> {
    let known = PRIORITIES.iter().find(|(known, _)| *known == qci);
    known.map(|(_, priority)| *priority)
}

fn default_queue() -> QueueSpec {
    QueueSpec::parse(DEFAULT_QUEUE).unwrap_or_default()
}

/// A bearer.
#[derive(Clone, Debug, PartialEq)]
pub struct Bearer {
    /// Its name.
    pub name: String,
    /// The class of service, from which its priority follows.
    pub qci: u8,
    /// What it takes; unset: what no other bearer takes.
    pub dscps: Option<Dscps>,
    /// Its queue.
    pub queue: QueueSpec,
}

impl fmt::Display for Bearer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = (self.queue != default_queue()).then(|| format!("({})", self.queue));
        f.write_str(&self.name)?;
        WordWriter::new(f)
            .some("dscp", self.dscps.as_ref())
            .stated("qci", self.qci, DEFAULT_QCI)
            .some("queue", queue)
            .finish()
    }
}

impl Class for Bearer {
    const WORD: &'static str = "bearer";

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            qci: DEFAULT_QCI,
            dscps: None,
            queue: default_queue(),
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

/// Parameters of `bearers`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BearersConfig {
    /// The bearers, in the order of their line.
    pub bearers: Vec<Bearer>,
    /// The one that is being read.
    current: Option<usize>,
}

impl Parameters for BearersConfig {
    const BANDS: &'static [&'static str] = classes::BAND_NAMES;

    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "bearer NAME",
            ParameterKind::Words,
            NAME_ALLOWED,
            "",
            "Begins a bearer, which what follows belongs to; a running queue keeps its bearers",
        ),
        DSCP_PARAMETER,
        Parameter::new(
            "qci NUMBER",
            ParameterKind::Number(""),
            QCI_ALLOWED,
            "9",
            "The class of service of the bearer, from which its priority follows",
        ),
        Parameter::new(
            "queue (…)",
            ParameterKind::Words,
            leaf::ALLOWED,
            "a bfifo of 10240 bytes",
            "The queue of the bearer, which a running queue keeps",
        ),
    ];

    fn values(&self) -> Vec<Holds> {
        vec![several("bearer", &self.bearers)]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "bearer" => {
                self.current = Some(classes::begin(&mut self.bearers, words)?);
                if self.bearers.len() > MAX_BEARERS {
                    return Err(key.refused("at most 11 bearers"));
                }
            }
            "dscp" => self.bearer(key)?.dscps = Some(words.value()?),
            "qci" => {
                let known = |qci: &u8| priority(*qci).is_some();
                self.bearer(key)?.qci = words.value_where(QCI_ALLOWED, known)?;
            }
            "queue" => self.bearer(key)?.queue = leaf::read(words)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn check(&mut self, line: &str) -> Result<(), WordError> {
        self.current = None;
        classes::check(self.bearers.iter(), line)
    }

    fn check_change(&self, old: &Self, line: &str) -> Result<(), WordError> {
        match self.bearers == old.bearers {
            true => Ok(()),
            false => Err(reading::kept(line, "bearer", "as they are")),
        }
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    /// Flows of one bearer are not kept apart.
    fn bucket_of(&self, _: Rng, _: &Packet) -> Option<usize> {
        None
    }
}

impl BearersConfig {
    /// The bearer that `key` belongs to.
    fn bearer(&mut self, key: Word<'_>) -> Result<&mut Bearer, WordError> {
        classes::current(&mut self.bearers, self.current, key)
    }
}

/// A plausible wrong rule: a test proves that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mutant {
    /// The lowest number goes first.
    ByQci,
    /// Bearers are served in the order of their line.
    InLine,
}

/// The queue itself.
#[derive(Debug)]
pub(crate) struct Bearers {
    config: BearersConfig,
    by_dscp: ByDscp,
    leaves: Vec<Leaf>,
    /// Places of the bearers, that of the highest priority first; equals in the line's order.
    order: Vec<usize>,
    /// The bearer that sent last.
    last: u8,
}

impl Bearers {
    pub fn new(config: BearersConfig, entity: EntityId, link: LinkFacts, mut rng: Rng) -> Self {
        let leaves = config.bearers.iter();
        let leaves = leaves.map(|bearer| Leaf::new(bearer.queue(), entity, link, &mut rng));
        let mut order: Vec<_> = (0..config.bearers.len()).collect();
        order.sort_by_key(|place| priority(config.bearers[*place].qci));
        Self {
            by_dscp: ByDscp::new(config.bearers.iter()),
            leaves: leaves.collect(),
            order,
            last: 0,
            config,
        }
    }

    #[cfg(test)]
    fn with(mut self, mutant: Option<Mutant>) -> Self {
        match mutant {
            Some(Mutant::ByQci) => {
                let bearers = &self.config.bearers;
                self.order.sort_by_key(|place| bearers[*place].qci);
            }
            Some(Mutant::InLine) => self.order.sort_unstable(),
            None => {}
        }
        self
    }
}

impl Queue for Bearers {
    fn enqueue(&mut self, now: Instant, packet: Box<Packet>, out: &mut Outlet<'_>) -> bool {
        let place = self.by_dscp.of(&packet);
        self.leaves[place].enqueue(now, packet, out)
    }

    fn dequeue(&mut self, now: Instant, out: &mut Outlet<'_>) -> Option<Box<Packet>> {
        for place in &self.order {
            if let Some(packet) = self.leaves[*place].dequeue(now, out) {
                self.last = classes::band(*place);
                return Some(packet);
            }
        }
        None
    }

    /// What is sent of a bearer in a subframe leaves room for those of higher priorities, whatever
    /// packet it was in the middle of (TS 36.321 §5.4.3.1).
    fn overtakes(&self, begun: &Packet) -> bool {
        let of = |place: usize| priority(self.config.bearers[place].qci);
        let begun = of(self.by_dscp.of(begun));
        let mut waiting = (0..self.leaves.len()).filter(|place| !self.leaves[*place].is_empty());
        waiting.any(|place| of(place) < begun)
    }

    fn next_dequeue(&self, now: Instant) -> Option<Instant> {
        leaf::earliest(self.leaves.iter().map(|leaf| leaf.next_dequeue(now)))
    }

    fn next_tick(&self) -> Option<Instant> {
        leaf::earliest(self.leaves.iter().map(Leaf::next_tick))
    }

    fn tick(&mut self, now: Instant) {
        self.leaves.iter_mut().for_each(|leaf| leaf.tick(now));
    }

    fn counts(&self) -> QueueCounts {
        leaf::sum(self.leaves.iter())
    }

    fn bands(&self) -> &'static [&'static str] {
        BearersConfig::BANDS
    }

    fn band_of(&self, _: &Packet) -> u8 {
        self.last
    }

    fn link_rate_changed(&mut self, rate: Rate) {
        let leaves = self.leaves.iter_mut();
        leaves.for_each(|leaf| leaf.link_rate_changed(rate));
    }

    fn change(&mut self, _now: Instant, words: &str) -> Result<(), WordError> {
        self.config = reading::changed(&self.config, "bearers", words)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, ETHERNET, between, ms};

    /// DSCPs in the DS field.
    const EF: u8 = 46 << 2;
    const AF41: u8 = 34 << 2;

    fn queue(words: &str, mutant: Option<Mutant>) -> Bench {
        let mut b = Bench::new(words);
        let words = words.strip_prefix("bearers").unwrap();
        let config = reading::fresh::<BearersConfig>(Words::new(words)).unwrap();
        let queue = Bearers::new(config, EntityId(7), ETHERNET, Rng::for_name(1, "queue"));
        b.queue = Box::new(queue.with(mutant));
        b
    }

    /// The bearers in the order in which packets of these DS fields leave.
    fn order(words: &str, classes: &[u8], mutant: Option<Mutant>) -> Vec<u8> {
        let mut b = queue(words, mutant);
        for class in classes {
            assert!(b.offer_class(ms(1), 1, *class, 500).1);
        }
        std::iter::from_fn(|| b.take(ms(1)))
            .map(|t| t.band)
            .collect()
    }

    #[test]
    fn bearers_go_by_the_priority_of_their_qci_and_not_by_its_number() {
        let words = "bearers bearer default bearer video qci 7 dscp 34 bearer ims qci 5 dscp 46";
        let all = [0, AF41, EF, 0, AF41, EF];
        assert_eq!(order(words, &all, None), [2, 2, 1, 1, 0, 0]);
        let mutant = order(words, &all, Some(Mutant::InLine));
        assert_eq!(mutant, [0, 0, 1, 1, 2, 2]);
        // 65 has priority 0.7 and goes before 5 with 1, and before 1 with 2.
        let words = "bearers bearer a qci 1 dscp 46 bearer b qci 65 dscp 34 bearer c qci 5";
        assert_eq!(order(words, &all, None), [1, 1, 2, 2, 0, 0]);
        assert_ne!(
            order(words, &all, Some(Mutant::ByQci)),
            order(words, &all, None)
        );
        // 2 has priority 4, and 3 has 3.
        let words = "bearers bearer a qci 2 dscp 46 bearer b qci 3";
        assert_eq!(order(words, &[EF, 0], None), [1, 0]);
    }

    #[test]
    fn what_waits_overtakes_a_begun_packet_of_a_lower_priority_alone() {
        let words = "bearers bearer default bearer video qci 7 dscp 34 bearer ims qci 5 dscp 46";
        let all = [0, AF41, EF];
        for waiting in [None, Some(0), Some(1), Some(2)] {
            let mut b = queue(words, None);
            if let Some(place) = waiting {
                b.offer_class(ms(1), 1, all[place], 500);
            }
            for (place, class) in all.into_iter().enumerate() {
                let begun = between(&mut b.pool, ms(1), [1, 1], 1, class, 500);
                // Later in the line is of a higher priority here.
                let want = waiting.is_some_and(|waiting| waiting > place);
                assert_eq!(b.queue.overtakes(&begun), want, "{waiting:?}, {place}");
            }
        }
    }

    #[test]
    fn a_bearer_holds_ten_kib_unless_its_line_says_otherwise() {
        let mut b = queue("bearers bearer a", None);
        // 1024 bytes, Ethernet's header among them.
        let taken = (0..12).filter(|_| b.offer_class(ms(1), 1, 0, 1024).1);
        assert_eq!(taken.count(), 10);
        let mut b = queue(
            "bearers bearer a dscp 46 queue (pfifo limit 1) bearer b",
            None,
        );
        assert!(b.offer_class(ms(1), 1, EF, 500).1);
        assert!(!b.offer_class(ms(1), 1, EF, 500).1);
        assert!(b.offer_class(ms(1), 1, 0, 500).1);
    }

    #[test]
    fn a_line_is_written_as_it_is_read_and_mistakes_are_named() {
        let line = "bearers bearer voice dscp 46,34 qci 7 queue (bfifo limit 3000) bearer rest";
        assert_eq!(QueueSpec::parse(line).unwrap().to_string(), line);
        let refused = |words: &str| {
            let e = QueueSpec::parse(words).unwrap_err();
            (words[e.span].to_owned(), e.found)
        };
        assert_eq!(refused("bearers").1, "0 bearers without `dscp`");
        assert_eq!(
            refused("bearers bearer a bearer b").1,
            "2 bearers without `dscp`"
        );
        assert_eq!(refused("bearers bearer a bearer a").0, "a");
        assert_eq!(refused("bearers bearer a qci 10").0, "10");
        assert_eq!(refused("bearers qci 7").0, "qci");
        let mut b = queue("bearers bearer a", None);
        assert!(b.queue.change(ms(1), "bearer a qci 7").is_err());
        b.queue.change(ms(1), "bearer a").unwrap();
    }
}
