//! What can stand next in a command that is being typed.

use narrows_units::Words;

use crate::command::{ADDS, Command};
use crate::field::{ETHER_TYPES, Field, PROTOCOLS, Takes};
use crate::parse::TARGETS;
use crate::rule::CONDITIONS;

/// The words that can stand where `line` ends: those that go on with its last word, or, where
/// it ends in a blank, that may follow. With the place in `line` at which they start.
pub fn complete(line: &str) -> (usize, Vec<&'static str>) {
    let start = line.rfind(char::is_whitespace).map_or(0, |at| {
        at + line[at..].chars().next().map_or(0, char::len_utf8)
    });
    let (before, last) = line.split_at(start);
    let (bang, last) = match last.strip_prefix('!') {
        Some(rest) => (1, rest),
        None => (0, last),
    };
    let mut candidates = next(before, bang == 1);
    candidates.retain(|word| word.starts_with(last));
    (start + bang, candidates)
}

fn fields(takes: impl Fn(Field) -> bool) -> Vec<&'static str> {
    Field::all()
        .filter(|f| takes(*f))
        .map(Field::name)
        .collect()
}

/// The words that may follow `before`.
fn next(before: &str, bang: bool) -> Vec<&'static str> {
    let mut words = Words::new(before);
    words.take_if("mmb");
    let Some(mut command) = words.take() else {
        return Command::STARTS.to_vec();
    };
    if command.text == "insert" && words.take().is_some() {
        match words.take() {
            Some(word) => command = word,
            None => return ADDS.to_vec(),
        }
    }
    match command.text {
        "add" | "add-stateless" | "add-stateful" => {}
        "show" if words.peek().is_none() => return vec!["tables", "connections"],
        "show" => return vec!["verbose"],
        _ => return Vec::new(),
    }
    let stateful = command.text == "add-stateful";
    let targets = TARGETS
        .iter()
        .filter(|t| stateful || !matches!(**t, "map" | "shuffle"));
    let (mut last, mut in_targets) = ("", false);
    while let Some(word) = words.take() {
        in_targets |= TARGETS.contains(&word.text);
        last = word.text;
    }
    let options = |field: Field| field.is_option();
    match last {
        "" => {
            let mut all = fields(|_| true);
            all.extend(["all", "!"]);
            return all;
        }
        "mod" => return fields(Field::can_be_set),
        "add" => return fields(options),
        "map" => return fields(Field::can_be_mapped),
        "shuffle" => return fields(Field::can_be_shuffled),
        "strip" => {
            let mut all = fields(options);
            if !bang {
                all.extend(["all", "!"]);
            }
            return all;
        }
        "!" if in_targets => return fields(options),
        "!" => return fields(|_| true),
        _ => {}
    }
    let mut all = Vec::new();
    if let Some(field) = Field::named(last) {
        match field.row().takes {
            Takes::Protocol => all.extend(PROTOCOLS.iter().map(|(name, _)| *name)),
            Takes::EtherType => all.extend(ETHER_TYPES.iter().map(|(name, _)| *name)),
            Takes::Version => all.extend(["ip4", "ip6"]),
            Takes::Address4 | Takes::Address6 => all.push("self"),
            _ => {}
        }
        if !in_targets {
            all.extend(CONDITIONS.iter().map(|(word, _)| *word));
        }
    }
    if !in_targets && last != "all" {
        all.extend(fields(|_| true));
        all.push("!");
    }
    all.extend(targets);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_completed_by_what_stands_before_them() {
        assert_eq!(complete("mmb fl"), (4, vec!["flush"]));
        assert_eq!(complete("show "), (5, vec!["tables", "connections"]));
        assert_eq!(
            complete("add tcp-opt-m").1,
            ["tcp-opt-mss", "tcp-opt-mptcp"]
        );
        assert_eq!(
            complete("add all strip !tcp-opt-ms"),
            (15, vec!["tcp-opt-mss"])
        );
        assert!(complete("insert ").1.is_empty(), "a number");
        assert_eq!(complete("insert 2 add-statef").1, ["add-stateful"]);
        assert_eq!(complete("insert 2 add-stateful all ma").1, ["map"]);
        assert_eq!(complete("add all m").1, ["mod"]);
        assert_eq!(complete("add-stateful all m").1, ["mod", "map"]);
        assert_eq!(complete("add-stateful all shuffle ip-").1, ["ip-id"]);
        assert!(complete("add ip-proto ").1.contains(&"tcp"));
        assert!(complete("add all mod ip-proto t").1.contains(&"tcp"));
        assert!(complete("list ").1.is_empty());
        assert_eq!(complete("add all drop\u{a0}").0, 14);
    }

    #[test]
    fn what_may_follow_depends_on_all_words_before_it() {
        for (line, offered, not) in [
            ("show tables ", &["verbose"][..], &["tables"][..]),
            ("add ", &["tcp-dport", "all", "!"], &["drop", "=="]),
            ("add all ", &["drop", "strip"], &["tcp-dport", "!", "map"]),
            (
                "add ip-ttl ",
                &["==", "<=", "tcp-dport", "!", "drop"],
                &["self"],
            ),
            ("add tcp-syn 1 ", &["tcp-fin", "!", "drop"], &["=="]),
            ("add net-proto ", &["ip4", "ip6"], &["tcp"]),
            ("add eth-type ", &["arp", "qinq"], &["tcp"]),
            ("add ip-saddr ", &["self"], &["tcp"]),
            ("add ip6-daddr ", &["self"], &["tcp"]),
            ("add ! ", &["ip-ttl", "tcp-opt-mss"], &["all", "drop"]),
            ("add all mod ", &["ip-ttl"], &["in", "all", "drop"]),
            ("add all add ", &["tcp-opt-mss"], &["ip-ttl", "all"]),
            ("add all strip ", &["tcp-opt-mss", "all", "!"], &["ip-ttl"]),
            ("add all strip !", &["tcp-opt-mss"], &["ip-ttl", "all", "!"]),
            ("add all strip ! ", &["tcp-opt-mss"], &["ip-ttl", "all"]),
            ("add-stateful all map ", &["ip-saddr"], &["ip-ttl", "drop"]),
            ("add all mod ip-ttl ", &["drop"], &["==", "tcp-dport", "!"]),
            ("add all drop ", &["accept"], &["tcp-dport", "!"]),
        ] {
            let words = complete(line).1;
            for word in offered {
                assert!(words.contains(word), "`{word}` may follow `{line}`");
            }
            for word in not {
                assert!(!words.contains(word), "`{word}` cannot follow `{line}`");
            }
        }
    }
}
