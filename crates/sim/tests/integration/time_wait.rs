//! A client that opens a connection from a port whose last one is in TIME-WAIT at the server.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use narrows_core::{App, Event, EventSink, Profile, SocketError, SocketEvent, SocketId, Sockets};
use narrows_host::{Options, Part, Transport};
use narrows_sim::{RunHandle, Simulation};
use narrows_tcp::TcpConfig;
use narrows_units::{Duration, Instant};
use narrows_wire::{Ip, Tcp, TcpFlags};

use crate::rig::{self, plan};

/// Two hosts, 10 ms of round trip.
const PAIR: &str = "duration = \"10s\"\n\
    [[link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n\
    up = [\"netem delay 5ms\"]\ndown = [\"netem delay 5ms\"]\n\
    [[flow]]\nname = \"aside\"\nfrom = \"client\"\nto = \"server\"\ntraffic = \"bytes 1000b\"\ncc = \"reno\"\n";
const RTT: Duration = Duration::from_millis(10);

/// The server's.
const PORT: u16 = 7;

/// How often the client connects, once a second.
const TIMES: usize = 5;

/// The server's SYN-ACKs and FINs, by their numbers.
#[derive(Default)]
struct Numbers {
    begins: Vec<u32>,
    ends: Vec<u32>,
}

impl EventSink for Numbers {
    fn record(&mut self, _: Instant, event: Event<'_>) {
        let Event::Received { packet, .. } = event else {
            return;
        };
        let Ok(ip) = Ip::parse(&packet.bytes) else {
            return;
        };
        let tcp = Tcp::parse(&packet.bytes[ip.header_len..]).ok();
        match tcp.filter(|tcp| tcp.source_port == PORT) {
            Some(tcp) if tcp.flags.has(TcpFlags::SYN) => self.begins.push(tcp.seq),
            Some(tcp) if tcp.flags.has(TcpFlags::FIN) => self.ends.push(tcp.seq),
            _ => {}
        }
    }
}

/// What the server does with a connection when it comes.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    Closes,
    /// Ends its stream, and keeps the socket.
    KeepsTheSocket,
    /// Closes it, and its listener as well.
    ListensNoMore,
}

struct Server {
    manner: Manner,
    profile: Profile,
    local: SocketAddr,
}

impl App for Server {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.listen(self.profile, self.local, 10).map(|_| ())
    }

    fn on_timer(&mut self, _: &mut dyn Sockets) {}

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        if event == SocketEvent::Incoming {
            let (client, _) = host.accept(socket).expect("one that came");
            match self.manner {
                Manner::KeepsTheSocket => host.shut_down(client),
                Manner::Closes | Manner::ListensNoMore => host.close(client),
            }
            if self.manner == Manner::ListensNoMore {
                host.close(socket);
            }
        }
    }
}

/// How long an attempt took, and whether there was a connection then.
type Attempt = (Duration, bool);

/// Connects from one port, each time that a second has passed.
struct Client {
    profile: Profile,
    local: SocketAddr,
    server: SocketAddr,
    times: usize,
    began: Instant,
    attempts: Arc<Mutex<Vec<Attempt>>>,
}

impl App for Client {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.wake_at(Some(Instant::ZERO));
        Ok(())
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        self.began = host.now();
        let opened = host.connect(self.profile, Some(self.local), self.server);
        opened.expect("its last connection is over");
        if self.attempts.lock().unwrap().len() + 1 < self.times {
            host.wake_at(Some(self.began + Duration::from_secs(1)));
        }
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        let took = host.now().since(self.began);
        let mut attempts = self.attempts.lock().unwrap();
        match event {
            SocketEvent::Established { .. } => attempts.push((took, true)),
            SocketEvent::Broken(_) => {
                attempts.push((took, false));
                host.close(socket);
            }
            SocketEvent::PeerClosed => host.close(socket),
            _ => {}
        }
    }
}

/// What became of so many attempts of the client's, how many sockets are left, and the server's
/// numbers.
fn attempts(
    times: usize,
    manner: Manner,
    timestamps: bool,
    v6: bool,
) -> (Vec<Attempt>, usize, Numbers) {
    let plan = plan(PAIR);
    let mut sim = Simulation::new(&plan, 5).unwrap();
    let at = |name: &str, port| {
        let host = plan.hosts.iter().find(|h| h.name == name).unwrap();
        match v6 {
            true => SocketAddr::from((host.ipv6, port)),
            false => SocketAddr::from((host.ipv4, port)),
        }
    };
    let usual = TcpConfig::new(at("client", 0), at("server", 0), "cubic".parse().unwrap());
    let config = TcpConfig {
        timestamps,
        ..usual
    };
    let profile = sim.add_profile(Options {
        transport: Transport::Tcp(Box::new(config)),
        traffic_class: 0,
        flow: None,
        part: Part::Receives,
        name: "test".to_owned(),
        rng: None,
    });
    let server = Server {
        manner,
        profile,
        local: at("server", PORT),
    };
    assert!(sim.add_app("host/server", "server", Box::new(server)));
    let attempts = Arc::new(Mutex::new(Vec::new()));
    let client = Client {
        profile,
        local: at("client", 5_000),
        server: at("server", PORT),
        times,
        began: Instant::ZERO,
        attempts: Arc::clone(&attempts),
    };
    assert!(sim.add_app("host/client", "client", Box::new(client)));
    let mut numbers = Numbers::default();
    let outcome = sim.run(&mut numbers, &RunHandle::default()).unwrap();
    rig::conserves(&outcome);
    let attempts = attempts.lock().unwrap().clone();
    (attempts, outcome.sockets, numbers)
}

#[test]
fn a_port_in_time_wait_at_the_server_opens_a_connection_in_a_round_trip() {
    for (timestamps, v6) in [(true, false), (true, true), (false, false)] {
        let of = |times, manner| attempts(times, manner, timestamps, v6);
        let (opened, left, numbers) = of(TIMES, Manner::Closes);
        assert_eq!(opened, [(RTT, true); TIMES], "{timestamps} {v6}");
        // The last one is in TIME-WAIT alone.
        assert_eq!(left, of(1, Manner::Closes).1);
        // Each begins beyond the end of the one before.
        let ends = numbers.ends.iter().map(|fin| fin.wrapping_add(1 + 65_537));
        assert_eq!(numbers.begins[1..], ends.collect::<Vec<_>>()[..TIMES - 1]);
        let (opened, kept, _) = of(TIMES, Manner::KeepsTheSocket);
        assert_eq!(opened, [(RTT, true); TIMES], "{timestamps} {v6}");
        // Those of the server stay until it closes them.
        assert_eq!(kept, left + TIMES - 1);
    }
}

/// An ACK, a reset, and the SYN again by a timer: a listener would have answered the first.
#[test]
fn without_a_listener_time_wait_answers_the_syn_itself() {
    let (attempts, ..) = attempts(TIMES, Manner::ListensNoMore, true, false);
    let [first, (took, opened), ..] = attempts[..] else {
        panic!("{attempts:?}");
    };
    assert_eq!(first, (RTT, true));
    assert!(!opened && took > RTT * 2, "{attempts:?}");
}
