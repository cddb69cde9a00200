//! Tunnels of a proxy that asks for what clients want by RFC 8803.

use std::net::SocketAddr;

use narrows_core::{App, Profile, SocketId};
use narrows_pep::{Layout, Limits, Listener, Proxy, Terms, request};

use super::Host;

/// A header alone: granted.
pub const GRANTED: [u8; 4] = [1, 1, 0x22, 0x63];

pub fn destination() -> SocketAddr {
    "192.0.2.7:443".parse().unwrap()
}

pub fn asks(layout: Layout) -> Vec<u8> {
    request(layout, destination(), None).unwrap()
}

pub fn listener() -> Listener {
    Listener {
        near: Profile(0),
        local: "10.0.0.2:8803".parse().unwrap(),
        far: Profile(1),
        onward_from: None,
        terms: Terms {
            thesis: true,
            ..Terms::default()
        },
        parent: None,
        flow: None,
        near_rate: None,
        far_rate: None,
    }
}

pub fn proxy(limits: Limits, host: &mut Host) -> Proxy {
    proxy_of(listener(), limits, host)
}

pub fn proxy_of(listener: Listener, limits: Limits, host: &mut Host) -> Proxy {
    let mut proxy = Proxy::new(vec![listener], limits);
    proxy.start(host).unwrap();
    proxy
}

/// A tunnel that is open, with nothing in it.
pub fn tunnel(host: &mut Host, proxy: &mut Proxy) -> (SocketId, SocketId) {
    let near = host.connects(proxy);
    host.arrives(proxy, near, &asks(Layout::Convert));
    let (far, to) = host.onward().unwrap();
    assert_eq!(to, destination());
    host.established(proxy, far);
    assert_eq!(host.sent(near), GRANTED);
    (near, far)
}

pub fn opened(limits: Limits) -> (Host, Proxy, SocketId, SocketId) {
    let mut host = Host::new();
    let mut proxy = proxy(limits, &mut host);
    let (near, far) = tunnel(&mut host, &mut proxy);
    (host, proxy, near, far)
}

/// A tunnel of `client` that is open, with nothing in it.
pub fn tunnel_of(host: &mut Host, proxy: &mut Proxy, client: &str) -> (SocketId, SocketId) {
    let near = host.connects_from(proxy, client);
    host.arrives(proxy, near, &asks(Layout::Convert));
    let (far, _) = host.onward().unwrap();
    host.established(proxy, far);
    assert_eq!(host.sent(near), GRANTED);
    (near, far)
}
