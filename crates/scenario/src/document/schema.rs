//! The JSON Schema of the documents, by which editors complete and check. The
//! reader checks more.

use std::borrow::Cow;

use schemars::transform::transform_subschemas;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::Value;

use super::app;
use super::de::Fault;
use super::scenario::Scenario;
use crate::campaign::document::{BaseScenario, Campaign};
use crate::collection::Document as Collection;

/// What the schema is called; the version of the format is part of it.
const ID: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/schema/v1.json");

/// A scenario, a campaign or a collection, as its `kind` says, so that a validator names the key that is
/// wrong rather than that the whole file is none of them.
struct File;

impl JsonSchema for File {
    fn schema_name() -> Cow<'static, str> {
        "Narrows scenario, campaign or collection".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let scenario = generator.subschema_for::<Scenario>();
        let campaign = generator.subschema_for::<Campaign>();
        let collection = generator.subschema_for::<Collection>();
        let of_kind = |kind: &str| json_schema!({ "properties": { "kind": { "const": kind } }, "required": ["kind"] });
        json_schema!({
            "if": of_kind("campaign"),
            "then": campaign,
            "else": { "if": of_kind("collection"), "then": collection, "else": scenario },
            // Judges nothing: completion in editors by Taplo looks for keys in `anyOf`, and
            // not in `if`.
            "anyOf": [scenario, campaign, collection, {}],
        })
    }
}

/// The schema of all files, as a JSON document.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(File);
    schema.insert("$id".to_owned(), ID.into());
    short_tables_of_scenarios(&mut schema);
    without_null(&mut schema);
    schema.to_value()
}

/// Adds the tables of applications whose kind they say to where the scenario's are, in a file of
/// its own and in a campaign.
fn short_tables_of_scenarios(schema: &mut Schema) {
    let Some(Value::Object(all)) = schema.get_mut("$defs") else {
        return;
    };
    for name in [Scenario::schema_name(), BaseScenario::schema_name()] {
        let Some(table) = all.get_mut(&*name) else {
            continue;
        };
        if let Ok(mut of_scenario) = Schema::try_from(table.take()) {
            app::short_tables(&mut of_scenario);
            *table = of_scenario.to_value();
        }
    }
}

/// Takes `null` out of what may be left out: TOML has none, and a choice between it and
/// something else hides what is wrong with the latter.
fn without_null(schema: &mut Schema) {
    transform_subschemas(&mut without_null, schema);
    let null = serde_json::json!({ "type": "null" });
    if let Some(Value::Array(ways)) = schema.get_mut("anyOf") {
        ways.retain(|way| *way != null);
        if let [Value::Object(only)] = &mut ways[..] {
            let only = std::mem::take(only);
            schema.remove("anyOf");
            for (keyword, value) in only {
                schema.insert(keyword, value);
            }
        }
    }
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
}

/// The keys of a table, in the order in which messages name them.
pub(crate) fn keys<T: DeserializeOwned>() -> &'static [&'static str] {
    let odd = MapDeserializer::<_, Fault>::new([("", "")].into_iter());
    match T::deserialize(odd) {
        Err(Fault::Unknown(_, known)) => known,
        _ => &[],
    }
}
