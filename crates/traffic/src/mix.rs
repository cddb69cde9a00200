//! A mix: shares of a bandwidth, and the flows that fill them.

use narrows_units::{Duration, alternatives};
use narrows_yaml::Bounds;

use crate::MAX_BYTES;
use crate::error::MixError;
use crate::fields::{Fields, HOST, LABEL, host, label};
use crate::flow_file::{self, port};
use crate::number::{BANDWIDTH, DURATION, Decimal, PERCENT, bandwidth, duration, percent};
use crate::set::{FlowSet, MAX_TRANSFERS, Offsets, Sends, Starts, Transfer, Until};

/// A kind of application that a mix names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Its word.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    model: Model,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    /// Flows of a constant rate in bits a second; datagrams of `size` bytes, or a connection.
    Constant { rate: u64, size: Option<u32> },
    /// Clients that each ask for so many bytes once in a period.
    Bursts { bytes: u64, period: Duration },
}

const fn constant(name: &'static str, about: &'static str, rate: u64, size: Option<u32>) -> Kind {
    let model = Model::Constant { rate, size };
    Kind { name, about, model }
}

const fn bursts(name: &'static str, about: &'static str, bytes: u64, seconds: u64) -> Kind {
    let period = Duration::from_secs(seconds);
    let model = Model::Bursts { bytes, period };
    Kind { name, about, model }
}

/// The kinds of trafic's mixer, with its figures.
pub const KINDS: [Kind; 6] = [
    constant(
        "realtime-audio",
        "speech in one direction: datagrams of 126 bytes at 64 kbit/s",
        64_000,
        Some(126),
    ),
    constant(
        "realtime-video",
        "a video call in one direction: datagrams of 930 bytes at 810 kbit/s",
        810_000,
        Some(930),
    ),
    constant(
        "scavenger",
        "a background connection on which 1 Mbit/s is written",
        1_000_000,
        None,
    ),
    bursts("greedy", "a download of 25 MB each 30 s", 25_000_000, 30),
    bursts(
        "abr-video",
        "a segment of video of 1.8 MB each 10 s",
        1_800_000,
        10,
    ),
    bursts(
        "web-page",
        "a page of 1,246,000 bytes each 10 s",
        1_246_000,
        10,
    ),
];

/// Time between reports where a file says nothing, as trafic's examples have it.
const INTERVAL: Duration = Duration::from_millis(200);

/// A mix, sized.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    /// Bytes a second that it was to fill; `None` of a flow file, which has no such figure.
    pub bandwidth: Option<u64>,
    /// How long it runs.
    pub time: Duration,
    /// Time between reports.
    pub interval: Duration,
    /// Its flows.
    pub sets: Vec<FlowSet>,
    /// What of the files is not as one would expect.
    pub notes: Vec<String>,
}

impl Mix {
    /// Reads a mix file, or a flow file as the mix that it alone is. `file` is for errors.
    ///
    /// # Errors
    /// The first mistake.
    pub fn read(file: &str, text: &str) -> Result<Self, MixError> {
        Self::read_with(file, text, None)
    }

    /// The same, with a bandwidth in bytes a second in place of the file's. A flow file has none,
    /// and stays as it is.
    ///
    /// # Errors
    /// The first mistake.
    pub fn read_with(file: &str, text: &str, bandwidth: Option<u64>) -> Result<Self, MixError> {
        let bounds = Bounds {
            bytes: MAX_BYTES,
            ..Bounds::default()
        };
        let root = narrows_yaml::parse(text, bounds).map_err(|fault| MixError::of(file, fault))?;
        let top = Fields::of(file, "", &root)?;
        match top.get("client") {
            Some(_) => Self::of_flow(&top),
            None => Self::of_mix(&top, bandwidth),
        }
    }

    /// The mix of several flow files, as a folder of trafic's has them.
    ///
    /// # Errors
    /// The first mistake, a label that two of them have among them.
    pub fn of_files<'f>(
        files: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> Result<Self, MixError> {
        let mut all = Self {
            bandwidth: None,
            time: Duration::ZERO,
            interval: INTERVAL,
            sets: Vec::new(),
            notes: Vec::new(),
        };
        for (file, text) in files {
            let one = Self::read(file, text)?;
            let refused = |found: String, allowed: &str| MixError {
                file: file.to_owned(),
                at: (1, 1),
                key: String::new(),
                found,
                allowed: allowed.to_owned(),
            };
            if one.bandwidth.is_some() {
                return Err(refused(
                    "a mix".to_owned(),
                    "flow files, where there are several",
                ));
            }
            for set in one.sets {
                if all.sets.iter().any(|other| other.label == set.label) {
                    let found = format!("the label `{}` a second time", set.label);
                    return Err(refused(found, "a label of its own for each flow"));
                }
                all.sets.push(set);
            }
            all.interval = one.interval;
            all.time = all.time.max(one.time);
            all.notes.extend(one.notes);
            if all.transfers() > MAX_TRANSFERS {
                let found = format!("{} transfers up to here", all.transfers());
                return Err(refused(found, &format!("at most {MAX_TRANSFERS} in all")));
            }
        }
        Ok(all)
    }

    fn of_flow(top: &Fields<'_>) -> Result<Self, MixError> {
        let flow = flow_file::read(top)?;
        let last = match &flow.set.starts {
            Starts::At(times) => times.iter().max().copied().unwrap_or(Duration::ZERO),
            Starts::Every { .. } => Duration::ZERO,
        };
        Ok(Self {
            bandwidth: None,
            time: last + flow.set.sends.lasts(),
            interval: flow.interval.unwrap_or(INTERVAL),
            sets: vec![flow.set],
            notes: flow.notes,
        })
    }

    fn of_mix(top: &Fields<'_>, given: Option<u64>) -> Result<Self, MixError> {
        top.only(&[
            "total-bandwidth",
            "total-time",
            "report-interval",
            "flows",
            "server",
        ])?;
        let bandwidth = top.required("total-bandwidth", BANDWIDTH, bandwidth)?;
        let not_zero = |text: &str| duration(text).filter(|time| !time.is_zero());
        let time = top.required("total-time", DURATION, not_zero)?;
        let interval = top.optional("report-interval", DURATION, not_zero)?;
        let mut mix = Self {
            bandwidth: Some(given.unwrap_or(bandwidth)),
            time,
            interval: interval.unwrap_or(INTERVAL),
            sets: Vec::new(),
            notes: Vec::new(),
        };
        let mut shares = Decimal::ZERO;
        for (i, node) in top.list("flows")?.iter().enumerate() {
            let flow = Fields::of(top.file, &format!("flows/{}", i + 1), node)?;
            shares = shares.plus(mix.add(&flow)?);
            if mix.transfers() > MAX_TRANSFERS {
                let found = format!("{} transfers up to here", mix.transfers());
                let allowed = format!("at most {MAX_TRANSFERS} in all");
                return Err(flow.error("", node.at, found, allowed));
            }
        }
        if shares.digits > 100 * 10_u128.pow(shares.scale) {
            mix.notes.push(format!(
                "{}: shares of {shares} % in all: more is offered than is to be filled",
                top.file
            ));
        }
        Ok(mix)
    }

    /// Adds the flows of one entry of `flows`: its share, in percent.
    fn add(&mut self, flow: &Fields<'_>) -> Result<Decimal, MixError> {
        flow.only(&[
            "kind",
            "percent-bandwidth",
            "ports-range",
            "props",
            "template",
        ])?;
        if let Some(node) = flow.get("template") {
            let allowed =
                "no template, which is a program of trafic's: describe the flow in a flow file";
            return Err(flow.wrong("template", node, allowed));
        }
        let words = KINDS.map(|kind| kind.name);
        let kind = flow.required("kind", &alternatives(&words), |text| {
            KINDS.iter().find(|kind| kind.name == text)
        })?;
        let share = flow.required("percent-bandwidth", PERCENT, percent)?;
        let ports = flow.required("ports-range", PORTS, ports)?;
        let props = flow.map("props")?;
        props.only(&["label", "server"])?;
        let label = props.required("label", LABEL, label)?;
        let set = self.sized(kind, share, label, props.optional("server", HOST, host)?);
        let of = |key: &str| flow.get(key).map_or((1, 1), |node| node.at);
        if self.sets.iter().any(|other| other.label == set.label) {
            let at = props.get("label").map_or((1, 1), |node| node.at);
            let found = format!("`{}` a second time", set.label);
            return Err(props.error("label", at, found, "a label of its own for each flow"));
        }
        let has = u32::from(ports.1 - ports.0) + 1;
        if matches!(set.starts, Starts::Every { .. }) && set.instances > has {
            let found = format!("{has} ports");
            let allowed = format!("one for each of {} clients", set.instances);
            return Err(flow.error("ports-range", of("ports-range"), found, allowed));
        }
        if set.transfers() == 0 {
            let line = of("percent-bandwidth").0;
            let why = match set.instances {
                0 => "its share is less than one of its flows takes",
                _ => "the mix is shorter than its period",
            };
            self.notes.push(format!(
                "{}:{line}: `{}` has no flow: {why}",
                flow.file, set.label
            ));
        }
        self.sets.push(set);
        Ok(share)
    }

    /// How many flows of a kind its share has room for, rounded down.
    fn sized(&self, kind: &Kind, share: Decimal, label: String, server: Option<String>) -> FlowSet {
        // Bits a second are 8 · bandwidth · share / 100; both sides are multiplied out, so that
        // nothing is rounded before the division.
        let bits = u128::from(self.bandwidth.unwrap_or(0)) * 8 * share.digits;
        let parts = 100 * 10_u128.pow(share.scale);
        let fit = |bits: u128, each: u128| u32::try_from(bits / (parts * each)).unwrap_or(u32::MAX);
        let (instances, sends, starts) = match kind.model {
            Model::Constant { rate, size } => {
                let until = Until::Time(self.time);
                let sends = match size {
                    Some(size) => Sends::Datagrams { rate, size, until },
                    None => Sends::Paced { rate, until },
                };
                let at = Starts::At(vec![Duration::ZERO]);
                (fit(bits, u128::from(rate)), sends, at)
            }
            Model::Bursts { bytes, period } => {
                let seconds = u128::from(period.as_nanos() / 1_000_000_000);
                let clients = fit(bits * seconds, u128::from(bytes) * 8);
                let times = self.time.as_nanos() / period.as_nanos();
                let times = u32::try_from(times).unwrap_or(u32::MAX);
                (clients, Sends::Get(bytes), Starts::Every { period, times })
            }
        };
        FlowSet {
            label,
            kind: kind.name.to_owned(),
            sends,
            instances,
            starts,
            dscp: None,
            control: None,
            server,
        }
    }

    /// Transfers that it has in all.
    pub fn transfers(&self) -> usize {
        let each = self.sets.iter().map(FlowSet::transfers);
        each.fold(0, usize::saturating_add)
    }

    /// Bytes of payload that it offers; what depends on the path is not in it.
    pub fn bytes(&self) -> u64 {
        let each = self.sets.iter().filter_map(FlowSet::bytes);
        each.fold(0, u64::saturating_add)
    }

    /// Bits a second of payload that it offers while it runs.
    pub fn offered(&self) -> f64 {
        self.bytes() as f64 * 8.0 / self.time.as_secs_f64().max(1e-9)
    }

    /// All transfers, by their beginnings.
    pub fn schedule(&self, offsets: Offsets, seed: u64) -> Vec<Transfer> {
        let sets = (0..).zip(&self.sets);
        let mut all: Vec<_> = sets
            .flat_map(|(i, set)| set.schedule(i, offsets, seed))
            .collect();
        all.sort_by_key(|transfer| (transfer.start, transfer.set, transfer.instance));
        all
    }
}

const PORTS: &str = "a range of ports such as 5000-5099";

fn ports(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-')?;
    let range = (port(first)?, port(last)?);
    (range.0 <= range.1).then_some(range)
}

#[cfg(test)]
mod tests;
