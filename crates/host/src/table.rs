//! Which socket a packet belongs to, by its five-tuple.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use narrows_wire::ip;

use crate::ports::{self, Ports};

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
    /// Ports of connections by [`Scope`], from the first time that one was asked for there.
    taken: BTreeMap<Scope, Ports>,
}

/// Protocol and version of IP, as a key without a port, and of TCP the remote address: as in
/// Linux, connections to different servers may have the same port (`__inet_check_established`),
/// while a UDP port is one socket's (`udp_lib_get_port`).
type Scope = (u32, Option<SocketAddr>);

fn scope(protocol: u8, remote: SocketAddr) -> Scope {
    let base = key(protocol, remote.is_ipv6(), 0);
    (base, (protocol == ip::TCP).then_some(remote))
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
        if let Some(taken) = self.taken.get_mut(&scope(protocol, remote)) {
            taken.set(local.port(), true);
        }
        free
    }

    /// The highest free port for a connection to `remote`, from `from` down to `first`, and if
    /// there is none there, from the end of the range down to `from`.
    pub fn free_port(
        &mut self,
        protocol: u8,
        remote: SocketAddr,
        first: u16,
        from: u16,
    ) -> Option<u16> {
        let scope = scope(protocol, remote);
        let taken = self.taken.entry(scope).or_insert_with(|| {
            let (base, whose) = scope;
            let of = |port: u16| base | u32::from(port);
            let connected = self
                .connected
                .range((of(ports::FIRST), FIRST)..(of(ports::LAST) + 1, FIRST));
            let mut taken = Ports::default();
            for ((key, remote), _) in connected {
                if whose.is_none_or(|whose| whose == *remote) {
                    taken.set(*key as u16, true);
                }
            }
            taken
        });
        for (low, mut high) in [(first, from), (from.saturating_add(1), ports::LAST)] {
            while let Some(port) = taken.highest_free(low, high) {
                if !self.bound.contains_key(&(scope.0 | u32::from(port))) {
                    return Some(port);
                }
                high = port - 1;
            }
        }
        None
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
                    let scope = scope(protocol, remote);
                    let free = scope.1.is_some() || !self.is_connected(key);
                    if let Some(taken) = self.taken.get_mut(&scope).filter(|_| free) {
                        taken.set(local.port(), false);
                    }
                }
            }
            None => {
                if self.bound.get(&key) == Some(&socket) {
                    self.bound.remove(&key);
                }
            }
        }
    }

    /// Whether any connection has the port of `key`.
    fn is_connected(&self, key: u32) -> bool {
        let mut connected = self.connected.range((key, FIRST)..(key + 1, FIRST));
        connected.next().is_some()
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

    /// The socket that takes from anybody what comes to `local`.
    pub fn bound(&self, protocol: u8, local: SocketAddr) -> Option<u32> {
        let key = key(protocol, local.is_ipv6(), local.port());
        self.bound.get(&key).copied()
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
    }

    #[test]
    fn a_port_is_free_until_the_last_one_is_taken_and_again_when_one_is_given_back() {
        let (near, far) = (at("10.0.0.2:80"), at("10.0.0.3:80"));
        let local = |port| SocketAddr::new([10, 0, 0, 1].into(), port);
        // Two connections were there before the first port was asked for.
        let (first, last) = (ports::LAST - 200, ports::LAST);
        for protocol in [ip::TCP, ip::UDP] {
            let mut table = Table::default();
            assert!(table.connect(protocol, local(last), near, 1));
            assert!(table.connect(protocol, local(last - 1), far, 2));
            assert!(table.bind(protocol, local(last - 3), 3));
            let mut from = last;
            let mut given = Vec::new();
            while let Some(port) = table.free_port(protocol, near, first, from) {
                assert!(table.connect(protocol, local(port), near, 10), "{port}");
                given.push(port);
                from = port - 1;
            }
            let mut expected: Vec<u16> = (first..last).rev().filter(|p| *p != last - 3).collect();
            if protocol == ip::UDP {
                // What is another's to anybody is taken.
                expected.retain(|p| *p != last - 1);
            }
            assert_eq!(given, expected);
            let to_far = table.free_port(protocol, far, first, last);
            assert_eq!(to_far, (protocol == ip::TCP).then_some(last));
            table.remove(protocol, local(last - 7), Some(near), 10);
            let again = table.free_port(protocol, near, first, last - 50);
            assert_eq!(again, Some(last - 7), "beyond where the search began");
        }
    }

    #[test]
    fn a_udp_port_that_two_connections_have_is_free_when_both_are_gone() {
        let mut table = Table::default();
        let local = SocketAddr::new([10, 0, 0, 1].into(), ports::LAST);
        let (near, far) = (at("10.0.0.2:80"), at("10.0.0.3:80"));
        let free = |table: &mut Table| table.free_port(ip::UDP, far, ports::FIRST, ports::LAST);
        assert_eq!(free(&mut table), Some(ports::LAST));
        assert!(table.connect(ip::UDP, local, near, 1));
        assert!(table.connect(ip::UDP, local, far, 2));
        table.remove(ip::UDP, local, Some(near), 1);
        assert_eq!(free(&mut table), Some(ports::LAST - 1));
        table.remove(ip::UDP, local, Some(far), 2);
        assert_eq!(free(&mut table), Some(ports::LAST));
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
