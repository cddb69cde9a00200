//! What a rule does, as a program's tables have it.

use crate::action::{Action, Set, Verdict};
use crate::field::Field;
use crate::structs::{ProgramMapping, ProgramOption, ProgramSet};

/// Words that a rule changes: both addresses of IPv6, and some.
const MOST_SETS: usize = 24;
/// Drops and `accept` in a rule.
const MOST_VERDICTS: usize = 4;

/// `accept` among verdicts.
const ACCEPT: u16 = 0xffff;

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

impl ProgramMapped {
    /// `None` of a field that is not mapped.
    pub(crate) fn of(field: Field) -> Option<Self> {
        Some(match field.name() {
            "ip-saddr" => Self::Source4,
            "ip-daddr" => Self::Destination4,
            "ip6-saddr" => Self::Source6,
            "ip6-daddr" => Self::Destination6,
            "tcp-sport" => Self::TcpSource,
            "tcp-dport" => Self::TcpDestination,
            "udp-sport" => Self::UdpSource,
            "udp-dport" => Self::UdpDestination,
            "ip-id" => Self::Ident,
            "ip6-flow-label" => Self::Label,
            "tcp-seq-num" => Self::Seq,
            "tcp-ack-num" => Self::Ack,
            "icmp-ident" => Self::IcmpIdent,
            "icmp6-ident" => Self::Icmp6Ident,
            _ => return None,
        })
    }
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
        for set in &action.sets {
            // Of a payload none is written.
            if let Set::Words(words) = set {
                compiled.sets.extend(words);
            }
        }
        compiled.sums.clone_from(&action.sums);
        compiled.options.clone_from(&action.options);
        compiled.mappings.clone_from(&action.mappings);
        if compiled.sets.len() + compiled.sums.len() > MOST_SETS {
            return Err(format!("it changes more than {} bytes", 2 * MOST_SETS));
        }
        Ok(compiled)
    }
}
