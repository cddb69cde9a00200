//! What can stand at a place of a text that is being written.

use narrows_path::MmbSpec;
use schemars::JsonSchema;
use serde::Serialize;

use crate::outline::Outline;
use crate::vocabulary::{Vocabulary, Word, WordParameter};

/// Something that can stand there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Completion {
    /// What is shown.
    pub label: String,
    /// What takes the place of what is typed of it so far.
    pub insert: String,
    /// What it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Texts longer than a document are not looked at.
const LONGEST: usize = crate::tree::LONGEST_FILE;

/// What can stand at `line` and `column`, both from 1 and the column in characters: those that go
/// on with what is typed, and what is typed, in bytes before the place.
pub fn complete(
    words: &Vocabulary,
    text: &str,
    line: usize,
    column: usize,
) -> (usize, Vec<Completion>) {
    if text.len() > LONGEST {
        return (0, Vec::new());
    }
    let lines: Vec<&str> = text.lines().collect();
    let Some(place) = Place::of(&lines, line, column) else {
        return (0, Vec::new());
    };
    let typed = place.typed().to_owned();
    let mut found = place.candidates(words, text);
    found.retain(|candidate| candidate.label.starts_with(&typed) && candidate.label != typed);
    (typed.len(), found)
}

/// Where the text is written on.
struct Place<'t> {
    /// The table, by its name without brackets; empty above all.
    table: String,
    at: At<'t>,
}

enum At<'t> {
    /// In brackets of a table.
    Header(&'t str),
    /// At the beginning of a line; the keys that the table has.
    Key(&'t str, Vec<&'t str>),
    /// In the value of a key, in quotes or not: what stands before in these quotes.
    Value {
        key: &'t str,
        quoted: bool,
        before: &'t str,
    },
}

impl<'t> Place<'t> {
    fn of(lines: &[&'t str], line: usize, column: usize) -> Option<Self> {
        let index = line.checked_sub(1)?;
        let full = lines.get(index).copied().unwrap_or("");
        let offset = full
            .char_indices()
            .nth(column.checked_sub(1)?)
            .map_or(full.len(), |(at, _)| at);
        let here = &full[..offset];
        let start = here.trim_start();
        let above = &lines[..index.min(lines.len())];
        let header = above.iter().rposition(|line| header_of(line).is_some());
        let table = header
            .and_then(|at| header_of(above[at]))
            .unwrap_or_default();
        // Of a campaign, what is in its scenario.
        let table = table
            .strip_prefix("scenario")
            .map_or(table, |rest| rest.trim_start_matches('.'));
        let of = |at| {
            Some(Self {
                table: table.to_owned(),
                at,
            })
        };
        let body = &above[header.map_or(0, |at| at + 1)..];
        // A value that goes on over lines began where brackets were opened.
        let begun = body.iter().rposition(|line| assignment(line).is_some());
        if assignment(here).is_none() {
            if let Some((key, rest)) = begun.and_then(|at| assignment(body[at])) {
                let between = &body[begun.map_or(0, |at| at + 1)..];
                let open = std::iter::once(rest).chain(between.iter().copied());
                if open.map(balance).sum::<i64>() > 0 {
                    return of(Self::value(key, here));
                }
            }
            if let Some(name) = start.strip_prefix('[') {
                return of(At::Header(name.trim_start_matches('[')));
            }
            let keys = lines[header.map_or(0, |at| at + 1)..].iter();
            let keys = keys.take_while(|line| header_of(line).is_none());
            let keys = keys.filter_map(|line| Some(assignment(line)?.0)).collect();
            return of(At::Key(start, keys));
        }
        let (key, value) = assignment(here)?;
        of(Self::value(key, value))
    }

    /// In a value of which this is before the place.
    fn value(key: &'t str, before: &'t str) -> At<'t> {
        let quotes = quotes(before);
        match quotes.1 {
            Some(open) => At::Value {
                key,
                quoted: true,
                before: &before[open..],
            },
            None => At::Value {
                key,
                quoted: false,
                before: before.trim_start_matches(|c: char| c.is_whitespace() || c == '['),
            },
        }
    }

    /// What is typed of the word so far.
    fn typed(&self) -> &'t str {
        match self.at {
            At::Header(name) => name,
            At::Key(start, _) => start,
            At::Value { before, quoted, .. } => {
                let last = |c: char| c.is_whitespace() || c == '(' || !quoted && c == ',';
                before.rsplit(last).next().unwrap_or_default()
            }
        }
    }

    fn candidates(&self, words: &Vocabulary, text: &str) -> Vec<Completion> {
        let table = words.tables.iter().find(|table| table.name == self.table);
        match &self.at {
            At::Header(_) => {
                let tables = words.tables.iter().filter(|table| !table.name.is_empty());
                tables
                    .map(|table| Completion::new(&table.name, &table.summary))
                    .collect()
            }
            At::Key(_, there) => {
                let keys = table.into_iter().flat_map(|table| &table.keys);
                let free = keys.filter(|key| !there.contains(&key.name.as_str()));
                let one = |key: &crate::KeyWord| Completion {
                    insert: format!("{} = ", key.name),
                    ..Completion::new(&key.name, &key.summary)
                };
                free.map(one).collect()
            }
            At::Value {
                key,
                quoted,
                before,
            } => {
                let known = table.and_then(|table| table.keys.iter().find(|own| own.name == *key));
                let listed = known.map(|key| key.values.as_slice()).unwrap_or_default();
                let kind = known.map(|key| key.kind.as_str()).unwrap_or_default();
                if !quoted {
                    let flags: &[&str] = if kind.contains("boolean") {
                        &["true", "false"]
                    } else {
                        &[]
                    };
                    let flags = flags.iter().map(|flag| Completion::new(flag, ""));
                    let names = self.in_quotes(words, (key, ""), listed, text).into_iter();
                    let quoted = names.map(|name| Completion {
                        insert: match kind.contains("integer") && name.label.parse::<i64>().is_ok()
                        {
                            true => name.label.clone(),
                            false => format!("\"{}\"", name.label),
                        },
                        ..name
                    });
                    return flags.chain(quoted).collect();
                }
                self.in_quotes(words, (key, before), listed, text)
            }
        }
    }

    /// What can stand in the string that is the value of `key`, behind `before`.
    fn in_quotes(
        &self,
        words: &Vocabulary,
        (key, before): (&str, &str),
        listed: &[String],
        text: &str,
    ) -> Vec<Completion> {
        if !listed.is_empty() {
            return listed
                .iter()
                .map(|value| Completion::new(value, ""))
                .collect();
        }
        let names = |of: fn(&Outline) -> Vec<String>| {
            let outline = Outline::read("text", readable(text).as_bytes()).unwrap_or_default();
            of(&outline)
                .iter()
                .map(|name| Completion::new(name, ""))
                .collect::<Vec<_>>()
        };
        match (self.table.as_str(), key) {
            ("link", "up" | "down") => elements(words, before),
            ("change", "to") => elements(words, before),
            ("change", "target") | (_, "near_hint" | "far_hint") => names(|outline| {
                outline
                    .links
                    .iter()
                    .flat_map(|link| link.elements())
                    .collect()
            }),
            ("router", "is") => elements(words, before),
            ("flow" | "app", "cc") | (_, "near_cc" | "far_cc") => in_words(&words.controls, before),
            ("app", "kind") => in_words(&words.apps, before),
            ("test", "name") => in_words(&words.tests, before),
            ("mark", "flows") => names(|outline| {
                let flows = outline.flows.iter().filter(|flow| flow.table == "flow");
                flows.map(|flow| flow.name.clone()).collect()
            }),
            (_, "cc") => in_words(&words.controls, before),
            (_, "from" | "to" | "opens" | "host" | "ends" | "hosts") => {
                names(|outline| outline.nodes.iter().map(|node| node.name.clone()).collect())
            }
            _ => Vec::new(),
        }
    }
}

impl Completion {
    fn new(label: &str, detail: &str) -> Self {
        Self {
            label: label.to_owned(),
            insert: label.to_owned(),
            detail: Some(detail.to_owned()).filter(|detail| !detail.is_empty()),
        }
    }
}

impl crate::outline::OutlineLink {
    /// The full names of its elements, as far as they are written.
    fn elements(&self) -> Vec<String> {
        let of = |direction: &str, list: &[crate::outline::OutlineElement]| {
            let named = list
                .iter()
                .map(|element| element.name.as_ref().unwrap_or(&element.kind));
            let full = named.map(|name| format!("link/{}/{direction}/{name}", self.name));
            full.collect::<Vec<_>>()
        };
        [of("up", &self.up), of("down", &self.down)].concat()
    }
}

/// The name of the table that a line begins.
fn header_of(line: &str) -> Option<&str> {
    let name = line.trim_start().strip_prefix('[')?.trim_start_matches('[');
    let (name, _) = name.split_once(']')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!name.is_empty() && name.chars().all(plain)).then_some(name)
}

/// The key and what follows its sign, of a line that gives one a value.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    let key = key.trim();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    (!key.is_empty() && key.chars().all(plain)).then_some((key, value))
}

/// How many brackets a line opens and does not close, outside of strings and comments; and where
/// a string begins that it does not end.
fn quotes(line: &str) -> (i64, Option<usize>) {
    let (mut open, mut quote, mut escaped) = (0, None, false);
    for (at, c) in line.char_indices() {
        match quote {
            Some((mark, _)) if c == mark && !escaped => quote = None,
            Some(('"', _)) => escaped = c == '\\' && !escaped,
            Some(_) => {}
            None => match c {
                '"' | '\'' => (quote, escaped) = (Some((c, at + 1)), false),
                '#' => break,
                '[' => open += 1,
                ']' => open -= 1,
                _ => {}
            },
        }
    }
    (open, quote.map(|(_, at)| at))
}

fn balance(line: &str) -> i64 {
    quotes(line).0
}

/// The text without the lines that keep it from being TOML: names are wanted while one is being
/// written.
fn readable(text: &str) -> String {
    let mut kept: Vec<&str> = text.lines().collect();
    // One at a time, for what is wrong is where somebody writes.
    for _ in 0..3 {
        let joined = kept.join("\n");
        match crate::tree::read("text", joined.as_bytes()) {
            Ok(_) => return joined,
            Err(refusal) => match refusal.line_and_column() {
                Some((line, _)) if line <= kept.len() => kept[line - 1] = "",
                _ => break,
            },
        }
    }
    String::new()
}

/// What may follow `before` in the words of an element.
fn elements(words: &Vocabulary, before: &str) -> Vec<Completion> {
    let (_, at) = crate::tree::split_label(before);
    let before = &before[at..];
    let rules = match before.trim_start().strip_prefix("mmb") {
        Some(rules) => rules.starts_with(char::is_whitespace).then_some(rules),
        None => Some(before).filter(|before| MmbSpec::is_command(before)),
    };
    if let Some(rules) = rules {
        let found = MmbSpec::completions(rules.trim_start());
        let found = found.into_iter();
        return found
            .map(|(word, about)| Completion::new(&word, about))
            .collect();
    }
    let given: Vec<&str> = before.split_whitespace().collect();
    // A queue's words follow its name, up to the end.
    let queue = given.iter().rposition(|word| *word == "queue");
    if let Some(at) = queue {
        let behind = before
            .rfind("queue")
            .map_or("", |at| &before[at + "queue".len()..]);
        if behind.starts_with(char::is_whitespace) || at + 1 < given.len() {
            return in_words(&words.queues, behind.trim_start());
        }
    }
    in_words(&words.elements, before)
}

/// What may follow `before`, of one of `kinds`: their names first, then parameters.
fn in_words(kinds: &[Word], before: &str) -> Vec<Completion> {
    let before = before.trim_start();
    // The word that is being typed decides nothing.
    let whole = before
        .rfind(char::is_whitespace)
        .map_or("", |at| &before[..at]);
    let given: Vec<&str> = whole.split_whitespace().collect();
    let begins = |kind: &&Word| {
        let name: Vec<&str> = kind.name.split(' ').collect();
        given.starts_with(&name)
    };
    let Some(kind) = kinds
        .iter()
        .filter(begins)
        .max_by_key(|kind| kind.name.len())
    else {
        return match given.is_empty() {
            true => kinds
                .iter()
                .map(|kind| Completion::new(&kind.name, &kind.summary))
                .collect(),
            false => Vec::new(),
        };
    };
    let last = given.last().copied().unwrap_or_default();
    let is_named =
        |parameter: &WordParameter, word: &str| parameter.names.iter().any(|n| n == word);
    let mut parameters = kind.parameters.iter();
    if let Some(before) = parameters.find(|p| is_named(p, last) && p.kind != "flag") {
        // Its value: one of some words, or what nobody can guess.
        let choices = before.choices.iter();
        return choices
            .map(|word| Completion::new(word, &before.summary))
            .collect();
    }
    let is_given = |p: &&WordParameter| given.iter().any(|word| is_named(p, word));
    let free = kind.parameters.iter().filter(|p| !is_given(p));
    let named = free.flat_map(|p| p.names.iter().map(move |name| (name, p)));
    let offered =
        named.map(|(name, p)| Completion::new(name, &format!("{}: {}", p.usage, p.summary)));
    offered.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary::vocabulary;

    /// The labels at `|` in `text`.
    fn at(text: &str) -> Vec<String> {
        let (before, _) = text.split_once('|').expect("a place");
        let line = before.matches('\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .unwrap_or_default()
            .chars()
            .count()
            + 1;
        let (_, found) = complete(&vocabulary(), &text.replace('|', ""), line, column);
        found.into_iter().map(|found| found.label).collect()
    }

    const HEAD: &str = "version = 1\n[[link]]\nends = [\"client\", \"server\"]\n";

    #[test]
    fn tables_and_the_keys_that_a_table_has_not_yet_are_offered() {
        assert!(at(&format!("{HEAD}[[fl|")).contains(&"flow".to_owned()));
        let keys = at("[[flow]]\nfrom = \"client\"\n|");
        assert!(
            keys.contains(&"to".to_owned()) && !keys.contains(&"from".to_owned()),
            "{keys:?}"
        );
        assert_eq!(at("[[flow]]\nfast|"), ["fast_open"]);
        assert_eq!(at("dura|"), ["duration"]);
        assert_eq!(at("[[scenario.flow]]\nfast|"), ["fast_open"]);
    }

    #[test]
    fn elements_and_queues_are_offered_in_lists_over_several_lines() {
        assert_eq!(at("[[link]]\nup = [\"polic|"), ["police"]);
        let list =
            "[[link]]\nup = [\n  \"netem delay 1ms\", # [a comment\n  \"b: rate 5Mbit que|\"\n]";
        assert_eq!(at(list), ["queue"]);
        assert_eq!(
            at("[[link]]\nup = [\"rate 5Mbit queue fq_co|\"]"),
            ["fq_codel"]
        );
        assert!(
            at("[[link]]\nup = \"rate 5Mbit queue fq_codel |\"").contains(&"target".to_owned())
        );
        assert!(at("[[link]]\nup = \"netem |\"").contains(&"delay".to_owned()));
    }

    #[test]
    fn rules_of_boxes_are_completed_where_they_stand() {
        let words = |words: &str| at(&format!("[[link]]\nup = [\"{words}|\"]"));
        assert_eq!(words("fw: mmb udp-bl"), ["udp-block"]);
        assert!(words("mmb ").contains(&"add".to_owned()));
        assert!(!words("mmb ").contains(&"list".to_owned()));
        assert_eq!(words("mmb add tcp-opt-ms"), ["tcp-opt-mss"]);
        assert_eq!(words("mmb add all drop; add tcp-d"), ["tcp-dport"]);
        assert_eq!(words("mmb add !tcp-opt-ms"), ["!tcp-opt-mss"]);
        assert_eq!(at("[[change]]\nto = \"flush; add udp-dp|\""), ["udp-dport"]);
    }

    #[test]
    fn names_of_nodes_and_elements_are_those_of_the_text() {
        let flow = format!("{HEAD}[[flow]]\nfrom = \"|");
        assert_eq!(at(&flow), ["client", "server"]);
        let change = "[[link]]\nname = \"a\"\nends = [\"x\", \"y\"]\nup = [\"b: rate 1Mbit\"]\n[[change]]\ntarget = \"|\"";
        assert_eq!(at(change), ["link/a/up/b"]);
    }

    #[test]
    fn values_that_are_listed_are_offered_with_quotes_where_there_are_none() {
        assert!(at("[[flow]]\necn = \"acc|\"").contains(&"accecn".to_owned()));
        let (_, found) = complete(&vocabulary(), "[[flow]]\ncc = cub", 2, 9);
        assert_eq!(found[0].insert, "\"cubic\"");
        assert!(at("[[flow]]\ncc = \"prague |\"").contains(&"variant".to_owned()));
        assert!(!at("[[flow]]\ncc = \"prague variant |\"").is_empty());
        assert!(at("[[flow]]\nfast_open = |").contains(&"true".to_owned()));
    }

    #[test]
    fn no_place_and_no_text_makes_it_panic() {
        let wild = "[[ü]]\nä = \"ö\\\"\n'''[\n\"|\"x = [[";
        let words = vocabulary();
        for line in 0..8 {
            for column in 0..20 {
                complete(&words, wild, line, column);
                complete(&words, "", line, column);
            }
        }
    }
}
