//! Rules as tables for a program of bounded size that runs elsewhere, in a kernel: the masks and
//! keys of the classifier, tests, and changes of 16-bit words. What does not fit is refused by
//! name; what is left does as the [`Middlebox`] does, to the byte.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::action::Action;
use crate::constraint::{Body, Holds, Residual, What};
use crate::layout::layer_bit;
use crate::middlebox::Middlebox;
use crate::rule::Condition;
use crate::shape::Shape;

mod action;
mod named;

pub use action::{ProgramAction, ProgramMapped, ProgramOptionWhat};
use named::{can_name, leaves_the_reading, of_one_segment};

/// Distinct masks, as many as the program has bits for.
const MOST_TABLES: usize = 4096;
/// Tests of a rule besides its mask.
const MOST_TESTS: usize = 8;
/// Times that a loop of a BPF program can run (`BPF_MAX_LOOPS`, include/linux/bpf.h of Linux).
const MOST_STEPS: usize = 1 << 23;

/// Rules in the form of a program's tables. Numbers stand as the machine has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Distinct masks over the window of a packet's headers.
    pub masks: Vec<[u8; 64]>,
    /// Bytes of the window that say which masks can match, each with 256 rows of bits, one for
    /// each mask.
    pub probe_bytes: Vec<(u8, Vec<u64>)>,
    /// What a masked window is, for which mask, and the first rule that asks for it.
    pub keys: Vec<([u8; 64], u32, u32)>,
    /// The rules, from 0.
    pub rules: Vec<ProgramRule>,
    /// Their tests.
    pub tests: Vec<ProgramTest>,
    /// What they do.
    pub actions: Vec<ProgramAction>,
    /// No packet takes more steps: words of masks, masks, and rules that ask for the same.
    pub steps: u32,
    /// Whether a rule looks at TCP options or changes them.
    pub reads_options: bool,
    /// Whether packets of each way are handled: up, down.
    pub enabled: [bool; 2],
    /// Whether a rule is stateful.
    pub stateful: bool,
    /// Whether a rule is about frames that are not IP.
    pub frames: bool,
    /// Whether packets of a connection may get other addresses, ports or numbers.
    pub translates: bool,
    /// Connections at a time.
    pub most_connections: usize,
    /// The state of the generator of all draws.
    pub draws: u128,
    /// The rules, from 0, that name something which differs between the segments of a bundle,
    /// and what they name.
    pub of_one_segment: Vec<(usize, &'static str)>,
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramRule {
    /// The next rule that asks for the same window; [`LAST`](Self::LAST) ends.
    pub next: u32,
    /// What it does.
    pub action: u32,
    /// Its first test.
    pub test: u32,
    /// How many it has.
    pub tests: u16,
    /// Whether it is stateful.
    pub stateful: bool,
    /// Whether it is about frames that are not IP.
    pub frames: bool,
}

impl ProgramRule {
    /// Ends the rules of a key.
    pub const LAST: u32 = u32::MAX;
}

/// What a test looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ProgramWhat {
    /// Bits of the window.
    Number = 0,
    /// That the layer is there.
    Present = 1,
    /// That the layer has payload.
    Payload = 2,
    /// That there is a TCP option.
    Option = 3,
    /// The number that it holds.
    OptionNumber = 4,
}

/// A test of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProgramTest {
    /// What it looks at.
    pub what: ProgramWhat,
    /// Whether it holds where it would not.
    pub negated: bool,
    /// Bits of the layers that have to be there.
    pub layer: u8,
    /// How numbers compare.
    pub condition: Condition,
    /// First bit in the window.
    pub at: u16,
    /// Bits.
    pub width: u8,
    /// Kind of option; `None` for any.
    pub kind: Option<u8>,
    /// Bits of the number that count.
    pub mask: u128,
    /// What they are compared with.
    pub value: u128,
}

/// Something that the program cannot do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The rule, from 1, as it is written; `None` if it is about all of them.
    pub rule: Option<(usize, String)>,
    /// What of it, and why.
    pub what: String,
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((number, line)) = &self.rule {
            write!(f, "rule {number}, `{line}`: ")?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for Unsupported {}

impl Middlebox {
    /// The box's rules as a program's tables.
    ///
    /// # Errors
    /// The first rule that has something which the program cannot do: contents of payloads,
    /// conditions on contents of options that are no numbers, extension headers by kind,
    /// checksums above IP, beside connections what says how a packet is read; or more masks,
    /// tests or changes than it has room for.
    pub fn program(&self) -> Result<Program, Unsupported> {
        let mut program = Program {
            rules: Vec::with_capacity(self.rules().len()),
            enabled: self.handles(),
            stateful: self.loaded().any(|(rule, _)| rule.is_stateful()),
            translates: self.translates(),
            most_connections: self.settings().most_connections,
            draws: self.rng().state(),
            ..Program::default()
        };
        let mut actions: BTreeMap<ProgramAction, u32> = BTreeMap::new();
        let mut shape: Option<&Arc<Shape>> = None;
        let mut of_segment: Vec<&'static str> = Vec::new();
        let mut last: Option<(*const Action, u32)> = None;
        for (number, (rule, action)) in self.loaded().enumerate() {
            let refused = |what: String| Unsupported {
                rule: Some((number + 1, rule.to_string())),
                what,
            };
            // What rules name is said by their shape, and long lists have one.
            if !shape.is_some_and(|shape| Arc::ptr_eq(shape, rule.shape())) {
                can_name(rule).map_err(refused)?;
                if program.stateful {
                    leaves_the_reading(rule).map_err(refused)?;
                }
                of_segment = of_one_segment(rule).collect();
                shape = Some(rule.shape());
            }
            let of_segment = of_segment.iter().map(|what| (number, *what));
            program.of_one_segment.extend(of_segment);
            // Long lists share one action.
            let place = match last {
                Some((before, place)) if std::ptr::eq(before, action) => place,
                _ => {
                    let compiled = ProgramAction::of(action).map_err(refused)?;
                    program.reads_options |= action.reads_options();
                    let next = program.actions.len() as u32;
                    *actions.entry(compiled).or_insert_with_key(|new| {
                        program.actions.push(new.clone());
                        next
                    })
                }
            };
            last = Some((action, place));
            program.rules.push(ProgramRule {
                next: ProgramRule::LAST,
                action: place,
                test: 0,
                tests: 0,
                stateful: rule.is_stateful(),
                frames: rule.is_about_frames(),
            });
            program.frames |= rule.is_about_frames();
        }
        self.tables_into(&mut program)?;
        Ok(program)
    }

    fn tables_into(&self, program: &mut Program) -> Result<(), Unsupported> {
        let classifier = self.classifier();
        let tables = classifier.tables();
        if tables.len() > MOST_TABLES {
            let what = format!(
                "the rules have {} distinct masks; the program has room for {MOST_TABLES}",
                tables.len()
            );
            return Err(Unsupported { rule: None, what });
        }
        let mut steps = tables.len().div_ceil(64) + 1;
        for (number, table) in tables.iter().enumerate() {
            program.masks.push(table.mask);
            let mut longest = 0;
            for (key, rules) in classifier.keyed(table) {
                let mut before: Option<usize> = None;
                longest = longest.max(rules.len());
                for (rule, range) in rules {
                    let at = rule as usize;
                    match before {
                        None => program.keys.push((key, number as u32, rule)),
                        Some(before) => program.rules[before].next = rule,
                    }
                    before = Some(at);
                    let mut tests: Vec<ProgramTest> = Vec::new();
                    if let (Some((least, most)), Some(field)) = (range, table.range) {
                        tests.extend(within(field, least, most));
                    }
                    for residual in classifier.residuals(rule) {
                        tests.push(ProgramTest::of(residual));
                    }
                    if tests.len() > MOST_TESTS {
                        let rule = self.rules().nth(at).map(|(rule, _)| rule.to_string());
                        return Err(Unsupported {
                            rule: rule.map(|line| (at + 1, line)),
                            what: format!(
                                "it has more than {MOST_TESTS} conditions other than equalities"
                            ),
                        });
                    }
                    program.rules[at].test = program.tests.len() as u32;
                    program.rules[at].tests = tests.len() as u16;
                    program.reads_options |= tests.iter().any(ProgramTest::is_of_option);
                    program.tests.extend(tests);
                }
            }
            steps += 1 + longest;
        }
        program.steps = steps_of_a_loop(steps)?;
        program.probe_bytes = classifier
            .probe_bytes()
            .map(|(at, rows)| (at as u8, rows.to_vec()))
            .collect();
        Ok(())
    }
}

/// So many steps, if a loop can take them.
fn steps_of_a_loop(steps: usize) -> Result<u32, Unsupported> {
    if steps > MOST_STEPS {
        let what = format!("more than {MOST_STEPS} rules ask for the same values");
        return Err(Unsupported { rule: None, what });
    }
    Ok(steps as u32)
}

/// That a field of the window is in a range, ends included.
fn within((at, width): (usize, u8), least: u64, most: u64) -> [ProgramTest; 2] {
    [(Condition::AtLeast, least), (Condition::AtMost, most)].map(|(condition, value)| ProgramTest {
        what: ProgramWhat::Number,
        negated: false,
        layer: 0,
        condition,
        at: at as u16,
        width,
        kind: None,
        mask: crate::field::most(width),
        value: value.into(),
    })
}

impl ProgramTest {
    fn of(residual: &Residual) -> Self {
        let mut test = Self {
            what: ProgramWhat::Present,
            negated: residual.negated,
            layer: layer_bit(residual.layer),
            condition: Condition::Equal,
            at: 0,
            width: 0,
            kind: None,
            mask: 0,
            value: 0,
        };
        match &residual.what {
            What::Number { at, width, holds } => {
                test.what = ProgramWhat::Number;
                test.at = *at as u16;
                test.compare(*width, *holds);
            }
            What::Payload(_) => test.what = ProgramWhat::Payload,
            What::Option { kind, body } => {
                test.what = ProgramWhat::Option;
                test.kind = *kind;
                if let Body::Number { width, holds } = body {
                    test.what = ProgramWhat::OptionNumber;
                    test.compare(*width, *holds);
                }
            }
            What::Layer | What::Extension(_) => {}
        }
        test
    }

    fn compare(&mut self, width: u8, holds: Holds) {
        self.width = width;
        self.condition = holds.condition;
        self.mask = holds.mask;
        self.value = holds.value;
    }

    fn is_of_option(&self) -> bool {
        matches!(self.what, ProgramWhat::Option | ProgramWhat::OptionNumber)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::commands;
    use crate::middlebox::Settings;
    use narrows_units::Rng;

    fn program(text: &str) -> Result<Program, Unsupported> {
        let mut middlebox = Middlebox::new(Settings::default(), Rng::for_name(1, "box"));
        middlebox.apply(&commands(text).unwrap()).unwrap();
        middlebox.program()
    }

    #[test]
    fn what_the_program_cannot_do_is_refused_by_name() {
        for (text, what) in [
            ("add-stateful all mod ip-proto 47", "`ip-proto`"),
            ("add tcp-opt-sack x00 drop", "`tcp-opt-sack`"),
            ("add udp-payload x00 drop", "`udp-payload`"),
            (
                "add udp-dport 53 mod udp-payload x00",
                "`mod udp-payload x00`",
            ),
            ("add ip6-eh-routing drop", "`ip6-eh-routing`"),
            ("add tcp-checksum 0 drop", "`tcp-checksum`"),
            ("add udp-dport 5 mod udp-checksum 0", "`udp-checksum`"),
        ] {
            let refused = program(&format!("add all mod ip-ttl 3\n{text}")).unwrap_err();
            let line = refused.to_string();
            assert!(line.starts_with("rule 2, `add"), "{line}");
            assert!(line.contains(what), "{line}");
        }
        let many = "ip-ttl != 1 ".repeat(9);
        let line = program(&format!("add {many} drop"))
            .unwrap_err()
            .to_string();
        assert!(line.contains("more than 8 conditions"), "{line}");
    }

    #[test]
    fn no_packet_takes_more_steps_than_a_loop_can() {
        assert_eq!(steps_of_a_loop(MOST_STEPS), Ok(1 << 23));
        let refused = steps_of_a_loop(MOST_STEPS + 1).unwrap_err().to_string();
        assert_eq!(refused, "more than 8388608 rules ask for the same values");
    }

    #[test]
    fn what_differs_between_segments_of_a_bundle_is_named() {
        let text = "add tcp-syn drop\nadd tcp-fin mod ip-id 3\nadd all drop 10";
        let program = program(text).unwrap();
        let expected = [(1, "tcp-fin"), (1, "ip-id"), (2, "drop RATE")];
        assert_eq!(program.of_one_segment, expected);
    }

    #[test]
    fn rules_of_one_mask_share_a_table_and_of_one_key_a_chain() {
        let text = "add tcp-dport 80 mod tcp-dport 8080
            add tcp-dport 80 ip-ttl != 3 drop
            add tcp-dport 81 drop
            add tcp-dport 80 drop";
        let program = program(text).unwrap();
        assert_eq!((program.masks.len(), program.keys.len()), (2, 3));
        let next: Vec<_> = program.rules.iter().map(|rule| rule.next).collect();
        let last = ProgramRule::LAST;
        assert_eq!(next, [3, last, last, last]);
        // The rule about the TTL has IPv4 in its mask.
        assert_eq!(program.rules[1].tests, 1);
        assert_eq!(program.actions.len(), 2, "three rules do the same");
        let set = program.actions[0].sets[0];
        assert_eq!((set.from_ip, set.at, set.keep), (0, 2, [0, 0]));
        assert_eq!(set.value, 8080u16.to_be_bytes());
    }
}
