//! What a proxy gives to the congestion controls of its legs, and what it reports of them.

use std::sync::Arc;

use crate::fake::open::{listener, proxy, proxy_of, tunnel};
use crate::fake::{Host, WINDOW};
use narrows_core::{App, ConnectionError, FlowId};
use narrows_pep::{Hints, Limits, LinkRate, Listener, Proxy, RATE_OPTION};
use narrows_units::{Duration, Instant, Rate};

#[test]
fn a_links_rate_is_shared_by_who_uses_it_and_anew_as_they_come_and_go() {
    /// Longer than until parts are worked out again.
    const NEXT: Duration = Duration::from_millis(300);
    let link = Arc::new(LinkRate::new(Rate::from_mbit(80)));
    let listener = Listener {
        far_rate: Some(Arc::clone(&link)),
        ..listener()
    };
    let mut host = Host::new();
    let mut proxy = proxy_of(listener, Limits::default(), &mut host);
    let (near, far) = tunnel(&mut host, &mut proxy);
    // Nobody fills the window.
    host[far].in_flight = WINDOW / 2 - 1;
    host.passes(&mut proxy, NEXT);
    assert_eq!(host[far].options, []);
    let mut given = Vec::new();
    let mut next = |host: &mut Host, proxy: &mut Proxy, part: u64| {
        host.arrives(proxy, near, b"goes on");
        host.passes(proxy, NEXT);
        given.push((RATE_OPTION.to_owned(), part));
        assert_eq!(host[far].options, given);
    };
    host[far].in_flight = WINDOW / 2;
    next(&mut host, &mut proxy, 10_000_000);
    let (other_near, other) = tunnel(&mut host, &mut proxy);
    host[other].in_flight = WINDOW;
    next(&mut host, &mut proxy, 5_000_000);
    assert_eq!(host[other].options, [(RATE_OPTION.to_owned(), 5_000_000)]);
    assert_eq!(host[near].options, [], "the other leg");
    link.set(Rate::from_mbit(40));
    next(&mut host, &mut proxy, 2_500_000);
    host.breaks(&mut proxy, other_near, ConnectionError::Reset);
    next(&mut host, &mut proxy, 5_000_000);
    // What is known already is not said again.
    let before = host[far].options.len();
    host.arrives(&mut proxy, near, b"goes on");
    host.passes(&mut proxy, NEXT);
    assert_eq!(host[far].options.len(), before);
    // Without tunnels nothing is to be done.
    host.breaks(&mut proxy, near, ConnectionError::Reset);
    host.passes(&mut proxy, NEXT);
    assert_eq!(host.wake, None);
}

#[test]
fn a_proxy_whose_tunnels_have_gone_leaves_its_part_of_a_link_to_another() {
    const NEXT: Duration = Duration::from_millis(300);
    let link = Arc::new(LinkRate::new(Rate::from_mbit(80)));
    let busy = || {
        let listener = Listener {
            far_rate: Some(Arc::clone(&link)),
            ..listener()
        };
        let mut host = Host::new();
        let mut proxy = proxy_of(listener, Limits::default(), &mut host);
        let (near, far) = tunnel(&mut host, &mut proxy);
        host[far].in_flight = WINDOW;
        host.passes(&mut proxy, NEXT);
        (host, proxy, near, far)
    };
    let (mut gone, mut goes, near, _) = busy();
    let (mut host, mut proxy, left, far) = busy();
    let last = |host: &Host| host[far].options.last().map(|(_, part)| *part);
    assert_eq!(last(&host), Some(5_000_000));
    gone.breaks(&mut goes, near, ConnectionError::Reset);
    gone.passes(&mut goes, NEXT);
    host.arrives(&mut proxy, left, b"goes on");
    host.passes(&mut proxy, NEXT);
    assert_eq!(last(&host), Some(10_000_000));
}

#[test]
fn who_has_been_silent_has_no_part_of_a_links_rate() {
    let listener = Listener {
        far_rate: Some(Arc::new(LinkRate::new(Rate::from_mbit(80)))),
        ..listener()
    };
    let mut host = Host::new();
    let mut proxy = proxy_of(listener, Limits::default(), &mut host);
    let (near, far) = tunnel(&mut host, &mut proxy);
    let (_, silent) = tunnel(&mut host, &mut proxy);
    for socket in [far, silent] {
        host[socket].in_flight = WINDOW;
    }
    let last = |host: &Host| host[far].options.last().map(|(_, part)| *part);
    host.passes(&mut proxy, Duration::from_millis(300));
    assert_eq!(last(&host), Some(5_000_000));
    for _ in 0..6 {
        host.passes(&mut proxy, Duration::from_millis(300));
        host.arrives(&mut proxy, near, b"goes on");
    }
    assert_eq!(last(&host), Some(10_000_000));
}

#[test]
fn a_tunnel_keeps_its_part_for_a_second_without_an_event() {
    let listener = Listener {
        far_rate: Some(Arc::new(LinkRate::new(Rate::from_mbit(80)))),
        ..listener()
    };
    let mut host = Host::new();
    let mut proxy = proxy_of(listener, Limits::default(), &mut host);
    let (near, far) = tunnel(&mut host, &mut proxy);
    let (_, silent) = tunnel(&mut host, &mut proxy);
    for socket in [far, silent] {
        host[socket].in_flight = WINDOW;
    }
    // Parts are worked out anew every 250 ms.
    for (quarter, part) in [5_000_000, 5_000_000, 5_000_000, 5_000_000, 10_000_000]
        .into_iter()
        .enumerate()
    {
        host.passes(&mut proxy, Duration::from_millis(250));
        let last = host[far].options.last().map(|(_, part)| *part);
        assert_eq!(last, Some(part), "{quarter}");
        host.arrives(&mut proxy, near, b"goes on");
    }
}

/// A time that many seconds after the start.
fn second(n: u64) -> Instant {
    Instant::ZERO + Duration::from_secs(n)
}

#[test]
fn a_rate_that_is_known_ahead_is_given_at_its_time_in_equal_parts_to_busy_legs() {
    let mut host = Host::new();
    let mut proxy = Proxy::new(vec![listener()], Limits::default()).with_hints(&Hints {
        near: vec![(second(2), Rate::from_mbit(8))],
        far: vec![
            (second(1), Rate::from_mbit(80)),
            (second(3), Rate::from_bits(1)),
        ],
    });
    proxy.start(&mut host).unwrap();
    let (near, far) = tunnel(&mut host, &mut proxy);
    let (_, other) = tunnel(&mut host, &mut proxy);
    let (_, waits) = tunnel(&mut host, &mut proxy);
    for socket in [near, far, other] {
        host[socket].in_flight = WINDOW;
    }
    // Of a window of one segment half is none: a connection without a segment in flight is idle.
    host[waits].window = 1;
    let given = |host: &Host, socket| -> Vec<u64> {
        let options = host[socket].options.iter();
        let rates = options.map(|(name, rate)| (name == RATE_OPTION).then_some(*rate));
        rates.map(|rate| rate.expect("no other option")).collect()
    };
    host.passes(&mut proxy, Duration::from_millis(999));
    assert_eq!(given(&host, far), []);
    host.passes(&mut proxy, Duration::from_millis(1));
    assert_eq!(given(&host, far), [5_000_000]);
    assert_eq!(given(&host, other), [5_000_000]);
    assert_eq!((given(&host, near), given(&host, waits)), (vec![], vec![]));
    host.passes(&mut proxy, Duration::from_secs(1));
    assert_eq!(given(&host, near), [1_000_000]);
    // Never 0, which would be no rate.
    host.passes(&mut proxy, Duration::from_secs(1));
    assert_eq!(given(&host, far), [5_000_000, 1]);
}

#[test]
fn a_tunnel_of_a_flow_is_reported_with_its_backlog_and_the_legs_that_have_sent_data() {
    let listener = Listener {
        flow: Some(FlowId(3)),
        ..listener()
    };
    let mut host = Host::new();
    let mut proxy = proxy_of(listener, Limits::default(), &mut host);
    let (near, far) = tunnel(&mut host, &mut proxy);
    host[far].room = 2;
    host.arrives(&mut proxy, near, b"question");
    host[near].room = 1;
    host.arrives(&mut proxy, far, b"answer");
    // One that has sent no more than the answer to a request carries no data.
    host[near].acked = 1_024;
    host[far].acked = 1_025;
    proxy.sample(&mut host);
    let reported = [
        ("proxy_backlog", 6 + 5),
        ("far_cwnd", i64::from(WINDOW)),
        // Microseconds, and bit/s.
        ("far_srtt", 20_000),
        ("far_delivery_rate", 8_000),
    ];
    assert_eq!(host.reported, reported);
    proxy.abandon(&mut host);
    assert_eq!(proxy.backlog(), 0);
}

#[test]
fn a_tunnel_of_no_flow_is_not_reported() {
    let mut host = Host::new();
    let mut proxy = proxy(Limits::default(), &mut host);
    tunnel(&mut host, &mut proxy);
    proxy.sample(&mut host);
    assert_eq!(host.reported, []);
}
