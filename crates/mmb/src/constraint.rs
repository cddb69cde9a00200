//! Constraints as the classifier uses them: an equality of the window, a range of one field,
//! or what is looked up in the packet.

use narrows_core::{DOWN, Port, UP};

use crate::action::option_kind;
use crate::field::{Field, Layer, Place, most};
use crate::layout::{WINDOW, Window, extensions, in_window, read_bits, require_layer, write_bits};
use crate::rule::{Condition, Constraint, Test};
use crate::structs::Reading;
use crate::value::{Value, prefix_mask};

/// What names in values mean at a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Names<'a> {
    /// The box's addresses, IPv4 and IPv6, as numbers.
    pub own: [u128; 2],
    /// The interfaces towards the first and the second end of its link.
    pub interfaces: [&'a str; 2],
}

/// A name that the box does not know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UnknownInterface(pub String);

impl Names<'_> {
    /// The number that `value` is for `field`.
    pub(crate) fn number(&self, field: Field, value: &Value) -> Result<u128, UnknownInterface> {
        Ok(match value {
            Value::Number(n) | Value::Prefix { address: n, .. } => *n,
            Value::Own => self.own[usize::from(field.layer() == Layer::Ip6)],
            Value::Bytes(_) => 0,
            Value::Interface(name) => {
                let side = self.interface(name)?;
                // What comes by one interface leaves by the other.
                let came = (side == UP) == (field.row().place == Place::In);
                if came { 1 } else { 2 }
            }
        })
    }

    /// The way of the packets that come by that interface.
    pub(crate) fn interface(&self, name: &str) -> Result<Port, UnknownInterface> {
        match self.interfaces.iter().position(|known| *known == name) {
            Some(0) => Ok(UP),
            Some(_) => Ok(DOWN),
            None => Err(UnknownInterface(name.to_owned())),
        }
    }
}

/// What has to hold of a number: at least `least`, at most `most` and, of the bits of
/// `mask`, as it says or otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Holds {
    pub condition: Condition,
    pub mask: u128,
    pub value: u128,
}

impl Holds {
    pub(crate) fn of(self, number: u128) -> bool {
        self.condition.holds((number & self.mask).cmp(&self.value))
    }
}

/// A test that an equality of the window does not say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Residual {
    pub negated: bool,
    pub layer: Layer,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// That the layer is there.
    Layer,
    /// A number of the window.
    Number { at: usize, width: u8, holds: Holds },
    /// The payload: that there is some, or that it begins with these bytes or does not.
    Payload(Option<(bool, Vec<u8>)>),
    /// A TCP option: that it is there, or what it holds.
    Option { kind: Option<u8>, body: Body },
    /// An IPv6 extension header.
    Extension(Option<u8>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Any,
    Number { width: u8, holds: Holds },
    Bytes { equal: bool, bytes: Vec<u8> },
}

impl Residual {
    /// Whether it holds for the packet.
    pub(crate) fn holds(&self, packet: &Reading, bytes: &[u8]) -> bool {
        self.negated != (packet.has(self.layer) && self.found(packet, bytes))
    }

    /// Whether it is of a TCP option.
    pub(crate) fn is_of_option(&self) -> bool {
        matches!(self.what, What::Option { .. })
    }

    fn found(&self, packet: &Reading, bytes: &[u8]) -> bool {
        match &self.what {
            What::Layer => true,
            What::Number { at, width, holds } => holds.of(read_bits(packet.window(), *at, *width)),
            What::Payload(wanted) => {
                let (start, len) = (packet.payload(self.layer), packet.len as usize);
                let Some((equal, wanted)) = wanted else {
                    return len > start;
                };
                let there =
                    (start..start + wanted.len()).map(|at| bytes.get(at).copied().unwrap_or(0));
                len > start
                    && *equal == (len >= start + wanted.len() && there.eq(wanted.iter().copied()))
            }
            What::Option { kind, body } => {
                let Some(found) = packet.option(*kind) else {
                    return false;
                };
                match body {
                    Body::Any => true,
                    Body::Number { width, holds } => {
                        found.len() * 8 == usize::from(*width)
                            && holds.of(read_bits(found, 0, *width))
                    }
                    Body::Bytes { equal, bytes } => *equal == (found == &bytes[..]),
                }
            }
            What::Extension(kind) => {
                extensions(bytes).any(|found| kind.is_none_or(|kind| kind == found))
            }
        }
    }
}

/// A range that a field of the window has to be in, ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FieldRange {
    /// First bit and bits of the field.
    pub field: (usize, u8),
    pub least: u64,
    pub most: u64,
}

/// All constraints of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tests {
    pub mask: Window,
    pub key: Window,
    pub range: Option<FieldRange>,
    pub residuals: Vec<Residual>,
    /// Whether two equalities contradict each other, so that nothing matches.
    pub never: bool,
}

impl Tests {
    /// Sorts the constraints by how they are looked up.
    pub(crate) fn of(
        constraints: impl Iterator<Item = Constraint>,
        names: &Names<'_>,
    ) -> Result<Self, UnknownInterface> {
        let mut tests = Self {
            mask: [0; WINDOW],
            key: [0; WINDOW],
            range: None,
            residuals: Vec::new(),
            never: false,
        };
        for constraint in constraints {
            tests.add(&constraint, names)?;
        }
        Ok(tests)
    }

    fn add(&mut self, constraint: &Constraint, names: &Names<'_>) -> Result<(), UnknownInterface> {
        let field = constraint.named.field;
        let layer = field.layer();
        if !constraint.negated {
            require_layer(&mut self.mask, &mut self.key, layer);
        }
        let Some((at, width)) = in_window(field) else {
            let what = what(constraint);
            self.residual(constraint, layer, what);
            return Ok(());
        };
        let Some((condition, value)) = constraint.comparison() else {
            if constraint.negated {
                self.residual(constraint, layer, What::Layer);
            }
            return Ok(());
        };
        let number = names.number(field, &value)?;
        let mask = match value {
            Value::Prefix { length, .. } => prefix_mask(width, length),
            _ => most(width),
        };
        if condition == Condition::Equal && !constraint.negated {
            self.equal(at, width, mask, number);
        } else if let Some(range) = self.as_range(constraint, (at, width), condition, number) {
            self.range = Some(range);
        } else {
            let holds = Holds {
                condition,
                mask,
                value: number,
            };
            self.residual(constraint, layer, What::Number { at, width, holds });
        }
        Ok(())
    }

    fn residual(&mut self, constraint: &Constraint, layer: Layer, what: What) {
        self.residuals.push(Residual {
            negated: constraint.negated,
            layer,
            what,
        });
    }

    fn equal(&mut self, at: usize, width: u8, mask: u128, value: u128) {
        let (old_mask, old) = (
            read_bits(&self.mask, at, width),
            read_bits(&self.key, at, width),
        );
        self.never |= (old ^ value) & old_mask & mask != 0;
        write_bits(&mut self.mask, at, width, old_mask | mask);
        // The key has no bits beside those of the mask.
        write_bits(&mut self.key, at, width, old | value & mask);
    }

    /// The constraint as the rule's one range, where it can be that.
    fn as_range(
        &self,
        constraint: &Constraint,
        field: (usize, u8),
        condition: Condition,
        number: u128,
    ) -> Option<FieldRange> {
        if constraint.negated {
            return None;
        }
        // Addresses of IPv6 are longer.
        let top = u64::try_from(most(field.1)).ok()?;
        let number = number as u64;
        let (least, most) = match condition {
            Condition::Less => (0, number.checked_sub(1)?),
            Condition::AtMost => (0, number),
            Condition::Greater => (number.checked_add(1)?, top),
            Condition::AtLeast => (number, top),
            Condition::Equal | Condition::NotEqual => return None,
        };
        let before = self.range.unwrap_or(FieldRange {
            field,
            least: 0,
            most: top,
        });
        // A second field's range is looked up by itself.
        (before.field == field).then(|| FieldRange {
            field,
            least: before.least.max(least),
            most: before.most.min(most),
        })
    }
}

/// What a constraint asks that the window does not show.
fn what(constraint: &Constraint) -> What {
    let named = constraint.named;
    let equal = |condition| condition == Condition::Equal;
    match (named.field.row().place, &constraint.test) {
        (Place::Payload, Test::Alone) => What::Payload(None),
        (Place::Payload, Test::Is(condition, Value::Bytes(bytes))) => {
            What::Payload(Some((equal(*condition), bytes.clone())))
        }
        (Place::Extension(kind), _) => What::Extension(Some(kind)),
        (Place::AnyExtension, _) => What::Extension(named.kind),
        (_, test) => What::Option {
            kind: option_kind(named),
            body: match test {
                Test::Is(condition, Value::Bytes(bytes)) => Body::Bytes {
                    equal: equal(*condition),
                    bytes: bytes.clone(),
                },
                Test::Is(condition, Value::Number(value)) => {
                    let width = named.field.width();
                    Body::Number {
                        width,
                        holds: Holds {
                            condition: *condition,
                            mask: most(width),
                            value: *value,
                        },
                    }
                }
                _ => Body::Any,
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Rule;

    fn tests(constraints: &str) -> Tests {
        let rule = Rule::parse(&format!("add {constraints} drop")).unwrap();
        let names = Names {
            own: [0; 2],
            interfaces: ["inside", "outside"],
        };
        Tests::of(rule.constraints(), &names).unwrap()
    }

    #[test]
    fn the_ranges_of_one_field_are_one_and_what_else_has_an_order_is_tested() {
        for (constraints, range, left) in [
            ("tcp-dport > 9", Some((10, 65_535)), 0),
            ("tcp-dport >= 10 tcp-dport < 20", Some((10, 19)), 0),
            (
                "tcp-dport <= 20 tcp-dport > 9 tcp-dport <= 30",
                Some((10, 20)),
                0,
            ),
            ("tcp-seq-num > 5", Some((6, u32::MAX.into())), 0),
            ("tcp-dport > 9 tcp-win < 5", Some((10, 65_535)), 1),
            ("! tcp-dport > 9", None, 1),
            ("tcp-dport != 9", None, 1),
            ("ip6-saddr > ::1", None, 1),
        ] {
            let tests = tests(constraints);
            let found = tests.range.map(|range| (range.least, range.most));
            assert_eq!(found, range, "{constraints}");
            assert_eq!(tests.residuals.len(), left, "{constraints}");
            if let Some(range) = tests.range {
                let name = constraints.split(' ').next().unwrap();
                let field = in_window(Field::named(name).unwrap());
                assert_eq!(Some(range.field), field, "{constraints}");
            }
        }
    }

    #[test]
    fn equalities_of_the_same_bits_agree_or_nothing_matches() {
        let (at, width) = in_window(Field::named("ip-saddr").unwrap()).unwrap();
        for (constraints, mask, key) in [
            (
                "ip-saddr 10.1.2.3 ip-saddr 10.1.2.3",
                u32::MAX,
                0x0a01_0203_u32,
            ),
            (
                "ip-saddr 10.0.0.0/8 ip-saddr 10.1.0.0/16",
                0xffff_0000,
                0x0a01_0000,
            ),
            (
                "ip-saddr 10.1.0.0/16 ip-saddr 10.0.0.0/8",
                0xffff_0000,
                0x0a01_0000,
            ),
        ] {
            let tests = tests(constraints);
            assert!(!tests.never, "{constraints}");
            assert_eq!(read_bits(&tests.mask, at, width), mask.into());
            assert_eq!(read_bits(&tests.key, at, width), u128::from(key));
        }
        assert!(tests("ip-saddr 10.0.0.0/8 ip-saddr 11.1.0.0/16").never);
        assert!(tests("tcp-dport 9 tcp-dport 8").never);
    }
}
