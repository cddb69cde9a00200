//! The machine's sockets, with the options that a plan asks for.

use std::ffi::OsString;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use narrows_cc::Needs;
use narrows_core::FlowId;
use narrows_engine::{SocketPlan, TcpPlan};
use narrows_linux::socket_option;
use narrows_scenario::EcnMode;
use nix::sys::socket::{
    AddressFamily, Backlog, SetSockOpt, SockFlag, SockType, SockaddrStorage, bind, getsockopt,
    listen, setsockopt, socket, sockopt,
};

use super::error::FlowError;
use super::host_model;

/// Bytes of received data at which a reader that is in no hurry is woken. TCP's
/// acknowledgements do not wait for the reader below that mark
/// (`__tcp_ack_snd_check`), so nothing changes on the wire, and sixteen times fewer
/// wake-ups take the path's time. A quarter of the first window (`tcp_rmem` 131072
/// gives 65535 bytes of it).
const WAKE_AT: i32 = 16 << 10;

/// Bytes of memory for datagrams that were not read yet: 5 ms of small ones at
/// 1 Gbit/s, with the kernel's 768 bytes of bookkeeping for each.
const DATAGRAM_MEMORY: usize = 16 << 20;

/// What both ends of a TCP connection are set to.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// What it belongs to, for errors: `flow/NAME`.
    owner: String,
    /// The kernel's name of the congestion control.
    pub control: String,
    /// The traffic class of every packet. The kernel keeps the ECN field to itself.
    class: u8,
    /// Whether TCP paces whatever the congestion control asks for.
    pace: bool,
    /// What its SYN asks for, beyond what its congestion control makes it.
    pub ecn: EcnMode,
    /// What the congestion control asks for by itself.
    pub needs: Needs,
    /// Whether data goes with the SYN where a cookie is known, if this end has some to
    /// send then.
    fast_open: bool,
    /// Whether it has.
    speaks_first: bool,
    /// The largest receive window.
    window: Option<u64>,
    /// How much may wait to be sent for the first time.
    unsent: Option<u64>,
    /// The flow of the plan of which it is an end.
    pub flow: Option<FlowId>,
    /// Whether this end sends the flow's data.
    pub sends: bool,
    /// Whether its reader is in no hurry.
    pub lazy: bool,
}

impl StreamOptions {
    /// What `socket` asks for, with the kernel's name of its congestion control.
    pub fn new(socket: &SocketPlan, tcp: &TcpPlan, control: String) -> Self {
        Self {
            owner: socket.owner.clone(),
            control,
            class: socket.traffic_class,
            pace: host_model::paces_always(&tcp.host),
            ecn: tcp.ecn,
            needs: tcp.control.needs(),
            fast_open: tcp.fast_open,
            window: tcp.window,
            unsent: tcp.unsent,
            flow: socket.end_of(),
            sends: socket.sends(),
            speaks_first: tcp.speaks_first,
            lazy: socket.end_of().is_some() && !socket.sends(),
        }
    }

    /// Refuses a congestion control that the kernel does not have, or does not let this
    /// user have.
    ///
    /// # Errors
    /// Which, and how to get it.
    pub fn check(&self) -> Result<(), FlowError> {
        self.unbound(SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)))
            .map(|_| ())
    }

    /// A socket at `local` that is to connect.
    ///
    /// # Errors
    /// If the kernel does not have the congestion control, or the address.
    pub fn connecting(&self, local: SocketAddr) -> Result<OwnedFd, FlowError> {
        let owner = Owner(&self.owner);
        let socket = self.bound(local)?;
        if self.with_syn() {
            let option = sockopt::TcpFastOpenConnect;
            owner.set(&socket, "send data with its SYN", option, &true)?;
        }
        Ok(socket)
    }

    /// Whether the first data goes with the SYN, if a cookie is known.
    pub fn with_syn(&self) -> bool {
        self.fast_open && self.speaks_first
    }

    /// A socket that listens at `local`.
    ///
    /// # Errors
    /// As [`connecting`](Self::connecting).
    pub fn listening(&self, local: SocketAddr, backlog: u32) -> Result<OwnedFd, FlowError> {
        let owner = Owner(&self.owner);
        let socket = self.bound(local)?;
        let most = i32::try_from(backlog).unwrap_or(Backlog::MAXCONN.into());
        if self.fast_open {
            socket_option::accept_fast_open(&socket, most)
                .map_err(owner.cannot("take data with the SYN"))?;
        }
        let backlog = Backlog::new(most).unwrap_or(Backlog::MAXCONN);
        listen(&socket, backlog).map_err(|e| owner.cannot("listen")(e.into()))?;
        Ok(socket)
    }

    fn bound(&self, local: SocketAddr) -> Result<OwnedFd, FlowError> {
        let socket = self.unbound(local)?;
        Owner(&self.owner).bind(&socket, local)?;
        Ok(socket)
    }

    fn unbound(&self, local: SocketAddr) -> Result<OwnedFd, FlowError> {
        let owner = Owner(&self.owner);
        let socket = owner.open(local, SockType::Stream)?;
        let class = i32::from(self.class);
        if local.is_ipv4() {
            owner.set(&socket, "set its DSCP", sockopt::Ipv4Tos, &class)?;
        } else {
            owner.set(&socket, "set its DSCP", sockopt::Ipv6TClass, &class)?;
        }
        let name = OsString::from(&self.control);
        setsockopt(&socket, sockopt::TcpCongestion, &name).map_err(|e| FlowError::Control {
            flow: self.owner.trim_start_matches("flow/").to_owned(),
            control: self.control.clone(),
            reason: e.into(),
        })?;
        // Closed by a kill, it is reset: one that waited for acknowledgements
        // that never come would keep its namespace and its congestion control
        // for minutes. The end of its stream is sent by shutdown(2), which this
        // does not change; a connection that is accepted has it from the listener.
        let reset = nix::libc::linger {
            l_onoff: 1,
            l_linger: 0,
        };
        owner.set(&socket, "be reset when closed", sockopt::Linger, &reset)?;
        if let Some(bytes) = self.window {
            socket_option::clamp_window(&socket, bytes)
                .map_err(owner.cannot("have a smaller window"))?;
        }
        if let Some(bytes) = self.unsent {
            socket_option::limit_unsent(&socket, bytes)
                .map_err(owner.cannot("limit what waits to be sent"))?;
        }
        if self.pace {
            socket_option::pace_always(&socket).map_err(owner.cannot("have it paced"))?;
        }
        if self.lazy {
            socket_option::wake_at_bytes(&socket, WAKE_AT)
                .map_err(owner.cannot("be woken seldom"))?;
        }
        Ok(socket)
    }
}

/// Makes errors of a socket that belongs to `what`.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a>(pub &'a str);

impl Owner<'_> {
    /// The error of an action that failed.
    pub fn cannot(self, action: impl Into<String>) -> impl FnOnce(io::Error) -> FlowError {
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

    fn open(self, local: SocketAddr, kind: SockType) -> Result<OwnedFd, FlowError> {
        let family = match local {
            SocketAddr::V4(_) => AddressFamily::Inet,
            SocketAddr::V6(_) => AddressFamily::Inet6,
        };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let socket = socket(family, kind, flags, None)
            .map_err(|e| self.cannot("open a socket")(e.into()))?;
        self.set(&socket, "share its port", sockopt::ReuseAddr, &true)?;
        if local.is_ipv6() {
            self.set(&socket, "speak IPv6 alone", sockopt::Ipv6V6Only, &true)?;
        }
        Ok(socket)
    }

    fn bind(self, socket: &OwnedFd, local: SocketAddr) -> Result<(), FlowError> {
        bind(socket.as_raw_fd(), &SockaddrStorage::from(local))
            .map_err(|e| self.cannot(format!("have {local}"))(e.into()))
    }

    /// A UDP socket at `local`, and whether it has memory enough to be read now and
    /// then only. Datagrams bear the time of their arrival and their traffic class; they are
    /// not fragmented unless it `fragments`.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn datagrams(
        self,
        local: SocketAddr,
        fragments: bool,
    ) -> Result<(OwnedFd, bool), FlowError> {
        let socket = self.open(local, SockType::Datagram)?;
        let read = "read the traffic class";
        if local.is_ipv4() {
            self.set(&socket, read, sockopt::IpRecvTos, &true)?;
        } else {
            self.set(&socket, read, sockopt::Ipv6RecvTClass, &true)?;
        }
        if !fragments {
            socket_option::never_fragment(&socket, local.is_ipv4())
                .map_err(self.cannot("have datagrams whole"))?;
        }
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
        // Without it, a datagram's time is that of its reading.
        let _ = setsockopt(&socket, sockopt::ReceiveTimestampns, &true);
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
