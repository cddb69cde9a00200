//! Options of the kernel's TCP sockets.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use narrows_units::Duration;
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, Backlog, SetSockOpt, SockFlag, SockType, SockaddrStorage, bind, connect,
    getsockopt, listen, setsockopt, socket, sockopt,
};

use crate::socket_option;

/// What a connection that is closed in the middle does, by a kill as well: it is reset.
pub const RESET: libc::linger = libc::linger {
    l_onoff: 1,
    l_linger: 0,
};
/// The same of one whose stream has been ended.
pub const ORDERLY: libc::linger = libc::linger {
    l_onoff: 0,
    l_linger: 0,
};

/// Why a socket cannot be had as it is needed.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    /// The kernel does not have the congestion control, or does not let this user have it.
    #[error("cannot have the congestion control: {0}")]
    Control(Errno),
    /// Another step failed.
    #[error("cannot {action}: {reason}")]
    Other {
        /// What was tried.
        action: Cow<'static, str>,
        /// What the kernel said.
        reason: Errno,
    },
}

impl OptionError {
    /// What the kernel said.
    pub fn errno(&self) -> Errno {
        match self {
            Self::Control(reason) | Self::Other { reason, .. } => *reason,
        }
    }

    /// Makes errors of an action.
    pub(crate) fn of(action: &'static str) -> impl Fn(Errno) -> Self {
        move |reason| Self::Other {
            action: Cow::Borrowed(action),
            reason,
        }
    }

    /// The same of what is no wrapper of nix's.
    pub(crate) fn io(action: &'static str) -> impl Fn(io::Error) -> Self {
        let of = Self::of(action);
        move |error| of(crate::stream_calls::errno(&error))
    }
}

impl From<OptionError> for Errno {
    fn from(error: OptionError) -> Self {
        error.errno()
    }
}

/// Options of TCP sockets; what is not asked for the kernel decides. A connection that is accepted
/// has those of its listener (tcp(7)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// The kernel's name of the congestion control (`TCP_CONGESTION`).
    pub control: Option<String>,
    /// The traffic class of every packet (`IP_TOS`, `IPV6_TCLASS`). The kernel keeps the ECN field to
    /// itself.
    pub traffic_class: Option<u8>,
    /// Whether TCP paces whatever the congestion control asks for.
    pub paced: bool,
    /// Whether small writes go out at once (`TCP_NODELAY`).
    pub no_delay: bool,
    /// Whether data goes with the SYN, or is taken with it (RFC 7413).
    pub fast_open: bool,
    /// The largest receive window, in bytes (`TCP_WINDOW_CLAMP`).
    pub window: Option<u64>,
    /// Bytes in the kernel that are not sent yet, above which no more is written
    /// (`TCP_NOTSENT_LOWAT`).
    pub unsent: Option<u64>,
    /// Bytes that wake a reader (`SO_RCVLOWAT`).
    pub wake_at: Option<i32>,
    /// Bytes of `SO_SNDBUF`, as far as the machine allows (net.core.wmem_max).
    pub send_buffer: Option<u64>,
    /// Bytes of `SO_RCVBUF`, as far as the machine allows (net.core.rmem_max).
    pub receive_buffer: Option<u64>,
    /// Whether the kernel asks silent peers whether they are there (`SO_KEEPALIVE`).
    pub asks_silent_peers: bool,
    /// How long a connection is silent before (`TCP_KEEPIDLE`), and between the questions a ninth of
    /// it, at least a second; the kernel's own times where nothing is said (two hours, tcp(7)).
    pub keepalive: Option<Duration>,
    /// How long what was sent may stay unacknowledged, or a window closed, before the connection
    /// is given up (`TCP_USER_TIMEOUT`, RFC 5482).
    pub user_timeout: Option<Duration>,
    /// Whether urgent data stays in its place in the stream (`SO_OOBINLINE`, RFC 6093 §5).
    pub urgent_in_line: bool,
    /// Connections to any address may be led here (`IP_TRANSPARENT`).
    pub transparent: bool,
}

impl TcpOptions {
    /// A socket of `family` that is to connect or to listen.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn socket(&self, family: AddressFamily) -> Result<OwnedFd, OptionError> {
        let fd = open(family, SockType::Stream)?;
        if let Some(class) = self.traffic_class {
            let set = match family {
                AddressFamily::Inet6 => setsockopt(&fd, sockopt::Ipv6TClass, &class.into()),
                _ => setsockopt(&fd, sockopt::Ipv4Tos, &class.into()),
            };
            set.map_err(OptionError::of("set its DSCP"))?;
        }
        self.apply(&fd)?;
        Ok(fd)
    }

    /// Sets all but the traffic class, and what is for [any address](Self::take_any_address) and for
    /// [listeners](Self::accept_fast_open).
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn apply(&self, fd: &impl AsFd) -> Result<(), OptionError> {
        let cannot = OptionError::of;
        if let Some(control) = &self.control {
            let set = setsockopt(fd, sockopt::TcpCongestion, &OsString::from(control));
            set.map_err(OptionError::Control)?;
        }
        // Closed by a kill, it is reset: its peer would take an end for that of the whole stream, and one
        // that waited for acknowledgements that never come would keep its namespace and its
        // congestion control for minutes. The end of its stream is sent by shutdown(2), which this
        // does not change.
        setsockopt(fd, sockopt::Linger, &RESET).map_err(cannot("be reset when closed"))?;
        if self.no_delay {
            setsockopt(fd, sockopt::TcpNoDelay, &true).map_err(cannot("send at once"))?;
        }
        if self.asks_silent_peers {
            setsockopt(fd, sockopt::KeepAlive, &true).map_err(cannot("ask silent peers"))?;
        }
        if self.urgent_in_line {
            let set = setsockopt(fd, sockopt::OobInline, &true);
            set.map_err(cannot("keep urgent data in its place"))?;
        }
        if let Some(bytes) = self.window {
            let set = socket_option::clamp_window(fd, bytes);
            set.map_err(OptionError::io("have a smaller window"))?;
        }
        if let Some(bytes) = self.unsent {
            let set = socket_option::limit_unsent(fd, bytes);
            set.map_err(OptionError::io("limit what waits to be sent"))?;
        }
        if self.paced {
            let set = socket_option::pace_always(fd);
            set.map_err(OptionError::io("have it paced"))?;
        }
        if let Some(bytes) = self.wake_at {
            let set = socket_option::wake_at_bytes(fd, bytes);
            set.map_err(OptionError::io("be woken seldom"))?;
        }
        if let Some(idle) = self.keepalive {
            keep_alive(fd, idle).map_err(cannot("ask silent peers"))?;
        }
        if let Some(longest) = self.user_timeout {
            let ms = u32::try_from(longest.as_millis()).unwrap_or(u32::MAX);
            let set = setsockopt(fd, sockopt::TcpUserTimeout, &ms);
            set.map_err(cannot("limit how long peers are silent"))?;
        }
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        if let Some(bytes) = self.send_buffer {
            let set = sized(fd, sockopt::SndBufForce, sockopt::SndBuf, size(bytes));
            set.map_err(cannot("have its send buffer"))?;
        }
        if let Some(bytes) = self.receive_buffer {
            let set = sized(fd, sockopt::RcvBufForce, sockopt::RcvBuf, size(bytes));
            set.map_err(cannot("have its receive buffer"))?;
        }
        Ok(())
    }

    /// Has a socket that is bound listen, with at most `waiting` connections that are not accepted.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn listen(&self, fd: &OwnedFd, waiting: Backlog) -> Result<(), OptionError> {
        self.accept_fast_open(fd, waiting)?;
        listen(fd, waiting).map_err(OptionError::of("listen"))
    }

    /// Has a listening socket take data with the SYN, if it is to.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn accept_fast_open(&self, fd: &impl AsFd, waiting: Backlog) -> Result<(), OptionError> {
        if !self.fast_open {
            return Ok(());
        }
        let set = socket_option::accept_fast_open(fd, waiting.into());
        set.map_err(OptionError::io("take data with the SYN"))
    }

    /// Lets a socket that is to be bound to `address`, or connected there, have any address
    /// (ip(7), `IP_TRANSPARENT`).
    ///
    /// # Errors
    /// What the kernel says.
    pub fn take_any_address(&self, fd: &impl AsFd, address: SocketAddr) -> Result<(), OptionError> {
        /// `IPV6_TRANSPARENT` (linux/in6.h).
        const TRANSPARENT: i32 = 75;
        if address.is_ipv4() {
            let set = setsockopt(fd, sockopt::IpTransparent, &true);
            return set.map_err(OptionError::of("have any address"));
        }
        let set = socket_option::set(fd, libc::IPPROTO_IPV6, TRANSPARENT, 1);
        set.map_err(OptionError::io("have any address"))
    }
}

/// Gives the packets of an open connection a traffic class. The kernel keeps the ECN field to itself.
///
/// # Errors
/// What the kernel says.
pub fn set_traffic_class(fd: &impl AsFd, ipv4: bool, class: u8) -> nix::Result<()> {
    match ipv4 {
        true => setsockopt(fd, sockopt::Ipv4Tos, &class.into()),
        false => setsockopt(fd, sockopt::Ipv6TClass, &class.into()),
    }
}

/// Gives an open connection the congestion control that the kernel calls so.
///
/// # Errors
/// If it has none of that name, or does not let this user have it.
pub fn choose_control(fd: &impl AsFd, name: &str) -> nix::Result<()> {
    setsockopt(fd, sockopt::TcpCongestion, &OsString::from(name))
}

/// Begins to connect; the socket is writable when it is done.
///
/// # Errors
/// What the kernel says.
pub fn begin_to_connect(fd: &impl AsFd, to: SocketAddr) -> nix::Result<()> {
    match connect(fd.as_fd().as_raw_fd(), &SockaddrStorage::from(to)) {
        Err(Errno::EINPROGRESS) => Ok(()),
        other => other,
    }
}

/// A socket of `kind`, whose port may be shared.
pub(crate) fn open(family: AddressFamily, kind: SockType) -> Result<OwnedFd, OptionError> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let fd = socket(family, kind, flags, None).map_err(OptionError::of("open a socket"))?;
    // Of datagrams, any other socket that says the same could take what comes.
    if kind == SockType::Stream {
        let set = setsockopt(&fd, sockopt::ReuseAddr, &true);
        set.map_err(OptionError::of("share its port"))?;
    }
    Ok(fd)
}

/// Gives a socket its own address; one of IPv6 has nothing of IPv4 then.
///
/// # Errors
/// What the kernel says.
pub fn bind_to(fd: &impl AsFd, local: SocketAddr) -> Result<(), OptionError> {
    if local.is_ipv6() {
        let set = setsockopt(fd, sockopt::Ipv6V6Only, &true);
        set.map_err(OptionError::of("speak IPv6 alone"))?;
    }
    let bound = bind(fd.as_fd().as_raw_fd(), &SockaddrStorage::from(local));
    bound.map_err(|reason| OptionError::Other {
        action: Cow::Owned(format!("have {local}")),
        reason,
    })
}

/// Has the kernel ask whether the peer is there after each such silence, and where it does not
/// answer, nine times in as long again: a dead one is found after twice that time.
///
/// # Errors
/// What the kernel says.
pub fn keep_alive(fd: &impl AsFd, silence: Duration) -> nix::Result<()> {
    /// Seconds that the kernel takes at most (include/net/tcp.h, MAX_TCP_KEEPIDLE).
    const MOST: u64 = 32_767;
    let seconds = (silence.as_millis() / 1_000).clamp(1, MOST) as u32;
    // As the kernel does nine by default (tcp(7), tcp_keepalive_probes).
    setsockopt(fd, sockopt::TcpKeepInterval, &(seconds / 9).max(1))?;
    setsockopt(fd, sockopt::TcpKeepIdle, &seconds)
}

/// Sets the size of a buffer: as large as root may have it, or else as the machine allows.
pub(crate) fn sized<F, O>(fd: &impl AsFd, force: F, ask: O, bytes: usize) -> nix::Result<()>
where
    F: SetSockOpt<Val = usize>,
    O: SetSockOpt<Val = usize>,
{
    setsockopt(fd, force, &bytes).or_else(|_| setsockopt(fd, ask, &bytes))
}

/// The congestion control that a socket has; empty if it cannot be read.
pub fn control_of(socket: &impl AsFd) -> String {
    let name = getsockopt(socket, sockopt::TcpCongestion).unwrap_or_default();
    let name = name.to_string_lossy();
    name.trim_end_matches('\0').to_owned()
}

/// Whether the kernel gives this process the congestion control `name`.
///
/// # Errors
/// What it says.
pub fn ask_for_control(name: &str) -> nix::Result<()> {
    let flags = SockFlag::SOCK_CLOEXEC;
    let trial = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    setsockopt(&trial, sockopt::TcpCongestion, &name.into())
}

/// The family of an address.
pub fn family(address: SocketAddr) -> AddressFamily {
    match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(options: &TcpOptions) -> OwnedFd {
        options.socket(AddressFamily::Inet).expect("a socket")
    }

    #[test]
    fn a_socket_has_what_is_asked_for_and_the_kernel_s_own_of_the_rest() {
        let plain = made(&TcpOptions::default());
        assert!(!getsockopt(&plain, sockopt::TcpNoDelay).unwrap());
        assert!(!getsockopt(&plain, sockopt::KeepAlive).unwrap());
        let asked = made(&TcpOptions {
            control: Some("reno".to_owned()),
            traffic_class: Some(0xb8),
            no_delay: true,
            unsent: Some(4_096),
            asks_silent_peers: true,
            keepalive: Some(Duration::from_secs(90)),
            user_timeout: Some(Duration::from_millis(1_500)),
            urgent_in_line: true,
            ..TcpOptions::default()
        });
        assert_eq!(control_of(&asked), "reno");
        assert_eq!(getsockopt(&asked, sockopt::Ipv4Tos), Ok(0xb8));
        assert!(getsockopt(&asked, sockopt::TcpNoDelay).unwrap());
        assert!(getsockopt(&asked, sockopt::KeepAlive).unwrap());
        assert!(getsockopt(&asked, sockopt::OobInline).unwrap());
        assert_eq!(getsockopt(&asked, sockopt::TcpKeepIdle), Ok(90));
        assert_eq!(getsockopt(&asked, sockopt::TcpKeepInterval), Ok(10));
        assert_eq!(getsockopt(&asked, sockopt::TcpUserTimeout), Ok(1_500));
        let (unsent, _) =
            socket_option::get::<4>(&asked, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).unwrap();
        assert_eq!(i32::from_ne_bytes(unsent), 4_096);
    }

    #[test]
    fn every_socket_is_reset_when_it_is_closed_in_the_middle() {
        let linger = getsockopt(&made(&TcpOptions::default()), sockopt::Linger).unwrap();
        assert_eq!((linger.l_onoff, linger.l_linger), (1, 0));
    }

    #[test]
    fn a_control_that_the_kernel_lacks_is_told_from_other_refusals() {
        let options = TcpOptions {
            control: Some("no_such_control".to_owned()),
            ..TcpOptions::default()
        };
        let refused = options.socket(AddressFamily::Inet).unwrap_err();
        assert!(matches!(refused, OptionError::Control(Errno::ENOENT)));
        assert_eq!(ask_for_control("no_such_control"), Err(Errno::ENOENT));
        assert_eq!(ask_for_control("reno"), Ok(()));
    }

    #[test]
    fn silence_is_asked_about_between_a_second_and_what_the_kernel_takes() {
        for (silence, idle, every) in [(0, 1, 1), (8, 8, 1), (100_000, 32_767, 3_640)] {
            let fd = made(&TcpOptions::default());
            keep_alive(&fd, Duration::from_secs(silence)).unwrap();
            assert_eq!(getsockopt(&fd, sockopt::TcpKeepIdle), Ok(idle));
            assert_eq!(getsockopt(&fd, sockopt::TcpKeepInterval), Ok(every));
        }
    }
}
