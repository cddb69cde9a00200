//! The L4S codepoint for packets of our sockets.

use std::fmt;

use crate::device::{Attached, FilterPriority};
use crate::error::BpfError;
use crate::libbpf;

/// Rewrites ECT(0) to ECT(1) on a device's egress, for sockets whose loaded
/// control wants it. Dropping it detaches it.
pub struct Ect1(Attached);

impl fmt::Debug for Ect1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ect1")
            .field("tcx", &self.is_tcx())
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
        let object = libbpf::open("ect1", bytes)?;
        let object = libbpf::load(object, "load the program that sends ECT(1)")?;
        let what = "the program that sends ECT(1)";
        Attached::new(object, ifindex, try_tcx, FilterPriority::Ect1, what).map(Self)
    }

    /// Whether it is attached by tcx.
    pub fn is_tcx(&self) -> bool {
        self.0.is_tcx()
    }
}
