//! Why a live run could not start or go on.

use std::io;

/// One line each: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
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
    /// IPv6 is asked for where there is none.
    #[error("{what} uses IPv6, {reason}")]
    NoIpv6 {
        /// A flow or probe.
        what: String,
        /// Why there is none.
        reason: String,
    },
    /// A host bears an address that no network device can have.
    #[error("host/{host} cannot have the address {address} on Linux: it is {kind}")]
    UnusableAddress {
        /// The host.
        host: String,
        /// Its address.
        address: std::net::IpAddr,
        /// What kind of address that is.
        kind: &'static str,
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
    /// A flow that no host's stack can have.
    #[error(
        "flow/{flow}: `{transport}` is a modelled flow, only in the simulator; run it with \
         --engine sim, or give the flow `transport = \"quic\"`"
    )]
    Modelled {
        /// The flow.
        flow: String,
        /// What it models.
        transport: &'static str,
    },
    /// Flows, probes or commands that cannot be had.
    #[error(transparent)]
    Flow(#[from] crate::flows::FlowError),
    /// An element of a link with `datapath = "kernel"` is no queueing discipline
    /// of this kernel.
    #[error("{element}: {reason}")]
    NoDiscipline {
        /// The element's full name.
        element: String,
        /// What the kernel lacks, or what of the element it does not know.
        reason: String,
    },
    /// The kernel's disciplines report nothing about single packets.
    #[error(
        "link/{link} has `datapath = \"kernel\"`, where {what}: leave it out, or take \
         `datapath = \"narrows\"`"
    )]
    NotInTheKernel {
        /// The link.
        link: String,
        /// What was asked for, and why it cannot be had.
        what: &'static str,
    },
    /// The kernel refused a step.
    #[error("{what}: {source}")]
    Refused {
        /// The step, as a sentence's beginning: `link/access: its device cannot be made`.
        what: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A path could not be driven.
    #[error(transparent)]
    Path(#[from] crate::datapath::PathError),
    /// Packets cannot be marked.
    #[error("{what}: {error}")]
    Signals {
        /// Where: `mark/NAME`, or a device.
        what: String,
        /// Why.
        error: narrows_bpf::BpfError,
    },
    /// A box cannot be attached, or its counters cannot be read.
    #[error("{device}: {error}")]
    Box {
        /// The device.
        device: String,
        /// Why.
        error: narrows_bpf::BpfError,
    },
    /// One box at a device.
    #[error("{0} has a box already: `narrows mmb detach {0}` ends it")]
    BoxThere(String),
    /// None is there.
    #[error("{0} has no box in this network namespace: `narrows mmb attach {0} …` puts one there")]
    NoBox(String),
    /// A congestion control of ours could not be loaded into the kernel.
    #[error(
        "{owner}: {control} as Narrows has it cannot be loaded into this kernel: {error}; \
         `kernel:NAME` in its place takes one of the kernel's own"
    )]
    Control {
        /// `flow/NAME` or `proxy/NAME`.
        owner: String,
        /// The algorithm.
        control: String,
        /// Why.
        error: narrows_bpf::BpfError,
    },
}

impl LiveError {
    /// The full name of what in the plan it is about, `flow/cubic/cc`; empty for what is
    /// about no value of it.
    pub fn about(&self) -> String {
        match self {
            Self::UnusableAddress { host, .. } => format!("host/{host}"),
            Self::Modelled { flow, .. } => format!("flow/{flow}/transport"),
            Self::NoDiscipline { element, .. } => element.clone(),
            Self::NotInTheKernel { link, .. } => format!("link/{link}/datapath"),
            Self::NoIpv6 { what, .. } => what.clone(),
            Self::Control { owner, .. } => format!("{owner}/cc"),
            Self::Flow(error) => error.about(),
            _ => String::new(),
        }
    }

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
        use narrows_bpf::BpfError::NoPermission;
        match self {
            Self::NoPermission { .. } | Self::NoUserNamespace { .. } => true,
            Self::Signals { error, .. } | Self::Box { error, .. } | Self::Control { error, .. } => {
                matches!(error, NoPermission { .. })
            }
            _ => false,
        }
    }

    /// What the kernel's answer to the request `what` means.
    pub(crate) fn refused(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        let (what, source) = (what.into(), source.into());
        if source.kind() == io::ErrorKind::PermissionDenied {
            Self::NoPermission { what }
        } else {
            Self::Refused { what, source }
        }
    }
}
