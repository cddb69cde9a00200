//! Where a value was written: a file, or a word of the command line.

use std::ops::Range;
use std::sync::Arc;

/// A text that values were read from.
#[derive(Debug)]
struct Text {
    name: String,
    text: String,
    /// Where its lines begin.
    lines: Vec<usize>,
}

/// A range of bytes in a text, which it keeps alive.
#[derive(Clone, Debug)]
pub(crate) struct Spot {
    text: Arc<Text>,
    span: Range<usize>,
    /// Whether what was read is not, letter by letter, the text here.
    rewritten: bool,
}

/// The longest part of a line that an error shows.
const SHOWN: usize = 160;

impl Spot {
    /// The whole of `text`; `name` is its name in messages.
    pub(crate) fn whole(name: &str, text: &str) -> Self {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            span: 0..text.len(),
            rewritten: false,
            text: Arc::new(Text {
                name: name.to_owned(),
                text: text.to_owned(),
                lines: std::iter::once(0).chain(ends).collect(),
            }),
        }
    }

    /// The name of the file, or of the command-line option.
    pub(crate) fn name(&self) -> &str {
        &self.text.name
    }

    /// The bytes of the text that are meant.
    pub(crate) fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The text at the spot.
    pub(crate) fn text(&self) -> &str {
        self.text.text.get(self.span.clone()).unwrap_or("")
    }

    /// Another spot in the same text, moved to fit it.
    pub(crate) fn at(&self, span: Range<usize>) -> Self {
        let text = &self.text.text;
        let start = floor_boundary(text, span.start);
        let end = ceil_boundary(text, span.end.max(start));
        Self {
            text: Arc::clone(&self.text),
            span: start..end,
            rewritten: self.rewritten,
        }
    }

    /// The same spot for a value that was made from the text here.
    pub(crate) fn rewritten(mut self) -> Self {
        self.rewritten = true;
        self
    }

    /// The part of the spot that is on its first line.
    pub(crate) fn first_line(&self) -> Self {
        let len = self.text().lines().next().map_or(0, str::len);
        self.at(self.span.start..self.span.start + len)
    }

    /// The line, from 1.
    pub(crate) fn line(&self) -> usize {
        let starts = &self.text.lines;
        starts.partition_point(|start| *start <= self.span.start)
    }

    /// Line and column, both from 1; columns count characters.
    pub(crate) fn line_and_column(&self) -> (usize, usize) {
        let line = self.line();
        let start = self.text.lines[line - 1];
        let before = &self.text.text[start..self.span.start];
        (line, before.chars().count() + 1)
    }

    /// The line around the spot, clipped if it is long, and the offset of its
    /// first byte. Control characters, and those that turn the direction of what is written, are
    /// made visible without moving a byte.
    pub(crate) fn shown_line(&self) -> (String, usize) {
        let text = &self.text.text;
        let line_start = text[..self.span.start].rfind('\n').map_or(0, |i| i + 1);
        let line_end = text[line_start..]
            .find('\n')
            .map_or(text.len(), |i| line_start + i);
        let (start, end) = if line_end - line_start <= SHOWN {
            (line_start, line_end)
        } else {
            let start = line_start.max(self.span.start.saturating_sub(SHOWN / 2));
            (
                floor_boundary(text, start),
                ceil_boundary(text, line_end.min(start + SHOWN)),
            )
        };
        let shown = text[start..end]
            .chars()
            .map(|c| match (is_obeyed(c), c.len_utf8()) {
                (true, 1) => '?',
                (true, 2) => '·',
                (true, _) => '\u{fffd}',
                _ => c,
            })
            .collect();
        (shown, start)
    }

    /// The spot of `part`, a range of the decoded string that is here in
    /// quotes, as far as the escapes in it allow.
    pub(crate) fn inside_string(&self, part: Range<usize>) -> Self {
        let raw = self.text();
        let (open, literal) = match raw {
            r if r.starts_with("\"\"\"") => (3, false),
            r if r.starts_with("'''") => (3, true),
            r if r.starts_with('"') => (1, false),
            r if r.starts_with('\'') => (1, true),
            _ => (0, true),
        };
        let skipped_newline = if open == 3 {
            raw[3..]
                .strip_prefix("\r\n")
                .map(|_| 2)
                .or_else(|| raw[3..].strip_prefix('\n').map(|_| 1))
                .unwrap_or(0)
        } else {
            0
        };
        if self.rewritten || !literal && raw.contains('\\') {
            // Letters have moved: pointing at all of it is still right.
            return self.clone();
        }
        let base = self.span.start + open + skipped_newline;
        let limit = self.span.end.saturating_sub(open).max(base);
        let start = (base + part.start).min(limit);
        self.at(start..(base + part.end).clamp(start, limit))
    }
}

/// Whether a terminal obeys `c` in place of showing it: control characters, and embeddings,
/// overrides and isolates of Unicode's bidirectional algorithm (UAX #9).
pub fn is_obeyed(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

fn ceil_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}
