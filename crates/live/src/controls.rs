//! The congestion controls of a run, in the kernel.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;

use narrows_bpf::{BpfError, Ect1, Loaded, SocketOptions, Trace};
use narrows_cc::ControlSpec;
use narrows_engine::SocketPlan;
use narrows_scenario::{Control, HostIndex, LinkIndex, Plan};

use crate::control_records::ControlRecords;
use crate::own_controls::OwnControls;
use crate::{Clock, LiveError, Reporter, RunId, World};

/// How often records are taken out of the ring buffers. Each holds far more
/// than what comes in that time: a record per socket and millisecond.
const READ_EVERY: std::time::Duration = std::time::Duration::from_millis(25);

/// Narrows' own congestion controls that a plan's flows and proxies use, and what gives
/// their packets ECT(1). All of it is taken back when this is dropped.
pub(crate) struct Controls {
    /// Of flows.
    own: OwnControls,
    /// Of legs of proxies and of applications, which leave no records: a leg has the ports of the
    /// flow that goes by it, and its records would be taken for the sender's.
    without_records: OwnControls,
    /// Held for what it does.
    _ect1: Vec<Ect1>,
    /// Hosts whose packets get ECT(1).
    marking: BTreeSet<usize>,
    /// What the kernel calls each flow's control.
    names: Vec<String>,
    /// What went otherwise than it should, a sentence each.
    pub notes: Vec<String>,
}

/// A control of ours that is to be loaded.
struct Wanted<'p> {
    /// `flow/NAME`, `proxy/NAME` or `app/NAME`.
    owner: String,
    spec: &'p ControlSpec,
    /// Whose packets it controls, and who acknowledges them.
    hosts: Vec<HostIndex>,
}

impl Wanted<'_> {
    fn refused(&self, error: BpfError) -> LiveError {
        LiveError::Control {
            owner: self.owner.clone(),
            control: self.spec.name().to_owned(),
            error,
        }
    }
}

/// The controls of ours that flows of `plan` have.
fn of_flows(plan: &Plan) -> impl Iterator<Item = Wanted<'_>> {
    plan.flows.iter().filter_map(|flow| {
        Some(Wanted {
            owner: format!("flow/{}", flow.name),
            spec: flow.transport.tcp()?.cc.own()?,
            hosts: vec![flow.from, flow.to],
        })
    })
}

/// The controls of ours that the kernel does not have as its own and that applications of
/// `plan` have.
fn of_apps(plan: &Plan) -> impl Iterator<Item = Wanted<'_>> {
    plan.apps.iter().filter_map(|app| {
        let own = app.transport.tcp()?.cc.own();
        Some(Wanted {
            owner: format!("app/{}", app.name),
            spec: own.filter(|spec| kernels_own(spec).is_none())?,
            hosts: vec![app.from, app.to],
        })
    })
}

/// The controls of ours that the kernel does not have as its own and that legs of proxies
/// of `plan` have.
fn of_legs(plan: &Plan) -> impl Iterator<Item = Wanted<'_>> {
    plan.proxies.iter().enumerate().flat_map(|(i, proxy)| {
        let flows = plan.flows.iter();
        let flows = flows.filter(move |f| f.via.is_some_and(|via| via.proxy == i));
        let mut hosts: Vec<_> = flows.flat_map(|f| [f.from, f.to]).collect();
        hosts.push(proxy.host);
        let legs = [&proxy.near, &proxy.far].into_iter();
        legs.filter_map(move |leg| {
            Some(Wanted {
                owner: format!("proxy/{}", proxy.name),
                spec: leg.cc.own().filter(|spec| kernels_own(spec).is_none())?,
                hosts: hosts.clone(),
            })
        })
    })
}

impl Controls {
    /// Refuses a flow or a proxy that needs a control of ours where none can be loaded:
    /// by whoever is not the machine's root, and into a kernel that does not
    /// describe its types. What else there is shows when it is loaded.
    ///
    /// # Errors
    /// What loading it says.
    pub(crate) fn check(plan: &Plan) -> Result<(), LiveError> {
        if narrows_linux::machine::loads_bpf() {
            return Ok(());
        }
        for wanted in of_flows(plan).chain(of_legs(plan)).chain(of_apps(plan)) {
            if kernels_own(wanted.spec).is_some() {
                continue;
            }
            let mut trial = OwnControls::new(RunId::random(), Trace::Off);
            trial.register(wanted.spec).map_err(|e| wanted.refused(e))?;
        }
        Ok(())
    }

    /// Registers what `plan` needs. Flows and legs with equal words share one.
    ///
    /// # Errors
    /// If the kernel refuses, or this build or user cannot load BPF.
    pub(crate) fn load(plan: &Plan, world: &World) -> Result<Self, LiveError> {
        let mut controls = Self {
            own: OwnControls::new(world.run_id(), Trace::State),
            without_records: OwnControls::new(format!("{}p", world.run_id()), Trace::Off),
            _ect1: Vec::new(),
            marking: BTreeSet::new(),
            names: Vec::new(),
            notes: Vec::new(),
        };
        for wanted in of_flows(plan) {
            register(&mut controls.own, &wanted, &mut controls.notes)?;
            if controls.own.needs_ect1(wanted.spec) {
                controls.send_ect1(plan, world, &wanted)?;
            }
        }
        for wanted in of_legs(plan).chain(of_apps(plan)) {
            register(&mut controls.without_records, &wanted, &mut controls.notes)?;
            if controls.without_records.needs_ect1(wanted.spec) {
                controls.send_ect1(plan, world, &wanted)?;
            }
        }
        let names = plan.flows.iter().map(|flow| match flow.transport.tcp() {
            Some(tcp) => match &tcp.cc {
                Control::Own(spec) => controls.own.name(spec).unwrap_or_default().to_owned(),
                kernels => kernels.name().to_owned(),
            },
            // It has no connection to control.
            None => String::new(),
        });
        controls.names = names.collect();
        Ok(controls)
    }

    /// Gives packets of a control that wants it ECT(1) where they leave its hosts.
    fn send_ect1(
        &mut self,
        plan: &Plan,
        world: &World,
        wanted: &Wanted<'_>,
    ) -> Result<(), LiveError> {
        for (i, link) in plan.links.iter().enumerate() {
            let [first, second] = world.ends(LinkIndex(i));
            for (end, (_, index)) in [(link.ends.0, first), (link.ends.1, second)] {
                if wanted.hosts.contains(&end) && !self.marking.contains(&end.0) {
                    let attached = world.namespace(end).run(|| Ect1::attach(index))?;
                    let attached = attached.map_err(|e| wanted.refused(e))?;
                    self._ect1.push(attached);
                }
            }
        }
        self.marking.extend(wanted.hosts.iter().map(|host| host.0));
        Ok(())
    }

    /// What sets options of sockets that use the controls.
    ///
    /// # Errors
    /// If the kernel gives no hold of one.
    pub(crate) fn options(&self) -> Result<Vec<SocketOptions>, LiveError> {
        let refused = |e: BpfError| {
            LiveError::refused("hold the options of a control", std::io::Error::other(e))
        };
        let mut options = self.own.options().map_err(refused)?;
        options.extend(self.without_records.options().map_err(refused)?);
        Ok(options)
    }

    /// What the kernel calls `control` at `socket`, which is an end of a flow, of a proxy's leg
    /// or of an application.
    pub(crate) fn name(&self, socket: &SocketPlan, control: &Control) -> String {
        if let Some(flow) = socket.end_of() {
            return self.names.get(flow.0 as usize).cloned().unwrap_or_default();
        }
        let ours = || {
            control
                .own()
                .and_then(|spec| self.without_records.name(spec))
        };
        let kernels = control.own().and_then(kernels_own).or_else(ours);
        kernels.unwrap_or_else(|| control.name()).to_owned()
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
        let mut loaded = self.own.take();
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

/// Registers a control with `own` if it is not yet, or notes one of the kernel's in its place;
/// what went otherwise than it should goes to `notes`.
fn register(
    own: &mut OwnControls,
    wanted: &Wanted<'_>,
    notes: &mut Vec<String>,
) -> Result<(), LiveError> {
    let (owner, spec) = (&wanted.owner, wanted.spec);
    if own.name(spec).is_some() {
        return Ok(());
    }
    match own.register(spec) {
        Ok(loaded) if loaded.ecn() != OwnControls::wanted_ecn(spec) => {
            notes.push(format!(
                "{owner}: this kernel has no AccECN for congestion controls (Linux 6.18 \
                 has); marks come back as for DCTCP (RFC 8257)"
            ));
        }
        Ok(_) => {}
        Err(error) => {
            let kernels = kernels_own(spec).ok_or_else(|| wanted.refused(error))?;
            notes.push(format!(
                "{owner}: ran the kernel's own {kernels}, as none of ours can be loaded \
                 into the kernel here"
            ));
            own.stand_in(spec, kernels);
        }
    }
    Ok(())
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
