//! Bulk data over a path that loses at random: whether a detector finds black holes that are
//! none, and how soon one that is there.

use std::collections::VecDeque;

use narrows_units::Rng;

use super::detectors::{Detector, Sent};

/// What arrived and what is lost is known by every fourth packet that arrives (quinn's issue
/// 2791 names every fourth).
const ACK_EVERY: u32 = 4;

/// Packets behind the newest that arrived before one counts as lost (RFC 9002 section 6.1.1,
/// kPacketThreshold).
const THRESHOLD: u64 = 3;

/// One packet of so many is a small one, such as the end of a message (ours).
const SMALL_EVERY: u32 = 8;
const SMALL: u16 = 100;

/// Least and full size of datagrams: QUIC's least, and quinn's largest by default.
pub(super) const BASE: u16 = 1_200;
pub(super) const FULL: u16 = 1_452;

/// Packets that are sent while a stack does not search again: a minute (quinn
/// `black_hole_cooldown`, s2n-quic BLACK_HOLE_COOL_OFF_DURATION) at 1,000 packets a second (ours).
const COOL_OFF: u64 = 60_000;

/// What happened to a packet.
#[derive(Clone, Copy)]
struct Waiting {
    sent: Sent,
    arrived: bool,
}

/// The sender's end.
struct Sender {
    waiting: VecDeque<Waiting>,
    unacknowledged: u32,
    acked: Vec<Sent>,
    lost: Vec<Sent>,
}

impl Sender {
    fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            unacknowledged: 0,
            acked: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// A packet has been sent; whether `detector` finds a black hole in what that brings.
    fn sent(&mut self, sent: Sent, arrived: bool, detector: &mut Detector) -> bool {
        self.waiting.push_back(Waiting { sent, arrived });
        self.unacknowledged += u32::from(arrived);
        if self.unacknowledged < ACK_EVERY {
            return false;
        }
        self.unacknowledged = 0;
        self.acked.clear();
        self.lost.clear();
        let newest = sent.number;
        self.waiting.retain(|waiting| {
            if waiting.arrived {
                self.acked.push(waiting.sent);
            } else if waiting.sent.number + THRESHOLD <= newest {
                self.lost.push(waiting.sent);
            } else {
                return true;
            }
            false
        });
        detector.judge(BASE, &self.acked, &self.lost)
    }
}

/// A packet of full size while the path is taken to carry it, or a small one.
fn next(number: u64, full: u16, rng: &mut Rng) -> Sent {
    let size = match rng.below(SMALL_EVERY) {
        0 => SMALL,
        _ => full,
    };
    Sent { number, size }
}

/// Black holes that `detector` finds among `packets`, of which `loss` of 1,000 are lost at
/// random, and packets that were smaller for them. Packets are at the least size for a time
/// after each.
pub(super) fn false_findings(
    mut detector: Detector,
    packets: u64,
    loss: u32,
    rng: &mut Rng,
) -> (u64, u64) {
    let mut sender = Sender::new();
    let (mut found, mut small, mut small_until) = (0, 0, 0);
    for number in 1..=packets {
        let full = if number < small_until { BASE } else { FULL };
        small += u64::from(number < small_until);
        let sent = next(number, full, rng);
        let arrived = rng.below(1_000) >= loss;
        if sender.sent(sent, arrived, &mut detector) {
            found += 1;
            small_until = number + COOL_OFF;
        }
    }
    (found, small)
}

/// How many packets of full size are lost before `detector` finds that none of them arrives
/// any more, after 10,000 that did; `None` where it does not within as many.
pub(super) fn time_to_find(mut detector: Detector, loss: u32, rng: &mut Rng) -> Option<u64> {
    const BEFORE: u64 = 10_000;
    let mut sender = Sender::new();
    let mut lost = 0;
    for number in 1..=2 * BEFORE {
        let sent = next(number, FULL, rng);
        let hole = number > BEFORE && sent.size == FULL;
        let arrived = !hole && rng.below(1_000) >= loss;
        lost += u64::from(hole);
        if sender.sent(sent, arrived, &mut detector) && number > BEFORE {
            return Some(lost);
        }
    }
    None
}
