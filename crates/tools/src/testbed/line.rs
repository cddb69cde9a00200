//! The four roles of a scenario, in a line.

use std::fmt;
use std::net::Ipv4Addr;

use narrows_scenario::{HostIndex, LinkIndex, LinkPlan, Plan, Refusal};
use serde::{Deserialize, Serialize};

use super::is_reserved;

/// What a machine is in a testbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sends data.
    Source,
    /// Has the elements of the links that it is an end of.
    Box,
    /// Forwards packets, and observes them.
    Observer,
    /// Asks for data, and gets it.
    Sink,
}

impl Role {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Source, Self::Box, Self::Observer, Self::Sink];

    /// Its name, which the last part of a host's name has to be.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Box => "box",
            Self::Observer => "observer",
            Self::Sink => "sink",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A place in the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) role: Role,
    pub(super) host: HostIndex,
    pub(super) address: Ipv4Addr,
}

/// The hosts of a scenario as a line from source to sink.
#[derive(Clone, Debug)]
pub struct Line {
    pub(super) plan: Plan,
    /// From the source to the sink.
    pub(super) places: [Place; 4],
    /// Where the box is in `places`: 1 or 2.
    pub(super) at_box: usize,
}

impl Line {
    /// The line of `plan`: exactly four hosts, whose names end in the roles' names, and three links.
    ///
    /// # Errors
    /// What is not so: other hosts, other links, elements where no box is, addresses of the control
    /// network.
    pub fn of(plan: Plan) -> Result<Self, Refusal> {
        let mut found = Vec::new();
        for (i, host) in plan.hosts.iter().enumerate() {
            let last = host.name.rsplit('.').next().unwrap_or_default();
            let role = Role::ALL.into_iter().find(|role| role.word() == last);
            let role = role.ok_or_else(|| {
                let found = format!("the host `{}`", host.name);
                no_testbed(&format!("host/{}", host.name), found)
            })?;
            if is_reserved(host.ipv4) {
                let found = format!("`{}`", host.ipv4);
                let allowed = "an address outside of 169.254.77.0/24, which is the machines' own";
                return Err(Refusal::new(
                    format!("host/{}/ipv4", host.name),
                    found,
                    allowed,
                ));
            }
            found.push(Place {
                role,
                host: HostIndex(i),
                address: host.ipv4,
            });
        }
        let of = |role| found.iter().find(|place: &&Place| place.role == role);
        let [Some(source), Some(inline), Some(observer), Some(sink)] = Role::ALL.map(of) else {
            let names: Vec<_> = plan.hosts.iter().map(|h| format!("`{}`", h.name)).collect();
            return Err(no_testbed("", format!("the hosts {}", names.join(", "))));
        };
        if found.len() != 4 || plan.links.len() != 3 {
            let found = format!("{} hosts and {} links", found.len(), plan.links.len());
            return Err(no_testbed("", found));
        }
        let joined = |a: &Place, b: &Place| link_between(&plan, a.host, b.host).is_some();
        let in_a_row = |row: &[&Place; 4]| row.windows(2).all(|pair| joined(pair[0], pair[1]));
        let rows = [
            [source, inline, observer, sink],
            [source, observer, inline, sink],
        ];
        let Some(at) = rows.iter().position(in_a_row) else {
            let name = |host| plan.host(host).name.as_str();
            let ends = |link: &LinkPlan| format!("{}–{}", name(link.ends.0), name(link.ends.1));
            let names: Vec<_> = plan.links.iter().map(ends).collect();
            return Err(no_testbed("", format!("the links {}", names.join(", "))));
        };
        let line = Self {
            places: rows[at].map(Clone::clone),
            at_box: at + 1,
            plan,
        };
        line.has_elements_at_the_box_alone()?;
        Ok(line)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.plan.name
    }

    /// Where a role is in the line, from 0 at the source.
    pub(super) fn index(&self, role: Role) -> usize {
        let mut places = self.places.iter();
        places.position(|place| place.role == role).unwrap_or(0)
    }

    /// The address of a role in the line.
    pub(super) fn address(&self, role: Role) -> Ipv4Addr {
        self.places[self.index(role)].address
    }

    /// The links of the box: towards the source, and towards the sink.
    pub(super) fn links_of_box(&self) -> [&LinkPlan; 2] {
        let link = |a: usize, b: usize| {
            let found = link_between(&self.plan, self.places[a].host, self.places[b].host);
            &self.plan.links[found.map_or(0, |link| link.0)]
        };
        [
            link(self.at_box - 1, self.at_box),
            link(self.at_box, self.at_box + 1),
        ]
    }

    fn has_elements_at_the_box_alone(&self) -> Result<(), Refusal> {
        let own = self.links_of_box().map(|link| link.name.as_str());
        for link in &self.plan.links {
            let mut all = link.up.iter().chain(&link.down);
            let acts = all.find(|element| !element.name.starts_with("tap/"));
            if let Some(element) = acts.filter(|_| !own.contains(&link.name.as_str())) {
                let found = format!("`{}` on a link without the box", element.spec);
                let allowed = format!("elements on `{}` and `{}`, whose end it is", own[0], own[1]);
                return Err(Refusal::new(element.name.as_str(), found, allowed));
            }
        }
        Ok(())
    }
}

fn link_between(plan: &Plan, a: HostIndex, b: HostIndex) -> Option<LinkIndex> {
    let joins = |link: &LinkPlan| link.ends == (a, b) || link.ends == (b, a);
    plan.links.iter().position(joins).map(LinkIndex)
}

fn no_testbed(key: &str, found: String) -> Refusal {
    let allowed = "source, box, observer and sink as the last part of four hosts' names, in a line \
                   of three links from source to sink";
    Refusal::new(key, found, allowed)
}
