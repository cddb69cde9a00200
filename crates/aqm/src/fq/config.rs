//! Parameters of `fq` in the words of tc-fq(8).

use narrows_core::Packet;
use narrows_units::{Duration, Parameter, ParameterKind, Rate, Rng, Value, Word, WordError, Words};

use crate::codel;
use crate::flows::FlowHash;
use crate::priority::{self, DEFAULT_MAP, PRIORITIES};
use crate::reading::{Holds, Parameters, is, maybe, packets, place_of, read_packets};

/// Bands (`FQ_BANDS`).
pub(super) const BANDS: usize = 3;
/// Nanoseconds of a second; also the longest pause of a flow (`fq_dequeue`).
pub(super) const SECOND: u64 = 1_000_000_000;
/// Packets of each band (`fq_init`).
const LIMIT: u32 = 10_000;
/// Packets of a flow (`fq_init`).
const FLOW_LIMIT: u32 = 100;
/// Bytes by which bands share the link (`fq_init`: 9, 3 and 1 times 64 KiB).
const WEIGHTS: [u32; BANDS] = [589_824, 196_608, 65_536];
/// Least weight (`FQ_MIN_WEIGHT`).
const MIN_WEIGHT: u32 = 16_384;
/// Hash values that are flows (`fq_init`).
const ORPHAN_MASK: u32 = 1_023;
/// Rate up to which each packet has a pause of its own (`fq_init`: 550 kbit/s).
const LOW_RATE: Rate = Rate::from_bits(550_000);
/// How long a flow has to be idle for a new quantum (`fq_init`).
const REFILL_DELAY: Duration = Duration::from_millis(40);
/// Words of tc's fq about times at which packets are to be sent, or about timers.
const WITHOUT_MEANING: &[&str] = &[
    "horizon",
    "horizon_cap",
    "horizon_drop",
    "offload_horizon",
    "timer_slack",
    "defrate",
];

const WEIGHTS_ALLOWED: &str = "three weights of 16384 to 2147483647 bytes";
const RATE_ALLOWED: &str = "a rate of at least 8bit";
const MAP_ALLOWED: &str = "3 priomap and the bands of 16 priorities";

/// Parameters of `fq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FqConfig {
    /// Packets of each band that may wait.
    pub limit: u32,
    /// Packets of a flow that may wait.
    pub flow_limit: u32,
    /// Bytes per flow and round; unset: two full frames.
    pub quantum: Option<u32>,
    /// Bytes of a new flow; unset: ten full frames.
    pub initial_quantum: Option<u32>,
    /// Rate of each flow; unset: none.
    pub maxrate: Option<Rate>,
    /// Kept for its word: how the kernel finds a flow decides nothing.
    pub buckets: u32,
    /// Whether `maxrate` is kept.
    pub pacing: bool,
    /// How long a flow has to be idle for a new quantum.
    pub refill_delay: Duration,
    /// The band of each priority.
    pub priomap: [u8; PRIORITIES],
    /// Bytes by which bands share the link.
    pub weights: [u32; BANDS],
    /// Rate up to which each packet has a pause of its own.
    pub low_rate_threshold: Rate,
    /// Bits of a packet's hash that are its flow.
    pub orphan_mask: u32,
    /// Lateness above which packets are marked; unset: none.
    pub ce_threshold: Option<Duration>,
}

impl Default for FqConfig {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            flow_limit: FLOW_LIMIT,
            quantum: None,
            initial_quantum: None,
            maxrate: None,
            buckets: 1_024,
            pacing: true,
            refill_delay: REFILL_DELAY,
            priomap: DEFAULT_MAP,
            weights: WEIGHTS,
            low_rate_threshold: LOW_RATE,
            orphan_mask: ORPHAN_MASK,
            ce_threshold: None,
        }
    }
}

fn rate(words: &mut Words<'_>) -> Result<Rate, WordError> {
    words.value_where(RATE_ALLOWED, |rate: &Rate| {
        (1..1 << 32).contains(&rate.as_bytes())
    })
}

impl Parameters for FqConfig {
    const BANDS: &'static [&'static str] = priority::BAND_NAMES.split_at(BANDS).0;

    const PARAMETERS: &'static [Parameter] = &[
        packets(
            "limit PACKETS",
            "10000",
            "Packets of each band that may wait",
        ),
        packets(
            "flow_limit PACKETS",
            "100",
            "Packets of a flow that may wait",
        ),
        Parameter::new(
            "quantum BYTES",
            ParameterKind::Number("bytes"),
            "1 to 1048576 bytes",
            "two full frames",
            "Bytes per flow and round",
        ),
        Parameter::new(
            "initial_quantum BYTES",
            ParameterKind::Number("bytes"),
            "at most 2147483647 bytes",
            "ten full frames",
            "Bytes of a flow that has not been seen",
        ),
        Parameter::new(
            "maxrate RATE",
            ParameterKind::Rate,
            RATE_ALLOWED,
            "none",
            "Rate of each flow",
        ),
        Parameter::new(
            "buckets NUMBER",
            ParameterKind::Number("buckets"),
            "2 to 262144 buckets",
            "1024",
            "Accepted for tc's sake: how flows are found decides nothing",
        ),
        Parameter::flag("pacing|nopacing", "pacing", "Whether maxrate is kept"),
        Parameter::new(
            "refill_delay TIME",
            ParameterKind::Time,
            codel::TIME_ALLOWED,
            "40ms",
            "How long a flow has to be idle for a new quantum",
        ),
        Parameter::new(
            "bands 3 priomap P0 … P15",
            ParameterKind::Words,
            MAP_ALLOWED,
            "3 priomap 1 2 2 2 1 2 0 0 1 1 1 1 1 1 1 1",
            "The band of each priority that a packet's TOS field may give it",
        ),
        Parameter::new(
            "weights W1 W2 W3",
            ParameterKind::Words,
            WEIGHTS_ALLOWED,
            "589824 196608 65536",
            "Bytes by which the bands share the link",
        ),
        Parameter::new(
            "low_rate_threshold RATE",
            ParameterKind::Rate,
            RATE_ALLOWED,
            "550Kbit",
            "Value of maxrate up to which each packet has a pause of its own",
        ),
        Parameter::new(
            "orphan_mask MASK",
            ParameterKind::Number(""),
            u32::ALLOWED,
            "1023",
            "Bits of a packet's hash that are its flow, as no packet is of a socket here",
        ),
        Parameter::new(
            "ce_threshold TIME",
            ParameterKind::Time,
            codel::TIME_ALLOWED,
            "none",
            "Lateness above which packets are marked",
        ),
    ];

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.limit),
            is(self.flow_limit),
            maybe(self.quantum),
            maybe(self.initial_quantum),
            maybe(self.maxrate),
            is(self.buckets),
            Holds::Flag(self.pacing),
            is(self.refill_delay),
            is(format_args!(
                "3 priomap {}",
                priority::written(&self.priomap)
            )),
            is(self.weights.map(|n| n.to_string()).join(" ")),
            is(self.low_rate_threshold),
            is(self.orphan_mask),
            maybe(self.ce_threshold),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "limit" => self.limit = read_packets(words)?,
            "flow_limit" => self.flow_limit = read_packets(words)?,
            "quantum" => {
                let fits = |n: &u32| (1..=1 << 20).contains(n);
                self.quantum = Some(words.value_where("1 to 1048576 bytes", fits)?);
            }
            "initial_quantum" => {
                let fits = |n: &u32| *n <= i32::MAX as u32;
                self.initial_quantum = Some(words.value_where("at most 2147483647 bytes", fits)?);
            }
            "maxrate" => self.maxrate = Some(rate(words)?),
            "buckets" => {
                let fits = |n: &u32| (2..=262_144).contains(n);
                self.buckets = words.value_where("2 to 262144 buckets", fits)?;
            }
            "pacing" | "nopacing" => self.pacing = key.text == "pacing",
            "refill_delay" => self.refill_delay = codel::time(words)?,
            "bands" => {
                words.value_where(MAP_ALLOWED, |n: &u8| usize::from(*n) == BANDS)?;
                let priomap = words.needed(MAP_ALLOWED)?;
                if priomap.text != "priomap" {
                    return Err(priomap.refused(MAP_ALLOWED));
                }
                for band in &mut self.priomap {
                    let fits = |n: &u8| usize::from(*n) < BANDS;
                    *band = words.value_where("16 bands from 0 to 2", fits)?;
                }
            }
            "weights" => {
                for weight in &mut self.weights {
                    let fits = |n: &u32| (MIN_WEIGHT..=i32::MAX as u32).contains(n);
                    *weight = words.value_where(WEIGHTS_ALLOWED, fits)?;
                }
            }
            "low_rate_threshold" => self.low_rate_threshold = rate(words)?,
            "orphan_mask" => self.orphan_mask = words.value()?,
            "ce_threshold" => self.ce_threshold = Some(codel::time(words)?),
            named if WITHOUT_MEANING.contains(&named) => {
                let allowed: Vec<_> = Parameter::usages(Self::PARAMETERS).collect();
                return Err(key.refused(allowed.join(", ")).with_help(format!(
                    "`{named}` has no meaning here: no packet carries a time at which it is to be \
                     sent, and timers are exact"
                )));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn check(&mut self, line: &str) -> Result<(), WordError> {
        // Not more flows than there may be packets in all bands.
        match self.orphan_mask.count_ones() <= 16 {
            true => Ok(()),
            false => Err(WordError::new(
                place_of(line, "orphan_mask"),
                format!("a mask of {} bits", self.orphan_mask.count_ones()),
                "a mask of at most 16 bits",
            )),
        }
    }

    fn marking_step(&self) -> Option<Duration> {
        self.ce_threshold
    }

    fn bucket_of(&self, mut rng: Rng, packet: &Packet) -> Option<usize> {
        let hash = FlowHash::new(&mut rng).of(packet);
        Some((hash & self.orphan_mask) as usize)
    }
}
