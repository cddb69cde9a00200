//! Applications on hosts, and the socket interface by which they use the network.
//!
//! An [`App`] is a state machine without I/O: it is started, receives events of its
//! sockets and the expiry of its timer, and acts through [`Sockets`]: over simulated hosts,
//! or over a machine's own sockets. So an application is written once.

use std::net::{IpAddr, SocketAddr};

use narrows_units::{Duration, Instant};

use crate::counted::CountedBytes;
use crate::event::{Event, FlowSample};

/// Bytes that a stream socket takes ahead of what is in flight at least: four of the
/// largest bursts that segmentation makes (64 KiB). A machine's own TCP sizes its send
/// buffers itself.
pub const WRITE_AHEAD: u64 = 256 << 10;

/// A socket of a host. A number is used again after its socket was closed and its
/// connection has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u32);

/// One of a host's resolved sets of socket options: transport, congestion control, ECN,
/// DSCP and the like. Which number has which options is settled when the run is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Profile(pub u32);

/// What is written to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Data<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// So many zeros, which are counted and not stored.
    Zeros(u64),
}

impl Data<'_> {
    /// How many bytes that is.
    pub fn len(&self) -> u64 {
        match self {
            Data::Bytes(bytes) => bytes.len() as u64,
            Data::Zeros(bytes) => *bytes,
        }
    }

    /// Whether that is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Something that happened to a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketEvent {
    /// A listener has a connection to accept.
    Incoming,
    /// The handshake is complete.
    Established {
        /// Classic ECN is in use; of QUIC, that packets carry ECT(0).
        ecn: bool,
        /// Accurate ECN is in use.
        accecn: bool,
    },
    /// Data, or a datagram, may be read.
    Readable,
    /// There is room to write, for an application that asked
    /// ([`Sockets::want_room`]).
    Writable,
    /// All that the peer sends has arrived, its end included.
    PeerClosed,
    /// All that was written was acknowledged, its end included. Only of
    /// transports that know it.
    Acknowledged,
    /// The connection is gone: reset, refused or timed out.
    Broken(ConnectionError),
    /// The network reports an error of a datagram that was sent from here
    /// ([`Sockets::receive_error`]).
    Error,
}

/// Why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionError {
    /// The peer reset or refused it.
    Reset,
    /// It was given up after too many retransmissions, or after its idle time.
    TimedOut,
}

impl std::fmt::Display for ConnectionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Reset => "reset by the other end",
            Self::TimedOut => "timed out",
        })
    }
}

/// Why a socket operation was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SocketError {
    /// Another socket has this local address (`EADDRINUSE`).
    AddressInUse(SocketAddr),
    /// No path leads to this address (`EHOSTUNREACH`).
    Unreachable(SocketAddr),
    /// The profile's transport has no such operation (`EOPNOTSUPP`).
    Unsupported,
    /// There is no such socket (`EBADF`).
    Closed,
    /// The host has no local port left (`EADDRNOTAVAIL`).
    NoPort,
    /// The congestion control has no such option, or it does not take this value
    /// (`ENOPROTOOPT`, `EINVAL`); the sentence says what is allowed.
    Option(String),
    /// The datagram is longer than the first link takes (`EMSGSIZE`).
    TooLong {
        /// The longest payload that it takes, in bytes.
        most: u32,
    },
    /// A machine's own stack refused it, with this `errno`.
    System(i32),
}

impl std::fmt::Display for SocketError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AddressInUse(at) => write!(f, "the address {at} is in use"),
            Self::Unreachable(to) => write!(f, "no path leads to {to}"),
            Self::Unsupported => f.write_str("the transport has no such operation"),
            Self::Closed => f.write_str("there is no such socket"),
            Self::NoPort => f.write_str("the host has no local port left"),
            Self::Option(why) => f.write_str(why),
            Self::TooLong { most } => write!(f, "the link takes at most {most} bytes of payload"),
            Self::System(errno) => std::io::Error::from_raw_os_error(*errno).fmt(f),
        }
    }
}

impl std::error::Error for SocketError {}

/// A datagram that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Its sender.
    pub from: SocketAddr,
    /// Bytes of payload, those included that are only counted.
    pub len: u32,
    /// When the host received it.
    pub at: Instant,
}

/// What the network says about a datagram that it did not deliver, as Linux's
/// `IP_RECVERR` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramError {
    /// To whom the datagram was sent.
    pub to: SocketAddr,
    /// Who reports.
    pub reporter: IpAddr,
    /// Why it was not delivered.
    pub why: Undelivered,
}

/// Why a datagram was not delivered, as ICMP says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Undelivered {
    /// A link takes packets of at most `mtu` bytes, IP header included
    /// (`EMSGSIZE`).
    TooBig {
        /// Not checked against what was sent (RFC 8899 §4.6.1).
        mtu: u32,
    },
    /// No socket has the port (`ECONNREFUSED`).
    PortUnreachable,
    /// No way leads there, a rule forbids it, or it made too many hops
    /// (`EHOSTUNREACH`).
    Unreachable,
}

/// What one call of [`Sockets::relay`] did, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// Read of the one connection.
    pub read: u64,
    /// Written to the other: what had waited, or was read now.
    pub written: u64,
    /// More is there and was left, until the other has room.
    pub left: bool,
}

/// What an application may do on its host.
///
/// Calls never block. What they cause (packets, events) follows after the
/// application's own call has returned.
pub trait Sockets {
    /// The run's time.
    fn now(&self) -> Instant;

    /// Reports what the application measures.
    fn record(&mut self, event: Event<'static>);

    /// Sets the application's one timer, or stops it.
    fn wake_at(&mut self, at: Option<Instant>);

    /// Opens a connection to `remote`, from `local` or, where that is `None`, from a
    /// free port.
    ///
    /// # Errors
    /// [`SocketError::AddressInUse`], [`SocketError::Unreachable`],
    /// [`SocketError::NoPort`], [`SocketError::Unsupported`] for datagrams.
    fn connect(
        &mut self,
        profile: Profile,
        local: Option<SocketAddr>,
        remote: SocketAddr,
    ) -> Result<SocketId, SocketError>;

    /// Listens for connections to `local`, of which `backlog` may wait to be accepted.
    ///
    /// # Errors
    /// [`SocketError::AddressInUse`], [`SocketError::Unsupported`] for datagrams.
    fn listen(
        &mut self,
        profile: Profile,
        local: SocketAddr,
        backlog: u32,
    ) -> Result<SocketId, SocketError>;

    /// The next connection of a listener, and who opened it.
    fn accept(&mut self, listener: SocketId) -> Option<(SocketId, SocketAddr)>;

    /// Opens a socket for datagrams.
    ///
    /// # Errors
    /// [`SocketError::AddressInUse`], [`SocketError::Unsupported`] for streams.
    fn bind(&mut self, profile: Profile, local: SocketAddr) -> Result<SocketId, SocketError>;

    /// Where to the client of a connection that was accepted had opened it, where the host
    /// led it here.
    fn destination_of(&mut self, socket: SocketId) -> Option<SocketAddr> {
        let _ = socket;
        None
    }

    /// Whether the host has this address itself.
    fn is_own(&self, address: IpAddr) -> bool;

    /// Reads up to `most` bytes of a stream, into `into` if they are wanted; how many
    /// there were.
    fn read(&mut self, socket: SocketId, most: u64, into: Option<&mut Vec<u8>>) -> u64;

    /// Reads up to `most` bytes of a stream to the end of `into`, zeros that are only
    /// counted as such; how many there were.
    fn read_counted(&mut self, socket: SocketId, most: u64, into: &mut CountedBytes) -> u64 {
        let mut bytes = Vec::new();
        let read = self.read(socket, most, Some(&mut bytes));
        into.append(&bytes);
        read
    }

    /// Relays: writes what waits in `queue` to `to`, then of what `from` has what `to` takes as
    /// well, and reads up to `ahead` bytes more, which wait at the end of `queue`. Where `ahead`
    /// is 0 nothing is kept: what `to` has no room for stays with `from`. An implementation may
    /// leave the writing to its caller, and with it what `to` takes in `queue`; or bytes that
    /// `to` has no room for unread.
    fn relay(
        &mut self,
        from: SocketId,
        to: SocketId,
        ahead: u64,
        queue: &mut CountedBytes,
    ) -> Relayed;

    /// Writes to a stream; how many bytes were taken.
    fn write(&mut self, socket: SocketId, data: Data<'_>) -> u64;

    /// Whether [`SocketEvent::Writable`] is to be reported while there is room.
    fn want_room(&mut self, socket: SocketId, want: bool);

    /// Finds out whether the peer of a connection is still there where nothing was received of it
    /// for the time `every`, now and from now on, if its transport can: [`SocketEvent::Broken`]
    /// follows if it is not.
    fn probe(&mut self, _socket: SocketId, _every: Duration) {}

    /// Ends the stream after what was written (half-close); reading goes on. A listener
    /// stops listening.
    fn shut_down(&mut self, socket: SocketId);

    /// Resets the connection.
    fn reset(&mut self, socket: SocketId);

    /// Sets an option of a connection's congestion control by its name, before it is
    /// established or while it runs. The value is in the option's own unit:
    /// microseconds, bytes, the place of a word among its choices.
    ///
    /// # Errors
    /// [`SocketError::Option`], [`SocketError::Closed`], [`SocketError::Unsupported`]
    /// where connections have no such options.
    fn set_option(&mut self, socket: SocketId, name: &str, value: u64) -> Result<(), SocketError> {
        let _ = (socket, name, value);
        Err(SocketError::Unsupported)
    }

    /// The value of such an option, if there is one of that name.
    fn option(&mut self, socket: SocketId, name: &str) -> Option<u64> {
        let _ = (socket, name);
        None
    }

    /// A snapshot of what the connection sends, where its transport has one.
    fn sample(&mut self, socket: SocketId) -> Option<FlowSample> {
        let _ = socket;
        None
    }

    /// The application is done with the socket: no event of it follows, its connection
    /// ends as agreed.
    fn close(&mut self, socket: SocketId);

    /// Sends a datagram to `to`: `payload`, then zeros up to `len` bytes. It is not
    /// fragmented, whatever is known of the path (Linux's `IP_PMTUDISC_PROBE`).
    ///
    /// # Errors
    /// [`SocketError::Closed`], [`SocketError::Unreachable`],
    /// [`SocketError::TooLong`].
    fn send_to(
        &mut self,
        socket: SocketId,
        to: SocketAddr,
        payload: &[u8],
        len: u32,
    ) -> Result<(), SocketError>;

    /// Takes the next datagram; the stored part of its payload replaces what is in `into`.
    fn receive_from(&mut self, socket: SocketId, into: &mut Vec<u8>) -> Option<Datagram>;

    /// Takes the next error of a datagram that was sent; what the report quotes of its
    /// payload replaces what is in `into`. An implementation to which the network's
    /// errors do not come has none.
    fn receive_error(&mut self, socket: SocketId, into: &mut Vec<u8>) -> Option<DatagramError> {
        let _ = (socket, into);
        None
    }
}

/// An application on a host.
pub trait App: Send {
    /// The run begins: listeners open here.
    ///
    /// # Errors
    /// If the application cannot begin; the run then does not.
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError>;

    /// Something happened to a socket of this application.
    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets);

    /// The time that was set by [`Sockets::wake_at`] has come. The timer is then
    /// stopped.
    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let _ = host;
    }

    /// It is time for a sample: an application that reports of itself does so now.
    fn sample(&mut self, host: &mut dyn Sockets) {
        let _ = host;
    }

    /// The run ends: what is not reported yet is reported now.
    fn end(&mut self, host: &mut dyn Sockets) {
        let _ = host;
    }
}

impl<A: App + ?Sized> App for Box<A> {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        (**self).start(host)
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        (**self).on_event(socket, event, host);
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        (**self).on_timer(host);
    }

    fn sample(&mut self, host: &mut dyn Sockets) {
        (**self).sample(host);
    }

    fn end(&mut self, host: &mut dyn Sockets) {
        (**self).end(host);
    }
}
