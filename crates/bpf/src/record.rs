//! What a loaded congestion control reports of each hook's call, or of a
//! socket's state now and then (`struct nw_record` of bpf/record.h).

use narrows_cc::{Decision, Facts};
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::BpfError;

/// Bytes of `struct nw_record`, which telemetry follows.
pub(crate) const RECORD_BYTES: usize = 256;

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
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
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
    /// Up to the next field that wants to be aligned; without meaning.
    pub unused: [u8; 6],
}

/// The value of a field of telemetry that has none (`NW_UNKNOWN`).
const UNKNOWN: i64 = i64::MIN;

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

/// `struct nw_record`, behind which telemetry stands.
#[repr(C)]
#[derive(FromBytes, Immutable)]
struct Head {
    sample: u32,
    hook: u32,
    socket: u32,
    argument: u32,
    answer: u32,
    _unused: u32,
    raw: RawSocket,
    facts: Facts,
    decision: Decision,
}

const _: () = assert!(size_of::<Head>() == RECORD_BYTES);
const _: () = assert!(core::mem::offset_of!(Head, facts) == 88);

impl Record {
    /// Reads what came through the ring buffer.
    ///
    /// # Errors
    /// If it has another size or names an unknown hook.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, BpfError> {
        let wrong = || BpfError::Record(bytes.len(), RECORD_BYTES);
        let (head, telemetry) = Head::read_from_prefix(bytes).map_err(|_| wrong())?;
        if telemetry.len() % size_of::<i64>() != 0 {
            return Err(wrong());
        }
        let values = telemetry.chunks_exact(size_of::<i64>());
        let value = |bytes| i64::read_from_bytes(bytes).ok().filter(|v| *v != UNKNOWN);
        Ok(Self {
            sample: head.sample != 0,
            hook: *Hook::ALL.get(head.hook as usize).ok_or_else(wrong)?,
            socket: head.socket,
            argument: head.argument,
            answer: head.answer,
            raw: head.raw,
            telemetry: values.map(value).collect(),
            facts: head.facts,
            decision: head.decision,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each word distinct, so that a field in a wrong place shows.
    fn bytes() -> Vec<u8> {
        let mut words: Vec<u32> = (0..RECORD_BYTES as u32 / 4)
            .map(|i| 0x0101_0101 * (i + 1))
            .collect();
        words[0] = 1;
        words[1] = 9;
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
    fn what_is_no_record_is_refused() {
        assert!(Record::from_bytes(&bytes()[1..]).is_err());
        let mut unknown = bytes();
        unknown[4..8].copy_from_slice(&11u32.to_ne_bytes());
        assert!(Record::from_bytes(&unknown).is_err());
    }
}
