//! Packets as they leave: header fields, options, ECN.

use narrows_core::{Packet, PacketPool};
use narrows_units::{Duration, Instant};
use narrows_wire::{Ecn, Ip, IpFields, Tcp, TcpFields, TcpFlags, TcpOptions, ip};

use crate::config::AccEcnOptionUse;
use crate::connection::Connection;
use crate::ecn::Feedback;
use crate::scoreboard::{Segment, flag};

/// Hops that a packet may take (`net.ipv4.ip_default_ttl`).
const TTL: u8 = 64;
/// Most bytes of options.
const OPTION_ROOM: usize = 40;
/// The AccECN option is sent at least 2² times a round trip
/// (`TCP_ACCECN_BEACON_FREQ_SHIFT`).
const BEACONS: u64 = 4;

impl Connection {
    /// Bytes of the TCP header on a segment with data.
    pub(crate) fn header_len(&self) -> u32 {
        if self.agreed.timestamps { 32 } else { 20 }
    }

    /// What of the MTU is left for payload.
    pub(crate) fn set_mss(&mut self) {
        self.agreed.mss = self.full_mss();
    }

    /// Most payload bytes of a segment, whatever the algorithm makes of it.
    pub(crate) fn full_mss(&self) -> u32 {
        let own = self.config.mss_for(self.path_mtu);
        let full = own.min(self.agreed.peer_mss).max(88);
        let full = full - (self.header_len() - 20);
        match self.mtu_search.limit() {
            Some(mtu) => full.min(self.payload_of(mtu)),
            None => full,
        }
    }

    /// The codepoint of packets that may be marked.
    fn capable_ecn(&self) -> Ecn {
        if !self.ecn.capable {
            Ecn::NotEct
        } else if self.ecn.feedback == Feedback::Accurate && self.cc.needs().ect1 {
            Ecn::Ect1
        } else {
            Ecn::Ect0
        }
    }

    /// The ECN field of a packet and the ECN flags of its segment. Classic
    /// ECN marks new data only (RFC 3168 §6.1.4-5); with AccECN everything
    /// after the handshake may be marked.
    fn ecn_of(&mut self, new_data: bool) -> (Ecn, u16) {
        match self.ecn.feedback {
            Feedback::None => (Ecn::NotEct, 0),
            Feedback::Classic => {
                let mut flags = 0;
                if self.ecn.echo {
                    flags |= TcpFlags::ECE;
                }
                if !new_data {
                    return (Ecn::NotEct, flags);
                }
                if std::mem::take(&mut self.ecn.announce_cwr) {
                    flags |= TcpFlags::CWR;
                }
                (self.capable_ecn(), flags)
            }
            Feedback::Accurate => {
                let ace = match self.handshake.reflect.take() {
                    Some(reflected) => reflected,
                    None => self.accecn.ace(),
                };
                (self.capable_ecn(), TcpFlags(0).with_ace(ace).0)
            }
        }
    }

    fn timestamps(&self) -> Option<(u32, u32)> {
        self.agreed
            .timestamps
            .then(|| (self.departure_timestamp(), self.ts_recent))
    }

    /// Options of a segment with data: as few as possible, so that full
    /// segments stay full. What the peer must know in full goes on an ACK.
    fn data_options(&mut self, payload: u32) -> TcpOptions {
        let mut options = TcpOptions {
            timestamps: self.timestamps(),
            ..TcpOptions::default()
        };
        let taken = self.header_len() as usize - 20;
        let spare = self.agreed.mss.saturating_sub(payload) as usize;
        // Beside timestamps no option is less than a word.
        if spare >= 4 {
            let room = OPTION_ROOM.min(taken + spare);
            self.add_sack(&mut options, room);
            self.add_accecn(&mut options, room);
        }
        options
    }

    /// Options of an ACK without data.
    fn ack_options(&mut self) -> TcpOptions {
        let mut options = TcpOptions {
            timestamps: self.timestamps(),
            ..TcpOptions::default()
        };
        self.add_sack(&mut options, OPTION_ROOM);
        self.add_accecn(&mut options, OPTION_ROOM);
        options
    }

    /// As many SACK blocks as fit into `room` bytes for all options.
    fn add_sack(&mut self, options: &mut TcpOptions, room: usize) {
        let left = room - options.encoded_len();
        if left >= 12 && self.agreed.sack && self.incoming.has_blocks() {
            self.incoming
                .write_blocks((left - 4) / 8, &mut options.sack);
        }
    }

    fn wants_accecn_option(&self) -> bool {
        if self.ecn.feedback != Feedback::Accurate || !self.accecn.peer_knows_option() {
            return false;
        }
        match self.config.accecn_option {
            AccEcnOptionUse::Off => false,
            AccEcnOptionUse::Full => true,
            AccEcnOptionUse::Minimum => {
                let since = self.now.since(self.handshake.option_sent_at).as_nanos();
                self.accecn.demand > 0 || since * BEACONS >= self.rtt.srtt().as_nanos()
            }
        }
    }

    fn add_accecn(&mut self, options: &mut TcpOptions, room: usize) {
        if !self.wants_accecn_option() {
            return;
        }
        let required = self.accecn.required();
        if self.accecn.fit(options, required, room) {
            self.accecn.option_sent();
            self.handshake.option_sent_at = self.now;
        }
    }

    /// The window field of what leaves now.
    fn window_field(&mut self) -> u16 {
        self.window.offer(
            self.incoming.next,
            self.incoming.held(),
            self.delack.peer_mss,
        )
    }

    /// What every segment that carries an ACK settles.
    fn ack_left(&mut self) {
        self.out.ack = false;
        self.sack_compression.pending = 0;
        self.timers.sack = None;
        self.delack.ack_sent();
    }

    /// A segment with data or FIN; `new` unless it was sent before.
    pub(crate) fn build_data(
        &mut self,
        pool: &mut PacketPool,
        segment: &Segment,
        new: bool,
    ) -> Box<Packet> {
        let fin = segment.is(flag::FIN);
        let payload = segment.len - u32::from(fin);
        if payload > 0 {
            self.totals.data_segs_out = self.totals.data_segs_out.wrapping_add(1);
            self.totals.bytes_sent += u64::from(payload);
        }
        let (ecn, ecn_flags) = self.ecn_of(new && payload > 0);
        let mut flags = TcpFlags::ACK | ecn_flags;
        if segment.push && payload > 0 {
            flags |= TcpFlags::PSH;
        }
        if fin {
            flags |= TcpFlags::FIN;
        }
        let options = self.data_options(payload);
        let window = self.window_field();
        self.ack_left();
        let mut scratch = std::mem::take(&mut self.out.scratch);
        scratch.clear();
        self.outgoing
            .copy_prefix(segment.seq, segment.seq + u64::from(payload), &mut scratch);
        let mut fields = TcpFields {
            seq: segment.seq as u32,
            ack: self.incoming.next as u32,
            flags: TcpFlags(flags),
            window,
            options,
            ..TcpFields::default()
        };
        let packet = self.packet(
            pool,
            &mut fields,
            ecn,
            &scratch,
            payload - scratch.len() as u32,
        );
        self.out.scratch = scratch;
        packet
    }

    /// An ACK without data, numbered `seq`.
    pub(crate) fn build_ack(&mut self, pool: &mut PacketPool, seq: u64) -> Box<Packet> {
        self.build_without_data(pool, seq, TcpFlags::ACK)
    }

    /// A reset that says where the stream stood: an ACK otherwise, with its timestamps
    /// and its window (`tcp_send_active_reset`).
    pub(crate) fn build_reset(&mut self, pool: &mut PacketPool) -> Box<Packet> {
        self.build_without_data(pool, self.acceptable_seq(), TcpFlags::ACK | TcpFlags::RST)
    }

    fn build_without_data(&mut self, pool: &mut PacketPool, seq: u64, flags: u16) -> Box<Packet> {
        let (ecn, ecn_flags) = self.ecn_of(false);
        let options = self.ack_options();
        let window = self.window_field();
        self.ack_left();
        let mut fields = TcpFields {
            seq: seq as u32,
            ack: self.incoming.next as u32,
            flags: TcpFlags(flags | ecn_flags),
            window,
            options,
            ..TcpFields::default()
        };
        self.packet(pool, &mut fields, ecn, &[], 0)
    }

    /// The codepoint that a time-wait socket remembers (`tw_tos`).
    pub(crate) fn time_wait_ecn(&self) -> Ecn {
        match self.ecn.feedback {
            Feedback::Accurate => self.capable_ecn(),
            _ => Ecn::NotEct,
        }
    }

    /// An ACK, marked `ecn`, for what comes in TIME-WAIT, where nothing is left of the
    /// connection but its numbers, its timestamps and its codepoint
    /// (`tcp_v4_timewait_ack`). Its ACE field is zero, in v6.18 to v7.2 too.
    pub(crate) fn build_time_wait_ack(&mut self, pool: &mut PacketPool, ecn: Ecn) -> Box<Packet> {
        self.ack_left();
        let mut fields = TcpFields {
            seq: self.snd.next as u32,
            ack: self.incoming.next as u32,
            flags: TcpFlags(TcpFlags::ACK),
            window: self.window_field(),
            options: TcpOptions {
                timestamps: self.timestamps(),
                ..TcpOptions::default()
            },
            ..TcpFields::default()
        };
        self.packet(pool, &mut fields, ecn, &[], 0)
    }

    /// A reset for a segment that belongs to no connection of ours.
    pub(crate) fn build_stray_reset(&mut self, pool: &mut PacketPool, seq: u32) -> Box<Packet> {
        let mut fields = TcpFields {
            seq,
            flags: TcpFlags(TcpFlags::RST),
            ..TcpFields::default()
        };
        self.packet(pool, &mut fields, Ecn::NotEct, &[], 0)
    }

    /// Writes IP and TCP headers and the payload.
    pub(crate) fn packet(
        &mut self,
        pool: &mut PacketPool,
        fields: &mut TcpFields,
        ecn: Ecn,
        payload: &[u8],
        zero_tail: u32,
    ) -> Box<Packet> {
        if self.has_socket() {
            self.totals.segs_out = self.totals.segs_out.wrapping_add(1);
        }
        fields.source_port = self.config.local.port();
        fields.destination_port = self.config.remote.port();
        let (source, destination) = (self.config.local.ip(), self.config.remote.ip());
        // IPv4 counts its packets, IPv6 labels its flow.
        if source.is_ipv4() {
            self.ident = self.ident.wrapping_add(1);
        }
        let header = IpFields {
            source,
            destination,
            traffic_class: self.config.dscp << 2 | ecn as u8,
            ttl: TTL,
            protocol: ip::TCP,
            ident: self.ident,
        };
        let mut packet = pool.take(self.now, self.config.flow);
        fields.write_packet(&mut packet.bytes, &header, payload, zero_tail);
        packet.zero_tail = zero_tail;
        packet
    }

    /// The receiver's round trip for the pace of compressed SACKs.
    pub(crate) fn shorter_rtt(&self) -> Duration {
        let own = self.rtt.srtt();
        let seen = self.window.rtt();
        if own.is_zero() || seen < own {
            seen
        } else {
            own
        }
    }
}

/// The RST that answers `packet`, which no socket wants (RFC 9293 §3.10.7.1);
/// `None` for a packet that must not be answered: a RST, or no TCP segment.
pub fn reset_for(now: Instant, pool: &mut PacketPool, packet: &Packet) -> Option<Box<Packet>> {
    let ip = Ip::parse(&packet.bytes).ok()?;
    if ip.protocol != ip::TCP || ip.fragment_offset != 0 {
        return None;
    }
    let tcp = Tcp::parse(&packet.bytes[ip.header_len..]).ok()?;
    if tcp.flags.has(TcpFlags::RST) {
        return None;
    }
    let payload = ip.total_len.saturating_sub(ip.header_len + tcp.header_len) as u32;
    let taken =
        payload + u32::from(tcp.flags.has(TcpFlags::SYN)) + u32::from(tcp.flags.has(TcpFlags::FIN));
    let mut fields = TcpFields {
        source_port: tcp.destination_port,
        destination_port: tcp.source_port,
        ..TcpFields::default()
    };
    if tcp.flags.has(TcpFlags::ACK) {
        fields.seq = tcp.ack;
        fields.flags = TcpFlags(TcpFlags::RST);
    } else {
        fields.ack = tcp.seq.wrapping_add(taken);
        fields.flags = TcpFlags(TcpFlags::RST | TcpFlags::ACK);
    }
    let header = IpFields {
        source: ip.destination,
        destination: ip.source,
        traffic_class: 0,
        ttl: TTL,
        protocol: ip::TCP,
        ident: 0,
    };
    let mut answer = pool.take(now, packet.flow);
    header.write(&mut answer.bytes, fields.header_len());
    fields.write(&mut answer.bytes, ip.destination, ip.source, &[], 0);
    Some(answer)
}
