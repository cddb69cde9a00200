//! The marking programs without a device: packets go through them by the
//! kernel's own test runs (`BPF_PROG_TEST_RUN`).

use std::fmt;

use libbpf_rs::{MapCore, MapFlags, Object, ProgramInput};
use narrows_efm::SignalSpec;

use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::signal_program::{ETHERNET, counters, load};
use crate::{SignalCounters, SignalOptions};

use super::{SignalCost, SignalRun};

/// Bytes of `struct __sk_buff` up to the field behind `tstamp`, and where that
/// stands (include/uapi/linux/bpf.h).
const SKB: usize = 160;
const TSTAMP: usize = 152;

const RUNNING: &str = "test the programs that mark packets";

/// The marking programs as they are at an Ethernet device, with a table of
/// connections of their own. Threads may run them at the same time, as CPUs do.
pub struct SignalRuns {
    object: Object,
}

impl fmt::Debug for SignalRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignalRuns").finish_non_exhaustive()
    }
}

impl SignalRuns {
    /// Loads them.
    ///
    /// # Errors
    /// If the kernel refuses, or the caller is not root.
    pub fn load(spec: &SignalSpec, options: &SignalOptions) -> Result<Self, BpfError> {
        let object = load(spec, ETHERNET, options)?;
        Ok(Self { object })
    }

    /// An Ethernet frame leaves, `repeat` times; the frame keeps what is written
    /// into it.
    ///
    /// # Errors
    /// If the kernel refuses, as it does a frame of less than 14 bytes.
    pub fn leave(&self, frame: &[u8], repeat: u32) -> Result<SignalRun, BpfError> {
        run(&self.object, "nw_mark_out", frame, repeat, None)
    }

    /// The same for a packet of this host's TCP, which says when it is to leave:
    /// `at_ns` of `CLOCK_MONOTONIC`.
    ///
    /// # Errors
    /// As [`leave`](Self::leave).
    pub fn leave_at(&self, frame: &[u8], repeat: u32, at_ns: u64) -> Result<SignalRun, BpfError> {
        run(&self.object, "nw_mark_out", frame, repeat, Some(at_ns))
    }

    /// The same for one that arrives.
    ///
    /// # Errors
    /// As [`leave`](Self::leave).
    pub fn arrive(&self, frame: &[u8], repeat: u32) -> Result<SignalRun, BpfError> {
        run(&self.object, "nw_mark_in", frame, repeat, None)
    }

    /// What they have done so far.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn counters(&self) -> Result<SignalCounters, BpfError> {
        Ok(counters(&self.object)?.0)
    }
}

/// Measures what a run of the marking programs is made of, part by part, with
/// `frame`: an Ethernet frame with a TCP segment in IPv4 without options.
///
/// # Errors
/// If the kernel refuses, or the caller is not root.
pub fn signal_cost(frame: &[u8], repeat: u32) -> Result<SignalCost, BpfError> {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/signal_cost.bpf.o"));
    let object = libbpf::load(
        libbpf::open("signal_cost", bytes)?,
        "load the parts of marking",
    )?;
    for map in object.maps().filter(|m| m.name() == "nw_hashed") {
        let key = vec![0; map.key_size() as usize];
        let value = vec![0; map.value_size() as usize];
        map.update(&key, &value, MapFlags::ANY)
            .map_err(|e| refused(RUNNING, &e))?;
    }
    let part = |name: &str| Ok::<_, BpfError>(run(&object, name, frame, repeat, None)?.ns);
    Ok(SignalCost {
        empty_ns: part("nw_empty")?,
        read_ns: part("nw_reading")?,
        lookup_ns: part("nw_lookup")?,
        lookup_hashed_ns: part("nw_lookup_hashed")?,
        clock_ns: part("nw_clock_read")?,
        change_ns: part("nw_change")?,
    })
}

/// Runs the program `name`; for a packet that is to leave at `at_ns`, if it says.
fn run(
    object: &Object,
    name: &str,
    frame: &[u8],
    repeat: u32,
    at_ns: Option<u64>,
) -> Result<SignalRun, BpfError> {
    let program = object.progs_mut().find(|p| p.name() == name);
    let program = program.ok_or_else(|| BpfError::Refused {
        what: RUNNING.to_owned(),
        why: format!("the object has no program {name}"),
    })?;
    let mut after = vec![0; frame.len()];
    let mut skb = [0; SKB];
    skb[TSTAMP..TSTAMP + 8].copy_from_slice(&at_ns.unwrap_or(0).to_ne_bytes());
    let input = ProgramInput {
        context_in: Some(&mut skb),
        data_in: Some(frame),
        data_out: Some(&mut after),
        repeat,
        ..ProgramInput::default()
    };
    let output = program.test_run(input).map_err(|e| refused(RUNNING, &e))?;
    let ns = output.duration.as_nanos() as u64;
    Ok(SignalRun { ns, frame: after })
}
