//! `scripts/setup` by an ordinary user: how sudo is called.
#[allow(dead_code)] // This binary uses its own part.
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tree::root;

/// What the script runs as it is here; of what it is to install it finds nothing.
const TOOLS: [&str; 7] = ["sh", "dirname", "sed", "env", "cat", "grep", "uname"];

/// A folder of programs in which sudo notes its arguments and refuses, and nobody is root.
fn programs(at: &Path) {
    for tool in TOOLS {
        symlink(find(tool).expect(tool), at.join(tool)).expect("a link");
    }
    let write = |name: &str, script: &str| {
        fs::write(at.join(name), format!("#!/bin/sh\n{script}\n")).expect("a program");
        fs::set_permissions(at.join(name), fs::Permissions::from_mode(0o755)).expect("it is ours");
    };
    write("id", "echo 1000");
    write("apt-get", "exit 1");
    write("apt-cache", "exit 1");
    write("dpkg", "exit 1");
    write("sudo", "printf '%s\\n' \"$@\" >>\"$SAID\"; exit 1");
}

/// Where `program` is, as the test itself finds it.
fn find(program: &str) -> Option<PathBuf> {
    let search = std::env::var("PATH").unwrap_or_default();
    let mut places = search
        .split(':')
        .map(|folder| Path::new(folder).join(program));
    places.find(|path| path.is_file())
}

/// The words that sudo was given first, with or without a terminal at standard input; `None`
/// where nothing makes one.
fn given(terminal: bool) -> Option<Vec<String>> {
    let at = tempfile::tempdir().expect("a folder");
    programs(at.path());
    let (said, setup) = (at.path().join("said"), root().join("scripts/setup"));
    let mut command = Command::new(find(if terminal { "script" } else { "sh" })?);
    match terminal {
        false => command.arg(&setup),
        true => command.args([
            "-qec",
            &format!("exec sh '{}'", setup.display()),
            "/dev/null",
        ]),
    };
    command
        .env("PATH", at.path())
        .env("SHELL", "/bin/sh")
        .env("SAID", &said)
        .env("http_proxy", "http://proxy.example:3128")
        .env_remove("https_proxy")
        .stdin(Stdio::null());
    command.output().expect("it starts");
    let words = fs::read_to_string(said).expect("sudo was called");
    Some(words.lines().map(str::to_owned).collect())
}

#[test]
fn sudo_is_given_the_proxies_and_asks_for_a_password_at_a_terminal_alone() {
    for terminal in [false, true] {
        let Some(words) = given(terminal) else {
            eprintln!("skipped: sudo at a terminal: there is no script(1)");
            continue;
        };
        assert_eq!(words[0] == "-n", !terminal, "{words:?}");
        let proxy = "http_proxy=http://proxy.example:3128";
        assert!(words.iter().any(|word| word == proxy), "{words:?}");
        assert!(words.iter().all(|word| !word.starts_with("https_proxy")));
    }
}
