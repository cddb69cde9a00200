//! The guide's chapter says what the table of fields says, and its rules are rules.

use std::fs;
use std::path::Path;

use narrows_mmb::{Command, Field, READY, field_reference};

fn chapter() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/boxes.md");
    fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()))
}

#[test]
fn the_field_reference_of_the_guide_is_that_of_the_table() {
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fields.md");
    fs::write(&written, field_reference()).unwrap();
    let chapter = chapter();
    let (_, reference) = chapter
        .split_once("## The fields\n")
        .expect("the chapter has fields");
    assert!(
        reference.contains(&field_reference()),
        "docs/boxes.md is not up to date: put {} below `## The fields`",
        written.display()
    );
}

#[test]
fn every_field_has_a_row_of_the_reference_below_the_heading_of_its_layer() {
    let reference = field_reference();
    for field in Field::all() {
        let row = format!("\n| `{}` | {} | ", field.name(), field.about());
        let rows: Vec<_> = reference.match_indices(&row).collect();
        assert_eq!(rows.len(), 1, "{}", field.name());
        let heading = reference[..rows[0].0].rsplit("\n### ").next();
        let heading = heading.and_then(|part| part.lines().next());
        assert_eq!(heading, Some(field.layer().title()), "{}", field.name());
    }
}

#[test]
fn the_guide_names_every_ready_box() {
    let chapter = chapter();
    for ready in READY {
        let row = format!("| `{}` | {} |", ready.name, ready.about);
        assert!(chapter.contains(&row), "missing in docs/boxes.md: {row}");
    }
}

#[test]
fn rules_of_the_guide_are_read() {
    let chapter = chapter();
    let lines = chapter.lines().filter(|line| line.starts_with("mmb add"));
    let mut read = 0;
    for line in lines {
        let rule = line.split(" #").next().unwrap_or(line);
        Command::parse(rule).unwrap_or_else(|e| panic!("{rule}: {e}"));
        read += 1;
    }
    assert!(read > 8, "{read}");
}
