//! The counters of Accurate ECN (RFC 9768 §3.2): packets in the three-bit
//! ACE field, bytes in the option, and what a sender makes of them.

use narrows_wire::tcp::AccEcnOption;
use narrows_wire::{Ecn, TcpOptions};

/// Initial value of the CE packet counter (RFC 9768 §3.2.1).
const CEP_START: u32 = 5;
/// Initial value of the ECT(0) and ECT(1) byte counters, so that zeroing by
/// a middlebox shows (RFC 9768 §3.2.1).
const BYTES_START: u32 = 1;
/// The ACE field's range.
const ACE_MASK: u32 = 7;
/// CE marks received and not yet reported that force an ACK
/// (`TCP_ACCECN_ACE_MAX_DELTA` 6).
const ACE_MAX_DELTA: u32 = 6;
/// Byte counters are 24 bits wide.
const BYTES_MASK: u32 = (1 << 24) - 1;
/// A counter's change by this much demands an option (RFC 9768 §3.2.3.3).
const BYTES_STEP_SHIFT: u32 = 22;
/// Weight and precision of the average of packets per ACK
/// (`PKTS_ACKED_WEIGHT`, `PKTS_ACKED_PREC`).
const EWMA_SHIFT: u32 = 6;
/// Above so many packets per ACK the peer is taken to compress ACKs
/// (`ACK_COMP_THRESH`).
const COMPRESSED: u32 = 4;
/// After this many payload bytes without an option a first one is ignored: its
/// counters may have wrapped.
const TOO_LATE: u64 = (1 << 23) - 1;

/// What is known of the peer's option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Seen {
    #[default]
    Nothing,
    Empty,
    Counters,
    Failed,
}

/// The ACK that feedback came on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckFacts {
    /// The ACE field.
    pub(crate) ace: u8,
    /// The option, if there was one.
    pub(crate) option: Option<AccEcnOption>,
    /// Segments newly delivered by this ACK.
    pub(crate) delivered: u32,
    /// Payload bytes newly delivered.
    pub(crate) delivered_bytes: u64,
    /// Payload bytes sent so far.
    pub(crate) bytes_sent: u64,
    /// Payload bytes of a full segment.
    pub(crate) mss: u32,
    /// SACK is in use, or no recovery is going on: what was delivered is
    /// certain.
    pub(crate) certain: bool,
    /// `delivered_ce` so far.
    pub(crate) delivered_ce: u32,
}

/// Both halves of AccECN at one end.
#[derive(Clone, Debug, Default)]
pub(crate) struct AccEcn {
    /// CE-marked packets received.
    pub(crate) received_ce: u32,
    /// Of these, not yet reported (Linux's `received_ce_pending`).
    ce_pending: u32,
    /// Payload bytes received with ECT(1), ECT(0) and CE.
    received_bytes: [u32; 3],
    /// Options still to be sent whatever the room.
    pub(crate) demand: u8,
    /// Fewest option fields that report all that has changed.
    fields: u8,
    last_field: Ecn,
    /// The peer's byte counters as last reported (Linux's `delivered_ecn_bytes`).
    delivered_ecn_bytes: [u32; 3],
    estimated: Option<usize>,
    seen: Seen,
    packets_per_ack: u32,
    /// The peer's feedback is inconsistent and is ignored (RFC 9768 §3.2.2.4).
    pub(crate) feedback_failed: bool,
    checked_first: bool,
}

/// Place of an ECN field's counter; those not ECN-capable have none.
const fn place(ecn: Ecn) -> Option<usize> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect1 => Some(0),
        Ecn::Ect0 => Some(1),
        Ecn::Ce => Some(2),
    }
}

const E1: usize = 0;
const E0: usize = 1;
const CE: usize = 2;

impl AccEcn {
    /// A packet came marked `ecn` with `payload` bytes. Returns whether the
    /// change is to be reported at once.
    pub(crate) fn packet_received(&mut self, ecn: Ecn, payload: u32) -> bool {
        if let Some(i) = place(ecn) {
            if ecn == Ecn::Ce {
                self.received_ce = self.received_ce.wrapping_add(1);
                self.ce_pending = (self.ce_pending + 1).min(15);
            }
            if payload > 0 {
                let before = self.received_bytes[i];
                self.received_bytes[i] = before.wrapping_add(payload);
                // Order of the fields that this end sends: E1, CE, E0.
                self.fields = self.fields.max([1, 3, 2][i]);
                if before >> BYTES_STEP_SHIFT != self.received_bytes[i] >> BYTES_STEP_SHIFT {
                    self.demand = self.demand.max(1);
                }
            }
        }
        // RFC 9768 §3.2.3.3: an option on the ACKs after a change, and after CE.
        let edge = ecn != self.last_field;
        if edge || ecn == Ecn::Ce {
            self.last_field = ecn;
            // Two, so that the second shows the new value beyond doubt.
            self.demand = 2;
        }
        edge
    }

    /// The SYN or SYN-ACK came with `ecn`.
    pub(crate) fn handshake_received(&mut self, ecn: Ecn) {
        self.last_field = ecn;
        if ecn == Ecn::Ce {
            self.received_ce = self.received_ce.wrapping_add(1);
            self.ce_pending += 1;
        }
    }

    /// Whether so many CE marks are unreported that the ACE field may wrap
    /// (RFC 9768 §3.2.2.5.1).
    pub(crate) fn overdue(&self) -> bool {
        self.ce_pending >= ACE_MAX_DELTA
    }

    /// The ACE field of a packet that leaves now.
    pub(crate) fn ace(&mut self) -> u8 {
        self.ce_pending = 0;
        ((self.received_ce.wrapping_add(CEP_START)) & ACE_MASK) as u8
    }

    /// The option with `fields` counters, in the order ECT(1), CE, ECT(0).
    pub(crate) fn option(&self, fields: usize) -> AccEcnOption {
        let e =
            |i: usize, start: u32| Some(self.received_bytes[i].wrapping_add(start) & BYTES_MASK);
        AccEcnOption {
            ect1_first: true,
            e1b: e(E1, BYTES_START).filter(|_| fields >= 1),
            ceb: e(CE, 0).filter(|_| fields >= 2),
            e0b: e(E0, BYTES_START).filter(|_| fields >= 3),
        }
    }

    /// Fewest counters that report all that changed.
    pub(crate) fn required(&self) -> usize {
        usize::from(self.fields)
    }

    /// Adds to `options` an option with as many counters as fit into `room` bytes
    /// for all options, and `required` ones at least: for these, SACK blocks
    /// beyond the second give way. Returns whether it fits
    /// (`tcp_options_fit_accecn`).
    pub(crate) fn fit(&self, options: &mut TcpOptions, required: usize, room: usize) -> bool {
        let blocks = options.sack;
        loop {
            let left = room.saturating_sub(options.len_without_accecn());
            if options.accecn_len(required) <= left {
                let mut fields = 3;
                while options.accecn_len(fields) > left {
                    fields -= 1;
                }
                options.accecn = Some(self.option(fields));
                return true;
            }
            let kept = options.sack.as_slice().len();
            if required == 0 || kept <= 2 {
                options.sack = blocks;
                return false;
            }
            options.sack.truncate(kept - 1);
        }
    }

    /// An option has left.
    pub(crate) fn option_sent(&mut self) {
        self.demand = self.demand.saturating_sub(1);
        self.fields = 0;
    }

    /// Payload bytes that the peer reported with ECT(1), ECT(0) and CE.
    pub(crate) fn delivered_bytes(&self) -> [u32; 3] {
        self.delivered_ecn_bytes
    }

    /// Payload bytes received with ECT(1), ECT(0) and CE.
    pub(crate) fn received_bytes(&self) -> [u32; 3] {
        self.received_bytes
    }

    /// Whether the peer is known to understand the option.
    pub(crate) fn peer_knows_option(&self) -> bool {
        matches!(self.seen, Seen::Empty | Seen::Counters)
    }

    /// The handshake carried `option`: initial counters that read zero were
    /// zeroed on the path.
    pub(crate) fn handshake_option(&mut self, option: Option<AccEcnOption>) {
        let Some(o) = option else { return };
        // RFC 9768 §3.2.3.2.4.
        self.seen = if o.e0b == Some(0) || o.e1b == Some(0) {
            Seen::Failed
        } else if o.e0b.is_none() && o.e1b.is_none() && o.ceb.is_none() {
            Seen::Empty
        } else {
            Seen::Counters
        };
        self.demand = 2;
    }

    /// The first ACE field after the handshake must not be zero
    /// (RFC 9768 §3.2.2.4). Returns whether the feedback is used.
    pub(crate) fn check_first(&mut self, ace: u8) -> bool {
        if !std::mem::replace(&mut self.checked_first, true) && ace == 0 {
            self.feedback_failed = true;
        }
        !self.feedback_failed
    }

    /// Newly reported CE marks on an ACK that made progress
    /// (`tcp_accecn_process`, v6.18).
    pub(crate) fn ack_received(&mut self, ack: &AckFacts) -> u32 {
        let prior_ce_bytes = self.delivered_ecn_bytes[CE];
        let bytes_valid = self.take_option(ack);
        if ack.delivered > 0 {
            let now = ack.delivered << EWMA_SHIFT;
            let average = &mut self.packets_per_ack;
            *average = if *average == 0 {
                now
            } else {
                (((*average << EWMA_SHIFT) - *average + now) >> EWMA_SHIFT).min(0xffff)
            };
        }
        // RFC 9768 §3.2.2.2: the least increase that gives this field.
        let field = u32::from(ack.ace).wrapping_sub(CEP_START);
        let delta = field.wrapping_sub(ack.delivered_ce) & ACE_MASK;
        if ack.delivered <= ACE_MASK {
            return delta;
        }
        // RFC 9768 §3.2.2.5.2: so many packets that the field may have wrapped. The most
        // marks that they can have carried with this field, unless the option says less.
        let most = ack.delivered - (ack.delivered.wrapping_sub(delta) & ACE_MASK);
        if bytes_valid {
            let ce_bytes = u64::from(self.delivered_ecn_bytes[CE].wrapping_sub(prior_ce_bytes));
            if ce_bytes == 0 {
                return delta;
            }
            if ack.delivered >= 2 * (ACE_MASK + 1) && ack.certain {
                if ack.delivered_bytes <= ce_bytes {
                    return most;
                }
                let estimate =
                    (ce_bytes * u64::from(ack.delivered)).div_ceil(ack.delivered_bytes) as u32;
                return most.min(delta + (estimate & !ACE_MASK));
            }
            if ce_bytes > u64::from(delta) * u64::from(ack.mss) {
                return most;
            }
            if ce_bytes < u64::from(most) * u64::from(ack.mss) / 2 {
                return delta;
            }
        } else if self.packets_per_ack > COMPRESSED << EWMA_SHIFT {
            return delta;
        }
        most
    }

    /// Takes the option's byte counters; answers whether they, or an estimate
    /// in their place, say how many bytes were marked.
    fn take_option(&mut self, ack: &AckFacts) -> bool {
        if self.seen == Seen::Failed {
            return false;
        }
        let Some(option) = ack.option else {
            if self.seen == Seen::Nothing {
                if ack.bytes_sent >= TOO_LATE {
                    self.seen = Seen::Failed;
                }
                return false;
            }
            return match self.estimated {
                Some(i) => {
                    self.delivered_ecn_bytes[i] =
                        self.delivered_ecn_bytes[i].wrapping_add(ack.delivered_bytes as u32);
                    true
                }
                None => false,
            };
        };
        if self.seen < Seen::Counters {
            let demand = self.demand;
            self.handshake_option(Some(option));
            self.demand = demand;
        }
        let estimated = self.estimated.is_some();
        let mut stepped_back = false;
        let mut changed = None;
        let mut ambiguous = false;
        for (i, counter, start) in [
            (E1, option.e1b, BYTES_START),
            (CE, option.ceb, 0),
            (E0, option.e0b, BYTES_START),
        ] {
            let Some(counter) = counter else { continue };
            let step = counter
                .wrapping_sub(start)
                .wrapping_sub(self.delivered_ecn_bytes[i])
                & BYTES_MASK;
            // 24-bit two's complement: a step back is a reordered ACK (RFC 9768 §3.2.3.1).
            let step = ((step << 8) as i32) >> 8;
            self.delivered_ecn_bytes[i] = self.delivered_ecn_bytes[i].wrapping_add_signed(step);
            stepped_back |= step < 0;
            if step != 0 && self.estimated != Some(i) {
                ambiguous |= changed.is_some();
                changed = changed.or(Some(i));
            }
        }
        if changed.is_some() {
            self.estimated = changed;
        }
        if ambiguous || stepped_back {
            self.estimated = None;
        }
        // Linux uses the counters only while one of them moves at a time;
        // but that of CE is exact whenever it is reported.
        !stepped_back && (option.ceb.is_some() || estimated && !ambiguous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ack(ace: u8, delivered: u32, delivered_ce: u32) -> AckFacts {
        AckFacts {
            ace,
            delivered,
            delivered_bytes: u64::from(delivered) * 1448,
            mss: 1448,
            certain: true,
            delivered_ce,
            ..AckFacts::default()
        }
    }

    #[test]
    fn the_field_starts_at_five_and_wraps() {
        let mut receiver = AccEcn::default();
        assert_eq!(receiver.ace(), 5);
        for expected in [6, 7, 0, 1, 2, 3, 4, 5, 6] {
            receiver.packet_received(Ecn::Ce, 1448);
            assert_eq!(receiver.ace(), expected);
        }
    }

    #[test]
    fn the_sender_counts_across_the_wrap() {
        let (mut receiver, mut sender) = (AccEcn::default(), AccEcn::default());
        let mut new_ce = 0;
        for marks in [0, 2, 2, 1, 2, 2, 0, 2, 2] {
            for i in 0..2 {
                receiver.packet_received(if i < marks { Ecn::Ce } else { Ecn::Ect1 }, 1448);
            }
            new_ce += sender.ack_received(&ack(receiver.ace(), 2, new_ce));
        }
        assert_eq!(new_ce, receiver.received_ce);
        assert_eq!(new_ce, 13);
    }

    #[test]
    fn a_long_silence_is_taken_for_the_worst_without_an_option() {
        let mut sender = AccEcn::default();
        for _ in 0..100 {
            assert_eq!(sender.ack_received(&ack(5, 2, 0)), 0);
        }
        // 10 packets, field advanced by 1: 9 marks say so too.
        assert_eq!(sender.ack_received(&ack(6, 10, 0)), 9);
        // A peer that compresses its ACKs is not taken at its worst.
        let mut sender = AccEcn::default();
        for _ in 0..100 {
            assert_eq!(sender.ack_received(&ack(5, 7, 0)), 0);
        }
        assert_eq!(sender.ack_received(&ack(6, 10, 0)), 1);
    }

    #[test]
    fn the_option_shows_how_often_the_ace_field_wrapped() {
        for (marked, packets) in [(1, 10), (9, 10), (3, 20), (19, 20), (12, 40)] {
            let (mut receiver, mut sender) = (AccEcn::default(), AccEcn::default());
            sender.handshake_option(Some(receiver.option(3)));
            for i in 0..packets {
                receiver.packet_received(if i < marked { Ecn::Ce } else { Ecn::Ect1 }, 1448);
            }
            let new_ce = sender.ack_received(&AckFacts {
                option: Some(receiver.option(3)),
                ..ack(receiver.ace(), packets, 0)
            });
            assert_eq!(new_ce, marked, "{marked} of {packets}");
        }
    }

    #[test]
    fn an_option_without_counters_leaves_the_estimate_valid() {
        let (mut receiver, mut sender) = (AccEcn::default(), AccEcn::default());
        sender.handshake_option(Some(receiver.option(3)));
        receiver.packet_received(Ecn::Ect1, 1448);
        sender.ack_received(&AckFacts {
            option: Some(receiver.option(3)),
            ..ack(receiver.ace(), 1, 0)
        });
        receiver.packet_received(Ecn::Ce, 1448);
        // Nine marks would give the same field.
        let new_ce = sender.ack_received(&AckFacts {
            option: Some(receiver.option(0)),
            ..ack(receiver.ace(), 12, 0)
        });
        assert_eq!(new_ce, 1);
    }

    #[test]
    fn zeroed_counters_and_a_zero_first_field_are_ignored() {
        let mut sender = AccEcn::default();
        sender.handshake_option(Some(AccEcnOption {
            ect1_first: true,
            e1b: Some(0),
            ceb: Some(0),
            e0b: Some(0),
        }));
        assert!(!sender.peer_knows_option());
        assert!(!sender.check_first(0));
        assert!(sender.feedback_failed);
        let mut sender = AccEcn::default();
        assert!(sender.check_first(5));
        assert!(sender.check_first(0), "later on zero is a value as any");
    }

    #[test]
    fn changes_of_the_ecn_field_demand_an_option() {
        let mut receiver = AccEcn::default();
        assert!(receiver.packet_received(Ecn::Ect1, 1448));
        assert!(!receiver.packet_received(Ecn::Ect1, 1448));
        assert!(receiver.packet_received(Ecn::Ce, 1448));
        assert!(!receiver.packet_received(Ecn::Ce, 1448));
        assert_eq!(receiver.demand, 2);
        for _ in 0..4 {
            receiver.packet_received(Ecn::Ce, 1448);
        }
        assert!(receiver.overdue());
        assert_eq!(receiver.required(), 2);
        assert_eq!(receiver.option(2).ceb, Some(6 * 1448));
        assert_eq!(receiver.option(2).e0b, None);
    }

    #[test]
    fn the_option_takes_the_place_of_a_sack_block_only_if_it_then_fits() {
        let receiver = AccEcn::default();
        let with = |blocks: u32, required: usize| {
            let mut options = TcpOptions {
                timestamps: Some((0, 0)),
                ..TcpOptions::default()
            };
            for i in 0..blocks {
                options.sack.push(100 * i, 100 * i + 50);
            }
            let fits = receiver.fit(&mut options, required, 40);
            let counters = options
                .accecn
                .map(|o| [o.e1b, o.ceb, o.e0b].iter().flatten().count());
            assert_eq!(fits, counters.is_some());
            assert!(options.encoded_len() <= 40);
            (options.sack.as_slice().len(), counters)
        };
        assert_eq!(with(0, 3), (0, Some(3)));
        assert_eq!(with(1, 3), (1, Some(3)));
        // 28 bytes beside timestamps: two blocks are 20, three are 28.
        assert_eq!(with(2, 0), (2, Some(2)));
        assert_eq!(with(2, 2), (2, Some(2)));
        assert_eq!(with(2, 3), (2, None));
        // Without a counter it takes the two NOPs before the blocks.
        assert_eq!(with(3, 0), (3, Some(0)));
        assert_eq!(with(3, 1), (2, Some(2)));
        assert_eq!(with(3, 2), (2, Some(2)));
        assert_eq!(with(3, 3), (3, None));
    }
}
