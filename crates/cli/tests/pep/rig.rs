//! A daemon of `narrows pep serve` on this machine's loopback, and clients of it.

#![allow(dead_code)] // Each test binary uses its own part.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use narrows_pep::convert::{Fault, HEADER_LEN, Reader, Tlv};
use narrows_pep::{Layout, request};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::signal::{Signal, kill};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, connect, socket};
use nix::unistd::{Pid, geteuid};
use tempfile::TempDir;

use super::{NARROWS, THREADS};

/// The longest that anything is waited for; much longer than it takes.
pub const PATIENCE: Duration = Duration::from_secs(20);

/// A daemon, killed when this is dropped.
pub struct Daemon {
    pub child: Child,
    pub at: SocketAddr,
    pub folder: TempDir,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // One that has ended needs none.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A port of loopback that is free, below those that the kernel gives to whoever names none
/// (`net.ipv4.ip_local_port_range`): another test's connection does not take it meanwhile.
pub fn free_port() -> u16 {
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 20_000;
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let mut ports = (0..COUNT).map(|_| {
        // Processes of tests that run at the same time begin at different places.
        let place = std::process::id().wrapping_mul(97) % COUNT + GIVEN.fetch_add(1, Relaxed);
        (FIRST + place % COUNT) as u16
    });
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    ports.find(free).expect("a port is free")
}

/// Clients of loopback, to `destinations`, with `more` keys before the listener.
pub fn config(at: SocketAddr, folder: &Path, destinations: &str, more: &str) -> String {
    let status = folder.join("status.sock");
    format!(
        "version = 1\nthreads = {THREADS}\nstatus = {status:?}\n{more}\n[[listener]]\nlisten = \"{at}\"\n\
         clients = [\"127.0.0.0/8\"]\ndestinations = {destinations}\n"
    )
}

/// Adds keys to the listener of the configuration in `file`.
pub fn add(file: &Path, keys: &str) {
    let file = OpenOptions::new().append(true).open(file);
    let written = file.expect("a file").write_all(keys.as_bytes());
    written.expect("written");
}

/// The daemon of the configuration in `file`.
pub fn serve(file: &Path) -> Command {
    let mut command = Command::new(NARROWS);
    command.args(["pep", "serve"]).arg(file);
    command
}

/// The address of the listener of the configuration in `file`.
pub fn listen_address(file: &Path) -> SocketAddr {
    let text = fs::read_to_string(file).expect("a configuration");
    let mut words = text.split('"');
    words
        .find_map(|word| word.parse().ok())
        .expect("an address")
}

impl Daemon {
    pub fn start(destinations: &str, more: &str) -> Self {
        Self::start_by(destinations, more, serve)
    }

    pub fn start_by(destinations: &str, more: &str, command: impl Fn(&Path) -> Command) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let at = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let file = folder.path().join("pep.toml");
        fs::write(&file, config(at, folder.path(), destinations, more)).expect("written");
        let child = command(&file)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut daemon = Self { child, at, folder };
        daemon.wait_for("listening");
        daemon
    }

    /// Waits for a line of its log that has `word` in it.
    pub fn wait_for(&mut self, word: &str) {
        let log = self.child.stderr.take().expect("a log");
        let (sender, lines) = channel();
        thread::spawn(move || {
            let mut log = BufReader::new(log);
            let mut line = String::new();
            while log.read_line(&mut line).is_ok_and(|n| n > 0) {
                // Read on, or the daemon would wait for room.
                let _ = sender.send(std::mem::take(&mut line));
            }
        });
        let mut said = String::new();
        while !said.contains(word) {
            said += &lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|e| panic!("{e}: {said}"));
        }
    }

    pub fn pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32)
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it is there");
    }

    pub fn ended(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status;
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// A connection that asks for `destination`.
    pub fn ask(&self, destination: SocketAddr) -> TcpStream {
        let mut stream = TcpStream::connect(self.at).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let bytes = request(Layout::Convert, destination, None).expect("a request");
        stream.write_all(&bytes).expect("sent");
        stream
    }

    /// One that is granted.
    pub fn tunnel(&self, destination: SocketAddr) -> TcpStream {
        let mut stream = self.ask(destination);
        assert_eq!(answer(&mut stream), None);
        stream
    }

    /// One of a client with the address 127.0.0.`last`, once it was granted; `None` if it was reset.
    pub fn tunnel_from(&self, last: u8, destination: SocketAddr) -> Option<TcpStream> {
        let mut stream = self.connect_from(last);
        let bytes = request(Layout::Convert, destination, None).expect("a request");
        let mut answer = [0; HEADER_LEN];
        let sent = stream.write_all(&bytes);
        let granted = sent.and_then(|()| stream.read_exact(&mut answer)).is_ok();
        granted.then_some(stream)
    }

    /// A connection of a client with the address 127.0.0.`last`.
    pub fn connect_from(&self, last: u8) -> TcpStream {
        let flags = SockFlag::SOCK_CLOEXEC;
        let fd = socket(AddressFamily::Inet, SockType::Stream, flags, None).expect("a socket");
        let own = SocketAddr::from(([127, 0, 0, last], 0));
        bind(fd.as_raw_fd(), &SockaddrStorage::from(own)).expect("an address of loopback");
        match connect(fd.as_raw_fd(), &SockaddrStorage::from(self.at)) {
            // It may be reset before this thread runs again; then reading says that it is gone.
            Ok(()) | Err(Errno::ECONNRESET) => {}
            Err(errno) => panic!("it listens: {errno}"),
        }
        let stream = TcpStream::from(fd);
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        stream.set_write_timeout(Some(PATIENCE)).expect("set");
        stream
    }

    /// A figure of its state.
    pub fn count(&self, name: &str) -> u64 {
        let status = self.status();
        status[name]
            .as_u64()
            .unwrap_or_else(|| panic!("{name}: {status}"))
    }

    pub fn status(&self) -> serde_json::Value {
        let socket = self.folder.path().join("status.sock");
        let output = Command::new(NARROWS)
            .args(["pep", "status", "--format", "json", "--socket"])
            .arg(socket)
            .output()
            .expect("it starts");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    pub fn descriptors(&self) -> usize {
        let folder = format!("/proc/{}/fd", self.child.id());
        fs::read_dir(folder).expect("a process").count()
    }
}

/// The fault in the proxy's answer, if it is one.
pub fn answer(stream: &mut TcpStream) -> Option<Fault> {
    let mut reader = Reader::default();
    let mut bytes = [0; HEADER_LEN];
    loop {
        // As many as are wanted, so that none is lost that follows.
        let wanted = reader.wanted().min(bytes.len());
        let read = stream.read(&mut bytes[..wanted]).expect("an answer");
        assert!(read > 0, "it ended without an answer");
        if let Some((message, _)) = reader.take(&bytes[..read]).expect("a message") {
            return message.tlvs.into_iter().find_map(|tlv| match tlv {
                Tlv::Error(fault) => Some(fault),
                _ => None,
            });
        }
    }
}

/// Whether it was reset without an answer.
pub fn is_reset(stream: &mut TcpStream) -> bool {
    let read = stream.read(&mut [0]).map_err(|e| e.kind());
    matches!(
        read,
        Err(ErrorKind::ConnectionReset | ErrorKind::NotConnected)
    )
}

/// Sends back what it receives, to its end, and then ends as well.
pub fn echo() -> SocketAddr {
    echo_at("127.0.0.1:0")
}

/// The same at an address.
pub fn echo_at(at: &str) -> SocketAddr {
    let listener = TcpListener::bind(at).expect("a port");
    let at = listener.local_addr().expect("bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut back = stream.try_clone().expect("a descriptor");
                // A client may go first.
                let _ = std::io::copy(&mut &stream, &mut back);
                let _ = back.shutdown(Shutdown::Write);
            });
        }
    });
    at
}

pub const LOOPBACK: &str = "[\"127.0.0.0/8\"]";

/// Bytes, each place of which can be recognised.
pub fn payload(len: usize) -> Vec<u8> {
    (0..len as u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect()
}

/// Sends `sent` and ends the stream.
pub fn send_all(mut stream: &TcpStream, sent: &[u8]) -> io::Result<()> {
    stream.write_all(sent)?;
    stream.shutdown(Shutdown::Write)
}

/// Whether `sent` comes back whole, and its end behind it.
pub fn comes_back(stream: &TcpStream, sent: &[u8]) -> bool {
    let mut received = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| send_all(stream, sent));
        let mut reader = stream;
        let end = reader.read_to_end(&mut received);
        end.is_ok() && received == sent
    })
}

/// Whether `stream` answers what it is sent.
pub fn echoes(stream: &mut TcpStream, word: &[u8]) -> bool {
    let mut back = vec![0; word.len()];
    stream.write_all(word).is_ok() && stream.read_exact(&mut back).is_ok() && back == word
}

pub fn soon(mut holds: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while !holds() {
        if begun.elapsed() > PATIENCE {
            return false;
        }
        thread::sleep(Duration::from_millis(20));
    }
    true
}

/// What is done in a thread with a network of its own, whose loopback is up.
pub fn in_own_network<T: Send>(test: &str, work: impl FnOnce() -> T + Send) -> Option<T> {
    if !geteuid().is_root() {
        eprintln!("skipped: {test}: not root");
        return None;
    }
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("a network");
            let up = Command::new("ip")
                .args(["link", "set", "lo", "up"])
                .status();
            if let Err(why) = &up {
                eprintln!("skipped: {test}: ip(8) does not run: {why}");
                return None;
            }
            assert!(up.expect("ip(8)").success());
            Some(work())
        });
        thread.join().expect("done")
    })
}

/// A network behind a path.
pub struct Behind {
    shell: Child,
    pid: String,
    /// This machine, from there.
    pub outside: String,
}

impl Behind {
    /// One whose path has these elements.
    pub fn open(test: &str, path: [&str; 2]) -> Option<Self> {
        if !geteuid().is_root() {
            eprintln!("skipped: {test}: not root");
            return None;
        }
        let mut command = Command::new(NARROWS);
        command.args(["shell", "--no-gauge"]);
        command.args(path.iter().flat_map(|element| ["--link", element]));
        let words = "echo $NARROWS_OUTSIDE $$; exec sleep 1000";
        command.args(["--", "sh", "-c", words]);
        command.env_remove("SUDO_UID").stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = command.spawn().expect("it starts");
        let mut line = String::new();
        let mut said = BufReader::new(shell.stdout.take().expect("piped"));
        said.read_line(&mut line).expect("text");
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(outside), Some(pid)) = (words.next(), words.next()) else {
            let _ = shell.wait();
            eprintln!("skipped: {test}: there is no path to be had");
            return None;
        };
        Some(Self {
            shell,
            pid,
            outside,
        })
    }

    /// From now on the path carries nothing, and says nothing: it is a process that stands still.
    pub fn black_hole(&self) {
        let pid = Pid::from_raw(self.shell.id() as i32);
        kill(pid, Signal::SIGSTOP).expect("it is there");
    }

    fn network(&self) -> String {
        format!("/proc/{}/ns/net", self.pid)
    }

    /// Does `work` in a thread inside.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let network = File::open(self.network()).expect("a network");
                setns(network, CloneFlags::CLONE_NEWNET).expect("entered");
                work()
            });
            thread.join().expect("done")
        })
    }
}

impl Drop for Behind {
    fn drop(&mut self) {
        let pid = Pid::from_raw(self.shell.id() as i32);
        // It ends its command, and takes the path away.
        let _ = kill(pid, Signal::SIGTERM);
        let _ = kill(pid, Signal::SIGCONT);
        let _ = self.shell.wait();
    }
}
