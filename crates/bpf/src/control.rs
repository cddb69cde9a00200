//! A congestion control that is loaded into the kernel as a program.

use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, OnceLock};

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{FuncProto, Ptr, Struct};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, OpenObject, ReferencesType};
use narrows_cc::{ControlMode, ControlSpec, Controller};

use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::record::Record;
use crate::registration::Registration;
use crate::ring::{self, Ring};
use crate::transfer::Transfer;
use crate::{EcnFlags, Trace, TransferGoal};

/// Bytes of the ring buffer: about 15 ms of every hook at 1 Gbit/s and more
/// than a minute of one socket's samples.
const RING_FULL: u32 = 64 << 20;
const RING_STATE: u32 = 4 << 20;
/// What fails when it cannot be read.
const RING: &str = "read the ring buffer of a congestion control";
/// The least that a kernel takes: a page.
const RING_OFF: u32 = 4096;

/// Bytes of `icsk_ca_priv` (ICSK_CA_PRIV_SIZE, Linux v6.17); a larger state is in
/// socket storage.
const PRIV_SIZE: usize = 104;

/// Offsets in our `struct tcp_congestion_ops` (bpf/control.bpf.c).
const OPS_FLAGS: usize = 16;
const OPS_TX_START: usize = 104;

/// The objects by the names of their controls: made of the list of narrows-cc.
const OBJECTS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/controls.rs"));

/// # Errors
/// For a control that was built in natively alone.
fn object_of(spec: &ControlSpec) -> Result<&'static [u8], BpfError> {
    let found = OBJECTS.iter().find(|(name, _)| *name == spec.name());
    let (_, object) = found.ok_or(BpfError::NotBuilt("this control was not built for BPF"))?;
    Ok(object)
}

/// The layout of this kernel's `struct tcp_congestion_ops`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    /// `cong_control` receives the ACK and its flags (Linux 6.10).
    control_with_flag: bool,
    /// The first transmission has a hook of its own.
    tx_start: bool,
    /// Registrations are links (Linux 6.4).
    links: bool,
}

/// Looked up once: the types of a kernel are megabytes.
fn shape() -> Result<Shape, BpfError> {
    static SHAPE: OnceLock<Shape> = OnceLock::new();
    if let Some(shape) = SHAPE.get() {
        return Ok(*shape);
    }
    let shape = find_shape()?;
    Ok(*SHAPE.get_or_init(|| shape))
}

fn find_shape() -> Result<Shape, BpfError> {
    let no_btf = || BpfError::Kernel {
        what: "this kernel does not describe its types (/sys/kernel/btf/vmlinux is missing)"
            .to_owned(),
        hint: "a kernel with CONFIG_DEBUG_INFO_BTF=y is needed for Narrows' own congestion controls; the kernel's own ones work without",
    };
    libbpf::listen();
    shape_of(&Btf::from_vmlinux().map_err(|_| no_btf())?)
}

/// The layout in a kernel with these types.
fn shape_of(btf: &Btf<'_>) -> Result<Shape, BpfError> {
    let lacks = || BpfError::Kernel {
        what: "this kernel takes no congestion control as a program (BPF struct_ops)".to_owned(),
        hint: "Linux 5.6 or newer with CONFIG_BPF_JIT=y is needed for Narrows' own congestion controls; the kernel's own ones work without",
    };
    // What the kernel registers them by (net/ipv4/bpf_tcp_ca.c).
    btf.type_by_name::<Struct<'_>>("bpf_struct_ops_tcp_congestion_ops")
        .ok_or_else(lacks)?;
    let ops: Struct<'_> = btf.type_by_name("tcp_congestion_ops").ok_or_else(lacks)?;
    let member = |name: &str| ops.iter().find(|m| m.name.is_some_and(|n| n == name));
    let arguments = member("cong_control")
        .and_then(|m| btf.type_by_id::<Ptr<'_>>(m.ty))
        .and_then(|p| btf.type_by_id::<FuncProto<'_>>(p.referenced_type().type_id()))
        .map(|f| f.iter().len());
    let links = btf
        .type_by_name::<Struct<'_>>("bpf_struct_ops_link")
        .is_some();
    Ok(Shape {
        control_with_flag: arguments == Some(4),
        tx_start: member("cwnd_event_tx_start").is_some(),
        links,
    })
}

/// Loads `spec` as a program and registers it as `name`; see
/// [`ControlLoader::load`](crate::ControlLoader::load).
///
/// # Errors
/// If the name is taken, the kernel has no BTF, lacks what the program uses, or the
/// caller is not root.
pub(crate) fn load_program(
    spec: &ControlSpec,
    name: &str,
    ecn: EcnFlags,
    trace: Trace,
) -> Result<LoadedProgram, BpfError> {
    let shape = shape()?;
    let first = try_load(spec, name, ecn, trace, shape);
    if ecn == EcnFlags::AccEcn && first.is_err() {
        // A kernel before 6.18 refuses the flag.
        if let Ok(loaded) = try_load(spec, name, EcnFlags::Classic, trace, shape) {
            return Ok(loaded);
        }
    }
    first
}

fn try_load(
    spec: &ControlSpec,
    name: &str,
    ecn: EcnFlags,
    trace: Trace,
    shape: Shape,
) -> Result<LoadedProgram, BpfError> {
    let mut object = libbpf::open(spec.name(), object_of(spec)?)?;
    let window = Controller::new(spec).mode() == ControlMode::Window;
    let ops = if window || shape.control_with_flag {
        "nw_ops"
    } else {
        "nw_ops_rs"
    };
    prepare(&mut object, spec, name, ecn, trace, shape, ops)
        .map_err(|e| refused("set up a congestion control", &e))?;
    let what = format!("load the congestion control `{spec}` into the kernel");
    let mut object = libbpf::load(object, &what)?;
    let mut link = None;
    for mut map in object.maps_mut() {
        if map.name() == ops {
            let what = format!("register the congestion control `{name}`");
            link = Some(map.attach_struct_ops().map_err(|e| refused(what, &e))?);
        }
    }
    let ring = match trace {
        Trace::Off => None,
        Trace::State | Trace::Full => Some(Ring::of(&object, "nw_records", RING)?),
    };
    Ok(LoadedProgram {
        link,
        ring,
        object,
        name: name.to_owned(),
        ecn,
    })
}

/// Writes parameters, name and flags into the object, and leaves out what this
/// kernel does not know.
fn prepare(
    object: &mut OpenObject,
    spec: &ControlSpec,
    name: &str,
    ecn: EcnFlags,
    trace: Trace,
    shape: Shape,
    ops: &str,
) -> libbpf_rs::Result<()> {
    let registration = Registration::of(spec, ecn, trace);
    let mut config = Vec::new();
    for word in registration.settings {
        config.extend_from_slice(&word.to_ne_bytes());
    }
    config.extend_from_slice(&spec.parameter_block());
    for mut map in object.maps_mut() {
        let is = map.name().to_string_lossy().into_owned();
        match is.as_str() {
            ".rodata.nw" => {
                if let Some(value) = map.initial_value_mut() {
                    value[..config.len()].copy_from_slice(&config);
                }
            }
            "nw_records" => map.set_max_entries(match trace {
                Trace::Off => RING_OFF,
                Trace::State => RING_STATE,
                Trace::Full => RING_FULL,
            })?,
            // Declared always, as C cannot ask for the size before it compiles.
            "nw_states" if spec.state_size() <= PRIV_SIZE => map.set_autocreate(false)?,
            "nw_ops" | "nw_ops_rs" if is != ops => map.set_autocreate(false)?,
            "nw_ops" | "nw_ops_rs" => {
                if let Some(value) = map.initial_value_mut() {
                    value[..OPS_FLAGS].fill(0);
                    value[..name.len()].copy_from_slice(name.as_bytes());
                    value[OPS_FLAGS..][..4].copy_from_slice(&registration.flags.to_ne_bytes());
                    if !shape.tx_start {
                        value[OPS_TX_START..][..size_of::<usize>()].fill(0);
                    }
                }
                if !shape.links {
                    map.set_map_flags(0)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// A registered congestion control. Dropping it takes the registration back;
/// sockets that use it keep it until they close.
pub(crate) struct LoadedProgram {
    // Declared in the order in which they are to go.
    link: Option<Link>,
    ring: Option<Ring>,
    object: Object,
    name: String,
    ecn: EcnFlags,
}

impl fmt::Debug for LoadedProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadedProgram")
            .field("name", &self.name)
            .field("ecn", &self.ecn)
            .field("registered", &self.link.is_some())
            .finish_non_exhaustive()
    }
}

impl LoadedProgram {
    /// What the kernel accepted: [`EcnFlags::Classic`] where Accurate ECN was
    /// asked of a kernel without it.
    pub(crate) fn ecn(&self) -> EcnFlags {
        self.ecn
    }

    /// The parameters of sockets.
    ///
    /// # Errors
    /// If the kernel gives no hold of its map.
    pub(crate) fn parameters(&self) -> Result<ProgramParameters, BpfError> {
        let mut maps = self.object.maps();
        let map = maps.find(|map| map.name() == "nw_options");
        let map = map.expect("every control's object has this map");
        let held = MapHandle::try_from(&map);
        let held = held.map_err(|e| refused("hold a map of options", &e))?;
        Ok(ProgramParameters(Arc::new(held)))
    }

    /// See [`Loaded::attach_transfer`](crate::Loaded::attach_transfer).
    ///
    /// # Errors
    /// As there.
    pub(crate) fn attach_transfer(
        &self,
        spec: &ControlSpec,
        cgroup: BorrowedFd<'_>,
        goal: &TransferGoal,
    ) -> Result<Transfer, BpfError> {
        Transfer::attach(&self.object, spec, &self.name, cgroup, goal)
    }

    /// Hands over what came through the ring buffer since the last call, in
    /// order, and answers how many records that were. Does not wait.
    ///
    /// # Errors
    /// If the ring buffer cannot be read or holds what is no record.
    pub(crate) fn poll(&mut self, each: impl FnMut(Record)) -> Result<usize, BpfError> {
        match &self.ring {
            Some(ring) => ring.poll(Record::from_bytes, each),
            None => Ok(0),
        }
    }

    /// How many records were lost because the ring buffer was full.
    ///
    /// # Errors
    /// If the counter cannot be read.
    pub(crate) fn dropped(&self) -> Result<u64, BpfError> {
        let what = "read the counters of a congestion control";
        ring::counter(&self.object, "nw_counters", what)
    }
}

/// Parameter blocks of sockets that use a control, by socket.
#[derive(Clone, Debug)]
pub(crate) struct ProgramParameters(Arc<MapHandle>);

impl ProgramParameters {
    /// Sets those of `socket`.
    ///
    /// # Errors
    /// If the kernel refuses, as for what is no socket.
    pub(crate) fn write(&self, socket: BorrowedFd<'_>, block: &[u8]) -> Result<(), BpfError> {
        let key = socket.as_raw_fd().to_ne_bytes();
        let written = self.0.update(&key, block, MapFlags::ANY);
        written.map_err(|e| refused("set the options of a socket", &e))
    }

    /// Those of `socket`, if it has some of its own.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(crate) fn read(&self, socket: BorrowedFd<'_>) -> Result<Option<Vec<u8>>, BpfError> {
        let key = socket.as_raw_fd().to_ne_bytes();
        let own = self.0.lookup(&key, MapFlags::ANY);
        own.map_err(|e| refused("read the options of a socket", &e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types of a kernel: structures of these names without members
    /// (Documentation/bpf/btf.rst).
    fn types(names: &[&str]) -> Btf<'static> {
        let (mut types, mut strings) = (Vec::new(), vec![0]);
        for name in names {
            let kind: u32 = 4 << 24;
            for word in [strings.len() as u32, kind, 0] {
                types.extend_from_slice(&word.to_ne_bytes());
            }
            strings.extend_from_slice(name.as_bytes());
            strings.push(0);
        }
        let mut blob = Vec::new();
        blob.extend_from_slice(&0xeb9f_u16.to_ne_bytes());
        blob.extend_from_slice(&[1, 0]);
        let (of_types, of_strings) = (types.len() as u32, strings.len() as u32);
        for word in [24, 0, of_types, of_types, of_strings] {
            blob.extend_from_slice(&word.to_ne_bytes());
        }
        blob.extend_from_slice(&types);
        blob.extend_from_slice(&strings);
        let name = format!("narrows-types-{}-{}", std::process::id(), names.len());
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, blob).expect("a file");
        let types = Btf::from_path(&file).expect("types");
        std::fs::remove_file(&file).expect("it is there");
        types
    }

    #[test]
    fn a_kernel_without_struct_ops_is_told_from_one_with() {
        let without = shape_of(&types(&["tcp_congestion_ops"]));
        let said = without.expect_err("it has none").to_string();
        assert!(said.contains("struct_ops") && said.contains("CONFIG_BPF_JIT"));
        let registers = "bpf_struct_ops_tcp_congestion_ops";
        let shape = shape_of(&types(&["tcp_congestion_ops", registers])).expect("it has some");
        assert!(!shape.control_with_flag && !shape.tx_start && !shape.links);
        let newer = types(&["tcp_congestion_ops", registers, "bpf_struct_ops_link"]);
        assert!(shape_of(&newer).expect("it has some").links);
    }
}
