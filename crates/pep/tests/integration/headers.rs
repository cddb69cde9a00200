//! Whose a connection is, as a load balancer says it to the proxy and the proxy to a destination.

use std::net::SocketAddr;

use crate::fake::{CLIENT, Host};
use narrows_core::{App, ConnectionError, Profile, SocketId};
use narrows_pep::{
    HeaderVersion, Intake, Layout, Limits, Listener, Parent, Policy, Proxy, Terms, header, request,
};
use narrows_units::Duration;

const REAL: &str = "192.0.2.1:4000";
const GRANTED: [u8; 4] = [1, 1, 0x22, 0x63];
const BOTH: [HeaderVersion; 2] = [HeaderVersion::V1, HeaderVersion::V2];

fn to(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

fn started(terms: Terms, parent: Option<Parent>, limits: Limits) -> (Host, Proxy) {
    let listener = Listener {
        near: Profile(0),
        local: to("10.0.0.2:8803"),
        far: Profile(1),
        onward_from: None,
        terms,
        parent,
        flow: None,
        near_rate: None,
        far_rate: None,
    };
    let mut host = Host::new();
    let mut proxy = Proxy::new(vec![listener], limits);
    proxy.start(&mut host).unwrap();
    (host, proxy)
}

/// A listener to which CLIENT brings the connections of 192.0.2.0/24.
fn balanced(limits: Limits) -> (Host, Proxy) {
    let terms = Terms {
        balancers: vec!["10.0.0.1".parse().unwrap()],
        policy: Policy {
            clients: vec!["192.0.2.0/24".parse().unwrap()],
            ..Policy::default()
        },
        ..Terms::default()
    };
    started(terms, None, limits)
}

fn asks() -> Vec<u8> {
    request(Layout::Convert, to("198.51.100.7:443"), None).unwrap()
}

/// A connection of the balancer's, of `client`.
fn brought(host: &mut Host, proxy: &mut Proxy, client: &str, version: HeaderVersion) -> SocketId {
    let near = host.connects(proxy);
    let mut bytes = header(version, to(client), to("10.0.0.2:8803"));
    bytes.extend(asks());
    host.arrives(proxy, near, &bytes);
    near
}

#[test]
fn a_balancer_s_connection_is_its_client_s() {
    for version in BOTH {
        let (mut host, mut proxy) = balanced(Limits::default());
        let near = host.connects(&mut proxy);
        let mut bytes = header(version, to(REAL), to("10.0.0.2:8803"));
        bytes.extend(asks());
        for byte in bytes {
            host.arrives(&mut proxy, near, &[byte]);
        }
        assert_eq!(
            host.onward().map(|(_, to)| to),
            Some(to("198.51.100.7:443"))
        );
        assert_eq!(proxy.facts().next().unwrap().client, to(REAL));
        brought(&mut host, &mut proxy, "192.0.2.2:1", version);
        assert_eq!(proxy.tunnels(), 2);
    }
}

#[test]
fn the_policy_and_the_limits_are_those_of_the_client_that_is_said() {
    let limits = Limits {
        tunnels_per_client: 1,
        ..Limits::default()
    };
    let (mut host, mut proxy) = balanced(limits);
    let denied = brought(&mut host, &mut proxy, "203.0.113.1:1", HeaderVersion::V2);
    assert!(host[denied].reset && host[denied].closed);
    assert_eq!((proxy.counters().denied, proxy.tunnels()), (1, 0));
    brought(&mut host, &mut proxy, REAL, HeaderVersion::V1);
    let second = brought(&mut host, &mut proxy, "192.0.2.1:4001", HeaderVersion::V1);
    assert!(host[second].reset);
    assert_eq!((proxy.counters().over_client, proxy.tunnels()), (1, 1));
    brought(&mut host, &mut proxy, "192.0.2.2:4001", HeaderVersion::V1);
    assert_eq!(proxy.tunnels(), 2);
}

#[test]
fn who_is_no_balancer_cannot_say_that_it_is_another() {
    let (mut host, mut proxy) = balanced(Limits::default());
    let near = host.connects_from(&mut proxy, "192.0.2.9:1");
    host.arrives(
        &mut proxy,
        near,
        &header(HeaderVersion::V1, to(REAL), to(CLIENT)),
    );
    assert_eq!(host.onward(), None);
    assert_eq!(proxy.counters().refused, 1);
    // Nor is a balancer a client that brings no header, or is none.
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &asks());
    assert!(host[near].reset && host[near].closed);
    assert_eq!(proxy.counters().refused, 2);
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, b"PROXY UNKNOWN\r\n");
    assert!(host[near].reset && host[near].closed);
    assert_eq!(proxy.counters().denied, 1);
    // Nor one that brings nothing.
    let near = host.connects(&mut proxy);
    host.passes(
        &mut proxy,
        Limits::default().request + Duration::from_millis(1),
    );
    assert!(host[near].reset);
    assert_eq!(proxy.counters().request_timeouts, 1);
}

#[test]
fn a_destination_is_told_first_whose_connection_it_gets() {
    for version in BOTH {
        let terms = Terms {
            announce: Some(version),
            ..Terms::default()
        };
        let (mut host, mut proxy) = started(terms, None, Limits::default());
        host.room = 5;
        let near = host.connects(&mut proxy);
        host.arrives(&mut proxy, near, &[asks(), b"hello".to_vec()].concat());
        let (far, destination) = host.onward().unwrap();
        host.established(&mut proxy, far);
        for _ in 0..100 {
            host.drains(&mut proxy, far, 3);
        }
        let expected = [header(version, to(CLIENT), destination), b"hello".to_vec()].concat();
        assert_eq!(host.sent(far), expected);
        assert_eq!(
            proxy.counters().bytes_up,
            5,
            "the header is not the client's"
        );
    }
}

#[test]
fn whoever_takes_the_destination_s_place_is_told_as_well() {
    let terms = Terms {
        announce: Some(HeaderVersion::V1),
        intake: Intake::Socks,
        ..Terms::default()
    };
    let (mut host, mut proxy) = started(terms, None, Limits::default());
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &[5, 1, 0, 5, 1, 0, 3, 1, b'x', 1, 187]);
    let id = proxy.take_names()[0].id;
    let addresses = ["198.51.100.1", "198.51.100.2"].map(|a| a.parse().unwrap());
    proxy.resolved(&mut host, id, &addresses);
    let (first, _) = host.onward().unwrap();
    host.breaks(&mut proxy, first, ConnectionError::Reset);
    let (second, destination) = host.onward().unwrap();
    assert_eq!(destination, to("198.51.100.2:443"));
    host.established(&mut proxy, second);
    let expected = header(HeaderVersion::V1, to(CLIENT), destination);
    assert_eq!(host.sent(second), expected);
}

#[test]
fn by_another_proxy_the_destination_is_told_behind_the_answer() {
    let terms = Terms {
        announce: Some(HeaderVersion::V2),
        ..Terms::default()
    };
    let parent = Parent {
        proxy: to("10.0.0.9:8803"),
        patience: Duration::from_secs(3),
        or_directly: true,
    };
    let (mut host, mut proxy) = started(terms, Some(parent), Limits::default());
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &asks());
    let (far, _) = host.onward().unwrap();
    host.established(&mut proxy, far);
    assert_eq!(host.sent(far), asks(), "the request alone");
    host.arrives(&mut proxy, far, &GRANTED);
    let expected = header(HeaderVersion::V2, to(CLIENT), to("198.51.100.7:443"));
    assert_eq!(host.sent(far), expected);
}

#[test]
fn the_source_is_the_client_s_own_where_it_is_to_be_kept() {
    for keep_source in [true, false] {
        let terms = Terms {
            intake: Intake::Transparent,
            keep_source,
            ..Terms::default()
        };
        let (mut host, mut proxy) = started(terms, None, Limits::default());
        host.led_from = Some(to("198.51.100.7:443"));
        host.connects(&mut proxy);
        let (far, _) = host.onward().unwrap();
        assert_eq!(host[far].from, keep_source.then(|| to("10.0.0.1:0")));
    }
}

#[test]
fn a_destination_that_speaks_first_is_sent_the_whole_header_though_the_client_is_silent() {
    let terms = Terms {
        announce: Some(HeaderVersion::V2),
        ..Terms::default()
    };
    let (mut host, mut proxy) = started(terms, None, Limits::default());
    host.room = 5;
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &asks());
    let (far, destination) = host.onward().unwrap();
    host.established(&mut proxy, far);
    for _ in 0..100 {
        host.drains(&mut proxy, far, 3);
    }
    let expected = header(HeaderVersion::V2, to(CLIENT), destination);
    assert_eq!(host.sent(far), expected);
}
