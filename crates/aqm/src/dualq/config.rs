//! Parameters of `dualq`.

use narrows_core::Packet;
use narrows_units::{Duration, Parameter, ParameterKind, Rng, Value, Word, WordError, Words};

use crate::dualpi2::config::{GAIN_ALLOWED, TIME_ALLOWED, gain, time};
use crate::reading::{self, Holds, Parameters, is, maybe, packets, place_of, read_packets};

/// What marks and drops.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Aqm {
    /// PI whose output is squared for the classic queue.
    #[default]
    Pi2,
    /// PIE on the classic queue.
    Pie,
    /// The smoothed delay of the classic queue over a scale, squared.
    Cred,
    /// Each queue by its own length, between two thresholds.
    Red,
}

const AQMS: &[(&str, Aqm)] = &[
    ("pi2", Aqm::Pi2),
    ("pie", Aqm::Pie),
    ("cred", Aqm::Cred),
    ("red", Aqm::Red),
];

/// Which queue sends next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// The L queue, while it has packets.
    Priority,
    /// The queue whose oldest packet has waited longer, that of the L queue with this added.
    Shift(Duration),
    /// So many packets of L, then so many of the classic queue.
    Wrr(u32, u32),
}

/// Packets by turns, L before classic: `3:1`.
struct Turns(u32, u32);

impl Value for Turns {
    const ALLOWED: &'static str = "packets of both queues, such as 1:5";

    fn parse(word: &str) -> Option<Self> {
        let (low, classic) = word.split_once(':')?;
        let (low, classic) = (u32::parse(low)?, u32::parse(classic)?);
        (low > 0 && classic > 0).then_some(Self(low, classic))
    }
}

/// A code point of the DS field, 0 to 63.
const DSCP_ALLOWED: &str = "a DSCP from 0 to 63";

/// Parameters of `dualq`. [`DualQConfig::of`] gives the defaults of an AQM.
#[derive(Clone, Debug, PartialEq)]
pub struct DualQConfig {
    /// What marks and drops.
    pub aqm: Aqm,
    /// Whether the L queue is marked by what the classic one's AQM has; `pie` can be without.
    pub coupled: bool,
    /// Packets that may wait in both queues together.
    pub limit: u32,
    /// Delay that the classic queue is steered to (`pi2`, `pie`).
    pub target: Duration,
    /// The same of the L queue, where it is not coupled; unset: that of the classic queue.
    pub l_target: Option<Duration>,
    /// Period of the update (`pi2`, `pie`).
    pub tupdate: Duration,
    /// Integral gain in Hz.
    pub alpha: f64,
    /// Proportional gain in Hz.
    pub beta: f64,
    /// k: coupled probability of the L queue over the root of the classic one's.
    pub coupling_factor: u8,
    /// Delay above which a coupled L queue marks everything, if two full frames wait.
    pub step_thresh: Duration,
    /// Packets up to which the classic queue is let alone (`red`).
    pub min: u32,
    /// Packets above which everything is marked (`red`).
    pub max: u32,
    /// The same of the L queue.
    pub l_min: u32,
    /// The same of the L queue.
    pub l_max: u32,
    /// Which queue sends next.
    pub scheduler: Scheduler,
    /// The DSCP of what goes to the L queue; unset: ECT(1) and CE do.
    pub dscp: Option<u8>,
}

impl Default for DualQConfig {
    fn default() -> Self {
        Self::of(Aqm::default())
    }
}

impl DualQConfig {
    /// The defaults of `aqm`: those of the study's public code (mami-project/ns3-aqm-l4s,
    /// classes l4s-pi2, l4s-my-pie, l4s-cred, dq-red) with the report's period and gains.
    pub fn of(aqm: Aqm) -> Self {
        let pi2 = Self {
            aqm,
            coupled: aqm != Aqm::Red,
            limit: 10_000,
            target: Duration::from_millis(15),
            l_target: None,
            tupdate: Duration::from_millis(16),
            // α = 10 and β = 100 Hz² times the period of 16 ms.
            alpha: 0.16,
            beta: 1.6,
            coupling_factor: 2,
            step_thresh: Duration::from_millis(1),
            min: 100,
            max: 300,
            l_min: 27,
            l_max: 80,
            // Twice the target.
            scheduler: Scheduler::Shift(Duration::from_millis(30)),
            dscp: None,
        };
        match aqm {
            Aqm::Pi2 => pi2,
            Aqm::Pie => Self {
                tupdate: Duration::from_millis(15),
                alpha: 0.125,
                beta: 1.25,
                scheduler: Scheduler::Priority,
                ..pi2
            },
            Aqm::Cred => Self {
                scheduler: Scheduler::Priority,
                ..pi2
            },
            Aqm::Red => Self {
                scheduler: Scheduler::Wrr(1, 1),
                ..pi2
            },
        }
    }
}

/// Packets of a threshold.
const LENGTH_ALLOWED: &str = "at most 1000000 packets";

fn length(words: &mut Words<'_>) -> Result<u32, WordError> {
    words.value_where(LENGTH_ALLOWED, |n: &u32| *n <= 1_000_000)
}

const fn threshold(usage: &'static str, default: &'static str, about: &'static str) -> Parameter {
    let kind = ParameterKind::Number("packets");
    Parameter::new(usage, kind, LENGTH_ALLOWED, default, about)
}

impl Parameters for DualQConfig {
    const BANDS: &'static [&'static str] = &["classic", "low_latency"];

    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "aqm pi2|pie|cred|red",
            ParameterKind::Choice,
            "`pi2`, `pie`, `cred` or `red`",
            "pi2",
            "What marks and drops, which also decides the other defaults; a running queue keeps it",
        ),
        Parameter::flag(
            "coupled|uncoupled",
            "coupled but of red",
            "Whether the classic queue's AQM marks the L queue too; uncoupled pie is an AQM for each",
        ),
        packets(
            "limit PACKETS",
            "10000",
            "Packets that may wait in both queues together",
        ),
        Parameter::new(
            "target TIME",
            ParameterKind::Time,
            TIME_ALLOWED,
            "15ms",
            "Delay that pi2 and pie steer the classic queue to",
        ),
        Parameter::new(
            "l_target TIME",
            ParameterKind::Time,
            TIME_ALLOWED,
            "that of target",
            "Delay that uncoupled pie steers the L queue to",
        ),
        Parameter::new(
            "tupdate TIME",
            ParameterKind::Time,
            TIME_ALLOWED,
            "16 ms, of pie 15 ms",
            "Period of the update of pi2 and pie",
        ),
        Parameter::new(
            "alpha ALPHA",
            ParameterKind::Number("Hz"),
            GAIN_ALLOWED,
            "0.16 Hz, of pie 0.125 Hz",
            "Integral gain of pi2 and pie",
        ),
        Parameter::new(
            "beta BETA",
            ParameterKind::Number("Hz"),
            GAIN_ALLOWED,
            "1.6 Hz, of pie 1.25 Hz",
            "Proportional gain of pi2 and pie",
        ),
        Parameter::new(
            "coupling_factor NUMBER",
            ParameterKind::Number(""),
            "1 to 255",
            "2",
            "k: the L queue's probability over the root of the classic queue's",
        ),
        Parameter::new(
            "step_thresh TIME",
            ParameterKind::Time,
            TIME_ALLOWED,
            "1ms",
            "Delay above which a coupled L queue with two full frames is marked (pi2, pie)",
        ),
        threshold(
            "min PACKETS",
            "100",
            "Length up to which red lets the classic queue alone",
        ),
        threshold(
            "max PACKETS",
            "300",
            "Length above which red marks all of the classic queue",
        ),
        threshold(
            "l_min PACKETS",
            "27",
            "Length up to which red lets the L queue alone",
        ),
        threshold(
            "l_max PACKETS",
            "80",
            "Length above which red marks all of the L queue",
        ),
        Parameter::flag(
            "priority",
            "of pie and cred",
            "The L queue sends while it has packets",
        ),
        Parameter::new(
            "shift TIME",
            ParameterKind::Time,
            TIME_ALLOWED,
            "30 ms of pi2",
            "The queue sends whose oldest packet has waited longer, this added to the L queue's",
        ),
        Parameter::new(
            "wrr PACKETS:PACKETS",
            ParameterKind::Words,
            Turns::ALLOWED,
            "1:1 of red",
            "The queues take turns of so many packets, the L queue first",
        ),
        Parameter::new(
            "dscp DSCP",
            ParameterKind::Number(""),
            DSCP_ALLOWED,
            "ECT(1) and CE",
            "What goes to the L queue",
        ),
    ];

    /// `aqm` may come anywhere, and decides the defaults of what is not named.
    fn usual(words: &Words<'_>) -> Self {
        let found = |word: &str| AQMS.iter().find(|(name, _)| *name == word);
        let aqm = reading::named(words, "aqm", |word| found(word).map(|(_, aqm)| *aqm));
        Self::of(aqm.unwrap_or_default())
    }

    fn values(&self) -> Vec<Holds> {
        let (shift, wrr) = match self.scheduler {
            Scheduler::Priority => (None, None),
            Scheduler::Shift(time) => (Some(time), None),
            Scheduler::Wrr(low, classic) => (None, Some(format!("{low}:{classic}"))),
        };
        vec![
            is(narrows_units::word_for(AQMS, &self.aqm)),
            Holds::Flag(self.coupled),
            is(self.limit),
            is(self.target),
            maybe(self.l_target),
            is(self.tupdate),
            is(self.alpha),
            is(self.beta),
            is(self.coupling_factor),
            is(self.step_thresh),
            is(self.min),
            is(self.max),
            is(self.l_min),
            is(self.l_max),
            Holds::Flag(self.scheduler == Scheduler::Priority),
            maybe(shift),
            maybe(wrr),
            maybe(self.dscp),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "aqm" => {
                let word = words.peek();
                if words.one_of(AQMS)? != self.aqm {
                    let name = narrows_units::word_for(AQMS, &self.aqm);
                    let refused = word.unwrap_or(key).refused(format!("aqm {name}"));
                    return Err(refused.with_help("a running queue keeps its `aqm`"));
                }
            }
            "coupled" | "uncoupled" => {
                let coupled = key.text == "coupled";
                match self.aqm {
                    Aqm::Pie => {}
                    Aqm::Red if coupled => return Err(key.refused("`uncoupled` of red")),
                    Aqm::Pi2 | Aqm::Cred if !coupled => {
                        return Err(key.refused("`coupled` of pi2 and cred"));
                    }
                    Aqm::Pi2 | Aqm::Cred | Aqm::Red => {}
                }
                self.coupled = coupled;
            }
            "limit" => self.limit = read_packets(words)?,
            "target" => self.target = time(words)?,
            "l_target" => self.l_target = Some(time(words)?),
            "tupdate" => self.tupdate = time(words)?,
            "alpha" => self.alpha = gain(words)?,
            "beta" => self.beta = gain(words)?,
            "coupling_factor" => {
                self.coupling_factor = words.value_where("1 to 255", |k: &u8| *k > 0)?;
            }
            "step_thresh" => self.step_thresh = time(words)?,
            "min" => self.min = length(words)?,
            "max" => self.max = length(words)?,
            "l_min" => self.l_min = length(words)?,
            "l_max" => self.l_max = length(words)?,
            "priority" => self.scheduler = Scheduler::Priority,
            "shift" => self.scheduler = Scheduler::Shift(time(words)?),
            "wrr" => {
                let Turns(low, classic) = words.value()?;
                self.scheduler = Scheduler::Wrr(low, classic);
            }
            "dscp" => {
                self.dscp = Some(words.value_where(DSCP_ALLOWED, |n: &u8| *n < 64)?);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn check(&mut self, line: &str) -> Result<(), WordError> {
        let pairs = [
            ("min", self.min, self.max),
            ("l_min", self.l_min, self.l_max),
        ];
        for (key, min, max) in pairs {
            if min >= max {
                let span = place_of(line, key);
                let found = format!("{min} packets, not below {max}");
                return Err(WordError::new(span, found, "a `min` below its `max`"));
            }
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
