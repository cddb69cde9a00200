//! A scenario in a line: `--link`, `--flow`, `--app`, `--test` and `--mix` without a file.

use narrows_app::APP_KINDS;
use narrows_units::Parameter;

use crate::check::Labels;
use crate::document::{AppKeys, Flow, Mix, Test, keys};
use crate::draft::Draft;
use crate::flent::{NAMES, TOTAL_LENGTH};
use crate::refusal::{Refusal, one_of};
use crate::source::Spot;
use crate::tree::{Node, Value, split_label};

/// How long a run without a file lasts unless `--set duration=` says otherwise.
const DURATION: &str = "60s";

/// Keys of `[[flow]]` that no word of `--flow` begins.
const NO_WORDS: [&str; 3] = ["name", "cc", "host_model"];

/// Keys of `[[app]]` that no word of `--app` begins.
const NO_WORDS_OF_APP: [&str; 3] = ["name", "kind", "host_model"];

/// Keys of `[[mix]]` that no word of `--mix` begins.
const NO_WORDS_OF_MIX: [&str; 3] = ["name", "file", "host_model"];

/// Keys of `[test]` that no word of `--test` begins.
const NO_WORDS_OF_TEST: [&str; 2] = ["flent", "host_model"];

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
/// `second: cubic ecn on start 1s`. Each of `apps` is a kind of application, a name with a
/// colon before it if wanted, and keys of it after it: `api: request response 1Mb`. `of_flent` is
/// one of Flent's tests, and keys of it after it: `rrul cc prague`. Each of `mixes` is the file of a
/// traffic mix, a name with a colon before it if wanted, and keys of it after it: `mix.yaml cc bbr`.
pub(crate) fn draft(
    links: &[String],
    flows: &[String],
    apps: &[String],
    of_flent: Option<&str>,
    mixes: &[String],
) -> Result<Draft, Refusal> {
    let nothing = flows.is_empty() && apps.is_empty() && mixes.is_empty() && of_flent.is_none();
    if nothing && !links.is_empty() {
        let help = "for instance --flow prague --flow cubic";
        let allowed = "at least one flow, --app, --test or --mix";
        return Err(Refusal::new("--flow", "nothing", allowed).with_help(help));
    }
    let elements = links.iter().map(|text| element(text));
    let mut names = Labels::default();
    let flows: Vec<(String, Node)> = flows
        .iter()
        .map(|words| flow(words, &mut names))
        .collect::<Result<_, _>>()?;
    let mut names = Labels::default();
    let apps: Vec<(String, Node)> = apps
        .iter()
        .map(|words| app(words, &mut names))
        .collect::<Result<_, _>>()?;
    let mut names = Labels::default();
    let mixes: Vec<(String, Node)> = mixes
        .iter()
        .map(|words| mix(words, &mut names))
        .collect::<Result<_, _>>()?;
    let of_flent = of_flent.map(test).transpose()?;
    let all = of_flent.iter().chain(&flows).chain(&apps).chain(&mixes);
    let called: Vec<&str> = all.map(|(name, _)| name.as_str()).collect();
    let called = called.join("-");
    let tables = |all: Vec<(String, Node)>| all.into_iter().map(|(_, table)| table).collect();
    let ends = ("client", "server");
    let mut root = scenario(&called, ends, elements.collect(), tables(flows))?;
    if !apps.is_empty() {
        let list = Node::list(tables(apps), &Spot::whole("--app", ""));
        root.put("app", list);
    }
    if !mixes.is_empty() {
        let list = Node::list(tables(mixes), &Spot::whole("--mix", ""));
        root.put("mix", list);
    }
    if let Some((_, table)) = of_flent {
        let duration = Node::text(TOTAL_LENGTH, &table.spot);
        root.put("duration", duration);
        root.put("test", table);
    }
    Ok(Draft::of(root))
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
    let known: Vec<&str> = keys::<Flow>().to_vec();
    let keys = keys_of(text, words_at, &known, &NO_WORDS);
    let first = keys.first().map_or(text.len(), |(start, _)| *start);
    let (cc, cc_at) = part(&spot, words_at, first);
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
    put_values(&mut table, &spot, &keys);
    Ok((name, table))
}

/// An application's name and table.
fn app(text: &str, names: &mut Labels) -> Result<(String, Node), Refusal> {
    let spot = Spot::whole("--app", text);
    let (label, words_at) = split_label(text);
    let kind = narrows_units::Words::new(&text[words_at..]).take();
    let Some(kind) = kind else {
        let kinds = one_of(APP_KINDS.iter().map(|kind| kind.name));
        return Err(Refusal::at(&spot, "--app", format!("`{text}`"), kinds));
    };
    let (kind, kind_at) = part(&spot, words_at, words_at + kind.start + kind.text.len());
    let name = names.next(label, kind).map_err(|name| {
        let found = format!("the application `{name}` for the second time");
        Refusal::at(&spot, "--app", found, "a name of its own")
    })?;
    let after = kind_at.span().end;
    let mut table = Node::table(
        [
            ("name", Node::text(name.as_str(), &spot)),
            ("kind", Node::raw(kind, kind_at)),
            ("from", Node::text("client", &spot)),
            ("to", Node::text("server", &spot)),
        ],
        &spot,
    );
    let of_kind = APP_KINDS.iter().filter(|known| known.name == kind);
    let parameters = of_kind.flat_map(|known| known.parameters);
    let mut known: Vec<&str> = keys::<AppKeys>().to_vec();
    known.extend(parameters.flat_map(Parameter::names));
    let keys = keys_of(text, after, &known, &NO_WORDS_OF_APP);
    let first = keys.first().map_or(text.len(), |(start, _)| *start);
    // A kind that is not known is refused as such.
    let is_known = APP_KINDS.iter().any(|known| known.name == kind);
    let (strange, at) = part(&spot, after, first);
    if is_known && !strange.is_empty() {
        let word = strange.split_whitespace().next().unwrap_or_default();
        let all = known
            .iter()
            .copied()
            .filter(|key| !NO_WORDS_OF_APP.contains(key));
        let found = format!("`{word}`");
        return Err(Refusal::at(&at, format!("app/{name}"), found, one_of(all)));
    }
    put_values(&mut table, &spot, &keys);
    Ok((name, table))
}

/// The name and the table of a traffic mix, which is called `mix` unless it is said.
fn mix(text: &str, names: &mut Labels) -> Result<(String, Node), Refusal> {
    let spot = Spot::whole("--mix", text);
    let (label, words_at) = split_label(text);
    let Some(word) = narrows_units::Words::new(&text[words_at..]).take() else {
        let allowed = "the path of a mix or flow file";
        return Err(Refusal::at(&spot, "--mix", format!("`{text}`"), allowed));
    };
    let name = names.next(label, "mix").map_err(|name| {
        let found = format!("the mix `{name}` for the second time");
        Refusal::at(&spot, "--mix", found, "a name of its own")
    })?;
    let (file, file_at) = part(&spot, words_at, words_at + word.start + word.text.len());
    let after = file_at.span().end;
    let mut table = Node::table(
        [
            ("name", Node::text(name.as_str(), &spot)),
            ("file", Node::text(file, &file_at)),
            ("from", Node::text("client", &spot)),
            ("to", Node::text("server", &spot)),
        ],
        &spot,
    );
    let known = keys::<Mix>();
    let keys = keys_of(text, after, known, &NO_WORDS_OF_MIX);
    let first = keys.first().map_or(text.len(), |(start, _)| *start);
    let (strange, at) = part(&spot, after, first);
    if let Some(word) = strange.split_whitespace().next() {
        let words = known.iter().filter(|key| !NO_WORDS_OF_MIX.contains(key));
        let found = format!("`{word}`");
        return Err(Refusal::at(&at, "mix", found, one_of(words.copied())).or_did_you_mean());
    }
    put_values(&mut table, &spot, &keys);
    Ok((name, table))
}

/// The name and the table of one of Flent's tests.
fn test(text: &str) -> Result<(String, Node), Refusal> {
    let spot = Spot::whole("--test", text);
    let Some(word) = narrows_units::Words::new(text).take() else {
        return Err(Refusal::at(
            &spot,
            "--test",
            format!("`{text}`"),
            one_of(NAMES),
        ));
    };
    let (name, name_at) = part(&spot, word.start, word.start + word.text.len());
    let after = name_at.span().end;
    let mut table = Node::table(
        [
            ("flent", Node::raw(name, name_at)),
            ("from", Node::text("client", &spot)),
            ("to", Node::text("server", &spot)),
        ],
        &spot,
    );
    let known = keys::<Test>();
    let keys = keys_of(text, after, known, &NO_WORDS_OF_TEST);
    let first = keys.first().map_or(text.len(), |(start, _)| *start);
    let (strange, at) = part(&spot, after, first);
    if let Some(word) = strange.split_whitespace().next() {
        let words = known.iter().filter(|key| !NO_WORDS_OF_TEST.contains(key));
        let found = format!("`{word}`");
        return Err(Refusal::at(&at, "test", found, one_of(words.copied())).or_did_you_mean());
    }
    put_values(&mut table, &spot, &keys);
    Ok((name.to_owned(), table))
}

/// The words from `from` to `to` of what is at `spot`, and their place.
fn part(spot: &Spot, from: usize, to: usize) -> (&str, Spot) {
    let part = &spot.text()[from..to];
    let start = from + (part.len() - part.trim_start().len());
    let part = part.trim();
    (part, spot.at(start..start + part.len()))
}

/// Gives each of `keys` in `table` what stands behind it, up to the next.
fn put_values(table: &mut Node, spot: &Spot, keys: &[(usize, &str)]) {
    let text = spot.text();
    for (index, (start, key)) in keys.iter().enumerate() {
        let end = keys.get(index + 1).map_or(text.len(), |(next, _)| *next);
        let value = match (*key, part(spot, start + key.len(), end)) {
            // `ecn` and `fast_open` alone switch it on.
            ("ecn" | "fast_open", ("", at)) => Node::raw("true", at),
            (_, (value, at)) => Node::raw(value, at),
        };
        table.put(key, value);
    }
}

/// Where those of the keys `known` stand in words that begin at `from` which words may begin:
/// each ends what stands before it.
fn keys_of<'t>(
    text: &'t str,
    from: usize,
    known: &[&str],
    no_words: &[&str],
) -> Vec<(usize, &'t str)> {
    let mut words = narrows_units::Words::new(&text[from..]);
    let mut keys = Vec::new();
    while let Some(word) = words.take() {
        // `traffic bytes N` is one value.
        let of_traffic = word.text == "bytes" && keys.last().is_some_and(|(_, k)| *k == "traffic");
        if known.contains(&word.text) && !no_words.contains(&word.text) && !of_traffic {
            keys.push((from + word.start, word.text));
        }
    }
    keys
}
