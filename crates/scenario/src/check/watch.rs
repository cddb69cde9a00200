//! What samples a run, and what happens in it: windows, probes, captures, changes.

use narrows_units::{Duration, Instant};
use narrows_wire::Ecn;

use super::{Check, Names, or, window};
use crate::document::{At, Capture, Change};
use crate::endpoints::MAX_PROBES;
use crate::plan::{CapturePlan, CapturePoint, ProbePlan, TimedChange, Window, WindowPlan};
use crate::refusal::{Refusal, one_of};

/// Ten questions a second, as `irtt` users ask for latency under load.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);
/// More often would be a load and no probe.
const SHORTEST_INTERVAL: Duration = Duration::from_micros(10);
/// What `ping` sends by default: 56 bytes behind 28 of headers.
pub(crate) const DEFAULT_PROBE: u32 = 84;
/// All headers with all options, and no payload.
const DEFAULT_SNAPLEN: u32 = 128;

impl Check<'_> {
    /// Reads the windows.
    pub(super) fn windows(&mut self) -> Result<(), Refusal> {
        let places = self.places;
        let mut names = Names::default();
        for table in &self.scenario.window {
            let name = names.required(places, table, &table.name)?;
            let allowed = <Window as narrows_units::Value>::ALLOWED;
            let over = places.required(table, "over", &table.over, allowed)?;
            let over = window(places, over, self.plan.duration)?;
            self.plan.windows.push(WindowPlan { name, over });
        }
        Ok(())
    }

    /// Reads the probes.
    pub(super) fn probes(&mut self) -> Result<(), Refusal> {
        let places = self.places;
        let routes = self.plan.routes();
        let mut names = Names::default();
        self.at_most(MAX_PROBES, "probe", &self.scenario.probe)?;
        for table in &self.scenario.probe {
            let name = names.required(places, table, &table.name)?;
            let (from, to) = self.ends(table, &table.from, &table.to)?;
            self.joined(table, &table.to, (from, to), &routes)?;
            let (start, stop) = self.times(&table.start, &table.stop)?;
            let interval = or(&table.interval, DEFAULT_INTERVAL);
            if let Some(at) = table
                .interval
                .as_ref()
                .filter(|_| interval < SHORTEST_INTERVAL)
            {
                return Err(places.refuse(at, "10us or more"));
            }
            self.plan.probes.push(ProbePlan {
                name,
                from,
                to,
                interval,
                size: table.size.as_ref().map_or(DEFAULT_PROBE, |at| at.0 as u32),
                dscp: places.parsed(&table.dscp)?.map_or(0, |dscp| dscp.0),
                ecn: table.ecn.as_ref().map_or(Ecn::NotEct, |word| word.0.0),
                start,
                stop,
            });
        }
        Ok(())
    }

    /// Reads the captures.
    pub(super) fn captures(&mut self) -> Result<(), Refusal> {
        let mut names = Names::default();
        for table in &self.scenario.capture {
            let name = names.required(self.places, table, &table.name)?;
            let at = self.capture_point(table)?;
            let snaplen = table.snaplen.as_ref();
            let snaplen = snaplen.map_or(DEFAULT_SNAPLEN, |at| at.0 as u32);
            self.plan.captures.push(CapturePlan { name, at, snaplen });
        }
        Ok(())
    }

    fn capture_point(&self, table: &At<Capture>) -> Result<CapturePoint, Refusal> {
        let known = || {
            let taps = self.plan.taps.iter().map(|t| t.name.clone());
            let hosts = self.plan.hosts.iter().map(|h| format!("host/{}", h.name));
            taps.chain(hosts)
        };
        let allowed = || one_of(known().collect::<Vec<_>>().iter().map(String::as_str));
        let Some(at) = &*table.at else {
            return Err(self.places.missing(table, "at", allowed()));
        };
        if self.plan.taps.iter().any(|t| t.name == **at) {
            return Ok(CapturePoint::Tap(at.to_string()));
        }
        at.strip_prefix("host/")
            .and_then(|name| self.plan.host_named(name))
            .map(CapturePoint::Host)
            .ok_or_else(|| {
                let known: Vec<String> = known().collect();
                let refusal = self.places.refuse(at, allowed());
                refusal.did_you_mean(at, known.iter().map(String::as_str))
            })
    }

    /// Reads the changes and tries each on its element.
    pub(super) fn changes(&mut self) -> Result<(), Refusal> {
        let mut names = Names::default();
        for table in &self.scenario.change {
            if table.name.is_some() {
                names.required(self.places, table, &table.name)?;
            }
            let change = self.change(table)?;
            self.plan.changes.push(change);
        }
        // A stable sort: what happens at one instant happens in the file's order.
        self.plan.changes.sort_by_key(|c| c.at);
        Ok(())
    }

    fn change(&self, table: &At<Change>) -> Result<TimedChange, Refusal> {
        let (plan, places) = (&self.plan, self.places);
        let end = Instant::ZERO + plan.duration;
        let allowed = format!("a time before the run's end at {end}");
        let at = places.required(table, "at", &table.at, &allowed)?;
        if Instant::ZERO + at.0 >= end {
            return Err(places.refuse(at, allowed));
        }
        // A tunnel stays as it is: it is no target to offer.
        let targets = || {
            let changing = plan.elements().filter(|e| !e.spec.facts().wraps);
            let names = changing.map(|e| e.name.as_str());
            names.filter(|n| !n.starts_with("tap/"))
        };
        let Some(target) = &*table.target else {
            return Err(places.missing(table, "target", one_of(targets())));
        };
        let full = plan.full_name(target);
        let element = plan
            .elements()
            .find(|e| e.name == full && !e.name.starts_with("tap/"))
            .ok_or_else(|| {
                places
                    .refuse(target, one_of(targets()))
                    .did_you_mean(target, targets())
            })?;
        let allowed = "the element's new parameters in words, such as \"rate 10Mbit\"";
        let to = places.required(table, "to", &table.to, allowed)?;
        element
            .spec
            .check_change(to)
            .map_err(|error| places.refused_words(to, error))?;
        Ok(TimedChange {
            name: table.name.as_ref().map(|name| name.0.clone()),
            at: Instant::ZERO + at.0,
            target: full.into_owned(),
            words: to.trim().to_owned(),
        })
    }
}
