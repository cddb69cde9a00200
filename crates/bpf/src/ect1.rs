//! The L4S codepoint for packets of our sockets.

use std::fmt;
use std::os::fd::AsFd;

use libbpf_rs::{Link, Object, TC_EGRESS, TcHook, TcHookBuilder};

use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::tcx;

/// Rewrites ECT(0) to ECT(1) on a device's egress, for sockets whose loaded
/// control wants it. Dropping it detaches it.
pub struct Ect1 {
    tcx: Option<Link>,
    clsact: Option<TcHook>,
    _object: Object,
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
                let mut hook = TcHookBuilder::new(program.as_fd())
                    .ifindex(index)
                    .replace(true)
                    .handle(1)
                    .priority(1)
                    .hook(TC_EGRESS);
                hook.create().map_err(|e| refused(&*what, &e))?;
                clsact = Some(hook.attach().map_err(|e| refused(&*what, &e))?);
            }
        }
        Ok(Self {
            tcx,
            clsact,
            _object: object,
        })
    }

    /// Whether it is attached by tcx.
    pub fn is_tcx(&self) -> bool {
        self.tcx.is_some()
    }
}

impl Drop for Ect1 {
    fn drop(&mut self) {
        if let Some(hook) = &mut self.clsact {
            // Another namespace's or a vanished device has no filter to remove.
            if let Err(e) = hook.detach() {
                tracing::debug!("clsact: {e}");
            }
        }
    }
}
