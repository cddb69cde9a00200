//! The order of the house: floors, portability, unsafe code, licences.

mod rooms;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::tree::{files, relative, root};
use serde_json::Value;

/// The files that may hold unsafe code: the borders to C and to the kernel.
const UNSAFE: &[&str] = &[
    "crates/capture/src/ring.rs",
    "crates/cc/src/ffi.rs",
    "crates/pep-client/src/c.rs",
    "crates/python/src/arrow.rs",
    "crates/efm/src/ffi.rs",
    "crates/linux/src/socket_option.rs",
    "crates/linux/src/system_calls.rs",
    "crates/linux/src/timed_socket.rs",
    "crates/mmb/src/ffi.rs",
    "crates/bpf/src/grace.rs",
    "crates/bpf/src/tcx.rs",
];

/// Beginnings of names of packages that are known to build or make sense on Linux only,
/// ours among them. The simulator is for every system.
const LINUX_ONLY: [&str; 17] = [
    "aya",
    "bpf",
    "caps",
    "evdev",
    "io-uring",
    "libbpf",
    "narrows-bpf",
    "narrows-capture",
    "narrows-pep-client",
    "narrows-linux",
    "narrows-live",
    "netlink",
    "netns",
    "nix",
    "procfs",
    "rtnetlink",
    "tun",
];

/// `cargo metadata` of the workspace. It needs packages for other systems, which a build
/// does not fetch: without the network first, so that a machine that has them needs none.
fn metadata() -> Value {
    let run = |more: &[&str]| {
        Command::new(env!("CARGO"))
            .args(["metadata", "--format-version", "1", "--locked"])
            .args(more)
            .current_dir(root())
            .output()
            .expect("cargo runs")
    };
    let offline = run(&["--offline"]);
    let output = if offline.status.success() {
        offline
    } else {
        run(&[])
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

/// The floors of `CONTRIBUTING.md`, by crate.
fn floors() -> BTreeMap<String, u8> {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let rows = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.split(" | ");
        Some((cells.next()?.parse::<u8>().ok()?, cells.next()?))
    });
    let crates = rows.flat_map(|(floor, crates)| {
        let quoted = crates.split('`').skip(1).step_by(2);
        quoted.map(move |name| (name.to_owned(), floor))
    });
    let mut floors = BTreeMap::new();
    for (name, floor) in crates {
        let other = floors.insert(name.clone(), floor);
        assert_eq!(other, None, "{name} has one floor");
    }
    floors
}

/// The folder of a package.
fn folder(package: &Value) -> PathBuf {
    let manifest = Path::new(text(package, "manifest_path"));
    manifest
        .parent()
        .expect("a manifest is in a folder")
        .to_path_buf()
}

/// The targets of a package that are of one of these kinds.
fn targets<'a>(package: &'a Value, kinds: &'a [&str]) -> impl Iterator<Item = &'a Value> {
    list(package, "targets").iter().filter(move |target| {
        let mut own = list(target, "kind").iter().filter_map(Value::as_str);
        own.any(|kind| kinds.contains(&kind))
    })
}

/// The root file of a target.
fn head(target: &Value) -> PathBuf {
    PathBuf::from(text(target, "src_path"))
}

/// Rust without comments and without what is compiled for tests alone: items behind
/// `#[cfg(test)]`, up to the line that ends them at the same depth.
fn product(code: &str) -> String {
    let mut out = String::new();
    let mut tests: Option<usize> = None;
    for line in code.lines() {
        let depth = line.len() - line.trim_start().len();
        let text = line.split("//").next().unwrap_or_default().trim_end();
        match tests {
            None if text.trim() == "#[cfg(test)]" => tests = Some(depth),
            None => {
                out.push_str(text);
                out.push('\n');
            }
            Some(from) if depth == from && text.ends_with([';', '}']) => tests = None,
            Some(_) => {}
        }
    }
    out
}

/// The modules that a file with this code declares for tests alone: behind `#[cfg(test)]`,
/// or behind a feature of tests.
fn modules_of_tests(code: &str) -> Vec<&str> {
    let of_tests = |attribute: &str| {
        let feature = |f: &&str| attribute == format!("#[cfg(feature = \"{f}\")]");
        attribute == "#[cfg(test)]" || OF_TESTS.iter().any(feature)
    };
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let declared = lines.windows(2).filter(|pair| of_tests(pair[0]));
    let names = declared.filter_map(|pair| pair[1].strip_suffix(';')?.split("mod ").nth(1));
    names.collect()
}

/// The product's source files of a package: all but modules of tests.
fn sources(package: &Value) -> Vec<PathBuf> {
    let mut all = files(&folder(package).join("src"), ".rs");
    let mut of_tests = Vec::new();
    for file in &all {
        let folder = match file.file_stem().and_then(|stem| stem.to_str()) {
            Some("lib" | "main" | "mod") => file.parent().expect("a file is in a folder").into(),
            _ => file.with_extension(""),
        };
        let code = fs::read_to_string(file).expect("a source file");
        of_tests.extend(modules_of_tests(&code).iter().map(|name| folder.join(name)));
    }
    all.retain(|path| {
        let of = |module: &PathBuf| path.with_extension("") == *module || path.starts_with(module);
        !of_tests.iter().any(of)
    });
    all
}

/// Time is an argument below the engines and in the reduction, and nothing there is shared behind
/// its caller's back; four crates talk to a kernel, and two are tools.
#[test]
fn no_clock_thread_socket_global_or_environment_is_used_below_the_engines() {
    const TALKERS: [&str; 6] = [
        "narrows-bpf",
        "narrows-capture",
        "narrows-pep-client",
        "narrows-files",
        "narrows-cbuild",
        "narrows-fuzz",
    ];
    const WORDS: [&str; 17] = [
        "Instant::now",
        "SystemTime",
        ".elapsed()",
        "std::thread",
        "thread::",
        "thread_local!",
        "static mut",
        "OnceLock",
        "LazyLock",
        "std::env",
        "env::var",
        "env::args",
        "TcpStream",
        "TcpListener",
        "UdpSocket",
        "UnixStream",
        "UnixDatagram",
    ];
    /// What makes a `static` one that changes.
    const CELLS: [&str; 4] = ["Atomic", "Mutex", "RwLock", "Cell"];
    let (metadata, floors) = (metadata(), floors());
    let mut found = Vec::new();
    let mut read = 0;
    for package in ours(&metadata) {
        let name = text(package, "name");
        if name != "narrows-reduce" && floors[name] >= floors["narrows-linux"]
            || TALKERS.contains(&name)
        {
            continue;
        }
        for file in sources(package) {
            read += 1;
            let code = product(&fs::read_to_string(&file).expect("a source file"));
            let words = WORDS.iter().filter(|word| code.contains(**word));
            found.extend(words.map(|word| format!("{}: {word}", relative(&file))));
            let globals = code.lines().filter(|line| {
                let is_static = line.split_whitespace().take(2).any(|word| word == "static");
                is_static && CELLS.iter().any(|cell| line.contains(cell))
            });
            found.extend(globals.map(|line| format!("{}: {line}", relative(&file))));
        }
    }
    assert_eq!(found, Vec::<String>::new());
    assert!(read > 100, "only {read} files were read");
}

#[test]
fn what_is_compiled_for_tests_alone_is_no_part_of_the_product() {
    let code = "#[cfg(test)]\nmod samples;\nfn a() {} // SystemTime\n\
                #[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n";
    assert_eq!(product(code), "fn a() {}\nfn c() {}\n");
    assert_eq!(modules_of_tests(code), ["samples"]);
    let feature = "mod a;\n#[cfg(feature = \"testkit\")]\npub mod testkit;\n#[cfg(unix)]\nmod b;\n";
    assert_eq!(modules_of_tests(feature), ["testkit"]);
}

#[test]
fn no_source_file_has_over_600_lines_or_a_name_that_fits_anything() {
    /// Lines; most files have less than half as many.
    const LONGEST: usize = 600;
    const NOTHING: [&str; 8] = [
        "util", "utils", "helper", "helpers", "misc", "common", "manager", "stuff",
    ];
    let mut found = Vec::new();
    for suffix in [".rs", ".c", ".h"] {
        for file in files(&root().join("crates"), suffix) {
            let name = relative(&file);
            let lines = fs::read_to_string(&file)
                .expect("a source file")
                .lines()
                .count();
            if lines > LONGEST {
                found.push(format!("{name} has {lines} lines"));
            }
            let mut parts = name.split(['/', '.']);
            if parts.any(|part| NOTHING.contains(&part)) {
                found.push(format!("{name}: say what is in it"));
            }
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Features that are for tests alone.
const OF_TESTS: [&str; 2] = ["test-controls", "testkit"];

/// Wrong rules, controls of tests and drivers exist in tests and nowhere else.
#[test]
fn only_development_dependencies_ask_for_what_tests_use() {
    let metadata = metadata();
    let mut used_by_tests = BTreeSet::new();
    for package in ours(&metadata) {
        for used in list(package, "dependencies") {
            let features = list(used, "features");
            for feature in OF_TESTS.iter().filter(|t| features.iter().any(|f| f == *t)) {
                let name = text(package, "name");
                assert_eq!(text(used, "kind"), "dev", "{name} uses {features:?}");
                used_by_tests.insert(*feature);
            }
        }
        let default = list(&package["features"], "default");
        assert!(default.iter().all(|f| OF_TESTS.iter().all(|t| f != t)));
    }
    assert_eq!(used_by_tests, OF_TESTS.into(), "each has a user");
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
fn the_simulator_depends_on_no_package_that_is_known_to_need_linux() {
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

/// Where the word `unsafe` is used in code, not in the name of a lint.
fn uses_of_unsafe(code: &str) -> usize {
    let letters = |c: char| c.is_alphanumeric() || c == '_';
    let code = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    let words = code.flat_map(|line| line.split(|c| !letters(c)));
    words.filter(|word| *word == "unsafe").count()
}

#[test]
fn unsafe_code_is_in_the_listed_files_alone_and_each_use_is_explained() {
    let metadata = metadata();
    for package in ours(&metadata) {
        let inside = format!("{}/", relative(&folder(package)));
        let open = UNSAFE.iter().filter(|f| f.starts_with(&inside)).count();
        let wanted = match open {
            0 => "#![forbid(unsafe_code)]",
            _ => "#![deny(unsafe_code)]",
        };
        let heads: Vec<_> = targets(package, &["lib", "cdylib", "bin", "proc-macro"])
            .map(head)
            .collect();
        assert!(!heads.is_empty(), "{inside} builds something");
        for head in heads {
            let code = fs::read_to_string(&head).expect("a crate root can be read");
            let found = code.lines().any(|line| line == wanted);
            assert!(found, "{} has {wanted}", relative(&head));
        }
        let allow = |path: &PathBuf| {
            let code = fs::read_to_string(path).expect("a source file can be read");
            code.matches("allow(unsafe_code)").count()
        };
        let allowed: usize = files(&folder(package).join("src"), ".rs")
            .iter()
            .map(allow)
            .sum();
        assert_eq!(
            allowed, open,
            "{inside}: files in which unsafe code is allowed"
        );
    }
    for file in files(&root().join("crates"), ".rs") {
        let code = fs::read_to_string(&file).expect("a source file can be read");
        let name = relative(&file);
        if UNSAFE.contains(&name.as_str()) {
            let forms = ["unsafe {", "unsafe impl", "unsafe fn"];
            let uses: usize = forms.iter().map(|form| code.matches(form).count()).sum();
            let explained = code.matches("SAFETY:").count();
            assert!(
                uses > 0 && explained >= uses,
                "{name}: {explained} of {uses}"
            );
        } else if name.contains("/src/") {
            assert_eq!(uses_of_unsafe(&code), 0, "{name} holds unsafe code");
        }
    }
    assert_eq!(
        uses_of_unsafe("#![deny(unsafe_code)]\n// unsafe\nunsafe fn f() {}"),
        1
    );
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

/// Splits at `word` where it is outside of brackets.
fn split_outside<'a>(expression: &'a str, word: &str) -> Vec<&'a str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in expression.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= start && expression[at..].starts_with(word) => {
                parts.push(&expression[start..at]);
                start = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[start..]);
    parts
}

/// Whether an SPDX licence expression can be met with `allowed` licences alone: AND binds
/// more closely than OR, and a licence WITH an exception is one of its own.
fn acceptable(expression: &str, allowed: &[String]) -> bool {
    // Old manifests write a slash for OR.
    let expression = expression.replace('/', " OR ");
    let expression = expression.trim();
    for (word, any) in [(" OR ", true), (" AND ", false)] {
        let parts = split_outside(expression, word);
        if parts.len() > 1 {
            let good = |part: &&str| acceptable(part, allowed);
            return match any {
                true => parts.iter().any(good),
                false => parts.iter().all(good),
            };
        }
    }
    let inner = expression
        .strip_prefix('(')
        .and_then(|e| e.strip_suffix(')'));
    match inner {
        Some(inner) => acceptable(inner, allowed),
        None => allowed.iter().any(|a| a == expression),
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
        "ISC AND (GPL-2.0 OR MIT)",
        "GPL-2.0 AND ISC OR MIT",
        "(GPL-2.0 AND ISC) OR ((MIT))",
    ] {
        assert!(acceptable(good, &allowed), "{good}");
    }
    for bad in [
        "",
        "GPL-2.0",
        "MIT AND GPL-2.0",
        "(MIT OR ISC) AND GPL-2.0",
        "GPL-2.0 AND (ISC OR MIT)",
        "MIT WITH exception",
    ] {
        assert!(!acceptable(bad, &allowed), "{bad}");
    }
}

#[test]
fn every_library_says_what_it_is_with_an_example_that_compiles() {
    let metadata = metadata();
    let packages = ours(&metadata);
    for library in packages
        .iter()
        .flat_map(|p| targets(p, &["lib", "proc-macro"]))
    {
        let head = head(library);
        assert_eq!(
            library["doctest"],
            true,
            "{}: examples are tests",
            relative(&head)
        );
        let code = fs::read_to_string(&head).expect("a crate root can be read");
        let page = code.lines().take_while(|l| l.starts_with("//!"));
        let fences: Vec<&str> = page.filter_map(|l| l.strip_prefix("//! ```")).collect();
        // What opens an example; every other fence closes one.
        let opened: Vec<&str> = fences.iter().copied().step_by(2).collect();
        let compiles = |tag: &&str| matches!(*tag, "" | "no_run" | "should_panic");
        let name = relative(&head);
        assert!(opened.iter().any(compiles), "{name} has an example");
        let known = |tag: &str| matches!(tag, "" | "no_run" | "should_panic" | "toml" | "console");
        assert!(opened.iter().all(|tag| known(tag)), "{name}: {opened:?}");
    }
}
