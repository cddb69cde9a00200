//! From a scenario's document to a checked [`Plan`].

mod apps;
mod commands;
mod flent;
mod flows;
mod links;
mod marks;
mod mixes;
pub(crate) mod model;
mod observers;
mod ports;
mod proxies;
#[cfg(test)]
mod tests;
mod transport;
mod tunnels;
pub(crate) mod watch;
mod ways;

use std::collections::BTreeMap;
use std::sync::Arc;

use narrows_units::{Duration, Instant};

use crate::campaign::Shelf;
use crate::document::{self, At, NAME, Name, Optional, Places, Scenario, Spelled};
use crate::plan::{HostIndex, Origin, Plan, Window};
use crate::refusal::{Refusal, one_of};
use crate::short_tables;
use crate::source::{Spot, is_obeyed};
use crate::tree::Node;
pub(crate) use flows::needed_ecn;
pub(crate) use links::{DEFAULT_MTU, Labels, ONLY_LINK, implied_host};

/// The longest run: 30 days. Everything in a run is counted in nanoseconds of
/// 64 bits, which hold 584 years; the bound only catches slips.
const LONGEST_RUN: Duration = Duration::from_secs(30 * 24 * 3600);

/// Finer samples than this would make the series longer than the packets.
const SHORTEST_SAMPLE: Duration = Duration::from_micros(100);

/// 50 ms, as Flent samples socket statistics.
pub(crate) const DEFAULT_SAMPLE: Duration = Duration::from_millis(50);

/// Checks a whole scenario, whose recordings `shelf` has.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn plan(root: &Node, shelf: &dyn Shelf) -> Result<Plan, Refusal> {
    let plan = plan_without_traffic(root, shelf)?;
    let of_apps = plan.flows.is_empty() && plan.apps.is_empty() && plan.probes.is_empty();
    if of_apps && plan.commands.is_empty() {
        let allowed = "at least one [[flow]], [[app]], [[probe]] or [[command]]";
        return Err(Refusal::at(&root.spot, "flow", "nothing", allowed));
    }
    Ok(plan)
}

/// What a check has before it: the document, where its values stand, and the plan as
/// far as it is made.
struct Check<'a> {
    scenario: &'a At<Scenario>,
    places: &'a Places,
    plan: Plan,
}

/// Checks a scenario in which nothing need happen: somebody else brings the
/// traffic.
///
/// # Errors
/// The first thing that is wrong with it.
pub(crate) fn plan_without_traffic(root: &Node, shelf: &dyn Shelf) -> Result<Plan, Refusal> {
    root.is_kind("scenario", "`scenario`")?;
    let mut root = root.clone();
    short_tables::expand(&mut root)?;
    crate::flent::expand(&mut root);
    let mixes = crate::mix::expand(&mut root, shelf)?;
    let (scenario, places) = document::read::<Scenario>(&root)?;
    let scenario = &scenario;
    let allowed = "a name for the scenario, on one line";
    let name = places.required(scenario, "name", &scenario.name, allowed)?;
    if name.trim().is_empty() || name.len() > 200 || name.contains(is_obeyed) {
        return Err(places.refuse(name, allowed));
    }
    let allowed = "a time above zero and up to 720h, such as \"60s\"";
    let length = places.required(scenario, "duration", &scenario.duration, allowed)?;
    let duration = length.0;
    if duration.is_zero() || duration > LONGEST_RUN {
        return Err(places.refuse(length, allowed));
    }
    let sample_interval = or(&scenario.sample_interval, DEFAULT_SAMPLE);
    if let Some(at) = scenario
        .sample_interval
        .as_ref()
        .filter(|at| at.0 < SHORTEST_SAMPLE)
    {
        return Err(places.refuse(at, "100us or more"));
    }
    let mut expected: Vec<String> = Vec::new();
    for finding in scenario.expected.iter() {
        if !expected.contains(&finding.0) {
            expected.push(finding.0.clone());
        }
    }
    let text = |given: &Optional<String>| given.as_deref().cloned();
    let plan = Plan {
        name: name.to_string(),
        title: text(&scenario.title),
        about: text(&scenario.about),
        source: text(&scenario.source),
        seed: scenario.seed.as_ref().map_or(1, |seed| seed.0),
        duration,
        measure: match &scenario.measure {
            Some(measure) => window(&places, measure, duration)?,
            None => default_window(duration),
        },
        windows: Vec::new(),
        sample_interval,
        expected,
        hosts: Vec::new(),
        links: Vec::new(),
        proxies: Vec::new(),
        flows: Vec::new(),
        apps: Vec::new(),
        probes: Vec::new(),
        test: None,
        mixes: Vec::new(),
        marks: Vec::new(),
        commands: Vec::new(),
        taps: Vec::new(),
        observers: Vec::new(),
        captures: Vec::new(),
        changes: Vec::new(),
        files: Arc::default(),
        origin: Origin(Arc::new(places)),
    };
    let origin = plan.origin.clone();
    let places = &*origin.0;
    let mut check = Check {
        scenario,
        places,
        plan,
    };
    check.windows()?;
    check.links(shelf)?;
    check.proxies()?;
    check.test()?;
    check.flows()?;
    check.marks()?;
    check.apps()?;
    check.mixes(&mixes)?;
    check.probes()?;
    check.commands()?;
    check.size_proxies();
    check.observers()?;
    check.captures()?;
    check.changes()?;
    Ok(check.plan)
}

/// The value that is said, or else `usual`.
fn or<T: Copy>(given: &Optional<Spelled<T>>, usual: T) -> T {
    given.as_ref().map_or(usual, |at| at.0)
}

/// The last two thirds of a run.
pub(crate) fn default_window(duration: Duration) -> Window {
    Window {
        from: Instant::ZERO + duration / 3,
        to: Instant::ZERO + duration,
    }
}

/// `"10s..58s"`, a window of a run that lasts for `duration`.
fn window(
    places: &Places,
    given: &At<Spelled<Window>>,
    duration: Duration,
) -> Result<Window, Refusal> {
    let end = Instant::ZERO + duration;
    let refuse = |help: String| {
        let allowed = <Window as narrows_units::Value>::ALLOWED;
        Err(places.refuse(given, allowed).with_help(help))
    };
    match given.0 {
        window if window.from >= window.to => {
            refuse("the window's end must come after its start".to_owned())
        }
        window if window.to > end => refuse(format!("the run ends at {end}")),
        window => Ok(window),
    }
}

/// Names that were given.
#[derive(Default)]
struct Names(BTreeMap<String, Spot>);

impl Names {
    /// The name of `table`, which is said in it; nothing before has it.
    ///
    /// # Errors
    /// If it has none, or one that was given before.
    fn required<T>(
        &mut self,
        places: &Places,
        table: &At<T>,
        name: &Optional<Name>,
    ) -> Result<String, Refusal> {
        let name = places.required(table, "name", name, NAME)?;
        self.add(places, table, &name.0, places.spot(name))?;
        Ok(name.0.clone())
    }

    /// Adds a name found at `spot`.
    fn add<T>(
        &mut self,
        places: &Places,
        table: &At<T>,
        name: &str,
        spot: &Spot,
    ) -> Result<(), Refusal> {
        match self.0.insert(name.to_owned(), spot.clone()) {
            None => Ok(()),
            Some(before) => {
                let found = format!("`{name}` for the second time");
                let (line, _) = before.line_and_column();
                Err(
                    Refusal::at(spot, places.key(table), found, "a name of its own")
                        .with_help(format!("line {line} has the same name")),
                )
            }
        }
    }
}

impl Check<'_> {
    /// The names of hosts and routers, where flows can end.
    fn host_names(&self) -> impl Iterator<Item = &str> {
        self.plan.hosts.iter().map(|h| h.name.as_str())
    }

    /// The host or router of this name.
    fn host(&self, name: &At<String>) -> Result<HostIndex, Refusal> {
        self.plan.host_named(name).ok_or_else(|| {
            let allowed = format!("the name of a host: {}", one_of(self.host_names()));
            self.places
                .refuse(name, allowed)
                .did_you_mean(name, self.host_names())
        })
    }

    /// The host at `key` of `table`, which has to be given.
    fn required_host<T>(
        &self,
        table: &At<T>,
        key: &str,
        name: &Optional<String>,
    ) -> Result<HostIndex, Refusal> {
        match name {
            Some(name) => self.host(name),
            None => {
                let allowed = format!("the name of a host: {}", one_of(self.host_names()));
                Err(self.places.missing(table, key, allowed))
            }
        }
    }

    /// Refuses more tables of a kind than there are ports for.
    fn at_most<T>(&self, most: usize, kind: &str, tables: &[At<T>]) -> Result<(), Refusal> {
        let Some(over) = tables.get(most) else {
            return Ok(());
        };
        let found = format!("{} of [[{kind}]]", tables.len());
        let allowed = format!("at most {most}, for which there are ports");
        Err(self.places.found(over, found, allowed))
    }

    /// When something starts and stops.
    fn times(
        &self,
        start: &Optional<Spelled<Duration>>,
        stop: &Optional<Spelled<Duration>>,
    ) -> Result<(Instant, Option<Instant>), Refusal> {
        let end = Instant::ZERO + self.plan.duration;
        let from = Instant::ZERO + or(start, Duration::ZERO);
        if let Some(at) = start.as_ref().filter(|_| from >= end) {
            let allowed = format!("a time before the run's end at {end}");
            return Err(self.places.refuse(at, allowed));
        }
        let Some(at) = stop else {
            return Ok((from, None));
        };
        let to = Instant::ZERO + at.0;
        if to <= from || to > end {
            let allowed =
                format!("a time after the start at {from} and up to the run's end at {end}");
            return Err(self.places.refuse(at, allowed));
        }
        Ok((from, Some(to)))
    }
}
