//! Files that are made to do harm: refused in bounded time, and nothing of them reaches a shell.

use narrows_descriptors::{Format, Target, export, import};

use crate::{plan, refused};

#[test]
fn aliases_of_aliases_are_refused_before_they_are_unfolded() {
    let mut text = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let below = level - 1;
        text += &format!(
            "a{level}: &a{level} [{}]\n",
            vec![format!("*a{below}"); 9].join(", ")
        );
    }
    let line = refused(&(text + "topology: {nodes: *a29}\n"), Format::Containerlab);
    assert!(line.contains("at most 50000 values"), "{line}");
}

#[test]
fn a_million_nodes_are_too_many() {
    let mut text = "topology:\n  nodes:\n".to_owned();
    for node in 0..1_000_000 {
        text += &format!("    n{node}: {{kind: linux}}\n");
    }
    let line = refused(&text, Format::Containerlab);
    assert!(line.contains("at most 1048576 bytes"), "{}", &line[..200]);
    // As many as fit a file are too many values.
    text.truncate(1 << 20);
    let end = text.rfind('\n').expect("lines");
    text.truncate(end + 1);
    let line = refused(&text, Format::Containerlab);
    assert!(
        line.contains("keys in a map") || line.contains("50000 values"),
        "{}",
        &line[..200]
    );
    let line = refused(&"CREATE Node n Type m;\n".repeat(1_000_000), Format::Nemo);
    assert!(line.contains("at most 1048576 bytes"), "{}", &line[..200]);
}

#[test]
fn lists_in_lists_end_at_a_depth() {
    for open in ["[", "{a: ", "- "] {
        let text = format!("topology:\n  {}", open.repeat(100_000));
        let line = refused(&text, Format::Containerlab);
        let bounded = ["at most 32 lists", "recursion limit"];
        assert!(
            bounded.iter().any(|why| line.contains(why)),
            "{open}: {line}"
        );
    }
}

#[test]
fn models_that_unfold_to_too_much_are_refused_before_they_do() {
    // 2^60 nodes, with leaves at the end and without.
    for leaf in ["VNFD file:///x.yaml", ""] {
        let mut text = format!("CREATE NodeModel m0 {leaf};\n");
        for level in 1..=60 {
            let below = level - 1;
            text += &format!(
                "CREATE NodeModel m{level}; Node a Type m{below}; Node b Type m{below};\n"
            );
        }
        let line = refused(&(text + "CREATE Node all Type m60;\n"), Format::Nemo);
        assert!(line.contains("at most 10000 nodes"), "{line}");
    }
    // A chain that would exhaust the stack.
    let mut text = "CREATE NodeModel m0;\n".to_owned();
    for level in 1..15_000 {
        text += &format!("CREATE NodeModel m{level}; Node a Type m{};\n", level - 1);
    }
    let line = refused(&(text + "CREATE Node all Type m14999;\n"), Format::Nemo);
    assert!(line.contains("64 levels"), "{line}");
    // The same as a circle.
    let mut text = String::new();
    for level in 0..15_000 {
        text += &format!(
            "CREATE NodeModel m{level}; Node a Type m{};\n",
            (level + 1) % 15_000
        );
    }
    let line = refused(&text, Format::Nemo);
    assert!(line.contains("in itself"), "{line}");
}

#[test]
fn a_large_network_is_written_in_bounds() {
    let mut text = "version = 1\nname = \"chain\"\nduration = \"5s\"\n".to_owned();
    for link in 0..1_000 {
        let ends = format!("[\"n{link}\", \"n{}\"]", link + 1);
        text += &format!("[[link]]\nname = \"l{link}\"\nends = {ends}\n");
    }
    text += "[[probe]]\nname = \"p\"\nfrom = \"n0\"\nto = \"n1000\"\n";
    let plan = plan(&text);
    for target in [Target::Shell, Target::Compose, Target::Containerlab] {
        let written = export(&plan, target);
        assert!(
            written.text.len() < 1 << 21,
            "{target:?}: {}",
            written.text.len()
        );
        assert!(written.lost.iter().any(|lost| lost.what == "routes"));
    }
}

/// What a shell would obey, or take for an option or the end of something.
const NAMES: [&str; 9] = [
    "$(touch x)",
    "`touch x`",
    "a b",
    "a;touch x",
    "-rf",
    "a\\nb",
    "\\\"",
    "'",
    "../x",
];

#[test]
fn names_that_a_shell_would_obey_are_none() {
    for name in NAMES {
        let text = format!(
            "topology:\n  nodes:\n    \"{name}\": {{kind: linux}}\n    b: {{kind: linux}}\n  links:\n    \
             - type: veth\n      endpoints:\n        - {{node: \"{name}\", interface: eth1}}\n        \
             - {{node: b, interface: eth1}}\n"
        );
        let line = refused(&text, Format::Containerlab);
        assert!(
            line.starts_with("lab:3:5") && line.contains("a name of letters"),
            "{name}: {line}"
        );
        let text = format!("CREATE NodeModel {name} VNFD file:///x;\n");
        assert!(refused(&text, Format::Nemo).starts_with("lab:1:"), "{name}");
    }
}

#[test]
fn files_beyond_the_descriptor_s_folder_are_not_read() {
    let at = tempfile::tempdir().expect("a folder");
    let folder = at.path().join("lab");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(at.path().join("delay.csv"), "time_s,delay_ms\n0,10\n").expect("a file");
    std::fs::write(folder.join("delay.csv"), "time_s,delay_ms\n0,10\n").expect("a file");
    let with = |file: &str| {
        let text = format!(
            "topology:\n  nodes: {{a: {{kind: linux}}, b: {{kind: linux}}}}\n  links:\n    - endpoints: \
             [\"a:eth1\", \"b:eth1\"]\n      vars: {{narrows/up: \"netem trace {file}\"}}\n"
        );
        import("lab", &text, &folder, None)
    };
    with("delay.csv").expect("a file beside it");
    let absolute = at.path().join("delay.csv").display().to_string();
    for file in ["../delay.csv", "./../delay.csv", &absolute] {
        let line = with(file).expect_err(file).to_line();
        assert!(
            line.starts_with("lab:5:") && line.contains("leads out of the folder"),
            "{line}"
        );
    }
}

/// A scenario whose names and texts are as bad as a scenario's can be.
const BAD: &str = r##"
version = 1
name = "$(touch x) `touch x`; touch x 'a \"b\" # */ --"
title = "one\ntouch x\n\"\"\"\n'''\n$(touch x)\nEOF"
about = "${x} $x %s \\ \u2028touch x"
duration = "5s"
[[link]]
name = "access"
ends = ["Ünder", "_1"]
up = ["bottle: rate 5Mbit"]
down = ["mmb add ip-saddr 10.0.0.1 drop; add ip-proto udp drop"]
[[flow]]
name = "f"
from = "Ünder"
to = "_1"
cc = "cubic"
[[command]]
name = "c"
host = "_1"
run = ["sh", "-c", "touch x; $(touch x) `touch x`\ntouch x"]
"##;

#[test]
fn nothing_of_a_file_is_a_command_of_the_script_that_is_written() {
    let plan = plan(BAD);
    let at = tempfile::tempdir().expect("a folder");
    let script = export(&plan, Target::Shell).text;
    std::fs::write(at.path().join("lab.sh"), &script).expect("a file");
    // Programs that only write down how they were called.
    for program in ["ip", "tc"] {
        let text = "#!/bin/sh\nprintf '%s|' \"$0\" \"$@\" >>calls\necho >>calls\n";
        let path = at.path().join(program);
        std::fs::write(&path, text).expect("a file");
        #[cfg(unix)]
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .expect("rights");
    }
    let ran = std::process::Command::new("sh")
        .args(["lab.sh", "up"])
        .current_dir(at.path())
        .env("PATH", format!("{}:/usr/bin:/bin", at.path().display()))
        .output();
    let Ok(ran) = ran else {
        eprintln!("skipped: nothing_of_a_file_is_a_command_of_the_script_that_is_written: no sh");
        return;
    };
    assert!(ran.status.success(), "{ran:?}\n{script}");
    assert!(!at.path().join("x").exists(), "{script}");
    let calls = std::fs::read_to_string(at.path().join("calls")).expect("calls");
    assert!(calls.contains("netns|add|"), "{calls}");
    // Words as they were meant: no name was taken apart.
    assert!(calls.lines().all(|call| call.ends_with('|')), "{calls}");
}

#[test]
fn every_line_of_every_file_that_is_text_of_the_scenario_is_a_comment_or_a_string() {
    let plan = plan(BAD);
    for target in [
        Target::Compose,
        Target::Mininet,
        Target::Containerlab,
        Target::Sol006,
        Target::Osm,
        Target::Nemo,
    ] {
        let text = export(&plan, target).text;
        for line in text.lines().filter(|line| line.contains("touch x")) {
            let line = line.trim_start();
            let comment = line.starts_with('#') || line.starts_with("//");
            let string = line.contains(": \"") || line.starts_with("- \"");
            // Of the scenario that a label has.
            let toml = ["name = ", "title = ", "about = ", "run = "]
                .iter()
                .any(|key| line.starts_with(key));
            let inside = matches!(target, Target::Containerlab | Target::Nemo);
            assert!(
                comment || string || inside || toml,
                "{target:?}: {line}\n{text}"
            );
        }
        // No dollar of the file is left to Compose.
        if target == Target::Compose {
            let values = text
                .lines()
                .filter(|line| !line.trim_start().starts_with('#'));
            assert!(
                values
                    .into_iter()
                    .all(|line| !line.replace("$$", "").contains('$')),
                "{text}"
            );
        }
    }
}
