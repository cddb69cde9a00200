//! What the program writes under sudo is the user's who called it.
#[allow(dead_code)] // This binary uses its own part.
use std::fs;
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::machine_rig::{Stage, has, one_flow, text};
use crate::program::SHORT;
use crate::tree::{files, relative, root};
use narrows_linux::machine::Need;

/// `nobody` and its group.
const CALLER: u32 = 65534;

/// A folder of a user's with the program in it; `None`, and why `test` is skipped, for those
/// who are not root.
fn home(test: &str) -> Option<Stage> {
    let stage = Stage::set();
    if chown(stage.path("."), Some(CALLER), Some(CALLER)).is_err() {
        eprintln!("skipped: {test}: not root");
        return None;
    }
    Some(stage)
}

/// The program in `stage`, as sudo calls it: by root, with the user in the environment.
fn by_sudo(stage: &Stage, arguments: &[&str]) -> Output {
    let mut command = Command::new(stage.path("narrows"));
    command
        .current_dir(stage.path("."))
        .args(arguments)
        .env("HOME", stage.path("."))
        .env_remove("XDG_CACHE_HOME")
        .env("SUDO_UID", CALLER.to_string())
        .env("SUDO_GID", CALLER.to_string());
    command.output().expect("the program starts")
}

fn done(output: &Output) {
    let said = text(&output.stderr);
    assert!(output.status.success(), "{:?}: {said}", output.status);
}

/// All that is in `folder` but the program, with who owns it.
fn owners(folder: &Path) -> Vec<(PathBuf, u32)> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let found = fs::symlink_metadata(&path).expect("it is there");
            if found.is_dir() {
                open.push(path.clone());
            }
            if !path.ends_with("narrows") {
                all.push((path, found.uid()));
            }
        }
    }
    all
}

/// Asserts that there is something of each of these endings in `stage`, and that all is the
/// caller's.
fn all_the_callers(stage: &Stage, endings: &[&str]) {
    let owners = owners(&stage.path("."));
    for ending in endings {
        let there = |(path, _): &(PathBuf, u32)| path.to_string_lossy().ends_with(ending);
        assert!(owners.iter().any(there), "{ending} in {owners:?}");
    }
    let others = owners.iter().filter(|(_, uid)| *uid != CALLER);
    assert_eq!(others.collect::<Vec<_>>(), Vec::<&(PathBuf, u32)>::new());
}

#[test]
fn a_run_under_sudo_leaves_nothing_of_roots_and_the_next_plain_run_succeeds() {
    let test = "a_run_under_sudo_leaves_nothing_of_roots_and_the_next_plain_run_succeeds";
    let Some(stage) = home(test) else {
        return;
    };
    done(&by_sudo(
        &stage,
        &[SHORT, &["--save", "mine.toml"]].concat(),
    ));
    let latest = "results/latest";
    done(&by_sudo(&stage, &["plot", latest]));
    done(&by_sudo(
        &stage,
        &["plot", latest, "--as", "flent", "--out", "flent"],
    ));
    done(&by_sudo(&stage, &["report", latest]));
    done(&by_sudo(&stage, &["man", "share/man"]));
    let made = [
        "/results",
        latest,
        "/run.json",
        "/series.csv.gz",
        "/report.html",
        "/mine.toml",
        "/figures/rtt.svg",
        "/man/narrows-run.1",
        ".flent.gz",
    ];
    all_the_callers(&stage, &made);
    let mut plain = Command::new(stage.path("narrows"));
    plain.current_dir(stage.path(".")).args(SHORT);
    done(&plain.uid(CALLER).gid(CALLER).output().expect("it starts"));
}

#[test]
fn a_campaign_under_sudo_and_all_that_its_cells_keep_is_the_callers() {
    let test = "a_campaign_under_sudo_and_all_that_its_cells_keep_is_the_callers";
    let Some(stage) = home(test) else {
        return;
    };
    let campaign = r#"
version = 1
kind = "campaign"
name = "two"
base = "one.toml"
cell = "{rate}"

[axis]
rate = [10, 20]

[set]
"link/access/up/bottleneck" = "rate {rate}Mbit queue fq_codel"
"#;
    let observed = "\n[[capture]]\nname = \"near\"\nat = \"host/client\"\n";
    stage.write(
        "one.toml",
        &one_flow("4s", observed).replace("kernel:cubic", "cubic"),
    );
    stage.write("two.toml", campaign);
    for name in ["one.toml", "two.toml"] {
        chown(stage.path(name), Some(CALLER), Some(CALLER)).expect("root may");
    }
    done(&by_sudo(&stage, &["campaign", "two.toml"]));
    done(&by_sudo(&stage, &["report", "results/latest"]));
    all_the_callers(
        &stage,
        &["/cells.csv", "/run.json", "near.pcapng", "/report.html"],
    );

    let capture = files(&stage.path("results"), "near.pcapng");
    let capture = capture[0].to_string_lossy().into_owned();
    done(&by_sudo(
        &stage,
        &["observe", "-r", &capture, "-w", "seen.pcapng"],
    ));
    let replay = format!("replay {capture} box.pcapng");
    done(&by_sudo(&stage, &["mmb", "-f", "mss-clamp", &replay]));
    all_the_callers(&stage, &["/seen.pcapng", "/box.pcapng"]);
}

#[test]
fn a_live_run_under_sudo_and_what_its_commands_wrote_is_the_callers() {
    let test = "a_live_run_under_sudo_and_what_its_commands_wrote_is_the_callers";
    let Some(stage) = home(test).filter(|_| has(test, &[Need::Live])) else {
        return;
    };
    let more = "\n[[command]]\nname = \"words\"\nhost = \"client\"\nrun = [\"echo\", \"hello\"]\n\
                \n[[capture]]\nname = \"near\"\nat = \"host/client\"\n";
    stage.write("one.toml", &one_flow("3s", more));
    chown(stage.path("one.toml"), Some(CALLER), Some(CALLER)).expect("root may");
    let ended = by_sudo(&stage, &["run", "one.toml", "--engine", "live"]);
    // Whether it is trusted depends on what else the machine does.
    let code = ended.status.code();
    assert!(matches!(code, Some(0 | 3)), "{}", text(&ended.stderr));
    all_the_callers(&stage, &["/run.json", "/words.out", "near.pcapng"]);
}

#[test]
fn results_and_what_is_written_beside_them_is_made_in_the_one_place_that_minds_sudo() {
    /// What makes files by itself.
    const WORDS: [&str; 7] = [
        "fs::write(",
        "File::create",
        "fs::create_dir",
        "fs::copy(",
        "OpenOptions",
        "DirBuilder",
        "fs::symlink(",
    ];
    /// Where it is called as the caller: manual pages, and the history of a prompt.
    const AS_CALLER: [&str; 2] = ["manual.rs: fs::create_dir", "mmb.rs: fs::create_dir"];
    let mut found = Vec::new();
    for name in ["results", "campaign", "report", "narrows", "cli"] {
        let sources = files(&root().join("crates").join(name).join("src"), ".rs");
        let of_tests = |file: &Path| {
            file.iter()
                .any(|part| part == "tests" || part == "tests.rs")
        };
        for file in sources.into_iter().filter(|file| !of_tests(file)) {
            let code = fs::read_to_string(&file).expect("a source file");
            let product = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            for word in WORDS.iter().filter(|word| product.contains(**word)) {
                let found_here = format!("{}: {word}", relative(&file));
                if !AS_CALLER.iter().any(|known| found_here.ends_with(known)) {
                    found.push(found_here);
                }
            }
        }
    }
    assert_eq!(found, Vec::<String>::new(), "use narrows_files");
}
