//! A sender with nothing around it.

use narrows_cc::{CaState, ControlSpec, Controller, Facts, Flags};

/// Linux's TCP_INFINITE_SSTHRESH (include/net/tcp.h v6.17).
pub const INFINITE: u32 = 0x7fff_ffff;
/// Prague's 1.0 in 2⁻²⁰.
pub const ONE: u32 = 1 << 20;

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
                now_ns: 1_000_000_000,
                mss: 1448,
                header: 52,
                cwnd,
                ssthresh,
                srtt_us: 10_000 << 3,
                min_rtt_us: 10_000,
                snd_una: 1000,
                snd_nxt: 1000,
                flags: Flags::CWND_LIMITED,
                ..Facts::default()
            },
        };
        let decision = sender.cc.init(&sender.facts);
        decision.apply(&mut sender.facts);
        sender.facts.snd_nxt = 2000;
        sender
    }

    /// An ACK of `acked` segments, `marked` of them.
    pub fn ack(&mut self, acked: u32, marked: u32) {
        let f = &mut self.facts;
        f.acked_sacked = acked;
        f.delivered = f.delivered.wrapping_add(acked);
        f.delivered_ce = f.delivered_ce.wrapping_add(marked);
        self.cc.cong_control(f).apply(f);
    }

    /// The same ACK, with which a round trip ends.
    pub fn ack_ending_round(&mut self, acked: u32, marked: u32) {
        self.facts.snd_una = self.facts.snd_nxt;
        self.facts.snd_nxt = self.facts.snd_nxt.wrapping_add(1000);
        self.ack(acked, marked);
    }

    pub fn enter(&mut self, state: CaState) {
        self.facts.ssthresh = self.cc.ssthresh(&self.facts);
        self.cc.set_state(&self.facts, state).apply(&mut self.facts);
        self.facts.ca_state = state as u8;
    }

    /// ACKs that bring nothing new, until the window rests.
    pub fn settle(&mut self) -> u32 {
        for _ in 0..10_000 {
            let before = self.facts.cwnd;
            self.ack(0, 0);
            if self.facts.cwnd == before {
                break;
            }
        }
        self.facts.cwnd
    }

    pub fn alpha(&self) -> u32 {
        let (field, value) = self.cc.telemetry().next().expect("Prague reports alpha");
        assert_eq!((field.name, field.scale), ("alpha", u64::from(ONE)));
        u32::try_from(value).unwrap()
    }
}
