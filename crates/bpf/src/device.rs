//! Programs at a device: by tcx, or by clsact where the kernel has no tcx.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use libbpf_rs::{Link, Object, TC_EGRESS, TC_INGRESS, TcHook, TcHookBuilder};
use nix::sched::{CloneFlags, setns};

use crate::SIGNAL_PRIORITY;
use crate::error::BpfError;
use crate::libbpf::refused;
use crate::tcx;

/// The priority of our filters among a device's clsact filters; tcx has an order of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FilterPriority {
    /// ECT(1).
    Ect1 = 1,
    /// Measurement signals.
    Signals = SIGNAL_PRIORITY as isize,
}

/// All programs of an object, attached. Dropping it detaches them.
pub(crate) struct Attached {
    // Declared in the order in which they are to go.
    links: Vec<Link>,
    clsact: Option<Clsact>,
    object: Object,
}

/// Where filters were put, and are to be taken from again.
struct Clsact {
    namespace: File,
    ifindex: i32,
    priority: FilterPriority,
}

impl Attached {
    /// Attaches the programs of `object` to device `ifindex` of the calling
    /// thread's network namespace, each to the side that its section names.
    /// `what` names them.
    pub(crate) fn new(
        object: Object,
        ifindex: u32,
        try_tcx: bool,
        priority: FilterPriority,
        what: &str,
    ) -> Result<Self, BpfError> {
        let index = i32::try_from(ifindex).unwrap_or(i32::MAX);
        let what = format!("attach {what} to device {ifindex}");
        let mut attached = Self {
            links: Vec::new(),
            clsact: None,
            object,
        };
        if try_tcx {
            for program in attached.object.progs_mut() {
                attached.links.extend(tcx::attach(&program, index));
            }
            if attached.links.len() == attached.object.progs().count() {
                return Ok(attached);
            }
            attached.links.clear();
        }
        let namespace = File::open("/proc/thread-self/ns/net").map_err(BpfError::Io)?;
        attached.clsact = Some(Clsact {
            namespace,
            ifindex: index,
            priority,
        });
        for program in attached.object.progs_mut() {
            let ingress = program.section() == "tcx/ingress";
            let mut hook = hook(program.as_fd(), index, priority, ingress);
            hook.create().map_err(|e| refused(&*what, &e))?;
            hook.attach().map_err(|e| refused(&*what, &e))?;
        }
        Ok(attached)
    }

    /// Whether they are attached by tcx.
    pub(crate) fn is_tcx(&self) -> bool {
        self.clsact.is_none()
    }

    /// What they are programs and maps of.
    pub(crate) fn object(&self) -> &Object {
        &self.object
    }
}

fn hook(program: BorrowedFd<'_>, ifindex: i32, priority: FilterPriority, ingress: bool) -> TcHook {
    TcHookBuilder::new(program)
        .ifindex(ifindex)
        .replace(true)
        .handle(priority as u32)
        .priority(priority as u32)
        .hook(if ingress { TC_INGRESS } else { TC_EGRESS })
}

impl Drop for Attached {
    fn drop(&mut self) {
        let Some(at) = &self.clsact else {
            return;
        };
        let object = &self.object;
        // A device's index means something in its own namespace only.
        let detach = || {
            if setns(&at.namespace, CloneFlags::CLONE_NEWNET).is_err() {
                return;
            }
            for program in object.progs_mut() {
                let ingress = program.section() == "tcx/ingress";
                // A vanished device has no filter to remove.
                let hook = hook(program.as_fd(), at.ifindex, at.priority, ingress);
                if let Err(e) = { hook }.detach() {
                    tracing::debug!("clsact: {e}");
                }
            }
        };
        thread::scope(|scope| {
            if scope.spawn(detach).join().is_err() {
                tracing::debug!("clsact: the thread that detaches died");
            }
        });
    }
}
