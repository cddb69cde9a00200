//! Sockets as the plan wants them.

use std::ffi::OsString;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SetSockOpt, SockFlag, SockType, SockaddrStorage, bind, getsockopt, setsockopt,
    socket, sockopt,
};

use super::error::FlowError;
use super::socket_option;

/// Connections that wait to be accepted: a flow opens one.
pub const BACKLOG: i32 = 4;

/// Bytes of received data at which a reader is woken. TCP's acknowledgements
/// do not wait for the reader below that mark (`__tcp_ack_snd_check`), so
/// nothing changes on the wire, and sixteen times fewer wake-ups take the
/// path's time. A quarter of the first window (`tcp_rmem` 131072 gives 65535
/// bytes of it).
const WAKE_AT: i32 = 16 << 10;

/// Bytes of memory for datagrams that nobody has read: 5 ms of small ones at
/// 1 Gbit/s, with the kernel's 768 bytes of bookkeeping for each.
const DATAGRAM_MEMORY: usize = 16 << 20;

/// What both ends of a TCP flow are set to.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// The kernel's name of the congestion control.
    pub control: String,
    /// DSCP of every packet, 0 to 63. The kernel keeps the ECN field to
    /// itself.
    pub dscp: u8,
    /// Whether TCP paces whatever the congestion control asks for.
    pub pace: bool,
}

/// Makes errors of a socket that belongs to `what`.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a>(pub &'a str);

impl Owner<'_> {
    fn cannot(self, action: impl Into<String>) -> impl FnOnce(io::Error) -> FlowError {
        let (what, action) = (self.0.to_owned(), action.into());
        move |reason| FlowError::Socket {
            what,
            action,
            reason,
        }
    }

    fn set<O: SetSockOpt>(
        self,
        socket: &OwnedFd,
        action: &str,
        option: O,
        value: &O::Val,
    ) -> Result<(), FlowError> {
        setsockopt(socket, option, value).map_err(|e| self.cannot(action)(e.into()))
    }

    fn open(self, local: SocketAddr, kind: SockType, class: u8) -> Result<OwnedFd, FlowError> {
        let family = match local {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(family, kind, flags, None)
            .map_err(|e| self.cannot("open a socket")(e.into()))?;
        self.set(&socket, "share its port", sockopt::ReuseAddr, &true)?;
        let class = i32::from(class);
        match local {
            SocketAddr::V4(_) => self.set(&socket, "set its DSCP", sockopt::Ipv4Tos, &class)?,
            SocketAddr::V6(_) => {
                self.set(&socket, "speak IPv6 alone", sockopt::Ipv6V6Only, &true)?;
                self.set(&socket, "set its DSCP", sockopt::Ipv6TClass, &class)?;
            }
        }
        Ok(socket)
    }

    fn bind(self, socket: &OwnedFd, local: SocketAddr) -> Result<(), FlowError> {
        bind(socket.as_raw_fd(), &SockaddrStorage::from(local))
            .map_err(|e| self.cannot(format!("have {local}"))(e.into()))
    }

    /// A TCP socket at `local`, not connected and not listening.
    ///
    /// # Errors
    /// If the kernel does not have the congestion control, or the address.
    pub fn stream(self, local: SocketAddr, options: &StreamOptions) -> Result<OwnedFd, FlowError> {
        let socket = self.open(local, SockType::Stream, options.dscp << 2)?;
        let name = OsString::from(&options.control);
        setsockopt(&socket, sockopt::TcpCongestion, &name).map_err(|e| FlowError::Control {
            flow: self.0.trim_start_matches("flow/").to_owned(),
            control: options.control.clone(),
            reason: e.into(),
        })?;
        // Closed by a kill, it is reset: one that waited for acknowledgements
        // that never come would keep its namespace and its congestion control
        // for minutes. The end of its stream is told by shutdown(2), which this
        // does not change; a connection that is accepted has it from the listener.
        let reset = nix::libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        self.set(&socket, "be reset when closed", sockopt::Linger, &reset)?;
        if options.pace {
            socket_option::pace_always(&socket).map_err(self.cannot("have it paced"))?;
        }
        self.bind(&socket, local)?;
        Ok(socket)
    }

    /// Has the reader of `socket` woken when it is worth it.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn read_in_bulk(self, socket: &impl AsFd) -> Result<(), FlowError> {
        socket_option::wake_at_bytes(socket, WAKE_AT).map_err(self.cannot("be woken seldom"))
    }

    /// A UDP socket at `local` whose packets have the traffic class `class`
    /// (DSCP and ECN field), and whether it has memory enough to be read now
    /// and then only.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn datagrams(self, local: SocketAddr, class: u8) -> Result<(OwnedFd, bool), FlowError> {
        let socket = self.open(local, SockType::Datagram, class)?;
        // For root of the namespace's owner; others get what the machine's
        // net.core.rmem_max allows, and are read at every datagram.
        let enough = setsockopt(&socket, sockopt::RcvBufForce, &DATAGRAM_MEMORY).is_ok();
        if !enough {
            let _ = setsockopt(&socket, sockopt::RcvBuf, &DATAGRAM_MEMORY);
        }
        // Datagrams already on their way when the sender is held up are not
        // lost in its own host: that is the path's to do.
        if setsockopt(&socket, sockopt::SndBufForce, &DATAGRAM_MEMORY).is_err() {
            let _ = setsockopt(&socket, sockopt::SndBuf, &DATAGRAM_MEMORY);
        }
        self.bind(&socket, local)?;
        Ok((socket, enough))
    }
}

/// The congestion control that a socket has; empty if it cannot be read.
pub fn control_of(socket: &impl AsFd) -> String {
    let name = getsockopt(socket, sockopt::TcpCongestion).unwrap_or_default();
    let name = name.to_string_lossy();
    name.trim_end_matches('\0').to_owned()
}
