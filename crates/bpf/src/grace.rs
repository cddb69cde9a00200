//! When programs that were replaced run no more.

use std::thread;
use std::time::Duration;

use nix::libc;

/// `MEMBARRIER_CMD_GLOBAL` (include/uapi/linux/membarrier.h), from Linux 4.3 on.
const GLOBAL: libc::c_int = 1;
/// Longer than a packet takes; for kernels that are built or set up without that call.
const LONG: Duration = Duration::from_millis(100);

/// Returns when every program that ran when it was called has ended: a grace period of RCU, as
/// `kern_sync_rcu` of the kernel's own tests of BPF waits for one.
pub(crate) fn wait_for_programs() {
    // SAFETY: the call takes three numbers, and reads and writes no memory of ours.
    if unsafe { libc::syscall(libc::SYS_membarrier, GLOBAL, 0, 0) } != 0 {
        thread::sleep(LONG);
    }
}
