//! What control and host hook share: libbpf's messages, the map that both look
//! into, and how an object comes to be.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use libbpf_rs::{MapCore, MapHandle, Object, ObjectBuilder, OpenObject, PrintLevel};

use crate::error::BpfError;

/// libbpf's latest complaints, which hold the verifier's reasons.
static COMPLAINTS: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Most lines kept of them.
const COMPLAINTS_MAX: usize = 40;

/// The socket storage of this process: one map, whichever object was first.
static SOCKETS: Mutex<Option<MapHandle>> = Mutex::new(None);

/// Loading is done by one thread at a time, so that complaints are about it.
static LOADING: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is inside stays usable if a thread died with it.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn keep(level: PrintLevel, message: String) {
    let message = message.trim_end().to_owned();
    if level == PrintLevel::Warn {
        let mut kept = lock(&COMPLAINTS);
        if kept.len() == COMPLAINTS_MAX {
            kept.pop_front();
        }
        kept.push_back(message.clone());
    }
    tracing::debug!(target: "libbpf", "{message}");
}

/// What libbpf complained of since the last question, or the error itself.
pub(crate) fn refused(what: impl Into<String>, error: &libbpf_rs::Error) -> BpfError {
    let complaints: Vec<_> = lock(&COMPLAINTS).drain(..).collect();
    let mut why = error.to_string();
    let verifier = verdict(&complaints);
    for line in complaints {
        tracing::debug!(target: "libbpf", "{line}");
    }
    let what = what.into();
    // The verifier answers EACCES as well, to whom it did verify for.
    if let Some(lines) = verifier {
        why = format!("{why}; the kernel's verifier refused the program:\n{lines}");
    } else if error.kind() == libbpf_rs::ErrorKind::PermissionDenied {
        return BpfError::NoPermission { what, why };
    }
    BpfError::Refused { what, why }
}

/// Lines of the verifier's that a refusal shows.
const VERDICT_LINES: usize = 6;

/// The last lines of the verifier's before its count of instructions: what it minded, and
/// the instructions that led there. Without those that only measure it.
fn verdict(complaints: &[String]) -> Option<String> {
    let lines: Vec<_> = complaints.iter().flat_map(|c| c.lines()).collect();
    let end = lines.iter().rposition(|l| l.starts_with("processed "))?;
    let measures =
        |line: &str| line.starts_with("verification time ") || line.starts_with("stack depth ");
    let said = lines[..end]
        .iter()
        .filter(|l| !measures(l) && !l.contains("mark_precise"));
    let said: Vec<_> = said.map(|l| format!("  {l}")).collect();
    Some(said[said.len().saturating_sub(VERDICT_LINES)..].join("\n"))
}

/// Has libbpf's messages kept instead of printed. To be called before anything
/// that it may have a word about.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Debug, keep)));
    });
}

/// Where tests have objects that another compiler made, `NAME.bpf.o`.
#[cfg(feature = "testkit")]
pub(crate) static OTHERS: Mutex<Option<std::path::PathBuf>> = Mutex::new(None);

/// Opens the ELF bytes of the object `name`.
pub(crate) fn open(name: &str, bytes: &[u8]) -> Result<OpenObject, BpfError> {
    listen();
    #[cfg(feature = "testkit")]
    let other = lock(&OTHERS)
        .as_ref()
        .map(|folder| std::fs::read(folder.join(format!("{name}.bpf.o"))))
        .transpose()?;
    #[cfg(not(feature = "testkit"))]
    let other: Option<Vec<u8>> = {
        let _ = name;
        None
    };
    let bytes = other.as_deref().unwrap_or(bytes);
    ObjectBuilder::default()
        .open_memory(bytes)
        .map_err(|e| refused("read a BPF object", &e))
}

/// Loads an object, with the process's own socket storage in it.
pub(crate) fn load(mut object: OpenObject, what: &str) -> Result<Object, BpfError> {
    let _one = lock(&LOADING);
    let mut sockets = lock(&SOCKETS);
    if let Some(shared) = sockets.as_ref() {
        for mut map in object.maps_mut() {
            if map.name() == "nw_sockets" {
                map.reuse_fd(shared.as_fd())
                    .map_err(|e| refused(what, &e))?;
            }
        }
    }
    lock(&COMPLAINTS).clear();
    let loaded = object.load().map_err(|e| refused(what, &e))?;
    if sockets.is_none() {
        let map = loaded.maps().find(|m| m.name() == "nw_sockets");
        *sockets = map.and_then(|m| MapHandle::try_from(&m).ok());
    }
    Ok(loaded)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSED: &str = "-- BEGIN PROG LOAD LOG --
1356: (79) r2 = *(u64 *)(r6 +8)
mark_precise: frame1: regs=r1 stack= before 1355: (71) r1 = *(u8 *)(r1 +0)
1360: (79) r4 = *(u64 *)(r2 +8)
invalid access to map value, value_size=520 off=2048 size=8
R2 max value is outside of the allowed memory range
verification time 1381052 usec
stack depth 240+0+8
processed 11794 insns (limit 1000000) max_states_per_insn 13
-- END PROG LOG --";

    /// Of libbpf's complaints and an error, the sentence.
    fn sentence(complaints: &[&str], errno: i32) -> String {
        let _one = lock(&LOADING);
        lock(&COMPLAINTS).clear();
        for complaint in complaints {
            keep(PrintLevel::Warn, (*complaint).to_owned());
        }
        refused("load a box", &libbpf_rs::Error::from_raw_os_error(errno)).to_string()
    }

    #[test]
    fn what_the_verifier_refuses_is_shown_with_its_last_lines_and_not_as_a_missing_right() {
        let said = sentence(&[REFUSED], nix::libc::EACCES);
        assert!(said.contains("R2 max value is outside"), "{said}");
        assert!(said.contains("1360: (79) r4"), "{said}");
        for other in ["root", "verification time", "stack depth", "mark_precise"] {
            assert!(!said.contains(other), "{said}");
        }
    }

    #[test]
    fn a_missing_right_is_called_one() {
        let said = sentence(&["libbpf: failed to load"], nix::libc::EACCES);
        assert!(said.contains("needs root"), "{said}");
    }
}
