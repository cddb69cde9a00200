//! What a loaded congestion control reports of each hook's call, or of a
//! socket's state now and then (`struct nw_record` of bpf/record.h).

use narrows_cc::{CaState, Call, CwndEvent, Decision, Facts};

use crate::error::BpfError;

/// Bytes of `struct nw_record`, which telemetry follows.
pub(crate) const RECORD_BYTES: usize = 256;
/// The same as 32-bit words, of which a trace file is made.
pub(crate) const RECORD_WORDS: usize = RECORD_BYTES / 4;

/// A hook of Linux's `struct tcp_congestion_ops` (`enum nw_hook`).
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// The connection is established.
    Init = 0,
    /// The connection ends, or takes another algorithm.
    Release = 1,
    /// A reduction begins.
    Ssthresh = 2,
    /// A reduction was spurious.
    UndoCwnd = 3,
    /// The state machine is about to change; the argument is the new state.
    SetState = 4,
    /// The argument is a [`CwndEvent`](narrows_cc::CwndEvent).
    CwndEvent = 5,
    /// An ACK arrived; the argument holds the kernel's flags.
    InAckEvent = 6,
    /// Segments were acknowledged.
    PktsAcked = 7,
    /// The argument is the number of segments that may raise the window.
    CongAvoid = 8,
    /// An ACK was processed; the argument holds the kernel's flags.
    CongControl = 9,
    /// The algorithm's own timer was due.
    Timer = 10,
}

impl Hook {
    /// All of them, by value.
    pub const ALL: [Self; 11] = [
        Self::Init,
        Self::Release,
        Self::Ssthresh,
        Self::UndoCwnd,
        Self::SetState,
        Self::CwndEvent,
        Self::InAckEvent,
        Self::PktsAcked,
        Self::CongAvoid,
        Self::CongControl,
        Self::Timer,
    ];

    /// Linux's name of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Init => "init",
            Self::Release => "release",
            Self::Ssthresh => "ssthresh",
            Self::UndoCwnd => "undo_cwnd",
            Self::SetState => "set_state",
            Self::CwndEvent => "cwnd_event",
            Self::InAckEvent => "in_ack_event",
            Self::PktsAcked => "pkts_acked",
            Self::CongAvoid => "cong_avoid",
            Self::CongControl => "cong_control",
            Self::Timer => "timer",
        }
    }
}

/// Fields of the kernel's socket as they are, from which some facts were
/// computed; Linux's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RawSocket {
    /// `tcp_mstamp`, µs.
    pub mstamp_us: u64,
    /// `CLOCK_MONOTONIC` when the hook ran, ns.
    pub ktime_ns: u64,
    /// Sequence number after the last byte that the application wrote.
    pub write_seq: u32,
    /// Segments SACKed.
    pub sacked_out: u32,
    /// Segments taken for lost.
    pub lost_out: u32,
    /// Segments retransmitted and not yet acknowledged.
    pub retrans_out: u32,
    /// Most segments in flight in the last window.
    pub max_packets_out: u32,
    /// CE marks that this end received (`received_ce`, since Linux 6.18).
    pub received_ce: u32,
    /// Since data was last sent, in ticks.
    pub idle_jiffies: u32,
    /// Ticks per second.
    pub hz: u32,
    /// Local port.
    pub local_port: u16,
    /// Remote port.
    pub remote_port: u16,
    /// Bytes of TCP header with the options of every segment.
    pub tcp_header_len: u16,
    /// Bytes of IP header.
    pub net_header_len: u16,
    /// `is_cwnd_limited`.
    pub is_cwnd_limited: u8,
    /// `ecn_flags`: 1 classic ECN, 16 Accurate ECN, with more bits.
    pub ecn_flags: u8,
}

/// The value of a field of telemetry that has none (`NW_UNKNOWN`).
pub(crate) const UNKNOWN: i64 = i64::MIN;

/// One call of a hook, or one sample of a socket's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Reported in [`Trace::State`](crate::Trace::State), in which most calls are
    /// not.
    pub sample: bool,
    /// Which hook ran.
    pub hook: Hook,
    /// Counts the sockets of one loaded control, from 1.
    pub socket: u32,
    /// As the [`Hook`] says; 0 otherwise.
    pub argument: u32,
    /// What `ssthresh` or `undo_cwnd` answered, segments; 0 otherwise.
    pub answer: u32,
    /// The socket's fields.
    pub raw: RawSocket,
    /// What the algorithm reports of itself after the hook: its fields in the order
    /// of [`ControlSpec::telemetry`](narrows_cc::ControlSpec::telemetry).
    pub telemetry: Vec<Option<i64>>,
    /// What the algorithm received.
    pub facts: Facts,
    /// What it decided.
    pub decision: Decision,
}

impl Record {
    /// Reads what came through the ring buffer.
    ///
    /// # Errors
    /// If it has another size or names an unknown hook.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BpfError> {
        let wrong = || BpfError::Record(bytes.len(), RECORD_BYTES);
        let (head, telemetry) = bytes.split_at_checked(RECORD_BYTES).ok_or_else(wrong)?;
        if telemetry.len() % 8 != 0 {
            return Err(wrong());
        }
        let value = |b: &[u8]| i64::from_ne_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]);
        let telemetry: Vec<i64> = telemetry.chunks_exact(8).map(value).collect();
        let mut words = [0; RECORD_WORDS];
        for (word, bytes) in words.iter_mut().zip(head.chunks_exact(4)) {
            *word = u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        // 64-bit fields are stored low word first in a trace, whatever the
        // machine.
        if cfg!(target_endian = "big") {
            unswap(&mut words);
        }
        Self::from_words(&words, &telemetry).ok_or_else(wrong)
    }

    /// The call that it is of; `None` if its state or event is unknown.
    pub fn call(&self) -> Option<Call> {
        let argument = self.argument as usize;
        Some(match self.hook {
            Hook::Init => Call::Init,
            Hook::Release => Call::Release,
            Hook::Ssthresh => Call::Ssthresh,
            Hook::UndoCwnd => Call::UndoCwnd,
            Hook::SetState => Call::SetState(*CaState::ALL.get(argument)?),
            Hook::CwndEvent => Call::CwndEvent(*CwndEvent::ALL.get(argument)?),
            Hook::InAckEvent => Call::InAckEvent,
            Hook::PktsAcked => Call::PktsAcked,
            Hook::CongAvoid => Call::CongAvoid(self.argument),
            Hook::CongControl => Call::CongControl,
            Hook::Timer => Call::Timer,
        })
    }

    /// Its telemetry as numbers.
    pub(crate) fn values(&self) -> impl Iterator<Item = i64> + '_ {
        self.telemetry.iter().map(|v| v.unwrap_or(UNKNOWN))
    }

    /// The record without its telemetry as words in a fixed order, 64-bit fields low
    /// word first.
    pub(crate) fn to_words(&self) -> [u32; RECORD_WORDS] {
        let mut w = Writer::default();
        w.u32(u32::from(self.sample));
        w.u32(self.hook as u32);
        w.u32(self.socket);
        w.u32(self.argument);
        w.u32(self.answer);
        w.u32(0);
        let r = &self.raw;
        w.u64(r.mstamp_us);
        w.u64(r.ktime_ns);
        w.u32(r.write_seq);
        w.u32(r.sacked_out);
        w.u32(r.lost_out);
        w.u32(r.retrans_out);
        w.u32(r.max_packets_out);
        w.u32(r.received_ce);
        w.u32(r.idle_jiffies);
        w.u32(r.hz);
        w.halves(r.local_port, r.remote_port);
        w.halves(r.tcp_header_len, r.net_header_len);
        w.u32(u32::from(r.is_cwnd_limited) | u32::from(r.ecn_flags) << 8);
        w.u32(0);
        let f = &self.facts;
        w.u64(f.now_ns);
        w.u64(f.pacing_rate);
        for word in [
            f.mss,
            f.cwnd,
            f.cwnd_cnt,
            f.ssthresh,
            f.prior_cwnd,
            f.in_flight,
            f.snd_una,
            f.snd_nxt,
            f.high_seq,
            f.delivered,
            f.delivered_ce,
            f.acked_sacked,
            f.lost,
            f.srtt_us,
            f.min_rtt_us,
            f.rtt_us,
            f.rs_delivered as u32,
            f.rs_interval_us,
            f.rs_prior_delivered,
            f.rs_prior_in_flight,
            f.rs_losses,
            f.gso_max_size,
            f.ts_echo,
            f.random,
            f.packets_out,
            u32::from(f.ca_state) | u32::from(f.pacing_status) << 8 | u32::from(f.flags) << 16,
            f.cwnd_clamp,
            f.header,
        ] {
            w.u32(word);
        }
        w.u64(f.last_sent_ns);
        let d = &self.decision;
        w.u32(d.set);
        w.u32(d.cwnd);
        w.u32(d.cwnd_cnt);
        w.u32(d.ssthresh);
        w.u64(d.pacing_rate);
        w.u32(u32::from(d.pacing_status) | u32::from(d.mss) << 16);
        w.u32(d.events);
        w.words
    }

    /// The reverse of [`Record::to_words`]; `None` for an unknown hook.
    pub(crate) fn from_words(words: &[u32; RECORD_WORDS], telemetry: &[i64]) -> Option<Self> {
        let mut r = Reader { words, at: 0 };
        let sample = r.u32() != 0;
        let hook = *Hook::ALL.get(r.u32() as usize)?;
        let (socket, argument, answer) = (r.u32(), r.u32(), r.u32());
        r.u32();
        let mut raw = RawSocket {
            mstamp_us: r.u64(),
            ktime_ns: r.u64(),
            write_seq: r.u32(),
            sacked_out: r.u32(),
            lost_out: r.u32(),
            retrans_out: r.u32(),
            max_packets_out: r.u32(),
            received_ce: r.u32(),
            idle_jiffies: r.u32(),
            hz: r.u32(),
            ..RawSocket::default()
        };
        (raw.local_port, raw.remote_port) = r.halves();
        (raw.tcp_header_len, raw.net_header_len) = r.halves();
        let [limited, ecn, ..] = r.u32().to_le_bytes();
        (raw.is_cwnd_limited, raw.ecn_flags) = (limited, ecn);
        r.u32();
        let mut facts = Facts {
            now_ns: r.u64(),
            pacing_rate: r.u64(),
            mss: r.u32(),
            cwnd: r.u32(),
            cwnd_cnt: r.u32(),
            ssthresh: r.u32(),
            prior_cwnd: r.u32(),
            in_flight: r.u32(),
            snd_una: r.u32(),
            snd_nxt: r.u32(),
            high_seq: r.u32(),
            delivered: r.u32(),
            delivered_ce: r.u32(),
            acked_sacked: r.u32(),
            lost: r.u32(),
            srtt_us: r.u32(),
            min_rtt_us: r.u32(),
            rtt_us: r.u32(),
            rs_delivered: r.u32() as i32,
            rs_interval_us: r.u32(),
            rs_prior_delivered: r.u32(),
            rs_prior_in_flight: r.u32(),
            rs_losses: r.u32(),
            gso_max_size: r.u32(),
            ts_echo: r.u32(),
            random: r.u32(),
            packets_out: r.u32(),
            ..Facts::default()
        };
        let [state, pacing, flags @ ..] = r.u32().to_le_bytes();
        (facts.ca_state, facts.pacing_status) = (state, pacing);
        facts.flags = u16::from_le_bytes(flags);
        facts.cwnd_clamp = r.u32();
        facts.header = r.u32();
        facts.last_sent_ns = r.u64();
        let mut decision = Decision {
            set: r.u32(),
            cwnd: r.u32(),
            cwnd_cnt: r.u32(),
            ssthresh: r.u32(),
            pacing_rate: r.u64(),
            ..Decision::default()
        };
        let [status @ .., low, high] = r.u32().to_le_bytes();
        decision.pacing_status = u16::from_le_bytes(status);
        decision.mss = u16::from_le_bytes([low, high]);
        decision.events = r.u32();
        Some(Self {
            sample,
            hook,
            socket,
            argument,
            answer,
            raw,
            telemetry: telemetry
                .iter()
                .map(|v| (*v != UNKNOWN).then_some(*v))
                .collect(),
            facts,
            decision,
        })
    }
}

/// Turns words of a big-endian machine's structure into those of a
/// little-endian one: halves of 64-bit fields, and fields within a word.
fn unswap(words: &mut [u32; RECORD_WORDS]) {
    for low in [6, 8, 22, 24, 54, 60] {
        words.swap(low, low + 1);
    }
    for pair in [18, 19] {
        words[pair] = words[pair].rotate_left(16);
    }
    words[20] = words[20].swap_bytes();
    let [state, pacing, a, b] = words[51].to_be_bytes();
    words[51] = u32::from_le_bytes([state, pacing, b, a]);
}

struct Writer {
    words: [u32; RECORD_WORDS],
    at: usize,
}

impl Default for Writer {
    fn default() -> Self {
        Self {
            words: [0; RECORD_WORDS],
            at: 0,
        }
    }
}

impl Writer {
    fn u32(&mut self, word: u32) {
        self.words[self.at] = word;
        self.at += 1;
    }

    fn u64(&mut self, word: u64) {
        self.u32(word as u32);
        self.u32((word >> 32) as u32);
    }

    fn halves(&mut self, first: u16, second: u16) {
        self.u32(u32::from(first) | u32::from(second) << 16);
    }
}

struct Reader<'a> {
    words: &'a [u32; RECORD_WORDS],
    at: usize,
}

impl Reader<'_> {
    fn u32(&mut self) -> u32 {
        self.at += 1;
        self.words[self.at - 1]
    }

    fn u64(&mut self) -> u64 {
        let low = u64::from(self.u32());
        low | u64::from(self.u32()) << 32
    }

    fn halves(&mut self) -> (u16, u16) {
        let word = self.u32();
        (word as u16, (word >> 16) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word distinct, so that a field in a wrong place shows.
    fn bytes() -> Vec<u8> {
        let mut words: Vec<u32> = (0..RECORD_WORDS as u32)
            .map(|i| 0x0101_0101 * (i + 1))
            .collect();
        words[0] = 1;
        words[1] = 9;
        (words[5], words[21]) = (0, 0);
        words[20] &= 0xffff;
        let telemetry = [-7, UNKNOWN].into_iter().flat_map(i64::to_ne_bytes);
        let words = words.iter().flat_map(|w| w.to_ne_bytes());
        words.chain(telemetry).collect()
    }

    #[test]
    fn a_record_has_its_fields_where_the_kernel_wrote_them() {
        let record = Record::from_bytes(&bytes()).unwrap();
        // Bytes of the structure's offsets, each word one above the last.
        let at = |offset: u32| 0x0101_0101 * (offset / 4 + 1);
        assert!(record.sample);
        assert_eq!(record.hook, Hook::CongControl);
        assert_eq!(record.socket, at(8));
        assert_eq!(record.answer, at(16));
        assert_eq!(record.raw.write_seq, at(40));
        assert_eq!(record.raw.hz, at(68));
        assert_eq!(record.telemetry, [Some(-7), None]);
        assert_eq!(record.facts.mss, at(88 + 16));
        assert_eq!(record.facts.delivered, at(88 + 52));
        assert_eq!(record.facts.rs_delivered as u32, at(88 + 80));
        assert_eq!(record.facts.header, at(88 + 124));
        assert_eq!(record.decision.set, at(88 + 136));
        assert_eq!(record.decision.events, at(88 + 136 + 28));
    }

    #[test]
    fn words_and_back_lose_nothing() {
        let record = Record::from_bytes(&bytes()).unwrap();
        let values: Vec<i64> = record.values().collect();
        assert_eq!(
            Record::from_words(&record.to_words(), &values),
            Some(record)
        );
    }

    #[test]
    fn what_is_no_record_is_refused() {
        assert!(Record::from_bytes(&bytes()[1..]).is_err());
        let mut unknown = bytes();
        unknown[4..8].copy_from_slice(&11u32.to_ne_bytes());
        assert!(Record::from_bytes(&unknown).is_err());
    }
}
