//! How far each part of a path can be computed ahead of what comes into it.
//!
//! An element that holds every packet for 10 ms has decided by now what leaves it in the next
//! 10 ms. What is behind it can therefore be 10 ms ahead of what is before it. So each element
//! has a time of its own: that of the path, and so much more. What is joined without such an
//! element between has one time, so that time never goes back for any element: both
//! directions of a link, say, at a box that sees both.

use std::collections::BTreeSet;

use narrows_core::EntityId;
use narrows_path::paths::{Next, Planned, Stage};
use narrows_scenario::{Assembled, HostIndex, NameTable, Plan};
use narrows_units::{Duration, Instant};

use super::ahead::Ahead;
use super::routers::Routers;

/// The most that an element is ahead of path time: what an event waits until it is passed on.
const MOST: Duration = Duration::from_millis(5);

/// How long before packets have to leave the path is computed: more than what readings of
/// the clock and failing calls of a whole turn take (see `docs/kernel.md`).
pub(super) const MARGIN: Duration = Duration::from_micros(50);

/// Points of a path that have one time, because packets pass from one to the other at once.
struct Joined(Vec<usize>);

impl Joined {
    fn of(&mut self, point: usize) -> usize {
        let parent = self.0[point];
        if parent == point {
            return point;
        }
        let root = self.of(parent);
        self.0[point] = root;
        root
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.of(a), self.of(b));
        self.0[a] = b;
    }
}

/// How far ahead of path time the parts of a path are.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Lookahead {
    /// Of each stage: where packets come in, and where they leave.
    pub stages: Vec<(Duration, Duration)>,
    /// Of each device: what leaves there.
    pub exits: Vec<Duration>,
    /// The least of all that leaves for a stack, by the ways that packets of the plan take.
    pub least: Duration,
}

/// A path as it is built.
struct Parts<'a> {
    plan: &'a Plan,
    built: &'a Assembled,
    routers: &'a Routers,
    /// The elements that see both directions of their links.
    two_way: BTreeSet<EntityId>,
}

/// The points of a path by number: of each stage where packets come in and where they
/// leave, and the device at each end of a link.
struct Points {
    stages: usize,
}

impl Points {
    fn entry(stage: usize) -> usize {
        2 * stage
    }

    fn exit(stage: usize) -> usize {
        2 * stage + 1
    }

    fn device(&self, device: usize) -> usize {
        2 * self.stages + device
    }

    /// Where a packet is that goes to `next`.
    fn of(&self, next: Next) -> usize {
        match next {
            Next::Stage(i, _) => Self::entry(i as usize),
            Next::Node(device) => self.device(device as usize),
        }
    }
}

impl Lookahead {
    /// Nothing is ahead.
    pub(super) fn none(built: &Assembled) -> Self {
        Self {
            stages: vec![(Duration::ZERO, Duration::ZERO); built.stages.len()],
            exits: vec![Duration::ZERO; 2 * built.links.len()],
            least: Duration::ZERO,
        }
    }

    /// That of the path that was `built` from `plan`, on which `routers` forward.
    pub(super) fn of(plan: &Plan, names: &NameTable, built: &Assembled, routers: &Routers) -> Self {
        let elements = plan.elements().filter(|e| e.spec.facts().two_way);
        let ahead = Self::of_parts(&Parts {
            plan,
            built,
            routers,
            two_way: elements.filter_map(|e| names.id(&e.name)).collect(),
        });
        if ahead.least > MARGIN * 2 {
            ahead
        } else {
            Self::none(built)
        }
    }

    /// Gives each of the stages `built` its time, until the `end` of the run.
    pub(super) fn shift(&self, built: &mut Assembled, end: Instant) {
        for change in &mut built.changes {
            // They have one time.
            let ahead = change
                .stages
                .first()
                .map(|(i, _)| self.stages[*i as usize].0);
            let path_time = change.at.since(Instant::ZERO + ahead.unwrap_or_default());
            change.at = Instant::ZERO + path_time;
        }
        let of_path = std::mem::take(&mut built.stages).into_iter();
        let shifted = |(stage, &(entry, exit)): (Stage, &(Duration, Duration))| {
            if exit.is_zero() {
                return stage;
            }
            let element = Box::new(Ahead {
                element: stage.element,
                entry,
                exit,
                end,
            });
            Stage { element, ..stage }
        };
        built.stages = of_path.zip(&self.stages).map(shifted).collect();
    }

    fn of_parts(parts: &Parts<'_>) -> Self {
        let built = parts.built;
        let points = Points {
            stages: built.stages.len(),
        };
        let all = points.device(2 * built.links.len());
        let mut joined = Joined((0..all).collect());
        let held: Vec<Duration> = (0..built.stages.len()).map(|i| parts.held(i)).collect();
        for (i, stage) in built.stages.iter().enumerate() {
            let two_way = parts.two_way.contains(&stage.entity);
            let ports = stage.ports.len().max(1 + usize::from(two_way));
            for next in &stage.next[..ports] {
                joined.join(Points::exit(i), points.of(*next));
            }
            if held[i].is_zero() {
                joined.join(Points::entry(i), Points::exit(i));
            }
        }
        // What changes together has one time.
        for change in &built.changes {
            for pair in change.stages.windows(2) {
                let [a, b] = [pair[0], pair[1]].map(|(i, _)| Points::entry(i as usize));
                joined.join(a, b);
            }
        }
        let ways = parts.ways(&points, &mut joined);

        let mut ahead: Vec<Duration> = vec![MOST; all];
        for point in &ways.entries {
            ahead[joined.of(*point)] = Duration::ZERO;
        }
        // Nothing of the plan comes here: what does is let in as it comes.
        let entries = built.links.iter().flat_map(|l| [l.up, l.down]);
        let passed: BTreeSet<usize> = ways.passed.iter().map(|p| joined.of(*p)).collect();
        for entry in entries.map(|next| joined.of(points.of(next))) {
            if !passed.contains(&entry) {
                ahead[entry] = Duration::ZERO;
            }
        }
        let holding = || held.iter().enumerate().filter(|(_, held)| !held.is_zero());
        for _ in holding() {
            for (i, held) in holding() {
                let before = ahead[joined.of(Points::entry(i))];
                let after = &mut ahead[joined.of(Points::exit(i))];
                *after = (*after).min(before + *held);
            }
        }
        let mut at = |point| ahead[joined.of(point)];
        let stages = (0..points.stages).map(|i| (at(Points::entry(i)), at(Points::exit(i))));
        let stages = stages.collect();
        let exits = (0..2 * built.links.len()).map(|d| at(points.device(d)));
        let exits: Vec<Duration> = exits.collect();
        let least = ways.exits.iter().map(|d| exits[*d]).min();
        Self {
            stages,
            least: least.unwrap_or(Duration::ZERO),
            exits,
        }
    }

    /// How far ahead a packet is that goes to `next`.
    pub(super) fn at(&self, next: Next) -> Duration {
        match next {
            Next::Stage(i, _) => self.stages[i as usize].0,
            Next::Node(device) => self.exits[device as usize],
        }
    }
}

/// The ways of a plan's packets.
#[derive(Default)]
struct Ways {
    /// The points at which they come in from a stack.
    entries: BTreeSet<usize>,
    /// All at which a link begins.
    passed: BTreeSet<usize>,
    /// The devices by which they go to a stack.
    exits: BTreeSet<usize>,
}

impl Parts<'_> {
    /// For how long stage `i` holds every packet. One whose parameters change may hold
    /// none for a while.
    fn held(&self, i: usize) -> Duration {
        let changes = |change: &Planned| change.stages.iter().any(|(s, _)| *s as usize == i);
        if self.built.changes.iter().any(changes) {
            return Duration::ZERO;
        }
        self.built.stages[i].element.lookahead()
    }

    /// Between which hosts packets may go: those of flows, probes and applications, proxies on their way, all
    /// that a program could reach, and those to which a router reports packets that are too large
    /// for a link.
    fn pairs(&self) -> BTreeSet<(usize, usize)> {
        let plan = self.plan;
        let nodes = plan.hosts.len();
        let mut pairs = BTreeSet::new();
        let flows = plan.flows.iter().map(|f| (f.from, f.to));
        let probes = plan.probes.iter().map(|p| (p.from, p.to));
        let apps = plan.apps.iter().map(|a| (a.from, a.to));
        let legs = plan.flows.iter().filter_map(|f| {
            let proxy = plan.proxies[f.via?.proxy].host;
            Some([(f.from, proxy), (proxy, f.to)])
        });
        for (HostIndex(a), HostIndex(b)) in flows.chain(probes).chain(apps).chain(legs.flatten()) {
            pairs.extend([(a, b), (b, a)]);
        }
        let programs = plan.commands.iter().map(|c| c.host.0);
        let one_size = plan.links.windows(2).all(|l| l[0].mtu == l[1].mtu);
        let routers = (0..nodes).filter(|n| plan.hosts[*n].router && !one_size);
        for from in programs.chain(routers) {
            pairs.extend((0..nodes).flat_map(|to| [(from, to), (to, from)]));
        }
        pairs
    }

    /// Follows the plan's packets, and joins what a router that forwards in the path joins.
    fn ways(&self, points: &Points, joined: &mut Joined) -> Ways {
        let mut ways = Ways::default();
        for (from, to) in self.pairs() {
            let mut left: Option<usize> = None;
            for hop in self.routers.way(from, to) {
                let device = 2 * hop.link + usize::from(hop.up);
                if !self.plan.links[hop.link].datapath.is_own() {
                    ways.exits.extend(left.take());
                    continue;
                }
                let entry = points.of(self.built.links[hop.link].first(hop));
                ways.passed.insert(entry);
                match left {
                    Some(before) if self.routers.forwards(self.routers.start_of(hop)) => {
                        joined.join(points.device(before), entry);
                    }
                    _ => {
                        ways.exits.extend(left);
                        ways.entries.insert(entry);
                    }
                }
                left = Some(device);
            }
            ways.exits.extend(left);
        }
        ways
    }
}

#[cfg(test)]
mod tests {
    use narrows_path::paths::Next;
    use narrows_scenario::{Draft, assemble};

    use super::*;

    const NONE: Duration = Duration::ZERO;

    /// Two hosts, a link of these elements each to a router, and a flow.
    fn lookahead(first: [&str; 2], second: [&str; 2], more: &str) -> Lookahead {
        let link = |name, ends, [up, down]: [&str; 2]| {
            format!("[[link]]\nname = \"{name}\"\nends = [{ends}]\nup = [{up}]\ndown = [{down}]\n")
        };
        let text = format!(
            "version = 1\nname = \"t\"\nduration = \"1s\"\n[[router]]\nname = \"r\"\n{}{}\
             [[flow]]\nname = \"f\"\nfrom = \"a\"\nto = \"b\"\ncc = \"reno\"\n{more}",
            link("first", r#""a", "r""#, first),
            link("second", r#""r", "b""#, second),
        );
        let draft = Draft::read("t.toml", text.as_bytes()).expect("a scenario");
        let plan = draft.check().expect("a plan");
        let names = NameTable::of(&plan);
        let end = |link, up| Next::Node((2 * link + usize::from(up)) as u32);
        let built = assemble(&plan, &names, 1, end).expect("elements");
        Lookahead::of(&plan, &names, &built, &Routers::of(&plan))
    }

    const DELAY: &str = r#""netem delay 10ms""#;
    const RATE: &str = r#""rate 10Mbit""#;

    #[test]
    fn what_is_behind_a_delay_is_ahead_and_what_is_before_it_is_not() {
        let up = r#""rate 10Mbit", "netem delay 10ms limit 100""#;
        let ahead = lookahead([up, ""], [RATE, DELAY], "");
        assert_eq!(ahead.least, MOST);
        let stages = [(NONE, NONE), (NONE, MOST), (MOST, MOST), (NONE, MOST)];
        assert_eq!(ahead.stages, stages);
        // To the first host by the second link's delay; to the router by neither.
        assert_eq!(ahead.exits, [MOST, MOST, MOST, MOST]);
    }

    #[test]
    fn the_least_delay_of_all_ways_counts() {
        let short = r#""netem delay 2ms""#;
        let ahead = lookahead([DELAY, DELAY], [RATE, short], "");
        assert_eq!(ahead.least, MOST, "both ways have 10 ms");
        assert_eq!(lookahead([DELAY, short], ["", ""], "").least.as_millis(), 2);
        assert_eq!(lookahead([DELAY, RATE], ["", ""], "").least, NONE);
        let tiny = r#""netem delay 60us""#;
        assert_eq!(
            lookahead([DELAY, tiny], ["", ""], "").least,
            NONE,
            "not worth it"
        );
    }

    #[test]
    fn a_delay_that_is_not_the_same_for_all_packets_decides_nothing() {
        for words in [
            "delay 10ms 2ms",
            "delay 10ms reorder 25% gap 5",
            "slot 1ms 2ms",
        ] {
            let varying = format!(r#""netem {words}""#);
            assert_eq!(
                lookahead([&varying, DELAY], ["", ""], "").least,
                NONE,
                "{words}"
            );
        }
        let changed =
            "[[change]]\nat = \"500ms\"\ntarget = \"link/first/up/d\"\nto = \"delay 1ms\"\n";
        let named = r#""d: netem delay 10ms""#;
        assert_eq!(lookahead([named, DELAY], ["", ""], changed).least, NONE);
        assert_eq!(lookahead([named, DELAY], ["", ""], "").least, MOST);
    }

    #[test]
    fn a_box_that_sees_both_directions_has_one_time() {
        let up = r#""n: nat", "netem delay 10ms""#;
        let down = r#""netem delay 10ms", "n: nat""#;
        assert_eq!(lookahead([up, down], ["", ""], "").least, NONE);
        let [up, down] = [DELAY, r#""n: nat""#];
        let both = lookahead([r#""netem delay 10ms", "n: nat""#, down], ["", DELAY], "");
        assert_eq!(both.least, MOST, "it is behind a delay either way");
        assert_eq!(lookahead([up, ""], [down, down], "").least, NONE);
    }

    #[test]
    fn a_program_may_send_to_any_host_or_router() {
        let program = "[[command]]\nname = \"c\"\nhost = \"a\"\nrun = [\"true\"]\n";
        assert_eq!(lookahead([DELAY, ""], ["", DELAY], "").least, MOST);
        let with_program = lookahead([DELAY, ""], ["", DELAY], program);
        assert_eq!(with_program.least, NONE, "the router answers at once");
        let everywhere = lookahead([DELAY, DELAY], [DELAY, DELAY], program);
        assert_eq!(everywhere.least, MOST);
    }
}
