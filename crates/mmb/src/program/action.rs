//! What a rule does, as a program's tables have it.

use std::net::Ipv6Addr;

use crate::action::{Action, Mapping, OptionChange, Set, Verdict};
use crate::field::Layer;
use crate::layout::{layer_bit, write_bits};

/// Words that a rule changes: both addresses of IPv6, and some.
const MOST_SETS: usize = 24;
/// Drops and `accept` in a rule.
const MOST_VERDICTS: usize = 4;

/// `accept` among verdicts.
const ACCEPT: u16 = 0xffff;

/// A change of two bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramSet {
    /// Bits of the layers that have to be there.
    pub layer: u8,
    /// Whether `at` counts from the IP header, not from the one above.
    pub from_ip: bool,
    /// Bytes, an even number.
    pub at: u16,
    /// Bits that stay.
    pub keep: [u8; 2],
    /// Bits that are set.
    pub value: [u8; 2],
}

/// What a mapping gives another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ProgramMapped {
    /// `ip-saddr`
    Source4 = 0,
    /// `ip-daddr`
    Destination4 = 1,
    /// `ip6-saddr`
    Source6 = 2,
    /// `ip6-daddr`
    Destination6 = 3,
    /// `tcp-sport`
    TcpSource = 4,
    /// `tcp-dport`
    TcpDestination = 5,
    /// `udp-sport`
    UdpSource = 6,
    /// `udp-dport`
    UdpDestination = 7,
    /// `ip-id`
    Ident = 8,
    /// `ip6-flow-label`
    Label = 9,
    /// `tcp-seq-num`
    Seq = 10,
    /// `tcp-ack-num`
    Ack = 11,
    /// `icmp-ident`
    IcmpIdent = 12,
    /// `icmp6-ident`
    Icmp6Ident = 13,
}

/// A field of a connection's packets that gets another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramMapping {
    /// The field.
    pub what: ProgramMapped,
    /// The value of what is no address; `None` where it is drawn, and for addresses.
    pub number: Option<u32>,
    /// An address; that of IPv4 in the first four bytes.
    pub address: [u8; 16],
}

/// How a [`ProgramOption`] changes the options.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ProgramOptionWhat {
    /// Those of its kind that are as long get its contents.
    Write = 0,
    /// All of its kind get its contents.
    Set = 1,
    /// One more stands behind them.
    Add = 2,
    /// Those stay whose kinds have a bit.
    Keep = 3,
}

/// A change of the TCP options.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramOption {
    /// How.
    pub what: ProgramOptionWhat,
    /// The kind of the options that it is about.
    pub kind: u8,
    /// What they hold, 38 bytes at most; of [`Keep`](ProgramOptionWhat::Keep) a bit for each kind, from the lowest
    /// bit of the first byte.
    pub bytes: Vec<u8>,
}

/// What rules do.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramAction {
    /// In their order: the chance of a drop in hundredths of a percent, `0xffff` for `accept`,
    /// 0 where there are no more.
    pub verdicts: [u16; MOST_VERDICTS],
    /// Changes, in their order.
    pub sets: Vec<ProgramSet>,
    /// Checksums, which are written after all other changes.
    pub sums: Vec<ProgramSet>,
    /// Changes of the TCP options, in their order.
    pub options: Vec<ProgramOption>,
    /// What the connection's packets get.
    pub mappings: Vec<ProgramMapping>,
}

impl ProgramAction {
    pub(super) fn of(action: &Action) -> Result<Self, String> {
        let mut compiled = Self::default();
        if action.verdicts.len() > MOST_VERDICTS {
            return Err(format!(
                "it has more than {MOST_VERDICTS} `drop` and `accept`"
            ));
        }
        for (place, verdict) in compiled.verdicts.iter_mut().zip(&action.verdicts) {
            *place = match verdict {
                Verdict::Drop(rate) => rate.0,
                Verdict::Accept => ACCEPT,
            };
        }
        compiled.sets = action.sets.iter().flat_map(set).collect();
        compiled.sums = action.sums.iter().flat_map(set).collect();
        compiled.options = action.options.iter().map(option).collect();
        compiled.mappings = action.mappings.iter().filter_map(mapping).collect();
        if compiled.sets.len() + compiled.sums.len() > MOST_SETS {
            return Err(format!("it changes more than {} bytes", 2 * MOST_SETS));
        }
        Ok(compiled)
    }

    /// Whether it changes options; SACK blocks follow the numbers that they are about.
    pub(super) fn reads_options(&self) -> bool {
        let shifts = |m: &ProgramMapping| matches!(m.what, ProgramMapped::Seq | ProgramMapped::Ack);
        !self.options.is_empty() || self.mappings.iter().any(shifts)
    }
}

/// A change in place; of a payload, none.
fn set(set: &Set) -> Vec<ProgramSet> {
    match set {
        Set::Bits {
            layer,
            at,
            width,
            value,
        } => words(*layer, usize::from(*at), *width, *value),
        Set::Payload(..) => Vec::new(),
    }
}

/// A change of options.
fn option(change: &OptionChange) -> ProgramOption {
    let (what, kind, bytes) = match change {
        OptionChange::Write(kind, body) => (ProgramOptionWhat::Write, *kind, body.clone()),
        OptionChange::Set(kind, body) => (ProgramOptionWhat::Set, *kind, body.clone()),
        OptionChange::Add(kind, body) => (ProgramOptionWhat::Add, *kind, body.clone()),
        OptionChange::StripAll => (ProgramOptionWhat::Keep, 0, kinds(|_| false)),
        OptionChange::Strip(kind) => (ProgramOptionWhat::Keep, 0, kinds(|k| k != *kind)),
        OptionChange::Keep(kept) => (ProgramOptionWhat::Keep, 0, kinds(|k| kept.contains(&k))),
    };
    ProgramOption { what, kind, bytes }
}

/// A bit for each kind of option, which is set where it stays.
fn kinds(stays: impl Fn(u8) -> bool) -> Vec<u8> {
    let mut bits = vec![0; 32];
    for kind in (0..=u8::MAX).filter(|kind| stays(*kind)) {
        bits[usize::from(kind / 8)] |= 1 << (kind % 8);
    }
    bits
}

/// What is mapped; `None` of a field that is not.
fn mapping(mapping: &Mapping) -> Option<ProgramMapping> {
    let what = match mapping.field.name() {
        "ip-saddr" => ProgramMapped::Source4,
        "ip-daddr" => ProgramMapped::Destination4,
        "ip6-saddr" => ProgramMapped::Source6,
        "ip6-daddr" => ProgramMapped::Destination6,
        "tcp-sport" => ProgramMapped::TcpSource,
        "tcp-dport" => ProgramMapped::TcpDestination,
        "udp-sport" => ProgramMapped::UdpSource,
        "udp-dport" => ProgramMapped::UdpDestination,
        "ip-id" => ProgramMapped::Ident,
        "ip6-flow-label" => ProgramMapped::Label,
        "tcp-seq-num" => ProgramMapped::Seq,
        "tcp-ack-num" => ProgramMapped::Ack,
        "icmp-ident" => ProgramMapped::IcmpIdent,
        "icmp6-ident" => ProgramMapped::Icmp6Ident,
        _ => return None,
    };
    let mut mapped = ProgramMapping {
        what,
        number: None,
        address: [0; 16],
    };
    match (what, mapping.value) {
        (ProgramMapped::Source4 | ProgramMapped::Destination4, Some(value)) => {
            mapped.address[..4].copy_from_slice(&(value as u32).to_be_bytes());
        }
        (ProgramMapped::Source6 | ProgramMapped::Destination6, Some(value)) => {
            mapped.address = Ipv6Addr::from(value).octets();
        }
        (_, value) => mapped.number = value.map(|value| value as u32),
    }
    Some(mapped)
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
            from_ip,
            at: 2 * word as u16,
            keep: [keep[0], keep[1]],
            value: [value[0], value[1]],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stripped_is_a_set_of_kinds_that_stay() {
        let stays = |change: &OptionChange, kind: u8| {
            let option = option(change);
            assert_eq!(option.what, ProgramOptionWhat::Keep);
            option.bytes[usize::from(kind / 8)] >> (kind % 8) & 1 == 1
        };
        for kind in 0..=u8::MAX {
            assert!(!stays(&OptionChange::StripAll, kind));
            assert_eq!(stays(&OptionChange::Strip(172), kind), kind != 172);
            let kept = OptionChange::Keep(vec![2, 8]);
            assert_eq!(stays(&kept, kind), kind == 2 || kind == 8);
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
}
