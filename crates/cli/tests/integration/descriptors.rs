//! `narrows import` and `narrows export`: descriptors of other tools, as the guide shows them.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{ended, narrows};

/// The blocks of the guide's page in this language.
fn examples(language: &str) -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/descriptors.md");
    let page = fs::read_to_string(page).expect("docs/descriptors.md");
    let blocks = page.split("```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.split_once('\n'));
    let blocks = blocks.filter(|(kind, _)| *kind == language);
    blocks.map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn the_guide_s_services_run_and_an_observer_sees_their_traffic() {
    let at = tempfile::tempdir().expect("a folder");
    let examples = examples("nemo");
    assert_eq!(examples.len(), 2);
    for (text, hosts) in examples.iter().zip([3, 4]) {
        fs::write(at.path().join("s.nemo"), text).expect("a file");
        let out = format!("s{hosts}.toml");
        ended(&narrows(at.path(), &["import", "s.nemo", "--out", &out]), 0);
        let dir = format!("r{hosts}");
        let run = narrows(at.path(), &["run", &out, "--out", &dir, "--format", "json"]);
        ended(&run, 0);
        let run: Value = serde_json::from_slice(&run.stdout).expect("JSON");
        let goodput = run["summary"]["flows"][0]["goodput_mbit"]
            .as_f64()
            .expect("goodput");
        assert!((15.0..20.0).contains(&goodput), "{goodput}");
        let names = fs::read_to_string(at.path().join(out)).expect("a file");
        assert_eq!(names.matches("ends ").count(), hosts - 1, "{names}");
    }
    let seen = narrows(at.path(), &["observe", "r4/captures/wire.pcapng"]);
    ended(&seen, 0);
    let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
    // From the source, through box and observer, which come first, to the sink.
    let flow = seen
        .lines()
        .find(|line| line.contains("10.0.0.3:") && line.contains("10.0.0.4:"));
    assert!(flow.is_some(), "{seen}");
}

#[test]
fn the_guide_s_topology_is_read_and_written_as_everything() {
    let at = tempfile::tempdir().expect("a folder");
    let text = examples("yaml").remove(0);
    fs::write(at.path().join("lab.clab.yml"), text).expect("a file");
    let read = narrows(at.path(), &["import", "lab.clab.yml", "--out", "lab.toml"]);
    assert_eq!(ended(&read, 0), "");
    let run = narrows(
        at.path(),
        &["run", "lab.toml", "--out", "r", "--set", "duration=3s"],
    );
    assert!(matches!(run.status.code(), Some(0 | 3)), "{run:?}");
    for (format, begins) in [
        ("containerlab", "# The scenario"),
        ("nemo", "// The scenario"),
        ("shell", "#!/bin/sh"),
        ("mininet", "#!/usr/bin/env python3"),
        ("compose", "# The scenario"),
        ("sol006", "# A VNF descriptor"),
        ("osm", "# A VNF descriptor"),
    ] {
        // Of the scenario and of the topology itself.
        let files = ["lab.toml", "lab.clab.yml"].map(|name| {
            let output = narrows(at.path(), &["export", name, "--format", format]);
            let said = ended(&output, 0);
            let quiet = format == "nemo";
            assert!(
                quiet != said.contains("not in the file: "),
                "{format}: {said}"
            );
            String::from_utf8(output.stdout).expect("UTF-8")
        });
        assert!(files[0].starts_with(begins), "{format}: {}", files[0]);
        assert_eq!(files[0], files[1], "{format}");
    }
    // What containerlab and NEMO are given is the same scenario.
    for format in ["containerlab", "nemo"] {
        let out = format!("lab.{format}");
        ended(
            &narrows(
                at.path(),
                &["export", "lab.toml", "--format", format, "--out", &out],
            ),
            0,
        );
        let back = narrows(at.path(), &["import", &out]);
        ended(&back, 0);
        let lab = fs::read(at.path().join("lab.toml")).expect("a file");
        assert_eq!(
            String::from_utf8_lossy(&back.stdout),
            String::from_utf8_lossy(&lab),
            "{format}"
        );
        let again = narrows(
            at.path(),
            &["export", "lab.toml", "--format", format, "--out", &out],
        );
        let said = ended(&again, 2);
        let words = ["--out: ", &out, "exists", "name another file"];
        assert!(words.iter().all(|word| said.contains(word)), "{said}");
        // Notes about its content are not printed.
        assert!(!said.contains("not in the file"), "{said}");
    }
}

#[test]
fn what_cannot_be_read_is_refused_where_it_stands() {
    let at = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| fs::write(at.path().join(name), text).expect("a file");
    write(
        "a.yml",
        "topology:\n  nodes:\n    r1: {kind: nokia_srlinux}\n",
    );
    write("b.nemo", "CREATE Node x Type y;\n");
    write("c.txt", "hello\n");
    write("d.toml", "version = 1\n");
    write("x.clab.yml", "topology:\n  nodes: {}\n");
    write("x.nemo", "CREATE Node x Type y;\n");
    let bytes = |name: &str, bytes: &[u8]| fs::write(at.path().join(name), bytes).expect("a file");
    bytes("latin1.yml", b"topology:\n  x: \xe9\n");
    bytes("utf16.yml", b"\xff\xfet\0o\0");
    for (arguments, place, named) in [
        (&["import", "a.yml"][..], "a.yml:3:16", "nokia_srlinux"),
        (&["import", "b.nemo"], "b.nemo:1:20", "unknown model `y`"),
        (&["import", "c.txt"], "c.txt:1:1", "containerlab"),
        (&["import", "latin1.yml"], "latin1.yml:2:6", "0xe9"),
        (&["import", "utf16.yml"], "utf16.yml:1:1", "iconv"),
        (
            &["run", "x.clab.yml"],
            "x.clab.yml:1:",
            "`narrows import x.clab.yml`",
        ),
        (&["run", "x.nemo"], "x.nemo:1:", "`narrows import x.nemo`"),
        (&["import", "none.yml"], "", "which is no file"),
        (&["import", "lone-prague"], "", "which is no file"),
        (
            &["export", "d.toml", "--format", "shell"],
            "d.toml:",
            "name",
        ),
        (
            &["export", "b.nemo", "--format", "osm"],
            "b.nemo:1:20",
            "unknown model `y`",
        ),
        (
            &["export", "a.yml", "--format", "osm", "--set", "seed=2"],
            "",
            "`narrows import`",
        ),
        (
            &["import", "c.txt", "--format", "clab"],
            "c.txt:1:1",
            "a map",
        ),
    ] {
        let output = narrows(at.path(), arguments);
        let said = ended(&output, 2);
        assert!(
            said.contains(place) && said.contains(named),
            "{arguments:?}: {said}"
        );
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn a_scenario_of_the_catalogue_is_a_script_whose_limits_are_named() {
    let at = tempfile::tempdir().expect("a folder");
    let arguments = [
        "export",
        "two-bottlenecks",
        "--format",
        "shell",
        "--set",
        "seed=3",
    ];
    let output = narrows(at.path(), &arguments);
    let said = ended(&output, 0);
    assert!(said.contains("narrows: not in the file: flow/"), "{said}");
    let script = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(
        script.contains("\nup() {\n") && script.contains("root handle 1: tbf"),
        "{script}"
    );
}
