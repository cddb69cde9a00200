//! What a TCP socket says about itself: Linux's `struct tcp_info`.

use narrows_units::Duration;
use serde::Serialize;

use crate::FlowSample;

/// `TCPI_OPT_TIMESTAMPS`: timestamps (RFC 7323) were negotiated.
pub const TCPI_OPT_TIMESTAMPS: u8 = 1;
/// `TCPI_OPT_SACK`: SACK (RFC 2018) was negotiated.
pub const TCPI_OPT_SACK: u8 = 2;
/// `TCPI_OPT_WSCALE`: window scaling (RFC 7323) was negotiated.
pub const TCPI_OPT_WSCALE: u8 = 4;
/// `TCPI_OPT_ECN`: ECN of either kind was negotiated.
pub const TCPI_OPT_ECN: u8 = 8;
/// `TCPI_OPT_ECN_SEEN`: a packet with an ECT or CE codepoint was received.
pub const TCPI_OPT_ECN_SEEN: u8 = 16;
/// `TCPI_OPT_SYN_DATA`: data in the SYN was acknowledged by the SYN-ACK.
pub const TCPI_OPT_SYN_DATA: u8 = 32;

/// The threshold while no reduction has happened (`TCP_INFINITE_SSTHRESH`,
/// Linux `include/net/tcp.h`), segments.
pub const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;

/// A TCP socket as `getsockopt(TCP_INFO)` describes it (`struct tcp_info`,
/// Linux `include/uapi/linux/tcp.h`, filled by `tcp_get_info` in
/// `net/ipv4/tcp.c`).
///
/// Fields have the kernel's names without `tcpi_`, and its meanings and units:
/// times are in microseconds unless said otherwise, windows in segments unless
/// said otherwise. `None` stands for what an older kernel does not say; the
/// version that began is given with each field. Both engines describe a sender
/// by this: the live one reads it, the simulated one fills it. Left out are
/// `fackets` and `last_ack_sent`, which the kernel leaves zero,
/// `max_pacing_rate`, `rehash` and `fastopen_client_fail`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TcpInfo {
    /// 1 ESTABLISHED, 2 SYN_SENT, 3 SYN_RECV, 4 FIN_WAIT1, 5 FIN_WAIT2,
    /// 6 TIME_WAIT, 7 CLOSE, 8 CLOSE_WAIT, 9 LAST_ACK, 10 LISTEN, 11 CLOSING
    /// (`include/net/tcp_states.h`).
    pub state: u8,
    /// 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss.
    pub ca_state: u8,
    /// Retransmission timeouts in a row.
    pub retransmits: u8,
    /// Window or keep-alive probes that were not answered.
    pub probes: u8,
    /// How often the timeout, or the interval of window probes, was doubled.
    pub backoff: u8,
    /// Bits `TCPI_OPT_*`.
    pub options: u8,
    /// Shift of the window field that the peer sends.
    pub snd_wscale: u8,
    /// Shift of the window field that this end sends.
    pub rcv_wscale: u8,
    /// Whether `delivery_rate` was limited by the application: 0 or 1
    /// (Linux 4.9).
    pub delivery_rate_app_limited: u8,
    /// Retransmission timeout.
    pub rto: u32,
    /// Timeout of delayed ACKs.
    pub ato: u32,
    /// Payload of a full segment that is sent, in bytes.
    pub snd_mss: u32,
    /// The peer's segment size as observed, in bytes.
    pub rcv_mss: u32,
    /// Segments sent and not cumulatively acknowledged.
    pub unacked: u32,
    /// Of these, selectively acknowledged; without SACK, duplicate ACKs.
    pub sacked: u32,
    /// Of these, held for lost.
    pub lost: u32,
    /// Of these, sent again and not yet acknowledged.
    pub retrans: u32,
    /// Since data was sent last, in milliseconds.
    pub last_data_sent: u32,
    /// Since data was received last, in milliseconds.
    pub last_data_recv: u32,
    /// Since an acceptable ACK was received last, in milliseconds.
    pub last_ack_recv: u32,
    /// Path MTU in bytes.
    pub pmtu: u32,
    /// Soft limit of the receive window, in bytes.
    pub rcv_ssthresh: u32,
    /// Smoothed round trip.
    pub rtt: u32,
    /// Mean deviation of the round trip, not the one in `rto`, which never
    /// falls below the minimum.
    pub rttvar: u32,
    /// Slow-start threshold in segments; [`INFINITE_SSTHRESH`] while unset.
    pub snd_ssthresh: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Announced MSS less the timestamps, in bytes.
    pub advmss: u32,
    /// Segments by which delivery may be out of order without a loss.
    pub reordering: u32,
    /// Round trip as the receiver estimates it; 0 without an estimate.
    pub rcv_rtt: u32,
    /// Bytes that the application read in the last receiver's round trip.
    pub rcv_space: u32,
    /// Segments sent again since the start, SYN included.
    pub total_retrans: u32,
    /// Bytes per second; all ones for "no limit" (3.15).
    pub pacing_rate: Option<u64>,
    /// Sequence numbers acknowledged: payload bytes, the SYN of the end that
    /// opened, and a FIN (4.1).
    pub bytes_acked: Option<u64>,
    /// Sequence numbers received in order: payload bytes and a FIN (4.1).
    pub bytes_received: Option<u64>,
    /// Segments sent, whatever they carry (4.2).
    pub segs_out: Option<u32>,
    /// Segments received, whatever they carry (4.2).
    pub segs_in: Option<u32>,
    /// Bytes written and not sent (4.6).
    pub notsent_bytes: Option<u32>,
    /// Smallest round trip of the last five minutes; all ones before the first
    /// sample (4.6).
    pub min_rtt: Option<u32>,
    /// Segments with payload received (4.6).
    pub data_segs_in: Option<u32>,
    /// Segments with payload sent, each time (4.6).
    pub data_segs_out: Option<u32>,
    /// Bytes per second of the last rate sample that counts (4.9).
    pub delivery_rate: Option<u64>,
    /// Time with data in flight or waiting (4.10).
    pub busy_time: Option<u64>,
    /// Of it, held back by the receiver's window (4.10).
    pub rwnd_limited: Option<u64>,
    /// Of it, held back by the send buffer (4.10).
    pub sndbuf_limited: Option<u64>,
    /// Segments delivered, needless copies included (4.18).
    pub delivered: Option<u32>,
    /// Segments that the peer said arrived with CE (4.18).
    pub delivered_ce: Option<u32>,
    /// Payload bytes sent, each time (4.19).
    pub bytes_sent: Option<u64>,
    /// Payload bytes sent again (4.19).
    pub bytes_retrans: Option<u64>,
    /// Segments that the peer said arrived twice, by D-SACK (4.19).
    pub dsack_dups: Option<u32>,
    /// Reordering seen, events (4.19).
    pub reord_seen: Option<u32>,
    /// Segments received out of order (5.4).
    pub rcv_ooopack: Option<u32>,
    /// Window that the peer offers, in bytes (5.4).
    pub snd_wnd: Option<u32>,
    /// Window that was offered to the peer, in bytes (6.2).
    pub rcv_wnd: Option<u32>,
    /// Retransmission timeouts, of a SYN too (6.7).
    pub total_rto: Option<u16>,
    /// Recoveries by timeout, one under way included (6.7).
    pub total_rto_recoveries: Option<u16>,
    /// Time spent in them, in milliseconds (6.7).
    pub total_rto_time: Option<u32>,
    /// Segments received with CE (6.18).
    pub received_ce: Option<u32>,
    /// Payload bytes that the peer's AccECN options reported with ECT(1)
    /// (6.18).
    pub delivered_e1_bytes: Option<u32>,
    /// The same with ECT(0) (6.18).
    pub delivered_e0_bytes: Option<u32>,
    /// The same with CE (6.18).
    pub delivered_ce_bytes: Option<u32>,
    /// Payload bytes received with ECT(1) (6.18).
    pub received_e1_bytes: Option<u32>,
    /// The same with ECT(0) (6.18).
    pub received_e0_bytes: Option<u32>,
    /// The same with CE (6.18).
    pub received_ce_bytes: Option<u32>,
    /// The last word as a kernel wrote it, whose parts differ between 6.18
    /// and 7.0: AccECN's mode, failures and options seen. `None` of a
    /// simulated connection.
    pub accecn: Option<u32>,
}

impl TcpInfo {
    /// Whether ECN of either kind was negotiated.
    pub fn ecn(&self) -> bool {
        self.options & TCPI_OPT_ECN != 0
    }

    /// Segments in flight: `tcp_packets_in_flight`.
    pub fn in_flight(&self) -> u32 {
        (self.unacked + self.retrans).saturating_sub(self.sacked + self.lost)
    }

    /// The events' picture of a sender. What an old kernel does not say is
    /// zero. `latest_rtt` is the smoothed round trip, as the structure does
    /// not have the latest.
    pub fn sample(&self) -> FlowSample {
        let micros = |us: u32| Duration::from_micros(u64::from(us));
        FlowSample {
            cwnd: self.snd_cwnd,
            ssthresh: if self.snd_ssthresh >= INFINITE_SSTHRESH {
                u32::MAX
            } else {
                self.snd_ssthresh
            },
            in_flight: self.in_flight(),
            srtt: micros(self.rtt),
            latest_rtt: micros(self.rtt),
            min_rtt: micros(self.min_rtt.filter(|us| *us != u32::MAX).unwrap_or(0)),
            pacing_rate: self.pacing_rate.filter(|r| *r != u64::MAX).unwrap_or(0),
            delivery_rate: self.delivery_rate.unwrap_or(0),
            bytes_acked: self.bytes_acked.unwrap_or(0),
            retransmits: u64::from(self.total_retrans),
            delivered: u64::from(self.delivered.unwrap_or(0)),
            delivered_ce: u64::from(self.delivered_ce.unwrap_or(0)),
            ca_state: self.ca_state,
        }
    }

    /// How long the sender was held back by something else than congestion in
    /// the first `age` since it was established: by the receiver's window, by
    /// its own buffer, and by having nothing to send, which is the time in
    /// which it was not busy. `None` before Linux 4.10, which does not count
    /// it.
    pub fn limited(&self, age: Duration) -> Option<(Duration, Duration, Duration)> {
        Some((
            Duration::from_micros(self.rwnd_limited?),
            Duration::from_micros(self.sndbuf_limited?),
            Duration::from_nanos(
                age.as_nanos()
                    .saturating_sub(self.busy_time?.saturating_mul(1_000)),
            ),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_in_flight_are_counted_as_the_kernel_does() {
        // tcp_packets_in_flight: packets_out - (sacked + lost) + retrans.
        let info = TcpInfo {
            unacked: 100,
            sacked: 30,
            lost: 20,
            retrans: 5,
            ..TcpInfo::default()
        };
        assert_eq!(info.sample().in_flight, 55);
    }

    #[test]
    fn what_is_not_known_is_zero_in_a_sample_and_no_threshold_is_the_largest() {
        let info = TcpInfo {
            snd_ssthresh: INFINITE_SSTHRESH,
            min_rtt: Some(u32::MAX),
            pacing_rate: Some(u64::MAX),
            ..TcpInfo::default()
        };
        let sample = info.sample();
        assert_eq!(sample.ssthresh, u32::MAX);
        assert_eq!((sample.min_rtt, sample.pacing_rate), (Duration::ZERO, 0));
    }

    #[test]
    fn nothing_to_send_is_the_time_in_which_the_sender_was_not_busy() {
        let mut info = TcpInfo {
            busy_time: Some(700_000),
            rwnd_limited: Some(200_000),
            sndbuf_limited: Some(100_000),
            ..TcpInfo::default()
        };
        let ms = Duration::from_millis;
        assert_eq!(info.limited(ms(1000)), Some((ms(200), ms(100), ms(300))));
        info.busy_time = None;
        assert_eq!(info.limited(ms(1000)), None);
    }
}
