//! What tunnels share, memory and their number, and that whoever reads is served whatever others hold.

use crate::fake::Host;
use crate::fake::open::{listener, opened, proxy, tunnel, tunnel_of};
use narrows_core::{App, ConnectionError, SocketId};
use narrows_pep::{Limits, Proxy, Shared};
use narrows_units::Duration;

/// A client of another address than the others.
const OTHER: &str = "10.0.0.7:4000";

/// Tunnels of as many clients whose destinations take nothing, until nothing more is held.
fn stalled(host: &mut Host, proxy: &mut Proxy, count: usize) -> Vec<(SocketId, SocketId)> {
    let one = |i: usize| {
        let (near, far) = tunnel_of(host, proxy, &format!("10.0.1.{}:4000", i % 200));
        host[far].room = 0;
        host.arrives(proxy, near, &[1; 50_000]);
        (near, far)
    };
    (0..count).map(one).collect()
}

#[test]
fn tunnels_share_one_budget_and_none_is_shut_out() {
    let limits = Limits {
        budget: 10_000,
        ..Limits::default()
    };
    let mut host = Host::new();
    let mut proxy = proxy(limits, &mut host);
    let tunnels = stalled(&mut host, &mut proxy, 5);
    assert!(proxy.backlog() > 9_000 && proxy.backlog() <= 10_000);
    let held: Vec<_> = proxy.facts().map(|t| t.backlog_up).collect();
    assert!(held.iter().all(|held| *held > 0), "{held:?}");
    for (near, far) in tunnels {
        host.drains(&mut proxy, far, 50_000);
        assert_eq!(host.sent(far).len(), 50_000);
        assert!(host[near].incoming.is_empty());
    }
    assert_eq!(proxy.backlog(), 0);
}

#[test]
fn whoever_reads_is_served_whatever_others_hold() {
    let limits = Limits {
        budget: 10_000,
        ..Limits::default()
    };
    let mut host = Host::new();
    let mut proxy = proxy(limits, &mut host);
    stalled(&mut host, &mut proxy, 300);
    // To the last byte: nothing is left for anybody.
    let full = proxy.backlog();
    assert!(full <= 10_000 && full > 9_900, "{full}");
    for client in [OTHER, "10.0.1.1:4001"] {
        let (near, far) = tunnel_of(&mut host, &mut proxy, client);
        let sent: Vec<u8> = (0..100_000).map(|i| (i % 251) as u8).collect();
        host.arrives(&mut proxy, near, &sent);
        assert_eq!(host.sent(far), sent);
        host.arrives(&mut proxy, far, &sent);
        assert_eq!(host.sent(near), sent);
        // One that takes some at a time gets that, and its end behind the last byte.
        host[far].room = 10;
        host.arrives(&mut proxy, near, &sent);
        host.peer_closes(&mut proxy, near);
        for _ in 0..1_000 {
            assert!(!host[far].ended);
            host.drains(&mut proxy, far, 100);
        }
        assert_eq!(host.sent(far), sent);
        assert!(host[far].ended);
        assert!(proxy.backlog() <= 10_000);
    }
}

#[test]
fn a_stream_whose_last_bytes_are_left_unread_is_not_ended_before_them() {
    let limits = Limits {
        budget: 1,
        ..Limits::default()
    };
    let (mut host, mut proxy, near, far) = opened(limits);
    host[far].room = 0;
    host.arrives(&mut proxy, near, b"last words");
    host.peer_closes(&mut proxy, near);
    assert!(!host[far].ended);
    host.drains(&mut proxy, far, 4);
    assert!(!host[far].ended);
    host.drains(&mut proxy, far, 100);
    assert_eq!(host.sent(far), b"last words");
    assert!(host[far].ended);
}

#[test]
fn what_others_send_costs_no_step_of_those_that_stall() {
    let limits = Limits {
        budget: 10_000,
        ..Limits::default()
    };
    let steps = |count: usize| {
        let mut host = Host::new();
        let mut proxy = proxy(limits, &mut host);
        stalled(&mut host, &mut proxy, count);
        let (near, far) = tunnel_of(&mut host, &mut proxy, OTHER);
        let before = host.relays;
        for _ in 0..100 {
            host.arrives(&mut proxy, near, b"question");
            host.arrives(&mut proxy, far, b"answer");
        }
        host.relays - before
    };
    assert_eq!(steps(0), steps(500));
}

#[test]
fn a_tunnel_in_which_nothing_moves_times_out_whatever_its_sender_tries() {
    let limits = Limits {
        budget: 10_000,
        idle: Duration::from_secs(100),
        ..Limits::default()
    };
    let mut host = Host::new();
    let mut proxy = proxy(limits, &mut host);
    let all = stalled(&mut host, &mut proxy, 20);
    let (near, far) = tunnel_of(&mut host, &mut proxy, OTHER);
    for _ in 0..11 {
        // Those that are stalled have more to send, and the other is served.
        for (near, _) in &all {
            if !host[*near].closed {
                host.arrives(&mut proxy, *near, b"more");
            }
        }
        host.arrives(&mut proxy, near, b"question");
        host.passes(&mut proxy, Duration::from_secs(10));
    }
    assert!(
        all.iter()
            .all(|(near, far)| host[*near].reset && host[*far].reset)
    );
    assert_eq!(proxy.counters().idle_timeouts, 20);
    assert!(!host[near].reset && !host[far].reset);
    assert_eq!((proxy.tunnels(), proxy.backlog()), (1, 0));
}

/// Two proxies that share what they may bear, each with a host of its own.
fn pair(limits: Limits) -> [(Host, Proxy); 2] {
    let shared = Shared::new(2, limits.budget);
    [(); 2].map(|()| {
        let (mut host, listener) = (Host::new(), listener());
        let mut proxy = Proxy::sharing(vec![listener], limits, &shared);
        proxy.start(&mut host).unwrap();
        (host, proxy)
    })
}

#[test]
fn what_one_proxy_holds_another_that_shares_its_budget_does_not_wait_for() {
    let limits = Limits {
        budget: 10_000,
        ..Limits::default()
    };
    let [(mut host, mut proxy), (mut host_b, mut proxy_b)] = pair(limits);
    stalled(&mut host, &mut proxy, 150);
    assert!(proxy.backlog() > 9_900);
    let (near_b, far_b) = tunnel(&mut host_b, &mut proxy_b);
    host_b.arrives(&mut proxy_b, near_b, &[2; 30_000]);
    assert_eq!(host_b.sent(far_b), [2; 30_000]);
    // What it takes not yet stays with the sender, until the first gives some back.
    host_b[far_b].room = 0;
    host_b.arrives(&mut proxy_b, near_b, &[3; 3_000]);
    assert!(proxy_b.backlog() < 100 && proxy_b.counters().memory_short > 0);
    proxy.abandon(&mut host);
    host_b.arrives(&mut proxy_b, near_b, &[3; 1]);
    assert_eq!(proxy_b.backlog(), 3_001);
}

#[test]
fn a_limit_of_tunnels_holds_for_all_proxies_that_share_it() {
    for (tunnels, tunnels_per_client) in [(2, 9), (9, 2)] {
        let [(mut host, mut proxy), (mut host_b, mut proxy_b)] = pair(Limits {
            tunnels,
            tunnels_per_client,
            ..Limits::default()
        });
        let (near, _) = tunnel(&mut host, &mut proxy);
        tunnel(&mut host_b, &mut proxy_b);
        for (host, proxy) in [(&mut host, &mut proxy), (&mut host_b, &mut proxy_b)] {
            let refused = host.connects(proxy);
            assert!(host[refused].reset && host[refused].closed);
            let counters = proxy.counters();
            let over = (counters.over_tunnels, counters.over_client);
            assert_eq!(over, if tunnels == 2 { (1, 0) } else { (0, 1) });
        }
        host.breaks(&mut proxy, near, ConnectionError::Reset);
        tunnel(&mut host_b, &mut proxy_b);
    }
}

#[test]
fn who_is_over_the_limit_is_reset_at_once_and_takes_nobody_s_place() {
    let limits = Limits {
        tunnels: 100,
        tunnels_per_client: 50,
        ..Limits::default()
    };
    let mut host = Host::new();
    let mut proxy = proxy(limits, &mut host);
    for i in 0..30_000 {
        let near = host.connects(&mut proxy);
        assert_eq!(host[near].reset && host[near].closed, i >= 50);
    }
    assert_eq!(
        (proxy.tunnels(), proxy.counters().over_client),
        (50, 29_950)
    );
    assert!(
        proxy.counters().lines_held_back > 29_900,
        "nor fills the log"
    );
    tunnel_of(&mut host, &mut proxy, OTHER);
}

#[test]
fn a_client_of_ipv6_is_known_by_its_network() {
    let limits = Limits {
        tunnels_per_client: 2,
        ..Limits::default()
    };
    let mut host = Host::new();
    let mut proxy = proxy(limits, &mut host);
    for (address, served) in [
        ("[2001:db8::1]:1", true),
        ("[2001:db8::2]:1", true),
        ("[2001:db8::3]:1", false),
        ("[2001:db8:0:1::3]:1", true),
    ] {
        let near = host.connects_from(&mut proxy, address);
        assert_eq!(!host[near].reset, served, "{address}");
    }
}

#[test]
fn the_ends_of_a_tunnel_that_holds_something_are_probed_and_those_of_an_idle_one_are_not() {
    let minute = Duration::from_secs(60);
    let long = Duration::from_secs(600);
    let (mut host, mut proxy, near, far) = opened(Limits::default());
    host.passes(&mut proxy, long);
    assert_eq!(host.probed, [], "nothing waits");
    host[far].room = 0;
    host.arrives(&mut proxy, near, b"words");
    assert_eq!(host.wake, Some(host.now + minute));
    host.passes(&mut proxy, Duration::from_secs(59));
    // What moves puts it off.
    host.drains(&mut proxy, far, 1);
    host.passes(&mut proxy, Duration::from_secs(59));
    assert_eq!(host.probed, []);
    host.passes(&mut proxy, Duration::from_secs(2));
    let both = [(near, minute), (far, minute)];
    assert_eq!(host.probed, both);
    host.drains(&mut proxy, far, 100);
    host.probed.clear();
    host.passes(&mut proxy, long);
    assert_eq!(host.probed, [], "nothing waits any more");
    // The client has ended its stream: it may have closed its connection, which nothing says.
    host.peer_closes(&mut proxy, near);
    host.passes(&mut proxy, Duration::from_secs(61));
    assert_eq!(host.probed, both);
    assert!(!host[near].reset, "it may be waiting for an answer");
}

#[test]
fn a_destination_that_is_slow_to_open_has_its_time_whatever_waits_for_it() {
    let limits = Limits {
        connect: Duration::from_secs(90),
        ..Limits::default()
    };
    let mut host = Host::new();
    let mut proxy = proxy(limits, &mut host);
    let near = host.connects(&mut proxy);
    host.arrives(
        &mut proxy,
        near,
        &crate::fake::open::asks(narrows_pep::Layout::Convert),
    );
    host.arrives(&mut proxy, near, b"early words");
    host.peer_closes(&mut proxy, near);
    host.passes(&mut proxy, Duration::from_secs(89));
    assert_eq!(proxy.tunnels(), 1);
    host.passes(&mut proxy, Duration::from_secs(2));
    assert_eq!(proxy.counters().connect_timeouts, 1);
}

#[test]
fn a_direction_that_holds_as_much_as_it_may_is_not_short_of_memory() {
    let limits = Limits {
        backlog: 1_000,
        ..Limits::default()
    };
    let (mut host, mut proxy, near, far) = opened(limits);
    host.arrives(&mut proxy, near, b"goes on");
    host[far].room = 0;
    host.arrives(&mut proxy, near, &[7; 1_500]);
    assert_eq!((proxy.backlog(), proxy.counters().memory_short), (1_000, 0));
}

#[test]
fn where_nothing_waits_no_memory_is_short_though_none_is_left() {
    let limits = Limits {
        budget: 10_000,
        ..Limits::default()
    };
    let mut host = Host::new();
    let mut proxy = proxy(limits, &mut host);
    stalled(&mut host, &mut proxy, 300);
    let (near, far) = tunnel_of(&mut host, &mut proxy, OTHER);
    let before = proxy.counters().memory_short;
    host.arrives(&mut proxy, near, b"passes through");
    assert_eq!(host.sent(far), b"passes through");
    assert_eq!(proxy.counters().memory_short, before);
}

#[test]
fn another_budget_holds_at_once() {
    let (mut host, mut proxy, near, far) = opened(Limits::default());
    let limits = Limits {
        budget: 1_000,
        ..Limits::default()
    };
    let reconfigured = proxy.reconfigure(&mut host, vec![listener()], limits);
    assert_eq!(reconfigured, Ok(()));
    host[far].room = 0;
    host.arrives(&mut proxy, near, &[7; 5_000]);
    assert!(proxy.backlog() > 0 && proxy.backlog() <= 1_000);
}
