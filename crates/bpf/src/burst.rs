//! The longest bursts that TCP hands to devices.

use std::fmt;

use libbpf_rs::{Link, MapCore, MapFlags, Object};

use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::tcx;

/// Counts, for each local TCP port, the segments of the longest burst that was
/// handed to one of the devices that it is attached to: what the kernel cuts
/// into packets only below. Dropping it detaches it from all of them.
pub struct Bursts {
    // Declared in the order in which they are to go.
    links: Vec<Link>,
    object: Object,
}

impl fmt::Debug for Bursts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bursts")
            .field("devices", &self.links.len())
            .finish_non_exhaustive()
    }
}

impl Bursts {
    /// Loads it; it is attached nowhere yet.
    ///
    /// # Errors
    /// If the kernel refuses, or the caller is not root.
    pub fn load() -> Result<Self, BpfError> {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/burst.bpf.o"));
        let object = libbpf::load(
            libbpf::open("burst", bytes)?,
            "load the program that counts bursts",
        )?;
        Ok(Self {
            links: Vec::new(),
            object,
        })
    }

    /// Attaches it by tcx to device `ifindex` of the *calling thread's* network
    /// namespace, which has no header below IP's (TUN).
    ///
    /// # Errors
    /// If the device does not exist, or the kernel has no tcx (before 6.6).
    pub fn attach(&mut self, ifindex: u32) -> Result<(), BpfError> {
        let index = i32::try_from(ifindex).unwrap_or(i32::MAX);
        for program in self.object.progs_mut() {
            let link = tcx::attach(&program, index).ok_or_else(|| BpfError::Kernel {
                what: format!("bursts cannot be counted at device {ifindex}"),
                hint: "a kernel with tcx (Linux 6.6) is needed, and root",
            })?;
            self.links.push(link);
        }
        Ok(())
    }

    /// Segments in the longest burst that left `port` so far; 0 before the
    /// first packet.
    ///
    /// # Errors
    /// If the kernel does not answer.
    pub fn longest(&self, port: u16) -> Result<u32, BpfError> {
        let what = "read how long bursts were";
        let map = self.object.maps().find(|m| m.name() == "nw_bursts");
        let value = map
            .map(|m| m.lookup(&u32::from(port).to_ne_bytes(), MapFlags::ANY))
            .transpose()
            .map_err(|e| refused(what, &e))?
            .flatten();
        let word = value.and_then(|v| v.first_chunk::<4>().copied());
        Ok(word.map_or(0, u32::from_ne_bytes))
    }
}
