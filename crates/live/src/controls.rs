//! The congestion controls of a run, in the kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use narrows_bpf::{BpfError, EcnFlags, Ect1, Loaded, SocketOptions, Trace};
use narrows_cc::ControlSpec;
use narrows_packet::FlowId;
use narrows_scenario::{Control, HostIndex, LinkIndex, Plan};

use crate::control_records::ControlRecords;
use crate::{Clock, LiveError, Reporter, World};

/// How often records are taken out of the ring buffers. Each holds far more
/// than what comes in that time: a record per socket and millisecond.
const READ_EVERY: std::time::Duration = std::time::Duration::from_millis(25);

/// Narrows' own congestion controls that a plan's flows use, registered under
/// names of the run, and what gives their packets ECT(1). All of it is taken
/// back when this is dropped.
pub(crate) struct Controls {
    loaded: Vec<Loaded>,
    /// Held for what it does.
    _ect1: Vec<Ect1>,
    /// Hosts whose packets get ECT(1).
    marking: BTreeSet<usize>,
    /// What the kernel calls each flow's control.
    names: Vec<String>,
    /// What went otherwise than it should, a sentence each.
    pub notes: Vec<String>,
}

impl Controls {
    /// Refuses a flow that needs a control of ours where none can be loaded:
    /// by whoever is not the machine's root, and into a kernel that does not
    /// describe its types. What else there is shows when it is loaded.
    ///
    /// # Errors
    /// What loading it says.
    pub(crate) fn check(plan: &Plan) -> Result<(), LiveError> {
        if crate::machine::loads_bpf() {
            return Ok(());
        }
        let streams = plan.flows.iter().filter(|f| !f.traffic.is_datagram());
        for flow in streams {
            let Control::Own(spec) = &flow.cc else {
                continue;
            };
            if kernels_own(spec).is_some() {
                continue;
            }
            let name = format!("{}_try", crate::RunId::random());
            let tried = narrows_bpf::ControlLoader::load(spec, &name, EcnFlags::None, Trace::Off);
            tried.map_err(|error| LiveError::Control {
                flow: flow.name.clone(),
                control: spec.name().to_owned(),
                error,
            })?;
        }
        Ok(())
    }

    /// Registers what `plan` needs. Flows with equal words share one.
    ///
    /// # Errors
    /// If the kernel refuses, or this build or user cannot load BPF.
    pub(crate) fn load(plan: &Plan, world: &World) -> Result<Self, LiveError> {
        let mut controls = Self {
            loaded: Vec::new(),
            _ect1: Vec::new(),
            marking: BTreeSet::new(),
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
                Control::Quic(_) => {
                    controls.names.push(String::new());
                    continue;
                }
                Control::Own(_) if flow.traffic.is_datagram() => {
                    controls.names.push(String::new());
                    continue;
                }
                Control::Own(spec) => spec,
            };
            let words = spec.to_string();
            let refused = |error: BpfError| LiveError::Control {
                flow: flow.name.clone(),
                control: spec.name().to_owned(),
                error,
            };
            let needs = spec.needs();
            if let Some(name) = known.get(&words).cloned() {
                if controls.needs_ect1(spec, &name) {
                    controls.send_ect1(plan, world, [flow.from, flow.to], &refused)?;
                }
                controls.names.push(name);
                continue;
            }
            // `nw7k2qa_prague`, `nw7k2qa_prague1`: at most 15 characters, of
            // which the kernel takes no hyphen (bpf_obj_name_cpy).
            let number = match controls.loaded.len() {
                0 => String::new(),
                n => n.to_string(),
            };
            let mut name = format!("{}_{}", world.run_id(), spec.name());
            name.truncate(narrows_bpf::NAME_MAX - number.len());
            name += &number;
            let wanted = match (needs.accecn, needs.ecn) {
                (true, _) => EcnFlags::AccEcn,
                (false, true) => EcnFlags::Classic,
                (false, false) => EcnFlags::None,
            };
            let loaded = match narrows_bpf::ControlLoader::load(spec, &name, wanted, Trace::State) {
                Ok(loaded) => loaded,
                Err(error) => {
                    let kernels = kernels_own(spec).ok_or_else(|| refused(error))?;
                    controls.notes.push(format!(
                        "flow/{}: ran the kernel's own {kernels}, as none of ours can be loaded \
                         into the kernel here",
                        flow.name
                    ));
                    controls.names.push(kernels.to_owned());
                    known.insert(words, kernels.to_owned());
                    continue;
                }
            };
            if loaded.ecn() != wanted {
                controls.notes.push(format!(
                    "flow/{}: this kernel has no AccECN for congestion controls (Linux 6.18 \
                     has); marks come back as for DCTCP (RFC 8257)",
                    flow.name
                ));
            }
            controls.loaded.push(loaded);
            if controls.needs_ect1(spec, &name) {
                controls.send_ect1(plan, world, [flow.from, flow.to], &refused)?;
            }
            controls.names.push(name.clone());
            known.insert(words, name);
        }
        Ok(controls)
    }

    /// Whether packets of the control `name` are to be given ECT(1) where they leave: a
    /// kernel that was built with it sends them so.
    fn needs_ect1(&self, spec: &ControlSpec, name: &str) -> bool {
        let itself = |loaded: &Loaded| loaded.name() == name && loaded.sends_ect1();
        spec.needs().ect1 && !self.loaded.iter().any(itself)
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
            let [first, second] = world.ends(LinkIndex(i));
            for (end, (_, index)) in [(link.ends.0, first), (link.ends.1, second)] {
                if hosts.contains(&end) && !self.marking.contains(&end.0) {
                    let attached = world.namespace(end).run(|| Ect1::attach(index))?;
                    self._ect1.push(attached.map_err(refused)?);
                }
            }
        }
        self.marking.extend(hosts.map(|host| host.0));
        Ok(())
    }

    /// What sets options of sockets that use the controls.
    ///
    /// # Errors
    /// If the kernel gives no hold of one.
    pub(crate) fn options(&self) -> Result<Vec<SocketOptions>, LiveError> {
        let options = self.loaded.iter().map(Loaded::socket_options);
        let refused = |e: BpfError| {
            LiveError::refused("hold the options of a control", std::io::Error::other(e))
        };
        options.collect::<Result<_, _>>().map_err(refused)
    }

    /// What the kernel calls the control of `flow`.
    pub(crate) fn name(&self, flow: FlowId) -> String {
        self.names.get(flow.0 as usize).cloned().unwrap_or_default()
    }

    /// Starts to report to `reporter` what the controls make of their flows'
    /// acknowledgements.
    ///
    /// # Errors
    /// When no thread can be started.
    pub(crate) fn read_records(
        &mut self,
        plan: &Plan,
        clock: Clock,
        reporter: Reporter,
    ) -> Result<RecordReader, LiveError> {
        let mut loaded = std::mem::take(&mut self.loaded);
        let mut records = ControlRecords::new(plan, clock, reporter);
        let (stop, stopped) = channel::<()>();
        let reader = std::thread::Builder::new()
            .name("controls".to_owned())
            .spawn(move || {
                let unread = drain(&mut loaded, &mut records, &stopped);
                let dropped = loaded.iter().filter_map(|l| l.dropped().ok()).sum();
                (loaded, dropped, unread)
            })
            .map_err(|e| LiveError::refused("starting a thread", e))?;
        Ok(RecordReader {
            stop: Some(stop),
            reader: Some(reader),
        })
    }
}

/// The kernel's own algorithm that does what `spec` does, where there is one:
/// with parameters of ours there is none.
pub(crate) fn kernels_own(spec: &narrows_cc::ControlSpec) -> Option<&'static str> {
    match spec.to_string().as_str() {
        "cubic" => Some("cubic"),
        "reno" => Some("reno"),
        _ => None,
    }
}

/// Hands over records until stopped; whether some could not be read.
fn drain(loaded: &mut [Loaded], records: &mut ControlRecords, stopped: &Receiver<()>) -> bool {
    loop {
        let last = stopped.recv_timeout(READ_EVERY) != Err(RecvTimeoutError::Timeout);
        for control in loaded.iter_mut() {
            if control.poll(|record| records.report(&record)).is_err() {
                return true;
            }
        }
        if last {
            return false;
        }
    }
}

/// A thread that reads the records of the controls. They stay registered until this
/// is dropped.
pub(crate) struct RecordReader {
    stop: Option<Sender<()>>,
    reader: Option<JoinHandle<(Vec<Loaded>, u64, bool)>>,
}

impl RecordReader {
    /// Stops the thread and takes the controls back; returns the number of records
    /// for which there was no room.
    ///
    /// # Errors
    /// When what came through a ring buffer could not be read.
    pub(crate) fn stop(mut self) -> Result<u64, LiveError> {
        self.stop = None;
        let ended = self.reader.take().map(JoinHandle::join);
        match ended {
            Some(Ok((_, dropped, false))) => Ok(dropped),
            _ => Err(LiveError::refused(
                "reading the records of congestion controls",
                std::io::Error::other("a ring buffer held what is no record"),
            )),
        }
    }
}

impl Drop for RecordReader {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
    }
}
