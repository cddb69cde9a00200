//! Narrows' congestion controls, compiled in.

use crate::edit::{Change, Edit, What};

/// Where their C is put, from the root of the tree.
pub(crate) const FOLDER: &str = "net/ipv4/narrows";

pub(super) const CHANGE: Change = Change {
    name: "congestion controls",
    reason: "nw_reno, nw_cubic, nw_prague and the rest are built in, as this kernel \
             cannot load them (no JIT, so no BPF struct_ops)",
    only_where: None,
    edits: &[Edit {
        file: "net/ipv4/Makefile",
        function: None,
        what: What::Follow("\nobj-y += narrows/\n"),
    }],
    config: &[],
};
