//! Text as other languages spell it, so that nothing of a name is ever read as anything else.

/// A word of a POSIX shell: as it is if every shell takes it so, in single quotes otherwise.
pub(crate) fn shell(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:=@%+,-".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A command of a POSIX shell.
pub(crate) fn command<S: AsRef<str>>(words: &[S]) -> String {
    let words: Vec<_> = words.iter().map(|word| shell(word.as_ref())).collect();
    words.join(" ")
}

/// A string in double quotes, as JSON, YAML and Python read it alike.
pub(crate) fn string(text: &str) -> String {
    let plain = serde_json::Value::String(text.to_owned()).to_string();
    // YAML takes these for line ends, or forbids them.
    let mut quoted = String::with_capacity(plain.len());
    for c in plain.chars() {
        match c {
            '\u{7f}'..='\u{9f}'
            | '\u{2028}'
            | '\u{2029}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(c)));
            }
            c => quoted.push(c),
        }
    }
    quoted
}

/// A list of strings, as JSON, YAML and Python read it alike.
pub(crate) fn list<S: AsRef<str>>(all: &[S]) -> String {
    let all: Vec<_> = all.iter().map(|text| string(text.as_ref())).collect();
    format!("[{}]", all.join(", "))
}

/// Comment lines behind `sign`, whatever `text` holds.
pub(crate) fn comment(sign: &str, text: &str) -> String {
    let lines = text.lines().map(|line| {
        let shown: String = line
            .chars()
            .map(|c| {
                if c.is_control() || "\u{2028}\u{2029}".contains(c) {
                    ' '
                } else {
                    c
                }
            })
            .collect();
        format!("{sign} {}", shown.trim_end()).trim_end().to_owned() + "\n"
    });
    lines.collect()
}

/// A name of ASCII letters, digits and those of `more` that no name before has: other characters
/// are replaced, and it begins with a letter or a digit.
pub(crate) fn plain_name<'n>(name: &str, more: &str, taken: impl Fn(&str) -> bool + 'n) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
    let mut plain: String = name
        .chars()
        .map(|c| if fits(c) { c } else { '-' })
        .collect();
    if !more.contains('-') {
        plain = plain.replace('-', "x");
    }
    if !plain.starts_with(|c: char| c.is_ascii_alphanumeric()) {
        plain.insert(0, 'n');
    }
    while plain.ends_with(|c: char| !c.is_ascii_alphanumeric()) {
        plain.pop();
    }
    let (base, mut number) = (plain.clone(), 1);
    while taken(&plain) {
        number += 1;
        plain = format!("{base}-{number}");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_the_word_that_was_quoted() {
        let words = [
            "",
            "a b",
            "$(touch x)",
            "`id`",
            "it's",
            "\"",
            "a\nb",
            "-rf",
            "*",
            "~",
            "#x",
            "ü",
            "a=b",
            "\\",
            "!x",
            "{a,b}",
            "'",
            "x;y",
            "a\tb",
            "$HOME",
        ];
        let script = format!("printf '%s\\0' {}", command(&words));
        let Ok(output) = std::process::Command::new("sh")
            .arg("-c")
            .arg(script)
            .output()
        else {
            eprintln!("skipped: a_shell_reads_back_the_word_that_was_quoted: no sh");
            return;
        };
        let said = String::from_utf8(output.stdout).expect("UTF-8");
        let read: Vec<_> = said.split_terminator('\0').collect();
        assert_eq!(read, words);
    }

    #[test]
    fn a_comment_stays_one() {
        let text = "one\ntwo\rrm -rf\u{2028}three\u{0}";
        assert_eq!(comment("#", text), "# one\n# two rm -rf three\n");
        assert_eq!(comment("#", "a\n\nb"), "# a\n#\n# b\n");
    }

    #[test]
    fn names_are_made_plain_and_stay_apart() {
        assert_eq!(plain_name("ü_ber.x", "-_.", |_| false), "n-_ber.x");
        assert_eq!(plain_name("a", "-", |name| name == "a"), "a-2");
        assert_eq!(plain_name("…", "-", |_| false), "n");
    }
}
