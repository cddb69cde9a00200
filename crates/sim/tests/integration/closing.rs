//! What a peer receives when an application closes a socket that is not empty, as Linux
//! does it.

use crate::rig;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::relay_apps::{Account, Client};
use crate::rig::{Record, plan};
use narrows_core::{App, NullSink, Profile, SocketError, SocketEvent, SocketId, Sockets};
use narrows_host::{Options, Part, Transport};
use narrows_sim::{RunHandle, Simulation};
use narrows_tcp::TcpConfig;
use narrows_units::{Duration, Instant};

const PORT: u16 = 7;

/// Two hosts.
const PAIR: &str = "duration = \"10s\"\n\
    [[link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n\
    up = [\"netem delay 5ms\"]\ndown = [\"netem delay 5ms\"]\n\
    [[flow]]\nname = \"aside\"\nfrom = \"client\"\nto = \"server\"\ntraffic = \"bytes 1000b\"\ncc = \"reno\"\n";

/// What a server does with a connection.
#[derive(Clone, Copy, PartialEq)]
enum Manner {
    /// Reads all, then closes.
    Reads,
    /// Closes it when there is something to read.
    ReadsNothing,
    /// Leaves it to its listener, which is closed later.
    AcceptsNothing,
    /// The same, and the listener stays open.
    NeverCloses,
}

struct Server {
    manner: Manner,
    profile: Profile,
    local: SocketAddr,
    listener: Option<SocketId>,
}

impl App for Server {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.listener = Some(host.listen(self.profile, self.local, 10)?);
        if self.manner == Manner::AcceptsNothing {
            host.wake_at(Some(Instant::ZERO + Duration::from_secs(1)));
        }
        Ok(())
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        host.close(self.listener.expect("it listens"));
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match (event, self.manner) {
            (SocketEvent::Incoming, Manner::Reads | Manner::ReadsNothing) => {
                host.accept(socket);
            }
            (SocketEvent::Readable, Manner::Reads) => {
                host.read(socket, u64::MAX, None);
            }
            (SocketEvent::PeerClosed, Manner::Reads)
            | (SocketEvent::Readable, Manner::ReadsNothing) => host.close(socket),
            _ => {}
        }
    }
}

/// What a client that sends 1000 bytes learns, and how many sockets are left.
fn learns(manner: Manner) -> (Account, usize) {
    let plan = plan(PAIR);
    let mut sim = Simulation::new(&plan, 5).unwrap();
    let host = |name: &str| plan.hosts.iter().find(|h| h.name == name).unwrap();
    let at = |name: &str, port| SocketAddr::from((host(name).ipv4, port));
    let config = TcpConfig::new(at("client", 0), at("server", 0), "cubic".parse().unwrap());
    let profile = sim.add_profile(Options {
        transport: Transport::Tcp(Box::new(config)),
        traffic_class: 0,
        flow: None,
        part: Part::Receives,
        name: "test".to_owned(),
        rng: None,
    });
    let accounts = Arc::new(Mutex::new(vec![Account::default()]));
    let server = Server {
        manner,
        profile,
        local: at("server", PORT),
        listener: None,
    };
    assert!(sim.add_app("host/server", "server", Box::new(server)));
    let client = Client {
        who: 0,
        profile,
        server: at("server", PORT),
        start: Instant::ZERO + Duration::from_millis(100),
        bytes: 1_000,
        sent: 0,
        accounts: Arc::clone(&accounts),
    };
    assert!(sim.add_app("host/client", "client", Box::new(client)));
    let outcome = sim.run(&mut NullSink, &RunHandle::default()).unwrap();
    rig::conserves(&outcome);
    let account = accounts.lock().unwrap()[0].clone();
    (account, outcome.sockets)
}

#[test]
fn a_stream_that_is_closed_with_unread_data_is_reset_and_one_that_was_read_is_not() {
    let (read, _) = learns(Manner::Reads);
    assert!(read.ended && !read.broken, "{read:?}");
    let (unread, _) = learns(Manner::ReadsNothing);
    assert!(unread.broken && !unread.ended, "{unread:?}");
}

#[test]
fn a_listener_that_is_closed_resets_connections_that_nobody_accepted() {
    let (waits, open) = learns(Manner::NeverCloses);
    assert!(!waits.broken && !waits.ended, "{waits:?}");
    let (reset, left) = learns(Manner::AcceptsNothing);
    assert!(reset.broken && !reset.ended, "{reset:?}");
    // The listener and the connection.
    assert_eq!(left + 2, open);
}

/// When a flow of `segments` full segments over 20 Mbit/s and 20 ms, of which `opens` opens the
/// connection, is complete.
fn completed(segments: u64, opens: &str) -> Duration {
    let bytes = segments * 1448;
    let words = format!("traffic = \"bytes {bytes}b\"\ncc = \"reno\"\nopens = \"{opens}\"");
    let plan = plan(&format!(
        "duration = \"1s\"\n[[link]]\nname = \"l\"\nends = [\"client\", \"server\"]\n\
         up = [\"netem delay 10ms\", \"rate 20Mbit queue pfifo limit 100\"]\n\
         down = [\"netem delay 10ms\"]\n{}",
        rig::flow("short", &words)
    ));
    let mut record = Record::default();
    rig::run(&plan, 1, &mut record);
    let (at, _, delivered, complete) = record.finished[0];
    assert!(complete && delivered == bytes, "{:?}", record.finished);
    at.since(Instant::ZERO)
}

#[test]
fn the_end_of_a_stream_waits_for_the_window_that_its_data_fills() {
    // The first window is of ten segments, and the end of the stream is one more: it waits for
    // the first ACK, which a new connection sends for a single segment. A segment takes 0.61 ms,
    // so that nine have arrived 15.45 ms after the first left, and what leaves with that ACK
    // arrives after 30.61 ms (Linux 7.3.4 takes 15.2 ms longer for ten, too).
    for opens in ["client", "server"] {
        let later = completed(10, opens) - completed(9, opens);
        let us = Duration::from_micros;
        assert!(
            (us(15_100)..us(15_300)).contains(&later),
            "{opens}: {later}"
        );
    }
}
