//! From a tree of values to a typed document: serde's `Deserialize` decides what
//! is read, and every refusal says where.

use std::cell::RefCell;
use std::fmt::{self, Display};
use std::iter::once;

use serde::de::value::{MapDeserializer, SeqDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error as _, Expected, IntoDeserializer,
    SeqAccess, Unexpected, Visitor,
};
use serde::forward_to_deserialize_any;

use super::place::{At, Place, Places};
use crate::names::is_name;
use crate::refusal::{Refusal, one_of};
use crate::tree::{Key, Node, Value, clipped};

/// Reads the whole of a document.
///
/// # Errors
/// A key that is not known, or a value of another type than its key wants.
pub(crate) fn read<T: DeserializeOwned>(root: &Node) -> Result<(At<T>, Places), Refusal> {
    let places = RefCell::new(Places::default());
    let from = De {
        node: root,
        key: String::new(),
        places: &places,
    };
    match serde::Deserialize::deserialize(from) {
        Ok(read) => Ok((read, places.into_inner())),
        Err(fault) => Err(fault.at(root, "")),
    }
}

/// What is wrong with a value, with its place once that is known.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is not what is allowed, which is said.
    Wrong(String),
    /// An unknown key or word, and those that are known.
    Unknown(String, &'static [&'static str]),
    Placed(Box<Refusal>),
}

impl Fault {
    fn at(self, node: &Node, key: &str) -> Refusal {
        let refuse = |allowed: String| Refusal::at(&node.spot, key, node.describe(), allowed);
        match self {
            Self::Placed(refusal) => *refusal,
            Self::Unknown(word, known) => {
                let known = || known.iter().copied();
                refuse(one_of(known())).did_you_mean(&word, known())
            }
            Self::Wrong(allowed) if allowed == "a boolean" => refuse("`true` or `false`".into()),
            Self::Wrong(allowed) if allowed == "a sequence" => {
                let kind = key.rsplit('/').next().unwrap_or(key);
                refuse(format!("a list of tables, each headed `[[{kind}]]`"))
            }
            // What an axis's table holds for each value.
            Self::Wrong(allowed) if allowed == "a map" && key.starts_with("axis/") => {
                let axis = key.split('/').nth(1).unwrap_or_default();
                let allowed = "a table of the words that the value fills in, such as \
                               { rate = \"10Mbit\", limit = \"100\" }";
                let help = format!(
                    "values that fill in `{{{axis}}}` alone are a list: [axis], and below it \
                     {axis} = [\"10Mbit\", \"50Mbit\"]."
                );
                refuse(allowed.into()).with_help(help)
            }
            Self::Wrong(allowed) if allowed == "a map" => refuse("a table".into()),
            Self::Wrong(allowed) if allowed.starts_with("struct ") => refuse("a table".into()),
            Self::Wrong(allowed) => refuse(allowed).or_did_you_mean(),
        }
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(words) | Self::Unknown(words, _) => f.write_str(words),
            Self::Placed(refusal) => refusal.fmt(f),
        }
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(allowed: T) -> Self {
        Self::Wrong(allowed.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, allowed: &dyn Expected) -> Self {
        Self::Wrong(allowed.to_string())
    }

    fn unknown_field(field: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown(field.to_owned(), known)
    }

    fn unknown_variant(word: &str, known: &'static [&'static str]) -> Self {
        Self::Unknown(word.to_owned(), known)
    }
}

/// A value and the full name of its key.
#[derive(Clone)]
struct De<'a> {
    node: &'a Node,
    key: String,
    places: &'a RefCell<Places>,
}

fn joined(path: &str, key: &str) -> String {
    match path {
        "" => key.to_owned(),
        path => format!("{path}/{key}"),
    }
}

impl<'a> De<'a> {
    /// Passes on what `read` makes of the value; what it refuses is refused here.
    fn placed<T>(self, read: impl FnOnce(Self) -> Result<T, Fault>) -> Result<T, Fault> {
        let (node, key) = (self.node, self.key.clone());
        read(self).map_err(|fault| Fault::Placed(Box::new(fault.at(node, &key))))
    }

    /// The items of a list. A table among them is called by its name, or by its
    /// number.
    fn items(self, list: &'a [Node]) -> impl Iterator<Item = Self> {
        list.iter().enumerate().map(move |(number, node)| {
            let name = node.at("name").and_then(Node::as_text);
            let key = match (&node.value, name) {
                (Value::Table(_), Some(name)) if is_name(name) => joined(&self.key, name),
                (Value::Table(_), _) => format!("{} {}", self.key, number + 1),
                _ => self.key.clone(),
            };
            let places = self.places;
            Self { node, key, places }
        })
    }

    fn entries(self, table: &'a [(Key, Node)]) -> impl Iterator<Item = (KeyDe<'a>, Self)> {
        table.iter().map(move |(key, node)| {
            let value = Self {
                node,
                key: joined(&self.key, &key.name),
                places: self.places,
            };
            (KeyDe(key, value.clone()), value)
        })
    }
}

impl<'de> IntoDeserializer<'de, Fault> for De<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for De<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.placed(|de| match &de.node.value {
            Value::Text(text) => visitor.visit_str(text),
            // Whatever its key makes of it.
            Value::Raw(text) => visitor.visit_bytes(text.as_bytes()),
            Value::Element { label, layers } => {
                let parts = once(label).chain(layers).map(String::as_bytes);
                visitor.visit_seq(SeqDeserializer::new(parts))
            }
            Value::Whole(number) => visitor.visit_i64(*number),
            Value::Float(number) => visitor.visit_f64(*number),
            Value::Flag(flag) => visitor.visit_bool(*flag),
            Value::Date => Err(Fault::invalid_type(Unexpected::Other("a date"), &visitor)),
            Value::List(list) => visitor.visit_seq(SeqDeserializer::new(de.items(list))),
            Value::Table(table) => visitor.visit_map(MapDeserializer::new(de.entries(&table.0))),
        })
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.node.as_flag() {
            Some(flag) => self.placed(|_| visitor.visit_bool(flag)),
            None => self.deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_some(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        words: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.placed(|de| match de.node.as_text() {
            Some(text) => visitor.visit_enum(text.into_deserializer()),
            None => Err(Fault::Unknown(String::new(), words)),
        })
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match (name, &self.node.value) {
            ("More", Value::List(_)) => visitor.visit_newtype_struct(self),
            // One value stands for a list of one.
            ("More", _) => visitor.visit_newtype_struct(SeqDeserializer::new(once(self))),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match name {
            "At" => {
                let place = self.places.borrow_mut().add(Place {
                    spot: self.node.spot.clone(),
                    key: self.key.clone(),
                    found: self.node.describe(),
                    words: self.node.as_text().is_some(),
                });
                self.placed(|de| visitor.visit_seq(Pair(Some(de), place)))
            }
            // A metric may be its formula alone.
            "Metric" if self.node.as_text().is_some() => {
                visitor.visit_map(MapDeserializer::new(once(("of", self))))
            }
            _ => self.deserialize_any(visitor),
        }
    }

    forward_to_deserialize_any! {
        i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf
        unit unit_struct seq tuple tuple_struct map identifier ignored_any
    }
}

/// A value and the number of its place.
struct Pair<D>(Option<D>, u32);

impl<'de, D: Deserializer<'de, Error = Fault>> SeqAccess<'de> for Pair<D> {
    type Error = Fault;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Fault> {
        match self.0.take() {
            Some(value) => seed.deserialize(value).map(Some),
            None => seed.deserialize(self.1.into_deserializer()).map(Some),
        }
    }
}

/// Where what `key` says is said, in a table that has `known` keys and not this one.
fn elsewhere(key: &str, known: &[&str]) -> Option<&'static str> {
    let of_links = known.contains(&"up") && known.contains(&"down");
    match key {
        "queue" | "qdisc" | "rate" | "bandwidth" | "delay" | "latency" | "loss" | "netem"
            if of_links =>
        {
            Some(
                "what a link does to packets are words of its elements, one for each direction: \
                 up = [\"netem delay 10ms loss 1%\", \"rate 50Mbit queue fq_codel\"].",
            )
        }
        "algorithm" | "congestion_control" | "control" if known.contains(&"cc") => {
            Some("the congestion control is `cc`.")
        }
        _ => None,
    }
}

/// A key, with its value: one that is not known is refused as such.
struct KeyDe<'a>(&'a Key, De<'a>);

impl<'de> IntoDeserializer<'de, Fault> for KeyDe<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for KeyDe<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let Self(key, value) = self;
        visitor.visit_str(&key.name).map_err(|fault| match fault {
            Fault::Unknown(_, known) => {
                let known_keys = known;
                // Applications have short tables, which are no keys of the document.
                let kinds = known.contains(&"app").then_some(narrows_app::APP_KINDS);
                let kinds = || kinds.into_iter().flatten().map(|kind| kind.name);
                let known = || known.iter().copied().chain(kinds());
                let found = format!("the unknown key `{}`", clipped(&key.name));
                let refusal = Refusal::at(&key.spot, clipped(&value.key), found, one_of(known()));
                let refusal = match elsewhere(&key.name, known_keys) {
                    Some(help) => refusal.with_help(help),
                    None => refusal.did_you_mean(&key.name, known()),
                };
                Fault::Placed(Box::new(refusal))
            }
            other => other,
        })
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct enum identifier
        ignored_any
    }
}
