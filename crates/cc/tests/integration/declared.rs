//! What an algorithm declares, natively: a state of any size, options, telemetry and a
//! timer, by controls that only tests have.

use std::collections::BTreeSet;

use narrows_cc::{ControlSpec, Controller, Facts, Flags, OptionError, names, telemetry};

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

fn spec(words: &str) -> ControlSpec {
    ControlSpec::parse(words).unwrap()
}

#[test]
fn an_option_is_described_by_what_may_follow_its_name_and_what_holds_without_it() {
    let hystart = "one of off, train, delay, both";
    let beta = "a whole number from 1 to 1023: \
                the share of the window that a reduction keeps, of 1024";
    for (words, name, kind, default, allowed) in [
        ("cubic", "hystart", "choice", "both", hystart),
        ("cubic", "hystart++", "flag", "", "no value"),
        (
            "cubic",
            "tcp_friendliness",
            "choice",
            "on",
            "one of off, on",
        ),
        ("cubic", "beta", "number", "717", beta),
        ("cubic beta 700", "beta", "number", "700", beta),
        // Any number that fits says no more of its range.
        (
            "cubic",
            "initial_ssthresh",
            "number",
            "0",
            "a whole number that fits u32",
        ),
        // In the place of one of the choices is a flag.
        ("cubic hystart++", "hystart++", "flag", "on", "no value"),
        ("cubic hystart++", "hystart", "choice", "", hystart),
        (
            "prague",
            "variant",
            "choice",
            "2024",
            "one of 2020, 2022, 2024",
        ),
        ("hybla", "rtt0", "time", "25ms", "a time from 1ms to 1s"),
        (
            "quickstart rate 5kb",
            "rate",
            "size",
            "5120",
            "a size from 0 to 137438953472 bytes",
        ),
        // Unset, the size is 0, which is outside its range: there is no default to show.
        (
            "dalbe",
            "size",
            "size",
            "",
            "a size from 1 to 1125899906842624 bytes",
        ),
    ] {
        let all = spec(words).parameters();
        let found = all.iter().find(|p| p.name == name).expect(name);
        assert_eq!(
            (found.kind, &*found.default, &*found.allowed),
            (kind, default, allowed),
            "{name} of {words}"
        );
        let choices = allowed.strip_prefix("one of ").into_iter();
        let choices: Vec<&str> = choices.flat_map(|all| all.split(", ")).collect();
        assert_eq!(found.choices, choices, "{name}");
        assert!(!found.about.is_empty(), "{name}");
    }
    assert_eq!(spec("reno").parameters(), []);
}

#[test]
fn a_word_that_is_refused_is_answered_with_what_the_algorithm_has_instead() {
    for (words, allowed) in [
        ("reno beta 1", "nothing (reno has no parameters)"),
        ("hybla beta 1", "`rtt0`"),
        ("roomy roof 5", "`ceiling` or `period`"),
        ("cubic initial_ssthresh -1", "a whole number that fits u32"),
        (
            "roomy ceiling 1",
            "a whole number from 2 to 4294967295: segments of window at most",
        ),
    ] {
        let refused = ControlSpec::parse(words).unwrap_err();
        assert_eq!(refused.allowed, allowed, "{words}");
    }
}

#[test]
fn a_block_of_parameters_is_read_back_as_the_options_that_it_was_made_of() {
    for words in [
        "cubic hystart++ beta 700",
        "prague variant 2020 rtt_target 20ms",
        "dalbe over cubic deadline 60s size 1000000b",
        "roomy ceiling 5",
    ] {
        let made = spec(words);
        let plain = spec(made.name());
        assert_ne!(plain, made);
        assert_eq!(plain.with_parameter_block(&made.parameter_block()), made);
        assert_eq!(
            made.with_parameter_block(&plain.parameter_block()).name(),
            made.name()
        );
        assert_eq!(made.with_parameter_block(&[]), made, "nothing to take over");
    }
    // A ceiling of 1 is none that could be; the period behind it is taken over.
    let mut block = spec("roomy period 20ms").parameter_block();
    let ceiling = block.len() - 8;
    block[ceiling..][..4].copy_from_slice(&1_u32.to_ne_bytes());
    let read = spec("roomy ceiling 9").with_parameter_block(&block);
    assert_eq!(read, spec("roomy ceiling 9 period 20ms"));
}

#[test]
fn every_field_that_ships_is_in_the_list_of_telemetry_once_by_name_and_unit() {
    let fields = |spec: ControlSpec| -> Vec<(&str, &str)> {
        let all = spec.telemetry();
        all.iter().map(|f| (f.name, f.unit)).collect()
    };
    assert_eq!(fields(spec("roomy")), [("periods", ""), ("noted", "mbit")]);
    assert_eq!(fields(spec("reno")), []);
    let specs = names().into_iter().map(spec);
    let mut declared: BTreeSet<(&str, &str)> = specs.flat_map(fields).collect();
    // Of the law in double precision beside what is reported.
    declared.extend([("law_compared", ""), ("law_error", "ppm")]);
    let listed: Vec<_> = telemetry().iter().map(|f| (f.name, f.unit)).collect();
    assert_eq!(listed, Vec::from_iter(declared), "and none of tests");
}
