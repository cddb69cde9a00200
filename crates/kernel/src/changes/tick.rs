//! A tick of a millisecond.

use crate::edit::{Change, Edit, What};

pub(super) const CHANGE: Change = Change {
    name: "tick",
    reason: "HZ is 1000 as on most machines; the tree has 100, at which timers of TCP \
             are rounded to 10 ms",
    only_where: Some(("arch/um/Kconfig", "config HZ int default 100")),
    edits: &[Edit {
        file: "arch/um/Kconfig",
        function: None,
        what: What::Replace(
            "config HZ int default 100",
            "config HZ\n\tint\n\tdefault 1000",
        ),
    }],
    config: &["CONFIG_HZ=1000"],
};
