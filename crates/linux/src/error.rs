//! What this machine or its kernel refused.

use std::io;

/// One line each: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LinuxError {
    /// Neither root nor root of a user namespace.
    #[error(
        "{what} needs root: run it with sudo, or allow unprivileged user namespaces \
         (`narrows doctor` says how)"
    )]
    NoPermission {
        /// What was refused.
        what: String,
    },
    /// A user namespace of one's own was refused.
    #[error(
        "this machine lets no user make a user namespace ({reason}), so this needs root: run it with sudo"
    )]
    NoUserNamespace {
        /// The kernel's reason, and the switch behind it.
        reason: String,
    },
    /// No TUN device can be opened.
    #[error("no TUN device can be made: {reason}")]
    NoTun {
        /// Why, and the command that changes it.
        reason: String,
    },
    /// No pair of joined devices can be made, as links of the kernel's need.
    #[error("{what}: this kernel has no veth devices (as root: modprobe veth; CONFIG_VETH)")]
    NoVeth {
        /// Which pair, as a sentence's beginning.
        what: String,
    },
    /// The kernel lacks something that came later.
    #[error("Linux {release} is too old for the live engine, which needs {needed} or newer")]
    KernelTooOld {
        /// What runs.
        release: String,
        /// What is needed.
        needed: String,
    },
    /// What is there is no program.
    #[error("`{command}` cannot be run: it is no executable file")]
    NoProgram {
        /// Its name.
        command: String,
    },
    /// A program is not there.
    #[error("there is no command `{command}` on this machine (looked in {searched})")]
    NoSuchCommand {
        /// Its name.
        command: String,
        /// Where it was searched.
        searched: String,
    },
    /// The kernel refused a step.
    #[error("{what}: {source}")]
    Refused {
        /// The step, as a sentence's beginning: `link/access: its device cannot be made`.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
}

impl LinuxError {
    /// Whether this machine lacks what every run of its kind needs, or this user
    /// may not have it; other errors are about the one scenario, or are failures.
    pub fn is_of_the_machine(&self) -> bool {
        matches!(
            self,
            Self::NoPermission { .. }
                | Self::NoUserNamespace { .. }
                | Self::NoTun { .. }
                | Self::NoVeth { .. }
                | Self::KernelTooOld { .. }
        )
    }

    /// Whether what is missing is a right of this user's: root has it, or whoever may make user
    /// namespaces.
    pub fn is_of_rights(&self) -> bool {
        matches!(
            self,
            Self::NoPermission { .. } | Self::NoUserNamespace { .. }
        )
    }

    /// What the kernel's answer to the request `what` means.
    pub fn refused(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let (what, source) = (what.into(), source.into());
        if source.kind() == io::ErrorKind::PermissionDenied {
            Self::NoPermission { what }
        } else {
            Self::Refused { what, source }
        }
    }
}
