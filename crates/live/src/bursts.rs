//! How many segments the senders of a run hand to their devices at once.

use std::collections::BTreeSet;

use narrows_core::FlowId;
use narrows_scenario::{LinkIndex, Plan};

use crate::flows::sender_port;
use crate::{FlowFacts, LiveError, World};

/// The program that counts them, at every device of every host that sends a
/// flow over TCP. Empty where it cannot be had: a run does not depend on it.
pub(crate) struct Bursts(Option<narrows_bpf::Bursts>);

impl Bursts {
    /// Attaches it, if this machine, build and user can.
    pub(crate) fn attach(plan: &Plan, world: &World) -> Self {
        let counting = Self::try_attach(plan, world);
        if let Err(e) = &counting {
            tracing::debug!("bursts are not counted: {e}");
        }
        Self(counting.ok().flatten())
    }

    fn try_attach(plan: &Plan, world: &World) -> Result<Option<narrows_bpf::Bursts>, LiveError> {
        let streams = plan.flows.iter().filter(|f| f.transport.tcp().is_some());
        let senders: BTreeSet<_> = streams.map(|f| f.from).collect();
        if senders.is_empty() {
            return Ok(None);
        }
        let refused = |e| LiveError::refused("counting bursts", std::io::Error::other(e));
        let mut bursts = narrows_bpf::Bursts::load().map_err(refused)?;
        for (i, link) in plan.links.iter().enumerate() {
            // On the kernel's own links TCP hands over single segments.
            let Some([first, second]) = world.own_ends(LinkIndex(i)) else {
                continue;
            };
            for (end, (_, index)) in [(link.ends.0, first), (link.ends.1, second)] {
                if senders.contains(&end) {
                    let attached = world.namespace(end).run(|| bursts.attach(index))?;
                    attached.map_err(refused)?;
                }
            }
        }
        Ok(Some(bursts))
    }

    /// Takes it from the devices.
    pub(crate) fn detach(self) {}

    /// Adds what was counted to `facts`, which are in the plan's order.
    pub(crate) fn add_to(&self, plan: &Plan, facts: &mut [FlowFacts]) {
        let Some(bursts) = &self.0 else { return };
        for (i, (flow, facts)) in plan.flows.iter().zip(facts).enumerate() {
            if flow.transport.tcp().is_some() {
                let port = sender_port(plan, FlowId(i as u32));
                facts.gso_max_segs = bursts.longest(port).unwrap_or(0);
            }
        }
    }
}
