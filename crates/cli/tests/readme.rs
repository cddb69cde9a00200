//! What the README says about marking and observing, done word by word.

#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::Command;

/// The commands of the block behind `heading`, without their prompts.
fn commands(heading: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let text = fs::read_to_string(file).expect("the README");
    let (_, rest) = text.split_once(heading).expect("the heading");
    let (_, rest) = rest.split_once("```console\n").expect("a block");
    let (block, _) = rest.split_once("```").expect("its end");
    let lines = block.lines().map(|line| {
        let command = line.strip_prefix("# ").expect("a line of root's shell");
        format!("{command}\n")
    });
    lines.collect()
}

#[test]
fn marking_and_observing_between_two_namespaces_goes_as_the_readme_says() {
    let test = "marking_and_observing_between_two_namespaces_goes_as_the_readme_says";
    let script = commands("**What an observer can know.**");
    let there = |tool: &str| {
        let mut found = Command::new("sh");
        found.args(["-c", &format!("command -v {tool}")]);
        found.output().is_ok_and(|o| o.status.success())
    };
    let tools = ["ip", "iperf3", "tcpdump", "unshare", "bash"];
    let lack = tools
        .into_iter()
        .find(|tool| script.contains(tool) && !there(tool));
    let machine = narrows_live::machine::survey();
    if lack.is_some() || !machine.runs_live() || !cfg!(feature = "bpf") {
        let why = lack.map_or(
            "this machine or build runs nothing live".to_owned(),
            |tool| format!("there is no {tool} here"),
        );
        eprintln!("skipped: {test}: {why}");
        return;
    }
    // A view of the machine of its own: names of namespaces are nobody else's, and
    // go when it ends.
    let private = "set -e; mount -t tmpfs tmpfs /run\n";
    let narrows = Path::new(env!("CARGO_BIN_EXE_narrows"));
    let path = std::env::var("PATH").unwrap_or_default();
    let folder = narrows.parent().expect("a folder").display();
    let ran = Command::new("unshare")
        .args([
            "--mount",
            "--net",
            "bash",
            "-c",
            &format!("{private}{script}"),
        ])
        .env("PATH", format!("{folder}:{path}"))
        .output()
        .expect("unshare starts");
    let out = String::from_utf8_lossy(&ran.stdout).into_owned();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    if said.contains("Operation not permitted") && !ran.status.success() {
        eprintln!("skipped: {test}: it needs root: {said}");
        return;
    }
    assert!(ran.status.success(), "{out}\n{said}");
    // Both ends marked the connection of iperf3's data and that of its control.
    assert_eq!(out.matches("connections  2 ").count(), 2, "{out}\n{said}");
    for technique in ["spin", "delay", "q", "seq-ack"] {
        let mut rows = out.lines().map(|l| l.split_whitespace());
        assert!(
            rows.any(|mut row| row.any(|word| word == technique)),
            "{technique}: {out}"
        );
    }
}
