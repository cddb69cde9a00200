//! What a rule does, with its names resolved.

use std::net::Ipv6Addr;

use crate::constraint::{Names, UnknownInterface};
use crate::ffi::Packet;
use crate::field::{Field, Layer, Place, Takes};
use crate::layout::{layer_bit, write_bits};
use crate::program::{ProgramMapped, ProgramOptionWhat};
use crate::rule::{DropRate, Named, Rule, Strip, Target};
use crate::structs::{OPTIONS, ProgramMapping, ProgramOption, ProgramSet};
use crate::value::Value;

/// What decides about a packet's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Drop(DropRate),
    Accept,
}

/// Changes in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Set {
    Words(Vec<ProgramSet>),
    Payload(Layer, Vec<u8>),
}

/// What a rule does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Action {
    pub verdicts: Vec<Verdict>,
    pub sets: Vec<Set>,
    /// Of checksums, which are written after all other changes.
    pub sums: Vec<ProgramSet>,
    pub options: Vec<ProgramOption>,
    pub mappings: Vec<ProgramMapping>,
    /// Whether it gives packets other addresses or ports, or another protocol.
    pub moves_flows: bool,
    /// Which of `options` keeps the kinds that the rule names: these are one list.
    kept: Option<usize>,
}

/// The kind of the TCP option that is meant, if one is.
pub(crate) fn option_kind(named: Named) -> Option<u8> {
    match named.field.row().place {
        Place::Option(kind) => Some(kind),
        Place::AnyOption => named.kind,
        _ => None,
    }
}

/// The change of options of `kind` to what `body` holds.
fn option(what: ProgramOptionWhat, kind: u8, body: &[u8]) -> ProgramOption {
    let mut bytes = [0; OPTIONS];
    let len = body.len().min(OPTIONS);
    bytes[..len].copy_from_slice(&body[..len]);
    ProgramOption {
        what: what as u8,
        kind,
        len: len as u8,
        unused: 0,
        bytes,
    }
}

/// Options of these kinds stay.
fn keep(stays: impl Fn(u8) -> bool) -> ProgramOption {
    let mut bits = [0; 32];
    for kind in (0..=u8::MAX).filter(|kind| stays(*kind)) {
        bits[usize::from(kind / 8)] |= 1 << (kind % 8);
    }
    option(ProgramOptionWhat::Keep, 0, &bits)
}

/// What is mapped to `value`, or drawn; `None` of a field that is not.
fn mapping(field: Field, value: Option<u128>) -> Option<ProgramMapping> {
    let what = ProgramMapped::of(field)?;
    let mut mapping = ProgramMapping {
        what: what as u8,
        drawn: u8::from(value.is_none()),
        ..ProgramMapping::default()
    };
    let value = value.unwrap_or(0);
    match what {
        ProgramMapped::Source4 | ProgramMapped::Destination4 => {
            mapping.address[..4].copy_from_slice(&(value as u32).to_be_bytes());
        }
        ProgramMapped::Source6 | ProgramMapped::Destination6 => {
            mapping.address = Ipv6Addr::from(value).octets();
        }
        _ => mapping.number = value as u32,
    }
    Some(mapping)
}

/// Whether a change from that bit of the layer's header on gives packets other addresses or ports, or
/// another protocol.
fn moves_flows(layer: Layer, at: u16) -> bool {
    match layer {
        Layer::Ip4 => (72..80).contains(&at) || at >= 96,
        Layer::Ip6 => (48..56).contains(&at) || at >= 64,
        Layer::Tcp | Layer::Udp => at < 32,
        _ => false,
    }
}

/// The change of `width` bits, `at` bits after the start of the layer's header, word by word.
fn words(layer: Layer, at: usize, width: u8, value: u128) -> Vec<ProgramSet> {
    let from_ip = matches!(layer, Layer::Meta | Layer::Ip | Layer::Ip4 | Layer::Ip6);
    // What UDP carries stands behind its header.
    let at = at + if layer == Layer::UdpData { 64 } else { 0 };
    let first = at / 16;
    let last = (at + usize::from(width) - 1) / 16;
    let mut keep = vec![0xff; 2 * (last - first + 1)];
    let mut new = vec![0; keep.len()];
    write_bits(&mut keep, at - 16 * first, width, 0);
    write_bits(&mut new, at - 16 * first, width, value);
    let pairs = keep.chunks_exact(2).zip(new.chunks_exact(2));
    (first..)
        .zip(pairs)
        .map(|(word, (keep, value))| ProgramSet {
            layer: layer_bit(layer),
            from_ip: u8::from(from_ip),
            at: 2 * word as u16,
            keep: [keep[0], keep[1]],
            value: [value[0], value[1]],
        })
        .collect()
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
                        let what = match field.row().takes {
                            Takes::Number => ProgramOptionWhat::Write,
                            _ => ProgramOptionWhat::Set,
                        };
                        self.options.push(option(what, kind, &body));
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
                        let words = words(layer, usize::from(at), width, value);
                        if field.is_checksum() {
                            self.sums.extend(words);
                        } else {
                            self.moves_flows |= moves_flows(layer, at);
                            match self.sets.last_mut() {
                                Some(Set::Words(before)) => before.extend(words),
                                _ => self.sets.push(Set::Words(words)),
                            }
                        }
                    }
                    _ => {}
                }
            }
            Target::Add(named, value) => {
                if let Some(kind) = option_kind(*named) {
                    let body = option_body(named.field, value.as_ref());
                    self.options
                        .push(option(ProgramOptionWhat::Add, kind, &body));
                }
            }
            Target::Strip(Strip::All) => self.options.push(keep(|_| false)),
            Target::Strip(Strip::This(named)) => {
                let stripped = option_kind(*named);
                self.options
                    .extend(stripped.map(|stripped| keep(|kind| kind != stripped)));
            }
            Target::Strip(Strip::AllBut(named)) => {
                let at = *self.kept.get_or_insert(self.options.len());
                if at == self.options.len() {
                    self.options.push(keep(|_| false));
                }
                if let Some(kind) = option_kind(*named) {
                    self.options[at].bytes[usize::from(kind / 8)] |= 1 << (kind % 8);
                }
            }
            Target::Map(field, value) => {
                let value = names.number(*field, value)?;
                self.mappings.extend(mapping(*field, Some(value)));
            }
            Target::Shuffle(field) => self.mappings.extend(mapping(*field, None)),
        }
        Ok(())
    }

    /// Makes the changes in place.
    pub(crate) fn set(&self, packet: &mut Packet<'_>) {
        for set in &self.sets {
            match set {
                Set::Words(words) => packet.set(words),
                Set::Payload(layer, bytes) => packet.set_payload(*layer, bytes),
            }
        }
    }

    /// Whether it needs the TCP options: it changes them, or shifts the numbers that SACK blocks are about.
    pub(crate) fn reads_options(&self) -> bool {
        let shifts = |m: &ProgramMapping| {
            m.what == ProgramMapped::Seq as u8 || m.what == ProgramMapped::Ack as u8
        };
        !self.options.is_empty() || self.mappings.iter().any(shifts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(line: &str) -> Action {
        let names = Names {
            own: [0; 2],
            interfaces: ["inside", "outside"],
        };
        Action::of(&Rule::parse(line).unwrap(), &names).unwrap()
    }

    #[test]
    fn what_is_stripped_is_a_set_of_kinds_that_stay() {
        let stays = |line: &str, kind: u8| {
            let action = action(line);
            assert_eq!(action.options.len(), 1, "{line}");
            let option = action.options[0];
            assert_eq!(option.what, ProgramOptionWhat::Keep as u8);
            option.bytes[usize::from(kind / 8)] >> (kind % 8) & 1 == 1
        };
        for kind in 0..=u8::MAX {
            assert!(!stays("add all strip all", kind));
            assert_eq!(stays("add all strip tcp-opt 172", kind), kind != 172);
            let kept = "add all strip ! tcp-opt-mss strip ! tcp-opt-timestamp";
            assert_eq!(stays(kept, kind), kind == 2 || kind == 8);
        }
    }

    #[test]
    fn a_change_of_bits_is_one_of_words() {
        let class = words(Layer::Ip6, 4, 8, 0xa5);
        assert_eq!(
            (class[0].keep, class[0].value),
            ([0xf0, 0x0f], [0x0a, 0x50])
        );
        assert_eq!(words(Layer::Ip6, 64, 128, 1).len(), 8);
        let spin = words(Layer::UdpData, 2, 1, 0);
        assert_eq!((spin[0].at, spin[0].keep), (8, [0xdf, 0xff]));
    }

    #[test]
    fn addresses_ports_and_protocols_are_what_moves_a_flow() {
        const NAME_A_FLOW: [&str; 10] = [
            "ip-proto",
            "ip-saddr",
            "ip-daddr",
            "ip6-next",
            "ip6-saddr",
            "ip6-daddr",
            "tcp-sport",
            "tcp-dport",
            "udp-sport",
            "udp-dport",
        ];
        for field in Field::all().filter(|field| field.can_be_set()) {
            let value = match (field.row().place, field.row().takes) {
                (Place::Bits { .. }, Takes::Constant(_)) => "",
                (Place::Bits { .. }, Takes::Address4) => "10.0.0.1",
                (Place::Bits { .. }, Takes::Address6) => "::1",
                (Place::Bits { .. }, _) => "1",
                _ => continue,
            };
            let moves = action(&format!("add all mod {} {value}", field.name())).moves_flows;
            let expected = NAME_A_FLOW.contains(&field.name());
            assert_eq!(moves, expected, "{}", field.name());
        }
    }

    #[test]
    fn an_option_that_is_a_number_gets_one_as_long_and_another_option_what_the_rule_has() {
        for (option, what) in [
            ("tcp-opt-mss 1460", ProgramOptionWhat::Write),
            ("tcp-opt-wscale 7", ProgramOptionWhat::Write),
            ("tcp-opt-timestamp 1", ProgramOptionWhat::Write),
            ("tcp-opt-sack x0102", ProgramOptionWhat::Set),
            ("tcp-opt 253 x0102", ProgramOptionWhat::Set),
        ] {
            let action = action(&format!("add all mod {option}"));
            assert_eq!(action.options[0].what, what as u8, "{option}");
        }
    }

    #[test]
    fn changes_of_words_are_one_list_up_to_the_next_payload() {
        let line = "add all mod ip-ttl 3 mod udp-dport 9 mod udp-payload x01 mod ip-id 7";
        let lists = action(line).sets;
        let lengths: Vec<Option<usize>> = lists
            .iter()
            .map(|set| match set {
                Set::Words(words) => Some(words.len()),
                Set::Payload(..) => None,
            })
            .collect();
        assert_eq!(lengths, [Some(2), None, Some(1)]);
    }
}
