//! Which queueing disciplines the kernel has.

use crate::LiveError;
use crate::world::{LOOPBACK, Namespace};

/// Disciplines that a path's queues can be compared with.
const WANTED: [&str; 11] = [
    "netem", "fq", "fq_codel", "codel", "pie", "fq_pie", "red", "dualpi2", "cake", "tbf", "htb",
];

/// The disciplines that the kernel has, and those that it has not, found by
/// asking for each in a namespace that is good for nothing else.
///
/// # Errors
/// When the kernel refuses for another reason than that it has none.
pub(super) fn of(
    namespace: &Namespace,
) -> Result<(Vec<&'static str>, Vec<&'static str>), LiveError> {
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
