//! Measurement signals in the packets of devices: of this machine's own, for
//! `narrows mark`, and of the hosts of a run.

use narrows_bpf::{BpfError, Mark, MarkCounters, MarkOptions};
use narrows_packet::FlowId;
use narrows_scenario::endpoints::ANSWERER_PORTS;
use narrows_scenario::{FlowPlan, LinkIndex, MarkPlan, Marking, Plan};

use crate::machine::{State, Undo};
use crate::world::{own_segments, set_own_segments};
use crate::{LiveError, RunId, World};

/// What an attachment needs of `gso_max_segs`: one run of the program for each
/// packet on the wire.
const ONE_SEGMENT: u32 = 1;

/// Marks at a device of this process's network namespace. Dropping it detaches
/// them and sets the device back; what a killed process cannot set back is
/// written down for [`sweep`](crate::machine::sweep).
#[derive(Debug)]
pub struct DeviceMarks {
    // Declared in the order in which they are to go.
    mark: Mark,
    _state: Option<State>,
}

impl DeviceMarks {
    /// Marks connections that begin at `device` from now on. For profiles that
    /// count packets the device is told to take one segment in a packet.
    ///
    /// # Errors
    /// If there is no such device, the kernel or this build has no BPF, or the
    /// caller is not root.
    pub fn attach(
        device: &str,
        signals: &Marking,
        options: &MarkOptions,
    ) -> Result<Self, LiveError> {
        let absent = |e| LiveError::refused(format!("there is no device {device}"), e);
        let (index, segments) = own_segments(device).map_err(absent)?;
        let refused = |error| LiveError::Mark {
            what: device.to_owned(),
            error,
        };
        let mark = Mark::attach_with(index, signals, options).map_err(refused)?;
        let state = if signals.counts_packets() && segments != ONE_SEGMENT {
            let state = State::open(&RunId::random())?;
            state.record(&Undo::Segments {
                device: device.to_owned(),
                value: segments,
            })?;
            set_own_segments(device, ONE_SEGMENT).map_err(|e| {
                LiveError::refused(format!("{device}: gso_max_segs cannot be set"), e)
            })?;
            Some(state)
        } else {
            None
        };
        Ok(Self {
            mark,
            _state: state,
        })
    }

    /// What they have done so far.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn counters(&self) -> Result<MarkCounters, LiveError> {
        self.mark.counters().map_err(|error| LiveError::Mark {
            what: "counters".to_owned(),
            error,
        })
    }

    /// Whether they are attached by tcx, otherwise by clsact.
    pub fn is_tcx(&self) -> bool {
        self.mark.is_tcx()
    }
}

/// The marks of a run: at every device of the hosts that put them there.
pub(crate) struct Marks {
    attached: Vec<(String, Mark)>,
}

impl Marks {
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
                    let attached = world.namespace(end).run(attach)??;
                    let place = format!("mark/{}: host/{}", mark.name, plan.host(end).name);
                    let named = attached.into_iter().map(|m| (place.clone(), m));
                    marks.attached.extend(named);
                }
            }
        }
        Ok(marks)
    }

    /// A sentence for each device at which packets stayed without marks.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (place, mark) in &self.attached {
            match mark.counters() {
                Ok(c) if c.segments + c.refused + c.evicted > 0 => notes.push(format!(
                    "{place}: {} packets on the wire stayed without marks, {} connections were \
                     forgotten",
                    c.segments + c.refused,
                    c.evicted
                )),
                Ok(_) => {}
                Err(e) => notes.push(format!("{place}: {e}")),
            }
        }
        notes
    }
}

/// One attachment for all flows, or one for each flow that is marked.
fn attach_at(
    mark: &MarkPlan,
    plan: &Plan,
    device: &str,
    index: u32,
) -> Result<Vec<Mark>, LiveError> {
    let tcp = |flow: &FlowId| {
        let flow = plan.flows.get(flow.0 as usize);
        flow.is_some_and(FlowPlan::is_tcp)
    };
    let all = (0..plan.flows.len() as u32).map(FlowId);
    let ports: Vec<Option<u16>> = if all.filter(tcp).all(|f| mark.flows.contains(&f)) {
        vec![None]
    } else {
        let ports = mark.flows.iter().map(|f| ANSWERER_PORTS + f.0 as u16);
        ports.map(Some).collect()
    };
    let refused = |error: BpfError| LiveError::Mark {
        what: format!("mark/{}", mark.name),
        error,
    };
    if mark.signals.counts_packets() {
        set_own_segments(device, ONE_SEGMENT)
            .map_err(|e| LiveError::refused(format!("{device}: gso_max_segs cannot be set"), e))?;
    }
    let mut attached = Vec::new();
    for port in ports {
        let options = MarkOptions {
            port,
            ..MarkOptions::default()
        };
        let mark = Mark::attach_with(index, &mark.signals, &options).map_err(refused)?;
        if !mark.is_tcx() && port.is_some() {
            return Err(refused(BpfError::Kernel {
                what: "marks of some flows and not of others need tcx".to_owned(),
                hint: "Linux 6.6 has it; mark all flows, or none",
            }));
        }
        attached.push(mark);
    }
    Ok(attached)
}
