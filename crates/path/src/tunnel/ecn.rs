//! ECN through a tunnel, as RFC 6040 has it in normal mode.
//!
//! Where a tunnel begins, the outer header gets the inner one's codepoint as it is (§4.1).

use narrows_wire::Ecn;

/// What a packet leaves the tunnel with (§4.2, figure 4), from what it went in with and what its
/// outer header came out with; `None` of one that is dropped, for what does not understand ECN
/// learns of a mark by a loss.
pub(super) fn decapsulated(inner: Ecn, outer: Ecn) -> Option<Ecn> {
    match (inner, outer) {
        (Ecn::NotEct, Ecn::Ce) => None,
        (Ecn::NotEct, _) => Some(Ecn::NotEct),
        (_, Ecn::Ce) => Some(Ecn::Ce),
        // ECT(1) is the more severe of the two, as in PCN (RFC 6660).
        (Ecn::Ect0, Ecn::Ect1) => Some(Ecn::Ect1),
        (inner, _) => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::decapsulated;
    use narrows_wire::Ecn::{Ce, Ect0, Ect1, NotEct};

    #[test]
    fn a_packet_leaves_with_the_codepoint_of_rfc_6040_figure_4() {
        // The outer header's codepoints in the order of the figure's columns.
        let outer = [NotEct, Ect0, Ect1, Ce];
        for (inner, leaves) in [
            (NotEct, [Some(NotEct), Some(NotEct), Some(NotEct), None]),
            (Ect0, [Some(Ect0), Some(Ect0), Some(Ect1), Some(Ce)]),
            (Ect1, [Some(Ect1), Some(Ect1), Some(Ect1), Some(Ce)]),
            (Ce, [Some(Ce), Some(Ce), Some(Ce), Some(Ce)]),
        ] {
            let found = outer.map(|outer| decapsulated(inner, outer));
            assert_eq!(found, leaves, "{inner:?}");
        }
    }
}
