//! What a rule does, with its names resolved.

use crate::constraint::{Names, UnknownInterface};
use crate::edit::{Edit, option_kind};
use crate::field::{Field, Layer, Place, Takes};
use crate::options::{OptionList, are_broken};
use crate::rule::{DropRate, Rule, Strip, Target};
use crate::value::Value;

/// What decides about a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Drop(DropRate),
    Accept,
}

/// One change in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    Bits {
        layer: Layer,
        at: u16,
        width: u8,
        value: u128,
    },
    Payload(Layer, Vec<u8>),
}

/// One change of the TCP options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OptionChange {
    /// A number is written where the option has its bytes.
    Write(u8, Vec<u8>),
    Set(u8, Vec<u8>),
    Add(u8, Vec<u8>),
    StripAll,
    Strip(u8),
    Keep(Vec<u8>),
}

/// A field of a connection's packets that gets another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub field: Field,
    /// `None` where it is drawn.
    pub value: Option<u128>,
}

/// What a rule does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Action {
    pub verdicts: Vec<Verdict>,
    pub sets: Vec<Set>,
    /// Of checksums, which are written after all other changes.
    pub sums: Vec<Set>,
    pub options: Vec<OptionChange>,
    pub mappings: Vec<Mapping>,
}

/// `value` in as many bytes as the field has.
fn option_body(field: Field, value: Option<&Value>) -> Vec<u8> {
    match value {
        Some(Value::Number(n)) => {
            let bytes = usize::from(field.width() / 8);
            n.to_be_bytes()[16 - bytes..].to_vec()
        }
        Some(Value::Bytes(bytes)) => bytes.clone(),
        _ => Vec::new(),
    }
}

impl Action {
    /// What `rule` does at a box with these names.
    pub(crate) fn of(rule: &Rule, names: &Names<'_>) -> Result<Self, UnknownInterface> {
        let mut action = Self::default();
        for target in rule.targets() {
            action.add(target, names)?;
        }
        Ok(action)
    }

    fn add(&mut self, target: &Target, names: &Names<'_>) -> Result<(), UnknownInterface> {
        match target {
            // One that never fires is none.
            Target::Drop(DropRate(0)) => {}
            Target::Drop(rate) => self.verdicts.push(Verdict::Drop(*rate)),
            Target::Accept => self.verdicts.push(Verdict::Accept),
            Target::Set(named, value) => {
                let field = named.field;
                let layer = field.layer();
                match (field.row().place, value, option_kind(*named)) {
                    (_, value, Some(kind)) => {
                        let body = option_body(field, value.as_ref());
                        self.options.push(match field.row().takes {
                            Takes::Number => OptionChange::Write(kind, body),
                            _ => OptionChange::Set(kind, body),
                        });
                    }
                    (Place::Payload, Some(Value::Bytes(bytes)), _) => {
                        self.sets.push(Set::Payload(layer, bytes.clone()));
                    }
                    (Place::Bits { at, width }, value, _) => {
                        let value = match (value, field.row().takes) {
                            (Some(value), _) => names.number(field, value)?,
                            (None, Takes::Constant(n)) => n.into(),
                            (None, _) => 0,
                        };
                        let sets = match field.is_checksum() {
                            true => &mut self.sums,
                            false => &mut self.sets,
                        };
                        sets.push(Set::Bits {
                            layer,
                            at,
                            width,
                            value,
                        });
                    }
                    _ => {}
                }
            }
            Target::Add(named, value) => {
                if let Some(kind) = option_kind(*named) {
                    let body = option_body(named.field, value.as_ref());
                    self.options.push(OptionChange::Add(kind, body));
                }
            }
            Target::Strip(Strip::All) => self.options.push(OptionChange::StripAll),
            Target::Strip(Strip::This(named)) => {
                self.options
                    .extend(option_kind(*named).map(OptionChange::Strip));
            }
            Target::Strip(Strip::AllBut(named)) => {
                let kept = option_kind(*named);
                // The kinds that a rule keeps are one list.
                match self.options.iter_mut().find_map(|change| match change {
                    OptionChange::Keep(kinds) => Some(kinds),
                    _ => None,
                }) {
                    Some(kinds) => kinds.extend(kept),
                    None => self
                        .options
                        .push(OptionChange::Keep(kept.into_iter().collect())),
                }
            }
            Target::Map(field, value) => self.mappings.push(Mapping {
                field: *field,
                value: Some(names.number(*field, value)?),
            }),
            Target::Shuffle(field) => self.mappings.push(Mapping {
                field: *field,
                value: None,
            }),
        }
        Ok(())
    }

    /// Makes the changes in place.
    pub(crate) fn set(&self, edit: &mut Edit<'_>) {
        Self::make(&self.sets, edit);
    }

    /// Writes the checksums.
    pub(crate) fn set_checksums(&self, edit: &mut Edit<'_>) {
        Self::make(&self.sums, edit);
    }

    fn make(sets: &[Set], edit: &mut Edit<'_>) {
        for set in sets {
            match set {
                Set::Bits {
                    layer,
                    at,
                    width,
                    value,
                } => edit.set_bits(*layer, *at, *width, *value),
                Set::Payload(layer, bytes) => edit.set_payload(*layer, bytes),
            }
        }
    }

    /// Whether it gives packets other addresses or ports, or another protocol.
    pub(crate) fn moves_flows(&self) -> bool {
        self.sets.iter().any(|set| match set {
            Set::Bits { layer, at, .. } => match layer {
                Layer::Ip4 => (72..80).contains(at) || *at >= 96,
                Layer::Ip6 => *at >= 64,
                Layer::Tcp | Layer::Udp => *at < 32,
                _ => false,
            },
            Set::Payload(..) => false,
        })
    }

    /// Whether it changes TCP options.
    pub(crate) fn changes_options(&self) -> bool {
        !self.options.is_empty()
    }

    /// Makes the changes of TCP options; whether there was room for all of them.
    pub(crate) fn change_options(&self, list: &mut OptionList) -> bool {
        let mut fits = true;
        for change in &self.options {
            match change {
                OptionChange::Write(kind, body) => list.write(*kind, body),
                OptionChange::Set(kind, body) => fits &= list.set(*kind, body),
                OptionChange::Add(kind, body) => fits &= list.push(*kind, body),
                OptionChange::StripAll => list.retain(|_| false),
                OptionChange::Strip(kind) => list.retain(|found| found != *kind),
                OptionChange::Keep(kinds) => list.retain(|found| kinds.contains(&found)),
            }
        }
        fits
    }
}

/// The changes of TCP options by `actions` to the packet; whether all were made. None are
/// where the options cannot be read, nor in fragments, whose places a longer or shorter header
/// would shift.
pub(crate) fn change_options<'a>(
    edit: &mut Edit<'_>,
    actions: impl Iterator<Item = &'a Action>,
) -> bool {
    let ip = edit.layout.ip;
    if are_broken(edit.options()) || ip.more_fragments || ip.fragment_offset > 0 {
        return false;
    }
    let before = OptionList::of(edit.options());
    let mut list = before.clone();
    let mut fits = true;
    for action in actions {
        fits &= action.change_options(&mut list);
    }
    (list == before || edit.set_options(list)) && fits
}
