//! Reading and writing a queue's parameters in tc's manner: keys in any
//! order, each at most refused with its place and what may stand there.

use std::fmt;

use narrows_units::{Value, Word, WordError, Words};

/// The parameters of one kind of queue.
pub(crate) trait Parameters: Clone + Default {
    /// The keys, for error messages.
    const KEYS: &'static str;

    /// What holds where none of `words` says otherwise.
    fn usual(_words: &Words<'_>) -> Self {
        Self::default()
    }

    /// Takes the value of `key`, which was just read, or says that there is
    /// no such key.
    ///
    /// # Errors
    /// When the value is missing or refused.
    fn set(&mut self, key: Word<'_>, words: &mut Words<'_>) -> Result<bool, WordError>;

    /// Checks what no single key can.
    ///
    /// # Errors
    /// When parameters contradict each other; `line` is what was read.
    fn check(&mut self, _line: &str) -> Result<(), WordError> {
        Ok(())
    }

    /// Checks what a queue that runs with `_old` cannot change.
    ///
    /// # Errors
    /// When there is such a change; `line` is what was read.
    fn check_change(&self, _old: &Self, _line: &str) -> Result<(), WordError> {
        Ok(())
    }
}

/// Reads all that is left of `words` into `parameters`.
///
/// # Errors
/// When a word is not one of the keys, or a value is refused.
fn read<P: Parameters>(parameters: &mut P, mut words: Words<'_>) -> Result<(), WordError> {
    while let Some(key) = words.take() {
        if !parameters.set(key, &mut words)? {
            return Err(WordError::new(
                key.span(),
                format!("`{}`", key.text),
                P::KEYS,
            ));
        }
    }
    parameters.check(words.line())
}

/// Parameters as usual but for what `words` name.
///
/// # Errors
/// When a word is not one of the keys, or a value is refused.
pub(crate) fn fresh<P: Parameters>(words: Words<'_>) -> Result<P, WordError> {
    let mut parameters = P::usual(&words);
    read(&mut parameters, words)?;
    Ok(parameters)
}

/// `current` after a change in mid-run: `words` are parameters, with or
/// without the `kind` before them; what they do not name stays.
///
/// # Errors
/// As [`fresh`], and where a running queue keeps what it has.
pub(crate) fn changed<P: Parameters>(current: &P, kind: &str, words: &str) -> Result<P, WordError> {
    let line = words;
    let mut words = Words::new(line);
    words.take_if(kind);
    let mut parameters = current.clone();
    read(&mut parameters, words)?;
    parameters.check_change(current, line)?;
    Ok(parameters)
}

/// Takes a value that has to satisfy `fits`.
///
/// # Errors
/// When it is missing, is not a `T`, or does not fit; `allowed` says what does.
pub(crate) fn value_where<T: Value>(
    words: &mut Words<'_>,
    allowed: &str,
    fits: impl FnOnce(&T) -> bool,
) -> Result<T, WordError> {
    let Some(word) = words.take() else {
        return Err(words.ended(allowed));
    };
    T::parse(word.text)
        .filter(fits)
        .ok_or_else(|| WordError::new(word.span(), format!("`{}`", word.text), allowed))
}

/// Writes ` key value` unless it is the usual value; with `#` always.
pub(crate) fn stated<T: fmt::Display + PartialEq>(
    f: &mut fmt::Formatter<'_>,
    key: &str,
    value: &T,
    usual: &T,
) -> fmt::Result {
    if f.alternate() || value != usual {
        pair(f, key, value)?;
    }
    Ok(())
}

/// Writes ` key value`.
pub(crate) fn pair(f: &mut fmt::Formatter<'_>, key: &str, value: &dyn fmt::Display) -> fmt::Result {
    write!(f, " {key} {value}")
}
