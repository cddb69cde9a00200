//! What holds for every algorithm and any facts at all.

use narrows_cc::{
    CaState, ControlMode, ControlSpec, Controller, CwndEvent, Decision, Facts, Flags,
};
use proptest::prelude::*;

const SPECS: [&str; 41] = [
    "reno",
    "quickstart rate 8750000b",
    "quickstart rate 137438953472b",
    "cubic",
    "cubic hystart++",
    "cubic hystart off tcp_friendliness off fast_convergence off",
    "cubic beta 1 bic_scale 102",
    "cubic beta 1023 bic_scale 1",
    "dalbe",
    "dalbe over vegas deadline 60s size 100000000b",
    "dalbe over cubic policy mbc deadline 1s size 100000000b interval 100ms",
    "dalbe over reno mode reproduction deadline 1h size 1000000000b map incremental",
    "dalbe over ledbat kp 100000 ki 100000 kd 100000 deadline 1s size 1000b",
    "dalbe over dctcp policy mbc mode reproduction deadline 60s size 100000000b rise 1",
    "dctcp",
    "dctcp shift_g 1 alpha_on_init 0",
    "hybla",
    "hybla rtt0 1ms",
    "ledbat",
    "ledbat target 1ms gain 1 slow_start on",
    "ledbatpp",
    "ledbatpp target 10s slowdown off",
    "relentless",
    "relentless loss none ect1 on",
    "vegas",
    "vegas alpha 1000000 gamma 0 difference paper",
    "westwood",
    "bbr variant v1",
    "bbr variant linux-v3",
    "bbr variant linux-v3 ecn on",
    "bbr variant draft-06",
    "prague variant 2020",
    "prague variant 2020 ecn_fallback on rtt_control additive rtt_transition 0",
    "prague variant 2022 rtt_control scalable rtt_transition 0",
    "prague variant 2024 rtt_target 1s",
    "prague variant 2024 rtt_target 128us",
    "cubic_alpha_one",
    "prague_rounds variant 2020",
    "prague_scale variant 2020",
    "capped cap 2",
    "roomy ceiling 5 period 1ms",
];

/// Any bits, as words: the layout has no padding.
fn facts() -> impl Strategy<Value = Facts> {
    prop::collection::vec(word(), 34).prop_map(|w| {
        let wide = |i: usize| u64::from(w[i]) << 32 | u64::from(w[i + 1]);
        Facts {
            now_ns: wide(0),
            pacing_rate: wide(2),
            mss: w[4],
            cwnd: w[5],
            cwnd_cnt: w[6],
            ssthresh: w[7],
            prior_cwnd: w[8],
            in_flight: w[9],
            snd_una: w[10],
            snd_nxt: w[11],
            high_seq: w[12],
            delivered: w[13],
            delivered_ce: w[14],
            acked_sacked: w[15],
            lost: w[16],
            srtt_us: w[17],
            min_rtt_us: w[18],
            rtt_us: w[19],
            rs_delivered: w[20] as i32,
            rs_interval_us: w[21],
            rs_prior_delivered: w[22],
            rs_prior_in_flight: w[23],
            rs_losses: w[24],
            gso_max_size: w[25],
            ts_echo: w[26],
            random: w[27],
            packets_out: w[28],
            ca_state: w[29] as u8,
            pacing_status: (w[29] >> 8) as u8,
            flags: (w[29] >> 16) as u16 | Flags::CWND_LIMITED,
            cwnd_clamp: w[30],
            header: w[31],
            last_sent_ns: wide(32),
        }
    })
}

/// Words with the ends of their range well represented.
fn word() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => 0..100_u32,
        1 => Just(0),
        1 => Just(u32::MAX),
        1 => Just(0x7fff_ffff),
        3 => 0..100_000_000_u32,
        3 => any::<u32>(),
    ]
}

fn any_call(cc: &mut Controller, facts: &Facts, hook: u8, with: u32) -> Decision {
    match hook {
        0 => {
            assert!(facts.ssthresh == 0 || cc.ssthresh(facts) > 0);
            Decision::default()
        }
        1 => {
            assert!(cc.undo_cwnd(facts) > 0);
            Decision::default()
        }
        2 => cc.set_state(facts, CaState::ALL[with as usize % 5]),
        3 => cc.cwnd_event(facts, CwndEvent::ALL[with as usize % 6]),
        4 => cc.in_ack_event(facts),
        5 => cc.init(facts),
        12 => cc.timer(facts),
        6 | 7 => cc.pkts_acked(facts),
        8 | 9 => cc.cong_control(facts),
        _ => cc.cong_avoid(facts, with),
    }
}

proptest! {
    // A case is up to 60 hooks.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_facts_make_a_window_of_zero(
        spec in prop::sample::select(SPECS.as_slice()),
        calls in prop::collection::vec((facts(), 0..13_u8, word()), 1..60),
    ) {
        let mut cc = Controller::new(&ControlSpec::parse(spec).unwrap());
        for (facts, hook, with) in calls {
            let decision = any_call(&mut cc, &facts, hook, with);
            prop_assert_ne!(decision.cwnd(), Some(0));
            if facts.cwnd_clamp > 0 && decision.cwnd() > Some(facts.cwnd) {
                prop_assert!(decision.cwnd() <= Some(facts.cwnd_clamp));
            }
            prop_assert_ne!(decision.pacing_rate(), Some(0));
            prop_assert_ne!(cc.max_tso_segs(), Some(0));
            for (field, value) in cc.telemetry() {
                prop_assert!(field.name != "alpha" || (0..=1 << 20).contains(&value));
            }
        }
    }

    #[test]
    fn a_clone_decides_as_its_original(
        spec in prop::sample::select(SPECS.as_slice()),
        before in prop::collection::vec((facts(), 0..13_u8, word()), 0..20),
        after in prop::collection::vec((facts(), 0..13_u8, word()), 1..20),
    ) {
        let mut cc = Controller::new(&ControlSpec::parse(spec).unwrap());
        for (facts, hook, with) in &before {
            any_call(&mut cc, facts, *hook, *with);
        }
        let mut twin = cc.clone();
        for (facts, hook, with) in &after {
            let one = any_call(&mut cc, facts, *hook, *with);
            prop_assert_eq!(one, any_call(&mut twin, facts, *hook, *with));
        }
    }

    #[test]
    fn congestion_avoidance_counts_every_segment_once(
        cwnd in 1..5000_u32,
        acks in prop::collection::vec(0..40_u32, 1..300),
    ) {
        // tcp_cong_avoid_ai against a naive walk, segment by segment. They may
        // differ within an ACK that crosses a step, as w stays what it was.
        let mut cc = Controller::new(&ControlSpec::parse("reno").unwrap());
        let mut facts = Facts {
            cwnd,
            ssthresh: 1,
            flags: Flags::CWND_LIMITED,
            ..Facts::default()
        };
        let (mut window, mut credit) = (cwnd, 0);
        for acked in acks {
            cc.cong_avoid(&facts, acked).apply(&mut facts);
            let w = window;
            if acked > 0 && credit >= w {
                credit = 0;
                window += 1;
            }
            for _ in 0..acked {
                credit += 1;
                if credit == w {
                    credit = 0;
                    window += 1;
                }
            }
            prop_assert_eq!((facts.cwnd, facts.cwnd_cnt), (window, credit));
        }
    }

    #[test]
    fn prague_reduces_by_half_of_alpha_at_any_window(
        window in 2..20_000_u32,
        rounds in prop::collection::vec((1..2000_u32, 0..2000_u32), 0..40),
    ) {
        let mut cc = Controller::new(&ControlSpec::parse("prague variant 2020").unwrap());
        let mut facts = Facts { mss: 1448, cwnd: window, ssthresh: 1, ..Facts::default() };
        cc.init(&facts);
        for (delivered, marked) in rounds {
            facts.snd_una += 1;
            facts.snd_nxt += 1;
            facts.delivered += delivered;
            facts.delivered_ce += marked.min(delivered);
            cc.cong_control(&facts);
        }
        let (field, value) = cc.telemetry().next().unwrap();
        let alpha = field.in_units(value);
        cc.set_state(&facts, CaState::Cwr);
        let mut steps = 0_u32;
        // ACKs that bring nothing: one segment down each.
        loop {
            let before = facts.cwnd;
            cc.cong_control(&facts).apply(&mut facts);
            if facts.cwnd == before {
                break;
            }
            steps += 1;
        }
        let expected = f64::from(window) * alpha / 2.0;
        let floor = f64::from(window - 2);
        prop_assert!((f64::from(steps) - expected.min(floor)).abs() <= 1.5,
            "{} steps from {} at alpha {}", steps, window, alpha);
    }
}

#[test]
fn each_algorithm_decides_only_in_its_mode() {
    for spec in SPECS {
        let mut cc = Controller::new(&ControlSpec::parse(spec).unwrap());
        let facts = Facts {
            mss: 1448,
            cwnd: 10,
            ssthresh: 50,
            flags: Flags::CWND_LIMITED,
            ..Facts::default()
        };
        cc.init(&facts);
        let (window, rate) = (cc.cong_avoid(&facts, 1), cc.cong_control(&facts));
        let mode = cc.mode();
        assert_eq!(window.set != 0, mode == ControlMode::Window, "{spec}");
        assert_eq!(rate.set != 0, mode == ControlMode::Rate, "{spec}");
    }
}
