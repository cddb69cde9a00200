//! What the oldest compiler that is to build all of this does not know yet, tests included.

use std::fs;

use crate::tree::{files, relative, root};

/// Newer than Rust 1.85 and likely to be written; clippy reports the rest outside of tests
/// (`msrv` in clippy.toml). Spelled in two halves, so that this file passes its own test.
const NEWER: &[&str] = &[concat!("is_multiple", "_of")];

/// Line numbers of conditions that join a pattern to something else (Rust 1.88), in code that
/// rustfmt has formatted.
fn chains(code: &str) -> Vec<usize> {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let lines: Vec<_> = code.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let head = line.trim_start().trim_start_matches("} else ");
        if !["if ", "while "].iter().any(|word| head.starts_with(word)) {
            continue;
        }
        let has_pattern = |line: &str| line.contains(concat!("&& ", "let "));
        let follows = |line: &&&str| {
            indent(line) == indent(lines[at]) + 4 && line.trim_start().starts_with("&& ")
        };
        let ends = |line: &&&str| indent(line) > indent(lines[at]);
        let rest: Vec<_> = lines[at + 1..]
            .iter()
            .take_while(ends)
            .filter(follows)
            .collect();
        let open = !line.ends_with('{');
        let begins = ["if let ", "while let "]
            .iter()
            .any(|w| head.starts_with(w));
        if has_pattern(line) || open && rest.iter().any(|line| begins || has_pattern(line)) {
            found.push(at + 1);
        }
    }
    found
}

#[test]
fn no_source_needs_a_compiler_newer_than_1_85() {
    let mut found = Vec::new();
    for file in files(&root().join("crates"), ".rs") {
        let code = fs::read_to_string(&file).expect("a source file can be read");
        let name = relative(&file);
        if !name.ends_with("oldest_compiler.rs") {
            found.extend(chains(&code).iter().map(|line| format!("{name}:{line}")));
        }
        let newer = NEWER.iter().filter(|word| code.contains(**word));
        found.extend(newer.map(|word| format!("{name}: {word}")));
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn chains_of_conditions_are_found_and_what_resembles_them_is_not() {
    let one = "    if let Some(size) = options.size\n        && size > 3\n    {\n    }\n";
    assert_eq!(chains(one), [1]);
    let late = "    } else if ready\n        && let Some(size) = options.size\n    {\n    }\n";
    assert_eq!(chains(late), [1]);
    assert_eq!(chains("while ready && let Some(x) = next() {\n}\n"), [1]);
    for fine in [
        "if let (Some(a), true) = (b, c && d) {\n}\n",
        "if let Some(a) = b.filter(|b| c && *b > 2) {\n    let d = e\n        && f;\n}\n",
        "if a\n    && b\n{\n    let c = d;\n}\n",
    ] {
        assert_eq!(chains(fine), Vec::<usize>::new(), "{fine}");
    }
}
