//! Elements of links.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml_edit::{Array, Item, RawString, Table, Value};

use super::EditError;

/// Which elements of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the first end to the second.
    Up,
    /// From the second end to the first.
    Down,
    /// Both, alike.
    Both,
}

/// What is done to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// Puts one there, before the one that is there.
    Insert,
    /// Gives it other words.
    Replace,
    /// Takes it out.
    Remove,
    /// Puts it elsewhere.
    Move,
}

/// Does it.
pub(super) fn change(
    link: &mut Table,
    direction: Direction,
    index: usize,
    action: Action,
    (text, to): (Option<&str>, Option<usize>),
) -> Result<(), EditError> {
    let directions: &[&str] = match direction {
        Direction::Up => &["up"],
        Direction::Down => &["down"],
        Direction::Both => &["up", "down"],
    };
    for direction in directions {
        let elements = elements(link, direction)?;
        one(elements, index, action, (text, to))
            .map_err(|why| EditError::new(format!("{direction}: {why}")))?;
    }
    Ok(())
}

/// The list of a direction: a single one becomes a list, and none an empty one.
fn elements<'t>(link: &'t mut Table, direction: &str) -> Result<&'t mut Array, EditError> {
    let item = link
        .entry(direction)
        .or_insert_with(|| Item::Value(Value::Array(Array::new())));
    if let Item::Value(only) = item {
        if only.is_str() {
            let mut list = Array::new();
            let decor = only.decor().clone();
            only.decor_mut().clear();
            list.push_formatted(only.clone());
            *list.decor_mut() = decor;
            *only = Value::Array(list);
        }
    }
    let not_a_list = || EditError::new(format!("`{direction}` is no list of elements"));
    item.as_array_mut().ok_or_else(not_a_list)
}

fn one(
    list: &mut Array,
    index: usize,
    action: Action,
    (text, to): (Option<&str>, Option<usize>),
) -> Result<(), EditError> {
    let length = list.len();
    let last = if action == Action::Insert {
        length
    } else {
        length.wrapping_sub(1)
    };
    let within = |index: usize| match index <= last && (length > 0 || action == Action::Insert) {
        true => Ok(()),
        false => Err(EditError::new(format!(
            "there is no place {index} among {length} elements"
        ))),
    };
    within(index)?;
    let words = || text.ok_or_else(|| EditError::new("`text` is missing: the element in words"));
    suffix_to_gap(list);
    match action {
        Action::Insert => put(list, index, Value::from(words()?), ""),
        Action::Replace => {
            let mut value = Value::from(words()?);
            if let Some(before) = list.get_mut(index) {
                *value.decor_mut() = before.decor().clone();
                *before = value;
            }
        }
        Action::Remove => {
            take(list, index);
        }
        Action::Move => {
            let to = to.ok_or_else(|| EditError::new("`to` is missing: where it goes"))?;
            within(to)?;
            let (value, comment) = take(list, index);
            put(list, to, value, &comment);
        }
    }
    tidy(list);
    Ok(())
}

/// What stands before the value at `index`, or behind all of them. Its first line has the comment
/// of the value before.
fn gap(list: &Array, index: usize) -> String {
    let raw = match list.get(index) {
        Some(value) => value.decor().prefix(),
        None => Some(list.trailing()),
    };
    raw.and_then(RawString::as_str)
        .unwrap_or_default()
        .to_owned()
}

fn set_gap(list: &mut Array, index: usize, text: String) {
    match list.get_mut(index) {
        Some(value) => value.decor_mut().set_prefix(text),
        None => list.set_trailing(text),
    }
}

/// Without a comma behind the last value, what follows it is counted as its own.
fn suffix_to_gap(list: &mut Array) {
    let end = list.len();
    let Some(last) = end.checked_sub(1).and_then(|last| list.get_mut(last)) else {
        return;
    };
    let suffix = last
        .decor()
        .suffix()
        .and_then(RawString::as_str)
        .unwrap_or_default()
        .to_owned();
    if suffix.contains('\n') {
        last.decor_mut().set_suffix("");
        let text = suffix + &gap(list, end);
        set_gap(list, end, text);
    }
}

/// Takes a value out, with the comment behind it.
fn take(list: &mut Array, index: usize) -> (Value, String) {
    let (before, behind) = (gap(list, index), gap(list, index + 1));
    let value = list.remove(index);
    let (Some((head, _)), Some((comment, rest))) =
        (before.split_once('\n'), behind.split_once('\n'))
    else {
        return (value, String::new());
    };
    set_gap(list, index, format!("{head}\n{rest}"));
    (value, comment.to_owned())
}

/// Puts a value there, with a comment behind it; in a list over several lines on a line of its own.
fn put(list: &mut Array, index: usize, mut value: Value, comment: &str) {
    let first = gap(list, 0);
    let indentation = first
        .rsplit_once('\n')
        .map(|(_, indentation)| indentation.to_owned());
    let here = gap(list, index);
    match (here.split_once('\n'), indentation) {
        (Some((head, rest)), Some(indentation)) => {
            value
                .decor_mut()
                .set_prefix(format!("{head}\n{indentation}"));
            value.decor_mut().set_suffix("");
            list.insert_formatted(index, value);
            set_gap(list, index + 1, format!("{comment}\n{rest}"));
        }
        _ => {
            value.decor_mut().clear();
            list.insert_formatted(index, value);
        }
    }
}

/// In a list on one line there is a space behind each comma.
fn tidy(list: &mut Array) {
    let text = |raw: Option<&RawString>| {
        raw.and_then(RawString::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let broken = |value: &Value| {
        let decor = value.decor();
        (text(decor.prefix()) + &text(decor.suffix())).contains('\n')
    };
    if list.iter().any(broken) || text(Some(list.trailing())).contains('\n') {
        return;
    }
    for (place, value) in list.iter_mut().enumerate() {
        let decor = value.decor_mut();
        decor.set_prefix(if place == 0 { "" } else { " " });
        decor.set_suffix("");
    }
}
