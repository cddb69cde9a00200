//! The keys of a map, each read as what it has to be.

use narrows_units::alternatives;
use narrows_yaml::{Node, Value, quoted};

use crate::error::MixError;

/// A map, and where it stands in its file.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'n> {
    pub(crate) file: &'n str,
    /// As `flows/2`; empty at the top.
    pub(crate) path: String,
    node: &'n Node,
}

impl<'n> Fields<'n> {
    /// The keys of `node`.
    ///
    /// # Errors
    /// If it is no map.
    pub(crate) fn of(file: &'n str, path: &str, node: &'n Node) -> Result<Self, MixError> {
        let fields = Self {
            file,
            path: path.to_owned(),
            node,
        };
        match node.value {
            Value::Map(_) => Ok(fields),
            _ => Err(fields.wrong("", node, "a map of keys")),
        }
    }

    fn full(&self, key: &str) -> String {
        match (self.path.as_str(), key) {
            (path, "") => path.to_owned(),
            ("", key) => key.to_owned(),
            (path, key) => format!("{path}/{key}"),
        }
    }

    /// That `node`, the value of `key`, is not what is allowed.
    pub(crate) fn wrong(&self, key: &str, node: &Node, allowed: impl Into<String>) -> MixError {
        self.error(key, node.at, node.described(), allowed)
    }

    pub(crate) fn error(
        &self,
        key: &str,
        at: (usize, usize),
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> MixError {
        MixError {
            file: self.file.to_owned(),
            at,
            key: self.full(key),
            found: found.into(),
            allowed: allowed.into(),
        }
    }

    /// Refuses keys that are none of `known`; at the top of a file one whose value has an anchor
    /// holds it for others, as files of trafic do.
    pub(crate) fn only(&self, known: &[&str]) -> Result<(), MixError> {
        let Value::Map(map) = &self.node.value else {
            return Ok(());
        };
        let strange = map.iter().find(|(key, node)| {
            let holds = self.path.is_empty() && node.anchored;
            !holds && !known.contains(&&*key.name)
        });
        match strange {
            Some((key, _)) => {
                let found = format!("the unknown key {}", quoted(&key.name));
                Err(self.error("", key.at, found, alternatives(known)))
            }
            None => Ok(()),
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&'n Node> {
        self.node.get(key)
    }

    /// The value of `key` as `read` makes it, if it is given.
    pub(crate) fn optional<T>(
        &self,
        key: &str,
        allowed: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, MixError> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        let value = match &node.value {
            Value::Text(text, _) => read(text),
            _ => None,
        };
        value
            .map(Some)
            .ok_or_else(|| self.wrong(key, node, allowed))
    }

    /// The same, which must be given.
    pub(crate) fn required<T>(
        &self,
        key: &str,
        allowed: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, MixError> {
        self.optional(key, allowed, read)?
            .ok_or_else(|| self.error(key, self.node.at, "nothing", allowed))
    }

    /// The map at `key`, which must be given.
    pub(crate) fn map(&self, key: &str) -> Result<Fields<'n>, MixError> {
        match self.get(key) {
            Some(node) => Self::of(self.file, &self.full(key), node),
            None => Err(self.error(key, self.node.at, "nothing", "a map of keys")),
        }
    }

    /// The list at `key`, which must be given and have a member.
    pub(crate) fn list(&self, key: &str) -> Result<&'n [Node], MixError> {
        let allowed = "a list with a member and more";
        match self.get(key).map(|node| (node, &node.value)) {
            Some((_, Value::List(list))) if !list.is_empty() => Ok(list),
            Some((node, _)) => Err(self.wrong(key, node, allowed)),
            None => Err(self.error(key, self.node.at, "nothing", allowed)),
        }
    }
}

/// The forms of [`label`].
pub(crate) const LABEL: &str =
    "a name of up to 64 letters, digits, `-`, `_`, `+` and `.`, beginning with a letter or a digit";

/// What names flows in tables, files and line protocols.
pub(crate) fn label(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_+.".contains(c);
    let begins = text.starts_with(|c: char| c.is_ascii_alphanumeric());
    (begins && text.len() <= 64 && text.chars().all(fits)).then(|| text.to_owned())
}

/// The name or address of a host, which is given on and not looked up here.
pub(crate) fn host(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.:%[]".contains(c);
    (!text.is_empty() && text.len() <= 255 && text.chars().all(fits)).then(|| text.to_owned())
}

/// The forms of [`host`].
pub(crate) const HOST: &str = "the name or the address of a host";

/// YAML's truth values.
pub(crate) fn flag(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" | "yes" | "on" => Some(true),
        "false" | "False" | "FALSE" | "no" | "off" => Some(false),
        _ => None,
    }
}
