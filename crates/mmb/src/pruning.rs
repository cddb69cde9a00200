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
