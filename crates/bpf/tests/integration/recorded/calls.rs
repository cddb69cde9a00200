//! Files of hook calls, and their replay through the native build.
//!
//! A trace file is a gzip stream of
//!
//! | Bytes | Meaning |
//! |---|---|
//! | 8 | `NWTRACE` and the format's number, 2 |
//! | 2 + n | length (little-endian) and text: the algorithm in `narrows-cc`'s words |
//! | 2 + n | the same: the release of the kernel that ran it |
//! | per record: 1 | the hook's number, and 128 if it is a sample |
//! | 1 to 9 | LEB128: bit i is set if word i + 2 differs from the hook's last record |
//! | 1 to 5 each | LEB128 of the zigzag difference to that record's word, for each bit set |
//! | 1 to 10 each | LEB128 of the zigzag difference to the hook's last value of each field of telemetry |
//! | 1 | 255: the end |
//! | 1 to 10 | LEB128: number of records |
//!
//! Words are those of `struct nw_record` in src/bpf/record.h on a little-endian machine,
//! which alone can read and write such files. Most words of most records repeat, so a call takes about 15 bytes
//! before compression.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read, Write};

use narrows_bpf::{Hook, Record};
use narrows_cc::{Answer, CaState, Call, ControlSpec, Controller, CwndEvent, Flags};
use zerocopy::{FromBytes, IntoBytes};

use super::file::{cut_short, damaged, head, pack, take_head, unpack};

const MAGIC: [u8; 8] = *b"NWTRACE\x02";
const END: u8 = 255;
const SAMPLE: u8 = 128;
/// 32-bit words of `struct nw_record`.
const RECORD_WORDS: usize = 64;
/// The value of a field of telemetry that has none (`NW_UNKNOWN`).
const UNKNOWN: i64 = i64::MIN;
/// Words that the first byte of a record already holds: kind and hook.
const FIRST_WORDS: usize = 2;

/// What a control received and decided, call by call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// The algorithm and its parameters.
    pub spec: ControlSpec,
    /// Release of the kernel that ran it.
    pub kernel: String,
    /// In the order in which the hooks were called.
    pub records: Vec<Record>,
}

/// What a replay ran through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Connections.
    pub sockets: usize,
    /// Calls of each hook.
    pub calls: BTreeMap<Hook, u64>,
}

/// The first call in which the kernel and the native build differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Index of the record.
    pub index: usize,
    /// The hook that was called.
    pub hook: Hook,
    /// On which connection.
    pub socket: u32,
    /// What differs, with both values.
    pub what: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            index,
            hook,
            socket,
            what,
        } = self;
        let hook = hook.name();
        write!(f, "record {index}, {hook} of socket {socket}: {what}")
    }
}

impl Trace {
    /// Writes the file.
    ///
    /// # Errors
    /// If `out` cannot be written, or a text in the head is beyond what the format
    /// can say.
    pub fn write(&self, out: impl Write) -> io::Result<()> {
        let mut bytes = head(MAGIC, &self.spec.to_string(), &self.kernel)?;
        let mut last = BTreeMap::new();
        let fields = self.spec.telemetry().len();
        for record in &self.records {
            let words = words_of(record);
            let first = record.hook as u8 | if record.sample { SAMPLE } else { 0 };
            let (last, values) = last
                .entry(first)
                .or_insert_with(|| ([0; RECORD_WORDS], vec![0_i64; fields]));
            bytes.push(first);
            let pairs = || words.iter().zip(last.iter()).skip(FIRST_WORDS);
            let mask = pairs()
                .enumerate()
                .fold(0, |mask, (i, (a, b))| mask | u64::from(a != b) << i);
            put(&mut bytes, mask);
            for (word, before) in pairs().filter(|(a, b)| a != b) {
                let by = word.wrapping_sub(*before) as i32;
                put(&mut bytes, u64::from((by << 1 ^ by >> 31) as u32));
            }
            *last = words;
            for (before, value) in values.iter_mut().zip(values_of(record)) {
                let by = value.wrapping_sub(*before);
                put(&mut bytes, (by << 1 ^ by >> 63) as u64);
                *before = value;
            }
        }
        bytes.push(END);
        put(&mut bytes, self.records.len() as u64);
        pack(&bytes, out)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is not a trace, is cut short, or names an unknown algorithm.
    pub fn read(input: impl Read) -> io::Result<Self> {
        let bytes = unpack(input)?;
        let mut rest = bytes.as_slice();
        let (words, kernel) = take_head(&mut rest, MAGIC)?;
        let spec = ControlSpec::parse(&words)
            .map_err(|e| damaged(&format!("its algorithm `{words}`: {e}")))?;
        let fields = spec.telemetry().len();
        let mut records = Vec::new();
        let mut last = BTreeMap::new();
        loop {
            let first = byte(&mut rest)?;
            if first == END {
                break;
            }
            let (last, values) = last
                .entry(first)
                .or_insert_with(|| ([0; RECORD_WORDS], vec![0_i64; fields]));
            last[0] = u32::from(first & SAMPLE != 0);
            last[1] = u32::from(first & !SAMPLE);
            let mask = take(&mut rest)?;
            for (i, word) in last.iter_mut().skip(FIRST_WORDS).enumerate() {
                if mask >> i & 1 != 0 {
                    let zigzag = take(&mut rest)? as u32;
                    let by = zigzag >> 1 ^ (zigzag & 1).wrapping_neg();
                    *word = word.wrapping_add(by);
                }
            }
            for value in values.iter_mut() {
                let zigzag = take(&mut rest)?;
                let by = (zigzag >> 1 ^ (zigzag & 1).wrapping_neg()) as i64;
                *value = value.wrapping_add(by);
            }
            let record = [last.as_bytes(), values.as_bytes()].concat();
            records.push(Record::from_bytes(&record).map_err(io::Error::other)?);
        }
        if take(&mut rest)? != records.len() as u64 || !rest.is_empty() {
            return Err(damaged("its end does not fit its beginning"));
        }
        Ok(Self {
            spec,
            kernel,
            records,
        })
    }

    /// Feeds every recorded fact to the native build of the algorithm and
    /// compares what it decides with what the kernel's decided.
    ///
    /// # Errors
    /// The first difference. Calls before a connection's `init` count as one.
    pub fn replay(&self) -> Result<Replayed, Difference> {
        let mut controllers: BTreeMap<u32, Controller> = BTreeMap::new();
        let mut done = Replayed::default();
        for (index, record) in self.records.iter().enumerate() {
            if record.sample {
                continue;
            }
            let differs = |what| Difference {
                index,
                hook: record.hook,
                socket: record.socket,
                what,
            };
            if let Some(what) = contradiction(record) {
                return Err(differs(what));
            }
            if record.hook == Hook::Init {
                controllers.insert(record.socket, Controller::new(&self.spec));
                done.sockets += 1;
            }
            let controller = controllers
                .get_mut(&record.socket)
                .ok_or_else(|| differs("called before init".to_owned()))?;
            let Some(call) = call(record) else {
                let unknown = record.argument;
                return Err(differs(format!("the argument {unknown} is unknown")));
            };
            let native = controller.call(call, &record.facts);
            let kernel = Answer {
                decision: record.decision,
                returned: record.answer,
            };
            if kernel != native {
                return Err(differs(format!("kernel {kernel:?}, native {native:?}")));
            }
            let reported = controller.report();
            if reported != record.telemetry {
                let kernel = &record.telemetry;
                return Err(differs(format!(
                    "telemetry: kernel {kernel:?}, native {reported:?}"
                )));
            }
            *done.calls.entry(record.hook).or_default() += 1;
        }
        Ok(done)
    }
}

/// The call that a record is of; `None` if its state or event is unknown.
pub fn call(record: &Record) -> Option<Call> {
    let argument = record.argument as usize;
    Some(match record.hook {
        Hook::Init => Call::Init,
        Hook::Release => Call::Release,
        Hook::Ssthresh => Call::Ssthresh,
        Hook::UndoCwnd => Call::UndoCwnd,
        Hook::SetState => Call::SetState(*CaState::ALL.get(argument)?),
        Hook::CwndEvent => Call::CwndEvent(*CwndEvent::ALL.get(argument)?),
        Hook::InAckEvent => Call::InAckEvent,
        Hook::PktsAcked => Call::PktsAcked,
        Hook::CongAvoid => Call::CongAvoid(record.argument),
        Hook::CongControl => Call::CongControl,
        Hook::Timer => Call::Timer,
    })
}

/// A record as the words of its structure.
fn words_of(record: &Record) -> [u32; RECORD_WORDS] {
    let sample = u32::from(record.sample);
    let head = [
        sample,
        record.hook as u32,
        record.socket,
        record.argument,
        record.answer,
        0,
    ];
    let fields = [
        head.as_bytes(),
        record.raw.as_bytes(),
        record.facts.as_bytes(),
        record.decision.as_bytes(),
    ];
    <[u32; RECORD_WORDS]>::read_from_bytes(&fields.concat()).expect("the structure's size")
}

/// Its telemetry as numbers.
fn values_of(record: &Record) -> impl Iterator<Item = i64> + '_ {
    record.telemetry.iter().map(|v| v.unwrap_or(UNKNOWN))
}

/// Which fact does not follow from the socket's fields as Linux computes
/// it (`tcp_packets_in_flight`, `tcp_is_cwnd_limited`,
/// `tcp_write_queue_empty`), if one does not.
fn contradiction(record: &Record) -> Option<String> {
    let (f, r) = (&record.facts, &record.raw);
    let left = r.sacked_out.wrapping_add(r.lost_out);
    let in_flight = f.packets_out.wrapping_sub(left).wrapping_add(r.retrans_out);
    let slow_start = f.cwnd < f.ssthresh;
    let limited = r.is_cwnd_limited != 0
        || slow_start && u64::from(f.cwnd) < 2 * u64::from(r.max_packets_out);
    let flag = |bit: u16| f.flags & bit != 0;
    // A hook's own decision may have changed its input before the
    // socket was read: the facts' own fields decide.
    let checks = [
        ("in_flight", in_flight == f.in_flight),
        (
            "header",
            f.header == u32::from(r.tcp_header_len) + u32::from(r.net_header_len),
        ),
        ("cwnd_limited", limited == flag(Flags::CWND_LIMITED)),
        ("in_slow_start", slow_start == flag(Flags::IN_SLOW_START)),
        ("unsent", (r.write_seq != f.snd_nxt) == flag(Flags::UNSENT)),
        ("now_ns", f.now_ns / 1000 == r.mstamp_us),
    ];
    let wrong = checks.iter().find(|(_, holds)| !holds)?;
    Some(format!("the fact {} does not follow from {r:?}", wrong.0))
}

fn byte(rest: &mut &[u8]) -> io::Result<u8> {
    let (first, more) = rest.split_first().ok_or_else(cut_short)?;
    *rest = more;
    Ok(*first)
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 128 {
        bytes.push(value as u8 | 128);
        value >>= 7;
    }
    bytes.push(value as u8);
}

fn take(rest: &mut &[u8]) -> io::Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = byte(rest)?;
        value |= u64::from(byte & 127) << shift;
        if byte & 128 == 0 {
            return Ok(value);
        }
    }
    Err(damaged("a number is too long"))
}
