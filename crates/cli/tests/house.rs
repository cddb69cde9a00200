//! The order of the house: floors, portability, unsafe code, licences, and the
//! links of the documentation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A crate may use only crates of lower floors.
const FLOORS: [(&str, u8); 25] = [
    ("narrows-units", 0),
    ("narrows-freestanding", 0),
    ("narrows-fuzz", 0),
    ("narrows-packet", 1),
    ("narrows-wire", 1),
    ("narrows-aqm", 2),
    ("narrows-capture", 2),
    ("narrows-cc", 2),
    ("narrows-efm", 2),
    ("narrows-app", 2),
    ("narrows-observe", 3),
    ("narrows-path", 3),
    ("narrows-quic", 3),
    ("narrows-tcp", 3),
    ("narrows-bpf", 4),
    ("narrows-host", 4),
    ("narrows-scenario", 4),
    ("narrows-run", 5),
    ("narrows-live", 6),
    ("narrows-sim", 6),
    ("narrows-results", 7),
    ("narrows-campaign", 8),
    ("narrows-report", 8),
    ("narrows", 9),
    ("narrows-cli", 10),
];

/// The files that may hold unsafe code: the borders to C and to the kernel.
const UNSAFE: &[&str] = &[
    "crates/capture/src/ring.rs",
    "crates/cc/src/ffi.rs",
    "crates/efm/src/ffi.rs",
    "crates/live/src/flows/socket_option.rs",
    "crates/live/src/world/system_calls.rs",
    "crates/bpf/src/tcx.rs",
];

/// Beginnings of names of packages that build or make sense on Linux only. The
/// simulator is for every system.
const LINUX_ONLY: [&str; 12] = [
    "aya",
    "bpf",
    "caps",
    "evdev",
    "io-uring",
    "libbpf",
    "netlink",
    "netns",
    "nix",
    "procfs",
    "rtnetlink",
    "tun",
];

fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors()
        .nth(2)
        .expect("the crate stands two levels below the root")
        .to_path_buf()
}

/// Packages for other systems are not fetched by a build, and are asked for
/// here: without the network first, so that a machine that has them needs none.
fn metadata() -> Value {
    let ask = |more: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(more)
            .current_dir(root())
            .output()
            .expect("cargo runs")
    };
    let offline = ask(&["--offline"]);
    let output = if offline.status.success() {
        offline
    } else {
        ask(&[])
    };
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo metadata is JSON")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The packages of the workspace.
fn ours(metadata: &Value) -> Vec<&Value> {
    list(metadata, "packages")
        .iter()
        .filter(|p| p["source"].is_null())
        .collect()
}

/// Files below `directory` whose name ends with `suffix`, in order.
fn files(directory: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut entries: Vec<_> = fs::read_dir(directory)
        .unwrap_or_else(|e| panic!("{}: {e}", directory.display()))
        .map(|e| e.expect("a directory entry can be read").path())
        .collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !matches!(&*name, "target" | "results" | ".git") {
                found.extend(files(&path, suffix));
            }
        } else if name.ends_with(suffix) {
            found.push(path);
        }
    }
    found
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root())
        .unwrap_or(path)
        .to_string_lossy()
        .into_owned()
}

#[test]
fn a_crate_uses_only_crates_of_lower_floors() {
    let metadata = metadata();
    let floors = BTreeMap::from(FLOORS);
    let floor = |name: &str| {
        *floors
            .get(name)
            .unwrap_or_else(|| panic!("{name} has no floor"))
    };
    let mut wrong = Vec::new();
    for package in ours(&metadata) {
        let name = text(package, "name");
        for used in list(package, "dependencies") {
            let other = text(used, "name");
            if used["path"].is_null() {
                continue;
            }
            let development = text(used, "kind") == "dev";
            let fuzzing = other == "narrows-fuzz";
            if fuzzing != (fuzzing && development) || !fuzzing && floor(other) >= floor(name) {
                wrong.push(format!("{name} uses {other}"));
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    let present: BTreeSet<_> = ours(&metadata).iter().map(|p| text(p, "name")).collect();
    let listed: BTreeSet<_> = floors.keys().copied().collect();
    assert_eq!(present, listed, "the crates that have a floor");
}

/// Time is an argument below the engines; `narrows-bpf` talks to a kernel.
#[test]
fn no_clock_is_read_below_the_engines() {
    let mut readers = Vec::new();
    for (name, floor) in FLOORS {
        let folder = name.trim_start_matches("narrows-");
        if floor >= 5 || name == "narrows-bpf" {
            continue;
        }
        for file in files(&root().join("crates").join(folder).join("src"), ".rs") {
            let text = fs::read_to_string(&file).expect("a source file");
            let product = text.split("#[cfg(test)]").next().unwrap_or_default();
            if ["Instant::now()", "SystemTime::now()"]
                .iter()
                .any(|clock| product.contains(clock))
            {
                readers.push(relative(&file));
            }
        }
    }
    assert_eq!(readers, Vec::<String>::new());
}

#[test]
fn no_dependency_asks_for_a_newer_compiler_than_debian_13_has() {
    let metadata = metadata();
    let number = |version: &str| -> Vec<u32> {
        let parts = version.split('.');
        parts
            .map(|n| n.parse().unwrap_or(u32::MAX))
            .take(2)
            .collect()
    };
    let ours = number(env!("CARGO_PKG_RUST_VERSION"));
    assert_eq!(ours, [1, 85]);
    let newer: Vec<_> = list(&metadata, "packages")
        .iter()
        .filter(|p| number(p["rust_version"].as_str().unwrap_or("1.0")) > ours)
        .map(|p| format!("{} {}", text(p, "name"), p["rust_version"]))
        .collect();
    assert_eq!(newer, Vec::<String>::new());
}

#[test]
fn the_simulator_depends_on_nothing_that_only_linux_has() {
    let metadata = metadata();
    let resolve = list(&metadata["resolve"], "nodes");
    let nodes: BTreeMap<_, _> = resolve.iter().map(|n| (text(n, "id"), n)).collect();
    let names: BTreeMap<_, _> = list(&metadata, "packages")
        .iter()
        .map(|p| (text(p, "id"), text(p, "name")))
        .collect();
    let start = names
        .iter()
        .find(|(_, name)| **name == "narrows-sim")
        .map(|(id, _)| *id);
    let mut open = vec![start.expect("narrows-sim is a package")];
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        for used in list(nodes[id], "deps") {
            let built = list(used, "dep_kinds")
                .iter()
                .any(|k| text(k, "kind") != "dev");
            if built {
                open.push(text(used, "pkg"));
            }
        }
    }
    let found: Vec<_> = seen
        .iter()
        .map(|id| names[id])
        .filter(|name| LINUX_ONLY.iter().any(|l| name.starts_with(l)))
        .collect();
    assert_eq!(found, Vec::<&str>::new());
    assert!(seen.len() > 10, "the walk reached the simulator's crates");
}

#[test]
fn unsafe_code_stands_in_few_files_and_each_use_is_explained() {
    for directory in fs::read_dir(root().join("crates")).expect("crates/ is there") {
        let source = directory.expect("an entry of crates/").path().join("src");
        let head = ["lib.rs", "main.rs"]
            .map(|name| source.join(name))
            .into_iter()
            .find(|p| p.is_file())
            .unwrap_or_else(|| panic!("{} has a crate root", source.display()));
        let inside = format!("{}/", relative(&source));
        let lint = if UNSAFE.iter().any(|f| f.starts_with(&inside)) {
            "deny"
        } else {
            "forbid"
        };
        let wanted = format!("#![{lint}(unsafe_code)]");
        let code = fs::read_to_string(&head).expect("a crate root can be read");
        assert!(code.contains(&wanted), "{} says {wanted}", relative(&head));
    }
    for file in files(&root().join("crates"), ".rs") {
        let code = fs::read_to_string(&file).expect("a source file can be read");
        let name = relative(&file);
        let uses = ["unsafe {", "unsafe impl", "unsafe fn"]
            .iter()
            .map(|form| code.matches(form).count())
            .sum::<usize>();
        if UNSAFE.contains(&name.as_str()) {
            let explained = code.matches("SAFETY:").count();
            assert!(
                uses > 0 && explained >= uses,
                "{name}: {explained} of {uses}"
            );
        } else if name.contains("/src/") {
            assert_eq!(uses, 0, "{name} holds unsafe code");
        }
    }
}

#[test]
fn nothing_is_left_unfinished_or_switched_off() {
    // Spelled in two halves, so that this file passes its own test.
    let words = [
        concat!("to", "do!("),
        concat!("unimple", "mented!("),
        concat!("db", "g!("),
        concat!("#[ig", "nore"),
        concat!("FIX", "ME"),
    ];
    let mut found = Vec::new();
    for suffix in [".rs", ".c", ".h", ".cc"] {
        for file in files(&root(), suffix) {
            let code = fs::read_to_string(&file).expect("a source file can be read");
            let words = words.iter().filter(|w| code.contains(**w));
            found.extend(words.map(|w| format!("{}: {w}", relative(&file))));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Whether a licence expression can be met with `allowed` licences alone.
fn acceptable(expression: &str, allowed: &[String]) -> bool {
    // Old manifests write a slash for OR.
    let expression = expression.replace('/', " OR ");
    let all_of = |part: &str| {
        part.split(" AND ").all(|one| {
            let one = one.trim().trim_matches(['(', ')']).trim();
            allowed.iter().any(|a| a == one)
        })
    };
    match expression
        .strip_prefix('(')
        .and_then(|e| e.split_once(") AND "))
    {
        Some((choice, rest)) => choice.split(" OR ").any(all_of) && acceptable(rest, allowed),
        None => expression.split(" OR ").any(all_of),
    }
}

fn allowed_licences() -> Vec<String> {
    let deny = fs::read_to_string(root().join("deny.toml")).expect("deny.toml is there");
    let start = deny.find("allow = [").expect("deny.toml has a list");
    let end = start + deny[start..].find(']').expect("the list ends");
    let quoted = deny[start..end].split('"').skip(1).step_by(2);
    quoted.map(str::to_owned).collect()
}

#[test]
fn every_dependency_has_a_licence_that_deny_toml_allows() {
    let allowed = allowed_licences();
    assert!(allowed.iter().any(|a| a == "MIT"));
    let metadata = metadata();
    let refused: Vec<_> = list(&metadata, "packages")
        .iter()
        .filter(|p| !acceptable(text(p, "license"), &allowed))
        .map(|p| format!("{}: {}", text(p, "name"), p["license"]))
        .collect();
    assert_eq!(refused, Vec::<String>::new());
}

#[test]
fn licence_expressions_are_judged_as_spdx_means_them() {
    let allowed = ["MIT".to_owned(), "ISC".to_owned()];
    for good in [
        "MIT",
        "GPL-2.0 OR MIT",
        "MIT/Apache-2.0",
        "(GPL-2.0 OR MIT) AND ISC",
    ] {
        assert!(acceptable(good, &allowed), "{good}");
    }
    for bad in ["", "GPL-2.0", "MIT AND GPL-2.0", "(MIT OR ISC) AND GPL-2.0"] {
        assert!(!acceptable(bad, &allowed), "{bad}");
    }
}

/// The anchor that a heading gets on the web: lower case, hyphens for spaces,
/// no punctuation.
fn anchor(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

/// The text without fenced code, in which brackets mean something else.
fn prose(markdown: &str) -> String {
    let mut fenced = false;
    let mut out = String::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[test]
fn every_link_in_the_documentation_leads_somewhere() {
    let mut broken = Vec::new();
    let mut checked = 0;
    for file in files(&root(), ".md") {
        let page = prose(&fs::read_to_string(&file).expect("a page can be read"));
        for link in page.split("](").skip(1) {
            let target = link.split([')', ' ']).next().unwrap_or_default();
            if target.starts_with("http") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let path = if path.is_empty() {
                file.clone()
            } else {
                file.parent().expect("a file has a directory").join(path)
            };
            let there = path.exists()
                && (fragment.is_empty()
                    || prose(&fs::read_to_string(&path).unwrap_or_default())
                        .lines()
                        .filter(|l| l.starts_with('#'))
                        .any(|l| anchor(l) == fragment));
            if !there {
                broken.push(format!("{}: {target}", relative(&file)));
            }
        }
    }
    assert_eq!(broken, Vec::<String>::new());
    assert!(checked > 0, "there are links");
}

#[test]
fn the_pictures_of_the_guide_are_what_their_script_draws() {
    let drawn = tempfile::tempdir().expect("a folder");
    let ran = Command::new("sh")
        .arg(root().join("scripts/pictures"))
        .arg(drawn.path())
        .status();
    assert!(ran.expect("sh starts").success());
    for name in ["layers.svg", "topology.svg"] {
        let read = |folder: &Path| fs::read_to_string(folder.join(name)).expect(name);
        let (kept, drawn) = (read(&root().join("docs/images")), read(drawn.path()));
        assert!(kept == drawn, "{name}: scripts/pictures draws it anew");
    }
}

#[test]
fn every_library_says_what_it_is_with_an_example_that_compiles() {
    for (name, _) in FLOORS.iter().filter(|(name, _)| *name != "narrows-cli") {
        let folder = name.trim_start_matches("narrows-");
        let file = root().join("crates").join(folder).join("src/lib.rs");
        let text = fs::read_to_string(&file).expect(name);
        let page: Vec<&str> = text.lines().take_while(|l| l.starts_with("//!")).collect();
        let has = |start: &str| page.iter().any(|line| line.starts_with(start));
        assert!(has("//! ```") || has("//!     "), "{name}");
        assert!(!has("//! ```ignore") && !has("//! ```text"), "{name}");
    }
}
