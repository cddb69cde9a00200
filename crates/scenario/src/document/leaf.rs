//! What single values of a document are: names, numbers, and words with a
//! grammar of their own.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use narrows_units::{Value, WordError};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use crate::names::is_name;
use crate::refusal::one_of;
use crate::tree::split_label;

/// A value as it was written.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Scalar {
    Text(String),
    /// What `--set` or a campaign gave.
    Raw(String),
    Whole(i64),
    Float(f64),
    Flag(bool),
    List(Vec<Scalar>),
    Table,
}

impl Scalar {
    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) | Self::Raw(text) => Some(text),
            _ => None,
        }
    }

    /// The value in words: several of a list. A table is none.
    pub(crate) fn words(&self) -> Option<String> {
        match self {
            Self::Text(text) | Self::Raw(text) => Some(text.clone()),
            Self::Whole(number) => Some(number.to_string()),
            Self::Float(number) => Some(number.to_string()),
            Self::Flag(flag) => Some(flag.to_string()),
            Self::List(list) => {
                let words: Option<Vec<_>> = list.iter().map(Self::words).collect();
                words.map(|words| words.join(" "))
            }
            Self::Table => None,
        }
    }

    /// Whether it is of one of these JSON types. What was set may stand for any.
    pub(crate) fn is_of(&self, types: &[&str]) -> bool {
        let own = match self {
            Self::Raw(_) => return true,
            Self::Text(_) => "string",
            Self::Whole(_) => "integer",
            Self::Float(_) => "number",
            Self::Flag(_) => "boolean",
            Self::List(_) => "array",
            Self::Table => "object",
        };
        types.contains(&own)
    }

    pub(crate) fn whole(&self) -> Option<u64> {
        match self {
            Self::Whole(number) => (*number).try_into().ok(),
            Self::Raw(text) => text.parse().ok(),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Seen;
        impl<'de> Visitor<'de> for Seen {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value that is no date")
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }

            fn visit_bytes<E>(self, text: &[u8]) -> Result<Scalar, E> {
                Ok(Scalar::Raw(String::from_utf8_lossy(text).into_owned()))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Whole(number))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Scalar::Float(number))
            }

            fn visit_bool<E>(self, flag: bool) -> Result<Scalar, E> {
                Ok(Scalar::Flag(flag))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar, A::Error> {
                let mut list = Vec::new();
                while let Some(item) = items.next_element()? {
                    list.push(item);
                }
                Ok(Scalar::List(list))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<Scalar, A::Error> {
                while table.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Table)
            }
        }
        from.deserialize_any(Seen)
    }
}

/// What can be a name.
pub(crate) const NAME: &str = "a name of letters, digits, `_`, `-` and `.`";

/// A name: a string that can be a part of longer names.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize, Serialize)]
#[serde(try_from = "Scalar")]
pub(crate) struct Name(pub(crate) String);

impl TryFrom<Scalar> for Name {
    type Error = &'static str;

    fn try_from(given: Scalar) -> Result<Self, Self::Error> {
        let name = given.text().filter(|text| is_name(text));
        name.map(|name| Self(name.to_owned())).ok_or(NAME)
    }
}

/// A whole number from `LEAST` to `MOST`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, Serialize)]
#[serde(try_from = "Scalar")]
pub(crate) struct Whole<const LEAST: u64, const MOST: u64>(pub(crate) u64);

impl<const LEAST: u64, const MOST: u64> TryFrom<Scalar> for Whole<LEAST, MOST> {
    type Error = String;

    fn try_from(given: Scalar) -> Result<Self, Self::Error> {
        let number = given.whole().filter(|n| (LEAST..=MOST).contains(n));
        number
            .map(Self)
            .ok_or_else(|| format!("a whole number from {LEAST} to {MOST}"))
    }
}

/// A value in tc's spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "Scalar", bound(deserialize = "T: Value"))]
pub(crate) struct Spelled<T>(pub(crate) T);

impl<T: Value> TryFrom<Scalar> for Spelled<T> {
    type Error = &'static str;

    fn try_from(given: Scalar) -> Result<Self, Self::Error> {
        let value = given.text().and_then(|text| T::parse(text.trim()));
        value.map(Self).ok_or(T::ALLOWED)
    }
}

impl<T: fmt::Display> Serialize for Spelled<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&self.0)
    }
}

/// A string or a number that is filled in elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "Scalar")]
pub(crate) struct Filling(pub(crate) String);

impl TryFrom<Scalar> for Filling {
    type Error = &'static str;

    fn try_from(given: Scalar) -> Result<Self, Self::Error> {
        Ok(Self(match given {
            Scalar::Text(text) | Scalar::Raw(text) => text,
            Scalar::Whole(number) => number.to_string(),
            Scalar::Float(number) => number.to_string(),
            _ => return Err("a string or a number"),
        }))
    }
}

/// One of a few words.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "Scalar", bound(deserialize = "C: Choices"))]
pub(crate) struct OneOf<C>(pub(crate) String, PhantomData<C>);

/// The words of a [`OneOf`].
pub(crate) trait Choices {
    const WORDS: &'static [&'static str];
}

impl<C> From<String> for OneOf<C> {
    fn from(word: String) -> Self {
        Self(word, PhantomData)
    }
}

impl<C> Serialize for OneOf<C> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<C: Choices> TryFrom<Scalar> for OneOf<C> {
    type Error = String;

    fn try_from(given: Scalar) -> Result<Self, Self::Error> {
        let word = given.text().filter(|word| C::WORDS.contains(word));
        let word = word.map(|word| Self::from(word.to_owned()));
        word.ok_or_else(|| one_of(C::WORDS.iter().copied()))
    }
}

/// An element of a link: the name that it was given, if any, and its words; those
/// that were set later lie over what stood there before, layer upon layer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(try_from = "Scalar")]
pub(crate) struct Element {
    pub(crate) label: Option<String>,
    pub(crate) layers: Vec<String>,
    /// Where the words begin in the string.
    pub(crate) words_at: usize,
}

impl TryFrom<Scalar> for Element {
    type Error = &'static str;

    fn try_from(given: Scalar) -> Result<Self, Self::Error> {
        let (label, layers, words_at) = match given {
            Scalar::Text(text) | Scalar::Raw(text) => {
                let (label, words_at) = split_label(&text);
                let words = text[words_at..].to_owned();
                (label.map(str::to_owned), vec![words], words_at)
            }
            // Only an element that was set comes in parts.
            Scalar::List(parts) if matches!(parts.first(), Some(Scalar::Raw(_))) => {
                let mut parts = parts.iter().filter_map(Scalar::text).map(str::to_owned);
                (parts.next(), parts.collect(), 0)
            }
            _ => return Err("an element in words, such as \"netem delay 10ms\""),
        };
        Ok(Self {
            label,
            layers,
            words_at,
        })
    }
}

impl Serialize for Element {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let words = self.layers.last().map_or("", String::as_str);
        match &self.label {
            Some(label) => to.collect_str(&format_args!("{label}: {words}")),
            None => to.serialize_str(words),
        }
    }
}

/// Words with a grammar, and what they mean.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(try_from = "Scalar", bound(deserialize = "T: Grammar"))]
pub(crate) struct Words<T> {
    given: Scalar,
    read: Result<T, WordError>,
}

/// What else than a string may stand for words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Besides {
    Nothing,
    Number,
    Flag,
}

/// Words that mean a `Self`.
pub(crate) trait Grammar: Sized {
    /// What is allowed where something else than words stands.
    const ALLOWED: &'static str;
    /// What else may stand for the words: it is read as they are.
    const BESIDES: Besides = Besides::Nothing;

    /// Reads the words.
    ///
    /// # Errors
    /// If they have no meaning.
    fn read(words: &str) -> Result<Self, WordError>;

    /// The pattern that all such words have.
    fn pattern() -> Option<String> {
        None
    }
}

/// A grammar that a function called `parse` reads.
macro_rules! grammar {
    ($type:ty, $allowed:expr $(, pattern $pattern:expr)?) => {
        impl $crate::document::Grammar for $type {
            const ALLOWED: &'static str = $allowed;

            fn read(words: &str) -> Result<Self, narrows_units::WordError> {
                <$type>::parse(words)
            }

            $(fn pattern() -> Option<String> {
                Some($pattern)
            })?
        }
    };
}
pub(crate) use grammar;

impl<T: Grammar> TryFrom<Scalar> for Words<T> {
    type Error = &'static str;

    fn try_from(given: Scalar) -> Result<Self, Self::Error> {
        let read = match (&given, T::BESIDES) {
            (Scalar::Text(text) | Scalar::Raw(text), _) => T::read(text),
            (Scalar::Whole(number), Besides::Number) => T::read(&number.to_string()),
            (Scalar::Flag(flag), Besides::Flag) => T::read(&flag.to_string()),
            _ => return Err(T::ALLOWED),
        };
        Ok(Self { given, read })
    }
}

impl<T> Words<T> {
    /// Words that are to be written.
    pub(crate) fn of(value: T, words: impl fmt::Display) -> Self {
        Self::plain(value, Scalar::Text(words.to_string()))
    }

    /// A value that is to be written as it is.
    pub(crate) fn plain(value: T, given: Scalar) -> Self {
        let read = Ok(value);
        Self { given, read }
    }

    /// What they mean.
    pub(super) fn read(&self) -> Result<&T, &WordError> {
        self.read.as_ref()
    }
}

impl<T> Serialize for Words<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.given.serialize(to)
    }
}

/// The pattern of a string that spells a `T`.
pub(crate) fn spelled<T: Value>() -> Option<String> {
    T::PATTERN.map(|pattern| format!(r"^\s*({pattern})\s*$"))
}

/// The schema of a type, in place of the type.
macro_rules! schema {
    (($($params:tt)*) $type:ty, $schema:expr) => {
        impl<$($params)*> JsonSchema for $type {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($type).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}
pub(crate) use schema;

schema!(() Name, json_schema!({
    "type": "string",
    // Letters and digits of all scripts, as all but ASCII's other characters: `\p{…}` is
    // not in the syntax of Python's validators.
    "pattern": r"^[^\s\x00-/:-@\[-^`{-\x7f][^\s\x00-,/:-@\[-^`{-\x7f]*$",
    "maxLength": 64,
}));
schema!((const LEAST: u64, const MOST: u64) Whole<LEAST, MOST>, json_schema!({
    "type": "integer",
    "minimum": LEAST,
    "maximum": MOST,
}));
schema!((T: Value) Spelled<T>, {
    let mut schema = json_schema!({ "type": "string" });
    if let Some(pattern) = spelled::<T>() {
        schema.insert("pattern".to_owned(), pattern.into());
    }
    schema
});
schema!((C: Choices) OneOf<C>, json_schema!({ "type": "string", "enum": C::WORDS }));
schema!(() Filling, json_schema!({ "type": ["string", "number"] }));
schema!((T: Grammar) Words<T>, {
    let mut schema = match T::BESIDES {
        Besides::Nothing => json_schema!({ "type": "string" }),
        Besides::Number => json_schema!({ "type": ["string", "integer"], "minimum": 0 }),
        Besides::Flag => json_schema!({ "type": ["string", "boolean"] }),
    };
    if let Some(pattern) = T::pattern() {
        schema.insert("pattern".to_owned(), pattern.into());
    }
    schema
});

impl JsonSchema for Element {
    fn schema_name() -> Cow<'static, str> {
        "Element".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let others = narrows_path::ELEMENTS
            .iter()
            .filter(|kind| **kind != "rate");
        let others = others.copied().collect::<Vec<_>>().join("|");
        let (word, queues) = (other_than("queue"), narrows_aqm::QUEUES.join("|"));
        let rate = format!(r"rate(\s+({word}))*(\s+queue\s+({queues})(\s.*)?)?");
        json_schema!({
            "description": "An element of a link in words, with a name before them if wanted.",
            "type": "string",
            "pattern": format!(r"^\s*([^\s:]+:\s+)?(({others})(\s.*)?|{rate})\s*$"),
        })
    }
}

/// The pattern of all words but `word`, of ASCII letters, as not every validator can look
/// ahead.
fn other_than(word: &str) -> String {
    let mut ways: Vec<String> = word
        .char_indices()
        .map(|(at, letter)| {
            let (before, rest) = (&word[..at], format!(r"[^\s{letter}]\S*"));
            match before {
                "" => rest,
                _ => format!("{before}({rest})?"),
            }
        })
        .collect();
    ways.push(format!(r"{word}\S+"));
    ways.join("|")
}
