//! Campaigns over cells of the catalogue: one program, so that it is linked once.

mod coverage;
mod expected;
mod proxies;
mod shapes;
#[path = "../../../results/tests/integration/support/mod.rs"]
mod support;
mod yielding;
