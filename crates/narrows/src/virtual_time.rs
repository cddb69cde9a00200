//! Kernels in virtual time as engines: which one, and this program's two parts in them.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io;

use narrows_kernel::{
    GUEST, KEEPER, KernelEngine, Store, VirtualMachine, become_kernel, run_in_guest, serve,
};
use narrows_scenario::Refusal;

use crate::program;

/// The engine that runs on the kernel whose id or release begins with `name`, or on the
/// one that was built last.
///
/// The first process of that kernel is the running program, which therefore has to call
/// [`take_part`] before all else, or what lies beside a module ([`program`]).
///
/// # Errors
/// When there is no such kernel, or it has the congestion controls of another version of Narrows.
pub fn kernel_engine(name: Option<&str>) -> Result<KernelEngine, Refusal> {
    let refuse = |why: String| {
        let (place, found) = match name {
            Some(name) => ("--kernel", name),
            None => ("--engine", "kernel"),
        };
        Refusal::new(
            place,
            format!("`{found}`: {why}"),
            "a kernel that was built",
        )
        .with_help(
            "`narrows kernel build` builds one, `narrows kernel list` shows those that there are",
        )
    };
    let store = Store::of_user().map_err(|error| refuse(error.to_string()))?;
    let kernel = match name {
        Some(name) => store.find(name),
        None => store.newest(),
    };
    let kernel = kernel.map_err(|error| refuse(error.to_string()))?;
    if !kernel.has_present_controls() {
        let why = "was built with the congestion controls of another version of Narrows";
        return Err(refuse(format!("{} {why}", kernel.made.id)));
    }
    let program = program::guest()
        .map_err(|error| refuse(format!("what runs in it cannot be found: {error}")))?;
    Ok(KernelEngine::new(VirtualMachine::new(&kernel, program)))
}

/// Whether `arguments`, without the program's name, are those of a part of a run in a
/// kernel: that of its first process, or that of the process which becomes the kernel.
/// Then that part is played, and comes back only if it cannot be.
///
/// # Errors
/// Why it cannot.
pub fn take_part(mut arguments: impl Iterator<Item = OsString>) -> io::Result<Option<Infallible>> {
    match arguments.next() {
        Some(word) if word == KEEPER => Err(become_kernel(arguments)),
        Some(word) if word == GUEST => serve(&run_in_guest).map(Some).map_err(io::Error::other),
        _ => Ok(None),
    }
}
