//! Another name for a table, and wherever it is named.

use toml_edit::{DocumentMut, Item, Key, Table, Value};

use super::{EditError, is_end, missing, position, scenario, set, tables};
use crate::names::is_name;
use crate::tree::clipped;

/// Keys whose values are names of hosts, and the tables in which they mean something else.
const HOSTS: [&str; 6] = ["from", "to", "opens", "host", "ends", "hosts"];
const NO_HOSTS: &str = "change";

/// What calls the things of a kind by their names alone: the kind, and the keys.
const NAMED: [(&str, &str); 2] = [("flow", "flows"), ("proxy", "via")];

/// The table of a campaign whose keys are full names of what its axes change.
const SET: &str = "set";

/// Renames.
pub(super) fn rename(
    document: &mut DocumentMut,
    kind: &str,
    name: &str,
    to: &str,
) -> Result<(), EditError> {
    if !is_name(to) {
        let why = "is no name: letters, digits, `_`, `-` and `.`";
        return Err(EditError::new(format!("`{}` {why}", clipped(to))));
    }
    let root = scenario(document);
    let is_host = ["host", "router"].contains(&kind);
    let kinds: &[&str] = if is_host {
        &["host", "router"]
    } else {
        &[kind]
    };
    let at = |name: &str| {
        kinds
            .iter()
            .find_map(|kind| Some((*kind, position(tables(root, kind)?, kind, name)?)))
    };
    if at(to).is_some() || is_host && is_end(root, to) {
        return Err(EditError::new(format!("{kind}: `{to}` is there already")));
    }
    match at(name) {
        Some((kind, at)) => {
            if let Some(Item::ArrayOfTables(tables)) = root.get_mut(kind) {
                if let Some(table) = tables.get_mut(at) {
                    set(table, "name", &to.into())?;
                }
            }
        }
        None if is_host && is_end(root, name) => {}
        None => return Err(missing(kind, name)),
    }
    let is_node = is_host && is_node(scenario(document), to);
    let mut follow = Follow {
        kind,
        name,
        to,
        is_host,
        is_node,
    };
    follow.table(document.as_table_mut(), "");
    Ok(())
}

/// Goes through a document and renames.
struct Follow<'n> {
    kind: &'n str,
    name: &'n str,
    to: &'n str,
    is_host: bool,
    /// Whether its ports are elements of the links that begin there, which are called as it is.
    is_node: bool,
}

impl Follow<'_> {
    /// In a table, which is the value of the key `of`.
    fn table(&mut self, table: &mut Table, of: &str) {
        // An end of a link that is a node may be named as an element, its port.
        let node = self.is_host && of == "link" && is_here(table, self.name);
        if of == SET {
            self.keys(table);
        }
        for (key, item) in table.iter_mut() {
            let key = key.get();
            match item {
                Item::Table(inner) => self.table(inner, key),
                Item::ArrayOfTables(list) => {
                    list.iter_mut().for_each(|inner| self.table(inner, key));
                }
                Item::Value(value) if node && ["up", "down"].contains(&key) => {
                    self.each(value, &|text| self.port(text));
                    self.each(value, &|text| self.in_words(text));
                }
                Item::Value(value) => self.value(value, key, of),
                Item::None => {}
            }
        }
    }

    /// The keys of a table whose keys are full names: the others, their order and what stands
    /// around them stay.
    fn keys(&self, table: &mut Table) {
        let names: Vec<String> = table.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names {
            let Some((key, item)) = table.remove_entry(&name) else {
                continue;
            };
            let new = self.port_of_key(&name).or_else(|| self.in_words(&name));
            let key = match new.filter(|new| *new != name) {
                Some(new) => Key::new(new).with_leaf_decor(key.leaf_decor().clone()),
                None => key,
            };
            table.insert_formatted(&key, item);
        }
    }

    fn port_of_key(&self, key: &str) -> Option<String> {
        let port = self.is_node.then(|| self.port_by_full_name(key));
        port.flatten()
    }

    fn value(&self, value: &mut Value, key: &str, of: &str) {
        let is_its_own = key == "name";
        if is_its_own {
            return;
        }
        let hosts = self.is_host && HOSTS.contains(&key) && of != NO_HOSTS;
        if hosts || NAMED.contains(&(self.kind, key)) {
            self.each(value, &|text| {
                (text == self.name).then(|| self.to.to_owned())
            });
        }
        if self.is_host && of == "command" {
            self.each(value, &|text| {
                let (plain, with) = (format!("{{{}}}", self.name), format!("{{{}/", self.name));
                let new = text.replace(&plain, &format!("{{{}}}", self.to));
                Some(new.replace(&with, &format!("{{{}/", self.to)))
            });
        }
        if self.is_node {
            self.each(value, &|text| self.port_by_full_name(text));
        }
        self.each(value, &|text| self.in_words(text));
    }

    /// `link/LINK/up/NAME` of a port.
    fn port_by_full_name(&self, text: &str) -> Option<String> {
        let (place, name) = text.rsplit_once('/')?;
        let port = place.starts_with("link/") && name == self.name;
        port.then(|| format!("{place}/{}", self.to))
    }

    /// Gives each string in `value` the text that `new` has for it, if any.
    fn each(&self, value: &mut Value, new: &dyn Fn(&str) -> Option<String>) {
        match value {
            Value::String(text) => {
                let changed = new(text.value()).filter(|new| new != text.value());
                if let Some(changed) = changed {
                    let mut changed = Value::from(changed);
                    *changed.decor_mut() = value.decor().clone();
                    *value = changed;
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.each(value, new)),
            Value::InlineTable(table) => {
                table
                    .iter_mut()
                    .for_each(|(_, value)| self.each(value, new));
            }
            _ => {}
        }
    }

    /// `"name: words"` of a port.
    fn port(&self, text: &str) -> Option<String> {
        let words = text.strip_prefix(self.name)?;
        words
            .starts_with(':')
            .then(|| format!("{}{words}", self.to))
    }

    /// Full names, `flow/NAME` or `link/NAME/up/x`, within words.
    fn in_words(&self, text: &str) -> Option<String> {
        let full = format!("{}/{}", self.kind, self.name);
        if !text.contains(&full) {
            return None;
        }
        let part_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let (mut new, mut rest) = (String::new(), text);
        while let Some(at) = rest.find(&full) {
            let (before, found) = rest.split_at(at);
            let after = &found[full.len()..];
            let before_fits = !before
                .chars()
                .next_back()
                .is_some_and(|c| part_of_name(c) || c == '/');
            let whole = before_fits && !after.starts_with(part_of_name);
            new.push_str(before);
            match whole {
                true => new.push_str(&format!("{}/{}", self.kind, self.to)),
                false => new.push_str(&full),
            }
            rest = after;
        }
        new.push_str(rest);
        Some(new)
    }
}

/// Whether a router has ports that are elements.
fn is_node(root: &Table, name: &str) -> bool {
    let mut routers = tables(root, "router").into_iter().flatten();
    routers.any(|router| {
        let own = router.get("name").and_then(Item::as_str);
        own == Some(name) && router.contains_key("is")
    })
}

/// Whether a link has that end.
fn is_here(link: &Table, name: &str) -> bool {
    let ends = link.get("ends").and_then(Item::as_array);
    ends.is_some_and(|ends| ends.iter().any(|end| end.as_str() == Some(name)))
}
