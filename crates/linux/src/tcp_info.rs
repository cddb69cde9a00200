//! `struct tcp_info`, read field by field.
//!
//! The kernel appends to the structure and never moves a field (but for the
//! last word, see [`EcnLayout`]), so an old kernel's is a prefix of a new
//! one's: every field that is not surely there is an `Option`, and what lies
//! behind the last field known here is ignored. Offsets are those of
//! `include/uapi/linux/tcp.h` (Linux 6.18).

use narrows_core::TcpInfo;

/// Bytes of the oldest structure that is read: up to and with
/// `tcpi_total_retrans` (Linux 2.6).
const SHORTEST: usize = 104;

/// Bytes of the longest structure that has fields known here.
pub const TCP_INFO_LEN: usize = 280;

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
            memchr::memmem::find(btf, NAME).is_some()
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

    /// Whether AccECN (RFC 9768) was negotiated on the socket that `info`
    /// describes.
    ///
    /// From Linux 7.0 on the kernel states it. Linux 6.18 and 6.19 set
    /// `TCPI_OPT_ECN` for both kinds; what distinguishes them there is the
    /// AccECN option, which Linux sends on the SYN-ACK, on the ACK of it and
    /// later, so that an end that has seen one (`tcpi_accecn_opt_seen`) or has
    /// counters of one speaks AccECN. Where
    /// options are switched off (`net.ipv4.tcp_ecn_option = 0`) or stripped
    /// on the way, AccECN is not recognised by these kernels' sockets. Older
    /// ones do not speak it.
    pub fn accecn(self, info: &TcpInfo) -> bool {
        let Some(word) = info.accecn.filter(|_| info.ecn()) else {
            return false;
        };
        match self {
            Self::Stated => first_byte(word) & 3 == ECN_MODE_ACCECN,
            Self::Implied => {
                let counters = [
                    info.delivered_e1_bytes,
                    info.delivered_e0_bytes,
                    info.delivered_ce_bytes,
                ];
                let counted = counters.iter().flatten().any(|bytes| *bytes > 0);
                // `tcpi_accecn_opt_seen` follows the failure modes, which
                // a connection that fell back may have as well.
                let [.., a, b] = word.to_ne_bytes();
                [a, b] != [0; 2] || counted
            }
        }
    }
}

/// Reads the bytes that the kernel gave, in its byte order; `None` if they are
/// too few for any kernel's.
pub fn parse_tcp_info(bytes: &[u8]) -> Option<TcpInfo> {
    if bytes.len() < SHORTEST {
        return None;
    }
    let word16 = |at| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let word32 = |at| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    let word64 = |at| Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    // Bit fields begin at the end of a byte that the machine counts first.
    let first_bits = |byte: u8, n: u32| {
        if cfg!(target_endian = "big") {
            byte >> (8 - n)
        } else {
            byte & ((1 << n) - 1)
        }
    };
    let (snd_wscale, rcv_wscale) = if cfg!(target_endian = "big") {
        (bytes[6] >> 4, bytes[6] & 15)
    } else {
        (bytes[6] & 15, bytes[6] >> 4)
    };
    Some(TcpInfo {
        state: bytes[0],
        ca_state: bytes[1],
        retransmits: bytes[2],
        probes: bytes[3],
        backoff: bytes[4],
        options: bytes[5],
        snd_wscale,
        rcv_wscale,
        delivery_rate_app_limited: first_bits(bytes[7], 1),
        rto: word32(8)?,
        ato: word32(12)?,
        snd_mss: word32(16)?,
        rcv_mss: word32(20)?,
        unacked: word32(24)?,
        sacked: word32(28)?,
        lost: word32(32)?,
        retrans: word32(36)?,
        last_data_sent: word32(44)?,
        last_data_recv: word32(52)?,
        last_ack_recv: word32(56)?,
        pmtu: word32(60)?,
        rcv_ssthresh: word32(64)?,
        rtt: word32(68)?,
        rttvar: word32(72)?,
        snd_ssthresh: word32(76)?,
        snd_cwnd: word32(80)?,
        advmss: word32(84)?,
        reordering: word32(88)?,
        rcv_rtt: word32(92)?,
        rcv_space: word32(96)?,
        total_retrans: word32(100)?,
        pacing_rate: word64(104),
        bytes_acked: word64(120),
        bytes_received: word64(128),
        segs_out: word32(136),
        segs_in: word32(140),
        notsent_bytes: word32(144),
        min_rtt: word32(148),
        data_segs_in: word32(152),
        data_segs_out: word32(156),
        delivery_rate: word64(160),
        busy_time: word64(168),
        rwnd_limited: word64(176),
        sndbuf_limited: word64(184),
        delivered: word32(192),
        delivered_ce: word32(196),
        bytes_sent: word64(200),
        bytes_retrans: word64(208),
        dsack_dups: word32(216),
        reord_seen: word32(220),
        rcv_ooopack: word32(224),
        snd_wnd: word32(228),
        rcv_wnd: word32(232),
        total_rto: word16(240),
        total_rto_recoveries: word16(242),
        total_rto_time: word32(244),
        received_ce: word32(248),
        delivered_e1_bytes: word32(252),
        delivered_e0_bytes: word32(256),
        delivered_ce_bytes: word32(260),
        received_e1_bytes: word32(264),
        received_e0_bytes: word32(268),
        received_ce_bytes: word32(272),
        accecn: word32(276),
    })
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
    use std::io::{Read, Write};

    use narrows_core::TCPI_OPT_ECN;
    use narrows_tcp::Connection;
    use narrows_units::{Duration, Instant};

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
        assert_eq!(parse_tcp_info(&raw(103, &[])), None);
        let old = parse_tcp_info(&raw(104, &words)).unwrap();
        assert_eq!((old.rtt, old.snd_cwnd, old.total_retrans), (20_000, 10, 3));
        assert_eq!(old.delivered, None);
        assert_eq!(old.accecn, None);
        let sample = old.sample();
        assert_eq!(sample.ssthresh, u32::MAX);
        assert_eq!(sample.srtt, Duration::from_millis(20));
        assert_eq!((sample.min_rtt, sample.pacing_rate), (Duration::ZERO, 0));
        // Half a field at the end is no field.
        assert_eq!(parse_tcp_info(&raw(194, &words)).unwrap().delivered, None);
        let newer = parse_tcp_info(&raw(196, &words)).unwrap();
        assert_eq!((newer.delivered, newer.delivered_ce), (Some(0), None));
        // And what a future kernel appends changes nothing.
        let future = parse_tcp_info(&raw(400, &words)).unwrap();
        assert_eq!(future, parse_tcp_info(&raw(TCP_INFO_LEN, &words)).unwrap());
    }

    #[test]
    fn each_field_is_read_from_its_place() {
        // Every word has its own offset for a value, and the bytes before
        // the first word theirs.
        let mut bytes: Vec<u8> = (0..TCP_INFO_LEN as u32 / 4)
            .flat_map(|i| (4 * i).to_ne_bytes())
            .collect();
        for (i, byte) in bytes.iter_mut().take(8).enumerate() {
            *byte = i as u8;
        }
        bytes[6] = 0x7c;
        let info = parse_tcp_info(&bytes).unwrap();
        assert_eq!((info.ca_state, info.probes, info.options), (1, 3, 5));
        let little = cfg!(target_endian = "little");
        let scales = if little { (12, 7) } else { (7, 12) };
        assert_eq!((info.snd_wscale, info.rcv_wscale), scales);
        assert_eq!(info.delivery_rate_app_limited, u8::from(little));
        assert_eq!((info.rto, info.retrans, info.last_data_recv), (8, 36, 52));
        assert_eq!((info.rttvar, info.reordering, info.rcv_space), (72, 88, 96));
        assert_eq!((info.segs_out, info.notsent_bytes), (Some(136), Some(144)));
        assert_eq!((info.reord_seen, info.rcv_wnd), (Some(220), Some(232)));
        assert_eq!(
            (info.total_rto_time, info.received_ce_bytes),
            (Some(244), Some(272))
        );
    }

    /// What depends neither on the time that anything takes nor on what the
    /// kernel remembers of earlier connections.
    fn counts(info: &TcpInfo) -> [u64; 14] {
        [
            info.state.into(),
            info.ca_state.into(),
            info.retransmits.into(),
            info.probes.into(),
            info.unacked.into(),
            info.sacked.into(),
            info.lost.into(),
            info.retrans.into(),
            info.bytes_acked.unwrap_or(0),
            info.bytes_received.unwrap_or(0),
            info.notsent_bytes.unwrap_or(0).into(),
            info.bytes_sent.unwrap_or(0) - info.bytes_retrans.unwrap_or(0),
            info.delivered_ce.unwrap_or(0).into(),
            info.total_rto.unwrap_or(0).into(),
        ]
    }

    /// Two simulated ends after the handshake, and after 3000 bytes from the
    /// one that opened.
    fn simulated() -> [[TcpInfo; 2]; 2] {
        let [a, b] = ["192.0.2.1:1", "192.0.2.2:2"].map(|a| a.parse().unwrap());
        let config = |local, remote| {
            let cubic = narrows_cc::ControlSpec::parse("cubic").unwrap();
            narrows_tcp::TcpConfig::new(local, remote, cubic)
        };
        let rng = |name| narrows_units::Rng::for_name(1, name);
        let mut ends = [
            Connection::client(config(a, b), rng("near")),
            Connection::server(config(b, a), rng("far")),
        ];
        let mut pool = narrows_core::PacketPool::new();
        let now = Instant::ZERO + Duration::from_secs(1);
        let mut exchange = |ends: &mut [Connection; 2]| {
            for i in [0, 1].into_iter().cycle().take(20) {
                while let Some(packet) = ends[i].poll_transmit(now, &mut pool) {
                    ends[1 - i].receive(now, &packet);
                    pool.give(packet);
                }
            }
            [ends[0].info(now), ends[1].info(now)]
        };
        ends[0].open(now);
        let opened = exchange(&mut ends);
        ends[0].write_zeros(3000);
        [opened, exchange(&mut ends)]
    }

    #[test]
    fn the_kernel_and_a_simulated_connection_count_alike() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        let infos = |near: &std::net::TcpStream, far: &std::net::TcpStream| {
            let info = |end| crate::socket_option::tcp_info(end).unwrap();
            [info(near), info(far)]
        };
        let [opened, sent] = simulated();
        assert_eq!(
            infos(&near, &far).map(|i| counts(&i)),
            opened.map(|i| counts(&i))
        );
        // Of the handshake every packet is known as well.
        let packets = |i: TcpInfo| (i.segs_out, i.segs_in, i.delivered);
        assert_eq!(infos(&near, &far).map(packets), opened.map(packets));
        near.write_all(&[0; 3000]).unwrap();
        far.read_exact(&mut [0; 3000]).unwrap();
        // However long the ACK takes.
        while infos(&near, &far)[0].unacked > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(
            infos(&near, &far).map(|i| counts(&i)),
            sent.map(|i| counts(&i))
        );
    }

    #[test]
    fn accecn_is_recognised_on_both_layouts_and_only_with_ecn() {
        let with = |options: u8, word: [u8; 4], e0: u32| {
            let mut bytes = raw(TCP_INFO_LEN, &[(256, e0)]);
            bytes[5] = options;
            bytes[276..].copy_from_slice(&word);
            parse_tcp_info(&bytes).unwrap()
        };
        // 6.18: fail_mode 0, opt_seen 2 (a counter was seen).
        let two_words = |failed: u16, seen: u16| {
            let ([a, b], [c, d]) = (failed.to_ne_bytes(), seen.to_ne_bytes());
            [a, b, c, d]
        };
        let seen = two_words(0, 2);
        assert!(EcnLayout::Implied.accecn(&with(TCPI_OPT_ECN, seen, 0)));
        assert!(!EcnLayout::Implied.accecn(&with(0, seen, 0)));
        assert!(!EcnLayout::Implied.accecn(&with(TCPI_OPT_ECN, [0; 4], 0)));
        assert!(!EcnLayout::Implied.accecn(&with(TCPI_OPT_ECN, two_words(1, 0), 0)));
        assert!(EcnLayout::Implied.accecn(&with(TCPI_OPT_ECN, [0; 4], 1448)));
        // 7.0: mode 2 is AccECN, mode 1 RFC 3168, whatever else is set.
        let mode = |m: u8| {
            if cfg!(target_endian = "big") {
                [m << 6, 0, 0, 0]
            } else {
                [m, 0, 0, 0]
            }
        };
        assert!(EcnLayout::Stated.accecn(&with(TCPI_OPT_ECN, mode(2), 0)));
        assert!(!EcnLayout::Stated.accecn(&with(TCPI_OPT_ECN, mode(1), 0)));
        assert!(!EcnLayout::Stated.accecn(&with(0, mode(2), 0)));
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
