//! An application that accepts, connects onward and copies both ways: connections that
//! come and go while the run goes on, with real bytes in both directions.

use crate::rig;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::relay_apps::{Account, Client, Echo, Relay};
use crate::rig::plan;
use narrows_core::NullSink;
use narrows_host::{Options, Part, Transport};
use narrows_sim::{RunHandle, Simulation};
use narrows_tcp::TcpConfig;
use narrows_units::{Duration, Instant};

const PORT: u16 = 7;

/// Three hosts in a row; the one in the middle does not forward.
const ROW: &str = "duration = \"100s\"\n\
    [[link]]\nname = \"near\"\nends = [\"client\", \"middle\"]\n\
    up = [\"netem delay 5ms LOSS\", \"rate 20Mbit queue fq_codel\"]\n\
    down = [\"netem delay 5ms LOSS\"]\n\
    [[link]]\nname = \"far\"\nends = [\"middle\", \"server\"]\n\
    up = [\"netem delay 20ms LOSS\", \"rate 10Mbit queue fq_codel\"]\n\
    down = [\"netem delay 20ms LOSS\"]\n\
    [[flow]]\nname = \"aside\"\nfrom = \"client\"\nto = \"middle\"\ntraffic = \"bytes 1000b\"\ncc = \"reno\"\n";

/// What the server does.
#[derive(Clone, Copy, PartialEq)]
enum Server {
    Echoes,
    Resets,
    IsAbsent,
}

/// Runs `clients` of `bytes` each, 20 ms apart, through the relay; what became of them,
/// and how many sockets are left.
fn through_a_relay(
    loss: &str,
    clients: usize,
    bytes: usize,
    server: Server,
) -> (Vec<Account>, usize) {
    let plan = plan(&ROW.replace("LOSS", loss));
    let mut sim = Simulation::new(&plan, 5).unwrap();
    let host = |name: &str| plan.hosts.iter().find(|h| h.name == name).unwrap();
    let at = |name: &str, port| SocketAddr::from((host(name).ipv4, port));
    let config = TcpConfig::new(at("client", 0), at("server", 0), "cubic".parse().unwrap());
    let mut profile = |name: &str| {
        sim.add_profile(Options {
            transport: Transport::Tcp(Box::new(config.clone())),
            traffic_class: 0,
            flow: None,
            part: Part::Receives,
            name: name.to_owned(),
            rng: None,
        })
    };
    let profiles = ["client", "near", "far", "server"].map(&mut profile);
    let accounts = Arc::new(Mutex::new(vec![Account::default(); clients]));
    if server != Server::IsAbsent {
        let echo = Echo {
            profile: profiles[3],
            local: at("server", PORT),
            resets: server == Server::Resets,
            waiting: Default::default(),
        };
        assert!(sim.add_app("host/server", "echo", Box::new(echo)));
    }
    let relay = Relay::new(
        profiles[1],
        at("middle", PORT),
        profiles[2],
        at("server", PORT),
    );
    assert!(sim.add_app("host/middle", "relay", Box::new(relay)));
    for who in 0..clients {
        let client = Client {
            who,
            profile: profiles[0],
            server: at("middle", PORT),
            start: Instant::ZERO + Duration::from_millis(20) * who as u64,
            bytes,
            sent: 0,
            accounts: Arc::clone(&accounts),
        };
        assert!(sim.add_app("host/client", "client", Box::new(client)));
    }
    let outcome = sim.run(&mut NullSink, &RunHandle::default()).unwrap();
    rig::conserves(&outcome);
    (accounts.lock().unwrap().clone(), outcome.sockets)
}

#[test]
fn bytes_go_through_a_relay_and_back_unchanged_under_loss() {
    let (accounts, _) = through_a_relay("loss random 1%", 3, 300_000, Server::Echoes);
    let whole = Account {
        echoed: 300_000,
        ended: true,
        ..Account::default()
    };
    assert_eq!(accounts, vec![whole; 3]);
}

#[test]
fn connections_that_have_ended_leave_no_socket() {
    let (accounts, sockets) = through_a_relay("", 200, 1_000, Server::Echoes);
    assert!(
        accounts
            .iter()
            .all(|t| t.ended && t.echoed == 1_000 && t.wrong == 0)
    );
    // Who closed first has waited in TIME-WAIT for a minute (Linux's TCP_TIMEWAIT_LEN).
    let (_, before) = through_a_relay("", 0, 0, Server::Echoes);
    assert_eq!(sockets, before);
}

#[test]
fn a_server_that_does_not_listen_breaks_the_client_off() {
    let (accounts, _) = through_a_relay("", 1, 1_000, Server::IsAbsent);
    assert!(accounts[0].broken, "{accounts:?}");
    assert_eq!(accounts[0].echoed, 0);
}

#[test]
fn a_reset_of_the_server_reaches_the_client() {
    let (accounts, _) = through_a_relay("", 2, 100_000, Server::Resets);
    for account in accounts {
        assert!(account.broken && !account.ended, "{account:?}");
    }
}
