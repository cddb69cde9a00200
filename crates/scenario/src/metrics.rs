//! The metrics of a run: what each kind of entity has, in which unit.
//!
//! A campaign names them as `METRIC of ENTITY`, `rtt_ms.p99 of flow/prague`;
//! `summary.csv` has the same names. The laboratory
//! computes them; its tests hold what it computes against this list.

mod list;

use narrows_core::{Reduce, TelemetryField};

use crate::plan::Plan;
pub(crate) use list::TECHNIQUES;
use list::{APP, ELEMENT, FLOW, HOST, MARK, OBSERVER, PROBE, QUEUE, RUN, WINDOW};
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
/// themselves is `telemetry`, a band of a queue `band`, what applications report as samples,
/// counters and gauges `app_sample`, `app_counter` and `app_gauge`.
pub fn words() -> Vec<MetricWord> {
    let listed = list::WORDS.iter().map(|(word, _)| *word);
    let of_apps = OF_APPS.into_iter().map(|(word, _)| word);
    let all = [BAND, TELEMETRY].into_iter().chain(of_apps).chain(listed);
    all.filter_map(|word| {
        let choices = choices(word)?;
        Some(MetricWord { word, choices })
    })
    .collect()
}

const TELEMETRY: &str = "telemetry";
const BAND: &str = "band";

/// What applications report of themselves, by how it is reduced.
const OF_APPS: [(&str, Reduce); 3] = [
    ("app_sample", Reduce::Sample),
    ("app_counter", Reduce::Counter),
    ("app_gauge", Reduce::Gauge),
];

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
    if let Some((_, reduce)) = OF_APPS.iter().find(|(of_apps, _)| *of_apps == word) {
        let kinds = narrows_app::APP_REPORTS.iter();
        let reported = kinds.flat_map(|(_, fields)| *fields);
        let mut columns = Vec::new();
        for column in reported
            .filter(|f| f.reduce == *reduce)
            .map(TelemetryField::column)
        {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        return Some(columns);
    }
    let (_, listed) = list::WORDS.iter().find(|(w, _)| *w == word)?;
    Some(listed.iter().map(|c| (*c).to_owned()).collect())
}

/// All kinds of entities, in the order in which a summary has them.
pub const KINDS: [MetricKind; 10] = [
    RUN, FLOW, WINDOW, QUEUE, ELEMENT, HOST, APP, PROBE, MARK, OBSERVER,
];

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
    /// Of an application, what it reports.
    pub(crate) reports: Option<&'static [TelemetryField]>,
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
                techniques: observer.techniques.clone(),
                ..Self::of(name.to_owned(), OBSERVER)
            })
        };
        known.or_else(foreign)
    }

    fn of(name: String, kind: MetricKind) -> Self {
        Self {
            name,
            kind,
            techniques: Vec::new(),
            reports: None,
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
        for host in &plan.hosts {
            all.push(Self::of(format!("host/{}", host.name), HOST));
        }
        for app in &plan.apps {
            let whole = format!("app/{}", app.name);
            let windows = plan
                .windows
                .iter()
                .map(|w| format!("window/{}/{whole}", w.name));
            for name in std::iter::once(whole.clone()).chain(windows) {
                all.push(Self {
                    reports: Some(app.spec.reports()),
                    ..Self::of(name, APP)
                });
            }
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
                    techniques: observer.techniques.clone(),
                    ..Self::of(name, OBSERVER)
                });
            }
        }
        all
    }

    /// Whether it has this metric: of its kind, of an observer by a technique that it keeps,
    /// of an application by what it reports.
    pub(crate) fn has(&self, metric: &str, flows: usize) -> bool {
        let reported = |fields: &[TelemetryField]| {
            let metric = metric.replace('/', ".");
            let mut names = fields.iter().flat_map(TelemetryField::metrics);
            names.any(|name| name == metric)
        };
        self.kind.entry(metric, flows).is_some()
            && self.keeps(metric)
            && self.reports.is_none_or(reported)
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
