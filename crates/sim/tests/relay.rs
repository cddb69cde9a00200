//! An application that accepts, connects onward and copies both ways: connections that
//! come and go while the run goes on, with real bytes in both directions.

mod rig;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use narrows_app::Relay;
use narrows_host::{Options, Transport};
use narrows_packet::{App, Data, NullSink, Profile, SocketError, SocketEvent, SocketId, Sockets};
use narrows_sim::{Control, Simulation};
use narrows_tcp::Config;
use narrows_units::{Duration, Instant};
use rig::plan;

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

/// The n-th byte that client `who` sends.
fn byte(who: usize, n: usize) -> u8 {
    (n.wrapping_mul(31) ^ n >> 8).wrapping_add(who * 7) as u8
}

/// What became of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Account {
    echoed: usize,
    wrong: usize,
    ended: bool,
    broken: bool,
}

/// Sends bytes to an echo, ends its stream, and checks what comes back.
struct Client {
    who: usize,
    profile: Profile,
    server: SocketAddr,
    start: Instant,
    bytes: usize,
    sent: usize,
    accounts: Arc<Mutex<Vec<Account>>>,
}

impl Client {
    fn send(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        while self.sent < self.bytes {
            let end = self.bytes.min(self.sent + 5_000);
            let part: Vec<u8> = (self.sent..end).map(|n| byte(self.who, n)).collect();
            match host.write(socket, Data::Bytes(&part)) {
                0 => return,
                taken => self.sent += taken as usize,
            }
        }
        host.want_room(socket, false);
        host.shut_down(socket);
    }
}

impl App for Client {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.wake_at(Some(self.start));
        Ok(())
    }

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        let socket = host.connect(self.profile, None, self.server);
        host.want_room(socket.expect("there is a way"), true);
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Writable => self.send(host, socket),
            SocketEvent::Readable => {
                let mut bytes = Vec::new();
                host.read(socket, u64::MAX, Some(&mut bytes));
                let account = &mut self.accounts.lock().unwrap()[self.who];
                for got in bytes {
                    account.wrong += usize::from(got != byte(self.who, account.echoed));
                    account.echoed += 1;
                }
            }
            SocketEvent::PeerClosed => {
                self.accounts.lock().unwrap()[self.who].ended = true;
                host.close(socket);
            }
            SocketEvent::Broken(_) => self.accounts.lock().unwrap()[self.who].broken = true,
            _ => {}
        }
    }
}

/// Sends back what it gets, as its peer takes it.
struct Echo {
    profile: Profile,
    local: SocketAddr,
    waiting: std::collections::BTreeMap<SocketId, (Vec<u8>, bool)>,
}

impl Echo {
    fn answer(&mut self, host: &mut dyn Sockets, socket: SocketId) {
        let Some((waiting, ended)) = self.waiting.get_mut(&socket) else {
            return;
        };
        host.read(socket, u64::MAX, Some(waiting));
        let taken = host.write(socket, Data::Bytes(waiting));
        waiting.drain(..taken as usize);
        host.want_room(socket, !waiting.is_empty());
        if *ended && waiting.is_empty() {
            host.close(socket);
            self.waiting.remove(&socket);
        }
    }
}

impl App for Echo {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        host.listen(self.profile, self.local, 1_000).map(|_| ())
    }

    fn on_event(&mut self, socket: SocketId, event: SocketEvent, host: &mut dyn Sockets) {
        match event {
            SocketEvent::Incoming => {
                while let Some((new, _)) = host.accept(socket) {
                    self.waiting.insert(new, (Vec::new(), false));
                }
            }
            SocketEvent::Readable | SocketEvent::Writable => self.answer(host, socket),
            SocketEvent::PeerClosed => {
                if let Some(entry) = self.waiting.get_mut(&socket) {
                    entry.1 = true;
                }
                self.answer(host, socket);
            }
            SocketEvent::Broken(_) => {
                self.waiting.remove(&socket);
                host.close(socket);
            }
            _ => {}
        }
    }
}

/// Runs `clients` of `bytes` each, 20 ms apart, through the relay; what became of them,
/// and how many sockets are left.
fn through_a_relay(loss: &str, clients: usize, bytes: usize, echo: bool) -> (Vec<Account>, usize) {
    let plan = plan(&ROW.replace("LOSS", loss));
    let mut sim = Simulation::new(&plan, 5).unwrap();
    let host = |name: &str| plan.hosts.iter().find(|h| h.name == name).unwrap();
    let at = |name: &str, port| SocketAddr::from((host(name).ipv4, port));
    let config = Config::new(at("client", 0), at("server", 0), "cubic".parse().unwrap());
    let mut profile = |name: &str| {
        sim.add_profile(Options {
            transport: Transport::Tcp(Box::new(config.clone())),
            traffic_class: 0,
            flow: None,
            sends: false,
            name: name.to_owned(),
            rng: None,
        })
    };
    let profiles = ["client", "near", "far", "server"].map(&mut profile);
    let accounts = Arc::new(Mutex::new(vec![Account::default(); clients]));
    if echo {
        let server = Echo {
            profile: profiles[3],
            local: at("server", PORT),
            waiting: Default::default(),
        };
        assert!(sim.add_app("host/server", "echo", Box::new(server)));
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
    let outcome = sim.run(&mut NullSink, &Control::default()).unwrap();
    rig::conserves(&outcome);
    (accounts.lock().unwrap().clone(), outcome.sockets)
}

#[test]
fn bytes_go_through_a_relay_and_back_unchanged_under_loss() {
    let (accounts, _) = through_a_relay("loss random 1%", 3, 300_000, true);
    let whole = Account {
        echoed: 300_000,
        ended: true,
        ..Account::default()
    };
    assert_eq!(accounts, vec![whole; 3]);
}

#[test]
fn connections_that_have_ended_leave_no_socket() {
    let (accounts, sockets) = through_a_relay("", 200, 1_000, true);
    assert!(
        accounts
            .iter()
            .all(|t| t.ended && t.echoed == 1_000 && t.wrong == 0)
    );
    // Who closed first has waited in TIME-WAIT for a minute (Linux's TCP_TIMEWAIT_LEN).
    let (_, before) = through_a_relay("", 0, 0, true);
    assert_eq!(sockets, before);
}

#[test]
fn a_server_that_does_not_listen_breaks_the_client_off() {
    let (accounts, _) = through_a_relay("", 1, 1_000, false);
    assert!(accounts[0].broken, "{accounts:?}");
    assert_eq!(accounts[0].echoed, 0);
}
