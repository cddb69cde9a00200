//! What is written for other tools.

use std::process::Command;

use narrows_descriptors::{Target, export, export_script};
use narrows_yaml::{Bounds, Node, Value};

use crate::catalogue::unnamed;
use crate::{WITH_LOSSES, plan};

const LAB: &str = r#"
version = 1
name = "two hops"
duration = "5s"
[[link]]
name = "access"
ends = ["client", "router"]
up = ["netem delay 2ms", "bottleneck: rate 50Mbit queue dualpi2"]
down = ["rate 50Mbit queue pfifo limit 100", "tap mid"]
[[link]]
name = "core"
ends = ["router", "server"]
mtu = 1400
down = ["police rate 10Mbit burst 20kb"]
[[flow]]
name = "up"
from = "client"
to = "server"
cc = "cubic"
"#;

/// A lab whose disciplines every kernel with tbf has.
const PLAIN: &str = r#"
version = 1
name = "plain"
duration = "5s"
[[link]]
name = "access"
ends = ["client", "router"]
up = ["rate 50Mbit queue pfifo limit 100", "rate 80Mbit queue pfifo"]
down = ["rate 50Mbit queue pfifo limit 100"]
[[link]]
name = "core"
ends = ["router", "server"]
[[link]]
name = "side"
ends = ["other", "router"]
up = ["rate 20Mbit"]
[[probe]]
name = "p"
from = "client"
to = "server"
"#;

fn yaml(text: &str) -> Node {
    narrows_yaml::parse(text, Bounds::default()).unwrap_or_else(|e| panic!("{e:?}\n{text}"))
}

fn entries(node: &Node) -> Vec<(String, Node)> {
    match &node.value {
        Value::Map(map) => map
            .iter()
            .map(|(k, n)| (k.name.to_string(), n.clone()))
            .collect(),
        _ => panic!("a map: {node:?}"),
    }
}

#[test]
fn a_script_has_a_namespace_for_each_host_and_each_element() {
    let written = export(&plan(LAB), Target::Shell);
    let text = &written.text;
    for line in [
        "ip netns add nw-client",
        "ip netns add nw-link-access-1",
        "ip netns add nw-link-access-2",
        "ip -n nw-client address add 10.0.0.1/32 dev lo",
        "shape nw-link-access-1 qdisc add dev eth2 root handle 1: netem delay 2ms limit 1000000",
        "shape nw-link-access-2 qdisc add dev eth2 parent 1:1 handle 2: dualpi2",
        "shape nw-link-access-2 qdisc add dev eth1 parent 1:1 handle 2: pfifo limit 100",
        "# `tc … dualpi2` needs Linux 6.17 and iproute2 6.18",
        "iperf3 -c 10.0.0.3 -C cubic",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
    let here = export_script(&plan(LAB), &["cake", "dualpi2"]).text;
    let line = "# The kernel on which this was written has no dualpi2.\n";
    assert!(here.contains(line) && !text.contains(line), "{here}");
    let lost: Vec<_> = written.lost.iter().map(|lost| lost.what.as_str()).collect();
    assert_eq!(
        lost,
        ["tap/mid", "link/core/down/police", "flow/up", "duration"]
    );
}

#[test]
fn a_topology_has_the_keys_that_containerlab_s_schema_knows() {
    let text = export(&plan(LAB), Target::Containerlab).text;
    let root = yaml(&text);
    let keys = |node: &Node| {
        entries(node)
            .into_iter()
            .map(|(key, _)| key)
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&root), ["name", "topology"]);
    let name = root.get("name").and_then(Node::text).expect("a name");
    assert!(
        name.chars()
            .all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)),
        "{name}"
    );
    let topology = root.get("topology").expect("a topology");
    assert_eq!(keys(topology), ["defaults", "kinds", "nodes", "links"]);
    for (name, node) in entries(topology.get("nodes").expect("nodes")) {
        assert!(
            name.starts_with(|c: char| c.is_ascii_alphanumeric()),
            "{name}"
        );
        for key in keys(&node) {
            assert!(
                ["kind", "labels", "sysctls", "exec"].contains(&key.as_str()),
                "{key}"
            );
        }
    }
    let Value::List(links) = &topology.get("links").expect("links").value else {
        panic!("a list");
    };
    for link in links.iter() {
        assert_eq!(link.get("type").and_then(Node::text), Some("veth"));
        for key in keys(link) {
            assert!(
                ["type", "endpoints", "mtu", "labels"].contains(&key.as_str()),
                "{key}"
            );
        }
        for (_, label) in entries(link.get("labels").expect("labels")) {
            assert!(label.text().is_some());
        }
    }
}

/// A scenario with every key but those of traffic.
const WHOLE: &str = r#"
version = 1
name = "whole"
title = "A title"
about = "What it is about"
source = "A paper"
duration = "20s"
measure = "5s..15s"
seed = 7
sample_interval = "20ms"
expected = ["idle-bottleneck"]
[host_model]
tick = "4ms"
[[window]]
name = "late"
over = "10s..15s"
[[host]]
name = "client"
ipv4 = "10.1.0.1"
ipv6 = "fd01::1"
[[link]]
name = "access"
ends = ["client", "server"]
mtu = 1400
datapath = "kernel"
up = ["bottleneck: rate 50Mbit queue pfifo"]
[[flow]]
name = "up"
from = "client"
to = "server"
cc = "cubic"
"#;

#[test]
fn every_key_that_a_format_loses_is_named() {
    let plan = plan(WHOLE);
    let said: toml::Table = plan.to_toml().parse().expect("TOML");
    for key in ["title", "seed", "sample_interval", "expected", "window"] {
        assert!(said.contains_key(key), "{key}: {}", plan.to_toml());
    }
    for target in WITH_LOSSES {
        let written = export(&plan, target);
        let none = Vec::<String>::new();
        assert_eq!(unnamed(&plan, &written), none, "{target:?}");
        let lost: Vec<_> = written.lost.iter().map(|lost| lost.what.as_str()).collect();
        let of_network: &[&str] = match target {
            Target::Sol006 | Target::Osm => &[
                "host/client/ipv4",
                "host/client/ipv6",
                "link/access/mtu",
                "link/access/datapath",
                "link/access/up/bottleneck",
            ],
            _ => &["host/client/ipv6"],
        };
        for what in of_network {
            assert!(lost.contains(what), "{target:?}: {what}: {lost:?}");
        }
    }
    // From intents the same scenario is read.
    assert!(export(&plan, Target::Nemo).lost.is_empty());
}

#[test]
fn services_are_at_networks_that_there_are() {
    let text = export(&plan(LAB), Target::Compose).text;
    let root = yaml(&text);
    let networks = entries(root.get("networks").expect("networks"));
    // Three wires of the first link, whose elements stand in a row, and one of the second.
    assert_eq!(networks.len(), 4, "{text}");
    let mut ends = 0;
    for (name, service) in entries(root.get("services").expect("services")) {
        assert!(service.get("image").is_some(), "{name}");
        for (network, end) in entries(service.get("networks").expect("networks")) {
            assert!(
                networks.iter().any(|(known, _)| *known == network),
                "{network}"
            );
            assert!(end.get("ipv4_address").is_some() && end.get("interface_name").is_some());
            ends += 1;
        }
    }
    assert_eq!(ends, 8);
}

#[test]
fn a_program_for_mininet_is_python() {
    let text = export(&plan(LAB), Target::Mininet).text;
    let at = tempfile::tempdir().expect("a folder");
    std::fs::write(at.path().join("lab.py"), text).expect("a file");
    // The lists in it are read without Mininet.
    let check = "import ast, sys
tree = ast.parse(open('lab.py').read())
found = {n.targets[0].id: ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign)}
assert len(found['NODES']) == 5, found
assert len(found['WIRES']) == 4, found
assert ('link-access-2', ['tc', 'qdisc', 'add', 'dev', 'eth2', 'parent', '1:1', 'handle', '2:', 'dualpi2']) in found['COMMANDS'], found
";
    let ran = Command::new("python3")
        .args(["-c", check])
        .current_dir(at.path())
        .output();
    match ran {
        Ok(ran) => assert!(ran.status.success(), "{ran:?}"),
        Err(e) => eprintln!("skipped: a_program_for_mininet_is_python: {e}"),
    }
}

#[test]
fn a_descriptor_of_a_scenario_refers_to_what_is_in_it() {
    for (target, osm) in [(Target::Osm, true), (Target::Sol006, false)] {
        let written = export(&plan(LAB), target);
        let root = yaml(&written.text);
        let vnfd = match osm {
            true => root.get("vnfd").expect("vnfd").clone(),
            false => match &root
                .get("etsi-nfv-descriptors:nfv")
                .and_then(|n| n.get("vnfd"))
                .expect("vnfd")
                .value
            {
                Value::List(list) => list[0].clone(),
                _ => panic!("a list"),
            },
        };
        let ids = |key: &str| -> Vec<String> {
            let Some(Value::List(list)) = vnfd.get(key).map(|node| &node.value) else {
                return Vec::new();
            };
            list.iter()
                .filter_map(|n| n.get("id").and_then(Node::text).map(str::to_owned))
                .collect()
        };
        assert_eq!(ids("vdu"), ["client", "router", "server"]);
        assert_eq!(ids("int-virtual-link-desc"), ["access", "core"]);
        let Value::List(vdus) = &vnfd.get("vdu").expect("vdu").value else {
            panic!("a list");
        };
        let mut points = Vec::new();
        for vdu in vdus.iter() {
            let image = vdu.get("sw-image-desc").and_then(Node::text);
            // By SOL 006 an image has a digest, which nobody knows.
            assert_eq!(image.is_some(), osm);
            assert!(image.is_none_or(|image| ids("sw-image-desc").iter().any(|id| id == image)));
            let Value::List(list) = &vdu.get("int-cpd").expect("int-cpd").value else {
                panic!("a list");
            };
            for point in list.iter() {
                points.push(
                    point
                        .get("id")
                        .and_then(Node::text)
                        .expect("an id")
                        .to_owned(),
                );
                if let Some(link) = point.get("int-virtual-link-desc").and_then(Node::text) {
                    assert!(ids("int-virtual-link-desc").iter().any(|id| id == link));
                }
            }
        }
        assert_eq!(
            points,
            [
                "client-eth1",
                "client-mgmt",
                "router-eth1",
                "router-eth2",
                "server-eth1"
            ]
        );
        assert_eq!(ids("ext-cpd"), ["mgmt"]);
        assert!(
            written
                .lost
                .iter()
                .any(|lost| lost.what == "link/access/up/bottleneck")
        );
    }
}

/// Runs `script`, which calls the program `needs`, as root of a user namespace with a network and
/// mounts of its own; `None` if there is none to be had.
#[cfg(target_os = "linux")]
fn in_namespaces(
    name: &str,
    folder: &std::path::Path,
    needs: &str,
    script: &str,
) -> Option<std::process::Output> {
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--net",
            "--mount",
            "sh",
            "-c",
            script,
        ]);
        command.current_dir(folder).output()
    };
    let trial = inside(&format!(
        "mount -t tmpfs none /run && ip netns add t && ip netns delete t && command -v {needs}"
    ));
    match trial {
        Ok(trial) if trial.status.success() => {}
        other => {
            eprintln!("skipped: {name}: no namespaces, ip or {needs}: {other:?}");
            return None;
        }
    }
    Some(inside(script).expect("it starts"))
}

#[cfg(target_os = "linux")]
#[test]
fn a_script_sets_a_network_up_and_takes_it_down() {
    let name = "a_script_sets_a_network_up_and_takes_it_down";
    let at = tempfile::tempdir().expect("a folder");
    let script = export(&plan(PLAIN), Target::Shell).text;
    std::fs::write(at.path().join("lab.sh"), &script).expect("a file");
    let run = "mount -t tmpfs none /run
        sh lab.sh up; echo \"up $?\"
        for to in 10.0.0.2 10.0.0.3 10.0.0.4; do
            ip netns exec nw-client ping -c 1 -W 5 $to >/dev/null; echo \"ping $?\"
        done
        ip netns exec nw-other ping -c 1 -W 5 10.0.0.3 >/dev/null; echo \"ping $?\"
        tc -n nw-link-access-1 qdisc show dev eth2
        sh lab.sh up; echo \"again $?\"
        sh lab.sh down; echo \"down $?\"
        echo \"left: $(ls /run/netns | wc -l)\"
        sh lab.sh down; echo \"down $?\"
        sh lab.sh; echo \"usage $?\"";
    let Some(output) = in_namespaces(name, at.path(), "ping", run) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if said.starts_with("up 3") {
        eprintln!("skipped: {name}: {errors}");
        return;
    }
    assert!(
        said.starts_with("up 0\nping 0\nping 0\nping 0\nping 0\n"),
        "{said}\n{errors}\n{script}"
    );
    assert!(
        said.contains("tbf 1: root") && said.contains("rate 50Mbit"),
        "{said}"
    );
    assert!(
        said.ends_with("again 1\ndown 0\nleft: 0\ndown 0\nusage 2\n"),
        "{said}\n{errors}"
    );
    assert!(errors.contains("is there already"), "{errors}");
}

/// A chain of so many links, each with one element that is a hop of its own.
fn chain(links: usize) -> String {
    let mut text = "version = 1\nname = \"chain\"\nduration = \"5s\"\n".to_owned();
    for link in 0..links {
        text += &format!(
            "[[link]]\nname = \"l{link}\"\nends = [\"h{link}\", \"h{}\"]\nup = [\"rate 50Mbit\"]\n",
            link + 1
        );
    }
    text + &format!("[[probe]]\nname = \"p\"\nfrom = \"h0\"\nto = \"h{links}\"\n")
}

#[test]
fn hosts_that_no_packet_gets_to_are_named() {
    for target in [Target::Shell, Target::Mininet, Target::Compose] {
        let far = |links| {
            let written = export(&plan(&chain(links)), target);
            assert!(written.text.contains("ip_default_ttl"), "{target:?}");
            let mut lost = written.lost.into_iter();
            lost.find(|lost| lost.what == "far hosts")
        };
        assert_eq!(far(127), None, "254 hops");
        let found = far(128).expect("256 hops");
        assert!(found.why.contains("there are 256 hops"), "{found:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_packet_passes_more_elements_than_linux_s_own_ttl() {
    let name = "a_packet_passes_more_elements_than_linux_s_own_ttl";
    let at = tempfile::tempdir().expect("a folder");
    let links = 34;
    let script = export(&plan(&chain(links)), Target::Shell).text;
    std::fs::write(at.path().join("lab.sh"), &script).expect("a file");
    let run = format!(
        "mount -t tmpfs none /run
        sh lab.sh up
        ip netns exec nw-h0 timeout 10 bash -c 'echo >/dev/tcp/10.0.0.{}/9'
        sh lab.sh down",
        links + 1
    );
    let Some(output) = in_namespaces(name, at.path(), "bash", &run) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    // Nobody listens there.
    assert!(errors.contains("Connection refused"), "{said}\n{errors}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_script_that_a_signal_ends_leaves_nothing() {
    let name = "a_script_that_a_signal_ends_leaves_nothing";
    let at = tempfile::tempdir().expect("a folder");
    let script = export(&plan(PLAIN), Target::Shell).text;
    let place = "\n    # Addresses, routes";
    assert!(script.contains(place), "{script}");
    let script = script.replace(place, &format!("\n    kill -$SIGNAL $${place}"));
    std::fs::write(at.path().join("lab.sh"), &script).expect("a file");
    // What starts the tests may have them ignored.
    let run = "mount -t tmpfs none /run
        for signal in INT TERM HUP; do
            SIGNAL=$signal env --default-signal=INT,TERM,HUP sh lab.sh up; echo \"$signal $?\"
            echo \"left: $(ls /run/netns | wc -l)\"
        done";
    let Some(output) = in_namespaces(name, at.path(), "env", run) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("env: ") {
        eprintln!("skipped: {name}: {errors}");
        return;
    }
    let expected = "INT 130\nleft: 0\nTERM 143\nleft: 0\nHUP 129\nleft: 0\n";
    assert_eq!(said, expected, "{errors}");
}

#[cfg(target_os = "linux")]
#[test]
fn what_the_machine_cannot_do_is_said_and_the_rest_is_up() {
    let name = "what_the_machine_cannot_do_is_said_and_the_rest_is_up";
    let at = tempfile::tempdir().expect("a folder");
    let script = export(&plan(LAB), Target::Shell).text;
    // A queue that no machine has.
    let script = script.replace("dualpi2", "nosuchqueue");
    std::fs::write(at.path().join("lab.sh"), &script).expect("a file");
    let run = "mount -t tmpfs none /run
        sh lab.sh up; echo \"up $?\"
        ip netns exec nw-client ping -c 1 -W 5 10.0.0.3 >/dev/null; echo \"ping $?\"
        sh lab.sh down; echo \"left: $(ls /run/netns | wc -l)\"";
    let Some(output) = in_namespaces(name, at.path(), "ping", run) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, "up 3\nping 0\nleft: 0\n", "{errors}");
    assert!(
        errors.contains("left out, as this machine cannot do it") && errors.contains("nosuchqueue"),
        "{errors}"
    );
}
