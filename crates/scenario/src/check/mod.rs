//! From a tree of values to a checked [`Plan`].

mod commands;
mod expected;
pub(crate) mod flows;
mod graph;
mod links;
mod marks;
pub(crate) mod model;
mod observers;
mod transport;
pub(crate) mod watch;

use std::collections::BTreeMap;

use narrows_units::{Duration, Instant, Value};

use crate::campaign::Shelf;
use crate::fields::Fields;
use crate::plan::{Plan, Window};
use crate::refusal::Refusal;
use crate::source::Spot;
use crate::tree::Node;
pub(crate) use links::{DEFAULT_MTU, Labels, implied_host};
#[cfg(test)]
pub(crate) use {
    commands::COMMAND,
    flows::FLOW,
    links::{HOST, LINK},
    marks::MARK,
    observers::OBSERVE,
};

/// What a scenario file may have at the top.
pub(crate) const TOP: &[&str] = &[
    "version",
    "kind",
    "name",
    "title",
    "about",
    "source",
    "duration",
    "measure",
    "seed",
    "sample_interval",
    "start_offset",
    "expected",
    "host_model",
    "host",
    "router",
    "link",
    "flow",
    "mark",
    "probe",
    "command",
    "observe",
    "capture",
    "change",
];

/// Those of them that are lists of tables with names.
pub(crate) const TABLES: &[&str] = &[
    "host", "router", "link", "flow", "mark", "probe", "command", "observe", "capture", "change",
];

/// The longest run: 30 days. Everything in a run is counted in nanoseconds of
/// 64 bits, which hold 584 years; the bound only catches slips.
const LONGEST_RUN: Duration = Duration::from_secs(30 * 24 * 3600);

/// Finer samples than this would make the series longer than the packets.
const SHORTEST_SAMPLE: Duration = Duration::from_micros(100);

/// 50 ms, as Flent samples socket statistics.
pub(crate) const DEFAULT_SAMPLE: Duration = Duration::from_millis(50);

/// The largest seed: what a TOML integer holds.
pub(crate) const LARGEST_SEED: u64 = i64::MAX as u64;

/// Checks a whole scenario, whose recordings `shelf` has.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn plan(root: &Node, shelf: &dyn Shelf) -> Result<Plan, Refusal> {
    let plan = plan_without_traffic(root, shelf)?;
    if plan.flows.is_empty() && plan.probes.is_empty() && plan.commands.is_empty() {
        let top = Fields::of(root, "", TOP)?;
        return Err(top.missing("flow", "at least one [[flow]], [[probe]] or [[command]]"));
    }
    Ok(plan)
}

/// Checks a scenario in which nothing need happen: somebody else brings the
/// traffic.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn plan_without_traffic(root: &Node, shelf: &dyn Shelf) -> Result<Plan, Refusal> {
    let top = Fields::any(root, "")?;
    if !matches!(top.text("kind")?, None | Some("scenario")) {
        return Err(top.refuse("kind", "`scenario`"));
    }
    version(&top)?;
    let top = Fields::of(root, "", TOP)?;
    let name = top
        .text("name")?
        .filter(|n| !n.trim().is_empty() && n.len() <= 200 && !n.contains(char::is_control))
        .ok_or_else(|| top.refuse("name", "a name for the scenario, on one line"))?;
    let duration = top
        .spelled::<Duration>("duration")?
        .filter(|d| !d.is_zero() && *d <= LONGEST_RUN)
        .ok_or_else(|| {
            top.refuse(
                "duration",
                "a time above zero and up to 720h, such as \"60s\"",
            )
        })?;
    let sample_interval = top
        .spelled::<Duration>("sample_interval")?
        .unwrap_or(DEFAULT_SAMPLE);
    if sample_interval < SHORTEST_SAMPLE {
        return Err(top.refuse("sample_interval", "100us or more"));
    }
    let mut plan = Plan {
        name: name.to_owned(),
        title: top.text("title")?.map(str::to_owned),
        about: top.text("about")?.map(str::to_owned),
        source: top.text("source")?.map(str::to_owned),
        seed: top.whole("seed", 0, LARGEST_SEED)?.unwrap_or(1),
        duration,
        measure: measure(&top, duration)?,
        sample_interval,
        expected: expected::read(&top)?,
        hosts: Vec::new(),
        links: Vec::new(),
        flows: Vec::new(),
        probes: Vec::new(),
        marks: Vec::new(),
        commands: Vec::new(),
        taps: Vec::new(),
        observers: Vec::new(),
        captures: Vec::new(),
        changes: Vec::new(),
    };
    links::read(&top, &mut plan, shelf)?;
    flows::read(&top, &mut plan)?;
    marks::read(&top, &mut plan)?;
    watch::probes(&top, &mut plan)?;
    commands::read(&top, &mut plan)?;
    links::settle_routers(&top, &mut plan)?;
    observers::read(&top, &mut plan)?;
    watch::captures(&top, &mut plan)?;
    watch::changes(&top, &mut plan)?;
    Ok(plan)
}

/// The only version so far.
pub(crate) fn version(top: &Fields<'_>) -> Result<(), Refusal> {
    match top.get("version").map(crate::tree::Node::as_whole) {
        Some(Some(1)) => Ok(()),
        _ => Err(top.refuse("version", "`version = 1`")),
    }
}

/// The last two thirds of a run.
pub(crate) fn default_window(duration: Duration) -> Window {
    Window {
        from: Instant::ZERO + duration / 3,
        to: Instant::ZERO + duration,
    }
}

/// `"10s..58s"`; by default the last two thirds of the run.
fn measure(top: &Fields<'_>, duration: Duration) -> Result<Window, Refusal> {
    const ALLOWED: &str = "two times within the run, such as \"10s..58s\"";
    let end = Instant::ZERO + duration;
    if top.get("measure").is_none() {
        return Ok(default_window(duration));
    }
    let window = top.text("measure")?.and_then(|text| {
        let (from, to) = text.split_once("..")?;
        Some(Window {
            from: Instant::ZERO + Duration::parse(from.trim())?,
            to: Instant::ZERO + Duration::parse(to.trim())?,
        })
    });
    let window = window.ok_or_else(|| top.refuse("measure", ALLOWED))?;
    if window.from >= window.to {
        let help = "the window's end must come after its start";
        return Err(top.refuse("measure", ALLOWED).with_help(help));
    }
    if window.to > end {
        let help = format!("the run ends at {end}");
        return Err(top.refuse("measure", ALLOWED).with_help(help));
    }
    Ok(window)
}

/// Refuses a name that was given before.
fn unique(
    taken: &mut BTreeMap<String, Spot>,
    name: &str,
    fields: &Fields<'_>,
) -> Result<(), Refusal> {
    let spot = fields.get("name").map_or(fields.spot(), |n| &n.spot);
    match taken.insert(name.to_owned(), spot.clone()) {
        None => Ok(()),
        Some(before) => {
            let found = format!("`{name}` for the second time");
            let (line, _) = before.line_and_column();
            Err(Refusal::at(spot, fields.path(), found, "a name of its own")
                .with_help(format!("line {line} has the same name")))
        }
    }
}
