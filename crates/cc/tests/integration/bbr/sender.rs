//! A sender with nothing around it: a path that answers each round trip with one ACK.

use narrows_cc::{CaState, ControlSpec, Controller, CwndEvent, Decision, Facts, Flags};

pub const MSS: u32 = 1448;
pub const STARTUP: i64 = 0;
pub const DRAIN: i64 = 1;
pub const DOWN: i64 = 2;
pub const CRUISE: i64 = 3;
pub const REFILL: i64 = 4;
pub const UP: i64 = 5;
pub const PROBE_RTT: i64 = 6;
pub const DRAFT: &str = "bbr variant draft-06";
pub const LINUX: &str = "bbr variant linux-v3";
pub const V1: &str = "bbr variant v1";

pub struct Sender {
    pub cc: Controller,
    pub facts: Facts,
    /// The last decision.
    pub last: Decision,
    /// By how much round trips have become shorter, us: a little with each round, so
    /// that there is always a new minimum and ProbeRTT does not come.
    shorter_us: u32,
    /// `delivered` when the last round trip ended.
    round_end: u32,
}

impl Sender {
    /// A connection with a window of 10 and a first round trip of `rtt_us`.
    pub fn new(words: &str, rtt_us: u32) -> Self {
        let mut sender = Self {
            cc: Controller::new(&ControlSpec::parse(words).unwrap()),
            facts: Facts {
                now_ns: 1_000_000_000,
                mss: MSS,
                cwnd: 10,
                ssthresh: 0x7fff_ffff,
                srtt_us: rtt_us << 3,
                min_rtt_us: rtt_us,
                random: 0x8000_0000,
                flags: 0,
                ..Facts::default()
            },
            last: Decision::default(),
            shorter_us: 0,
            round_end: 0,
        };
        sender.last = sender.cc.init(&sender.facts);
        sender.last.apply(&mut sender.facts);
        sender
    }

    /// An ACK as `facts` has it, of `acked` segments of a sample over `interval_us`.
    pub fn ack(&mut self, acked: u32, delivered: u32, interval_us: u32, prior: u32) {
        let f = &mut self.facts;
        f.acked_sacked = acked;
        f.delivered = f.delivered.wrapping_add(acked);
        f.rs_delivered = delivered as i32;
        f.rs_interval_us = interval_us;
        f.rs_prior_delivered = prior;
        self.last = self.cc.cong_control(f);
        self.last.apply(f);
        f.rs_losses = 0;
        f.flags &= !Flags::APP_LIMITED;
    }

    /// A round trip of `rtt_us` in which the path delivers `segments`, with `left` in
    /// flight after it.
    pub fn round(&mut self, segments: u32, rtt_us: u32, left: u32) {
        let f = &mut self.facts;
        f.now_ns += u64::from(rtt_us) * 1000;
        self.shorter_us += 1;
        f.rtt_us = rtt_us - self.shorter_us;
        f.rs_prior_in_flight = left + segments;
        f.in_flight = left;
        let prior = f.delivered;
        self.ack(segments, segments, rtt_us, prior);
        self.round_end = self.facts.delivered;
    }

    /// The same, in which `lost` segments more are found lost.
    pub fn lossy_round(&mut self, segments: u32, rtt_us: u32, left: u32, lost: u32) {
        self.facts.lost += lost;
        self.facts.rs_losses = lost;
        self.round(segments, rtt_us, left);
    }

    /// An ACK within the round trip.
    pub fn within(&mut self, segments: u32, rtt_us: u32, left: u32) {
        let f = &mut self.facts;
        f.now_ns += 1_000_000;
        f.rtt_us = rtt_us;
        f.rs_prior_in_flight = left + segments;
        f.in_flight = left;
        let prior = self.round_end.wrapping_sub(1);
        self.ack(segments, segments, rtt_us, prior);
    }

    /// The application had nothing to send during the next sample.
    pub fn app_limited(&mut self) -> &mut Self {
        self.facts.flags |= Flags::APP_LIMITED;
        self
    }

    pub fn enter(&mut self, state: CaState) {
        if state as u8 > self.facts.ca_state {
            self.facts.ssthresh = self.cc.ssthresh(&self.facts);
        }
        self.cc.set_state(&self.facts, state).apply(&mut self.facts);
        self.facts.ca_state = state as u8;
    }

    pub fn starts_after_idle(&mut self) -> Decision {
        let mut facts = self.facts;
        facts.flags |= Flags::APP_LIMITED;
        facts.in_flight = 0;
        let decision = self.cc.cwnd_event(&facts, CwndEvent::TxStart);
        decision.apply(&mut self.facts);
        decision
    }

    /// A field of what it reports, in its unit.
    pub fn get(&self, name: &str) -> Option<f64> {
        let mut fields = self.cc.telemetry();
        let found = fields.find(|(f, _)| f.name == name);
        found.map(|(f, value)| f.in_units(value))
    }

    pub fn phase(&self) -> i64 {
        self.get("phase").unwrap() as i64
    }

    /// Bandwidth, segments per second.
    pub fn bw(&self) -> f64 {
        self.get("bw").unwrap() * 1e6 / 8.0 / f64::from(MSS)
    }

    /// Through Startup over a path of 100 segments in `rtt_us`, to Drain.
    pub fn in_drain(words: &str, rtt_us: u32) -> Self {
        let mut s = Self::new(words, rtt_us);
        for segments in [10, 20, 40, 80, 100, 100, 100, 100, 100] {
            s.round(segments, rtt_us, 200);
            if s.phase() == DRAIN {
                return s;
            }
        }
        panic!("{words}: {}", s.phase());
    }

    /// And on to ProbeBW: to CRUISE, and in version 1 anywhere in the cycle.
    pub fn in_probe_bw(words: &str, rtt_us: u32) -> Self {
        let mut s = Self::in_drain(words, rtt_us);
        s.within(1, rtt_us + 1000, 95);
        assert!([UP, CRUISE].contains(&s.phase()), "{words}: {}", s.phase());
        s
    }

    pub fn in_cruise(words: &str) -> Self {
        let s = Self::in_probe_bw(words, 50_000);
        assert_eq!(s.phase(), CRUISE, "{words}");
        s
    }

    /// On to ProbeBW_REFILL, when the time has come.
    pub fn until_refill(&mut self) {
        for _ in 0..80 {
            if self.phase() == REFILL {
                return;
            }
            self.round(100, 50_000, 80);
        }
        panic!("no refill, but {}", self.phase());
    }

    /// On to ProbeBW_UP.
    pub fn until_up(&mut self) {
        self.until_refill();
        self.round(100, 50_000, 100);
        assert_eq!(self.phase(), UP);
    }

    /// Past a probe that ended with a plateau, to ProbeBW_DOWN.
    pub fn in_down(words: &str) -> Self {
        let mut s = Self::in_cruise(words);
        s.until_up();
        for _ in 0..3 {
            s.round(105, 50_000, 125);
        }
        assert_eq!(s.phase(), DOWN, "{words}");
        s
    }
}
