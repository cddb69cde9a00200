//! Names behind entity numbers.

use std::collections::BTreeMap;

use narrows_core::EntityId;

use crate::plan::Plan;

/// How the name of a tunnel's box ends that is nearer to the link's first end, and of the other.
pub(crate) const NEAR: &str = "-near";
pub(crate) const FAR: &str = "-far";

/// The full names of a run's entities: `host/…`, `link/…`, elements
/// (`link/…/up/…`, of two-way boxes `link/…/…`, `tap/…`), `flow/…`, `probe/…`, `app/…`, in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameTable {
    names: Vec<String>,
    ids: BTreeMap<String, EntityId>,
}

impl NameTable {
    /// The table of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let mut table = Self::default();
        for host in &plan.hosts {
            table.add(format!("host/{}", host.name));
        }
        for link in &plan.links {
            table.add(format!("link/{}", link.name));
        }
        for element in plan.elements() {
            table.add(element.name.clone());
        }
        for flow in &plan.flows {
            table.add(format!("flow/{}", flow.name));
        }
        for probe in &plan.probes {
            table.add(format!("probe/{}", probe.name));
        }
        for app in &plan.apps {
            table.add(format!("app/{}", app.name));
        }
        table
    }

    /// Adds a name; one that is there (the other direction of a tap or box) keeps its
    /// number.
    fn add(&mut self, name: String) {
        if !self.ids.contains_key(&name) {
            // Names come from a file; there are never 2³² of them.
            self.ids
                .insert(name.clone(), EntityId(self.names.len() as u32));
            self.names.push(name);
        }
    }

    /// The number of `name`.
    pub fn id(&self, name: &str) -> Option<EntityId> {
        self.ids.get(name).copied()
    }

    /// The name of `id`; empty for a number of another run.
    pub fn name(&self, id: EntityId) -> &str {
        self.names.get(id.0 as usize).map_or("", String::as_str)
    }

    /// All names, by number.
    pub fn as_slice(&self) -> &[String] {
        &self.names
    }
}

/// Whether `name` can be a part of `kind/name/part`, a file's name and a key.
pub fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 64
        && !name.starts_with(['.', '-'])
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}
