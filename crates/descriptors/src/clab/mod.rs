//! Topologies of containerlab (<https://containerlab.dev/manual/topo-def-file/>, and its
//! schemas/clab.schema.json).

mod fields;
mod read;
mod write;

pub(crate) use read::read;
pub(crate) use write::write;

/// Our keys among labels and variables begin so.
const PREFIX: &str = "narrows/";

/// Kinds of nodes that there are counterparts of.
const KINDS: [&str; 2] = ["linux", "bridge"];
