//! Options of a leg's sockets.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use narrows_cc::ControlSpec;
use narrows_linux::socket_option;
use narrows_linux::stream_calls::errno;
use narrows_units::{Duration, Rate};
use nix::libc;
use nix::sys::socket::{
    AddressFamily, SetSockOpt, SockFlag, SockType, setsockopt, socket, sockopt,
};

/// One leg, as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LegConfig {
    pub options: LegOptions,
    /// One of Narrows' own congestion controls, in the place of one of the kernel's.
    pub own: Option<ControlSpec>,
    /// What the link carries that the leg sends over. `own` has the option for it then.
    pub hint: Option<Rate>,
}

/// Options of one leg's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LegOptions {
    /// The kernel's name of the congestion control; its default where there is none.
    pub control: Option<String>,
    /// Whether data goes with the SYN, or is taken with it.
    pub fast_open: bool,
    /// `TCP_NOTSENT_LOWAT`: bytes in the kernel that are not sent yet, above which no more
    /// is written, so that what waits waits in the proxy.
    pub unsent: u32,
    /// `SO_SNDBUF` and `SO_RCVBUF`; the kernel sizes them where nothing is said.
    pub send_buffer: Option<u64>,
    pub receive_buffer: Option<u64>,
    /// How long a connection is silent before the kernel asks whether the peer is there
    /// (`TCP_KEEPIDLE`), and between the questions a ninth of it, at least a second; the kernel's
    /// own times where nothing is said (two hours, tcp(7)).
    pub keepalive: Option<Duration>,
    /// How long what was sent may stay unacknowledged, or a window closed, before the connection
    /// is given up (`TCP_USER_TIMEOUT`, RFC 5482); the kernel's own time where nothing is said.
    pub user_timeout: Option<Duration>,
    /// Connections to any address may be led here (`IP_TRANSPARENT`).
    pub transparent: bool,
}

impl LegOptions {
    /// Bytes that may wait unsent in the kernel (our choice: two of the largest bursts that
    /// segmentation makes).
    pub const UNSENT: u32 = 128 << 10;

    /// Those of a leg of which nothing is said.
    pub fn plain(fast_open: bool, transparent: bool) -> Self {
        Self {
            control: None,
            fast_open,
            unsent: Self::UNSENT,
            send_buffer: None,
            receive_buffer: None,
            keepalive: None,
            user_timeout: None,
            transparent,
        }
    }

    pub fn socket(&self, family: AddressFamily) -> nix::Result<OwnedFd> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(family, SockType::Stream, flags, None)?;
        setsockopt(&fd, sockopt::ReuseAddr, &true)?;
        self.apply(&fd)?;
        Ok(fd)
    }

    /// Lets a socket that is to be bound to `address`, or connected there, have any address
    /// (ip(7), `IP_TRANSPARENT`).
    pub fn take_any_address(&self, fd: &impl AsFd, address: SocketAddr) -> nix::Result<()> {
        /// `IPV6_TRANSPARENT` (linux/in6.h).
        const TRANSPARENT: i32 = 75;
        if address.is_ipv4() {
            return setsockopt(fd, sockopt::IpTransparent, &true);
        }
        let set = socket_option::set(fd, libc::IPPROTO_IPV6, TRANSPARENT, 1);
        set.map_err(|e| errno(&e))
    }

    /// Sets what connections that are accepted of it have from their listener.
    pub fn apply(&self, fd: &impl AsFd) -> nix::Result<()> {
        setsockopt(fd, sockopt::TcpNoDelay, &true)?;
        setsockopt(fd, sockopt::KeepAlive, &true)?;
        // Urgent data stays in its place in the stream (RFC 6093 §5).
        setsockopt(fd, sockopt::OobInline, &true)?;
        setsockopt(fd, sockopt::Linger, &RESET)?;
        socket_option::limit_unsent(fd, self.unsent.into()).map_err(|e| errno(&e))?;
        if let Some(control) = &self.control {
            setsockopt(fd, sockopt::TcpCongestion, &OsString::from(control))?;
        }
        if let Some(idle) = self.keepalive {
            keep_alive(fd, idle)?;
        }
        if let Some(longest) = self.user_timeout {
            let ms = u32::try_from(longest.as_millis()).unwrap_or(u32::MAX);
            setsockopt(fd, sockopt::TcpUserTimeout, &ms)?;
        }
        // As large as the machine allows (net.core.wmem_max), whatever is asked for.
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        if let Some(bytes) = self.send_buffer {
            sized(fd, sockopt::SndBufForce, sockopt::SndBuf, size(bytes))?;
        }
        if let Some(bytes) = self.receive_buffer {
            sized(fd, sockopt::RcvBufForce, sockopt::RcvBuf, size(bytes))?;
        }
        Ok(())
    }
}

/// Has the kernel ask whether the peer is there after each such silence, and where it does not
/// answer, nine times in as long again: a dead one is found after twice that time.
pub(super) fn keep_alive(fd: &impl AsFd, silence: Duration) -> nix::Result<()> {
    /// Seconds that the kernel takes at most (include/net/tcp.h, MAX_TCP_KEEPIDLE).
    const MOST: u64 = 32_767;
    let seconds = (silence.as_millis() / 1_000).clamp(1, MOST) as u32;
    // As the kernel does nine by default (tcp(7), tcp_keepalive_probes).
    setsockopt(fd, sockopt::TcpKeepInterval, &(seconds / 9).max(1))?;
    setsockopt(fd, sockopt::TcpKeepIdle, &seconds)
}

fn sized<F, O>(fd: &impl AsFd, force: F, ask: O, bytes: usize) -> nix::Result<()>
where
    F: SetSockOpt<Val = usize>,
    O: SetSockOpt<Val = usize>,
{
    setsockopt(fd, force, &bytes).or_else(|_| setsockopt(fd, ask, &bytes))
}

/// A connection that is closed in the middle, by a kill as well, is reset: its peer would
/// take an end for that of the whole stream.
pub(super) const RESET: libc::linger = libc::linger {
    l_onoff: 1,
    l_linger: 0,
};
pub(super) const ORDERLY: libc::linger = libc::linger {
    l_onoff: 0,
    l_linger: 0,
};
