//! Why flows cannot start.

use std::io;

/// Why flows, probes or commands cannot start. Each is one line for people.
#[derive(Debug, thiserror::Error)]
pub enum FlowError {
    /// The plan's ends cannot be resolved.
    #[error(transparent)]
    Setup(#[from] narrows_engine::SetupError),
    /// The kernel does not know the congestion control, or does not let this
    /// user have it.
    #[error(
        "flow/{flow}: this kernel has no congestion control `{control}` to give ({reason}); \
         `sysctl net.ipv4.tcp_available_congestion_control` lists what it has, and \
         `modprobe tcp_{control}` may add it"
    )]
    Control {
        /// The flow's name.
        flow: String,
        /// What was asked for.
        control: String,
        /// What the kernel said.
        reason: io::Error,
    },
    /// A socket could not be had as it is needed.
    #[error("{what}: cannot {action}: {reason}")]
    Socket {
        /// `flow/NAME` or `probe/NAME`.
        what: String,
        /// What was tried.
        action: String,
        /// What the kernel said.
        reason: io::Error,
    },
    /// A thread could not be started in a host, or got nothing to work with.
    #[error("host/{host}: cannot {action}: {reason}")]
    Host {
        /// The host's name.
        host: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        reason: io::Error,
    },
    /// A command cannot be run.
    #[error("command/{name}: {reason}")]
    Command {
        /// The command's name.
        name: String,
        /// What is wrong and what to do.
        reason: String,
    },
}

impl FlowError {
    /// As [`LiveError::about`](crate::LiveError::about).
    pub(crate) fn about(&self) -> String {
        match self {
            Self::Setup(_) => String::new(),
            Self::Control { flow, .. } => format!("flow/{flow}/cc"),
            Self::Socket { what, .. } => what.clone(),
            Self::Host { host, .. } => format!("host/{host}"),
            Self::Command { name, .. } => format!("command/{name}"),
        }
    }
}
