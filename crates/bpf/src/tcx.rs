//! The one call that libbpf-rs does not wrap: `bpf_program__attach_tcx`.

use std::ptr::NonNull;

use libbpf_rs::{AsRawLibbpf, Link, ProgramMut};

/// Attaches `program` to device `ifindex` in the current network namespace, in
/// the direction that its section names. Fails on kernels before 6.6.
///
/// The link is the program's only hold: it goes with the process.
pub(crate) fn attach(program: &ProgramMut<'_>, ifindex: i32) -> Option<Link> {
    let program = program.as_libbpf_object();
    // SAFETY: the program is loaded and outlives the call; no options are
    // given, which libbpf allows (a null pointer means its defaults).
    let link =
        unsafe { libbpf_sys::bpf_program__attach_tcx(program.as_ptr(), ifindex, std::ptr::null()) };
    // SAFETY: libbpf answers a link that the caller owns, or null.
    NonNull::new(link).map(|link| unsafe { Link::from_ptr(link) })
}
