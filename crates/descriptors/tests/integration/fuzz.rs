//! Whatever is in a descriptor: it is read or refused, and what is read is a scenario that can be
//! written as every target.

use std::path::Path;

use narrows_descriptors::{Format, Target, export, import};
use narrows_fuzz::Corpus;

const CLAB: &str = "name: x
topology:
  defaults:
    kind: linux
    labels:
      narrows/scenario: |
        duration = \"2s\"
        [[probe]]
        name = \"p\"
        from = \"a\"
        to = \"c\"
  nodes:
    a: &host {labels: {narrows/ipv4: 10.1.1.1}}
    b: {kind: bridge, labels: {narrows/role: router}}
    c: *host
  links:
    - endpoints: [\"a:eth1\", \"b:eth1\"]
      mtu: 1400
      vars: {narrows/up: \"netem delay 1ms; rate 5Mbit queue fq_codel\"}
    - type: veth
      endpoints: [{node: b, interface: eth2}, {node: c, interface: eth1}]
      labels: {narrows/down: \"tap t\", narrows/name: second}
";

const NEMO: &str = "CREATE NodeModel m VNFD file:///m.yaml; ConnectionPoint p at VNFD: e0;
CREATE NodeModel c; Node a Type m; Node b Type m Property narrows-role: host, ipv4: 10.0.0.9;
  ConnectionPoint o; Connection l Type p2p Endnodes a.p, b.p Property narrows-up: \"netem delay 1ms\";
CREATE Node all Type c Property narrows-scenario: \"\"\"
duration = \"2s\"
\"\"\"; // the end
";

const WORDS: &[&str] = &[
    "CREATE ",
    "DELETE ",
    "UPDATE ",
    "NodeModel ",
    "Node ",
    "Connection ",
    "ConnectionPoint ",
    "Property ",
    "Endnodes ",
    "Type p2p ",
    "VNFD ",
    "\"\"\"",
    "\"",
    ";",
    ":",
    ".",
    "kind: ",
    "bridge",
    "linux",
    "endpoints: ",
    "labels: ",
    "narrows/up: ",
    "narrows/is: ",
    "narrows/scenario: ",
    "&a ",
    "*a",
    "<<: ",
    "[",
    "{",
    "|\n",
    "\n  ",
    "\t",
    "\u{0}",
    "\u{feff}",
    "é",
    "topology:",
    "- ",
    "switch buffer 1mb rate 1Gbit",
    "mtu: 65536",
];

#[test]
fn fuzz_descriptors() {
    let seeds = [(CLAB, Format::Containerlab), (NEMO, Format::Nemo)];
    for (seed, format) in seeds {
        let corpus = Corpus::of([seed.as_bytes().to_vec()]).with_words(WORDS);
        let mut read = 0;
        corpus.run(3_000, |input| {
            let text = String::from_utf8_lossy(input);
            let nowhere = Path::new("/nonexistent");
            match import("fuzz", &text, nowhere, Some(format)) {
                Ok(imported) => {
                    read += 1;
                    for target in [
                        Target::Containerlab,
                        Target::Nemo,
                        Target::Shell,
                        Target::Mininet,
                        Target::Compose,
                        Target::Sol006,
                        Target::Osm,
                    ] {
                        let written = export(&imported.plan, target);
                        assert!(!written.text.contains('\u{0}'), "{target:?}");
                    }
                }
                Err(refusal) => assert!(!refusal.to_line().is_empty()),
            }
        });
        assert!(
            read > 10,
            "{format:?}: {read} of the mutations are descriptors"
        );
    }
}
