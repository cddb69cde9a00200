//! The metrics of a run: what each kind of entity has, in which unit.
//!
//! A campaign names them as `METRIC of ENTITY`, `rtt_ms.p99 of flow/prague`;
//! `summary.csv` has the same names. The laboratory
//! computes them; its tests hold what it computes against this list.

mod list;

use narrows_core::TelemetryField;

use crate::plan::Plan;
pub(crate) use list::TECHNIQUES;
use list::{ELEMENT, FLOW, MARK, OBSERVER, PROBE, QUEUE, RUN, WINDOW};
use narrows_path::Reports;

/// Metrics of one kind of entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricKind {
    /// How such an entity is called: `flow/NAME`.
    pub entity: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Its metrics.
    pub metrics: &'static [MetricEntry],
}

/// One metric, or several that differ in a part of the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricEntry {
    /// `goodput_mbit`; `{a,b}` means `a` or `b`, `{n}` for the number of a
    /// flow from 1, and a word of [`words`] for one of its choices.
    pub name: &'static str,
    /// `Mbit/s`; empty for an index or a ratio.
    pub unit: &'static str,
    /// What it says.
    pub about: &'static str,
}

/// A word in braces that means one of several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricWord {
    /// `rtt_technique`.
    pub word: &'static str,
    /// `spin`, `delay`, …
    pub choices: Vec<String>,
}

/// The words that names of metrics share; what congestion controls and proxies report of
/// themselves is `telemetry`, a band of a queue `band`.
pub fn words() -> Vec<MetricWord> {
    let listed = list::WORDS.iter().map(|(word, _)| *word);
    let all = [BAND, TELEMETRY].into_iter().chain(listed);
    all.filter_map(|word| {
        let choices = choices(word)?;
        Some(MetricWord { word, choices })
    })
    .collect()
}

const TELEMETRY: &str = "telemetry";
const BAND: &str = "band";

/// What `word` stands for, if it is one of [`words`].
fn choices(word: &str) -> Option<Vec<String>> {
    if word == TELEMETRY {
        let reported = narrows_cc::telemetry();
        let all = reported.iter().chain(narrows_pep::TELEMETRY);
        return Some(all.map(TelemetryField::column).collect());
    }
    if word == BAND {
        let bands = narrows_aqm::bands().into_iter();
        return Some(bands.map(str::to_owned).collect());
    }
    let (_, listed) = list::WORDS.iter().find(|(w, _)| *w == word)?;
    Some(listed.iter().map(|c| (*c).to_owned()).collect())
}

/// All kinds of entities, in the order in which a summary has them.
pub const KINDS: [MetricKind; 8] = [RUN, FLOW, WINDOW, QUEUE, ELEMENT, PROBE, MARK, OBSERVER];

impl MetricEntry {
    /// Every name that it covers, in a run of `flows` flows.
    pub fn names(&self, flows: usize) -> Vec<String> {
        let mut all = vec![String::new()];
        let mut rest = self.name;
        while let Some((before, after)) = rest.split_once('{') {
            let (inside, after) = after.split_once('}').unwrap_or((after, ""));
            let choices: Vec<String> = match (inside, choices(inside)) {
                ("n", _) => (1..=flows).map(|n| n.to_string()).collect(),
                (_, Some(shared)) => shared,
                (_, None) => inside.split(',').map(str::to_owned).collect(),
            };
            let with = |name: &String| {
                let start = format!("{name}{before}");
                let all = choices.iter().map(|choice| format!("{start}{choice}"));
                all.collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
            rest = after;
        }
        for name in &mut all {
            name.push_str(rest);
        }
        all
    }
}

impl MetricKind {
    /// Whether it is that of observers, which have hundreds of metrics.
    pub(crate) fn is_observer(&self) -> bool {
        self.entity == OBSERVER.entity
    }

    /// The names of all its metrics, in a run of `flows` flows.
    pub fn names(&self, flows: usize) -> Vec<String> {
        self.metrics.iter().flat_map(|m| m.names(flows)).collect()
    }

    /// The entry that `metric` is of, in a run of `flows` flows. Slashes count as
    /// dots.
    pub fn entry(&self, metric: &str, flows: usize) -> Option<MetricEntry> {
        let metric = metric.replace('/', ".");
        let entries = self.metrics.iter();
        entries
            .copied()
            .find(|entry| entry.names(flows).contains(&metric))
    }
}

/// An entity of a run that has metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entity {
    /// `flow/prague`.
    pub(crate) name: String,
    /// What it has.
    pub(crate) kind: MetricKind,
    /// Of an observer, the techniques that it keeps; all if empty.
    pub(crate) techniques: Vec<String>,
}

impl Entity {
    /// The entity of `plan` with this name.
    pub(crate) fn called(name: &str, plan: &Plan) -> Option<Self> {
        let known = Self::all(plan).into_iter().find(|e| e.name == name);
        // Of a program's packets, an observer makes flows that the plan has not.
        let foreign = || {
            let of = name.strip_prefix("observe/")?.split_once('/')?.0;
            let observer = plan.observers.iter().find(|o| o.name == of)?;
            (!plan.commands.is_empty()).then(|| Self {
                name: name.to_owned(),
                kind: OBSERVER,
                techniques: observer.techniques.clone(),
            })
        };
        known.or_else(foreign)
    }

    fn of(name: String, kind: MetricKind) -> Self {
        Self {
            name,
            kind,
            techniques: Vec::new(),
        }
    }

    /// The entities of a run of `plan`, in the order of [`KINDS`].
    pub(crate) fn all(plan: &Plan) -> Vec<Self> {
        let mut all = vec![Self::of("run".to_owned(), RUN)];
        for flow in &plan.flows {
            all.push(Self::of(format!("flow/{}", flow.name), FLOW));
        }
        for window in &plan.windows {
            for flow in &plan.flows {
                let name = format!("window/{}/{}", window.name, flow.name);
                all.push(Self::of(name, WINDOW));
            }
        }
        let mut boxes = Vec::new();
        for element in plan.elements() {
            let facts = element.spec.facts();
            if facts.two_way {
                if boxes.contains(&&element.name) {
                    continue;
                }
                boxes.push(&element.name);
            }
            let kind = match facts.reports {
                Reports::Queue => QUEUE,
                Reports::Packets => ELEMENT,
                Reports::Nothing => continue,
            };
            all.push(Self::of(element.name.clone(), kind));
        }
        for probe in &plan.probes {
            all.push(Self::of(format!("probe/{}", probe.name), PROBE));
        }
        for mark in &plan.marks {
            for host in &mark.hosts {
                let host = &plan.host(*host).name;
                all.push(Self::of(format!("mark/{}/{host}", mark.name), MARK));
            }
        }
        for observer in &plan.observers {
            for flow in &plan.flows {
                let name = format!("observe/{}/{}", observer.name, flow.name);
                all.push(Self {
                    name,
                    kind: OBSERVER,
                    techniques: observer.techniques.clone(),
                });
            }
        }
        all
    }

    /// Whether it has this metric: of its kind, and of an observer by a technique
    /// that it keeps.
    pub(crate) fn has(&self, metric: &str, flows: usize) -> bool {
        self.kind.entry(metric, flows).is_some() && self.keeps(metric)
    }

    /// Whether an observer keeps the technique that `metric` is of.
    fn keeps(&self, metric: &str) -> bool {
        let metric = metric.replace('/', ".");
        let (technique, rest) = metric.split_once('.').unwrap_or((&metric, ""));
        let kept = |t: &str| self.techniques.iter().any(|k| k == t);
        self.techniques.is_empty()
            || matches!(technique, "seen" | "ss")
            || rest.starts_with("inflated.")
            || match technique.split_once("-to-") {
                Some((first, second)) => kept(first) && kept(second),
                None => kept(technique),
            }
    }
}
