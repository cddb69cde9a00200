//! What C calls: `include/narrows_pep_client.h`, which says what its fields mean.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::fd::IntoRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::slice;

use narrows_pep::Parent;
use narrows_units::Duration;
use nix::errno::Errno;
use nix::libc::{c_int, c_void, sockaddr, socklen_t};

use crate::connect::{Call, Connected, NotConnected, WithoutProxy, try_both};
use crate::socket_address::{self, LONGEST};

/// `NARROWS_ONLY`.
const ONLY: u32 = 1;

/// Where `patience_ms` is 0: the default of `narrows pep run`.
const PATIENCE: Duration = Duration::from_millis(3000);

/// Bytes of `early` at most (our choice): what two connections take before either has opened.
const MOST_EARLY: usize = 16 << 10;

/// `struct narrows_via`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Via {
    proxy: *const sockaddr,
    proxy_len: socklen_t,
    flags: u32,
    patience_ms: u32,
    direct_ms: u32,
    early: *const c_void,
    early_len: usize,
}

/// `struct narrows_how`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct How {
    way: c_int,
    error: c_int,
    fault: c_int,
}

/// `enum narrows_way`.
const BY_PROXY: c_int = 1;
const PROXY_MISSING: c_int = 2;
const PROXY_REFUSED: c_int = 3;

/// What C points to.
///
/// # Safety
/// `start` is null, or `len` bytes can be read there, and nobody changes them as long as what
/// is returned is used.
// SAFETY: whether that is so only the callers, who pass on what C has promised, can know.
unsafe fn bytes<'a>(start: *const c_void, len: usize) -> Result<&'a [u8], Errno> {
    if len == 0 {
        return Ok(&[]);
    }
    let start = NonNull::new(start.cast_mut().cast::<u8>()).ok_or(Errno::EFAULT)?;
    // SAFETY: it is not null, a byte has no alignment, and the caller has promised the rest.
    Ok(unsafe { slice::from_raw_parts(start.as_ptr(), len) })
}

fn address_len(len: socklen_t) -> usize {
    usize::try_from(len).map_or(LONGEST, |len| len.min(LONGEST))
}

/// Opens a TCP connection to `to` by the proxy of `via`, or directly, as the header says.
/// Returns its descriptor, or -1 with `errno` set.
///
/// # Safety
/// The pointers are null or point to what the header says, with the lengths beside them; `via`
/// and what it points to do not change during the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn narrows_connect(
    to: *const sockaddr,
    to_len: socklen_t,
    via: *const Via,
    how: *mut How,
) -> c_int {
    let call = || {
        // SAFETY: the caller passes null or a `struct narrows_via`.
        let via = *unsafe { via.as_ref() }.ok_or(Errno::EFAULT)?;
        if via.flags & !ONLY != 0 || via.early_len > MOST_EARLY {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the caller passes addresses and data with their lengths, and leaves them as
        // they are until we return.
        let (to, proxy, early) = unsafe {
            let to = bytes(to.cast(), address_len(to_len))?;
            let proxy = bytes(via.proxy.cast(), address_len(via.proxy_len))?;
            (to, proxy, bytes(via.early, via.early_len)?)
        };
        let to = socket_address::read(to).ok_or(Errno::EAFNOSUPPORT)?;
        let proxy = socket_address::read(proxy).ok_or(Errno::EAFNOSUPPORT)?;
        Ok((to, via, proxy, early))
    };
    // No unwinding into C.
    let ended = catch_unwind(AssertUnwindSafe(|| {
        call().map(|(to, via, proxy, early)| open(to, &via, proxy, early))
    }));
    let (opened, said) = match ended {
        Ok(Ok(opened)) => opened,
        Ok(Err(errno)) => (Err(errno), How::default()),
        Err(_) => (Err(Errno::ENOTRECOVERABLE), How::default()),
    };
    // SAFETY: the caller passes null or a `struct narrows_how` that may be written.
    if let Some(how) = unsafe { how.as_mut() } {
        *how = said;
    }
    opened.unwrap_or_else(|errno| {
        errno.set();
        -1
    })
}

/// The descriptor, and how it went.
fn open(to: SocketAddr, via: &Via, proxy: SocketAddr, early: &[u8]) -> (Result<c_int, Errno>, How) {
    let ms = |ms: u32| (ms > 0).then(|| Duration::from_millis(ms.into()));
    let parent = Parent {
        proxy,
        patience: ms(via.patience_ms).unwrap_or(PATIENCE),
        or_directly: via.flags & ONLY == 0,
    };
    let call = Call {
        parent,
        direct: ms(via.direct_ms),
        early,
    };
    match try_both(to, &call) {
        Ok(Connected { stream, directly }) => (Ok(stream.into_raw_fd()), how(directly.as_ref())),
        Err(not) => {
            let (NotConnected::ByProxy(proxy) | NotConnected::EitherWay { proxy, .. }) = &not;
            let how = how(Some(proxy));
            (Err(errno(&not.into())), how)
        }
    }
}

fn how(without: Option<&WithoutProxy>) -> How {
    let (way, error, fault) = match without {
        None => (BY_PROXY, 0, 0),
        Some(WithoutProxy::Missing(error)) => (PROXY_MISSING, errno(error) as c_int, 0),
        Some(WithoutProxy::Refused(fault)) => (PROXY_REFUSED, 0, fault.code().into()),
    };
    How { way, error, fault }
}

/// The number that C knows an error by.
fn errno(error: &io::Error) -> Errno {
    if let Some(raw) = error.raw_os_error() {
        return Errno::from_raw(raw);
    }
    match error.kind() {
        ErrorKind::TimedOut => Errno::ETIMEDOUT,
        ErrorKind::UnexpectedEof => Errno::ECONNRESET,
        ErrorKind::ConnectionRefused => Errno::ECONNREFUSED,
        ErrorKind::HostUnreachable => Errno::EHOSTUNREACH,
        ErrorKind::PermissionDenied => Errno::EACCES,
        _ => Errno::EPROTO,
    }
}
