//! What calls on a stream's socket take and give, for both layers of sockets: that of a
//! laboratory's hosts ([`flows`](crate::flows)) and that of a proxy ([`pep`](crate::pep)).

use std::io;

use narrows_core::{ConnectionError, Data};
use nix::errno::Errno;

/// Bytes that are written at once at most: few calls, and no connection keeps the others of
/// its process waiting for long.
pub const AT_ONCE: usize = 256 << 10;

/// Zeros to send, shared by all writes.
static ZEROS: [u8; AT_ONCE] = [0; AT_ONCE];

/// What is to be sent of `data`, or the first of it: at most [`AT_ONCE`] bytes.
pub fn first_of(data: Data<'_>) -> &[u8] {
    match data {
        Data::Bytes(bytes) => &bytes[..bytes.len().min(AT_ONCE)],
        Data::Zeros(bytes) => &ZEROS[..bytes.min(AT_ONCE as u64) as usize],
    }
}

/// The kernel's number of an error; `EIO` where it is not the kernel's.
pub fn errno(error: &io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// The error of a connection that ended with `why`: reset by its peer, or timed out.
pub fn connection_error(why: Errno) -> ConnectionError {
    match why {
        Errno::ECONNREFUSED | Errno::ECONNRESET | Errno::EPIPE => ConnectionError::Reset,
        _ => ConnectionError::TimedOut,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_sent_at_once_than_is_allowed() {
        assert_eq!(first_of(Data::Bytes(b"abc")), b"abc");
        assert_eq!(first_of(Data::Zeros(3)), [0; 3]);
        let many = vec![1; AT_ONCE + 1];
        assert_eq!(first_of(Data::Bytes(&many)).len(), AT_ONCE);
        assert_eq!(first_of(Data::Zeros(u64::MAX)).len(), AT_ONCE);
    }

    #[test]
    fn a_peer_that_answers_no_and_one_that_does_not_answer_are_told_apart() {
        for why in [Errno::ECONNREFUSED, Errno::ECONNRESET, Errno::EPIPE] {
            assert_eq!(connection_error(why), ConnectionError::Reset, "{why}");
        }
        for why in [Errno::ETIMEDOUT, Errno::EHOSTUNREACH, Errno::ENETUNREACH] {
            assert_eq!(connection_error(why), ConnectionError::TimedOut, "{why}");
        }
    }

    #[test]
    fn an_error_that_is_not_the_kernel_s_is_one_of_input_and_output() {
        let refused = io::Error::from_raw_os_error(Errno::ECONNREFUSED as i32);
        assert_eq!(errno(&refused), Errno::ECONNREFUSED);
        assert_eq!(errno(&io::ErrorKind::Other.into()), Errno::EIO);
    }
}
