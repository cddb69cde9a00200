//! Topologies and service descriptors of other tools: read into scenarios, and written from them.
//!
//! [`import()`] reads topologies of containerlab and intents of NEMO into a checked
//! [`Plan`]; [`export`] writes a plan for a [`Target`]. What the other side has no place for is
//! named, on both ways: [`Imported::notes`], [`Written::lost`]. Nothing of a file is executed, and
//! files that it names are read below its own folder alone.
//!
//! ```
//! use std::path::Path;
//! use narrows_descriptors::{Target, export, import};
//!
//! let text = r#"
//! name: two
//! topology:
//!   nodes:
//!     a: {kind: linux}
//!     b: {kind: linux}
//!   links:
//!     - endpoints: ["a:eth1", "b:eth1"]
//!       vars: {narrows/up: "netem delay 10ms; rate 50Mbit queue dualpi2"}
//! "#;
//! let imported = import("two.clab.yml", text, Path::new(""), None)?;
//! assert_eq!(imported.plan.links[0].up.len(), 2);
//! let script = export(&imported.plan, Target::Shell);
//! assert!(script.text.starts_with("#!/bin/sh\n"));
//! # Ok::<(), narrows_scenario::Refusal>(())
//! ```

#![forbid(unsafe_code)]

mod clab;
mod compose;
mod left_out;
mod mininet;
mod nemo;
mod outline;
mod quote;
mod shell;
mod source;
mod tc;
mod vnfd;
mod wiring;

use std::path::Path;

use narrows_scenario::{Plan, Refusal};

pub use nemo::{Flat, FlatLink, FlatPort, Vnfc};
use source::Source;

/// What a descriptor is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A topology of containerlab.
    Containerlab,
    /// Intents of NEMO.
    Nemo,
}

/// What a scenario is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// A topology of containerlab.
    Containerlab,
    /// A VNF descriptor by the model of ETSI GS NFV-SOL 006.
    Sol006,
    /// The same as Open Source MANO packs it.
    Osm,
    /// Services and networks of Docker Compose.
    Compose,
    /// A script of `ip` and `tc`.
    Shell,
    /// A program for Mininet.
    Mininet,
    /// Intents of NEMO.
    Nemo,
}

/// A descriptor that was read.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The scenario.
    pub plan: Plan,
    /// What it was written in.
    pub format: Format,
    /// What of it has no counterpart, and what else to know, a sentence each.
    pub notes: Vec<String>,
    /// Of intents, the flat descriptors of the services that are created.
    pub services: Vec<Flat>,
}

/// A descriptor that was written.
#[derive(Clone, Debug)]
pub struct Written {
    /// The file.
    pub text: String,
    /// What of the scenario it does not have. A comment in the file names it, too.
    pub lost: Vec<Lost>,
}

/// What a target has no place for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Its name: `flow/prague`, `link/access/up/tap`.
    pub what: String,
    /// Why, or what is written in its place, as the end of a sentence.
    pub why: String,
}

/// An MTU. A zero before it is octal for some readers of YAML, and for others not.
fn mtu(text: &str) -> Option<u32> {
    let number = text.parse().ok().filter(|n| (128..=65_535).contains(n));
    number.filter(|_| !text.starts_with('0'))
}

/// What [`mtu`] takes.
const MTU: &str = "a whole number from 128 to 65535, without a zero before it";

fn lost(what: impl Into<String>, why: impl Into<String>) -> Lost {
    Lost {
        what: what.into(),
        why: why.into(),
    }
}

/// Comment lines with a head and what is lost; nothing if nothing is.
fn named(sign: &str, head: &str, lost: &[Lost]) -> String {
    if lost.is_empty() {
        return String::new();
    }
    let mut text = quote::comment(sign, head);
    for Lost { what, why } in lost {
        // Names and reasons may come from a file.
        let line = format!("{what}: {why}").replace(['\n', '\r'], " ");
        text.push_str(&quote::comment(sign, &format!("  {line}")));
    }
    text
}

/// The format of a text by how it begins; `None` if it is no descriptor.
pub fn guess(text: &str) -> Option<Format> {
    let lines = || {
        text.lines()
            .filter(|line| !line.trim_start().starts_with(['#', '/']))
    };
    let first = lines().find(|line| !line.trim().is_empty())?;
    let verb = first.split_whitespace().next()?;
    if ["CREATE", "UPDATE", "DELETE", "IMPORT"].contains(&verb) {
        return Some(Format::Nemo);
    }
    let clab = |line: &str| line.starts_with("topology:") || line.starts_with("\"topology\":");
    let json = first.starts_with('{') && text.contains("topology");
    (json || lines().any(clab)).then_some(Format::Containerlab)
}

/// Reads a descriptor; `name` is its name in messages, and `folder` where files lie that it names.
/// Without a format it is [guessed](guess).
///
/// # Errors
/// What is wrong in it, with line and column; what it has that no scenario can have.
pub fn import(
    name: &str,
    text: &str,
    folder: &Path,
    format: Option<Format>,
) -> Result<Imported, Refusal> {
    let source = Source::new(name, text);
    let Some(format) = format.or_else(|| guess(text)) else {
        let allowed = "a topology of containerlab, with `topology:` in a line, or intents of NEMO, \
                       which begin with `CREATE`";
        let refusal = source.refuse(0..0, "", "something else", allowed);
        return Err(refusal.with_help("`--format clab` or `--format nemo` says which it is"));
    };
    let (outline, mut notes, services) = match format {
        Format::Containerlab => {
            let (outline, notes) = clab::read(&source)?;
            (outline, notes, Vec::new())
        }
        Format::Nemo => nemo::read(&source)?,
    };
    let (plan, more) = outline.plan(&source, folder)?;
    notes.extend(more);
    Ok(Imported {
        plan,
        format,
        notes,
        services,
    })
}

/// The flat descriptors of the services that intents create, of which no scenario need come.
///
/// # Errors
/// What is wrong in them, with line and column.
pub fn services(name: &str, text: &str) -> Result<Vec<Flat>, Refusal> {
    nemo::services(&Source::new(name, text))
}

/// Writes a scenario for `target`.
pub fn export(plan: &Plan, target: Target) -> Written {
    match target {
        Target::Containerlab => clab::write(plan),
        Target::Nemo => nemo::write(plan),
        Target::Shell => shell::write(plan, &[]),
        Target::Mininet => mininet::write(plan),
        Target::Compose => compose::write(plan),
        Target::Sol006 | Target::Osm => vnfd::of_plan(plan, target == Target::Osm),
    }
}

/// Writes a scenario as a script of `ip` and `tc`. `lacks` are the queueing disciplines that the
/// kernel at hand does not have; a comment at the top of the script names those that it uses.
pub fn export_script(plan: &Plan, lacks: &[&str]) -> Written {
    shell::write(plan, lacks)
}

/// Writes a flat descriptor for a manager of virtual functions: by the model of ETSI GS NFV-SOL
/// 006, as Open Source MANO packs it if `osm`.
pub fn export_service(service: &Flat, osm: bool) -> Written {
    vnfd::of_service(service, osm)
}
