//! DA-LBE: its law against double precision, and what it does to the control below.
//! Numbers are those of the thesis (`kernel/dalbe_constants.h`) unless a test says
//! otherwise.

mod actuation;
mod law;
mod others;
mod reference;

use narrows_cc::{CaState, ControlSpec, Controller, DalbeInterval, DalbeLaw, Facts, Flags};

/// A connection under DA-LBE with nothing around it.
struct Flow {
    cc: Controller,
    facts: Facts,
}

impl Flow {
    fn new(words: &str) -> Self {
        let mut cc = Controller::new(&ControlSpec::parse(words).unwrap());
        let facts = Facts {
            now_ns: 5_000_000_000,
            mss: 1448,
            cwnd: 100,
            ssthresh: 50,
            srtt_us: 50_000 << 3,
            snd_una: 1000,
            snd_nxt: 1000,
            flags: Flags::CWND_LIMITED,
            ..Facts::default()
        };
        cc.init(&facts);
        Self { cc, facts }
    }

    fn reported(&self) -> DalbeInterval {
        DalbeInterval::of(self.cc.telemetry())
    }

    fn law(&self) -> DalbeLaw {
        DalbeLaw::of(&self.cc.spec()).unwrap()
    }

    /// An ACK of `bytes` with a round trip of `rtt_us`.
    fn ack(&mut self, bytes: u32, rtt_us: u32) {
        self.facts.snd_una = self.facts.snd_una.wrapping_add(bytes);
        self.facts.snd_nxt = self.facts.snd_una;
        self.facts.acked_sacked = bytes.div_ceil(1448);
        self.facts.delivered = self.facts.delivered.wrapping_add(self.facts.acked_sacked);
        self.facts.rtt_us = rtt_us;
        self.cc.pkts_acked(&self.facts);
    }

    /// The interval passes, and its timer is called.
    fn end_interval(&mut self) {
        self.facts.now_ns = self.cc.timer_at().expect("an interval");
        self.cc.timer(&self.facts);
    }

    /// A whole interval in which `bytes` were acknowledged at a queue of 20 ms.
    fn interval(&mut self, bytes: u32) -> DalbeInterval {
        self.ack(0, 30_000);
        self.ack(bytes, 50_000);
        self.end_interval();
        self.reported()
    }

    /// A reduction, which is over at once; the window after it.
    fn reduce(&mut self) -> u32 {
        let answer = self.cc.ssthresh(&self.facts);
        self.cc.set_state(&self.facts, CaState::Recovery);
        self.cc.set_state(&self.facts, CaState::Open);
        answer
    }
}
