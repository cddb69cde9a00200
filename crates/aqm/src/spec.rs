//! Any queue by its words.

use std::fmt;

use narrows_packet::{EntityId, Packet, Queue};
use narrows_units::{Rate, Rng, WordError, Words};

use crate::cnq::{self, Cnq};
use crate::codel::{self, CodelQueue};
use crate::dualpi2::{self, DualPi2};
use crate::fifo::{Fifo, FifoConfig, Unit};
use crate::fq_codel::{self, FqCodel};
use crate::pie::{self, PieQueue};
use crate::reading;
use crate::red::{self, RedQueue};

/// What a queue needs to know of the link that it feeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkFacts {
    /// Rate at which the link drains the queue when the run starts.
    pub rate: Rate,
    /// Bytes that the link counts per packet beside the IP packet.
    pub overhead: u32,
    /// Largest IP packet of the link in bytes.
    pub mtu: u32,
}

impl LinkFacts {
    /// Bytes that the link counts for its largest packet: Linux's
    /// `psched_mtu`, 1514 for Ethernet.
    pub const fn frame(&self) -> u32 {
        self.mtu + self.overhead
    }
}

/// A queue discipline and its parameters, checked, not yet built.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum QueueSpec {
    /// Tail drop at a number of packets.
    Pfifo(FifoConfig),
    /// Tail drop at a number of bytes.
    Bfifo(FifoConfig),
    /// One queue under CoDel (RFC 8289).
    Codel(codel::Config),
    /// Fair queueing with CoDel (RFC 8290).
    FqCodel(fq_codel::Config),
    /// One queue under PIE (RFC 8033).
    Pie(pie::Config),
    /// Random early detection.
    Red(red::Config),
    /// Coupled dual queue (RFC 9332).
    DualPi2(dualpi2::Config),
    /// Cheap nasty queue under CoDel with approximate fairness.
    CnqCodelAf(cnq::Config),
}

/// The kinds, for error messages.
const KINDS: &str = "a queue: pfifo, bfifo, codel, fq_codel, pie, red, dualpi2 or cnq_codel_af";

impl Default for QueueSpec {
    /// `pfifo`, as a Linux device has if nothing else is said.
    fn default() -> Self {
        Self::Pfifo(FifoConfig::default())
    }
}

/// What comes nearest to a queueing discipline of Linux that is not here.
fn nearest(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "cake" => {
            "the nearest is `fq_codel`: flows apart with CoDel in each, as in cake, but without              its hosts, tins and ACK filter; `rate RATE shaper queue fq_codel` shapes as it does"
        }
        "fq_pie" => "the nearest is `fq_codel`, flows apart, or `pie`, its AQM",
        "fq" | "sfq" | "drr" => "the nearest is `fq_codel`, which keeps flows apart",
        "sfb" | "choke" | "gred" => "the nearest is `red`",
        "pfifo_fast" | "mq" | "noqueue" | "prio" => "the nearest is `pfifo`",
        _ => return None,
    })
}

impl QueueSpec {
    /// Reads what follows `queue` in an element's line: the kind of queue and
    /// its parameters as tc writes them.
    ///
    /// # Errors
    /// When the kind or a parameter is unknown, or a value is one that tc or
    /// the kernel would refuse. The place in the error counts from the start
    /// of `words`.
    pub fn parse(words: &str) -> Result<Self, WordError> {
        let mut words = Words::new(words);
        let Some(kind) = words.take() else {
            return Err(words.ended(KINDS));
        };
        Ok(match kind.text {
            "pfifo" => Self::Pfifo(reading::fresh(words)?),
            "bfifo" => Self::Bfifo(reading::fresh(words)?),
            "codel" => Self::Codel(reading::fresh(words)?),
            "fq_codel" => Self::FqCodel(reading::fresh(words)?),
            "pie" => Self::Pie(reading::fresh(words)?),
            "red" => Self::Red(red::Config::read(words)?),
            "dualpi2" => Self::DualPi2(dualpi2::Config::read(words)?),
            "cnq_codel_af" => Self::CnqCodelAf(reading::fresh(words)?),
            other => {
                let error = WordError::new(kind.span(), format!("`{other}`"), KINDS);
                return Err(match nearest(other) {
                    Some(near) => error.with_help(format!("`{other}` is not here; {near}")),
                    None => error,
                });
            }
        })
    }

    /// The kind's name, the first word of its line.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Pfifo(_) => "pfifo",
            Self::Bfifo(_) => "bfifo",
            Self::Codel(_) => "codel",
            Self::FqCodel(_) => "fq_codel",
            Self::Pie(_) => "pie",
            Self::Red(_) => "red",
            Self::DualPi2(_) => "dualpi2",
            Self::CnqCodelAf(_) => "cnq_codel_af",
        }
    }

    /// The spec after a change in mid-run: `words` are parameters, with or
    /// without the kind before them; what they do not name stays.
    ///
    /// # Errors
    /// When the words are not this queue's, or name a parameter that cannot
    /// be changed while the queue runs.
    pub fn changed(&self, words: &str) -> Result<Self, WordError> {
        let kind = self.kind();
        Ok(match self {
            Self::Pfifo(c) => Self::Pfifo(reading::changed(c, kind, words)?),
            Self::Bfifo(c) => Self::Bfifo(reading::changed(c, kind, words)?),
            Self::Codel(c) => Self::Codel(reading::changed(c, kind, words)?),
            Self::FqCodel(c) => {
                let new = reading::changed(c, kind, words)?;
                fq_codel::refuse_other_flows(c, &new, words)?;
                Self::FqCodel(new)
            }
            Self::Pie(c) => Self::Pie(reading::changed(c, kind, words)?),
            Self::Red(c) => Self::Red(reading::changed(c, kind, words)?),
            Self::DualPi2(c) => Self::DualPi2(reading::changed(c, kind, words)?),
            Self::CnqCodelAf(c) => Self::CnqCodelAf(reading::changed(c, kind, words)?),
        })
    }

    /// The bucket into which the queue that [`build`](Self::build) makes with `rng`
    /// sorts `packet`: packets of one bucket are one flow to it. `None` of a queue
    /// that tells no flows apart.
    pub fn bucket_of(&self, rng: Rng, packet: &Packet) -> Option<usize> {
        match self {
            Self::FqCodel(c) => fq_codel::bucket_of(c, rng, packet),
            Self::CnqCodelAf(_) => Some(cnq::bucket_of(rng, packet)),
            _ => None,
        }
    }

    /// The queue itself, named `entity` in events, feeding `link`, with
    /// `rng` as its own generator.
    pub fn build(&self, entity: EntityId, link: LinkFacts, rng: Rng) -> Box<dyn Queue> {
        match self {
            Self::Pfifo(c) => Box::new(Fifo::new(c.clone(), Unit::Packets, entity, link)),
            Self::Bfifo(c) => Box::new(Fifo::new(c.clone(), Unit::Bytes, entity, link)),
            Self::Codel(c) => Box::new(CodelQueue::new(c.clone(), entity, link)),
            Self::FqCodel(c) => Box::new(FqCodel::new(c.clone(), entity, link, rng)),
            Self::Pie(c) => Box::new(PieQueue::new(c.clone(), entity, link, rng)),
            Self::Red(c) => Box::new(RedQueue::new(c.clone(), entity, link, rng)),
            Self::DualPi2(c) => Box::new(DualPi2::new(c.clone(), entity, link, rng)),
            Self::CnqCodelAf(c) => Box::new(Cnq::new(c.clone(), entity, link, rng)),
        }
    }
}

impl fmt::Display for QueueSpec {
    /// The words in tc's order, without those that say the default; with `#`
    /// every parameter that has a value of its own.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind())?;
        match self {
            Self::Pfifo(c) | Self::Bfifo(c) => c.fmt(f),
            Self::Codel(c) => c.fmt(f),
            Self::FqCodel(c) => c.fmt(f),
            Self::Pie(c) => c.fmt(f),
            Self::Red(c) => c.fmt(f),
            Self::DualPi2(c) => c.fmt(f),
            Self::CnqCodelAf(c) => c.fmt(f),
        }
    }
}

narrows_units::written_as_words!(QueueSpec);
