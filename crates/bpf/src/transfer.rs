//! A transfer by a deadline over the connections of a control group.

use std::fmt;
use std::io::Read;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use libbpf_rs::{Iter, Link, MapCore, MapFlags, MapHandle, Object, OpenObject};
use narrows_cc::ControlSpec;
use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::{TransferGoal, TransferTally};

/// Bytes of the control's name in `struct nw_transfer_settings`.
const NAME: usize = 16;
const PASS: &str = "nw_transfer_pass";
const FIRST: [u8; 4] = [0; 4];

/// `struct nw_goal` of bpf/transfer.h.
#[repr(C)]
#[derive(IntoBytes, Immutable)]
struct Goal {
    deadline_ns: u64,
    size: u64,
    recent: u64,
    senders: u32,
    first_weight: u32,
}

/// `struct nw_tally`.
#[repr(C)]
#[derive(Clone, Copy, Default, FromBytes, Immutable)]
struct Tally {
    acked: u64,
    received: u64,
    opened: u64,
    closed: u64,
    refused: u64,
    connections: u64,
    senders: u64,
    recent: u64,
    weighed: u64,
    short_of: u64,
    limited: u64,
    plain: u64,
}

/// `struct nw_member`.
#[repr(C)]
#[derive(Default, IntoBytes, Immutable)]
struct Member {
    acked: u64,
    received: u64,
    recent: u64,
    own_size: u64,
    own_deadline_ns: u64,
}

/// Makes DA-LBE flows of the TCP connections that programs of a control group open, and
/// shares what remains among them. Dropping it, or the end of the process, takes it off:
/// connections that are open keep the control and their share.
pub struct Transfer {
    // Declared in the order in which they are to go.
    links: Vec<Link>,
    pass: Link,
    goal: MapHandle,
    tally: MapHandle,
    members: MapHandle,
    options: MapHandle,
    spec: ControlSpec,
    /// Of the last pass.
    recent: u64,
    senders: u32,
    _object: Object,
}

impl fmt::Debug for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transfer")
            .field("control", &self.spec)
            .field("programs", &self.links.len())
            .finish_non_exhaustive()
    }
}

impl Transfer {
    /// Attaches the programs to `cgroup`, a folder of the second hierarchy; `control` is
    /// the object of the loaded control `spec`, registered as `name`.
    pub(crate) fn attach(
        control: &Object,
        spec: &ControlSpec,
        name: &str,
        cgroup: BorrowedFd<'_>,
        goal: &TransferGoal,
    ) -> Result<Self, BpfError> {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/transfer.bpf.o"));
        let mut object = libbpf::open("transfer", bytes)?;
        prepare(&mut object, control, spec, name).map_err(|e| refused("set up a transfer", &e))?;
        let object = libbpf::load(object, "load the programs of a transfer by a deadline")?;
        let held = |name: &str| {
            let map = object.maps().find(|m| m.name() == name);
            let map = map.expect("the object has this map");
            MapHandle::try_from(&map).map_err(|e| refused("hold a map of a transfer", &e))
        };
        let (goals, tally) = (held("nw_goal")?, held("nw_tally")?);
        let (members, options) = (held("nw_members")?, held("nw_options")?);
        write(&goals, goal, 0, 0)?;
        let (mut links, mut pass) = (Vec::new(), None);
        for program in object.progs_mut() {
            if program.name() == PASS {
                let attached = program.attach_iter(members.as_fd());
                pass = Some(attached.map_err(|e| refused("attach a pass over connections", &e))?);
            } else {
                let attached = program.attach_cgroup(cgroup.as_raw_fd());
                let what = "attach a transfer to a control group";
                links.push(attached.map_err(|e| refused(what, &e))?);
            }
        }
        Ok(Self {
            links,
            pass: pass.expect("the object has this program"),
            goal: goals,
            tally,
            members,
            options,
            spec: spec.clone(),
            recent: 0,
            senders: 0,
            _object: object,
        })
    }

    /// Shares what remains of `goal` anew among the connections, and answers what they
    /// have done. To be called four times a second.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn pass(&mut self, goal: &TransferGoal) -> Result<TransferTally, BpfError> {
        let what = "share a transfer among connections";
        write(&self.goal, goal, self.recent, self.senders)?;
        let before = self.read()?;
        let mut pass = Iter::new(&self.pass).map_err(|e| refused(what, &e))?;
        // The kernel's program writes nothing; reading runs it over all connections.
        pass.read_to_end(&mut Vec::new())?;
        let now = self.read()?;
        let senders = now.senders - before.senders;
        self.recent = now.recent.wrapping_sub(before.recent);
        self.senders = u32::try_from(senders).unwrap_or(u32::MAX);
        let weighed = (now.weighed - before.weighed) as f64 / f64::from(1 << 16);
        Ok(TransferTally {
            acked: now.acked,
            received: now.received,
            opened: now.opened,
            closed: now.closed,
            refused: now.refused,
            connections: now.connections - before.connections,
            senders,
            weight: (self.recent > 0).then(|| weighed / self.recent as f64),
            short_of: now.short_of - before.short_of,
            limited: now.limited - before.limited,
            plain: now.plain - before.plain,
        })
    }

    /// Makes an established connection part of it, which has sent and received so many
    /// bytes already: those are not counted. It becomes a DA-LBE flow once its socket is
    /// given the control, `setsockopt(TCP_CONGESTION)`.
    ///
    /// # Errors
    /// If the kernel refuses, as for what is no socket.
    pub fn adopt(
        &self,
        socket: BorrowedFd<'_>,
        goal: &TransferGoal,
        acked: u64,
        received: u64,
    ) -> Result<(), BpfError> {
        let mut spec = self.spec.clone();
        spec.set_option("first_weight", goal.first_weight.into())?;
        let key = socket.as_raw_fd().to_ne_bytes();
        let member = Member {
            acked,
            received,
            ..Member::default()
        };
        let options = self
            .options
            .update(&key, &spec.parameter_block(), MapFlags::ANY);
        options
            .and_then(|()| self.members.update(&key, member.as_bytes(), MapFlags::ANY))
            .map_err(|e| refused("take over a connection", &e))
    }

    fn read(&self) -> Result<Tally, BpfError> {
        let what = "read what a transfer has done";
        let value = self.tally.lookup(&FIRST, MapFlags::ANY);
        let value = value.map_err(|e| refused(what, &e))?;
        let tally = value.and_then(|v| Some(Tally::read_from_prefix(&v).ok()?.0));
        tally.ok_or_else(|| BpfError::Refused {
            what: what.to_owned(),
            why: "the map has no such entry".to_owned(),
        })
    }
}

fn write(map: &MapHandle, goal: &TransferGoal, recent: u64, senders: u32) -> Result<(), BpfError> {
    let goal = Goal {
        deadline_ns: goal.deadline_ns,
        size: goal.size.unwrap_or(0),
        recent,
        senders,
        first_weight: goal.first_weight,
    };
    let written = map.update(&FIRST, goal.as_bytes(), MapFlags::ANY);
    written.map_err(|e| refused("set the goal of a transfer", &e))
}

/// Has the programs use the control's own maps, and writes them its name and parameters.
fn prepare(
    object: &mut OpenObject,
    control: &Object,
    spec: &ControlSpec,
    name: &str,
) -> libbpf_rs::Result<()> {
    let mut settings = [0; NAME].to_vec();
    settings[..name.len()].copy_from_slice(name.as_bytes());
    settings.extend_from_slice(&spec.parameter_block());
    for mut map in object.maps_mut() {
        let is = map.name().to_string_lossy().into_owned();
        match is.as_str() {
            ".rodata.nw" => {
                if let Some(value) = map.initial_value_mut() {
                    value[..settings.len()].copy_from_slice(&settings);
                }
            }
            "nw_options" | "nw_states" => {
                if let Some(shared) = control.maps().find(|m| m.name() == is.as_str()) {
                    map.reuse_fd(shared.as_fd())?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}
