//! What a guest writes to its machine: frames, each with its length and kind before it.

use std::io::{self, Read, Write};

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FrameKind {
    /// The guest is up and has read its job; empty.
    Up,
    /// Events, see [`events`](crate::events).
    Events,
    /// The time of the run that was reached, in nanoseconds, 8 bytes.
    Reached,
    /// The name of a file below the run's folder, a zero, and what comes next in it.
    File,
    /// How the run ended, in JSON; the last frame.
    Ended,
    /// Why the run was refused or failed, in words; the last frame.
    Failed,
}

impl FrameKind {
    const ALL: [Self; 6] = [
        Self::Up,
        Self::Events,
        Self::Reached,
        Self::File,
        Self::Ended,
        Self::Failed,
    ];
}

/// Bytes before a frame's content: its length and its kind.
const HEAD: usize = 5;

/// The longest content of a frame: what is longer did not come from a guest.
pub(crate) const LONGEST: usize = 16 << 20;

/// Writes one frame.
///
/// # Errors
/// As the channel does.
pub(crate) fn write(channel: &mut dyn Write, kind: FrameKind, content: &[u8]) -> io::Result<()> {
    // Content is at most `LONGEST` long.
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&(content.len() as u32).to_le_bytes());
    head[4] = kind as u8;
    channel.write_all(&head)?;
    channel.write_all(content)
}

/// Takes frames out of what comes in pieces.
#[derive(Default)]
pub(crate) struct Frames {
    bytes: Vec<u8>,
    taken: usize,
}

impl Frames {
    /// Reads what there is from `channel`; how many bytes that were, 0 at its end.
    ///
    /// # Errors
    /// As the channel does.
    pub(crate) fn fill(&mut self, channel: &mut dyn Read) -> io::Result<usize> {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        let before = self.bytes.len();
        // As much as the pipe of an ordinary user holds at most.
        self.bytes.resize(before + (1 << 20), 0);
        let read = channel.read(&mut self.bytes[before..]);
        self.bytes.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When what came is none.
    pub(crate) fn next(&mut self) -> Result<Option<(FrameKind, &[u8])>, NoFrame> {
        let rest = &self.bytes[self.taken..];
        let Some((head, rest)) = rest.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let [a, b, c, d, kind] = *head;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let kind = *FrameKind::ALL.get(usize::from(kind)).ok_or(NoFrame)?;
        if length > LONGEST {
            return Err(NoFrame);
        }
        let Some(content) = rest.get(..length) else {
            return Ok(None);
        };
        self.taken += HEAD + length;
        Ok(Some((kind, content)))
    }
}

/// What came is no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoFrame;

#[cfg(test)]
mod tests {
    use super::*;

    /// Hands out so many bytes at a time.
    struct Dripping<'a>(&'a [u8], usize);

    impl Read for Dripping<'_> {
        fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
            let some = self.0.len().min(self.1).min(to.len());
            to[..some].copy_from_slice(&self.0[..some]);
            self.0 = &self.0[some..];
            Ok(some)
        }
    }

    #[test]
    fn frames_come_out_as_they_went_in_however_they_are_cut() {
        let mut all = Vec::new();
        let long = vec![9; 3 << 19];
        let sent =
            FrameKind::ALL.map(|kind| (kind, if kind as u8 == 1 { &long[..] } else { b"x" }));
        for (kind, content) in sent {
            write(&mut all, kind, content).unwrap();
        }
        for step in [9_001, 70_001, usize::MAX] {
            let (mut frames, mut channel) = (Frames::default(), Dripping(&all, step));
            let mut got = Vec::new();
            loop {
                while let Some((kind, content)) = frames.next().unwrap() {
                    got.push((kind, content.to_vec()));
                }
                if frames.fill(&mut channel).unwrap() == 0 {
                    break;
                }
            }
            let sent: Vec<_> = sent.iter().map(|(k, c)| (*k, c.to_vec())).collect();
            assert!(got == sent, "by {step}");
        }
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        for bytes in [[0, 0, 0, 0, 99], [0, 0, 0, 0xff, 1]] {
            let mut frames = Frames::default();
            frames.fill(&mut &bytes[..]).unwrap();
            assert_eq!(frames.next(), Err(NoFrame));
        }
    }

    #[test]
    fn kinds_stand_at_the_place_of_their_number() {
        for (number, kind) in FrameKind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, number);
        }
    }
}
