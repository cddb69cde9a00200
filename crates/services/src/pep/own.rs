//! Which addresses are the machine's own.

use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, socket};

/// Asks the kernel each time, as addresses come and go.
#[derive(Debug)]
pub(super) struct OwnAddresses {
    /// Whether a socket can have addresses that are not the machine's
    /// (`net.ipv4.ip_nonlocal_bind` and that of IPv6).
    any_can_be_had: [bool; 2],
}

impl OwnAddresses {
    pub fn new() -> Self {
        let on = |version: &str| {
            let switch = format!("/proc/sys/net/{version}/ip_nonlocal_bind");
            fs::read_to_string(switch).is_ok_and(|value| value.trim() == "1")
        };
        Self {
            any_can_be_had: ["ipv4", "ipv6"].map(on),
        }
    }

    /// Whether `address` is one, those of local routes included: a socket can have it.
    pub fn contains(&self, address: IpAddr) -> bool {
        if self.any_can_be_had[usize::from(address.is_ipv6())] {
            return listed(address);
        }
        let family = match address {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        match socket(family, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None) {
            Ok(fd) => {
                let at = SockaddrStorage::from(SocketAddr::new(address, 0));
                bind(fd.as_raw_fd(), &at).is_ok()
            }
            // Without a descriptor nothing can be said for it.
            Err(_) => true,
        }
    }
}

/// Whether an interface has it.
fn listed(address: IpAddr) -> bool {
    let ip = |at: SockaddrStorage| match (at.as_sockaddr_in(), at.as_sockaddr_in6()) {
        (Some(at), _) => Some(IpAddr::V4(at.ip())),
        (_, Some(at)) => Some(IpAddr::V6(at.ip())),
        _ => None,
    };
    getifaddrs().map_or(true, |mut all| {
        all.any(|i| i.address.and_then(ip) == Some(address))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_own_and_documentation_s_addresses_are_not() {
        for listed in [false, true] {
            let own = OwnAddresses {
                any_can_be_had: [listed; 2],
            };
            assert!(own.contains([127, 0, 0, 1].into()), "{listed}");
            assert!(!own.contains([192, 0, 2, 1].into()), "{listed}");
            assert!(!own.contains("2001:db8::1".parse().unwrap()), "{listed}");
        }
    }
}
