//! What an estimator says about one pair of packets or one block of them.

use narrows_units::{Duration, Instant};

/// The identity of a packet as the caller gives it: its place in a capture or
/// its id in a laboratory. Ids that meet within one flow are less than 2³¹
/// apart, as the estimators keep the low 32 bits.
pub type ObservedPacketId = u64;

/// Restores an id of which the low 32 bits were kept, from a later one.
pub(crate) fn whole_id(low: u32, now: ObservedPacketId) -> ObservedPacketId {
    let distance = (now as u32).wrapping_sub(low) as i32;
    now.wrapping_add_signed(-i64::from(distance))
}

/// One of the two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Side {
    /// The end that opened it.
    Initiator = 0,
    /// The end that answered.
    Responder = 1,
}

impl Side {
    /// Both, in order.
    pub const BOTH: [Self; 2] = [Self::Initiator, Self::Responder];

    /// The other end.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Initiator => Self::Responder,
            Self::Responder => Self::Initiator,
        }
    }

    /// Its place in an array of two.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// `initiator` or `responder`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initiator => "initiator",
            Self::Responder => "responder",
        }
    }
}

/// From one line for each technique, the enum and the words.
macro_rules! techniques {
    ($($(#[$doc:meta])* $name:ident = $word:literal,)+) => {
        /// How a figure was found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
        pub enum Technique {
            $($(#[$doc])* $name,)+
        }

        impl Technique {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The word for it in every output.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

techniques! {
    /// SYN, SYN-ACK and the acknowledgement of it.
    Handshake = "handshake",
    /// Data and the acknowledgement of exactly it, not of retransmissions.
    SeqAck = "seq-ack",
    /// TCP timestamps, one probe at a time.
    TsSingle = "ts-single",
    /// TCP timestamps, every value.
    TsAll = "ts-all",
    /// Packet serial numbers and their echoes (PLUS), one at a time.
    PsnPse = "psn-pse",
    /// Every edge of the spin bit.
    Spin = "spin",
    /// Edges of the spin bit on packets that are newer than all before.
    SpinPacketNumber = "spin-pn",
    /// Edges of the spin bit that are not much closer than recent ones.
    SpinHeuristic = "spin-heuristic",
    /// Edges that the valid edge counter vouches for.
    Vec = "vec",
    /// Edges with a valid edge counter above zero.
    VecNonZero = "vec-nonzero",
    /// The delay bit.
    Delay = "delay",
    /// The square bit (Q).
    Square = "q",
    /// The loss event bit (L).
    Loss = "l",
    /// The reflection square bit (R).
    Reflection = "r",
    /// The round-trip loss bit (T).
    RoundTripLoss = "t",
    /// The ECN-echo event bit (E).
    EcnEcho = "e",
    /// Q and L together.
    SquareLoss = "q+l",
    /// Q and R together.
    SquareReflection = "q+r",
    /// The ECN field of IP headers.
    Ecn = "ecn",
}

/// What a figure is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Quantity {
    /// The whole round trip, as seen in packets of this side.
    FullRtt(Side),
    /// Observer to initiator and back.
    LeftRtt,
    /// Observer to responder and back.
    RightRtt,
    /// Loss of this side's packets between it and the observer.
    UpstreamLoss(Side),
    /// Loss of this side's packets between the observer and the other end.
    DownstreamLoss(Side),
    /// Loss of this side's packets between the two ends.
    EndToEndLoss(Side),
    /// Loss from the other side to this one and then on to the observer, as
    /// this side's reflected square wave shows it.
    ThreeQuarterLoss(Side),
    /// Loss of this side's packets from the observer to the other end, and of
    /// that end's from there back to the observer.
    HalfRoundTripLoss(Side),
    /// Loss over a whole round trip, as seen in packets of this side.
    RoundTripLoss(Side),
    /// Share of this side's packets that arrive with CE at the observer.
    UpstreamCe(Side),
    /// Share of this side's packets that arrive with CE at the other end.
    EndToEndCe(Side),
    /// Share of this side's packets that are marked CE between the observer
    /// and the other end.
    DownstreamCe(Side),
}

impl Quantity {
    /// The word for it in every output, with the side where there are two.
    pub const fn name(self) -> &'static str {
        use Side::{Initiator, Responder};
        match self {
            Self::FullRtt(Initiator) => "full_rtt_initiator",
            Self::FullRtt(Responder) => "full_rtt_responder",
            Self::LeftRtt => "left_rtt",
            Self::RightRtt => "right_rtt",
            Self::UpstreamLoss(Initiator) => "upstream_loss_initiator",
            Self::UpstreamLoss(Responder) => "upstream_loss_responder",
            Self::DownstreamLoss(Initiator) => "downstream_loss_initiator",
            Self::DownstreamLoss(Responder) => "downstream_loss_responder",
            Self::EndToEndLoss(Initiator) => "end_to_end_loss_initiator",
            Self::EndToEndLoss(Responder) => "end_to_end_loss_responder",
            Self::ThreeQuarterLoss(Initiator) => "three_quarter_loss_initiator",
            Self::ThreeQuarterLoss(Responder) => "three_quarter_loss_responder",
            Self::HalfRoundTripLoss(Initiator) => "half_round_trip_loss_initiator",
            Self::HalfRoundTripLoss(Responder) => "half_round_trip_loss_responder",
            Self::RoundTripLoss(Initiator) => "round_trip_loss_initiator",
            Self::RoundTripLoss(Responder) => "round_trip_loss_responder",
            Self::UpstreamCe(Initiator) => "upstream_ce_initiator",
            Self::UpstreamCe(Responder) => "upstream_ce_responder",
            Self::EndToEndCe(Initiator) => "end_to_end_ce_initiator",
            Self::EndToEndCe(Responder) => "end_to_end_ce_responder",
            Self::DownstreamCe(Initiator) => "downstream_ce_initiator",
            Self::DownstreamCe(Responder) => "downstream_ce_responder",
        }
    }
}

/// The value of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// A round trip, or a part of one.
    Rtt(Duration),
    /// Of `sent` packets, `received` came.
    Block {
        /// Packets that the signal says were sent.
        sent: u32,
        /// Packets that came. More than were sent where packets of a
        /// neighbouring block came late.
        received: u32,
    },
}

/// One sample, and the packets that bound it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// When the packet that completed it passed the observer.
    pub at: Instant,
    /// How it was found.
    pub technique: Technique,
    /// What it is of.
    pub quantity: Quantity,
    /// Its value.
    pub value: Measured,
    /// The packet that began it: of a round trip the probe, of a block the
    /// block's first packet.
    pub first: ObservedPacketId,
    /// The packet that ended it: of a round trip the answer, of a block the
    /// block's last packet.
    pub last: ObservedPacketId,
    /// How many samples it counts for: 1, but for a round trip on a path so long
    /// that there is no room to follow each packet. It then counts for the others.
    pub weight: u32,
}

/// The moment at which an estimator processes a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// Nanoseconds.
    pub at: u64,
    /// The packet.
    pub id: ObservedPacketId,
}

impl Now {
    /// A round trip that began with `first` at `since`.
    pub fn rtt(self, technique: Technique, quantity: Quantity, since: u64, first: u32) -> Sample {
        Sample {
            at: Instant::from_nanos(self.at),
            technique,
            quantity,
            value: Measured::Rtt(Duration::from_nanos(self.at.saturating_sub(since))),
            first: whole_id(first, self.id),
            last: self.id,
            weight: 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_restored_across_a_wrap_of_their_low_half() {
        for (first, now) in [(5, 9), (0xffff_fff0, 0x1_0000_0004), (9, 5)] {
            assert_eq!(whole_id(first as u32, now), first);
        }
    }
}
