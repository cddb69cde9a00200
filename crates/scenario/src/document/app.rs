//! `[[app]]`: the keys that every application has, and those of its kind.

use std::borrow::Cow;
use std::fmt;

use narrows_app::APP_KINDS;
use narrows_units::{Declared, Duration, Parameter};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::leaf::{Name, Scalar, Spelled, Whole, Words};
use super::place::{At, Optional, Required};
use super::scenario::{EcnRequest, HostModel};
use super::schema::keys;
use crate::parts::{Control, Dscp};
use crate::transport::TransportName;

/// The keys of every application.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AppKeys {
    /// Its name; what it reports is of the entity `app/<name>`.
    pub(crate) name: Required<Name>,
    /// Which application it is, such as `request`. `[[request]]` says it in place of `[[app]]`.
    pub(crate) kind: Required<String>,
    /// The host that begins: the client.
    pub(crate) from: Required<String>,
    /// The host that answers: the server.
    pub(crate) to: Required<String>,
    /// When it begins; `0s` by default.
    pub(crate) start: Optional<Spelled<Duration>>,
    /// When it begins nothing more; at the end by default.
    pub(crate) stop: Optional<Spelled<Duration>>,
    /// `tcp` or `quic`; what `cc` is made for by default.
    pub(crate) transport: Optional<Words<TransportName>>,
    /// The congestion control in words, `cubic` by default.
    pub(crate) cc: Optional<Words<Control>>,
    /// What handshakes ask for; what `cc` needs by default. `off`, `classic` (RFC 3168) or
    /// `accecn` (RFC 9768); `true` is the plainest that serves `cc`.
    pub(crate) ecn: Optional<Words<EcnRequest>>,
    /// The code point, 0 to 63 or by name.
    pub(crate) dscp: Optional<Words<Dscp>>,
    /// 4 (the default) or 6.
    #[schemars(extend("enum" = [4, 6]))]
    pub(crate) ip: Optional<Whole<4, 6>>,
    /// Whether data goes with the SYN.
    pub(crate) fast_open: Optional<bool>,
    /// How the two hosts treat its segments.
    pub(crate) host_model: Optional<HostModel>,
}

/// An application: the keys that all have, and the parameters of its kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct App {
    pub(crate) keys: AppKeys,
    /// The other keys, in the order in which they were written. Which there may be, the kind
    /// says, which may be written after them.
    pub(crate) parameters: Vec<(String, At<Scalar>)>,
}

impl<'de> Deserialize<'de> for App {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Table;
        impl<'de> Visitor<'de> for Table {
            type Value = App;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<App, A::Error> {
                let mut parameters = Vec::new();
                let keys = AppKeys::deserialize(MapAccessDeserializer::new(OfAll {
                    map,
                    known: keys::<AppKeys>(),
                    others: &mut parameters,
                }))?;
                Ok(App { keys, parameters })
            }
        }
        from.deserialize_map(Table)
    }
}

/// Hands on the keys that are `known`, and collects the others.
struct OfAll<'o, A> {
    map: A,
    known: &'static [&'static str],
    others: &'o mut Vec<(String, At<Scalar>)>,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for OfAll<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, A::Error> {
        while let Some(key) = self.map.next_key::<String>()? {
            if self.known.contains(&key.as_str()) {
                return seed.deserialize(key.into_deserializer()).map(Some);
            }
            let value = self.map.next_value()?;
            self.others.push((key, value));
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

/// The parameters of a kind among the keys of its table.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    keys: &'a AppKeys,
    #[serde(flatten)]
    parameters: Parameters<'a>,
}

struct Parameters<'a>(&'a [(String, At<Scalar>)]);

impl Serialize for Parameters<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (key, value) in self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl Serialize for App {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let (keys, parameters) = (&self.keys, Parameters(&self.parameters));
        Written { keys, parameters }.serialize(to)
    }
}

/// What a parameter's value may be in a file: words, a number, several of them, or a flag.
fn of_parameter(parameter: &Parameter) -> serde_json::Value {
    serde_json::json!({
        "description": parameter.about,
        "type": ["string", "number", "boolean", "array"],
    })
}

/// The properties of the parameters of `kinds`.
fn parameters<'k>(
    kinds: impl IntoIterator<Item = &'k Declared>,
) -> serde_json::Map<String, serde_json::Value> {
    let parameters = kinds.into_iter().flat_map(|kind| kind.parameters);
    let named = parameters.flat_map(|p| p.names().map(move |name| (name, p)));
    named
        .map(|(name, parameter)| (name.to_owned(), of_parameter(parameter)))
        .collect()
}

/// The schema of the tables of an application, those of one kind if `kind` is given.
pub(super) fn table(generator: &mut SchemaGenerator, kind: Option<&str>) -> Schema {
    let kinds = || {
        APP_KINDS
            .iter()
            .filter(|k| kind.is_none_or(|kind| k.name == kind))
    };
    let mut schema = AppKeys::json_schema(generator);
    let words: Vec<_> = kinds().map(|kind| kind.name).collect();
    if let Some(serde_json::Value::Object(properties)) = schema.get_mut("properties") {
        properties.extend(parameters(kinds()));
        if let Some(serde_json::Value::Object(kind)) = properties.get_mut("kind") {
            kind.insert("enum".to_owned(), words.into());
        }
    }
    if let (Some(_), Some(serde_json::Value::Array(required))) = (kind, schema.get_mut("required"))
    {
        required.retain(|key| key != "kind");
    }
    schema
}

impl JsonSchema for App {
    fn schema_name() -> Cow<'static, str> {
        "App".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = table(generator, None);
        // A validator says which key is none of the kind's.
        let each = APP_KINDS.iter().map(|kind| {
            let others = APP_KINDS.iter().filter(|other| other.name != kind.name);
            let own = parameters([kind]);
            let strange = parameters(others).into_iter();
            let strange = strange.filter(|(name, _)| !own.contains_key(name));
            let strange: serde_json::Map<_, _> =
                strange.map(|(name, _)| (name, false.into())).collect();
            serde_json::json!({
                "if": { "properties": { "kind": { "const": kind.name } }, "required": ["kind"] },
                "then": { "properties": strange },
            })
        });
        schema.insert("allOf".to_owned(), each.collect::<Vec<_>>().into());
        schema
    }
}

/// The tables that are an application with its kind said.
pub(super) fn short_tables(root: &mut Schema) {
    // What these tables refer to is defined with the others.
    let generator = &mut SchemaGenerator::default();
    let Some(serde_json::Value::Object(properties)) = root.get_mut("properties") else {
        return;
    };
    for kind in APP_KINDS {
        let table = table(generator, Some(kind.name));
        let tables = json_schema!({
            "description": kind.about,
            "type": "array",
            "items": table,
        });
        properties.insert(kind.name.to_owned(), tables.to_value());
    }
}
