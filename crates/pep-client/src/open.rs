//! A TCP connection that is opened with data, within a time.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use narrows_units::Duration;
use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, SockaddrStorage, connect, sendto, socket,
};

/// When something must be done; never, where it is `None`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// After that time, from now.
    pub fn within(time: Option<Duration>) -> Self {
        let time = time.map(|t| std::time::Duration::from_nanos(t.as_nanos()));
        Self(time.and_then(|t| Instant::now().checked_add(t)))
    }

    /// What is left, as poll(2) takes it.
    fn left(self) -> io::Result<PollTimeout> {
        let Some(at) = self.0 else {
            return Ok(PollTimeout::NONE);
        };
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        // Rounded up, so that poll does not come back at once, over and over.
        let ms = left.as_micros().div_ceil(1000);
        Ok(PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX))
    }
}

/// Waits until `stream` is ready for what `flags` say, or in error.
fn wait(stream: &TcpStream, flags: PollFlags, deadline: Deadline) -> io::Result<()> {
    loop {
        let mut polled = [PollFd::new(stream.as_fd(), flags)];
        match poll(&mut polled, deadline.left()?) {
            // Out of time, which `left` says next, or a signal.
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Opens a connection, and sends `first` on it: in the SYN as far as that has room and a Fast
/// Open cookie is known, otherwise behind the handshake, which is waited for only then. The
/// stream does not block.
pub(crate) fn open(to: SocketAddr, first: &[u8], deadline: Deadline) -> io::Result<TcpStream> {
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    };
    // It does not block, so that what was sent with the SYN is known whatever comes between.
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let mut stream = TcpStream::from(socket(family, SockType::Stream, flags, None)?);
    let sent = begin(&stream, &SockaddrStorage::from(to), first)?;
    let mut rest = &first[sent..];
    if !rest.is_empty() {
        established(&stream, deadline)?;
    }
    while !rest.is_empty() {
        match stream.write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                wait(&stream, PollFlags::POLLOUT, deadline)?;
            }
            Err(e) => return Err(e),
        }
    }
    Ok(stream)
}

/// Waits for the end of the handshake.
pub(crate) fn established(stream: &TcpStream, deadline: Deadline) -> io::Result<()> {
    wait(stream, PollFlags::POLLOUT, deadline)?;
    stream.take_error()?.map_or(Ok(()), Err)
}

/// Sends the SYN; how much of `first` went with it.
fn begin(stream: &TcpStream, to: &SockaddrStorage, first: &[u8]) -> io::Result<usize> {
    let fd = stream.as_raw_fd();
    if !first.is_empty() {
        let flags = MsgFlags::from_bits_retain(libc::MSG_FASTOPEN) | MsgFlags::MSG_NOSIGNAL;
        match sendto(fd, first, to, flags) {
            Ok(sent) => return Ok(sent),
            // Without a cookie, which it asks for.
            Err(Errno::EINPROGRESS) => return Ok(0),
            // Fast Open is switched off (net.ipv4.tcp_fastopen): the plain handshake.
            Err(Errno::EOPNOTSUPP) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    match connect(fd, to) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(0),
        Err(errno) => Err(errno.into()),
    }
}

/// Reads what there is, and waits for it.
pub(crate) fn read(
    mut stream: &TcpStream,
    bytes: &mut [u8],
    deadline: Deadline,
) -> io::Result<usize> {
    loop {
        match stream.read(bytes) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                wait(stream, PollFlags::POLLIN, deadline)?;
            }
            read => return read,
        }
    }
}
