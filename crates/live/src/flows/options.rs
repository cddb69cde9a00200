//! The machine's sockets, with the options that a plan asks for.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use narrows_cc::Needs;
use narrows_core::FlowId;
use narrows_engine::{SocketPlan, TcpPlan};
use narrows_linux::tcp_options::{OptionError, TcpOptions, bind_to, family};
use narrows_scenario::EcnMode;
use nix::sys::socket::{AddressFamily, Backlog, setsockopt, sockopt};

use super::error::FlowError;
use super::host_model;

/// Bytes of received data at which a reader that is in no hurry is woken. TCP's
/// acknowledgements do not wait for the reader below that mark
/// (`__tcp_ack_snd_check`), so nothing changes on the wire, and sixteen times fewer
/// wake-ups take the path's time. A quarter of the first window (`tcp_rmem` 131072
/// gives 65535 bytes of it).
const WAKE_AT: i32 = 16 << 10;

/// What both ends of a TCP connection are set to.
#[derive(Clone, Debug)]
pub struct StreamOptions {
    /// What it belongs to, for errors: `flow/NAME`.
    owner: String,
    /// Those of its sockets.
    tcp: TcpOptions,
    /// What its SYN asks for, beyond what its congestion control makes it.
    pub ecn: EcnMode,
    /// What the congestion control asks for by itself.
    pub needs: Needs,
    /// Whether this end has data to send with the SYN, where that may go with it.
    speaks_first: bool,
    /// The flow of the plan of which it is an end.
    pub flow: Option<FlowId>,
    /// Whether this end sends the flow's data.
    pub sends: bool,
}

impl StreamOptions {
    /// What `socket` asks for, with the kernel's name of its congestion control.
    pub fn new(socket: &SocketPlan, tcp: &TcpPlan, control: String) -> Self {
        // Its reader is in no hurry.
        let lazy = socket.end_of().is_some() && !socket.sends();
        Self {
            owner: socket.owner.clone(),
            tcp: TcpOptions {
                control: Some(control),
                traffic_class: Some(socket.traffic_class),
                paced: host_model::paces_always(&tcp.host),
                fast_open: tcp.fast_open,
                window: tcp.window,
                unsent: tcp.unsent,
                wake_at: lazy.then_some(WAKE_AT),
                ..TcpOptions::default()
            },
            ecn: tcp.ecn,
            needs: tcp.control.needs(),
            flow: socket.end_of(),
            sends: socket.sends(),
            speaks_first: tcp.speaks_first,
        }
    }

    /// The kernel's name of the congestion control.
    pub fn control(&self) -> &str {
        self.tcp.control.as_deref().unwrap_or_default()
    }

    /// Refuses a congestion control that the kernel does not have, or does not let this
    /// user have.
    ///
    /// # Errors
    /// Which, and how to get it.
    pub fn check(&self) -> Result<(), FlowError> {
        let made = self.tcp.socket(AddressFamily::Inet);
        made.map(drop).map_err(|error| self.refused(error))
    }

    /// The error of a socket that cannot be had.
    fn refused(&self, error: OptionError) -> FlowError {
        Owner(&self.owner).refused(error, self.control())
    }

    /// A socket at `local` that is to connect.
    ///
    /// # Errors
    /// If the kernel does not have the congestion control, or the address.
    pub fn connecting(&self, local: SocketAddr) -> Result<OwnedFd, FlowError> {
        let socket = self.bound(local)?;
        if self.with_syn() {
            setsockopt(&socket, sockopt::TcpFastOpenConnect, &true)
                .map_err(|e| Owner(&self.owner).cannot("send data with its SYN")(e.into()))?;
        }
        Ok(socket)
    }

    /// Whether the first data goes with the SYN, if a cookie is known.
    pub fn with_syn(&self) -> bool {
        self.tcp.fast_open && self.speaks_first
    }

    /// A socket that listens at `local`.
    ///
    /// # Errors
    /// As [`connecting`](Self::connecting).
    pub fn listening(&self, local: SocketAddr, backlog: u32) -> Result<OwnedFd, FlowError> {
        let socket = self.bound(local)?;
        let most = i32::try_from(backlog).ok();
        let waiting = most.and_then(|most| Backlog::new(most).ok());
        let listens = self
            .tcp
            .listen(&socket, waiting.unwrap_or(Backlog::MAXCONN));
        listens.map_err(|error| self.refused(error))?;
        Ok(socket)
    }

    fn bound(&self, local: SocketAddr) -> Result<OwnedFd, FlowError> {
        let bound = || -> Result<OwnedFd, OptionError> {
            let socket = self.tcp.socket(family(local))?;
            bind_to(&socket, local)?;
            Ok(socket)
        };
        bound().map_err(|error| self.refused(error))
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

    /// The error of a socket that cannot be had, with `control` as its congestion control.
    pub fn refused(self, error: OptionError, control: &str) -> FlowError {
        match error {
            OptionError::Control(reason) => FlowError::Control {
                flow: self.0.trim_start_matches("flow/").to_owned(),
                control: control.to_owned(),
                reason: reason.into(),
            },
            OptionError::Other { action, reason } => self.cannot(action)(reason.into()),
        }
    }
}
