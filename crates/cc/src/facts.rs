//! What a congestion control receives and what it answers, laid out as in
//! `kernel/nw_cc.h`.

use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bits of [`Facts::flags`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags;

impl Flags {
    /// The window, not the application, limits the sender
    /// (Linux `tcp_is_cwnd_limited()`).
    pub const CWND_LIMITED: u16 = 1;
    /// This ACK reports CE marks.
    pub const ACK_ECE: u16 = 2;
    /// The rate sample is application-limited; of [`CwndEvent::TxStart`], the
    /// connection is.
    pub const APP_LIMITED: u16 = 4;
    /// `cwnd < ssthresh`; for readers of traces, the algorithms compare
    /// themselves.
    pub const IN_SLOW_START: u16 = 8;
    /// Data waits that was never sent (not `tcp_write_queue_empty()`).
    pub const UNSENT: u16 = 16;
    /// The stack takes over an MSS that the algorithm decides.
    pub const TAKES_MSS: u16 = 32;
}

/// What the algorithm receives, in Linux's units. Fill in what is known, leave
/// the rest 0.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub struct Facts {
    /// Clock of the host, nanoseconds.
    pub now_ns: u64,
    /// `sk_pacing_rate`, bytes per second.
    pub pacing_rate: u64,
    /// Payload bytes of a full segment (`mss_cache`).
    pub mss: u32,
    /// Congestion window, segments (`snd_cwnd`).
    pub cwnd: u32,
    /// Counter of linear increase, segments (`snd_cwnd_cnt`).
    pub cwnd_cnt: u32,
    /// Slow start threshold, segments; `u32::MAX >> 1` when infinite, as in
    /// Linux (`TCP_INFINITE_SSTHRESH`).
    pub ssthresh: u32,
    /// Window before the last reduction, segments.
    pub prior_cwnd: u32,
    /// Segments in flight.
    pub in_flight: u32,
    /// Oldest unacknowledged sequence number.
    pub snd_una: u32,
    /// Next sequence number to send.
    pub snd_nxt: u32,
    /// `snd_nxt` at the last entry into CWR or recovery.
    pub high_seq: u32,
    /// Segments delivered so far.
    pub delivered: u32,
    /// Of these, reported as CE-marked.
    pub delivered_ce: u32,
    /// Segments newly acknowledged or SACKed by this ACK.
    pub acked_sacked: u32,
    /// Segments ever marked lost.
    pub lost: u32,
    /// Smoothed RTT in 1/8 µs (`srtt_us`); 0 before the first sample.
    pub srtt_us: u32,
    /// Windowed minimum RTT, µs; 0 or `u32::MAX` before the first sample.
    pub min_rtt_us: u32,
    /// RTT sample of this ACK, µs; 0 if it has none.
    pub rtt_us: u32,
    /// Segments delivered over the rate sample; negative if invalid.
    pub rs_delivered: i32,
    /// Interval of the rate sample, µs.
    pub rs_interval_us: u32,
    /// `delivered` when the sampled segment left.
    pub rs_prior_delivered: u32,
    /// Segments in flight before this ACK.
    pub rs_prior_in_flight: u32,
    /// Segments marked lost by this ACK.
    pub rs_losses: u32,
    /// Largest super-packet, bytes (`sk_gso_max_size`); 0 without segmentation
    /// offload.
    pub gso_max_size: u32,
    /// Echoed timestamp (`TSecr`) of this ACK.
    pub ts_echo: u32,
    /// A fresh random word.
    pub random: u32,
    /// Segments sent and not cumulatively acknowledged.
    pub packets_out: u32,
    /// [`CaState`] before the change under way.
    pub ca_state: u8,
    /// [`Pacing`] of the socket.
    pub pacing_status: u8,
    /// Bits of [`Flags`].
    pub flags: u16,
    /// Largest allowed window, segments (`snd_cwnd_clamp`); 0 for none.
    pub cwnd_clamp: u32,
    /// Bytes of IP and TCP header on a full segment; 0 is taken as 52 (IPv4,
    /// TCP, timestamps).
    pub header: u32,
    /// When data was last sent before now, nanoseconds (`lsndtime`), for
    /// [`CwndEvent::TxStart`]; 0 if unknown.
    pub last_sent_ns: u64,
}

/// What the algorithm decided: only fields whose bit is in `set` count.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
pub struct Decision {
    /// Which of the following fields are written.
    pub set: u32,
    /// New congestion window, segments; never 0.
    pub cwnd: u32,
    /// New counter of linear increase.
    pub cwnd_cnt: u32,
    /// New slow start threshold, segments.
    pub ssthresh: u32,
    /// New pacing rate, bytes per second.
    pub pacing_rate: u64,
    /// New [`Pacing`].
    pub pacing_status: u16,
    /// New payload bytes of a full segment.
    pub mss: u16,
    /// What happened, for logs.
    pub events: u32,
}

impl Decision {
    /// `cwnd` is written.
    pub const CWND: u32 = 1;
    /// `cwnd_cnt` is written.
    pub const CWND_CNT: u32 = 2;
    /// `ssthresh` is written.
    pub const SSTHRESH: u32 = 4;
    /// `pacing_rate` is written.
    pub const PACING_RATE: u32 = 8;
    /// `pacing_status` is written.
    pub const PACING_STATUS: u32 = 16;
    /// `mss` is written.
    pub const MSS: u32 = 32;
    /// The connection is application-limited until what is in flight now is
    /// delivered (`tp->app_limited`); without a value.
    pub const APP_LIMITED: u32 = 64;

    /// Event: slow start was left by the algorithm's own choice (HyStart).
    pub const SLOW_START_EXIT: u32 = 1;
    /// Event: conservative slow start began (RFC 9406 §4.2).
    pub const CSS_ENTER: u32 = 2;
    /// Event: conservative slow start was spurious; slow start goes on.
    pub const CSS_RESUME: u32 = 4;

    /// The window, if it was decided.
    pub fn cwnd(&self) -> Option<u32> {
        (self.set & Self::CWND != 0).then_some(self.cwnd)
    }

    /// The counter of linear increase, if it was decided.
    pub fn cwnd_cnt(&self) -> Option<u32> {
        (self.set & Self::CWND_CNT != 0).then_some(self.cwnd_cnt)
    }

    /// The slow start threshold, if it was decided.
    pub fn ssthresh(&self) -> Option<u32> {
        (self.set & Self::SSTHRESH != 0).then_some(self.ssthresh)
    }

    /// The pacing rate in bytes per second, if it was decided.
    pub fn pacing_rate(&self) -> Option<u64> {
        (self.set & Self::PACING_RATE != 0).then_some(self.pacing_rate)
    }

    /// The payload bytes of a full segment, if they were decided.
    pub fn mss(&self) -> Option<u32> {
        (self.set & Self::MSS != 0).then_some(u32::from(self.mss))
    }

    /// Writes what was decided into `facts`, for a caller that keeps the
    /// window there.
    pub fn apply(&self, facts: &mut Facts) {
        if let Some(cwnd) = self.cwnd() {
            facts.cwnd = cwnd;
        }
        if let Some(cnt) = self.cwnd_cnt() {
            facts.cwnd_cnt = cnt;
        }
        if let Some(ssthresh) = self.ssthresh() {
            facts.ssthresh = ssthresh;
        }
        if let Some(rate) = self.pacing_rate() {
            facts.pacing_rate = rate;
        }
        if self.set & Self::PACING_STATUS != 0 {
            facts.pacing_status = u8::try_from(self.pacing_status).unwrap_or(0);
        }
        if let Some(mss) = self.mss() {
            facts.mss = mss;
        }
    }
}

/// States of Linux's congestion-avoidance machine (`enum tcp_ca_state`).
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CaState {
    /// Nothing unusual.
    #[default]
    Open = 0,
    /// Duplicate ACKs or SACKs, no loss inferred yet.
    Disorder = 1,
    /// Reducing after an ECN signal or local congestion.
    Cwr = 2,
    /// Fast recovery.
    Recovery = 3,
    /// After a retransmission timeout.
    Loss = 4,
}

impl CaState {
    /// All of them, by value.
    pub const ALL: [Self; 5] = [
        Self::Open,
        Self::Disorder,
        Self::Cwr,
        Self::Recovery,
        Self::Loss,
    ];
}

/// Events that Linux passes to a congestion control (`enum tcp_ca_event`).
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CwndEvent {
    /// First transmission with nothing in flight.
    TxStart = 0,
    /// The window was restarted after idle time.
    CwndRestart = 1,
    /// A window reduction is complete.
    CompleteCwr = 2,
    /// The retransmission timer fired.
    Loss = 3,
    /// An ECT packet arrived without CE.
    EcnNoCe = 4,
    /// A CE-marked packet arrived.
    EcnIsCe = 5,
}

impl CwndEvent {
    /// All of them, by value.
    pub const ALL: [Self; 6] = [
        Self::TxStart,
        Self::CwndRestart,
        Self::CompleteCwr,
        Self::Loss,
        Self::EcnNoCe,
        Self::EcnIsCe,
    ];
}

/// Who paces a socket (`enum sk_pacing`).
#[repr(u8)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Pacing {
    /// Nobody.
    #[default]
    None = 0,
    /// TCP itself.
    Needed = 1,
    /// The fq queueing discipline.
    Fq = 2,
}

// The same layout is asserted on the C side, in kernel/nw_cc.h.
const _: () = {
    use core::mem::{offset_of, size_of};
    assert!(size_of::<Facts>() == 136 && size_of::<Facts>() <= 160);
    assert!(offset_of!(Facts, mss) == 16);
    assert!(offset_of!(Facts, delivered) == 52);
    assert!(offset_of!(Facts, rs_delivered) == 80);
    assert!(offset_of!(Facts, ca_state) == 116);
    assert!(offset_of!(Facts, flags) == 118);
    assert!(offset_of!(Facts, header) == 124);
    assert!(offset_of!(Facts, last_sent_ns) == 128);
    assert!(size_of::<Decision>() == 32);
    assert!(offset_of!(Decision, pacing_rate) == 16);
    assert!(offset_of!(Decision, mss) == 26);
    assert!(offset_of!(Decision, events) == 28);
};
