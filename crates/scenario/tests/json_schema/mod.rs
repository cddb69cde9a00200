//! As much of a JSON Schema validator as the program's own schema needs. What it
//! does not know of a schema is an error, so that nothing is passed over.

use std::cell::RefCell;
use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// The schema of scenario and campaign files.
pub struct Validator {
    schema: Value,
    patterns: RefCell<BTreeMap<String, Regex>>,
}

impl Validator {
    pub fn of_files() -> Self {
        Self {
            schema: narrows_scenario::schema(),
            patterns: RefCell::default(),
        }
    }

    /// Whether a file in TOML fits.
    pub fn takes(&self, text: &str) -> bool {
        let file: toml::Table = text.parse().expect("TOML");
        let file = serde_json::to_value(file).expect("a JSON value");
        self.fits(&self.schema, &file)
    }

    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let Some(schema) = schema.as_object() else {
            return schema.as_bool().expect("a schema");
        };
        let number = |of: &Value| of.as_f64().expect("a number");
        let length = |of: &Value| of.as_u64().expect("a length") as usize;
        schema.iter().all(|(keyword, with)| match keyword.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" | "default" | "format" => true,
            "$ref" => {
                let path = with
                    .as_str()
                    .and_then(|r| r.strip_prefix('#'))
                    .expect("a reference");
                self.fits(self.schema.pointer(path).expect("a definition"), value)
            }
            "const" => with == value,
            // Of an enumeration, whose variants differ.
            "anyOf" | "oneOf" => with
                .as_array()
                .expect("schemas")
                .iter()
                .any(|s| self.fits(s, value)),
            "enum" => with.as_array().expect("values").contains(value),
            "type" => match with {
                Value::Array(types) => types.iter().any(|t| is(t, value)),
                one => is(one, value),
            },
            "pattern" => value.as_str().is_none_or(|text| {
                let pattern = with.as_str().expect("a pattern");
                let mut patterns = self.patterns.borrow_mut();
                let read = || Regex::new(pattern).expect("a pattern");
                patterns
                    .entry(pattern.to_owned())
                    .or_insert_with(read)
                    .is_match(text)
            }),
            "maxLength" => value
                .as_str()
                .is_none_or(|t| t.chars().count() <= length(with)),
            "minimum" => value.as_f64().is_none_or(|n| n >= number(with)),
            "maximum" => value.as_f64().is_none_or(|n| n <= number(with)),
            "minItems" => value
                .as_array()
                .is_none_or(|list| list.len() >= length(with)),
            "maxItems" => value
                .as_array()
                .is_none_or(|list| list.len() <= length(with)),
            "items" => value
                .as_array()
                .is_none_or(|l| l.iter().all(|item| self.fits(with, item))),
            "required" => value.as_object().is_none_or(|table| {
                let keys = with.as_array().expect("keys").iter();
                keys.map(|k| k.as_str().expect("a key"))
                    .all(|key| table.contains_key(key))
            }),
            "properties" => value.as_object().is_none_or(|table| {
                let known = with.as_object().expect("properties");
                known
                    .iter()
                    .all(|(key, s)| table.get(key).is_none_or(|v| self.fits(s, v)))
            }),
            "additionalProperties" => value.as_object().is_none_or(|table| {
                let known = schema.get("properties").and_then(Value::as_object);
                let more = table
                    .iter()
                    .filter(|(k, _)| known.is_none_or(|p| !p.contains_key(*k)));
                more.into_iter().all(|(_, v)| self.fits(with, v))
            }),
            other => panic!("the keyword {other} of {schema:?}"),
        })
    }
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().expect("a type") {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "null" => value.is_null(),
        other => panic!("the type {other}"),
    }
}
