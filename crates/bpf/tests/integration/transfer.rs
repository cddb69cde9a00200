//! A transfer by a deadline over the connections of a control group. Needs root and the
//! second hierarchy of control groups.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::PathBuf;
use std::thread;

use nix::errno::Errno;
use nix::libc;

use narrows_bpf::{EcnFlags, Loaded, Trace, Transfer, TransferGoal};

/// A control group that this process is in while it lives.
struct Group(PathBuf);

impl Group {
    fn enter(test: &str) -> Option<Self> {
        let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
        let mut rows = mounts.lines().map(|l| l.split(' ').collect::<Vec<_>>());
        let Some(row) = rows.find(|r| r.get(2) == Some(&"cgroup2")) else {
            crate::rig::skipped(test, &"there are no control groups of the second hierarchy");
            return None;
        };
        let path = PathBuf::from(row[1]).join(crate::rig::unique("nwtest"));
        if let Err(e) = fs::create_dir(&path) {
            crate::rig::skipped(test, &format!("no control group can be made: {e}"));
            return None;
        }
        fs::write(path.join("cgroup.procs"), "0").expect("a process may enter");
        Some(Self(path))
    }

    fn open(&self) -> File {
        File::open(&self.0).expect("it is there")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let parent = self.0.parent().expect("it is below the root");
        let _ = fs::write(parent.join("cgroup.procs"), "0");
        let _ = fs::remove_dir(&self.0);
    }
}

fn now_ns() -> u64 {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC);
    let now = now.expect("there is a clock");
    now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64
}

fn goal(seconds: u64, size: Option<u64>) -> TransferGoal {
    TransferGoal {
        deadline_ns: now_ns() + seconds * 1_000_000_000,
        size,
        first_weight: 50,
    }
}

fn attached(test: &str, group: &Group, goal: &TransferGoal) -> Option<(Loaded, Transfer)> {
    let control = crate::rig::control(test, "dalbe over vegas", EcnFlags::None, Trace::Off)?;
    let transfer = control.attach_transfer(group.open().as_fd(), goal);
    Some((control, crate::rig::loaded(test, transfer)?))
}

/// The congestion control of a socket.
fn control_of(stream: &TcpStream) -> String {
    let name = nix::sys::socket::getsockopt(stream, nix::sys::socket::sockopt::TcpCongestion);
    name.expect("a TCP socket has one")
        .to_string_lossy()
        .into_owned()
}

/// `setsockopt` of a number that no crate knows.
fn set_option(socket: BorrowedFd<'_>, name: i32, value: &[u8]) -> Result<(), Errno> {
    let length = value.len() as u32;
    // SAFETY: the descriptor is open, and the value is so long.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            LEVEL,
            name,
            value.as_ptr().cast(),
            length,
        )
    };
    Errno::result(done).map(drop)
}

fn option(socket: BorrowedFd<'_>, name: i32) -> Result<[u8; 40], Errno> {
    let (mut value, mut length) = ([0; 40], 40);
    // SAFETY: the descriptor is open, and there is room for so many bytes.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            LEVEL,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    Errno::result(done).map(|_| value)
}

/// Two ends of a connection over loopback, both of this process.
fn connection(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let near = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let (far, _) = listener.accept().expect("a connection");
    (near, far)
}

/// One at a time: they move this process between control groups.
#[test]
fn connections_of_a_control_group_share_a_transfer() {
    let test = "connections_of_a_control_group_share_a_transfer";
    let Some(group) = Group::enter(test) else {
        return;
    };
    let goal = goal(60, Some(10_000_000));
    let Some((control, mut transfer)) = attached(test, &group, &goal) else {
        return;
    };
    both_ends_have_the_control_and_what_is_sent_is_counted(&control, &mut transfer, &goal);
    each_takes_the_same_memory(&mut transfer, &goal);
    short_connections_leave_nothing(&mut transfer, &goal);
    options_of_its_own(&mut transfer, &goal);
    an_open_connection_is_taken_over(&control, &mut transfer, &goal);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    drop(transfer);
    let (near, _far) = connection(&listener);
    assert_ne!(control_of(&near), control.name(), "it is over");
}

fn both_ends_have_the_control_and_what_is_sent_is_counted(
    control: &Loaded,
    transfer: &mut Transfer,
    goal: &TransferGoal,
) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (mut near, mut far) = connection(&listener);
    assert_eq!(control_of(&near), control.name());
    assert_eq!(control_of(&far), control.name());
    let before = transfer.pass(goal).expect("a pass");
    assert_eq!((before.opened, before.closed, before.refused), (2, 0, 0));
    near.write_all(&[1; 300_000]).expect("it sends");
    let mut got = vec![0; 300_000];
    far.read_exact(&mut got).expect("it receives");
    // The last acknowledgement may be on its way.
    far.write_all(&[1; 1000]).expect("it answers");
    near.read_exact(&mut got[..1000]).expect("it receives");
    let after = transfer.pass(goal).expect("a pass");
    let acked = after.acked - before.acked;
    // A SYN or a FIN counts as a byte.
    assert!((300_000..=301_004).contains(&acked), "{after:?}");
    assert!(after.senders >= 1 && after.weight.is_some(), "{after:?}");
    drop((near, far));
}

/// Bytes that the kernel charges a socket with for what is kept beside it
/// (`SK_MEMINFO_OPTMEM`, include/uapi/linux/sock_diag.h).
fn kept_beside(socket: &TcpStream) -> u32 {
    const SO_MEMINFO: i32 = 55;
    const OPTMEM: usize = 6;
    let (mut words, mut length) = ([0_u32; 9], 36);
    // SAFETY: the descriptor is open, and there is room for so many bytes.
    let done = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            SO_MEMINFO,
            words.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert_eq!((done, length), (0, 36));
    words[OPTMEM]
}

fn each_takes_the_same_memory(transfer: &mut Transfer, goal: &TransferGoal) {
    const CONNECTIONS: usize = 200;
    let before = transfer.pass(goal).expect("a pass").connections;
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let open: Vec<_> = (0..CONNECTIONS).map(|_| connection(&listener)).collect();
    let held = transfer.pass(goal).expect("a pass").connections - before;
    assert_eq!(held, 2 * CONNECTIONS as u64);
    let kept: Vec<u32> = open.iter().map(|(near, _)| kept_beside(near)).collect();
    println!("{} bytes are kept beside a socket", kept[0]);
    assert!(kept.iter().all(|bytes| *bytes == kept[0]), "{kept:?}");
    // The control's state and parameters, the share, and what the kernel adds to each.
    assert!((600..=2000).contains(&kept[0]), "{}", kept[0]);
}

fn short_connections_leave_nothing(transfer: &mut Transfer, goal: &TransferGoal) {
    const CONNECTIONS: u64 = 10_000;
    let before = transfer.pass(goal).expect("a pass");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let answers = thread::spawn(move || {
        for _ in 0..CONNECTIONS {
            let (mut far, _) = listener.accept().expect("a connection");
            let mut got = [0; 100];
            far.read_exact(&mut got).expect("it receives");
        }
    });
    for _ in 0..CONNECTIONS {
        let mut near = TcpStream::connect(address).expect("it listens");
        near.write_all(&[7; 100]).expect("it sends");
        // Its port is free for the next at once.
        near.read_exact(&mut [0]).expect_err("the other end closes");
    }
    answers.join().expect("it ends well");
    let mut after = transfer.pass(goal).expect("a pass");
    for _ in 0..100 {
        if after.opened == after.closed {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(50));
        after = transfer.pass(goal).expect("a pass");
    }
    assert_eq!(after.opened - before.opened, 2 * CONNECTIONS);
    assert_eq!(after.closed, after.opened, "{after:?}");
    assert_eq!(after.refused, 0);
    assert_eq!(after.connections, 0, "no state is left: {after:?}");
    let acked = after.acked - before.acked;
    assert!(
        (100 * CONNECTIONS..104 * CONNECTIONS + 10).contains(&acked),
        "{acked}"
    );
}

/// `SOL_NARROWS` and its options (crates/narrows/include/narrows_by.h).
const LEVEL: i32 = 0x4e57;
const SIZE: i32 = 2;
const STATUS: i32 = 3;

fn options_of_its_own(transfer: &mut Transfer, goal: &TransferGoal) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (mut near, _far) = connection(&listener);
    let socket = near.try_clone().expect("a descriptor");
    let size = |value: u64| set_option(socket.as_fd(), SIZE, &value.to_ne_bytes());
    assert_eq!(size(0), Err(Errno::EINVAL));
    assert_eq!(size(5_000_000), Ok(()));
    transfer.pass(goal).expect("a pass");
    let status = option(near.as_fd(), STATUS).expect("a status");
    let word = |at: usize| u64::from_ne_bytes(status[at..][..8].try_into().expect("8 bytes"));
    assert!((50_000_000..=60_000_001).contains(&word(0)), "{}", word(0));
    assert_eq!(word(8), 5_000_000, "what remains");
    let acked = transfer.pass(goal).expect("a pass").acked;
    near.write_all(&[1; 10_000]).expect("it sends");
    thread::sleep(std::time::Duration::from_millis(100));
    let after = transfer.pass(goal).expect("a pass");
    assert!(
        after.acked - acked < 10,
        "it is no part of the transfer's size"
    );
    assert_eq!(size(5_000), Err(Errno::EINVAL), "less than was sent");
    let unknown = set_option(near.as_fd(), 77, &[1; 8]);
    assert_eq!(unknown, Err(Errno::EINVAL));
}

fn an_open_connection_is_taken_over(
    control: &Loaded,
    transfer: &mut Transfer,
    goal: &TransferGoal,
) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (mut near, mut far) = connection(&listener);
    let set = |name: &str| {
        let name = std::ffi::OsString::from(name);
        nix::sys::socket::setsockopt(&near, nix::sys::socket::sockopt::TcpCongestion, &name)
    };
    set("reno").expect("the kernel has it");
    let before = transfer.pass(goal).expect("a pass");
    transfer
        .adopt(near.as_fd(), goal, 0, 0)
        .expect("it is a socket");
    set(control.name()).expect("it is registered");
    near.write_all(&[1; 50_000]).expect("it sends");
    far.read_exact(&mut vec![0; 50_000]).expect("it receives");
    thread::sleep(std::time::Duration::from_millis(100));
    let after = transfer.pass(goal).expect("a pass");
    let acked = after.acked - before.acked;
    assert!((50_000..50_010).contains(&acked), "{after:?}");
}
