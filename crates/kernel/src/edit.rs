//! Small edits of C that find their place by name and by the text that stands there.
//!
//! No line numbers and no context lines: an edit names a file, a function in it and a
//! piece of its text, in which any white space stands for any other. Where one of
//! these is not there the tree is of a kind that nobody has tried, and the edit says
//! so instead of guessing.

use std::fs;
use std::ops::Range;
use std::path::Path;

use regex::Regex;

/// A change of a kernel's source, and why it is made.
#[derive(Debug)]
pub struct Change {
    /// What it is called.
    pub name: &'static str,
    /// Why, for whoever reads the list.
    pub reason: &'static str,
    /// It is made only where this file holds this text.
    pub only_where: Option<(&'static str, &'static str)>,
    /// Its parts, in the order in which they are made.
    pub edits: &'static [Edit],
    /// Lines of the configuration that it asks for.
    pub config: &'static [&'static str],
}

/// One edit of one file.
#[derive(Debug)]
pub struct Edit {
    /// From the root of the tree.
    pub file: &'static str,
    /// The function that is edited; without it the whole file is.
    pub function: Option<&'static str>,
    /// What is done.
    pub what: What,
}

/// What an edit does.
#[derive(Debug)]
pub enum What {
    /// Puts `.1` in the place of each `.0`, of which there is one at least.
    Replace(&'static str, &'static str),
    /// Puts `.1` on lines of its own before the only `.0`.
    Before(&'static str, &'static str),
    /// Puts `.1` on lines of its own behind the only `.0`.
    After(&'static str, &'static str),
    /// Puts text before the function.
    Precede(&'static str),
    /// Puts text behind the function, or at the end of the file.
    Follow(&'static str),
    /// Puts text at the beginning of the function's body.
    Enter(&'static str),
    /// Puts text in the function's body behind its declarations, which a blank line
    /// ends.
    EnterBehindDeclarations(&'static str),
    /// Changes nothing: these functions of C are called by those of the file alone.
    CalledOnlyBy(&'static [&'static str], &'static [&'static str]),
}

/// A tree to which a change does not fit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this tree cannot take the change `{change}`: {file}: {why}")]
pub struct Misfit {
    /// The change.
    pub change: &'static str,
    /// The file, from the root of the tree.
    pub file: &'static str,
    /// What was looked for there.
    pub why: String,
}

impl Change {
    /// Makes the change in the tree at `root`; whether it had to be made.
    ///
    /// # Errors
    /// Where the tree has another text than the edits look for. Edits before that one
    /// have been made then: the tree is of no more use.
    pub fn make(&self, root: &Path) -> Result<bool, Misfit> {
        if let Some((file, text)) = self.only_where {
            let held = fs::read_to_string(root.join(file)).unwrap_or_default();
            if shape(text).find(&held).is_none() {
                return Ok(false);
            }
        }
        for edit in self.edits {
            let misfit = |why| Misfit {
                change: self.name,
                file: edit.file,
                why,
            };
            let path = root.join(edit.file);
            let text = fs::read_to_string(&path)
                .map_err(|e| misfit(format!("it cannot be read ({e})")))?;
            let edited = edit.apply(&text).map_err(misfit)?;
            if edited != text {
                fs::write(&path, edited)
                    .map_err(|e| misfit(format!("it cannot be written ({e})")))?;
            }
        }
        Ok(true)
    }
}

impl Edit {
    /// The file's text after the edit.
    ///
    /// # Errors
    /// What is not there, in words.
    fn apply(&self, text: &str) -> Result<String, String> {
        let (place, whole) = match self.function {
            Some(name) => {
                let found = function(text, name);
                (
                    found.ok_or_else(|| format!("it has no function {name}()"))?,
                    false,
                )
            }
            None => (0..text.len(), true),
        };
        let inside = match self.function {
            Some(name) if !whole => format!("{name}()"),
            _ => "it".to_owned(),
        };
        let part = &text[place.clone()];
        let only = |wanted: &str| -> Result<Range<usize>, String> {
            let pattern = shape(wanted);
            let mut found = pattern.find_iter(part);
            let first = found
                .next()
                .ok_or_else(|| format!("{inside} has no `{}`", line(wanted)))?;
            if found.next().is_some() {
                return Err(format!("{inside} has `{}` more than once", line(wanted)));
            }
            Ok(first.range())
        };
        let with = |at: usize, new: &str| {
            let at = place.start + at;
            format!("{}{new}{}", &text[..at], &text[at..])
        };
        match &self.what {
            What::Replace(old, new) => {
                let pattern = shape(old);
                if !pattern.is_match(part) {
                    return Err(format!("{inside} has no `{}`", line(old)));
                }
                let part = pattern.replace_all(part, regex::NoExpand(new));
                Ok(format!(
                    "{}{part}{}",
                    &text[..place.start],
                    &text[place.end..]
                ))
            }
            What::Before(old, new) => {
                let at = only(old)?.start;
                let at = part[..at].rfind('\n').map_or(0, |n| n + 1);
                Ok(with(at, new))
            }
            What::After(old, new) => {
                let at = only(old)?.end;
                let at = part[at..].find('\n').map_or(part.len(), |n| at + n + 1);
                Ok(with(at, new))
            }
            What::Precede(new) => Ok(with(0, new)),
            What::Follow(new) => Ok(with(part.len(), new)),
            What::Enter(new) => {
                let at = part.find("\n{\n").ok_or("a function has no body")?;
                Ok(with(at + "\n{\n".len(), new))
            }
            What::EnterBehindDeclarations(new) => {
                let body = part.find("\n{\n").ok_or("a function has no body")? + 1;
                let blank = part[body..]
                    .find("\n\n")
                    .ok_or_else(|| format!("{inside} begins without declarations"))?;
                Ok(with(body + blank + "\n\n".len(), new))
            }
            What::CalledOnlyBy(called, by) => {
                let mut rest = text.to_owned();
                for name in *by {
                    let range = function(&rest, name)
                        .ok_or_else(|| format!("it has no function {name}()"))?;
                    rest.replace_range(range, "");
                }
                let calls = Regex::new(&format!(r"(?-u:\b)(?:{})[ \t]*\(", called.join("|")))
                    .expect("names of functions are a pattern");
                match calls.find(&rest) {
                    None => Ok(text.to_owned()),
                    Some(call) => Err(format!(
                        "it calls `{}` where no tree that was tried does",
                        call.as_str()
                    )),
                }
            }
        }
    }
}

/// `text` on one line, for a message.
fn line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What finds `text` whatever its white space is, and not as a part of longer words.
fn shape(text: &str) -> Regex {
    let words: Vec<_> = text.split_whitespace().map(regex::escape).collect();
    let edge = |c: Option<char>| match c {
        Some(c) if c.is_ascii_alphanumeric() || c == '_' => r"(?-u:\b)",
        _ => "",
    };
    let text = text.trim();
    let (first, last) = (edge(text.chars().next()), edge(text.chars().next_back()));
    let words = words.join(r"[ \t\n]+");
    Regex::new(&format!("{first}{words}{last}")).expect("escaped words are a pattern")
}

/// Where the function `name` is defined: from the line of its return type to the end of
/// the line of its last brace. As the kernel's style has it, a definition begins at the
/// start of a line, and its braces stand on lines of their own there.
fn function(text: &str, name: &str) -> Option<Range<usize>> {
    let pattern = format!(
        r"(?m)^(?:[A-Za-z_][A-Za-z0-9_ \t*]*\n)?(?:[A-Za-z_][^\n;=#(]*[ \t*])?{}[ \t]*\([^;{{}}]*\)[^;{{}}()]*\n\{{\n",
        regex::escape(name)
    );
    let head = Regex::new(&pattern).expect("an escaped name is a pattern");
    let head = head.find(text)?;
    let body = head.end() - "\n".len();
    let end = body + text[body..].find("\n}\n")?;
    Some(head.start()..end + "\n}\n".len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "#include <a.h>\n\nint f(int a);\n\n/* f(x) */\nstatic int\nf(int a)\n{\n\
        \tint b;\n\n\tif (a) {\n\t\tb = g(a);\n\t}\n\treturn b;\n}\n\nint h(void)\n{\n\treturn g(2);\n}\n";

    fn edited(function: Option<&'static str>, what: What) -> Result<String, String> {
        let edit = Edit {
            file: "a.c",
            function,
            what,
        };
        edit.apply(FILE)
    }

    #[test]
    fn a_function_is_found_by_its_definition_alone() {
        let f = &FILE[function(FILE, "f").unwrap()];
        assert!(f.starts_with("f(int a)\n{\n") || f.starts_with("static int\n"));
        assert!(f.ends_with("\treturn b;\n}\n"), "{f}");
        assert!(function(FILE, "g").is_none());
        assert_eq!(
            &FILE[function(FILE, "h").unwrap()],
            "int h(void)\n{\n\treturn g(2);\n}\n"
        );
    }

    #[test]
    fn text_is_found_whatever_its_white_space_is_and_only_in_its_function() {
        let new = edited(Some("f"), What::Replace("if (a) { b = g(a); }", "b = 1;")).unwrap();
        assert!(new.contains("\tb = 1;\n\treturn b;") && new.contains("return g(2)"));
        let new = edited(Some("h"), What::Enter("\tx();\n")).unwrap();
        assert!(new.contains("int h(void)\n{\n\tx();\n\treturn g(2);"));
        let new = edited(Some("f"), What::EnterBehindDeclarations("\tx();\n")).unwrap();
        assert!(new.contains("\tint b;\n\n\tx();\n\tif (a) {"));
        let new = edited(Some("h"), What::Precede("int y;\n\n")).unwrap();
        assert!(new.contains("}\n\nint y;\n\nint h(void)"));
        let new = edited(Some("f"), What::Follow("\nint y;\n")).unwrap();
        assert!(new.contains("return b;\n}\n\nint y;\n\nint h(void)"));
        let new = edited(None, What::Before("return b;", "\tx();\n")).unwrap();
        assert!(new.contains("\tx();\n\treturn b;"));
        let new = edited(None, What::After("#include <a.h>", "#include <b.h>\n")).unwrap();
        assert!(new.starts_with("#include <a.h>\n#include <b.h>\n\n"));
    }

    #[test]
    fn what_is_not_there_is_refused_in_words() {
        let said = |function, what| edited(function, what).unwrap_err();
        assert_eq!(said(Some("k"), What::Enter("")), "it has no function k()");
        assert_eq!(
            said(Some("h"), What::Replace("return\n\tg(a)", "")),
            "h() has no `return g(a)`"
        );
        assert_eq!(
            said(None, What::Before("return", "")),
            "it has `return` more than once"
        );
        assert_eq!(
            said(Some("h"), What::EnterBehindDeclarations("")),
            "h() begins without declarations"
        );
        assert_eq!(
            said(None, What::CalledOnlyBy(&["g"], &["f"])),
            "it calls `g(` where no tree that was tried does"
        );
        assert!(edited(None, What::CalledOnlyBy(&["g"], &["f", "h"])).is_ok());
        // A part of a word is none.
        assert_eq!(
            said(Some("h"), What::Replace("retur", "")),
            "h() has no `retur`"
        );
        assert_eq!(
            said(Some("h"), What::Replace("eturn", "")),
            "h() has no `eturn`"
        );
    }

    #[test]
    fn a_change_names_itself_and_the_file_that_it_does_not_fit() {
        static CHANGE: Change = Change {
            name: "a test",
            reason: "",
            only_where: Some(("marker", "yes")),
            edits: &[Edit {
                file: "a.c",
                function: Some("f"),
                what: What::Enter("\tx();\n"),
            }],
            config: &[],
        };
        let root = tempfile::tempdir().unwrap();
        assert_eq!(CHANGE.make(root.path()), Ok(false));
        fs::write(root.path().join("marker"), "yes").unwrap();
        let said = CHANGE.make(root.path()).unwrap_err().to_string();
        assert!(
            said.starts_with("this tree cannot take the change `a test`: a.c: it cannot be read"),
            "{said}"
        );
        fs::write(root.path().join("a.c"), FILE).unwrap();
        assert_eq!(CHANGE.make(root.path()), Ok(true));
        let text = fs::read_to_string(root.path().join("a.c")).unwrap();
        assert!(text.contains("\tx();\n\tint b;"));
    }
}
