//! Parameters of `dualpi2` in the words of tc-dualpi2(8).

use std::fmt;

use narrows_core::Packet;
use narrows_units::{Duration, Parameter, ParameterKind, Rng, Value, Word, WordError, Words};

use crate::reading::{self, Holds, Parameters, is, maybe, packets, read_packets};

/// Whose DualPI2: implementations differ in what decides their behaviour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Variant {
    /// Linux net/sched/sch_dualpi2.c as it entered v6.17.
    #[default]
    Linux,
    /// The out-of-tree module of 2020 (L4STeam/linux, before its change to
    /// high-resolution timers): half the gain, a step for packets that found
    /// at least two others waiting, an update in whole jiffies.
    Linux2020,
    /// The pseudocode of RFC 9332 Appendix A: ramp instead of step,
    /// deterministic marking, a limit in bytes.
    Rfc9332,
}

impl Variant {
    const fn name(self) -> &'static str {
        match self {
            Self::Linux => "linux",
            Self::Linux2020 => "linux-2020",
            Self::Rfc9332 => "rfc9332",
        }
    }
}

impl Value for Variant {
    const ALLOWED: &'static str = "linux, linux-2020 or rfc9332";

    fn parse(word: &str) -> Option<Self> {
        [Self::Linux, Self::Linux2020, Self::Rfc9332]
            .into_iter()
            .find(|v| v.name() == word)
    }
}

/// Threshold above which the native L4S AQM marks everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepThreshold {
    /// On the sojourn time of the packet that leaves.
    Time(Duration),
    /// On the packets left behind in the L queue.
    Packets(u32),
}

impl fmt::Display for StepThreshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Time(t) => t.fmt(f),
            Self::Packets(n) => write!(f, "{n}p"),
        }
    }
}

impl Value for StepThreshold {
    const ALLOWED: &'static str = "a time from 1us to 4s, or packets such as 5p";

    fn parse(word: &str) -> Option<Self> {
        if let Some(time) = Duration::parse(word) {
            return fits_kernel(&time).then_some(Self::Time(time));
        }
        ["packets", "packet", "pkts", "pkt", "p"]
            .into_iter()
            .find_map(|unit| word.strip_suffix(unit))
            .and_then(u32::parse)
            .filter(|n| *n > 0)
            .map(Self::Packets)
    }
}

/// Whole per cent, the sign optional as in tc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Percent(pub u8);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0)
    }
}

impl Value for Percent {
    const ALLOWED: &'static str = "a percentage from 0% to 100%";

    fn parse(word: &str) -> Option<Self> {
        u8::parse(word.strip_suffix('%').unwrap_or(word))
            .filter(|n| *n <= 100)
            .map(Self)
    }
}

/// Parameters of `dualpi2`. [`DualPi2Config::of`] gives the defaults of a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct DualPi2Config {
    /// Whose rules.
    pub variant: Variant,
    /// Packets that may wait in both queues together. Unset: 10000 (Linux),
    /// or 250 ms at the link's rate in bytes (RFC 9332 A.1).
    pub limit: Option<u32>,
    /// Bytes that may wait in both queues together (`linux` only). Unset:
    /// `limit` × 2 frames. Counts what the link counts, where Linux counts
    /// the memory of a packet (`truesize`), about 1.5 times that of a full
    /// frame.
    pub memlimit: Option<u32>,
    /// Delay that PI steers the classic queue to.
    pub target: Duration,
    /// Period of PI's update.
    pub tupdate: Duration,
    /// Integral gain in Hz; Linux keeps 1/256 Hz.
    pub alpha: f64,
    /// Proportional gain in Hz; Linux keeps 1/256 Hz.
    pub beta: f64,
    /// The native L4S AQM (not `rfc9332`, which has a ramp).
    pub step: StepThreshold,
    /// Packets that have to wait in the L queue when a packet comes for the
    /// step to apply to it.
    pub min_qlen_step: u32,
    /// k: L4S marking probability over base probability.
    pub coupling_factor: u8,
    /// At saturation, drop L4S packets too (true) or let the queue grow to
    /// its limit (false).
    pub drop_overload: bool,
    /// Decide on drops and marks of PI when a packet comes (true) or leaves.
    pub drop_early: bool,
    /// Weight of the classic queue in the scheduler.
    pub classic_protection: Percent,
    /// Whether ECT(0) goes to the L queue too.
    pub any_ect: bool,
    /// Kept for its word; packets here are never aggregates.
    pub split_gso: bool,
}

/// α of Linux: 41/256 Hz ≈ 0.16 (`dualpi2_reset_default`, v6.17).
const LINUX_ALPHA: f64 = 41.0 / 256.0;
/// β of Linux: 819/256 Hz ≈ 3.2 (`dualpi2_reset_default`, v6.17).
const LINUX_BETA: f64 = 819.0 / 256.0;
/// α of RFC 9332 A.1: 0.1·Tupdate/RTT_max² with 15 ms and 100 ms.
const RFC_ALPHA: f64 = 0.15;
/// β of RFC 9332 A.1: 0.3/RTT_max with 100 ms.
const RFC_BETA: f64 = 3.0;
/// Greatest gain in Hz: 31 bits of 1/256 Hz (Linux `ALPHA_BETA_MAX`).
const MAX_GAIN: f64 = ((1u32 << 31) - 1) as f64 / 256.0;
/// tc's rule: RTT_max is six times the typical RTT (`RTT_TYP_TO_MAX`).
const RTT_TYPICAL_TO_MAX: u64 = 6;

impl Default for DualPi2Config {
    fn default() -> Self {
        Self::of(Variant::Linux)
    }
}

impl DualPi2Config {
    /// The defaults of `variant`.
    pub fn of(variant: Variant) -> Self {
        let linux = Self {
            variant,
            limit: None,
            memlimit: None,
            target: Duration::from_millis(15),
            tupdate: Duration::from_millis(16),
            alpha: LINUX_ALPHA,
            beta: LINUX_BETA,
            step: StepThreshold::Time(Duration::from_millis(1)),
            min_qlen_step: 0,
            coupling_factor: 2,
            drop_overload: true,
            drop_early: false,
            classic_protection: Percent(10),
            any_ect: false,
            split_gso: true,
        };
        match variant {
            Variant::Linux => linux,
            // "More than one packet in the L queue" before the newcomer.
            Variant::Linux2020 => Self {
                min_qlen_step: 2,
                ..linux
            },
            // Tupdate = min(target, RTT_max/3), RFC 9332 A.1.
            Variant::Rfc9332 => Self {
                tupdate: Duration::from_millis(15),
                alpha: RFC_ALPHA,
                beta: RFC_BETA,
                ..linux
            },
        }
    }

    /// What tc derives from RTTs: target, update period and gains.
    fn derive_from_rtt(&mut self, max: Duration, typical: Duration) {
        // tc computes in whole microseconds.
        let (max_us, typical_us) = (max.as_micros().max(1), typical.as_micros().max(1));
        let tupdate_us = typical_us.min(max_us / 3).max(1);
        self.target = Duration::from_micros(typical_us);
        self.tupdate = Duration::from_micros(tupdate_us);
        let max_us = max_us as f64;
        let quantum = |hz: f64| (hz * 256.0).floor() / 256.0;
        // tc's factors are single-precision, and land just above 0.1 and 0.3.
        let alpha = tupdate_us as f64 / max_us / max_us * 1e6 * f64::from(0.1f32);
        self.alpha = quantum(alpha);
        self.beta = quantum(f64::from(0.3f32) / max_us * 1e6);
    }

    fn refuse_unless(&self, fits: bool, key: Word<'_>) -> Result<(), WordError> {
        if fits {
            return Ok(());
        }
        Err(key.refused(format!("parameters of `variant {}`", self.variant.name())))
    }
}

/// The kernel keeps such times as 32 bits of nanoseconds and tc gives whole
/// microseconds above zero.
fn fits_kernel(time: &Duration) -> bool {
    (1_000..=4_000_000_000).contains(&time.as_nanos())
}

/// What a gain of PI may be.
pub(crate) const GAIN_ALLOWED: &str = "a gain in Hz from 1/256 to 8388607, such as 0.16";
/// What a time of PI may be.
pub(crate) const TIME_ALLOWED: &str = "a time from 1us to 4s";

/// A gain of PI in Hz.
pub(crate) fn gain(words: &mut Words<'_>) -> Result<f64, WordError> {
    words.value_where(GAIN_ALLOWED, |hz: &f64| {
        (1.0 / 256.0..=MAX_GAIN).contains(hz)
    })
}

/// A time of PI.
pub(crate) fn time(words: &mut Words<'_>) -> Result<Duration, WordError> {
    words.value_where(TIME_ALLOWED, fits_kernel)
}

impl Parameters for DualPi2Config {
    const BANDS: &'static [&'static str] = &["classic", "low_latency"];

    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "variant linux|linux-2020|rfc9332",
            ParameterKind::Choice,
            Variant::ALLOWED,
            "linux",
            "Whose rules, which also decides the other defaults; a running queue keeps it",
        ),
        packets(
            "limit PACKETS",
            "10000 packets; of rfc9332 250 ms at the link's rate",
            "Packets that may wait in both queues together",
        ),
        Parameter::new(
            "memlimit BYTES",
            ParameterKind::Number("bytes"),
            "at least 1 byte",
            "limit times two full frames",
            "Bytes that may wait in both queues together (linux only)",
        ),
        Parameter::new(
            "target TIME",
            ParameterKind::Time,
            TIME_ALLOWED,
            "15ms",
            "Delay of the classic queue that PI steers to",
        ),
        Parameter::new(
            "tupdate TIME",
            ParameterKind::Time,
            TIME_ALLOWED,
            "16ms",
            "Period of PI's update",
        ),
        Parameter::new(
            "alpha ALPHA",
            ParameterKind::Number("Hz"),
            GAIN_ALLOWED,
            "0.16015625",
            "Integral gain",
        ),
        Parameter::new(
            "beta BETA",
            ParameterKind::Number("Hz"),
            GAIN_ALLOWED,
            "3.19921875",
            "Proportional gain",
        ),
        Parameter::new(
            "step_thresh TIME|PACKETS",
            ParameterKind::Words,
            "a time from 1us to 4s, or packets such as 5p",
            "1ms",
            "Threshold of the L queue above which everything is marked (not rfc9332)",
        ),
        Parameter::new(
            "min_qlen_step PACKETS",
            ParameterKind::Number("packets"),
            u32::ALLOWED,
            "0",
            "Packets that have to wait in the L queue for the step to apply (linux only)",
        ),
        Parameter::new(
            "coupling_factor NUMBER",
            ParameterKind::Number(""),
            "1 to 255",
            "2",
            "k: the L queue's coupled probability over the base probability",
        ),
        Parameter::flag(
            "drop_on_overload|overflow",
            "drop_on_overload",
            "Whether at saturation L4S packets are dropped too, or the queue grows to its limit",
        ),
        Parameter::flag(
            "drop_enqueue|drop_dequeue",
            "drop_dequeue",
            "When PI's marks and drops are decided: as a packet comes, or as it leaves",
        ),
        Parameter::new(
            "classic_protection PERCENTAGE",
            ParameterKind::Percentage,
            "a percentage from 0% to 100%",
            "10%",
            "Weight of the classic queue in the scheduler",
        ),
        Parameter::flag(
            "l4s_ect|any_ect",
            "l4s_ect",
            "What goes to the L queue: ECT(1) and CE, or ECT(0) too",
        ),
        Parameter::flag(
            "split_gso|no_split_gso",
            "split_gso",
            "Accepted for tc's sake: packets here are never aggregates",
        ),
        Parameter::new(
            "max_rtt TIME [typical_rtt TIME]",
            ParameterKind::Time,
            TIME_ALLOWED,
            "none",
            "Round trips from which target, tupdate, alpha and beta are derived",
        ),
    ];

    /// `variant` may come anywhere, and decides the defaults of what is not named.
    fn usual(words: &Words<'_>) -> Self {
        let variant = reading::named(words, "variant", Variant::parse);
        Self::of(variant.unwrap_or_default())
    }

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.variant.name()),
            maybe(self.limit),
            maybe(self.memlimit),
            is(self.target),
            is(self.tupdate),
            is(self.alpha),
            is(self.beta),
            is(self.step),
            is(self.min_qlen_step),
            is(self.coupling_factor),
            Holds::Flag(self.drop_overload),
            Holds::Flag(self.drop_early),
            is(self.classic_protection),
            Holds::Flag(!self.any_ect),
            Holds::Flag(self.split_gso),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        let linux = self.variant == Variant::Linux;
        let has_step = self.variant != Variant::Rfc9332;
        match key.text {
            "variant" => {
                let now = self.variant;
                let allowed = format!("{} (a queue keeps its variant)", now.name());
                let found: Variant = words.value()?;
                if found != now {
                    return Err(WordError::new(
                        key.span(),
                        format!("`variant {}`", found.name()),
                        allowed,
                    ));
                }
            }
            "limit" => {
                self.limit = Some(read_packets(words)?);
            }
            "memlimit" => {
                self.refuse_unless(linux, key)?;
                self.memlimit = Some(words.value_where("at least 1 byte", |n: &u32| *n > 0)?);
            }
            "target" => self.target = time(words)?,
            "tupdate" => self.tupdate = time(words)?,
            "alpha" => self.alpha = gain(words)?,
            "beta" => self.beta = gain(words)?,
            "coupling_factor" => {
                self.coupling_factor = words.value_where("1 to 255", |k: &u8| *k > 0)?;
            }
            "step_thresh" => {
                self.refuse_unless(has_step, key)?;
                self.step = words.value()?;
            }
            "min_qlen_step" => {
                self.refuse_unless(linux, key)?;
                self.min_qlen_step = words.value()?;
            }
            "drop_on_overload" | "overflow" => {
                self.refuse_unless(has_step, key)?;
                self.drop_overload = key.text == "drop_on_overload";
            }
            "drop_enqueue" | "drop_dequeue" => {
                self.refuse_unless(has_step, key)?;
                self.drop_early = key.text == "drop_enqueue";
            }
            "l4s_ect" => self.any_ect = false,
            "any_ect" => self.any_ect = true,
            "classic_protection" => self.classic_protection = words.value()?,
            "max_rtt" | "typical_rtt" => {
                let first = time(words)?;
                let other = if key.text == "max_rtt" {
                    "typical_rtt"
                } else {
                    "max_rtt"
                };
                let second = if words.take_if(other) {
                    Some(time(words)?)
                } else {
                    None
                };
                let (max, typical) = match (key.text, second) {
                    ("max_rtt", None) => (first, first / RTT_TYPICAL_TO_MAX),
                    ("max_rtt", Some(typical)) => (first, typical),
                    (_, None) => (first * RTT_TYPICAL_TO_MAX, first),
                    (_, Some(max)) => (max, first),
                };
                self.derive_from_rtt(max, typical);
                if typical > max || self.alpha == 0.0 || self.beta == 0.0 {
                    return Err(key.refused(
                        "typical_rtt <= max_rtt, and gains of at least 1/256 Hz from them",
                    ));
                }
            }
            "split_gso" | "no_split_gso" => {
                self.refuse_unless(linux, key)?;
                self.split_gso = key.text == "split_gso";
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn marking_step(&self) -> Option<Duration> {
        match self.step {
            // The ramp of RFC 9332 begins there, and a least length of the queue spares
            // single packets.
            StepThreshold::Time(step)
                if self.variant != Variant::Rfc9332 && self.min_qlen_step == 0 =>
            {
                Some(step)
            }
            StepThreshold::Time(_) | StepThreshold::Packets(_) => None,
        }
    }

    fn bucket_of(&self, _: Rng, _: &Packet) -> Option<usize> {
        None
    }
}
