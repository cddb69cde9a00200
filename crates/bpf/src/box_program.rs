//! A box by rules at a device of this machine.

use std::fmt;

use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{Link, MapCore, MapFlags, Object, ProgramMut};
use narrows_mmb::{Program, RuleCounters};

use crate::box_rules::{BoxRules, PROGRAMS, words};
use crate::error::BpfError;
use crate::libbpf::refused;
use crate::signal_program::Device;
use crate::tcx;
use crate::{BoxConnection, BoxTotals};

/// 64-bit words of `struct nw_mmb_totals`.
const TOTALS: usize = 18;
const READING: &str = "read the counters of the box";

/// A box at both sides of a device, as long as this is there. Dropping it detaches it; so does
/// the kernel when the process ends, however it ends, as nothing else holds its links.
pub struct BoxProgram {
    // Declared in the order in which they are to go.
    links: Vec<Link>,
    rules: BoxRules,
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
        let rules = BoxRules::load(program, device.net_at)?;
        Ok(Self {
            links: links(&rules.object, ifindex, &device)?,
            rules,
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
        self.links = links(&self.rules.object, ifindex, &device)?;
        Ok(())
    }

    /// Gives it other rules, of which each had the number of `kept` before, from 0, if it was there. A
    /// packet meets either all of the old ones or all of the new ones, in each direction; connections stay,
    /// and so does what was counted.
    ///
    /// # Errors
    /// If the kernel refuses the new ones: the old ones are then as they were.
    pub fn reload(&mut self, program: &Program, kept: &[Option<u32>]) -> Result<(), BpfError> {
        let mut new = self.rules.beside(program, self.net_at, kept)?;
        // Links of a device that is gone lead nowhere; when it returns, the new rules are attached.
        if self.ifindex().is_some() {
            self.update(&new.object)?;
        }
        let followed = new.follow(&self.rules, kept);
        self.rules = new;
        followed
    }

    /// Has the links lead to the programs of `object`, all or none.
    fn update(&mut self, object: &Object) -> Result<(), BpfError> {
        let update = |links: &mut [Link], object: &Object| {
            let programs = at_device(object);
            let mut both = links.iter_mut().zip(programs);
            both.try_for_each(|(link, program)| link.update_prog(&program))
        };
        let Err(error) = update(&mut self.links, object) else {
            return Ok(());
        };
        let error = refused(format!("put {PROGRAMS} in the place of others"), &error);
        // What is put back was there a moment ago; a device that went meanwhile has neither.
        if let Err(back) = update(&mut self.links, &self.rules.object) {
            tracing::debug!("put back: {back}");
        }
        Err(error)
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
        self.rules.counters()
    }

    /// Forgets connections that were idle for too long. Until then they take room; packets find
    /// them no more.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn sweep(&self) -> Result<(), BpfError> {
        self.rules.sweep()
    }

    /// The connections that it tracks, in no order, without those that were idle for too long.
    ///
    /// # Errors
    /// If the kernel does not show them.
    pub fn connections(&self) -> Result<Vec<BoxConnection>, BpfError> {
        self.rules.connections()
    }

    /// What the box has counted.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn totals(&self) -> Result<BoxTotals, BpfError> {
        totals(&self.rules.object)
    }
}

/// The programs of `object` that are at devices, in an order that is always the same.
fn at_device(object: &Object) -> impl Iterator<Item = ProgramMut<'_>> {
    let programs = object.progs_mut();
    programs.filter(|program| program.section().to_string_lossy().starts_with("tcx/"))
}

/// The programs of `object` at both sides of `device`.
fn links(object: &Object, ifindex: u32, device: &Device) -> Result<Vec<Link>, BpfError> {
    let index = i32::try_from(ifindex).unwrap_or(i32::MAX);
    let links = at_device(object).map(|program| {
        tcx::attach(&program, index).ok_or_else(|| BpfError::Kernel {
            what: format!("{PROGRAMS} cannot be attached to {}", device.name),
            hint: "this needs tcx, which Linux has from 6.6 on",
        })
    });
    links.collect()
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
        frames_dropped,
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
        frames_dropped,
        // Read one after the other while packets come.
        connections: begun.saturating_sub(forgotten),
    })
}
