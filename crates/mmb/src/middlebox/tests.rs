use super::*;
use crate::command::commands;

fn boxed(rules: &str) -> Middlebox {
    let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
    middlebox.apply(&commands(rules).unwrap()).unwrap();
    middlebox
}

#[test]
fn tcp_options_are_read_where_a_rule_needs_them() {
    for (rule, needed) in [
        ("add tcp-syn drop", false),
        ("add tcp-payload x00 drop", false),
        ("add tcp-dport != 80 mod ip-ttl 3", false),
        ("add-stateful all map ip-saddr 10.0.0.1", false),
        ("add-stateful all shuffle tcp-sport", false),
        ("add tcp-opt-mss drop", true),
        ("add ! tcp-opt drop", true),
        ("add all strip all", true),
        ("add all mod tcp-opt-mss 1400", true),
        // The numbers of SACK blocks are shifted with those of the header.
        ("add-stateful all shuffle tcp-seq-num", true),
        ("add-stateful all shuffle tcp-ack-num", true),
    ] {
        assert_eq!(boxed(rule).reads_options, needed, "{rule}");
    }
}

#[test]
fn a_box_stands_where_it_was_put_and_handles_what_it_was_set_to() {
    let mut middlebox = Middlebox::new(
        Settings {
            interfaces: ["left", "right"].map(str::to_owned),
            most_connections: 7,
            ..Settings::default()
        },
        Rng::for_name(1, "box"),
    );
    assert_eq!(middlebox.settings().most_connections, 7);
    assert_eq!(middlebox.settings().interfaces[1], "right");
    assert_eq!(middlebox.handles(), [true, true]);
    for (command, handles) in [
        ("disable left", [false, true]),
        ("disable right", [false, false]),
        ("enable left", [true, false]),
    ] {
        middlebox.apply(&commands(command).unwrap()).unwrap();
        assert_eq!(middlebox.handles(), handles, "{command}");
    }
}

#[test]
fn a_rule_with_a_mapping_translates() {
    for (rule, stateful, translates) in [
        ("add all mod ip-saddr 10.0.0.1", false, false),
        ("add-stateful all accept", true, false),
        ("add-stateful all map ip-saddr 10.0.0.1", true, true),
        ("add-stateful all shuffle ip-id", true, true),
    ] {
        let middlebox = boxed(rule);
        assert_eq!(middlebox.is_stateful(), stateful, "{rule}");
        assert_eq!(middlebox.translates(), translates, "{rule}");
    }
}
