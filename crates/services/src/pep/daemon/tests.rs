use std::io::{ErrorKind, Read};
use std::net::TcpStream;
use std::path::Path;

use narrows_pep::LinkRate;
use narrows_units::Rate;
use nix::sys::signal::raise;

use super::*;
use crate::pep::config::ListenerConfig;
use crate::pep::said::said;

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

/// Writes a configuration of one listener at `at`, with `keys` that are not of a listener.
fn write_config(file: &Path, at: SocketAddr, keys: &str) {
    let text = format!(
        "version = 1\n{keys}\n[[listener]]\nlisten = \"{at}\"\nclients = [\"127.0.0.0/8\"]\n\
         destinations = [\"127.0.0.0/8\"]\n"
    );
    std::fs::write(file, text).expect("written");
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
    write_config(&file, at, "");
    daemon.config.file = Some(file);
    daemon.reload();
    assert!(TcpStream::connect(at).is_ok());
    daemon.ends = Some(daemon.first.server.now() + Duration::from_secs(60));
    daemon.each(|Server { machine, proxy, .. }| proxy.drain(machine));
    daemon.reload();
    assert!(TcpStream::connect(at).is_err());
    drop(client);
}

#[test]
fn what_a_restart_alone_changes_is_named_at_a_reload_and_stays_as_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, status) = (folder.path().join("pep.toml"), folder.path().join("status"));
    let (mut daemon, at) = daemon(|config| {
        config.file = Some(file.clone());
        config.status = Some(status.clone());
    });
    let as_it_is = format!("status = \"{}\"", status.display());
    let fixed = |config: &Config| {
        let Config { user, threads, .. } = config;
        let (status, metrics) = (config.status.clone(), config.metrics);
        (user.clone(), *threads, status, metrics)
    };
    let before = fixed(&daemon.config);
    for (keys, warned) in [
        (format!("{as_it_is}\nthreads = 1\ndrain = \"7s\""), false),
        (format!("{as_it_is}\nthreads = 2"), true),
        // As many as there are processors.
        (as_it_is.clone(), true),
        (format!("{as_it_is}\nthreads = 1\nuser = \"root\""), true),
        (
            format!("{as_it_is}\nthreads = 1\nmetrics = \"127.0.0.1:9464\""),
            true,
        ),
        ("status = \"/elsewhere\"\nthreads = 1".to_owned(), true),
    ] {
        write_config(&file, at, &keys);
        let (lines, ()) = said(|| daemon.reload());
        let about = lines.iter().filter(|line| {
            line.contains("WARN user, threads, status and metrics are changed by a restart alone")
        });
        assert_eq!(about.count(), usize::from(warned), "{keys}: {lines:?}");
        let done = lines.iter().filter(|line| line.contains("reloaded"));
        assert_eq!(done.count(), 1, "{keys}: {lines:?}");
        assert_eq!(fixed(&daemon.config), before, "{keys}");
        // All else is what the file says.
        let drain = if warned { 30 } else { 7 };
        assert_eq!(daemon.config.drain, Duration::from_secs(drain), "{keys}");
    }
}

#[test]
fn a_reload_changes_the_rates_of_links_and_a_refused_one_leaves_them() {
    let (mut daemon, at) = daemon(|config| {
        config.listeners[0].far.hint = Some(Rate::from_mbit(80));
    });
    let place = (at, "far");
    let link = daemon.controls.links.get(&place).cloned();
    let link = link.expect("the far leg has a rate");
    let has = |link: &LinkRate, mbit| {
        let other = LinkRate::new(Rate::from_mbit(mbit));
        format!("{link:?}") == format!("{other:?}")
    };
    assert!(has(&link, 80), "{link:?}");
    let mut config = daemon.config.clone();
    config.listeners[0].far.hint = Some(Rate::from_mbit(20));
    daemon.apply(&config).expect("as the first one");
    assert!(
        has(&link, 20),
        "connections that have it hear of it: {link:?}"
    );

    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut refused = config.clone();
    refused.listeners[0].far.hint = Some(Rate::from_mbit(5));
    let mut other = config.listeners[0].clone();
    other.listen = taken.local_addr().expect("bound");
    refused.listeners.push(other);
    assert!(daemon.apply(&refused).is_err(), "its address is taken");
    assert!(has(&link, 20), "{link:?}");

    config.listeners[0].far.hint = None;
    daemon.apply(&config).expect("as the first one");
    assert!(daemon.controls.links.is_empty(), "it is forgotten");
}

#[test]
fn the_service_manager_hears_as_often_as_it_wants_that_all_threads_are_at_work() {
    let (mut daemon, _) = daemon(|config| config.threads = Some(2));
    daemon.others.start().expect("a thread");
    let every = Duration::from_secs(60);
    daemon.watchdog = Some(every);
    daemon.on_time(&mut |_| {});
    let next = daemon.next_watch;
    assert!(next >= Instant::ZERO + every);
    let patience = daemon.patience().expect("it is due again");
    assert!(!patience.is_zero() && patience <= every, "{patience:?}");
    daemon.on_time(&mut |_| {});
    assert_eq!(daemon.next_watch, next, "not before its time");

    // One that hangs is waited for, so that the manager hears nothing.
    let (go_on, hangs) = std::sync::mpsc::channel::<()>();
    daemon.others.workers.ask(1, move |_| hangs.recv());
    let released = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let release = Arc::clone(&released);
    let releaser = thread::spawn(move || {
        thread::sleep(std::time::Duration::from_millis(50));
        release.store(true, std::sync::atomic::Ordering::SeqCst);
        go_on.send(()).expect("it hangs");
    });
    daemon.next_watch = Instant::ZERO;
    daemon.on_time(&mut |_| {});
    assert!(released.load(std::sync::atomic::Ordering::SeqCst));
    releaser.join().expect("it has ended");
}

#[test]
fn the_first_signal_has_tunnels_drain_and_the_second_resets_them() {
    let (mut daemon, at) = daemon(|_| {});
    let client = served(&mut daemon, at);
    // To this thread, which holds them back.
    raise(Signal::SIGTERM).expect("raised");
    daemon.serve_signals();
    let ends = daemon.ends.expect("it drains");
    let left = ends.since(daemon.first.server.now());
    assert!(left <= daemon.config.drain && left > daemon.config.drain / 2);
    assert_eq!((daemon.tunnels(), daemon.is_drained()), (1, false));
    raise(Signal::SIGINT).expect("raised");
    daemon.serve_signals();
    assert_eq!((daemon.tunnels(), daemon.is_drained()), (0, true));
    drop(client);
}

#[test]
fn who_is_still_there_when_the_time_to_drain_is_over_is_reset() {
    let (mut daemon, at) = daemon(|config| config.drain = Duration::from_millis(50));
    let mut client = served(&mut daemon, at);
    let wait = Some(std::time::Duration::from_secs(30));
    client.set_read_timeout(wait).expect("set");
    let stays = thread::spawn(move || client.read(&mut [0]).map_err(|why| why.kind()));
    raise(Signal::SIGTERM).expect("raised");
    let status = daemon.run(&mut |_| {}).expect("it ends");
    // Not by the time that a request may take.
    assert_eq!((status.tunnels, status.counters.request_timeouts), (0, 0));
    let end = stays.join().expect("it has ended");
    assert_eq!(end, Err(ErrorKind::ConnectionReset));
}

#[test]
fn it_is_drained_when_all_threads_are() {
    let (mut daemon, _) = daemon(|config| config.threads = Some(2));
    daemon.others.start().expect("a thread");
    let Server { machine, proxy, .. } = &mut daemon.first.server;
    proxy.drain(machine);
    assert!(daemon.first.server.proxy.is_drained() && !daemon.is_drained());
    daemon.each(|Server { machine, proxy, .. }| proxy.drain(machine));
    assert!(turns(&mut daemon, Daemon::is_drained));
}

#[test]
fn who_asks_for_the_state_is_told_what_the_kernel_s_buffers_hold_then() {
    let (mut daemon, _) = daemon(|_| {});
    daemon.kernel_bytes = UNMEASURED;
    assert!(daemon.status().kernel_bytes < UNMEASURED);
}

#[test]
fn descriptors_of_threads_are_none_for_tunnels() {
    let [one, four] = [1, 4].map(|threads| {
        let (daemon, _) = daemon(|config| config.threads = Some(threads));
        daemon.most_tunnels
    });
    assert!(four < one, "{four} {one}");
}

#[test]
fn a_machine_that_takes_no_data_with_a_syn_and_a_listener_that_allows_nothing_are_warned_of() {
    let (mut daemon, at) = daemon(|_| {});
    // Bits: as a client, as a server.
    for (switch, warned) in [(0, 1), (1, 1), (2, 0), (3, 0)] {
        assert_eq!(warnings(&daemon.config, switch).len(), warned, "{switch}");
    }
    let config = &mut daemon.config;
    config.listeners[0].policy.destinations.clear();
    assert_eq!(
        warnings(config, 3),
        [format!("{at} allows no destinations")]
    );
    config.listeners[0].policy.clients.clear();
    assert_eq!(warnings(config, 3), [format!("{at} allows no clients")]);
}
