//! What a transfer leaves others, and how it finds whether there are any: `dalbe_others.h`
//! against the same in double precision.

use narrows_cc::CaState;
use proptest::prelude::*;

use super::Flow;

const WORDS: &str = "dalbe over cubic policy mbc deadline 600s size 300000000b";

/// Bytes of a full segment.
const MSS: u32 = 1448;

/// The rule without rounding; what is counted in intervals is whole there, too.
#[derive(Debug)]
struct Others {
    least: f64,
    most: f64,
    edge: f64,
    looked: f64,
    waited: f64,
    share: f64,
    free: u32,
    free_for: u32,
    settled: bool,
    reduced: bool,
    cap: Option<f64>,
}

impl Others {
    fn new() -> Self {
        Self {
            least: f64::INFINITY,
            most: 0.0,
            edge: 0.0,
            looked: 0.0,
            waited: 0.0,
            share: 1.0,
            free: 0,
            free_for: 0,
            settled: false,
            reduced: false,
            cap: None,
        }
    }

    fn see(&mut self, rtt_us: f64) {
        self.least = self.least.min(rtt_us);
        if self.free == 0 && self.settled {
            self.looked += 1.0;
            // Fixed point has whole microseconds.
            if rtt_us - self.least > self.edge.floor() {
                self.waited += 1.0;
            }
            // A segment is whole.
            if self.cap.is_some_and(|cap| self.looked >= 16.0 * cap) {
                self.judge();
            }
        }
    }

    fn judge(&mut self) {
        self.share = self.waited / self.looked;
        if self.share > 1.0 / 8.0 {
            self.free_for = 0;
        } else {
            self.free_for = (2 * self.free_for).clamp(4, 32);
            self.free = self.free_for;
            self.settled = false;
            self.cap = None;
        }
        (self.looked, self.waited) = (0.0, 0.0);
    }

    /// Bytes/s achieved and needed, and segments in flight at the latter.
    fn end(&mut self, achieved: f64, target: f64, in_flight: f64) {
        self.most = self.most.max(achieved);
        if self.free > 0 {
            self.free = if self.reduced { 0 } else { self.free - 1 };
        } else if !self.settled {
            self.settled = true;
        } else if self.looked >= 16.0 {
            self.judge();
        }
        self.reduced = false;
        self.edge = f64::from(MSS) * 1e6 / self.most / 16.0;
        let room = if achieved < target { 2.0 } else { 25.0 / 24.0 };
        self.cap = (self.free == 0).then(|| (room * in_flight).ceil().max(2.0));
    }
}

fn named(flow: &Flow, name: &str) -> Option<f64> {
    let mut all = flow.cc.telemetry();
    all.find(|(f, _)| f.name == name)
        .map(|(f, v)| f.in_units(v))
}

/// ACKs of one full segment each, whose round trips wait so many microseconds of 30 ms.
fn look(flow: &mut Flow, waits: impl IntoIterator<Item = u32>) {
    for wait in waits {
        flow.ack(MSS, 30_000 + wait);
    }
}

/// The window that `cong_avoid` leaves of `cwnd`.
fn window(flow: &mut Flow, cwnd: u32) -> u32 {
    flow.facts.cwnd = cwnd;
    let decision = flow.cc.cong_avoid(&flow.facts, 1);
    decision.cwnd().unwrap_or(cwnd)
}

/// An interval of 5 s whose packets waited so long, in turn.
fn interval(flow: &mut Flow, waits: &[u32]) {
    look(flow, (0..400).map(|i| waits[i % waits.len()]));
    flow.end_interval();
}

#[test]
fn while_others_are_there_the_window_is_what_the_deadline_needs_and_twice_that_if_it_is_behind() {
    for (size, room) in [(40_000_000, 25.0 / 24.0), (300_000_000, 2.0)] {
        held_to(size, room);
    }
}

/// The window of a transfer of `size` bytes, of which 400 segments are delivered every 5 s.
fn held_to(size: u64, room: f64) {
    let mut flow = Flow::new(&format!(
        "dalbe over cubic policy mbc deadline 600s size {size}b"
    ));
    for _ in 0..20 {
        // What the link sends when a packet comes: up to one packet of somebody else's.
        interval(&mut flow, &[0, 900, 300, 1_200, 600]);
        let now = flow.reported();
        let mean = named(&flow, "mean_rtt").unwrap() / 1e3;
        let in_flight = now.target * 1e6 / 8.0 * mean / f64::from(MSS);
        let held = f64::from(window(&mut flow, 1_000));
        assert!(
            (room * in_flight..(room * in_flight).max(2.0) + 1.01).contains(&held),
            "{held} of {in_flight}"
        );
        assert_eq!(named(&flow, "held_to"), Some(held));
        assert!(window(&mut flow, 2) <= 3, "no window is raised to it");
    }
}

#[test]
fn where_no_packet_waits_the_path_is_free_for_ever_longer_and_a_reduction_ends_that() {
    let mut flow = Flow::new(WORDS);
    let mut free = Vec::new();
    for _ in 0..120 {
        look(&mut flow, [0; 100]);
        flow.end_interval();
        free.push(named(&flow, "free").unwrap());
        let held = named(&flow, "held_to").is_some();
        assert_eq!(held, free.last() == Some(&0.0));
        assert_eq!(window(&mut flow, 2_000) < 2_000, held);
    }
    let begun: Vec<f64> = free
        .windows(2)
        .filter(|w| w[1] > w[0])
        .map(|w| w[1])
        .collect();
    assert_eq!(begun[..5], [4.0, 8.0, 16.0, 32.0, 32.0], "{free:?}");
    while named(&flow, "free") == Some(0.0) {
        look(&mut flow, [0; 100]);
        flow.end_interval();
    }
    flow.reduce();
    look(&mut flow, [0; 100]);
    flow.end_interval();
    assert_eq!(named(&flow, "free"), Some(0.0), "it may be others'");
}

#[test]
fn packets_of_its_own_alone_are_nobody_else_and_a_few_that_wait_are_not_enough() {
    // One of twenty waits, as behind a flow of a twentieth of the link: below an eighth.
    let mut waits = [0; 20];
    waits[7] = 1_200;
    let mut flow = Flow::new(WORDS);
    for _ in 0..4 {
        interval(&mut flow, &waits);
    }
    assert!(named(&flow, "free").unwrap() > 0.0);
    // One of five is somebody.
    let mut flow = Flow::new(WORDS);
    for _ in 0..40 {
        interval(&mut flow, &[0, 0, 1_200, 0, 0]);
        assert_eq!(named(&flow, "free"), Some(0.0));
    }
    // Of how a link jitters by itself less than a sixteenth of a packet's time is nothing: at
    // 927 kbit/s that is 781 us.
    let mut flow = Flow::new(WORDS);
    for _ in 0..4 {
        interval(&mut flow, &[0, 700, 300, 500]);
    }
    assert!(named(&flow, "free").unwrap() > 0.0);
}

#[test]
fn too_few_round_trips_are_not_judged_and_those_of_recovery_and_of_short_segments_do_not_count() {
    let mut flow = Flow::new(WORDS);
    for _ in 0..2 {
        interval(&mut flow, &[0]);
    }
    let mut flow_of_few = Flow::new(WORDS);
    for i in 1..=6 {
        look(&mut flow_of_few, [0; 5]);
        flow_of_few.end_interval();
        // The first interval lets its own queue go; then 5, 10, 15 and 20.
        assert_eq!(named(&flow_of_few, "free").unwrap() > 0.0, i >= 5, "{i}");
    }
    assert!(named(&flow, "free").unwrap() > 0.0);
    // A timestamp's milliseconds, and a short segment, are less than any full one takes.
    let mut flow = Flow::new(WORDS);
    for _ in 0..3 {
        flow.facts.ca_state = CaState::Recovery as u8;
        look(&mut flow, [0]);
        flow.facts.ca_state = CaState::Open as u8;
        flow.ack(100, 28_000);
        look(&mut flow, [600; 100]);
        flow.end_interval();
    }
    assert!(named(&flow, "free").unwrap() > 0.0, "600 us are its least");
}

#[test]
fn it_is_held_from_the_first_packet_and_past_the_deadline_no_more() {
    // 4 Mbit/s by 19/20, of 50 ms.
    let mut flow = Flow::new(WORDS);
    let in_flight = 4e6 / 0.95 / 8.0 * 0.05 / f64::from(MSS);
    let held = f64::from(window(&mut flow, 100));
    assert!((held - in_flight / 2.0).abs() <= 1.0, "a scavenger: {held}");
    // No less than TCP's least window.
    let mut slow = Flow::new("dalbe over cubic deadline 1h size 100000b");
    assert_eq!(window(&mut slow, 100), 2);
    let mut late = Flow::new("dalbe over cubic deadline 2s size 300000000b");
    while late.reported().left > 0.0 || late.reported().intervals < 1.0 {
        look(&mut late, [0, 900]);
        late.end_interval();
    }
    assert!(window(&mut late, 1_000) >= 1_000, "best effort");
    // Nor is the thesis's law, nor what has no deadline.
    for words in [format!("{WORDS} mode reproduction"), "dalbe".to_owned()] {
        let mut flow = Flow::new(&words);
        assert!(window(&mut flow, 1_000) >= 1_000, "{words}");
        interval(&mut flow, &[900, 0]);
        assert!(window(&mut flow, 1_000) >= 1_000, "{words}");
    }
}

#[test]
fn held_it_is_paced_unless_it_is_behind_and_what_fq_paces_stays_so() {
    // 0.14 Mbit/s, of which 100 segments in 5 s are more, and 10 are less.
    let mut flow = Flow::new("dalbe over cubic policy mbc deadline 600s size 10000000b");
    let status = |flow: &mut Flow| {
        flow.facts.now_ns = flow.cc.timer_at().unwrap();
        let decision = flow.cc.timer(&flow.facts);
        decision.apply(&mut flow.facts);
        flow.facts.pacing_status
    };
    look(&mut flow, [0, 9_000].repeat(50));
    assert_eq!(status(&mut flow), 1, "by the stack");
    look(&mut flow, [0, 9_000].repeat(5));
    assert_eq!(status(&mut flow), 0, "behind");
    assert!(named(&flow, "held_to").is_some());
    look(&mut flow, [0, 9_000].repeat(50));
    assert_eq!(status(&mut flow), 1);
    look(&mut flow, [0; 100]);
    status(&mut flow);
    while named(&flow, "free") == Some(0.0) {
        look(&mut flow, [0; 100]);
        status(&mut flow);
    }
    assert_eq!(flow.facts.pacing_status, 0, "free");
    flow.facts.pacing_status = 2;
    flow.reduce();
    look(&mut flow, [0; 100]);
    assert_eq!(status(&mut flow), 2);
    assert!(named(&flow, "held_to").is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// What is judged is the same, and windows differ by less than a segment.
    #[test]
    fn fixed_point_finds_whom_double_precision_finds(
        rates in prop::collection::vec(
            (1..400_u32, prop::collection::vec(0..2_000_u32, 0..40), 0..4_u32, 0..20_u8),
            5..60,
        ),
    ) {
        let mut flow = Flow::new(WORDS);
        let mut exact = Others::new();
        for (acks, waits, busy, event) in rates {
            if event == 0 {
                flow.reduce();
                exact.reduced = true;
            }
            for i in 0..acks {
                let wait = match waits.get(i as usize % 40) {
                    Some(wait) if i % 4 < busy => *wait,
                    _ => 0,
                };
                look(&mut flow, [wait]);
                exact.see(f64::from(30_000 + wait));
            }
            flow.end_interval();
            let now = flow.reported();
            let mean = named(&flow, "mean_rtt").unwrap() / 1e3;
            let in_flight = now.target * 1e6 / 8.0 * mean / f64::from(MSS);
            exact.end(
                now.interval_bytes / now.interval,
                now.target * 1e6 / 8.0,
                in_flight,
            );
            prop_assert_eq!(named(&flow, "free"), Some(f64::from(exact.free)), "{:?}", exact);
            let busy = named(&flow, "busy").unwrap();
            prop_assert!((busy - exact.share).abs() < 1e-4, "{} {:?}", busy, exact);
            let cap = named(&flow, "held_to");
            prop_assert_eq!(cap.is_some(), exact.cap.is_some());
            if let (Some(cap), Some(exact)) = (cap, exact.cap) {
                prop_assert!((cap - exact).abs() <= 1.0, "{} for {}", cap, exact);
            }
            // A segment of rounding is no difference, but moves when it is judged next.
            exact.cap = cap;
        }
    }
}
