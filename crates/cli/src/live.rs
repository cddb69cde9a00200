//! The engines by their names.

use narrows_lab::Engine;
use narrows_scenario::Refusal;

use crate::args::EngineName;

/// The engine called `name`.
///
/// # Errors
/// When this system has no such engine.
pub fn engine(name: EngineName) -> Result<Box<dyn Engine>, Refusal> {
    match name {
        EngineName::Sim => Ok(Box::new(narrows_lab::SimEngine)),
        EngineName::Live => live(),
    }
}

fn live() -> Result<Box<dyn Engine>, Refusal> {
    Err(Refusal::new("--engine", "`live`", "`sim`")
        .with_help("this version has no live engine yet"))
}
