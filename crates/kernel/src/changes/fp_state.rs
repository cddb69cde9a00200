//! Room for the floating-point state of processors with AMX.

use crate::edit::{Change, Edit, What};

/// Linux before 6.16 reads a process's extended state into a buffer of 2,696 bytes and
/// panics at init where the processor has more. AMX ends at 11,008 bytes (2,816 before
/// its tiles, 8,192 of tiles). The size that the host gives is used, whatever the
/// buffer's. Frames with two such buffers lie on a task's stack.
pub(super) const CHANGE: Change = Change {
    name: "floating-point state",
    reason: "the buffer of 2,696 bytes is too small on processors with AMX, where init \
             dies with `ptrace set fp regs failed, errno = 14`; now 12,288, and stacks of \
             64 KiB; later kernels ask for the size",
    only_where: Some(("arch/x86/um/user-offsets.c", "DEFINE_LONGS(HOST_FP_SIZE,")),
    edits: &[Edit {
        file: "arch/x86/um/user-offsets.c",
        function: None,
        what: What::Replace(
            "DEFINE_LONGS(HOST_FP_SIZE, 2696)",
            "DEFINE_LONGS(HOST_FP_SIZE, 12288)",
        ),
    }],
    config: &["CONFIG_KERNEL_STACK_ORDER=4"],
};
