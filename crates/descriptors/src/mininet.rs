//! A scenario as a program for Mininet (<https://mininet.org/api/>).

use std::fmt::Write;

use narrows_scenario::Plan;

use crate::Written;
use crate::quote::{comment, list, string};
use crate::wiring::{Wiring, switches};

/// Writes a Python program that sets the network up in Mininet and opens its command line.
pub(crate) fn write(plan: &Plan) -> Written {
    let wiring = Wiring::of(plan, true);
    let mut file = "#!/usr/bin/env python3\n".to_owned();
    file += &comment("#", &format!("The scenario \"{}\" in Mininet.", plan.name));
    file += &comment(
        "#",
        "Run as root: python3 FILE opens Mininet's command line, python3 FILE ping tries all hosts.\n\
         Between the two hosts of a link is a row of hosts that forward, one for each element, on\n\
         whose devices the disciplines are; no command passes a shell.",
    );
    for (kind, needs) in &wiring.needs {
        file += &comment("#", &format!("`tc … {kind}` needs {needs}."));
    }
    file += &crate::named("#", "What is not here:", &wiring.lost);
    file += HELP;
    file += "NODES = [\n";
    for node in &wiring.nodes {
        let (name, about) = (string(&node.name), string(&node.about));
        let forwards = if node.forwards { "True" } else { "False" };
        let address = node
            .address
            .map_or("None".to_owned(), |a| string(&a.to_string()));
        writeln!(file, "    ({name}, {forwards}, {address}, {about}),").ok();
    }
    file += "]\n\n# Two nodes, each with the interface.\nWIRES = [\n";
    for wire in &wiring.wires {
        let [a, b] = wire.ends.each_ref().map(|end| {
            let node = string(&wiring.nodes[end.node].name);
            format!("{node}, {}", string(&end.interface))
        });
        writeln!(file, "    ({a}, {b}),").ok();
    }
    file += "]\n\n# What is run in each node, in order.\nCOMMANDS = [\n";
    for (place, node) in wiring.nodes.iter().enumerate() {
        let name = string(&node.name);
        let (ip, tc) = wiring.set_up(place);
        for (_, near, _) in wiring.of_node(place) {
            let words = ["ip", "link", "set", &near.interface, "gso_max_segs", "1"];
            writeln!(file, "    ({name}, {}),", list(&words)).ok();
        }
        for (switch, value) in switches(node) {
            let words = format!("{}={value}", switch.replace('/', "."));
            writeln!(file, "    ({name}, {}),", list(&["sysctl", "-qw", &words])).ok();
        }
        for (program, lines) in [("ip", ip), ("tc", tc)] {
            for words in lines {
                let words: Vec<_> = std::iter::once(program.to_owned()).chain(words).collect();
                writeln!(file, "    ({name}, {}),", list(&words)).ok();
            }
        }
    }
    file += "]\n";
    file += MAIN;
    let lost = wiring.lost;
    Written { text: file, lost }
}

const HELP: &str = r#"
import sys

from mininet.cli import CLI
from mininet.net import Mininet

# Name, whether it forwards, address, what it is.
"#;

const MAIN: &str = r#"

def build():
    net = Mininet(topo=None, controller=None, build=False)
    for name, _, _, _ in NODES:
        net.addHost(name, ip=None)
    for a, at, b, bt in WIRES:
        net.addLink(net[a], net[b], intfName1=at, intfName2=bt)
    net.build()
    missing = 0
    for name, words in COMMANDS:
        out, error, code = net[name].pexec(words)
        if code != 0:
            missing += 1
            print(f"{name}: {' '.join(words)}: {out}{error}".strip(), file=sys.stderr)
    return net, missing


def ping(net):
    failed = 0
    hosts = [(name, address) for name, _, address, _ in NODES if address]
    for name, _ in hosts:
        for other, address in hosts:
            words = ["ping", "-c", "1", "-W", "5", address]
            if other != name and net[name].pexec(words)[2] != 0:
                failed += 1
                print(f"{name} does not reach {other} ({address})", file=sys.stderr)
    return failed


if __name__ == "__main__":
    net, wrong = build()
    try:
        if sys.argv[1:] == ["ping"]:
            wrong += ping(net)
        else:
            CLI(net)
    finally:
        net.stop()
    sys.exit(1 if wrong else 0)
"#;
