//! The guide: its links and its pictures.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tree::{files, relative, root};

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

/// Rows of campaigns in the guide name their numbers of cells last, one for each name.
#[test]
fn the_guide_counts_the_cells_of_campaigns_as_they_are() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/campaigns.md");
    let text = fs::read_to_string(file).expect("the guide");
    let mut counted = 0;
    for row in text.lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let names: Vec<&str> = columns[0].split('`').skip(1).step_by(2).collect();
        let Some(counts) = columns.last().and_then(|last| {
            let counts = last.split(", ").map(str::parse::<usize>);
            counts.collect::<Result<Vec<_>, _>>().ok()
        }) else {
            continue;
        };
        assert_eq!(names.len(), counts.len(), "{row}");
        for (name, count) in names.into_iter().zip(counts) {
            let loaded = narrows::scenario::load(name).expect(name);
            let campaign = loaded.campaign(&[]).expect(name);
            assert_eq!(campaign.cells.len(), count, "{name} in {row}");
            counted += 1;
        }
    }
    assert!(counted > 20, "{counted}");
}
