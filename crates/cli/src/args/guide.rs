//! The commands that README, guide and benchmarks show are ones that the program takes.

use std::fs;
use std::path::{Path, PathBuf};

use clap::CommandFactory;

use super::Cli;

/// The pages with commands.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let guide = fs::read_dir(root.join("docs")).expect("the guide");
    let guide = guide.map(|entry| entry.expect("an entry").path());
    let mut pages: Vec<_> = guide.filter(|path| path.extension().is_some()).collect();
    pages.extend(["README.md", "CONTRIBUTING.md", "bench/README.md"].map(|name| root.join(name)));
    pages
}

/// The lines of commands in `page`, each whole: after a prompt, or in a block of a shell's.
fn lines(page: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    // Odd parts are fenced.
    for block in page.split("```").skip(1).step_by(2) {
        let (kind, text) = block.split_once('\n').unwrap_or_default();
        let joined = text.replace("\\\n", " ");
        for line in joined.lines() {
            let prompted = line.strip_prefix("$ ").or_else(|| line.strip_prefix("# "));
            match kind {
                "console" => all.extend(prompted.map(str::to_owned)),
                "sh" => all.push(line.to_owned()),
                _ => {}
            }
        }
    }
    all
}

/// `line` in words as a shell reads it, with quotes and comments; what separates commands is a
/// word of its own.
fn words(line: &str) -> Vec<String> {
    let (mut all, mut word, mut quote): (_, Option<String>, Option<char>) =
        (Vec::new(), None, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(letter),
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, ';' | '|' | '&' | '>' | '<' | '(' | ')') => {
                all.extend(word.take());
                all.push(letter.to_string());
            }
            (None, _) if letter.is_whitespace() => all.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(letter),
        }
    }
    all.extend(word);
    all
}

/// The arguments of each call of the program in `line`.
fn calls(line: &str) -> Vec<Vec<String>> {
    let words = words(line);
    let separates =
        |word: &String| matches!(word.as_str(), ";" | "|" | "&" | ">" | "<" | "(" | ")");
    let commands = words.split(separates);
    // What runs another command, with its own words before that.
    let calls = commands.filter_map(|command| {
        let at = command
            .iter()
            .position(|word| word == "narrows" || word.ends_with("release/narrows"))?;
        const BEFORE: [&str; 10] = [
            "sudo", "ip", "netns", "exec", "time", "env", "nice", "a", "b", "command",
        ];
        let before = command[..at]
            .iter()
            .all(|word| BEFORE.contains(&word.as_str()));
        before.then(|| command[at..].to_vec())
    });
    calls.collect()
}

#[test]
fn every_command_that_the_guide_shows_is_one_that_the_program_takes() {
    let (mut wrong, mut count) = (Vec::new(), 0);
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for line in lines(&text) {
            // Something is left out there.
            for call in calls(&line)
                .iter()
                .filter(|call| !call.iter().any(|w| w == "…"))
            {
                count += 1;
                if let Err(error) = Cli::command().try_get_matches_from(call) {
                    if error.use_stderr() {
                        wrong.push(format!("{}: {line}: {error}", page.display()));
                    }
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert!(count > 60, "only {count} commands were found");
}

#[test]
fn commands_are_found_as_a_shell_finds_them() {
    let page = "x\n```console\n$ narrows run --link 'rate 1Mbit' \\\n    --flow cubic | head\n\
                printed\n# ip netns exec a narrows mark -i v0 & narrows list > x\n```\n";
    let found: Vec<_> = lines(page).iter().flat_map(|line| calls(line)).collect();
    assert_eq!(
        found,
        [
            &["narrows", "run", "--link", "rate 1Mbit", "--flow", "cubic"][..],
            &["narrows", "mark", "-i", "v0"],
            &["narrows", "list"],
        ]
    );
    assert!(calls("echo narrows").is_empty());
}
