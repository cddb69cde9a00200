//! Intents of NEMO (draft-aranda-nfvrg-recursive-vnf; the language as mami-project/nemo reads it).
//!
//! ```text
//! statement = ("CREATE" | "UPDATE") "NodeModel" NAME ["Property" …] ["VNFD" URI] ";" {part ";"}
//!           | ("CREATE" | "UPDATE") "Node" NAME "Type" MODEL [properties] ";"
//!           | "DELETE" ("NodeModel" | "Node") NAME ";"
//! part      = "Node" NAME "Type" MODEL [properties]
//!           | "ConnectionPoint" NAME ["at" "VNFD" ":" INTERFACE]
//!           | "Connection" NAME "Type" "p2p" "Endnodes" end "," end [properties]
//! end       = NAME | NAME "." NAME
//! properties = "Property" NAME ":" value {"," value} {"," NAME ":" value {"," value}}
//! ```
//!
//! Beyond that language a value may be a string, `"…"` with JSON's escapes or `"""…"""` without
//! any, and a line may end with a comment, `// …` or `# …`.

mod flatten;
mod lex;
mod parse;
mod read;
mod write;

pub use flatten::{Flat, FlatLink, FlatPort, Vnfc};
pub(crate) use read::{read, services};
pub(crate) use write::write;
