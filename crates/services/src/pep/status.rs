//! The state of a daemon, at a Unix socket.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::Duration;

use narrows_pep::{Book, Counters, TunnelFacts};
use nix::unistd::User;
use serde::{Deserialize, Serialize};

use super::error::PepError;
use super::server::Server;
use narrows_linux::system_calls::give_way;

/// How long whoever asks may take to read the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tunnels that are listed at most: those in which most waits.
const LARGEST: usize = 20;

/// The state of a daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Of the program.
    pub version: String,
    /// Its process.
    pub pid: u32,
    /// Seconds since it began.
    pub uptime_s: f64,
    /// Whether it takes no more clients.
    pub draining: bool,
    /// Where it listens.
    pub listeners: Vec<String>,
    /// Tunnels that there are.
    pub tunnels: u64,
    /// Of these, how many each thread serves.
    #[serde(default)]
    pub threads: Vec<u64>,
    /// Bytes that wait in them.
    pub backlog_bytes: u64,
    /// Bytes that may wait in them.
    pub budget_bytes: u64,
    /// Bytes in the kernel's buffers of TCP, of the control group that limits memory or of the
    /// machine.
    #[serde(default)]
    pub kernel_bytes: u64,
    /// Bytes that both may be together: what is more comes off the budget.
    #[serde(default)]
    pub memory_bytes: u64,
    /// Clients that have tunnels, as they are counted.
    #[serde(default)]
    pub clients: u64,
    /// Names that wait to be asked for.
    #[serde(default)]
    pub names_waiting: u64,
    /// Names whose addresses are being found.
    #[serde(default)]
    pub names_running: u64,
    /// What was done.
    #[serde(flatten)]
    pub counters: Counters,
    /// What was done at each listener, those of before a reload included.
    #[serde(default)]
    pub by_listener: BTreeMap<SocketAddr, Book>,
    /// The tunnels in which most waits.
    pub largest: Vec<TunnelStatus>,
}

/// One tunnel of a [`Status`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TunnelStatus {
    /// Who opened it.
    pub client: String,
    /// Where it leads, once that was asked for.
    pub destination: Option<String>,
    /// Whether both ends are open.
    pub open: bool,
    /// Seconds since the client came.
    pub age_s: f64,
    /// Seconds since something last happened.
    pub idle_s: f64,
    /// Payload bytes from the client.
    pub bytes_up: u64,
    /// Payload bytes from the destination.
    pub bytes_down: u64,
    /// Bytes that wait for the destination.
    pub backlog_up_bytes: u64,
    /// Bytes that wait for the client.
    pub backlog_down_bytes: u64,
}

/// One thread's part of a [`Status`].
pub(super) struct Share {
    books: Vec<(SocketAddr, Book)>,
    tunnels: u64,
    backlog: u64,
    largest: Vec<TunnelStatus>,
}

impl Share {
    pub fn of(server: &Server) -> Self {
        let (proxy, now) = (&server.proxy, server.now());
        let mut tunnels: Vec<_> = proxy.facts().collect();
        let waits = |t: &TunnelFacts| t.backlog_up + t.backlog_down;
        let order = |t: &TunnelFacts| Reverse((waits(t), t.bytes_up + t.bytes_down));
        // Not sorted whole: there may be tens of thousands, and others wait meanwhile.
        if tunnels.len() > LARGEST {
            tunnels.select_nth_unstable_by_key(LARGEST, order);
            tunnels.truncate(LARGEST);
        }
        tunnels.sort_by_key(order);
        let largest = tunnels.iter().take(LARGEST).map(|t| TunnelStatus {
            client: t.client.to_string(),
            destination: t.destination.map(|d| d.to_string()),
            open: t.open,
            age_s: now.since(t.since).as_secs_f64(),
            idle_s: now.since(t.active).as_secs_f64(),
            bytes_up: t.bytes_up,
            bytes_down: t.bytes_down,
            backlog_up_bytes: t.backlog_up,
            backlog_down_bytes: t.backlog_down,
        });
        Self {
            books: proxy.books().map(|(at, book)| (at, book.clone())).collect(),
            tunnels: proxy.tunnels() as u64,
            backlog: proxy.backlog(),
            largest: largest.collect(),
        }
    }
}

impl Status {
    /// The sum of the threads' shares; the caller adds what is no share.
    pub(super) fn of(shares: Vec<Share>) -> Self {
        let mut by_listener = BTreeMap::<_, Book>::new();
        for (at, book) in shares.iter().flat_map(|share| &share.books) {
            *by_listener.entry(*at).or_default() += book;
        }
        let threads: Vec<u64> = shares.iter().map(|share| share.tunnels).collect();
        let backlog_bytes = shares.iter().map(|share| share.backlog).sum();
        let mut largest: Vec<_> = shares.into_iter().flat_map(|s| s.largest).collect();
        let waits = |t: &TunnelStatus| t.backlog_up_bytes + t.backlog_down_bytes;
        largest.sort_by_key(|t| Reverse((waits(t), t.bytes_up + t.bytes_down)));
        largest.truncate(LARGEST);
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            tunnels: threads.iter().sum(),
            threads,
            backlog_bytes,
            counters: by_listener.values().map(|book| book.counters).sum(),
            by_listener,
            largest,
            ..Self::default()
        }
    }
}

/// Asks the daemon at `path`.
///
/// # Errors
/// If none answers there.
pub fn status(path: &Path) -> Result<Status, PepError> {
    let asked = || -> io::Result<Status> {
        let mut stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(serde_json::from_str(&answer)?)
    };
    asked().map_err(|reason| PepError::NoDaemon {
        path: path.to_path_buf(),
        reason,
    })
}

/// The Unix socket that answers with the state. A thread of its own writes the answers: a slow
/// reader holds up nobody.
#[derive(Debug)]
pub(super) struct StatusSocket {
    path: PathBuf,
    pub listener: UnixListener,
    answers: Sender<(UnixStream, String)>,
}

impl StatusSocket {
    /// Listens at `path`, for the daemon's user and root alone. What a killed daemon left
    /// there is replaced.
    pub fn open(path: &Path, user: Option<&User>) -> Result<Self, PepError> {
        let refused = |reason| PepError::Status {
            path: path.to_path_buf(),
            reason,
        };
        let own = |path: &Path| match user {
            Some(user) => chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())),
            None => Ok(()),
        };
        let bound = || -> io::Result<UnixListener> {
            if let Some(folder) = path.parent().filter(|folder| !folder.exists()) {
                fs::create_dir_all(folder)?;
                own(folder)?;
            }
            let is_socket = fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
            if is_socket {
                if UnixStream::connect(path).is_ok() {
                    return Err(io::ErrorKind::AddrInUse.into());
                }
                fs::remove_file(path)?;
            }
            let listener = UnixListener::bind(path)?;
            fs::set_permissions(path, Permissions::from_mode(0o600))?;
            own(path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listener = bound().map_err(refused)?;
        let (answers, asked) = channel::<(UnixStream, String)>();
        thread::Builder::new()
            .name("status".to_owned())
            .spawn(move || {
                give_way();
                for (mut stream, answer) in asked {
                    // Who has gone misses nothing.
                    let _ = stream
                        .set_nonblocking(false)
                        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)))
                        .and_then(|()| stream.write_all(answer.as_bytes()));
                }
            })
            .map_err(refused)?;
        Ok(Self {
            path: path.to_path_buf(),
            listener,
            answers,
        })
    }

    /// Answers who has asked.
    pub fn answer(&self, status: &Status) {
        while let Ok((stream, _)) = self.listener.accept() {
            let answer = serde_json::to_string(status).unwrap_or_default();
            let _ = self.answers.send((stream, answer));
        }
    }
}

impl Drop for StatusSocket {
    fn drop(&mut self) {
        // Who may not is replaced by the next one.
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_is_told_to_the_process_s_own_user_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("status.sock");
        let _socket = StatusSocket::open(&path, None).expect("it listens");
        let mode = fs::metadata(&path).expect("it is there").permissions();
        assert_eq!(mode.mode() & 0o777, 0o600);
    }

    fn at(port: u16) -> SocketAddr {
        ([127, 0, 0, 1], port).into()
    }

    /// What was opened at a port.
    fn book(port: u16, opened: u64) -> (SocketAddr, Book) {
        let mut book = Book::default();
        book.counters.opened = opened;
        (at(port), book)
    }

    fn tunnel(backlog_up_bytes: u64, bytes_up: u64) -> TunnelStatus {
        TunnelStatus {
            client: at(1).to_string(),
            destination: None,
            open: true,
            age_s: 0.0,
            idle_s: 0.0,
            bytes_up,
            bytes_down: 0,
            backlog_up_bytes,
            backlog_down_bytes: 0,
        }
    }

    #[test]
    fn the_state_adds_up_what_threads_did_at_each_listener_and_lists_the_largest_backlogs_first() {
        let share = |books, tunnels, largest| Share {
            books,
            tunnels,
            backlog: 100 * tunnels,
            largest,
        };
        let small = (0..LARGEST as u64).map(|bytes| tunnel(1, bytes)).collect();
        let status = Status::of(vec![
            share(vec![book(80, 3), book(443, 5)], 2, small),
            share(
                vec![book(80, 10), book(443, 20)],
                7,
                vec![tunnel(9, 0), tunnel(8, 0)],
            ),
        ]);
        assert_eq!(status.counters.opened, 38);
        let opened = |port| status.by_listener[&at(port)].counters.opened;
        assert_eq!((opened(80), opened(443)), (13, 25));
        assert_eq!((status.tunnels, status.threads), (9, vec![2, 7]));
        assert_eq!(status.backlog_bytes, 900);
        let order: Vec<_> = status
            .largest
            .iter()
            .map(|t| (t.backlog_up_bytes, t.bytes_up))
            .collect();
        assert_eq!(order.len(), LARGEST);
        // By what waits, then by what was moved.
        assert_eq!(order[..4], [(9, 0), (8, 0), (1, 19), (1, 18)]);
    }
}
