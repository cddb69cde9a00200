//! The words of intents.

use std::ops::Range;

use narrows_scenario::Refusal;
use narrows_yaml::quoted;

use crate::source::Source;

/// Bytes of the longest file (our choice; a service has some thousand).
const LONGEST: usize = 1 << 20;

/// A word, and what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A keyword, a name, a number, an address: letters, digits and `_-/@+%`.
    Word(String),
    /// In quotes.
    Text(String),
    /// `;`, `,`, `:`, `.`, or a bracket.
    Sign(char),
    /// Nothing more.
    End,
}

impl Token {
    /// As errors name it.
    pub fn described(&self) -> String {
        match self {
            Self::Word(word) => quoted(word),
            Self::Text(text) => format!("the string {}", quoted(text)),
            Self::Sign(sign) => format!("`{sign}`"),
            Self::End => "the end of the file".to_owned(),
        }
    }
}

/// Tokens one after the other, each with its bytes.
#[derive(Debug)]
pub(crate) struct Tokens<'s, 't> {
    pub source: &'s Source<'t>,
    at: usize,
}

impl<'s, 't> Tokens<'s, 't> {
    /// Those of a text.
    ///
    /// # Errors
    /// If it is too long to be one of intents.
    pub fn new(source: &'s Source<'t>) -> Result<Self, Refusal> {
        if source.text.len() > LONGEST {
            let found = format!("{} bytes", source.text.len());
            let allowed = format!("at most {LONGEST} bytes");
            return Err(source.refuse(0..0, "", found, allowed));
        }
        Ok(Self { source, at: 0 })
    }

    fn rest(&self) -> &'t str {
        &self.source.text[self.at..]
    }

    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let words = rest.trim_start();
            self.at += rest.len() - words.len();
            if !words.starts_with("//") && !words.starts_with('#') {
                return;
            }
            self.at += words.find('\n').unwrap_or(words.len());
        }
    }

    /// The next token, which stays.
    ///
    /// # Errors
    /// What is none.
    pub fn peek(&mut self) -> Result<(Token, Range<usize>), Refusal> {
        self.skip();
        let (start, rest) = (self.at, self.rest());
        let Some(first) = rest.chars().next() else {
            return Ok((Token::End, start..start));
        };
        if first == '"' {
            return self.string();
        }
        if ";,:.()[]".contains(first) {
            return Ok((Token::Sign(first), start..start + 1));
        }
        let fits = |c: char| c.is_alphanumeric() || "_-/@+%".contains(c);
        let length = rest.find(|c| !fits(c)).unwrap_or(rest.len());
        if length == 0 {
            let span = start..start + first.len_utf8();
            let found = quoted(&first.to_string());
            let allowed = "words, strings in double quotes, and `;`, `,`, `:`, `.`";
            return Err(self.source.refuse(span, "", found, allowed));
        }
        Ok((
            Token::Word(rest[..length].to_owned()),
            start..start + length,
        ))
    }

    /// The next token.
    ///
    /// # Errors
    /// What is none.
    pub fn next(&mut self) -> Result<(Token, Range<usize>), Refusal> {
        let (token, span) = self.peek()?;
        self.at = span.end;
        Ok((token, span))
    }

    /// What stands up to the next blank or `;`: an address of a descriptor.
    pub fn address(&mut self) -> (&'t str, Range<usize>) {
        self.skip();
        let rest = self.rest();
        let length = rest
            .find(|c: char| c.is_whitespace() || c == ';')
            .unwrap_or(rest.len());
        let span = self.at..self.at + length;
        self.at = span.end;
        (&rest[..length], span)
    }

    fn string(&self) -> Result<(Token, Range<usize>), Refusal> {
        let (start, rest) = (self.at, self.rest());
        let endless = || {
            let span = start..start + rest.lines().next().map_or(0, str::len);
            let allowed = "a double quote at its end";
            Err(self
                .source
                .refuse(span, "", "a string without an end", allowed))
        };
        if let Some(text) = rest.strip_prefix("\"\"\"") {
            return match text.find("\"\"\"") {
                Some(end) => {
                    let inner = text[..end].strip_prefix('\n').unwrap_or(&text[..end]);
                    Ok((Token::Text(inner.to_owned()), start..start + end + 6))
                }
                None => endless(),
            };
        }
        let mut text = String::new();
        let mut letters = rest.char_indices().skip(1);
        while let Some((at, c)) = letters.next() {
            match c {
                '"' => return Ok((Token::Text(text), start..start + at + 1)),
                '\\' => match letters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, 'b')) => text.push('\u{8}'),
                    Some((_, 'f')) => text.push('\u{c}'),
                    Some((_, c @ ('"' | '\\' | '/'))) => text.push(c),
                    Some((_, 'u')) => {
                        let digits: String = letters.by_ref().take(4).map(|(_, c)| c).collect();
                        let code = u32::from_str_radix(&digits, 16)
                            .ok()
                            .and_then(char::from_u32);
                        match code.filter(|_| digits.len() == 4) {
                            Some(c) => text.push(c),
                            None => return self.bad_escape(start + at, &format!("\\u{digits}")),
                        }
                    }
                    Some((_, other)) => return self.bad_escape(start + at, &format!("\\{other}")),
                    None => break,
                },
                c => text.push(c),
            }
        }
        endless()
    }

    fn bad_escape<T>(&self, at: usize, found: &str) -> Result<T, Refusal> {
        let allowed = r#"`\n`, `\t`, `\"`, `\\` or `\u` with four digits"#;
        Err(self.source.refuse(at..at + 1, "", quoted(found), allowed))
    }
}
