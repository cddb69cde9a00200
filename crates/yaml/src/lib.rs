//! YAML as a tree whose nodes know their places, bounded in all that a file can make large.
//!
//! Aliases share the node that they repeat and count as all of it, so that a file of a few lines
//! that stands for billions of values is refused after [`Bounds::nodes`] of them. Tags, several
//! documents and keys that are no words are refused.
//!
//! ```
//! use narrows_yaml::{Bounds, Value, parse};
//!
//! let root = parse("links:\n  - a:1\n", Bounds::default()).unwrap();
//! assert_eq!(root.get("links").unwrap().at, (2, 3));
//! let fault = parse("a: [1", Bounds::default()).unwrap_err();
//! assert!(fault.found.contains("no YAML"));
//! ```

#![forbid(unsafe_code)]

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

/// What a document may have at most.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bytes of the file.
    pub bytes: usize,
    /// Values, each alias counted as those that it repeats.
    pub nodes: usize,
    /// Lists and maps in each other.
    pub depth: usize,
    /// Keys of a map.
    pub keys: usize,
}

impl Default for Bounds {
    /// What no file that a person writes comes near (our choice): a megabyte, 50,000 values, 32
    /// lists and maps in each other, 10,000 keys of a map.
    fn default() -> Self {
        Self {
            bytes: 1 << 20,
            nodes: 50_000,
            depth: 32,
            keys: 10_000,
        }
    }
}

/// What is wrong in a document, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Line and column, from 1.
    pub at: (usize, usize),
    /// What was found.
    pub found: String,
    /// What is allowed there.
    pub allowed: String,
}

/// A node: its value, where it begins, and whether it has an anchor.
#[derive(Clone, Debug)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Line and column, from 1.
    pub at: (usize, usize),
    /// Whether others can repeat it.
    pub anchored: bool,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum Value {
    /// Words, and whether they are quoted.
    Text(Rc<str>, bool),
    /// Values in order.
    List(Rc<[Node]>),
    /// Keys in the order of the file.
    Map(Rc<[(Key, Node)]>),
}

/// A key of a map.
#[derive(Clone, Debug)]
pub struct Key {
    /// Its word.
    pub name: Rc<str>,
    /// Line and column, from 1.
    pub at: (usize, usize),
}

impl Node {
    /// As errors name it.
    pub fn described(&self) -> String {
        match &self.value {
            Value::Text(text, false) if text.is_empty() => "nothing".to_owned(),
            Value::Text(text, _) => quoted(text),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }

    /// The value of `key`, if this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        let Value::Map(map) = &self.value else {
            return None;
        };
        let mut entries = map.iter();
        entries.find(|(k, _)| &*k.name == key).map(|(_, node)| node)
    }

    /// The words that it is, if it is no list and no map.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text, _) => Some(text),
            _ => None,
        }
    }
}

/// A text as errors quote it: no longer than a line, and without what a terminal would obey.
pub fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    let shown: String = text
        .chars()
        .take(SHOWN)
        .flat_map(char::escape_debug)
        .collect();
    match text.chars().nth(SHOWN) {
        Some(_) => format!("`{shown}…`"),
        None => format!("`{shown}`"),
    }
}

/// A list or map that is not complete.
enum Open {
    List(Vec<Node>),
    Map(Vec<(Key, Node)>, BTreeSet<Rc<str>>, Option<Key>),
}

struct Frame {
    open: Open,
    at: (usize, usize),
    anchor: usize,
    /// Nodes counted before it.
    before: usize,
}

struct Loader {
    bounds: Bounds,
    stack: Vec<Frame>,
    root: Option<Node>,
    /// Complete nodes by their anchor, and how many nodes each is.
    anchors: BTreeMap<usize, (Node, usize)>,
    nodes: usize,
}

fn place(marker: &Marker) -> (usize, usize) {
    (marker.line(), marker.col() + 1)
}

/// Reads a document.
///
/// # Errors
/// What is no YAML, what is beyond the bounds, tags, several documents, a key twice.
pub fn parse(text: &str, bounds: Bounds) -> Result<Node, Fault> {
    let mut loader = Loader {
        bounds,
        stack: Vec::new(),
        root: None,
        anchors: BTreeMap::new(),
        nodes: 0,
    };
    if text.len() > bounds.bytes {
        let found = format!("{} bytes", text.len());
        return Err(loader.error((1, 1), found, format!("at most {} bytes", bounds.bytes)));
    }
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let (event, span) = event.map_err(|e: ScanError| {
            let found = format!("what is no YAML: {}", e.info());
            loader.error(place(e.marker()), found, "a YAML document")
        })?;
        let at = place(&span.start);
        loader.take(event, at)?;
    }
    match loader.root.take() {
        Some(root) => Ok(root),
        None => Err(loader.error((1, 1), "nothing", "a map of keys")),
    }
}

impl Loader {
    fn error(
        &self,
        at: (usize, usize),
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Fault {
        Fault {
            at,
            found: found.into(),
            allowed: allowed.into(),
        }
    }

    fn take(&mut self, event: Event<'_>, at: (usize, usize)) -> Result<(), Fault> {
        match event {
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(self.error(at, "a second document", "one document in a file"))
            }
            Event::Scalar(text, style, anchor, tag) => {
                self.untagged(tag.is_some(), at)?;
                let before = self.nodes;
                self.count(1, at)?;
                let text = Value::Text(Rc::from(Cow::as_ref(&text)), style != ScalarStyle::Plain);
                self.complete(text, at, anchor, before)
            }
            Event::SequenceStart(anchor, tag) => {
                self.untagged(tag.is_some(), at)?;
                self.open(Open::List(Vec::new()), anchor, at)
            }
            Event::MappingStart(anchor, tag) => {
                self.untagged(tag.is_some(), at)?;
                self.open(Open::Map(Vec::new(), BTreeSet::new(), None), anchor, at)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.stack.pop() else {
                    return Ok(());
                };
                let value = match frame.open {
                    Open::List(list) => Value::List(list.into()),
                    Open::Map(map, ..) => Value::Map(map.into()),
                };
                self.complete(value, frame.at, frame.anchor, frame.before)
            }
            Event::Alias(anchor) => {
                let Some((node, nodes)) = self.anchors.get(&anchor).cloned() else {
                    return Err(self.error(
                        at,
                        "an alias of what is not complete",
                        "an anchor before it",
                    ));
                };
                let before = self.nodes;
                self.count(nodes, at)?;
                self.complete(node.value, at, 0, before)
            }
            _ => Ok(()),
        }
    }

    fn untagged(&self, tagged: bool, at: (usize, usize)) -> Result<(), Fault> {
        match tagged {
            true => Err(self.error(at, "a tag", "values without tags")),
            false => Ok(()),
        }
    }

    fn count(&mut self, nodes: usize, at: (usize, usize)) -> Result<(), Fault> {
        self.nodes = self.nodes.saturating_add(nodes);
        match self.nodes > self.bounds.nodes {
            true => Err(self.error(
                at,
                "more than can be meant",
                format!(
                    "at most {} values in a file, aliases counted as what they repeat",
                    self.bounds.nodes
                ),
            )),
            false => Ok(()),
        }
    }

    fn open(&mut self, open: Open, anchor: usize, at: (usize, usize)) -> Result<(), Fault> {
        if self.stack.len() >= self.bounds.depth {
            return Err(self.error(
                at,
                "what is too deep",
                format!("at most {} lists and maps in each other", self.bounds.depth),
            ));
        }
        let before = self.nodes;
        self.count(1, at)?;
        self.stack.push(Frame {
            open,
            at,
            anchor,
            before,
        });
        Ok(())
    }

    /// Puts a complete value where it belongs.
    fn complete(
        &mut self,
        value: Value,
        at: (usize, usize),
        anchor: usize,
        before: usize,
    ) -> Result<(), Fault> {
        let node = Node {
            value,
            at,
            anchored: anchor != 0,
        };
        if anchor != 0 {
            let nodes = self.nodes - before;
            self.anchors.insert(anchor, (node.clone(), nodes));
        }
        match self.stack.last_mut().map(|frame| &mut frame.open) {
            None => self.root = Some(node),
            Some(Open::List(list)) => list.push(node),
            Some(Open::Map(map, known, key)) => match (key.take(), node.value) {
                (Some(key), value) => map.push((key, Node { value, ..node })),
                (None, Value::Text(name, _)) => {
                    if !known.insert(Rc::clone(&name)) {
                        let found = format!("{} a second time", quoted(&name));
                        return Err(self.error(at, found, "each key once"));
                    }
                    if map.len() >= self.bounds.keys {
                        let allowed = format!("at most {} keys in a map", self.bounds.keys);
                        return Err(self.error(at, "one more key", allowed));
                    }
                    *key = Some(Key { name, at });
                }
                (None, _) => return Err(self.error(at, "a list or map as a key", "words")),
            },
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Fault {
        parse(text, Bounds::default()).expect_err("a fault")
    }

    #[test]
    fn nodes_know_where_they_begin() {
        let root = parse("a: [x, {b: 'y z'}]\nc:\n", Bounds::default()).expect("YAML");
        let Some(Value::List(list)) = root.get("a").map(|node| &node.value) else {
            panic!("a list");
        };
        assert_eq!(list[0].at, (1, 5));
        let inner = list[1].get("b").expect("a key");
        assert_eq!((inner.at, inner.text()), ((1, 12), Some("y z")));
        assert_eq!(
            root.get("c").map(Node::described).as_deref(),
            Some("nothing")
        );
        assert!(root.get("d").is_none());
    }

    #[test]
    fn an_alias_counts_as_what_it_repeats_and_shares_it() {
        let text = "a: &a [1, 2, 3]\nb: [*a, *a]\n";
        let root = parse(text, Bounds::default()).expect("YAML");
        let Some(Value::List(list)) = root.get("b").map(|node| &node.value) else {
            panic!("a list");
        };
        let (Value::List(one), Value::List(other)) = (&list[0].value, &list[1].value) else {
            panic!("lists");
        };
        assert!(Rc::ptr_eq(one, other));
        // The map, two keys, two lists, three values, and twice four that are repeated.
        let bounds = |nodes| Bounds {
            nodes,
            ..Bounds::default()
        };
        assert!(parse(text, bounds(16)).is_ok());
        let fault = parse(text, bounds(12)).expect_err("too many");
        assert_eq!(
            (fault.at, fault.allowed.contains("at most 12 values")),
            ((2, 9), true)
        );
    }

    #[test]
    fn what_is_beyond_the_bounds_or_no_plain_tree_is_refused() {
        for (text, named) in [
            ("a: 1\na: 2\n", "a second time"),
            ("a: !!int 1\n", "a tag"),
            ("a: 1\n---\nb: 2\n", "a second document"),
            ("? [a]\n: 1\n", "a list or map as a key"),
            ("", "nothing"),
            ("a: *b\n", "no YAML"),
        ] {
            let fault = refused(text);
            assert!(fault.found.contains(named), "{text}: {fault:?}");
        }
        let deep = "a:\n ".to_owned() + &"[".repeat(40) + &"]".repeat(40);
        assert!(refused(&deep).allowed.contains("at most 32 lists"));
        let keys: String = (0..10_001).map(|i| format!("k{i}: 1\n")).collect();
        assert!(refused(&keys).allowed.contains("at most 10000 keys"));
        let long = " ".repeat((1 << 20) + 1);
        assert!(refused(&long).allowed.contains("at most 1048576 bytes"));
    }
}
