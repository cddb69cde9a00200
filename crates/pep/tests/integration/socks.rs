//! Clients that ask by SOCKS, for addresses and for names.

use std::net::{IpAddr, SocketAddr};

use crate::fake::Host;
use narrows_core::{App, ConnectionError, Profile, SocketId};
use narrows_pep::{Destinations, Intake, Limits, Listener, Network, Policy, Proxy, Terms};
use narrows_units::Duration;

const GREETING: [u8; 3] = [5, 1, 0];
const GREETED: [u8; 2] = [5, 0];
const GRANTED: [u8; 10] = [5, 0, 0, 1, 0, 0, 0, 0, 0, 0];

/// RFC 1928 §6.
const GENERAL_FAILURE: u8 = 1;
const NOT_ALLOWED: u8 = 2;
const HOST_UNREACHABLE: u8 = 4;
const REFUSED: u8 = 5;
const COMMAND_NOT_SUPPORTED: u8 = 7;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn listener() -> Listener {
    Listener {
        near: Profile(0),
        local: "10.0.0.2:1080".parse().unwrap(),
        far: Profile(1),
        onward_from: None,
        terms: Terms {
            intake: Intake::Socks,
            ..Terms::default()
        },
        parent: None,
        flow: None,
        near_rate: None,
        far_rate: None,
    }
}

fn started(destinations: &[&str]) -> (Host, Proxy) {
    let network = |word: &&str| Destinations::from(word.parse::<Network>().unwrap());
    let mut listener = listener();
    listener.terms.policy = Policy {
        destinations: destinations.iter().map(network).collect(),
        ..Policy::default()
    };
    started_with(listener)
}

fn started_with(listener: Listener) -> (Host, Proxy) {
    let mut host = Host::new();
    let mut proxy = Proxy::new(vec![listener], Limits::default());
    proxy.start(&mut host).unwrap();
    (host, proxy)
}

fn by_name(name: &str, port: u16) -> Vec<u8> {
    let mut bytes = vec![5, 1, 0, 3, name.len() as u8];
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&port.to_be_bytes());
    bytes
}

/// A client that asked for a name; the number by which its addresses are given.
fn asked(host: &mut Host, proxy: &mut Proxy, name: &str) -> (SocketId, u64) {
    let near = host.connects(proxy);
    host.arrives(proxy, near, &GREETING);
    assert_eq!(host.sent(near), GREETED);
    host.arrives(proxy, near, &by_name(name, 443));
    let names = proxy.take_names();
    assert!(proxy.take_names().is_empty(), "each is said once");
    match &names[..] {
        [asked] if asked.name == name => (near, asked.id),
        other => panic!("{other:?}"),
    }
}

/// The client was refused with that reply, and nothing was connected to.
fn refused(host: &mut Host, near: SocketId, reply: u8) {
    let answer = host.sent(near);
    assert_eq!((answer.len(), answer[1]), (10, reply));
    assert!(host[near].ended && !host[near].reset);
}

fn onward(host: &Host) -> Option<SocketAddr> {
    host.onward().map(|(_, to)| to)
}

#[test]
fn a_client_in_a_hurry_is_served_as_one_that_waits() {
    for all_at_once in [true, false] {
        let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
        let near = host.connects(&mut proxy);
        let request = [5, 1, 0, 1, 192, 0, 2, 7, 1, 187];
        if all_at_once {
            let bytes = [&GREETING[..], &request, b"hello"].concat();
            host.arrives(&mut proxy, near, &bytes);
        } else {
            for byte in GREETING.iter().chain(&request) {
                host.arrives(&mut proxy, near, &[*byte]);
            }
        }
        assert_eq!(host.sent(near), GREETED);
        let (far, to) = host.onward().unwrap();
        assert_eq!(to, "192.0.2.7:443".parse().unwrap());
        host.established(&mut proxy, far);
        assert_eq!(host.sent(near), GRANTED);
        if !all_at_once {
            host.arrives(&mut proxy, near, b"hello");
        }
        assert_eq!(host.sent(far), b"hello");
        host.arrives(&mut proxy, far, b"world");
        assert_eq!(host.sent(near), b"world");
    }
}

#[test]
fn who_offers_no_method_that_there_is_is_told_so() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &[5, 1, 2]);
    assert_eq!(host.sent(near), [5, 0xff]);
    assert!(host[near].ended);
    // And who speaks something else is not answered.
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, b"GET / HTTP/1.0\r\n\r\n");
    assert_eq!(host.sent(near), b"");
    assert!(host[near].reset && host[near].closed);
}

#[test]
fn a_name_is_resolved_once_and_what_is_allowed_of_it_is_connected_to() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24", "2001:db8::/32"]);
    let (near, id) = asked(&mut host, &mut proxy, "files.example.com");
    assert_eq!(onward(&host), None);
    // An answer of DNS that leads to where nobody may go is of no use.
    let addresses = ["127.0.0.1", "169.254.169.254", "198.51.100.1", "192.0.2.7"].map(address);
    proxy.resolved(&mut host, id, &addresses);
    let (far, to) = host.onward().unwrap();
    assert_eq!(to, "192.0.2.7:443".parse().unwrap());
    // A second answer is not listened to.
    proxy.resolved(&mut host, id, &[address("192.0.2.8")]);
    assert_eq!(host.onward().unwrap().0, far);
    host.established(&mut proxy, far);
    assert_eq!(host.sent(near), GRANTED);
    assert_eq!(proxy.facts().next().unwrap().destination, Some(to));
}

#[test]
fn a_name_that_leads_nowhere_allowed_is_refused() {
    for (addresses, reply) in [
        (&[][..], HOST_UNREACHABLE),
        (&["198.51.100.1"][..], NOT_ALLOWED),
        (
            &["127.0.0.1", "::1", "::ffff:127.0.0.1", "10.0.0.2"][..],
            NOT_ALLOWED,
        ),
        (
            &["64:ff9b::7f00:1", "fe80::1", "100.100.100.200"][..],
            NOT_ALLOWED,
        ),
    ] {
        let (mut host, mut proxy) = started(&["192.0.2.0/24", "10.0.0.0/8"]);
        host.own = vec![address("10.0.0.2")];
        let (near, id) = asked(&mut host, &mut proxy, "inside.example.com");
        let addresses: Vec<_> = addresses.iter().map(|a| address(a)).collect();
        proxy.resolved(&mut host, id, &addresses);
        refused(&mut host, near, reply);
        assert_eq!(onward(&host), None);
    }
}

#[test]
fn the_next_address_is_tried_where_one_is_missing_and_nothing_is_lost() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
    let (near, id) = asked(&mut host, &mut proxy, "two.example.com");
    host.arrives(&mut proxy, near, b"early");
    host.room = 0;
    proxy.resolved(&mut host, id, &["192.0.2.1", "192.0.2.2"].map(address));
    let (first, to) = host.onward().unwrap();
    assert_eq!(to.ip(), address("192.0.2.1"));
    assert_eq!(proxy.facts().next().unwrap().bytes_up, 5);
    assert_eq!(proxy.counters().bytes_up, 5);
    host.breaks(&mut proxy, first, ConnectionError::Reset);
    let (second, to) = host.onward().unwrap();
    assert_eq!(to.ip(), address("192.0.2.2"));
    host.established(&mut proxy, second);
    host.drains(&mut proxy, second, 64);
    assert_eq!(host.sent(second), b"early");
    assert_eq!(host.sent(near), GRANTED);
}

#[test]
fn the_last_address_s_refusal_is_the_answer() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
    let (near, id) = asked(&mut host, &mut proxy, "two.example.com");
    proxy.resolved(&mut host, id, &["192.0.2.1", "192.0.2.2"].map(address));
    // The first has half of the time that one alone would have.
    let connect = Limits::default().connect;
    host.passes(&mut proxy, connect / 2 + Duration::from_millis(1));
    let (second, to) = host.onward().unwrap();
    assert_eq!(to.ip(), address("192.0.2.2"));
    host.breaks(&mut proxy, second, ConnectionError::Reset);
    refused(&mut host, near, REFUSED);
}

#[test]
fn a_name_that_nobody_resolves_is_given_up() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
    let (near, id) = asked(&mut host, &mut proxy, "slow.example.com");
    host.passes(
        &mut proxy,
        Limits::default().resolve + Duration::from_millis(1),
    );
    refused(&mut host, near, HOST_UNREACHABLE);
    assert_eq!(proxy.counters().name_timeouts, 1);
    assert_eq!(proxy.take_unwanted_names(), [id]);
    proxy.resolved(&mut host, id, &[address("192.0.2.1")]);
    assert_eq!(onward(&host), None);
    // A client that leaves meanwhile leaves nothing behind.
    let (near, id) = asked(&mut host, &mut proxy, "slow.example.com");
    host.breaks(&mut proxy, near, ConnectionError::Reset);
    assert_eq!(proxy.take_unwanted_names(), [id]);
    proxy.resolved(&mut host, id, &[address("192.0.2.1")]);
    assert_eq!(onward(&host), None);
    // So does one that ends its stream, what it has sent before that notwithstanding.
    let (near, id) = asked(&mut host, &mut proxy, "slow.example.com");
    host.arrives(&mut proxy, near, b"early");
    host.peer_closes(&mut proxy, near);
    assert!(host[near].closed);
    assert_eq!(proxy.take_unwanted_names(), [id]);
    assert_eq!((proxy.backlog(), proxy.counters().names), (0, 3));
}

#[test]
fn while_a_name_is_being_found_no_more_than_a_piece_of_its_client_s_data_is_held() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
    let (near, id) = asked(&mut host, &mut proxy, "slow.example.com");
    for _ in 0..3 {
        host.arrives(&mut proxy, near, &[7; 3_000]);
    }
    assert_eq!(proxy.backlog(), 4_096);
    proxy.resolved(&mut host, id, &[address("192.0.2.1")]);
    let (far, _) = host.onward().unwrap();
    host.established(&mut proxy, far);
    assert_eq!(host.sent(far), [7; 9_000], "nothing is lost");
}

#[test]
fn who_is_refused_holds_no_memory_while_its_end_is_waited_for() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
    let (near, id) = asked(&mut host, &mut proxy, "none.example.com");
    host.arrives(&mut proxy, near, &[7; 3_000]);
    assert_eq!(proxy.backlog(), 3_000);
    proxy.resolved(&mut host, id, &[]);
    refused(&mut host, near, HOST_UNREACHABLE);
    assert_eq!((proxy.backlog(), proxy.tunnels()), (0, 1));
}

#[test]
fn a_name_for_which_there_is_no_room_is_refused_as_such() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
    let (near, id) = asked(&mut host, &mut proxy, "one-too-many.example.com");
    proxy.name_refused(&mut host, id);
    refused(&mut host, near, GENERAL_FAILURE);
    assert_eq!(proxy.counters().names_refused, 1);
    proxy.resolved(&mut host, id, &[address("192.0.2.1")]);
    assert_eq!(onward(&host), None);
}

#[test]
fn no_other_address_is_tried_once_data_was_sent_to_one() {
    let fast_open = Listener {
        terms: Terms {
            fast_open: true,
            intake: Intake::Socks,
            ..Terms::default()
        },
        ..listener()
    };
    let (mut host, mut proxy) = started_with(fast_open);
    let (near, id) = asked(&mut host, &mut proxy, "two.example.com");
    host.arrives(&mut proxy, near, b"once");
    proxy.resolved(&mut host, id, &["192.0.2.1", "192.0.2.2"].map(address));
    let (first, _) = host.onward().unwrap();
    assert_eq!(host.sent(first), b"once", "it goes with the SYN");
    host.breaks(&mut proxy, first, ConnectionError::Reset);
    assert_eq!(host.onward().map(|(socket, _)| socket), Some(first));
    refused(&mut host, near, REFUSED);
}

#[test]
fn a_command_other_than_connect_is_answered_as_not_supported() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &GREETING);
    host.sent(near);
    host.arrives(&mut proxy, near, &[5, 2, 0, 1, 192, 0, 2, 7, 0, 80]);
    refused(&mut host, near, COMMAND_NOT_SUPPORTED);
}

#[test]
fn a_client_that_takes_no_answer_is_reset() {
    let (mut host, mut proxy) = started(&["192.0.2.0/24"]);
    // Neither that to its greeting,
    host.room = 1;
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &GREETING);
    assert!(host[near].reset && host[near].closed);
    // nor that to its request.
    host.room = GREETED.len();
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &GREETING);
    host.arrives(&mut proxy, near, &[5, 1, 0, 1, 203, 0, 113, 7, 0, 80]);
    assert!(host[near].reset && host[near].closed);
    assert_eq!(proxy.tunnels(), 0);
}
