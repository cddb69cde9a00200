//! A sender with nothing around it.

use narrows_cc::{ControlSpec, Controller, Facts, Flags};

/// Linux's TCP_INFINITE_SSTHRESH (include/net/tcp.h v6.17).
pub const INFINITE: u32 = 0x7fff_ffff;

/// A sender with nothing but what the algorithm can see.
pub struct Sender {
    pub cc: Controller,
    pub facts: Facts,
}

impl Sender {
    pub fn new(words: &str, cwnd: u32, ssthresh: u32) -> Self {
        let mut sender = Self {
            cc: Controller::new(&ControlSpec::parse(words).unwrap()),
            facts: Facts {
                now_ns: 5_000_000_000,
                mss: 1448,
                cwnd,
                ssthresh,
                snd_una: 1000,
                snd_nxt: 1000,
                flags: Flags::CWND_LIMITED,
                ..Facts::default()
            },
        };
        let decision = sender.cc.init(&sender.facts);
        decision.apply(&mut sender.facts);
        sender
    }

    pub fn wait_ms(&mut self, ms: u64) {
        self.facts.now_ns += ms * 1_000_000;
    }

    /// An ACK of `acked` segments with an RTT sample (0 = none), in Linux's
    /// order: pkts_acked, then cong_avoid.
    pub fn ack(&mut self, acked: u32, rtt_us: u32) -> u32 {
        let f = &mut self.facts;
        f.rtt_us = rtt_us;
        let decision = self.cc.pkts_acked(f);
        decision.apply(f);
        self.cc.cong_avoid(f, acked).apply(f);
        decision.events
    }

    /// What the stack does at a reduction that is over at once.
    pub fn reduce(&mut self) {
        self.facts.ssthresh = self.cc.ssthresh(&self.facts);
        self.facts.prior_cwnd = self.facts.cwnd;
        self.facts.cwnd = self.facts.ssthresh;
        self.facts.cwnd_cnt = 0;
    }

    /// `ms` of steady ACKs, one window per `rtt_ms`; calls `at` every ms.
    pub fn run(&mut self, ms: u32, rtt_ms: u32, mut at: impl FnMut(u32, &Facts)) {
        let mut owed = 0.0;
        for t in 1..=ms {
            self.wait_ms(1);
            owed += f64::from(self.facts.cwnd) / f64::from(rtt_ms);
            while owed >= 1.0 {
                self.ack(1, 0);
                owed -= 1.0;
            }
            at(t, &self.facts);
        }
    }
}
