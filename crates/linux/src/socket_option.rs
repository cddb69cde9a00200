//! Socket options that have no safe wrapper.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use narrows_core::TcpInfo;
use nix::libc;

use crate::tcp_info::{TCP_INFO_LEN, parse_tcp_info};

/// `getsockopt(TCP_INFO)`: what the kernel says about a socket, even one that
/// is closed and no longer listed. `None` if it says nothing readable.
pub fn tcp_info(socket: &impl AsFd) -> Option<TcpInfo> {
    let (bytes, len) = get::<TCP_INFO_LEN>(socket, libc::IPPROTO_TCP, libc::TCP_INFO).ok()?;
    parse_tcp_info(&bytes[..len])
}

/// The value of an option of at most `N` bytes, and how many it has.
///
/// # Errors
/// What the kernel says.
pub fn get<const N: usize>(
    socket: &impl AsFd,
    level: i32,
    name: i32,
) -> io::Result<([u8; N], usize)> {
    let mut bytes = [0; N];
    let mut len = N as libc::socklen_t;
    // SAFETY: the descriptor is open while it is borrowed; the kernel writes
    // at most `len` bytes, which is what `bytes` has, and then sets `len`.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            bytes.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result == 0 {
        Ok((bytes, usize::try_from(len).unwrap_or(N).min(N)))
    } else {
        Err(io::Error::last_os_error())
    }
}

/// `SO_MAX_PACING_RATE` with a limit that never binds: TCP then paces by its
/// own timers whatever its congestion control asks for (`sk_pacing_status`,
/// Linux 4.13).
///
/// # Errors
/// What the kernel says.
pub fn pace_always(socket: &impl AsFd) -> io::Result<()> {
    // All ones would mean "no pacing asked for".
    set(
        socket,
        libc::SOL_SOCKET,
        libc::SO_MAX_PACING_RATE,
        u64::MAX - 1,
    )
}

/// `SO_RCVLOWAT`: wake the reader when so many bytes are there.
///
/// # Errors
/// What the kernel says.
pub fn wake_at_bytes(socket: &impl AsFd, bytes: i32) -> io::Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVLOWAT, bytes)
}

/// `TCP_WINDOW_CLAMP`: offer a receive window of at most so many bytes. Connections that a
/// listener accepts have it from there.
///
/// # Errors
/// What the kernel says.
pub fn clamp_window(socket: &impl AsFd, bytes: u64) -> io::Result<()> {
    let bytes = i32::try_from(bytes).unwrap_or(i32::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, bytes)
}

/// `TCP_NOTSENT_LOWAT`: the socket is writable while fewer bytes than half of these wait to
/// be sent for the first time.
///
/// # Errors
/// What the kernel says.
pub fn limit_unsent(socket: &impl AsFd, bytes: u64) -> io::Result<()> {
    let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
    set(socket, libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, bytes)
}

/// `IP_MTU_DISCOVER` and `IPV6_MTU_DISCOVER` with `IP_PMTUDISC_PROBE`: datagrams go out as
/// they are, whatever is known of the path, and are not fragmented.
///
/// # Errors
/// What the kernel says.
pub fn never_fragment(socket: &impl AsFd, ipv4: bool) -> io::Result<()> {
    if ipv4 {
        let (level, probe) = (libc::IPPROTO_IP, libc::IP_PMTUDISC_PROBE);
        return set(socket, level, libc::IP_MTU_DISCOVER, probe);
    }
    let (level, probe) = (libc::IPPROTO_IPV6, libc::IPV6_PMTUDISC_PROBE);
    set(socket, level, libc::IPV6_MTU_DISCOVER, probe)?;
    set(socket, level, libc::IPV6_DONTFRAG, 1)
}

/// `TCP_FASTOPEN`: a listener takes data with the SYN (RFC 7413), from at
/// most `waiting` connections that are not yet confirmed.
///
/// # Errors
/// What the kernel says.
pub fn accept_fast_open(socket: &impl AsFd, waiting: i32) -> io::Result<()> {
    set(socket, libc::IPPROTO_TCP, libc::TCP_FASTOPEN, waiting)
}

/// `SO_ATTACH_FILTER`: gets only what a program of classic BPF takes.
///
/// # Errors
/// What the kernel says.
pub fn filter(socket: &impl AsFd, program: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog {
        // The kernel takes no more than 4,096.
        len: u16::try_from(program.len()).unwrap_or(u16::MAX),
        filter: program.as_ptr().cast_mut(),
    };
    // The instructions outlive the call, which copies them.
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

/// Sets an option to an integer.
///
/// # Errors
/// What the kernel says.
pub fn set<T: Copy>(socket: &impl AsFd, level: i32, name: i32, value: T) -> io::Result<()> {
    // SAFETY: the descriptor is open while it is borrowed; the kernel reads
    // `size_of::<T>()` bytes of `value`, an integer that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}
