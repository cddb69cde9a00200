//! Whom a proxy admits, where it leads, and what of that may change while it runs.

use std::net::SocketAddr;

use crate::fake::{CLIENT, Host};
use narrows_core::{App, ConnectionError, Profile, SocketId};
use narrows_pep::convert::{Fault, Message, Reader, Tlv};
use narrows_pep::{
    Destinations, Intake, Layout, Limits, Listener, Parent, Policy, Proxy, Terms, request,
};
use narrows_units::Duration;

/// A header alone: granted.
const GRANTED: [u8; 4] = [1, 1, 0x22, 0x63];
const PARENT: &str = "10.0.0.9:8803";

fn to(address: &str) -> SocketAddr {
    address.parse().unwrap()
}

fn listener(policy: Policy) -> Listener {
    Listener {
        near: Profile(0),
        local: to("10.0.0.2:8803"),
        far: Profile(1),
        onward_from: None,
        terms: Terms {
            policy,
            ..Terms::default()
        },
        parent: None,
        flow: None,
        near_rate: None,
        far_rate: None,
    }
}

fn started(listener: Listener, limits: Limits) -> (Host, Proxy) {
    let mut host = Host::new();
    let mut proxy = Proxy::new(vec![listener], limits);
    proxy.start(&mut host).unwrap();
    (host, proxy)
}

fn policy(clients: &[&str], destinations: &[&str]) -> Policy {
    Policy {
        clients: clients.iter().map(|n| n.parse().unwrap()).collect(),
        destinations: destinations
            .iter()
            .map(|n| Destinations::from(n.parse::<narrows_pep::Network>().unwrap()))
            .collect(),
        anywhere: false,
    }
}

fn asks(host: &mut Host, proxy: &mut Proxy, destination: &str) -> SocketId {
    let near = host.connects(proxy);
    let bytes = request(Layout::Convert, to(destination), None).unwrap();
    host.arrives(proxy, near, &bytes);
    near
}

fn fault(answer: &[u8]) -> Fault {
    let (message, _) = Reader::default().take(answer).unwrap().unwrap();
    match message.tlvs.as_slice() {
        [Tlv::Error(fault)] => fault.clone(),
        other => panic!("{other:?} is no error"),
    }
}

#[test]
fn a_client_that_is_not_listed_is_reset_and_nothing_of_it_is_read() {
    let (mut host, mut proxy) = started(
        listener(policy(&["192.0.2.0/24"], &["0.0.0.0/0"])),
        Limits::default(),
    );
    let near = host.connects(&mut proxy);
    assert!(host[near].reset && host[near].closed);
    assert_eq!((proxy.tunnels(), proxy.counters().denied), (0, 1));
}

#[test]
fn only_listed_destinations_are_connected_to() {
    let (mut host, mut proxy) = started(
        listener(policy(&["10.0.0.0/8"], &["192.0.2.0/24"])),
        Limits::default(),
    );
    let near = asks(&mut host, &mut proxy, "203.0.113.7:443");
    assert_eq!(fault(&host.sent(near)), Fault::NotAuthorized);
    assert_eq!(host.onward(), None);
    // IPv4 in IPv6 is connected to as what it is.
    asks(&mut host, &mut proxy, "[::ffff:192.0.2.7]:443");
    assert_eq!(host.onward().map(|(_, to)| to), Some(to("192.0.2.7:443")));
}

#[test]
fn the_host_s_own_addresses_are_none_of_a_network_s() {
    let (mut host, mut proxy) = started(
        listener(policy(&["10.0.0.0/8"], &["192.0.2.0/24"])),
        Limits::default(),
    );
    host.own = vec!["192.0.2.1".parse().unwrap()];
    for own in ["192.0.2.1:22", "[::ffff:192.0.2.1]:22"] {
        let near = asks(&mut host, &mut proxy, own);
        assert_eq!(fault(&host.sent(near)), Fault::NotAuthorized, "{own}");
    }
    assert_eq!(host.onward(), None);
}

#[test]
fn a_client_has_as_many_tunnels_as_it_may_and_others_come_in_their_place() {
    let limits = Limits {
        tunnels_per_client: 2,
        ..Limits::default()
    };
    let (mut host, mut proxy) = started(listener(Policy::default()), limits);
    let first = host.connects(&mut proxy);
    host.connects(&mut proxy);
    let third = host.connects(&mut proxy);
    assert!(host[third].reset && host[third].closed);
    host.breaks(&mut proxy, first, ConnectionError::Reset);
    let fourth = host.connects(&mut proxy);
    assert_eq!(host.sent(fourth), b"");
    assert_eq!(proxy.tunnels(), 2);
}

#[test]
fn other_terms_hold_for_who_comes_after_them() {
    let (mut host, mut proxy) = started(listener(Policy::default()), Limits::default());
    let near = asks(&mut host, &mut proxy, "192.0.2.7:443");
    let (far, _) = host.onward().unwrap();
    host.established(&mut proxy, far);
    assert_eq!(host.sent(near), GRANTED);
    let early = host.connects(&mut proxy);
    let strict = listener(policy(&["10.0.0.0/8"], &["192.0.2.9"]));
    proxy
        .reconfigure(&mut host, vec![strict], Limits::default())
        .unwrap();
    // The tunnel goes on.
    host.arrives(&mut proxy, near, b"more");
    assert_eq!(host.sent(far), b"more");
    // Who had come before is served by what held then.
    let bytes = request(Layout::Convert, to("192.0.2.8:443"), None).unwrap();
    host.arrives(&mut proxy, early, &bytes);
    assert_eq!(host.onward().map(|(_, to)| to), Some(to("192.0.2.8:443")));
    let late = asks(&mut host, &mut proxy, "192.0.2.8:443");
    assert_eq!(fault(&host.sent(late)), Fault::NotAuthorized);
}

#[test]
fn who_was_led_here_gets_what_it_wanted_and_no_answer() {
    let mut listener = listener(Policy::default());
    listener.terms.intake = Intake::Transparent;
    let (mut host, mut proxy) = started(listener, Limits::default());
    host.led_from = Some(to("192.0.2.7:443"));
    let near = host.connects(&mut proxy);
    let (far, destination) = host.onward().unwrap();
    assert_eq!(destination, to("192.0.2.7:443"));
    host.arrives(&mut proxy, near, b"question");
    host.established(&mut proxy, far);
    assert_eq!(host.sent(far), b"question");
    host.arrives(&mut proxy, far, b"answer");
    assert_eq!(host.sent(near), b"answer");
    // Its destination refuses: so does the proxy.
    let near = host.connects(&mut proxy);
    let (far, _) = host.onward().unwrap();
    host.breaks(&mut proxy, far, ConnectionError::Reset);
    assert!(host[near].reset && host[near].closed);
    assert_eq!(host.sent(near), b"");
}

/// A transparent listener that goes by another proxy.
fn forwarder(or_directly: bool) -> (Host, Proxy) {
    let mut listener = listener(Policy::default());
    listener.terms.intake = Intake::Transparent;
    listener.parent = Some(Parent {
        proxy: to(PARENT),
        patience: Duration::from_secs(3),
        or_directly,
    });
    let (mut host, proxy) = started(listener, Limits::default());
    host.led_from = Some(to("192.0.2.7:443"));
    (host, proxy)
}

#[test]
fn nothing_is_sent_before_the_other_proxy_has_answered() {
    let (mut host, mut proxy) = forwarder(true);
    let near = host.connects(&mut proxy);
    let (far, proxied) = host.onward().unwrap();
    assert_eq!(proxied, to(PARENT));
    let asked = request(Layout::Convert, to("192.0.2.7:443"), None).unwrap();
    assert_eq!(host.sent(far), asked);
    host.established(&mut proxy, far);
    host.arrives(&mut proxy, near, b"question");
    assert_eq!(host.sent(far), b"");
    host.arrives(&mut proxy, far, &GRANTED[..3]);
    assert_eq!(host.sent(far), b"");
    host.arrives(&mut proxy, far, &[&GRANTED[3..], b"early"].concat());
    assert_eq!(host.sent(far), b"question");
    assert_eq!(host.sent(near), b"early");
    assert_eq!(proxy.counters().direct, 0);
}

#[test]
fn without_the_other_proxy_it_goes_directly_and_loses_nothing() {
    type Lack = fn(&mut Host, &mut Proxy, SocketId);
    let lacks: [(&str, Lack); 4] = [
        ("refuses connections", |host, proxy, far| {
            host.breaks(proxy, far, ConnectionError::Reset);
        }),
        ("does not answer", |host, proxy, _| {
            host.passes(proxy, Duration::from_secs(4));
        }),
        ("ends its stream", |host, proxy, far| {
            host.established(proxy, far);
            host.peer_closes(proxy, far);
        }),
        ("refuses the destination", |host, proxy, far| {
            host.established(proxy, far);
            let refusal = Message::refusal(Fault::NotAuthorized);
            host.arrives(proxy, far, &refusal);
        }),
    ];
    for (what, lack) in lacks {
        let (mut host, mut proxy) = forwarder(true);
        let near = host.connects(&mut proxy);
        let (parent, _) = host.onward().unwrap();
        host.arrives(&mut proxy, near, b"question");
        lack(&mut host, &mut proxy, parent);
        assert!(host[parent].closed, "{what}");
        let (far, destination) = host.onward().unwrap();
        assert_eq!(destination, to("192.0.2.7:443"), "{what}");
        host.established(&mut proxy, far);
        assert_eq!(host.sent(far), b"question", "{what}");
        assert_eq!(proxy.counters().direct, 1, "{what}");
        // Its end was not that of the one that was asked before.
        host.arrives(&mut proxy, far, b"answer");
        assert_eq!(host.sent(near), b"answer", "{what}");
        assert!(!host[near].ended, "{what}");
        // One whose host is missing is not asked again at once.
        host.connects(&mut proxy);
        let (_, next) = host.onward().unwrap();
        assert_eq!(next == to(PARENT), what != "does not answer", "{what}");
        if what == "does not answer" {
            host.passes(&mut proxy, Duration::from_secs(31));
            host.connects(&mut proxy);
            assert_eq!(host.onward().map(|(_, to)| to), Some(to(PARENT)));
        }
    }
}

#[test]
fn a_destination_that_does_not_answer_is_not_the_other_proxy_s_fault() {
    for or_directly in [true, false] {
        let (mut host, mut proxy) = forwarder(or_directly);
        let near = host.connects(&mut proxy);
        let (parent, _) = host.onward().unwrap();
        // Its host is there, and it connects to a black hole.
        host.established(&mut proxy, parent);
        host.passes(&mut proxy, Duration::from_secs(4));
        if or_directly {
            assert_eq!(host.onward().map(|(_, to)| to), Some(to("192.0.2.7:443")));
        } else {
            // It has the time that any destination has.
            assert!(!host[near].closed);
            host.passes(&mut proxy, Duration::from_secs(30));
            assert!(host[near].reset);
        }
        assert_eq!(proxy.counters().connect_timeouts, 1);
        // Everybody else goes by it as before.
        host.connects(&mut proxy);
        assert_eq!(host.onward().map(|(_, to)| to), Some(to(PARENT)));
    }
}

#[test]
fn another_proxy_without_which_nobody_may_go_is_asked_though_it_is_missing() {
    let (mut host, mut proxy) = forwarder(false);
    let near = host.connects(&mut proxy);
    host.passes(&mut proxy, Duration::from_secs(4));
    assert!(host[near].reset);
    host.connects(&mut proxy);
    assert_eq!(host.onward().map(|(_, to)| to), Some(to(PARENT)));
    assert_eq!(proxy.counters().direct, 0);
}

#[test]
fn another_proxy_that_answers_is_missing_no_more() {
    let (mut host, mut proxy) = forwarder(true);
    host.connects(&mut proxy);
    host.passes(&mut proxy, Duration::from_secs(2));
    host.connects(&mut proxy);
    let (late, _) = host.onward().unwrap();
    // The first has waited for three seconds in vain, and the second gets through.
    host.passes(&mut proxy, Duration::from_secs(2));
    assert_eq!(proxy.counters().direct, 1);
    host.established(&mut proxy, late);
    host.connects(&mut proxy);
    assert_eq!(host.onward().map(|(_, to)| to), Some(to(PARENT)));
}

#[test]
fn the_policy_is_asked_whatever_the_way() {
    for by_parent in [false, true] {
        let mut listener = listener(policy(&["10.0.0.0/8"], &["192.0.2.0/24"]));
        listener.parent = by_parent.then(|| Parent {
            proxy: to(PARENT),
            patience: Duration::from_secs(3),
            or_directly: true,
        });
        let (mut host, mut proxy) = started(listener, Limits::default());
        let near = asks(&mut host, &mut proxy, "203.0.113.7:443");
        assert_eq!(fault(&host.sent(near)), Fault::NotAuthorized, "{by_parent}");
        assert_eq!(host.onward(), None, "{by_parent}: nobody is asked for it");
        asks(&mut host, &mut proxy, "192.0.2.7:443");
        assert!(host.onward().is_some());
    }
}

#[test]
fn without_leave_to_go_directly_its_refusal_is_passed_on() {
    let (mut host, mut proxy) = forwarder(false);
    let near = host.connects(&mut proxy);
    let (far, _) = host.onward().unwrap();
    host.breaks(&mut proxy, far, ConnectionError::Reset);
    assert!(host[near].reset && host[near].closed);
    assert_eq!(proxy.tunnels(), 0);
}

#[test]
fn the_cookie_that_another_proxy_wants_is_shown_to_it() {
    let (mut host, mut proxy) = forwarder(false);
    host.connects(&mut proxy);
    let (far, _) = host.onward().unwrap();
    host.established(&mut proxy, far);
    host.sent(far);
    let wants = Message::refusal(Fault::MissingCookie(vec![7; 16]));
    host.arrives(&mut proxy, far, &wants);
    let (second, proxied) = host.onward().unwrap();
    assert!(second != far && proxied == to(PARENT));
    let (message, _) = Reader::default().take(&host.sent(second)).unwrap().unwrap();
    let shown = message.tlvs.iter().any(|tlv| match tlv {
        Tlv::Cookie(cookie) => cookie.starts_with(&[7; 16]),
        _ => false,
    });
    assert!(shown, "{message:?}");
}

#[test]
fn what_is_known_of_a_tunnel_is_told() {
    let (mut host, mut proxy) = started(listener(Policy::default()), Limits::default());
    let near = asks(&mut host, &mut proxy, "192.0.2.7:443");
    let (far, _) = host.onward().unwrap();
    host.established(&mut proxy, far);
    host[far].room = 2;
    host.arrives(&mut proxy, near, b"question");
    let facts: Vec<_> = proxy.facts().collect();
    assert_eq!(facts.len(), 1);
    assert_eq!(facts[0].client, to(CLIENT));
    assert_eq!(facts[0].destination, Some(to("192.0.2.7:443")));
    assert!(facts[0].open);
    assert_eq!((facts[0].bytes_up, facts[0].backlog_up), (8, 6));
    proxy.abandon(&mut host);
    assert!(host[near].reset && host[far].reset);
    assert_eq!((proxy.tunnels(), proxy.backlog()), (0, 0));
}

#[test]
fn another_proxy_that_wants_the_cookie_again_that_it_was_shown_refuses() {
    let (mut host, mut proxy) = forwarder(false);
    let near = host.connects(&mut proxy);
    let wants = |cookie: u8| Message::refusal(Fault::MissingCookie(vec![cookie; 16]));
    // Another cookie than the one that is known is shown in its turn.
    for cookie in [7, 8] {
        let (far, _) = host.onward().unwrap();
        host.established(&mut proxy, far);
        host.arrives(&mut proxy, far, &wants(cookie));
        assert!(host.onward().unwrap().0 != far, "{cookie}");
        assert!(host[far].closed);
    }
    let (far, _) = host.onward().unwrap();
    host.established(&mut proxy, far);
    host.arrives(&mut proxy, far, &wants(8));
    assert_eq!(host.onward().unwrap().0, far, "it is asked no more");
    assert!(host[near].reset && host[near].closed);
}

#[test]
fn the_request_to_another_proxy_is_written_as_it_takes_it() {
    let (mut host, mut proxy) = forwarder(false);
    host.room = 5;
    host.connects(&mut proxy);
    let (far, _) = host.onward().unwrap();
    host.established(&mut proxy, far);
    for _ in 0..50 {
        host.drains(&mut proxy, far, 1);
    }
    let asked = request(Layout::Convert, to("192.0.2.7:443"), None).unwrap();
    assert_eq!(host.sent(far), asked);
    assert!(!host[far].wants_room);
}

#[test]
fn another_proxy_has_its_time_to_answer_and_is_left_alone_for_thirty_seconds() {
    let (mut host, mut proxy) = forwarder(true);
    let next = |host: &mut Host, proxy: &mut Proxy| {
        host.connects(proxy);
        host.onward().unwrap().1
    };
    assert_eq!(next(&mut host, &mut proxy), to(PARENT));
    host.passes(&mut proxy, Duration::from_millis(2_999));
    assert_eq!(host.onward().unwrap().1, to(PARENT), "it has three seconds");
    host.passes(&mut proxy, Duration::from_millis(1));
    assert_eq!(host.onward().unwrap().1, to("192.0.2.7:443"));
    host.passes(&mut proxy, Duration::from_millis(29_999));
    assert_eq!(next(&mut host, &mut proxy), to("192.0.2.7:443"));
    host.passes(&mut proxy, Duration::from_millis(1));
    assert_eq!(next(&mut host, &mut proxy), to(PARENT));
}

/// A listener at that address, and otherwise like the others.
fn at(local: &str) -> Listener {
    Listener {
        local: to(local),
        ..listener(Policy::default())
    }
}

#[test]
fn what_is_done_is_counted_by_listener() {
    let mut host = Host::new();
    let (one, other) = ("10.0.0.2:8803", "10.0.0.2:8804");
    let mut proxy = Proxy::new(vec![at(one), at(other)], Limits::default());
    proxy.start(&mut host).unwrap();
    let second = host.listening[1].0;
    host.connects(&mut proxy);
    for _ in 0..2 {
        host.connects_to(&mut proxy, second, CLIENT);
    }
    let books: Vec<_> = proxy
        .books()
        .map(|(at, b)| (at, b.counters.accepted))
        .collect();
    assert_eq!(books, [(to(one), 1), (to(other), 2)]);
}

#[test]
fn a_listener_that_stays_is_kept_and_one_that_is_no_more_is_closed() {
    let mut host = Host::new();
    let [a, b, c] = ["10.0.0.2:1", "10.0.0.2:2", "10.0.0.2:3"];
    let mut proxy = Proxy::new(vec![at(a), at(b)], Limits::default());
    proxy.start(&mut host).unwrap();
    let kept = host.listening[1];
    let limits = Limits::default();
    // One that cannot be had changes nothing.
    let before = host.listening.clone();
    host.taken = Some(to(c));
    let refused = proxy.reconfigure(&mut host, vec![at("10.0.0.2:4"), at(c)], limits);
    assert!(refused.is_err());
    assert_eq!(host.listening, before);
    host.taken = None;
    let reconfigured = proxy.reconfigure(&mut host, vec![at(c), at(b)], limits);
    assert_eq!(reconfigured, Ok(()));
    assert_eq!(host.listening[0], kept);
    assert_eq!(host.listening[1].1, to(c));
    assert_eq!(host.listening.len(), 2);
    // A client of each comes to the listener that has its address now.
    for (listener, address) in host.listening.clone() {
        host.connects_to(&mut proxy, listener, CLIENT);
        let book = proxy.books().find(|(at, _)| *at == address).unwrap().1;
        assert_eq!(book.counters.accepted, 1, "{address}");
    }
    proxy.drain(&mut host);
    assert_eq!(host.listening, []);
}
