//! The command that repeats what a page shows.

/// `words` as a line for a POSIX shell.
pub fn line(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    quoted.join(" ")
}

/// A word as a shell takes it: in single quotes where it is not plain.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

/// The command that runs one cell as the campaign's own `command` ran it:
/// with its seeds and settings, but of its cells only this one. `command` may
/// be empty where it is not known.
pub fn of_cell(command: &[String], campaign: &str, cell: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut given = command.iter();
    while let Some(word) = given.next() {
        match word.as_str() {
            "--only" => {
                given.next();
            }
            _ => words.push(word.clone()),
        }
    }
    if words.is_empty() {
        words = ["narrows", "campaign", campaign].map(str::to_owned).into();
    }
    words.extend(["--only".to_owned(), cell.to_owned()]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &[&str]) -> Vec<String> {
        line.iter().map(|w| (*w).to_owned()).collect()
    }

    #[test]
    fn a_shell_reads_the_words_again() {
        let given = [
            "run",
            "--link",
            "netem delay 10ms",
            "it's",
            "",
            "a=b",
            "$x",
            "50Mbit/*",
        ];
        let line = line(&words(&given));
        assert_eq!(
            line,
            "run --link 'netem delay 10ms' 'it'\\''s' '' a=b '$x' '50Mbit/*'"
        );
        let echo = format!("printf '%s\\n' {line}");
        let shell = std::process::Command::new("sh")
            .args(["-c", &echo])
            .output();
        let output = String::from_utf8(shell.unwrap().stdout).unwrap();
        assert_eq!(output.lines().collect::<Vec<_>>(), given);
    }

    #[test]
    fn a_cell_is_run_as_its_campaign_was() {
        let made = words(&[
            "narrows",
            "campaign",
            "x.toml",
            "--only",
            "50Mbit/*",
            "--only",
            "b/*",
            "--seeds",
            "3",
            "--set",
            "duration=9s",
        ]);
        assert_eq!(
            line(&of_cell(&made, "x", "50Mbit/a b")),
            "narrows campaign x.toml --seeds 3 --set duration=9s --only '50Mbit/a b'"
        );
        assert_eq!(line(&of_cell(&[], "x", "c")), "narrows campaign x --only c");
    }
}
