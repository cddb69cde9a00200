//! Which socket a packet belongs to, by its five-tuple.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

/// What a lookup finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The socket of this connection.
    Connected(u32),
    /// No connection, but a socket that takes packets from anybody: a listener, or one
    /// for datagrams.
    Bound(u32),
}

/// The sockets of a host. A host has one address of each version of IP, so the local
/// address is known by the version of the remote one. They are found, given and taken back
/// in a time that hardly grows with their number, of which TIME-WAIT can make many.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Those that take packets from anybody, by protocol, version of IP and local port.
    bound: BTreeMap<u32, u32>,
    /// By these and the remote address.
    connected: BTreeMap<(u32, SocketAddr), u32>,
}

/// The first address in their order.
const FIRST: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0));

fn key(protocol: u8, v6: bool, port: u16) -> u32 {
    u32::from(protocol) << 17 | u32::from(v6) << 16 | u32::from(port)
}

impl Table {
    /// Gives all packets to `local` to `socket`; whether it was free.
    pub fn bind(&mut self, protocol: u8, local: SocketAddr, socket: u32) -> bool {
        let key = key(protocol, local.is_ipv6(), local.port());
        let free = !self.bound.contains_key(&key);
        self.bound.entry(key).or_insert(socket);
        free
    }

    /// Gives the packets that `remote` sends to `local` to `socket`; whether they were free.
    pub fn connect(
        &mut self,
        protocol: u8,
        local: SocketAddr,
        remote: SocketAddr,
        socket: u32,
    ) -> bool {
        let key = (key(protocol, local.is_ipv6(), local.port()), remote);
        let free = !self.connected.contains_key(&key);
        self.connected.entry(key).or_insert(socket);
        free
    }

    /// Takes back what was given to `socket` at `local`, of one that is connected with
    /// `remote`.
    pub fn remove(
        &mut self,
        protocol: u8,
        local: SocketAddr,
        remote: Option<SocketAddr>,
        socket: u32,
    ) {
        let key = key(protocol, local.is_ipv6(), local.port());
        match remote {
            Some(remote) => {
                let given = self.connected.get(&(key, remote));
                if given == Some(&socket) {
                    self.connected.remove(&(key, remote));
                }
            }
            None => {
                if self.bound.get(&key) == Some(&socket) {
                    self.bound.remove(&key);
                }
            }
        }
    }

    /// Whether any socket has `local`.
    pub fn is_used(&self, protocol: u8, local: SocketAddr) -> bool {
        let key = key(protocol, local.is_ipv6(), local.port());
        let mut connected = self.connected.range((key, FIRST)..(key + 1, FIRST));
        self.bound.contains_key(&key) || connected.next().is_some()
    }

    /// Whose a packet from `remote` to the local `port` is.
    #[inline]
    pub fn find(&self, protocol: u8, port: u16, remote: SocketAddr) -> Option<Found> {
        let key = key(protocol, remote.is_ipv6(), port);
        if let Some(socket) = self.connected.get(&(key, remote)) {
            return Some(Found::Connected(*socket));
        }
        self.bound.get(&key).copied().map(Found::Bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_wire::ip;

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_connection_comes_before_the_listener_of_its_port() {
        let mut table = Table::default();
        let (local, near, far) = (at("10.0.0.1:80"), at("10.0.0.2:9"), at("10.0.0.3:9"));
        assert!(table.bind(ip::TCP, local, 1));
        assert!(table.connect(ip::TCP, local, near, 2));
        assert!(!table.bind(ip::TCP, local, 3), "taken");
        assert!(!table.connect(ip::TCP, local, near, 3), "taken");
        let find = |table: &Table, remote| table.find(ip::TCP, 80, remote);
        assert_eq!(find(&table, near), Some(Found::Connected(2)));
        assert_eq!(find(&table, far), Some(Found::Bound(1)));
        table.remove(ip::TCP, local, Some(near), 2);
        assert_eq!(find(&table, near), Some(Found::Bound(1)));
        table.remove(ip::TCP, local, None, 1);
        assert_eq!(find(&table, near), None);
        assert!(!table.is_used(ip::TCP, local));
    }

    #[test]
    fn a_socket_gives_back_only_what_it_was_given() {
        let mut table = Table::default();
        let (local, near) = (at("10.0.0.1:80"), at("10.0.0.2:9"));
        assert!(table.bind(ip::TCP, local, 1));
        assert!(table.connect(ip::TCP, local, near, 2));
        table.remove(ip::TCP, local, None, 2);
        table.remove(ip::TCP, local, Some(near), 1);
        let find = |remote| table.find(ip::TCP, 80, remote);
        assert_eq!(find(near), Some(Found::Connected(2)));
        assert_eq!(find(at("10.0.0.3:9")), Some(Found::Bound(1)));
    }

    #[test]
    fn protocols_and_versions_of_ip_have_ports_of_their_own() {
        let mut table = Table::default();
        assert!(table.bind(ip::TCP, at("10.0.0.1:9"), 1));
        assert!(table.bind(ip::UDP, at("10.0.0.1:9"), 2));
        assert!(table.bind(ip::TCP, at("[fd00::1]:9"), 3));
        let four = at("10.0.0.2:1");
        assert_eq!(table.find(ip::TCP, 9, four), Some(Found::Bound(1)));
        assert_eq!(table.find(ip::UDP, 9, four), Some(Found::Bound(2)));
        let six = at("[fd00::2]:1");
        assert_eq!(table.find(ip::TCP, 9, six), Some(Found::Bound(3)));
        assert_eq!(table.find(ip::UDP, 9, six), None);
    }
}
