//! Why an input was refused: where, what was found, what is allowed.

use std::fmt;
use std::ops::Range;

use miette::{
    Diagnostic, LabeledSpan, MietteError, MietteSpanContents, SourceCode, SourceSpan, SpanContents,
};
use narrows_units::WordError;

use crate::source::Spot;

/// An input that was refused before anything ran.
#[derive(Clone, Debug)]
pub struct Refusal(Box<Parts>);

#[derive(Clone, Debug)]
struct Parts {
    key: String,
    found: String,
    allowed: String,
    help: Option<String>,
    place: Option<Place>,
    of_rights: bool,
}

/// A spot as a message shows it.
#[derive(Clone, Debug)]
struct Place {
    file: String,
    /// From 1.
    line: usize,
    /// From 1, in characters.
    column: usize,
    /// The bytes of the file that are meant, all of them in `shown`.
    span: Range<usize>,
    /// The line, clipped.
    shown: String,
    /// The offset in the file of `shown`.
    shown_from: usize,
}

impl Place {
    fn of(spot: &Spot) -> Self {
        let spot = spot.first_line();
        let (line, column) = spot.line_and_column();
        let (shown, shown_from) = spot.shown_line();
        let span = spot.span();
        let end = shown_from + shown.len();
        Self {
            file: spot.name().to_owned(),
            line,
            column,
            span: span.start.min(end)..span.end.min(end),
            shown,
            shown_from,
        }
    }
}

impl Refusal {
    /// A refusal with no place in a text: an option of the command line, an
    /// output folder. `key` names the thing, `found` and `allowed` complete
    /// "found …; allowed: …".
    pub fn new(
        key: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        Self(Box::new(Parts {
            key: key.into(),
            found: found.into(),
            allowed: allowed.into(),
            help: None,
            place: None,
            of_rights: false,
        }))
    }

    /// A refusal of the bytes `span` of `text`, a file of another kind that has the name
    /// `file`. Where what was found is nearly a word in backticks of what is allowed, it
    /// says so.
    pub fn in_text(
        (file, text): (&str, &str),
        span: Range<usize>,
        key: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        let spot = Spot::whole(file, text).at(span);
        Self::at(&spot, key, found, allowed).or_did_you_mean()
    }

    pub(crate) fn at(
        spot: &Spot,
        key: impl Into<String>,
        found: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        let mut refusal = Self::new(key, found, allowed);
        refusal.0.place = Some(Place::of(spot));
        refusal
    }

    /// What `error` says about the string at `spot`.
    pub(crate) fn words(spot: &Spot, key: impl Into<String>, error: WordError) -> Self {
        let spot = spot.inside_string(error.span);
        let mut refusal = Self::at(&spot, key, error.found, error.allowed);
        refusal.0.help = error.help.map(sentence);
        refusal.or_did_you_mean()
    }

    /// The same; where there is no advice yet, the word of what is allowed that what
    /// was found is probably a slip for.
    #[must_use]
    pub(crate) fn or_did_you_mean(mut self) -> Self {
        if self.0.help.is_none() {
            let near = near_word(&self.0.found, &self.0.allowed);
            let near = near.map(|near| format!("did you mean `{near}`?"));
            self.0.help = near.or_else(|| with_unit(&self.0.found, &self.0.allowed));
        }
        self
    }

    /// The same with advice.
    #[must_use]
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.0.help = Some(sentence(help.into()));
        self
    }

    /// The same; whether it is so because this user may not read the file.
    #[must_use]
    pub(crate) fn of_file(mut self, error: &std::io::Error) -> Self {
        self.0.of_rights = error.kind() == std::io::ErrorKind::PermissionDenied;
        self
    }

    /// Whether it is refused because this user may not read the file.
    pub fn is_of_rights(&self) -> bool {
        self.0.of_rights
    }

    /// The same, of something else that was found.
    #[must_use]
    pub(crate) fn with_found(mut self, found: impl Into<String>) -> Self {
        self.0.found = found.into();
        self
    }

    /// The same, said of one cell of a campaign.
    #[must_use]
    pub(crate) fn in_cell(mut self, cell: &str) -> Self {
        let help = match self.0.help.take() {
            Some(help) => format!("{help} This is in the cell {cell}."),
            None => format!("this is in the cell {cell}."),
        };
        self.0.help = Some(help);
        self
    }

    /// The same, with advice if `word` is close to one of `known`.
    #[must_use]
    pub(crate) fn did_you_mean<'a>(
        mut self,
        word: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        if let Some(near) = nearest(word, known) {
            self.0.help = Some(format!("did you mean `{near}`?"));
        }
        self
    }

    /// The same, in which `shown` has spelled all texts that may come from a file.
    #[must_use]
    pub fn spelled(mut self, shown: impl Fn(&str) -> String) -> Self {
        let parts = &mut *self.0;
        let texts = [&mut parts.key, &mut parts.found, &mut parts.allowed];
        let more = parts.help.iter_mut();
        let files = parts.place.iter_mut().map(|place| &mut place.file);
        for text in texts.into_iter().chain(more).chain(files) {
            *text = shown(text);
        }
        self
    }

    /// The file, or the option of the command line, if there is one.
    pub fn file(&self) -> Option<&str> {
        self.0.place.as_ref().map(|p| p.file.as_str())
    }

    /// Line and column, both from 1.
    pub fn line_and_column(&self) -> Option<(usize, usize)> {
        self.0.place.as_ref().map(|p| (p.line, p.column))
    }

    /// The name of the value that was refused.
    pub fn key(&self) -> &str {
        &self.0.key
    }

    /// What was found there.
    pub fn found(&self) -> &str {
        &self.0.found
    }

    /// What is allowed there.
    pub fn allowed(&self) -> &str {
        &self.0.allowed
    }

    /// What to do about it, if there is more to say.
    pub fn advice(&self) -> Option<&str> {
        self.0.help.as_deref()
    }

    /// All of it in one line, with file, line and column in front.
    pub fn to_line(&self) -> String {
        let mut line = match (self.file(), self.line_and_column()) {
            (Some(file), Some((line, column))) => format!("{file}:{line}:{column}: {self}"),
            _ => self.to_string(),
        };
        if let Some(help) = self.advice() {
            line.push_str(" (");
            line.push_str(help);
            line.push(')');
        }
        line
    }
}

/// The longest key that is shown, in characters.
const LONGEST_KEY: usize = 200;

/// A key for a terminal: names from a file may be in it, so control characters are escaped and a
/// long one is cut off.
fn shown(key: &str) -> String {
    let mut shown = String::new();
    for (place, c) in key.chars().enumerate() {
        match c {
            _ if place == LONGEST_KEY => {
                shown.push('…');
                break;
            }
            c if c.is_control() => shown.extend(c.escape_debug()),
            c => shown.push(c),
        }
    }
    shown
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Parts {
            key,
            found,
            allowed,
            ..
        } = &*self.0;
        if !key.is_empty() {
            write!(f, "{}: ", shown(key))?;
        }
        write!(f, "found {found}; allowed: {allowed}")
    }
}

impl std::error::Error for Refusal {}

impl Diagnostic for Refusal {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        self.0.help.as_ref().map(|h| Box::new(h) as _)
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        self.0.place.as_ref().map(|p| p as &dyn SourceCode)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let span = &self.0.place.as_ref()?.span;
        let label = LabeledSpan::new_primary_with_span(
            Some("here".to_owned()),
            (span.start, span.end - span.start),
        );
        Some(Box::new(std::iter::once(label)))
    }
}

impl SourceCode for Place {
    /// Shows one line whatever is asked for, so that no input, however long or
    /// wild, floods a terminal.
    fn read_span<'a>(
        &'a self,
        _: &SourceSpan,
        before: usize,
        after: usize,
    ) -> Result<Box<dyn SpanContents<'a> + 'a>, MietteError> {
        let (offset, column) = if before == 0 && after == 0 {
            (self.span.start, self.column - 1)
        } else {
            (self.shown_from, 0)
        };
        let shown = self.shown.get(offset - self.shown_from..).unwrap_or("");
        Ok(Box::new(MietteSpanContents::new_named(
            self.file.clone(),
            shown.as_bytes(),
            (offset, shown.len()).into(),
            self.line - 1,
            column,
            1,
        )))
    }
}

/// `text` with a stop at its end.
fn sentence(mut text: String) -> String {
    if !text.ends_with(['.', '?', '!', '…']) {
        text.push('.');
    }
    text
}

/// The one of `known` that `word` was probably meant to be.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let allowed_slips = (word.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(word, k), k))
        .filter(|(slips, _)| *slips <= allowed_slips)
        .min_by_key(|(slips, _)| *slips)
        .map(|(_, k)| k)
}

/// The word of `allowed` that the word quoted in `found` is probably a slip
/// for.
fn near_word<'a>(found: &str, allowed: &'a str) -> Option<&'a str> {
    let (_, rest) = found.split_once('`')?;
    let (word, _) = rest.split_once('`')?;
    let is_word = |w: &&str| w.len() > 2 && w.starts_with(|c: char| c.is_ascii_lowercase());
    let parts = allowed.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-')));
    // All words that are allowed are of small letters.
    let lower = word.to_ascii_lowercase();
    Some(lower.as_str()).filter(is_word)?;
    nearest(&lower, parts.filter(is_word)).filter(|near| *near != word)
}

/// What a number without a unit probably was to be.
fn with_unit(found: &str, allowed: &str) -> Option<String> {
    let number = found.strip_prefix("the number ").or_else(|| {
        let word = found.strip_prefix('`')?.strip_suffix('`')?;
        word.parse::<f64>().ok().map(|_| word)
    })?;
    let (meant, other) = match allowed {
        _ if allowed.starts_with("a time such as") => ("s", "ms"),
        _ if allowed.starts_with("a rate such as") => ("Mbit", "Gbit"),
        _ => return None,
    };
    Some(format!(
        "a unit belongs to it: `{number}{meant}` or `{number}{other}`."
    ))
}

/// `a`, `b` or `c`.
pub(crate) fn one_of<'a>(known: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 24;
    let mut known: Vec<String> = known.into_iter().map(|k| format!("`{k}`")).collect();
    if known.len() > MOST {
        let more = known.len() - MOST;
        known.truncate(MOST);
        return format!("{} … ({more} more)", known.join(", "));
    }
    match known.split_last() {
        None => "nothing".to_owned(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} or {last}", rest.join(", ")),
    }
}
