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
    if let Some(word) = verdict(&complaints) {
        why = format!("{why} ({word})");
    }
    for line in complaints {
        tracing::debug!(target: "libbpf", "{line}");
    }
    let hint = match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            ": this needs root (CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN)"
        }
        _ => "",
    };
    BpfError::Refused {
        what: what.into(),
        why: why + hint,
    }
}

/// The line before the verifier's count of instructions says what it minded.
fn verdict(complaints: &[String]) -> Option<String> {
    let lines: Vec<_> = complaints.iter().flat_map(|c| c.lines()).collect();
    let end = lines.iter().position(|l| l.starts_with("processed "))?;
    lines.get(end.checked_sub(1)?).map(|l| (*l).to_owned())
}

/// Has libbpf's messages kept instead of printed. To be called before anything
/// that it may have a word about.
pub(crate) fn listen() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        libbpf_rs::set_print(Some((PrintLevel::Debug, keep)));
    });
}

/// Opens an object's ELF bytes.
pub(crate) fn open(bytes: &[u8]) -> Result<OpenObject, BpfError> {
    listen();
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
