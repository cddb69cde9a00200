//! One box of a path as a scenario file writes it.

use std::fmt;
use std::net::IpAddr;

use narrows_aqm::QueueSpec;
use narrows_core::{Change, Element, EntityId, Packet};
use narrows_units::{Duration, Instant, WordError, Words};

use crate::by::BySpec;
use crate::mmb::MmbSpec;
use crate::mtu::MtuSpec;
use crate::nat::Nat;
use crate::netem::NetemSpec;
use crate::police::PoliceSpec;
use crate::rate::RateSpec;
use crate::recording::{Rates, Recording};
use crate::remark::RemarkSpec;
use crate::tap::Tap;
use crate::trace::TraceSpec;
use crate::waiting::rng_of;

/// Where a box stands; what it needs besides its own words.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// By which it reports. A tap reports by its observation point's.
    pub entity: EntityId,
    /// Its full name; with the seed it seeds the box's randomness.
    pub name: &'a str,
    /// The run's seed.
    pub seed: u64,
    /// The link's MTU in bytes of IP.
    pub mtu: u32,
    /// Whether the box is in the link's up direction.
    pub forward: bool,
    /// A two-way box's own addresses, IPv4 and IPv6; hosts' ways to them lead to the
    /// link's first end. Of no meaning to one-way elements.
    pub addresses: [IpAddr; 2],
}

/// What a scenario file says about one box:
///
/// | Words | Box |
/// |---|---|
/// | `rate RATE [overhead BYTES] [shaper] [queue …]` | [a link of limited rate](RateSpec) |
/// | `rate trace FILE [scale PERCENT] [overhead BYTES] [queue …]` | [a link whose rate a recording gives](TraceSpec) |
/// | `netem …` | [netem's impairments](NetemSpec) |
/// | `remark …` | [re-marking and bleaching](RemarkSpec) |
/// | `by dscp …`, `by ecn …` | [different boxes for different classes](BySpec) |
/// | `police rate RATE burst BYTES …` | [a policer](PoliceSpec) |
/// | `mtu BYTES [silent]` | [a link with a smaller MTU](MtuSpec) |
/// | `mmb NAME`, `mmb FILE`, `mmb add …` | [a middlebox by rules](MmbSpec) |
/// | `nat` | [source address and port translation](Nat) |
/// | `tap NAME` | an observation point |
///
/// `mtu`, `mmb` and `nat` are two-way boxes ([`Element`]): the one in `up` and the one of
/// the same name in `down` are one.
#[derive(Clone, Debug, PartialEq)]
pub enum ElementSpec {
    /// A link of limited rate.
    Rate(RateSpec),
    /// A link whose rate a recording gives.
    Trace(TraceSpec),
    /// Delay, jitter, loss, reordering, duplication, slots.
    Netem(NetemSpec),
    /// Sets DSCP or ECN.
    Remark(RemarkSpec),
    /// Different boxes by DSCP or ECN.
    By(BySpec),
    /// Drops or marks what exceeds a token bucket.
    Police(PoliceSpec),
    /// A link with a smaller MTU.
    Mtu(MtuSpec),
    /// What rules make of packets.
    Mmb(MmbSpec),
    /// Source address and port translation.
    Nat,
    /// An observation point of this name.
    Tap(String),
}

/// The words that elements begin with.
pub const ELEMENTS: [&str; 9] = [
    "rate", "netem", "remark", "by", "police", "mtu", "mmb", "nat", "tap",
];

fn allowed() -> String {
    let [kinds @ .., last] = ELEMENTS;
    format!("an element: {} or {last}", kinds.join(", "))
}

/// What to write for a line that was typed for tc: `tc qdisc add dev eth0 root netem
/// delay 10ms`.
fn of_tc(line: &str) -> Option<String> {
    const QUEUES: [&str; 8] = [
        "pfifo", "bfifo", "codel", "fq_codel", "pie", "red", "dualpi2", "cake",
    ];
    let mut words = Words::new(line);
    while let Some(word) = words.take() {
        let from = line[word.start..].trim_end();
        match word.text {
            "netem" => {
                return Some(format!(
                    "of a line for tc, write what the discipline is: `{from}`"
                ));
            }
            "tbf" | "htb" => break,
            kind if QUEUES.contains(&kind) => {
                return Some(format!(
                    "a queue belongs to a rate, which a device has by itself: \
                     `rate 50Mbit queue {from}`"
                ));
            }
            _ => {}
        }
    }
    Some(
        "write a shaper as `rate 50Mbit shaper queue …`, and netem as `netem delay 10ms`"
            .to_owned(),
    )
}

impl ElementSpec {
    /// Reads one element's words.
    ///
    /// # Errors
    /// When they are no element's; the span is that in `line`.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        let kind = words.needed(&allowed())?;
        Ok(match kind.text {
            "rate" if words.take_if("trace") => Self::Trace(TraceSpec::parse(&mut words)?),
            "rate" => Self::Rate(RateSpec::parse(&mut words)?),
            "netem" => Self::Netem(NetemSpec::parse(&mut words)?),
            "remark" => Self::Remark(RemarkSpec::parse(&mut words)?),
            "by" => Self::By(BySpec::parse(&mut words)?),
            "police" => Self::Police(PoliceSpec::parse(&mut words)?),
            "mtu" => Self::Mtu(MtuSpec::parse(&mut words)?),
            "mmb" => Self::Mmb(MmbSpec::parse(&mut words)?),
            "nat" => {
                require_end(words)?;
                Self::Nat
            }
            "tap" => Self::Tap(parse_tap(words)?),
            other => {
                let error = kind.refused(allowed());
                return Err(match other {
                    "delay" | "loss" | "reorder" | "duplicate" | "slot" => {
                        error.with_help(format!("write `netem {}`", line.trim()))
                    }
                    "queue" | "fq_codel" | "dualpi2" | "pfifo" | "codel" | "pie" | "red" => {
                        error.with_help("a queue belongs to a rate: `rate 50Mbit queue fq_codel`")
                    }
                    "tc" | "qdisc" | "sudo" => match of_tc(line) {
                        Some(help) => error.with_help(help),
                        None => error,
                    },
                    "tbf" | "htb" => {
                        error.with_help("write `rate 50Mbit shaper queue …` for a shaper")
                    }
                    _ => error,
                });
            }
        })
    }

    /// The element with `line` laid over it, words of any element. Of words of the same
    /// kind, what they do not name stays: of `rate` the overhead, the shaper and the
    /// queue with its parameters, of `netem` each clause. A recording in place of a
    /// rate, or a rate in place of a recording, keeps the queue. All else is another
    /// element in its place.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn overlaid(&self, line: &str) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        let Some(kind) = words.take() else {
            return Self::parse(line);
        };
        let recorded = kind.text == "rate" && words.take_if("trace");
        Ok(match (self, kind.text, recorded) {
            (Self::Rate(old), "rate", false) => {
                let mut new = old.clone();
                new.apply(&mut words)?;
                Self::Rate(new)
            }
            (Self::Trace(old), "rate", true) => {
                let mut new = old.clone();
                new.apply(&mut words)?;
                Self::Trace(new)
            }
            (Self::Rate(RateSpec { queue, .. }), "rate", true) => {
                let mut new = TraceSpec::with_queue(queue.clone());
                new.apply(&mut words)?;
                Self::Trace(new)
            }
            (Self::Trace(TraceSpec { queue, .. }), "rate", false) => {
                let mut new = RateSpec::with_queue(queue.clone());
                new.apply(&mut words)?;
                Self::Rate(new)
            }
            (Self::Netem(old), "netem", _) if words.peek().is_some() => {
                let mut new = *old;
                new.apply(&mut words)?;
                Self::Netem(new)
            }
            _ => Self::parse(line)?,
        })
    }

    /// The word that starts it, which is also its name where it has none.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rate(_) | Self::Trace(_) => "rate",
            Self::Netem(_) => "netem",
            Self::Remark(_) => "remark",
            Self::By(_) => "by",
            Self::Police(_) => "police",
            Self::Mtu(_) => "mtu",
            Self::Mmb(_) => "mmb",
            Self::Nat => "nat",
            Self::Tap(_) => "tap",
        }
    }

    /// The rates that it has from the start of a run on, if it is known at each time which.
    pub fn rates(&self) -> Option<Rates> {
        match self {
            Self::Rate(spec) => Some(Rates::new(vec![(Instant::ZERO, spec.rate)])),
            Self::Trace(spec) => match &spec.recording {
                Recording::Rates(rates) => Some(Rates::clone(rates)),
                Recording::Opportunities(_) => None,
            },
            _ => None,
        }
    }

    /// Whether it is a two-way box.
    pub fn is_two_way(&self) -> bool {
        matches!(self, Self::Mtu(_) | Self::Mmb(_) | Self::Nat)
    }

    /// Whether it gives packets other addresses, and so has to be in both directions.
    pub fn translates(&self) -> bool {
        match self {
            Self::Mmb(spec) => spec.translates(),
            other => matches!(other, Self::Nat),
        }
    }

    /// The box itself, at its place.
    pub fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        match self {
            Self::Rate(spec) => Box::new(spec.build(site)),
            Self::Trace(spec) => spec.build(site),
            Self::Netem(spec) => Box::new(spec.build(site)),
            Self::Remark(spec) => Box::new(spec.build()),
            Self::By(spec) => Box::new(spec.build(site)),
            Self::Police(spec) => Box::new(spec.build(site)),
            Self::Mtu(spec) => Box::new(spec.build(site)),
            Self::Mmb(spec) => Box::new(spec.build(site)),
            Self::Nat => Box::new(Nat::new(site)),
            Self::Tap(_) => Box::new(Tap::new(site.entity, site.forward)),
        }
    }

    /// The queue in front of it, if it has one.
    fn queue(&self) -> Option<&QueueSpec> {
        match self {
            Self::Rate(spec) => Some(&spec.queue),
            Self::Trace(spec) => Some(&spec.queue),
            _ => None,
        }
    }

    /// How long a packet may wait in its queue before it is marked for that alone, if its
    /// queue has such a threshold for a single packet.
    pub fn marking_step(&self) -> Option<Duration> {
        self.queue()?.marking_step()
    }

    /// Bytes that it counts for each packet above its IP length; 0 where it has no rate.
    pub fn overhead_bytes(&self) -> u32 {
        match self {
            Self::Rate(spec) => spec.overhead,
            Self::Trace(spec) => spec.overhead(),
            _ => 0,
        }
    }

    /// The bucket into which the queue of the element `name` sorts `packet` in a
    /// run with `seed`; `None` where no queue keeps flows apart.
    pub fn bucket_of(&self, seed: u64, name: &str, packet: &Packet) -> Option<usize> {
        self.queue()?.bucket_of(rng_of(seed, name), packet)
    }

    /// Tries `change` words on a box of this kind, so that a scenario with a
    /// wrong change is refused before anything runs.
    ///
    /// # Errors
    /// What the change would fail with.
    pub fn check_change(&self, words: &str) -> Result<(), WordError> {
        let site = Site {
            entity: EntityId(0),
            name: "check",
            seed: 0,
            mtu: 1500,
            forward: true,
            addresses: [IpAddr::V4([0; 4].into()), IpAddr::V6([0; 16].into())],
        };
        let change = Change {
            words: words.to_owned(),
        };
        self.build(&site).change(Instant::ZERO, &change)
    }
}

fn parse_tap(mut words: Words<'_>) -> Result<String, WordError> {
    const ALLOWED: &str = "a name for the observation point: letters, digits, `-`, `_`, `.`";
    let name = words.needed(ALLOWED)?;
    let fits = |c: char| c.is_alphanumeric() || "-_.".contains(c);
    if !name.text.chars().all(fits) {
        return Err(name.refused(ALLOWED));
    }
    require_end(words)?;
    Ok(name.text.to_owned())
}

/// Refuses words after the last one.
pub(crate) fn require_end(words: Words<'_>) -> Result<(), WordError> {
    words.finish("the end of the element")
}

impl fmt::Display for ElementSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(spec) => spec.fmt(f),
            Self::Trace(spec) => spec.fmt(f),
            Self::Netem(spec) => spec.fmt(f),
            Self::Remark(spec) => spec.fmt(f),
            Self::By(spec) => spec.fmt(f),
            Self::Police(spec) => spec.fmt(f),
            Self::Mtu(spec) => spec.fmt(f),
            Self::Mmb(spec) => spec.fmt(f),
            Self::Nat => f.write_str("nat"),
            Self::Tap(name) => write!(f, "tap {name}"),
        }
    }
}

narrows_units::written_as_words!(ElementSpec);
