//! From words to models and nodes.

use std::collections::BTreeMap;
use std::ops::Range;

use narrows_scenario::{Refusal, nearest};
use narrows_yaml::quoted;

use super::lex::{Token, Tokens};
use crate::outline::Text;
use crate::source::Source;

/// The properties of a node or a connection: values by key.
pub(crate) type Properties = BTreeMap<String, (Range<usize>, Vec<Text>)>;

/// A kind of node: a descriptor of its own, or nodes with connections between them.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub name: Text,
    /// Where its descriptor is, if it has one.
    pub vnfd: Option<String>,
    pub ports: Vec<Port>,
    pub nodes: Vec<Node>,
    pub connections: Vec<Connection>,
}

/// A port of a model.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub name: Text,
    /// The interface of the descriptor.
    pub interface: Option<Text>,
}

/// A node of some model.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub name: Text,
    pub model: Text,
    pub properties: Properties,
}

/// A connection between two ports.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    pub name: Text,
    pub ends: [End; 2],
    pub properties: Properties,
}

/// A port of the model itself, or of a node in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub node: Option<Text>,
    pub port: Text,
}

/// All models and the nodes that are to be, after the last statement.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intents {
    pub models: Vec<Model>,
    pub nodes: Vec<Node>,
}

/// Reads intents.
///
/// # Errors
/// What does not fit the grammar, names given twice, names of nothing.
pub(crate) fn parse(source: &Source<'_>) -> Result<Intents, Refusal> {
    let mut parser = Parser {
        tokens: Tokens::new(source)?,
        source,
    };
    let (mut models, mut nodes) = (Created::default(), Created::default());
    while let Some(verb) = parser.verb()? {
        let what = parser.keyword(&["NodeModel", "Node"])?;
        match (verb, what) {
            ("DELETE", "NodeModel") => {
                let name = parser.name("the name of a model")?;
                parser.sign(';')?;
                models.remove(source, &name, "model")?;
            }
            ("DELETE", _) => {
                let name = parser.name("the name of a node")?;
                parser.sign(';')?;
                nodes.remove(source, &name, "node")?;
            }
            (verb, "NodeModel") => {
                let model = parser.model()?;
                models.put(source, verb, model.name.clone(), model)?;
            }
            (verb, _) => {
                let node = parser.node()?;
                parser.sign(';')?;
                nodes.put(source, verb, node.name.clone(), node)?;
            }
        }
    }
    Ok(Intents {
        models: models.all.into_iter().flatten().collect(),
        nodes: nodes.all.into_iter().flatten().collect(),
    })
}

/// What statements have created so far, by name.
struct Created<T> {
    all: Vec<Option<T>>,
    places: BTreeMap<String, (usize, Text)>,
}

impl<T> Default for Created<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            places: BTreeMap::new(),
        }
    }
}

impl<T> Created<T> {
    fn remove(&mut self, source: &Source<'_>, name: &Text, what: &str) -> Result<(), Refusal> {
        match self.places.remove(&name.text) {
            Some((place, _)) => {
                self.all[place] = None;
                Ok(())
            }
            None => {
                let allowed = format!("the name of a {what} that was created before");
                let refusal = source.refuse(name.at.clone(), "", quoted(&name.text), allowed);
                Err(
                    match nearest(&name.text, self.places.keys().map(String::as_str)) {
                        Some(near) => refusal.with_help(format!("did you mean `{near}`?")),
                        None => refusal,
                    },
                )
            }
        }
    }

    /// Adds what is created, and puts what is updated in the place of what has its name.
    fn put(&mut self, source: &Source<'_>, verb: &str, name: Text, new: T) -> Result<(), Refusal> {
        match (verb, self.places.get(&name.text)) {
            ("UPDATE", Some((place, _))) => self.all[*place] = Some(new),
            ("UPDATE", None) => {
                let found = format!("{}, which was not created before", quoted(&name.text));
                let refusal = source.refuse(name.at, "", found, "a name that was created");
                return Err(refusal.with_help("write CREATE"));
            }
            (_, Some((_, before))) => return Err(twice(source, &name, &before.at)),
            (_, None) => {
                self.places
                    .insert(name.text.clone(), (self.all.len(), name));
                self.all.push(Some(new));
            }
        }
        Ok(())
    }
}

/// That a name is given twice, the first time at `before`.
pub(crate) fn twice(source: &Source<'_>, name: &Text, before: &Range<usize>) -> Refusal {
    let found = format!("the name {} for the second time", quoted(&name.text));
    let refusal = source.refuse(name.at.clone(), "", found, "a name of its own");
    let line = source.line_of(before.start);
    refusal.with_help(format!("line {line} has the same name"))
}

/// Names of one kind in a model.
#[derive(Default)]
struct Names(BTreeMap<String, Range<usize>>);

impl Names {
    fn add(&mut self, source: &Source<'_>, name: &Text) -> Result<(), Refusal> {
        match self.0.insert(name.text.clone(), name.at.clone()) {
            None => Ok(()),
            Some(before) => Err(twice(source, name, &before)),
        }
    }
}

struct Parser<'s, 't> {
    tokens: Tokens<'s, 't>,
    source: &'s Source<'t>,
}

impl Parser<'_, '_> {
    fn refuse(&self, token: &Token, span: Range<usize>, allowed: &str) -> Refusal {
        self.source.refuse(span, "", token.described(), allowed)
    }

    /// The verb of the next statement; none at the end.
    fn verb(&mut self) -> Result<Option<&'static str>, Refusal> {
        let (token, span) = self.tokens.next()?;
        let known = ["CREATE", "UPDATE", "DELETE"];
        let verb = match &token {
            Token::End => return Ok(None),
            Token::Word(word) => known.into_iter().find(|verb| verb == word),
            _ => None,
        };
        let allowed = "`CREATE`, `UPDATE` or `DELETE`; in a model also `Node`, `ConnectionPoint` or \
                       `Connection`";
        verb.map(Some)
            .ok_or_else(|| self.refuse(&token, span, allowed))
    }

    fn keyword(&mut self, known: &[&'static str]) -> Result<&'static str, Refusal> {
        let (token, span) = self.tokens.next()?;
        let word = match &token {
            Token::Word(word) => known.iter().find(|known| **known == word).copied(),
            _ => None,
        };
        word.ok_or_else(|| {
            let known: Vec<_> = known.iter().map(|word| format!("`{word}`")).collect();
            self.refuse(&token, span, &known.join(" or "))
        })
    }

    /// Whether the next token is this word, which is then taken.
    fn takes(&mut self, word: &str) -> Result<bool, Refusal> {
        let is = matches!(self.tokens.peek()?, (Token::Word(next), _) if next == word);
        if is {
            self.tokens.next()?;
        }
        Ok(is)
    }

    fn takes_sign(&mut self, sign: char) -> Result<bool, Refusal> {
        let is = matches!(self.tokens.peek()?, (Token::Sign(next), _) if next == sign);
        if is {
            self.tokens.next()?;
        }
        Ok(is)
    }

    fn sign(&mut self, sign: char) -> Result<(), Refusal> {
        match self.tokens.next()? {
            (Token::Sign(next), _) if next == sign => Ok(()),
            (token, span) => Err(self.refuse(&token, span, &format!("`{sign}`"))),
        }
    }

    /// A name: letters, digits, `_` and `-`, a letter first.
    fn name(&mut self, what: &str) -> Result<Text, Refusal> {
        let (token, at) = self.tokens.next()?;
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        match token {
            Token::Word(text)
                if text.len() <= 64
                    && text.starts_with(|c: char| c.is_ascii_alphabetic())
                    && text.chars().all(fits) =>
            {
                Ok(Text { text, at })
            }
            token => {
                let allowed = format!(
                    "{what}: up to 64 letters, digits, `_` and `-`, beginning with a letter"
                );
                Err(self.refuse(&token, at, &allowed))
            }
        }
    }

    /// Behind `NodeModel`: a model with all its parts.
    fn model(&mut self) -> Result<Model, Refusal> {
        let name = self.name("the name of a model")?;
        if self.takes("Property")? {
            self.parameters()?;
        }
        let mut vnfd = None;
        if self.takes("VNFD")? {
            let (address, span) = self.tokens.address();
            let known = ["file://", "http://", "https://"];
            if !known.iter().any(|scheme| address.starts_with(scheme)) {
                let allowed = "the address of a descriptor, which begins with `file://`, `http://` or \
                               `https://`";
                return Err(self.source.refuse(span, "", quoted(address), allowed));
            }
            // It is kept and never opened: what is in a descriptor runs nowhere here.
            vnfd = Some(address.to_owned());
        }
        self.sign(';')?;
        let mut model = Model {
            name,
            vnfd,
            ports: Vec::new(),
            nodes: Vec::new(),
            connections: Vec::new(),
        };
        let (mut ports, mut nodes) = (Names::default(), Names::default());
        let mut connections = Names::default();
        loop {
            let (token, span) = self.tokens.peek()?;
            let Token::Word(word) = &token else {
                break;
            };
            let leaf = model.vnfd.is_some();
            match word.as_str() {
                "Node" | "Connection" if leaf => {
                    let allowed = "`ConnectionPoint` alone, in a model that has a descriptor";
                    return Err(self.refuse(&token, span, allowed));
                }
                "ConnectionPoint" => {
                    self.tokens.next()?;
                    let port = self.port(leaf)?;
                    ports.add(self.source, &port.name)?;
                    model.ports.push(port);
                }
                "Node" => {
                    self.tokens.next()?;
                    let node = self.node()?;
                    nodes.add(self.source, &node.name)?;
                    model.nodes.push(node);
                }
                "Connection" => {
                    self.tokens.next()?;
                    let connection = self.connection()?;
                    connections.add(self.source, &connection.name)?;
                    model.connections.push(connection);
                }
                _ => break,
            }
            self.sign(';')?;
        }
        Ok(model)
    }

    /// The parameters that a model declares, of which nothing here makes use.
    fn parameters(&mut self) -> Result<(), Refusal> {
        loop {
            self.keyword(&["string", "integer", "range"])?;
            self.sign(':')?;
            self.name("the name of a parameter")?;
            if !self.takes_sign(',')? {
                return Ok(());
            }
        }
    }

    fn port(&mut self, leaf: bool) -> Result<Port, Refusal> {
        let name = self.name("the name of a port")?;
        let mut interface = None;
        if leaf {
            self.keyword(&["at"])?;
            self.keyword(&["VNFD"])?;
            self.sign(':')?;
            interface = Some(self.name("an interface of the descriptor")?);
        }
        Ok(Port { name, interface })
    }

    fn node(&mut self) -> Result<Node, Refusal> {
        let name = self.name("the name of a node")?;
        self.keyword(&["Type"])?;
        let model = self.name("the name of a model")?;
        let properties = self.properties()?;
        Ok(Node {
            name,
            model,
            properties,
        })
    }

    fn connection(&mut self) -> Result<Connection, Refusal> {
        let name = self.name("the name of a connection")?;
        self.keyword(&["Type"])?;
        self.keyword(&["p2p"])?;
        self.keyword(&["Endnodes"])?;
        let first = self.end()?;
        self.sign(',')?;
        let second = self.end()?;
        let properties = self.properties()?;
        Ok(Connection {
            name,
            ends: [first, second],
            properties,
        })
    }

    fn end(&mut self) -> Result<End, Refusal> {
        let first = self.name("a port, or a node and its port")?;
        if !self.takes_sign('.')? {
            return Ok(End {
                node: None,
                port: first,
            });
        }
        Ok(End {
            port: self.name("a port of the node")?,
            node: Some(first),
        })
    }

    /// `Property key: value, value, key: value`, if it is there.
    fn properties(&mut self) -> Result<Properties, Refusal> {
        let mut all = Properties::new();
        if !self.takes("Property")? {
            return Ok(all);
        }
        let mut key = self.name("the name of a property")?;
        self.sign(':')?;
        loop {
            let mut values = vec![self.value()?];
            let mut next = None;
            while self.takes_sign(',')? {
                let value = self.value()?;
                if self.takes_sign(':')? {
                    next = Some(value);
                    break;
                }
                values.push(value);
            }
            if let Some((before, _)) = all.insert(key.text.clone(), (key.at.clone(), values)) {
                return Err(twice(self.source, &key, &before));
            }
            match next {
                Some(next) => key = next,
                None => return Ok(all),
            }
        }
    }

    /// A string, or words up to the next sign: `10.0.0.1`, `eth1`, `(1,2)`.
    fn value(&mut self) -> Result<Text, Refusal> {
        let (token, mut at) = self.tokens.next()?;
        let mut text = match token {
            Token::Text(text) => return Ok(Text { text, at }),
            Token::Word(word) => word,
            Token::Sign('(') => return self.range(at),
            token => return Err(self.refuse(&token, at, "a word or a string in double quotes")),
        };
        while self.takes_sign('.')? {
            match self.tokens.next()? {
                (Token::Word(word), span) => {
                    text = format!("{text}.{word}");
                    at.end = span.end;
                }
                (token, span) => return Err(self.refuse(&token, span, "a word")),
            }
        }
        Ok(Text { text, at })
    }

    /// Behind `(`: two numbers.
    fn range(&mut self, mut at: Range<usize>) -> Result<Text, Refusal> {
        let low = self.value()?;
        self.sign(',')?;
        let high = self.value()?;
        at.end = high.at.end;
        self.sign(')')?;
        let text = format!("({},{})", low.text, high.text);
        Ok(Text { text, at })
    }
}
