//! Commands, as they are typed or stand in a file.

use std::fmt;

use narrows_units::{Word, WordError, Words};

use crate::repeat::Patterns;
use crate::rule::Rule;

/// One command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// `add`, `add-stateless`, `add-stateful`: one more rule.
    Add(Rule),
    /// `insert N RULE`: one more rule, which gets this number, from 1; those from there on move down.
    Insert(usize, Rule),
    /// `del N`: the rule of this number goes, from 1; those behind it move up.
    Delete(usize),
    /// `flush`: all rules and connections go.
    Flush,
    /// `list`: the rules, with what they counted.
    List,
    /// `show tables [verbose]`: how the classifier stores them.
    Tables {
        /// With every key.
        verbose: bool,
    },
    /// `show connections [verbose]`: those that are tracked.
    Connections {
        /// With flags, offsets and rules.
        verbose: bool,
    },
    /// `enable IFACE`: packets that come by this interface are handled.
    Enable(String),
    /// `disable IFACE`: packets that come by this interface pass as they are.
    Disable(String),
}

/// The words that rules begin with.
pub(crate) const ADDS: [&str; 3] = ["add", "add-stateless", "add-stateful"];

impl Command {
    /// The words that commands begin with.
    pub const STARTS: [&str; 10] = [
        "add",
        "add-stateless",
        "add-stateful",
        "insert",
        "del",
        "flush",
        "list",
        "show",
        "enable",
        "disable",
    ];

    /// Whether it changes nothing, but shows something.
    pub fn only_shows(&self) -> bool {
        matches!(
            self,
            Self::List | Self::Tables { .. } | Self::Connections { .. }
        )
    }

    /// Reads one command, with or without `mmb` before it.
    ///
    /// # Errors
    /// The first word that cannot stand where it does; the span is that in `line`.
    pub fn parse(line: &str) -> Result<Self, WordError> {
        Self::read(line, &mut Vec::new())
    }

    /// The same; puts the words of the numbers that a rule compares with into `numbers`.
    fn read<'a>(line: &'a str, numbers: &mut Vec<Word<'a>>) -> Result<Self, WordError> {
        let mut words = Words::new(line);
        words.take_if("mmb");
        let allowed = || format!("a command: {}", Self::STARTS.join(", "));
        let number = |words: &mut Words<'_>| {
            let number = words.value_where("a rule's number, from 1", |n: &u64| *n > 0);
            number.map(|n| n as usize)
        };
        let word = words.take().ok_or_else(|| words.ended(allowed()))?;
        let command = match word.text {
            "add" | "add-stateless" => {
                Self::Add(Rule::parse_after_add(false, &mut words, numbers)?)
            }
            "add-stateful" => Self::Add(Rule::parse_after_add(true, &mut words, numbers)?),
            "insert" => {
                let number = number(&mut words)?;
                let stateful = words.one_of(&ADDS.map(|word| (word, word == "add-stateful")))?;
                Self::Insert(
                    number,
                    Rule::parse_after_add(stateful, &mut words, numbers)?,
                )
            }
            "del" => Self::Delete(number(&mut words)?),
            "flush" => Self::Flush,
            "list" => Self::List,
            "show" => {
                let what = words.one_of(&[("tables", true), ("connections", false)])?;
                let verbose = words.take_if("verbose");
                match what {
                    true => Self::Tables { verbose },
                    false => Self::Connections { verbose },
                }
            }
            "enable" => Self::Enable(words.needed("the name of an interface")?.text.to_owned()),
            "disable" => Self::Disable(words.needed("the name of an interface")?.text.to_owned()),
            _ => return Err(word.refused(allowed())),
        };
        words.finish("the end of the command")?;
        Ok(command)
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbose = |verbose: &bool| if *verbose { " verbose" } else { "" };
        match self {
            Self::Add(rule) => rule.fmt(f),
            Self::Insert(n, rule) => write!(f, "insert {n} {rule}"),
            Self::Delete(n) => write!(f, "del {n}"),
            Self::Flush => f.write_str("flush"),
            Self::List => f.write_str("list"),
            Self::Tables { verbose: v } => write!(f, "show tables{}", verbose(v)),
            Self::Connections { verbose: v } => write!(f, "show connections{}", verbose(v)),
            Self::Enable(interface) => write!(f, "enable {interface}"),
            Self::Disable(interface) => write!(f, "disable {interface}"),
        }
    }
}

/// What is wrong in a file of commands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// Its line, from 1.
    pub line: usize,
    /// Byte offset of the line in the file.
    pub offset: usize,
    /// What is wrong there; its span is that in the line.
    pub error: WordError,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "line {}, column {}: {}",
            self.line,
            self.error.span.start + 1,
            self.error
        )?;
        match &self.error.help {
            Some(help) => write!(f, " ({help})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FileError {}

/// The commands of a file or of a scenario's words: one a line, or several with `;` between
/// them. Empty lines and what follows `#` count for nothing.
///
/// # Errors
/// The first line that is no command.
pub fn commands(text: &str) -> Result<Vec<Command>, FileError> {
    let mut commands = Vec::new();
    let mut patterns = Patterns::default();
    // A byte-order mark, as editors of Windows write it, is no part of the first line.
    let (text, mut offset) = match text.strip_prefix('\u{feff}') {
        Some(rest) => (rest, text.len() - rest.len()),
        None => (text, 0),
    };
    for (index, line) in text.split_inclusive('\n').enumerate() {
        if let Some(rule) = patterns.read(line) {
            // Lines that are alike are about as long.
            if commands.len() == commands.capacity() {
                commands.reserve((text.len() - offset) / line.len());
            }
            commands.push(Command::Add(rule));
            offset += line.len();
            continue;
        }
        let code = line.find('#').map_or(line, |at| &line[..at]);
        let mut start = 0;
        for part in code.split(';') {
            if !part.trim().is_empty() {
                let mut numbers = Vec::new();
                // An error at the end of a line is not behind it.
                let read = Command::read(part.trim_end_matches(['\r', '\n']), &mut numbers);
                let mut command = read.map_err(|error| FileError {
                    line: index + 1,
                    offset,
                    error: error.shifted(start),
                })?;
                if let Command::Add(rule) = &mut command {
                    patterns.learn(part, rule, &numbers);
                }
                commands.push(command);
            }
            start += part.len() + 1;
        }
        offset += line.len();
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_line_by_line_and_a_wrong_one_is_named_by_its_line() {
        let text = "# a box\nmmb add all mod ip-ecn 0; list\n\n  show tables verbose # all\ninsert 1 add tcp-syn drop\ndel 2\n";
        let read = commands(text).unwrap();
        let written: Vec<_> = read.iter().map(Command::to_string).collect();
        assert_eq!(
            written,
            [
                "add all mod ip-ecn 0",
                "list",
                "show tables verbose",
                "insert 1 add tcp-syn drop",
                "del 2"
            ]
        );
        let marked = commands("\u{feff}list\nadd all drop").unwrap();
        assert_eq!(marked.len(), 2, "a byte-order mark is none of the words");
        let error = commands("list\nadd all drop; add tcp-fni drop").unwrap_err();
        assert_eq!((error.line, error.offset), (2, 5));
        assert_eq!(
            error.to_string(),
            "line 2, column 19: found `tcp-fni`, but `all`, a field, or `!` and a field is \
             expected here (did you mean `tcp-fin`?)"
        );
    }

    #[test]
    fn what_is_no_command_is_refused() {
        for (line, at) in [
            ("", ""),
            ("mmb", ""),
            ("delete 3", "delete"),
            ("del 0", "0"),
            ("insert 0 add all drop", "0"),
            ("insert add all drop", "add"),
            ("insert 1", ""),
            ("insert 1 all drop", "all"),
            ("show", ""),
            ("show rules", "rules"),
            ("list all", "all"),
            ("enable", ""),
        ] {
            let error = Command::parse(line).expect_err(line);
            assert_eq!(&line[error.span.clone()], at, "{line}: {error}");
        }
    }

    #[test]
    fn list_and_show_are_the_commands_that_change_nothing() {
        for (line, shows) in [
            ("list", true),
            ("show tables", true),
            ("show connections verbose", true),
            ("add all drop", false),
            ("insert 1 add all drop", false),
            ("del 1", false),
            ("flush", false),
            ("enable inside", false),
            ("disable inside", false),
        ] {
            assert_eq!(Command::parse(line).unwrap().only_shows(), shows, "{line}");
        }
    }

    #[test]
    fn the_place_of_an_error_counts_the_byte_order_mark() {
        let error = commands("\u{feff}list\nlost").unwrap_err();
        assert_eq!((error.line, error.offset), (2, 8));
        let error = commands("\u{feff}lost").unwrap_err();
        assert_eq!((error.line, error.offset), (1, 3));
    }

    #[test]
    fn lines_that_are_alike_get_room_once_and_no_more_than_they_need() {
        let mut text = String::new();
        for port in 1_000..2_030 {
            // A short line that another one makes up for is no measure for the rest.
            let width = match port {
                1_009 => 24,
                1_010 => 176,
                _ => 100,
            };
            let line = format!("add tcp-dport {port} drop");
            text += &format!("{line:width$}\n");
        }
        let read = commands(&text).unwrap();
        assert_eq!((read.len(), read.capacity()), (1_030, 1_030));
    }
}
