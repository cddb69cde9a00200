//! From the links of a plan to running elements.

use narrows_path::Site;
use narrows_path::paths::{Link, Next, Planned, Stage};
use narrows_path::routes::{self, Routes};
use narrows_units::Instant;

use crate::names::NameTable;
use crate::plan::{HostIndex, LinkPlan, NamedElement, Plan};

/// What becomes of the links of a plan.
#[derive(Default)]
pub struct Assembled {
    /// The elements of all links, each direction in order of travel.
    pub stages: Vec<Stage>,
    /// The links, in the plan's order.
    pub links: Vec<Link>,
    /// The timed changes, in the plan's order.
    pub changes: Vec<Planned>,
}

/// A change names an element that is not there, or has words that it does not
/// understand. A plan that was checked has none such.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("change of {target} at {at}: {reason}")]
pub struct BadChange {
    /// The element.
    pub target: String,
    /// When.
    pub at: Instant,
    /// What is wrong.
    pub reason: String,
}

impl Plan {
    /// Which way packets go between its hosts, by their indices.
    pub fn routes(&self) -> Routes {
        let forwards: Vec<bool> = self.hosts.iter().map(|h| h.router).collect();
        let ends: Vec<_> = self
            .links
            .iter()
            .map(|l| (l.ends.0.0, l.ends.1.0))
            .collect();
        routes::shortest(&forwards, &ends, &[])
    }

    /// The elements that packets from one host to another meet along `routes`,
    /// in order of travel, each with its link; none if no way leads there.
    pub fn elements_between(
        &self,
        routes: &Routes,
        from: HostIndex,
        to: HostIndex,
    ) -> impl Iterator<Item = (&LinkPlan, &NamedElement)> {
        let hops = routes.path(from.0, to.0).unwrap_or_default();
        hops.into_iter().flat_map(|hop| {
            let link = &self.links[hop.link];
            let elements = if hop.up { &link.up } else { &link.down };
            elements.iter().map(move |element| (link, element))
        })
    }
}

/// Builds every element of `plan`; randomness comes from `seed` and the
/// elements' names.
///
/// # Errors
/// When a timed change cannot be made.
pub fn assemble(plan: &Plan, names: &NameTable, seed: u64) -> Result<Assembled, BadChange> {
    let mut assembled = Assembled::default();
    for link in &plan.links {
        let entity = names.id(&format!("link/{}", link.name)).unwrap_or_default();
        let up = assembled.chain(link, &link.up, true, names, seed);
        let down = assembled.chain(link, &link.down, false, names, seed);
        assembled.links.push(Link {
            entity,
            mtu: link.mtu,
            up,
            down,
        });
    }
    for change in &plan.changes {
        let refuse = |reason: String| BadChange {
            target: change.target.clone(),
            at: change.at,
            reason,
        };
        let element = plan
            .elements()
            .find(|e| e.name == change.target)
            .ok_or_else(|| refuse("there is no such element".to_owned()))?;
        element
            .spec
            .check_change(&change.words)
            .map_err(|e| refuse(e.to_string()))?;
        let entity = names.id(&change.target).unwrap_or_default();
        let stages = assembled.stages.iter().enumerate();
        assembled.changes.push(Planned {
            at: change.at,
            stages: stages
                .filter(|(_, s)| s.entity == entity)
                .map(|(i, _)| i as u32)
                .collect(),
            words: change.words.clone(),
        });
    }
    Ok(assembled)
}

impl Assembled {
    /// Builds one direction of a link; where a packet enters it.
    fn chain(
        &mut self,
        link: &LinkPlan,
        elements: &[NamedElement],
        forward: bool,
        names: &NameTable,
        seed: u64,
    ) -> Next {
        let (HostIndex(a), HostIndex(b)) = link.ends;
        let end = Next::Node(if forward { b } else { a } as u32);
        let first = self.stages.len();
        for (i, element) in elements.iter().enumerate() {
            let entity = names.id(&element.name).unwrap_or_default();
            let site = Site {
                entity,
                name: &element.name,
                seed,
                mtu: link.mtu,
                forward,
            };
            self.stages.push(Stage {
                element: element.spec.build(&site),
                entity,
                next: if i + 1 == elements.len() {
                    end
                } else {
                    Next::Stage((first + i + 1) as u32)
                },
            });
        }
        if elements.is_empty() {
            end
        } else {
            Next::Stage(first as u32)
        }
    }
}
