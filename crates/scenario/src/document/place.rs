//! Values of a document that know where they were written.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

use super::leaf::Words;
use crate::refusal::Refusal;
use crate::source::Spot;

/// A value, and the number of the place where it was written, which the
/// deserializer of a tree gives it.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct At<T> {
    value: T,
    place: u32,
}

/// A value that may be left out.
pub(crate) type Optional<T> = Option<At<T>>;

/// A value that has to be given: what lacks it is refused by the check, which
/// knows what is allowed.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(transparent)]
pub(crate) struct Required<T>(Optional<T>);

impl<T> Default for Required<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> From<At<T>> for Required<T> {
    fn from(value: At<T>) -> Self {
        Self(Some(value))
    }
}

impl<T> Deref for Required<T> {
    type Target = Optional<T>;

    fn deref(&self) -> &Optional<T> {
        &self.0
    }
}

impl<T> Deref for At<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// A value that was not read from anywhere, but is to be written.
impl<T> From<T> for At<T> {
    fn from(value: T) -> Self {
        Self {
            value,
            place: u32::MAX,
        }
    }
}

/// What was found in a place, for refusals.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(super) spot: Spot,
    /// The full name of the key.
    pub(super) key: String,
    /// The value as "found …" says it.
    pub(super) found: String,
    /// Whether it is a string, in which parts have places.
    pub(super) words: bool,
}

/// The places of a document's values.
#[derive(Debug, Default)]
pub(crate) struct Places(Vec<Place>);

impl Places {
    pub(super) fn add(&mut self, place: Place) -> u32 {
        self.0.push(place);
        // A file of 1 MiB has fewer values.
        (self.0.len() - 1) as u32
    }

    fn of<T>(&self, at: &At<T>) -> &Place {
        &self.0[at.place as usize]
    }

    /// Where the value called `key` was written, or else the innermost table that it belongs
    /// to.
    pub(crate) fn written(&self, key: &str) -> Option<&Spot> {
        let of = |key| self.0.iter().find(|place| place.key == key);
        let mut keys = std::iter::successors(Some(key), |key| Some(key.rsplit_once('/')?.0));
        keys.find_map(of).map(|place| &place.spot)
    }

    /// Where `at` was written.
    pub(crate) fn spot<T>(&self, at: &At<T>) -> &Spot {
        &self.of(at).spot
    }

    /// The full name of the key whose value `at` is; of a table, its own.
    pub(crate) fn key<T>(&self, at: &At<T>) -> &str {
        &self.of(at).key
    }

    /// The refusal of `at` as written.
    pub(crate) fn refuse<T>(&self, at: &At<T>, allowed: impl Into<String>) -> Refusal {
        let Place { found, .. } = self.of(at);
        self.found(at, found.as_str(), allowed)
    }

    /// The refusal of `at`, which is said to be `found`.
    pub(crate) fn found<T>(
        &self,
        at: &At<T>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Refusal {
        let Place { spot, key, .. } = self.of(at);
        Refusal::at(spot, key.as_str(), found, allowed)
    }

    /// The refusal of a table in which `key` is not given.
    pub(crate) fn missing<T>(
        &self,
        table: &At<T>,
        key: &str,
        allowed: impl Into<String>,
    ) -> Refusal {
        let Place {
            spot, key: path, ..
        } = self.of(table);
        let separator = if path.is_empty() { "" } else { "/" };
        Refusal::at(spot, format!("{path}{separator}{key}"), "nothing", allowed)
    }

    /// The value at `key` of `table`, which has to be given.
    ///
    /// # Errors
    /// If it is not.
    pub(crate) fn required<'d, T, V>(
        &self,
        table: &At<T>,
        key: &str,
        value: &'d Optional<V>,
        allowed: &str,
    ) -> Result<&'d At<V>, Refusal> {
        value
            .as_ref()
            .ok_or_else(|| self.missing(table, key, allowed))
    }

    /// What the words at `at` mean.
    ///
    /// # Errors
    /// If they mean nothing.
    pub(crate) fn words<'d, T>(&self, at: &'d At<Words<T>>) -> Result<&'d T, Refusal> {
        at.read()
            .map_err(|error| self.refused_words(at, error.clone()))
    }

    /// The refusal of the string at `at`, or of a word in it.
    pub(crate) fn refused_words<T>(&self, at: &At<T>, error: narrows_units::WordError) -> Refusal {
        let place = self.of(at);
        match place.words {
            true => Refusal::words(&place.spot, place.key.as_str(), error),
            false => self.refuse(at, error.allowed),
        }
    }

    /// What the words at `given` mean, if there are any.
    ///
    /// # Errors
    /// If they mean nothing.
    pub(crate) fn parsed<'d, T>(
        &self,
        given: &'d Optional<Words<T>>,
    ) -> Result<Option<&'d T>, Refusal> {
        given.as_ref().map(|at| self.words(at)).transpose()
    }
}

/// A list, for which one value may stand that is none.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct More<T>(pub(crate) Vec<At<T>>);

impl<T> Default for More<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for More<T> {
    type Target = [At<T>];

    fn deref(&self) -> &[At<T>] {
        &self.0
    }
}

impl<T> FromIterator<T> for More<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().map(At::from).collect())
    }
}

impl<T: Serialize> Serialize for At<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(to)
    }
}

impl<T: Serialize> Serialize for More<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(to)
    }
}

/// A schema that is another type's.
macro_rules! schema_of {
    ($type:ident<$t:ident>: $of:ty) => {
        impl<$t: JsonSchema> JsonSchema for $type<$t> {
            fn inline_schema() -> bool {
                <$of>::inline_schema()
            }

            fn schema_name() -> Cow<'static, str> {
                <$of>::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$of>::json_schema(generator)
            }
        }
    };
}

schema_of!(At<T>: T);
schema_of!(Required<T>: T);

impl<T: JsonSchema> JsonSchema for More<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("One_or_more_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        // Not `anyOf`, of whose parts validators do not say which was meant.
        schemars::json_schema!({
            "if": { "type": "array" },
            "then": { "items": one },
            "else": one,
        })
    }
}
