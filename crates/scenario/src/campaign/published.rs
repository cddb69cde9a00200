//! The table of published figures, and which of its rows is a cell's.

use super::matrix::{Template, Words};
use super::{Formula, Metric, document, formula};
use crate::document::{At, Places};
use crate::refusal::{Refusal, one_of};
use crate::source::Spot;
use crate::tree::LONGEST_FILE;

/// A table with the words that find a row and the columns that hold metrics.
pub(super) struct Published<'a> {
    columns: Vec<String>,
    rows: Vec<Row>,
    /// The column and the words that it must hold.
    keys: Vec<(usize, Template<'a>)>,
    /// For each metric of the campaign, its column.
    metrics: Vec<Option<usize>>,
    file: Spot,
}

struct Row {
    line: usize,
    at: usize,
    values: Vec<String>,
}

impl<'a> Published<'a> {
    /// Reads `[published]` and the table that it names.
    pub(super) fn read(
        table: &'a At<document::Published>,
        places: &'a Places,
        shelf: &dyn super::Shelf,
        metrics: &[Metric],
    ) -> Result<Self, Refusal> {
        let path = places.required(table, "file", &table.file, "the name of a CSV file")?;
        let bytes = shelf.open(path).map_err(|why| {
            let allowed = "a CSV file beside this one";
            places.refuse(path, allowed).with_help(why)
        })?;
        let (columns, rows, file) = read(path, &bytes)?;
        let column = |name: &str, at: &At<String>, key: &str| {
            let known = || columns.iter().map(String::as_str);
            known().position(|c| c == name).ok_or_else(|| {
                let found = format!("the unknown column `{name}`");
                Refusal::at(places.spot(at), key, found, one_of(known()))
                    .did_you_mean(name, known())
            })
        };
        let mut keys = Vec::new();
        let row = places.required(table, "row", &table.row, "a table [published.row]")?;
        for (name, words) in row.iter() {
            let index = column(name, words, "published/row")?;
            keys.push((index, Template::of(words, places)));
        }
        let mut of_metrics = vec![None; metrics.len()];
        let allowed = "a table [published.metric]";
        let named = places.required(table, "metric", &table.metric, allowed)?;
        for (metric, name) in named.iter() {
            let known = || metrics.iter().map(|m| m.name.as_str());
            let Some(index) = known().position(|m| m == metric) else {
                let found = format!("the unknown metric `{metric}`");
                let spot = places.spot(name);
                return Err(
                    Refusal::at(spot, "published/metric", found, one_of(known()))
                        .did_you_mean(metric, known()),
                );
            };
            of_metrics[index] = Some(column(name, name, "published/metric")?);
        }
        Ok(Self {
            columns,
            rows,
            keys,
            metrics: of_metrics,
            file,
        })
    }

    /// The row of the cell whose words are given, if there is one.
    ///
    /// # Errors
    /// If a word is unknown, or two rows fit.
    pub(super) fn row(&self, words: &Words) -> Result<Option<usize>, Refusal> {
        let mut wanted = Vec::with_capacity(self.keys.len());
        for (column, template) in &self.keys {
            wanted.push((*column, template.fill(words)?));
        }
        let mut fitting = self.rows.iter().enumerate().filter(|(_, row)| {
            wanted
                .iter()
                .all(|(column, text)| same(&row.values[*column], text))
        });
        let first = fitting.next();
        if let (Some((_, first)), Some((_, second))) = (first, fitting.next()) {
            let found = format!(
                "two rows for one cell, lines {} and {}",
                first.line, second.line
            );
            let spot = self.file.at(second.at..second.at + 1);
            return Err(Refusal::at(
                &spot,
                "published",
                found,
                "one row for each cell",
            ));
        }
        Ok(first.map(|(index, _)| index))
    }

    /// Every metric's figure in that row. What has no column is worked out
    /// where its formula allows it.
    pub(super) fn figures(
        &self,
        row: usize,
        metrics: &[Metric],
    ) -> Result<Vec<Option<f64>>, Refusal> {
        let row = &self.rows[row];
        let of_column = |column: &usize| {
            let text = row.values[*column].trim();
            if text.is_empty() {
                return Ok(None);
            }
            let refuse = || {
                let spot = self.file.at(row.at..row.at + 1);
                let key = format!("published/{}", self.columns[*column]);
                Refusal::at(&spot, key, format!("`{text}`"), "a number, or N:M")
            };
            figure(text).map(Some).ok_or_else(refuse)
        };
        let columns = self.metrics.iter();
        let given: Vec<_> = columns
            .map(|column| column.as_ref().map(of_column).transpose())
            .collect::<Result<_, _>>()?;
        Ok(formula::values(metrics, &mut |index| {
            let figure = matches!(metrics[index].formula, Formula::Figure { .. });
            given[index].or_else(|| figure.then_some(None))
        }))
    }

    /// Refuses a table of which a row belongs to no cell.
    pub(super) fn all_used(&self, used: &[bool]) -> Result<(), Refusal> {
        match self.rows.iter().zip(used).find(|(_, used)| !**used) {
            None => Ok(()),
            Some((row, _)) => {
                let spot = self.file.at(row.at..row.at + 1);
                let found = "a row that is no cell's";
                Err(
                    Refusal::at(&spot, "published", found, "a row for a cell of the matrix")
                        .with_help("look at the words of [published.row]"),
                )
            }
        }
    }

    pub(super) fn rows(&self) -> usize {
        self.rows.len()
    }
}

/// Columns, rows and the text of a CSV file.
fn read(path: &str, bytes: &[u8]) -> Result<(Vec<String>, Vec<Row>, Spot), Refusal> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if text.len() <= LONGEST_FILE => text,
        _ => {
            let spot = Spot::whole(path, "");
            let allowed = format!("CSV in UTF-8 of at most {LONGEST_FILE} bytes");
            return Err(Refusal::at(&spot, "file", "something else", allowed));
        }
    };
    let file = Spot::whole(path, text);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let wrong = |error: csv::Error| {
        let at = error.position().map_or(0, |p| p.byte() as usize);
        let spot = file.at(at..at + 1);
        Refusal::at(
            &spot,
            "file",
            "a row that cannot be read",
            "CSV with a header",
        )
        .with_help(error.to_string())
    };
    let columns = reader
        .headers()
        .map_err(wrong)?
        .iter()
        .map(str::to_owned)
        .collect();
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(wrong)?;
        let position = record.position();
        rows.push(Row {
            line: position.map_or(0, |p| p.line() as usize),
            at: position.map_or(0, |p| p.byte() as usize),
            values: record.iter().map(str::to_owned).collect(),
        });
    }
    Ok((columns, rows, file))
}

/// Whether two cells of a table say the same: letter by letter or as numbers.
fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.trim(), b.trim());
    a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
}

/// A number, or a ratio `24:1`.
fn figure(text: &str) -> Option<f64> {
    let figure = match text.split_once(':') {
        Some((over, under)) => {
            over.trim().parse::<f64>().ok()? / under.trim().parse::<f64>().ok()?
        }
        None => text.parse().ok()?,
    };
    figure.is_finite().then_some(figure)
}
