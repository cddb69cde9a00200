//! Packetization layer path MTU discovery (RFC 4821), as `tcp_mtu_probe` and `tcp_mtu_check_reprobe`
//! (`net/ipv4/tcp_output.c`), `tcp_mtup_probe_success` and `tcp_mtup_probe_failed`
//! (`net/ipv4/tcp_input.c`), `tcp_mtu_probing` (`net/ipv4/tcp_timer.c`), Linux 6.17.
//!
//! A segment of new data that is larger than the others is the probe. If it arrives, segments are
//! that large; if it alone is lost, its data leaves again in small ones and the window stays.

use narrows_cc::CaState;
use narrows_core::{Packet, PacketPool};
use narrows_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

use crate::config::TcpConfig;
use crate::connection::Connection;

/// Least window, in segments, beside which a probe is sent (`tcp_mtu_probe`): to lose one is then
/// noticed by those behind it.
const LEAST_CWND: u32 = 11;
/// Timeouts of the least RTO, doubled, after which a black hole is suspected (`tcp_retries1` 3).
pub(crate) const BLACK_HOLE_RETRIES: u32 = 3;
/// The least MSS with options (`net.ipv4.tcp_min_snd_mss`, `TCP_MIN_SND_MSS`).
const LEAST_MSS: u32 = 48;

/// When larger and smaller segments are tried than ICMP has reported
/// (`net.ipv4.tcp_mtu_probing`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MtuProbingUse {
    /// Never: 0, Linux's default.
    #[default]
    Off,
    /// Once retransmissions have not been answered for 3 s: 1.
    BlackHole,
    /// From the beginning, with segments of the base: 2.
    Always,
}

/// Path MTU probing, with the sysctls of its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct MtuProbing {
    /// When it is done.
    pub when: MtuProbingUse,
    /// Payload with options where a search begins, and to which a black hole is answered
    /// (`tcp_base_mss`), in bytes.
    pub base_mss: u32,
    /// Below this no black hole leads (`tcp_mtu_probe_floor`), in bytes.
    pub floor: u32,
    /// After how long larger segments are tried again (`tcp_probe_interval`).
    pub interval: Duration,
    /// The search ends where less than this is between what arrived and what did not
    /// (`tcp_probe_threshold`), in bytes.
    pub threshold: u32,
}

impl Default for MtuProbing {
    /// Linux's sysctls.
    fn default() -> Self {
        Self {
            when: MtuProbingUse::Off,
            base_mss: 1_024,
            floor: LEAST_MSS,
            interval: Duration::from_secs(600),
            threshold: 8,
        }
    }
}

/// A probe on its way.
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// Bytes of its IP packet.
    mtu: u32,
    /// Its first number, and the one behind it.
    from: u64,
    to: u64,
}

/// What a connection knows of its path (`icsk_mtup`), in bytes of IP packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MtuSearch {
    enabled: bool,
    /// The largest size that may still be carried.
    high: u32,
    /// What is known, or taken, to be carried.
    low: u32,
    probe: Option<Probe>,
    /// When the range was last set (`probe_timestamp`).
    since: Instant,
}

impl MtuSearch {
    /// The MTU that segments are to keep, beside what ICMP has reported.
    pub(crate) fn limit(&self) -> Option<u32> {
        self.enabled.then_some(self.low)
    }

    /// A link reports this MTU (`tcp_sync_mss`).
    pub(crate) fn reported(&mut self, mtu: u32) {
        self.high = self.high.min(mtu);
    }
}

/// Whether a probe is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProbeDue {
    /// It is, with so many bytes of payload.
    Now(u32),
    /// It is as soon as the window has room: nothing else leaves until then.
    Waits,
    No,
}

impl Connection {
    /// Headers of a segment with data, with options.
    fn headers(&self) -> u32 {
        self.config.ip_header() + self.header_len()
    }

    /// Payload of a packet of `mtu` bytes (`tcp_mtu_to_mss`).
    pub(crate) fn payload_of(&self, mtu: u32) -> u32 {
        let options = self.header_len() - 20;
        let mss = TcpConfig::mss_above(self.config.ip_header(), mtu, LEAST_MSS);
        mss.min(self.agreed.peer_mss) - options
    }

    /// The largest packet that the peer's MSS and the first link allow.
    fn largest_packet(&self) -> u32 {
        (self.agreed.peer_mss + self.config.ip_header() + 20).min(self.config.mtu)
    }

    /// The handshake has agreed on options (`tcp_mtup_init`).
    pub(crate) fn begin_mtu_search(&mut self) {
        let settings = self.config.host.mtu_probing;
        self.mtu_search = MtuSearch {
            enabled: settings.when == MtuProbingUse::Always,
            high: self.largest_packet().min(self.path_mtu),
            low: settings.base_mss + self.headers(),
            probe: None,
            since: self.now,
        };
    }

    /// Whether a probe is due, before anything else of a batch leaves (`tcp_mtu_probe`).
    pub(crate) fn mtu_probe_due(&mut self) -> ProbeDue {
        let search = self.mtu_search;
        if !search.enabled
            || self.out.sent_in_batch > 0
            || search.probe.is_some()
            || self.cong.state != CaState::Open
            || self.cong.cwnd < LEAST_CWND
            || self.incoming.has_blocks()
        {
            return ProbeDue::No;
        }
        let settings = self.config.host.mtu_probing;
        let between = search.high.saturating_sub(search.low);
        let size = self.payload_of((search.high + search.low) >> 1);
        if size > self.payload_of(search.high) || between < settings.threshold {
            if self.now.since(search.since) >= settings.interval {
                self.mtu_search = MtuSearch {
                    high: self.largest_packet(),
                    low: self.agreed.mss + self.headers(),
                    since: self.now,
                    ..search
                };
            }
            return ProbeDue::No;
        }
        // What follows it shows whether it was lost.
        let behind = (self.cong.reordering + 1) * self.agreed.mss;
        let needed = u64::from(size + behind);
        if self.unsent() < needed || self.snd.size < needed {
            return ProbeDue::No;
        }
        if self.snd.next + needed > self.snd.edge() {
            return ProbeDue::Waits;
        }
        let in_flight = self.board.in_flight();
        if in_flight + 2 > self.cong.cwnd {
            return if in_flight == 0 {
                ProbeDue::No
            } else {
                ProbeDue::Waits
            };
        }
        ProbeDue::Now(size)
    }

    /// Sends the probe, with so many bytes of payload.
    pub(crate) fn transmit_mtu_probe(&mut self, size: u32, pool: &mut PacketPool) -> Box<Packet> {
        // It counts as two packets.
        self.cong.cwnd -= 1;
        let from = self.snd.next;
        self.mtu_search.probe = Some(Probe {
            mtu: size + self.headers(),
            from,
            to: from + u64::from(size),
        });
        let bytes = u64::from(size);
        self.hand_down(bytes, 1);
        self.account_burst(bytes);
        self.out.sent_in_batch += 1;
        self.send_new(bytes, false, false, pool)
    }

    /// An acknowledgement has advanced: if the probe is in it, segments are as large from now on
    /// (`tcp_mtup_probe_success`).
    pub(crate) fn mtu_probe_acknowledged(&mut self) {
        let acknowledged = |probe: &Probe| probe.to <= self.snd.una;
        let Some(probe) = self.mtu_search.probe.filter(acknowledged) else {
            return;
        };
        // As many bytes as before are in flight.
        self.cong.prior_ssthresh = self.cong.current_ssthresh();
        let bytes = u64::from(self.cong.cwnd) * u64::from(self.agreed.mss + self.headers());
        self.cong.cwnd = ((bytes / u64::from(probe.mtu)) as u32).max(1);
        self.cong.cwnd_cnt = 0;
        self.stamp_cwnd();
        self.cong.ssthresh = self.cong.current_ssthresh();
        self.mtu_search.low = probe.mtu;
        self.mtu_search.probe = None;
        self.set_mss();
    }

    /// Something is lost: if it is the probe, it was too large, which is no sign of congestion
    /// (RFC 4821 §7.6.1, `tcp_mtup_probe_failed`). Returns whether it was.
    pub(crate) fn mtu_probe_lost(&mut self) -> bool {
        let first = |probe: &Probe| probe.from == self.snd.una;
        let Some(probe) = self.mtu_search.probe.filter(first) else {
            return false;
        };
        if self.cong.state >= CaState::Cwr {
            return false;
        }
        self.mtu_search.high = probe.mtu - 1;
        self.mtu_search.probe = None;
        self.cong.cwnd += 1;
        self.resend_too_large();
        true
    }

    /// Segment `i` is about to leave again: whatever was probed stays open, and it is cut if it is
    /// larger than a segment may be (`__tcp_retransmit_skb`).
    pub(crate) fn before_sending_again(&mut self, i: u64) {
        if self.config.host.mtu_probing.when == MtuProbingUse::Off {
            return;
        }
        self.mtu_search.probe = None;
        let mss = self.agreed.mss;
        if self.board.get(i).is_some_and(|s| s.data() > mss) {
            self.board.split(mss);
        }
    }

    /// Retransmissions have not been answered for so long that the path may carry less than it
    /// is thought to (`tcp_mtu_probing`): first the base is tried, then half of that, and so on.
    pub(crate) fn suspect_black_hole(&mut self) {
        let settings = self.config.host.mtu_probing;
        if settings.when == MtuProbingUse::Off {
            return;
        }
        if self.mtu_search.enabled {
            let half = self.payload_of(self.mtu_search.low) >> 1;
            let mss = half.min(settings.base_mss);
            let mss = mss.max(settings.floor).max(LEAST_MSS);
            self.mtu_search.low = mss + self.headers();
        } else {
            self.mtu_search.enabled = true;
            self.mtu_search.since = self.now;
        }
        self.set_mss();
    }
}
