//! A scenario as a script of `ip` and `tc`.

use std::fmt::Write;

use narrows_scenario::{Plan, Traffic};

use crate::Written;
use crate::quote::{command, comment, shell};
use crate::wiring::{Node, Wiring, switches};

/// What the names of namespaces begin with, so that nobody else's are taken down.
const PREFIX: &str = "nw-";

/// Writes a script that sets the network up in namespaces and takes it down.
pub(crate) fn write(plan: &Plan, lacks: &[&str]) -> Written {
    let wiring = Wiring::of(plan, true);
    let names: Vec<_> = wiring.nodes.iter().map(namespace).collect();
    let mut file = "#!/bin/sh\n".to_owned();
    file += &head(plan, &wiring, lacks);
    file += "set -eu\n\n# All namespaces, as `ip netns` lists them.\n";
    // Names are of letters, digits, `-`, `_` and `.` alone, so that a list of them is one of words.
    writeln!(file, "all='{}'", names.join("\n")).ok();
    file += HELP;
    file += "\nup() {\n";
    for name in &names {
        let (path, name) = (shell(&format!("/run/netns/{name}")), shell(name));
        writeln!(file, "    [ ! -e {path} ] || refuse {name}").ok();
    }
    file += TRAPS;
    for (place, (node, name)) in wiring.nodes.iter().zip(&names).enumerate() {
        write!(file, "\n{}", comment("    #", &capitalised(&node.about))).ok();
        writeln!(file, "    {}", command(&["ip", "netns", "add", name])).ok();
        let switches = switches(node);
        let line: Vec<_> = switches
            .map(|(n, v)| format!("echo {v} >/proc/sys/{n}"))
            .collect();
        let line = line.join("; ");
        writeln!(
            file,
            "    {}",
            command(&["ip", "netns", "exec", name, "sh", "-c", &line])
        )
        .ok();
        // The wires to nodes that are there by now.
        for wire in &wiring.wires {
            let [a, b] = &wire.ends;
            if a.node.max(b.node) != place {
                continue;
            }
            let line = [
                "ip",
                "link",
                "add",
                &a.interface,
                "netns",
                &names[a.node],
                "type",
                "veth",
                "peer",
                "name",
                &b.interface,
                "netns",
                &names[b.node],
            ];
            writeln!(file, "    {}", command(&line)).ok();
        }
    }
    file += "\n    # Addresses, routes, and the elements of the links.\n";
    for (place, name) in names.iter().enumerate() {
        let (ip, _) = wiring.set_up(place);
        for (_, near, _) in wiring.of_node(place) {
            // No segments are joined: a queue meets packets of the MTU, as on a wire.
            let line = [
                "ip",
                "-n",
                name,
                "link",
                "set",
                &near.interface,
                "gso_max_segs",
                "1",
            ];
            writeln!(file, "    {}", command(&line)).ok();
        }
        for words in ip {
            let words: Vec<_> = ["ip", "-n", name]
                .into_iter()
                .chain(words.iter().map(String::as_str))
                .collect();
            writeln!(file, "    {}", command(&words)).ok();
        }
        for (_, near, _) in wiring.of_node(place) {
            for (number, discipline) in near.disciplines.iter().enumerate() {
                if let Some(element) = near.element.as_ref().filter(|_| number == 0) {
                    file += &comment("    #", element);
                }
                let words = ["shape", name, "qdisc", "add", "dev", &near.interface];
                let words: Vec<_> = words
                    .into_iter()
                    .chain(discipline.iter().map(String::as_str))
                    .collect();
                writeln!(file, "    {}", command(&words)).ok();
            }
        }
    }
    file += "\n    trap - EXIT INT TERM HUP\n    exit \"$missing\"\n}\n";
    file += &traffic(plan, &wiring, &names);
    file += MAIN;
    let lost = wiring.lost;
    Written { text: file, lost }
}

/// Functions of every script.
const HELP: &str = r#"
missing=0

# Puts a discipline on a device; where this machine has not got it, the lab is up without it, and
# the script ends with status 3.
shape() {
    tc -n "$@" || {
        echo "left out, as this machine cannot do it: tc -n $*" >&2
        missing=3
    }
}

refuse() {
    echo "the namespace $1 is there already: take it down first" >&2
    exit 1
}

# Devices go with their namespaces.
down() {
    for name in $all; do
        if [ -e "/run/netns/$name" ]; then
            ip netns delete "$name"
        fi
    done
}
"#;

/// Where the network is not set up whole, nothing of it is left. A shell need not do what EXIT has
/// when a signal ends it: dash does not.
const TRAPS: &str = r#"    trap 'trap "" INT TERM HUP; down' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    trap 'exit 129' HUP
"#;

/// The end of every script.
const MAIN: &str = r#"
case "${1:-}" in
    up) up ;;
    down) down ;;
    *)
        echo "usage: sh $0 up|down (as root, or in a user namespace)" >&2
        exit 2
        ;;
esac
"#;

fn namespace(node: &Node) -> String {
    format!("{PREFIX}{}", node.name)
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// What the script is, what it needs, and what it leaves out.
fn head(plan: &Plan, wiring: &Wiring, lacks: &[&str]) -> String {
    let mut text = comment(
        "#",
        &format!("The scenario \"{}\" in network namespaces.", plan.name),
    );
    text += "#\n#   sh FILE up      sets it up\n#   sh FILE down    takes it down\n#\n";
    text += &comment(
        "#",
        "Every host is a namespace. Between the two hosts of a link is a row of namespaces that\n\
         forward, one for each element: there, and not on the sender's own device, where TCP would\n\
         hold its packets back, a queue fills as a router's does. A host's address is on its loopback\n\
         device; each pair of devices has a /29 of its own.",
    );
    for (kind, needs) in &wiring.needs {
        let line =
            format!("`tc … {kind}` needs {needs}; without them the lab comes up without it.");
        text += &comment("#", &line);
    }
    let used = |kind: &&&str| {
        let ends = wiring.wires.iter().flat_map(|wire| &wire.ends);
        let mut words = ends.flat_map(|end| end.disciplines.iter().flatten());
        words.any(|word| word == **kind)
    };
    let missing: Vec<_> = lacks.iter().filter(used).copied().collect();
    if !missing.is_empty() {
        let line = format!(
            "The kernel on which this was written has no {}.",
            missing.join(", ")
        );
        text += &comment("#", &line);
    }
    text += &crate::named("#", "What is not here:", &wiring.lost);
    text
}

/// How one would send the scenario's flows, as a comment.
fn traffic(plan: &Plan, wiring: &Wiring, names: &[String]) -> String {
    let place = |host: usize| wiring.nodes.iter().position(|node| node.host == Some(host));
    let mut text = String::new();
    for flow in &plan.flows {
        let bulk = matches!(flow.traffic, Traffic::Bulk | Traffic::Bytes(_));
        let Some(tcp) = flow.transport.tcp().filter(|_| bulk) else {
            continue;
        };
        let other = if flow.opens == flow.from {
            flow.to
        } else {
            flow.from
        };
        let (Some(opens), Some(listens)) = (place(flow.opens.0), place(other.0)) else {
            continue;
        };
        let address = plan.hosts[other.0].ipv4.to_string();
        let control = tcp.cc.to_string();
        let control = control.split_whitespace().next().unwrap_or("cubic");
        let control = control.trim_start_matches("kernel:");
        let serve = ["ip", "netns", "exec", &names[listens], "iperf3", "-s", "-1"];
        let mut send = vec![
            "ip",
            "netns",
            "exec",
            &names[opens],
            "iperf3",
            "-c",
            &address,
            "-C",
            control,
        ];
        if flow.opens != flow.from {
            send.push("-R");
        }
        text += &comment(
            "#",
            &format!(
                "  {} &   {}   (flow/{})",
                command(&serve),
                command(&send),
                flow.name
            ),
        );
    }
    match text.is_empty() {
        true => text,
        false => format!("\n# Its flows, as iperf3 would send them:\n{text}"),
    }
}
