//! The words of sources and of the guide.

use std::fs;

use crate::tree::{files, relative, root};

/// Turns of phrase for which the field has words of its own, and these. Spelled in two halves, so
/// that this file passes its own test.
const PHRASES: [(&str, &str); 13] = [
    (concat!("hea", "rd"), "received, measured"),
    (concat!("is t", "old"), "is called with, is set to"),
    (concat!("are t", "old"), "are called with, are set to"),
    (concat!("was t", "old"), "was called with, was set to"),
    (concat!("were t", "old"), "were called with, were set to"),
    (concat!("be t", "old"), "be called with, be distinguished"),
    (concat!("carry o", "ut"), "apply"),
    (concat!("carries o", "ut"), "applies"),
    (concat!("carried o", "ut"), "applied"),
    (concat!("carries them o", "ut"), "applies them"),
    (concat!("has s", "aid"), "reported, printed"),
    (concat!("takes no n", "otice"), "ignores"),
    (concat!("knows nothing o", "f"), "does not depend on"),
];

/// The phrases of [`PHRASES`] in `text`, over the ends of lines too.
fn phrases_in(text: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let lower = text.to_lowercase();
    let is_end = |c: char| !c.is_alphanumeric() && c != '_';
    let words: Vec<&str> = lower
        .split(is_end)
        .filter(|word| !word.is_empty())
        .collect();
    let line = format!(" {} ", words.join(" "));
    PHRASES
        .into_iter()
        .filter(move |(phrase, _)| line.contains(&format!(" {phrase} ")))
}

#[test]
fn comments_messages_and_the_guide_have_the_words_of_the_field() {
    let mut found = Vec::new();
    for suffix in [".rs", ".c", ".h", ".md", ".toml"] {
        for file in files(&root(), suffix) {
            let name = relative(&file);
            let text = fs::read_to_string(&file).expect("a source file can be read");
            let phrases = phrases_in(&text);
            found.extend(phrases.map(|(phrase, field)| format!("{name}: {phrase}: {field}")));
        }
    }
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn a_phrase_is_found_over_the_end_of_a_line_and_not_within_words() {
    let two = concat!(
        "/// A control that is\n/// t",
        "old the time, and Is T",
        "old it."
    );
    let found: Vec<_> = phrases_in(two).map(|(phrase, _)| phrase).collect();
    assert_eq!(found, [concat!("is t", "old")]);
    let none = concat!("this t", "old, over", "hea", "rd, un", "hea", "rd_of");
    assert_eq!(phrases_in(none).count(), 0);
}
