//! What was read of an input and has not been used up: packets are handed out
//! where they were read to, without a copy.

use std::io::{self, Read};
use std::ops::Range;

use super::CaptureError;

/// Bytes that are asked of the input at a time: a good part of a core's
/// second-level cache, and far above what a call to the kernel costs.
const READ_AHEAD: usize = 128 << 10;

/// A window that moves over an input.
#[derive(Debug)]
pub(super) struct Window<R: Read> {
    input: R,
    bytes: Vec<u8>,
    /// The first byte that is not used up.
    at: usize,
    /// The end of what was read.
    end: usize,
}

impl<R: Read> Window<R> {
    pub fn new(input: R) -> Self {
        Self {
            input,
            bytes: Vec::new(),
            at: 0,
            end: 0,
        }
    }

    /// The next `n` bytes; `None` if the input ends before the first of them.
    /// They stay where they are until more is asked for. Waits for no more than
    /// these, and memory grows with what arrives, not with `n`.
    pub fn next(&mut self, n: usize) -> Result<Option<Range<usize>>, CaptureError> {
        if self.end - self.at < n && !self.more(n)? {
            return Ok(None);
        }
        let range = self.at..self.at + n;
        self.at = range.end;
        Ok(Some(range))
    }

    /// Bytes of a range that [`next`](Self::next) gave last.
    pub fn get(&self, range: Range<usize>) -> &[u8] {
        &self.bytes[range]
    }

    /// All bytes; ranges that [`next`](Self::next) gave last count from here.
    pub fn all(&self) -> &[u8] {
        &self.bytes
    }

    /// Reads until `n` bytes are there; false if the input has no more at all.
    #[cold]
    fn more(&mut self, n: usize) -> Result<bool, CaptureError> {
        self.bytes.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < n {
            if self.bytes.len() == self.end {
                self.bytes.resize(self.end + READ_AHEAD, 0);
            }
            // No more than that even where one large packet has made room.
            let room = self.bytes.len().min(self.end + READ_AHEAD);
            match self.input.read(&mut self.bytes[self.end..room]) {
                Ok(0) if self.end == 0 => return Ok(false),
                Ok(0) => return Err(CaptureError::Truncated),
                Ok(read) => self.end += read,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                // What was compressed ends inside of it.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
                    return Err(CaptureError::Truncated);
                }
                Err(e) => return Err(e.into()),
            }
        }
        Ok(true)
    }
}
