//! How long a round trip takes at least, and when flows begin: at the time that
//! the file gives, or at a random time within a round trip.

use narrows_path::routes::Routes;
use narrows_units::{Duration, Instant, Rng};

use crate::plan::{FlowPlan, HostIndex, Plan};

/// No flow begins later than in this part of the time that it has, so that over
/// a path whose round trip is long beside the run it still runs.
const LATEST_PART: u64 = 10;

impl Plan {
    /// The plan as it is run with `seed`: every flow with a
    /// [`start_offset`](FlowPlan::start_offset) has its start moved by it, and
    /// has none any more.
    ///
    /// An offset is uniform between nothing and a [base round
    /// trip](Self::base_round_trip), at most a tenth of the time from the flow's
    /// start to its stop or the run's end. It is drawn from a generator of its
    /// own, which the seed and the flow's name seed, so that nothing else is
    /// seeded anew.
    pub fn for_seed(&self, seed: u64) -> Self {
        let mut plan = self.clone();
        let routes = self.routes();
        let end = Instant::ZERO + self.duration;
        for flow in plan.flows.iter_mut().filter(|f| f.start_offset) {
            flow.start_offset = false;
            let has = flow.stop.unwrap_or(end).since(flow.start) / LATEST_PART;
            let within = self.base_round_trip(&routes, flow).min(has);
            let mut rng = Rng::for_name(seed, &format!("flow/{}/start", flow.name));
            flow.start += rng.within(within);
        }
        plan
    }

    /// The round trip of `flow` while nothing waits, that of both legs where it goes by a
    /// proxy.
    pub fn base_round_trip(&self, routes: &Routes, flow: &FlowPlan) -> Duration {
        let legs = self.legs(flow).into_iter();
        sum(legs.map(|(a, b)| self.round_trip(routes, a, b, flow.dscp)))
    }

    /// The round trip between two hosts of packets with the code point `dscp` while
    /// nothing waits: the delay of every `netem` on the way there and back, jitter left out,
    /// and the time of a full packet on every rate, as they are when the run begins.
    pub(crate) fn round_trip(
        &self,
        routes: &Routes,
        a: HostIndex,
        b: HostIndex,
        dscp: u8,
    ) -> Duration {
        let one_way = |from: HostIndex, to: HostIndex| {
            let elements = self.elements_between(routes, from, to);
            sum(elements.map(|(link, e)| e.spec.base_delay(dscp, link.mtu)))
        };
        sum([one_way(a, b), one_way(b, a)].into_iter())
    }

    /// Whether a packet of `flow` or its answer takes any time on its way.
    pub fn takes_time(&self, routes: &Routes, flow: &FlowPlan) -> bool {
        self.elements_of(routes, flow)
            .iter()
            .any(|e| e.spec.facts().holds_back)
    }
}

fn sum(parts: impl Iterator<Item = Duration>) -> Duration {
    let total = parts.fold(0u64, |sum, part| sum.saturating_add(part.as_nanos()));
    Duration::from_nanos(total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draft;

    const LINK: &str = "version = 1\nname = \"x\"\nduration = \"10s\"\n\
        [[link]]\nname = \"l\"\nends = [\"a\", \"b\"]\n\
        up = [\"by dscp 8 (netem delay 80ms) else (netem delay 5ms 1ms)\", \"rate 12Mbit overhead 0\"]\n\
        down = [\"netem delay 5ms\"]\n";

    fn plan(more: &str, flows: &[(&str, &str)]) -> Plan {
        let mut text = LINK.replacen("[[link]]", &format!("{more}\n[[link]]"), 1);
        for (name, keys) in flows {
            let flow = format!("[[flow]]\nname = \"{name}\"\nfrom = \"a\"\nto = \"b\"\n");
            text += &format!("{flow}cc = \"cubic\"\n{keys}\n");
        }
        let draft = Draft::read("x.toml", text.as_bytes());
        draft
            .and_then(|d| d.check())
            .unwrap_or_else(|e| panic!("{e}\n{text}"))
    }

    fn starts(plan: &Plan, seed: u64) -> Vec<u64> {
        let plan = plan.for_seed(seed);
        assert!(plan.flows.iter().all(|f| !f.start_offset));
        plan.flows.iter().map(|f| f.start.as_nanos()).collect()
    }

    #[test]
    fn a_round_trip_is_every_delay_and_every_rates_full_packet() {
        let plan = plan("", &[("near", ""), ("far", "dscp = 8")]);
        let routes = plan.routes();
        // 1500 bytes take 1 ms at 12 Mbit/s.
        let trips = plan.flows.iter().map(|f| plan.base_round_trip(&routes, f));
        let trips: Vec<u64> = trips.map(Duration::as_micros).collect();
        assert_eq!(trips, [11_000, 86_000]);
    }

    #[test]
    fn a_flow_begins_at_random_within_a_round_trip_of_its_own() {
        let plan = plan("", &[("near", ""), ("far", "dscp = 8")]);
        let all: Vec<Vec<u64>> = (1..=200).map(|seed| starts(&plan, seed)).collect();
        for (flow, trip) in [(0, 11_000_000), (1, 86_000_000)] {
            let mut of_flow: Vec<u64> = all.iter().map(|s| s[flow]).collect();
            of_flow.sort_unstable();
            assert!(of_flow[199] < trip, "{of_flow:?}");
            // Uniform: of 200, the median is within a fifth of the middle, and both ends are
            // met, but for odds of one in a million.
            assert!(of_flow[100].abs_diff(trip / 2) < trip / 5, "{of_flow:?}");
            assert!(of_flow[0] < trip / 10 && of_flow[199] > trip - trip / 10);
            of_flow.dedup();
            assert_eq!(of_flow.len(), 200);
        }
        assert_eq!(starts(&plan, 7), starts(&plan, 7));
    }

    #[test]
    fn another_flow_moves_no_start() {
        let alone = plan("", &[("far", "dscp = 8")]);
        let beside = plan("", &[("near", ""), ("far", "dscp = 8")]);
        assert_eq!(starts(&alone, 3)[0], starts(&beside, 3)[1]);
        // Nor do flows of one path begin together.
        let twins = plan("", &[("one", ""), ("two", "")]);
        let starts = starts(&twins, 3);
        assert_ne!(starts[0], starts[1]);
    }

    #[test]
    fn a_start_that_is_given_is_kept_and_the_scenario_may_switch_offsets_off() {
        let given = plan("", &[("now", "start = \"0s\""), ("late", "start = \"2s\"")]);
        assert_eq!(starts(&given, 1), [0, 2_000_000_000]);
        let off = plan("start_offset = false", &[("one", ""), ("two", "")]);
        assert_eq!(starts(&off, 1), [0, 0]);
        for plan in [given, off] {
            let again = Draft::read("y.toml", plan.to_toml().as_bytes());
            assert_eq!(again.and_then(|d| d.check()).expect("a plan"), plan);
        }
    }

    #[test]
    fn a_flow_that_stops_soon_begins_before_it_stops() {
        let plan = plan("", &[("far", "dscp = 8\nstop = \"20ms\"")]);
        for seed in 1..100 {
            assert!(starts(&plan, seed)[0] < 2_000_000);
        }
    }
}
