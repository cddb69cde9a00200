use serde_json::json;

use super::*;
use crate::{Draft, FileKind, Loaded, catalog};

const TEXT: &str = r#"# What it is about.
version = 1      # of the format
name = "x"
duration = "2s"

[[link]]
name = "access"   # the narrow one
ends = ["client", "server"]
up = [
    "netem delay 10ms",        # half of the round trip
    "bottleneck: rate 5Mbit",  # the narrows
]
down = ["netem delay 10ms"]

# Two flows.
[[flow]]
name = "first"
from = "client"
to = "server"

[[mark]]
name = "m"
signals = "d+q"
flows = ["first"]

[[change]]
at = "1s"
target = "link/access/up/bottleneck"
to = "rate 1Mbit"
"#;

fn edit(edits: serde_json::Value) -> Result<String, EditError> {
    let edits: Vec<Edit> = serde_json::from_value(edits).expect("edits");
    edited(TEXT, &edits).map(|(text, _)| text)
}

/// The lines that differ: those that are gone, and those that are new.
fn difference(new: &str) -> (Vec<&'static str>, Vec<&str>) {
    let gone = TEXT
        .lines()
        .filter(|line| !new.lines().any(|other| other == *line));
    let come = new
        .lines()
        .filter(|line| !TEXT.lines().any(|other| other == *line));
    (gone.collect(), come.collect())
}

#[test]
fn a_value_is_set_and_nothing_else_changes() {
    let new = edit(json!([
        { "op": "set", "table": "scenario", "key": "version", "value": 2 },
        { "op": "set", "table": "link", "name": "access", "key": "mtu", "value": 1400 },
        { "op": "set", "table": "change", "name": "#0", "key": "at", "value": "1.5s" },
        { "op": "set", "table": "host_model", "key": "tick", "value": "1ms" },
    ]))
    .expect("edited");
    let (gone, come) = difference(&new);
    assert_eq!(gone, ["version = 1      # of the format", "at = \"1s\""]);
    let expected = [
        "version = 2      # of the format",
        "mtu = 1400",
        "at = \"1.5s\"",
        "[host_model]",
        "tick = \"1ms\"",
    ];
    assert_eq!(come, expected);
}

#[test]
fn a_table_is_added_behind_those_of_its_kind() {
    let values = json!({ "name": "second", "from": "client", "to": "server", "ecn": true });
    let new = edit(json!([{ "op": "add", "table": "flow", "values": values }])).expect("edited");
    let (first, second) = (new.find("\"first\""), new.find("\"second\""));
    assert!(first < second && second < new.find("[[mark]]"), "{new}");
    assert!(difference(&new).0.is_empty());
    let twice = json!([{ "op": "add", "table": "flow", "values": { "name": "first" } }]);
    assert!(
        edit(twice)
            .expect_err("a second one")
            .to_string()
            .contains("there already")
    );
}

#[test]
fn an_element_of_a_list_over_several_lines_keeps_the_comments_of_the_others() {
    let insert = json!([{ "op": "element", "link": "access", "direction": "up", "index": 1,
        "action": "insert", "text": "tap mid" }]);
    let new = edit(insert).expect("edited");
    let (gone, come) = difference(&new);
    assert_eq!(come, ["    \"tap mid\","], "{new}");
    assert!(gone.is_empty(), "{new}");
    let both = json!([{ "op": "element", "link": "access", "direction": "both", "index": 0,
        "action": "replace", "text": "netem delay 20ms" }]);
    let new = edit(both).expect("edited");
    assert_eq!(new.matches("netem delay 20ms").count(), 2);
    assert!(new.contains("# half of the round trip"), "{new}");
}

#[test]
fn elements_are_taken_out_moved_and_put_into_a_list_on_one_line() {
    let one = |action: &str, more: serde_json::Value| {
        let mut edit = json!({ "op": "element", "link": "access", "direction": "down", "index": 0,
            "action": action });
        edit.as_object_mut()
            .expect("a table")
            .extend(more.as_object().expect("a table").clone());
        edit
    };
    let new = edit(json!([
        one("insert", json!({ "text": "tap a" })),
        one("insert", json!({ "text": "tap b" })),
        one("move", json!({ "to": 2 })),
    ]))
    .expect("edited");
    assert!(
        new.contains("down = [\"tap a\", \"netem delay 10ms\", \"tap b\"]"),
        "{new}"
    );
    let new = edit(json!([one("remove", json!({}))])).expect("edited");
    assert!(new.contains("down = []"), "{new}");
    for (index, action) in [(1, "remove"), (2, "insert"), (1, "replace"), (1, "move")] {
        let mut beyond = one(action, json!({ "text": "x", "to": 0 }));
        beyond["index"] = index.into();
        assert!(edit(json!([beyond])).is_err(), "{action}");
    }
}

#[test]
fn references_follow_a_new_name() {
    let rename = |table: &str, name: &str, to: &str| {
        edit(json!([{ "op": "rename", "table": table, "name": name, "to": to }]))
    };
    let new = rename("host", "client", "home").expect("renamed");
    assert!(new.contains("ends = [\"home\", \"server\"]") && new.contains("from = \"home\""));
    let new = rename("link", "access", "dsl").expect("renamed");
    assert!(new.contains("name = \"dsl\"   # the narrow one"), "{new}");
    assert!(new.contains("target = \"link/dsl/up/bottleneck\""));
    assert!(new.contains("to = \"rate 1Mbit\""));
    let new = rename("flow", "first", "only").expect("renamed");
    assert!(new.contains("flows = [\"only\"]"));
    assert!(rename("host", "client", "server").is_err());
    assert!(rename("host", "nobody", "x").is_err());
    assert!(rename("flow", "first", "a b").is_err());
}

#[test]
fn a_table_is_removed_and_the_last_of_its_kind_leaves_nothing() {
    let new = edit(json!([{ "op": "remove", "table": "mark", "name": "m" }])).expect("edited");
    assert!(!new.contains("mark") && new.contains("[[change]]"));
    assert!(edit(json!([{ "op": "remove", "table": "mark", "name": "n" }])).is_err());
}

#[test]
fn renamed_hosts_links_and_flows_of_the_catalogue_are_still_scenarios() {
    for entry in catalog::entries() {
        let loaded = Loaded::from(entry);
        if loaded.kind().expect("a kind") != FileKind::Scenario {
            continue;
        }
        let plan = loaded.draft().expect("a draft").check().expect("a plan");
        let mut edits = Vec::new();
        let mut add = |table: &str, names: Vec<String>| {
            edits.extend(names.into_iter().map(|name| Edit::Rename {
                table: table.to_owned(),
                to: format!("{name}-2"),
                name,
            }));
        };
        add(
            "host",
            plan.hosts.iter().map(|host| host.name.clone()).collect(),
        );
        add(
            "link",
            plan.links.iter().map(|link| link.name.clone()).collect(),
        );
        let written = |name: &String| entry.text.contains(&format!("\"{name}\""));
        if plan.test.is_none() && plan.mixes.is_empty() {
            let flows = plan.flows.iter().map(|flow| flow.name.clone());
            add("flow", flows.filter(written).collect());
        }
        let text = edits.iter().fold(entry.text.to_owned(), |text, edit| {
            // Flows of applications are no tables of their own.
            match edited(&text, std::slice::from_ref(edit)) {
                Err(_) if matches!(edit, Edit::Rename { table, .. } if table == "flow") => text,
                new => {
                    new.unwrap_or_else(|error| panic!("{}: {error}", entry.name))
                        .0
                }
            }
        });
        let renamed = loaded.clone().with_text(&text);
        let renamed = renamed.draft().and_then(|draft: Draft| draft.check());
        let renamed = renamed.unwrap_or_else(|error| panic!("{}: {}", entry.name, error.to_line()));
        assert_eq!(renamed.hosts.len(), plan.hosts.len(), "{}", entry.name);
        let known = |name: &str| name.ends_with("-2");
        assert!(
            renamed.hosts.iter().all(|host| known(&host.name)),
            "{}",
            entry.name
        );
    }
}

#[test]
fn what_a_campaign_sets_follows_a_rename_in_its_order_and_with_its_comments() {
    let text = r#"[set]
# The rate.
"link/access/up/b" = "rate {rate}" # as it is
'link/accessible/up/b' = "rate 1Mbit"
duration = "1s"
"flow/access/cc" = "{cc}"
[axis]
rate = ["link/access"]
[scenario]
[[scenario.link]]
name = "access"
"#;
    let rename = Edit::Rename {
        table: "link".to_owned(),
        name: "access".to_owned(),
        to: "home".to_owned(),
    };
    let (renamed, _) = edited(text, &[rename]).expect("renamed");
    let expected = text
        .replace("\"link/access/up/b\"", "\"link/home/up/b\"")
        .replace("[\"link/access\"]", "[\"link/home\"]")
        .replace("name = \"access\"", "name = \"home\"");
    assert_eq!(renamed, expected);
}

#[test]
fn what_is_wild_is_refused_and_never_panics() {
    let wild = "\"\\\u{0}\n[[x]]";
    for edits in [
        json!([{ "op": "add", "table": wild, "values": {} }]),
        json!([{ "op": "add", "table": "flow", "values": { wild: 1 } }]),
        json!([{ "op": "add", "table": "version", "values": {} }]),
        json!([{ "op": "set", "table": "flow", "name": "first", "key": wild, "value": 1 }]),
        json!([{ "op": "set", "table": "flow", "name": "first", "key": "x", "value": [null] }]),
        json!([{ "op": "element", "link": "access", "direction": "up", "index": 0, "action": "insert" }]),
    ] {
        assert!(edit(edits.clone()).is_err(), "{edits}");
    }
    assert!(
        edited(
            "= 1",
            &[Edit::Remove {
                table: String::new(),
                name: String::new()
            }]
        )
        .is_err()
    );
    let text = edit(
        json!([{ "op": "set", "table": "flow", "name": "first", "key": "cc", "value": wild }]),
    );
    assert!(Draft::read("x", text.expect("quoted").as_bytes()).is_ok());
}

/// A text with links to a router, and what is about their elements.
const ABOUT: &str = r#"version = 1
name = "x"
duration = "9s"
[[link]]
name = "near"
ends = ["client", "mid"]
up = ["netem delay 1ms", "tap t", "netem delay 2ms", "b: rate 5Mbit"]
[[link]]
name = "far"
ends = ["mid", "server"]
up = ["rate 9Mbit"]
[[proxy]]
name = "p"
host = "mid"
near_cc = "quickstart"
near_hint = "link/near/up/b"
[[flow]]
name = "one"
from = "client"
to = "server"
cc = "cubic"
via = "p"
[[flow]]
name = "two"
from = "mid"
to = "server"
cc = "cubic"
[[mark]]
name = "m"
signals = "d"
flows = ["one", "two"]
[[observe]]
name = "o"
tap = "tap/t"
[[change]]
at = "1s"
target = "link/near/up/netem"
to = "netem delay 5ms"
[[change]]
at = "2s"
target = "link/near/up/netem-2" # the second
to = "netem delay 6ms"
[[change]]
at = "3s"
target = "link/far/up/rate"
to = "rate 1Mbit"
"#;

/// The text after `edits`, which a check takes, and what went along.
fn removed(edits: serde_json::Value) -> (String, Vec<String>) {
    let edits: Vec<Edit> = serde_json::from_value(edits).expect("edits");
    let (text, along) = edited(ABOUT, &edits).expect("edited");
    let check = Draft::read("x.toml", text.as_bytes()).and_then(|draft| draft.check());
    if let Err(refusal) = check {
        panic!("{}\n{text}", refusal.to_line());
    }
    (text, along)
}

#[test]
fn what_is_about_an_element_goes_with_it_and_other_names_follow() {
    let element = |index: usize| {
        removed(
            json!([{ "op": "element", "link": "near", "direction": "up", "index": index,
            "action": "remove" }]),
        )
    };
    let (text, along) = element(0);
    assert_eq!(along, ["change of link/near/up/netem at 1s"]);
    assert!(
        text.contains("target = \"link/near/up/netem\" # the second"),
        "{text}"
    );
    let (_, along) = element(1);
    assert_eq!(along, ["observe o"]);
    let (_, along) = element(2);
    assert_eq!(along, ["change of link/near/up/netem-2 at 2s"]);
    let (text, along) = element(3);
    assert_eq!(along, ["`near_hint` of proxy p"]);
    assert!(text.contains("netem-2"), "{text}");
}

#[test]
fn what_is_about_a_table_goes_with_it_and_with_what_goes() {
    let (text, along) = removed(json!([{ "op": "remove", "table": "flow", "name": "one" }]));
    assert_eq!(along, [""; 0]);
    assert!(
        text.contains("flows = [\"two\"]") || text.contains("flows = [ \"two\"]"),
        "{text}"
    );
    let (_, along) = removed(json!([{ "op": "remove", "table": "proxy", "name": "p" }]));
    assert_eq!(along, ["`via` of flow one"]);
    // An end of a link that has no table is a host as well.
    let (text, along) = removed(json!([{ "op": "remove", "table": "host", "name": "client" }]));
    assert_eq!(
        along,
        [
            "link near",
            "flow one",
            "observe o",
            "change of link/near/up/netem at 1s",
            "change of link/near/up/netem-2 at 2s",
            "`near_hint` of proxy p",
        ]
    );
    assert!(text.contains("link/far/up/rate"), "{text}");
}

#[test]
fn a_change_of_the_only_link_by_its_short_name_goes_with_the_element() {
    let text = TEXT.replace("link/access/up/bottleneck", "link/up/bottleneck");
    let edits = json!([{ "op": "element", "link": "access", "direction": "up", "index": 1,
        "action": "remove" }]);
    let edits: Vec<Edit> = serde_json::from_value(edits).expect("edits");
    let (text, along) = edited(&text, &edits).expect("edited");
    assert_eq!(along, ["change of link/up/bottleneck at 1s"]);
    assert!(!text.contains("[[change]]"), "{text}");
}

#[test]
fn what_a_campaign_sets_of_an_element_goes_with_it() {
    let text = "[set]\n\"link/a/up/rate\" = \"x\"\n\"flow/f/cc\" = \"y\"\n[[scenario.link]]\n\
                name = \"a\"\nends = [\"c\", \"d\"]\nup = [\"rate 1Mbit\"]\n";
    let edits = json!([{ "op": "element", "link": "a", "direction": "up", "index": 0,
        "action": "remove" }]);
    let edits: Vec<Edit> = serde_json::from_value(edits).expect("edits");
    let (text, along) = edited(text, &edits).expect("edited");
    assert_eq!(along, ["`link/a/up/rate` of [set]"]);
    assert!(
        text.contains("flow/f/cc") && !text.contains("link/a"),
        "{text}"
    );
}
