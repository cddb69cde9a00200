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
    edited(TEXT, &edits)
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
                new => new.unwrap_or_else(|error| panic!("{}: {error}", entry.name)),
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
    let renamed = edited(text, &[rename]).expect("renamed");
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
