//! Why a live run could not start or go on.

use std::io;

use narrows_linux::LinuxError;

/// One line each: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The machine or its kernel refused a step.
    #[error(transparent)]
    Linux(#[from] LinuxError),
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
    /// A path could not be driven.
    #[error(transparent)]
    Path(#[from] crate::datapath::PathError),
    /// Packets cannot be marked.
    #[error("{what}: {error}")]
    Signals {
        /// Where: `mark/NAME`.
        what: String,
        /// Why.
        error: narrows_bpf::BpfError,
    },
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
        matches!(self, Self::Linux(error) if error.is_of_the_machine())
    }

    /// Whether what is missing is a right of this user's: root has it, or whoever may make user
    /// namespaces.
    pub fn is_of_rights(&self) -> bool {
        use narrows_bpf::BpfError::NoPermission;
        match self {
            Self::Linux(error) => error.is_of_rights(),
            Self::Signals { error, .. } | Self::Control { error, .. } => {
                matches!(error, NoPermission { .. })
            }
            _ => false,
        }
    }

    /// What the kernel's answer to the request `what` means.
    pub(crate) fn refused(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        LinuxError::refused(what, source).into()
    }
}
