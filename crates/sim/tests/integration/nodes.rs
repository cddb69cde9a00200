//! Nodes: elements with a port for each link that begins there.

use crate::rig::{Record, conserves, plan, run};
use narrows_core::EntityId;

/// Two hosts send to `c` and one to `d` through a switch of five ports.
fn switched(is: &str, more: &str) -> String {
    let link = |name: &str, up: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nends = [\"sw\", \"{name}\"]\nup = [{up}]\ndown = [\"netem delay 1ms\"]\n"
        )
    };
    let flow = |name: &str, from: &str, to: &str| {
        format!(
            "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\ntraffic = \"cbr rate 60Mbit\"\nstart = \"0s\"\n"
        )
    };
    let links = ["a", "b", "c", "d", "e"].map(|name| link(name, "\"netem delay 1ms\""));
    format!(
        "duration = \"2s\"\nmeasure = \"1s..2s\"\n[[router]]\nname = \"sw\"\nis = \"{is}\"\n{}{}{}{}{more}",
        links.concat(),
        flow("ac", "a", "c"),
        flow("bc", "b", "c"),
        flow("ad", "a", "d"),
    )
}

/// What each port dropped, by the link's name.
fn drops(toml: &str) -> Vec<(String, u64)> {
    let outcome = run(&plan(toml), 1, &mut Record::default());
    conserves(&outcome);
    let name = |entity: EntityId| outcome.names[entity.0 as usize].clone();
    let reports = outcome.elements.iter();
    let ports = reports.filter(|e| name(e.element).ends_with("/sw"));
    ports
        .map(|e| (name(e.element), e.counters.dropped))
        .collect()
}

#[test]
fn each_port_of_a_switch_reports_by_its_link_and_only_the_busy_one_drops() {
    let dropped = drops(&switched("switch buffer 100kb rate 100Mbit", ""));
    let names: Vec<_> = dropped.iter().map(|(name, _)| name.as_str()).collect();
    let expected = ["a", "b", "c", "d", "e"].map(|l| format!("link/{l}/up/sw"));
    assert_eq!(names, expected);
    for (name, dropped) in &dropped {
        // 120 of 100 Mbit/s for two seconds: a sixth of some 20,000 packets.
        assert_eq!(
            *dropped > 2_000,
            name == "link/c/up/sw",
            "{name}: {dropped}"
        );
    }
}

#[test]
fn a_port_may_have_words_of_its_own_and_is_changed_by_itself() {
    let is = "switch buffer 100kb rate 1Gbit";
    let quiet = drops(&switched(is, ""));
    assert!(quiet.iter().all(|(_, dropped)| *dropped == 0), "{quiet:?}");
    let slow = switched(is, "").replace(
        "ends = [\"sw\", \"d\"]\nup = [",
        "ends = [\"sw\", \"d\"]\nup = [\"sw: switch rate 30Mbit\", ",
    );
    let change = "[[change]]\nat = \"1s\"\ntarget = \"link/d/up/sw\"\nto = \"rate 30Mbit\"\n";
    for toml in [slow, switched(is, change)] {
        for (name, dropped) in drops(&toml) {
            assert_eq!(dropped > 1_000, name == "link/d/up/sw", "{name}: {dropped}");
        }
    }
}

#[test]
fn a_port_is_set_by_its_name_whether_its_link_says_anything_of_it_or_not() {
    let toml = switched("switch buffer 100kb alpha 2 rate 1Gbit", "");
    let text = format!("version = 1\nname = \"test\"\n{toml}");
    for link in ["d", "e"] {
        let text = text.replace(
            "ends = [\"sw\", \"d\"]\nup = [",
            "ends = [\"sw\", \"d\"]\nup = [\"sw: switch rate 2Gbit\", ",
        );
        for words in ["rate 30Mbit", "switch rate 30Mbit"] {
            let mut draft = narrows_scenario::Draft::read("t.toml", text.as_bytes()).unwrap();
            draft.set(&format!("link/{link}/up/sw={words}")).unwrap();
            let plan = draft.check().unwrap();
            let port = plan
                .elements()
                .find(|e| e.name == format!("link/{link}/up/sw"));
            let port = port.expect("a port").spec.to_string();
            assert!(port.contains("alpha 2 rate 30Mbit"), "{port}");
        }
        // Of the direction that ends there no port can be set.
        let mut draft = narrows_scenario::Draft::read("t.toml", text.as_bytes()).unwrap();
        assert!(
            draft
                .set(&format!("link/{link}/down/sw=rate 30Mbit"))
                .is_err()
        );
    }
}

#[test]
fn a_plan_with_a_node_is_written_as_it_was_read() {
    let toml = switched("switch buffer 100kb alpha 2 rate 1Gbit queue codel", "").replace(
        "ends = [\"sw\", \"d\"]\nup = [",
        "ends = [\"sw\", \"d\"]\nup = [\"sw: switch rate 30Mbit\", ",
    );
    let first = plan(&toml);
    let written = first.to_toml();
    assert_eq!(written.matches("= \"switch ").count(), 1, "{written}");
    assert_eq!(written.matches("sw: switch ").count(), 1, "{written}");
    let again = narrows_scenario::Draft::read("again.toml", written.as_bytes()).unwrap();
    assert_eq!(again.check().unwrap(), first);
}

/// One host that sends more to each terminal than the cell can carry; the rates that arrive, in
/// Mbit/s of IP.
fn terminals(scheduler: &str) -> Vec<f64> {
    let link = |name: &str, cqi: u8| {
        format!(
            "[[link]]\nname = \"{name}\"\nends = [\"cell\", \"{name}\"]\nup = [\"cell: cell cqi {cqi}\"]\n"
        )
    };
    let flow = |to: &str| {
        format!(
            "[[flow]]\nname = \"{to}\"\nfrom = \"server\"\nto = \"{to}\"\ntraffic = \"cbr rate 30Mbit size 500\"\nstart = \"0s\"\n"
        )
    };
    let toml = format!(
        "duration = \"10s\"\nmeasure = \"1s..9s\"\n[[router]]\nname = \"cell\"\n\
         is = \"cell blocks 25 scheduler {scheduler}\"\n[[link]]\nname = \"core\"\n\
         ends = [\"server\", \"cell\"]\nup = [\"netem delay 5ms\"]\n{}{}{}{}{}{}",
        link("near", 15),
        link("walker", 10),
        link("edge", 4),
        flow("near"),
        flow("walker"),
        flow("edge"),
    );
    sent(&toml, "/up/cell", 10.0)
}

/// The Mbit/s of IP that leave by each port of a node, of a run that lasts so long.
fn sent(toml: &str, port: &str, seconds: f64) -> Vec<f64> {
    let outcome = run(&plan(toml), 1, &mut Record::default());
    conserves(&outcome);
    let ports = outcome.elements.iter();
    ports
        .filter(|e| outcome.names[e.element.0 as usize].ends_with(port))
        .map(|e| e.counters.bytes_out as f64 * 8.0 / seconds / 1e6)
        .collect()
}

#[test]
fn terminals_share_a_cell_as_their_channels_and_the_scheduler_say() {
    // Bits of a block and millisecond at CQI 15, 10 and 4, of which there are 25.
    let alone = [733, 360, 79].map(|bits| f64::from(25 * bits / 8 * 8) / 1e3);
    for (scheduler, within) in [("pf", 0.02), ("rr", 0.04)] {
        let rates = terminals(scheduler);
        for (rate, alone) in rates.iter().zip(alone) {
            let share = rate / alone * 3.0;
            assert!((share - 1.0).abs() < within, "{scheduler}: {rates:?}");
        }
    }
    let best = terminals("max-rate");
    assert!(best[0] > 0.99 * alone[0], "{best:?}");
    assert!(best[1..].iter().all(|rate| *rate < 0.01), "{best:?}");
}

/// A server that sends 60 Mbit/s to each of two stations at 144.4 Mbit/s and one at 7.2.
fn stations(scheduler: &str, more: &str) -> String {
    let link = |name: &str, own: &str| {
        format!(
            "[[link]]\nname = \"{name}\"\nends = [\"ap\", \"{name}\"]\nup = [\"ap: wifi {own}\"]\n\
             [[flow]]\nname = \"{name}\"\nfrom = \"server\"\nto = \"{name}\"\n\
             traffic = \"poisson rate 60Mbit\"\nstart = \"0s\"\n"
        )
    };
    format!(
        "duration = \"4s\"\nmeasure = \"1s..4s\"\n[[router]]\nname = \"ap\"\n\
         is = \"wifi ap width 20 short-gi airtime 4ms scheduler {scheduler}\"\n\
         [[link]]\nname = \"core\"\nends = [\"server\", \"ap\"]\nup = [\"netem delay 1ms\"]\n\
         {}{}{}{more}",
        link("near", "mcs 7 streams 2"),
        link("desk", "mcs 7 streams 2"),
        link("garden", "mcs 0"),
    )
}

/// The Mbit/s of IP that each station receives.
fn arrive(toml: &str) -> Vec<f64> {
    sent(toml, "/up/ap", 4.0)
}

#[test]
fn stations_of_an_access_point_share_its_airtime_or_its_queue() {
    let fair = arrive(&stations("airtime", ""));
    // A third of what each has alone.
    assert!(
        fair[..2].iter().all(|rate| (38.0..46.0).contains(rate)),
        "{fair:?}"
    );
    assert!((1.9..2.4).contains(&fair[2]), "{fair:?}");
    let one_queue = arrive(&stations("fifo", ""));
    assert!(
        one_queue.iter().all(|rate| (4.5..6.0).contains(rate)),
        "{one_queue:?}"
    );
    // All have the slow one's rate, until it is no slow one.
    let change = "[[change]]\nat = \"2s\"\ntarget = \"link/garden/up/ap\"\nto = \"wifi mcs 7\"\n";
    let later = arrive(&stations("fifo", change));
    assert!(later.iter().all(|rate| *rate > 8.0), "{later:?}");
}

#[test]
fn a_plan_with_an_access_point_is_written_as_it_was_read() {
    let first = plan(&stations("fifo", ""));
    let written = first.to_toml();
    assert_eq!(written.matches("ap: wifi ap mcs").count(), 3, "{written}");
    let again = narrows_scenario::Draft::read("again.toml", written.as_bytes()).unwrap();
    assert_eq!(again.check().unwrap(), first);
    // Where nothing but a node can stand, `wifi` is one.
    let short = stations("fifo", "").replace("wifi ap", "wifi");
    assert_eq!(plan(&short), first);
}

#[test]
fn what_is_no_access_point_or_no_port_of_one_is_refused_in_a_sentence() {
    let whole = stations("airtime", "");
    for (from, to, said) in [
        (
            "ap: wifi mcs 0",
            "ap: wifi mcs 99",
            "0 to 9, or trace FILE.csv",
        ),
        (
            "ap: wifi mcs 0",
            "ap: wifi mcs 0 scheduler fifo",
            "as `is` says for all stations",
        ),
        ("ap: wifi mcs 0", "wifi mcs 0", "under the name of the node"),
        (
            "wifi ap width",
            "wifi ap mcs trace nosuch.csv width",
            "router/ap/is: found the trace `nosuch.csv`, which cannot be read",
        ),
        ("ap: wifi mcs 0", "ap: rate 1Mbit", "words of a `wifi`"),
    ] {
        let text = format!("version = 1\nname = \"t\"\n{}", whole.replace(from, to));
        let draft = narrows_scenario::Draft::read("t.toml", text.as_bytes());
        let refused = draft.and_then(|draft| draft.check()).unwrap_err();
        let text = format!("{} {:?}", refused.to_line(), refused);
        assert!(text.contains(said), "{to}: {text}");
    }
    for target in ["link/core/down/ap", "link/garden/up/ap"] {
        let words = if target.ends_with("down/ap") {
            "wifi mcs 7"
        } else {
            "wifi mcs 99"
        };
        let change = format!("[[change]]\nat = \"1s\"\ntarget = \"{target}\"\nto = \"{words}\"\n");
        let text = format!("version = 1\nname = \"t\"\n{whole}{change}");
        let draft = narrows_scenario::Draft::read("t.toml", text.as_bytes()).unwrap();
        let refused = draft.check().unwrap_err().to_line();
        let wire = refused.contains("a change of a wire");
        assert_eq!(wire, words == "wifi mcs 7", "{refused}");
    }
}

#[test]
fn a_node_may_have_as_many_ports_as_there_are_numbers() {
    for (is, own) in [
        ("wifi ap", "wifi mcs 7"),
        ("switch buffer 1mb rate 1Gbit", "switch rate 1Gbit"),
    ] {
        let link = |i| {
            format!(
                "[[link]]\nname = \"l{i}\"\nends = [\"n\", \"h{i}\"]\nup = [\"n: {own}\"]\n\
                 down = [\"netem delay 1ms\"]\n"
            )
        };
        let links: String = (0..256).map(link).collect();
        let toml = format!(
            "duration = \"2s\"\nmeasure = \"1s..2s\"\n[[router]]\nname = \"n\"\nis = \"{is}\"\n{links}\
             [[flow]]\nname = \"f\"\nfrom = \"h0\"\nto = \"h255\"\ntraffic = \"cbr rate 8Mbit\"\nstart = \"0s\"\n"
        );
        let outcome = run(&plan(&toml), 1, &mut Record::default());
        conserves(&outcome);
        let name = |entity: EntityId| outcome.names[entity.0 as usize].as_str();
        let mut reports = outcome.elements.iter();
        let last = reports.find(|e| name(e.element) == "link/l255/up/n");
        let last = last.expect("a port");
        assert!(last.counters.packets_out > 1_000, "{is}");
    }
}
