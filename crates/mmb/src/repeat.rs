//! Lines that repeat the words of a line before them, but for numbers: a file of a million rules
//! is one rule in a million variants. What such a line means is known without reading its words
//! again.

use std::sync::Arc;

use narrows_units::Word;

use crate::field::Field;
use crate::recent::Recent;
use crate::rule::Rule;
use crate::shape::Shape;
use crate::value::Value;

/// A number of a line: what stands before it, which number of the rule it is, of which field, and
/// the length of its prefix, if it is one.
#[derive(Debug)]
struct Piece {
    before: Box<str>,
    place: usize,
    field: Field,
    prefix: Option<u8>,
}

/// A line that was read.
#[derive(Debug)]
struct Pattern {
    shape: Arc<Shape>,
    numbers: Vec<u128>,
    pieces: Vec<Piece>,
    end: Box<str>,
}

/// The last lines that were read word by word.
#[derive(Debug, Default)]
pub(crate) struct Patterns {
    known: Recent<Pattern>,
    numbers: Vec<u128>,
}

/// Words that begin with a digit are read as numbers wherever a constraint may have one: no
/// field, condition or target begins so.
fn is_plain(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

impl Pattern {
    /// Puts the numbers of `line` into `numbers`, if it is one of this pattern.
    fn read(&self, line: &str, numbers: &mut Vec<u128>) -> Option<()> {
        numbers.clone_from(&self.numbers);
        let mut rest = line;
        for piece in &self.pieces {
            rest = rest.strip_prefix(&*piece.before)?;
            let len = rest.bytes().position(|b| b.is_ascii_whitespace());
            let (word, after) = rest.split_at(len.unwrap_or(rest.len()));
            let value = Value::read(piece.field, word).filter(|_| is_plain(word))?;
            numbers[piece.place] = match (value, piece.prefix) {
                (Value::Number(n), None) => n,
                (Value::Prefix { address, length }, Some(known)) if length == known => address,
                _ => return None,
            };
            rest = after;
        }
        (rest.trim_end() == &*self.end).then_some(())
    }
}

impl Patterns {
    /// The rule of `line`, if it repeats one that was learnt.
    pub(crate) fn read(&mut self, line: &str) -> Option<Rule> {
        let Self { known, numbers } = self;
        let pattern = known
            .iter()
            .find(|pattern| pattern.read(line, numbers).is_some())?;
        Some(Rule::of(Arc::clone(&pattern.shape), numbers))
    }

    /// Learns the line of `rule`, of whose numbers these are the words. If one of the same shape
    /// is known, the rule shares it.
    pub(crate) fn learn(&mut self, line: &str, rule: &mut Rule, words: &[Word<'_>]) {
        let same = |known: &&Pattern| known.shape == *rule.shape();
        if let Some(shape) = self.known.iter().find(same).map(|known| &known.shape) {
            rule.share(shape);
        }
        let compared = rule.constraints().filter_map(|mut constraint| {
            let field = constraint.named.field;
            let prefix = constraint.prefix();
            Some((field, prefix, *constraint.number_mut()?))
        });
        let mut pattern = Pattern {
            shape: Arc::clone(rule.shape()),
            numbers: Vec::new(),
            pieces: Vec::new(),
            end: "".into(),
        };
        let mut at = 0;
        for ((place, (field, prefix, number)), word) in compared.enumerate().zip(words) {
            pattern.numbers.push(number);
            if is_plain(word.text) {
                pattern.pieces.push(Piece {
                    before: line[at..word.start].into(),
                    place,
                    field,
                    prefix,
                });
                at = word.span().end;
            }
        }
        pattern.end = line[at..].trim_end().into();
        self.known.push(pattern);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_units::Words;

    /// Patterns that were learnt from these lines, and their rules.
    fn learnt(lines: &[&str]) -> (Patterns, Vec<Rule>) {
        let mut patterns = Patterns::default();
        let read = |line: &&str| {
            let mut words = Words::new(line);
            let stateful = words.take().unwrap().text == "add-stateful";
            let mut numbers = Vec::new();
            let mut rule = Rule::parse_after_add(stateful, &mut words, &mut numbers).unwrap();
            patterns.learn(line, &mut rule, &numbers);
            rule
        };
        let rules = lines.iter().map(read).collect();
        (patterns, rules)
    }

    #[test]
    fn a_line_that_differs_in_numbers_alone_repeats_one_before_it() {
        let (mut patterns, _) = learnt(&[
            "add ip-saddr 10.0.0.0/8 ip-proto tcp tcp-dport 80 drop",
            "add ip-saddr 10.0.0.1 udp-dport x50 drop",
        ]);
        for line in [
            "add ip-saddr 10.0.0.0/8 ip-proto tcp tcp-dport 80 drop",
            "add ip-saddr 11.0.0.0/8 ip-proto tcp tcp-dport 443 drop",
            "add ip-saddr 11.0.0.9 udp-dport x50 drop\n",
        ] {
            let rule = patterns.read(line).expect(line);
            assert_eq!(rule, Rule::parse(line).unwrap());
        }
        for line in [
            "add ip-saddr 10.0.0.0/9 ip-proto tcp tcp-dport 80 drop",
            "add ip-saddr 10.0.0.0 ip-proto tcp tcp-dport 80 drop",
            "add ip-saddr 10.0.0.0/8 ip-proto udp tcp-dport 80 drop",
            "add ip-saddr 10.0.0.0/8 ip-proto tcp tcp-dport x50 drop",
            "add ip-saddr 10.0.0.0/8 ip-proto tcp tcp-dport 70000 drop",
            "add ip-saddr 10.0.0.0/8 ip-proto tcp tcp-dport 80 accept",
            "add ip-saddr 10.0.0.1/8 udp-dport x50 drop",
            "add ip-saddr self udp-dport x50 drop",
            "add ip-saddr 10.0.0.1 udp-dport x51 drop",
        ] {
            assert_eq!(patterns.read(line), None, "{line}");
        }
    }

    #[test]
    fn rules_that_differ_in_numbers_alone_share_their_shape() {
        let (mut patterns, rules) = learnt(&[
            "add ip-saddr 10.0.0.1 tcp-dport 80 drop",
            "add ip-saddr   10.0.0.2 tcp-dport 81 drop",
            "add ip-saddr 10.0.0.3 tcp-dport 82 accept",
        ]);
        let share = |a: &Rule, b: &Rule| Arc::ptr_eq(a.shape(), b.shape());
        assert!(share(&rules[0], &rules[1]));
        assert!(!share(&rules[0], &rules[2]));
        let read = patterns.read("add ip-saddr 10.0.0.4 tcp-dport 83 drop");
        assert!(share(&rules[0], &read.unwrap()));
    }
}
