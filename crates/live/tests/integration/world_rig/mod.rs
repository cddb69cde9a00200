//! What tests of the world share: plans, a relay that is no path at all, and
//! the word for a machine that cannot.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use narrows_linux::RunId;
use narrows_live::World;
use narrows_scenario::{Draft, Plan};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// The checked plan of a scenario file.
pub fn plan(text: &str) -> Plan {
    match Draft::read("test.toml", text.as_bytes()).and_then(|d| d.check()) {
        Ok(plan) => plan,
        Err(refusal) => panic!("{refusal}"),
    }
}

/// Two hosts and a router between them; the second link is narrower.
pub const THROUGH_A_ROUTER: &str = r#"
version = 1
name = "through a router"
duration = "1s"

[[router]]
name = "middle"

[[link]]
name = "near"
ends = ["client", "middle"]
up = ["rate 100Mbit queue pfifo"]
down = ["rate 100Mbit queue pfifo"]

[[link]]
name = "far"
ends = ["middle", "server"]
mtu = 1400
up = ["rate 100Mbit queue pfifo"]
down = ["rate 100Mbit queue pfifo"]

[[flow]]
name = "one"
from = "client"
to = "server"
cc = "cubic"
"#;

/// The world of `plan`, or the word that this machine cannot build it.
pub fn world(test: &str, plan: &Plan) -> Option<World> {
    match World::build(plan, &RunId::random()) {
        Ok(world) => Some(world),
        Err(e) if e.is_of_the_machine() => {
            skipped(test, &e);
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// The longest that a test waits for what must come. Much longer than it
/// takes: a machine may be slow, and no test is about that.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `holds`; whether it ever did.
pub fn soon(mut holds: impl FnMut() -> bool) -> bool {
    let asked = Instant::now();
    while !holds() {
        if asked.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    true
}

/// Says why a test did not run.
pub fn skipped(test: &str, reason: &dyn std::fmt::Display) {
    eprintln!("skipped: {test}: {reason}");
}

/// Carries packets between the ends of all links as fast as they come.
pub struct Relay {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<World>>,
}

impl Relay {
    /// Starts it over all links of a world with `links` of them.
    pub fn start(world: World, links: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = Builder::new().name("relay".to_owned()).spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                carry(&world, links);
            }
            world
        });
        Self {
            stop,
            thread: Some(thread.expect("a thread can be started")),
        }
    }

    /// Ends it; the world is there again.
    pub fn stop(mut self) -> World {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it is stopped once");
        thread.join().expect("the relay ran to its end")
    }
}

fn carry(world: &World, links: usize) {
    let ends: Vec<_> = (0..links)
        .map(|i| world.tun(narrows_scenario::LinkIndex(i)))
        .flat_map(|(a, b)| [(a, b), (b, a)])
        .collect();
    let mut waits: Vec<_> = ends
        .iter()
        .map(|(from, _)| PollFd::new(from.as_fd(), PollFlags::POLLIN))
        .collect();
    poll(&mut waits, PollTimeout::from(20u8)).expect("devices can be waited for");
    let mut packet = [0; 65_536];
    for (from, to) in ends {
        while let Ok(length) = nix::unistd::read(from, &mut packet) {
            // What the host does not take is lost, as on a wire.
            let _ = nix::unistd::write(to, &packet[..length]);
        }
    }
}
