//! What the README and the tour say is done, word by word, on a machine where nothing is set up.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

/// The README, and the tour that goes on from it.
fn readme() -> String {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file| fs::read_to_string(top.join(file)).expect(file);
    ["README.md", "docs/tour.md"].map(read).concat()
}

/// Commands of one block, and the lines that the README shows of what they print.
struct Block {
    script: String,
    shown: Vec<String>,
}

/// The blocks of commands with this prompt, in order, each with the block of text that
/// follows it before any other.
fn blocks(prompt: &str) -> Vec<Block> {
    let readme = readme();
    // Of every prompt, as text belongs to the commands before it.
    let mut blocks: Vec<(bool, Block)> = Vec::new();
    // Odd parts are fenced.
    for part in readme.split("```").skip(1).step_by(2) {
        let (kind, text) = part.split_once('\n').expect("a fence has a line");
        match kind {
            "console" => {
                let lines = text.lines().map(|line| {
                    let command = line.strip_prefix(prompt).unwrap_or(line);
                    format!("{command}\n")
                });
                let script = lines.collect();
                let shown = Vec::new();
                blocks.push((text.starts_with(prompt), Block { script, shown }));
            }
            "text" => {
                if let Some((_, block)) = blocks.last_mut().filter(|b| b.1.shown.is_empty()) {
                    block.shown = text.lines().map(str::to_owned).collect();
                }
            }
            _ => {}
        }
    }
    let wanted = blocks.into_iter().filter(|(wanted, _)| *wanted);
    wanted.map(|(_, block)| block).collect()
}

/// What bash's `time` prints of real time, in seconds: `real`, a tab, `0m0.041s`.
fn real_s(line: &str) -> Option<f64> {
    let (minutes, rest) = line.strip_prefix("real\t")?.split_once('m')?;
    let seconds = rest.trim_end_matches(['s', '…']);
    Some(60.0 * minutes.parse::<f64>().ok()? + seconds.parse::<f64>().ok()?)
}

/// Whether `printed` has `line`, of which each `…` may be anything. A real time is at least
/// what is shown: a path delays, a busy machine delays more.
fn has(printed: &str, line: &str) -> bool {
    if let Some(least) = real_s(line) {
        return printed.lines().filter_map(real_s).any(|s| s >= least);
    }
    let parts: Vec<&str> = line.split('…').map(str::trim).collect();
    printed.lines().any(|printed| {
        let mut rest = printed;
        parts.iter().all(|part| match rest.split_once(part) {
            Some((_, after)) => {
                rest = after;
                true
            }
            None => false,
        })
    })
}

fn there(tool: &str) -> bool {
    let mut found = Command::new("sh");
    found.args(["-c", &format!("command -v {tool}")]);
    found.output().is_ok_and(|o| o.status.success())
}

/// A folder as it is after a build: the program is in `target/release`. `sudo` runs its
/// command as whoever runs the test.
fn checkout() -> tempfile::TempDir {
    let at = tempfile::tempdir().expect("a folder");
    let built = at.path().join("target/release");
    fs::create_dir_all(&built).expect("target/release");
    symlink(env!("CARGO_BIN_EXE_narrows"), built.join("narrows")).expect("a link");
    let tools = at.path().join("tools");
    fs::create_dir(&tools).expect("tools");
    let sudo = tools.join("sudo");
    fs::write(&sudo, "#!/bin/sh\nexec \"$@\"\n").expect("sudo");
    fs::set_permissions(&sudo, fs::Permissions::from_mode(0o755)).expect("a program");
    at
}

/// Runs `script` by bash in `at`, with the tools of [`checkout`] in front.
fn run(at: &Path, script: &str) -> (Output, String) {
    let path = std::env::var("PATH").unwrap_or_default();
    let tools = at.join("tools").display().to_string();
    let output = Command::new("bash")
        .args(["-c", &format!("exec 2>&1\n{script}")])
        .current_dir(at)
        .env("PATH", format!("{tools}:{path}"))
        .output()
        .expect("bash starts");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, printed)
}

/// What of a block has to be run live.
fn is_live(script: &str) -> bool {
    script.contains("--engine live") || script.contains("narrows shell")
}

#[test]
fn every_command_for_a_user_runs_as_the_readme_says_and_prints_what_it_shows() {
    let test = "every_command_for_a_user_runs_as_the_readme_says_and_prints_what_it_shows";
    if !there("bash") {
        eprintln!("skipped: {test}: there is no bash here");
        return;
    }
    let live = narrows_linux::machine::survey().runs_live();
    if !live {
        eprintln!("skipped: {test}: what runs live: this machine runs nothing live");
    }
    let at = checkout();
    let mut before = String::new();
    let mut ran = 0;
    for block in blocks("$ ") {
        // Building is what has come before.
        if block.script.starts_with("make ") {
            continue;
        }
        if block.script.starts_with("export ") {
            before.push_str(&block.script);
            continue;
        }
        if is_live(&block.script) && !live {
            continue;
        }
        let (output, printed) = run(at.path(), &format!("{before}set -e\n{}", block.script));
        // What it shows to be refused is refused.
        let refused = block.script.contains("cubik");
        let wanted = match (refused, block.shown.iter().any(|l| l.contains("refused"))) {
            (true, _) => 2,
            // The shell's own connection is.
            (_, true) => 1,
            _ => 0,
        };
        let status = output.status.code();
        // The verdict on a live run is this machine's.
        let doubted = is_live(&block.script) && status == Some(3);
        assert!(
            status == Some(wanted) || doubted,
            "{}{status:?}\n{printed}",
            block.script
        );
        for line in &block.shown {
            assert!(
                has(&printed, line),
                "{}{line}\nis not in\n{printed}",
                block.script
            );
        }
        ran += 1;
    }
    assert!(ran >= if live { 7 } else { 5 }, "{ran}");
}

#[test]
fn marking_and_observing_between_two_namespaces_goes_as_the_readme_says() {
    let test = "marking_and_observing_between_two_namespaces_goes_as_the_readme_says";
    let block = blocks("# ").pop().expect("a block for root");
    let script = block.script;
    let tools = ["ip", "iperf3", "tcpdump", "unshare", "bash"];
    let lack = tools
        .into_iter()
        .find(|tool| script.contains(tool) && !there(tool));
    let machine = narrows_linux::machine::survey();
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
    // What they measured is this machine's; that they are there is the README's.
    let techniques = block.shown.iter().skip(1);
    let techniques: Vec<_> = techniques
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert!(techniques.len() >= 5, "{techniques:?}");
    for technique in techniques {
        let mut rows = out.lines().map(|l| l.split_whitespace());
        assert!(
            rows.any(|mut row| row.any(|word| word == technique)),
            "{technique}: {out}"
        );
    }
}
