//! What looks at a run, and what happens in it: probes, captures, changes.

use std::collections::BTreeMap;

use narrows_units::{Duration, Instant, Value as _};
use narrows_wire::Ecn;

use super::flows;
use super::graph::Reach;
use crate::fields::Fields;
use crate::parts::EcnWord;
use crate::plan::{CapturePlan, CapturePoint, Plan, ProbePlan, TimedChange};
use crate::refusal::{Refusal, one_of};

/// What a `[[probe]]` may have.
pub(crate) const PROBE: &[&str] = &[
    "name", "from", "to", "interval", "size", "dscp", "ecn", "start", "stop",
];
/// What a `[[capture]]` may have.
pub(crate) const CAPTURE: &[&str] = &["name", "at", "snaplen"];
/// What a `[[change]]` may have.
pub(crate) const CHANGE: &[&str] = &["name", "at", "target", "to"];

/// Ten questions a second, as `irtt` users ask for latency under load.
pub(crate) const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);
/// More often would be a load and no probe.
const SHORTEST_INTERVAL: Duration = Duration::from_micros(10);
/// An IPv6 and a UDP header with 12 bytes for number and time.
const SMALLEST_PROBE: u64 = 60;
/// What `ping` sends by default: 56 bytes behind 28 of headers.
pub(crate) const DEFAULT_PROBE: u32 = 84;
/// All headers with all options, and no payload.
const DEFAULT_SNAPLEN: u32 = 128;

/// Reads the probes.
pub(super) fn probes(top: &Fields<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let reach = Reach::of(plan);
    let mut names = BTreeMap::new();
    for node in top.tables("probe")? {
        let fields = Fields::of(node, "probe", PROBE)?;
        let name = fields.needed_name("name")?;
        let fields = fields.called(format!("probe/{name}"));
        super::unique(&mut names, name, &fields)?;
        let (from, to) = flows::ends(&fields, plan, &reach)?;
        let (start, stop) = flows::times(&fields, plan)?;
        let interval = fields
            .spelled::<Duration>("interval")?
            .unwrap_or(DEFAULT_INTERVAL);
        if interval < SHORTEST_INTERVAL {
            return Err(fields.refuse("interval", "10us or more"));
        }
        let ecn = fields.words("ecn", EcnWord::ALLOWED, |line| {
            narrows_units::Words::new(line).value::<EcnWord>()
        })?;
        plan.probes.push(ProbePlan {
            name: name.to_owned(),
            from,
            to,
            interval,
            size: fields
                .whole("size", SMALLEST_PROBE, 65_535)?
                .map_or(DEFAULT_PROBE, |s| s as u32),
            dscp: flows::dscp(&fields)?,
            ecn: ecn.map_or(Ecn::NotEct, |word| word.0),
            start,
            stop,
        });
    }
    Ok(())
}

/// Reads the captures.
pub(super) fn captures(top: &Fields<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let mut names = BTreeMap::new();
    for node in top.tables("capture")? {
        let fields = Fields::of(node, "capture", CAPTURE)?;
        let name = fields.needed_name("name")?;
        let fields = fields.called(format!("capture/{name}"));
        super::unique(&mut names, name, &fields)?;
        let at = capture_point(&fields, plan)?;
        plan.captures.push(CapturePlan {
            name: name.to_owned(),
            at,
            snaplen: fields
                .whole("snaplen", 20, 262_144)?
                .map_or(DEFAULT_SNAPLEN, |s| s as u32),
        });
    }
    Ok(())
}

fn capture_point(fields: &Fields<'_>, plan: &Plan) -> Result<CapturePoint, Refusal> {
    let known = || -> Vec<String> {
        let taps = plan.taps.iter().map(|t| t.name.clone());
        let hosts = plan.hosts.iter().map(|h| format!("host/{}", h.name));
        taps.chain(hosts).collect()
    };
    let Some(at) = fields.text("at")? else {
        return Err(fields.missing("at", one_of(known().iter().map(String::as_str))));
    };
    if plan.taps.iter().any(|t| t.name == at) {
        return Ok(CapturePoint::Tap(at.to_owned()));
    }
    at.strip_prefix("host/")
        .and_then(|name| plan.host_named(name))
        .map(CapturePoint::Host)
        .ok_or_else(|| {
            let known = known();
            let known = || known.iter().map(String::as_str);
            fields
                .refuse("at", one_of(known()))
                .did_you_mean(at, known())
        })
}

/// Reads the changes and tries each on its element.
pub(super) fn changes(top: &Fields<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let mut names = BTreeMap::new();
    let mut changes = Vec::new();
    for (number, node) in top.tables("change")?.iter().enumerate() {
        let fields = Fields::of(node, "change", CHANGE)?;
        let name = fields.name("name")?;
        let fields = match name {
            Some(name) => {
                let fields = fields.called(format!("change/{name}"));
                super::unique(&mut names, name, &fields)?;
                fields
            }
            None => fields.called(format!("change {}", number + 1)),
        };
        changes.push(change(&fields, name, plan)?);
    }
    // A stable sort: what happens at one instant happens in the file's order.
    changes.sort_by_key(|c| c.at);
    plan.changes = changes;
    Ok(())
}

fn change(fields: &Fields<'_>, name: Option<&str>, plan: &Plan) -> Result<TimedChange, Refusal> {
    let end = Instant::ZERO + plan.duration;
    let at = fields
        .instant("at")?
        .filter(|at| *at < end)
        .ok_or_else(|| fields.refuse("at", format!("a time before the run's end at {end}")))?;
    let targets = || {
        let names = plan.elements().map(|e| e.name.as_str());
        names.filter(|n| !n.starts_with("tap/"))
    };
    let target = fields
        .text("target")?
        .ok_or_else(|| fields.missing("target", one_of(targets())))?;
    let element = plan
        .elements()
        .find(|e| e.name == target && !e.name.starts_with("tap/"))
        .ok_or_else(|| {
            fields
                .refuse("target", one_of(targets()))
                .did_you_mean(target, targets())
        })?;
    let allowed = "the element's new parameters in words, such as \"rate 10Mbit\"";
    let words = fields
        .words("to", allowed, |line| {
            element.spec.check_change(line)?;
            Ok(line.trim().to_owned())
        })?
        .ok_or_else(|| fields.missing("to", allowed))?;
    Ok(TimedChange {
        name: name.map(str::to_owned),
        at,
        target: target.to_owned(),
        words,
    })
}
