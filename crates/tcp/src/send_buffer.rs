//! The send buffer and the writer that waits for room in it
//! (`tcp_sndbuf_expand`, `tcp_new_space`, `sk_stream_write_space`,
//! `tcp_sendmsg`; Linux v5.4 and v6.17 alike).

use crate::config::{Segmentation, SendBuffer};
use crate::connection::Connection;
use crate::event::TcpEvent;
use crate::small_queues::BURST_OVERHEAD;

/// A window that the buffer always has room for (`TCP_INIT_CWND` 10).
const LEAST_SEGMENTS: u32 = 10;
/// Memory of a segment besides its payload, before rounding: room for headers
/// (`MAX_TCP_HEADER` 320) and `skb_shared_info` (320).
const SEGMENT_ROOM: u64 = 640;
/// A window up to which a piece may be as large as all of it (`TCP_MSS_DEFAULT`).
const MSS_DEFAULT: u64 = 536;
/// An `sk_buff`, rounded up to cache lines.
const SK_BUFF: u64 = 256;

impl Connection {
    /// How much of a write the buffer takes, `None` if it is not modelled: all
    /// of it up to a whole number of pieces, as long as the buffer is not full
    /// when a piece begins. A writer that was refused sleeps until
    /// [`wake_writer`](Self::wake_writer).
    pub(crate) fn buffer_room(&mut self) -> Option<u64> {
        let SendBuffer::Auto { max } = self.config.host.send_buffer else {
            return None;
        };
        if self.write_refused {
            return Some(0);
        }
        self.buffer_bytes = self.buffer_bytes.max(self.buffer_for(LEAST_SEGMENTS, max));
        let piece = self.piece();
        let free = self.buffer_bytes.saturating_sub(self.buffered());
        Some(free.div_ceil(piece) * piece)
    }

    /// After sending: the buffer grows to twice the window if the window is
    /// not used up, and a writer who waits is woken when a third of it is free.
    pub(crate) fn wake_writer(&mut self) {
        let SendBuffer::Auto { max } = self.config.host.send_buffer else {
            return;
        };
        if !self.write_refused {
            return;
        }
        if self.board.in_flight() < self.cong.cwnd {
            let segments = self.cong.cwnd.max(self.cong.reordering + 1);
            self.buffer_bytes = self.buffer_bytes.max(self.buffer_for(segments, max));
        }
        // The payload is most of what is buffered, and known without a division.
        let leaves_a_third = |bytes: u64| bytes + bytes / 2 <= self.buffer_bytes;
        if leaves_a_third(self.outgoing.len()) && leaves_a_third(self.buffered()) {
            self.write_refused = false;
            self.emit(TcpEvent::Writable);
        }
    }

    /// Twice the memory of `segments`, each by itself in memory of a power of
    /// two.
    fn buffer_for(&self, segments: u32, max: u64) -> u64 {
        let each = (u64::from(self.agreed.mss) + SEGMENT_ROOM).next_power_of_two() + SK_BUFF;
        (2 * u64::from(segments.max(LEAST_SEGMENTS)) * each).min(max)
    }

    /// Payload that a write gathers before it takes new memory
    /// (`tcp_xmit_size_goal`): the largest burst, half of the largest window at most
    /// (`tcp_bound_to_half_wnd`).
    pub(crate) fn piece(&self) -> u64 {
        let mss = u64::from(self.agreed.mss.max(1));
        match self.config.host.segmentation {
            Segmentation::OneSegment => mss,
            Segmentation::Tso { gso_max_bytes, .. } => {
                let burst = u64::from(gso_max_bytes).saturating_sub(SEGMENT_ROOM / 2 + 1);
                let bound = match self.snd.largest {
                    0 => burst,
                    small @ 1..=MSS_DEFAULT => burst.min(small),
                    largest => burst.min(largest >> 1),
                };
                (bound / mss).max(1) * mss
            }
        }
    }

    /// Memory of what was written and is not acknowledged.
    fn buffered(&self) -> u64 {
        let sent = u64::from(self.board.packets_out.div_ceil(self.burst_segments()));
        let unsent = self.unsent().div_ceil(self.piece());
        self.outgoing.len() + BURST_OVERHEAD * (sent + unsent)
    }
}
