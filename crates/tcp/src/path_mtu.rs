//! Path MTU discovery (RFC 1191, RFC 8201), as `tcp_v4_mtu_reduced`, `tcp_v6_mtu_reduced`
//! and `tcp_simple_retransmit`, Linux 6.17.

use narrows_cc::CaState;
use narrows_units::Instant;
use narrows_wire::Ip;

use crate::connection::Connection;
use crate::event::TcpState;
use crate::sequence;

impl Connection {
    /// A link of the path takes packets of at most `mtu` bytes, as an ICMP error says
    /// that quotes `packet` from its IP header on. It is used if what it quotes is
    /// in flight (RFC 5927 §7.2); segments are then smaller, and those that were too
    /// large leave again. That is no sign of congestion (RFC 1191 §6.5): the window
    /// stays. A SYN with data (Fast Open) is taken for lost and leaves again at once,
    /// without its data.
    pub fn packet_too_big(&mut self, now: Instant, mtu: u32, packet: &[u8]) -> bool {
        self.advance(now);
        let seq = Ip::parse(packet).ok().and_then(|ip| {
            let field = packet.get(ip.header_len + 4..)?.first_chunk::<4>()?;
            Some(sequence::expand(u32::from_be_bytes(*field), self.snd.una))
        });
        let in_flight = seq.is_some_and(|seq| (self.snd.una..=self.snd.next).contains(&seq));
        let silent = matches!(
            self.state,
            TcpState::Closed | TcpState::Listen | TcpState::TimeWait
        );
        if !in_flight || silent || mtu >= self.path_mtu {
            return false;
        }
        self.path_mtu = mtu;
        self.mtu_search.reported(mtu);
        let before = self.agreed.mss;
        self.agreed.mss = before.min(self.full_mss());
        if self.state == TcpState::SynSent && self.handshake.early > 0 {
            self.resend_syn();
        } else if self.agreed.mss < before {
            self.resend_too_large();
        }
        true
    }

    /// Takes what is larger than a segment may now be for lost, and cuts it.
    pub(crate) fn resend_too_large(&mut self) {
        if !self.board.cut(self.agreed.mss) {
            return;
        }
        if !self.agreed.sack {
            // `tcp_limit_reno_sacked`
            let most = self.board.packets_out - self.board.lost_out;
            self.board.sacked_out = self.board.sacked_out.min(most);
        }
        self.repair_without_congestion();
    }

    /// What is marked lost leaves again, and the window stays
    /// (`tcp_non_congestion_loss_retransmit`).
    pub(crate) fn repair_without_congestion(&mut self) {
        if self.cong.state != CaState::Loss {
            self.cong.high_seq = self.snd.next;
            self.cong.ssthresh = self.cong.current_ssthresh();
            self.cong.prior_ssthresh = 0;
            self.cong.undo_marker = None;
            self.cong.frto = false;
            self.set_ca_state(CaState::Loss);
        }
        self.out.retransmit = true;
    }
}
