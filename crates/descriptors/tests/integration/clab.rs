//! Topologies of containerlab: every feature, and every refusal where it stands.

use narrows_descriptors::Format;

use crate::{read, refused};

fn clab(text: &str) -> narrows_descriptors::Imported {
    read(text, Format::Containerlab)
}

fn no_clab(text: &str) -> String {
    refused(text, Format::Containerlab)
}

/// Two hosts and a router, in all the ways of writing them.
const LAB: &str = r#"name: campus
mgmt:
  network: mine
topology:
  defaults:
    labels:
      owner: me
      narrows/scenario: |
        duration = "20s"

        [[flow]]
        name = "prague"
        from = "client"
        to = "server"
        cc = "prague"
  kinds:
    linux:
      image: alpine:3
  groups:
    edge:
      kind: linux
      exec: ["ip link"]
  nodes:
    client:
      group: edge
    server: {kind: linux, binds: ["a:b"]}
    core:
      kind: bridge
  links:
    - endpoints: ["client:eth1", "core:eth1"]
      mtu: 1400
      ipv4: ["192.0.2.1/24", ""]
      vars:
        narrows/name: access
        narrows/up: "netem delay 10ms; bottleneck: rate 50Mbit queue dualpi2"
        narrows/down:
          - netem delay 10ms
        colour: red
    - type: veth
      endpoints:
        - {node: core, interface: eth2}
        - node: server
          interface: net0
          ipv4: 192.0.2.2/24
          mac: 02:00:00:00:00:01
      labels:
        narrows/up: |
          netem delay 5ms
          tap mid
"#;

#[test]
fn a_topology_is_the_scenario_that_it_draws() {
    let imported = clab(LAB);
    let plan = &imported.plan;
    assert_eq!(plan.name, "campus");
    assert_eq!(plan.duration.to_string(), "20s");
    let names: Vec<_> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["client", "core", "server"]);
    let routers: Vec<_> = plan.hosts.iter().map(|host| host.router).collect();
    assert_eq!(routers, [false, true, false]);
    assert_eq!(plan.hosts[0].ipv4.to_string(), "192.0.2.1");
    assert_eq!(plan.hosts[2].ipv4.to_string(), "192.0.2.2");
    let access = &plan.links[0];
    assert_eq!((access.name.as_str(), access.mtu), ("access", 1400));
    let up: Vec<_> = access.up.iter().map(|e| e.spec.to_string()).collect();
    assert_eq!(up, ["netem delay 10ms", "rate 50Mbit queue dualpi2"]);
    assert_eq!(access.up[1].name, "link/access/up/bottleneck");
    assert_eq!(access.down.len(), 1);
    let second = &plan.links[1];
    assert_eq!(second.name, "core-server");
    assert_eq!(second.up[1].name, "tap/mid");
    assert_eq!(plan.flows[0].name, "prague");
}

#[test]
fn what_has_no_counterpart_is_named_with_its_line() {
    let notes = clab(LAB).notes.join("\n");
    for named in [
        "`mgmt` of the file (line 2)",
        "`owner` of defaults/labels (line 7)",
        "`image` of kinds (line 18)",
        "`exec` of groups (line 22)",
        "`binds` of nodes (line 26)",
        "`colour` of the vars of links (line 38)",
        "`mac` of endpoints (line 45)",
        "the name of an interface (line 42)",
        "the length of an address's prefix (2 times, first in line 32)",
    ] {
        assert!(notes.contains(named), "{named}\n{notes}");
    }
    assert_eq!(notes.lines().count(), 9, "{notes}");
}

#[test]
fn an_environment_variable_is_refused_where_it_would_be_read() {
    let text = "name: two
topology:
  nodes:
    a: {kind: linux, image: \"${IMAGE:=alpine}\"}
    b: {kind: linux}
  links:
    - endpoints: [\"a:eth1\", \"b:eth1\"]
      vars: {narrows/up: \"rate 20Mbit queue pfifo\"}
";
    // What is left out is not read.
    assert!(clab(text).notes.join("\n").contains("`image` of nodes"));
    for (from, to, place, named) in [
        ("name: two", "name: lab-$USER", ":1:11:", "`$USER`"),
        ("a: {kind", "${A}: {kind", ":4:5:", "`${A}`"),
        (
            "b: {kind: linux",
            "b: {kind: \"${KIND}\"",
            ":5:",
            "`${KIND}`",
        ),
        ("b:eth1", "b:${IF}", ":7:", "`${IF}`"),
        (
            "rate 20Mbit",
            "rate ${RATE:=20Mbit}",
            ":8:",
            "`${RATE:=20Mbit}`",
        ),
    ] {
        let said = no_clab(&text.replacen(from, to, 1));
        assert!(said.contains(place) && said.contains(named), "{said}");
        assert!(said.contains("environment variable"), "{said}");
    }
}

#[test]
fn a_command_of_the_scenario_keeps_its_variables_and_a_note_says_so() {
    let text = LAB.replace(
        "        [[flow]]",
        "        [[command]]
        name = \"say\"
        host = \"client\"
        run = [\"sh\", \"-c\", \"echo $HOME\"]

        [[flow]]",
    );
    let imported = clab(&text);
    assert_eq!(imported.plan.commands[0].run[2], "echo $HOME");
    let notes = imported.notes.join("\n");
    assert!(
        notes.contains("`$HOME` in the label narrows/scenario (line 14) stays as it is"),
        "{notes}"
    );
}

#[test]
fn anchors_and_merged_maps_are_followed() {
    let text = "topology:
  nodes:
    a: &host {kind: linux}
    b: *host
    c: {<<: *host, image: x}
  links:
    - endpoints: [\"a:eth1\", \"b:eth1\"]
    - endpoints: [\"b:eth2\", \"c:eth1\"]
";
    let imported = clab(text);
    assert_eq!(imported.plan.hosts.len(), 3);
    assert!(imported.plan.hosts[1].router);
    // Without traffic of its own a scenario does something all the same.
    assert_eq!(imported.plan.probes.len(), 1);
    let notes = imported.notes.join("\n");
    assert!(
        notes.contains("a probe from `a` to `c` was added"),
        "{notes}"
    );
}

#[test]
fn a_node_without_a_group_is_of_the_defaults_or_its_kind_s() {
    let text = "topology:
  defaults: {group: edge}
  kinds: {linux: {group: second}}
  groups:
    edge: {kind: linux, labels: {narrows/role: router}}
    second: {labels: {narrows/role: host}}
  nodes: {a: , b: {kind: linux}}
  links: [{endpoints: [\"a:eth1\", \"b:eth1\"]}]
";
    let plan = clab(text).plan;
    assert!(plan.hosts[0].router && !plan.hosts[1].router);
}

#[test]
fn nodes_that_no_link_ends_at_are_left_out_by_name() {
    let text = "topology:
  nodes: {a: {kind: linux}, b: {kind: linux}, lonely: {kind: linux}}
  links: [{endpoints: [\"a:eth1\", \"b:eth1\"]}]
";
    let imported = clab(text);
    assert_eq!(imported.plan.hosts.len(), 2);
    assert!(imported.notes.iter().any(|note| note.contains("`lonely`")));
}

#[test]
fn links_between_the_same_nodes_have_names_of_their_own() {
    let text = "topology:
  nodes: {a: {kind: linux}, b: {kind: linux}}
  links:
    - endpoints: [\"a:eth1\", \"b:eth1\"]
    - endpoints: [\"a:eth2\", \"b:eth2\"]
";
    let plan = clab(text).plan;
    let names: Vec<_> = plan.links.iter().map(|link| link.name.as_str()).collect();
    assert_eq!(names, ["a-b", "a-b-2"]);
}

/// A topology of two hosts whose link says `link`, or whose second node is `node`.
fn with(node: &str, link: &str) -> String {
    format!(
        "name: x
topology:
  nodes:
    a: {{kind: linux}}
    b: {node}
  links:
    - endpoints: [\"a:eth1\", \"b:eth1\"]
{link}"
    )
}

const LINUX: &str = "{kind: linux}";

#[test]
fn of_merged_maps_the_first_counts() {
    let text = with("{<<: [*first, {kind: bridge}]}", "").replacen(
        "topology:",
        "x-first: &first {kind: linux}\ntopology:",
        1,
    );
    let imported = clab(&text);
    let b = imported.plan.hosts.iter().find(|host| host.name == "b");
    assert!(b.is_some_and(|b| !b.router), "{}", imported.plan.to_toml());
}

#[test]
fn a_key_of_ours_in_vars_and_labels_is_refused() {
    let both =
        "      vars: {narrows/up: netem delay 2ms}\n      labels: {narrows/up: netem delay 1ms}\n";
    let said = no_clab(&with(LINUX, both));
    assert!(said.contains("once, in `vars` or in `labels`"), "{said}");
}

#[test]
fn a_refusal_has_no_control_characters_of_a_file() {
    let text = with(LINUX, "").replace("    b:", "    \"b\\e[31m\\nx\": {kind: linux}\n    b:");
    let said = no_clab(&text);
    assert!(!said.contains(char::is_control), "{said:?}");
}

#[test]
fn what_is_refused_is_refused_where_it_stands() {
    let mut wrong = Vec::new();
    for (text, place, named) in [
        (
            with("{kind: nokia_srlinux}", ""),
            "lab:5:15",
            "`linux` or `bridge`",
        ),
        (
            with("{kind: linus}", ""),
            "lab:5:15",
            "did you mean `linux`?",
        ),
        (with("{image: x}", ""), "lab:5:5", "`kind: linux`"),
        (with(LINUX, "      mtu: 12\n"), "lab:8:12", "128 to 65535"),
        (
            with(LINUX, "      mtu: 02570\n"),
            "lab:8:12",
            "without a zero",
        ),
        (
            with(LINUX, "      vars: {narrows/up: \"rate 5Mbit; ; ;\"}\n"),
            "lab:8:26",
            "an empty element",
        ),
        (
            with(LINUX, "      vars: {narrows/up: [\"rate 5Mbit\", \"\"]}\n"),
            "lab:8:41",
            "an empty element",
        ),
        (
            with(LINUX, "    - endpoints: [\"a:eth2\"]\n"),
            "lab:8:18",
            "two endpoints",
        ),
        (
            with(LINUX, "    - endpoints: [\"a:eth2\", \"c:eth1\"]\n"),
            "lab:8:30",
            "found `c`",
        ),
        (
            with(LINUX, "    - endpoints: [\"a:eth1\", \"b:eth2\"]\n"),
            "lab:8:20",
            "second time",
        ),
        (
            with(LINUX, "    - endpoints: [\"a:eth2\", \"host:b-1\"]\n"),
            "lab:8:30",
            "`host`",
        ),
        (
            with(LINUX, "    - endpoints: [\"a\", \"b:eth2\"]\n"),
            "lab:8:19",
            "NODE:INTERFACE",
        ),
        (
            with(
                LINUX,
                "    - {type: vxlan, endpoint: {node: a, interface: eth2}}\n",
            ),
            "lab:8:14",
            "`vxlan`",
        ),
        (
            with(LINUX, "      vars: {narrows/upp: x}\n"),
            "lab:8:14",
            "did you mean `narrows/up`?",
        ),
        (
            with(
                LINUX,
                "      vars: {narrows/up: \"netem delay 10ms; netme loss 1%\"}\n",
            ),
            "lab:8:45",
            "`netme`",
        ),
        (
            with(
                LINUX,
                "      vars:\n        narrows/down: |\n          netem delay 1ms\n          rate 5Mbit queue coddel\n",
            ),
            "lab:11:28",
            "did you mean `codel`?",
        ),
        (
            with(LINUX, "      vars: {narrows/datapath: fast}\n"),
            "lab:8:32",
            "`kernel`",
        ),
        (
            with("{kind: linux, labels: {narrows/role: boss}}", ""),
            "lab:5:45",
            "`router`",
        ),
        (
            with("{kind: linux, labels: {narrows/ipv4: here}}", ""),
            "lab:5:45",
            "here",
        ),
        (
            with("{kind: linux, labels: {narrows/name: a}}", ""),
            "lab:5:5",
            "line 4",
        ),
        (
            with("{kind: bridge, labels: {narrows/is: \"swich\"}}", ""),
            "lab:5:",
            "swich",
        ),
        (
            "topology:\n  nodes: {a: {kind: linux}}\n".to_owned(),
            "lab:2:3",
            "a link",
        ),
        ("name: x\n".to_owned(), "lab:1:1", "`topology`"),
        ("topology: []\n".to_owned(), "lab:1:11", "a map"),
        (
            "topology:\n  nodes: {a: {kind: !x linux}}\n".to_owned(),
            "lab:2:",
            "a tag",
        ),
        (
            "topology: {a: 1, a: 2}\n".to_owned(),
            "lab:1:18",
            "a second time",
        ),
        ("topology: [\n".to_owned(), "lab:", "no YAML"),
    ] {
        let line = no_clab(&text);
        if !line.starts_with(place) || !line.contains(named) {
            wrong.push(format!("{place}, {named}: {line}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_wrong_in_a_label_s_scenario_is_refused_where_it_stands() {
    let with = |rest: &str| {
        format!(
            "topology:
  defaults:
    labels:
      narrows/scenario: |
{rest}  nodes: {{a: {{kind: linux}}, b: {{kind: linux}}}}
  links: [{{endpoints: [\"a:eth1\", \"b:eth1\"]}}]
"
        )
    };
    for (rest, place, named) in [
        ("        duration = \"20\"\n", "lab:5:20", "a time"),
        (
            "        [[flow]]\n        name = \"f\"\n        from = \"a\"\n        to = \"b\"\n        cc = \"cubik\"\n",
            "lab:9:15",
            "`cubic`",
        ),
        (
            "        seed = 1\n        [[link]]\n        name = \"x\"\n",
            "lab:6:11",
            "`link`",
        ),
        ("        seed = = 1\n", "lab:5:", "no TOML"),
    ] {
        let line = no_clab(&with(rest));
        assert!(
            line.starts_with(place) && line.contains(named),
            "{place}: {line}"
        );
    }
}
