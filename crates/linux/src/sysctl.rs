//! The kernel's switches, of which each namespace has its own.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::Namespace;
use crate::LinuxError;

/// What every host is set to, so that a run does not depend on the machine's
/// settings. Linux's own defaults (`Documentation/networking/ip-sysctl.rst`)
/// where nothing is said about a line.
pub const OF_EVERY_HOST: &[(&str, &str)] = &[
    // A new namespace has that of the machine (`net.core.devconf_inherit_init_net`). First, for
    // it sets others back.
    ("net/ipv4/ip_forward", "0"),
    // Paths may differ there and back; a host answers nevertheless.
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    // One connection must not remember another's path.
    ("net/ipv4/tcp_no_metrics_save", "1"),
    // ECN for peers that request it; flows request it themselves.
    ("net/ipv4/tcp_ecn", "2"),
    // Data in the SYN, in both roles, for sockets that want it.
    ("net/ipv4/tcp_fastopen", "3"),
    // Windows are given by the path and not by memory. 128 MiB make a window
    // scale of 12, as the simulator's; half of it is window, which lasts for
    // 2.6 Gbit/s over 200 ms. The first two of each are Linux's.
    ("net/ipv4/tcp_rmem", "4096 131072 134217728"),
    ("net/ipv4/tcp_wmem", "4096 16384 134217728"),
    ("net/ipv4/tcp_window_scaling", "1"),
    ("net/ipv4/tcp_sack", "1"),
    ("net/ipv4/tcp_timestamps", "1"),
    ("net/ipv4/tcp_moderate_rcvbuf", "1"),
    // Replies to floods are measured, so they are not held back.
    ("net/ipv4/icmp_ratelimit", "0"),
];

/// The same for IPv6, where the kernel has it: nothing is sent that no flow
/// asked for (router solicitations, duplicate address detection, addresses of
/// the kernel's own).
pub const OF_EVERY_IPV6_HOST: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/forwarding", "0"),
    ("net/ipv6/conf/default/forwarding", "0"),
    ("net/ipv6/conf/all/disable_ipv6", "0"),
    ("net/ipv6/conf/default/disable_ipv6", "0"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/autoconf", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    // 1: none (IN6_ADDR_GEN_MODE_NONE), so no link-local address either.
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
];

/// What a router is set to beside that.
pub const OF_A_ROUTER: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    // A way back out of the device that a packet came by is none to advertise:
    // each link has two ends only.
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
];

/// The same for IPv6.
pub const OF_AN_IPV6_ROUTER: &[(&str, &str)] = &[
    ("net/ipv6/conf/all/forwarding", "1"),
    ("net/ipv6/conf/default/forwarding", "1"),
];

fn file_of(name: &str) -> PathBuf {
    let mut path = PathBuf::from("/proc/sys");
    // sysctl(8) takes both spellings; a slash says that dots are part of names.
    if name.contains('/') {
        path.push(name);
    } else {
        path.extend(name.split('.'));
    }
    path
}

impl Namespace {
    /// Sets a switch of this namespace, named as sysctl(8) does
    /// (`net.ipv4.ip_forward` or `net/ipv4/ip_forward`).
    ///
    /// # Errors
    /// When there is no such switch, or the kernel takes no such value.
    pub fn set_sysctl(&self, name: &str, value: &str) -> Result<(), LinuxError> {
        self.set_sysctls(&[(name, value)])
    }

    /// Sets several, in order.
    ///
    /// # Errors
    /// As [`Namespace::set_sysctl`], at the first that fails.
    pub fn set_sysctls(&self, switches: &[(&str, &str)]) -> Result<(), LinuxError> {
        // /proc/sys/net shows the namespace of the thread that reads it.
        let outcome = self.run(|| {
            switches.iter().try_for_each(|&(name, value)| {
                write_over(&file_of(name), value).map_err(|e| (name, value, e))
            })
        })?;
        outcome.map_err(|(name, value, e)| {
            let what = format!("{}: sysctl {name} = {value}", self.name());
            LinuxError::refused(what, e)
        })
    }

    /// A switch of this namespace as it is now.
    ///
    /// # Errors
    /// When there is no such switch.
    pub fn sysctl(&self, name: &str) -> Result<String, LinuxError> {
        let text = self.run(|| fs::read_to_string(file_of(name)))?;
        text.map(|t| t.trim_end().to_owned())
            .map_err(|e| LinuxError::refused(format!("{}: sysctl {name}", self.name()), e))
    }
}

/// Never creates a file: where `/proc` is something else, none must appear.
fn write_over(path: &std::path::Path, value: &str) -> io::Result<()> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(value.as_bytes())
}

/// Whether connections that this namespace opens ask for ECN, of whichever kind (`net.ipv4.tcp_ecn`: 1, 3 and 4 of
/// `enum tcp_ecn_mode`, include/net/tcp_ecn.h); no if that cannot be read. The feature `ecn` of routes (ip-route(8)) is not read.
pub fn asks_for_ecn() -> bool {
    let value = fs::read_to_string(file_of("net/ipv4/tcp_ecn"));
    value.is_ok_and(|value| matches!(value.trim(), "1" | "3" | "4"))
}

/// Whether the running kernel has IPv6.
pub fn has_ipv6() -> bool {
    fs::metadata("/proc/sys/net/ipv6").is_ok()
}
