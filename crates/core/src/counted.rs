//! A stretch of payload that is counted, with the bytes that were written.
//!
//! A bulk flow writes zeros that are only counted, so that a full window
//! costs no memory. Bytes that an application really wrote are kept in
//! chunks; everything between them is zeros.

use std::collections::VecDeque;

use crate::app::Data;

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
pub struct CountedBytes {
    start: u64,
    end: u64,
    stored: VecDeque<Chunk>,
}

impl CountedBytes {
    /// Nothing yet; the first byte will be number `at`.
    pub fn starting_at(at: u64) -> Self {
        Self {
            start: at,
            end: at,
            stored: VecDeque::new(),
        }
    }

    /// The number of the first byte held.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// The number after the last byte held.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Bytes held.
    pub fn len(&self) -> u64 {
        self.end - self.start
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// The first bytes held, `most` of them at most: written ones, or zeros.
    pub fn front(&self, most: u64) -> Data<'_> {
        let most = most.min(self.len());
        match self.stored.front() {
            Some(chunk) if chunk.at <= self.start => {
                let rest = &chunk.bytes[(self.start - chunk.at) as usize..];
                let most = usize::try_from(most).unwrap_or(usize::MAX);
                Data::Bytes(&rest[..rest.len().min(most)])
            }
            Some(chunk) => Data::Zeros(most.min(chunk.at - self.start)),
            None => Data::Zeros(most),
        }
    }

    /// Takes the first `most` bytes out, as far as there are so many, and adds them to
    /// `to`; how many there were.
    pub fn move_to(&mut self, most: u64, to: &mut Self) -> u64 {
        let mut left = most.min(self.len());
        let moved = left;
        while left > 0 {
            let piece = self.front(left);
            let len = piece.len();
            match piece {
                Data::Bytes(bytes) => to.append(bytes),
                Data::Zeros(zeros) => to.append_zeros(zeros),
            }
            self.release(self.start + len);
            left -= len;
        }
        moved
    }

    /// Gives `write` piece after piece from the start until it takes less than it is given;
    /// takes out what it took, and returns how many bytes that were.
    pub fn write_with(&mut self, mut write: impl FnMut(Data<'_>) -> u64) -> u64 {
        let before = self.start;
        while !self.is_empty() {
            let piece = self.front(u64::MAX);
            let whole = piece.len();
            let taken = write(piece);
            self.release(self.start + taken);
            if taken < whole {
                break;
            }
        }
        self.start - before
    }

    /// Adds `data` at the end.
    pub fn append(&mut self, data: &[u8]) {
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
    pub fn append_zeros(&mut self, n: u64) {
        self.end += n;
    }

    /// Keeps `data` that belongs at `at` and is not held yet; it may lie
    /// beyond the end, which does not move.
    pub fn store(&mut self, at: u64, data: &[u8]) {
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
    pub fn extend_to(&mut self, end: u64) {
        self.end = self.end.max(end);
    }

    /// Forgets everything before `to`.
    pub fn release(&mut self, to: u64) {
        self.start = self.start.max(to);
        self.end = self.end.max(to);
        while self.stored.front().is_some_and(|c| c.end() <= to) {
            self.stored.pop_front();
        }
    }

    /// Appends to `out` the bytes from `from` up to the last stored one before
    /// `to`; what follows up to `to` is zeros.
    pub fn copy_prefix(&self, from: u64, to: u64, out: &mut Vec<u8>) {
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
    pub fn copy_all(&self, from: u64, to: u64, out: &mut Vec<u8>) {
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
    fn what_moves_on_is_the_same_stream() {
        let mut from = CountedBytes::starting_at(7);
        from.append_zeros(2);
        from.append(b"abcd");
        from.append_zeros(3);
        let mut to = CountedBytes::default();
        to.append(b"x");
        assert_eq!(from.front(9), Data::Zeros(2));
        assert_eq!(from.move_to(4, &mut to), 4);
        assert_eq!(from.front(9), Data::Bytes(b"cd"));
        assert_eq!(from.front(1), Data::Bytes(b"c"));
        assert_eq!(from.move_to(u64::MAX, &mut to), 5);
        assert!(from.is_empty());
        let mut out = Vec::new();
        to.copy_all(0, to.len(), &mut out);
        assert_eq!(out, b"x\0\0abcd\0\0\0");
    }

    #[test]
    fn what_is_not_taken_is_offered_again() {
        let mut s = CountedBytes::default();
        s.append(b"abc");
        s.append_zeros(5);
        let mut seen = Vec::new();
        let mut take = |most: u64| {
            s.write_with(|piece| {
                seen.push(format!("{piece:?}"));
                piece.len().min(most)
            })
        };
        assert_eq!((take(2), take(9), take(9)), (2, 6, 0));
        assert_eq!(seen, ["Bytes([97, 98, 99])", "Bytes([99])", "Zeros(5)"]);
        assert!(s.is_empty());
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
