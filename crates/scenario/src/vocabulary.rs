//! All that may be written in a scenario, for forms and completion: from what elements, queues,
//! controls and applications declare, and from the schema.

use narrows_app::APP_KINDS;
use narrows_aqm::QUEUE_KINDS;
use narrows_cc::ControlSpec;
use narrows_path::ELEMENT_KINDS;
use narrows_units::{Declared, Parameter};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::flent::FLENT_TESTS;

/// What elements that are boxes begin with.
const BOX: &str = "mmb";

/// What may be written.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Vocabulary {
    /// Elements of links, boxes among them.
    pub elements: Vec<Word>,
    /// Queues, behind `queue` in an element.
    pub queues: Vec<Word>,
    /// Congestion controls of flows.
    pub controls: Vec<Word>,
    /// Elements that are middleboxes.
    pub boxes: Vec<Word>,
    /// Kinds of applications.
    pub apps: Vec<Word>,
    /// Flent's tests.
    pub tests: Vec<Word>,
    /// Tables of a scenario; the one without a name stands above all others.
    pub tables: Vec<TableWord>,
}

/// Something that is written in words.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Word {
    /// What it begins with.
    pub name: String,
    /// What it is, in a sentence.
    pub summary: String,
    /// What may follow.
    pub parameters: Vec<WordParameter>,
}

/// A parameter of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WordParameter {
    /// How it is written: `limit PACKETS`.
    pub usage: String,
    /// The words that name it: several of a flag, none of a value without a name.
    pub names: Vec<String>,
    /// `flag`, `number`, `time`, `size`, `rate`, `percentage`, `choice` or `words`.
    pub kind: String,
    /// The unit of a number; empty where the value says it.
    pub unit: String,
    /// What it takes; empty of a flag.
    pub allowed: String,
    /// What holds where it is not named; empty of what has to be.
    pub default: String,
    /// Of a choice, the words.
    pub choices: Vec<String>,
    /// What it is.
    pub summary: String,
}

/// A table of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TableWord {
    /// `flow`, of `[[flow]]`; empty of the keys above all tables.
    pub name: String,
    /// Whether there may be several.
    pub many: bool,
    /// What it is.
    pub summary: String,
    /// Its keys.
    pub keys: Vec<KeyWord>,
}

/// A key of a table.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KeyWord {
    /// Its name.
    pub name: String,
    /// `string`, `integer`, `boolean`, `array`, or several of them with `|` between.
    #[serde(rename = "type")]
    pub kind: String,
    /// The only values, if they are listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
    /// What it is.
    pub summary: String,
    /// Whether it has to be there.
    pub required: bool,
}

/// The words of this version. Making the list takes some milliseconds.
pub fn vocabulary() -> Vocabulary {
    let elements: Vec<Word> = ELEMENT_KINDS.iter().map(Word::from).collect();
    let boxes = elements.iter().filter(|word| word.name == BOX).cloned();
    Vocabulary {
        boxes: boxes.collect(),
        elements,
        queues: QUEUE_KINDS.iter().map(Word::from).collect(),
        controls: narrows_cc::names().into_iter().map(control).collect(),
        apps: APP_KINDS.iter().map(Word::from).collect(),
        tests: FLENT_TESTS.iter().map(Word::from).collect(),
        tables: tables(&crate::document::schema()),
    }
}

impl From<&Declared> for Word {
    fn from(declared: &Declared) -> Self {
        Self {
            name: declared.name.to_owned(),
            summary: declared.about.to_owned(),
            parameters: declared
                .parameters
                .iter()
                .map(WordParameter::from)
                .collect(),
        }
    }
}

impl From<&Parameter> for WordParameter {
    fn from(parameter: &Parameter) -> Self {
        Self {
            names: parameter.names().map(str::to_owned).collect(),
            usage: parameter.usage.to_owned(),
            kind: parameter.kind.to_string(),
            unit: parameter.kind.unit().to_owned(),
            default: parameter.default.to_owned(),
            allowed: parameter.allowed.to_owned(),
            choices: parameter.choices().map(str::to_owned).collect(),
            summary: parameter.about.to_owned(),
        }
    }
}

fn control(name: &str) -> Word {
    let parameters = ControlSpec::parse(name)
        .map(|spec| spec.parameters())
        .unwrap_or_default();
    let parameter = |p: narrows_cc::ControlParameter| WordParameter {
        names: vec![p.name.to_owned()],
        usage: match p.kind {
            "flag" => p.name.to_owned(),
            kind => format!("{} {}", p.name, kind.to_uppercase()),
        },
        kind: p.kind.to_owned(),
        unit: String::new(),
        default: p.default,
        allowed: p.allowed,
        choices: p.choices.into_iter().map(str::to_owned).collect(),
        summary: p.about.to_owned(),
    };
    Word {
        name: name.to_owned(),
        summary: format!("The congestion control {name}."),
        parameters: parameters.into_iter().map(parameter).collect(),
    }
}

/// The tables of the schema's scenario.
fn tables(schema: &Value) -> Vec<TableWord> {
    let all = &schema["$defs"];
    let scenario = &all["Scenario"];
    let mut top = Vec::new();
    let mut tables = Vec::new();
    for (name, property) in properties(scenario) {
        let target = |of: &Value| {
            let name = of["$ref"].as_str()?.strip_prefix("#/$defs/")?;
            let target = &all[name];
            (target["type"] == "object").then_some(target)
        };
        let (inner, many) = match target(&property["items"]) {
            Some(items) => (Some(items), true),
            None => (target(property), false),
        };
        match inner {
            Some(inner) => tables.push(TableWord {
                name: name.clone(),
                many,
                summary: summary(property, all),
                keys: keys(inner, all),
            }),
            // A short table's items stand where it is.
            None if property["items"]["type"] == "object" => tables.push(TableWord {
                name: name.clone(),
                many: true,
                summary: summary(property, all),
                keys: keys(&property["items"], all),
            }),
            None => top.push(key(scenario, name, property, all)),
        }
    }
    tables.insert(
        0,
        TableWord {
            name: String::new(),
            many: false,
            summary: "What stands above all tables.".to_owned(),
            keys: top,
        },
    );
    tables
}

fn properties(of: &Value) -> impl Iterator<Item = (&String, &Value)> {
    of["properties"].as_object().into_iter().flat_map(Map::iter)
}

fn keys(table: &Value, all: &Value) -> Vec<KeyWord> {
    properties(table)
        .map(|(name, property)| key(table, name, property, all))
        .collect()
}

fn key(table: &Value, name: &str, property: &Value, all: &Value) -> KeyWord {
    let named = property["$ref"]
        .as_str()
        .and_then(|name| name.strip_prefix("#/$defs/"));
    let target = named.map_or(property, |name| &all[name]);
    let required = table["required"].as_array().into_iter().flatten();
    let kind = match &target["type"] {
        Value::String(kind) => kind.clone(),
        Value::Array(kinds) => {
            let kinds: Vec<_> = kinds.iter().filter_map(Value::as_str).collect();
            kinds.join("|")
        }
        // A list, or one of its items without brackets.
        _ if !property["if"].is_null() => "array|string".to_owned(),
        _ => "string".to_owned(),
    };
    KeyWord {
        name: name.to_owned(),
        kind,
        values: values(target),
        summary: summary(property, all),
        required: required.into_iter().any(|key| key == name),
    }
}

/// The values that are listed, by name or in a pattern of alternatives.
fn values(of: &Value) -> Vec<String> {
    for of in [of, &of["else"], &of["items"]] {
        if let Value::Array(values) = &of["enum"] {
            let word = |value: &Value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            return values.iter().map(word).collect();
        }
    }
    let listed = || {
        let pattern = of["pattern"]
            .as_str()?
            .strip_prefix("^(")?
            .strip_suffix(")$")?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '|' | '-' | '_');
        pattern
            .chars()
            .all(plain)
            .then(|| pattern.split('|').map(str::to_owned).collect())
    };
    listed().unwrap_or_default()
}

fn summary(property: &Value, all: &Value) -> String {
    let own = property["description"].as_str();
    let items = property["items"]["$ref"]
        .as_str()
        .and_then(|name| name.strip_prefix("#/$defs/"));
    let text = own.or_else(|| all[items?]["description"].as_str());
    text.unwrap_or_default().replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(name: &str) -> TableWord {
        let found = vocabulary()
            .tables
            .into_iter()
            .find(|table| table.name == name);
        found.unwrap_or_else(|| panic!("the table {name}"))
    }

    #[test]
    fn tables_and_keys_are_those_of_the_schema() {
        let flow = table("flow");
        assert!(flow.many);
        let key = |name: &str| {
            flow.keys
                .iter()
                .find(|key| key.name == name)
                .expect("a key")
        };
        assert!(key("from").required && !key("cc").required);
        assert_eq!(key("fast_open").kind, "boolean");
        assert_eq!(
            key("ecn").values,
            ["true", "on", "false", "off", "classic", "accecn"]
        );
        assert_eq!(key("ip").values, ["4", "6"]);
        assert!(key("cc").summary.contains("congestion control"));
        assert!(!table("host_model").many);
        assert!(
            table("")
                .keys
                .iter()
                .any(|key| key.name == "duration" && key.required)
        );
        let link = table("link");
        assert!(
            link.keys
                .iter()
                .any(|key| key.name == "up" && key.kind == "array|string")
        );
    }

    #[test]
    fn every_kind_that_is_declared_is_a_word_with_its_parameters() {
        let words = vocabulary();
        assert_eq!(words.elements.len(), ELEMENT_KINDS.len());
        assert_eq!(words.queues.len(), QUEUE_KINDS.len());
        assert_eq!(words.boxes.len(), 1);
        for kind in APP_KINDS {
            let app = words
                .apps
                .iter()
                .find(|word| word.name == kind.name)
                .expect("a word");
            assert_eq!(app.parameters.len(), kind.parameters.len());
            assert!(table(kind.name).many, "{}", kind.name);
        }
        let prague = words
            .controls
            .iter()
            .find(|word| word.name == "prague")
            .expect("prague");
        let variant = prague
            .parameters
            .iter()
            .find(|p| p.names == ["variant"])
            .expect("a variant");
        assert!(variant.choices.contains(&variant.default), "{variant:?}");
    }
}
