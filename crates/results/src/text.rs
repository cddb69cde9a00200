//! Tables of plain text.

/// The alignment of a column's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// At its left edge.
    Left,
    /// At its right edge.
    Right,
}

/// A table: a head, rows, and columns as wide as they need be.
#[derive(Clone, Debug)]
pub struct TextTable {
    columns: Vec<(String, Align)>,
    /// Words above the head: the column over which each starts, in order.
    groups: Vec<(usize, String)>,
    rows: Vec<Vec<String>>,
}

/// Between two columns.
const GAP: &str = "  ";

impl TextTable {
    /// An empty one with these heads.
    pub fn new(columns: &[(&str, Align)]) -> Self {
        Self {
            columns: columns
                .iter()
                .map(|(head, align)| ((*head).to_owned(), *align))
                .collect(),
            groups: Vec::new(),
            rows: Vec::new(),
        }
    }

    /// Puts `words` above the head, from the column `first` on.
    pub fn group(&mut self, first: usize, words: &str) {
        self.groups.push((first, words.to_owned()));
    }

    /// Adds a row: a cell for each column.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether it has no row.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, each with its newline and without blanks at its end.
    pub fn render(&self) -> String {
        let width = |text: &str| text.chars().count();
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, (head, _))| {
                let cells = self.rows.iter().filter_map(|r| r.get(i));
                cells.map(|c| width(c)).max().unwrap_or(0).max(width(head))
            })
            .collect();
        // A group's words end before those of the next begin.
        for (i, (first, words)) in self.groups.iter().enumerate() {
            let end = self.groups.get(i + 1).map_or(widths.len(), |next| next.0);
            let columns = &widths[*first..end];
            let wide = columns.iter().sum::<usize>() + GAP.len() * (columns.len() - 1);
            widths[*first] += width(words).saturating_sub(wide);
        }
        let mut text = String::new();
        if !self.groups.is_empty() {
            let mut line = String::new();
            for (first, words) in &self.groups {
                let start: usize = widths[..*first].iter().map(|w| w + GAP.len()).sum();
                line.push_str(&" ".repeat(start.saturating_sub(width(&line))));
                line.push_str(words);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        let heads: Vec<String> = self.columns.iter().map(|c| c.0.clone()).collect();
        for row in std::iter::once(&heads).chain(&self.rows) {
            let mut line = String::new();
            for (i, (cell, wide)) in row.iter().zip(&widths).enumerate() {
                if i > 0 {
                    line.push_str(GAP);
                }
                let blanks = " ".repeat(wide - width(cell));
                match self.columns[i].1 {
                    Align::Left => line.extend([cell.as_str(), &blanks]),
                    Align::Right => line.extend([blanks.as_str(), cell]),
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// `value` with as many decimals as its size deserves (three digits or so);
/// `-` where there is none.
pub fn number(value: Option<f64>) -> String {
    let Some(v) = value else {
        return "-".to_owned();
    };
    let decimals = match v.abs() {
        0.0 => 0,
        a if a < 0.0995 => 4,
        a if a < 9.995 => 3,
        a if a < 99.95 => 2,
        a if a < 9999.5 => 1,
        _ => 0,
    };
    format!("{v:.decimals$}")
}

/// Seconds of the run, to a millisecond and without zeros at the end.
pub fn seconds(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_groups_do_not_run_into_each_other() {
        let mut table = TextTable::new(&[
            ("cell", Align::Left),
            ("measured", Align::Right),
            ("measured", Align::Right),
        ]);
        table.group(1, "meeting_p95_ms");
        table.group(2, "late");
        table.row(["a", "1", "2"].map(str::to_owned).to_vec());
        let expected = "      meeting_p95_ms  late\n\
                        cell        measured  measured\n\
                        a                  1         2\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn seconds_are_rounded_for_people() {
        assert_eq!(seconds(20.0 / 3.0), "6.667");
        assert_eq!(seconds(20.0), "20");
        assert_eq!(seconds(0.05), "0.05");
        assert_eq!(seconds(0.0), "0");
    }

    #[test]
    fn words_above_several_columns_have_the_gaps_between_them_too() {
        let mut table = TextTable::new(&[("first", Align::Left), ("second", Align::Left)]);
        assert!(table.is_empty());
        // As wide as both columns and what is between them.
        table.group(0, "thirteen long");
        table.row(["1", "2"].map(str::to_owned).to_vec());
        assert!(!table.is_empty());
        let expected = "thirteen long\n\
                        first  second\n\
                        1      2\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn a_number_has_about_three_digits_and_none_behind_the_point_of_a_large_one() {
        for (value, text) in [
            (0.0, "0"),
            (0.012_34, "0.0123"),
            (-0.05, "-0.0500"),
            (0.0995, "0.100"),
            (1.2345, "1.234"),
            (9.995, "9.99"),
            (12.345, "12.35"),
            (99.95, "100.0"),
            (1234.56, "1234.6"),
            (9999.5, "10000"),
            (123_456.7, "123457"),
        ] {
            assert_eq!(number(Some(value)), text);
        }
        assert_eq!(number(None), "-");
    }
}
