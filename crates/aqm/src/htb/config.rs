//! Parameters of `htb` in the words of tc-htb(8), its classes in one line.

use std::fmt;

use narrows_core::Packet;
use narrows_units::{
    Bytes, Duration, Parameter, ParameterKind, Rate, Rng, Word, WordError, WordWriter, Words,
};

use crate::QueueSpec;
use crate::classes::{
    self, CLASS_PARAMETER, Class, DSCP_PARAMETER, Dscps, NAME_ALLOWED, QUEUE_PARAMETER,
};
use crate::leaf;
use crate::reading::{self, Holds, Parameters, is, place_of, several};

/// Levels of the tree (`TC_HTB_MAXDEPTH`).
pub(super) const LEVELS: usize = 8;
/// Priorities (`TC_HTB_NUMPRIO`).
pub(super) const PRIORITIES: usize = 8;
/// Classes in one line; ours.
const MAX_CLASSES: usize = 200;
/// rate over quantum (tc).
const R2Q: u32 = 10;
/// Bounds of a quantum that is worked out, bytes (`htb_change_class`).
const QUANTA: (u64, u64) = (1_000, 200_000);
/// Bytes that a bucket holds unless named, beside what comes in a tick of the kernel's timer
/// (tc: the frame of 1600 bytes and `rate / get_hz()`, 10⁹ with high-resolution timers).
const FRAME: u64 = 1_600;
const RATE_ALLOWED: &str = "a rate of at least 8bit";
const SIZE_ALLOWED: &str = "a size from 1b to 4095Mb";
/// Words of tc's htb that are not here.
const ABSENT: &[(&str, &str)] = &[
    (
        "default",
        "the class without `dscp` takes what no other does",
    ),
    ("direct_qlen", "every packet has a class"),
    ("offload", "there is no device"),
    (
        "overhead",
        "the link says its overhead: `rate RATE overhead BYTES`",
    ),
    ("mpu", "frames count what the link counts"),
    ("linklayer", "frames count what the link counts"),
    ("mtu", "`burst` and `cburst` say what a bucket holds"),
];

/// A class of `htb`.
#[derive(Clone, Debug, PartialEq)]
pub struct HtbClass {
    /// Its name.
    pub name: String,
    /// The class that it borrows from.
    pub parent: Option<String>,
    /// Rate that it has in any case; has to be given.
    pub rate: Rate,
    /// Rate up to which it borrows; unset: its rate.
    pub ceil: Option<Rate>,
    /// Bytes of tokens at its rate.
    pub burst: Option<u32>,
    /// Bytes of tokens at its ceil.
    pub cburst: Option<u32>,
    /// Classes of a lower number are served first with what is borrowed.
    pub prio: u32,
    /// Bytes of a turn among classes of one priority; unset: rate over r2q.
    pub quantum: Option<u32>,
    /// What it takes; unset: what no other class takes.
    pub dscps: Option<Dscps>,
    /// Its queue.
    pub queue: QueueSpec,
}

impl fmt::Display for HtbClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        WordWriter::new(f)
            .some("parent", self.parent.as_ref())
            .pair("rate", self.rate)
            .some("ceil", self.ceil)
            .some("burst", self.burst)
            .some("cburst", self.cburst)
            .stated("prio", self.prio, 0)
            .some("quantum", self.quantum)
            .some("dscp", self.dscps.as_ref())
            .some("queue", leaf::written(&self.queue))
            .finish()
    }
}

impl Class for HtbClass {
    const WORD: &'static str = "class";

    fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            parent: None,
            rate: Rate::default(),
            ceil: None,
            burst: None,
            cburst: None,
            prio: 0,
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

impl HtbClass {
    /// Rate up to which it borrows.
    pub fn ceiling(&self) -> Rate {
        self.ceil.unwrap_or(self.rate)
    }

    /// Tokens in ns that its buckets hold: at its rate, at its ceil.
    pub fn buckets(&self) -> (i64, i64) {
        let of = |rate: Rate, bytes: Option<u32>| {
            let usual = rate.as_bytes() / 1_000_000_000 + FRAME;
            bucket(rate, bytes.map_or(usual, u64::from))
        };
        (of(self.rate, self.burst), of(self.ceiling(), self.cburst))
    }

    /// Bytes of its turn.
    pub(super) fn turn(&self, r2q: u32) -> i64 {
        let worked_out = (self.rate.as_bytes() / u64::from(r2q)).clamp(QUANTA.0, QUANTA.1);
        self.quantum.map_or(worked_out as i64, i64::from)
    }
}

/// Ns of a tick of tc (`PSCHED_SHIFT`, include/net/pkt_sched.h).
pub const TICK_NS: i64 = 64;

/// A bucket of `bytes` at `rate` in ns: tc hands it over in whole ticks
/// (`tc_calc_xmittime`).
fn bucket(rate: Rate, bytes: u64) -> i64 {
    let ticks = u128::from(bytes) * 15_625_000 / u128::from(rate.as_bytes().max(1));
    ticks.min(1 << 50) as i64 * TICK_NS
}

/// Parameters of `htb`.
#[derive(Clone, Debug, PartialEq)]
pub struct HtbConfig {
    /// Rate over quantum.
    pub r2q: u32,
    /// The classes, in their order.
    pub classes: Vec<HtbClass>,
    /// The one that is being read.
    current: Option<usize>,
}

impl Default for HtbConfig {
    fn default() -> Self {
        Self {
            r2q: R2Q,
            classes: Vec::new(),
            current: None,
        }
    }
}

impl HtbConfig {
    /// The place of the parent of a class.
    pub(super) fn parent(&self, class: &HtbClass) -> Option<usize> {
        let name = class.parent.as_ref()?;
        self.classes.iter().position(|c| c.name == *name)
    }

    /// Whether no class borrows from this one.
    pub(super) fn is_leaf(&self, class: &HtbClass) -> bool {
        let parents = self.classes.iter().filter_map(|c| c.parent.as_ref());
        !parents.into_iter().any(|name| *name == class.name)
    }

    /// Classes that packets wait in.
    pub fn leaves(&self) -> impl Iterator<Item = &HtbClass> + Clone {
        self.classes.iter().filter(|class| self.is_leaf(class))
    }

    /// How many classes there are from this one up; nothing in a circle.
    fn depth(&self, class: &HtbClass) -> Option<usize> {
        let (mut depth, mut at) = (1, class);
        while let Some(parent) = self.parent(at) {
            at = &self.classes[parent];
            depth += 1;
            if depth > self.classes.len() {
                return None;
            }
        }
        Some(depth)
    }

    fn class(&mut self, key: Word<'_>) -> Result<&mut HtbClass, WordError> {
        classes::current(&mut self.classes, self.current, key)
    }
}

fn rate(words: &mut Words<'_>) -> Result<Rate, WordError> {
    words.value_where(RATE_ALLOWED, |rate: &Rate| rate.as_bytes() > 0)
}

fn size(words: &mut Words<'_>) -> Result<u32, WordError> {
    let size = words.value_where(SIZE_ALLOWED, |n: &Bytes| (1..1 << 32).contains(&n.get()))?;
    Ok(size.get() as u32)
}

impl Parameters for HtbConfig {
    const BANDS: &'static [&'static str] = crate::classes::BAND_NAMES;

    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "r2q NUMBER",
            ParameterKind::Number(""),
            "at least 1",
            "10",
            "Rate over quantum, for classes that name no quantum",
        ),
        CLASS_PARAMETER,
        Parameter::new(
            "parent NAME",
            ParameterKind::Words,
            NAME_ALLOWED,
            "the link itself",
            "The class that this one borrows from",
        ),
        Parameter::new(
            "rate RATE",
            ParameterKind::Rate,
            RATE_ALLOWED,
            "",
            "Rate that the class has in any case",
        ),
        Parameter::new(
            "ceil RATE",
            ParameterKind::Rate,
            RATE_ALLOWED,
            "its rate",
            "Rate up to which the class borrows",
        ),
        Parameter::new(
            "burst BYTES",
            ParameterKind::Size,
            SIZE_ALLOWED,
            "1600 bytes and a nanosecond at its rate",
            "Bytes of tokens at its rate",
        ),
        Parameter::new(
            "cburst BYTES",
            ParameterKind::Size,
            SIZE_ALLOWED,
            "1600 bytes and a nanosecond at its ceil",
            "Bytes of tokens at its ceil",
        ),
        Parameter::new(
            "prio NUMBER",
            ParameterKind::Number(""),
            "a number, of which 7 is the highest that counts",
            "0",
            "Classes of a lower number are served first",
        ),
        Parameter::new(
            "quantum BYTES",
            ParameterKind::Size,
            SIZE_ALLOWED,
            "rate over r2q, from 1000 to 200000",
            "Bytes of a turn among classes of one priority",
        ),
        DSCP_PARAMETER,
        QUEUE_PARAMETER,
    ];

    fn values(&self) -> Vec<Holds> {
        vec![is(self.r2q), several("class", &self.classes)]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "r2q" => self.r2q = words.value_where("at least 1", |n: &u32| *n > 0)?,
            "class" => {
                self.current = Some(classes::begin(&mut self.classes, words)?);
                if self.classes.len() > MAX_CLASSES {
                    return Err(key.refused("at most 200 classes"));
                }
            }
            "parent" => {
                let word = words.needed(NAME_ALLOWED)?;
                if !classes::is_name(word.text) {
                    return Err(word.refused(NAME_ALLOWED));
                }
                self.class(key)?.parent = Some(word.text.to_owned());
            }
            "rate" => self.class(key)?.rate = rate(words)?,
            "ceil" => self.class(key)?.ceil = Some(rate(words)?),
            "burst" | "buffer" | "maxburst" => self.class(key)?.burst = Some(size(words)?),
            "cburst" | "cbuffer" | "cmaxburst" => self.class(key)?.cburst = Some(size(words)?),
            "prio" => {
                let allowed = "a number, of which 7 is the highest that counts";
                let prio = words.value_where(allowed, |_: &u32| true)?;
                self.class(key)?.prio = prio.min(PRIORITIES as u32 - 1);
            }
            "quantum" => self.class(key)?.quantum = Some(size(words)?),
            "dscp" => self.class(key)?.dscps = Some(words.value()?),
            "queue" => self.class(key)?.queue = leaf::read(words)?,
            absent => {
                let Some((_, why)) = ABSENT.iter().find(|(word, _)| *word == absent) else {
                    return Ok(false);
                };
                let allowed = reading::keys::<Self>();
                return Err(key.refused(allowed).with_help(*why));
            }
        }
        Ok(true)
    }

    /// Each class has a rate, its parent is a class, and packets wait in leaves alone.
    fn check(&mut self, line: &str) -> Result<(), WordError> {
        self.current = None;
        let refused = |class: &HtbClass, found: &str, allowed: &str| {
            let found = format!("class {} {found}", class.name);
            Err(WordError::new(place_of(line, &class.name), found, allowed))
        };
        for class in &self.classes {
            if class.rate.as_bits() == 0 {
                return refused(class, "without `rate`", "`rate` of each class");
            }
            if class.parent.is_some() && self.parent(class).is_none() {
                return refused(
                    class,
                    "below a class that is not there",
                    "a `parent` of this line",
                );
            }
            match self.depth(class) {
                Some(depth) if depth <= LEVELS => {}
                Some(_) => return refused(class, "too deep", "at most 8 classes below each other"),
                None => return refused(class, "below itself", "classes in a tree"),
            }
            let holds = class.dscps.is_some() || class.queue != QueueSpec::default();
            if holds && !self.is_leaf(class) {
                let allowed = "`dscp` and `queue` of classes that are no parent";
                return refused(class, "with packets of its own", allowed);
            }
        }
        classes::check(self.leaves(), line)
    }

    /// The tree, what goes where and the queues stay.
    fn check_change(&self, old: &Self, line: &str) -> Result<(), WordError> {
        let kept = |c: &Self| -> Vec<_> {
            let of = |c: &HtbClass| {
                let HtbClass {
                    name,
                    parent,
                    dscps,
                    queue,
                    ..
                } = c.clone();
                (name, parent, dscps, queue)
            };
            c.classes.iter().map(of).collect()
        };
        match kept(self) == kept(old) {
            true => Ok(()),
            false => Err(reading::kept(
                line,
                "class",
                "with its place, DSCPs and queue as they are",
            )),
        }
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    /// Flows of one class are not kept apart.
    /// The ceil of a root that all classes share; several roots have no rate in common.
    fn shaped_to(&self) -> Option<Rate> {
        let mut roots = self.classes.iter().filter(|class| class.parent.is_none());
        let root = roots.next().filter(|_| roots.next().is_none())?;
        Some(root.ceil.unwrap_or(root.rate))
    }

    fn bucket_of(&self, _: Rng, _: &Packet) -> Option<usize> {
        None
    }
}
