//! A stretch of payload that is counted, with the bytes that were written.
//!
//! A bulk flow writes zeros that are only counted, so that a full window
//! costs no memory. Bytes that an application really wrote are kept in
//! chunks; everything between them is zeros.

use std::collections::VecDeque;

/// A chunk grows up to this many bytes before a new one is begun, so that
/// many small writes do not make many chunks.
const CHUNK: usize = 1 << 16;

#[derive(Clone, Debug)]
struct Chunk {
    at: u64,
    bytes: Vec<u8>,
}

impl Chunk {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

/// Payload between two sequence numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct CountedBytes {
    start: u64,
    end: u64,
    stored: VecDeque<Chunk>,
}

impl CountedBytes {
    /// Nothing yet; the first byte will be number `at`.
    pub(crate) fn starting_at(at: u64) -> Self {
        Self {
            start: at,
            end: at,
            stored: VecDeque::new(),
        }
    }

    /// The number of the first byte held.
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    /// The number after the last byte held.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Bytes held.
    pub(crate) fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Adds `data` at the end.
    pub(crate) fn append(&mut self, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        match self.stored.back_mut() {
            Some(last) if last.end() == self.end && last.bytes.len() + data.len() <= CHUNK => {
                last.bytes.extend_from_slice(data);
            }
            _ => self.stored.push_back(Chunk {
                at: self.end,
                bytes: data.to_vec(),
            }),
        }
        self.end += data.len() as u64;
    }

    /// Adds `n` zeros at the end.
    pub(crate) fn append_zeros(&mut self, n: u64) {
        self.end += n;
    }

    /// Keeps `data` that belongs at `at` and is not held yet; it may lie
    /// beyond the end, which does not move.
    pub(crate) fn store(&mut self, at: u64, data: &[u8]) {
        if data.is_empty() {
            return;
        }
        let place = self.stored.partition_point(|c| c.at < at);
        self.stored.insert(
            place,
            Chunk {
                at,
                bytes: data.to_vec(),
            },
        );
    }

    /// Everything up to `end` is now held.
    pub(crate) fn extend_to(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Forgets everything before `to`.
    pub(crate) fn release(&mut self, to: u64) {
        self.start = self.start.max(to);
        self.end = self.end.max(to);
        while self.stored.front().is_some_and(|c| c.end() <= to) {
            self.stored.pop_front();
        }
    }

    /// Appends to `out` the bytes from `from` up to the last stored one before
    /// `to`; what follows up to `to` is zeros.
    pub(crate) fn copy_prefix(&self, from: u64, to: u64, out: &mut Vec<u8>) {
        if self.stored.is_empty() {
            return;
        }
        let begin = out.len();
        let first = self.stored.partition_point(|c| c.end() <= from);
        for chunk in self.stored.range(first..) {
            if chunk.at >= to {
                break;
            }
            let left = from.max(chunk.at);
            let right = to.min(chunk.end());
            out.resize(begin + (left - from) as usize, 0);
            out.extend_from_slice(
                &chunk.bytes[(left - chunk.at) as usize..(right - chunk.at) as usize],
            );
        }
    }

    /// Appends to `out` the bytes from `from` to `to`, zeros written out.
    pub(crate) fn copy_all(&self, from: u64, to: u64, out: &mut Vec<u8>) {
        let begin = out.len();
        self.copy_prefix(from, to, out);
        out.resize(begin + (to - from) as usize, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_between_written_bytes_come_out_in_place() {
        let mut s = CountedBytes::starting_at(100);
        s.append(b"ab");
        s.append_zeros(3);
        s.append(b"cd");
        s.append_zeros(10);
        let mut out = Vec::new();
        s.copy_prefix(100, 117, &mut out);
        assert_eq!(out, b"ab\0\0\0cd");
        out.clear();
        s.copy_prefix(101, 106, &mut out);
        assert_eq!(out, b"b\0\0\0c");
        out.clear();
        s.copy_all(106, 109, &mut out);
        assert_eq!(out, b"d\0\0");
        s.release(106);
        assert_eq!((s.start(), s.len()), (106, 11));
        out.clear();
        s.copy_prefix(107, 117, &mut out);
        assert_eq!(out, b"");
    }

    #[test]
    fn bytes_stored_out_of_order_come_out_in_order() {
        let mut s = CountedBytes::starting_at(0);
        s.store(6, b"yz");
        s.store(2, b"ab");
        s.extend_to(8);
        let mut out = Vec::new();
        s.copy_all(0, 8, &mut out);
        assert_eq!(out, b"\0\0ab\0\0yz");
    }
}
