//! The stream as it leaves: what is on its way, what is lost, what goes again.

use std::collections::VecDeque;

use narrows_units::{Duration, Instant};

use super::frame::{Ack, Chunk};
use super::rtt::Rtt;

/// RFC 9002 §6.1.1: packets later than one that make it lost.
const REORDERING: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentState {
    InFlight,
    Acked,
    Lost,
}

/// A packet that called for an acknowledgement.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u32,
    at: Instant,
    chunk: Chunk,
    state: SentState,
}

/// What an acknowledgement brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AckOutcome {
    /// Whether anything was acknowledged for the first time.
    pub newly_acked: bool,
    /// The round trip of the largest, if it was among that.
    pub rtt: Option<Duration>,
    /// Packets that are now taken for lost.
    pub lost: u32,
}

/// The sending half of a stream.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbound {
    /// Bytes that the application has written.
    written: u64,
    /// Where the next new piece begins.
    next: u64,
    ends: bool,
    end_sent: bool,
    /// Pieces to be sent again.
    again: VecDeque<Chunk>,
    /// In the order of their numbers; the first is not acknowledged.
    sent: VecDeque<Sent>,
    in_flight: u32,
    largest_acked: Option<u32>,
    /// What became of packets, in the order of sending: the length of the chunk, and whether it
    /// arrived. Kept where someone asks.
    pub fates: Option<Vec<(u16, bool)>>,
    /// Packets taken for lost, and of these those that were acknowledged later.
    pub lost: u64,
    pub spurious: u64,
    pub acked_packets: u64,
    pub acked_bytes: u64,
    pub retransmitted: u64,
}

impl Outbound {
    /// One of which nothing was sent; whether it keeps the fates of packets.
    pub fn new(keeps_fates: bool) -> Self {
        Self {
            fates: keeps_fates.then(Vec::new),
            ..Self::default()
        }
    }

    pub fn write(&mut self, bytes: u64) {
        self.written = self.written.saturating_add(bytes);
    }

    /// The stream ends behind what is written.
    pub fn end(&mut self) {
        self.ends = true;
    }

    /// Bytes that have never been sent.
    pub fn unsent(&self) -> u64 {
        self.written - self.next
    }

    /// Packets on their way.
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Whether there is a piece to be sent.
    pub fn waits(&self) -> bool {
        !self.again.is_empty() || self.unsent() > 0 || self.ends && !self.end_sent
    }

    /// The next piece of at most `room` bytes, and whether it goes again.
    pub fn piece(&mut self, room: u16) -> Option<(Chunk, bool)> {
        if let Some(mut chunk) = self.again.pop_front() {
            self.retransmitted += 1;
            if chunk.len > room {
                // Packets have become smaller since.
                self.again.push_front(Chunk {
                    offset: chunk.offset + u64::from(room),
                    len: chunk.len - room,
                    fin: chunk.fin,
                });
                (chunk.len, chunk.fin) = (room, false);
            }
            return Some((chunk, true));
        }
        if !self.waits() {
            return None;
        }
        let len = self.unsent().min(u64::from(room)) as u16;
        let chunk = Chunk {
            offset: self.next,
            len,
            fin: self.ends && self.next + u64::from(len) == self.written,
        };
        self.next += u64::from(len);
        self.end_sent |= chunk.fin;
        Some((chunk, false))
    }

    /// Takes all that is on its way for lost.
    pub fn declare_all_lost(&mut self) {
        for sent in self
            .sent
            .iter_mut()
            .filter(|s| s.state == SentState::InFlight)
        {
            sent.state = SentState::Lost;
            self.in_flight -= 1;
            self.lost += 1;
            self.again.push_back(sent.chunk);
            if let Some(fates) = &mut self.fates {
                fates.push((sent.chunk.len, false));
            }
        }
    }

    /// Packet `number` leaves with `chunk`.
    pub fn sent(&mut self, now: Instant, number: u32, chunk: Chunk) {
        self.in_flight += 1;
        self.sent.push_back(Sent {
            number,
            at: now,
            chunk,
            state: SentState::InFlight,
        });
    }

    /// An acknowledgement arrives.
    pub fn acked(&mut self, now: Instant, ack: &Ack, rtt: &Rtt) -> AckOutcome {
        let mut outcome = AckOutcome::default();
        let Some(front) = self.sent.front().map(|s| s.number) else {
            return outcome;
        };
        // Serial numbers: places are distances from the first.
        let place = ack.largest.wrapping_sub(front);
        if place < 1 << 31 {
            let after = |sent: &Sent| sent.number.wrapping_sub(front) <= place;
            let until = self.sent.partition_point(after);
            for sent in self.sent.range_mut(..until) {
                if sent.state == SentState::Acked || !ack.has(sent.number) {
                    continue;
                }
                match sent.state {
                    SentState::InFlight => {
                        self.in_flight -= 1;
                        // What was taken for lost counts with the copy that
                        // replaced it, so each byte counts once.
                        self.acked_bytes += u64::from(sent.chunk.len);
                        if sent.number == ack.largest {
                            outcome.rtt = Some(now.since(sent.at));
                        }
                    }
                    _ => self.spurious += 1,
                }
                sent.state = SentState::Acked;
                self.acked_packets += 1;
                if let Some(fates) = &mut self.fates {
                    fates.push((sent.chunk.len, true));
                }
                outcome.newly_acked = true;
            }
            let newer = |known: u32| ack.largest.wrapping_sub(known) < 1 << 31;
            if self.largest_acked.is_none_or(newer) {
                self.largest_acked = Some(ack.largest);
            }
        }
        outcome.lost = self.detect(now, rtt);
        outcome
    }

    /// Takes for lost what was sent so long before what was acknowledged that it
    /// will not come (RFC 9002 §6.1), and removes what is settled. Returns how many were
    /// lost.
    pub fn detect(&mut self, now: Instant, rtt: &Rtt) -> u32 {
        let mut lost = 0;
        let delay = rtt.loss_delay();
        if let (Some(largest), Some(front)) = (self.largest_acked, self.front()) {
            let place = largest.wrapping_sub(front);
            let behind = |s: &Sent| place < 1 << 31 && s.number.wrapping_sub(front) < place;
            let until = self.sent.partition_point(behind);
            for sent in self.sent.range_mut(..until) {
                if sent.state != SentState::InFlight {
                    continue;
                }
                // By time (§6.1.2), or by three later packets (§6.1.1).
                let late = now.since(sent.at) >= delay;
                if late || largest.wrapping_sub(sent.number) >= REORDERING {
                    sent.state = SentState::Lost;
                    self.in_flight -= 1;
                    self.lost += 1;
                    self.again.push_back(sent.chunk);
                    if let Some(fates) = &mut self.fates {
                        fates.push((sent.chunk.len, false));
                    }
                    lost += 1;
                }
            }
        }
        // What was lost may still be acknowledged for three round trips or so
        // (RFC 9002 §6.1 leaves it open; appendix A.1 keeps it "for some time").
        let kept = delay * 3;
        while let Some(first) = self.sent.front() {
            let settled = match first.state {
                SentState::InFlight => false,
                SentState::Acked => true,
                SentState::Lost => now.since(first.at) >= kept,
            };
            if !settled {
                break;
            }
            self.sent.pop_front();
        }
        lost
    }

    fn front(&self) -> Option<u32> {
        self.sent.front().map(|s| s.number)
    }

    /// When [`detect`](Self::detect) would find something although nothing
    /// arrives.
    pub fn loss_time(&self, rtt: &Rtt) -> Option<Instant> {
        let (largest, front) = (self.largest_acked?, self.front()?);
        let place = largest.wrapping_sub(front);
        let behind = |s: &&Sent| place < 1 << 31 && s.number.wrapping_sub(front) < place;
        let mut waiting = self.sent.iter().take_while(behind);
        let first = waiting.find(|s| s.state == SentState::InFlight)?;
        Some(first.at + rtt.loss_delay())
    }

    /// When the last packet left that is still on its way.
    pub fn last_sent(&self) -> Option<Instant> {
        let mut newest = self.sent.iter().rev();
        newest
            .find(|s| s.state == SentState::InFlight)
            .map(|s| s.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Instant = |ms| Instant::from_nanos(ms * 1_000_000);

    fn ack(numbers: &[u32]) -> Ack {
        let largest = *numbers.iter().max().unwrap();
        let mut ranges = [0; super::super::frame::RANGE_WORDS];
        for number in numbers.iter().filter(|n| **n != largest) {
            ranges[0] |= 1 << (largest - number - 1);
        }
        Ack {
            largest,
            held: Duration::ZERO,
            ranges,
        }
    }

    fn flight(packets: u32) -> (Outbound, Rtt) {
        let mut out = Outbound::default();
        out.write(u64::from(packets) * 100);
        for number in 0..packets {
            let (chunk, again) = out.piece(100).unwrap();
            assert!(!again);
            out.sent(MS(u64::from(number)), number, chunk);
        }
        let mut rtt = Rtt::default();
        rtt.add(Duration::from_millis(40), Duration::ZERO);
        (out, rtt)
    }

    #[test]
    fn three_later_packets_make_one_lost_and_two_do_not() {
        let (mut out, rtt) = flight(6);
        let outcome = out.acked(MS(41), &ack(&[1, 2]), &rtt);
        assert_eq!(
            (outcome.lost, outcome.rtt),
            (0, Some(Duration::from_millis(39)))
        );
        assert_eq!(out.acked(MS(42), &ack(&[1, 2, 3]), &rtt).lost, 1);
        assert_eq!((out.lost, out.in_flight()), (1, 2));
        let (again, is_again) = out.piece(100).unwrap();
        assert_eq!((again.offset, is_again), (0, true));
        // It was only late.
        let outcome = out.acked(MS(43), &ack(&[0, 1, 2, 3]), &rtt);
        assert!(outcome.newly_acked);
        assert_eq!((out.spurious, out.in_flight()), (1, 2));
        // What went again is what will count.
        assert_eq!(out.acked_bytes, 300);
        out.sent(MS(44), 6, again);
        out.acked(MS(84), &ack(&[1, 2, 3, 4, 5, 6]), &rtt);
        assert_eq!((out.acked_bytes, out.in_flight()), (600, 0));
    }

    #[test]
    fn one_packet_is_lost_by_time_when_nothing_follows() {
        let (mut out, rtt) = flight(2);
        out.acked(MS(41), &ack(&[1]), &rtt);
        assert_eq!(out.loss_time(&rtt), Some(MS(45)));
        assert_eq!(out.detect(MS(44), &rtt), 0);
        assert_eq!(out.detect(MS(45), &rtt), 1);
        assert_eq!(out.loss_time(&rtt), None);
    }

    #[test]
    fn the_last_piece_ends_the_stream_and_an_end_that_comes_late_has_one_of_its_own() {
        let mut out = Outbound::default();
        out.write(150);
        let (first, _) = out.piece(100).unwrap();
        assert!(!first.fin);
        out.end();
        let (second, _) = out.piece(100).unwrap();
        assert_eq!((second.len, second.fin), (50, true));
        assert!(!out.waits());
        let mut late = Outbound::default();
        late.write(100);
        assert!(!late.piece(100).unwrap().0.fin);
        late.end();
        let (end, _) = late.piece(100).unwrap();
        assert_eq!((end.offset, end.len, end.fin), (100, 0, true));
    }
}
