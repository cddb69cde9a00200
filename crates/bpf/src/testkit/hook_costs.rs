//! What the programs of loaded congestion controls cost, by the kernel's own run-time
//! statistics.

use std::collections::BTreeSet;
use std::{fs, io};

use libbpf_rs::query::ProgInfoIter;

use crate::error::BpfError;

use super::HookCost;

/// The switch of the statistics (kernel/bpf/syscall.c).
const SWITCH: &str = "/proc/sys/kernel/bpf_stats_enabled";

/// Counts the runs of programs that are loaded after it; dropping it sets the kernel's
/// switch back.
#[derive(Debug)]
pub struct HookCosts {
    before: BTreeSet<u32>,
    switch: String,
}

impl HookCosts {
    /// Begins to count.
    ///
    /// # Errors
    /// If the caller is not root, or the kernel has no such statistics.
    pub fn begin() -> Result<Self, BpfError> {
        let lacks = |_| BpfError::Kernel {
            what: format!("this kernel does not time programs of BPF ({SWITCH} is missing)"),
            hint: "Linux 5.1 or newer with CONFIG_BPF_SYSCALL=y does",
        };
        let switch = fs::read_to_string(SWITCH).map_err(lacks)?;
        let refused = |e: io::Error| BpfError::Refused {
            what: format!("have the kernel time programs of BPF ({SWITCH})"),
            why: format!("{e}: this needs root"),
        };
        fs::write(SWITCH, "1").map_err(refused)?;
        let before = ProgInfoIter::default().map(|p| p.id).collect();
        Ok(Self { before, switch })
    }

    /// The programs that were loaded since, with what their runs took.
    pub fn read(&self) -> Vec<HookCost> {
        let new = ProgInfoIter::default().filter(|p| !self.before.contains(&p.id));
        new.map(|p| HookCost {
            name: p.name.to_string_lossy().into_owned(),
            runs: p.run_cnt,
            ns: p.run_time_ns,
        })
        .collect()
    }
}

impl Drop for HookCosts {
    fn drop(&mut self) {
        // Who could switch it on can switch it back.
        let _ = fs::write(SWITCH, self.switch.trim());
    }
}
