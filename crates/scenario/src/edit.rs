//! Changes of a file by name: comments, order and spacing stay as they were written.

mod element;
mod remove;
mod rename;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json};
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value};

use crate::check::ONLY_LINK;
use crate::names::is_name;
use crate::tree::clipped;

pub use element::{Action, Direction};

/// A change of a scenario, or of the scenario in a campaign.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "op", rename_all = "lowercase", deny_unknown_fields)]
pub enum Edit {
    /// Adds a table `[[table]]` with these values, after those of its kind.
    Add {
        /// `host`, `link`, `flow`, …
        table: String,
        /// Its keys.
        values: Map<String, Json>,
    },
    /// Gives a key of a table a value; `null` takes it out.
    Set {
        /// The kind of the table; `scenario` for what stands above all tables.
        table: String,
        /// Its name; of tables without names, their number among their kind, `#0`; of a table
        /// that there is once, nothing.
        #[serde(default)]
        name: String,
        /// The key.
        key: String,
        /// The value.
        value: Json,
    },
    /// Takes a table out, and what is about nothing else: with a host its links and flows, with a
    /// link the changes of its elements.
    Remove {
        /// The kind of the table.
        table: String,
        /// Its name, as for `set`.
        name: String,
    },
    /// Gives a table another name, wherever it is named.
    Rename {
        /// The kind of the table.
        table: String,
        /// Its name.
        name: String,
        /// The new one.
        to: String,
    },
    /// Changes the elements of a link.
    Element {
        /// The link's name.
        link: String,
        /// In which direction.
        direction: Direction,
        /// Which element, from 0, in order of travel.
        index: usize,
        /// What is done.
        action: Action,
        /// The element in words, of `insert` and `replace`.
        #[serde(default)]
        text: Option<String>,
        /// Where it goes, of `move`.
        #[serde(default)]
        to: Option<usize>,
    },
}

/// Why a change was refused; a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EditError(String);

impl EditError {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// `text` with `edits` made, one after the other; what else it holds stays as it is, letter by
/// letter. Beside it, in words, what was taken out because what it was about is gone.
///
/// # Errors
/// If it is no TOML, or one of the changes is about something that is not there. What does not
/// fit a scenario is refused by a check of the new text.
pub fn edited(text: &str, edits: &[Edit]) -> Result<(String, Vec<String>), EditError> {
    if edits.is_empty() {
        return Ok((text.to_owned(), Vec::new()));
    }
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        EditError::new(format!("the text is no TOML: {}", error.message()))
    })?;
    let mut along = Vec::new();
    for edit in edits {
        along.extend(make(&mut document, edit)?);
    }
    Ok((document.to_string(), along))
}

/// The scenario in a document: of a campaign, what is in it.
fn scenario(document: &mut DocumentMut) -> &mut Table {
    let root = document.as_table_mut();
    if !root.get("scenario").is_some_and(Item::is_table) {
        return root;
    }
    // Asked twice, for a borrow that is given back must not be kept.
    match root.get_mut("scenario") {
        Some(Item::Table(table)) => table,
        _ => unreachable!("it was a table"),
    }
}

/// Makes one; what went along, in words.
fn make(document: &mut DocumentMut, edit: &Edit) -> Result<Vec<String>, EditError> {
    match edit {
        Edit::Add { table, values } => add(scenario(document), table, values)?,
        Edit::Set {
            table,
            name,
            key,
            value,
        } => {
            let table = match table.as_str() {
                "scenario" => scenario(document),
                kind => table_of(scenario(document), kind, name)?,
            };
            set(table, key, value)?;
        }
        Edit::Remove { table, name } => return remove::table(document, table, name),
        Edit::Rename { table, name, to } => rename::rename(document, table, name, to)?,
        Edit::Element {
            link,
            direction,
            index,
            action,
            text,
            to,
        } => {
            let link = table_of(scenario(document), "link", link)?;
            let before = remove::names(link);
            element::change(link, *direction, *index, *action, (text.as_deref(), *to))?;
            if *action == Action::Remove {
                let after = remove::names(link);
                return Ok(remove::elements(document, &before, &after, *index));
            }
        }
    }
    Ok(Vec::new())
}

fn is_key(key: &str) -> Result<(), EditError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    match !key.is_empty() && key.len() <= 64 && key.chars().all(allowed) {
        true => Ok(()),
        false => Err(EditError::new(format!("`{}` is no key", clipped(key)))),
    }
}

fn add(root: &mut Table, kind: &str, values: &Map<String, Json>) -> Result<(), EditError> {
    is_key(kind)?;
    if let Some(Json::String(name)) = values.get("name") {
        let known = tables(root, kind).is_some_and(|tables| position(tables, kind, name).is_some());
        if !is_name(name) || known {
            let why = if known {
                "is there already"
            } else {
                "is no name"
            };
            return Err(EditError::new(format!("{kind}: `{}` {why}", clipped(name))));
        }
    }
    let mut table = Table::new();
    table.decor_mut().set_prefix("\n");
    for (key, value) in values {
        set(&mut table, key, value)?;
    }
    let item = root
        .entry(kind)
        .or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    match item {
        Item::ArrayOfTables(tables) => tables.push(table),
        _ => {
            let why = format!("`{kind}` is no list of [[{kind}]]");
            return Err(EditError::new(why));
        }
    }
    Ok(())
}

fn missing(kind: &str, name: &str) -> EditError {
    EditError::new(format!("there is no {} `{}`", clipped(kind), clipped(name)))
}

fn tables<'t>(root: &'t Table, kind: &str) -> Option<&'t ArrayOfTables> {
    root.get(kind)?.as_array_of_tables()
}

/// Where among its kind the table called `name` is.
fn position(tables: &ArrayOfTables, kind: &str, name: &str) -> Option<usize> {
    let number = name
        .strip_prefix('#')
        .and_then(|number| number.parse().ok());
    if let Some(number) = number {
        return (number < tables.len()).then_some(number);
    }
    let usual = if kind == "link" && tables.len() == 1 {
        ONLY_LINK
    } else {
        ""
    };
    let of = |table: &Table| {
        let own = table.get("name").and_then(Item::as_str);
        own.unwrap_or(usual) == name
    };
    tables.iter().position(of)
}

/// The table of a kind that has this name; a host that so far is only an end of a link gets one.
fn table_of<'t>(root: &'t mut Table, kind: &str, name: &str) -> Result<&'t mut Table, EditError> {
    if name.is_empty() && root.get(kind).is_none_or(Item::is_table) {
        is_key(kind)?;
        let item = root.entry(kind).or_insert_with(|| {
            let mut table = Table::new();
            table.decor_mut().set_prefix("\n");
            Item::Table(table)
        });
        return item.as_table_mut().ok_or_else(|| missing(kind, name));
    }
    let known = tables(root, kind).is_some_and(|tables| position(tables, kind, name).is_some());
    if !known {
        if !["host", "router"].contains(&kind) || !is_end(root, name) {
            return Err(missing(kind, name));
        }
        let named = [("name".to_owned(), Json::from(name))];
        add(root, kind, &named.into_iter().collect())?;
    }
    match root.get_mut(kind) {
        Some(Item::ArrayOfTables(tables)) => {
            let at = position(tables, kind, name);
            at.and_then(|at| tables.get_mut(at))
                .ok_or_else(|| missing(kind, name))
        }
        _ => Err(missing(kind, name)),
    }
}

fn is_end(root: &Table, name: &str) -> bool {
    let links = tables(root, "link").into_iter().flatten();
    let mut ends = links
        .filter_map(|link| link.get("ends")?.as_array())
        .flatten();
    ends.any(|end| end.as_str() == Some(name))
}

fn set(table: &mut Table, key: &str, value: &Json) -> Result<(), EditError> {
    is_key(key)?;
    if value.is_null() {
        table.remove(key);
        return Ok(());
    }
    let mut value = toml_value(value)?;
    match table.get_mut(key) {
        Some(Item::Value(before)) => {
            // What stands around it, such as a comment behind it.
            *value.decor_mut() = before.decor().clone();
            *before = value;
        }
        Some(_) => return Err(EditError::new(format!("`{key}` is a table, and no value"))),
        None => {
            table.insert(key, Item::Value(value));
        }
    }
    Ok(())
}

fn toml_value(value: &Json) -> Result<Value, EditError> {
    Ok(match value {
        Json::String(text) => Value::from(text.as_str()),
        Json::Bool(flag) => Value::from(*flag),
        Json::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Value::from(whole),
            (None, Some(float)) => Value::from(float),
            (None, None) => return Err(EditError::new(format!("{number} is no number of TOML"))),
        },
        Json::Array(list) => {
            let items = list.iter().map(toml_value);
            Value::Array(items.collect::<Result<Array, _>>()?)
        }
        Json::Object(entries) => {
            let mut table = InlineTable::new();
            for (key, value) in entries {
                is_key(key)?;
                table.insert(key, toml_value(value)?);
            }
            Value::InlineTable(table)
        }
        Json::Null => return Err(EditError::new("TOML has no null")),
    })
}
