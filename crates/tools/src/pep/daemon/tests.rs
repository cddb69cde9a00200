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

/// More than any machine's buffers hold.
const UNMEASURED: u64 = u64::MAX;

#[test]
fn the_kernel_s_buffers_are_measured_each_second_while_somebody_is_served_and_nobody_asks() {
    // No metrics, and no line of a log.
    let (mut daemon, at) = daemon(|_| {});
    assert_eq!(daemon.patience(), None, "nobody is served");
    let client = TcpStream::connect(at).expect("it listens");
    assert!(turns(&mut daemon, |d| d.shared.clients() == 1));
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
