//! A descriptor's text, with lines and columns for refusals.

use std::ops::Range;

use narrows_scenario::Refusal;

/// A text with the places at which its lines begin.
#[derive(Debug)]
pub(crate) struct Source<'t> {
    pub name: &'t str,
    pub text: &'t str,
    lines: Vec<usize>,
}

impl<'t> Source<'t> {
    pub fn new(name: &'t str, text: &'t str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = std::iter::once(0).chain(ends.map(|(end, _)| end + 1));
        Self {
            name,
            text,
            lines: lines.collect(),
        }
    }

    /// The line with this number, from 1, without its end.
    fn line(&self, number: usize) -> (usize, &'t str) {
        let start = self.lines.get(number.saturating_sub(1)).copied();
        let start = start.unwrap_or(self.text.len());
        (start, self.text[start..].lines().next().unwrap_or(""))
    }

    /// The number of the line that has the byte at `offset`, from 1.
    pub fn line_of(&self, offset: usize) -> usize {
        self.lines.partition_point(|start| *start <= offset)
    }

    /// The bytes of the word at a line and a column, both from 1, in characters.
    pub fn word(&self, (line, column): (usize, usize)) -> Range<usize> {
        let (start, text) = self.line(line);
        let mut places = text.char_indices().skip(column.saturating_sub(1));
        let within = places.next().map_or(text.len(), |(at, _)| at);
        let rest = &text[within..];
        let end = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].find(quote).map(|end| end + 2),
            _ => rest.find([' ', ',', ']', '}']),
        };
        start + within..start + within + end.unwrap_or(rest.len())
    }

    /// Where `part` stands behind `from`, or else `otherwise`.
    pub fn find(&self, part: &str, from: Range<usize>) -> Range<usize> {
        let here = self.text.get(from.clone()).unwrap_or("");
        match here.find(part).filter(|_| !part.is_empty()) {
            Some(at) => from.start + at..from.start + at + part.len(),
            None => from.start..from.start + here.lines().next().map_or(0, str::len),
        }
    }

    /// The bytes at which the lines of `text` begin, a text of several lines that was read behind
    /// `offset`; each line that is not letter by letter there begins where the first does.
    pub fn lines_of(&self, text: &str, offset: usize) -> Vec<usize> {
        let first = self.line_of(offset);
        // A block of YAML begins in the line after its sign.
        let block = self.text[offset..].starts_with(['|', '>']);
        let places = text.lines().enumerate().map(|(number, line)| {
            let (start, here) = self.line(first + number + usize::from(block));
            here.find(line).map_or(offset, |at| start + at)
        });
        places.collect()
    }

    /// The refusal of these bytes.
    pub fn refuse(
        &self,
        span: Range<usize>,
        key: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Refusal {
        Refusal::in_text((self.name, self.text), span, key, found, allowed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_lines_are_where_they_stand() {
        let text = "a: b\nc: |\n  one\n  two\nü: \"x y\", z\n";
        let source = Source::new("f", text);
        assert_eq!(&text[source.word((1, 4))], "b");
        assert_eq!(&text[source.word((5, 4))], "\"x y\"");
        assert_eq!(source.word((9, 9)), text.len()..text.len());
        let lines = source.lines_of("one\ntwo\n", source.word((2, 4)).start);
        assert_eq!(lines, [12, 18]);
        assert_eq!(source.line_of(12), 3);
        assert_eq!(&text[source.find("two", 5..text.len())], "two");
    }
}
