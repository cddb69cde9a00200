//! Typed access to a table's keys, with refusals that say what was wanted.

use narrows_units::{Duration, Instant, Value as Spelled, WordError};

use crate::refusal::{Refusal, one_of};
use crate::source::Spot;
use crate::tree::{Node, Table, Value};

/// The keys of one table, all of them known.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    table: &'a Table,
    spot: &'a Spot,
    /// The table's own name, such as `link/access`; empty at the top.
    path: String,
}

impl<'a> Fields<'a> {
    /// The keys of `node`, which is called `path` until it has said its name.
    ///
    /// # Errors
    /// If it is no table, or has a key that is not in `known`.
    pub(crate) fn of(node: &'a Node, path: &str, known: &[&str]) -> Result<Self, Refusal> {
        let fields = Self::any(node, path)?;
        for (key, _) in &fields.table.0 {
            if !known.contains(&key.name.as_str()) {
                let name = crate::tree::clipped(&key.name);
                let full = match fields.get("name").and_then(Node::as_text) {
                    Some(called) if !path.is_empty() => format!("{path}/{called}/{name}"),
                    _ => fields.name_of(&name),
                };
                let found = format!("the unknown key `{name}`");
                let allowed = one_of(known.iter().copied());
                return Err(Refusal::at(&key.spot, full, found, allowed)
                    .did_you_mean(&key.name, known.iter().copied()));
            }
        }
        Ok(fields)
    }

    /// The keys of `node`, whatever they are.
    ///
    /// # Errors
    /// If it is no table.
    pub(crate) fn any(node: &'a Node, path: &str) -> Result<Self, Refusal> {
        let Value::Table(table) = &node.value else {
            return Err(Refusal::at(&node.spot, path, node.describe(), "a table"));
        };
        Ok(Self {
            table,
            spot: &node.spot,
            path: path.to_owned(),
        })
    }

    /// Goes on under another name.
    pub(crate) fn called(mut self, path: String) -> Self {
        self.path = path;
        self
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn spot(&self) -> &'a Spot {
        self.spot
    }

    pub(crate) fn entries(&self) -> &'a [(crate::tree::Key, Node)] {
        &self.table.0
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'a Node> {
        self.table.get(key)
    }

    /// The full name of `key`, for messages.
    pub(crate) fn name_of(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}/{key}"),
        }
    }

    /// The refusal of what stands at `key`.
    pub(crate) fn refuse(&self, key: &str, allowed: impl Into<String>) -> Refusal {
        match self.get(key) {
            Some(node) => Refusal::at(&node.spot, self.name_of(key), node.describe(), allowed),
            None => self.missing(key, allowed),
        }
    }

    /// The refusal of a table in which `key` is not given.
    pub(crate) fn missing(&self, key: &str, allowed: impl Into<String>) -> Refusal {
        Refusal::at(self.spot, self.name_of(key), "nothing", allowed)
    }

    pub(crate) fn text(&self, key: &str) -> Result<Option<&'a str>, Refusal> {
        self.get(key)
            .map(|n| n.as_text().ok_or_else(|| self.refuse(key, "a string")))
            .transpose()
    }

    /// A name: a string that can be a part of longer names.
    pub(crate) fn name(&self, key: &str) -> Result<Option<&'a str>, Refusal> {
        let Some(name) = self.text(key)? else {
            return Ok(None);
        };
        if is_name(name) {
            Ok(Some(name))
        } else {
            Err(self.refuse(key, NAME))
        }
    }

    pub(crate) fn needed_name(&self, key: &str) -> Result<&'a str, Refusal> {
        self.name(key)?.ok_or_else(|| self.missing(key, NAME))
    }

    pub(crate) fn flag(&self, key: &str) -> Result<Option<bool>, Refusal> {
        self.get(key)
            .map(|n| {
                n.as_flag()
                    .ok_or_else(|| self.refuse(key, "`true` or `false`"))
            })
            .transpose()
    }

    /// A whole number from `least` to `most`.
    pub(crate) fn whole(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, Refusal> {
        self.get(key)
            .map(|n| {
                n.as_whole()
                    .filter(|n| (least..=most).contains(n))
                    .ok_or_else(|| {
                        self.refuse(key, format!("a whole number from {least} to {most}"))
                    })
            })
            .transpose()
    }

    /// A value in tc's spelling, in a string.
    pub(crate) fn spelled<T: Spelled>(&self, key: &str) -> Result<Option<T>, Refusal> {
        self.get(key)
            .map(|n| {
                n.as_text()
                    .and_then(|t| T::parse(t.trim()))
                    .ok_or_else(|| self.refuse(key, T::ALLOWED))
            })
            .transpose()
    }

    /// A time since the start of the run.
    pub(crate) fn instant(&self, key: &str) -> Result<Option<Instant>, Refusal> {
        Ok(self.spelled::<Duration>(key)?.map(|d| Instant::ZERO + d))
    }

    /// What `read` makes of the string at `key`.
    pub(crate) fn words<T>(
        &self,
        key: &str,
        allowed: &str,
        read: impl FnOnce(&str) -> Result<T, WordError>,
    ) -> Result<Option<T>, Refusal> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let text = node.as_text().ok_or_else(|| self.refuse(key, allowed))?;
        read(text)
            .map(Some)
            .map_err(|e| Refusal::words(&node.spot, self.name_of(key), e))
    }

    /// The parts of a list; one value that is no list counts as a list of one.
    pub(crate) fn list(&self, key: &str) -> &'a [Node] {
        match self.get(key) {
            None => &[],
            Some(Node {
                value: Value::List(list),
                ..
            }) => list,
            Some(node) => std::slice::from_ref(node),
        }
    }

    /// The tables of `[[key]]`.
    pub(crate) fn tables(&self, key: &str) -> Result<&'a [Node], Refusal> {
        match self.get(key) {
            Some(node) if !matches!(node.value, Value::List(_)) => {
                Err(self.refuse(key, format!("a list of tables, each headed `[[{key}]]`")))
            }
            _ => Ok(self.list(key)),
        }
    }
}

const NAME: &str = "a name of letters, digits, `_`, `-` and `.`";

/// Whether `name` can be a part of `kind/name/part`, a file's name and a key.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && !name.starts_with(['.', '-'])
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}
