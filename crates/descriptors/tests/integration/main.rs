//! Descriptors read and written, as the command line does.

mod catalogue;
mod clab;
mod fuzz;
mod hostile;
mod nemo;
mod round_trip;
mod targets;

use std::path::Path;

use narrows_descriptors::{Format, Imported, Target, import};
use narrows_scenario::{Draft, Plan};

/// What has no place for some keys of a scenario: all but the intents of NEMO.
const WITH_LOSSES: [Target; 6] = [
    Target::Containerlab,
    Target::Shell,
    Target::Compose,
    Target::Mininet,
    Target::Sol006,
    Target::Osm,
];

/// What a descriptor is read as.
fn read(text: &str, format: Format) -> Imported {
    import("lab", text, Path::new(""), Some(format))
        .unwrap_or_else(|e| panic!("{}\n{text}", e.to_line()))
}

/// Why a descriptor is refused, in a line with file, line and column.
fn refused(text: &str, format: Format) -> String {
    match import("lab", text, Path::new(""), Some(format)) {
        Ok(imported) => panic!("it is read:\n{text}\n{}", imported.plan.to_toml()),
        Err(refusal) => refusal.to_line(),
    }
}

/// The plan of a scenario file.
fn plan(text: &str) -> Plan {
    let draft = Draft::read("scenario.toml", text.as_bytes());
    let plan = draft.and_then(|draft| draft.check());
    plan.unwrap_or_else(|e| panic!("{}\n{text}", e.to_line()))
}

/// What is left of a plan that was written as a scenario file: what a mix or a test made is there
/// by itself.
fn written(plan_: &Plan) -> Plan {
    plan(&plan_.to_toml())
}
