//! Flows whose packets carry measurement signals.

use std::collections::BTreeMap;

use narrows_packet::FlowId;

use crate::fields::Fields;
use crate::parts::Marking;
use crate::plan::{FlowPlan, HostIndex, MarkPlan, Plan};
use crate::refusal::{Refusal, one_of};
use crate::tree::Node;

/// What a `[[mark]]` may have.
pub(crate) const MARK: &[&str] = &["name", "signals", "flows", "hosts"];

const SIGNALS: &str = "signals in words, such as \"d+q\" or \"s spin naive\"";

/// Reads what flows say of their own packets, and the marks.
pub(super) fn read(top: &Fields<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let mut names = BTreeMap::new();
    for (number, node) in top.tables("flow")?.iter().enumerate() {
        let fields = Fields::any(node, "flow")?;
        let name = plan.flows[number].name.clone();
        let fields = fields.called(format!("flow/{name}"));
        let Some(signals) = fields.words("mark", SIGNALS, Marking::parse)? else {
            continue;
        };
        super::unique(&mut names, &name, &fields)?;
        let flow = &plan.flows[number];
        if !flow.is_tcp() {
            return Err(over_tcp(&fields, "mark"));
        }
        plan.marks.push(MarkPlan {
            name,
            signals,
            hosts: ends(flow),
            flows: vec![FlowId(number as u32)],
        });
    }
    for node in top.tables("mark")? {
        let fields = Fields::of(node, "mark", MARK)?;
        let name = fields.needed_name("name")?;
        let fields = fields.called(format!("mark/{name}"));
        super::unique(&mut names, name, &fields)?;
        let mark = mark(&fields, name, plan)?;
        once(&fields, &mark, plan)?;
        plan.marks.push(mark);
    }
    Ok(())
}

fn mark(fields: &Fields<'_>, name: &str, plan: &Plan) -> Result<MarkPlan, Refusal> {
    let signals = fields
        .words("signals", SIGNALS, Marking::parse)?
        .ok_or_else(|| fields.missing("signals", SIGNALS))?;
    let flows = marked_flows(fields, plan)?;
    let mut possible: Vec<HostIndex> = flows
        .iter()
        .flat_map(|id| ends(&plan.flows[id.0 as usize]))
        .collect();
    possible.sort_unstable();
    possible.dedup();
    let hosts = hosts(fields, possible, plan)?;
    Ok(MarkPlan {
        name: name.to_owned(),
        signals,
        flows,
        hosts,
    })
}

/// Both ends of a flow, in the plan's order of hosts.
fn ends(flow: &FlowPlan) -> Vec<HostIndex> {
    vec![flow.from.min(flow.to), flow.from.max(flow.to)]
}

fn over_tcp(fields: &Fields<'_>, key: &str) -> Refusal {
    fields
        .refuse(key, "a flow over TCP")
        .with_help("the signals stand in the TCP header; QUIC and plain datagrams have none")
}

/// The flows of `flows`; without it, all that have a TCP header.
fn marked_flows(fields: &Fields<'_>, plan: &Plan) -> Result<Vec<FlowId>, Refusal> {
    let streams = || {
        let flows = plan.flows.iter().enumerate();
        flows.filter(|(_, f)| f.is_tcp())
    };
    let known = || streams().map(|(_, f)| f.name.as_str());
    if fields.get("flows").is_none() {
        let all: Vec<_> = streams().map(|(i, _)| FlowId(i as u32)).collect();
        if all.is_empty() {
            return Err(fields.missing("flows", "a [[flow]] over TCP"));
        }
        return Ok(all);
    }
    let mut flows = Vec::new();
    for node in fields.list("flows") {
        let (name, refuse) = named(fields, "flows", node, one_of(known()));
        let found = plan.flows.iter().position(|f| f.name == name);
        let Some(at) = found else {
            return Err(refuse.did_you_mean(name, known()));
        };
        if !plan.flows[at].is_tcp() {
            return Err(refuse.with_help(format!("`{name}` does not run over TCP")));
        }
        let id = FlowId(at as u32);
        if flows.contains(&id) {
            return Err(refuse.with_help("it stands there twice"));
        }
        flows.push(id);
    }
    if flows.is_empty() {
        return Err(fields.refuse("flows", one_of(known())));
    }
    flows.sort_unstable();
    Ok(flows)
}

/// The hosts of `hosts`; without it, all `possible` ones.
fn hosts(
    fields: &Fields<'_>,
    possible: Vec<HostIndex>,
    plan: &Plan,
) -> Result<Vec<HostIndex>, Refusal> {
    if fields.get("hosts").is_none() {
        return Ok(possible);
    }
    let known = || possible.iter().map(|h| plan.host(*h).name.as_str());
    let mut hosts = Vec::new();
    for node in fields.list("hosts") {
        let (name, refuse) = named(fields, "hosts", node, one_of(known()));
        let host = plan.host_named(name).filter(|h| possible.contains(h));
        let Some(host) = host else {
            return Err(refuse.did_you_mean(name, known()));
        };
        if hosts.contains(&host) {
            return Err(refuse.with_help("it stands there twice"));
        }
        hosts.push(host);
    }
    if hosts.is_empty() {
        return Err(fields.refuse("hosts", one_of(known())));
    }
    hosts.sort_unstable();
    Ok(hosts)
}

/// A name in a list, and the refusal for it.
fn named<'n>(
    fields: &Fields<'_>,
    key: &str,
    node: &'n Node,
    allowed: String,
) -> (&'n str, Refusal) {
    let refusal = Refusal::at(&node.spot, fields.name_of(key), node.describe(), allowed);
    (node.as_text().unwrap_or_default(), refusal)
}

/// Refuses a mark for packets that another one marks.
fn once(fields: &Fields<'_>, mark: &MarkPlan, plan: &Plan) -> Result<(), Refusal> {
    for other in &plan.marks {
        let flows = mark.flows.iter().filter(|f| other.flows.contains(f));
        let both = |host: &HostIndex| mark.hosts.contains(host) && other.hosts.contains(host);
        let twice = flows
            .map(|f| &plan.flows[f.0 as usize])
            .find_map(|flow| Some((flow, ends(flow).into_iter().find(both)?)));
        if let Some((flow, host)) = twice {
            let host = &plan.host(host).name;
            let found = format!("a second mark for flow/{} at host/{host}", flow.name);
            let refusal = Refusal::at(fields.spot(), fields.path(), found, "one mark at most");
            return Err(refusal.with_help(format!("`{}` marks it already", other.name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Draft;
    use narrows_packet::FlowId;

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
