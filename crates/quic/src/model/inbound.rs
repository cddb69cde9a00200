//! The stream as it arrives.

use std::collections::BTreeMap;

use super::frame::Chunk;

/// Puts pieces in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Inbound {
    /// Bytes that are there without a gap.
    whole: u64,
    /// Pieces behind a gap: where they begin, and where they end.
    ahead: BTreeMap<u64, u64>,
    end: Option<u64>,
    ended: bool,
}

/// What a piece brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Brought {
    /// Bytes that are now there in order.
    pub bytes: u64,
    /// Whether the stream is complete with it.
    pub end: bool,
}

impl Inbound {
    /// A piece arrives, perhaps not for the first time.
    pub fn take(&mut self, chunk: Chunk) -> Brought {
        let end = chunk.offset.saturating_add(u64::from(chunk.len));
        if chunk.fin {
            self.end = Some(end);
        }
        let before = self.whole;
        if chunk.offset > self.whole {
            let known = self.ahead.entry(chunk.offset).or_default();
            *known = end.max(*known);
        } else {
            self.whole = self.whole.max(end);
            while let Some(first) = self.ahead.first_entry() {
                if *first.key() > self.whole {
                    break;
                }
                self.whole = self.whole.max(first.remove());
            }
        }
        let end = !self.ended && self.end == Some(self.whole);
        self.ended |= end;
        Brought {
            bytes: self.whole - before,
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_come_out_once_and_the_end_once() {
        let chunk = |n: u64| Chunk {
            offset: n * 10,
            len: 10,
            fin: n == 3,
        };
        let mut inbound = Inbound::default();
        let took: Vec<_> = [1, 3, 0, 1, 0, 2, 3, 2]
            .map(|n| inbound.take(chunk(n)))
            .iter()
            .map(|b| (b.bytes, b.end))
            .collect();
        let nothing = (0, false);
        assert_eq!(
            took,
            [
                nothing,
                nothing,
                (20, false),
                nothing,
                nothing,
                (20, true),
                nothing,
                nothing
            ]
        );
    }

    #[test]
    fn an_end_without_bytes_ends_the_stream() {
        let mut inbound = Inbound::default();
        let fin = Chunk {
            offset: 0,
            len: 0,
            fin: true,
        };
        assert!(inbound.take(fin).end);
    }
}
