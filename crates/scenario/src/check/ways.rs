//! Whether a way leads from one host to another, and what closes it.

use narrows_path::routes::{self, Routes};

use crate::plan::{HostIndex, Plan};

/// Whether packets get from one of two hosts of `plan` to the other and back by `routes`, those
/// of the plan.
///
/// # Errors
/// A sentence that says why they do not.
pub(super) fn between(
    plan: &Plan,
    routes: &Routes,
    (a, b): (HostIndex, HostIndex),
) -> Result<(), String> {
    // The same routers forward in both directions of the same links: where there is a way, there is
    // one back.
    if routes.path(a.0, b.0).is_ok() {
        return Ok(());
    }
    let name = |host: usize| &plan.hosts[host].name;
    let nothing = || format!("no links lead from `{}` to `{}`", name(a.0), name(b.0));
    // The way that there would be if every host forwarded.
    let all = routes::shortest(&vec![true; plan.hosts.len()], &plan.link_ends(), &[]);
    let way = all.path(a.0, b.0).map_err(|_| nothing())?;
    let mut passed = way.into_iter().map(|hop| all.end_of(hop));
    let closed = passed.find(|host| *host != b.0 && !plan.hosts[*host].router);
    Err(closed.map_or_else(nothing, |host| {
        format!(
            "`{}` is on the way and is a [[host]], which does not forward: call it [[router]], \
             where flows may end as well",
            name(host)
        )
    }))
}
