//! Flows whose packets carry measurement signals.

use narrows_core::FlowId;

use super::{Check, Names};
use crate::document::{At, Mark};
use crate::plan::{FlowPlan, HostIndex, SignalPlan};
use crate::refusal::{Refusal, one_of};

impl Check<'_> {
    /// Reads what flows say of their own packets, and the marks.
    pub(super) fn marks(&mut self) -> Result<(), Refusal> {
        let (scenario, places) = (self.scenario, self.places);
        let mut names = Names::default();
        for (number, table) in scenario.flow.iter().enumerate() {
            let Some(given) = &table.mark else {
                continue;
            };
            let signals = *places.words(given)?;
            let flow = &self.plan.flows[number];
            names.add(places, table, &flow.name, places.spot(table))?;
            if flow.transport.tcp().is_none() {
                let help =
                    "the signals stand in the TCP header; QUIC and plain datagrams have none";
                return Err(places.refuse(given, "a flow over TCP").with_help(help));
            }
            self.plan.marks.push(SignalPlan {
                name: flow.name.clone(),
                signals,
                hosts: ends(flow),
                flows: vec![FlowId(number as u32)],
            });
        }
        for table in &scenario.mark {
            let name = names.required(places, table, &table.name)?;
            let mark = self.mark(table, name)?;
            self.once(table, &mark)?;
            self.plan.marks.push(mark);
        }
        Ok(())
    }

    fn mark(&self, table: &At<Mark>, name: String) -> Result<SignalPlan, Refusal> {
        let (places, plan) = (self.places, &self.plan);
        let allowed = "signals in words, such as \"d+q\" or \"s spin naive\"";
        let signals = places.required(table, "signals", &table.signals, allowed)?;
        let signals = *places.words(signals)?;

        let streams: Vec<usize> = (0..plan.flows.len())
            .filter(|i| plan.flows[*i].transport.tcp().is_some())
            .collect();
        let known: Vec<&str> = streams
            .iter()
            .map(|i| plan.flows[*i].name.as_str())
            .collect();
        let flows = match &table.flows {
            None if streams.is_empty() => {
                return Err(places.missing(table, "flows", "a [[flow]] over TCP"));
            }
            None => streams,
            Some(given) => self.named(given, &known, |name| {
                let found = plan.flows.iter().position(|f| f.name == name)?;
                match plan.flows[found].transport.tcp() {
                    Some(_) => Some(Ok(found)),
                    None => Some(Err(format!("`{name}` does not run over TCP"))),
                }
            })?,
        };
        let mut possible: Vec<HostIndex> =
            flows.iter().flat_map(|i| ends(&plan.flows[*i])).collect();
        possible.sort_unstable();
        possible.dedup();
        let known: Vec<&str> = possible
            .iter()
            .map(|h| plan.host(*h).name.as_str())
            .collect();
        let hosts = match &table.hosts {
            None => possible,
            Some(given) => self.named(given, &known, |name| {
                let host = plan.host_named(name).filter(|h| possible.contains(h));
                host.map(Ok)
            })?,
        };
        Ok(SignalPlan {
            name,
            signals,
            flows: flows.into_iter().map(|i| FlowId(i as u32)).collect(),
            hosts,
        })
    }

    /// What `find` finds for each name of a list, in order; it may say why one is
    /// not wanted.
    fn named<T: Ord>(
        &self,
        list: &At<crate::document::More<String>>,
        known: &[&str],
        find: impl Fn(&str) -> Option<Result<T, String>>,
    ) -> Result<Vec<T>, Refusal> {
        let allowed = || one_of(known.iter().copied());
        let mut all = Vec::new();
        for name in list.iter() {
            let refuse = || self.places.refuse(name, allowed());
            let found =
                find(name).ok_or_else(|| refuse().did_you_mean(name, known.iter().copied()))?;
            let found = found.map_err(|why| refuse().with_help(why))?;
            if all.contains(&found) {
                return Err(refuse().with_help("it stands there twice"));
            }
            all.push(found);
        }
        if all.is_empty() {
            return Err(self.places.refuse(list, allowed()));
        }
        all.sort_unstable();
        Ok(all)
    }

    /// Refuses a mark for packets that another one marks.
    fn once(&self, table: &At<Mark>, mark: &SignalPlan) -> Result<(), Refusal> {
        let plan = &self.plan;
        for other in &plan.marks {
            // All lists are in order. Most marks have no host in common.
            let mut hosts = mark.hosts.clone();
            hosts.retain(|host| other.hosts.binary_search(host).is_ok());
            if hosts.is_empty() {
                continue;
            }
            let flows = mark.flows.iter();
            let flows = flows.filter(|flow| other.flows.binary_search(flow).is_ok());
            let both = |host: &HostIndex| hosts.contains(host);
            let twice = flows
                .map(|f| &plan.flows[f.0 as usize])
                .find_map(|flow| Some((flow, ends(flow).into_iter().find(both)?)));
            if let Some((flow, host)) = twice {
                let host = &plan.host(host).name;
                let found = format!("a second mark for flow/{} at host/{host}", flow.name);
                let refusal = self.places.found(table, found, "one mark at most");
                return Err(refusal.with_help(format!("`{}` marks it already", other.name)));
            }
        }
        Ok(())
    }
}

/// Both ends of a flow, in the plan's order of hosts.
fn ends(flow: &FlowPlan) -> Vec<HostIndex> {
    vec![flow.from.min(flow.to), flow.from.max(flow.to)]
}

#[cfg(test)]
mod tests {
    use crate::Draft;
    use narrows_core::FlowId;

    const BASE: &str = "version = 1\nname = \"x\"\nduration = \"9s\"\n\
        [[link]]\nname = \"l\"\nends = [\"a\", \"r\"]\n\
        [[link]]\nname = \"m\"\nends = [\"r\", \"b\"]\n\
        [[flow]]\nname = \"one\"\nfrom = \"b\"\nto = \"a\"\ncc = \"cubic\"\n\
        [[flow]]\nname = \"two\"\nfrom = \"a\"\nto = \"b\"\ncc = \"cubic\"\n\
        [[flow]]\nname = \"udp\"\nfrom = \"a\"\nto = \"b\"\ntraffic = \"cbr rate 1Mbit\"\n";

    fn marks(more: &str) -> Vec<(String, Vec<u32>, Vec<usize>)> {
        let draft = Draft::read("x.toml", format!("{BASE}{more}").as_bytes()).expect("TOML");
        let plan = draft.check().expect("a plan");
        let again = Draft::read("y.toml", plan.to_toml().as_bytes())
            .and_then(|d| d.check())
            .expect("what was written");
        assert_eq!(plan, again, "{}", plan.to_toml());
        let numbers = |flows: &[FlowId]| flows.iter().map(|f| f.0).collect();
        plan.marks
            .iter()
            .map(|m| {
                let hosts = m.hosts.iter().map(|h| h.0).collect();
                (m.signals.to_string(), numbers(&m.flows), hosts)
            })
            .collect()
    }

    #[test]
    fn a_mark_stands_at_both_ends_of_every_tcp_flow_unless_it_says_less() {
        let all = "[[mark]]\nname = \"m\"\nsignals = \"q+d\"\n";
        assert_eq!(marks(all), [("d+q".to_owned(), vec![0, 1], vec![0, 2])]);
        let less = format!("{all}flows = [\"two\"]\nhosts = [\"b\"]\n");
        assert_eq!(marks(&less), [("d+q".to_owned(), vec![1], vec![2])]);
        let one = format!("{all}flows = \"one\"\nhosts = \"a\"\n");
        assert_eq!(marks(&one), [("d+q".to_owned(), vec![0], vec![0])]);
        assert!(marks("").is_empty());
    }

    #[test]
    fn a_mark_without_flows_needs_one_over_tcp() {
        let (links, _) = BASE.split_once("[[flow]]").expect("a flow");
        let (_, datagrams) = BASE.rsplit_once("[[flow]]").expect("a flow");
        let text = format!("{links}[[flow]]{datagrams}[[mark]]\nname = \"m\"\nsignals = \"d\"\n");
        let draft = Draft::read("x.toml", text.as_bytes()).expect("TOML");
        let refusal = draft.check().expect_err("datagrams carry no signals");
        assert_eq!(refusal.key(), "mark/m/flows");
        let line = refusal.to_line();
        assert!(line.contains("a [[flow]] over TCP"), "{line}");
    }

    #[test]
    fn a_flow_may_say_its_own_mark_and_its_two_ends_may_differ() {
        let text = BASE.replacen("cc = \"cubic\"", "cc = \"cubic\"\nmark = \"s\"", 1);
        let draft = Draft::read("x.toml", text.as_bytes()).expect("TOML");
        let plan = draft.check().expect("a plan");
        assert_eq!(plan.marks[0].name, "one");
        assert_eq!(plan.marks[0].flows, [FlowId(0)]);
        let two = "[[mark]]\nname = \"m\"\nsignals = \"d announce negotiate\"\nhosts = \"a\"\n\
            [[mark]]\nname = \"n\"\nsignals = \"d+q announce negotiate\"\nhosts = \"b\"\n";
        assert_eq!(marks(two).len(), 2);
    }
    #[test]
    fn a_flow_in_a_line_may_say_its_mark() {
        let words = |w: &str| vec![w.to_owned()];
        let flow = words("cubic mark d+q delay thesis tmax 225ms ecn start 1s");
        let mut draft = Draft::from_words(&words("rate 1Mbit"), &flow).expect("words");
        let signals = |draft: &Draft| draft.check().expect("a plan").marks[0].signals.to_string();
        assert_eq!(signals(&draft), "d+q delay thesis tmax 225ms");
        draft.set("flow/cubic/mark=s spin naive").expect("a name");
        assert_eq!(signals(&draft), "s spin naive");
    }
    #[test]
    fn a_second_mark_is_found_in_any_of_several_flows() {
        // `one` and `two` end at `a` and `b`, `far` at `c` and `b`.
        let text = format!(
            "{BASE}[[link]]\nname = \"n\"\nends = [\"r\", \"c\"]\n\
             [[flow]]\nname = \"far\"\nfrom = \"c\"\nto = \"b\"\ncc = \"cubic\"\n\
             [[mark]]\nname = \"m\"\nsignals = \"d\"\nflows = [\"two\", \"far\"]\nhosts = [\"a\", \"c\"]\n"
        );
        let with = |flows: &str, hosts: &str| {
            let more = format!(
                "[[mark]]\nname = \"n\"\nsignals = \"s\"\nflows = {flows}\nhosts = {hosts}\n"
            );
            let draft = Draft::read("x.toml", format!("{text}{more}").as_bytes());
            draft.expect("TOML").check().is_ok()
        };
        assert!(with("[\"two\", \"far\"]", "[\"b\"]"));
        assert!(with("[\"one\"]", "[\"a\"]"));
        assert!(!with("[\"one\", \"far\"]", "[\"a\", \"c\"]"));
        assert!(!with("[\"two\"]", "[\"a\"]"));
    }
}
