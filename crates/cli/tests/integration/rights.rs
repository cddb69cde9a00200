//! A right that is missing: one exit status, whichever command lacks it.
use crate::machine_rig;

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

use crate::machine_rig::{Stage, text};

/// `nobody` and its group.
const NOBODY: u32 = 65534;

/// `EX_NOPERM` of sysexits.h.
const NO_RIGHT: i32 = 77;

/// Runs the program as a user without rights: nobody, where this is root.
fn as_a_user(stage: &Stage, arguments: &[&str]) -> Output {
    let mut command = Command::new(stage.path("narrows"));
    command
        .current_dir(stage.path("."))
        .args(arguments)
        .env("HOME", stage.path("."))
        .env_remove("SUDO_UID")
        .env_remove("XDG_RUNTIME_DIR");
    if nix::unistd::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.output().expect("the program starts")
}

#[test]
fn a_missing_right_has_one_status_in_every_command() {
    let stage = Stage::set();
    stage.write(
        "prague.toml",
        &machine_rig::one_flow("2s", "").replace("kernel:cubic", "prague"),
    );
    let serve = ["--clients", "0.0.0.0/0", "--to", "0.0.0.0/0"];
    for (arguments, word) in [
        (
            &["observe", "-i", "lo", "--duration", "1s"][..],
            "CAP_NET_RAW",
        ),
        (&["observe", "-i", "any", "--duration", "1s"], "CAP_NET_RAW"),
        (
            &["mark", "-i", "lo", "--profile", "d", "--duration", "1s"],
            "root",
        ),
        (&["mmb", "attach", "lo", "mss-clamp"], "root"),
        (&["mmb", "detect", "127.0.0.1"], "root"),
        (
            &["mmb", "respond", "127.0.0.1", "to", "127.0.0.0/8"],
            "root",
        ),
        (&["by", "+10s", "--", "true"], "root"),
        (&["by", "+10s", "--attach", "1"], "root"),
        (
            &[
                "pep",
                "run",
                "--via",
                "127.0.0.1",
                "--by",
                "kernel",
                "--",
                "true",
            ],
            "root",
        ),
        (
            &[
                &["pep", "serve", "--listen", "127.0.0.1", "--user", "root"][..],
                &serve,
            ]
            .concat(),
            "root",
        ),
        (&["run", "prague.toml", "--engine", "live"], "root"),
        (
            &["run", "prague.toml", "--out", "/proc/1/fd/results"],
            "Permission denied",
        ),
        (&["run", "/proc/1/fd/a.toml"], "Permission denied"),
        (&["report", "/proc/1/fd/results"], "Permission denied"),
        (&["observe", "-r", "/proc/1/mem"], "Permission denied"),
    ] {
        let refused = as_a_user(&stage, arguments);
        let said = text(&refused.stderr);
        // What this machine lacks for every user comes first.
        let lacks = ["not built", "built without", "too old", "no TUN"];
        if lacks.iter().any(|lack| said.contains(lack)) {
            eprintln!("skipped: a_missing_right: {arguments:?}: {said}");
            continue;
        }
        assert_eq!(
            refused.status.code(),
            Some(NO_RIGHT),
            "{arguments:?}: {said}"
        );
        assert!(said.contains(word), "{arguments:?}: {said}");
    }
}

#[test]
fn what_is_refused_to_everybody_has_another_status() {
    let stage = Stage::set();
    for (arguments, status) in [
        (&["run", "nothere.toml"][..], 2),
        (&["report", "nothere"], 2),
        (&["mmb", "list", "lo"], 1),
        (&["by", "yesterday", "--", "true"], 2),
    ] {
        let refused = as_a_user(&stage, arguments);
        assert_eq!(
            refused.status.code(),
            Some(status),
            "{arguments:?}: {}",
            text(&refused.stderr)
        );
    }
}
