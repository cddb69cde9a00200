//! The L4S codepoint for packets of our sockets.

use std::fmt;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use libbpf_rs::{Link, Object, TC_EGRESS, TcHook, TcHookBuilder};
use nix::sched::{CloneFlags, setns};

use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::tcx;

/// Rewrites ECT(0) to ECT(1) on a device's egress, for sockets whose loaded
/// control wants it. Dropping it detaches it.
pub struct Ect1 {
    tcx: Option<Link>,
    clsact: Option<Clsact>,
    object: Object,
}

/// Where a filter was put, and is to be taken from again.
struct Clsact {
    namespace: File,
    ifindex: i32,
}

impl fmt::Debug for Ect1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ect1")
            .field("tcx", &self.tcx.is_some())
            .finish_non_exhaustive()
    }
}

impl Ect1 {
    /// Attaches to device `ifindex` of the *calling thread's* network
    /// namespace: by tcx, or by clsact where the kernel has no tcx. The device
    /// may have an Ethernet header or none.
    ///
    /// # Errors
    /// If the device does not exist, the kernel has neither, or the caller is
    /// not root.
    pub fn attach(ifindex: u32) -> Result<Self, BpfError> {
        Self::attach_by(ifindex, true)
    }

    /// The same, by clsact only.
    ///
    /// # Errors
    /// As [`Ect1::attach`].
    pub fn attach_clsact(ifindex: u32) -> Result<Self, BpfError> {
        Self::attach_by(ifindex, false)
    }

    fn attach_by(ifindex: u32, try_tcx: bool) -> Result<Self, BpfError> {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/ect1.bpf.o"));
        let object = libbpf::open(bytes)?;
        let object = libbpf::load(object, "load the program that sends ECT(1)")?;
        let index = i32::try_from(ifindex).unwrap_or(i32::MAX);
        let what = format!("attach the program that sends ECT(1) to device {ifindex}");
        let (mut tcx, mut clsact) = (None, None);
        for program in object.progs_mut() {
            if try_tcx {
                tcx = tcx::attach_egress(&program, index);
            }
            if tcx.is_none() {
                let namespace = File::open("/proc/thread-self/ns/net").map_err(BpfError::Io)?;
                let mut hook = hook(program.as_fd(), index);
                hook.create().map_err(|e| refused(&*what, &e))?;
                hook.attach().map_err(|e| refused(&*what, &e))?;
                clsact = Some(Clsact {
                    namespace,
                    ifindex: index,
                });
            }
        }
        Ok(Self {
            tcx,
            clsact,
            object,
        })
    }

    /// Whether it is attached by tcx.
    pub fn is_tcx(&self) -> bool {
        self.tcx.is_some()
    }
}

/// The place of the program among a device's filters.
fn hook(program: BorrowedFd<'_>, ifindex: i32) -> TcHook {
    TcHookBuilder::new(program)
        .ifindex(ifindex)
        .replace(true)
        .handle(1)
        .priority(1)
        .hook(TC_EGRESS)
}

impl Drop for Ect1 {
    fn drop(&mut self) {
        let Some(place) = &self.clsact else {
            return;
        };
        let object = &self.object;
        // A device's index means something in its own namespace only.
        let detach = || {
            if setns(&place.namespace, CloneFlags::CLONE_NEWNET).is_err() {
                return;
            }
            for program in object.progs_mut() {
                // A vanished device has no filter to remove.
                if let Err(e) = hook(program.as_fd(), place.ifindex).detach() {
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
