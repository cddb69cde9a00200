//! Options of a leg's sockets.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};

use narrows_cc::ControlSpec;
use narrows_units::Rate;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, SetSockOpt, SockFlag, SockType, setsockopt, socket, sockopt,
};

use crate::flows::socket_option;
use crate::stream_calls::errno;

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
    /// Connections to any address may be led here (`IP_TRANSPARENT`).
    pub transparent: bool,
}

impl LegOptions {
    /// Bytes that may wait unsent in the kernel (our choice: two of the largest bursts that
    /// segmentation makes).
    pub const UNSENT: u32 = 128 << 10;

    pub fn socket(&self, family: AddressFamily) -> nix::Result<OwnedFd> {
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let fd = socket(family, SockType::Stream, flags, None)?;
        setsockopt(&fd, sockopt::ReuseAddr, &true)?;
        self.apply(&fd)?;
        Ok(fd)
    }

    /// Sets what connections that are accepted of it have from their listener.
    pub fn apply(&self, fd: &impl AsFd) -> nix::Result<()> {
        setsockopt(fd, sockopt::TcpNoDelay, &true)?;
        setsockopt(fd, sockopt::KeepAlive, &true)?;
        setsockopt(fd, sockopt::Linger, &RESET)?;
        socket_option::limit_unsent(fd, self.unsent.into()).map_err(|e| errno(&e))?;
        if let Some(control) = &self.control {
            setsockopt(fd, sockopt::TcpCongestion, &OsString::from(control))?;
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
