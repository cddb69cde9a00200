//! The options of a TCP header, as bytes.

use std::ops::Range;

/// Ends the list.
const END: u8 = 0;
/// Fills.
pub(crate) const NOP: u8 = 1;

/// Bytes that a header has for options (RFC 9293 §3.1).
pub(crate) const ROOM: usize = 40;

/// One option: its kind and where what it holds stands in the bytes of the options.
pub(crate) type Found = (u8, Range<usize>);

/// The options in `bytes` but for fillers, up to the end of the list or the first whose
/// length cannot be.
pub(crate) fn options(bytes: &[u8]) -> impl Iterator<Item = Found> {
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            match *bytes.get(at)? {
                END => return None,
                NOP => at += 1,
                kind => {
                    let len = usize::from(*bytes.get(at + 1)?);
                    if len < 2 || at + len > bytes.len() {
                        return None;
                    }
                    let body = at + 2..at + len;
                    at += len;
                    return Some((kind, body));
                }
            }
        }
    })
}

/// The first option of `kind`; of any kind if that is `None`.
pub(crate) fn find(bytes: &[u8], kind: Option<u8>) -> Option<Found> {
    options(bytes).find(|(found, _)| kind.is_none_or(|kind| kind == *found))
}

/// Whether `bytes` end in an option that cannot be read.
pub(crate) fn are_broken(bytes: &[u8]) -> bool {
    let mut end = 0;
    for (_, body) in options(bytes) {
        end = body.end;
    }
    let rest = bytes[end..].iter().find(|byte| **byte != NOP);
    rest.is_some_and(|byte| *byte != END)
}

/// A list of options under change. It holds 40 bytes at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OptionList {
    bytes: Vec<u8>,
}

impl OptionList {
    /// The list in `bytes` without its fillers.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        let mut list = Self::default();
        for (_, body) in options(bytes) {
            list.bytes
                .extend_from_slice(&bytes[body.start - 2..body.end]);
        }
        list
    }

    /// Appends an option; whether there is room.
    pub(crate) fn push(&mut self, kind: u8, body: &[u8]) -> bool {
        let fits = self.bytes.len() + 2 + body.len() <= ROOM;
        if fits {
            self.bytes.extend_from_slice(&[kind, 2 + body.len() as u8]);
            self.bytes.extend_from_slice(body);
        }
        fits
    }

    /// Gives each option of `kind` other contents; whether there is room.
    pub(crate) fn set(&mut self, kind: u8, body: &[u8]) -> bool {
        let mut changed = Self::default();
        for (found, range) in options(&self.bytes) {
            let body = if found == kind {
                body
            } else {
                &self.bytes[range]
            };
            if !changed.push(found, body) {
                return false;
            }
        }
        *self = changed;
        true
    }

    /// Keeps the options whose kinds fit.
    pub(crate) fn retain(&mut self, fits: impl Fn(u8) -> bool) {
        let mut kept = Self::default();
        for (kind, body) in options(&self.bytes) {
            if fits(kind) {
                kept.push(kind, &self.bytes[body]);
            }
        }
        *self = kept;
    }

    /// The options, filled up to whole words.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), NOP);
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// MSS 1460, SACK permitted, timestamps, a filler, window scale 7.
    const LINUX: [u8; 20] = [
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ];

    #[test]
    fn options_are_found_and_a_length_that_cannot_be_ends_the_list() {
        let kinds = |bytes: &[u8]| options(bytes).map(|(kind, _)| kind).collect::<Vec<_>>();
        assert_eq!(kinds(&LINUX), [2, 4, 8, 3]);
        assert_eq!(find(&LINUX, Some(3)), Some((3, 19..20)));
        assert_eq!(find(&LINUX, None), Some((2, 2..4)));
        assert_eq!(find(&[1, 1, 0, 2, 4, 0, 0], None), None);
        for (bytes, broken) in [
            (&LINUX[..], false),
            (&[1, 1, 0, 9], false),
            (&[2, 0], true),
            (&[2, 1], true),
            (&[4, 2, 2, 4, 5], true),
            (&[2], true),
        ] {
            assert_eq!(are_broken(bytes), broken, "{bytes:?}");
        }
    }

    #[test]
    fn a_changed_list_is_whole_words_and_never_longer_than_a_header_s_room() {
        let mut list = OptionList::of(&LINUX);
        list.retain(|kind| kind != 8);
        assert!(list.set(2, &[4, 0]));
        assert_eq!(
            list.clone().into_bytes(),
            [2, 4, 4, 0, 4, 2, 3, 3, 7, 1, 1, 1]
        );
        assert!(list.push(254, &[9; 20]));
        assert!(!list.push(254, &[9; 8]));
        assert!(!list.set(4, &[0; 12]));
        assert!(list.into_bytes().len() <= ROOM);
    }
}
