//! The changes that a copy of a kernel's source gets, each in a file of its own.

mod clock;
mod controls;
mod ect1;
mod fp_state;
mod hostfs;
mod randomness;
mod tick;

use crate::edit::Change;

/// Where the C of the congestion controls is put, from the root of the tree.
pub(crate) use controls::FOLDER as CONTROLS_FOLDER;

/// All of them, in the order in which they are made.
const CHANGES: &[Change] = &[
    randomness::CHANGE,
    clock::CHANGE,
    tick::CHANGE,
    ect1::CHANGE,
    hostfs::CHANGE,
    fp_state::CHANGE,
    controls::CHANGE,
];

/// The changes that the copy of a tree gets, in the order in which they are made.
pub fn changes() -> &'static [Change] {
    CHANGES
}
