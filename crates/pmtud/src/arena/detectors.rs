//! By what stacks judge that a path no longer carries what it did.

use crate::black_hole::{BlackHole, LossRule};

/// A packet as a sender knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sent {
    pub number: u64,
    pub size: u16,
}

/// Bursts of loss beyond which quinn and s2n-quic find a black hole (BLACK_HOLE_THRESHOLD of both).
const BURSTS: usize = 3;

/// Full-size packets lost since one arrived, after which picoquic does.
const PICOQUIC_LOSSES: u32 = 10;

/// How the detector of a stack judges. Each is called with an acknowledgement as the stack is:
/// what it acknowledged, then what counts as lost by it.
#[derive(Clone, Debug)]
pub(super) enum Detector {
    /// Ours.
    Evidence(BlackHole),
    /// quinn's, by bursts of loss that no later delivery explains.
    Quinn(Quinn),
    /// s2n-quic's: bursts of loss since a packet of full size arrived that was sent later.
    Bursts {
        full: u16,
        newest: u64,
        count: usize,
    },
    /// picoquic's: packets of full size lost since one arrived.
    Losses { full: u16, count: u32 },
}

impl Detector {
    /// Ours, where `base` is what a path carries in any case.
    pub fn evidence() -> Self {
        // MAX_PROBES of RFC 8899 section 5.1.2.
        Self::Evidence(BlackHole::new(LossRule::Evidence, 3))
    }

    /// Whether an acknowledgement shows a black hole.
    pub fn judge(&mut self, base: u16, acked: &[Sent], lost: &[Sent]) -> bool {
        match self {
            Self::Evidence(hole) => {
                // In the order of sending.
                let mut lost = lost.iter().peekable();
                let mut note = |hole: &mut BlackHole, until: u64| {
                    while let Some(packet) = lost.next_if(|l| l.number < until) {
                        if packet.size > base {
                            hole.large_lost();
                        }
                    }
                };
                for packet in acked {
                    note(hole, packet.number);
                    match packet.size > base {
                        true => hole.large_arrived(),
                        false => hole.small_arrived(),
                    }
                }
                note(hole, u64::MAX);
                hole.is_found()
            }
            Self::Quinn(quinn) => {
                acked.iter().for_each(|packet| quinn.acked(*packet));
                lost.iter().for_each(|packet| quinn.lost(*packet));
                quinn.judge()
            }
            Self::Bursts {
                full,
                newest,
                count,
            } => {
                for packet in acked.iter().filter(|p| p.size >= *full) {
                    if packet.number > *newest {
                        (*newest, *count) = (packet.number, 0);
                    }
                }
                let mut before = None;
                for packet in lost {
                    let begins = before != packet.number.checked_sub(1);
                    before = Some(packet.number);
                    if begins && packet.size > base && packet.number > *newest {
                        *count += 1;
                    }
                }
                *count > BURSTS
            }
            Self::Losses { full, count } => {
                if acked.iter().any(|packet| packet.size >= *full) {
                    *count = 0;
                }
                *count += lost.iter().filter(|packet| packet.size >= *full).count() as u32;
                *count > PICOQUIC_LOSSES
            }
        }
    }
}

/// quinn's detector. A burst of packets in a row that are lost is suspicious unless one of them
/// is no larger than the least MTU, or than a packet that was sent later and arrived.
///
/// Until 0.11.18, and since its pull request 1858 of 2024, a packet of the size that is known to arrive was not
/// taken for a proof that it still does, and one of that size that was lost was suspicious whatever
/// arrived later (issue 2791; mended by pull requests 2400 and 2792, released in 0.11.19).
#[derive(Clone, Debug)]
pub(super) struct Quinn {
    mended: bool,
    least: u16,
    /// The largest size known to arrive since the last suspicious burst, and the newest
    /// packet that shows it.
    arrives: u16,
    newest: u64,
    /// The burst that goes on: its last packet and the smallest size.
    burst: Option<Sent>,
    /// The smallest size in each suspicious burst.
    suspicious: Vec<u16>,
}

impl Quinn {
    pub fn new(mended: bool, least: u16) -> Self {
        Self {
            mended,
            least,
            arrives: least,
            newest: 0,
            burst: None,
            suspicious: Vec::new(),
        }
    }

    fn acked(&mut self, packet: Sent) {
        if packet.size > self.arrives {
            self.arrives = packet.size;
            self.newest = packet.number;
            self.suspicious.retain(|smallest| *smallest > packet.size);
        } else if packet.size == self.arrives && self.mended {
            self.newest = self.newest.max(packet.number);
        }
    }

    fn lost(&mut self, packet: Sent) {
        let burst = self.burst.filter(|b| b.number + 1 == packet.number);
        if burst.is_none() {
            self.end_burst();
        }
        self.burst = Some(Sent {
            number: packet.number,
            size: burst.map_or(packet.size, |b| b.size.min(packet.size)),
        });
    }

    fn end_burst(&mut self) {
        let Some(burst) = self.burst.take() else {
            return;
        };
        let within = |size: u16| burst.size < size || self.mended && burst.size == size;
        let explained = burst.number < self.newest && within(self.arrives);
        if explained || within(self.least) {
            return;
        }
        if burst.number > self.newest {
            self.arrives = self.least;
        }
        if self.suspicious.len() <= BURSTS {
            self.suspicious.push(burst.size);
        }
    }

    fn judge(&mut self) -> bool {
        self.end_burst();
        let found = self.suspicious.len() > BURSTS;
        if found {
            self.suspicious.clear();
        }
        found
    }
}
