//! What results need to know of a plan: rates over time, the drawing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use narrows_path::{LinkRate, Rates, Recording};
use narrows_scenario::{FlowPlan, NamedElement, Plan};
use narrows_units::{Instant, Rate};

use crate::summary::{Topology, TopologyElement, TopologyHost, TopologyLink, TopologySplit};

/// A link's rate over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RateSteps {
    /// From each instant on, a rate.
    Steps(Rates),
    /// What a recording allows.
    Recorded(Recording),
}

impl RateSteps {
    /// The rates of the element `name`; `None` if it has none.
    pub fn of(plan: &Plan, name: &str) -> Option<Self> {
        let element = plan.elements().find(|e| e.name == name)?;
        match element.spec.facts().link?.rate {
            // One that has a single rate is as good as constant.
            LinkRate::Recorded(Recording::Rates(recorded)) if recorded.steps().len() > 1 => {
                let rates = plan.rates_of(name)?;
                Some(Self::Recorded(Recording::Rates(Arc::new(rates))))
            }
            LinkRate::Recorded(Recording::Opportunities(trace)) => {
                let recording = Recording::Opportunities(Arc::clone(trace));
                Some(Self::Recorded(recording))
            }
            LinkRate::Recorded(_) | LinkRate::Constant(_) => plan.rates_of(name).map(Self::Steps),
        }
    }

    /// Bits, as the link counts, that fit between `from` and `to`.
    pub fn bits_between(&self, from: Instant, to: Instant) -> f64 {
        match self {
            Self::Steps(rates) => rates.bits_between(from, to),
            Self::Recorded(recording) => recording.bits_between(from, to),
        }
    }

    /// The lowest rate; of a recording the mean, for its lowest is mostly
    /// none.
    pub fn lowest(&self) -> Rate {
        self.lowest_between(Instant::ZERO, Instant::MAX)
    }

    /// The same from `from` on and before `to`.
    pub fn lowest_between(&self, from: Instant, to: Instant) -> Rate {
        let within = self.steps().filter(|at| from <= *at && *at < to);
        let rates = std::iter::once(from).chain(within).map(|at| self.at(at));
        rates.min().unwrap_or_default()
    }

    /// When the rate changes; never, as this counts, that of a recording.
    pub fn steps(&self) -> impl Iterator<Item = Instant> + '_ {
        let steps = match self {
            Self::Steps(rates) => rates.steps(),
            Self::Recorded(_) => &[],
        };
        steps.iter().map(|step| step.0)
    }

    /// The rate at `at`; of a recording the mean.
    pub fn at(&self, at: Instant) -> Rate {
        match self {
            Self::Steps(rates) => {
                let steps = rates.steps();
                let last = steps.iter().take_while(|step| step.0 <= at).last();
                last.or(steps.first())
                    .map_or(Rate::default(), |step| step.1)
            }
            Self::Recorded(recording) => recording.mean_rate(),
        }
    }
}

/// The flows of `plan`, by their index, in groups that compete: two flows are of
/// one group if their data cross a link the same way, or if a third one's do so
/// with both. Groups are in the order of their first flows.
pub fn directions(plan: &Plan) -> Vec<Vec<usize>> {
    let routes = plan.routes();
    // Which flow comes first among those that a flow is known to compete with: a forest, whose
    // roots are the groups' first flows.
    let mut first: Vec<usize> = (0..plan.flows.len()).collect();
    // The latest flow over each link and way.
    let mut over: BTreeMap<(usize, bool), usize> = BTreeMap::new();
    for (index, flow) in plan.flows.iter().enumerate() {
        let legs = plan.legs(flow).into_iter();
        for hop in legs.flat_map(|(a, b)| routes.path(a.0, b.0).unwrap_or_default()) {
            if let Some(other) = over.insert((hop.link, hop.up), index) {
                let [a, b] = [other, index].map(|flow| root(&mut first, flow));
                first[a.max(b)] = a.min(b);
            }
        }
    }
    let mut groups: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for index in 0..first.len() {
        let group = root(&mut first, index);
        groups.entry(group).or_default().push(index);
    }
    groups.into_values().collect()
}

/// The root of the tree that `flow` is in, which is nearer from now on.
fn root(first: &mut [usize], mut flow: usize) -> usize {
    while first[flow] != flow {
        first[flow] = first[first[flow]];
        flow = first[flow];
    }
    flow
}

/// The drawing of `plan`.
pub fn topology(plan: &Plan) -> Topology {
    let ends = ends(plan);
    let elements = |list: &[NamedElement]| {
        list.iter()
            .map(|e| TopologyElement {
                name: e.name.clone(),
                words: e.spec.to_string(),
            })
            .collect()
    };
    Topology {
        hosts: plan
            .hosts
            .iter()
            .enumerate()
            .map(|(index, h)| TopologyHost {
                name: h.name.clone(),
                router: h.router && !ends.contains(&index),
            })
            .collect(),
        links: plan
            .links
            .iter()
            .map(|l| TopologyLink {
                name: l.name.clone(),
                ends: (
                    plan.host(l.ends.0).name.clone(),
                    plan.host(l.ends.1).name.clone(),
                ),
                up: elements(&l.up),
                down: elements(&l.down),
            })
            .collect(),
        changes: plan
            .changes
            .iter()
            .map(|c| (c.at.as_secs_f64(), c.target.clone(), c.words.clone()))
            .collect(),
        splits: plan.flows.iter().filter_map(|f| split(plan, f)).collect(),
    }
}

/// The hosts, by their index, that a flow, a probe, an application or a program is at.
fn ends(plan: &Plan) -> BTreeSet<usize> {
    let flows = plan.flows.iter().flat_map(|f| [f.from, f.to]);
    let probes = plan.probes.iter().flat_map(|p| [p.from, p.to]);
    let apps = plan.apps.iter().flat_map(|a| [a.from, a.to]);
    let commands = plan.commands.iter().map(|c| c.host);
    let at = flows.chain(probes).chain(apps).chain(commands);
    at.map(|host| host.0).collect()
}

/// How `flow` goes, if it goes by a proxy.
fn split(plan: &Plan, flow: &FlowPlan) -> Option<TopologySplit> {
    let proxy = &plan.proxies[flow.via?.proxy];
    let onward = match flow.opens == flow.from {
        true => &proxy.far,
        false => &proxy.near,
    };
    let given = onward.hint.iter().map(|hint| format!(", given {hint}"));
    let name = |host| plan.host(host).name.clone();
    Some(TopologySplit {
        flow: flow.name.clone(),
        proxy: proxy.name.clone(),
        hosts: [flow.from, proxy.host, flow.to].map(name),
        controls: [
            flow.transport.control_words(),
            onward.cc.to_string() + &given.collect::<String>(),
        ],
    })
}

#[cfg(test)]
mod tests {
    use narrows_scenario::{Draft, load};
    use narrows_units::Duration;

    use super::*;

    fn plan_of(text: &str) -> Plan {
        let head = "version = 1\nname = \"n\"\nduration = \"10s\"\n";
        let draft = Draft::read("facts.toml", format!("{head}{text}").as_bytes());
        draft.and_then(|draft| draft.check()).expect("a plan")
    }

    /// Of the first element of a link of these words, which are changed at 1 s if they are.
    fn rates(words: &str, changed: &str) -> RateSteps {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("n.toml");
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text);
        write("mcs.csv", "time_s,mcs\n0,5\n3,3\n").expect("a file");
        write("even.csv", "time_s,rate_mbit\n0,8\n").expect("a file");
        write("steps.csv", "time_s,rate_mbit\n0,8\n2,4\n").expect("a file");
        let text = format!(
            "version = 1\nname = \"n\"\nduration = \"10s\"\n[[link]]\nname = \"l\"\n\
             ends = [\"a\", \"b\"]\nup = [\"e: {words}\"]\n[[flow]]\nname = \"f\"\nfrom = \"a\"\n\
             to = \"b\"\ncc = \"cubic\"\n"
        );
        let change =
            format!("[[change]]\nat = \"1s\"\ntarget = \"link/l/up/e\"\nto = \"{changed}\"\n");
        let text = match changed.is_empty() {
            true => text,
            false => text + &change,
        };
        write("n.toml", &text).expect("a file");
        let loaded = load(&file.to_string_lossy()).expect("a file");
        let draft = loaded.draft().expect("a scenario");
        RateSteps::of(&draft.check().expect("a plan"), "link/l/up/e").expect("rates")
    }

    /// Bits of the second before and of that after the change, and of the one from 4 s on.
    fn bits(rates: &RateSteps) -> [f64; 3] {
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        [0, 1, 4].map(|from| rates.bits_between(at(from), at(from + 1)))
    }

    #[test]
    fn a_change_of_an_mcs_is_one_of_the_rate_whatever_was_recorded() {
        let [fast, slow, still] = bits(&rates("wifi mcs 5", "wifi mcs 0"));
        assert!(fast > 5.0 * slow && slow == still, "{fast} {slow} {still}");
        let recorded = rates("wifi mcs trace mcs.csv", "wifi mcs 0");
        assert_eq!(bits(&recorded), [fast, slow, still]);
        // A recording whose queue alone is changed is the same recording.
        let queue = rates("wifi mcs trace mcs.csv", "wifi queue limit 50");
        let [first, second, third] = bits(&queue);
        assert!(first == fast && second == fast && third < fast);
        assert!(matches!(queue, RateSteps::Recorded(_)));
    }

    #[test]
    fn the_lowest_rate_is_that_of_the_steps_and_of_a_recording_the_mean() {
        let mbit = Rate::from_mbit;
        let at = |s| Instant::ZERO + Duration::from_secs(s);
        let changed = rates("rate 10Mbit", "rate 4Mbit");
        assert_eq!(changed.lowest(), mbit(4));
        for (from, to, lowest) in [
            // The change is at 1 s, which is not before the end of the first span.
            (0, 1, 10),
            (0, 2, 4),
            (1, 5, 4),
        ] {
            let found = changed.lowest_between(at(from), at(to));
            assert_eq!(found, mbit(lowest), "{from} {to}");
        }
        // A recording of one rate is a constant; one of several has a mean.
        let even = rates("rate trace even.csv", "");
        assert!(matches!(even, RateSteps::Steps(_)), "{even:?}");
        assert_eq!(even.lowest(), mbit(8));
        let steps = rates("rate trace steps.csv", "");
        assert!(matches!(steps, RateSteps::Recorded(_)), "{steps:?}");
        assert_eq!(steps.lowest(), mbit(8));
    }

    /// Two links in a row. The third flow crosses both, so that the first two, which meet nowhere,
    /// compete with each other through it; the others go the other way.
    #[test]
    fn flows_compete_that_cross_a_link_the_same_way_or_with_a_third_one() {
        let flow = |name: &str, from: &str, to: &str| {
            format!(
                "[[flow]]\nname = \"{name}\"\nfrom = \"{from}\"\nto = \"{to}\"\ncc = \"cubic\"\n"
            )
        };
        let links = "[[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\nup = [\"rate 1Mbit\"]\n\
                     [[link]]\nname = \"m\"\nends = [\"b\", \"c\"]\nup = [\"rate 1Mbit\"]\n";
        let flows = [
            flow("back", "b", "a"),
            flow("first", "a", "b"),
            flow("second", "b", "c"),
            flow("too", "b", "a"),
            flow("through", "a", "c"),
        ];
        let plan = plan_of(&format!("{links}{}", flows.concat()));
        assert_eq!(directions(&plan), [vec![0, 3], vec![1, 2, 4]]);
    }

    /// `via` is a router that forwards; `station`, one too, has a probe.
    #[test]
    fn a_drawing_has_hosts_links_elements_changes_and_the_legs_of_split_flows() {
        let plan = plan_of(
            r#"
            [[router]]
            name = "via"
            [[router]]
            name = "station"
            [[link]]
            name = "l"
            ends = ["a", "via"]
            up = ["rate 1Mbit"]
            [[link]]
            name = "m"
            ends = ["via", "station"]
            down = ["netem delay 2ms"]
            [[link]]
            name = "n"
            ends = ["station", "b"]
            up = ["rate 1Mbit"]
            [[proxy]]
            name = "pep"
            host = "station"
            near_cc = "reno"
            far_cc = "cubic"
            [[flow]]
            name = "there"
            from = "a"
            to = "b"
            cc = "cubic"
            via = "pep"
            [[flow]]
            name = "back"
            from = "b"
            to = "a"
            opens = "a"
            cc = "cubic"
            via = "pep"
            [[flow]]
            name = "whole"
            from = "a"
            to = "b"
            cc = "cubic"
            [[probe]]
            name = "ping"
            from = "station"
            to = "b"
            [[change]]
            at = "1500ms"
            target = "link/l/up/rate"
            to = "rate 2Mbit"
            "#,
        );
        let drawn = topology(&plan);
        let hosts = drawn.hosts.iter().map(|h| (h.name.as_str(), h.router));
        let mut hosts: Vec<_> = hosts.collect();
        hosts.sort_unstable();
        assert_eq!(
            hosts,
            [
                ("a", false),
                ("b", false),
                ("station", false),
                ("via", true)
            ]
        );
        let link = &drawn.links[1];
        assert_eq!(link.ends, ("via".to_owned(), "station".to_owned()));
        let words = |list: &[TopologyElement]| -> Vec<_> {
            list.iter()
                .map(|e| (e.name.clone(), e.words.clone()))
                .collect()
        };
        assert_eq!(words(&link.up), []);
        let netem = ("link/m/down/netem".to_owned(), "netem delay 2ms".to_owned());
        assert_eq!(words(&link.down), [netem]);
        let change = (1.5, "link/l/up/rate".to_owned(), "rate 2Mbit".to_owned());
        assert_eq!(drawn.changes, [change]);
        let splits: Vec<_> = drawn
            .splits
            .iter()
            .map(|s| {
                (
                    s.flow.as_str(),
                    s.proxy.as_str(),
                    s.hosts.join(" "),
                    s.controls.join(" "),
                )
            })
            .collect();
        let of = |flow, hosts: &str, controls: &str| {
            (flow, "pep", hosts.to_owned(), controls.to_owned())
        };
        // The proxy sends on with the control of the leg away from who opens the flow, and back with
        // that of the leg to it.
        let expected = [
            of("there", "a station b", "cubic cubic"),
            of("back", "b station a", "cubic reno"),
        ];
        assert_eq!(splits, expected);
    }
}
