//! Parameters of `fq_codel` in the words of tc-fq_codel(8).

use std::fmt;

use narrows_core::Packet;
use narrows_units::{
    Bytes, Duration, Parameter, ParameterKind, Rng, Value, Word, WordError, Words,
};

use crate::codel::{self, Selector};
use crate::reading::{self, Holds, Parameters, is, maybe, packets, read_packets};

/// Packets in all flows together, RFC 8290 §5.2.3.
const LIMIT: u32 = 10_240;
/// Hash buckets, RFC 8290 §5.2.4.
const FLOWS: u32 = 1_024;
/// Bytes in all flows together, RFC 8290 §5.2.7. Counts what the link counts,
/// where Linux counts the memory of a packet (`truesize`).
const MEMORY_LIMIT: u64 = 32 << 20;
/// Packets that overflow drops at once, RFC 8290 §4.1.
const DROP_BATCH: u32 = 64;
/// Greatest number of flows (`fq_codel_change`, Linux v6.17).
const MAX_FLOWS: u32 = 65_536;

/// Parameters of `fq_codel`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FqCodelConfig {
    /// Packets that may wait in all flows together.
    pub limit: u32,
    /// Hash buckets.
    pub flows: u32,
    /// Bytes per flow and round; unset: one full frame, 1514 on Ethernet.
    pub quantum: Option<u32>,
    /// Acceptable standing delay.
    pub target: Duration,
    /// Window over which the delay has to fall below target once.
    pub interval: Duration,
    /// Mark everything that waited longer, whatever the law says.
    pub ce_threshold: Option<Duration>,
    /// To which packets `ce_threshold` applies; unset: all.
    pub ce_threshold_selector: Option<Selector>,
    /// Bytes that may wait in all flows together.
    pub memory_limit: Bytes,
    /// Packets that overflow drops at once from the fattest flow.
    pub drop_batch: u32,
    /// Mark instead of dropping where the packet allows it.
    pub ecn: bool,
}

impl Default for FqCodelConfig {
    fn default() -> Self {
        Self {
            limit: LIMIT,
            flows: FLOWS,
            quantum: None,
            target: codel::TARGET,
            interval: codel::INTERVAL,
            ce_threshold: None,
            ce_threshold_selector: None,
            memory_limit: Bytes::new(MEMORY_LIMIT),
            drop_batch: DROP_BATCH,
            ecn: true,
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#04x}/{:#04x}", self.value, self.mask)
    }
}

impl Value for Selector {
    const ALLOWED: &'static str = "VALUE/MASK of the traffic class, such as 0x01/0x03";

    fn parse(word: &str) -> Option<Self> {
        let byte = |text: &str| match text.strip_prefix("0x") {
            Some(hex) if !hex.starts_with('+') => u8::from_str_radix(hex, 16).ok(),
            Some(_) => None,
            None => u8::parse(text),
        };
        let (value, mask) = word.split_once('/')?;
        Some(Self {
            value: byte(value)?,
            mask: byte(mask)?,
        })
    }
}

impl Parameters for FqCodelConfig {
    const PARAMETERS: &'static [Parameter] = &[
        packets(
            "limit PACKETS",
            "10240",
            "Packets that may wait in all flows together",
        ),
        Parameter::new(
            "flows NUMBER",
            ParameterKind::Number("flows"),
            "1 to 65536 flows",
            "1024",
            "Hash buckets, which a running queue keeps",
        ),
        Parameter::new(
            "quantum BYTES",
            ParameterKind::Number("bytes"),
            "256 to 1048576 bytes",
            "one full frame",
            "Bytes per flow and round",
        ),
        codel::TARGET_PARAMETER,
        codel::CE_THRESHOLD_PARAMETER,
        Parameter::new(
            "ce_threshold_selector VALUE/MASK",
            ParameterKind::Words,
            Selector::ALLOWED,
            "all packets",
            "Packets that ce_threshold applies to, by their DS field",
        ),
        codel::INTERVAL_PARAMETER,
        Parameter::new(
            "memory_limit BYTES",
            ParameterKind::Size,
            "1 byte to 2048Mb",
            "32Mb",
            "Bytes that may wait in all flows together",
        ),
        packets(
            "drop_batch SIZE",
            "64",
            "Packets that an overflow drops at once from the longest flow",
        ),
        codel::ecn_parameter("ecn"),
    ];

    fn values(&self) -> Vec<Holds> {
        vec![
            is(self.limit),
            is(self.flows),
            maybe(self.quantum),
            is(self.target),
            maybe(self.ce_threshold),
            maybe(self.ce_threshold_selector),
            is(self.interval),
            is(self.memory_limit),
            is(self.drop_batch),
            Holds::Flag(self.ecn),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        match key.text {
            "limit" => self.limit = read_packets(words)?,
            "flows" => {
                self.flows =
                    words.value_where("1 to 65536 flows", |n: &u32| (1..=MAX_FLOWS).contains(n))?;
            }
            "quantum" => {
                let quantum = words.value_where("256 to 1048576 bytes", |n: &u32| {
                    (256..=1 << 20).contains(n)
                })?;
                self.quantum = Some(quantum);
            }
            "target" => self.target = codel::time(words)?,
            "interval" => self.interval = codel::time(words)?,
            "ce_threshold" => self.ce_threshold = Some(codel::time(words)?),
            "ce_threshold_selector" => self.ce_threshold_selector = Some(words.value()?),
            "memory_limit" => {
                self.memory_limit = words.value_where("1 byte to 2048Mb", |n: &Bytes| {
                    (1..=1 << 31).contains(&n.get())
                })?;
            }
            "drop_batch" => self.drop_batch = read_packets(words)?,
            "ecn" | "noecn" => self.ecn = key.text == "ecn",
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The number of flows is fixed when the queue is made.
    fn check_change(&self, old: &Self, line: &str) -> Result<(), WordError> {
        match old.flows == self.flows {
            true => Ok(()),
            false => Err(reading::kept(line, "flows", old.flows)),
        }
    }

    fn marking_step(&self) -> Option<Duration> {
        self.ce_threshold
    }

    fn bucket_of(&self, rng: Rng, packet: &Packet) -> Option<usize> {
        super::bucket_of(self, rng, packet)
    }
}
