//! Programs that a build runs, and what they say when they fail.

use std::process::{Command, Output, Stdio};

use crate::error::BuildError;

/// Lines of a program's words that an error shows.
const SHOWN: usize = 6;

/// Runs `command` to its end.
///
/// # Errors
/// When it cannot be run, or fails.
pub(crate) fn run(command: &mut Command) -> Result<(), BuildError> {
    answer(command).map(drop)
}

/// The same, and what it printed.
///
/// # Errors
/// As [`run`].
pub(crate) fn answer(command: &mut Command) -> Result<String, BuildError> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|e| failed(command, &e.to_string()))?;
    check(command, &output)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn check(command: &Command, output: &Output) -> Result<(), BuildError> {
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said = match said.trim() {
        "" => output.status.to_string(),
        said => last_lines(said),
    };
    Err(failed(command, &said))
}

/// What an error says of a program that failed.
pub(crate) fn failed(command: &Command, said: &str) -> BuildError {
    let program = command.get_program().to_string_lossy().into_owned();
    // Settings say little to whoever reads the error.
    let words = command.get_args().map(|word| word.to_string_lossy());
    let plain = words.filter(|w| !w.starts_with('-') && !w.contains('='));
    let words: Vec<_> = std::iter::once(program.into()).chain(plain).collect();
    BuildError::Failed {
        program: words.join(" "),
        said: said.to_owned(),
    }
}

/// The last lines of `text`; of those that speak of errors, where some do.
pub(crate) fn last_lines(text: &str) -> String {
    let lines: Vec<_> = text.lines().filter(|l| !l.trim().is_empty()).collect();
    let is_error = |line: &&str| line.contains("error:") || line.starts_with("E: ");
    let mut errors: Vec<_> = lines.iter().copied().filter(is_error).collect();
    if errors.is_empty() {
        errors = lines;
    }
    let from = errors.len().saturating_sub(SHOWN);
    errors[from..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_named_with_its_own_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such thing >&2; exit 3"]);
        let said = run(&mut command).unwrap_err().to_string();
        assert!(
            said.starts_with("sh echo") && said.ends_with(": no such thing"),
            "{said}"
        );
        let said = run(&mut Command::new("/no/such/program")).unwrap_err();
        assert!(said.to_string().contains("/no/such/program failed: "));
        assert_eq!(answer(Command::new("echo").arg("a")).unwrap(), "a\n");
    }

    #[test]
    fn errors_are_shown_before_what_else_was_said() {
        let text = "  CC a.o\na.c:1: error: no\n\nmake: *** [a.o] 1\n";
        assert_eq!(last_lines(text), "a.c:1: error: no");
        assert_eq!(last_lines("one\ntwo\n"), "one\ntwo");
    }
}
