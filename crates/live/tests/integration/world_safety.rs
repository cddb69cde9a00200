//! Runs beside each other, what a run may not leave, and what it is refused.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;

use crate::world_rig::{Relay, THROUGH_A_ROUTER, plan, skipped, soon, world};
use narrows_linux::machine::{State, Undo, find_program, survey};
use narrows_linux::sysctl::{OF_A_ROUTER, OF_AN_IPV6_ROUTER, OF_EVERY_HOST, OF_EVERY_IPV6_HOST};
use narrows_linux::{LinuxError, Namespace, RunId};
use narrows_linux::{Veth, has_rights};
use narrows_live::World;
use narrows_scenario::{HostIndex, LinkIndex};

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Whether any process of the machine is in the namespace.
fn is_inhabited(inode: u64) -> bool {
    use std::os::unix::fs::MetadataExt;
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let mut namespaces = entries.filter_map(|e| fs::metadata(e.path().join("ns/net")).ok());
    namespaces.any(|m| m.ino() == inode)
}

#[test]
fn two_runs_of_one_plan_do_not_see_each_other() {
    let plan = plan(THROUGH_A_ROUTER);
    let Some(one) = world("two_runs_of_one_plan", &plan) else {
        return;
    };
    let other = World::build(&plan, &RunId::random()).unwrap();
    let server = plan.host_named("server").unwrap();
    let client = plan.host_named("client").unwrap();
    let at = SocketAddr::from((plan.host(server).ipv4, 7001));
    // Both servers have the address and the port; each client meets its own.
    let listen = |w: &World| {
        let listener = w.namespace(server).run(|| TcpListener::bind(at));
        listener.unwrap().unwrap()
    };
    let (one_listener, other_listener) = (listen(&one), listen(&other));
    let from = one.namespace(client).clone();
    let relays = [Relay::start(one, 2), Relay::start(other, 2)];
    let stream = from.run(|| TcpStream::connect(at)).unwrap().unwrap();
    let (_, peer) = one_listener.accept().unwrap();
    assert_eq!(peer, stream.local_addr().unwrap());
    other_listener.set_nonblocking(true).unwrap();
    let refused = other_listener.accept().unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::WouldBlock);
    let [one, other] = relays.map(Relay::stop);
    assert_ne!(one.run_id(), other.run_id());
}

/// In a process of its own: other tests open files as well.
#[test]
fn thirty_worlds_in_a_row_leave_no_file_open() {
    const CHILD: &str = "NARROWS_TEST_THIRTY";
    let plan = plan(THROUGH_A_ROUTER);
    if std::env::var_os(CHILD).is_none() {
        let Some(_) = world("thirty_worlds_in_a_row", &plan) else {
            return;
        };
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "thirty_worlds_in_a_row_leave_no_file_open"])
            .env(CHILD, "1")
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let before = (open_files(), threads());
    for _ in 0..30 {
        World::build(&plan, &RunId::random()).unwrap();
    }
    // A joined thread is listed until the kernel has put it away.
    let as_before = || soon(|| (open_files(), threads()) == before);
    assert!(as_before(), "{} {}, {before:?}", open_files(), threads());
    // Nor does one that fails at its last link: this kernel has no device with
    // such an MTU.
    let mut wrong = plan.clone();
    wrong.links[1].mtu = 1 << 20;
    let refused = World::build(&wrong, &RunId::random()).unwrap_err();
    assert!(refused.to_string().contains("MTU"), "{refused}");
    assert!(as_before(), "{} {}, {before:?}", open_files(), threads());
}

#[test]
fn a_program_and_what_it_has_started_end_with_the_world() {
    let plan = plan(THROUGH_A_ROUTER);
    let Some(world) = world("a_program_and_what_it_has_started", &plan) else {
        return;
    };
    let host = world.namespace(HostIndex(0)).clone();
    let mut shell = host.command("sh");
    shell.args(["-c", "sleep 1000 & echo $NARROWS_RUN; sleep 1000"]);
    let mut shell = shell.stdout(Stdio::piped()).spawn().unwrap();
    let mut said = [0; 7];
    std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(said, world.run_id().to_string().as_bytes());
    let inode = host.inode();
    assert!(is_inhabited(inode));
    drop(world);
    assert!(!is_inhabited(inode));
    assert!(!shell.wait().unwrap().success());
}

#[test]
fn a_program_is_killed_when_the_thread_that_started_it_ends() {
    let plan = plan(THROUGH_A_ROUTER);
    let Some(world) = world("a_program_is_killed", &plan) else {
        return;
    };
    let host = world.namespace(HostIndex(0)).clone();
    let starter = std::thread::spawn(move || {
        let mut command = host.command("sleep");
        command.arg("1000").spawn().unwrap()
    });
    let mut child = starter.join().unwrap();
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_program_is_found_as_a_shell_finds_it() {
    assert!(find_program("/no/such/program").is_err());
    assert!(find_program("/").is_err(), "a directory is no program");
    assert_eq!(find_program("/bin/sh").unwrap(), Path::new("/bin/sh"));
    assert!(find_program("sh").unwrap().ends_with("sh"));
}

#[test]
fn what_linux_cannot_do_is_refused_in_a_line() {
    let text = THROUGH_A_ROUTER.replace("mtu = 1400", "mtu = 1000");
    let narrow = plan(&text.replace("cc = \"cubic\"", "cc = \"cubic\"\nip = 6"));
    let local = plan(&format!(
        "{THROUGH_A_ROUTER}\n[[host]]\nname = \"server\"\nipv4 = \"127.0.0.5\"\n"
    ));
    for (plan, expected) in [
        (narrow, "flow/one uses IPv6"),
        (local, "host/server cannot have the address 127.0.0.5"),
    ] {
        let line = World::build(&plan, &RunId::random())
            .unwrap_err()
            .to_string();
        assert!(line.starts_with(expected) && !line.contains('\n'), "{line}");
    }
    // IPv4 alone may be as narrow as that.
    let Some(world) = world("what_linux_cannot_do", &plan(&text)) else {
        return;
    };
    let (near, _) = world.tun(LinkIndex(0));
    let routes = world.namespace(HostIndex(0)).routes().unwrap();
    assert!(routes.iter().all(|r| r.device == near.index()));
}

#[test]
fn a_sysctl_of_a_host_is_not_the_machines() {
    let Some(world) = world("a_sysctl_of_a_host", &plan(THROUGH_A_ROUTER)) else {
        return;
    };
    let (one, other) = (world.namespace(HostIndex(0)), world.namespace(HostIndex(1)));
    let name = "net.ipv4.tcp_syn_retries";
    let machine = fs::read_to_string("/proc/sys/net/ipv4/tcp_syn_retries").unwrap();
    let before = other.sysctl(name).unwrap();
    one.set_sysctl(name, "2").unwrap();
    assert_eq!(one.sysctl(name).unwrap(), "2");
    assert_eq!(other.sysctl(name).unwrap(), before);
    let after = fs::read_to_string("/proc/sys/net/ipv4/tcp_syn_retries").unwrap();
    assert_eq!(after, machine);
    let refused = one.set_sysctl("net.ipv4.no_such_switch", "1").unwrap_err();
    assert!(refused.to_string().contains("no_such_switch"), "{refused}");
}

#[test]
fn a_thread_that_was_in_a_host_is_used_for_nothing_else() {
    let Some(world) = world("a_thread_that_was_in_a_host", &plan(THROUGH_A_ROUTER)) else {
        return;
    };
    let here = || fs::read_link("/proc/thread-self/ns/net").unwrap();
    let outside = here();
    let host = world.namespace(HostIndex(0));
    let inside = host.run(here).unwrap();
    assert_eq!(inside.to_string_lossy(), format!("net:[{}]", host.inode()));
    assert_eq!(here(), outside);
    let thread = host.spawn("named", move || {
        (here(), std::thread::current().name().map(str::to_owned))
    });
    let found = thread.unwrap().join().unwrap();
    assert_eq!(found, (inside, Some("named".to_owned())));
}

#[test]
fn a_pair_of_devices_joins_two_namespaces_until_it_is_dropped() {
    let run = RunId::random();
    let make = |name| Namespace::new(&run, name);
    let (a, b) = match (make("one"), make("other")) {
        (Ok(a), Ok(b)) => (a, b),
        (Err(e), _) | (_, Err(e)) => return skipped("a_pair_of_devices", &e),
    };
    let (near, far) = (run.device("a"), run.device("b"));
    let veth = match Veth::between(&a, &near, &b, &far) {
        Err(e) if e.is_of_the_machine() => return skipped("a_pair_of_devices", &e),
        made => made.unwrap(),
    };
    let addresses: [SocketAddr; 2] = ["10.9.8.1:80", "10.9.8.2:80"].map(|a| a.parse().unwrap());
    a.add_address(veth.near_index, addresses[0].ip(), 30)
        .unwrap();
    b.add_address(veth.far_index, addresses[1].ip(), 30)
        .unwrap();
    let twice = a.add_address(veth.near_index, addresses[0].ip(), 30);
    assert!(
        matches!(twice, Err(LinuxError::Refused { .. })),
        "{twice:?}"
    );
    let listener = b.run(|| TcpListener::bind(addresses[1])).unwrap().unwrap();
    let stream = a.run(|| TcpStream::connect(addresses[1])).unwrap().unwrap();
    let (_, peer) = listener.accept().unwrap();
    assert_eq!(peer, stream.local_addr().unwrap());
    drop(veth);
    assert!(a.device(&near).is_err());
    assert!(soon(|| b.device(&far).is_err()));
}

#[test]
fn what_a_run_wrote_down_is_undone_newest_first_when_it_ends() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunId::random();
    let state = State::open(&run).unwrap();
    let inner = folder.path().join("cgroup");
    // A directory takes the place of a control group: both are removed when empty.
    state.record(&Undo::Cgroup(inner.clone())).unwrap();
    fs::create_dir(&inner).unwrap();
    state.record(&Undo::File(inner.join("file"))).unwrap();
    fs::write(inner.join("file"), "").unwrap();
    // Never done: undoing it is nothing.
    state
        .record(&Undo::File(folder.path().join("never")))
        .unwrap();
    state.record(&Undo::Device(run.device("x"))).unwrap();
    assert!(State::open(&run).is_err(), "a run is entered once");
    drop(state);
    assert!(!inner.exists());
    drop(State::open(&run).expect("it is gone, and may come again"));
}

#[test]
fn a_survey_names_everything_with_the_command_that_adds_it() {
    let machine = survey();
    assert!(machine.release.contains('.'));
    for finding in &machine.findings {
        let line = finding.to_string();
        assert!(!line.contains('\n'), "{line}");
        eprintln!("{line}");
    }
    let kernel = &machine.findings[0];
    assert_eq!((kernel.name, kernel.outcome.is_ok()), ("kernel", true));
    if has_rights() {
        let built = World::build(&plan(THROUGH_A_ROUTER), &RunId::random());
        assert_eq!(built.is_ok(), machine.runs_live(), "{built:?}");
    }
}

#[test]
fn the_guide_names_every_switch_that_a_host_is_set_to() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/live.md");
    let guide = fs::read_to_string(guide).unwrap();
    let all = [
        OF_EVERY_HOST,
        OF_EVERY_IPV6_HOST,
        OF_A_ROUTER,
        OF_AN_IPV6_ROUTER,
    ]
    .concat();
    for (name, value) in all {
        let cell = format!("`{} = {value}`", name.replace('/', "."));
        assert!(guide.contains(&cell), "docs/live.md lacks {cell}");
    }
}
