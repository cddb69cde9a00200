//! Parameters of `cake` in the words of tc-cake(8).

use narrows_core::Packet;
use narrows_units::{
    Bytes, Duration, Parameter, ParameterKind, Rate, Rng, Word, WordError, Words, word_for,
};

use super::ack_filter::{self, AckFilter};
use super::framing::{CELLS, CONSERVATIVE, Cells, Framing, PRESETS};
use super::isolation::{self, FlowMode};
use super::tins::{self, Diffserv};
use crate::codel::{self, INTERVAL};
use crate::flows::FlowHash;
use crate::reading::{Holds, Parameters, is, maybe};

/// Names of round trips (iproute2 tc/q_cake.c; tc-cake(8) states an hour for the last one,
/// and tc sets 1000 s).
const TRIPS: &[(&str, Duration)] = &[
    ("datacentre", Duration::from_micros(100)),
    ("lan", Duration::from_millis(1)),
    ("metro", Duration::from_millis(10)),
    ("regional", Duration::from_millis(30)),
    ("internet", Duration::from_millis(100)),
    ("oceanic", Duration::from_millis(300)),
    ("satellite", Duration::from_millis(1_000)),
    ("interplanetary", Duration::from_secs(1_000)),
];

/// Part of the round trip that is the target (iproute2 tc/q_cake.c).
const TARGETS_OF_A_TRIP: u64 = 20;
/// The values that `overhead` and `mpu` take.
const OVERHEADS: &str = "-64 to 256 bytes";
const MPUS: &str = "0 to 256 bytes";
const RATES: &str = "a rate above zero such as 20Mbit, or `unlimited`";
const SIZES: &str = "1 byte to 4095Mb";

/// Which parameters the line being read has set so far; empty between lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Said {
    overhead: bool,
    raw: bool,
    trip: bool,
}

/// Parameters of `cake`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CakeConfig {
    /// The rate that is shaped to; unset: as fast as the link takes packets.
    pub bandwidth: Option<Rate>,
    /// How packets are sorted into tins.
    pub diffserv: Diffserv,
    /// What a flow is, and between whom capacity is shared first.
    pub flows: FlowMode,
    /// Whether addresses before translation would count, if this host translated.
    pub nat: bool,
    /// Whether the code point is cleared of what was sorted by it.
    pub wash: bool,
    /// Whether arriving traffic is shaped: what is dropped has used the link, too.
    pub ingress: bool,
    /// Which ACKs are taken away.
    pub ack_filter: AckFilter,
    /// Whether large packets of segmentation offload are split; packets here are split.
    pub split_gso: bool,
    /// The round trip that the AQM is set for; the target is a twentieth.
    pub rtt: Duration,
    /// What a packet counts for the shaper.
    pub framing: Framing,
    /// Bytes that may wait; unset: four times rate times round trip and at least 4 MiB, or
    /// 10240 full frames.
    pub memlimit: Option<Bytes>,
    said: Said,
}

impl Default for CakeConfig {
    fn default() -> Self {
        Self {
            bandwidth: None,
            diffserv: Diffserv::default(),
            flows: FlowMode::default(),
            nat: false,
            wash: false,
            ingress: false,
            ack_filter: AckFilter::default(),
            split_gso: true,
            rtt: INTERVAL,
            framing: Framing::default(),
            memlimit: None,
            said: Said::default(),
        }
    }
}

impl CakeConfig {
    /// Acceptable standing delay, before the rate of a tin is looked at.
    pub fn target(&self) -> Duration {
        Duration::from_micros((self.rtt.as_micros() / TARGETS_OF_A_TRIP).max(1))
    }

    /// Takes what says how long packets are: `None` if `key` does not.
    fn set_framing(
        &mut self,
        key: Word<'_>,
        words: &mut Words<'_>,
    ) -> Option<Result<(), WordError>> {
        let framing = &mut self.framing;
        // A line that says anything of the overhead says all of it.
        let before = match self.said.overhead {
            true => framing.overhead,
            false => 0,
        };
        if let Some(preset) = PRESETS.iter().find(|p| p.name == key.text) {
            let sum = before.saturating_add(preset.adds);
            framing.overhead = sum;
            framing.mpu = preset.mpu.unwrap_or(framing.mpu);
            framing.cells = preset.cells.unwrap_or(framing.cells);
        } else if let Some((_, cells)) = CELLS.iter().find(|c| c.0 == key.text) {
            framing.cells = *cells;
            return Some(Ok(()));
        } else {
            match key.text {
                "raw" => {
                    (framing.overhead, framing.cells) = (0, Cells::None);
                    self.said.raw = true;
                }
                "conservative" => (framing.overhead, framing.cells) = (CONSERVATIVE, Cells::Atm),
                "overhead" => match read_overhead(words) {
                    Ok(overhead) => framing.overhead = overhead,
                    Err(error) => return Some(Err(error)),
                },
                "mpu" => {
                    let mpu = words.value_where(MPUS, |n: &u32| *n <= 256);
                    return Some(mpu.map(|mpu| framing.mpu = mpu as u16));
                }
                // tc ignores it: whether there is an Ethernet header is known.
                "via-ethernet" => return Some(Ok(())),
                _ => return None,
            }
        }
        self.said.overhead = true;
        Some(Ok(()))
    }
}

/// A whole number, which may be negative.
fn read_overhead(words: &mut Words<'_>) -> Result<i16, WordError> {
    let word = words.needed(OVERHEADS)?;
    let number = word.text.parse().ok();
    number
        .filter(|n| (-64..=256).contains(n))
        .ok_or_else(|| word.refused(OVERHEADS))
}

/// Why a word of tc-cake(8) is not taken.
fn refused_by_name(key: Word<'_>) -> Option<WordError> {
    let (allowed, reason) = match key.text {
        "autorate-ingress" => (
            "`bandwidth RATE` or `unlimited`",
            "cake estimates no capacity here: a run states its rate, and one that varies is \
             changed at set times by `[[change]]`",
        ),
        "fwmark" => (
            "a mode of diffserv, such as diffserv4",
            "packets here carry no marks of a firewall; tins are chosen by the DS field, which \
             `remark` sets",
        ),
        _ => return None,
    };
    Some(key.refused(allowed).with_help(reason))
}

impl Parameters for CakeConfig {
    const BANDS: &'static [&'static str] = super::tins::ALL_NAMES;

    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "bandwidth RATE",
            ParameterKind::Rate,
            RATES,
            "unlimited",
            "Rate that is shaped to, counted as the framing says",
        ),
        Parameter::flag(
            "unlimited",
            "unlimited",
            "Sends as fast as the link takes packets",
        ),
        Parameter::flag(
            "besteffort|precedence|diffserv3|diffserv4|diffserv8|diffserv",
            "diffserv3",
            "Tins that packets are sorted into by their DS field; diffserv is diffserv4",
        ),
        Parameter::flag(
            "flowblind|srchost|dsthost|hosts|flows|dual-srchost|dual-dsthost|triple-isolate",
            "triple-isolate",
            "What a flow is, and which hosts share first",
        ),
        Parameter::flag(
            "nat|nonat",
            "nonat",
            "Whether hosts are isolated by their addresses before a translation on the same host, which none here makes",
        ),
        Parameter::flag(
            "wash|nowash",
            "nowash",
            "Whether the code point is cleared once it has been looked at",
        ),
        Parameter::flag(
            "ingress|egress",
            "egress",
            "Whether arriving traffic is shaped, so that what is dropped counts, too",
        ),
        Parameter::flag(
            "ack-filter|ack-filter-aggressive|no-ack-filter",
            "no-ack-filter",
            "Which ACKs are dropped that newer ones make superfluous",
        ),
        Parameter::flag(
            "split-gso|no-split-gso",
            "split-gso",
            "Whether packets of segmentation offload are split, which they are here",
        ),
        Parameter::new(
            "rtt TIME",
            ParameterKind::Time,
            codel::TIME_ALLOWED,
            "100ms",
            "Round trip that the AQM is set for; its target is a twentieth",
        ),
        Parameter::flag(
            "datacentre|lan|metro|regional|internet|oceanic|satellite|interplanetary",
            "internet",
            "A round trip of 100us, 1ms, 10ms, 30ms, 100ms, 300ms, 1s or 1000s",
        ),
        Parameter::flag(
            "raw|conservative",
            "raw",
            "What the link counts for a packet; or overhead 48 atm",
        ),
        Parameter::new(
            "overhead BYTES",
            ParameterKind::Number("bytes"),
            OVERHEADS,
            "",
            "Bytes that each IP packet counts beside its length",
        ),
        Parameter::new(
            "mpu BYTES",
            ParameterKind::Number("bytes"),
            MPUS,
            "0",
            "Bytes that a packet counts at least, overhead included",
        ),
        Parameter::flag(
            "noatm|atm|ptm",
            "noatm",
            "Cells of 48 bytes in 53, or code words of 64 in 65",
        ),
        Parameter::new(
            "memlimit BYTES",
            ParameterKind::Size,
            SIZES,
            "4 times rate times rtt and at least 4Mb, or 10240 full frames",
            "Bytes that may wait",
        ),
        Parameter::flag(
            "ethernet|docsis|ether-vlan",
            "raw",
            "Overhead 38 mpu 84; overhead 18 mpu 64 noatm; 4 bytes more",
        ),
        Parameter::flag(
            "pppoa-vcmux|pppoa-llc|pppoe-vcmux|pppoe-llcsnap|bridged-vcmux|bridged-llcsnap|ipoa-vcmux|ipoa-llcsnap",
            "raw",
            "Over ATM with 10, 14, 32, 40, 24, 32, 8 or 16 bytes of overhead",
        ),
        Parameter::flag(
            "pppoe-ptm|bridged-ptm",
            "raw",
            "Over PTM with 30 or 22 bytes of overhead",
        ),
        Parameter::flag(
            "via-ethernet",
            "",
            "Nothing: printed by tc where it counts from the IP packet",
        ),
    ];

    fn values(&self) -> Vec<Holds> {
        let framing = &self.framing;
        let stated = framing.from_ip || framing.overhead != 0;
        vec![
            maybe(self.bandwidth),
            Holds::Unsaid,
            is(self.diffserv.word()),
            is(word_for(isolation::MODES, &self.flows)),
            Holds::Flag(self.nat),
            Holds::Flag(self.wash),
            Holds::Flag(self.ingress),
            is(word_for(ack_filter::MODES, &self.ack_filter)),
            Holds::Flag(self.split_gso),
            is(self.rtt),
            Holds::Unsaid,
            maybe((stated && !framing.from_ip).then_some("raw")),
            maybe(stated.then_some(framing.overhead)),
            is(framing.mpu),
            is(word_for(CELLS, &framing.cells)),
            maybe(self.memlimit),
        ]
    }

    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError> {
        fn named<T: Copy>(known: &[(&str, T)], key: Word<'_>) -> Option<T> {
            let found = known.iter().find(|(name, _)| *name == key.text);
            found.map(|(_, value)| *value)
        }
        if let Some(error) = refused_by_name(key) {
            return Err(error);
        }
        if let Some(done) = self.set_framing(key, words) {
            return done.map(|()| true);
        }
        if let Some(trip) = named(TRIPS, key) {
            if std::mem::replace(&mut self.said.trip, true) {
                let error = WordError::new(
                    key.span(),
                    format!("`{}` after another round trip", key.text),
                    "one of them",
                );
                return Err(error);
            }
            self.rtt = trip;
        } else if let Some(diffserv) = named(tins::MODES, key) {
            self.diffserv = diffserv;
        } else if let Some(flows) = named(isolation::MODES, key) {
            self.flows = flows;
        } else if let Some(filter) = named(ack_filter::MODES, key) {
            self.ack_filter = filter;
        } else {
            match key.text {
                // tc prints `bandwidth unlimited`, so that it is read as well.
                "bandwidth" if words.take_if("unlimited") => self.bandwidth = None,
                "bandwidth" => {
                    let rate = words.value_where(RATES, |r: &Rate| r.as_bytes() > 0)?;
                    self.bandwidth = Some(rate);
                }
                "unlimited" => self.bandwidth = None,
                "rtt" => self.rtt = codel::time(words)?,
                "nat" | "nonat" => self.nat = key.text == "nat",
                "wash" | "nowash" => self.wash = key.text == "wash",
                "split-gso" | "no-split-gso" => self.split_gso = key.text == "split-gso",
                "ingress" | "egress" => self.ingress = key.text == "ingress",
                "memlimit" => {
                    let limit =
                        words.value_where(SIZES, |n: &Bytes| (1..4096 << 20).contains(&n.get()))?;
                    self.memlimit = Some(limit);
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Overhead counts from the IP packet, once a line says one and does not say `raw`.
    fn check(&mut self, _line: &str) -> Result<(), WordError> {
        let said = std::mem::take(&mut self.said);
        if said.overhead {
            self.framing.from_ip = !said.raw;
        }
        Ok(())
    }

    fn marking_step(&self) -> Option<Duration> {
        None
    }

    fn shaped_to(&self) -> Option<Rate> {
        self.bandwidth
    }

    /// Flows find queues of their own in a set of eight; what shares a bucket is what has
    /// the same hash.
    fn bucket_of(&self, mut rng: Rng, packet: &Packet) -> Option<usize> {
        let flow = self.flows.flow_of(FlowHash::new(&mut rng), packet);
        flow.map(|flow| flow as usize)
    }
}

#[cfg(test)]
mod tests;
