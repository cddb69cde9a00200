//! Packets of a host with the times that its TCP gave them.

use std::fmt;

use libbpf_rs::{Link, Object};

use crate::error::BpfError;
use crate::libbpf;
use crate::ring::{self, Ring};
use crate::tcx;

const WHAT: &str = "read the ring buffer of a tap";

/// Reports every packet of a device. Dropping it detaches it.
pub struct Tap {
    // Declared in the order in which they are to go.
    _links: Vec<Link>,
    ring: Ring,
    object: Object,
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap").finish_non_exhaustive()
    }
}

impl Tap {
    /// Attaches by tcx to device `ifindex` of the *calling thread's* network
    /// namespace, which has no header below IP's (TUN).
    ///
    /// # Errors
    /// If the device does not exist, the kernel has no tcx (before 6.6), or
    /// the caller is not root.
    pub fn attach(ifindex: u32) -> Result<Self, BpfError> {
        let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/tap.bpf.o"));
        let object = libbpf::load(
            libbpf::open("tap", bytes)?,
            "load the program that taps packets",
        )?;
        let index = i32::try_from(ifindex).unwrap_or(i32::MAX);
        let mut links = Vec::new();
        for program in object.progs_mut() {
            links.push(
                tcx::attach(&program, index).ok_or_else(|| BpfError::Kernel {
                    what: format!("no tap can be put on device {ifindex}"),
                    hint: "a kernel with tcx (Linux 6.6) is needed, and root",
                })?,
            );
        }
        let ring = Ring::of(&object, "nw_packets", WHAT)?;
        Ok(Self {
            _links: links,
            ring,
            object,
        })
    }

    /// Hands over the packets that passed since the last call, in order, each the bytes
    /// of a `struct nw_packet` of bpf/tap.bpf.c. Does not wait.
    ///
    /// # Errors
    /// If the ring buffer cannot be read.
    pub fn poll(&mut self, each: impl FnMut(Vec<u8>)) -> Result<usize, BpfError> {
        self.ring.poll(|bytes| Ok(bytes.to_vec()), each)
    }

    /// How many packets were not reported because the ring buffer was full.
    ///
    /// # Errors
    /// If the counter cannot be read.
    pub fn dropped(&self) -> Result<u64, BpfError> {
        ring::counter(&self.object, "nw_dropped", "read the counter of a tap")
    }
}
