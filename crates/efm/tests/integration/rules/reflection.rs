//! The reflection square bit.

use narrows_wire::Signal;
use proptest::prelude::*;

use super::ends::{DATA, End, Segment, pair};

const WORDS: &str = "q+r announce never";

fn square(segment: &Segment) -> bool {
    segment.has("q+r", Signal::Square)
}

fn reflection(segment: &Segment) -> bool {
    segment.has("q+r", Signal::Reflection)
}

/// What `b` sends while blocks of these lengths arrive, one packet for each that
/// arrives and `more` for every tenth.
fn reflected(lengths: &[u32], more: usize) -> Vec<bool> {
    let (mut a, mut b) = pair(WORDS);
    let mut sent = Vec::new();
    let mut us = 0;
    let mut value = false;
    for length in lengths {
        for i in 0..*length {
            // Packets of the block that did not arrive are sent in between.
            let mut packet = a.send(us, DATA);
            while square(&packet) != value {
                packet = a.send(us, DATA);
            }
            b.receive(us, &packet);
            us += 1;
            let answers = 1 + if i % 10 == 0 { more } else { 0 };
            for _ in 0..answers {
                sent.push(reflection(&b.send(us, DATA)));
            }
        }
        value = !value;
    }
    sent
}

/// Lengths of the whole runs, without the one before the first change.
fn runs(sent: &[bool]) -> Vec<u32> {
    let mut runs = vec![0];
    for pair in sent.windows(2) {
        *runs.last_mut().unwrap() += 1;
        if pair[0] != pair[1] {
            runs.push(0);
        }
    }
    runs.pop();
    runs.remove(0);
    runs
}

/// RFC 9506 §3.4: 0 until a whole Q block has arrived, then blocks of its length.
#[test]
fn rfc_3_4_the_first_block_has_the_length_of_the_first_q_block() {
    let sent = reflected(&[60, 64, 64, 64, 64], 0);
    let first = sent.iter().position(|r| *r).unwrap();
    // The block is known to have ended when ten packets of the next have come.
    assert_eq!(first, 60 + 10 - 1);
    assert_eq!(runs(&sent)[0], 60);
}

/// RFC 9506 §3.4: without loss every block has N packets.
#[test]
fn rfc_3_4_without_loss_all_blocks_have_n_packets() {
    for more in [0, 3, 30] {
        let lengths = runs(&reflected(&[64; 40], more));
        assert!(lengths.len() > 30);
        assert!(lengths.iter().all(|l| *l == 64), "{lengths:?}");
    }
}

/// RFC 9506 §3.4: a slow reflector averages the blocks that arrive meanwhile.
#[test]
fn rfc_3_4_blocks_that_arrive_meanwhile_are_averaged() {
    let (mut a, mut b) = pair(WORDS);
    // `b` sends one packet for sixteen that arrive, so that four Q blocks arrive
    // in each R block, of which the second always loses eight.
    let (mut sent, mut us) = (Vec::new(), 0);
    for i in 0..64 * 4 * 60_u64 {
        let packet = a.send(us, DATA);
        us += 1;
        if !(64..72).contains(&(i % (64 * 4))) {
            b.receive(us, &packet);
        }
        if i % 16 == 0 {
            sent.push(reflection(&b.send(us, DATA)));
        }
    }
    let lengths = runs(&sent);
    let later = &lengths[2..];
    assert!(later.iter().all(|l| (61..=63).contains(l)), "{lengths:?}");
    let mean = later.iter().sum::<u32>() as f64 / later.len() as f64;
    assert!((mean - 62.0).abs() < 0.2, "{mean}");
}

/// RFC 9506 §3.4.1: what rounding took is made good, so that averages of 63 1/2
/// do not all become 64.
#[test]
fn rfc_3_4_1_rounding_does_not_add_up() {
    let lengths: Vec<u32> = (0..400).map(|i| if i % 2 == 0 { 63 } else { 64 }).collect();
    // Two Q blocks arrive in each R block.
    let (mut a, mut b) = pair(WORDS);
    let (mut sent, mut us, mut value) = (Vec::new(), 0, false);
    for length in lengths {
        for i in 0..length {
            let mut packet = a.send(us, DATA);
            while square(&packet) != value {
                packet = a.send(us, DATA);
            }
            b.receive(us, &packet);
            us += 1;
            if i % 2 == 0 {
                sent.push(reflection(&b.send(us, DATA)));
            }
        }
        value = !value;
    }
    let runs = runs(&sent);
    let mean = runs.iter().sum::<u32>() as f64 / runs.len() as f64;
    assert!((mean - 63.5).abs() < 0.1, "{mean} of {runs:?}");
}

/// RFC 9506 §3.2.3: a packet of the old block may come up to the threshold late.
#[test]
fn rfc_3_2_3_late_packets_do_not_end_or_begin_blocks() {
    let (mut a, mut b) = pair(WORDS);
    let (mut sent, mut held): (_, Option<(u64, Segment)>) = (Vec::new(), None);
    for i in 0..64 * 60_u64 {
        let packet = a.send(i, DATA);
        // The last packet of each block comes four packets late.
        if i % 64 == 63 {
            held = Some((i + 4, packet));
        } else {
            b.receive(i, &packet);
        }
        if held.as_ref().is_some_and(|(at, _)| *at == i) {
            b.receive(i, &held.take().unwrap().1);
        }
        sent.push(reflection(&b.send(i, DATA)));
    }
    let lengths = runs(&sent);
    assert!(lengths.iter().all(|l| *l == 64), "{lengths:?}");
}

/// RFC 9506 §3.2.3.1 and §3.4.2.1: a block that a burst took whole makes its
/// neighbours one; the loss is 3 N - length.
#[test]
fn rfc_3_4_2_1_a_burst_that_takes_a_whole_block_is_reflected_as_loss() {
    let (mut a, mut b) = pair(WORDS);
    let mut sent = Vec::new();
    for i in 0..64 * 100_u64 {
        let packet = a.send(i, DATA);
        // 80 packets, of them a whole block, in the middle.
        if !(64 * 49 + 56..64 * 50 + 72).contains(&i) {
            b.receive(i, &packet);
        }
        // One for two: what arrives meanwhile is not missed.
        if i % 2 == 0 {
            sent.push(reflection(&b.send(i, DATA)));
        }
    }
    let lengths = runs(&sent);
    assert!(lengths.iter().all(|l| *l <= 64), "{lengths:?}");
    // (64 - 8 + 64 - 8) / 3 packets for each of three.
    let shortest = lengths.iter().min().unwrap();
    assert!((37..=51).contains(shortest), "{shortest} of {lengths:?}");
}

/// RFC 9506 §3.4 in lists and fractions: what an R block's length must be.
struct Oracle {
    threshold: u32,
    current: bool,
    length: u32,
    beyond: u32,
    /// Lengths of blocks that ended since the R block under way began.
    since: Vec<u64>,
    last: u64,
    /// 1/65536 of a packet.
    carry: i64,
    rounded: i64,
    m: Option<i64>,
    sent: i64,
    value: bool,
}

impl Oracle {
    fn new(threshold: u32) -> Self {
        Self {
            threshold,
            current: false,
            length: 0,
            beyond: 0,
            since: Vec::new(),
            last: 0,
            carry: 0,
            rounded: 0,
            m: None,
            sent: 0,
            value: false,
        }
    }

    fn arrives(&mut self, value: bool) {
        if value == self.current {
            self.length += 1;
            return;
        }
        self.beyond += 1;
        if self.beyond == self.threshold {
            self.last = u64::from(self.length);
            self.since.push(self.last);
            self.length = self.beyond;
            self.beyond = 0;
            self.current = value;
        }
    }

    fn set(&mut self, sum: u64, count: u64) {
        let exact = (sum * 65_536 / count) as i64 + self.carry;
        let m = (exact + 32_768).div_euclid(65_536);
        self.rounded = exact - m * 65_536;
        self.m = Some(m);
    }

    fn begin(&mut self) {
        let beyond = self.m.map_or(0, |m| (self.sent - m).max(0));
        self.value = !self.value;
        self.sent = 0;
        self.since.clear();
        self.carry = self.rounded - beyond * 65_536;
        self.set(self.last, 1);
    }

    fn leaves(&mut self) -> bool {
        if self.m.is_none() {
            if self.since.is_empty() {
                return false;
            }
            self.begin();
        } else if !self.since.is_empty() {
            let (sum, count) = (self.since.iter().sum(), self.since.len() as u64);
            self.set(sum, count);
        }
        if self.sent >= self.m.unwrap() {
            self.begin();
        }
        let value = self.value;
        self.sent += 1;
        if self.sent >= self.m.unwrap() {
            self.begin();
        }
        value
    }
}

fn arrivals(a: &mut End, lost: &[bool]) -> Vec<Option<Segment>> {
    let send = |(i, lost): (usize, &bool)| {
        let segment = a.send(i as u64, DATA);
        (!lost).then_some(segment)
    };
    lost.iter().enumerate().map(send).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rfc_3_4_every_bit_is_that_of_the_naive_reckoning(
        lost in prop::collection::vec(prop::bool::weighted(0.08), 64 * 30),
        answers in prop::collection::vec(0..3_u8, 64 * 30),
        threshold in 1..32_u32,
    ) {
        let words = format!("{WORDS} threshold {threshold}");
        let (mut a, mut b) = pair(&words);
        let mut oracle = Oracle::new(threshold);
        for (i, segment) in arrivals(&mut a, &lost).into_iter().enumerate() {
            if let Some(segment) = segment {
                b.receive(i as u64, &segment);
                oracle.arrives(square(&segment));
            }
            for _ in 0..answers[i] {
                prop_assert_eq!(reflection(&b.send(i as u64, DATA)), oracle.leaves(), "at {}", i);
            }
        }
    }

    /// RFC 9506 §3.4.3: (1 - eloss_unobserved)(1 - uloss) = 1 - tqloss, and so
    /// eloss_unobserved = (tqloss - uloss) / (1 - uloss).
    #[test]
    fn rfc_3_4_3_the_algebra_gives_the_loss_of_the_direction_that_is_not_seen(
        there in prop::collection::vec(prop::bool::weighted(0.04), 64 * 60),
        back in prop::collection::vec(prop::bool::weighted(0.03), 64 * 60),
    ) {
        let (mut a, mut b) = pair(WORDS);
        let mut seen = Vec::new();
        let mut uloss = 0.0;
        for (i, segment) in arrivals(&mut a, &there).into_iter().enumerate() {
            if let Some(segment) = segment {
                b.receive(i as u64, &segment);
            }
            let sent = b.send(i as u64, DATA);
            if back[i] {
                uloss += 1.0 / back.len() as f64;
            } else {
                seen.push(reflection(&sent));
            }
        }
        // A path with order ends a run only where a block ends.
        let lengths = runs(&seen);
        let mean = lengths.iter().sum::<u32>() as f64 / lengths.len() as f64;
        let tqloss = 1.0 - mean / 64.0;
        let eloss = (tqloss - uloss) / (1.0 - uloss);
        let truth = there.iter().filter(|l| **l).count() as f64 / there.len() as f64;
        // The ends of the run are missing from the blocks: two of sixty.
        prop_assert!((eloss - truth).abs() < 0.015, "{} for {}", eloss, truth);
    }
}
