//! The library as its callers have it: one program, so that it is linked once.

mod campaigns;
mod compare;
mod runs;
#[path = "../../../results/tests/integration/support/mod.rs"]
mod support;
