//! `[test]` in scenario files and `--test` in a line: the flows and probes that a test of Flent is,
//! and what is refused.

use narrows_scenario::{Draft, FLENT_TESTS, Plan, Refusal};

use super::json_schema::Validator;

const BASE: &str = "version = 1\nname = \"x\"\nduration = \"70s\"\n\
    [[link]]\nname = \"l\"\nends = [\"home\", \"net\"]\nup = [\"rate 10Mbit\"]\ndown = [\"rate 10Mbit\"]\n";

fn check(more: &str) -> Result<Plan, Refusal> {
    Draft::read("x.toml", format!("{BASE}{more}").as_bytes())?.check()
}

fn test(keys: &str) -> String {
    format!("[test]\nflent = \"rrul\"\nfrom = \"home\"\nto = \"net\"\n{keys}\n")
}

fn plan(more: &str) -> Plan {
    check(more).unwrap_or_else(|e| panic!("{e}\n{more}"))
}

/// The same flows and probes in tables of their own.
fn written_out() -> String {
    let mut text = String::new();
    let classes = [("BE", "cs0"), ("BK", "cs1"), ("CS5", "cs5"), ("EF", "ef")];
    for (way, from, to) in [("up", "home", "net"), ("down", "net", "home")] {
        for (class, dscp) in classes {
            text += &format!(
                "[[flow]]\nname = \"{way}-{class}\"\nfrom = \"{from}\"\nto = \"{to}\"\nopens = \"home\"\n\
                 cc = \"prague\"\ndscp = \"{dscp}\"\nstart = \"5s\"\nstop = \"65s\"\n"
            );
        }
    }
    for (name, dscp) in [
        ("udp-EF", "ef"),
        ("udp-BK", "cs1"),
        ("udp-BE", "cs0"),
        ("ping", "cs0"),
    ] {
        text += &format!(
            "[[probe]]\nname = \"{name}\"\nfrom = \"home\"\nto = \"net\"\ndscp = \"{dscp}\"\ninterval = \"200ms\"\n"
        );
    }
    text
}

#[test]
fn rrul_is_its_flows_and_probes_written_out() {
    let long = format!("measure = \"5s..65s\"\n{BASE}{}", written_out());
    let long = Draft::read("x.toml", long.as_bytes()).and_then(|draft| draft.check());
    let mut short = plan(&test("cc = \"prague\""));
    assert_eq!(short.test.take(), Some("rrul"));
    assert_eq!(short, long.unwrap_or_else(|e| panic!("{e}")));
    // What is written is read as the same, and flows of one's own stand before the test's.
    let again = Draft::read("y.toml", short.to_toml().as_bytes()).and_then(|draft| draft.check());
    assert_eq!(again.unwrap_or_else(|e| panic!("{e}")), short);
    let own = "[[flow]]\nname = \"own\"\nfrom = \"net\"\nto = \"home\"\ncc = \"reno\"\n";
    let both = plan(&format!("{own}{}", test("cc = \"prague\"")));
    assert_eq!(both.flows[0].name, "own");
    assert_eq!(both.flows[1..], short.flows);
}

#[test]
fn a_line_gives_every_test_with_its_words_over_70_seconds() {
    let words = |all: &[&str]| all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let of = |test: &str| {
        let links = words(&["netem delay 5ms", "rate 10Mbit"]);
        Draft::with_apps(&links, &[], &[], Some(test)).and_then(|draft| draft.check())
    };
    for declared in FLENT_TESTS {
        let plan = of(declared.name).unwrap_or_else(|e| panic!("{}: {e}", declared.name));
        assert_eq!(
            (&*plan.name, plan.test),
            (declared.name, Some(declared.name))
        );
        assert_eq!(plan.duration.as_secs_f64(), 70.0);
        assert!(plan.probes.iter().any(|probe| probe.name == "ping"));
        assert!(
            plan.flows
                .iter()
                .all(|flow| flow.start.as_secs_f64() == 5.0)
        );
    }
    let three = of("tcp_ndown streams 3 cc reno ecn delay 10s").expect("a plan");
    let names: Vec<&str> = three.flows.iter().map(|flow| flow.name.as_str()).collect();
    assert_eq!(names, ["down1", "down2", "down3"]);
    for flow in &three.flows {
        assert_eq!(flow.start.as_secs_f64(), 10.0);
        assert_eq!(flow.transport.control_name(), "reno");
        assert_eq!(three.host(flow.from).name, "server");
        assert_eq!(three.host(flow.opens).name, "client");
    }
    for (line, needs) in [
        ("rrul_bee", "did you mean `rrul_be`?"),
        ("", "`rrul`"),
        ("rrul c prague", "`cc`"),
        ("rrul streams 3", "`tcp_nup` or `tcp_ndown`"),
        ("tcp_nup streams 0", "1 to 128"),
        ("tcp_nup streams 129", "1 to 128"),
        ("tcp_nup streams 99999999999", "1 to 128"),
        ("tcp_8up delay 35s", "less than half"),
        ("tcp_8up cc cubik", "did you mean `cubic`?"),
    ] {
        let line_of = of(line).expect_err(line).to_line();
        assert!(line_of.contains(needs), "{line}: {line_of}");
    }
}

#[test]
fn what_does_not_fit_in_the_table_is_refused_at_its_key() {
    for (more, key, needs) in [
        (test("streams = 3"), "test/streams", "tcp_nup"),
        (test("delay = \"35s\""), "test/delay", "less than half"),
        (test("stream = 3"), "test/stream", "did you mean `streams`?"),
        (test("cc = \"cubik\""), "cc", "did you mean `cubic`?"),
        (
            test("").replace("net\"", "nit\""),
            "test/to",
            "did you mean `net`?",
        ),
        (
            test("").replace("net\"", "home\""),
            "test/to",
            "another host",
        ),
        (
            test("").replace("rrul", "rrull"),
            "test/flent",
            "did you mean `rrul`?",
        ),
        (
            "[test]\nfrom = \"home\"\nto = \"net\"\n".to_owned(),
            "test/flent",
            "`rrul`",
        ),
        (
            "[test]\nflent = \"rrul\"\nto = \"net\"\n".to_owned(),
            "test/from",
            "`home`",
        ),
        (
            format!(
                "{}[[probe]]\nname = \"ping\"\nfrom = \"home\"\nto = \"net\"\n",
                test("")
            ),
            "ping",
            "for the second time",
        ),
    ] {
        let line = check(&more).expect_err(&more).to_line();
        assert!(
            line.contains(key) && line.contains(needs),
            "{key}, {needs}: {line}"
        );
        assert!(line.starts_with("x.toml:"), "{line}");
    }
    let short = format!("{BASE}{}", test("")).replace("70s", "9s");
    let line = Draft::read("x.toml", short.as_bytes()).and_then(|draft| draft.check());
    let line = line.expect_err("too short").to_line();
    assert!(
        line.contains("duration") && line.contains("more than twice 5s"),
        "{line}"
    );
}

#[test]
fn values_of_a_test_are_set_by_name_for_all_its_flows() {
    let text = format!("{BASE}{}", test(""));
    let mut draft = Draft::read("x.toml", text.as_bytes()).expect("TOML");
    draft.set("test/cc=prague").expect("a key");
    draft.set("duration=30s").expect("a key");
    let plan = draft.check().unwrap_or_else(|e| panic!("{e}"));
    assert!(
        plan.flows
            .iter()
            .all(|flow| flow.transport.control_name() == "prague")
    );
    assert!(
        plan.flows
            .iter()
            .all(|flow| flow.stop.map(|at| at.as_secs_f64()) == Some(25.0))
    );
    assert!(draft.set("test=rrul").is_err(), "a whole table");
}

#[test]
fn the_schema_takes_the_table_and_no_other_key_in_it() {
    let validator = Validator::of_files();
    let whole = "streams = 4\ncc = \"prague\"\necn = true\nip = 6\ndelay = \"2s\"";
    let of = |keys: &str| format!("{BASE}{}", test(keys).replace("rrul", "tcp_nup"));
    assert_eq!(validator.faults(&of(whole)), [""; 0]);
    plan(&test(whole).replace("rrul", "tcp_nup"));
    assert!(!validator.takes(&of("stream = 4")));
    assert!(!validator.takes(&of("streams = 0")));
    assert!(!validator.takes(&of("").replace("tcp_nup", "tcp_nip")));
}
