//! Which queueing disciplines the kernel has.

use crate::LinuxError;
use crate::{LOOPBACK, Namespace, RunId};

/// Disciplines that can stand for a path's elements, and others that they are
/// often compared with.
const WANTED: [&str; 13] = [
    "tbf", "pfifo", "bfifo", "netem", "fq_codel", "codel", "pie", "dualpi2", "red", "fq", "fq_pie",
    "cake", "htb",
];

/// The disciplines among those that paths are made of that the kernel has not; `None` where this
/// user may make no namespace to try them in.
pub fn missing_disciplines() -> Option<Vec<&'static str>> {
    let trial = Namespace::new(&RunId::random(), "a trial").ok()?;
    of(&trial).ok().map(|(_, lacks)| lacks)
}

/// The disciplines that the kernel has, and those that it has not, found by
/// asking for each in a namespace that is good for nothing else.
///
/// # Errors
/// When the kernel refuses for another reason than that it has none.
pub(super) fn of(
    namespace: &Namespace,
) -> Result<(Vec<&'static str>, Vec<&'static str>), LinuxError> {
    let (mut has, mut lacks) = (Vec::new(), Vec::new());
    for name in WANTED {
        if namespace.knows_queue(LOOPBACK, name)? {
            has.push(name);
        } else {
            lacks.push(name);
        }
    }
    Ok((has, lacks))
}
