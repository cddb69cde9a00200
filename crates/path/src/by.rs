//! Different boxes for different classes of packets.

use std::fmt;

use narrows_core::{Change, Element, ElementCounters, Outlet, Packet, Port};
use narrows_units::{Duration, Instant, Parameter, ParameterKind, Value, Word, WordError, Words};
use narrows_wire::ip;

use crate::ElementSpec;
use crate::chain::{Chain, split_chain};
use crate::codepoint::{Dscp, EcnWord};
use crate::kind::{Facts, Kind, NamesFile, Reports};
use crate::site::Site;

/// Brackets within brackets that are read: each level takes some of the stack, and nobody reads
/// more.
const DEEPEST: u32 = 8;

/// Which field of the IP header separates the classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByKey {
    /// The DSCP.
    Dscp,
    /// The ECN codepoint.
    Ecn,
}

/// One class: the values that fall into it, and what its packets pass.
#[derive(Clone, Debug, PartialEq)]
pub struct ByClass {
    /// Raw values of the field.
    pub values: Vec<u8>,
    /// The boxes in the order of travel; none is a plain wire.
    pub chain: Vec<ElementSpec>,
}

/// `by dscp VALUES (CHAIN) … [else (CHAIN)]`, or `by ecn …`.
///
/// VALUES is one value or several with commas; CHAIN is elements separated by
/// `|`, or nothing. A packet of no class passes the chain of `else`, or goes
/// straight on. Each class keeps its own order, not that between classes:
/// `by dscp cs1 (netem delay 5ms) cs2 (netem delay 80ms) else (netem delay 10ms)`.
///
/// Taps and rates are not inside: the one needs a name of its own, the
/// other its own queue in reports.
#[derive(Clone, Debug, PartialEq)]
pub struct BySpec {
    /// The field.
    pub key: ByKey,
    /// The classes in the order written.
    pub classes: Vec<ByClass>,
    /// What packets of no class pass.
    pub otherwise: Vec<ElementSpec>,
}

impl ByKey {
    fn read(self, word: &str) -> Option<u8> {
        match self {
            Self::Dscp => Dscp::parse(word).map(|d| d.0),
            Self::Ecn => EcnWord::parse(word).map(|e| e.0 as u8),
        }
    }

    fn allowed(self) -> &'static str {
        match self {
            Self::Dscp => Dscp::ALLOWED,
            Self::Ecn => EcnWord::ALLOWED,
        }
    }

    fn value_of(self, bytes: &[u8]) -> u8 {
        let class = ip::traffic_class(bytes);
        match self {
            Self::Dscp => class >> 2,
            Self::Ecn => class & 3,
        }
    }

    fn write(self, f: &mut fmt::Formatter<'_>, value: u8) -> fmt::Result {
        match self {
            Self::Dscp => write!(f, "{}", Dscp(value)),
            Self::Ecn => write!(f, "{}", EcnWord(ip::Ecn::from_bits(value))),
        }
    }
}

impl BySpec {
    /// What packets pass, class by class.
    fn chains(&self) -> impl Iterator<Item = &[ElementSpec]> {
        let classes = self.classes.iter().map(|class| class.chain.as_slice());
        classes.chain([self.otherwise.as_slice()])
    }
}

impl Kind for BySpec {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::new(
            "dscp|ecn VALUE[,VALUE …] (ELEMENT | ELEMENT …) …",
            ParameterKind::Words,
            "values of the field, and elements in brackets",
            "",
            "Classes by a field, and what the packets of each pass",
        ),
        Parameter::new(
            "else (ELEMENT | ELEMENT …)",
            ParameterKind::Words,
            "elements in brackets",
            "a plain wire",
            "What packets of no class pass",
        ),
    ];

    fn parse(words: &mut Words<'_>) -> Result<Self, WordError> {
        let word = words.needed("dscp or ecn")?;
        let key = match word.text {
            "dscp" => ByKey::Dscp,
            "ecn" => ByKey::Ecn,
            _ => return Err(word.refused("dscp or ecn")),
        };
        let mut spec = Self {
            key,
            classes: Vec::new(),
            otherwise: Vec::new(),
        };
        let mut taken = [false; 64];
        let mut has_else = false;
        for (label, inner) in groups(words.rest())? {
            let again = || {
                let found = format!("`{}` a second time", label.text);
                WordError::new(label.span(), found, "each class once")
            };
            let chain = parse_chain(inner)?;
            if label.text == "else" {
                if has_else {
                    return Err(again());
                }
                (has_else, spec.otherwise) = (true, chain);
                continue;
            }
            let mut values = Vec::new();
            for text in label.text.split(',') {
                let value = key
                    .read(text)
                    .ok_or_else(|| label.refused(format!("{}; or else", key.allowed())))?;
                if std::mem::replace(&mut taken[usize::from(value)], true) {
                    return Err(again());
                }
                values.push(value);
            }
            spec.classes.push(ByClass { values, chain });
        }
        if spec.classes.is_empty() {
            return Err(words.ended("a class: VALUE (ELEMENT | ELEMENT …)"));
        }
        Ok(spec)
    }

    fn over(_: &ElementSpec, words: &mut Words<'_>) -> Result<Self, WordError> {
        Self::parse(words)
    }

    fn build(&self, site: &Site<'_>) -> Box<dyn Element> {
        let mut class_of = [0u8; 64];
        let mut lanes = vec![lane(&self.otherwise, site, "else")];
        for class in &self.classes {
            let label = class.values.first().map_or(0, |v| *v).to_string();
            for value in &class.values {
                // At most 64 classes, since no value falls into two.
                class_of[usize::from(*value)] = lanes.len() as u8;
            }
            lanes.push(lane(&class.chain, site, &label));
        }
        Box::new(FieldClassifier {
            key: self.key,
            class_of,
            lanes,
            wake: Instant::MAX,
            counters: ElementCounters::default(),
        })
    }

    fn facts(&self) -> Facts<'_> {
        let mut facts = Facts {
            link: None,
            holds_back: false,
            two_way: false,
            node: false,
            translates: false,
            wraps: false,
            sets_ecn: false,
            duplicates: false,
            corrupts: false,
            mtu: None,
            tap: None,
            reports: Reports::Packets,
        };
        // Each element is asked once: asked once for each fact, the work would be multiplied by
        // their number at every level of brackets.
        for inner in self.chains().flatten() {
            let inner = inner.facts();
            facts.holds_back |= inner.holds_back;
            facts.sets_ecn |= inner.sets_ecn;
            facts.duplicates |= inner.duplicates;
            facts.corrupts |= inner.corrupts;
        }
        facts
    }

    fn base_delay(&self, dscp: u8, mtu: u32) -> Duration {
        let along = |chain: &[ElementSpec]| {
            let delays = chain.iter().map(|inner| inner.base_delay(dscp, mtu));
            delays.fold(Duration::ZERO, |sum, delay| sum + delay)
        };
        match self.key {
            ByKey::Dscp => {
                let class = self.classes.iter().find(|c| c.values.contains(&dscp));
                along(class.map_or(&self.otherwise, |c| &c.chain))
            }
            ByKey::Ecn => self.chains().map(along).max().unwrap_or_default(),
        }
    }

    fn file(&mut self) -> Option<&mut dyn NamesFile> {
        None
    }
}

/// The pairs `LABEL (…)` of `rest`, parentheses taken off, with their places.
fn groups(rest: Word<'_>) -> Result<Vec<(Word<'_>, Word<'_>)>, WordError> {
    let (line, base) = (rest.text, rest.start);
    let ended = |allowed: &str| {
        let end = base + line.len();
        WordError::new(end..end, "the end of the line", allowed)
    };
    let mut found = Vec::new();
    let mut at = 0;
    loop {
        at += line[at..].len() - line[at..].trim_start().len();
        if at == line.len() {
            return Ok(found);
        }
        let len = line[at..]
            .find(|c: char| c.is_whitespace() || "()|".contains(c))
            .unwrap_or(line.len() - at);
        let label = Word {
            text: &line[at..at + len],
            start: base + at,
        };
        if label.text.is_empty() {
            let odd = base + at..base + at + 1;
            let found = format!("`{}`", &line[at..at + 1]);
            return Err(WordError::new(odd, found, "a class or else"));
        }
        at += len;
        at += line[at..].len() - line[at..].trim_start().len();
        if !line[at..].starts_with('(') {
            let len = line[at..].find(char::is_whitespace);
            let word = &line[at..len.map_or(line.len(), |n| at + n)];
            if word.is_empty() {
                return Err(ended("`(` and the elements of the class"));
            }
            return Err(WordError::new(
                base + at..base + at + word.len(),
                format!("`{word}`"),
                "`(` and the elements of the class",
            ));
        }
        let mut depth = 0u32;
        let ends = |b: u8| {
            match b {
                b'(' => depth += 1,
                b')' => depth -= 1,
                _ => {}
            }
            depth == 0 || depth > DEEPEST
        };
        let close = line[at..].bytes().position(ends);
        if depth > DEEPEST {
            let odd = at + close.unwrap_or_default();
            return Err(WordError::new(
                base + odd..base + odd + 1,
                "`(`",
                format!("at most {DEEPEST} brackets within each other"),
            ));
        }
        let close = at + close.ok_or_else(|| ended("`)`"))?;
        let inner = Word {
            text: &line[at + 1..close],
            start: base + at + 1,
        };
        found.push((label, inner));
        at = close + 1;
    }
}

fn parse_chain(inner: Word<'_>) -> Result<Vec<ElementSpec>, WordError> {
    if inner.text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let mut chain = Vec::new();
    for (text, start) in split_chain(inner.text) {
        let at = inner.start + start;
        let spec = ElementSpec::parse(text).map_err(|e| e.shifted(at))?;
        if !spec.facts().nests() {
            return Err(WordError::new(
                at..at + text.len(),
                format!("`{text}`"),
                "netem, remark, police or by inside parentheses",
            ));
        }
        chain.push(spec);
    }
    Ok(chain)
}

fn lane(specs: &[ElementSpec], site: &Site<'_>, label: &str) -> Lane {
    let elements = specs.iter().enumerate().map(|(i, spec)| {
        let name = format!("{}/{label}/{i}-{}", site.name, spec.kind());
        spec.build(&Site {
            name: &name,
            ..*site
        })
    });
    Lane {
        chain: Chain::new(elements.collect()),
        wake: Instant::MAX,
    }
}

impl fmt::Display for BySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.key {
            ByKey::Dscp => "by dscp",
            ByKey::Ecn => "by ecn",
        })?;
        for class in &self.classes {
            for (i, value) in class.values.iter().enumerate() {
                f.write_str(if i == 0 { " " } else { "," })?;
                self.key.write(f, *value)?;
            }
            write_chain(f, &class.chain)?;
        }
        if !self.otherwise.is_empty() {
            f.write_str(" else")?;
            write_chain(f, &self.otherwise)?;
        }
        Ok(())
    }
}

fn write_chain(f: &mut fmt::Formatter<'_>, chain: &[ElementSpec]) -> fmt::Result {
    f.write_str(" (")?;
    for (i, spec) in chain.iter().enumerate() {
        if i > 0 {
            f.write_str(" | ")?;
        }
        write!(f, "{spec}")?;
    }
    f.write_str(")")
}

/// One class's chain and when it wants to be woken.
struct Lane {
    chain: Chain,
    /// [`Instant::MAX`] if it does not.
    wake: Instant,
}

/// The running box: packets of each class in their own chain.
pub struct FieldClassifier {
    key: ByKey,
    /// Index into `lanes` for each value of the field.
    class_of: [u8; 64],
    /// Lane 0 is `else`.
    lanes: Vec<Lane>,
    /// The first of the lanes' wakes.
    wake: Instant,
    counters: ElementCounters,
}

impl FieldClassifier {
    /// Lane `i` may want to be woken at another time.
    fn note_wake(&mut self, i: usize) {
        let lane = &mut self.lanes[i];
        let wake = lane.chain.next_wake().unwrap_or(Instant::MAX);
        if std::mem::replace(&mut lane.wake, wake) != wake {
            let wakes = self.lanes.iter().map(|lane| lane.wake);
            self.wake = wakes.fold(Instant::MAX, Instant::min);
        }
    }

    /// Runs `f` on lane `i` and counts what comes out.
    fn run(&mut self, i: usize, out: &mut Outlet<'_>, f: impl FnOnce(&mut Chain, &mut Outlet<'_>)) {
        let before = out.sent.len();
        f(&mut self.lanes[i].chain, out);
        self.note_wake(i);
        for (_, packet) in &out.sent[before..] {
            self.counters.packets_out += 1;
            self.counters.bytes_out += u64::from(packet.len());
        }
    }
}

impl Element for FieldClassifier {
    fn push(&mut self, now: Instant, port: Port, packet: Box<Packet>, out: &mut Outlet<'_>) {
        self.counters.packets_in += 1;
        self.counters.bytes_in += u64::from(packet.len());
        let i = usize::from(self.class_of[usize::from(self.key.value_of(&packet.bytes))]);
        self.run(i, out, |chain, out| chain.push(now, port, packet, out));
    }

    fn next_wake(&self) -> Option<Instant> {
        (self.wake < Instant::MAX).then_some(self.wake)
    }

    fn wake(&mut self, now: Instant, out: &mut Outlet<'_>) {
        for i in 0..self.lanes.len() {
            if self.lanes[i].wake <= now {
                self.run(i, out, |chain, out| chain.wake(now, out));
            }
        }
    }

    /// `VALUE (CHANGE | CHANGE …) …`: changes for the elements of classes, each
    /// class by any of its values, or `else`.
    fn change(&mut self, now: Instant, change: &Change) -> Result<(), WordError> {
        let whole = Word {
            text: change.words.trim_end(),
            start: 0,
        };
        for (label, inner) in groups(whole)? {
            let lane = if label.text == "else" {
                0
            } else {
                match self.key.read(label.text) {
                    Some(value) if self.class_of[usize::from(value)] != 0 => {
                        usize::from(self.class_of[usize::from(value)])
                    }
                    _ => {
                        let found = format!("`{}`", label.text);
                        let allowed = "a class of this element, or else";
                        return Err(WordError::new(label.span(), found, allowed));
                    }
                }
            };
            let words = inner.text.to_owned();
            let chain = &mut self.lanes[lane].chain;
            chain
                .change(now, &Change { words, port: 0 })
                .map_err(|e| e.shifted(inner.start))?;
            self.note_wake(lane);
        }
        Ok(())
    }

    fn counters(&self) -> ElementCounters {
        let mut counters = self.counters;
        for element in self.lanes.iter().flat_map(|lane| &lane.chain.elements) {
            let inner = element.counters();
            counters.dropped += inner.dropped;
            counters.marked += inner.marked;
        }
        counters
    }
}

#[cfg(test)]
mod tests;
