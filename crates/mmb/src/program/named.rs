//! What rules name that a program cannot do, and what of it differs between the segments of a
//! bundle.

use crate::field::{Field, Place};
use crate::rule::{DropRate, Rule, Target};

/// Fields that differ between the segments of a bundle, which a program sees as one packet:
/// cutting (GSO) writes them, and merging (GRO) keeps one segment's.
const OF_ONE_SEGMENT: [&str; 12] = [
    "ip-len",
    "ip-id",
    "ip-checksum",
    "ip6-len",
    "udp-len",
    "udp-checksum",
    "tcp-seq-num",
    "tcp-flags",
    "tcp-cwr",
    "tcp-push",
    "tcp-fin",
    "tcp-checksum",
];

/// Fields that say how a packet is read. The program reads a packet once, the box again when it
/// translates it for its connection.
const OF_THE_READING: [&str; 12] = [
    "ip-ver",
    "ip-ihl",
    "ip-len",
    "ip-frag-offset",
    "ip-proto",
    "ip6-ver",
    "ip6-len",
    "ip6-next",
    "icmp-type",
    "icmp-code",
    "icmp6-type",
    "icmp6-code",
];

/// Whether the program knows all that the rule names.
pub(super) fn can_name(rule: &Rule) -> Result<(), String> {
    for constraint in rule.constraints() {
        let named = constraint.named;
        let compares = constraint.comparison().is_some();
        match named.field.row().place {
            Place::Payload if compares => {
                return Err(format!("it does not look into payloads (`{named}`)"));
            }
            Place::Extension(_) | Place::AnyExtension => {
                return Err(format!("it does not list extension headers (`{named}`)"));
            }
            Place::Option(_) | Place::AnyOption if compares && named.field.width() == 0 => {
                return Err(format!(
                    "of options it compares only those that are numbers, not `{named}`"
                ));
            }
            _ => is_above_checksum(named.field)?,
        }
    }
    for target in rule.targets() {
        match target {
            Target::Set(named, _) => match named.field.row().place {
                Place::Payload => return Err(format!("it does not write payloads (`{target}`)")),
                _ => is_above_checksum(named.field)?,
            },
            Target::Add(..)
            | Target::Strip(_)
            | Target::Drop(_)
            | Target::Accept
            | Target::Map(..)
            | Target::Shuffle(_) => {}
        }
    }
    Ok(())
}

/// Whether packets are read as before after the rule changed them.
pub(super) fn leaves_the_reading(rule: &Rule) -> Result<(), String> {
    for target in rule.targets() {
        match target {
            Target::Set(named, _) if OF_THE_READING.contains(&named.field.name()) => {
                return Err(format!(
                    "beside `add-stateful` it does not change how a packet is read (`{named}`)"
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// A device may have yet to compute these.
fn is_above_checksum(field: Field) -> Result<(), String> {
    match field.name() {
        name @ ("tcp-checksum" | "udp-checksum") => Err(format!(
            "`{name}` may be computed only by the device, after the program"
        )),
        _ => Ok(()),
    }
}

/// What the rule names that differs between the segments of a bundle.
pub(super) fn of_one_segment(rule: &Rule) -> impl Iterator<Item = &'static str> {
    let known = |field: Field| {
        let name = field.name();
        OF_ONE_SEGMENT.iter().find(|known| **known == name).copied()
    };
    let constraints = rule.constraints();
    let constraints = constraints.filter_map(move |c| known(c.named.field));
    let targets = rule
        .targets()
        .iter()
        .filter_map(move |target| match target {
            Target::Set(named, _) => known(named.field),
            // Sequence numbers are shifted, which means the same for all segments.
            Target::Map(field, _) | Target::Shuffle(field) if field.name() == "ip-id" => {
                known(*field)
            }
            Target::Drop(rate) if *rate != DropRate::ALWAYS => Some("drop RATE"),
            _ => None,
        });
    constraints.chain(targets)
}
