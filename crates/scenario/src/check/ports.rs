//! Ports of nodes: which element of a direction is one.

use super::Check;
use crate::document::{At, Element};
use crate::plan::{HostPlan, NamedElement};
use crate::refusal::Refusal;

impl Check<'_> {
    /// Refuses elements that have the name of the node at which the other direction begins: each
    /// would be an element like any other, and the port would keep the words of its node.
    pub(super) fn no_port_of_the_other_end(
        &self,
        given: &[At<Element>],
        path: &str,
        elements: &[NamedElement],
        (other_key, other): (&str, &HostPlan),
    ) -> Result<(), Refusal> {
        let named = elements.iter().zip(given);
        let mut named = named.filter(|(e, _)| e.spec.facts().tap.is_none());
        let found = named.find(|(e, _)| e.short_name() == other.name);
        match found {
            Some((_, at)) if other.node.is_some() => {
                let found = format!(
                    "the name `{}`, which the node at the other end has",
                    other.name
                );
                let allowed =
                    format!("another name; the words for its port come first in `{other_key}`");
                Err(Refusal::at(self.places.spot(at), path, found, allowed))
            }
            _ => Ok(()),
        }
    }

    /// Puts the port of `node`, if it is one, in front of the elements of a direction that
    /// begins there and does not say otherwise.
    pub(super) fn with_port(
        &self,
        given: &[At<Element>],
        path: &str,
        elements: &mut Vec<NamedElement>,
        node: &HostPlan,
    ) -> Result<(), Refusal> {
        let Some(spec) = &node.node else {
            return Ok(());
        };
        let said = elements.first().is_some_and(|e| e.spec.facts().node);
        let others = elements.iter().skip(usize::from(said));
        if let Some(i) = others.clone().position(|e| e.short_name() == node.name) {
            let found = format!("the name `{}`, which the port of the router has", node.name);
            let allowed = "another name, or the first place, for the words of the port";
            return Err(Refusal::at(
                self.places.spot(&given[i + usize::from(said)]),
                path,
                found,
                allowed,
            ));
        }
        if !said {
            let name = format!("{path}/{}", node.name);
            let spec = spec.clone();
            elements.insert(0, NamedElement { name, spec });
        }
        Ok(())
    }
}
