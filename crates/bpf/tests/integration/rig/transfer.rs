//! One bulk transfer from client to server.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::thread;
use std::time::Duration;

use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, connect, getsockopt, listen,
    setsockopt, socket,
};

use super::Namespace;
use super::path::Rig;

/// When the listener is given its congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen {
    BeforeListen,
    AfterListen,
    Accepted,
}

#[derive(Clone, Debug)]
pub struct Transfer<'a> {
    pub server: IpAddr,
    pub bytes: usize,
    /// Pauses of the sender: after so many bytes, for so long.
    pub pause: Option<(usize, Duration)>,
    pub client_cc: &'a str,
    pub server_cc: &'a str,
    pub chosen: Chosen,
}

/// What a transfer came to.
#[derive(Clone, Debug)]
pub struct Done {
    pub received: usize,
    /// What the sender's socket ran at the end.
    pub client_cc: String,
    pub server_cc: String,
}

fn family(ip: IpAddr) -> AddressFamily {
    match ip {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

fn tcp(ip: IpAddr) -> OwnedFd {
    socket(family(ip), SockType::Stream, SockFlag::SOCK_CLOEXEC, None).expect("a socket")
}

fn choose(fd: &OwnedFd, name: &str) {
    setsockopt(fd, TcpCongestion, &OsString::from(name))
        .unwrap_or_else(|e| panic!("TCP_CONGESTION {name}: {e}"));
}

fn running(stream: &TcpStream) -> String {
    let name = getsockopt(stream, TcpCongestion).expect("TCP_CONGESTION");
    let name = name.to_string_lossy().into_owned();
    name.trim_end_matches('\0').to_owned()
}

impl Transfer<'_> {
    /// Runs it; panics if it does not come to its end.
    pub fn run(&self, rig: &Rig) -> Done {
        self.between(&rig.client, &rig.server)
    }

    /// The same between other hosts.
    pub fn between(&self, client: &Namespace, server: &Namespace) -> Done {
        let address = SockaddrStorage::from(SocketAddr::new(self.server, 5001));
        let listener: TcpListener = server.run(|| {
            let fd = tcp(self.server);
            if self.chosen == Chosen::BeforeListen {
                choose(&fd, self.server_cc);
            }
            bind(fd.as_raw_fd(), &address).expect("bind");
            listen(&fd, Backlog::new(5).expect("a small number")).expect("listen");
            if self.chosen == Chosen::AfterListen {
                choose(&fd, self.server_cc);
            }
            fd.into()
        });
        thread::scope(|scope| {
            let server = scope.spawn(move || {
                let (mut stream, _) = listener.accept().expect("accept");
                if self.chosen == Chosen::Accepted {
                    setsockopt(&stream, TcpCongestion, &OsString::from(self.server_cc))
                        .expect("TCP_CONGESTION");
                }
                let (mut received, mut buffer) = (0, vec![0; 1 << 16]);
                loop {
                    match stream.read(&mut buffer).expect("read") {
                        0 => break,
                        n => received += n,
                    }
                }
                (received, running(&stream))
            });
            let fd = client.run(|| tcp(self.server));
            choose(&fd, self.client_cc);
            connect(fd.as_raw_fd(), &address).expect("connect");
            let mut stream = TcpStream::from(fd);
            let chunk = [7; 1 << 14];
            let mut sent = 0;
            while sent < self.bytes {
                let n = chunk.len().min(self.bytes - sent);
                stream.write_all(&chunk[..n]).expect("write");
                let before = sent;
                sent += n;
                if let Some((at, wait)) = self.pause.filter(|p| (before..sent).contains(&p.0)) {
                    let _ = at;
                    thread::sleep(wait);
                }
            }
            let client_cc = running(&stream);
            stream
                .shutdown(std::net::Shutdown::Write)
                .expect("shutdown");
            let (received, server_cc) = server.join().expect("the server ended well");
            // The server closes: read its end, so that this end is done too.
            let _ = stream.read(&mut [0; 1]);
            Done {
                received,
                client_cc,
                server_cc,
            }
        })
    }
}
