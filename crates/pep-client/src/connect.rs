//! A connection by a proxy, for programs that ask for it themselves.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};

use narrows_pep::convert::{Fault, HEADER_LEN, Reader, Tlv};
use narrows_pep::{Layout, Parent, request};
use narrows_units::Duration;

use crate::open::{Deadline, established, open, read};

/// How a connection is to be opened.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// The proxy, and what becomes of the connection without it.
    pub parent: Parent,
    /// How long a direct connection may take to open; `None` leaves it to the system, which
    /// takes some two minutes (`net.ipv4.tcp_syn_retries`).
    pub direct: Option<Duration>,
    /// What is sent first, with the SYN where Fast Open allows it. It may reach the
    /// destination twice: with a SYN that is repeated (RFC 7413 §2.1), and by the proxy and
    /// directly where that is too slow to say that it has passed it on. For what bears it
    /// only.
    pub early: &'a [u8],
}

impl Call<'_> {
    /// By that proxy, with nothing sent before there is an answer.
    pub fn by(parent: Parent) -> Self {
        Self {
            parent,
            direct: None,
            early: &[],
        }
    }
}

/// A connection that is open to its destination.
#[derive(Debug)]
pub struct Connected {
    /// It. What is read first is the destination's.
    pub stream: TcpStream,
    /// Why it goes there directly, if it does.
    pub directly: Option<WithoutProxy>,
}

/// Why a proxy does not do what it is asked for.
#[derive(Debug)]
#[non_exhaustive]
pub enum WithoutProxy {
    /// It did not answer in time, or is not there.
    Missing(io::Error),
    /// It answered so.
    Refused(Fault),
}

impl fmt::Display for WithoutProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(error) => write!(f, "the proxy does not answer: {error}"),
            Self::Refused(fault) => write!(f, "the proxy refuses: {fault}"),
        }
    }
}

impl std::error::Error for WithoutProxy {}

/// Why no connection was opened.
#[derive(Debug)]
pub(crate) enum NotConnected {
    /// The proxy does not do it, and nothing else was allowed.
    ByProxy(WithoutProxy),
    /// Neither way.
    EitherWay {
        /// What became of the proxy.
        proxy: WithoutProxy,
        /// What became of the direct connection.
        direct: io::Error,
    },
}

impl From<NotConnected> for io::Error {
    fn from(not: NotConnected) -> Self {
        match not {
            NotConnected::ByProxy(WithoutProxy::Missing(error)) => error,
            NotConnected::ByProxy(refused) => Self::new(refused.kind(), refused),
            NotConnected::EitherWay { direct, .. } => direct,
        }
    }
}

/// Opens a connection to `destination` as `call` says, and waits until the destination has
/// accepted; the request goes with the SYN where a Fast Open cookie is known, and otherwise
/// after the plain handshake. Where the proxy is missing for longer than its patience, or
/// refuses, it is opened directly if that is allowed.
///
/// # Errors
/// If there is no connection either way.
pub fn connect(destination: SocketAddr, call: &Call<'_>) -> io::Result<Connected> {
    Ok(try_both(destination, call)?)
}

pub(crate) fn try_both(
    destination: SocketAddr,
    call: &Call<'_>,
) -> Result<Connected, NotConnected> {
    let proxy = match by_proxy(destination, call) {
        Ok(stream) => {
            let directly = None;
            return Ok(Connected { stream, directly });
        }
        Err(why) => why,
    };
    if !call.parent.or_directly {
        return Err(NotConnected::ByProxy(proxy));
    }
    match direct(destination, call) {
        Ok(stream) => {
            let directly = Some(proxy);
            Ok(Connected { stream, directly })
        }
        Err(direct) => Err(NotConnected::EitherWay { proxy, direct }),
    }
}

impl WithoutProxy {
    /// What the system would have said of a direct connection.
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Missing(error) => error.kind(),
            Self::Refused(Fault::ConnectionReset) => ErrorKind::ConnectionRefused,
            Self::Refused(Fault::DestinationUnreachable { .. }) => ErrorKind::HostUnreachable,
            Self::Refused(Fault::NotAuthorized) => ErrorKind::PermissionDenied,
            Self::Refused(_) => ErrorKind::Other,
        }
    }
}

fn direct(destination: SocketAddr, call: &Call<'_>) -> io::Result<TcpStream> {
    let deadline = Deadline::within(call.direct);
    let stream = open(destination, call.early, deadline)?;
    established(&stream, deadline)?;
    blocking(stream)
}

fn by_proxy(destination: SocketAddr, call: &Call<'_>) -> Result<TcpStream, WithoutProxy> {
    // Of all that follows together.
    let deadline = Deadline::within(Some(call.parent.patience));
    match asked(destination, call, None, deadline) {
        // It wants to know that the address is ours: it is shown what it gives.
        Err(WithoutProxy::Refused(Fault::MissingCookie(given))) => {
            asked(destination, call, Some(&given), deadline)
        }
        other => other,
    }
}

/// The connection that the proxy gives for a request with `cookie`.
fn asked(
    destination: SocketAddr,
    call: &Call<'_>,
    cookie: Option<&[u8]>,
    deadline: Deadline,
) -> Result<TcpStream, WithoutProxy> {
    let missing = WithoutProxy::Missing;
    let mut first = request(Layout::Convert, destination, cookie)
        .ok_or_else(|| missing(ErrorKind::InvalidInput.into()))?;
    first.extend_from_slice(call.early);
    let stream = open(call.parent.proxy, &first, deadline).map_err(missing)?;
    match answer(&stream, deadline).map_err(missing)? {
        None => blocking(stream).map_err(missing),
        Some(fault) => Err(WithoutProxy::Refused(fault)),
    }
}

fn blocking(stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// The fault that the proxy answers, if it is one.
fn answer(stream: &TcpStream, deadline: Deadline) -> io::Result<Option<Fault>> {
    let mut reader = Reader::default();
    let mut bytes = [0; HEADER_LEN];
    loop {
        // No more than are the answer's: the rest is the destination's.
        let wanted = reader.wanted().min(bytes.len());
        let came = read(stream, &mut bytes[..wanted], deadline)?;
        if came == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let whole = reader.take(&bytes[..came]);
        if let Some((message, _)) = whole.map_err(io::Error::other)? {
            return Ok(message.tlvs.into_iter().find_map(|tlv| match tlv {
                Tlv::Error(fault) => Some(fault),
                _ => None,
            }));
        }
    }
}
