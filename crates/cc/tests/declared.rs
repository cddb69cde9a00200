//! What an algorithm declares, natively: a state of any size, options, telemetry and a
//! timer, by controls that only tests have.

use narrows_cc::{ControlSpec, Controller, Facts, Flags, OptionError};

fn facts() -> Facts {
    Facts {
        now_ns: 1_000_000_000,
        mss: 1250,
        cwnd: 10,
        ssthresh: 100,
        flags: Flags::CWND_LIMITED,
        ..Facts::default()
    }
}

#[test]
fn a_timer_runs_from_init_to_release_and_what_it_notes_is_telemetry() {
    let spec = ControlSpec::parse("roomy period 100ms").unwrap();
    assert!(spec.state_size() >= 300);
    let mut cc = Controller::new(&spec);
    let mut facts = facts();
    assert_eq!(cc.timer_at(), None, "before init");
    cc.init(&facts);
    let periods = |cc: &Controller| {
        let reported: Vec<_> = cc.telemetry().collect();
        let of = |name: &str| reported.iter().find(|(f, _)| f.column() == name);
        let value = |name: &str| of(name).map(|(f, v)| f.in_units(*v));
        (value("periods"), value("noted_mbit"))
    };
    assert_eq!(periods(&cc), (Some(0.0), None), "no rate before a period");
    for i in 1..=100 {
        facts.now_ns += 100_000_000;
        facts.delivered += 10;
        assert_eq!(cc.timer_at(), Some(facts.now_ns));
        cc.timer(&facts);
        // 10 segments of 1250 bytes in 100 ms.
        assert_eq!(periods(&cc), (Some(f64::from(i)), Some(1.0)));
    }
    cc.release();
    assert_eq!(cc.timer_at(), None);
}

#[test]
fn an_option_is_in_force_while_it_runs() {
    let mut cc = Controller::new(&ControlSpec::parse("roomy").unwrap());
    let mut facts = facts();
    cc.init(&facts);
    cc.cong_avoid(&facts, 10).apply(&mut facts);
    assert_eq!(facts.cwnd, 20);
    cc.set_option("ceiling", 22).unwrap();
    assert_eq!(cc.option("ceiling"), Some(22));
    cc.cong_avoid(&facts, 10).apply(&mut facts);
    assert_eq!(facts.cwnd, 22);
    cc.set_option("ceiling", 5).unwrap();
    cc.timer(&facts).apply(&mut facts);
    assert_eq!(facts.cwnd, 5);
    let refused = cc.set_option("ceiling", 1).unwrap_err();
    assert!(matches!(refused, OptionError::Value { .. }), "{refused}");
    let unknown = cc.set_option("roof", 1).unwrap_err().to_string();
    assert!(unknown.contains("`ceiling` or `period`"), "{unknown}");
    assert_eq!(cc.spec().to_string(), "roomy ceiling 5");
}

#[test]
fn a_variant_is_chosen_before_the_connection_is_established() {
    let mut cc = Controller::new(&ControlSpec::parse("prague").unwrap());
    cc.set_option("variant", 0).unwrap();
    assert_eq!(cc.spec().to_string(), "prague variant 2020");
    cc.init(&facts());
    let late = cc.set_option("variant", 2).unwrap_err();
    assert_eq!(late, OptionError::Started("variant".to_owned()));
}

/// The inner control decides by the facts that its wrapper shows it.
#[test]
fn a_wrapped_control_sees_edited_facts() {
    let mut cc = Controller::new(&ControlSpec::parse("capped cap 12").unwrap());
    let mut facts = facts();
    cc.init(&facts);
    cc.cong_avoid(&facts, 10).apply(&mut facts);
    assert_eq!(facts.cwnd, 12);
    assert_eq!(facts.cwnd_clamp, 0, "a copy of them");
    cc.set_option("cap", 15).unwrap();
    cc.cong_avoid(&facts, 10).apply(&mut facts);
    assert_eq!(facts.cwnd, 15);
    assert_eq!(cc.ssthresh(&facts), 15 * 717 / 1024, "CUBIC's");
    assert_eq!(cc.telemetry().next().unwrap().1, 15, "its plateau");
}
