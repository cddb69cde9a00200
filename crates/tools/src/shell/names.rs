//! Names behind a path. Where this machine asks a name server at a loopback
//! address (systemd-resolved at `127.0.0.53`, a dnsmasq), the inside, which has
//! a loopback of its own, asks the far end of the path, and a relay there asks
//! on.

use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use narrows_linux::machine::{State, Undo};
use narrows_linux::{Namespace, Stop};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Where programs read whom to ask for names (resolv.conf(5)).
pub(super) const RESOLVERS: &str = "/etc/resolv.conf";

/// The port of name servers (RFC 1035, section 4.2).
const PORT: u16 = 53;

/// The longest that an answer may take: resolvers have asked again by then
/// (`RES_TIMEOUT` of resolv.h, 5 s).
const PATIENCE: Duration = Duration::from_secs(5);

/// Questions that wait for an answer at most; an older one is given up.
const MOST: usize = 256;

/// The largest message over UDP or TCP, in bytes.
const LARGEST: usize = 65_535;

/// Whom `resolvers` names.
fn servers(resolvers: &str) -> Vec<&str> {
    let lines = resolvers.lines().map(str::trim);
    let rest = lines.filter_map(|line| line.strip_prefix("nameserver"));
    rest.filter_map(|rest| rest.split_whitespace().next())
        .collect()
}

/// The first name server, if all of them stand at loopback addresses.
fn unreachable(resolvers: &str) -> Option<IpAddr> {
    let servers: Vec<IpAddr> = servers(resolvers)
        .into_iter()
        .map(|s| s.parse().ok())
        .collect::<Option<_>>()?;
    let all = servers.iter().all(IpAddr::is_loopback);
    servers.first().filter(|_| all).copied()
}

/// The same file with `server` for all name servers.
fn with_server(resolvers: &str, server: IpAddr) -> String {
    let others = resolvers.lines().filter(|line| servers(line).is_empty());
    let mut text = format!("nameserver {server}\n");
    for line in others {
        text.push_str(line);
        text.push('\n');
    }
    text
}

/// What makes names work inside. Dropping it ends the relay.
#[derive(Debug)]
pub(super) struct Names {
    /// What the inside is to see in the place of [`RESOLVERS`].
    file: PathBuf,
    stop: Stop,
    relay: Option<JoinHandle<()>>,
}

impl Names {
    /// Answers at `at`, an address in `outside`, what `inside` asks, if names
    /// need that; `None` if this machine's servers are reached without.
    ///
    /// # Errors
    /// Where the relay cannot be had.
    pub(super) fn relay(
        outside: &Namespace,
        at: IpAddr,
        inside: IpAddr,
        state: &State,
    ) -> io::Result<Option<Self>> {
        let resolvers = fs::read_to_string(RESOLVERS).unwrap_or_default();
        let Some(server) = unreachable(&resolvers) else {
            return Ok(None);
        };
        let other = |e: narrows_linux::LinuxError| io::Error::other(e.to_string());
        let bind = || -> io::Result<_> {
            let at = SocketAddr::new(at, PORT);
            Ok((UdpSocket::bind(at)?, TcpListener::bind(at)?))
        };
        let (udp, tcp) = outside.run(bind).map_err(other)??;
        udp.set_nonblocking(true)?;
        tcp.set_nonblocking(true)?;
        let file = state.place("resolv.conf");
        state.record(&Undo::File(file.clone())).map_err(other)?;
        fs::write(&file, with_server(&resolvers, at))?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
        let stop = Stop::new()?;
        let relay = Relay {
            udp,
            tcp,
            inside,
            server: SocketAddr::new(server, PORT),
            waiting: Vec::new(),
        };
        let stopped = stop.clone();
        let thread = Builder::new().name("names".to_owned());
        Ok(Some(Self {
            file,
            stop,
            relay: Some(thread.spawn(move || relay.run(&stopped))?),
        }))
    }

    /// What the inside is to see in the place of [`RESOLVERS`].
    pub(super) fn file(&self) -> &Path {
        &self.file
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.stop.request();
        if let Some(relay) = self.relay.take() {
            // It has nothing to hand over.
            let _ = relay.join();
        }
    }
}

/// Passes questions on, and answers back.
struct Relay {
    udp: UdpSocket,
    tcp: TcpListener,
    /// Who may ask.
    inside: IpAddr,
    /// Who knows.
    server: SocketAddr,
    waiting: Vec<Waiting>,
}

/// A question that was passed on.
struct Waiting {
    socket: UdpSocket,
    asker: SocketAddr,
    since: Instant,
}

impl Relay {
    fn run(mut self, stop: &Stop) {
        let mut buffer = vec![0; LARGEST];
        while !stop.requested() {
            let sockets = self.waiting.iter().map(|w| w.socket.as_fd());
            let mut fds: Vec<_> = [self.udp.as_fd(), self.tcp.as_fd()]
                .into_iter()
                .chain(sockets)
                .map(|fd| PollFd::new(fd, PollFlags::POLLIN))
                .collect();
            fds.push(stop.poll_fd());
            let longest = PollTimeout::try_from(PATIENCE).unwrap_or(PollTimeout::NONE);
            // Interrupted is as good as nothing ready.
            let _ = poll(&mut fds, longest);
            self.answer(&mut buffer);
            self.ask(&mut buffer);
            self.accept();
        }
    }

    /// Passes answers back, and gives up questions that wait too long.
    fn answer(&mut self, buffer: &mut [u8]) {
        let udp = &self.udp;
        self.waiting.retain(|waiting| {
            if let Ok(n) = waiting.socket.recv(buffer) {
                // An asker that is gone misses nothing.
                let _ = udp.send_to(&buffer[..n], waiting.asker);
                return false;
            }
            waiting.since.elapsed() < PATIENCE
        });
    }

    /// Passes questions on, each from a port of its own.
    fn ask(&mut self, buffer: &mut [u8]) {
        while let Ok((n, asker)) = self.udp.recv_from(buffer) {
            if asker.ip() != self.inside {
                continue;
            }
            // A question that cannot be passed on is asked again by its asker.
            let Ok(socket) = self.pass_on(&buffer[..n]) else {
                continue;
            };
            if self.waiting.len() == MOST {
                self.waiting.remove(0);
            }
            self.waiting.push(Waiting {
                socket,
                asker,
                since: Instant::now(),
            });
        }
    }

    fn pass_on(&self, question: &[u8]) -> io::Result<UdpSocket> {
        let any: IpAddr = match self.server {
            SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(self.server)?;
        socket.set_nonblocking(true)?;
        socket.send(question)?;
        Ok(socket)
    }

    /// Large answers are asked for over TCP, which is rare: a thread each.
    fn accept(&self) {
        while let Ok((asker, from)) = self.tcp.accept() {
            let server = self.server;
            if from.ip() == self.inside {
                let thread = Builder::new().name("names over TCP".to_owned());
                // Without a thread the connection closes, and is tried again.
                let _ = thread.spawn(move || converse(&asker, server));
            }
        }
    }
}

/// Carries one conversation over TCP until either side is silent or done.
fn converse(asker: &TcpStream, server: SocketAddr) -> io::Result<()> {
    use std::io::copy;
    let server = TcpStream::connect_timeout(&server, PATIENCE)?;
    asker.set_nonblocking(false)?;
    for stream in [asker, &server] {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = copy(&mut &server, &mut &*asker);
            let _ = asker.shutdown(std::net::Shutdown::Both);
        });
        let _ = copy(&mut &*asker, &mut &server);
        let _ = server.shutdown(std::net::Shutdown::Write);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_servers_that_all_stand_at_loopback_addresses_need_a_relay() {
        let file = "# local\nnameserver 127.0.0.53\noptions edns0\nsearch example.org\n";
        assert_eq!(unreachable(file), Some([127, 0, 0, 53].into()));
        for reachable in [
            "",
            "nameserver 192.0.2.53\n",
            "nameserver ::1\nnameserver fd00::53\n",
        ] {
            assert_eq!(unreachable(reachable), None, "{reachable}");
        }
        let seen = with_server(file, [198, 18, 0, 1].into());
        assert_eq!(
            seen,
            "nameserver 198.18.0.1\n# local\noptions edns0\nsearch example.org\n"
        );
    }

    #[test]
    fn a_relay_passes_on_questions_and_answers_over_udp_and_tcp() {
        use std::io::{Read, Write};
        let local = |port| SocketAddr::from(([127, 0, 0, 1], port));
        // A port that is free for TCP need not be for UDP.
        let both = || {
            let pair = (0..64).find_map(|_| {
                let tcp = TcpListener::bind(local(0)).ok()?;
                let at = tcp.local_addr().ok()?;
                Some((UdpSocket::bind(at).ok()?, tcp, at))
            });
            pair.expect("a port for both")
        };
        let (server, streams, at) = both();
        let (udp, tcp, asked) = both();
        for nonblocking in [udp.set_nonblocking(true), tcp.set_nonblocking(true)] {
            nonblocking.unwrap();
        }
        let relay = Relay {
            udp,
            tcp,
            inside: local(0).ip(),
            server: at,
            waiting: Vec::new(),
        };
        let stop = Stop::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| relay.run(&stop));
            let asker = UdpSocket::bind(local(0)).unwrap();
            asker.set_read_timeout(Some(4 * PATIENCE)).unwrap();
            let mut buffer = [0; 16];
            // The second is answered before the first.
            asker.send_to(b"one", asked).unwrap();
            let (_, first) = server.recv_from(&mut buffer).unwrap();
            asker.send_to(b"two", asked).unwrap();
            let (_, second) = server.recv_from(&mut buffer).unwrap();
            for (answer, to) in [(b"TWO", second), (b"ONE", first)] {
                server.send_to(answer, to).unwrap();
                let (n, from) = asker.recv_from(&mut buffer).unwrap();
                assert_eq!((&buffer[..n], from), (&answer[..], asked));
            }
            let mut asker = TcpStream::connect(asked).unwrap();
            asker.write_all(b"long?").unwrap();
            let (mut stream, _) = streams.accept().unwrap();
            stream.read_exact(&mut buffer[..5]).unwrap();
            stream.write_all(&buffer[..5]).unwrap();
            drop(stream);
            let mut answer = Vec::new();
            asker.read_to_end(&mut answer).unwrap();
            assert_eq!(answer, b"long?");
            stop.request();
        });
    }
}
