//! A rule: which packets it is about, and what becomes of them.

use std::fmt::{self, Display};
use std::sync::Arc;

use crate::field::{Field, Layer, Takes};
use crate::shape::{Numbers, Shape};
use crate::value::Value;

/// A field as a rule names it: of some, which option or extension header is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named {
    /// The field.
    pub field: Field,
    /// Kind of option or extension header, where the field leaves it open.
    pub kind: Option<u8>,
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.field.name())?;
        match self.kind {
            Some(kind) => write!(f, " {kind}"),
            None => Ok(()),
        }
    }
}

/// How a field's value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `==`, which need not be written.
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `>`
    Greater,
    /// `<=`
    AtMost,
    /// `>=`
    AtLeast,
}

/// Conditions as they are written.
pub(crate) const CONDITIONS: [(&str, Condition); 6] = [
    ("==", Condition::Equal),
    ("!=", Condition::NotEqual),
    ("<", Condition::Less),
    (">", Condition::Greater),
    ("<=", Condition::AtMost),
    (">=", Condition::AtLeast),
];

impl Condition {
    /// Whether it holds for the order of a field's value to that of the rule.
    pub(crate) fn holds(self, order: std::cmp::Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::Greater => order.is_gt(),
            Self::AtMost => order.is_le(),
            Self::AtLeast => order.is_ge(),
        }
    }
}

/// What a constraint asks of its field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    /// That it is there; of a field of one bit, that it is set; of one that stands for a
    /// value, that it has it.
    Alone,
    /// That it is there and compares so with the value.
    Is(Condition, Value),
}

/// One of the constraints that all have to hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// Whether it holds where the test does not; so it does where the field is absent.
    pub negated: bool,
    /// About which field.
    pub named: Named,
    /// What is asked of it.
    pub test: Test,
}

/// Which TCP options are removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strip {
    /// All of them.
    All,
    /// This one.
    This(Named),
    /// All but this one and those of further such targets of the rule.
    AllBut(Named),
}

/// The chance of a drop: hundredths of a percent, up to 10 000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DropRate(pub u16);

impl DropRate {
    /// Every packet.
    pub const ALWAYS: Self = Self(10_000);

    /// A number of percent with up to two decimals.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_suffix('%').unwrap_or(text);
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(fraction) || fraction.len() > 2 {
            return None;
        }
        let tenths: u16 = if fraction.len() == 1 { 10 } else { 1 };
        let whole: u16 = whole.parse().ok()?;
        let rate = whole.checked_mul(100)? + fraction.parse::<u16>().ok()? * tenths;
        (rate <= Self::ALWAYS.0).then_some(Self(rate))
    }
}

impl fmt::Display for DropRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 100, self.0 % 100);
        match (fraction, fraction % 10) {
            (0, _) => write!(f, "{whole}"),
            (_, 0) => write!(f, "{whole}.{}", fraction / 10),
            _ => write!(f, "{whole}.{fraction:02}"),
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// `mod`: a field gets this value where it is there. None of a field that stands for
    /// its value.
    Set(Named, Option<Value>),
    /// `add`: a TCP option with what it holds is appended.
    Add(Named, Option<Value>),
    /// `strip`: TCP options are removed.
    Strip(Strip),
    /// `drop`
    Drop(DropRate),
    /// `accept`: drops of later rules do not count.
    Accept,
    /// `map`: packets of the connection get this value, those of the other direction the
    /// one that it stands for.
    Map(Field, Value),
    /// `shuffle`: the same with a value that is drawn.
    Shuffle(Field),
}

/// A rule. It prints as it is written, in one spelling.
///
/// Files have millions of them, which say the same of different addresses and ports: such rules
/// share all but their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    shape: Arc<Shape>,
    numbers: Numbers,
}

// A million rules are a million of these.
const _: () = assert!(size_of::<Rule>() <= 32);

impl Rule {
    /// A rule about packets for which all of `constraints` hold. If it is `stateful`, its targets
    /// are for whole connections, which it is enough that one packet matches.
    pub fn new(stateful: bool, mut constraints: Vec<Constraint>, targets: Vec<Target>) -> Self {
        let numbers = constraints.iter_mut().filter_map(Constraint::number_mut);
        let numbers: Vec<u128> = numbers.map(std::mem::take).collect();
        let shape = Shape {
            stateful,
            constraints,
            targets,
        };
        Self::of(Arc::new(shape), &numbers)
    }

    /// The rule of that shape with these numbers, as many as the shape has places for.
    pub(crate) fn of(shape: Arc<Shape>, numbers: &[u128]) -> Self {
        Self {
            shape,
            numbers: Numbers::of(numbers),
        }
    }

    /// Whether its targets are for whole connections.
    pub fn is_stateful(&self) -> bool {
        self.shape.stateful
    }

    /// Which packets; all of them if there are none.
    pub fn constraints(&self) -> impl ExactSizeIterator<Item = Constraint> {
        let mut place = 0;
        self.shape.constraints.iter().map(move |constraint| {
            let mut constraint = constraint.clone();
            if let Some(number) = constraint.number_mut() {
                *number = self.numbers.get(place);
                place += 1;
            }
            constraint
        })
    }

    /// Whether it is about frames that are not IP: whether it names their type.
    pub(crate) fn is_about_frames(&self) -> bool {
        let mut constraints = self.shape.constraints.iter();
        constraints.any(|constraint| constraint.named.field.layer() == Layer::Frame)
    }

    /// What becomes of them, in this order.
    pub fn targets(&self) -> &[Target] {
        &self.shape.targets
    }

    /// All of it but its numbers.
    pub(crate) fn shape(&self) -> &Arc<Shape> {
        &self.shape
    }

    /// Its numbers, in the order of the constraints that have one.
    pub(crate) fn numbers(&self) -> &Numbers {
        &self.numbers
    }

    /// The same with a shape that is equal to its own.
    pub(crate) fn share(&mut self, shape: &Arc<Shape>) {
        debug_assert_eq!(self.shape, *shape);
        self.shape = Arc::clone(shape);
    }
}

/// Writes a field and its value, if it has one.
fn write_set(f: &mut fmt::Formatter<'_>, named: Named, value: Option<&Value>) -> fmt::Result {
    named.fmt(f)?;
    if let Some(value) = value {
        f.write_str(" ")?;
        value.write(named.field, f)?;
    }
    Ok(())
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.negated {
            f.write_str("! ")?;
        }
        self.named.fmt(f)?;
        match &self.test {
            Test::Alone => Ok(()),
            Test::Is(condition, value) => {
                f.write_str(" ")?;
                if *condition != Condition::Equal {
                    let word = CONDITIONS.iter().find(|(_, known)| known == condition);
                    write!(f, "{} ", word.map_or("", |(word, _)| word))?;
                }
                value.write(self.named.field, f)
            }
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Set(named, value) => {
                f.write_str("mod ")?;
                write_set(f, *named, value.as_ref())
            }
            Self::Add(named, value) => {
                f.write_str("add ")?;
                write_set(f, *named, value.as_ref())
            }
            Self::Strip(Strip::All) => f.write_str("strip all"),
            Self::Strip(Strip::This(named)) => write!(f, "strip {named}"),
            Self::Strip(Strip::AllBut(named)) => write!(f, "strip ! {named}"),
            Self::Drop(DropRate::ALWAYS) => f.write_str("drop"),
            Self::Drop(rate) => write!(f, "drop {rate}"),
            Self::Accept => f.write_str("accept"),
            Self::Map(field, value) => {
                write!(f, "map {} ", field.name())?;
                value.write(*field, f)
            }
            Self::Shuffle(field) => write!(f, "shuffle {}", field.name()),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_stateful() {
            "add-stateful"
        } else {
            "add"
        })?;
        if self.constraints().len() == 0 {
            f.write_str(" all")?;
        }
        for constraint in self.constraints() {
            write!(f, " {constraint}")?;
        }
        for target in self.targets() {
            write!(f, " {target}")?;
        }
        Ok(())
    }
}

impl Constraint {
    /// The number or the address that its field is compared with.
    pub(crate) fn number_mut(&mut self) -> Option<&mut u128> {
        match &mut self.test {
            Test::Is(_, Value::Number(n) | Value::Prefix { address: n, .. }) => Some(n),
            _ => None,
        }
    }

    /// The length of the prefix that its field is compared with.
    pub(crate) fn prefix(&self) -> Option<u8> {
        match self.test {
            Test::Is(_, Value::Prefix { length, .. }) => Some(length),
            _ => None,
        }
    }

    /// What it is when the meaning of a field alone is spelled out: that of a flag is `== 1`,
    /// that of a codepoint its value.
    pub(crate) fn comparison(&self) -> Option<(Condition, Value)> {
        match (&self.test, self.named.field.row().takes) {
            (Test::Is(condition, value), _) => Some((*condition, value.clone())),
            (Test::Alone, Takes::Flag) => Some((Condition::Equal, Value::Number(1))),
            (Test::Alone, Takes::Constant(n)) => Some((Condition::Equal, Value::Number(n.into()))),
            (Test::Alone, _) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_has_no_number_of_a_comparison_and_the_rule_has_them_in_their_order() {
        let rule = |text: &str| Rule::parse(text).unwrap();
        let one = rule("add ip-saddr 10.0.0.0/8 tcp-syn tcp-dport > 80 drop");
        let other = rule("add ip-saddr 11.0.0.0/8 tcp-syn tcp-dport > 81 drop");
        assert_ne!(one, other);
        assert_eq!(one.shape(), other.shape());
        let numbers = |rule: &Rule| [0, 1].map(|place| rule.numbers().get(place));
        assert_eq!(numbers(&one), [0x0a00_0000, 80]);
        assert_eq!(numbers(&other), [0x0b00_0000, 81]);
        for different in [
            "add ip-saddr 10.0.0.0/9 tcp-syn tcp-dport > 80 drop",
            "add ip-saddr 10.0.0.0/8 tcp-syn tcp-dport 80 drop",
            "add ip-saddr 10.0.0.0/8 tcp-syn tcp-dport > 80 accept",
            "add-stateful ip-saddr 10.0.0.0/8 tcp-syn tcp-dport > 80 drop",
        ] {
            assert_ne!(rule(different).shape(), one.shape(), "{different}");
        }
    }

    #[test]
    fn a_rate_is_written_with_the_decimals_that_it_needs() {
        for (rate, text) in [
            (0, "0"),
            (5, "0.05"),
            (50, "0.5"),
            (1_200, "12"),
            (1_250, "12.5"),
            (1_205, "12.05"),
            (10_000, "100"),
        ] {
            assert_eq!(DropRate(rate).to_string(), text);
            assert_eq!(DropRate::parse(text), Some(DropRate(rate)));
        }
    }
}
