//! What one ACK costs: `pkts_acked` and then `cong_avoid` or `cong_control`.

// Criterion's macro writes a public function.
#![allow(missing_docs)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use narrows_cc::{ControlMode, ControlSpec, Controller, Facts, Flags};

fn hooks(c: &mut Criterion) {
    for words in [
        "reno",
        "cubic",
        "cubic hystart++",
        "prague variant 2020",
        "prague variant 2022",
        "prague variant 2020 ecn_fallback on",
    ] {
        let mut cc = Controller::new(&ControlSpec::parse(words).expect("a known algorithm"));
        let mut facts = Facts {
            mss: 1448,
            cwnd: 100,
            ssthresh: 50,
            srtt_us: 20_000 << 3,
            min_rtt_us: 20_000,
            rtt_us: 20_500,
            acked_sacked: 2,
            flags: Flags::CWND_LIMITED,
            ..Facts::default()
        };
        cc.init(&facts);
        c.bench_function(words, |b| {
            b.iter(|| {
                let f = &mut facts;
                f.now_ns += 120_000;
                f.delivered = f.delivered.wrapping_add(2);
                f.snd_una = f.snd_una.wrapping_add(2896);
                f.snd_nxt = f.snd_una.wrapping_add(144_800);
                cc.pkts_acked(f).apply(f);
                let decision = match cc.mode() {
                    ControlMode::Window => cc.cong_avoid(f, 2),
                    ControlMode::Rate => cc.cong_control(f),
                };
                f.cwnd = black_box(decision.cwnd).clamp(50, 200);
            });
        });
    }
}

criterion_group!(benches, hooks);
criterion_main!(benches);
