//! Why a proxy could not begin, or go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use narrows_core::SocketError;

/// One line each: what, where, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PepError {
    /// An address cannot be listened at.
    #[error("{address} cannot be listened at: {reason}{}", hint(reason))]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the kernel said.
        reason: SocketError,
    },
    /// The kernel has no such congestion control for a leg, or does not give it to this user.
    #[error(
        "{listener}: {leg}: this kernel gives no congestion control `{control}` ({reason}); \
         `sysctl net.ipv4.tcp_available_congestion_control` lists what it has, \
         tcp_allowed_congestion_control what it gives without root, and `modprobe tcp_{control}` \
         may add it"
    )]
    NoControl {
        /// The listener.
        listener: SocketAddr,
        /// `near` or `far`.
        leg: &'static str,
        /// What was asked for.
        control: String,
        /// What the kernel said.
        reason: io::Error,
    },
    /// One of Narrows' own congestion controls could not be loaded for a leg.
    #[error(
        "{listener}: {leg}: the congestion control `{control}` of Narrows cannot be loaded into \
         this kernel: {error}; without `narrows:` before it, `cc` is one of the kernel's own"
    )]
    NotLoaded {
        /// The listener.
        listener: SocketAddr,
        /// `near` or `far`.
        leg: &'static str,
        /// Its words.
        control: String,
        /// Why.
        error: Box<narrows_bpf::BpfError>,
    },
    /// The process was given sockets for which there is no listener.
    #[error(
        "a socket at {0} was handed over (LISTEN_FDS), and no listener has that address: \
         give it one, or take it out of the socket unit"
    )]
    NotTaken(SocketAddr),
    /// There is no such user.
    #[error("user: this machine knows no user {0:?}")]
    NoUser(String),
    /// The process cannot become that user.
    #[error("the process cannot become the user {user:?}: {reason} (start it as root)")]
    NotBecome {
        /// Whom.
        user: String,
        /// What the kernel said.
        reason: io::Error,
    },
    /// The socket for the state cannot be opened.
    #[error("{}: there can be no socket for `narrows pep status` here: {reason}", path.display())]
    Status {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// No daemon answers there.
    #[error("{}: no proxy tells its state here: {reason} (is one running? --socket names another)", path.display())]
    NoDaemon {
        /// Where.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// One of the threads that serve tunnels is no more.
    #[error("a thread that serves tunnels has ended, and its tunnels with it: the log says why")]
    Thread,
    /// A step of the set-up failed, which it does not on a working system.
    #[error("cannot {action}: {reason}")]
    Setup {
        /// What was to be done.
        action: &'static str,
        /// What the kernel said.
        reason: io::Error,
    },
}

impl PepError {
    /// Whether what is missing is a right of this user's.
    pub fn is_of_rights(&self) -> bool {
        match self {
            Self::Listen { reason, .. } => takes_root(reason),
            Self::NotLoaded { error, .. } => {
                matches!(**error, narrows_bpf::BpfError::NoPermission { .. })
            }
            Self::NoControl { reason, .. }
            | Self::NotBecome { reason, .. }
            | Self::Status { reason, .. }
            | Self::NoDaemon { reason, .. }
            | Self::Setup { reason, .. } => reason.kind() == io::ErrorKind::PermissionDenied,
            Self::NotTaken(_) | Self::NoUser(_) | Self::Thread => false,
        }
    }

    /// Makes errors of a step.
    pub(super) fn setup<E: Into<io::Error>>(action: &'static str) -> impl Fn(E) -> Self {
        move |reason| Self::Setup {
            action,
            reason: reason.into(),
        }
    }
}

fn takes_root(reason: &SocketError) -> bool {
    matches!(
        reason,
        SocketError::System(nix::libc::EACCES | nix::libc::EPERM)
    )
}

fn hint(reason: &SocketError) -> &'static str {
    match reason {
        _ if takes_root(reason) => " (ports below 1024 and transparent listeners take root)",
        SocketError::System(nix::libc::EADDRNOTAVAIL) | SocketError::NoPort => {
            " (it is no address of this machine)"
        }
        _ => "",
    }
}
