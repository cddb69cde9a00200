//! What a program sets on its own sockets where it runs under `narrows by`: the options of
//! `crates/narrows/include/narrows_by.h`.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use narrows_linux::socket_option::{get, set};

/// `SOL_NARROWS`, and the options at that level.
const LEVEL: i32 = 0x4e57;
const DEADLINE: i32 = 1;
const SIZE: i32 = 2;
const STATUS: i32 = 3;
/// Bytes of `struct narrows_by_status`.
const STATUS_BYTES: usize = 40;

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SocketStatus {
    /// Time to the deadline; none past it.
    pub left: Duration,
    /// Bytes to deliver by then.
    pub remaining: u64,
    /// Bytes per second that this takes, in the last interval.
    pub target: u64,
    /// Bytes per second that were delivered in it.
    pub achieved: u64,
    /// 0.05 yields to everything, 1 is best effort.
    pub weight: f64,
    /// Intervals in a row in which best effort is reckoned to be slower than is needed: from 3
    /// on the deadline is out of reach.
    pub short_of: u32,
}

/// Sets when all of a connection of this program is to be delivered, from now on.
///
/// # Errors
/// `ENOPROTOOPT` where the program does not run under `narrows by`; `EINVAL` for no time or
/// more than a year.
pub fn set_deadline(socket: &impl AsFd, from_now: Duration) -> io::Result<()> {
    let us = u64::try_from(from_now.as_micros()).unwrap_or(u64::MAX);
    set(socket, LEVEL, DEADLINE, us)
}

/// Sets how many bytes a connection of this program is to deliver in all.
///
/// # Errors
/// `ENOPROTOOPT` where the program does not run under `narrows by`; `EINVAL` for none, for no
/// more than it has delivered already, and for more than 2⁵⁰.
pub fn set_size(socket: &impl AsFd, bytes: u64) -> io::Result<()> {
    set(socket, LEVEL, SIZE, bytes)
}

/// How far a connection of this program is.
///
/// # Errors
/// `ENOPROTOOPT` where the program does not run under `narrows by`; `EINVAL` of a connection
/// that is not established.
pub fn status(socket: &impl AsFd) -> io::Result<SocketStatus> {
    let (bytes, _) = get::<STATUS_BYTES>(socket, LEVEL, STATUS)?;
    let word = |place: usize| {
        let word = bytes[8 * place..].first_chunk();
        u64::from_ne_bytes(*word.expect("five words"))
    };
    let half = |at: usize| u32::from_ne_bytes(*bytes[at..].first_chunk().expect("40 bytes"));
    Ok(SocketStatus {
        left: Duration::from_micros(word(0)),
        remaining: word(1),
        target: word(2),
        achieved: word(3),
        weight: f64::from(half(32)) / 1000.0,
        short_of: half(36),
    })
}
