//! Which processor a kernel stays on.
//!
//! A kernel in virtual time is one thread that wakes another one for each step of a
//! program in it, and both never run at once: on one processor that takes half as long as
//! on two. Kernels of one process, as of a campaign, are spread over the processors.

use std::sync::{Mutex, MutexGuard, PoisonError};

use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu};
use nix::unistd::Pid;

/// How many kernels of this process are on each processor.
static TAKEN: Mutex<Vec<u32>> = Mutex::new(Vec::new());

fn taken() -> MutexGuard<'static, Vec<u32>> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A processor, until this is dropped.
#[derive(Debug)]
pub(crate) struct Core(Option<usize>);

impl Core {
    /// Of those that this process may use, one with the fewest kernels: the current one
    /// if it is among these, as another process begins elsewhere.
    pub(crate) fn take() -> Self {
        let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else {
            return Self(None);
        };
        let allowed = (0..CpuSet::count()).filter(|n| allowed.is_set(*n).unwrap_or(false));
        let current = sched_getcpu().ok();
        let mut taken = taken();
        let of = |n: usize| taken.get(n).copied().unwrap_or(0);
        let core = allowed.min_by_key(|n| (of(*n), Some(*n) != current, *n));
        if let Some(core) = core {
            if taken.len() <= core {
                taken.resize(core + 1, 0);
            }
            taken[core] += 1;
        }
        Self(core)
    }

    /// Its number; `None` where the system does not say which there are.
    pub(crate) fn number(&self) -> Option<usize> {
        self.0
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(count) = self.0.and_then(|core| taken().get_mut(core).copied()) {
            if let Some(core) = self.0 {
                taken()[core] = count.saturating_sub(1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_kernels_as_processors_have_one_each() {
        let Ok(allowed) = sched_getaffinity(Pid::from_raw(0)) else {
            return;
        };
        let count = (0..CpuSet::count())
            .filter(|n| allowed.is_set(*n).unwrap_or(false))
            .count();
        let cores: Vec<_> = (0..count).map(|_| Core::take()).collect();
        let mut numbers: Vec<_> = cores.iter().filter_map(Core::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), count);
        drop(cores);
        assert!(taken().iter().all(|n| *n == 0));
    }
}
