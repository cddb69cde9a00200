//! Measurement signals in the packets of devices: of this machine's own, for
//! `narrows mark`, and of the hosts of a run.

use narrows_bpf::{BpfError, SignalCounters, SignalOptions, SignalProgram};
use narrows_core::FlowId;
use narrows_efm::HostSignals;
use narrows_scenario::endpoints::ANSWERER_PORTS;
use narrows_scenario::{LinkIndex, Plan, SignalPlan, SignalSpec};

use crate::machine::{State, Undo};
use crate::world::{own_segments, set_own_segments};
use crate::{LiveError, RunId, World};

/// What an attachment needs of `gso_max_segs`: one run of the program for each
/// packet on the wire.
const ONE_SEGMENT: u32 = 1;

/// RunSignals at a device of this process's network namespace. Dropping it detaches
/// them and sets the device back; what a killed process cannot set back is
/// written down for [`sweep`](crate::machine::sweep).
#[derive(Debug)]
pub struct DeviceSignals {
    // Declared in the order in which they are to go.
    mark: SignalProgram,
    _state: State,
}

impl DeviceSignals {
    /// RunSignals connections that begin at `device` from now on. For profiles that
    /// count packets the device is set to one segment in a packet.
    ///
    /// # Errors
    /// If there is no such device, the kernel or this build has no BPF, or the
    /// caller is not root.
    pub fn attach(
        device: &str,
        signals: &SignalSpec,
        options: &SignalOptions,
    ) -> Result<Self, LiveError> {
        let absent = |e| LiveError::refused(format!("there is no device {device}"), e);
        let (_, segments) = own_segments(device).map_err(absent)?;
        // Written down before it is done: a killed process undoes nothing.
        let state = State::open(&RunId::random())?;
        state.record(&Undo::SignalFilters(device.to_owned()))?;
        let mark = attach_own(device, signals, options)?;
        if signals.counts_packets() && segments != ONE_SEGMENT {
            state.record(&Undo::Segments {
                device: device.to_owned(),
                value: segments,
            })?;
            set_own_segments(device, ONE_SEGMENT).map_err(|e| {
                LiveError::refused(format!("{device}: gso_max_segs cannot be set"), e)
            })?;
        }
        Ok(Self {
            mark,
            _state: state,
        })
    }

    /// What they have done so far.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn counters(&self) -> Result<SignalCounters, LiveError> {
        self.mark.counters().map_err(|error| LiveError::Signals {
            what: "counters".to_owned(),
            error,
        })
    }

    /// Whether they are attached by tcx, otherwise by clsact.
    pub fn is_tcx(&self) -> bool {
        self.mark.is_tcx()
    }
}

fn attach_own(
    device: &str,
    signals: &SignalSpec,
    options: &SignalOptions,
) -> Result<SignalProgram, LiveError> {
    let refused = |error| LiveError::Signals {
        what: device.to_owned(),
        error,
    };
    let absent = |e| LiveError::refused(format!("there is no device {device}"), e);
    let (index, _) = own_segments(device).map_err(absent)?;
    SignalProgram::attach_with(index, signals, options).map_err(refused)
}

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
