//! The guide: its links and its pictures.

mod tree;

use std::fs;
use std::path::Path;
use std::process::Command;

use tree::{files, relative, root};

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
