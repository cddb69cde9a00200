//! The proxy between a client and a destination, event by event.

use crate::fake::Host;
use crate::fake::open::{GRANTED, asks, destination, listener, opened, proxy, tunnel};
use narrows_core::{ConnectionError, SocketError};
use narrows_pep::convert::{Fault, Message, Reader, Tlv};
use narrows_pep::{Layout, Limits, request};
use narrows_units::Duration;
use proptest::prelude::*;

/// The fault in an answer.
fn fault(answer: &[u8]) -> Fault {
    let (message, used) = Reader::default().take(answer).unwrap().unwrap();
    assert_eq!(used, answer.len());
    match message.tlvs.as_slice() {
        [Tlv::Error(fault)] => fault.clone(),
        other => panic!("{other:?} is no error"),
    }
}

#[test]
fn a_request_may_come_in_pieces_and_what_follows_it_goes_on() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    let near = host.connects(&mut proxy);
    let bytes = asks(Layout::Convert);
    for byte in &bytes[..bytes.len() - 1] {
        host.arrives(&mut proxy, near, &[*byte]);
        assert_eq!(host.onward(), None);
    }
    host.arrives(
        &mut proxy,
        near,
        &[&bytes[bytes.len() - 1..], b"hello"].concat(),
    );
    let (far, to) = host.onward().unwrap();
    assert_eq!(to, destination());
    // It is written before the connection is open, for a SYN to take it.
    assert_eq!(host.sent(far), b"hello");
    assert_eq!(host.sent(near), b"");
    host.established(&mut proxy, far);
    assert_eq!(host.sent(near), GRANTED);
    assert_eq!(proxy.counters().bytes_up, 5);
    assert_eq!(proxy.facts().next().unwrap().bytes_up, 5);
}

#[test]
fn what_a_client_sends_while_its_connection_is_opened_is_written_at_once() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &asks(Layout::Convert));
    let (far, _) = host.onward().unwrap();
    host.arrives(&mut proxy, near, b"early");
    assert_eq!(host.sent(far), b"early");
}

#[test]
fn a_tunnel_is_counted_when_it_is_opened_and_woken_for_when_it_has_been_idle() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    assert_eq!(host.wake, None);
    tunnel(&mut host, &mut proxy);
    let counters = proxy.counters();
    assert_eq!((counters.accepted, counters.opened), (1, 1));
    assert_eq!(host.wake, Some(host.now + Limits::default().idle));
}

#[test]
fn a_listener_has_its_counts_before_its_first_client() {
    let proxy = proxy(Limits::default(), &mut Host::new());
    let places: Vec<_> = proxy.books().map(|(local, _)| local).collect();
    assert_eq!(places, [listener().local]);
}

#[test]
fn a_tunnel_opens_from_when_its_client_comes_and_lasts_from_when_it_is_open() {
    let secs = Duration::from_secs;
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    let near = host.connects(&mut proxy);
    host.passes(&mut proxy, secs(1));
    host.arrives(&mut proxy, near, &asks(Layout::Convert));
    let (far, _) = host.onward().unwrap();
    host.passes(&mut proxy, secs(2));
    host.established(&mut proxy, far);
    host.passes(&mut proxy, secs(5));
    host.peer_closes(&mut proxy, near);
    host.peer_closes(&mut proxy, far);
    let (_, book) = proxy.books().next().unwrap();
    assert_eq!((book.opening.sum_ms, book.lasting.sum_ms), (3_000, 5_000));
}

#[test]
fn the_layout_of_the_thesis_has_no_answer() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &asks(Layout::Thesis));
    let (far, to) = host.onward().unwrap();
    assert_eq!(to, destination());
    host.established(&mut proxy, far);
    host.arrives(&mut proxy, far, b"data");
    assert_eq!(host.sent(near), b"data");
}

#[test]
fn each_direction_ends_by_itself() {
    let (mut host, mut proxy, near, far) = opened(Limits::default());
    host.arrives(&mut proxy, near, b"question");
    host.peer_closes(&mut proxy, near);
    assert_eq!(host.sent(far), b"question");
    assert!(host[far].ended && !host[near].ended);
    // The answer comes after the question has ended.
    host.arrives(&mut proxy, far, b"answer");
    assert_eq!(host.sent(near), b"answer");
    host.peer_closes(&mut proxy, far);
    let counters = proxy.counters();
    assert_eq!((counters.bytes_up, counters.bytes_down), (8, 6));
    assert!(host[near].ended && host[near].closed && host[far].closed);
    assert_eq!((proxy.tunnels(), proxy.counters().closed), (0, 1));
}

#[test]
fn an_end_is_passed_on_behind_all_that_came_before_it() {
    let (mut host, mut proxy, near, far) = opened(Limits::default());
    host[far].room = 3;
    host.arrives(&mut proxy, near, b"abcdef");
    host.peer_closes(&mut proxy, near);
    assert_eq!(host.sent(far), b"abc");
    assert!(!host[far].ended);
    host.drains(&mut proxy, far, 2);
    assert!(!host[far].ended);
    host.drains(&mut proxy, far, 2);
    assert_eq!(host.sent(far), b"def");
    assert!(host[far].ended);
}

#[test]
fn a_reset_of_either_end_reaches_the_other() {
    for near_breaks in [true, false] {
        let (mut host, mut proxy, near, far) = opened(Limits::default());
        host[far].room = 0;
        host.arrives(&mut proxy, near, b"waits");
        let (one, other) = if near_breaks {
            (near, far)
        } else {
            (far, near)
        };
        host.breaks(&mut proxy, one, ConnectionError::Reset);
        assert!(host[other].reset && host[other].closed && host[one].closed);
        assert_eq!((proxy.tunnels(), proxy.backlog()), (0, 0));
        assert_eq!(proxy.counters().broken, 1);
    }
}

#[test]
fn who_is_refused_is_answered_and_the_answer_is_not_reset() {
    for (why, expected) in [
        (ConnectionError::Reset, Fault::ConnectionReset),
        (
            ConnectionError::TimedOut,
            Fault::NetworkFailure { retry_s: 0 },
        ),
    ] {
        let mut host = Host::new();
        let mut proxy = proxy(Limits::default(), &mut host);
        let near = host.connects(&mut proxy);
        host.arrives(&mut proxy, near, &asks(Layout::Convert));
        let (far, _) = host.onward().unwrap();
        host.breaks(&mut proxy, far, why);
        assert_eq!(fault(&host.sent(near)), expected);
        assert!(host[near].ended && !host[near].closed && host[far].closed);
        // What the client sent meanwhile is read, or closing would reset.
        host.arrives(&mut proxy, near, b"more");
        assert!(host[near].incoming.is_empty());
        host.peer_closes(&mut proxy, near);
        assert!(host[near].closed && !host[near].reset);
        assert_eq!((proxy.tunnels(), proxy.counters().refused), (0, 1));
    }
}

#[test]
fn a_client_that_was_refused_and_stays_is_cut_off() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, b"GET / HTTP/1.1\r\n");
    assert_eq!(fault(&host.sent(near)), Fault::version());
    host.passes(&mut proxy, Duration::from_secs(4));
    assert!(!host[near].closed);
    host.passes(&mut proxy, Duration::from_secs(2));
    assert!(host[near].reset && host[near].closed);
    assert_eq!(proxy.tunnels(), 0);
}

#[test]
fn a_thesis_client_that_is_refused_is_reset() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &asks(Layout::Thesis));
    let (far, _) = host.onward().unwrap();
    host.breaks(&mut proxy, far, ConnectionError::Reset);
    assert_eq!(host.sent(near), b"");
    assert!(host[near].reset && host[near].closed);
}

#[test]
fn a_destination_that_cannot_be_one_is_refused_without_a_packet() {
    for destination in [
        "127.0.0.1:80",
        "0.0.0.0:80",
        "255.255.255.255:80",
        "224.0.0.1:80",
        "[::1]:80",
        // As IPv4 in IPv6 it is the same address.
        "[::ffff:127.0.0.1]:80",
        "[ff02::1]:80",
        "192.0.2.7:0",
    ] {
        let mut host = Host::new();
        let mut proxy = proxy(Limits::default(), &mut host);
        let near = host.connects(&mut proxy);
        let bytes = request(Layout::Convert, destination.parse().unwrap(), None).unwrap();
        host.arrives(&mut proxy, near, &bytes);
        assert_eq!(host.onward(), None, "{destination}");
        assert_eq!(fault(&host.sent(near)), Fault::NotAuthorized);
    }
}

#[test]
fn a_destination_without_a_way_is_said_to_be_unreachable() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    host.unreachable = Some(SocketError::Unreachable(destination()));
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &asks(Layout::Convert));
    let expected = Fault::DestinationUnreachable { icmp_code: 0 };
    assert_eq!(fault(&host.sent(near)), expected);
}

#[test]
fn a_connection_that_the_machine_refuses_is_answered_with_the_reason() {
    let errno = SocketError::System;
    let exhausted = Fault::ResourceExceeded { retry_s: 0 };
    let failure = Fault::NetworkFailure { retry_s: 0 };
    for (error, expected) in [
        // EMFILE, ENOBUFS, no port left; EACCES, EPERM; ENETDOWN.
        (errno(24), &exhausted),
        (errno(105), &exhausted),
        (SocketError::NoPort, &exhausted),
        (SocketError::AddressInUse(destination()), &exhausted),
        (errno(13), &Fault::NotAuthorized),
        (errno(1), &Fault::NotAuthorized),
        (errno(100), &failure),
        (SocketError::Unsupported, &failure),
    ] {
        let mut host = Host::new();
        let mut proxy = proxy(Limits::default(), &mut host);
        host.unreachable = Some(error.clone());
        let near = host.connects(&mut proxy);
        host.arrives(&mut proxy, near, &asks(Layout::Convert));
        assert_eq!(&fault(&host.sent(near)), expected, "{error}");
    }
}

#[test]
fn who_asks_for_extensions_is_told_them_and_nothing_is_opened() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    let near = host.connects(&mut proxy);
    host.arrives(&mut proxy, near, &Message::of(Tlv::Info).encode().unwrap());
    let (message, _) = Reader::default().take(&host.sent(near)).unwrap().unwrap();
    assert_eq!(
        message,
        Message::of(Tlv::SupportedExtensions(vec![3, 4, 8]))
    );
    assert!(host.onward().is_none() && host[near].ended);
}

#[test]
fn each_wait_has_its_end() {
    let limits = Limits {
        request: Duration::from_secs(10),
        connect: Duration::from_secs(30),
        idle: Duration::from_secs(100),
        ..Limits::default()
    };
    let secs = Duration::from_secs;
    let mut host = Host::new();
    let mut proxy = proxy(limits, &mut host);
    // Nothing but half a request; it is no second chance that it comes byte by byte.
    let silent = host.connects(&mut proxy);
    host.passes(&mut proxy, secs(9));
    assert!(!host[silent].closed);
    host.arrives(&mut proxy, silent, &asks(Layout::Convert)[..7]);
    host.passes(&mut proxy, secs(2));
    assert!(host[silent].reset && host[silent].closed);
    assert_eq!(proxy.counters().request_timeouts, 1);
    // A destination that does not answer.
    let waits = host.connects(&mut proxy);
    host.arrives(&mut proxy, waits, &asks(Layout::Convert));
    let (far, _) = host.onward().unwrap();
    host.passes(&mut proxy, secs(31));
    assert!(host[far].reset);
    let expected = Fault::NetworkFailure { retry_s: 0 };
    assert_eq!(fault(&host.sent(waits)), expected);
    host.peer_closes(&mut proxy, waits);
    // A tunnel in which nothing happens; what happens counts.
    let (near, far) = tunnel(&mut host, &mut proxy);
    host.passes(&mut proxy, secs(60));
    host.arrives(&mut proxy, far, b"x");
    host.passes(&mut proxy, secs(99));
    assert!(!host[near].reset);
    host.passes(&mut proxy, secs(2));
    assert!(host[near].reset && host[far].reset);
    assert_eq!((proxy.tunnels(), proxy.counters().idle_timeouts), (0, 1));
}

#[test]
fn a_tunnel_is_not_idle_when_an_end_has_just_been_passed_on() {
    let secs = Duration::from_secs;
    let limits = Limits {
        idle: secs(100),
        ..Limits::default()
    };
    let (mut host, mut proxy, near, far) = opened(limits);
    host.passes(&mut proxy, secs(60));
    host.peer_closes(&mut proxy, near);
    host.passes(&mut proxy, secs(99));
    assert!(!host[far].reset);
    host.passes(&mut proxy, secs(2));
    assert!(host[far].reset);
    assert_eq!(proxy.counters().idle_timeouts, 1);
}

#[test]
fn the_backlog_grows_to_its_limit_and_not_beyond() {
    let limits = Limits {
        backlog: 1_000,
        ..Limits::default()
    };
    let (mut host, mut proxy, near, far) = opened(limits);
    host[far].room = 0;
    host.arrives(&mut proxy, near, &[7; 1_500]);
    assert_eq!(proxy.backlog(), 1_000);
    assert_eq!(host[near].incoming.len(), 500);
    // What leaves makes room for as much.
    host.drains(&mut proxy, far, 200);
    assert_eq!((proxy.backlog(), host[near].incoming.len()), (1_000, 300));
    host.drains(&mut proxy, far, 5_000);
    assert_eq!(host.sent(far), [7; 1_500]);
    assert_eq!(proxy.backlog(), 0);
}

#[test]
fn a_proxy_that_drains_serves_who_is_there() {
    let (mut host, mut proxy, near, far) = opened(Limits::default());
    proxy.drain(&mut host);
    assert!(!proxy.is_drained());
    host.arrives(&mut proxy, near, b"last");
    assert_eq!(host.sent(far), b"last");
    host.peer_closes(&mut proxy, near);
    host.peer_closes(&mut proxy, far);
    assert!(proxy.is_drained());
}

#[test]
fn a_hundred_thousand_connections_leave_nothing() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    let mut all_that_it_knows = 0;
    for i in 0..100_000 {
        if i == 100 {
            all_that_it_knows = format!("{proxy:?}").len();
        }
        let (near, far) = tunnel(&mut host, &mut proxy);
        match i % 3 {
            0 => host.breaks(&mut proxy, far, ConnectionError::Reset),
            1 => host.breaks(&mut proxy, near, ConnectionError::TimedOut),
            _ => {
                host.peer_closes(&mut proxy, far);
                host.peer_closes(&mut proxy, near);
            }
        }
        assert!(host[near].closed && host[far].closed);
        host.streams.clear();
    }
    assert_eq!((proxy.tunnels(), proxy.backlog()), (0, 0));
    assert_eq!(host.wake, None);
    // Numbers have grown, and nothing else.
    let more = format!("{proxy:?}").len() - all_that_it_knows;
    assert!(more < 200, "{more} bytes more: {proxy:?}");
}

/// Something that happens to a tunnel.
#[derive(Clone, Debug)]
enum Step {
    /// So many bytes arrive at a leg.
    Arrives(bool, usize),
    /// A leg takes so many more.
    Drains(bool, usize),
    /// A leg's peer has sent all.
    Ends(bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (any::<bool>(), 1usize..400).prop_map(|(near, n)| Step::Arrives(near, n)),
        (any::<bool>(), 1usize..300).prop_map(|(near, n)| Step::Drains(near, n)),
        any::<bool>().prop_map(Step::Ends),
    ]
}

proptest! {
    /// Against the simplest oracle: what comes out is what went in, in order, and an end
    /// comes after all before it.
    #[test]
    fn both_streams_come_out_as_they_went_in(
        steps in proptest::collection::vec(step(), 1..120),
        backlog in 1u64..600,
        budget in 20u64..900,
    ) {
        let limits = Limits { backlog, budget, ..Limits::default() };
        let (mut host, mut proxy, near, far) = opened(limits);
        host[near].room = 0;
        host[far].room = 0;
        let mut written = [Vec::new(), Vec::new()];
        let mut ended = [false; 2];
        let leg = |is_near: bool| if is_near { near } else { far };
        for step in steps {
            match step {
                Step::Arrives(from, n) if !ended[usize::from(from)] => {
                    let stream = &mut written[usize::from(from)];
                    let start = stream.len();
                    stream.extend((start..start + n).map(|i| (i % 251) as u8));
                    let bytes = stream[start..].to_vec();
                    host.arrives(&mut proxy, leg(from), &bytes);
                }
                Step::Drains(to, n) => host.drains(&mut proxy, leg(to), n),
                Step::Ends(from) if !std::mem::replace(&mut ended[usize::from(from)], true) => {
                    host.peer_closes(&mut proxy, leg(from));
                }
                _ => {}
            }
            prop_assert!(proxy.backlog() <= budget.min(2 * backlog));
            for from in [true, false] {
                let (own, out) = (&written[usize::from(from)], &host[leg(!from)]);
                prop_assert!(own.starts_with(&out.outgoing));
                prop_assert!(!out.ended || (ended[usize::from(from)] && out.outgoing == *own));
            }
        }
        for from in [true, false] {
            host.drains(&mut proxy, leg(!from), 1 << 20);
            if !std::mem::replace(&mut ended[usize::from(from)], true) {
                host.peer_closes(&mut proxy, leg(from));
            }
        }
        for from in [true, false] {
            prop_assert_eq!(&host[leg(!from)].outgoing, &written[usize::from(from)]);
            prop_assert!(host[leg(!from)].ended && host[leg(from)].closed);
        }
        prop_assert_eq!((proxy.tunnels(), proxy.backlog()), (0, 0));
    }
}
