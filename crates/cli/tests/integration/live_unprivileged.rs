//! The command line as a user without any rights, in a user namespace that it
//! makes by itself. Run by root, which makes such a user.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Command, Output};
use std::thread;

use crate::machine_rig::{Stage, has, one_flow, refusal, text};
use narrows_linux::machine::Need;
use serde_json::Value;

const WHO: &str = r#"
[[command]]
name = "who"
host = "client"
run  = ["id", "-u"]
"#;

/// A TUN file that all may open, for this mount namespace alone.
const TUN: &str = "mknod tun c 10 200; chmod 666 tun; mount --bind tun /dev/net/tun";

/// Runs `script` with `plan.toml` beside it. `None` where `test` cannot run.
fn run(test: &str, script: &str) -> Option<(Stage, Output)> {
    if !has(test, &[Need::Live, Need::Bpf]) {
        return None;
    }
    let stage = Stage::set();
    let scenario = one_flow("1s", WHO);
    stage.write("plan.toml", &scenario);
    stage.write("prague.toml", &scenario.replace("kernel:cubic", "prague"));
    let tools = ["unshare", "mount", "mknod", "setpriv"];
    let output = stage.run_or_skip(test, script, &tools)?;
    let said = text(&output.stderr);
    // Where users may make no namespaces there is nothing to see.
    if said.contains("lets no user make a user namespace") {
        eprintln!("skipped: {test}: {}", said.trim_end());
        return None;
    }
    Some((stage, output))
}

const KNOWN: [&str; 3] = ["plan.toml", "prague.toml", "tun"];

#[test]
fn a_user_runs_the_kernels_own_controls() {
    let script = format!("{TUN}; exec $NOBODY ./narrows run plan.toml --engine live --out out");
    let Some((stage, output)) = run("a user's run", &script) else {
        return;
    };
    let said = text(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    assert!(said.contains("a user namespace of its own"), "{said}");
    let record = std::fs::read_to_string(stage.path("out/run.json")).expect("run.json");
    let record: Value = serde_json::from_str(&record).expect("JSON");
    assert_eq!(record["complete"], true);
    assert_eq!(record["rig"]["flows"][0]["congestion_control"], "cubic");
    let who = std::fs::read_to_string(stage.path("out/commands/who.out"));
    assert_eq!(who.expect("it ran"), "0\n", "root, of its own namespace");
    // Its state went to the folder for temporary files, and is gone.
    assert_eq!(
        stage.left(&[&KNOWN[..], &["out"]].concat()),
        Vec::<String>::new()
    );
}

#[test]
fn prague_is_refused_to_a_user_in_a_line() {
    let script = format!("{TUN}; exec $NOBODY ./narrows run prague.toml --engine live --out out");
    let Some((stage, output)) = run("a user's prague", &script) else {
        return;
    };
    let line = refusal(&output);
    let words = ["flow/first", "prague", "root", "kernel:"];
    assert!(words.iter().all(|word| line.contains(word)), "{line}");
    assert_eq!(stage.left(&KNOWN), Vec::<String>::new());
}

#[test]
fn a_closed_tun_file_is_named_with_the_command_that_opens_it() {
    let script = "mknod tun c 10 200; chmod 600 tun; mount --bind tun /dev/net/tun; \
                  exec $NOBODY ./narrows run plan.toml --engine live --out out";
    let Some((stage, output)) = run("a closed TUN file", script) else {
        return;
    };
    let line = refusal(&output);
    assert!(line.contains("chmod 666 /dev/net/tun"), "{line}");
    assert_eq!(stage.left(&KNOWN), Vec::<String>::new());
}

/// Whether there is the program `name`.
fn have(test: &str, name: &str) -> bool {
    let found = Command::new(name).arg("--version").output().is_ok();
    if !found {
        eprintln!("skipped: {test}: there is no {name}");
    }
    found
}

/// What a user's shell gets from a server at this machine's loopback address,
/// with only `helper` to help it out.
fn reaches_this_machine(test: &str, helper: &str) {
    if !have(test, helper) || !have(test, "bash") {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it has one").port();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let _ = stream.write_all(b"hello\n");
        }
    });
    let script = format!(
        "{TUN}; mkdir bin; for p in bash cat {helper}; do ln -s $(command -v $p) bin/$p; done; \
         helper=$(readlink -f bin/{helper}); export PATH=$PWD/bin:/nowhere; \
         exec $NOBODY ./narrows shell --link 'netem delay 5ms' -- \
         bash -c \"cat < /dev/tcp/\\$NARROWS_OUTSIDE/{port}\""
    );
    // setpriv is asked for by its own path: PATH is narrow by then.
    let script = script.replace("exec $NOBODY", "exec /usr/bin/$NOBODY");
    let Some((_stage, output)) = run(test, &script) else {
        return;
    };
    let said = text(&output.stderr);
    assert_eq!(text(&output.stdout), "hello\n", "{said}");
    assert!(output.status.success(), "{said}");
    assert!(!said.contains("the outside is closed"), "{said}");
}

#[test]
fn a_users_shell_reaches_the_outside_by_slirp4netns() {
    reaches_this_machine("a user's shell by slirp4netns", "slirp4netns");
}

#[test]
fn a_users_shell_reaches_the_outside_by_pasta() {
    reaches_this_machine("a user's shell by pasta", "pasta");
}

#[test]
fn a_users_shell_without_a_way_out_says_so_and_runs() {
    let script = format!(
        "{TUN}; mkdir bin; ln -s $(command -v sh) bin/sh; mkdir -m 700 shut; \
         export PATH=$PWD/shut:$PWD/bin; \
         exec /usr/bin/$NOBODY ./narrows shell --link 'netem delay 5ms' -- sh -c 'echo here; exit 7'"
    );
    let Some((_stage, output)) = run("a user's closed shell", &script) else {
        return;
    };
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert_eq!(text(&output.stdout), "here\n");
    let closed = said.lines().filter(|l| l.contains("the outside is closed"));
    assert_eq!(closed.count(), 1, "{said}");
    assert!(
        said.contains("slirp4netns") && said.contains("pasta"),
        "{said}"
    );
}
