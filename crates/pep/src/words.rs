//! How files spell the ways of a request.

use std::fmt;

use narrows_units::{Value, word_for};

use crate::request::Layout;
use crate::via::FirstData;

const LAYOUTS: [(&str, Layout); 2] = [("rfc8803", Layout::Convert), ("thesis", Layout::Thesis)];

const FIRST_DATA: [(&str, FirstData); 3] = [
    ("with-request", FirstData::WithRequest),
    ("after-handshake", FirstData::AfterHandshake),
    ("after-answer", FirstData::AfterAnswer),
];

fn find<T: Copy>(known: &[(&str, T)], word: &str) -> Option<T> {
    let found = known.iter().find(|(name, _)| *name == word);
    found.map(|(_, value)| *value)
}

impl Value for Layout {
    const ALLOWED: &'static str = "`rfc8803` or `thesis`";

    fn parse(word: &str) -> Option<Self> {
        find(&LAYOUTS, word)
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_for(&LAYOUTS, self))
    }
}

impl Value for FirstData {
    const ALLOWED: &'static str = "`with-request`, `after-handshake` or `after-answer`";

    fn parse(word: &str) -> Option<Self> {
        find(&FIRST_DATA, word)
    }
}

impl fmt::Display for FirstData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(word_for(&FIRST_DATA, self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        for (word, layout) in LAYOUTS {
            assert_eq!(Layout::parse(word), Some(layout));
            assert_eq!(layout.to_string(), word);
        }
        for (word, first_data) in FIRST_DATA {
            assert_eq!(FirstData::parse(word), Some(first_data));
            assert_eq!(first_data.to_string(), word);
        }
        assert_eq!(Layout::parse("RFC8803"), None);
        assert_eq!(FirstData::parse(""), None);
    }
}
