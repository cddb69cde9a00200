//! Reading and writing a queue's parameters in tc's manner: keys in any order, each at most
//! refused with its place and what may stand there; written are those that change something, in
//! the order of the declaration.

use std::fmt;

use narrows_core::Packet;
use narrows_units::{Duration, Parameter, ParameterKind, Rate, Rng, Word, WordError, Words};

/// The parameters of one kind of queue, and what the queue answers of itself.
pub(crate) trait Parameters: Clone + Default {
    /// All of them, in the order in which lists have them and lines are written.
    const PARAMETERS: &'static [Parameter];

    /// The names of all bands that such a queue can have, if it can have several.
    const BANDS: &'static [&'static str] = &[];

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

    /// What holds of each of [`PARAMETERS`](Self::PARAMETERS), in their order, without the last
    /// ones that are short for values of other parameters, or options of these.
    fn values(&self) -> Vec<Holds>;

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

    /// How long a packet may wait before it is marked for that alone, whatever waits
    /// behind it; `None` where time alone marks nothing.
    fn marking_step(&self) -> Option<Duration>;

    /// The rate that the queue itself holds its packets to; `None` if the link alone limits
    /// them.
    fn shaped_to(&self) -> Option<Rate> {
        None
    }

    /// The bucket into which a queue that is made with `rng` sorts `packet`; `None` if it
    /// keeps no flows apart.
    fn bucket_of(&self, rng: Rng, packet: &Packet) -> Option<usize>;
}

/// What a number of packets may be.
const PACKETS: &str = "at least 1 packet";

/// A parameter that is a number of packets.
pub(crate) const fn packets(
    usage: &'static str,
    default: &'static str,
    about: &'static str,
) -> Parameter {
    let kind = ParameterKind::Number("packets");
    Parameter::new(usage, kind, PACKETS, default, about)
}

/// Reads the value of such a parameter.
///
/// # Errors
/// When it is missing or zero.
pub(crate) fn read_packets(words: &mut Words<'_>) -> Result<u32, WordError> {
    words.value_where(PACKETS, |n| *n > 0)
}

/// What `parse` makes of the word behind the first `key` of `words` for which it makes anything.
pub(crate) fn named<T>(
    words: &Words<'_>,
    key: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let mut scan = words.clone();
    while let Some(word) = scan.take() {
        let value = scan.peek().filter(|_| word.text == key);
        if let Some(found) = value.and_then(|word| parse(word.text)) {
            return Some(found);
        }
    }
    None
}

/// How all of them are written, for a refusal.
pub(crate) fn keys<P: Parameters>() -> String {
    let usages: Vec<_> = Parameter::usages(P::PARAMETERS).collect();
    usages.join(", ")
}

/// The words of `line` that do not stand in brackets, which are of another queue.
fn own_words(line: &str) -> impl Iterator<Item = Word<'_>> {
    let (mut words, mut depth) = (Words::new(line), 0usize);
    let all = std::iter::from_fn(move || words.take());
    all.filter(move |word| {
        let outside = depth == 0;
        depth += word.text.matches('(').count();
        depth = depth.saturating_sub(word.text.matches(')').count());
        outside
    })
}

/// What holds of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// Nothing of its own: the default follows from something else.
    Unsaid,
    /// Whether a flag is set: its first name says so, and its second, if it has one, that it is
    /// not.
    Flag(bool),
    /// These words behind its name; of a flag with more names the one that holds.
    Words(String),
}

/// The value of a parameter that always has one.
pub(crate) fn is(value: impl fmt::Display) -> Holds {
    Holds::Words(value.to_string())
}

/// The value of a parameter that may have none of its own.
pub(crate) fn maybe(value: Option<impl fmt::Display>) -> Holds {
    value.map_or(Holds::Unsaid, is)
}

/// The values of the parameter `name`, which may be given several times.
pub(crate) fn several(name: &str, values: impl IntoIterator<Item: fmt::Display>) -> Holds {
    let words: Vec<_> = values.into_iter().map(|value| value.to_string()).collect();
    maybe((!words.is_empty()).then(|| words.join(&format!(" {name} "))))
}

/// Writes each parameter without which the words before it would mean something else, behind a
/// blank.
pub(crate) fn write<P: Parameters>(parameters: &P, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut line = String::new();
    let mut meant = meaning::<P>(&line);
    for (place, holds) in parameters.values().into_iter().enumerate() {
        let parameter = &P::PARAMETERS[place];
        let mut names = parameter.names();
        let words = match holds {
            _ if holds == meant[place] => None,
            Holds::Unsaid => None,
            Holds::Flag(set) => names.nth(usize::from(!set)).map(str::to_owned),
            Holds::Words(word) if parameter.kind == ParameterKind::Flag => Some(word),
            Holds::Words(value) => names.next().map(|name| format!("{name} {value}")),
        };
        if let Some(words) = words {
            line = format!("{line} {words}");
            meant = meaning::<P>(&line);
        }
    }
    f.write_str(&line)
}

/// What holds by `line`, the begin of a line.
fn meaning<P: Parameters>(line: &str) -> Vec<Holds> {
    let mut parameters = P::usual(&Words::new(line));
    // What is still to come may be needed for a whole line.
    let _ = read(&mut parameters, Words::new(line));
    parameters.values()
}

/// Where the word `key` is in `line`; its start, if it is not there.
pub(crate) fn place_of(line: &str, key: &str) -> std::ops::Range<usize> {
    let found = own_words(line).find(|word| word.text == key);
    found.map_or(0..0, |word| word.span())
}

/// Refuses a second word `key` in `line`.
///
/// # Errors
/// At the second one.
pub(crate) fn once(line: &str, key: &str) -> Result<(), WordError> {
    match own_words(line).filter(|word| word.text == key).nth(1) {
        Some(word) => Err(word.repeated()),
        None => Ok(()),
    }
}

/// The refusal of a change of the value of `key` in `line`, which stays `kept`.
pub(crate) fn kept(line: &str, key: &str, kept: impl std::fmt::Display) -> WordError {
    let span = place_of(line, key);
    WordError::new(span, format!("`{key}`"), format!("{key} {kept}"))
        .with_help(format!("a running queue keeps its `{key}`"))
}

/// Reads all that is left of `words` into `parameters`.
///
/// # Errors
/// When a word is not one of the keys, or a value is refused.
fn read<P: Parameters>(parameters: &mut P, mut words: Words<'_>) -> Result<(), WordError> {
    while let Some(key) = words.take() {
        if !parameters.set(key, &mut words)? {
            return Err(key.refused(keys::<P>()));
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
