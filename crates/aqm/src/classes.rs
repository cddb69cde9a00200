//! Classes of a queue in one line: `class NAME` and what belongs to it, up to the next class.
//!
//! tc makes classes and filters by lines of their own. Here a class says itself what it takes:
//! packets with one of its DSCPs, or what no other class takes.

use std::fmt;

use narrows_core::Packet;
use narrows_units::{Parameter, ParameterKind, Value, Word, WordError, Words};
use narrows_wire::ip;

use crate::QueueSpec;
use crate::leaf;
use crate::reading::place_of;

/// Names of the bands of a queue with classes: the class's place in the line, from 0 on; all
/// beyond the fifteenth share one.
pub(crate) const BAND_NAMES: &[&str] = &[
    "class_0",
    "class_1",
    "class_2",
    "class_3",
    "class_4",
    "class_5",
    "class_6",
    "class_7",
    "class_8",
    "class_9",
    "class_10",
    "class_11",
    "class_12",
    "class_13",
    "class_14",
    "class_others",
];

/// The band of the class at `index`.
pub(crate) fn band(index: usize) -> u8 {
    index.min(BAND_NAMES.len() - 1) as u8
}

/// What stands behind `class` and names it.
pub(crate) const NAME_ALLOWED: &str = "a name of letters, digits and `:-_.`, such as 1:10";
/// What stands behind `dscp`.
pub(crate) const DSCP_ALLOWED: &str = "DSCPs from 0 to 63, such as 46 or 46,34";

/// `class NAME`.
pub(crate) const CLASS_PARAMETER: Parameter = Parameter::new(
    "class NAME",
    ParameterKind::Words,
    NAME_ALLOWED,
    "",
    "Begins a class, which what follows belongs to; a running queue keeps its classes",
);

/// `dscp DSCP,…`.
pub(crate) const DSCP_PARAMETER: Parameter = Parameter::new(
    "dscp DSCP,…",
    ParameterKind::Words,
    DSCP_ALLOWED,
    "what no other class takes",
    "What goes to the class, our own classifier where tc has filters",
);

/// `queue (…)` of a class.
pub(crate) const QUEUE_PARAMETER: Parameter = Parameter::new(
    "queue (…)",
    ParameterKind::Words,
    leaf::ALLOWED,
    "a pfifo of 1000 packets",
    "The queue of the class, which a running queue keeps",
);

/// Code points, one at least.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dscps(pub Vec<u8>);

impl Value for Dscps {
    const ALLOWED: &'static str = DSCP_ALLOWED;

    fn parse(word: &str) -> Option<Self> {
        let each = word
            .split(',')
            .map(|text| u8::parse(text).filter(|n| *n < 64));
        each.collect::<Option<Vec<_>>>().map(Self)
    }
}

impl fmt::Display for Dscps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each: Vec<_> = self.0.iter().map(u8::to_string).collect();
        f.write_str(&each.join(","))
    }
}

/// What a class of any queue is.
pub(crate) trait Class: PartialEq {
    /// The word before its name.
    const WORD: &'static str;

    /// One that is only named.
    fn named(name: &str) -> Self;
    /// Its name.
    fn name(&self) -> &str;
    /// What it takes; `None` for what no other does.
    fn dscps(&self) -> Option<&Dscps>;
    /// The queue of it.
    fn queue(&self) -> &QueueSpec;
}

/// Reads the name behind `class`: the place of the class of this name in `classes`, where it is
/// put if it is not there.
///
/// # Errors
/// When it is no name.
pub(crate) fn begin<C: Class>(
    classes: &mut Vec<C>,
    words: &mut Words<'_>,
) -> Result<usize, WordError> {
    let word = words.needed(NAME_ALLOWED)?;
    if !is_name(word.text) {
        return Err(word.refused(NAME_ALLOWED));
    }
    let there = classes.iter().position(|class| class.name() == word.text);
    Ok(there.unwrap_or_else(|| {
        classes.push(C::named(word.text));
        classes.len() - 1
    }))
}

/// Whether `text` may name a class.
pub(crate) fn is_name(text: &str) -> bool {
    text.chars()
        .all(|c| c.is_ascii_alphanumeric() || ":-_.".contains(c))
}

/// The class that `key` belongs to: the one that was named last.
///
/// # Errors
/// When none was.
pub(crate) fn current<'a, C: Class>(
    classes: &'a mut [C],
    current: Option<usize>,
    key: Word<'_>,
) -> Result<&'a mut C, WordError> {
    let class = current.and_then(|index| classes.get_mut(index));
    let allowed = || format!("`{}` and its name before what belongs to it", C::WORD);
    class.ok_or_else(|| key.refused(allowed()))
}

/// Checks the classes that `line` names: each once, DSCPs of one class alone, and one class for
/// what no other takes.
///
/// # Errors
/// Where it is not so.
pub(crate) fn check<'a, C: Class + 'a>(
    classes: impl Iterator<Item = &'a C> + Clone,
    line: &str,
) -> Result<(), WordError> {
    let mut words = Words::new(line);
    let mut names: Vec<&str> = Vec::new();
    while let Some(word) = words.take() {
        let named = words.peek().filter(|_| word.text == C::WORD);
        if let Some(name) = named.filter(|name| names.contains(&name.text)) {
            return Err(name.repeated());
        }
        names.extend(named.map(|name| name.text));
    }
    let mut taken = Vec::new();
    for dscp in classes.clone().filter_map(|c| c.dscps()).flat_map(|d| &d.0) {
        if taken.contains(dscp) {
            let found = format!("DSCP {dscp} of two {}", plural(C::WORD));
            return Err(WordError::new(
                place_of(line, "dscp"),
                found,
                "each DSCP once",
            ));
        }
        taken.push(*dscp);
    }
    match classes.filter(|c| c.dscps().is_none()).count() {
        1 => Ok(()),
        n => Err(WordError::new(
            line.len()..line.len(),
            format!("{n} {} without `dscp`", plural(C::WORD)),
            format!(
                "one {0} without `dscp`, for what no other {0} takes",
                C::WORD
            ),
        )),
    }
}

fn plural(word: &str) -> String {
    format!("{word}{}", if word.ends_with('s') { "es" } else { "s" })
}

/// The class of each DSCP, as a place in a list of them.
#[derive(Clone, Debug)]
pub(crate) struct ByDscp([u8; 64]);

impl ByDscp {
    /// Of classes of which one takes what the others do not.
    pub fn new<'a, C: Class + 'a>(classes: impl Iterator<Item = &'a C> + Clone) -> Self {
        let rest = classes.clone().position(|class| class.dscps().is_none());
        let mut table = [rest.unwrap_or_default() as u8; 64];
        for (index, class) in classes.enumerate() {
            for dscp in class.dscps().iter().flat_map(|dscps| &dscps.0) {
                table[usize::from(*dscp)] = index as u8;
            }
        }
        Self(table)
    }

    /// The place of the class of `packet`.
    #[inline]
    pub fn of(&self, packet: &Packet) -> usize {
        usize::from(self.0[usize::from(ip::dscp(&packet.bytes) & 63)])
    }
}
