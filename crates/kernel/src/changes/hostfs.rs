//! The host's files cannot be written.

use crate::edit::{Change, Edit, What};

const FILE: &str = "fs/hostfs/hostfs_user.c";

/// Those of the file that write what the host has.
const REFUSE: What = What::EnterBehindDeclarations("\treturn -EROFS;\n");

const fn refuse(function: &'static str) -> Edit {
    Edit {
        file: FILE,
        function: Some(function),
        what: REFUSE,
    }
}

pub(super) const CHANGE: Change = Change {
    name: "read-only host",
    reason: "the machine's files are there to be read; every function of hostfs that \
             writes one refuses, also for root and after a remount",
    only_where: None,
    edits: &[
        Edit {
            file: FILE,
            function: None,
            what: What::CalledOnlyBy(
                &[
                    "open",
                    "open64",
                    "openat",
                    "creat",
                    "write",
                    "pwrite",
                    "pwrite64",
                    "pwritev",
                    "truncate",
                    "ftruncate",
                    "fallocate",
                    "copy_file_range",
                    "sendfile",
                    "splice",
                    "ioctl",
                    "chmod",
                    "fchmod",
                    "fchmodat",
                    "chown",
                    "fchown",
                    "lchown",
                    "fchownat",
                    "utime",
                    "utimes",
                    "futimes",
                    "utimensat",
                    "futimens",
                    "symlink",
                    "symlinkat",
                    "link",
                    "linkat",
                    "unlink",
                    "unlinkat",
                    "rename",
                    "renameat",
                    "renameat2",
                    "syscall",
                    "mkdir",
                    "mkdirat",
                    "rmdir",
                    "mknod",
                    "mknodat",
                    "setxattr",
                    "fsetxattr",
                    "removexattr",
                ],
                &[
                    "open_file",
                    "write_file",
                    "file_create",
                    "set_attr",
                    "make_symlink",
                    "unlink_file",
                    "do_mkdir",
                    "hostfs_do_rmdir",
                    "do_mknod",
                    "link_file",
                    "rename_file",
                    "rename2_file",
                ],
            ),
        },
        Edit {
            file: FILE,
            function: Some("open_file"),
            what: What::EnterBehindDeclarations("\tif (w)\n\t\treturn -EROFS;\n"),
        },
        refuse("write_file"),
        refuse("file_create"),
        refuse("set_attr"),
        refuse("make_symlink"),
        refuse("unlink_file"),
        refuse("do_mkdir"),
        refuse("hostfs_do_rmdir"),
        refuse("do_mknod"),
        refuse("link_file"),
        refuse("rename_file"),
        refuse("rename2_file"),
    ],
    config: &[],
};
