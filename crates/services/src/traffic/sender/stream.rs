//! A connection of a session at the server.

use std::net::TcpStream;

use narrows_linux::socket_option;
use narrows_traffic::{Sends, Until};
use narrows_units::{Duration, Instant, Rate};

use super::super::wire::{SenderEnd, StreamSample};

/// Time between the writes of a connection of a constant rate, as in scenarios.
pub(in super::super) const WRITES: Duration = Duration::from_millis(10);

/// A connection of data.
pub(super) struct Stream {
    pub(super) socket: TcpStream,
    /// What was read of its opening.
    pub(super) opening: Vec<u8>,
    pub(super) transfer: Option<usize>,
    pub(super) begun: Instant,
    pub(super) written: u64,
    /// All is written, and its end.
    pub(super) ended: bool,
    pub(super) wants_room: bool,
    /// At the last sample: bytes and retransmissions.
    pub(super) sampled: (u64, u32),
    /// When that was.
    pub(super) sampled_at: Instant,
}

/// How many bytes of a transfer are to be written once it is so old, and whether nothing follows them;
/// `None` of datagrams.
pub(in super::super) fn wanted(sends: &Sends, age: Duration) -> Option<(u64, bool)> {
    Some(match *sends {
        Sends::Get(bytes) => (bytes, true),
        Sends::Bulk(time) if age >= time => (0, true),
        Sends::Bulk(_) => (u64::MAX, false),
        Sends::Paced { rate, until } => {
            let all = match until {
                Until::Bytes(bytes) => bytes,
                Until::Time(time) => Rate::from_bits(rate).bytes_in(time),
            };
            let wanted = Rate::from_bits(rate).bytes_in(age + WRITES).min(all);
            (wanted, wanted == all)
        }
        Sends::Datagrams { .. } => return None,
    })
}

/// What a connection did since its last sample; `None` if that is nothing and it has ended.
pub(super) fn sample_of(stream: &mut Stream, now: Instant) -> Option<StreamSample> {
    let transfer = stream.transfer?;
    let info = socket_option::tcp_info(&stream.socket)?;
    let retransmitted = info.total_retrans;
    let (bytes, before) = stream.sampled;
    if stream.ended && bytes == stream.written && retransmitted == before {
        return None;
    }
    let began = std::mem::replace(&mut stream.sampled_at, now);
    stream.sampled = (stream.written, retransmitted);
    Some(StreamSample {
        transfer: transfer as u32,
        at_ns: began.as_nanos(),
        span_ns: now.since(began).as_nanos(),
        bytes: stream.written - bytes,
        retransmissions: retransmitted.saturating_sub(before),
        cwnd: u64::from(info.snd_cwnd) * u64::from(info.snd_mss),
        rtt_us: info.rtt,
        rttvar_us: Some(info.rttvar),
        pmtu: info.pmtu,
    })
}

pub(super) fn note_written(end: &mut SenderEnd, stream: &Stream) {
    if let Some(transfer) = stream.transfer {
        end.written.push((transfer as u32, stream.written));
    }
}
