//! Socket addresses as C's `struct sockaddr` holds them.

use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6};

use nix::libc::{AF_INET, AF_INET6};

/// Bytes of `struct sockaddr_in6`, the longest that is read (ipv6(7)).
pub(crate) const LONGEST: usize = 28;

/// Bytes of `struct sockaddr_in` (ip(7)).
const IPV4: usize = 16;

/// The address in `bytes`, if they are one of IPv4 or IPv6.
pub(crate) fn read(bytes: &[u8]) -> Option<SocketAddr> {
    let part = |at: usize| bytes.get(at..at + 4)?.try_into().ok();
    let family = i32::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
    let port = u16::from_be_bytes(bytes.get(2..4)?.try_into().ok()?);
    if family == AF_INET && bytes.len() >= IPV4 {
        let address: [u8; 4] = part(4)?;
        return Some((address, port).into());
    }
    if family == AF_INET6 && bytes.len() >= LONGEST {
        let address: [u8; 16] = bytes.get(8..24)?.try_into().ok()?;
        let flow = u32::from_ne_bytes(part(4)?);
        let scope = u32::from_ne_bytes(part(24)?);
        let address = SocketAddrV6::new(Ipv6Addr::from(address), port, flow, scope);
        return Some(address.into());
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_are_read_and_nothing_else() {
        let mut ipv4 = [0; IPV4];
        ipv4[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
        ipv4[2..8].copy_from_slice(&[0x22, 0x63, 192, 0, 2, 7]);
        assert_eq!(read(&ipv4), Some(([192, 0, 2, 7], 8803).into()));
        assert_eq!(read(&ipv4[..IPV4 - 1]), None);
        let mut ipv6 = [0; LONGEST];
        ipv6[..2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
        ipv6[2..4].copy_from_slice(&[0, 80]);
        ipv6[8..24].copy_from_slice(&"fe80::7".parse::<Ipv6Addr>().expect("one").octets());
        ipv6[24..].copy_from_slice(&3u32.to_ne_bytes());
        let wanted = SocketAddrV6::new("fe80::7".parse().expect("one"), 80, 0, 3);
        assert_eq!(read(&ipv6), Some(wanted.into()));
        assert_eq!(read(&ipv6[..LONGEST - 1]), None);
        ipv6[0] ^= 0xff;
        assert_eq!(read(&ipv6), None);
        assert_eq!(read(&[]), None);
    }
}
