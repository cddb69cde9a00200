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
        self.faults(text).is_empty()
    }

    /// The values of a file in TOML that do not fit, as JSON pointers with the keyword
    /// that refuses them: `/flow/0/startt additionalProperties`.
    pub fn faults(&self, text: &str) -> Vec<String> {
        let file: toml::Table = text.parse().expect("TOML");
        let file = serde_json::to_value(file).expect("a JSON value");
        let mut faults = Vec::new();
        self.judge(&self.schema, &file, "", &mut faults);
        faults
    }

    fn fits(&self, schema: &Value, value: &Value) -> bool {
        let mut faults = Vec::new();
        self.judge(schema, value, "", &mut faults);
        faults.is_empty()
    }

    fn judge(&self, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
        let Some(schema) = schema.as_object() else {
            if !schema.as_bool().expect("a schema") {
                faults.push(format!("{at} false"));
            }
            return;
        };
        let number = |of: &Value| of.as_f64().expect("a number");
        let length = |of: &Value| of.as_u64().expect("a length") as usize;
        for (keyword, with) in schema {
            let fits = match keyword.as_str() {
                "$schema" | "$id" | "$defs" | "title" | "description" | "default" | "format"
                | "then" | "else" => true,
                "$ref" => {
                    let path = with
                        .as_str()
                        .and_then(|r| r.strip_prefix('#'))
                        .expect("a reference");
                    let of = self.schema.pointer(path).expect("a definition");
                    self.judge(of, value, at, faults);
                    true
                }
                "if" => {
                    let way = if self.fits(with, value) {
                        "then"
                    } else {
                        "else"
                    };
                    if let Some(way) = schema.get(way) {
                        self.judge(way, value, at, faults);
                    }
                    true
                }
                "allOf" => {
                    for schema in with.as_array().expect("schemas") {
                        self.judge(schema, value, at, faults);
                    }
                    true
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
                    assert!(
                        !pattern.contains("\\p") && !pattern.contains("(?"),
                        "{pattern}: not in the syntax that all validators share"
                    );
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
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.judge(with, item, &format!("{at}/{index}"), faults);
                    }
                    true
                }
                "required" => value.as_object().is_none_or(|table| {
                    let keys = with.as_array().expect("keys").iter();
                    keys.map(|k| k.as_str().expect("a key"))
                        .all(|key| table.contains_key(key))
                }),
                "properties" => {
                    for (key, of) in with.as_object().expect("properties") {
                        if let Some(value) = value.get(key) {
                            self.judge(of, value, &format!("{at}/{key}"), faults);
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    let known = schema.get("properties").and_then(Value::as_object);
                    for (key, value) in value.as_object().into_iter().flatten() {
                        if known.is_some_and(|known| known.contains_key(key)) {
                            continue;
                        }
                        let at = format!("{at}/{key}");
                        match with {
                            Value::Bool(false) => faults.push(format!("{at} {keyword}")),
                            of => self.judge(of, value, &at, faults),
                        }
                    }
                    true
                }
                other => panic!("the keyword {other} of {schema:?}"),
            };
            if !fits {
                faults.push(format!("{at} {keyword}"));
            }
        }
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
