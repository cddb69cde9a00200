//! An application sets and reads options of its congestion control by name.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use crate::relay_apps::Echo;
use crate::rig::plan;
use narrows_core::{App, NullSink, Profile, SocketError, SocketEvent, SocketId, Sockets};
use narrows_host::{Options, Part, Transport};
use narrows_sim::{RunHandle, Simulation};
use narrows_tcp::TcpConfig;
use narrows_units::Duration;

const ROW: &str = "duration = \"1s\"\n\
    [[link]]\nname = \"near\"\nends = [\"client\", \"server\"]\nup = [\"netem delay 5ms\"]\n\
    [[flow]]\nname = \"aside\"\nfrom = \"client\"\nto = \"server\"\ntraffic = \"bytes 1000b\"\n\
    cc = \"reno\"\n";

type Seen = Arc<Mutex<Vec<(Result<(), SocketError>, Option<u64>)>>>;

/// Sets Prague's variant and target before the handshake and after it.
struct Setter {
    profile: Profile,
    server: SocketAddr,
    socket: Option<SocketId>,
    seen: Seen,
}

impl Setter {
    fn set(&self, name: &str, value: u64, host: &mut dyn Sockets) {
        let socket = self.socket.expect("it is open");
        let set = host.set_option(socket, name, value);
        self.seen
            .lock()
            .unwrap()
            .push((set, host.option(socket, name)));
    }
}

impl App for Setter {
    fn start(&mut self, host: &mut dyn Sockets) -> Result<(), SocketError> {
        self.socket = Some(host.connect(self.profile, None, self.server)?);
        self.set("variant", 1, host);
        host.wake_at(Some(host.now() + Duration::from_millis(500)));
        Ok(())
    }

    fn on_event(&mut self, _: SocketId, _: SocketEvent, _: &mut dyn Sockets) {}

    fn on_timer(&mut self, host: &mut dyn Sockets) {
        self.set("variant", 0, host);
        self.set("rtt_target", 10_000, host);
    }
}

#[test]
fn options_are_set_by_name_before_the_handshake_and_after_it() {
    let plan = plan(ROW);
    let mut sim = Simulation::new(&plan, 5).unwrap();
    let host = |name: &str| plan.hosts.iter().find(|h| h.name == name).unwrap();
    let at = |name: &str, port| SocketAddr::from((host(name).ipv4, port));
    let config = TcpConfig::new(at("client", 0), at("server", 0), "prague".parse().unwrap());
    let mut profile = |name: &str| {
        let mut config = config.clone();
        config.ecn = narrows_tcp::EcnMode::AccEcn;
        sim.add_profile(Options {
            transport: Transport::Tcp(Box::new(config)),
            traffic_class: 0,
            flow: None,
            part: Part::Receives,
            name: name.to_owned(),
            rng: None,
        })
    };
    let profiles = ["client", "server"].map(&mut profile);
    let echo = Echo {
        profile: profiles[1],
        local: at("server", 7),
        resets: false,
        waiting: Default::default(),
    };
    assert!(sim.add_app("host/server", "echo", Box::new(echo)));
    let seen = Seen::default();
    let setter = Setter {
        profile: profiles[0],
        server: at("server", 7),
        socket: None,
        seen: Arc::clone(&seen),
    };
    assert!(sim.add_app("host/client", "setter", Box::new(setter)));
    sim.run(&mut NullSink, &RunHandle::default()).unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen[0], (Ok(()), Some(1)));
    assert!(matches!(&seen[1], (Err(SocketError::Option(why)), Some(1))
        if why.contains("established")));
    assert_eq!(seen[2], (Ok(()), Some(10_000)));
}
