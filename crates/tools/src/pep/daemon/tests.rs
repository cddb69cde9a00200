use std::net::TcpStream;

use super::*;
use crate::pep::config::ListenerConfig;

/// One of a single thread, at a free port of loopback, and where that is.
fn daemon(change: impl FnOnce(&mut Config)) -> (Daemon, SocketAddr) {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let local = free.local_addr().expect("bound");
    drop(free);
    let networks = ["127.0.0.0/8".to_owned()];
    let listener = ListenerConfig::plain(local, &networks, &networks).expect("networks");
    let mut config = Config {
        threads: Some(1),
        listeners: vec![listener],
        ..Config::default()
    };
    change(&mut config);
    (Daemon::open(config).expect("it listens"), local)
}

/// Takes turns until `holds`.
fn turns(daemon: &mut Daemon, mut holds: impl FnMut(&Daemon) -> bool) -> bool {
    let step = Some(Duration::from_millis(10));
    (0..2_000).any(|_| {
        daemon.first.turn(step).expect("a turn");
        holds(daemon)
    })
}

/// Takes turns until a client that comes to `at` is served.
fn served(daemon: &mut Daemon, at: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(at).expect("it listens");
    assert!(turns(daemon, |d| d.shared.clients() == 1));
    client
}

/// More than any machine's buffers hold.
const UNMEASURED: u64 = u64::MAX;

#[test]
fn the_kernel_s_buffers_are_measured_each_second_while_somebody_is_served_and_nobody_asks() {
    // No metrics, and no line of a log.
    let (mut daemon, at) = daemon(|_| {});
    assert_eq!(daemon.patience(), None, "nobody is served");
    let client = served(&mut daemon, at);
    let room = daemon.shared.room();
    for _ in 0..2 {
        let patience = daemon.patience().expect("somebody is served");
        assert!(patience <= METRICS, "{patience:?}");
        daemon.kernel_bytes = UNMEASURED;
        daemon.shared.host_holds(UNMEASURED, 1);
        assert_eq!(daemon.shared.room(), 0);
        assert!(turns(&mut daemon, |d| d.patience() == Some(Duration::ZERO)));
        daemon.on_time(&mut |_| {});
        assert!(daemon.kernel_bytes < UNMEASURED);
        assert_eq!(daemon.shared.room(), room, "it is off the budget again");
        daemon.kernel_bytes = UNMEASURED;
        daemon.on_time(&mut |_| {});
        assert_eq!(daemon.kernel_bytes, UNMEASURED, "once a second");
    }
    drop(client);
    assert!(turns(&mut daemon, |d| d.shared.clients() == 0));
    assert_eq!(daemon.patience(), None);
}

#[test]
fn metrics_are_made_each_second_and_no_more_often() {
    let (mut daemon, _) = daemon(|config| config.metrics = Some(([127, 0, 0, 1], 0).into()));
    for made in 1..=3 {
        let mut count = 0;
        for _ in 0..20 {
            daemon.on_time(&mut |_| count += 1);
        }
        assert_eq!(count, 1, "{made}");
        let patience = daemon.patience().expect("metrics are due");
        assert!(
            patience <= METRICS && patience > METRICS / 2,
            "{patience:?}"
        );
        daemon.next_metrics = daemon.first.server.now();
    }
}

#[test]
fn what_the_kernel_s_buffers_hold_beyond_the_memory_that_is_left_comes_off_the_budget() {
    const MIB: u64 = 1 << 20;
    let groups = tempfile::tempdir().expect("a folder");
    let write = |file: &str, text: &str| {
        std::fs::write(groups.path().join(file), text).expect("written");
    };
    write("memory.max", "8388608\n");
    let (mut daemon, _) = daemon(|config| config.limits.budget = 2 * MIB);
    daemon.memory = Memory::least(u64::MAX, groups.path(), "0::/\n");
    // Half of the group's 8 MiB is for both.
    for (sockets, room) in [(1, 2), (3, 1), (4, 0), (9, 0), (0, 2)] {
        write("memory.stat", &format!("sock {}\n", sockets * MIB));
        daemon.next_memory = Instant::ZERO;
        daemon.on_time(&mut |_| {});
        assert_eq!(daemon.kernel_bytes, sockets * MIB);
        assert_eq!(daemon.shared.room(), room * MIB, "{sockets}");
    }
}

#[test]
fn a_reload_changes_the_budget_and_how_far_is_read_ahead() {
    let (mut daemon, _) = daemon(|_| {});
    let mut config = daemon.config.clone();
    config.limits.budget = 12_345;
    config.read_ahead = Duration::from_millis(77);
    daemon.apply(&config).expect("as the first one");
    assert_eq!(daemon.shared.room(), 12_345);
    let machine = &daemon.first.server.machine;
    assert_eq!(machine.read_ahead, config.read_ahead);
}

#[test]
fn a_reload_while_it_drains_takes_no_client_again() {
    let (mut daemon, at) = daemon(|_| {});
    let client = served(&mut daemon, at);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pep.toml");
    let text = format!(
        "version = 1\n[[listener]]\nlisten = \"{at}\"\nclients = [\"127.0.0.0/8\"]\n\
         destinations = [\"127.0.0.0/8\"]\n"
    );
    std::fs::write(&file, text).expect("written");
    daemon.config.file = Some(file);
    daemon.reload();
    assert!(TcpStream::connect(at).is_ok());
    daemon.ends = Some(daemon.first.server.now() + Duration::from_secs(60));
    daemon.each(|Server { machine, proxy, .. }| proxy.drain(machine));
    daemon.reload();
    assert!(TcpStream::connect(at).is_err());
    drop(client);
}
