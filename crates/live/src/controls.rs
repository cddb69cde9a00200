//! The congestion controls of a run, in the kernel.

use std::collections::BTreeMap;

use narrows_bpf::{BpfError, EcnFlags, Ect1, Loaded, Trace};
use narrows_packet::FlowId;
use narrows_scenario::{Control, HostIndex, LinkIndex, Plan};

use crate::{LiveError, World};

/// Narrows' own congestion controls that a plan's flows use, registered under
/// names of the run, and what gives their packets ECT(1). All of it is taken
/// back when this is dropped.
pub(crate) struct Controls {
    loaded: Vec<Loaded>,
    /// Held for what it does.
    _ect1: Vec<Ect1>,
    /// What the kernel calls each flow's control.
    names: Vec<String>,
    /// What went otherwise than it should, a sentence each.
    pub notes: Vec<String>,
}

impl Controls {
    /// Registers what `plan` needs. Flows with equal words share one.
    ///
    /// # Errors
    /// If the kernel refuses, or this build or user cannot load BPF.
    pub(crate) fn load(plan: &Plan, world: &World) -> Result<Self, LiveError> {
        let mut controls = Self {
            loaded: Vec::new(),
            _ect1: Vec::new(),
            names: Vec::new(),
            notes: Vec::new(),
        };
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for flow in &plan.flows {
            let spec = match &flow.cc {
                Control::Kernel(name) => {
                    controls.names.push(name.clone());
                    continue;
                }
                // It has no connection to control.
                Control::Own(_) if flow.traffic.is_datagram() => {
                    controls.names.push(String::new());
                    continue;
                }
                Control::Own(spec) => spec,
            };
            let words = spec.to_string();
            if let Some(name) = known.get(&words) {
                controls.names.push(name.clone());
                continue;
            }
            let refused = |error: BpfError| LiveError::Control {
                flow: flow.name.clone(),
                control: spec.name().to_owned(),
                error,
            };
            // `nw7k2qa-prague`, `nw7k2qa-prague1`: at most 15 letters.
            let name = match controls.loaded.len() {
                0 => world.run_id().device(spec.name()),
                n => world.run_id().device(format_args!("{}{n}", spec.name())),
            };
            let needs = spec.needs();
            let wanted = match (needs.accecn, needs.ecn) {
                (true, _) => EcnFlags::AccEcn,
                (false, true) => EcnFlags::Classic,
                (false, false) => EcnFlags::None,
            };
            let loaded =
                narrows_bpf::Control::load(spec, &name, wanted, Trace::Off).map_err(refused)?;
            if loaded.ecn() != wanted {
                controls.notes.push(format!(
                    "flow/{}: this kernel has no AccECN for congestion controls (Linux 6.18 \
                     has); marks come back as for DCTCP (RFC 8257)",
                    flow.name
                ));
            }
            if needs.ect1 {
                controls.send_ect1(plan, world, [flow.from, flow.to], &refused)?;
            }
            controls.loaded.push(loaded);
            controls.names.push(name.clone());
            known.insert(words, name);
        }
        Ok(controls)
    }

    /// Gives packets of loaded controls that want it ECT(1) where they leave
    /// `hosts`.
    fn send_ect1(
        &mut self,
        plan: &Plan,
        world: &World,
        hosts: [HostIndex; 2],
        refused: &dyn Fn(BpfError) -> LiveError,
    ) -> Result<(), LiveError> {
        for (i, link) in plan.links.iter().enumerate() {
            let (first, second) = world.tun(LinkIndex(i));
            for (end, tun) in [(link.ends.0, first), (link.ends.1, second)] {
                if hosts.contains(&end) {
                    let index = tun.index();
                    let attached = world.namespace(end).run(|| Ect1::attach(index))?;
                    self._ect1.push(attached.map_err(refused)?);
                }
            }
        }
        Ok(())
    }

    /// What the kernel calls the control of `flow`.
    pub(crate) fn name(&self, flow: FlowId) -> String {
        self.names.get(flow.0 as usize).cloned().unwrap_or_default()
    }

    /// Records that ring buffers had no room for.
    pub(crate) fn ring_drops(&self) -> u64 {
        self.loaded.iter().filter_map(|l| l.dropped().ok()).sum()
    }
}
