//! YAML as a tree whose nodes know their places, bounded in all that a file can make large.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::rc::Rc;

use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError};

use crate::MAX_BYTES;
use crate::error::{MixError, quoted};

/// Nodes of a file, each alias counted as the nodes that it repeats (our choice).
const MAX_NODES: usize = 50_000;

/// Depth of lists and maps in each other (our choice; a mix has three).
const MAX_DEPTH: usize = 32;

/// Keys of a map (our choice), so that each can be compared with the others.
const MAX_KEYS: usize = 500;

/// A node: its value, where it begins, and whether it has an anchor.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) value: Value,
    /// Line and column, from 1.
    pub(crate) at: (usize, usize),
    pub(crate) anchored: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Value {
    /// Words, and whether they are quoted.
    Text(Rc<str>, bool),
    List(Rc<[Node]>),
    /// Keys in the order of the file.
    Map(Rc<[(Key, Node)]>),
}

/// A key of a map.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub(crate) name: Rc<str>,
    pub(crate) at: (usize, usize),
}

impl Node {
    /// As errors name it.
    pub(crate) fn described(&self) -> String {
        match &self.value {
            Value::Text(text, false) if text.is_empty() => "nothing".to_owned(),
            Value::Text(text, _) => quoted(text),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

/// A list or map that is not complete.
enum Open {
    List(Vec<Node>),
    Map(Vec<(Key, Node)>, Option<Key>),
}

struct Frame {
    open: Open,
    at: (usize, usize),
    anchor: usize,
    /// Nodes counted before it.
    before: usize,
}

struct Loader<'f> {
    file: &'f str,
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
pub(crate) fn parse(file: &str, text: &str) -> Result<Node, MixError> {
    let mut loader = Loader {
        file,
        stack: Vec::new(),
        root: None,
        anchors: BTreeMap::new(),
        nodes: 0,
    };
    if text.len() > MAX_BYTES {
        let found = format!("{} bytes", text.len());
        return Err(loader.error((1, 1), found, format!("at most {MAX_BYTES} bytes")));
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

impl Loader<'_> {
    fn error(
        &self,
        at: (usize, usize),
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> MixError {
        MixError {
            file: self.file.to_owned(),
            at,
            key: String::new(),
            found: found.into(),
            allowed: allowed.into(),
        }
    }

    fn take(&mut self, event: Event<'_>, at: (usize, usize)) -> Result<(), MixError> {
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
                self.open(Open::Map(Vec::new(), None), anchor, at)
            }
            Event::SequenceEnd | Event::MappingEnd => {
                let Some(frame) = self.stack.pop() else {
                    return Ok(());
                };
                let value = match frame.open {
                    Open::List(list) => Value::List(list.into()),
                    Open::Map(map, _) => Value::Map(map.into()),
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

    fn untagged(&self, tagged: bool, at: (usize, usize)) -> Result<(), MixError> {
        match tagged {
            true => Err(self.error(at, "a tag", "values without tags")),
            false => Ok(()),
        }
    }

    fn count(&mut self, nodes: usize, at: (usize, usize)) -> Result<(), MixError> {
        self.nodes = self.nodes.saturating_add(nodes);
        match self.nodes > MAX_NODES {
            true => Err(self.error(
                at,
                "more than can be meant",
                format!(
                    "at most {MAX_NODES} values in a file, aliases counted as what they repeat"
                ),
            )),
            false => Ok(()),
        }
    }

    fn open(&mut self, open: Open, anchor: usize, at: (usize, usize)) -> Result<(), MixError> {
        if self.stack.len() >= MAX_DEPTH {
            return Err(self.error(
                at,
                "what is too deep",
                format!("at most {MAX_DEPTH} lists and maps in each other"),
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
    ) -> Result<(), MixError> {
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
            Some(Open::Map(map, key)) => match (key.take(), node.value) {
                (Some(key), value) => map.push((key, Node { value, ..node })),
                (None, Value::Text(name, _)) => {
                    if map.iter().any(|(other, _)| other.name == name) {
                        let found = format!("{} a second time", quoted(&name));
                        return Err(self.error(at, found, "each key once"));
                    }
                    if map.len() >= MAX_KEYS {
                        let allowed = format!("at most {MAX_KEYS} keys in a map");
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
