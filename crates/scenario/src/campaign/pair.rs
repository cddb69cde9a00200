//! Which cells of a campaign are held against each other on one engine.

use crate::document::{At, Optional, Places};
use crate::refusal::Refusal;

use super::{Axis, Cell, document};

/// One axis of the matrix separates two sides: cells that are alike but for
/// it are pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The axis, by its index in the campaign.
    pub axis: usize,
    /// Its value on the side that is known, and that is held against itself.
    pub against: String,
    /// Its value on the side that is judged.
    pub judge: String,
}

/// Two cells that are alike but for the axis of the [`Pair`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairedCells {
    /// Their values on the other axes, joined by `/`.
    pub name: String,
    /// The cell of the side that is known, by its index in the campaign.
    pub against: usize,
    /// The cell of the side that is judged.
    pub judge: usize,
}

impl Pair {
    /// Reads `[pair]`.
    pub(super) fn read(
        table: &At<document::Pair>,
        places: &Places,
        axes: &[Axis],
    ) -> Result<Self, Refusal> {
        let known = || axes.iter().map(|a| a.name.as_str());
        let allowed = "the axis that tells the two sides apart";
        let name = places.required(table, "axis", &table.axis, allowed)?;
        let axis = known().position(|a| a == **name).ok_or_else(|| {
            places
                .refuse(name, "the name of an axis of the matrix")
                .did_you_mean(name, known())
        })?;
        let value = |key: &str, given: &Optional<String>| {
            let values = || axes[axis].values.iter().map(String::as_str);
            let allowed = "a value of that axis";
            let text = places.required(table, key, given, allowed)?;
            match values().any(|v| v == **text) {
                true => Ok(text.to_string()),
                false => Err(places.refuse(text, allowed).did_you_mean(text, values())),
            }
        };
        let against = value("against", &table.against)?;
        let judge = value("judge", &table.judge)?;
        match &*table.judge {
            Some(at) if against == judge => Err(places.refuse(at, "another value than `against`")),
            _ => Ok(Self {
                axis,
                against,
                judge,
            }),
        }
    }

    /// The pairs among `cells`, in their order; a cell without its
    /// counterpart is in none.
    pub(super) fn of(&self, cells: &[Cell]) -> Vec<PairedCells> {
        let rest = |cell: &Cell| -> Vec<String> {
            let others = cell.at.iter().enumerate();
            let others = others.filter(|(axis, _)| *axis != self.axis);
            others.map(|(_, value)| value.clone()).collect()
        };
        let side = |cell: &Cell, value: &str| cell.at.get(self.axis).is_some_and(|v| v == value);
        let mut pairs = Vec::new();
        for (against, cell) in cells.iter().enumerate() {
            if !side(cell, &self.against) {
                continue;
            }
            let others = rest(cell);
            let judge = cells
                .iter()
                .position(|c| side(c, &self.judge) && rest(c) == others);
            if let Some(judge) = judge {
                let name = match others.is_empty() {
                    true => format!("{}-{}", self.judge, self.against),
                    false => others.join("/"),
                };
                pairs.push(PairedCells {
                    name,
                    against,
                    judge,
                });
            }
        }
        pairs
    }
}
