//! The law in double precision by itself, and how it is compared with what was reported.

use narrows_cc::{ControlSpec, DalbeInterval, DalbeLaw, Reference};
use narrows_core::TelemetryField;

use super::Flow;

fn law(words: &str) -> DalbeLaw {
    DalbeLaw::of(&ControlSpec::parse(words).unwrap()).unwrap()
}

/// The end of an interval at a weight of 0.4.
fn before() -> DalbeInterval {
    DalbeInterval {
        intervals: 7.0,
        w: 0.4,
        phi: 3.0,
        target: 20.0,
        error: 0.25,
        sum: 2.0,
        bias: 1.5,
        ..DalbeInterval::default()
    }
}

/// What the next one brought: 8 Mbit/s, while 21.05 are needed.
fn now() -> DalbeInterval {
    DalbeInterval {
        intervals: 8.0,
        phi: 3.0,
        price: 0.02,
        model_price: 0.01,
        remaining: 1e9,
        left: 400.0,
        interval_bytes: 5e6,
        interval: 5.0,
        learns: 0.5,
        ..DalbeInterval::default()
    }
}

#[test]
fn what_is_computed_does_not_depend_on_what_was_reported_of_it() {
    let ends = [
        (
            "nothing left",
            DalbeInterval {
                remaining: 0.0,
                ..now()
            },
        ),
        ("past the deadline", DalbeInterval { left: 0.0, ..now() }),
        (
            "nothing brought",
            DalbeInterval {
                interval_bytes: 0.0,
                ..now()
            },
        ),
        ("on its way", now()),
    ];
    for words in [
        "over vegas",
        "over reno policy mbc",
        "over cubic mode reproduction",
    ] {
        let law = law(&format!("dalbe {words}"));
        for (end, now) in ends {
            let exact = law.step(&before(), &now);
            let reported = DalbeInterval {
                w: 0.9,
                mu: 77.0,
                ignored: 0.3,
                target: 77.0,
                achieved: 77.0,
                error: 0.7,
                sum: 77.0,
                bias: 7.0,
                ..now
            };
            assert_eq!(law.step(&before(), &reported), exact, "{words}: {end}");
        }
    }
}

#[test]
fn an_interval_without_a_step_of_the_policy_keeps_error_sum_and_bias() {
    let law = law("dalbe over reno");
    // 1 GB in 400 s, of which a twentieth is to spare.
    let needed = 1e9 * 8.0 / 1e6 / 400.0 / 0.95;
    for (end, w, target) in [
        (
            DalbeInterval {
                remaining: 0.0,
                ..now()
            },
            0.05,
            0.0,
        ),
        (DalbeInterval { left: 0.0, ..now() }, 1.0, 0.0),
        (
            DalbeInterval {
                interval_bytes: 0.0,
                ..now()
            },
            0.4,
            needed,
        ),
    ] {
        let exact = law.step(&before(), &end);
        assert_eq!(exact.w, w, "{end:?}");
        assert!((exact.target - target).abs() < 1e-9, "{exact:?}");
        assert_eq!((exact.error, exact.sum, exact.bias), (0.25, 2.0, 1.5));
    }
}

#[test]
fn a_new_phi_moves_the_weight_but_not_mu_and_leaves_its_ends_alone() {
    let near = |got: f64, exact: f64| (got - exact).abs() < 1e-12;
    for (words, w, phi, new_phi, exact) in [
        // w phi stays.
        ("over reno", 0.4, 3.0, 1.5, 0.8),
        ("over reno", 0.4, 1.5, 3.0, 0.2),
        ("over reno", 0.4, 3.0, 3.0, 0.4),
        // w phi / (1 - w) does: from 2 / 3 to 4 / 3.
        ("over vegas", 0.4, 3.0, 1.5, 4.0 / 7.0),
        // As far as there are weights.
        ("over reno", 0.8, 3.0, 1.5, 1.0),
        ("over reno", 0.08, 1.5, 3.0, 0.05),
        // A scavenger and best effort stay what they are.
        ("over reno", 0.05, 3.0, 1.5, 0.05),
        ("over reno", 1.0, 1.5, 3.0, 1.0),
        ("over vegas", 0.05, 3.0, 1.5, 0.05),
        // The thesis lets mu jump.
        ("over reno mode reproduction", 0.4, 3.0, 1.5, 0.4),
    ] {
        let former = DalbeInterval { w, phi, ..before() };
        let silent = DalbeInterval {
            phi: new_phi,
            interval_bytes: 0.0,
            ..now()
        };
        let got = law(&format!("dalbe {words}")).step(&former, &silent);
        assert!(near(got.w, exact), "{words} {w} {phi} {new_phi}: {got:?}");
        // The sum of errors is scaled by the factor that the weight is scaled by.
        assert!(near(got.sum, 2.0 * exact / w), "{words}: {got:?}");
    }
}

#[test]
fn without_an_integral_gain_the_sum_is_that_of_errors_whatever_limits_the_weight() {
    let (needed, achieved) = (1e9 * 8.0 / 1e6 / 400.0 / 0.95, 8.0);
    let error = 0.4 * (needed - achieved) / needed;
    let exact = law("dalbe over reno ki 0").step(&before(), &now());
    assert!((exact.error - error).abs() < 1e-12, "{exact:?}");
    // Over a nominal interval of 10 s.
    assert!((exact.sum - (2.0 + 10.0 * error)).abs() < 1e-9, "{exact:?}");
    // With one the sum becomes that of which the weight is the output.
    let exact = law("dalbe over reno ki 300 rise 1").step(&before(), &now());
    let output = 0.5 * error + 0.3 * exact.sum + 0.1 * (error - 0.25) / 10.0;
    assert!((exact.w - output).abs() < 1e-9, "{exact:?}");
}

/// All that a control reports, with some values replaced.
fn reported(flow: &Flow, replaced: &[(&str, i64)]) -> Vec<(TelemetryField, i64)> {
    let value = |name: &str, reported: i64| {
        let found = replaced.iter().find(|(n, _)| *n == name);
        found.map_or(reported, |(_, value)| *value)
    };
    let all = flow.cc.telemetry();
    all.map(|(f, v)| (f, value(f.name, v))).collect()
}

#[test]
fn only_an_interval_that_follows_one_that_was_reported_is_compared() {
    let mut flow = Flow::new("dalbe over vegas deadline 600s size 1625000000b");
    let mut reference = Reference::of(&flow.cc.spec()).unwrap();
    let mut compared = |flow: &Flow| {
        let found = reference.compare(&reported(flow, &[]))?;
        let [(error, off), (count, intervals)] = found;
        assert_eq!(error.column(), "law_error_ppm");
        assert_eq!(count.column(), "law_compared");
        // Fixed point is as good as a thousandth.
        assert!((0.0..1000.0).contains(&error.in_units(off)), "{off}");
        Some(intervals)
    };
    assert_eq!(compared(&flow), None, "nothing was reported before");
    flow.interval(5_000_000);
    assert_eq!(compared(&flow), Some(1));
    assert_eq!(compared(&flow), None, "no interval has ended");
    flow.interval(5_000_000);
    assert_eq!(compared(&flow), Some(2));
    flow.interval(5_000_000);
    flow.interval(5_000_000);
    assert_eq!(compared(&flow), None, "one was not reported");
    flow.interval(5_000_000);
    assert_eq!(compared(&flow), Some(3));
    let cubic = ControlSpec::parse("cubic").unwrap();
    assert!(Reference::of(&cubic).is_none(), "it has no such law");
}

#[test]
fn a_weight_that_is_off_counts_by_its_share_of_the_exact_one() {
    let mut flow = Flow::new("dalbe over vegas deadline 600s size 1625000000b");
    flow.interval(5_000_000);
    let before = reported(&flow, &[]);
    flow.interval(5_000_000);
    // With nothing left to send the exact weight is 0.05, in parts of 2^-30.
    for (w, ppm) in [(1 << 26, 250_000.0), (1 << 25, 375_000.0)] {
        let mut reference = Reference::of(&flow.cc.spec()).unwrap();
        reference.compare(&before);
        let off = reported(&flow, &[("remaining", 0), ("w", w)]);
        let [(error, found), _] = reference.compare(&off).unwrap();
        assert!((error.in_units(found) - ppm).abs() < 0.002, "{found}");
    }
}
