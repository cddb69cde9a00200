//! Maps of a topology, whose other keys are noted.

use std::collections::BTreeMap;
use std::ops::Range;

use narrows_scenario::{Refusal, nearest};
use narrows_yaml::{Key, Node, Value, quoted};

use super::PREFIX;
use crate::outline::Text;
use crate::source::Source;

/// How often `<<` is followed, so that no file takes long.
const MERGES: usize = 8;

/// What a topology has that a scenario has not: how often each key is there, and where first.
#[derive(Debug, Default)]
pub(super) struct Kept(BTreeMap<String, (usize, usize)>);

impl Kept {
    pub fn note(&mut self, key: String, line: usize) {
        let (count, first) = self.0.entry(key).or_insert((0, line));
        *count += 1;
        *first = (*first).min(line);
    }

    /// A sentence for each.
    pub fn into_notes(self) -> Vec<String> {
        let sentence = |(key, (count, line)): (String, (usize, usize))| match count {
            1 => format!("{key} (line {line}) has no counterpart and is left out"),
            _ => format!(
                "{key} ({count} times, first in line {line}) has no counterpart and is left out"
            ),
        };
        self.0.into_iter().map(sentence).collect()
    }
}

/// A map, and what it is called.
#[derive(Clone, Debug)]
pub(super) struct Fields<'n> {
    pub node: &'n Node,
    pub path: String,
}

impl<'n> Fields<'n> {
    /// The keys of `node`; none of what is empty.
    ///
    /// # Errors
    /// If it is something else.
    pub fn of(source: &Source<'_>, path: &str, node: &'n Node) -> Result<Self, Refusal> {
        match &node.value {
            Value::Map(_) => {}
            Value::Text(text, false) if matches!(&**text, "" | "~" | "null") => {}
            _ => return Err(wrong(source, path, node, "a map of keys")),
        }
        Ok(Self {
            node,
            path: path.to_owned(),
        })
    }

    /// Its entries, behind them those of maps that are merged into it.
    pub fn entries(&self) -> Vec<(&'n Key, &'n Node)> {
        let mut all: Vec<(&Key, &Node)> = Vec::new();
        let mut maps = vec![(self.node, 0)];
        while let Some((node, depth)) = maps.pop() {
            let Value::Map(map) = &node.value else {
                continue;
            };
            for (key, value) in map.iter() {
                if &*key.name != "<<" {
                    all.push((key, value));
                    continue;
                }
                if depth < MERGES {
                    match &value.value {
                        // The first of them counts most, and comes off the stack first.
                        Value::List(list) => {
                            maps.extend(list.iter().rev().map(|n| (n, depth + 1)));
                        }
                        _ => maps.push((value, depth + 1)),
                    }
                }
            }
        }
        // What the map says itself comes before what is merged into it.
        let mut known = std::collections::BTreeSet::new();
        all.retain(|(key, _)| known.insert(&*key.name));
        all
    }

    pub fn get(&self, key: &str) -> Option<&'n Node> {
        if let Some(node) = self.node.get(key) {
            return Some(node);
        }
        self.node.get("<<")?;
        let mut entries = self.entries().into_iter();
        entries.find(|(k, _)| &*k.name == key).map(|(_, node)| node)
    }

    pub fn full(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_owned(),
            path => format!("{path}/{key}"),
        }
    }

    /// The map at `key`, which may be left out.
    ///
    /// # Errors
    /// If it is no map.
    pub fn map(&self, source: &Source<'_>, key: &str) -> Result<Option<Fields<'n>>, Refusal> {
        let node = self.get(key);
        let map = node.map(|node| Fields::of(source, &self.full(key), node));
        map.transpose()
    }

    /// The list at `key`; an empty one if it is left out.
    ///
    /// # Errors
    /// If it is no list.
    pub fn list(&self, source: &Source<'_>, key: &str) -> Result<&'n [Node], Refusal> {
        match self.get(key).map(|node| (node, &node.value)) {
            None => Ok(&[]),
            Some((_, Value::List(list))) => Ok(list),
            Some((_, Value::Text(text, false))) if text.is_empty() => Ok(&[]),
            Some((node, _)) => Err(wrong(source, &self.full(key), node, "a list")),
        }
    }

    /// The words at `key`, which may be left out.
    ///
    /// # Errors
    /// If there is a list or a map.
    pub fn text(&self, source: &Source<'_>, key: &str) -> Result<Option<Text>, Refusal> {
        let Some(node) = self.get(key) else {
            return Ok(None);
        };
        text(source, &self.full(key), node).map(Some)
    }

    /// Notes keys that are none of `known`.
    pub fn note_others(&self, kept: &mut Kept, known: &[&str], of: &str) {
        for (key, _) in self.entries() {
            if !known.contains(&&*key.name) {
                kept.note(format!("{} of {of}", quoted(&key.name)), key.at.0);
            }
        }
    }

    /// Our own keys among labels or variables, without what they begin with, each one of `known`.
    /// Others are noted.
    ///
    /// # Errors
    /// A key of ours that is none of them.
    pub fn own(
        &self,
        source: &Source<'_>,
        kept: &mut Kept,
        known: &[&str],
        of: &str,
    ) -> Result<BTreeMap<&'n str, &'n Node>, Refusal> {
        let mut own = BTreeMap::new();
        for (key, node) in self.entries() {
            match key.name.strip_prefix(PREFIX) {
                Some(name) if known.contains(&name) => {
                    own.insert(name, node);
                }
                Some(name) => {
                    let names: Vec<_> = known.iter().map(|k| format!("`{PREFIX}{k}`")).collect();
                    let refusal = source.refuse(
                        source.word(key.at),
                        self.path.as_str(),
                        quoted(&key.name),
                        names.join(", "),
                    );
                    return Err(match nearest(name, known.iter().copied()) {
                        Some(near) => refusal.with_help(format!("did you mean `{PREFIX}{near}`?")),
                        None => refusal,
                    });
                }
                None => kept.note(format!("{} of {of}", quoted(&key.name)), key.at.0),
            }
        }
        Ok(own)
    }
}

/// That `node`, the value of `key`, is not what is allowed.
pub(super) fn wrong(source: &Source<'_>, key: &str, node: &Node, allowed: &str) -> Refusal {
    source.refuse(source.word(node.at), key, node.described(), allowed)
}

/// The words of `node`.
///
/// # Errors
/// If it is a list or a map, or has an environment variable in it.
pub(super) fn text(source: &Source<'_>, key: &str, node: &Node) -> Result<Text, Refusal> {
    let words = literal(source, key, node)?;
    without_variables(source, key, &words)?;
    Ok(words)
}

/// The words of `node`, in which `$` is an ordinary character.
///
/// # Errors
/// If it is a list or a map.
pub(super) fn literal(source: &Source<'_>, key: &str, node: &Node) -> Result<Text, Refusal> {
    match node.text() {
        Some(text) => Ok(Text {
            text: text.to_owned(),
            at: source.word(node.at),
        }),
        None => Err(wrong(source, key, node, "words")),
    }
}

/// Refuses words in which containerlab would put the value of an environment variable: what is
/// read is the file alone, and is to be the same everywhere.
pub(super) fn without_variables(
    source: &Source<'_>,
    key: &str,
    words: &Text,
) -> Result<(), Refusal> {
    let Some(variable) = variable(&words.text) else {
        return Ok(());
    };
    let at = words.at.start..source.text.len();
    let found = format!("the environment variable {}", quoted(variable));
    let allowed = "the value itself: variables are not replaced";
    let refusal = source.refuse(source.find(variable, at), key, found, allowed);
    let help = "write its value, or have a program such as envsubst write the file with it first";
    Err(refusal.with_help(help))
}

/// The first environment variable in `text`, as containerlab finds it
/// (<https://github.com/a8m/envsubst>): `$NAME` or `${NAME…}`; `$$` is a `$`.
pub(super) fn variable(text: &str) -> Option<&str> {
    let begins_name = |c: char| c.is_ascii_alphabetic() || c == '_';
    let mut rest = text;
    loop {
        rest = &rest[rest.find('$')?..];
        let behind = &rest[1..];
        if let Some(braced) = behind.strip_prefix('{') {
            let end = braced.find('}').filter(|_| braced.starts_with(begins_name));
            if let Some(end) = end {
                return Some(&rest[..end + 3]);
            }
        } else if behind.starts_with(begins_name) {
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let end = behind.find(|c| !is_part(c)).unwrap_or(behind.len());
            return Some(&rest[..end + 1]);
        }
        rest = behind.strip_prefix('$').unwrap_or(behind);
    }
}

/// The elements of a direction: a list of them, or one text with a line or a `;` between two.
/// Each may have a name before it; a last `;` and empty lines are nothing. With them, the bytes in
/// which they stand.
///
/// # Errors
/// If they are something else.
pub(super) fn elements(
    source: &Source<'_>,
    key: &str,
    node: &Node,
) -> Result<(Vec<String>, Range<usize>), Refusal> {
    let given: Vec<&Node> = match &node.value {
        Value::List(list) => list.iter().collect(),
        _ => vec![node],
    };
    let start = source.word(node.at).start;
    let mut end = source.word(node.at).end;
    let mut all = Vec::new();
    for item in &given {
        let words = text(source, key, item)?;
        let parts: Vec<&str> = match (&node.value, words.text.contains('\n')) {
            (Value::List(_), _) => vec![words.text.trim()],
            (_, true) => words.text.lines().map(str::trim).collect(),
            (_, false) => {
                let text = words.text.trim();
                let text = text.strip_suffix(';').unwrap_or(text);
                text.split(';').map(str::trim).collect()
            }
        };
        let lines = source.lines_of(&words.text, words.at.start);
        end = end.max(words.at.end);
        if let Some(last) = lines.last() {
            let line = source.text[*last..].lines().next().unwrap_or("");
            end = end.max(last + line.len());
        }
        let is_block = words.text.contains('\n');
        let is_nothing = given.len() == 1 && words.text.trim().is_empty();
        if parts.contains(&"") && !is_block && !is_nothing {
            let allowed = "elements, with one `;` between two";
            return Err(source.refuse(words.at, key, "an empty element", allowed));
        }
        let parts = parts.into_iter();
        all.extend(parts.filter(|part| !part.is_empty()).map(str::to_owned));
    }
    Ok((all, start..end))
}

#[cfg(test)]
mod tests {
    use super::variable;

    #[test]
    fn variables_are_found_as_containerlab_finds_them() {
        for (text, found) in [
            ("lab", None),
            ("${LAB}", Some("${LAB}")),
            ("rate ${RATE:=20Mbit} queue", Some("${RATE:=20Mbit}")),
            ("a-$N1-b", Some("$N1")),
            ("$", None),
            ("5$ $1 ${} ${1}", None),
            ("$$HOME", None),
            ("$$$HOME", Some("$HOME")),
            ("${OPEN", None),
            ("$é$X", Some("$X")),
        ] {
            assert_eq!(variable(text), found, "{text}");
        }
    }
}
