//! A flow file: one flow, in the words of iperf3.

use narrows_units::Duration;
use narrows_yaml::Value;

use crate::error::MixError;
use crate::fields::{Fields, HOST, LABEL, flag, host, label};
use crate::number::{DURATION, Decimal, MAX_TIME, SCALED, duration, of_c, scaled};
use crate::set::{FlowSet, MAX_TRANSFERS, Sends, Starts, Until};

/// iperf3's time of a test that says nothing else, in seconds.
const TIME: Duration = Duration::from_secs(10);

/// iperf3's rate of UDP where none is given.
const UDP_RATE: u64 = 1_000_000;

/// iperf3's payload of a datagram where none is given, of an Ethernet path.
const UDP_LENGTH: u64 = 1_460;

/// Greatest bit rate (our choice).
const MAX_RATE: u64 = 1_000_000_000_000;

/// Most bytes of a flow (our choice).
const MAX_FLOW: u64 = 1_000_000_000_000_000;

/// Payload of datagrams: those that measure have a head of 32 bytes, and UDP over IPv4 has room
/// for 65,507.
const LENGTHS: std::ops::RangeInclusive<u64> = 32..=65_507;

/// Keys at the top. `collector` and `mark` are in files of trafic and used by nothing in it.
const TOP: [&str; 7] = [
    "label",
    "port",
    "instances",
    "client",
    "server",
    "collector",
    "mark",
];

/// Keys of the client's `config` that say what is sent.
const USED: [&str; 14] = [
    "server-address",
    "server-port",
    "time-s",
    "bytes",
    "blockcount",
    "udp",
    "length",
    "target-bitrate",
    "parallel",
    "tos",
    "dscp",
    "title",
    "report-interval-s",
    "congestion-ctrl",
];

/// Those that concern iperf3's program, and change nothing of what is sent: always so, or without
/// meaning here.
const PROGRAM: [&str; 15] = [
    "get-server-output",
    "reverse",
    "json",
    "logfile",
    "format",
    "verbose",
    "debug",
    "forceflush",
    "connect-timeout-ms",
    "pacing-timer-ms",
    "udp-counters-64bit",
    "username",
    "rsa-public-key-path",
    "zerocopy",
    "file",
];

/// Those that would change it, and are not followed: a note says so.
const UNUSED: [&str; 11] = [
    "set-mss", "window", "no-delay", "omit-s", "fq-rate", "bind", "cport", "v4", "v6", "version4",
    "version6",
];

/// What a flow file says.
#[derive(Clone, Debug)]
pub(crate) struct FlowFile {
    pub(crate) set: FlowSet,
    /// Time between reports.
    pub(crate) interval: Option<Duration>,
    /// What of it is not followed.
    pub(crate) notes: Vec<String>,
}

/// Reads a flow file.
pub(crate) fn read(top: &Fields<'_>) -> Result<FlowFile, MixError> {
    top.only(&TOP)?;
    let name = top.required("label", LABEL, label)?;
    top.optional("port", PORT, port)?;
    let client = top.map("client")?;
    client.only(&["at", "config"])?;
    let config = client.map("config")?;
    let known: Vec<_> = USED
        .iter()
        .chain(&PROGRAM)
        .chain(&UNUSED)
        .copied()
        .collect();
    config.only(&known)?;
    let mut starts = Vec::new();
    for node in client.list("at")? {
        let time = match &node.value {
            Value::Text(text, _) => duration(text),
            _ => None,
        };
        starts.push(time.ok_or_else(|| client.wrong("at", node, DURATION))?);
    }
    let instances = match config.optional("parallel", INSTANCES, instances)? {
        Some(given) => Some(given),
        None => top.optional("instances", INSTANCES, instances)?,
    };
    config.optional("server-port", PORT, port)?;
    config.optional("title", LABEL, label)?;
    let set = FlowSet {
        label: name,
        kind: "flow".to_owned(),
        sends: sends(&config)?,
        instances: instances.unwrap_or(1),
        starts: Starts::At(starts),
        dscp: class_of(&config)?,
        control: config.optional("congestion-ctrl", LABEL, label)?,
        server: Some(config.required("server-address", HOST, host)?),
    };
    if set.transfers() > MAX_TRANSFERS {
        let found = format!("{} transfers", set.transfers());
        let at = top.get("label").map_or((1, 1), |node| node.at);
        return Err(top.error("", at, found, format!("at most {MAX_TRANSFERS} in all")));
    }
    let interval = config.optional("report-interval-s", SECONDS, seconds)?;
    let unused = UNUSED
        .iter()
        .filter_map(|key| Some((key, config.get(key)?)));
    let notes =
        unused.map(|(key, node)| format!("{}:{}: `{key}` is not followed", top.file, node.at.0));
    Ok(FlowFile {
        interval: interval.filter(|time| !time.is_zero()),
        notes: notes.collect(),
        set,
    })
}

/// What the flow sends.
fn sends(config: &Fields<'_>) -> Result<Sends, MixError> {
    let udp = config
        .optional("udp", "true or false", flag)?
        .unwrap_or(false);
    let bytes = config.optional("bytes", &up_to(SCALED, MAX_FLOW), |text| {
        scaled(text).filter(|n| (1..=MAX_FLOW).contains(n))
    })?;
    let blocks = config.optional("blockcount", SCALED, |text| {
        scaled(text).filter(|n| (1..=MAX_FLOW).contains(n))
    })?;
    let time = config.optional("time-s", SECONDS, seconds)?;
    let rate = config.optional("target-bitrate", &up_to(SCALED, MAX_RATE), |text| {
        // iperf3's burst of packets after a slash changes no rate.
        let rate = text.split_once('/').map_or(text, |(rate, _)| rate);
        scaled(rate).filter(|n| *n <= MAX_RATE)
    })?;
    let length_allowed = "32 to 65507 bytes for UDP, up to 16M for TCP";
    let length = config.optional("length", length_allowed, |text| {
        let most = if udp { LENGTHS } else { 1..=16_000_000 };
        scaled(text).filter(|n| most.contains(n))
    })?;
    let block = length.unwrap_or(if udp { UDP_LENGTH } else { 128 << 10 });
    // As iperf3: bytes, then blocks, then the time.
    let blocks = blocks.map(|n| n.saturating_mul(block).min(MAX_FLOW));
    let until = match (bytes.or(blocks), time) {
        (Some(bytes), _) => Until::Bytes(bytes),
        (None, time) => Until::Time(time.filter(|t| !t.is_zero()).unwrap_or(TIME)),
    };
    if udp {
        let rate = rate.unwrap_or(UDP_RATE);
        // A datagram each microsecond at most.
        let most = block * 8 * 1_000_000;
        if rate == 0 || rate > most {
            let node = config.get("target-bitrate");
            let at = node.map_or((1, 1), |node| node.at);
            let allowed =
                format!("above 0 and at most {most} bit/s for datagrams of {block} bytes");
            return Err(config.error("target-bitrate", at, format!("{rate} bit/s"), allowed));
        }
        let size = u32::try_from(block).unwrap_or(u32::MAX);
        return Ok(Sends::Datagrams { rate, size, until });
    }
    Ok(match (rate.filter(|rate| *rate > 0), until) {
        (Some(rate), until) => Sends::Paced { rate, until },
        (None, Until::Bytes(bytes)) => Sends::Get(bytes),
        (None, Until::Time(time)) => Sends::Bulk(time),
    })
}

/// The code point of `dscp` or `tos`.
fn class_of(config: &Fields<'_>) -> Result<Option<u8>, MixError> {
    let dscp = config.optional("dscp", DSCP, dscp)?;
    let tos = config.optional("tos", "0 to 255, as 20, 024 or 0x14", |text| {
        of_c(text).and_then(|n| u8::try_from(n).ok())
    })?;
    // The ECN field is the transport's.
    Ok(dscp.or(tos.map(|tos| tos >> 2)))
}

/// What [`dscp`] takes.
pub const DSCP: &str = "0 to 63, or a name: cs0 to cs7, af11 to af43, ef, le, va";

/// A code point by number or name, as iperf3 has it; `None` of what is none.
pub fn dscp(text: &str) -> Option<u8> {
    let word = text.trim().to_ascii_lowercase();
    let named = match word.as_bytes() {
        b"ef" => Some(46),
        b"va" => Some(44),
        b"le" => Some(1),
        [b'c', b's', class @ b'0'..=b'7'] => Some((class - b'0') << 3),
        [b'a', b'f', class @ b'1'..=b'4', drop @ b'1'..=b'3'] => {
            Some((class - b'0') << 3 | (drop - b'0') << 1)
        }
        _ => None,
    };
    let number = || of_c(&word).and_then(|n| u8::try_from(n).ok());
    named.or_else(number).filter(|n| *n < 64)
}

const PORT: &str = "a port from 1 to 65535";

pub(crate) fn port(text: &str) -> Option<u16> {
    of_c(text)
        .and_then(|n| u16::try_from(n).ok())
        .filter(|n| *n > 0)
}

const INSTANCES: &str = "1 to 10000";

fn instances(text: &str) -> Option<u32> {
    let number = text.trim().parse::<u32>().ok();
    number.filter(|n| (1..=10_000).contains(n))
}

const SECONDS: &str = "a number of seconds, up to a week";

fn seconds(text: &str) -> Option<Duration> {
    let (number, rest) = Decimal::leading(text.trim())?;
    let time = Duration::from_nanos(number.times(1_000_000_000)?);
    (rest.is_empty() && time <= MAX_TIME).then_some(time)
}

fn up_to(allowed: &str, most: u64) -> String {
    format!("{allowed}, up to {most}")
}
