//! The priority that Linux gives a packet by its TOS field, and bands by it.

use narrows_core::Packet;
use narrows_units::{Value, Word, WordError, Words};
use narrows_wire::ip;

/// Priorities (`TC_PRIO_MAX` + 1, include/uapi/linux/pkt_sched.h).
pub(crate) const PRIORITIES: usize = 16;

/// Names of bands by their number, the first one served first.
pub(crate) const BAND_NAMES: [&str; 16] = [
    "band_0", "band_1", "band_2", "band_3", "band_4", "band_5", "band_6", "band_7", "band_8",
    "band_9", "band_10", "band_11", "band_12", "band_13", "band_14", "band_15",
];

/// The band of each priority where no `priomap` is given (`sch_default_prio2band`,
/// net/sched/sch_generic.c v6.17; tc/q_prio.c).
pub(crate) const DEFAULT_MAP: [u8; PRIORITIES] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];

/// What may stand behind `priomap`.
pub(crate) const MAP_ALLOWED: &str = "up to 16 bands below `bands`, one for each priority";

/// The priority of a packet that is forwarded: bits 3 and 4 of the TOS octet choose between
/// best effort 0, bulk 2, interactive 6 and interactive bulk 4 (`ip_tos2prio`,
/// net/ipv4/route.c v6.17). Linux gives none to packets of IPv6.
#[inline]
pub(crate) fn priority_of(packet: &Packet) -> usize {
    if packet.bytes.first().map(|b| b >> 4) != Some(4) {
        return 0;
    }
    match ip::traffic_class(&packet.bytes) & 0x18 {
        0x08 => 2,
        0x10 => 6,
        0x18 => 4,
        _ => 0,
    }
}

/// Reads numbers behind `priomap` for the first priorities; the others keep their bands.
pub(crate) fn read_map(words: &mut Words<'_>, map: &mut [u8; PRIORITIES]) -> Result<(), WordError> {
    let mut count = 0;
    while let Some(band) = words.peek().and_then(|w: Word<'_>| u8::parse(w.text)) {
        let word = words.needed(MAP_ALLOWED)?;
        let place = map
            .get_mut(count)
            .filter(|_| usize::from(band) < PRIORITIES);
        *place.ok_or_else(|| word.refused(MAP_ALLOWED))? = band;
        count += 1;
    }
    match count {
        0 => Err(match words.take() {
            Some(word) => word.refused(MAP_ALLOWED),
            None => words.ended(MAP_ALLOWED),
        }),
        _ => Ok(()),
    }
}

/// The map in tc's words.
pub(crate) fn written(map: &[u8; PRIORITIES]) -> String {
    map.map(|band| band.to_string()).join(" ")
}

#[cfg(test)]
mod tests {
    use narrows_core::PacketPool;
    use narrows_units::Instant;

    use super::*;
    use crate::testing;

    #[test]
    fn two_bits_of_tos_choose_the_priority_whatever_ecn_says() {
        let mut pool = PacketPool::new();
        let mut of = |class: u8| {
            let mut packet =
                testing::packet(&mut pool, Instant::ZERO, 1, narrows_wire::Ecn::NotEct, 100);
            ip::set_traffic_class(&mut packet.bytes, class);
            priority_of(&packet)
        };
        // ip_tos2prio, by (tos & 0x1e) >> 1.
        let table = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];
        for class in 0..=255u8 {
            assert_eq!(
                of(class),
                table[usize::from((class & 0x1e) >> 1)],
                "{class}"
            );
        }
    }

    #[test]
    fn a_short_map_leaves_the_other_priorities_alone() {
        let mut map = DEFAULT_MAP;
        let mut words = Words::new("0 1 limit");
        read_map(&mut words, &mut map).unwrap();
        assert_eq!(map[..4], [0, 1, 2, 2]);
        assert_eq!(words.take().map(|w| w.text), Some("limit"));
        assert!(read_map(&mut Words::new("limit"), &mut map).is_err());
        assert!(read_map(&mut Words::new(&"1 ".repeat(17)), &mut map).is_err());
    }
}
