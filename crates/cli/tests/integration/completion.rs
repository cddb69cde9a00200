//! Completion in shells: what the program offers, and that shells ask it.

#[allow(dead_code)] // This binary uses its own part.
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::program::narrows;

/// What the program offers for the last of `words`, in the folder `at`.
fn offered(at: &Path, words: &[&str]) -> Vec<String> {
    let asked = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .current_dir(at)
        .arg("--")
        .arg("narrows")
        .args(words)
        .env("NARROWS_COMPLETE", "bash")
        .env("_CLAP_IFS", "\n")
        .env("_CLAP_COMPLETE_INDEX", words.len().to_string())
        .env("XDG_CACHE_HOME", at)
        .output()
        .expect("the program starts");
    assert!(asked.status.success(), "{words:?}: {asked:?}");
    let said = String::from_utf8(asked.stdout).expect("UTF-8");
    said.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn names_that_only_the_moment_knows_are_completed() {
    let at = tempfile::tempdir().expect("a folder");
    fs::write(at.path().join("mine.toml"), "").expect("a file");
    fs::write(at.path().join("mine.txt"), "").expect("a file");
    let kernel = at.path().join("narrows/kernels/6.12.1-abcd");
    fs::create_dir_all(&kernel).expect("a folder");
    for (words, there, not) in [
        (
            &["run", ""][..],
            &["lone-prague", "mine.toml"][..],
            &["l4s-tests/s1", "mine.txt"][..],
        ),
        (&["run", "lone-p"], &["lone-prague"], &["mine.toml"]),
        (
            &["campaign", "l4s-tests/"],
            &["l4s-tests/s1"],
            &["lone-prague"],
        ),
        (
            &["campaign", "m"],
            &["mine.toml", "mmb/boxes"],
            &["mine.txt"],
        ),
        (&["show", "l"], &["lone-prague", "l4s-tests/s6"], &[]),
        (&["list", "q"], &["queues"], &["metrics"]),
        (&["show", "queue", "fq"], &["fq_codel"], &["netem"]),
        (&["list", "m"], &["metrics", "mmb/boxes"], &["lone-prague"]),
        (
            &["campaign", "mmb/boxes", "--only", ""],
            &["none/cubic"],
            &["mmb/boxes"],
        ),
        (&["run", "--flow", "pr"], &["prague"], &["cubic"]),
        (&["by", "+1h", "--over", ""], &["cubic", "vegas"], &[]),
        (&["by", "+1h", "--policy", "p"], &["pid"], &["mbc"]),
        (&["mmb", "-f", "mss"], &["mss-clamp"], &["snat"]),
        (&["mmb", "a"], &["add", "attach"], &["list"]),
        (&["mmb", "attach", "v0", "mss"], &["mss-clamp"], &["add"]),
        (&["plot", "x", "--format", "p"], &["pdf", "png"], &["svg"]),
        (
            &["observe", "--prom"],
            &["--prometheus", "--promiscuous"],
            &["--profile"],
        ),
        (&["export", "lone-p"], &["lone-prague"], &["mine.toml"]),
        (
            &["export", "x", "--format", "co"],
            &["containerlab", "compose"],
            &["osm"],
        ),
        (&["import", "--format", ""], &["clab", "nemo"], &["shell"]),
        (&["comple"], &["completion"], &["compare"]),
    ] {
        let offered = offered(at.path(), words);
        let has = |name: &&&str| offered.iter().any(|o| o == **name);
        let missing: Vec<_> = there.iter().filter(|name| !has(name)).collect();
        let wrong: Vec<_> = not.iter().filter(has).collect();
        assert!(
            missing.is_empty() && wrong.is_empty(),
            "{words:?}: {offered:?}"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn devices_of_this_machine_are_completed() {
    let at = tempfile::tempdir().expect("a folder");
    let Ok(mut devices) = fs::read_dir("/sys/class/net") else {
        eprintln!("skipped: devices_of_this_machine_are_completed: no /sys/class/net");
        return;
    };
    if !devices.any(|device| device.is_ok_and(|device| device.file_name() == "lo")) {
        eprintln!("skipped: devices_of_this_machine_are_completed: no loopback device");
        return;
    }
    for words in [
        &["observe", "-i", ""][..],
        &["observe", "--dev", "l"],
        &["mark", "-i", "l"],
        &["mmb", "attach", ""],
        &["mmb", "show", "tables", "l"],
    ] {
        let offered = offered(at.path(), words);
        assert!(
            offered.iter().any(|name| name == "lo"),
            "{words:?}: {offered:?}"
        );
    }
    let any = |words| offered(at.path(), words).contains(&"any".to_owned());
    assert!(any(&["observe", "-i", "a"]) && !any(&["mark", "-i", "a"]));
}

#[test]
fn metrics_and_axes_of_the_results_on_the_line_are_completed() {
    let at = tempfile::tempdir().expect("a folder");
    let campaign = "version = 1\nkind = \"campaign\"\nname = \"c\"\ncell = \"{rate}\"\n\
        [scenario]\nduration = \"1s\"\n[[scenario.link]]\nname = \"access\"\nends = [\"a\", \"b\"]\n\
        up = [\"bottleneck: rate 1Mbit\"]\n[[scenario.flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\n\
        cc = \"cubic\"\n[axis]\nrate = [\"1Mbit\", \"2Mbit\"]\n[set]\n\
        \"link/access/up/bottleneck\" = \"rate {rate}\"\n[metric]\nspeed = \"goodput_mbit of flow/f\"\n";
    fs::write(at.path().join("c.toml"), campaign).expect("a file");
    let ran = narrows(at.path(), &["campaign", "c.toml", "--out", "done"]);
    assert!(at.path().join("done/campaign.json").exists(), "{ran:?}");
    for (option, name) in [
        ("--metric", "speed"),
        ("--by", "rate"),
        ("--against", "rate"),
    ] {
        let offered = offered(at.path(), &["plot", "done", option, ""]);
        assert_eq!(offered, [name], "{option}");
    }
    let cells = offered(at.path(), &["campaign", "c.toml", "--only", "2"]);
    assert_eq!(cells, ["2Mbit"]);
}

#[test]
fn a_shell_that_has_the_script_asks_the_program() {
    let test = "a_shell_that_has_the_script_asks_the_program";
    let at = tempfile::tempdir().expect("a folder");
    // The script calls the program by its name.
    let folder = Path::new(env!("CARGO_BIN_EXE_narrows"))
        .parent()
        .expect("a folder");
    let search = std::env::var("PATH").unwrap_or_default();
    let search = format!("{}:{search}", folder.display());
    for (shell, script) in [
        (
            "bash",
            "source ./script; COMP_WORDS=(narrows run lone-p); COMP_CWORD=2; COMP_TYPE=9\n\
             _clap_complete_narrows narrows lone-p run; printf '%s\\n' \"${COMPREPLY[@]}\"",
        ),
        ("fish", "source ./script; complete -C 'narrows run lone-p'"),
        (
            "zsh",
            "autoload -U compinit; compinit -D; source ./script\n\
             _describe() { print -l ${(P)@[-1]}; }; compset() { :; }\n\
             words=(narrows run lone-p); CURRENT=3; _clap_dynamic_completer_narrows",
        ),
    ] {
        let printed = narrows(at.path(), &["completion", shell]);
        assert!(printed.status.success(), "{shell}");
        fs::write(at.path().join("script"), &printed.stdout).expect("a file");
        let ran = Command::new(shell)
            .current_dir(at.path())
            .args(["-c", script])
            .env("PATH", &search)
            .env("HOME", at.path())
            .stdin(Stdio::null())
            .output();
        let Ok(ran) = ran else {
            eprintln!("skipped: {test}: there is no {shell}");
            continue;
        };
        let said = String::from_utf8_lossy(&ran.stdout).into_owned();
        let noted = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(said.contains("lone-prague"), "{shell}: {said}{noted}");
    }
    for shell in ["elvish", "powershell"] {
        let printed = narrows(at.path(), &["completion", shell]);
        let script = String::from_utf8(printed.stdout).expect("UTF-8");
        assert!(script.contains("NARROWS_COMPLETE"), "{shell}: {script}");
    }
    let none = narrows(at.path(), &["completion", "csh"]);
    assert_eq!(none.status.code(), Some(2));
}
