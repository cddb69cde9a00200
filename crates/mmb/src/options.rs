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

/// A list of options under change. It holds 40 bytes at most, and keeps its fillers as long
/// as no option comes, goes or changes its length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OptionList {
    bytes: Vec<u8>,
    /// Whether it is without fillers.
    packed: bool,
}

impl OptionList {
    /// The list in `bytes`.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self {
            bytes: bytes.to_vec(),
            packed: false,
        }
    }

    /// The options that `change` makes of each, without fillers; `None` if there is no room.
    fn repacked<'a>(&'a self, change: impl Fn(u8, &'a [u8]) -> Option<&'a [u8]>) -> Option<Self> {
        let mut bytes = Vec::with_capacity(ROOM);
        for (kind, range) in options(&self.bytes) {
            if let Some(body) = change(kind, &self.bytes[range]) {
                bytes.extend_from_slice(&[kind, 2 + body.len() as u8]);
                bytes.extend_from_slice(body);
            }
        }
        let packed = true;
        (bytes.len() <= ROOM).then_some(Self { bytes, packed })
    }

    /// Appends an option; whether there is room.
    pub(crate) fn push(&mut self, kind: u8, body: &[u8]) -> bool {
        let packed = self.repacked(|_, body| Some(body));
        let room = |list: &Self| list.bytes.len() + 2 + body.len() <= ROOM;
        let Some(mut list) = packed.filter(room) else {
            return false;
        };
        list.bytes.extend_from_slice(&[kind, 2 + body.len() as u8]);
        list.bytes.extend_from_slice(body);
        *self = list;
        true
    }

    /// Gives each option of `kind` that is as long as `body` those contents.
    pub(crate) fn write(&mut self, kind: u8, body: &[u8]) {
        let places: Vec<_> = options(&self.bytes)
            .filter(|(found, range)| *found == kind && range.len() == body.len())
            .collect();
        for (_, range) in places {
            self.bytes[range].copy_from_slice(body);
        }
    }

    /// Gives each option of `kind` other contents; whether there is room.
    pub(crate) fn set(&mut self, kind: u8, body: &[u8]) -> bool {
        let longer = |(found, range): Found| found == kind && range.len() != body.len();
        if !options(&self.bytes).any(longer) {
            self.write(kind, body);
            return true;
        }
        let changed = self.repacked(|found, old| Some(if found == kind { body } else { old }));
        let fits = changed.is_some();
        if let Some(changed) = changed {
            *self = changed;
        }
        fits
    }

    /// Keeps the options whose kinds fit.
    pub(crate) fn retain(&mut self, fits: impl Fn(u8) -> bool) {
        if options(&self.bytes).all(|(kind, _)| fits(kind)) {
            return;
        }
        if let Some(kept) = self.repacked(|kind, body| fits(kind).then_some(body)) {
            *self = kept;
        }
    }

    /// The options; a list that changed is filled up to whole words.
    pub(crate) fn into_bytes(mut self) -> Vec<u8> {
        if self.packed {
            self.bytes.resize(self.bytes.len().next_multiple_of(4), NOP);
        }
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

    #[test]
    fn what_stays_as_long_stays_in_its_place() {
        let mut list = OptionList::of(&LINUX);
        list.write(2, &[5, 0]);
        list.write(3, &[9, 9]);
        assert!(list.set(8, &[7; 8]));
        list.retain(|kind| kind != 22);
        let mut expected = LINUX;
        expected[2..4].copy_from_slice(&[5, 0]);
        expected[8..16].fill(7);
        assert_eq!(list.into_bytes(), expected);
    }
}
