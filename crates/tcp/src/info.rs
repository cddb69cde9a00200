//! What a connection says about itself, in the kernel's words (`tcp_get_info`,
//! Linux `net/ipv4/tcp.c`, v6.18).

use narrows_core::{
    FlowSample, TCPI_OPT_ECN, TCPI_OPT_ECN_SEEN, TCPI_OPT_SACK, TCPI_OPT_SYN_DATA,
    TCPI_OPT_TIMESTAMPS, TCPI_OPT_WSCALE, TcpInfo,
};
use narrows_units::{Duration, Instant};

use crate::connection::Connection;
use crate::delayed_ack::DELAY_MAX;
use crate::ecn::Feedback;

/// What the structure has room for.
fn narrow<T: TryFrom<u64>>(value: u64, largest: T) -> T {
    T::try_from(value).unwrap_or(largest)
}

fn millis(span: Duration) -> u32 {
    narrow(span.as_nanos() / 1_000_000, u32::MAX)
}

fn micros(span: Duration) -> u32 {
    narrow(span.as_micros(), u32::MAX)
}

impl Connection {
    /// The connection as `getsockopt(TCP_INFO)` would describe it at `now`, but
    /// that times are exact where the kernel counts ticks. Every field is known
    /// but [`TcpInfo::accecn`].
    pub fn info(&self, now: Instant) -> TcpInfo {
        let (cong, board, totals) = (&self.cong, &self.board, &self.totals);
        let (rwnd_limited, sndbuf_limited, _) = self.limits.totals(now);
        let [delivered_e1, delivered_e0, delivered_ce] = self.accecn.delivered_bytes();
        let [received_e1, received_e0, received_ce] = self.accecn.received_bytes();
        let retransmits = if self.handshake.finished {
            self.out.retransmissions
        } else {
            self.handshake.timeouts
        };
        TcpInfo {
            state: self.state.number(),
            ca_state: cong.state as u8,
            retransmits: narrow(u64::from(retransmits), u8::MAX),
            probes: narrow(u64::from(self.out.probes), u8::MAX),
            backoff: narrow(u64::from(self.rtt.backoff), u8::MAX),
            options: self.option_bits(),
            snd_wscale: self.agreed.peer_scale,
            rcv_wscale: self.window.scale,
            delivery_rate_app_limited: u8::from(self.rate.is_app_limited()),
            rto: narrow(self.rtt.rto_us, u32::MAX),
            ato: micros(self.delack.ato.min(DELAY_MAX)),
            snd_mss: self.agreed.mss,
            rcv_mss: self.delack.peer_mss,
            unacked: board.packets_out,
            sacked: board.sacked_out,
            lost: board.lost_out,
            retrans: board.retrans_out,
            last_data_sent: millis(now.since(self.last_data_sent())),
            last_data_recv: millis(now.since(self.delack.last_data)),
            last_ack_recv: millis(now.since(self.last_ack_received)),
            pmtu: self.path_mtu,
            rcv_ssthresh: narrow(self.window.soft_limit, u32::MAX),
            rtt: self.rtt.srtt_us >> 3,
            rttvar: self.rtt.mdev_us >> 2,
            snd_ssthresh: cong.ssthresh,
            snd_cwnd: cong.cwnd,
            advmss: self.config.advertised_mss() + 20 - self.header_len(),
            reordering: cong.reordering,
            rcv_rtt: micros(self.window.rtt()),
            rcv_space: narrow(self.window.space, u32::MAX),
            total_retrans: narrow(totals.retransmits, u32::MAX),
            pacing_rate: Some(match cong.pacing_rate {
                0 => u64::MAX,
                rate => rate,
            }),
            bytes_acked: Some(self.bytes_acked()),
            bytes_received: Some(self.incoming.next - self.first_received),
            segs_out: Some(totals.segs_out),
            segs_in: Some(totals.segs_in),
            notsent_bytes: Some(narrow(self.unsent(), u32::MAX)),
            min_rtt: Some(self.rtt.min_us()),
            data_segs_in: Some(totals.data_segs_in),
            data_segs_out: Some(totals.data_segs_out),
            delivery_rate: Some(self.rate.delivery_rate(self.agreed.mss)),
            busy_time: Some(self.limits.busy(now).as_micros()),
            rwnd_limited: Some(rwnd_limited.as_micros()),
            sndbuf_limited: Some(sndbuf_limited.as_micros()),
            delivered: Some(self.rate.delivered),
            delivered_ce: Some(self.rate.delivered_ce),
            bytes_sent: Some(totals.bytes_sent),
            bytes_retrans: Some(totals.bytes_retrans),
            dsack_dups: Some(narrow(totals.dsack_dups, u32::MAX)),
            reord_seen: Some(cong.reord_seen),
            rcv_ooopack: Some(totals.ooo_segs_in),
            snd_wnd: Some(narrow(self.snd.size, u32::MAX)),
            rcv_wnd: Some(narrow(self.window.offered(), u32::MAX)),
            total_rto: Some(totals.timeouts),
            total_rto_recoveries: Some(totals.timeout_recoveries),
            total_rto_time: Some(millis(totals.timeout_time(now))),
            received_ce: Some(self.accecn.received_ce),
            delivered_e1_bytes: Some(delivered_e1),
            delivered_e0_bytes: Some(delivered_e0),
            delivered_ce_bytes: Some(delivered_ce),
            received_e1_bytes: Some(received_e1),
            received_e0_bytes: Some(received_e0),
            received_ce_bytes: Some(received_ce),
            accecn: None,
        }
    }

    /// The events' picture of the sender: what [`info`](Self::info) says, with
    /// the smoothed RTT to an eighth of a microsecond and the latest RTT sample.
    pub fn sample(&self, now: Instant) -> FlowSample {
        FlowSample {
            srtt: self.rtt.srtt(),
            latest_rtt: Duration::from_micros(u64::from(self.rtt.latest_us)),
            ..self.info(now).sample()
        }
    }

    /// When data was sent last; before any was, the connection's begin
    /// (`lsndtime`).
    fn last_data_sent(&self) -> Instant {
        self.cong.last_sent.max(self.handshake.begun_at)
    }

    fn option_bits(&self) -> u8 {
        let ecn = self.ecn.feedback != Feedback::None;
        let scaling = self.agreed.peer_scale > 0 || self.window.scale > 0;
        [
            (self.agreed.timestamps, TCPI_OPT_TIMESTAMPS),
            (self.agreed.sack, TCPI_OPT_SACK),
            (self.handshake.finished && scaling, TCPI_OPT_WSCALE),
            (self.handshake.finished && ecn, TCPI_OPT_ECN),
            (self.ecn.seen, TCPI_OPT_ECN_SEEN),
            (self.handshake.syn_data_acked, TCPI_OPT_SYN_DATA),
        ]
        .iter()
        .filter(|(set, _)| *set)
        .fold(0, |bits, (_, bit)| bits | bit)
    }
}
