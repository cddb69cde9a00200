//! The world of a plan: what is in it, and that its hosts reach each other.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use crate::world_rig::{Relay, THROUGH_A_ROUTER, plan, world};
use narrows_linux::RunId;
use narrows_live::World;
use narrows_scenario::{HostIndex, LinkIndex, Plan};

fn host(plan: &Plan, name: &str) -> HostIndex {
    plan.host_named(name).expect("the plan has the host")
}

#[test]
fn hosts_have_addresses_routes_and_mtus_and_routers_forward() {
    let plan = plan(THROUGH_A_ROUTER);
    let Some(world) = world("hosts_have_addresses", &plan) else {
        return;
    };
    let client = world.namespace(host(&plan, "client"));
    let server = plan.host(host(&plan, "server"));
    let own = plan.host(host(&plan, "client"));

    let (near, _) = world.tun(LinkIndex(0));
    assert!(near.name().starts_with(&world.run_id().to_string()));
    let devices = client.devices().unwrap();
    assert_eq!(devices.len(), 2, "lo and one end of a link: {devices:?}");
    assert!(devices.iter().all(|d| d.up), "{devices:?}");
    assert_eq!(client.device(near.name()).unwrap().mtu, 1500);

    let mut addresses = client.addresses().unwrap();
    addresses.retain(|(device, _)| *device == near.index());
    let expected = [IpAddr::V4(own.ipv4), IpAddr::V6(own.ipv6)];
    assert_eq!(addresses, expected.map(|a| (near.index(), a)));

    // To the server the narrower link's MTU is known from the beginning.
    let routes = client.routes().unwrap();
    for to in [IpAddr::V4(server.ipv4), IpAddr::V6(server.ipv6)] {
        let route = routes.iter().find(|r| r.to == to).expect("a route");
        assert_eq!(route.device, near.index());
        assert_eq!(route.mtu, Some(1400), "{route:?}");
    }
    let middle = world.namespace(host(&plan, "middle"));
    assert_eq!(middle.devices().unwrap().len(), 3);
    for (namespace, forwards) in [(middle, "1"), (client, "0")] {
        assert_eq!(namespace.sysctl("net.ipv4.ip_forward").unwrap(), forwards);
        let six = namespace.sysctl("net/ipv6/conf/all/forwarding").unwrap();
        assert_eq!(six, forwards);
    }
    // The openers' ports are kept for flows.
    let kept = client.sysctl("net.ipv4.ip_local_reserved_ports").unwrap();
    assert_eq!(kept, "5001,32768");
}

#[test]
fn tcp_and_udp_get_through_a_router_over_both_versions_of_ip() {
    let plan = plan(THROUGH_A_ROUTER);
    let Some(world) = world("tcp_and_udp_get_through", &plan) else {
        return;
    };
    let client = world.namespace(host(&plan, "client")).clone();
    let server = world.namespace(host(&plan, "server")).clone();
    let there = plan.host(host(&plan, "server")).clone();
    let own = plan.host(host(&plan, "client")).clone();
    let relay = Relay::start(world, plan.links.len());
    let versions = [
        (IpAddr::V4(there.ipv4), IpAddr::V4(own.ipv4)),
        (IpAddr::V6(there.ipv6), IpAddr::V6(own.ipv6)),
    ];
    for (to, from) in versions {
        let at = SocketAddr::new(to, 7000);
        let listener = server.run(|| TcpListener::bind(at)).unwrap().unwrap();
        let sends = client
            .spawn("sender", move || {
                let mut stream = TcpStream::connect(at).expect("the server is reached");
                stream.write_all(&[7; 1_000_000]).expect("it takes data");
            })
            .unwrap();
        let (mut stream, peer) = listener.accept().unwrap();
        assert_eq!(peer.ip(), from, "the source address is the host's");
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), 1_000_000);
        sends.join().unwrap();

        let asked = server.run(|| UdpSocket::bind(at)).unwrap().unwrap();
        let unspecified: SocketAddr = SocketAddr::new(from, 0);
        let asks = client
            .run(|| UdpSocket::bind(unspecified))
            .unwrap()
            .unwrap();
        asks.send_to(b"ping", at).unwrap();
        let mut datagram = [0; 16];
        asked
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let (length, peer) = asked.recv_from(&mut datagram).unwrap();
        assert_eq!((&datagram[..length], peer.ip()), (&b"ping"[..], from));
    }
    let world = relay.stop();
    let (a, b) = world.tun(LinkIndex(1));
    assert_eq!((a.dropped().unwrap(), b.dropped().unwrap()), (0, 0));
}

/// Neither membership reports nor solicitations nor anything else of the
/// kernel's own: the first packets of a run are those of its flows.
#[test]
fn a_new_world_is_silent() {
    let plan = plan(THROUGH_A_ROUTER);
    let Some(world) = world("a_new_world_is_silent", &plan) else {
        return;
    };
    // Membership reports come within a second or two (RFC 3810, section 9.11).
    std::thread::sleep(Duration::from_millis(2500));
    for link in [LinkIndex(0), LinkIndex(1)] {
        let (a, b) = world.tun(link);
        for tun in [a, b] {
            let mut packet = [0; 2048];
            let read = nix::unistd::read(tun, &mut packet);
            let received = read.map(|length| packet[..length].to_vec());
            assert_eq!(received, Err(nix::errno::Errno::EAGAIN), "{}", tun.name());
        }
    }
}

#[test]
fn a_typical_world_takes_some_milliseconds() {
    let plan = plan(THROUGH_A_ROUTER);
    if world("a_typical_world", &plan).is_none() {
        return;
    }
    let mut times = Vec::new();
    for _ in 0..10 {
        let started = Instant::now();
        let world = World::build(&plan, &RunId::random()).unwrap();
        let built = started.elapsed();
        drop(world);
        times.push((built, started.elapsed() - built));
    }
    times.sort();
    let (up, down) = times[times.len() / 2];
    // Said, not judged: the machine may be busy.
    eprintln!("set-up {up:?}, tear-down {down:?}");
}
