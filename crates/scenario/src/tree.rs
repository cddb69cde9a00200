//! TOML as a tree of values that know where they were written.

use std::ops::Range;

use narrows_units::Value as _;

use crate::refusal::Refusal;
use crate::source::Spot;

/// The longest file that is read. A scenario is a page or two; a campaign
/// generates its cells. The bound keeps a mistaken file name (a capture, a
/// core dump) from costing time and memory.
pub const LONGEST_FILE: usize = 1 << 20;

/// A value and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    pub(crate) spot: Spot,
}

/// What a value may be.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Text(String),
    Whole(i64),
    Float(f64),
    Flag(bool),
    /// A date; no key wants one.
    Date,
    /// What `--set` or a campaign gave: it becomes whatever its key wants.
    Raw(String),
    /// An element of a link, by its name: its words, and those that were set,
    /// which lie over them.
    Element {
        label: String,
        layers: Vec<String>,
    },
    List(Vec<Node>),
    Table(Table),
}

/// Keys in the order in which they were written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(pub(crate) Vec<(Key, Node)>);

/// A key and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) spot: Spot,
}

impl Table {
    pub(crate) fn get(&self, name: &str) -> Option<&Node> {
        self.0.iter().find(|(k, _)| k.name == name).map(|(_, n)| n)
    }

    /// Gives `name` a value, in place of any that it had. The key, too, is
    /// then where the value was written.
    pub(crate) fn put(&mut self, name: &str, node: Node) {
        let key = Key {
            name: name.to_owned(),
            spot: node.spot.clone(),
        };
        match self.0.iter_mut().find(|(k, _)| k.name == name) {
            Some(entry) => *entry = (key, node),
            None => self.0.push((key, node)),
        }
    }
}

impl Node {
    pub(crate) fn raw(text: &str, spot: Spot) -> Self {
        Self {
            value: Value::Raw(text.to_owned()),
            spot,
        }
    }

    pub(crate) fn list(items: Vec<Self>, spot: &Spot) -> Self {
        Self {
            value: Value::List(items),
            spot: spot.clone(),
        }
    }

    pub(crate) fn table<const N: usize>(entries: [(&str, Self); N], spot: &Spot) -> Self {
        let mut table = Table::default();
        for (key, node) in entries {
            table.put(key, node);
        }
        Self {
            value: Value::Table(table),
            spot: spot.clone(),
        }
    }

    pub(crate) fn text(text: impl Into<String>, spot: &Spot) -> Self {
        Self {
            value: Value::Text(text.into()),
            spot: spot.clone(),
        }
    }

    /// What it is, for "found …".
    pub(crate) fn describe(&self) -> String {
        match &self.value {
            Value::Text(t) | Value::Raw(t) if t.is_empty() => "an empty string".to_owned(),
            Value::Text(t) | Value::Raw(t) => format!("`{}`", clipped(t)),
            Value::Element { layers, .. } => {
                format!("`{}`", clipped(layers.last().map_or("", String::as_str)))
            }
            Value::Whole(n) => format!("the number {n}"),
            Value::Float(n) => format!("the number {n}"),
            Value::Flag(f) => format!("`{f}`"),
            Value::Date => "a date".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Table(_) => "a table".to_owned(),
        }
    }

    /// The text, if it is one.
    pub(crate) fn as_text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(t) | Value::Raw(t) => Some(t),
            _ => None,
        }
    }

    /// The name, if it has one, and the words of an element.
    pub(crate) fn as_element(&self) -> Option<(Option<&str>, &str)> {
        match &self.value {
            Value::Element { label, layers } => Some((Some(label), layers.last()?)),
            Value::Text(text) | Value::Raw(text) => {
                let (label, words_at) = split_label(text);
                Some((label, &text[words_at..]))
            }
            _ => None,
        }
    }

    /// Whether it says that it is a file of this kind and of the version that
    /// is known; what says no kind is a scenario.
    ///
    /// # Errors
    /// If it is another one, where `allowed` is wanted.
    pub(crate) fn is_kind(&self, kind: &str, allowed: &str) -> Result<(), Refusal> {
        let says = match self.at("kind") {
            None => "scenario",
            Some(node) => node.as_text().unwrap_or_default(),
        };
        if says != kind {
            return Err(self.refuse("kind", allowed));
        }
        match self.at("version").map(Self::as_whole) {
            Some(Some(1)) => Ok(()),
            _ => Err(self.refuse("version", "`version = 1`")),
        }
    }

    /// How many values a list or a table has.
    pub(crate) fn count(&self) -> usize {
        match &self.value {
            Value::List(list) => list.len(),
            Value::Table(table) => table.0.len(),
            _ => 1,
        }
    }

    /// The value of a key, if it is a table and has it.
    pub(crate) fn at(&self, key: &str) -> Option<&Self> {
        match &self.value {
            Value::Table(table) => table.get(key),
            _ => None,
        }
    }

    pub(crate) fn at_mut(&mut self, key: &str) -> Option<&mut Self> {
        match &mut self.value {
            Value::Table(Table(entries)) => {
                let found = entries.iter_mut().find(|(k, _)| k.name == key);
                found.map(|(_, node)| node)
            }
            _ => None,
        }
    }

    /// Takes a key and its value out of a table.
    pub(crate) fn take(&mut self, key: &str) -> Option<Self> {
        match &mut self.value {
            Value::Table(Table(entries)) => {
                let at = entries.iter().position(|(k, _)| k.name == key)?;
                Some(entries.remove(at).1)
            }
            _ => None,
        }
    }

    /// Gives a key of a table a value; what is no table is left as it is.
    pub(crate) fn put(&mut self, key: &str, node: Self) {
        if let Value::Table(table) = &mut self.value {
            table.put(key, node);
        }
    }

    /// Gives a key of the table at `nested` a value; the table is made if there is
    /// none.
    pub(crate) fn put_in(&mut self, nested: &str, key: &str, node: Self) {
        if !matches!(self.at(nested).map(|n| &n.value), Some(Value::Table(_))) {
            self.put(nested, Self::table([], &node.spot));
        }
        if let Some(table) = self.at_mut(nested) {
            table.put(key, node);
        }
    }

    /// The refusal of a key of the file, or of its lack.
    pub(crate) fn refuse(&self, key: &str, allowed: &str) -> Refusal {
        match self.at(key) {
            Some(node) => Refusal::at(&node.spot, key, node.describe(), allowed),
            None => Refusal::at(&self.spot, key, "nothing", allowed),
        }
    }

    pub(crate) fn as_whole(&self) -> Option<u64> {
        match &self.value {
            Value::Whole(n) => u64::try_from(*n).ok(),
            Value::Raw(t) => u64::parse(t),
            _ => None,
        }
    }

    pub(crate) fn as_flag(&self) -> Option<bool> {
        match &self.value {
            Value::Flag(f) => Some(*f),
            Value::Raw(t) => match t.as_str() {
                "true" | "on" => Some(true),
                "false" | "off" => Some(false),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Parts `"name: words"`: the name, if there is one, and where the words start.
pub(crate) fn split_label(text: &str) -> (Option<&str>, usize) {
    if let Some((label, words)) = text.split_once(':') {
        let label = label.trim();
        let one_word = !label.is_empty() && !label.contains(char::is_whitespace);
        if one_word && words.starts_with(char::is_whitespace) {
            return (Some(label), text.len() - words.len());
        }
    }
    (None, 0)
}

/// At most a few words of `text`, for messages.
pub(crate) fn clipped(text: &str) -> String {
    const MOST: usize = 60;
    let line: String = text
        .chars()
        .take(MOST)
        .map(|c| if c.is_control() { '?' } else { c })
        .collect();
    if text.chars().count() > MOST {
        line + "…"
    } else {
        line
    }
}

/// Reads the bytes of the file `name`.
///
/// # Errors
/// If they are too many, no UTF-8, or no TOML.
pub(crate) fn read(name: &str, bytes: &[u8]) -> Result<Node, Refusal> {
    if bytes.len() > LONGEST_FILE {
        let found = format!("{} bytes", bytes.len());
        let allowed = format!("a TOML file of at most {LONGEST_FILE} bytes");
        return Err(Refusal::at(&Spot::whole(name, ""), "file", found, allowed));
    }
    let text = std::str::from_utf8(bytes).map_err(|e| {
        let good = e.valid_up_to();
        let text = std::str::from_utf8(&bytes[..good]).unwrap_or("");
        let found = format!("the byte 0x{:02x}", bytes[good]);
        let end = Spot::whole(name, text).at(good..good);
        Refusal::at(&end, "file", found, "TOML in UTF-8")
    })?;
    let spot = Spot::whole(name, text);
    let tree = toml::de::DeTable::parse(text).map_err(|e| {
        let span = e.span().unwrap_or(text.len()..text.len());
        let spot = spot.at(span);
        let found = match spot.first_line().text() {
            "" if spot.span().start >= text.trim_end().len() => "the end of the file".to_owned(),
            "" => "the end of the line".to_owned(),
            part => format!("`{}`", clipped(part)),
        };
        let help = match name.rsplit('.').next() {
            Some("yml" | "yaml" | "nemo") => format!(
                "`narrows import {name}` makes a scenario of a topology of containerlab or of \
                 intents of NEMO"
            ),
            _ => e.message().to_owned(),
        };
        Refusal::at(&spot, "TOML", found, "valid TOML").with_help(help)
    })?;
    Ok(Node {
        value: Value::Table(table(tree.into_inner(), &|span| spot.at(span))),
        spot,
    })
}

/// Reads one TOML value, such as a list, from `text`, which is at `spot` or was filled in for
/// what is there.
pub(crate) fn read_value(text: &str, spot: &Spot) -> Option<Node> {
    let value = toml::de::DeValue::parse(text).ok()?;
    let start = spot.span().start;
    Some(node(
        value,
        &|span: Range<usize>| match text == spot.text() {
            true => spot.at(span.start + start..span.end + start),
            false => spot.clone(),
        },
    ))
}

fn table(entries: toml::de::DeTable<'_>, at: &dyn Fn(Range<usize>) -> Spot) -> Table {
    let mut table: Vec<_> = entries
        .into_iter()
        .map(|(key, value)| {
            let spot = at(key.span());
            let name = key.into_inner().into_owned();
            (Key { name, spot }, node(value, at))
        })
        .collect();
    table.sort_by_key(|(key, _)| key.spot.span().start);
    Table(table)
}

fn node(value: toml::Spanned<toml::de::DeValue<'_>>, at: &dyn Fn(Range<usize>) -> Spot) -> Node {
    use toml::de::DeValue;
    let spot = at(value.span());
    let value = match value.into_inner() {
        DeValue::String(text) => Value::Text(text.into_owned()),
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix())
            .map_or_else(|_| Value::Raw(n.as_str().to_owned()), Value::Whole),
        DeValue::Float(n) => Value::Float(n.as_str().parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(flag) => Value::Flag(flag),
        DeValue::Datetime(_) => Value::Date,
        DeValue::Array(list) => Value::List(list.into_iter().map(|v| node(v, at)).collect()),
        DeValue::Table(entries) => Value::Table(table(entries, at)),
    };
    Node { value, spot }
}
