//! Which socket a packet belongs to, by its five-tuple.

use std::net::SocketAddr;

/// What a lookup finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The socket of this connection.
    Connected(u32),
    /// No connection, but a socket that takes packets from anybody: a listener, or one
    /// for datagrams.
    Bound(u32),
}

/// All sockets of a host that bear one protocol, version of IP and local port.
#[derive(Clone, Debug)]
struct Port {
    key: u32,
    bound: Option<u32>,
    /// By remote address.
    connected: Vec<(SocketAddr, u32)>,
}

/// The sockets of a host. A host has one address of each version of IP, so the local
/// address is known by the version of the remote one.
#[derive(Clone, Debug, Default)]
pub struct Table {
    ports: Vec<Port>,
}

fn key(protocol: u8, v6: bool, port: u16) -> u32 {
    u32::from(protocol) << 17 | u32::from(v6) << 16 | u32::from(port)
}

impl Table {
    fn at(&self, key: u32) -> Result<usize, usize> {
        self.ports.binary_search_by_key(&key, |p| p.key)
    }

    fn port_mut(&mut self, key: u32) -> &mut Port {
        let at = self.at(key).unwrap_or_else(|at| {
            let port = Port {
                key,
                bound: None,
                connected: Vec::new(),
            };
            self.ports.insert(at, port);
            at
        });
        &mut self.ports[at]
    }

    /// Gives all packets to `local` to `socket`; whether it was free.
    pub fn bind(&mut self, protocol: u8, local: SocketAddr, socket: u32) -> bool {
        let port = self.port_mut(key(protocol, local.is_ipv6(), local.port()));
        let free = port.bound.is_none();
        port.bound.get_or_insert(socket);
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
        let port = self.port_mut(key(protocol, local.is_ipv6(), local.port()));
        match port.connected.binary_search_by_key(&remote, |c| c.0) {
            Ok(_) => false,
            Err(at) => {
                port.connected.insert(at, (remote, socket));
                true
            }
        }
    }

    /// Takes back what was given to `socket` at `local`.
    pub fn remove(&mut self, protocol: u8, local: SocketAddr, socket: u32) {
        let Ok(at) = self.at(key(protocol, local.is_ipv6(), local.port())) else {
            return;
        };
        let port = &mut self.ports[at];
        port.bound = port.bound.filter(|s| *s != socket);
        port.connected.retain(|c| c.1 != socket);
        if port.bound.is_none() && port.connected.is_empty() {
            self.ports.remove(at);
        }
    }

    /// Whether any socket has `local`.
    pub fn is_used(&self, protocol: u8, local: SocketAddr) -> bool {
        let key = key(protocol, local.is_ipv6(), local.port());
        self.at(key).is_ok()
    }

    /// Whose a packet from `remote` to the local `port` is.
    #[inline]
    pub fn find(&self, protocol: u8, port: u16, remote: SocketAddr) -> Option<Found> {
        let at = self.at(key(protocol, remote.is_ipv6(), port)).ok()?;
        let port = &self.ports[at];
        match port.connected.binary_search_by_key(&remote, |c| c.0) {
            Ok(i) => Some(Found::Connected(port.connected[i].1)),
            Err(_) => port.bound.map(Found::Bound),
        }
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
        table.remove(ip::TCP, local, 2);
        assert_eq!(find(&table, near), Some(Found::Bound(1)));
        table.remove(ip::TCP, local, 1);
        assert_eq!(find(&table, near), None);
        assert!(!table.is_used(ip::TCP, local));
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
