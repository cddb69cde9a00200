//! Whether this machine and user can run a plan, before anything is made.

use narrows_linux::tcp_options::ask_for_control;
use narrows_linux::{LinuxError, has_rights, machine, try_tun_file};
use narrows_scenario::{Control, Plan};
use nix::errno::Errno;

use crate::controls::Controls;
use crate::engine::{check_kernel_links, check_modelled};
use crate::flows::{Commands, FlowError};
use crate::{LiveError, world};

/// Refuses what is sure not to run: a kernel that is too old, a user without
/// rights, no TUN, addresses that Linux does not take, a command that is not
/// there, a congestion control that cannot be had. What shows only when it is
/// tried ends a run while it is being set up.
///
/// # Errors
/// One line for the first of these.
pub fn check(plan: &Plan) -> Result<(), LiveError> {
    check_plan(plan)?;
    machine::check_kernel()?;
    world::check(plan)?;
    check_devices(plan)?;
    for (owner, transport) in plan.transports() {
        let kernels = transport.tcp().and_then(|tcp| tcp.cc.kernel());
        let name = owner.strip_prefix("flow/").unwrap_or(&owner);
        kernels.map_or(Ok(()), |control| check_kernels(name, control))?;
    }
    for proxy in &plan.proxies {
        for leg in [&proxy.near, &proxy.far] {
            if let Control::Kernel(control) = &leg.cc {
                check_kernels(&proxy.name, control)?;
            }
        }
    }
    Controls::check(plan)
}

/// The part of [`check`] that is about hosts and links, of a network in which nothing of the
/// plan's own runs.
///
/// # Errors
/// One line for the first thing that this machine, its kernel or this user cannot have.
pub fn check_network(plan: &Plan) -> Result<(), LiveError> {
    check_kernel_links(plan)?;
    machine::check_kernel()?;
    world::check_addresses(plan)?;
    check_devices(plan)
}

/// Refuses where this user may make no namespaces, or no devices for the links of `plan`.
fn check_devices(plan: &Plan) -> Result<(), LiveError> {
    if !has_rights() {
        return Err(LinuxError::NoPermission {
            what: "a live run".to_owned(),
        }
        .into());
    }
    if plan.links.iter().any(|link| link.datapath.is_own()) {
        try_tun_file()?;
    }
    Ok(())
}

/// The part of [`check`] that asks neither for rights nor for what the kernel has: that of
/// a run on another kernel than the one that runs now.
///
/// # Errors
/// One line for the first of these.
pub fn check_plan(plan: &Plan) -> Result<(), LiveError> {
    check_modelled(plan)?;
    Commands::check(plan)?;
    check_kernel_links(plan)
}

/// Refuses a control that the kernel does not have. Whether a user may have one
/// that it has depends on the namespace, and shows there.
fn check_kernels(flow: &str, control: &str) -> Result<(), LiveError> {
    match ask_for_control(control) {
        Err(e @ Errno::ENOENT) => Err(LiveError::Flow(FlowError::Control {
            flow: flow.to_owned(),
            control: control.to_owned(),
            reason: e.into(),
        })),
        _ => Ok(()),
    }
}
