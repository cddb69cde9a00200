//! TIME-WAIT (RFC 9293 §3.3.2): its two MSL, what is answered in it, and which SYN ends it
//! (`tcp_timewait_state_process`, Linux `net/ipv4/tcp_minisocks.c`, v6.17).

use narrows_core::Packet;
use narrows_units::Instant;
use narrows_wire::{Ecn, Ip, Tcp, TcpFlags, ip};

use crate::connection::Connection;
use crate::event::{TcpEvent, TcpState};
use crate::input::Arrived;

/// By how much a connection's initial sequence number is beyond the last number of the one
/// that was in TIME-WAIT between the same ports: no window without scaling reaches it.
const BEYOND: u32 = 65_535 + 2;

impl Connection {
    /// The initial sequence number with which a listener is to answer `packet` in the place of this
    /// connection: a SYN that opens it again (RFC 9293 §3.6.1, MAY-2), as its number or its
    /// timestamp is newer than all that came before (RFC 6191). `None` for what
    /// [`receive`](Self::receive) is to take.
    pub fn reopened_by(&mut self, now: Instant, packet: &Packet) -> Option<u32> {
        self.advance(now);
        if self.state != TcpState::TimeWait {
            return None;
        }
        let ip = Ip::parse(&packet.bytes).ok()?;
        let tcp = Tcp::parse(packet.bytes.get(ip.header_len..)?).ok()?;
        let flags = tcp.flags;
        let opens = ip.protocol == ip::TCP
            && flags.has(TcpFlags::SYN)
            && !flags.has(TcpFlags::RST)
            && !flags.has(TcpFlags::ACK);
        let newer = self.peer_number(tcp.seq) > self.incoming.next || self.is_new_timestamp(&tcp);
        // Zero is no number there (`tcp_tw_isn`).
        let isn = (self.snd.next as u32).wrapping_add(BEYOND).max(1);
        (opens && newer && !self.is_old_timestamp(&tcp)).then_some(isn)
    }

    pub(crate) fn enter_time_wait(&mut self) {
        self.state = TcpState::TimeWait;
        self.timers.stop();
        self.timers.keep_alive = None;
        self.limits.stop(self.now);
        self.timers.time_wait = Some(self.now + self.config.time_wait);
        self.emit(TcpEvent::Closed);
    }

    /// What comes in TIME-WAIT (`tcp_timewait_state_process`): an exact reset ends it
    /// (`net.ipv4.tcp_rfc1337` 0), what is old or has an ACK restarts 2 MSL, and what is not
    /// an ACK that was expected is acknowledged, without ECT as it may be replayed.
    pub(crate) fn on_time_wait(&mut self, a: &Arrived<'_>) {
        let flags = a.tcp.flags;
        let old = self.is_old_timestamp(a.tcp);
        let expected = !old && a.seq == self.incoming.next;
        if flags.has(TcpFlags::RST) {
            if expected {
                self.enter_closed(None);
            }
            return;
        }
        if old || flags.has(TcpFlags::ACK) {
            self.timers.time_wait = Some(self.now + self.config.time_wait);
        }
        if expected && a.end() == a.seq {
            self.replace_ts_recent(a.tcp, a.seq);
            return;
        }
        // `tcp_oow_rate_limited`
        let limited = a.end() == a.seq || flags.has(TcpFlags::SYN);
        if !limited || self.may_challenge() {
            self.out.time_wait_ack = Some(Ecn::NotEct);
        }
    }
}
