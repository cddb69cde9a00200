//! Halves.

use super::Known;

/// The largest size first, then the middle between what arrived and what failed, down to one
/// byte (MAMI report, section 3.1: "binary").
pub(super) fn from_the_largest(known: &Known) -> Option<u16> {
    let Some(failed) = known.failed else {
        return Some(known.max);
    };
    middle(known.lower(), failed, 1)
}

/// The middle between what arrived, or `floor`, and the largest size that may still be
/// carried, until they are no more than `within` apart. Like quinn and s2n-quic it takes the
/// largest size as one that may fail but was not tried, so that it comes within that of it.
pub(super) fn upwards(known: &Known, floor: u16, within: u16) -> Option<u16> {
    if known.arrived.is_none() && floor <= known.base {
        return Some(known.base);
    }
    let lower = known.lower().max(floor);
    let upper = known.failed.unwrap_or_else(|| known.max.saturating_add(1));
    middle(lower, upper, within)
}

/// The middle of two sizes that are more than `within` apart.
fn middle(lower: u16, upper: u16, within: u16) -> Option<u16> {
    let apart = upper.saturating_sub(lower);
    (apart > within).then(|| lower + apart / 2)
}
