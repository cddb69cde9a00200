//! `struct tcp_info`, read field by field.
//!
//! The kernel appends to the structure and never moves a field (but for the
//! last word, see [`EcnLayout`]), so an old kernel's is a prefix of a new
//! one's: every field that is not surely there is an `Option`, and what lies
//! behind the last field known here is ignored. Offsets are those of
//! `include/uapi/linux/tcp.h` (Linux 6.18).

use narrows_packet::FlowSample;
use narrows_units::Duration;

/// Bytes of the oldest structure that is read: up to and with
/// `tcpi_total_retrans` (Linux 2.6).
const SHORTEST: usize = 104;

/// `TCP_INFINITE_SSTHRESH`: the threshold was never set.
pub(super) const UNSET_SSTHRESH: u32 = 0x7fff_ffff;

/// `TCPI_OPT_ECN`: ECN of either kind was negotiated.
const OPTION_ECN: u8 = 8;
/// `TCPI_OPT_ECN_SEEN`: a packet with an ECT or CE codepoint was received.
const OPTION_ECN_SEEN: u8 = 16;
/// `TCPI_OPT_SYN_DATA`: the SYN-ACK acknowledged data in the SYN.
const OPTION_SYN_DATA: u8 = 32;

/// `TCPI_ECN_MODE_ACCECN`.
const ECN_MODE_ACCECN: u32 = 2;

/// What the last word of the structure means, from Linux 6.18 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EcnLayout {
    /// `tcpi_accecn_fail_mode` and `tcpi_accecn_opt_seen`, 16 bits each
    /// (6.18, 6.19): whether AccECN was negotiated is only implied.
    Implied,
    /// A bit field whose lowest two bits are `tcpi_ecn_mode` (7.0 and later):
    /// the kernel says what was negotiated.
    Stated,
}

impl EcnLayout {
    /// The layout of a kernel of release `release` whose type information is
    /// `btf` (the bytes of `/sys/kernel/btf/vmlinux`, empty if it has none).
    /// The types decide where they are there, because distributions carry
    /// changes back.
    pub fn of_kernel(release: &str, btf: &[u8]) -> Self {
        const NAME: &[u8] = b"\0tcpi_ecn_mode\0";
        let major = release.split('.').next().and_then(|n| n.parse().ok());
        let stated = if btf.is_empty() {
            major.is_some_and(|n: u32| n >= 7)
        } else {
            btf.windows(NAME.len()).any(|w| w == NAME)
        };
        if stated { Self::Stated } else { Self::Implied }
    }

    /// The layout of the kernel that runs.
    pub fn of_this_kernel() -> Self {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        // A release says enough where there is no doubt, and spares megabytes.
        let major: Option<u32> = release.split('.').next().and_then(|n| n.parse().ok());
        let btf = match major {
            Some(..6) => Vec::new(),
            _ => std::fs::read("/sys/kernel/btf/vmlinux").unwrap_or_default(),
        };
        Self::of_kernel(&release, &btf)
    }
}

/// What the kernel says about a TCP socket. Fields have the kernel's names
/// without `tcpi_`; times are in microseconds unless said otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpInfo {
    /// `TCP_ESTABLISHED` is 1, `TCP_SYN_SENT` 2, `TCP_CLOSE` 7.
    pub state: u8,
    /// 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss.
    pub ca_state: u8,
    /// Bits `TCPI_OPT_*`.
    pub options: u8,
    /// Segment size of what is sent, in bytes.
    pub snd_mss: u32,
    /// Segments sent and not cumulatively acknowledged.
    pub unacked: u32,
    /// Of these, selectively acknowledged.
    pub sacked: u32,
    /// Of these, held for lost.
    pub lost: u32,
    /// Of these, sent again and not yet acknowledged.
    pub retrans: u32,
    /// Smoothed round trip.
    pub rtt: u32,
    /// Slow-start threshold in segments.
    pub snd_ssthresh: u32,
    /// Congestion window in segments.
    pub snd_cwnd: u32,
    /// Segments sent again since the start.
    pub total_retrans: u32,
    /// Bytes per second; all ones for "no limit" (Linux 3.15).
    pub pacing_rate: Option<u64>,
    /// Bytes acknowledged, SYN and FIN included (4.1).
    pub bytes_acked: Option<u64>,
    /// Bytes received in order (4.1).
    pub bytes_received: Option<u64>,
    /// Smallest round trip of the window that the kernel keeps (4.6).
    pub min_rtt: Option<u32>,
    /// Bytes per second (4.9).
    pub delivery_rate: Option<u64>,
    /// Time with data in flight or waiting (4.10).
    pub busy_time: Option<u64>,
    /// Of it, held back by the receiver's window (4.10).
    pub rwnd_limited: Option<u64>,
    /// Of it, held back by the send buffer (4.10).
    pub sndbuf_limited: Option<u64>,
    /// Segments delivered (4.18).
    pub delivered: Option<u32>,
    /// Segments that the peer said arrived with CE (4.18).
    pub delivered_ce: Option<u32>,
    /// Payload bytes sent again (4.19).
    pub bytes_retrans: Option<u64>,
    /// Retransmission timeouts (6.7).
    pub total_rto: Option<u16>,
    /// Segments received with CE (6.18).
    pub received_ce: Option<u32>,
    /// Payload bytes that the peer's AccECN options reported: with ECT(1),
    /// ECT(0), CE (6.18).
    pub delivered_ecn_bytes: Option<[u32; 3]>,
    /// The last word, whose meaning is the [`EcnLayout`]'s (6.18).
    pub accecn: Option<u32>,
}

impl TcpInfo {
    /// The longest structure that has fields known here, in bytes.
    pub const LEN: usize = 280;

    /// Reads the bytes that the kernel gave, in its byte order; `None` if they
    /// are too few for any kernel's.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < SHORTEST {
            return None;
        }
        let word16 = |at| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let word32 = |at| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        let word64 = |at| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(Self {
            state: bytes[0],
            ca_state: bytes[1],
            options: bytes[5],
            snd_mss: word32(16)?,
            unacked: word32(24)?,
            sacked: word32(28)?,
            lost: word32(32)?,
            retrans: word32(36)?,
            rtt: word32(68)?,
            snd_ssthresh: word32(76)?,
            snd_cwnd: word32(80)?,
            total_retrans: word32(100)?,
            pacing_rate: word64(104),
            bytes_acked: word64(120),
            bytes_received: word64(128),
            min_rtt: word32(148),
            delivery_rate: word64(160),
            busy_time: word64(168),
            rwnd_limited: word64(176),
            sndbuf_limited: word64(184),
            delivered: word32(192),
            delivered_ce: word32(196),
            bytes_retrans: word64(208),
            total_rto: word16(240),
            received_ce: word32(248),
            delivered_ecn_bytes: match (word32(252), word32(256), word32(260)) {
                (Some(e1), Some(e0), Some(ce)) => Some([e1, e0, ce]),
                _ => None,
            },
            accecn: word32(276),
        })
    }

    /// Whether ECN of either kind was negotiated.
    pub fn ecn(&self) -> bool {
        self.options & OPTION_ECN != 0
    }

    /// Whether a packet with an ECT or CE codepoint was received.
    pub fn ecn_seen(&self) -> bool {
        self.options & OPTION_ECN_SEEN != 0
    }

    /// Whether data in the SYN was acknowledged by the SYN-ACK.
    pub fn syn_data_acknowledged(&self) -> bool {
        self.options & OPTION_SYN_DATA != 0
    }

    /// Whether AccECN (RFC 9768) was negotiated.
    ///
    /// From Linux 7.0 on the kernel states it. Linux 6.18 and 6.19 set
    /// `TCPI_OPT_ECN` for both kinds; what tells them apart there is the
    /// AccECN option, which Linux sends on the SYN-ACK, on the ACK of it and
    /// later, so that an end that has seen one (`tcpi_accecn_opt_seen`) or has
    /// counters of one speaks AccECN. Where
    /// options are switched off (`net.ipv4.tcp_ecn_option = 0`) or stripped
    /// on the way, AccECN is not recognised by these kernels' sockets. Older
    /// ones do not speak it.
    pub fn accecn(&self, layout: EcnLayout) -> bool {
        let Some(word) = self.accecn.filter(|_| self.ecn()) else {
            return false;
        };
        match layout {
            EcnLayout::Stated => first_byte(word) & 3 == ECN_MODE_ACCECN,
            EcnLayout::Implied => {
                let counted = self.delivered_ecn_bytes.is_some_and(|b| b != [0; 3]);
                // `tcpi_accecn_opt_seen` stands behind the failure modes, which
                // a connection that fell back may have as well.
                let [.., a, b] = word.to_ne_bytes();
                [a, b] != [0; 2] || counted
            }
        }
    }

    /// The events' picture of a sender. What an old kernel does not say is
    /// zero. `latest_rtt` is the smoothed round trip: the kernel does not keep
    /// the latest.
    pub fn sample(&self) -> FlowSample {
        let micros = |us: u32| Duration::from_micros(u64::from(us));
        FlowSample {
            cwnd: self.snd_cwnd,
            ssthresh: if self.snd_ssthresh >= UNSET_SSTHRESH {
                u32::MAX
            } else {
                self.snd_ssthresh
            },
            in_flight: (self.unacked + self.retrans).saturating_sub(self.sacked + self.lost),
            srtt: micros(self.rtt),
            latest_rtt: micros(self.rtt),
            min_rtt: micros(self.min_rtt.filter(|us| *us != u32::MAX).unwrap_or(0)),
            pacing_rate: self.pacing_rate.filter(|r| *r != u64::MAX).unwrap_or(0),
            delivery_rate: self.delivery_rate.unwrap_or(0),
            bytes_acked: self.bytes_acked.unwrap_or(0),
            retransmits: u64::from(self.total_retrans),
            delivered: u64::from(self.delivered.unwrap_or(0)),
            delivered_ce: u64::from(self.delivered_ce.unwrap_or(0)),
            alpha: u32::MAX,
            ca_state: self.ca_state,
        }
    }
}

/// A bit field's first byte: bits count from the lowest on a little-endian
/// machine, and from the highest of the first byte in memory on a big-endian
/// one, where the mode's two bits then are the byte's highest.
fn first_byte(word: u32) -> u32 {
    let [first, ..] = word.to_ne_bytes();
    u32::from(if cfg!(target_endian = "big") {
        first >> 6
    } else {
        first
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A structure whose fields are set by offset.
    fn raw(len: usize, words: &[(usize, u32)]) -> Vec<u8> {
        let mut bytes = vec![0; len];
        for (at, word) in words {
            bytes[*at..*at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn an_old_kernel_s_structure_is_a_prefix() {
        let words = [(68, 20_000), (76, 0x7fff_ffff), (80, 10), (100, 3)];
        assert_eq!(TcpInfo::parse(&raw(103, &[])), None);
        let old = TcpInfo::parse(&raw(104, &words)).unwrap();
        assert_eq!((old.rtt, old.snd_cwnd, old.total_retrans), (20_000, 10, 3));
        assert_eq!(old.delivered, None);
        assert_eq!(old.accecn, None);
        let sample = old.sample();
        assert_eq!(sample.ssthresh, u32::MAX);
        assert_eq!(sample.srtt, Duration::from_millis(20));
        assert_eq!((sample.min_rtt, sample.pacing_rate), (Duration::ZERO, 0));
        // Half a field at the end is no field.
        assert_eq!(TcpInfo::parse(&raw(194, &words)).unwrap().delivered, None);
        let newer = TcpInfo::parse(&raw(196, &words)).unwrap();
        assert_eq!((newer.delivered, newer.delivered_ce), (Some(0), None));
        // And what a future kernel appends changes nothing.
        let future = TcpInfo::parse(&raw(400, &words)).unwrap();
        assert_eq!(future, TcpInfo::parse(&raw(TcpInfo::LEN, &words)).unwrap());
    }

    #[test]
    fn segments_in_flight_are_counted_as_the_kernel_does() {
        // tcp_packets_in_flight: packets_out - (sacked + lost) + retrans.
        let words = [(24, 100), (28, 30), (32, 20), (36, 5)];
        let info = TcpInfo::parse(&raw(104, &words)).unwrap();
        assert_eq!(info.sample().in_flight, 55);
    }

    #[test]
    fn accecn_is_recognised_on_both_layouts_and_only_with_ecn() {
        let with = |options: u8, word: [u8; 4], e0: u32| {
            let mut bytes = raw(TcpInfo::LEN, &[(256, e0)]);
            bytes[5] = options;
            bytes[276..].copy_from_slice(&word);
            TcpInfo::parse(&bytes).unwrap()
        };
        // 6.18: fail_mode 0, opt_seen 2 (a counter was seen).
        let two_words = |failed: u16, seen: u16| {
            let ([a, b], [c, d]) = (failed.to_ne_bytes(), seen.to_ne_bytes());
            [a, b, c, d]
        };
        let seen = two_words(0, 2);
        assert!(with(OPTION_ECN, seen, 0).accecn(EcnLayout::Implied));
        assert!(!with(0, seen, 0).accecn(EcnLayout::Implied));
        assert!(!with(OPTION_ECN, [0; 4], 0).accecn(EcnLayout::Implied));
        assert!(!with(OPTION_ECN, two_words(1, 0), 0).accecn(EcnLayout::Implied));
        assert!(with(OPTION_ECN, [0; 4], 1448).accecn(EcnLayout::Implied));
        // 7.0: mode 2 is AccECN, mode 1 RFC 3168, whatever else is set.
        let mode = |m: u8| {
            if cfg!(target_endian = "big") {
                [m << 6, 0, 0, 0]
            } else {
                [m, 0, 0, 0]
            }
        };
        assert!(with(OPTION_ECN, mode(2), 0).accecn(EcnLayout::Stated));
        assert!(!with(OPTION_ECN, mode(1), 0).accecn(EcnLayout::Stated));
        assert!(!with(0, mode(2), 0).accecn(EcnLayout::Stated));
    }

    #[test]
    fn the_layout_follows_the_types_and_else_the_release() {
        let of = |release, btf: &[u8]| EcnLayout::of_kernel(release, btf);
        assert_eq!(of("6.18.44", b""), EcnLayout::Implied);
        assert_eq!(of("7.0.0-rc1", b""), EcnLayout::Stated);
        assert_eq!(of("6.18.44", b"x\0tcpi_ecn_mode\0y"), EcnLayout::Stated);
        assert_eq!(
            of("7.2.0", b"x\0tcpi_accecn_opt_seen\0"),
            EcnLayout::Implied
        );
    }
}
