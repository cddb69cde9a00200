//! `[[app]]`: the keys that every application has, and those of its kind.

use std::borrow::Cow;
use std::fmt;

use narrows_app::APP_KINDS;
use narrows_units::{Bytes, Declared, Duration, Parameter, ParameterKind, Rate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::leaf::{Name, Scalar, Spelled, Whole, Words, spelled};
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

/// The JSON types that the value of a parameter of this kind has in a file.
pub(crate) const fn types(kind: ParameterKind) -> &'static [&'static str] {
    match kind {
        ParameterKind::Flag => &["boolean"],
        ParameterKind::Number(_) => &["integer"],
        ParameterKind::Time | ParameterKind::Rate | ParameterKind::Choice => &["string"],
        ParameterKind::Size => &["string", "integer"],
        ParameterKind::Percentage => &["string", "integer", "number"],
        ParameterKind::Words => &["string", "integer", "number", "array"],
    }
}

/// What a parameter's value may be in a file, as it is declared: its type, how it is spelt, and
/// its range where it is a number.
fn of_parameter(parameter: &Parameter) -> serde_json::Value {
    let mut schema = json_schema!({
        "description": parameter.about,
        "type": types(parameter.kind),
    });
    let pattern = match parameter.kind {
        ParameterKind::Time => spelled::<Duration>(),
        ParameterKind::Rate => spelled::<Rate>(),
        ParameterKind::Size => spelled::<Bytes>(),
        _ => None,
    };
    if let Some(pattern) = pattern {
        schema.insert("pattern".to_owned(), pattern.into());
    }
    let choices: Vec<_> = parameter.choices().collect();
    if parameter.kind == ParameterKind::Choice && !choices.is_empty() {
        schema.insert("enum".to_owned(), choices.into());
    }
    if matches!(
        parameter.kind,
        ParameterKind::Number(_) | ParameterKind::Size
    ) {
        let whole = |end: Option<&str>| end.and_then(|end| end.parse::<i64>().ok());
        let [least, most] = parameter.ends().map(whole);
        schema.insert("minimum".to_owned(), least.unwrap_or(0).into());
        if let Some(most) = most {
            schema.insert("maximum".to_owned(), most.into());
        }
    }
    schema.to_value()
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
        let mut own = parameters(kinds());
        if kind.is_none() {
            // Kinds may differ in a parameter of one name: what it takes is said for each kind.
            for schema in own.values_mut() {
                *schema = serde_json::json!({ "description": schema["description"] });
            }
        }
        properties.extend(own);
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
        // A validator says which key is none of the kind's, and which value none of its parameter.
        let each = APP_KINDS.iter().map(|kind| {
            let others = APP_KINDS.iter().filter(|other| other.name != kind.name);
            let strange = parameters(others).into_iter();
            let mut properties: serde_json::Map<_, _> =
                strange.map(|(name, _)| (name, false.into())).collect();
            properties.extend(parameters([kind]));
            serde_json::json!({
                "if": { "properties": { "kind": { "const": kind.name } }, "required": ["kind"] },
                "then": { "properties": properties },
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
