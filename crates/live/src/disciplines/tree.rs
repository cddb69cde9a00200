//! Disciplines in disciplines, with the classes between them and the filters that lead packets
//! to a class.
//!
//! Numbers of attributes and structures are those of linux/pkt_sched.h and linux/pkt_cls.h
//! (Linux v6.17).

use narrows_aqm::classes::Dscps;
use narrows_aqm::drr::DrrConfig;
use narrows_aqm::htb::{HtbClass, HtbConfig};
use narrows_aqm::{QueueSpec, htb};
use narrows_linux::{TcId, TcKind, TcPlace};

use super::options::Options;
use super::schedulers::rate_spec;
use super::translate::{Discipline, queue};

/// Protocols of filters (linux/if_ether.h).
const ETH_P_IP: u16 = 0x0800;
const ETH_P_IPV6: u16 = 0x86dd;
const ETH_P_ALL: u16 = 0x0003;

/// What is on one device, in the order in which it is put there.
#[derive(Debug)]
pub(super) struct Tree {
    parts: Vec<Discipline>,
    mtu: u32,
}

impl Tree {
    /// One with this discipline as the device's own, on a link with `mtu` bytes of IP.
    pub fn of(root: Discipline, mtu: u32) -> Self {
        Self {
            parts: vec![root],
            mtu,
        }
    }

    /// All of it.
    pub fn into_parts(self) -> Vec<Discipline> {
        self.parts
    }

    /// Puts the queue of `spec`, with all that is in it, at `parent`.
    ///
    /// # Errors
    /// What of it the kernel has no discipline for.
    pub fn queue(&mut self, spec: &QueueSpec, parent: TcId) -> Result<(), String> {
        let discipline = queue(spec, self.mtu)?;
        let disciplines = self.parts.iter().filter(|p| p.place.kind == TcKind::Queue);
        let major = disciplines.count() as u16 + 1;
        self.put(discipline, TcKind::Queue, parent, (major, 0));
        match spec {
            QueueSpec::Tbf(config) => match &config.queue {
                // The only class of a token bucket is its first (`tbf_walk`).
                Some(inner) => self.queue(inner, (major, 1)),
                None => Ok(()),
            },
            QueueSpec::Prio(config) => {
                let mut bands = config.queues.iter();
                bands.try_for_each(|(band, inner)| self.queue(inner, (major, band_id(*band))))
            }
            QueueSpec::Drr(config) => self.drr(config, major),
            QueueSpec::Htb(config) => self.htb(config, major),
            _ => Ok(()),
        }
    }

    fn put(&mut self, mut part: Discipline, kind: TcKind, parent: TcId, id: TcId) {
        part.place = TcPlace { kind, parent, id };
        self.parts.push(part);
    }

    /// TCA_DRR_QUANTUM 1. What has no class is dropped, so that the last filter takes all.
    fn drr(&mut self, config: &DrrConfig, major: u16) -> Result<(), String> {
        for (class, id) in config.classes.iter().zip(1..) {
            let options = Options::default().with_some(1, class.quantum);
            let part = Discipline::attributes("drr", options);
            self.put(part, TcKind::Class, (major, 0), (major, id));
            self.queue(&class.queue, (major, id))?;
            match &class.dscps {
                Some(dscps) => self.lead(dscps, (major, id)),
                None => {
                    // TCA_MATCHALL_CLASSID 1.
                    let options = Options::default().with_u32(1, word((major, id)));
                    let filter = Discipline::attributes("matchall", options);
                    self.filter(filter, 3, ETH_P_ALL, major);
                }
            }
        }
        Ok(())
    }

    /// TCA_HTB_PARMS 1 (struct tc_htb_opt: rate, ceil, buffer and cbuffer in ticks of 64 ns,
    /// quantum, level, prio), TCA_HTB_RATE64 6, TCA_HTB_CEIL64 7.
    fn htb(&mut self, config: &HtbConfig, major: u16) -> Result<(), String> {
        let id_of = |name: &str| {
            let place = config.classes.iter().position(|c| c.name == name);
            place.map_or(0, |place| place as u16 + 1)
        };
        for class in parents_first(config) {
            let id = (major, id_of(&class.name));
            let parent = (major, class.parent.as_deref().map_or(0, id_of));
            self.put(htb_class(class), TcKind::Class, parent, id);
        }
        for class in config.leaves() {
            let id = (major, id_of(&class.name));
            self.queue(&class.queue, id)?;
            if let Some(dscps) = &class.dscps {
                self.lead(dscps, id);
            }
        }
        Ok(())
    }

    /// Leads packets with these code points to a class.
    fn lead(&mut self, dscps: &Dscps, class: TcId) {
        for dscp in dscps.0.iter().copied().map(u32::from) {
            // In the first word of the header: RFC 791, RFC 8200 section 3.
            for (priority, protocol, shift) in [(1, ETH_P_IP, 18), (2, ETH_P_IPV6, 22)] {
                let filter = Discipline::attributes(
                    "u32",
                    Options::default()
                        .with_u32(1, word(class))
                        .with(5, &selector(63 << shift, dscp << shift)),
                );
                self.filter(filter, priority, protocol, class.0);
            }
        }
    }

    fn filter(&mut self, part: Discipline, priority: u16, protocol: u16, major: u16) {
        let kind = TcKind::Filter { priority, protocol };
        self.put(part, kind, (major, 0), (0, 0));
    }
}

/// The class of a band of prio, which counts from 1.
fn band_id(band: u8) -> u16 {
    u16::from(band) + 1
}

/// `htb` itself: TCA_HTB_INIT 2, struct tc_htb_glob (version 3, rate2quantum, defcls, debug,
/// direct_pkts).
pub(super) fn htb(config: &HtbConfig) -> Discipline {
    let mut names = config.classes.iter();
    let rest = config.leaves().find(|class| class.dscps.is_none());
    let default = rest.and_then(|rest| names.position(|class| class.name == rest.name));
    let default = default.map_or(0, |place| place as u32 + 1);
    let global = Options::words(&[3, config.r2q, default, 0, 0]).into_bytes();
    Discipline::attributes("htb", Options::default().with(2, &global))
}

fn htb_class(class: &HtbClass) -> Discipline {
    let (rate, ceil) = (class.rate.as_bytes(), class.ceiling().as_bytes());
    let ticks = |ns: i64| u32::try_from(ns / htb::TICK_NS).unwrap_or(u32::MAX);
    let (bucket, ceil_bucket) = class.buckets();
    let parameters = [
        rate_spec(rate, 0),
        rate_spec(ceil, 0),
        Options::words(&[
            ticks(bucket),
            ticks(ceil_bucket),
            class.quantum.unwrap_or(0),
            0,
            class.prio,
        ])
        .into_bytes(),
    ];
    let options = Options::default()
        .with(1, &parameters.concat())
        .with_u64(6, rate)
        .with_u64(7, ceil);
    Discipline::attributes("htb", options)
}

/// The classes of a tree, each behind the one that it borrows from.
fn parents_first(config: &HtbConfig) -> Vec<&HtbClass> {
    let mut all: Vec<&HtbClass> = Vec::new();
    while all.len() < config.classes.len() {
        let there = |name: &String| all.iter().any(|class| class.name == *name);
        let next: Vec<_> = (config.classes.iter())
            .filter(|class| !there(&class.name) && class.parent.as_ref().is_none_or(there))
            .collect();
        // A class without its parent was refused as the words were read.
        if next.is_empty() {
            break;
        }
        all.extend(next);
    }
    all
}

/// A number of tc in one word.
fn word((major, minor): TcId) -> u32 {
    u32::from(major) << 16 | u32::from(minor)
}

/// struct tc_u32_sel with one key: flags (TC_U32_TERMINAL), offshift, nkeys, a byte of nothing,
/// offmask, off, offoff, hoff, hmask; then struct tc_u32_key: mask and value as on the wire,
/// off, offmask.
fn selector(mask: u32, value: u32) -> Vec<u8> {
    let mut bytes = vec![1, 0, 1, 0];
    bytes.resize(16, 0);
    bytes.extend(mask.to_be_bytes());
    bytes.extend(value.to_be_bytes());
    bytes.extend([0; 8]);
    bytes
}
