//! A line of words in tc's manner, read one by one, with errors that point at
//! the word that was wrong.

use std::fmt;
use std::ops::Range;

/// A value that one word spells.
pub trait Value: Sized {
    /// What is allowed, for error messages: "a time such as 10ms …".
    const ALLOWED: &'static str;

    /// A regular expression that the whole of each such word matches, in the syntax that
    /// ECMA-262, Python and Rust share; `None` where none is worth its length.
    const PATTERN: Option<&'static str> = None;

    /// Reads the whole of `word`, or nothing.
    fn parse(word: &str) -> Option<Self>;
}

/// One word of a line and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// The word itself.
    pub text: &'a str,
    /// Byte offset of its first character in the line.
    pub start: usize,
}

impl Word<'_> {
    /// The bytes of the line that the word takes.
    pub fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }

    /// The error for this word, where `allowed` is expected.
    pub fn refused(&self, allowed: impl Into<String>) -> WordError {
        WordError::new(self.span(), format!("`{}`", self.text), allowed)
    }

    /// The error for this word, which stood there before.
    pub fn repeated(&self) -> WordError {
        let found = format!("`{}` a second time", self.text);
        WordError::new(self.span(), found, "each word once")
    }
}

/// What was wrong in a line of words: where, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("found {found}, but {allowed} is expected here")]
pub struct WordError {
    /// Byte range in the line that was read.
    pub span: Range<usize>,
    /// What was found there.
    pub found: String,
    /// What is allowed there.
    pub allowed: String,
    /// What to do about it, where there is more to say.
    pub help: Option<String>,
}

impl WordError {
    /// An error at `span`.
    pub fn new(span: Range<usize>, found: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self {
            span,
            found: found.into(),
            allowed: allowed.into(),
            help: None,
        }
    }

    /// The same with advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The same error, its place moved right by `offset` bytes: for a line that
    /// is part of a longer one.
    #[must_use]
    pub fn shifted(mut self, offset: usize) -> Self {
        self.span = self.span.start + offset..self.span.end + offset;
        self
    }
}

/// A cursor over the words of a line; words are separated by white space.
#[derive(Clone, Debug)]
pub struct Words<'a> {
    line: &'a str,
    at: usize,
}

impl<'a> Words<'a> {
    /// Starts at the first word of `line`.
    pub fn new(line: &'a str) -> Self {
        Self { line, at: 0 }
    }

    /// The whole line.
    pub fn line(&self) -> &'a str {
        self.line
    }

    /// The next word, which stays.
    pub fn peek(&self) -> Option<Word<'a>> {
        self.clone().take()
    }

    /// The next word, which is taken.
    pub fn take(&mut self) -> Option<Word<'a>> {
        let rest = &self.line[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        let rest = &self.line[start..];
        if rest.is_empty() {
            self.at = self.line.len();
            return None;
        }
        let len = rest.find(char::is_whitespace).unwrap_or(rest.len());
        self.at = start + len;
        Some(Word {
            text: &rest[..len],
            start,
        })
    }

    /// Takes the next word if it is `word`.
    pub fn take_if(&mut self, word: &str) -> bool {
        let hit = self.peek().is_some_and(|w| w.text == word);
        if hit {
            self.take();
        }
        hit
    }

    /// Everything not yet taken, and where it starts.
    pub fn rest(&self) -> Word<'a> {
        let rest = &self.line[self.at..];
        let start = self.at + (rest.len() - rest.trim_start().len());
        Word {
            text: self.line[start..].trim_end(),
            start,
        }
    }

    /// Takes the next word, of which there has to be one.
    ///
    /// # Errors
    /// When the line ends here; `allowed` says what could have stood there.
    pub fn needed(&mut self, allowed: &str) -> Result<Word<'a>, WordError> {
        self.take().ok_or_else(|| self.ended(allowed))
    }

    /// Takes the value of the key that was just taken.
    ///
    /// # Errors
    /// When there is no further word, or it does not spell a `T`.
    pub fn value<T: Value>(&mut self) -> Result<T, WordError> {
        self.value_where(T::ALLOWED, |_| true)
    }

    /// The same for a value that has to satisfy `fits`.
    ///
    /// # Errors
    /// When it is missing, is not a `T`, or does not fit; `allowed` says what does.
    pub fn value_where<T: Value>(
        &mut self,
        allowed: &str,
        fits: impl FnOnce(&T) -> bool,
    ) -> Result<T, WordError> {
        let word = self.needed(allowed)?;
        let value = T::parse(word.text).filter(fits);
        value.ok_or_else(|| word.refused(allowed))
    }

    /// The value of the key that was just taken, where not every one will do.
    ///
    /// # Errors
    /// As [`value`](Self::value), and when it does not fit: `allowed` says what does.
    pub fn checked_value<T: Value>(
        &mut self,
        allowed: impl Into<String>,
        fits: impl FnOnce(&T) -> bool,
    ) -> Result<T, WordError> {
        let word = self.needed(T::ALLOWED)?;
        let value = T::parse(word.text).ok_or_else(|| word.refused(T::ALLOWED))?;
        if fits(&value) {
            Ok(value)
        } else {
            Err(word.refused(allowed))
        }
    }

    /// Takes one of the words of `known`; what it stands for.
    ///
    /// # Errors
    /// When there is no further word, or it is none of them.
    pub fn one_of<T: Copy>(&mut self, known: &[(&str, T)]) -> Result<T, WordError> {
        let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
        let allowed = alternatives(&names);
        let word = self.needed(&allowed)?;
        let found = known.iter().find(|(name, _)| *name == word.text);
        found
            .map(|(_, value)| *value)
            .ok_or_else(|| word.refused(allowed))
    }

    /// Takes what stands in brackets behind the key that was just taken, as in
    /// `queue (fq_codel flows 1)`: the words between them.
    ///
    /// # Errors
    /// When no bracket opens here, or it is not closed; `allowed` says what stands in it.
    pub fn bracketed(&mut self, allowed: &str) -> Result<Word<'a>, WordError> {
        let word = self.peek().ok_or_else(|| self.ended(allowed))?;
        if !word.text.starts_with('(') {
            return Err(word.refused(allowed));
        }
        let mut depth = 0u32;
        let rest = &self.line[word.start..];
        let close = rest.bytes().position(|b| {
            match b {
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        let close = word.start + close.ok_or_else(|| self.ended("`)`"))?;
        self.at = close + 1;
        let inside = &self.line[word.start + 1..close];
        Ok(Word {
            text: inside.trim(),
            start: word.start + 1 + (inside.len() - inside.trim_start().len()),
        })
    }

    /// The error for a line that stops too early.
    pub fn ended(&self, allowed: impl Into<String>) -> WordError {
        let end = self.line.len();
        WordError::new(end..end, "the end of the line", allowed)
    }

    /// Refuses anything that is left.
    ///
    /// # Errors
    /// When a word is left; `allowed` says what could have stood there.
    pub fn finish(mut self, allowed: &str) -> Result<(), WordError> {
        match self.take() {
            None => Ok(()),
            Some(word) => Err(word.refused(allowed)),
        }
    }
}

/// `` `a`, `b` or `c` ``.
pub fn alternatives(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
        None => String::new(),
    }
}

/// Writes a line of words, each with a blank before it: keys with their values, and words
/// that stand alone. What is as usual is left out.
pub struct WordWriter<'w, 'f> {
    f: &'w mut fmt::Formatter<'f>,
    written: fmt::Result,
}

impl<'w, 'f> WordWriter<'w, 'f> {
    /// Goes on behind what was written to `f`.
    pub fn new(f: &'w mut fmt::Formatter<'f>) -> Self {
        let written = Ok(());
        Self { f, written }
    }

    /// A key and its value.
    pub fn pair(&mut self, key: &str, value: impl fmt::Display) -> &mut Self {
        let f = &mut *self.f;
        self.written = self.written.and_then(|()| write!(f, " {key} {value}"));
        self
    }

    /// The same unless the value is the usual one.
    pub fn stated<T: fmt::Display + PartialEq>(
        &mut self,
        key: &str,
        value: T,
        usual: T,
    ) -> &mut Self {
        self.some(key, (value != usual).then_some(value))
    }

    /// The same for a value of which there may be none.
    pub fn some(&mut self, key: &str, value: Option<impl fmt::Display>) -> &mut Self {
        match value {
            Some(value) => self.pair(key, value),
            None => self,
        }
    }

    /// A word that stands alone, where it holds.
    pub fn word_if(&mut self, holds: bool, word: &str) -> &mut Self {
        let f = &mut *self.f;
        if holds {
            self.written = self.written.and_then(|()| write!(f, " {word}"));
        }
        self
    }

    /// Whether all has been written.
    ///
    /// # Errors
    /// The first time that something could not be.
    pub fn finish(&mut self) -> fmt::Result {
        self.written
    }
}

/// The word of `known` that stands for `value`; none of what is not in it.
pub fn word_for<T: PartialEq>(known: &[(&'static str, T)], value: &T) -> &'static str {
    let found = known.iter().find(|(_, of)| of == value);
    found.map_or("", |(word, _)| word)
}

/// Makes a type that is read from a line of words and displayed as one be that
/// line wherever it is parsed, serialized or deserialized.
///
/// The type has a function `parse(&str) -> Result<Self, WordError>` and is
/// `Display`; a failed deserialization carries what [`WordError`] says.
#[macro_export]
macro_rules! written_as_words {
    ($type:ty) => {
        impl ::core::str::FromStr for $type {
            type Err = $crate::WordError;

            fn from_str(words: &str) -> ::core::result::Result<Self, $crate::WordError> {
                Self::parse(words)
            }
        }

        impl $crate::serde::Serialize for $type {
            fn serialize<S: $crate::serde::Serializer>(
                &self,
                serializer: S,
            ) -> ::core::result::Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> $crate::serde::Deserialize<'de> for $type {
            fn deserialize<D: $crate::serde::Deserializer<'de>>(
                deserializer: D,
            ) -> ::core::result::Result<Self, D::Error> {
                let words = <::std::string::String as $crate::serde::Deserialize>::deserialize(
                    deserializer,
                )?;
                Self::parse(&words).map_err(<D::Error as $crate::serde::de::Error>::custom)
            }
        }
    };
}

macro_rules! integer_value {
    ($($t:ty),*) => {$(
        impl Value for $t {
            const ALLOWED: &'static str =
                concat!("a whole number that fits ", stringify!($t));
            fn parse(word: &str) -> Option<Self> {
                word.parse().ok()
            }
        }
    )*};
}
integer_value!(u8, u16, u32, u64);

impl Value for f64 {
    const ALLOWED: &'static str = "a number such as 0.16";

    fn parse(word: &str) -> Option<Self> {
        let plain = word
            .bytes()
            .all(|b| b.is_ascii_digit() || b".-+eE".contains(&b));
        word.parse().ok().filter(|n: &f64| plain && n.is_finite())
    }
}

/// Reads `1.5ms` exactly: decimal digits times the unit, in whole units of 1.
pub(crate) fn parse_scaled(word: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = word
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(word.len());
    let (number, unit) = word.split_at(digits);
    let scale = u128::from(units.iter().find(|(name, _)| *name == unit)?.1);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.len() > 18 || fraction.contains('.') {
        return None;
    }
    let whole: u128 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut value = whole.checked_mul(scale)?;
    if !fraction.is_empty() {
        let power = 10u128.pow(u32::try_from(fraction.len()).ok()?);
        value = value.checked_add(fraction.parse::<u128>().ok()?.checked_mul(scale)? / power)?;
    }
    u64::try_from(value).ok()
}

/// Writes `value` in `unit`s exactly, without trailing zeros.
pub(crate) fn write_scaled(
    f: &mut fmt::Formatter<'_>,
    value: u64,
    unit: u64,
    name: &str,
) -> fmt::Result {
    let (whole, mut rest) = (value / unit, value % unit);
    let mut text = whole.to_string();
    if rest != 0 {
        text.push('.');
        while rest != 0 {
            rest *= 10;
            text.push(char::from(b'0' + u8::try_from(rest / unit).unwrap_or(9)));
            rest %= unit;
        }
    }
    text.push_str(name);
    f.pad(&text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IntoDeserializer;
    use serde::de::value::{Error, StrDeserializer};
    use serde::{Deserialize, Serialize};

    /// `limit N`.
    #[derive(Debug, PartialEq, Eq)]
    struct Limit(u32);

    impl Limit {
        fn parse(line: &str) -> Result<Self, WordError> {
            let mut words = Words::new(line);
            if !words.take_if("limit") {
                return Err(words.ended("`limit`"));
            }
            let limit = words.value()?;
            words.finish("the end")?;
            Ok(Self(limit))
        }
    }

    impl fmt::Display for Limit {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "limit {}", self.0)
        }
    }

    written_as_words!(Limit);

    /// Shows what a type hands to a serializer: a formatter is one.
    struct Serialized<T>(T);

    impl<T: Serialize> fmt::Display for Serialized<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.0.serialize(f)
        }
    }

    fn deserialized(words: &str) -> Result<Limit, Error> {
        let words: StrDeserializer<'_, Error> = words.into_deserializer();
        Limit::deserialize(words)
    }

    #[test]
    fn what_is_written_as_words_is_read_and_serialized_as_them() {
        assert_eq!(" limit  7".parse(), Ok(Limit(7)));
        assert_eq!(deserialized("limit 7"), Ok(Limit(7)));
        assert_eq!(Serialized(Limit(7)).to_string(), "limit 7");
    }

    #[test]
    fn who_deserializes_wrong_words_is_told_what_is_allowed() {
        let error = deserialized("limit x").unwrap_err().to_string();
        assert!(
            error.contains("`x`") && error.contains("whole number"),
            "{error}"
        );
        assert_eq!("limit x".parse::<Limit>().unwrap_err().span, 6..7);
    }

    #[test]
    fn brackets_hold_words_and_brackets() {
        let mut words = Words::new("queue ( a (b c) ) limit 3");
        words.take();
        let inside = words.bracketed("`(` and words").unwrap();
        assert_eq!((inside.text, inside.start), ("a (b c)", 8));
        assert_eq!(words.take().map(|w| w.text), Some("limit"));
        for (line, at, found) in [("a", 0..1, "`a`"), ("(a (b)", 6..6, "the end of the line")] {
            let e = Words::new(line).bracketed("`(` and words").unwrap_err();
            assert_eq!((e.span, e.found.as_str()), (at, found));
        }
    }
}
