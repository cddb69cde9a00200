//! How sums, products and brackets are read, whatever stands between them.

use narrows_units::WordError;

/// Deeper brackets than anyone needs.
const DEEPEST: usize = 32;

/// A cursor over a line of arithmetic.
pub(super) struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// What the line is, in errors: `formula`.
    what: &'static str,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(text: &'a str, what: &'static str) -> Self {
        Self { text, at: 0, what }
    }

    /// The next letter that is no space, which stays.
    pub(super) fn next(&mut self) -> Option<char> {
        self.at += self.rest().len() - self.rest().trim_start().len();
        self.rest().chars().next()
    }

    /// What is not taken yet.
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Takes so many bytes.
    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Takes the next letter if it is one of `letters`.
    pub(super) fn take_if(&mut self, letters: &[char]) -> Option<char> {
        let letter = self.next().filter(|c| letters.contains(c))?;
        self.at += letter.len_utf8();
        Some(letter)
    }

    /// The letters, digits, `_` and `.` that come next, which stay.
    pub(super) fn word(&mut self) -> &'a str {
        self.next();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.');
        &rest[..end.unwrap_or(rest.len())]
    }

    /// The error for what stands here, where `allowed` may stand.
    pub(super) fn wrong(&mut self, allowed: &str) -> WordError {
        let found = match self.next() {
            None => format!("the end of the {}", self.what),
            Some(_) => format!("`{}`", crate::tree::clipped(self.rest())),
        };
        WordError::new(self.at..self.text.len(), found, allowed)
    }
}

/// The number that `word` is.
pub(super) fn number(word: &str) -> Option<f64> {
    let digit = word.starts_with(|c: char| c.is_ascii_digit());
    word.parse().ok().filter(|_| digit)
}

/// Two values with one of `+ - * /` between.
pub(super) fn apply(left: f64, op: char, right: f64) -> f64 {
    match op {
        '+' => left + right,
        '-' => left - right,
        '*' => left * right,
        _ => left / right,
    }
}

/// What reads expressions over terms of its own.
pub(super) trait Arithmetic<'a> {
    /// What an expression is.
    type Term;

    /// Where it reads.
    fn scanner(&mut self) -> &mut Scanner<'a>;

    /// Two terms with one of `+ - * /` between.
    fn two(left: Self::Term, op: char, right: Self::Term) -> Self::Term;

    /// A term that is no arithmetic, so many brackets deep.
    fn term(&mut self, depth: usize) -> Result<Self::Term, WordError>;

    /// Sums of products, so many brackets deep.
    fn sum(&mut self, depth: usize) -> Result<Self::Term, WordError> {
        let mut left = self.product(depth)?;
        while let Some(op) = self.scanner().take_if(&['+', '-']) {
            left = Self::two(left, op, self.product(depth)?);
        }
        Ok(left)
    }

    /// Products of terms and of what stands in brackets.
    fn product(&mut self, depth: usize) -> Result<Self::Term, WordError> {
        let mut left = self.factor(depth)?;
        while let Some(op) = self.scanner().take_if(&['*', '/']) {
            left = Self::two(left, op, self.factor(depth)?);
        }
        Ok(left)
    }

    /// A term, or a sum in brackets.
    fn factor(&mut self, depth: usize) -> Result<Self::Term, WordError> {
        if self.scanner().take_if(&['(']).is_some() {
            return self.bracketed(depth);
        }
        self.term(depth)
    }

    /// A sum and its closing bracket; the opening one is taken.
    fn bracketed(&mut self, depth: usize) -> Result<Self::Term, WordError> {
        if depth == DEEPEST {
            return Err(self.scanner().wrong("fewer brackets"));
        }
        let inner = self.sum(depth + 1)?;
        match self.scanner().take_if(&[')']) {
            Some(_) => Ok(inner),
            None => Err(self.scanner().wrong("`)`")),
        }
    }
}
