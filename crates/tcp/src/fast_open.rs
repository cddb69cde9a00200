//! TCP Fast Open (RFC 7413): cookies, and data in the SYN, as Linux
//! `net/ipv4/tcp_fastopen.c` and `tcp_rcv_fastopen_synack`, v6.17.

use narrows_wire::TcpFlags;
use narrows_wire::tcp::FastOpenCookie;

use crate::connection::Connection;
use crate::event::TcpEvent;
use crate::input::Arrived;
use crate::scoreboard::Segment;

impl Connection {
    /// Data in the SYN is taken if the cookie is ours; who has none is given
    /// one (RFC 7413 §4.2).
    pub(crate) fn consider_fast_open(&mut self, a: &Arrived<'_>) {
        let Some(offered) = a.tcp.options.fast_open.filter(|_| self.config.fast_open) else {
            return;
        };
        let ours = self.cookie_for_peer();
        if offered.as_slice() != ours.as_slice() {
            self.handshake.give_cookie = Some(ours);
            return;
        }
        self.handshake.accepted_early = true;
        self.take_early_data(a);
        self.start_transfer();
    }

    /// A cookie that only this server can make for this address: eight bytes
    /// of a keyed hash (RFC 7413 §4.1.2).
    fn cookie_for_peer(&self) -> FastOpenCookie {
        let name = format!("fast-open {}", self.config.remote.ip());
        let hash = narrows_units::seed_of(self.config.fast_open_key, &name).to_be_bytes();
        FastOpenCookie::new(&hash[..8]).unwrap_or_default()
    }

    /// Data of our SYN counts as sent with it.
    pub(crate) fn put_early_data_on_board(&mut self) {
        let (seq, end) = (
            self.snd.una.max(self.snd.start),
            self.snd.start + self.handshake.early,
        );
        self.totals.transmissions += 1;
        self.board.push(Segment {
            seq,
            len: (end - seq) as u32,
            push: true,
            sent_us: self.handshake.sent_at.as_micros(),
            transmission: self.totals.transmissions,
            ..Segment::default()
        });
        self.snd.next = end;
    }

    /// Data of our SYN was not taken: it is lost, and leaves again as segments of the size
    /// that the peer takes (`tcp_rcv_fastopen_synack`).
    pub(crate) fn resend_early_data(&mut self) {
        self.put_early_data_on_board();
        self.board.mark_lost(self.board.first());
        self.board.cut(self.agreed.mss);
        self.repair_without_congestion();
    }

    /// Data or FIN in a SYN or SYN-ACK, which Fast Open lets it carry
    /// (`tcp_fastopen_add_skb`).
    pub(crate) fn take_early_data(&mut self, a: &Arrived<'_>) {
        let first = self.incoming.next;
        let end = first + u64::from(a.len);
        let fin = a.tcp.flags.has(TcpFlags::FIN);
        self.handshake.syn_data_acked |= a.len > 0 || fin;
        if a.len > 0 {
            self.incoming.take(first, end, a.payload);
            self.emit(TcpEvent::Readable);
        }
        if fin {
            self.incoming.take_fin(end);
            self.on_peer_closed();
        }
    }

    /// Our SYN with data was lost: it leaves again at once, without its data.
    pub(crate) fn resend_syn(&mut self) {
        self.handshake.due = true;
        self.handshake.sent_again += 1;
        self.totals.retransmits += 1;
    }
}
