//! What this crate's tests and benchmarks load besides: packets with the times that TCP gave
//! them, test runs of the marking programs, and what runs of programs cost.

#[cfg(not(all(target_os = "linux", feature = "load", bpf_objects)))]
mod absent;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod box_runs;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod hook_costs;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod signal_runs;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
mod tap;

#[cfg(not(all(target_os = "linux", feature = "load", bpf_objects)))]
pub use absent::{BoxRuns, HookCosts, SignalRuns, Tap, signal_cost};
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use box_runs::BoxRuns;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use hook_costs::HookCosts;
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use signal_runs::{SignalRuns, signal_cost};
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub use tap::Tap;

/// Has `work` load the objects in `folder` in the place of those that this build made.
#[cfg(all(target_os = "linux", feature = "load", bpf_objects))]
pub fn with_objects_in<T>(folder: &std::path::Path, work: impl FnOnce() -> T) -> T {
    let set = |to| {
        *crate::libbpf::OTHERS
            .lock()
            .unwrap_or_else(|e| e.into_inner()) = to
    };
    set(Some(folder.to_owned()));
    let done = work();
    set(None);
    done
}

/// Nothing can be loaded: `work` says why.
#[cfg(not(all(target_os = "linux", feature = "load", bpf_objects)))]
pub fn with_objects_in<T>(_: &std::path::Path, work: impl FnOnce() -> T) -> T {
    work()
}

/// What the runs of a program took in all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCost {
    /// As far as the kernel keeps it: 15 characters.
    pub name: String,
    /// How many runs.
    pub runs: u64,
    /// Nanoseconds of all of them.
    pub ns: u64,
}

/// What became of a frame in test runs of the marking programs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SignalRun {
    /// Nanoseconds of a run, on average.
    pub ns: u64,
    /// The frame after the last.
    pub frame: Vec<u8>,
}

/// What the parts of such a run cost, each as a program of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalCost {
    /// Nanoseconds of a run that does nothing; the others contain it.
    pub empty_ns: u64,
    /// Reading a packet's headers.
    pub read_ns: u64,
    /// Finding a connection.
    pub lookup_ns: u64,
    /// Finding it in a hash table of the kernel's, for comparison.
    pub lookup_hashed_ns: u64,
    /// Reading the clock.
    pub clock_ns: u64,
    /// Changing a bit and mending the checksum. A run of the marking programs
    /// pays it for a packet of which the bits are not what they are to be.
    pub change_ns: u64,
}
