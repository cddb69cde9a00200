//! How one end of a connection is set up, and what its host is like.

use std::net::SocketAddr;

use narrows_cc::ControlSpec;
use narrows_core::FlowId;
use narrows_units::Duration;
use narrows_wire::tcp::FastOpenCookie;
use serde::{Deserialize, Serialize};

use crate::mtu_probing::MtuProbing;

/// Which ECN feedback an end asks for and grants (Linux `net.ipv4.tcp_ecn`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EcnMode {
    /// Neither asked for nor granted (`tcp_ecn = 0`).
    Off,
    /// RFC 3168 (`tcp_ecn = 1`).
    Classic,
    /// RFC 9768, with fallback to RFC 3168 (`tcp_ecn = 3`).
    AccEcn,
    /// What the congestion control needs when opening; when asked, whatever
    /// the peer asks for (`tcp_ecn = 2` with AccECN, Linux's server default).
    #[default]
    Auto,
}

/// How often the AccECN option is sent once AccECN is negotiated (Linux
/// `net.ipv4.tcp_ecn_option`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccEcnOptionUse {
    /// Never.
    Off,
    /// When a counter changed in a way that the ACE field may not show, and
    /// at least four times per RTT.
    Minimum,
    /// On every ACK that has room for it; Linux's default.
    #[default]
    Full,
}

/// The memory for received data that the application has not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReceiveBuffer {
    /// A window of this many bytes, never changed.
    Fixed(u64),
    /// Starts at `initial` bytes and grows with what the application reads per
    /// round trip, up to `max` bytes (Linux's dynamic right-sizing). At first
    /// half of the memory is taken to be payload; what the first segments show
    /// changes that, and the window with it (`scaling_ratio`, since v6.6).
    Auto {
        /// Bytes offered in the handshake, less what is no whole segment.
        initial: u64,
        /// Most bytes ever offered.
        max: u64,
    },
}

impl Default for ReceiveBuffer {
    /// 64 KiB as Linux starts with (`tcp_rmem[1]` 131072, half of it window),
    /// up to 268 MB: Linux stops at 6 MiB (`tcp_rmem[2]`), which binds beyond
    /// 300 Mbit/s at 160 ms; this does not at 10 Gbit/s and 200 ms.
    fn default() -> Self {
        Self::Auto {
            initial: 65_535,
            max: 65_535 << 12,
        }
    }
}

/// How the receive buffer grows with what the application reads (`tcp_rcv_space_adjust`,
/// `tcp_rcvbuf_grow`, `tcp_rcv_rtt_update`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReceiveTuning {
    /// As up to Linux v6.15: to twice what was read in a round trip and 16 segments, and for as much
    /// growth again. Round trips are smoothed.
    #[default]
    #[serde(rename = "v6.15")]
    V6_15,
    /// As since Linux v6.18: without the 16 segments, but with what is out of order; what waits to be
    /// read counts as not read. A round trip that is shorter counts at once, a longer one only while
    /// nothing waits; at less than a millisecond the growth is less, too (since v6.19,
    /// `tcp_rcvbuf_low_rtt`).
    #[serde(rename = "v6.18")]
    V6_18,
}

/// How the host cuts a bulk write into bursts of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Segmentation {
    /// One packet at a time: offloads are off.
    OneSegment,
    /// Bursts as Linux's TSO autosizing makes them: what the pacing rate
    /// carries in about a millisecond (`tcp_tso_autosize`, v6.17).
    Tso {
        /// Fewest segments of a burst if there is data for them
        /// (`net.ipv4.tcp_min_tso_segs`, 2).
        min_segments: u32,
        /// Most bytes of a burst (`gso_max_size`, 65536).
        gso_max_bytes: u32,
        /// Longest wait for an ACK that lets a larger burst go; never beyond half a round trip
        /// (`tcp_tso_should_defer`; 1 ms since v6.18 and in 6.17-stable, commit 295ce1eb36ae,
        /// before that half a round trip alone).
        defer: Duration,
    },
}

/// Receive-side coalescing: data that arrives in order within `hold` is
/// acknowledged as if it had come as one large segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gro {
    /// How long the first segment of a batch is held back.
    pub hold: Duration,
    /// A batch of this many segments is passed on at once (17 full segments
    /// make 64 KiB).
    pub max_segments: u32,
}

/// Who spaces packets out at the pacing rate, and where they wait meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PacingUse {
    /// As the congestion control's authors ask for: not, by TCP's own timer
    /// ([`Internal`](Self::Internal)), or, for those that are made for it, by
    /// [`Fq`](Self::Fq).
    #[default]
    AsAlgorithm,
    /// TCP's own timer, if the congestion control asks for pacing: Linux without
    /// the fq qdisc. What waits for the timer waits inside TCP and is not in flight.
    Internal,
    /// The fq qdisc, for every congestion control. What waits has left TCP and is
    /// in flight; small queues bound it to two bursts or a millisecond's worth.
    Fq,
    /// TCP's own timer for every congestion control (`SO_MAX_PACING_RATE`).
    Always,
    /// Never, whatever the algorithm asks for.
    Never,
}

/// How a sender learns that its packets are done with, for TCP small queues
/// (`tcp_small_queue_check`): two bursts or about 1 ms of data may wait below
/// TCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SmallQueues {
    /// At once and in time: the limit never holds anything back.
    #[default]
    Off,
    /// Not at all. What the limit holds back while a packet or a timer is
    /// processed waits for the next ACK, or for the application to write. So
    /// it is in Linux before v5.12 where packets stay on the machine and their
    /// first queue is netem, whose `skb_orphan_partial` settled the sender's
    /// account without waking it (mended by "net: let skb_orphan_partial
    /// wake-up waiters", 2021).
    Unreported {
        /// Memory of a full segment that software cut off a burst. On x86-64
        /// 2304 if headers leave it in 2 KiB (`MAX_TCP_HEADER` up to 272),
        /// else 4352 (a v5.4 kernel with mesh networking built in).
        segment_bytes: u32,
    },
}

/// How much an application may write ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SendBuffer {
    /// What [`TcpConfig::send_buffer`] says, in bytes of payload.
    #[default]
    Unlimited,
    /// Memory for twice the largest window so far; a writer that finds it full waits
    /// until a third is free (Linux's `tcp_sndbuf_expand` and
    /// `sk_stream_write_space`).
    Auto {
        /// Most bytes of memory (`tcp_wmem[2]`, 4 MiB).
        max: u64,
    },
}

/// Keep-alive (RFC 9293 §3.8.4): a peer that is silent while nothing is in
/// flight is probed, and given up with a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeepAlive {
    /// Silence before the first probe (`TCP_KEEPIDLE`,
    /// `net.ipv4.tcp_keepalive_time` 7200 s).
    pub time: Duration,
    /// From one unanswered probe to the next (`TCP_KEEPINTVL`,
    /// `net.ipv4.tcp_keepalive_intvl` 75 s).
    pub interval: Duration,
    /// Unanswered probes before the connection is reset (`TCP_KEEPCNT`,
    /// `net.ipv4.tcp_keepalive_probes` 9).
    pub probes: u32,
}

impl Default for KeepAlive {
    /// Linux's sysctls.
    fn default() -> Self {
        Self {
            time: Duration::from_secs(7_200),
            interval: Duration::from_secs(75),
            probes: 9,
        }
    }
}

/// What the host adds to the protocol. Each part can be switched by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostModel {
    /// Bursts of segments.
    pub segmentation: Segmentation,
    /// Receive-side coalescing; off by default.
    pub gro: Option<Gro>,
    /// Length of the timer tick to which retransmission and delayed-ACK
    /// timers are rounded up (Linux 1/HZ: 4 ms in Debian); zero for exact
    /// timers. Pacing uses a high-resolution timer and is not rounded.
    pub tick: Duration,
    /// Pacing.
    pub pacing: PacingUse,
    /// Whether SACKs are compressed under loss (Linux
    /// `tcp_comp_sack_delay_ns` 1 ms, `tcp_comp_sack_nr` 44).
    pub compress_sacks: bool,
    /// TCP small queues.
    pub small_queues: SmallQueues,
    /// The send buffer.
    pub send_buffer: SendBuffer,
    /// Path MTU probing.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub mtu_probing: MtuProbing,
    /// The growth of the receive buffer.
    #[serde(default, skip_serializing_if = "is_usual")]
    pub receive_tuning: ReceiveTuning,
}

/// Whether results need not say it.
fn is_usual<T: Default + PartialEq>(part: &T) -> bool {
    *part == T::default()
}

impl Default for HostModel {
    /// Linux's, but with offloads off, as in a test bed of network namespaces
    /// that wants each packet on the wire by itself.
    fn default() -> Self {
        Self {
            segmentation: Segmentation::OneSegment,
            gro: None,
            tick: Duration::from_millis(4),
            pacing: PacingUse::AsAlgorithm,
            compress_sacks: true,
            small_queues: SmallQueues::Off,
            send_buffer: SendBuffer::Unlimited,
            mtu_probing: MtuProbing::default(),
            receive_tuning: ReceiveTuning::default(),
        }
    }
}

impl HostModel {
    /// The host with TSO as Linux does it by default.
    pub const TSO: Segmentation = Segmentation::Tso {
        min_segments: 2,
        gso_max_bytes: 65_536,
        defer: Duration::from_millis(1),
    };

    /// Small queues above a netem that keeps quiet.
    pub const UNREPORTED: SmallQueues = SmallQueues::Unreported {
        segment_bytes: 2304,
    };

    /// A send buffer as Linux sizes it by default.
    pub const AUTO_SEND_BUFFER: SendBuffer = SendBuffer::Auto { max: 4 << 20 };
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// This end.
    pub local: SocketAddr,
    /// The other end. A server adopts the address that the SYN comes from.
    pub remote: SocketAddr,
    /// Initial sequence number; drawn if it is `None`.
    pub isn: Option<u32>,
    /// What is added to the clock of timestamps; drawn if it is `None`.
    pub timestamp_offset: Option<u32>,
    /// Congestion control of what this end sends.
    pub cc: ControlSpec,
    /// ECN.
    pub ecn: EcnMode,
    /// Use of the AccECN option.
    pub accecn_option: AccEcnOptionUse,
    /// DSCP of every packet sent, 0 to 63.
    pub dscp: u8,
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// Most bytes written and not yet acknowledged. Bytes are counted, not
    /// stored, so the default of 1 GiB costs nothing and never binds.
    pub send_buffer: u64,
    /// How many bytes may wait to be sent for the first time (`TCP_NOTSENT_LOWAT`). There
    /// is room to write when fewer than half of them do, as an application that waits for
    /// room is woken then (Linux `sk_stream_write_space`, `__tcp_stream_memory_free`).
    /// `None`, Linux's default, for no such bound.
    pub unsent_low_water: Option<u64>,
    /// Memory for received data.
    pub receive_buffer: ReceiveBuffer,
    /// TCP Fast Open (RFC 7413), in both roles.
    pub fast_open: bool,
    /// The cookie that the host remembers for the peer: with one, the first
    /// write travels in the SYN.
    pub fast_open_cookie: Option<FastOpenCookie>,
    /// The server's secret, from which cookies are made.
    pub fast_open_key: u64,
    /// Nagle's algorithm (RFC 896, with Minshall's change as in Linux).
    pub nagle: bool,
    /// Timestamps (RFC 7323).
    pub timestamps: bool,
    /// Window scaling (RFC 7323).
    pub window_scaling: bool,
    /// SACK (RFC 2018) with D-SACK (RFC 2883); RACK-TLP needs it.
    pub sack: bool,
    /// Initial window in segments (RFC 6928, `TCP_INIT_CWND` 10).
    pub initial_cwnd: u32,
    /// Largest window in segments; 0 for none.
    pub cwnd_clamp: u32,
    /// Shortest retransmission timeout (`TCP_RTO_MIN` 200 ms; RFC 6298 says
    /// 1 s).
    pub min_rto: Duration,
    /// Longest retransmission timeout and interval of window probes (`TCP_RTO_MAX_MS`,
    /// `net.ipv4.tcp_rto_max_ms`, since v6.15: 1 s to 120 s, the default). In v6.17 that of
    /// a SYN-ACK stays 120 s; here it follows, as in v7.2.
    pub max_rto: Duration,
    /// How long sent data may stay unacknowledged, or a window shut, before the connection
    /// is given up (`TCP_USER_TIMEOUT`, RFC 5482); `None`, Linux's default, for what the
    /// numbers of retransmissions and probes make.
    pub user_timeout: Option<Duration>,
    /// Keep-alive (`SO_KEEPALIVE`); `None`, Linux's default, for none.
    pub keep_alive: Option<KeepAlive>,
    /// How long TIME-WAIT lasts (`TCP_TIMEWAIT_LEN` 60 s).
    pub time_wait: Duration,
    /// The host.
    pub host: HostModel,
    /// The flow that packets are attributed to.
    pub flow: Option<FlowId>,
}

impl TcpConfig {
    /// A Linux host's defaults between `local` and `remote`, with `cc`.
    pub fn new(local: SocketAddr, remote: SocketAddr, cc: ControlSpec) -> Self {
        Self {
            local,
            remote,
            isn: None,
            timestamp_offset: None,
            cc,
            ecn: EcnMode::default(),
            accecn_option: AccEcnOptionUse::default(),
            dscp: 0,
            mtu: 1500,
            send_buffer: 1 << 30,
            unsent_low_water: None,
            receive_buffer: ReceiveBuffer::default(),
            fast_open: false,
            fast_open_cookie: None,
            fast_open_key: 0,
            nagle: true,
            timestamps: true,
            window_scaling: true,
            sack: true,
            initial_cwnd: 10,
            cwnd_clamp: 0,
            min_rto: Duration::from_millis(200),
            max_rto: Duration::from_secs(120),
            user_timeout: None,
            keep_alive: None,
            time_wait: Duration::from_secs(60),
            host: HostModel::default(),
            flow: None,
        }
    }

    /// Bytes of the IP header.
    pub(crate) fn ip_header(&self) -> u32 {
        if self.local.is_ipv4() { 20 } else { 40 }
    }

    /// The MSS to announce: what fits the MTU without options (RFC 9293
    /// §3.7.1).
    pub(crate) fn advertised_mss(&self) -> u32 {
        self.mss_for(self.mtu)
    }

    /// What fits a packet of `mtu` bytes without options, 88 at least (`TCP_MIN_MSS`).
    pub(crate) fn mss_for(&self, mtu: u32) -> u32 {
        Self::mss_above(self.ip_header(), mtu, 88)
    }

    /// What fits a packet of `mtu` bytes with an IP header of `ip` bytes, `least` at least.
    pub(crate) fn mss_above(ip: u32, mtu: u32, least: u32) -> u32 {
        mtu.saturating_sub(ip + 20).max(least)
    }
}
