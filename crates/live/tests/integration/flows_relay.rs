//! The relay over real sockets: the application, its client and its server are those
//! of the simulator's test.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::flows_rig::{Run, Seen, soon, with};
use crate::relay_apps::{Account, Client, Echo, Relay};
use narrows_core::Role;
use narrows_engine::{Carrier, Setup, SocketPlan, TcpPlan};
use narrows_host::Part;
use narrows_scenario::Plan;
use narrows_units::{Duration, Instant};

/// Where the relay and the echo listen.
const RELAY: u16 = 7;
const ECHO: u16 = 9;

/// Clients and the echo on the host `client`, with a relay on `server` between them.
fn set_up(setup: &mut Setup, plan: &Plan, bytes: usize, resets: bool, seen: &Accounts) {
    let profile = setup.add_socket(SocketPlan {
        carrier: Carrier::Tcp(Box::new(TcpPlan::new(
            plan.flows[0].transport.tcp().unwrap(),
            true,
        ))),
        traffic_class: 0,
        flow: None,
        part: Part::Receives,
        role: Role::Initiator,
        owner: "relay".to_owned(),
        rng: None,
    });
    let host = |name| plan.host_named(name).unwrap();
    let at = |name, port| SocketAddr::from((plan.host(host(name)).ipv4, port));
    let echo = Echo {
        profile,
        local: at("client", ECHO),
        resets,
        waiting: Default::default(),
    };
    setup.add_app(host("client"), "echo", echo);
    let relay = Relay::new(profile, at("server", RELAY), profile, at("client", ECHO));
    setup.add_app(host("server"), "relay", relay);
    for who in 0..seen.lock().unwrap().len() {
        let client = Client {
            who,
            profile,
            server: at("server", RELAY),
            start: Instant::ZERO + Duration::from_millis(20) * who as u64,
            bytes,
            sent: 0,
            accounts: Arc::clone(seen),
        };
        setup.add_app(host("client"), "client", client);
    }
}

type Accounts = Arc<Mutex<Vec<Account>>>;

/// What becomes of `clients` of `bytes` each, over a wire that loses what `lose` says.
fn through_a_relay(
    test: &str,
    clients: usize,
    bytes: usize,
    resets: bool,
    lose: impl Fn(&Seen) -> bool + Send + 'static,
) -> Option<Vec<Account>> {
    let text = with(
        "[[flow]]\nname = \"aside\"\nfrom = \"client\"\nto = \"server\"\n\
         cc = \"kernel:cubic\"\ntraffic = \"bytes 1000b\"\n",
    );
    let accounts: Accounts = Arc::new(Mutex::new(vec![Account::default(); clients]));
    let run = Run::with_apps(test, &text, lose, &|plan, setup| {
        set_up(setup, plan, bytes, resets, &accounts);
    })?;
    let over = || accounts.lock().unwrap().iter().all(|a| a.ended || a.broken);
    assert!(soon(over), "{:?}", accounts.lock().unwrap());
    run.stop();
    let accounts = accounts.lock().unwrap().clone();
    Some(accounts)
}

#[test]
fn bytes_go_through_a_relay_and_back_unchanged_under_loss() {
    let count = AtomicU32::new(0);
    let lose = move |p: &Seen| p.payload > 0 && count.fetch_add(1, Ordering::Relaxed) % 100 == 99;
    let test = "bytes_go_through_a_relay";
    let Some(accounts) = through_a_relay(test, 3, 300_000, false, lose) else {
        return;
    };
    let whole = Account {
        echoed: 300_000,
        ended: true,
        ..Account::default()
    };
    assert_eq!(accounts, vec![whole; 3]);
}

#[test]
fn a_reset_of_the_server_reaches_the_client() {
    let test = "a_reset_of_the_server";
    let Some(accounts) = through_a_relay(test, 2, 100_000, true, |_| false) else {
        return;
    };
    for account in accounts {
        assert!(account.broken && !account.ended, "{account:?}");
    }
}
