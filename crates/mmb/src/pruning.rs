//! Which tables can match a packet at all.

use crate::layout::{WINDOW, Window};
use crate::table::Table;

/// Bytes of a packet that are looked at.
const PROBE_BYTES: usize = 8;

/// For a few bytes of the window and each of their values, a bit for each table that has
/// a key with it. A table that does not ask for all of a byte has each value that agrees with
/// what it asks for.
#[derive(Clone, Debug)]
pub(crate) struct Pruning {
    /// Words of a row.
    words: usize,
    probe_bytes: Vec<(usize, Vec<u64>)>,
    all: Vec<u64>,
}

impl Pruning {
    /// The bitmaps of `tables`, over the bytes that tell most of them apart.
    pub(crate) fn of(tables: &[Table]) -> Self {
        let words = tables.len().div_ceil(64);
        let mut all = vec![0u64; words];
        for table in 0..tables.len() {
            all[table / 64] |= 1 << (table % 64);
        }
        // One table is as quickly looked up as ruled out.
        let mut worth: Vec<(u64, usize, Vec<[u64; 4]>)> = Vec::new();
        if tables.len() > 1 {
            for at in 0..WINDOW {
                let allowed: Vec<_> = tables.iter().map(|table| values(table, at)).collect();
                let ruled_out = allowed
                    .iter()
                    .map(|set| 256 - set.iter().map(|w| u64::from(w.count_ones())).sum::<u64>())
                    .sum();
                worth.push((ruled_out, at, allowed));
            }
        }
        worth.retain(|(ruled_out, ..)| *ruled_out > 0);
        worth.sort_by_key(|(ruled_out, at, _)| (std::cmp::Reverse(*ruled_out), *at));
        worth.truncate(PROBE_BYTES);
        let probe_bytes = worth
            .into_iter()
            .map(|(_, at, allowed)| {
                let mut rows = vec![0u64; 256 * words];
                for (table, set) in allowed.iter().enumerate() {
                    for value in (0..256).filter(|v| set[v / 64] >> (v % 64) & 1 == 1) {
                        rows[value * words + table / 64] |= 1 << (table % 64);
                    }
                }
                (at, rows)
            })
            .collect();
        Self {
            words,
            probe_bytes,
            all,
        }
    }

    /// The bytes that are looked at, each with a row of bits for each of its values.
    pub(crate) fn probe_bytes(&self) -> impl Iterator<Item = (usize, &[u64])> {
        self.probe_bytes.iter().map(|(at, rows)| (*at, &rows[..]))
    }

    /// Calls `look` with each table that the packet may match.
    pub(crate) fn candidates(&self, window: &Window, mut look: impl FnMut(usize)) {
        for (word, all) in self.all.iter().enumerate() {
            let mut bits = *all;
            for (at, rows) in &self.probe_bytes {
                bits &= rows[usize::from(window[*at]) * self.words + word];
                if bits == 0 {
                    break;
                }
            }
            while bits != 0 {
                look(word * 64 + bits.trailing_zeros() as usize);
                bits &= bits - 1;
            }
        }
    }
}

/// The values of the byte `at` that some key of the table agrees with.
fn values(table: &Table, at: usize) -> [u64; 4] {
    let mask = table.mask[at];
    if mask == 0 {
        return [u64::MAX; 4];
    }
    let mut asked = [0u64; 4];
    for byte in table.bytes_at(at) {
        asked[usize::from(byte) / 64] |= 1 << (byte % 64);
    }
    let is_asked = |byte: u8| asked[usize::from(byte) / 64] >> (byte % 64) & 1;
    std::array::from_fn(|word| {
        (0..64).fold(0, |bits, bit| {
            bits | is_asked((64 * word + bit) as u8 & mask) << bit
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classifier::Classifier;
    use crate::constraint::Names;
    use crate::rule::Rule;

    /// Of rules with these constraints.
    fn classifier(constraints: &[&str]) -> Classifier {
        let parse = |text: &&str| Rule::parse(&format!("add {text} drop")).unwrap();
        let rules: Vec<Rule> = constraints.iter().map(parse).collect();
        let names = Names {
            own: [0; 2],
            interfaces: ["inside", "outside"],
        };
        Classifier::of(rules.iter(), &names).unwrap()
    }

    fn bytes_of(pruning: &Pruning) -> Vec<usize> {
        pruning.probe_bytes().map(|(at, _)| at).collect()
    }

    #[test]
    fn the_bytes_that_rule_out_most_are_looked_at_first() {
        let classifier = classifier(&["ip-ttl 3", "tcp-dport 80"]);
        let pruning = Pruning::of(classifier.tables());
        // The layers rule out 128 values of each table, the TTL and the port's bytes 255 of one.
        assert_eq!(bytes_of(&pruning), [60, 8, 42, 43]);
        let rows: Vec<&[u64]> = pruning.probe_bytes().map(|(_, rows)| rows).collect();
        for value in 0..=u8::MAX {
            let layers = u64::from(value & 1 != 0) | u64::from(value & 64 != 0) << 1;
            let expected = [
                layers,
                2 | u64::from(value == 3),
                1 | u64::from(value == 0) << 1,
                1 | u64::from(value == 80) << 1,
            ];
            for (row, expected) in rows.iter().zip(expected) {
                assert_eq!(row[usize::from(value)], expected, "{value}");
            }
        }
    }

    #[test]
    fn one_table_is_looked_up_without_a_look_at_any_byte() {
        for constraints in [&["ip-ttl 3"][..], &["ip-ttl 3", "ip-ttl 4"]] {
            let pruning = Pruning::of(classifier(constraints).tables());
            assert_eq!(bytes_of(&pruning), [0usize; 0]);
        }
    }

    #[test]
    fn tables_that_a_byte_rules_out_are_not_looked_up() {
        let classifier = classifier(&["ip-ttl 3", "tcp-dport 80", "ip-id 7"]);
        let pruning = Pruning::of(classifier.tables());
        let looked_up = |ttl: u8, ident: u8, port: u8| {
            let mut window = [0; WINDOW];
            // IPv4 and TCP.
            window[60] = 1 | 64;
            (window[8], window[5], window[43]) = (ttl, ident, port);
            let mut found = Vec::new();
            pruning.candidates(&window, |table| found.push(table));
            found
        };
        assert_eq!(looked_up(3, 7, 80), [0, 1, 2]);
        assert_eq!(looked_up(3, 7, 81), [0, 2]);
        assert_eq!(looked_up(4, 7, 80), [1, 2]);
        assert_eq!(looked_up(4, 8, 80), [1]);
        assert_eq!(looked_up(4, 8, 81), [0usize; 0]);
    }
}
