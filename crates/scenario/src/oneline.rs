//! A scenario in a line: `--link` and `--flow` without a file.

use crate::check::Labels;
use crate::draft::Draft;
use crate::refusal::Refusal;
use crate::source::Spot;
use crate::tree::{Node, Table, Value, split_label};

/// How long a run without a file lasts unless `--set duration=` says otherwise.
const DURATION: &str = "60s";

/// Words that end a congestion control's own in `--flow`, each a key of
/// `[[flow]]`.
const FLOW_KEYS: &[&str] = &[
    "ecn",
    "start",
    "stop",
    "bytes",
    "traffic",
    "dscp",
    "from",
    "to",
    "opens",
    "ip",
    "fast_open",
    "mark",
    "transport",
    "spin",
];

/// One link, `access`, between `client` and `server`, and flows over it.
///
/// Each of `links` is an element in words, in both directions unless `up` or
/// `down` stands before it. Each of `flows` is a congestion control in words,
/// a name with a colon before it if wanted, and keys of a flow after it:
/// `second: cubic ecn on start 1s`.
pub(crate) fn draft(links: &[String], flows: &[String]) -> Result<Draft, Refusal> {
    if links.is_empty() {
        let help = "for instance --link 'rate 50Mbit queue dualpi2'";
        return Err(Refusal::new("--link", "nothing", "at least one element").with_help(help));
    }
    if flows.is_empty() {
        let help = "for instance --flow prague --flow cubic";
        return Err(Refusal::new("--flow", "nothing", "at least one flow").with_help(help));
    }
    let here = Spot::whole("--link", "");
    let text = |text: &str| Node::text(text, &here);
    let link = access(("client", "server"), directions(links));

    let mut names = Labels::default();
    let mut tables = Vec::new();
    let mut called = Vec::new();
    for words in flows {
        let (name, table) = flow(words, &mut names)?;
        called.push(name);
        tables.push(table);
    }
    let mut top = Table::default();
    let version = Value::Whole(1);
    top.put(
        "version",
        Node {
            value: version,
            spot: here.clone(),
        },
    );
    top.put("name", text(&called.join("-")));
    top.put("duration", text(DURATION));
    top.put("link", list(vec![link], &here));
    top.put("flow", list(tables, &here));
    Ok(Draft {
        root: table(top, &here),
        folder: std::path::PathBuf::new(),
        set_notes: Vec::new(),
    })
}

/// One link, `access`, between the hosts of these names, and nothing over it.
/// Each element comes in words with the option that it was given by, in order
/// of travel; see [`Side`].
pub(crate) fn lone_link(name: &str, ends: (&str, &str), elements: &[(Side, String)]) -> Node {
    let here = Spot::whole("--link", "");
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for (side, words) in elements {
        let node = || {
            let spot = Spot::whole(side.option(), words);
            Node {
                value: Value::Raw(words.clone()),
                spot: spot.at(0..words.len()),
            }
        };
        match side {
            Side::Both => {
                up.push(node());
                down.push(node());
            }
            Side::Up => up.push(node()),
            Side::Down => down.push(node()),
        }
    }
    let directions = (with_bottleneck(up), with_bottleneck(down));
    let mut top = Table::default();
    let version = Value::Whole(1);
    top.put(
        "version",
        Node {
            value: version,
            spot: here.clone(),
        },
    );
    top.put("name", Node::text(name, &here));
    top.put("duration", Node::text(DURATION, &here));
    top.put("link", list(vec![access(ends, directions)], &here));
    table(top, &here)
}

/// The link `access` with elements in both directions.
fn access(ends: (&str, &str), (up, down): (Vec<Node>, Vec<Node>)) -> Node {
    let here = Spot::whole("--link", "");
    let text = |text: &str| Node::text(text, &here);
    let mut link = Table::default();
    link.put("name", text("access"));
    link.put("ends", list(vec![text(ends.0), text(ends.1)], &here));
    link.put("up", list(up, &here));
    link.put("down", list(down, &here));
    table(link, &here)
}

/// Which way an element of a lone link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Both, each with a box of its own.
    Both,
    /// From the first end to the second.
    Up,
    /// From the second end to the first.
    Down,
}

impl Side {
    /// The option of the command line that says so.
    pub fn option(self) -> &'static str {
        match self {
            Self::Both => "--link",
            Self::Up => "--up",
            Self::Down => "--down",
        }
    }
}

fn list(nodes: Vec<Node>, spot: &Spot) -> Node {
    Node {
        value: Value::List(nodes),
        spot: spot.clone(),
    }
}

fn table(table: Table, spot: &Spot) -> Node {
    Node {
        value: Value::Table(table),
        spot: spot.clone(),
    }
}

/// The elements of both directions. The only `rate` of a direction is its
/// bottleneck and called so, unless it has a name.
fn directions(links: &[String]) -> (Vec<Node>, Vec<Node>) {
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for text in links {
        let spot = Spot::whole("--link", text);
        let part = |prefix: &str| {
            let words = text.trim_start().strip_prefix(prefix)?;
            words
                .starts_with(char::is_whitespace)
                .then(|| words.trim_start())
        };
        let node = |words: &str| {
            let start = text.len() - words.len();
            Node {
                value: Value::Raw(words.to_owned()),
                spot: spot.at(start..text.len()),
            }
        };
        match (part("up"), part("down")) {
            (Some(words), _) => up.push(node(words)),
            (_, Some(words)) => down.push(node(words)),
            _ => {
                up.push(node(text));
                down.push(node(text));
            }
        }
    }
    (with_bottleneck(up), with_bottleneck(down))
}

fn with_bottleneck(mut nodes: Vec<Node>) -> Vec<Node> {
    let is_rate = |node: &Node| {
        node.as_element().is_some_and(|(label, words)| {
            label.is_none() && words.split_whitespace().next() == Some("rate")
        })
    };
    let mut rates = nodes.iter_mut().filter(|n| is_rate(n));
    if let (Some(node), None) = (rates.next(), rates.next()) {
        if let Some(words) = node.as_text().map(str::to_owned) {
            let label = "bottleneck".to_owned();
            node.value = Value::Element { label, words };
        }
    }
    nodes
}

/// A flow's name and table.
fn flow(text: &str, names: &mut Labels) -> Result<(String, Node), Refusal> {
    let spot = Spot::whole("--flow", text);
    let (label, words_at) = split_label(text);
    let keys = keys_of(text, words_at);
    let cc_end = keys.first().map_or(text.len(), |(start, _)| *start);
    let cc = text[words_at..cc_end].trim();
    if cc.is_empty() {
        let allowed = "a congestion control, such as `cubic`";
        return Err(Refusal::at(&spot, "--flow", format!("`{text}`"), allowed));
    }
    let cc_at =
        words_at + (text[words_at..cc_end].len() - text[words_at..cc_end].trim_start().len());
    let mut table = Table::default();
    let name = names.next(label, cc).map_err(|name| {
        let found = format!("the flow `{name}` for the second time");
        Refusal::at(&spot, "--flow", found, "a name of its own")
    })?;
    table.put("name", Node::text(name.as_str(), &spot));
    table.put("from", Node::text("client", &spot));
    table.put("to", Node::text("server", &spot));
    table.put("cc", Node::raw(cc, spot.at(cc_at..cc_at + cc.len())));
    for (index, (start, key)) in keys.iter().enumerate() {
        let end = keys.get(index + 1).map_or(text.len(), |(next, _)| *next);
        let from = start + key.len();
        let value = text[from..end].trim();
        let at = from + (text[from..end].len() - text[from..end].trim_start().len());
        // `ecn` and `fast_open` alone switch it on.
        let value = match (*key, value) {
            ("ecn" | "fast_open", "") => "true",
            (_, value) => value,
        };
        table.put(key, Node::raw(value, spot.at(at..at + value.len())));
    }
    let value = Value::Table(table);
    Ok((name, Node { value, spot }))
}

/// Where the keys of a flow stand in its words.
fn keys_of(text: &str, from: usize) -> Vec<(usize, &str)> {
    let mut words = narrows_units::Words::new(&text[from..]);
    let mut keys = Vec::new();
    while let Some(word) = words.take() {
        // `traffic bytes N` is one value.
        let of_traffic = word.text == "bytes" && keys.last().is_some_and(|(_, k)| *k == "traffic");
        if FLOW_KEYS.contains(&word.text) && !of_traffic {
            keys.push((from + word.start, word.text));
        }
    }
    keys
}
