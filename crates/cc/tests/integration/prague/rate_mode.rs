//! Small windows in 2024: the rate leads, down to 100 kbit/s, and packets get
//! smaller. L4STeam/linux net/ipv4/tcp_prague.c, version 0.7 of 2024.

use narrows_cc::{CaState, Flags};

use super::sender::Sender;

/// Bytes/s of one 1500-byte packet per 10 ms.
const PACKET_PER_RTT: u64 = 150_000;
/// Bytes/s: MINIMUM_RATE.
const LEAST: u64 = 12_500;
/// What a second is in this arithmetic, 1/8 µs.
const SECOND: u64 = 1 << 23;
/// The target round trip, 1/8 µs.
const TARGET: u64 = 200_000;

/// A sender of 1500-byte packets over 10 ms that has been marked, past the
/// transition to RTT independence, at a window of `cwnd`.
fn marked(cwnd: u32) -> Sender {
    let mut s = Sender::new("prague", 2 * cwnd, 1);
    s.facts.in_flight = cwnd;
    s.ack(1, 1);
    s.settle();
    for _ in 0..6 {
        next_round(&mut s, 1);
    }
    assert_eq!(s.facts.cwnd, cwnd);
    s
}

/// A target round trip with one marked segment.
fn next_round(s: &mut Sender, marked: u32) {
    s.facts.now_ns += 25_000_000;
    s.ack_ending_round(1, marked);
}

/// Rounds in which all is marked.
fn squeeze(s: &mut Sender, rounds: u32) {
    for _ in 0..rounds {
        next_round(s, 1);
        s.enter(CaState::Cwr);
        s.ack(0, 0);
        s.enter(CaState::Open);
    }
}

#[test]
fn in_2024_the_rate_falls_below_two_segments_per_round_trip_and_not_below_100_kbit() {
    let mut s = marked(3);
    squeeze(&mut s, 200);
    assert_eq!(s.facts.cwnd, 2, "the window has a floor");
    let rate = s.facts.pacing_rate;
    assert!(rate.abs_diff(LEAST) <= LEAST / 32, "{rate}");
    // What is not led by the rate stays at what is in flight.
    let mut large = marked(50);
    large.ack(0, 0);
    assert!(large.facts.pacing_rate > 40 * PACKET_PER_RTT);
}

#[test]
fn in_2024_the_rate_grows_by_a_packet_per_target_round_trip_in_each() {
    let mut s = marked(3);
    squeeze(&mut s, 200);
    let before = s.facts.pacing_rate;
    // Twenty target round trips, with as many ACKs as the rate has packets.
    let mut acks = 0.0;
    for _ in 0..20 {
        acks += s.facts.pacing_rate as f64 * TARGET as f64 / SECOND as f64 / 1500.0;
        while acks >= 1.0 {
            acks -= 1.0;
            s.ack(1, 0);
        }
        if s.facts.cwnd > 2 {
            break;
        }
    }
    let gained = s.facts.pacing_rate - before;
    let packet = 1500 * SECOND / TARGET;
    // Until it is counted as a window again, at most.
    assert!(gained > packet, "{gained} of {packet}");
    assert!(s.facts.pacing_rate < 4 * PACKET_PER_RTT);
}

#[test]
fn in_2024_the_rate_varies_by_three_percent_in_the_halves_of_a_round_trip() {
    let mut s = marked(3);
    s.facts.now_ns += 25_000_000;
    s.ack_ending_round(1, 1);
    s.facts.now_ns += 12_499_999;
    s.ack(0, 0);
    let first = s.facts.pacing_rate as f64;
    s.facts.now_ns += 1;
    s.ack(0, 0);
    let second = s.facts.pacing_rate as f64;
    let ratio = first / second;
    assert!((ratio - 33.0 / 31.0).abs() < 1e-3, "{ratio}");
}

#[test]
fn in_2024_a_window_of_more_than_four_packets_leads_again() {
    let mut s = marked(4);
    let by_rate = s.facts.pacing_rate;
    assert!(by_rate % PACKET_PER_RTT != 0, "{by_rate}");
    s.facts.flags |= Flags::CWND_LIMITED;
    for _ in 0..200 {
        s.ack(1, 0);
    }
    assert!(s.facts.cwnd > 4);
    assert_eq!(s.facts.pacing_rate % PACKET_PER_RTT, 0, "whole segments");
}

#[test]
fn in_2024_a_loss_halves_the_rate_and_an_undo_gives_it_back() {
    let mut s = marked(3);
    let before = s.facts.pacing_rate;
    s.enter(CaState::Recovery);
    s.ack(0, 0);
    let halved = s.facts.pacing_rate;
    assert!(
        halved.abs_diff(before / 2) <= before / 100,
        "{halved} of {before}"
    );
    s.facts.cwnd = s.cc.undo_cwnd(&s.facts);
    s.ack(0, 0);
    let back = s.facts.pacing_rate;
    assert!(back.abs_diff(before) <= before / 100, "{back} of {before}");
}

#[test]
fn in_2024_packets_get_smaller_until_two_of_them_take_a_target_round_trip() {
    let mut s = marked(3);
    s.facts.flags |= Flags::TAKES_MSS;
    squeeze(&mut s, 200);
    // 100 kbit/s for 25 ms are 298 bytes, half of which is less than the least.
    assert_eq!(s.facts.mss, 150);
    // The packets grow with the rate, up to what they were.
    let mut seen = 0;
    for round in 0..100 {
        next_round(&mut s, u32::from(round % 3 == 0));
        let rate = s.facts.pacing_rate * 32 / 31;
        let two = rate * TARGET / SECOND;
        if s.facts.mss > 150 && s.facts.mss < 1448 {
            seen += 1;
            let packets = u64::from(2 * (s.facts.mss + 52));
            assert!(packets.abs_diff(two) <= two / 8, "{packets} of {two}");
        }
    }
    assert!(seen > 5, "{seen}");
    assert_eq!(s.facts.mss, 1448);
}

#[test]
fn a_stack_that_takes_no_mss_keeps_its_own() {
    let mut s = marked(3);
    squeeze(&mut s, 200);
    assert_eq!(s.facts.mss, 1448);
    let mut older = Sender::new("prague variant 2022", 3, 1);
    older.facts.flags |= Flags::TAKES_MSS;
    squeeze(&mut older, 200);
    assert_eq!(older.facts.mss, 1448);
}
