//! The JSON Schema of the documents, by which editors complete and check. The
//! reader checks more.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;

use super::de::Fault;
use super::scenario::Scenario;
use crate::campaign::document::Campaign;

/// What the schema is called; the version of the format is part of it.
const ID: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/schema/v1.json");

/// A scenario or a campaign.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)] // For its schema alone.
enum File {
    Scenario(Box<Scenario>),
    Campaign(Box<Campaign>),
}

/// The schema of all files, as a JSON document.
pub fn schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(File);
    schema.insert("$id".to_owned(), ID.into());
    schema.insert("title".to_owned(), "Narrows scenario or campaign".into());
    schema.to_value()
}

/// The keys of a table, in the order in which messages name them.
pub(crate) fn keys<T: DeserializeOwned>() -> &'static [&'static str] {
    let odd = MapDeserializer::<_, Fault>::new([("", "")].into_iter());
    match T::deserialize(odd) {
        Err(Fault::Unknown(_, known)) => known,
        _ => &[],
    }
}
