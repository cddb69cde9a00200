//! Measurement signals in the packets of the hosts of a run.

use narrows_bpf::{BpfError, SignalOptions, SignalProgram};
use narrows_core::FlowId;
use narrows_efm::HostSignals;
use narrows_linux::set_own_segments;
use narrows_scenario::endpoints::ANSWERER_PORTS;
use narrows_scenario::{LinkIndex, Plan, SignalPlan};

use crate::{LiveError, World};

/// What an attachment needs of `gso_max_segs`: one run of the program for each
/// packet on the wire.
const ONE_SEGMENT: u32 = 1;

/// The marks of a run: at every device of the hosts that put them there.
pub(crate) struct RunSignals {
    attached: Vec<At>,
}

/// One attachment.
struct At {
    mark: String,
    host: String,
    programs: SignalProgram,
}

impl RunSignals {
    /// Attaches what `plan` asks for.
    ///
    /// # Errors
    /// If the kernel refuses, or this build or user cannot load BPF.
    pub(crate) fn attach(plan: &Plan, world: &World) -> Result<Self, LiveError> {
        let mut marks = Self {
            attached: Vec::new(),
        };
        for mark in &plan.marks {
            for (i, link) in plan.links.iter().enumerate() {
                let [first, second] = world.ends(LinkIndex(i));
                for (end, (name, index)) in [(link.ends.0, first), (link.ends.1, second)] {
                    if !mark.hosts.contains(&end) {
                        continue;
                    }
                    let attach = || attach_at(mark, plan, name, index);
                    marks.attached.push(At {
                        mark: mark.name.clone(),
                        host: plan.host(end).name.clone(),
                        programs: world.namespace(end).run(attach)??,
                    });
                }
            }
        }
        Ok(marks)
    }

    /// What they did, by mark and host; in `notes` a sentence for each that left
    /// packets without marks that should have them.
    pub(crate) fn counters(&self, notes: &mut Vec<String>) -> Vec<HostSignals> {
        let mut all: Vec<HostSignals> = Vec::new();
        for at in &self.attached {
            let counters = match at.programs.counters() {
                Ok(counters) => counters,
                Err(e) => {
                    notes.push(format!("mark/{} at host/{}: {e}", at.mark, at.host));
                    continue;
                }
            };
            let same = |m: &&mut HostSignals| m.mark == at.mark && m.host == at.host;
            match all.iter_mut().find(same) {
                Some(sum) => sum.counters += counters,
                None => all.push(HostSignals {
                    mark: at.mark.clone(),
                    host: at.host.clone(),
                    counters,
                }),
            }
        }
        notes.extend(all.iter().filter_map(incomplete));
        all
    }
}

fn incomplete(marks: &HostSignals) -> Option<String> {
    let c = &marks.counters;
    let unmarked = c.segments + c.refused;
    (unmarked + c.evicted > 0).then(|| {
        format!(
            "mark/{} at host/{}: {unmarked} packets on the wire stayed without marks, {} \
             connections were forgotten",
            marks.mark, marks.host, c.evicted
        )
    })
}

/// Attaches to a device of a host that marks.
fn attach_at(
    mark: &SignalPlan,
    plan: &Plan,
    device: &str,
    index: u32,
) -> Result<SignalProgram, LiveError> {
    let tcp = |flow: &FlowId| {
        let flow = plan.flows.get(flow.0 as usize);
        flow.is_some_and(|flow| flow.transport.tcp().is_some())
    };
    let mut all = (0..plan.flows.len() as u32).map(FlowId).filter(tcp);
    let ports = if all.all(|f| mark.flows.contains(&f)) {
        Vec::new()
    } else {
        let ports = mark.flows.iter().map(|f| ANSWERER_PORTS + f.0 as u16);
        ports.collect()
    };
    let refused = |error: BpfError| LiveError::Signals {
        what: format!("mark/{}", mark.name),
        error,
    };
    if mark.signals.counts_packets() {
        set_own_segments(device, ONE_SEGMENT)
            .map_err(|e| LiveError::refused(format!("{device}: gso_max_segs cannot be set"), e))?;
    }
    let options = SignalOptions {
        ports,
        ..SignalOptions::default()
    };
    let attached = SignalProgram::attach_with(index, &mark.signals, &options).map_err(refused)?;
    if !attached.is_tcx() && plan.marks.len() > 1 {
        return Err(refused(BpfError::Kernel {
            what: "several marks in one scenario need tcx".to_owned(),
            hint: "Linux 6.6 has it; take one mark",
        }));
    }
    Ok(attached)
}
