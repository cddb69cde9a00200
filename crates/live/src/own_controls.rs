//! Narrows' own congestion controls in the kernel, under names of this process.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::os::fd::AsFd;

use narrows_bpf::{BpfError, ControlLoader, EcnFlags, Loaded, SocketOptions, Trace};
use narrows_cc::ControlSpec;
use narrows_linux::tcp_options::control_of;

/// Congestion controls that are registered, each once. Dropping it takes the registrations
/// back; sockets that have one keep it until they close.
pub struct OwnControls {
    /// What their names begin with.
    id: String,
    trace: Trace,
    loaded: Vec<Loaded>,
    /// The kernel's names, by the words of the control.
    names: BTreeMap<String, String>,
}

impl OwnControls {
    /// None yet. Their names begin with `id`, of eight characters at most and unlike that
    /// of others; what hooks do is recorded as `trace` says.
    pub fn new(id: impl Display, trace: Trace) -> Self {
        Self {
            id: id.to_string(),
            trace,
            loaded: Vec::new(),
            names: BTreeMap::new(),
        }
    }

    /// What the handshake of connections with `spec` is to ask for.
    pub fn wanted_ecn(spec: &ControlSpec) -> EcnFlags {
        let needs = spec.needs();
        match (needs.accecn, needs.ecn) {
            (true, _) => EcnFlags::AccEcn,
            (false, true) => EcnFlags::Classic,
            (false, false) => EcnFlags::None,
        }
    }

    /// The kernel's name of `spec`, or of what runs in its place; `None` if it was not registered.
    pub fn name(&self, spec: &ControlSpec) -> Option<&str> {
        self.names.get(&spec.to_string()).map(String::as_str)
    }

    /// Registers `spec`, which is not yet.
    ///
    /// # Errors
    /// If the kernel refuses, or this build or user cannot load BPF.
    pub fn register(&mut self, spec: &ControlSpec) -> Result<&Loaded, BpfError> {
        // `nw7k2qa_prague`, `nw7k2qa_prague1`: at most 15 characters, of which the kernel
        // takes no hyphen (bpf_obj_name_cpy).
        let number = match self.loaded.len() {
            0 => String::new(),
            n => n.to_string(),
        };
        let mut name = format!("{}_{}", self.id, spec.name());
        name.truncate(narrows_bpf::NAME_MAX - number.len());
        name += &number;
        let loaded = ControlLoader::load(spec, &name, Self::wanted_ecn(spec), self.trace)?;
        self.names.insert(spec.to_string(), name);
        self.loaded.push(loaded);
        Ok(self.loaded.last().expect("it was pushed"))
    }

    /// Takes the kernel's own `control` in the place of `spec`.
    pub fn stand_in(&mut self, spec: &ControlSpec, control: &str) {
        self.names.insert(spec.to_string(), control.to_owned());
    }

    /// Whether packets of `spec` are to be given ECT(1) where they leave: a kernel that was
    /// built with it sends them so.
    pub fn needs_ect1(&self, spec: &ControlSpec) -> bool {
        let name = self.name(spec);
        let itself = |loaded: &Loaded| Some(loaded.name()) == name && loaded.sends_ect1();
        spec.needs().ect1 && !self.loaded.iter().any(itself)
    }

    /// What sets options of sockets that use the controls.
    ///
    /// # Errors
    /// If the kernel gives no hold of one.
    pub fn options(&self) -> Result<Vec<SocketOptions>, BpfError> {
        self.loaded.iter().map(Loaded::socket_options).collect()
    }

    /// The registrations, to be kept elsewhere from now on. Names stay known.
    pub fn take(&mut self) -> Vec<Loaded> {
        std::mem::take(&mut self.loaded)
    }
}

/// What sets options of `socket`, if its control is of `all`.
pub fn options_of<'a>(all: &'a [SocketOptions], socket: &impl AsFd) -> Option<&'a SocketOptions> {
    let control = control_of(socket);
    all.iter().find(|options| options.control() == control)
}
