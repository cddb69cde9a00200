//! Hosts, routers and links.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use narrows_path::Trace;

use crate::campaign::Shelf;
use crate::fields::{Fields, is_name};
use crate::parts::ElementSpec;
use crate::plan::{
    Datapath, HostIndex, HostPlan, LinkIndex, LinkPlan, NamedElement, Plan, TapPlan,
};
use crate::refusal::Refusal;
use crate::tree::{Node, clipped};

/// What a `[[link]]` may have.
pub(crate) const LINK: &[&str] = &["name", "ends", "mtu", "datapath", "up", "down"];
/// What a `[[host]]` or `[[router]]` may have.
pub(crate) const HOST: &[&str] = &["name", "ipv4", "ipv6"];

/// Ethernet's.
pub(crate) const DEFAULT_MTU: u32 = 1500;
/// Room for an IPv4 and a TCP header with all options and a little payload, and
/// the longest IP packet. Smaller than the 576 bytes that every host must take
/// (RFC 791), as measurements of small segments are.
const MTU_RANGE: (u64, u64) = (128, 65_535);

/// More elements in a row than any path has.
const MOST_ELEMENTS: usize = 256;

/// What was said about a host.
struct Declared<'a> {
    fields: Fields<'a>,
    router: bool,
    ipv4: Option<Ipv4Addr>,
    ipv6: Option<Ipv6Addr>,
    linked: bool,
}

/// Reads hosts, routers and links, which name further hosts.
pub(super) fn read(top: &Fields<'_>, plan: &mut Plan, shelf: &dyn Shelf) -> Result<(), Refusal> {
    let mut declared = declared(top)?;
    let mut names = BTreeMap::new();
    let mut known = BTreeMap::new();
    for node in top.tables("link")? {
        let fields = Fields::of(node, "link", LINK)?;
        let name = fields.needed_name("name")?;
        let fields = fields.called(format!("link/{name}"));
        super::unique(&mut names, name, &fields)?;
        let ends = ends(&fields, plan, &mut declared, &mut known)?;
        let mtu = fields
            .whole("mtu", MTU_RANGE.0, MTU_RANGE.1)?
            .map_or(DEFAULT_MTU, |m| m as u32);
        let link = LinkIndex(plan.links.len());
        let up = chain(&fields, "up", link, &mut plan.taps, shelf)?;
        let down = chain(&fields, "down", link, &mut plan.taps, shelf)?;
        let datapath = match fields.text("datapath")? {
            None | Some("narrows") => Datapath::Narrows,
            Some("kernel") => Datapath::Kernel,
            Some(_) => return Err(fields.refuse("datapath", "`narrows` or `kernel`")),
        };
        plan.links.push(LinkPlan {
            name: name.to_owned(),
            ends,
            mtu,
            datapath,
            up,
            down,
        });
    }
    if plan.links.is_empty() {
        return Err(top.missing("link", "at least one [[link]] between two hosts"));
    }
    for (name, host) in &declared {
        if !host.linked {
            return Err(Refusal::at(
                host.fields.get("name").map_or(top.spot(), |n| &n.spot),
                host.fields.path(),
                format!("`{name}`, which no link ends at"),
                "a host that is one of the ends of a link",
            )
            .did_you_mean(name, plan.hosts.iter().map(|h| h.name.as_str())));
        }
    }
    addresses_differ(top, plan, &declared)
}

fn declared<'a>(top: &Fields<'a>) -> Result<BTreeMap<&'a str, Declared<'a>>, Refusal> {
    let mut all = BTreeMap::new();
    let mut names = BTreeMap::new();
    for (kind, router) in [("host", false), ("router", true)] {
        for node in top.tables(kind)? {
            let fields = Fields::of(node, kind, HOST)?;
            let name = fields.needed_name("name")?;
            let fields = fields.called(format!("{kind}/{name}"));
            super::unique(&mut names, name, &fields)?;
            let host = Declared {
                router,
                ipv4: address(&fields, "ipv4", "an IPv4 address of a host")?,
                ipv6: address(&fields, "ipv6", "an IPv6 address of a host")?,
                fields,
                linked: false,
            };
            all.insert(name, host);
        }
    }
    Ok(all)
}

fn address<A: std::str::FromStr + Into<std::net::IpAddr> + Copy>(
    fields: &Fields<'_>,
    key: &str,
    allowed: &str,
) -> Result<Option<A>, Refusal> {
    let Some(text) = fields.text(key)? else {
        return Ok(None);
    };
    text.parse()
        .ok()
        .filter(|a: &A| {
            let ip: std::net::IpAddr = (*a).into();
            !ip.is_multicast() && !ip.is_unspecified()
        })
        .map(Some)
        .ok_or_else(|| fields.refuse(key, allowed))
}

/// The two hosts that a link joins; a host that nothing was said about comes
/// to be here.
fn ends(
    fields: &Fields<'_>,
    plan: &mut Plan,
    declared: &mut BTreeMap<&str, Declared<'_>>,
    known: &mut BTreeMap<String, HostIndex>,
) -> Result<(HostIndex, HostIndex), Refusal> {
    const ALLOWED: &str = "the names of two hosts, such as [\"client\", \"server\"]";
    let nodes = fields.list("ends");
    let [first, second] = nodes else {
        let found = match nodes.len() {
            0 => "nothing".to_owned(),
            1 => "one host".to_owned(),
            n => format!("{n} hosts"),
        };
        let spot = fields.get("ends").map_or(fields.spot(), |n| &n.spot);
        return Err(Refusal::at(spot, fields.name_of("ends"), found, ALLOWED));
    };
    let mut index = |node: &Node| {
        let name = node.as_text().filter(|n| is_name(n)).ok_or_else(|| {
            Refusal::at(&node.spot, fields.name_of("ends"), node.describe(), ALLOWED)
        })?;
        Ok(*known.entry(name.to_owned()).or_insert_with(|| {
            let number = plan.hosts.len();
            let said = declared.get_mut(name);
            let mut host = implied_host(name, number);
            if let Some(said) = said {
                said.linked = true;
                host.router = said.router;
                host.ipv4 = said.ipv4.unwrap_or(host.ipv4);
                host.ipv6 = said.ipv6.unwrap_or(host.ipv6);
            }
            plan.hosts.push(host);
            HostIndex(number)
        }))
    };
    let ends = (index(first)?, index(second)?);
    if ends.0 == ends.1 {
        let found = format!("{} at both ends", first.describe());
        return Err(Refusal::at(
            &second.spot,
            fields.name_of("ends"),
            found,
            "two different hosts",
        ));
    }
    Ok(ends)
}

/// The `number`th host, as it is when the file says nothing about it.
pub(crate) fn implied_host(name: &str, number: usize) -> HostPlan {
    // At most 2^16 hosts fit a file of 1 MiB, so the low half is enough.
    let [_, _, high, low] = (number as u32 + 1).to_be_bytes();
    HostPlan {
        name: name.to_owned(),
        router: false,
        ipv4: Ipv4Addr::new(10, 0, high, low),
        ipv6: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number as u16 + 1),
    }
}

fn addresses_differ(
    top: &Fields<'_>,
    plan: &Plan,
    declared: &BTreeMap<&str, Declared<'_>>,
) -> Result<(), Refusal> {
    let mut taken: BTreeMap<std::net::IpAddr, &str> = BTreeMap::new();
    for host in &plan.hosts {
        for (key, address) in [("ipv4", host.ipv4.into()), ("ipv6", host.ipv6.into())] {
            if let Some(other) = taken.insert(address, &host.name) {
                // At least one of the two was given in the file.
                let fields = [host.name.as_str(), other]
                    .iter()
                    .filter_map(|name| declared.get(name))
                    .map(|d| &d.fields)
                    .find(|f| f.get(key).is_some())
                    .unwrap_or(top);
                return Err(fields
                    .refuse(key, "an address of its own")
                    .with_help(format!(
                        "`{}` and `{other}` would both have {address}",
                        host.name
                    )));
            }
        }
    }
    Ok(())
}

/// The elements of one direction.
fn chain(
    fields: &Fields<'_>,
    direction: &str,
    link: LinkIndex,
    taps: &mut Vec<TapPlan>,
    shelf: &dyn Shelf,
) -> Result<Vec<NamedElement>, Refusal> {
    let path = fields.name_of(direction);
    let count = fields.list(direction).len();
    if count > MOST_ELEMENTS {
        let found = format!("{count} elements");
        let allowed = format!("at most {MOST_ELEMENTS}");
        let spot = fields.get(direction).map_or(fields.spot(), |n| &n.spot);
        return Err(Refusal::at(spot, path, found, allowed));
    }
    let mut elements = Vec::new();
    let mut labels = Labels::default();
    for node in fields.list(direction) {
        let (label, words) = node.as_element().ok_or_else(|| {
            let allowed = "an element in words, such as \"netem delay 10ms\"";
            Refusal::at(&node.spot, path.as_str(), node.describe(), allowed)
        })?;
        let words_at = node.as_text().map_or(0, |t| t.len() - words.len());
        let key = match label {
            Some(label) => format!("{path}/{label}"),
            None => path.clone(),
        };
        let mut spec = ElementSpec::parse(words)
            .map_err(|e| Refusal::words(&node.spot, key.as_str(), e.shifted(words_at)))?;
        if let ElementSpec::Trace(trace) = &mut spec {
            let refuse = |found: String| {
                let allowed = "a trace: a whole number of milliseconds in each line, rising";
                Refusal::at(&node.spot, key.as_str(), found, allowed)
            };
            let file = clipped(&trace.file);
            let bytes = shelf.recording(&trace.file).map_err(|why| {
                refuse(format!("the trace `{file}`, which cannot be read: {why}"))
            })?;
            let read = Trace::parse(&bytes)
                .map_err(|e| refuse(format!("the trace `{file}`, line {}: {}", e.line, e.what)))?;
            trace.trace = Arc::new(read);
        }
        if let ElementSpec::Tap(tap) = &spec {
            if let Some(label) = label {
                let found = format!("the name `{label}` of a tap");
                return Err(Refusal::at(&node.spot, key, found, "`tap NAME`")
                    .with_help("a tap already says its name"));
            }
            place_tap(tap, link, taps, node, &path)?;
            let name = format!("tap/{tap}");
            if elements.iter().any(|e: &NamedElement| e.name == name) {
                let found = format!("the tap `{tap}` for the second time");
                let allowed = "each tap once in each direction of a link";
                return Err(Refusal::at(&node.spot, path, found, allowed));
            }
            elements.push(NamedElement { name, spec });
            continue;
        }
        if let Some(label) = label.filter(|l| !is_name(l)) {
            let found = format!("the name `{label}`");
            let allowed = "a name of letters, digits, `_`, `-` and `.`";
            return Err(Refusal::at(&node.spot, path, found, allowed));
        }
        let name = labels.next(label, words).map_err(|name| {
            let found = format!("the element `{name}` for the second time");
            Refusal::at(&node.spot, path.as_str(), found, "a name of its own")
        })?;
        let name = format!("{path}/{name}");
        elements.push(NamedElement { name, spec });
    }
    Ok(elements)
}

fn place_tap(
    tap: &str,
    link: LinkIndex,
    taps: &mut Vec<TapPlan>,
    node: &Node,
    path: &str,
) -> Result<(), Refusal> {
    let name = format!("tap/{tap}");
    match taps.iter().find(|t| t.name == name) {
        None => taps.push(TapPlan { name, link }),
        Some(before) if before.link == link => {}
        Some(_) => {
            let found = format!("the tap `{tap}`, which stands on another link too");
            let allowed = "a name of its own";
            return Err(Refusal::at(&node.spot, path, found, allowed));
        }
    }
    Ok(())
}

/// The names of a direction's elements: their labels, or what they are.
#[derive(Default)]
pub(crate) struct Labels {
    taken: Vec<String>,
}

impl Labels {
    /// The name of the next element.
    ///
    /// # Errors
    /// The label, if an element before has it.
    pub(crate) fn next(&mut self, label: Option<&str>, words: &str) -> Result<String, String> {
        let name = match label {
            Some(label) if self.taken.iter().any(|t| t == label) => return Err(label.to_owned()),
            Some(label) => label.to_owned(),
            None => {
                let kind = words.split_whitespace().next().unwrap_or("element");
                // A flow of `kernel:cubic` is called kernel-cubic.
                let kind = kind.replace(':', "-");
                let mut name = kind.clone();
                let mut number = 1;
                while self.taken.contains(&name) {
                    number += 1;
                    name = format!("{kind}-{number}");
                }
                name
            }
        };
        self.taken.push(name.clone());
        Ok(name)
    }
}

/// Decides which of the hosts are routers: those that were said to be, and
/// those that nothing was said about, where no flow and no probe ends and that
/// no command runs on or speaks of.
pub(super) fn settle_routers(top: &Fields<'_>, plan: &mut Plan) -> Result<(), Refusal> {
    let declared = declared(top)?;
    let mut busy = vec![false; plan.hosts.len()];
    let flows = plan.flows.iter().map(|f| (f.from, f.to));
    let probes = plan.probes.iter().map(|p| (p.from, p.to));
    for (from, to) in flows.chain(probes) {
        busy[from.0] = true;
        busy[to.0] = true;
    }
    for host in plan.commands.iter().flat_map(|c| c.hosts(plan)) {
        busy[host.0] = true;
    }
    for (host, busy) in plan.hosts.iter_mut().zip(busy) {
        if !declared.contains_key(host.name.as_str()) {
            host.router = !busy;
        }
    }
    Ok(())
}
