//! Where a scenario's values end: the last that is accepted, and the first that is refused.

use crate::{Draft, ElementSpec, IpVersion, Plan, Refusal};

const BASE: &str = r#"version = 1
name = "x"
duration = "60s"
sample_interval = "1ms"

[[link]]
name = "l"
ends = ["a", "b"]

[[flow]]
name = "f"
from = "a"
to = "b"
cc = "cubic"
stop = "30s"

[[probe]]
name = "p"
from = "a"
to = "b"
interval = "1ms"
"#;

fn check(text: &str) -> Result<Plan, Refusal> {
    Draft::read("x.toml", text.as_bytes())?.check()
}

fn plan(text: &str) -> Plan {
    check(text).unwrap_or_else(|e| panic!("{}\n{text}", e.to_line()))
}

#[test]
fn bounds_belong_to_what_is_accepted() {
    let (longest, longer) = ("x".repeat(200), "x".repeat(201));
    for (line, accepted, refused, key) in [
        ("name = \"x\"", longest.as_str(), longer.as_str(), "name"),
        // 30 days.
        ("duration = \"60s\"", "720h", "2592001s", "duration"),
        (
            "sample_interval = \"1ms\"",
            "100us",
            "99us",
            "sample_interval",
        ),
        ("stop = \"30s\"", "60s", "60001ms", "flow/f/stop"),
        ("interval = \"1ms\"\n", "10us", "9us", "probe/p/interval"),
    ] {
        let with = |value: &str| {
            let (start, _) = line.split_once('"').expect("a string");
            // The last: `interval` is the end of another key, too.
            let (before, after) = BASE.rsplit_once(line).expect("a line");
            format!("{before}{start}\"{value}\"\n{after}")
        };
        plan(&with(accepted));
        let refusal = check(&with(refused)).expect_err(refused);
        assert_eq!(refusal.key(), key, "{}", refusal.to_line());
    }
}

#[test]
fn a_flow_has_the_ip_version_that_it_says_or_else_4() {
    for (key, version) in [
        ("", IpVersion::V4),
        ("ip = 4", IpVersion::V4),
        ("ip = 6", IpVersion::V6),
    ] {
        let text = BASE.replacen("stop = \"30s\"", key, 1);
        assert_eq!(plan(&text).flows[0].ip, version, "{key}");
    }
    let text = BASE.replacen("stop = \"30s\"", "ip = 5", 1);
    assert_eq!(check(&text).expect_err("no version").key(), "flow/f/ip");
}

#[test]
fn a_command_names_its_program_and_its_other_words_may_be_empty() {
    let with = |run: &str| {
        check(&format!(
            "{BASE}[[command]]\nname = \"c\"\nhost = \"a\"\nrun = {run}\n"
        ))
    };
    let plan = with("[\"printf\", \"\"]").expect("an empty argument");
    assert_eq!(plan.commands[0].run, ["printf", ""]);
    for run in [
        "[\"\"]",
        "[\"\", \"x\"]",
        "[\"a\\u0000b\"]",
        "[\"a\", \"\\u0000\"]",
    ] {
        let refusal = with(run).expect_err(run);
        let line = refusal.to_line();
        assert!(
            line.contains("a program and its arguments"),
            "{run}: {line}"
        );
    }
}

#[test]
fn a_box_of_one_direction_has_no_order_with_those_of_both() {
    let with = |up: &str, down: &str| {
        let elements = |line: &str| {
            let words = line.split(' ').map(|name| format!("\"{name}: mtu 1400\""));
            words.collect::<Vec<_>>().join(", ")
        };
        let (up, down) = (elements(up), elements(down));
        let ends = "ends = [\"a\", \"b\"]";
        check(&BASE.replacen(ends, &format!("{ends}\nup = [{up}]\ndown = [{down}]"), 1))
    };
    for (up, down) in [
        ("near far", "far near"),
        ("near far", "other far near"),
        ("near far", "far other near"),
        ("near other far", "far near"),
        ("near far other", "far near"),
    ] {
        let plan = with(up, down).unwrap_or_else(|e| panic!("{up}, {down}: {}", e.to_line()));
        assert_eq!(plan.links[0].down.len(), down.split(' ').count());
    }
    for (up, down) in [
        ("near far", "near far"),
        ("near far", "other near far"),
        ("near far other", "near far"),
    ] {
        let refusal = with(up, down).expect_err(down);
        assert_eq!(refusal.key(), "link/l/down");
        assert_eq!(refusal.found(), "`near` before `far`");
    }
}

/// A scenario whose host `b` is a switch, at which these elements begin.
fn switched(down: &str) -> String {
    let ends = "ends = [\"a\", \"b\"]";
    let text = BASE.replacen(ends, &format!("{ends}\ndown = [{down}]"), 1);
    format!("{text}[[router]]\nname = \"b\"\nis = \"switch buffer 1mb rate 1Gbit\"\n")
}

#[test]
fn words_that_are_set_for_a_port_lie_over_its_node() {
    let node = "switch buffer 1mb rate 2Gbit";
    for down in ["", "\"b: rate 3Gbit\""] {
        let draft = Draft::read("x.toml", switched(down).as_bytes());
        let mut draft = draft.expect("a document");
        draft.set("link/l/down/b=rate 2Gbit").expect("a name");
        let plan = draft.check().unwrap_or_else(|e| panic!("{}", e.to_line()));
        let port = &plan.links[0].down[0];
        assert_eq!(port.name, "link/l/down/b");
        assert_eq!(port.spec, ElementSpec::parse(node).expect("a switch"));
    }
}

#[test]
fn an_element_may_have_the_name_of_a_host_that_is_no_node() {
    let up = "ends = [\"a\", \"b\"]\nup = [\"b: rate 2Gbit\"]";
    let plan = plan(&BASE.replace("ends = [\"a\", \"b\"]", up));
    assert_eq!(plan.links[0].up[0].name, "link/l/up/b");
}

#[test]
fn what_has_the_name_of_a_port_is_refused_where_it_stands() {
    for (down, words) in [
        ("\"netem delay 1ms\", \"tap b\"", "\"tap b\""),
        (
            "\"b: rate 2Gbit\", \"netem delay 1ms\", \"tap b\"",
            "\"tap b\"",
        ),
    ] {
        let text = switched(down);
        let line = text
            .lines()
            .position(|line| line.starts_with("down"))
            .expect("a line");
        let column = text.lines().nth(line).and_then(|line| line.find(words));
        let refusal = check(&text).expect_err(down);
        let place = (line + 1, column.expect("words") + 1);
        assert_eq!(
            refusal.line_and_column(),
            Some(place),
            "{}",
            refusal.to_line()
        );
        assert!(refusal.found().contains("the port of the router"));
    }
}

#[test]
fn a_node_has_256_ports() {
    let with = |links: usize| {
        let mut text = BASE.to_owned();
        // The first joins `a` and `b`.
        for number in 1..links {
            text += &format!("[[link]]\nname = \"l{number}\"\nends = [\"b\", \"h{number}\"]\n");
        }
        // Links between others take no port of it.
        for number in 1..4 {
            text += &format!("[[link]]\nname = \"m{number}\"\nends = [\"h{number}\", \"o\"]\n");
        }
        check(&format!(
            "{text}[[router]]\nname = \"b\"\nis = \"switch buffer 1mb rate 1Gbit\"\n"
        ))
    };
    let plan = with(256).unwrap_or_else(|e| panic!("{}", e.to_line()));
    assert_eq!(plan.links.len(), 259);
    let refusal = with(257).expect_err("too many");
    assert_eq!(refusal.key(), "router/b/is");
    assert_eq!(refusal.found(), "a node at which 257 links begin");
}

#[test]
fn the_host_that_closes_a_way_is_named_and_no_router_before_it() {
    let mut text = BASE.replacen("to = \"b\"", "to = \"d\"", 1);
    for (from, to) in [("b", "c"), ("c", "d")] {
        text += &format!("[[link]]\nname = \"{from}{to}\"\nends = [\"{from}\", \"{to}\"]\n");
    }
    text += "[[router]]\nname = \"b\"\n";
    plan(&text);
    let refusal = check(&format!("{text}[[host]]\nname = \"c\"\n")).expect_err("no way");
    let line = refusal.to_line();
    assert_eq!(refusal.key(), "flow/f/to");
    assert!(line.contains("`c` is on the way"), "{line}");
}
