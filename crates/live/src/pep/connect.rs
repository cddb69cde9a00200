//! A connection by a proxy, for programs that ask for it themselves.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Instant;

use narrows_pep::convert::{Fault, HEADER_LEN, Reader, Tlv};
use narrows_pep::{Layout, Parent, request};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect as connect_socket,
    sendto, socket,
};

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

/// Opens a connection to `destination` by the proxy `parent`, and waits until the destination
/// has accepted; the request goes with the SYN where a Fast Open cookie is known. Where the
/// proxy is missing for longer than its patience, or refuses, it is opened directly if that
/// is allowed.
///
/// # Errors
/// If there is no connection either way.
pub fn connect(destination: SocketAddr, parent: &Parent) -> io::Result<Connected> {
    let why = match by_proxy(destination, parent, None) {
        Ok(stream) => {
            let directly = None;
            return Ok(Connected { stream, directly });
        }
        Err(why) => why,
    };
    if !parent.or_directly {
        return Err(match why {
            WithoutProxy::Missing(error) => error,
            refused => io::Error::other(refused),
        });
    }
    let stream = TcpStream::connect(destination)?;
    let directly = Some(why);
    Ok(Connected { stream, directly })
}

fn by_proxy(
    destination: SocketAddr,
    parent: &Parent,
    cookie: Option<&[u8]>,
) -> Result<TcpStream, WithoutProxy> {
    let patience = std::time::Duration::from_nanos(parent.patience.as_nanos());
    let until = Instant::now() + patience;
    let asks = request(Layout::Convert, destination, cookie).unwrap_or_default();
    let mut stream = open(parent.proxy, &asks, patience).map_err(WithoutProxy::Missing)?;
    match answer(&mut stream, until).map_err(WithoutProxy::Missing)? {
        None => {
            let unlimited = stream.set_read_timeout(None);
            let unlimited = unlimited.and_then(|()| stream.set_write_timeout(None));
            unlimited.map_err(WithoutProxy::Missing)?;
            Ok(stream)
        }
        // It wants to know that the address is ours: it is shown what it gives.
        Some(Fault::MissingCookie(given)) if cookie.is_none() => {
            by_proxy(destination, parent, Some(&given))
        }
        Some(fault) => Err(WithoutProxy::Refused(fault)),
    }
}

/// A connection to the proxy, with the request sent.
fn open(proxy: SocketAddr, asks: &[u8], patience: std::time::Duration) -> io::Result<TcpStream> {
    let family = match proxy {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    let fd: OwnedFd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let mut stream = TcpStream::from(fd);
    // Of connecting, too (socket(7), SO_SNDTIMEO).
    stream.set_write_timeout(Some(patience))?;
    stream.set_nodelay(true)?;
    let flags = MsgFlags::from_bits_retain(libc::MSG_FASTOPEN) | MsgFlags::MSG_NOSIGNAL;
    let (fd, proxy) = (stream.as_raw_fd(), SockaddrStorage::from(proxy));
    match sendto(fd, asks, &proxy, flags) {
        Ok(sent) if sent < asks.len() => return Err(ErrorKind::TimedOut.into()),
        // Fast Open is switched off (net.ipv4.tcp_fastopen): the plain handshake.
        Err(Errno::EOPNOTSUPP) => {
            connect_socket(fd, &proxy)?;
            stream.write_all(asks)?;
        }
        sent => {
            sent?;
        }
    }
    Ok(stream)
}

/// The fault that the proxy answers, if it is one.
fn answer(stream: &mut TcpStream, until: Instant) -> io::Result<Option<Fault>> {
    let mut reader = Reader::default();
    let mut bytes = [0; HEADER_LEN];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        // No more than are the answer's: the rest is the destination's.
        let wanted = reader.wanted().min(bytes.len());
        let read = stream.read(&mut bytes[..wanted])?;
        if read == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let whole = reader.take(&bytes[..read]);
        if let Some((message, _)) = whole.map_err(io::Error::other)? {
            return Ok(message.tlvs.into_iter().find_map(|tlv| match tlv {
                Tlv::Error(fault) => Some(fault),
                _ => None,
            }));
        }
    }
}
