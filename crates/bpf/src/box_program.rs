//! A box by rules at a device of this machine.

use std::fmt;

use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramInput};
use narrows_mmb::{Program, RuleCounters};

use crate::box_connections::connections;
use crate::box_tables::{fill, prepare};
use crate::error::BpfError;
use crate::libbpf::{self, refused};
use crate::signal_program::Device;
use crate::tcx;
use crate::{BoxConnection, BoxTotals};

/// 64-bit words of `struct nw_mmb_totals`.
const TOTALS: usize = 17;
/// The program that forgets old connections; it is at no device.
const SWEEP: &str = "nw_mmb_sweep";

const PROGRAMS: &str = "the programs of the box";

/// A box at both sides of a device, as long as this is there. Dropping it detaches it; so does
/// the kernel when the process ends, however it ends, as nothing else holds its links.
pub struct BoxProgram {
    // Declared in the order in which they are to go.
    links: Vec<Link>,
    object: Object,
    rules: usize,
    /// Bytes before the network header at the devices for which it was loaded.
    net_at: u32,
}

impl fmt::Debug for BoxProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxProgram")
            .field("links", &self.links.len())
            .finish_non_exhaustive()
    }
}

impl BoxProgram {
    /// Attaches rules to device `ifindex` of the *calling thread's* network namespace. What leaves
    /// by the device came from inside (up), what comes by it is from outside.
    ///
    /// # Errors
    /// If the device does not exist or is of a type that is not known, the kernel refuses or has
    /// no tcx (before Linux 6.6), or the caller is not root.
    pub fn attach(ifindex: u32, program: &Program) -> Result<Self, BpfError> {
        let device = Device::of(ifindex, "attach a box to")?;
        let object = load(program, device.net_at)?;
        Ok(Self {
            links: links(&object, ifindex, &device)?,
            object,
            rules: program.rules.len(),
            net_at: device.net_at,
        })
    }

    /// Attaches it to another device, with its connections and what it has counted.
    ///
    /// # Errors
    /// As [`attach`](Self::attach), or if packets of that device begin with another header. It is then at
    /// no device.
    pub fn attach_again(&mut self, ifindex: u32) -> Result<(), BpfError> {
        self.links.clear();
        let what = "attach a box again to";
        let device = Device::of(ifindex, what)?;
        if device.net_at != self.net_at {
            return Err(BpfError::Refused {
                what: format!("{what} {}", device.name),
                why: "it came back as a device of another type".to_owned(),
            });
        }
        self.links = links(&self.object, ifindex, &device)?;
        Ok(())
    }

    /// The number of the device where the kernel has it, at both sides; `None` where that device is gone.
    pub fn ifindex(&self) -> Option<u32> {
        let mut at = self.links.iter().map(|link| match link.info().ok()?.info {
            LinkTypeInfo::Tcx(tcx) => Some(tcx.ifindex).filter(|index| *index != 0),
            _ => None,
        });
        let first = at.next()??;
        at.all(|other| other == Some(first)).then_some(first)
    }

    /// What each rule has counted, in their order.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn rules(&self) -> Result<Vec<RuleCounters>, BpfError> {
        rules(&self.object, self.rules)
    }

    /// Forgets connections that were idle for too long. Until then they take room; packets find
    /// them no more.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn sweep(&self) -> Result<(), BpfError> {
        sweep(&self.object)
    }

    /// The connections that it tracks, in no order, without those that were idle for too long.
    ///
    /// # Errors
    /// If the kernel does not show them.
    pub fn connections(&self) -> Result<Vec<BoxConnection>, BpfError> {
        connections(&self.object)
    }

    /// What the box has counted.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn totals(&self) -> Result<BoxTotals, BpfError> {
        totals(&self.object)
    }
}

/// The programs of `object` at both sides of `device`.
fn links(object: &Object, ifindex: u32, device: &Device) -> Result<Vec<Link>, BpfError> {
    let index = i32::try_from(ifindex).unwrap_or(i32::MAX);
    let at_device = object.progs_mut().filter(|p| p.name() != SWEEP);
    let links = at_device.map(|program| {
        tcx::attach(&program, index).ok_or_else(|| BpfError::Kernel {
            what: format!("{PROGRAMS} cannot be attached to {}", device.name),
            hint: "this needs tcx, which Linux has from 6.6 on",
        })
    });
    links.collect()
}

/// Loads both programs with their rules for devices with `net_at` bytes before the network header.
pub(crate) fn load(program: &Program, net_at: u32) -> Result<Object, BpfError> {
    let bytes = include_bytes!(concat!(env!("OUT_DIR"), "/mmb.bpf.o"));
    let mut object = libbpf::open("mmb", bytes)?;
    prepare(&mut object, program, net_at).map_err(|e| refused("set up the box", &e))?;
    let object = libbpf::load(object, &format!("load {PROGRAMS}"))?;
    fill(&object, program).map_err(|e| refused("give the box its rules", &e))?;
    Ok(object)
}

/// The 64-bit words in `bytes`.
fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    let word = |chunk: &[u8]| <[u8; 8]>::try_from(chunk).map_or(0, u64::from_ne_bytes);
    bytes.chunks_exact(8).map(word)
}

/// Runs the program that forgets old connections.
pub(crate) fn sweep(object: &Object) -> Result<(), BpfError> {
    let Some(program) = object.progs_mut().find(|p| p.name() == SWEEP) else {
        return Ok(());
    };
    let run = program.test_run(ProgramInput::default());
    run.map_err(|e| refused("forget old connections", &e))?;
    Ok(())
}

const READING: &str = "read the counters of the box";

pub(crate) fn rules(object: &Object, count: usize) -> Result<Vec<RuleCounters>, BpfError> {
    let mut counted = Vec::with_capacity(count);
    let Some(map) = object.maps().find(|m| m.name() == "nw_mmb_counts") else {
        return Ok(counted);
    };
    for rule in 0..count as u32 {
        let value = map.lookup(&rule.to_ne_bytes(), MapFlags::ANY);
        let value = value.map_err(|e| refused(READING, &e))?.unwrap_or_default();
        let mut numbers = words(&value);
        let mut next = || numbers.next().unwrap_or(0);
        counted.push(RuleCounters {
            packets: next(),
            bytes: next(),
        });
    }
    Ok(counted)
}

pub(crate) fn totals(object: &Object) -> Result<BoxTotals, BpfError> {
    let map = object.maps().find(|m| m.name() == "nw_mmb_all");
    let cpus = map
        .map(|m| m.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY))
        .transpose()
        .map_err(|e| refused(READING, &e))?
        .flatten()
        .unwrap_or_default();
    let mut sum = [0u64; TOTALS];
    for cpu in &cpus {
        for (total, word) in sum.iter_mut().zip(words(cpu)) {
            *total += word;
        }
    }
    let [
        packets,
        dropped,
        malformed,
        options_unchanged,
        other,
        overmatched,
        unwritten,
        bundles,
        ports_used_up,
        table_full,
        begun,
        forgotten,
        related,
        stray_fragments,
        fragments_full,
        tiny_fragments,
        evicted,
    ] = sum;
    Ok(BoxTotals {
        packets,
        dropped,
        malformed,
        options_unchanged,
        other,
        overmatched,
        unwritten,
        bundles,
        ports_used_up,
        table_full,
        related,
        stray_fragments,
        fragments_full,
        tiny_fragments,
        evicted,
        // Read one after the other while packets come.
        connections: begun.saturating_sub(forgotten),
    })
}
