//! A box without a device: packets go through its programs by the kernel's own test runs
//! (`BPF_PROG_TEST_RUN`).

use std::fmt;

use libbpf_rs::{MapCore, MapFlags, ProgramInput};
use narrows_mmb::{Program, RuleCounters};

use crate::box_program::totals;
use crate::box_rules::BoxRules;
use crate::error::BpfError;
use crate::libbpf::refused;
use crate::signal_program::ETHERNET;
use crate::{BoxConnection, BoxTotals};

const RUNNING: &str = "test the programs of a box";

/// `TC_ACT_SHOT` (include/uapi/linux/pkt_cls.h): the packet is dropped.
const SHOT: u32 = 2;
/// Bytes by which a packet grows at most: the options of a TCP header (RFC 9293 §3.1).
const LONGEST_OPTIONS: usize = 40;

/// The programs of a box as they are at an Ethernet device.
pub struct BoxRuns {
    rules: BoxRules,
}

impl fmt::Debug for BoxRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoxRuns").finish_non_exhaustive()
    }
}

impl BoxRuns {
    /// Loads them with these rules.
    ///
    /// # Errors
    /// If the kernel refuses, or the caller is not root.
    pub fn load(program: &Program) -> Result<Self, BpfError> {
        Ok(Self {
            rules: BoxRules::load(program, ETHERNET)?,
        })
    }

    /// Gives them other rules, of which each had the number of `kept` before, from 0, if it was there.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn reload(&mut self, program: &Program, kept: &[Option<u32>]) -> Result<(), BpfError> {
        let mut new = self.rules.beside(program, ETHERNET, kept)?;
        new.follow(&self.rules, kept)?;
        self.rules = new;
        Ok(())
    }

    /// An Ethernet frame leaves or comes, `repeat` times; how it goes on, `None` if it is
    /// dropped, and the nanoseconds of a run.
    ///
    /// # Errors
    /// If the kernel refuses, as it does a frame of less than 14 bytes.
    pub fn run(
        &self,
        leaves: bool,
        frame: &[u8],
        repeat: u32,
    ) -> Result<(Option<Vec<u8>>, u64), BpfError> {
        let name = if leaves { "nw_mmb_out" } else { "nw_mmb_in" };
        let program = self.rules.object.progs_mut().find(|p| p.name() == name);
        let program = program.ok_or_else(|| BpfError::Refused {
            what: RUNNING.to_owned(),
            why: format!("the object has no program {name}"),
        })?;
        let mut after = vec![0; frame.len() + LONGEST_OPTIONS];
        let input = ProgramInput {
            data_in: Some(frame),
            data_out: Some(&mut after),
            repeat,
            ..ProgramInput::default()
        };
        let output = program.test_run(input).map_err(|e| refused(RUNNING, &e))?;
        let ns = output.duration.as_nanos() as u64;
        let passed = output.return_value != SHOT;
        let len = output.data.map_or(0, |data| data.len());
        after.truncate(len);
        Ok((passed.then_some(after), ns))
    }

    /// So many seconds pass: what the box remembers of connections and fragments is as much older.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn age(&self, secs: u64) -> Result<(), BpfError> {
        for (name, at) in [
            ("nw_mmb_connections", 40),
            ("nw_mmb_fragments", 40),
            ("nw_mmb_earliest", 0),
        ] {
            let Some(map) = self.rules.object.maps().find(|m| m.name() == name) else {
                continue;
            };
            let keys: Vec<_> = map.keys().collect();
            for key in keys {
                let old = map.lookup(&key, MapFlags::ANY);
                let Some(mut value) = old.map_err(|e| refused(RUNNING, &e))? else {
                    continue;
                };
                let seen = &mut value[at..at + 8];
                let then = seen.try_into().map_or(0, u64::from_ne_bytes);
                let then = then.wrapping_sub(secs * 1_000_000_000);
                seen.copy_from_slice(&then.to_ne_bytes());
                let new = map.update(&key, &value, MapFlags::EXIST);
                new.map_err(|e| refused(RUNNING, &e))?;
            }
        }
        Ok(())
    }

    /// Forgets what was idle for too long.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn sweep(&self) -> Result<(), BpfError> {
        self.rules.sweep()
    }

    /// What they have counted.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn totals(&self) -> Result<BoxTotals, BpfError> {
        totals(&self.rules.object)
    }

    /// The connections that they track.
    ///
    /// # Errors
    /// If the kernel does not show them.
    pub fn connections(&self) -> Result<Vec<BoxConnection>, BpfError> {
        self.rules.connections()
    }

    /// What each rule has counted.
    ///
    /// # Errors
    /// If the counters cannot be read.
    pub fn rules(&self) -> Result<Vec<RuleCounters>, BpfError> {
        self.rules.counters()
    }
}
