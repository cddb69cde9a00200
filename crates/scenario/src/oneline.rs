//! A scenario in a line: `--link` and `--flow` without a file.

use crate::check::Labels;
use crate::document::{Flow, keys};
use crate::draft::Draft;
use crate::refusal::Refusal;
use crate::source::Spot;
use crate::tree::{Node, Value, split_label};

/// How long a run without a file lasts unless `--set duration=` says otherwise.
const DURATION: &str = "60s";

/// Keys of `[[flow]]` that no word of `--flow` begins.
const NO_WORDS: [&str; 3] = ["name", "cc", "host_model"];

/// Which way an element of a lone link is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Both, each with a box of its own.
    Both,
    /// From the first end to the second.
    Up,
    /// From the second end to the first.
    Down,
}

/// An element in words, and the side that it is for: both unless `up` or `down` is written
/// before it.
pub(crate) fn element(text: &str) -> (Side, Spot) {
    let spot = Spot::whole("--link", text);
    let of_side = |side: &str| {
        let words = text.trim_start().strip_prefix(side)?;
        let parted = words.starts_with(char::is_whitespace);
        parted.then(|| text.len() - words.trim_start().len())
    };
    match (of_side("up"), of_side("down")) {
        (Some(start), _) => (Side::Up, spot.at(start..text.len())),
        (_, Some(start)) => (Side::Down, spot.at(start..text.len())),
        _ => (Side::Both, spot),
    }
}

/// One link, `access`, between `client` and `server`, and flows over it.
///
/// Each of `links` is an element in words, in both directions unless `up` or
/// `down` is written before it. Each of `flows` is a congestion control in words,
/// a name with a colon before it if wanted, and keys of a flow after it:
/// `second: cubic ecn on start 1s`.
pub(crate) fn draft(links: &[String], flows: &[String]) -> Result<Draft, Refusal> {
    if flows.is_empty() && !links.is_empty() {
        let help = "for instance --flow prague --flow cubic";
        return Err(Refusal::new("--flow", "nothing", "at least one flow").with_help(help));
    }
    let elements = links.iter().map(|text| element(text));
    let mut names = Labels::default();
    let flows: Vec<(String, Node)> = flows
        .iter()
        .map(|words| flow(words, &mut names))
        .collect::<Result<_, _>>()?;
    let called: Vec<&str> = flows.iter().map(|(name, _)| name.as_str()).collect();
    let called = called.join("-");
    let flows = flows.into_iter().map(|(_, table)| table).collect();
    Ok(Draft::of(scenario(
        &called,
        ("client", "server"),
        elements.collect(),
        flows,
    )?))
}

/// One link, `access`, between the hosts of these names, and `flows` over it.
/// Each element comes with the side that it is for and the place of its words, in
/// order of travel. The only `rate` of a direction is its bottleneck and called so,
/// unless it has a name.
///
/// # Errors
/// If there is no element.
pub(crate) fn scenario(
    name: &str,
    ends: (&str, &str),
    elements: Vec<(Side, Spot)>,
    flows: Vec<Node>,
) -> Result<Node, Refusal> {
    if elements.is_empty() {
        let help = "for instance --link 'rate 50Mbit queue dualpi2'";
        return Err(Refusal::new("--link", "nothing", "at least one element").with_help(help));
    }
    let here = &Spot::whole("--link", "");
    let text = |text: &str| Node::text(text, here);
    let along = |side: Side| {
        let of_side = elements
            .iter()
            .filter(|(s, _)| *s == Side::Both || *s == side);
        let nodes = of_side.map(|(_, spot)| Node::raw(spot.text(), spot.clone()));
        Node::list(with_bottleneck(nodes.collect()), here)
    };
    let link = [
        ("name", text("access")),
        ("ends", Node::list(vec![text(ends.0), text(ends.1)], here)),
        ("up", along(Side::Up)),
        ("down", along(Side::Down)),
    ];
    let version = Node {
        value: Value::Whole(1),
        spot: here.clone(),
    };
    let top = [
        ("version", version),
        ("name", text(name)),
        ("duration", text(DURATION)),
        ("link", Node::list(vec![Node::table(link, here)], here)),
        ("flow", Node::list(flows, here)),
    ];
    Ok(Node::table(top, here))
}

fn with_bottleneck(mut nodes: Vec<Node>) -> Vec<Node> {
    let is_rate = |node: &Node| {
        node.as_element().is_some_and(|(label, words)| {
            label.is_none() && words.split_whitespace().next() == Some("rate")
        })
    };
    let mut rates = nodes.iter_mut().filter(|n| is_rate(n));
    if let (Some(node), None) = (rates.next(), rates.next()) {
        let layers = node.as_text().map(str::to_owned).into_iter().collect();
        let label = "bottleneck".to_owned();
        node.value = Value::Element { label, layers };
    }
    nodes
}

/// A flow's name and table.
fn flow(text: &str, names: &mut Labels) -> Result<(String, Node), Refusal> {
    let spot = Spot::whole("--flow", text);
    let (label, words_at) = split_label(text);
    let keys = keys_of(text, words_at);
    let part = |from: usize, to: usize| {
        let part = &text[from..to];
        let start = from + (part.len() - part.trim_start().len());
        let part = part.trim();
        (part, spot.at(start..start + part.len()))
    };
    let (cc, cc_at) = part(
        words_at,
        keys.first().map_or(text.len(), |(start, _)| *start),
    );
    let Some(kind) = cc.split_whitespace().next() else {
        let allowed = "a congestion control, such as `cubic`";
        return Err(Refusal::at(&spot, "--flow", format!("`{text}`"), allowed));
    };
    let name = names.next(label, kind).map_err(|name| {
        let found = format!("the flow `{name}` for the second time");
        Refusal::at(&spot, "--flow", found, "a name of its own")
    })?;
    let mut table = Node::table(
        [
            ("name", Node::text(name.as_str(), &spot)),
            ("from", Node::text("client", &spot)),
            ("to", Node::text("server", &spot)),
            ("cc", Node::raw(cc, cc_at)),
        ],
        &spot,
    );
    for (index, (start, key)) in keys.iter().enumerate() {
        let end = keys.get(index + 1).map_or(text.len(), |(next, _)| *next);
        let value = match (*key, part(start + key.len(), end)) {
            // `ecn` and `fast_open` alone switch it on.
            ("ecn" | "fast_open", ("", at)) => Node::raw("true", at),
            (_, (value, at)) => Node::raw(value, at),
        };
        table.put(key, value);
    }
    Ok((name, table))
}

/// Where the keys of a flow stand in its words: they end the congestion control's.
fn keys_of(text: &str, from: usize) -> Vec<(usize, &str)> {
    let known = keys::<Flow>();
    let mut words = narrows_units::Words::new(&text[from..]);
    let mut keys = Vec::new();
    while let Some(word) = words.take() {
        // `traffic bytes N` is one value.
        let of_traffic = word.text == "bytes" && keys.last().is_some_and(|(_, k)| *k == "traffic");
        if known.contains(&word.text) && !NO_WORDS.contains(&word.text) && !of_traffic {
            keys.push((from + word.start, word.text));
        }
    }
    keys
}
