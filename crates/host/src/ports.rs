//! The ports that connections get which name none.

/// The range of them (Linux's `net.ipv4.ip_local_port_range`, Documentation/networking/
/// ip-sysctl.rst). The plan's flows have fixed ones at its beginning.
pub(crate) const FIRST: u16 = 32_768;
pub(crate) const LAST: u16 = 60_999;

/// Bits in a word of [`Ports`].
const BITS: u16 = 64;

/// Which ports of the range are taken: a bit for each, so that a free one is found, or found to
/// be missing, in some hundred steps however many are taken.
#[derive(Clone, Debug)]
pub(crate) struct Ports(Vec<u64>);

impl Default for Ports {
    fn default() -> Self {
        Self(vec![0; usize::from((LAST - FIRST) / BITS) + 1])
    }
}

/// The word and the bit of a port; `None` if it is not in the range.
fn place(port: u16) -> Option<(usize, u32)> {
    let place = port.checked_sub(FIRST).filter(|_| port <= LAST)?;
    Some((usize::from(place / BITS), u32::from(place % BITS)))
}

impl Ports {
    /// Notes that `port` is taken, or is not; one out of the range is passed over.
    pub(crate) fn set(&mut self, port: u16, taken: bool) {
        if let Some((word, bit)) = place(port) {
            self.0[word] &= !(1 << bit);
            self.0[word] |= u64::from(taken) << bit;
        }
    }

    /// The highest port that is free from `low` to `high`, both in the range.
    pub(crate) fn highest_free(&self, low: u16, high: u16) -> Option<u16> {
        let ((first, from), (last, to)) = (place(low)?, place(high)?);
        for word in (first..=last).rev() {
            let mut free = !self.0[word];
            if word == first {
                free &= u64::MAX << from;
            }
            if word == last {
                free &= u64::MAX >> (63 - to);
            }
            if let Some(bit) = free.checked_ilog2() {
                return Some(FIRST + word as u16 * BITS + bit as u16);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_port_that_is_free_is_the_one_that_a_search_one_by_one_finds() {
        let mut ports = Ports::default();
        // All but few are taken, at the edges of words among others.
        let free = [
            FIRST,
            FIRST + 1,
            FIRST + 63,
            FIRST + 64,
            40_000,
            LAST - 1,
            LAST,
        ];
        for port in FIRST..=LAST {
            ports.set(port, !free.contains(&port));
        }
        ports.set(FIRST - 1, true);
        ports.set(LAST + 1, true);
        let bounds = [
            FIRST,
            FIRST + 2,
            FIRST + 63,
            FIRST + 65,
            39_999,
            40_000,
            40_001,
            LAST,
        ];
        for low in bounds {
            for high in bounds {
                let naive = free.iter().rev().find(|p| (low..=high).contains(*p));
                let found = (low <= high).then(|| ports.highest_free(low, high));
                assert_eq!(found.flatten(), naive.copied(), "{low} to {high}");
            }
        }
        for port in free {
            ports.set(port, true);
        }
        assert_eq!(ports.highest_free(FIRST, LAST), None);
    }
}
