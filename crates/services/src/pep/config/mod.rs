//! The configuration of the daemon: a file of TOML, checked before anything starts.

mod address;
mod document;
mod page;
mod size;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use narrows_pep::{HeaderVersion, Intake, NETWORK, Network, Parent, Policy};
use narrows_scenario::Refusal;
use narrows_units::Duration;
use nix::unistd::User;

pub use self::address::read_socket;
use self::address::{DESTINATIONS, read_destinations};
use self::document::{Document, Leg};
use self::page::Page;
use self::size::Size;
use super::leg::LegConfig;
use super::memory::Memory;
use super::relay::READ_AHEAD;

/// Bytes that a configuration has at most: one that is longer is another file.
const LONGEST: usize = 1 << 20;

/// Where the daemon tells its state, unless it is said otherwise.
pub const STATUS: &str = "/run/narrows-pep/status.sock";

/// What part of the memory that the process may use waits in tunnels at most, unless it is said
/// otherwise (our choice: as much again is for the kernel's buffers, and half for all else).
const PART_OF_MEMORY: u64 = 4;

/// How long tunnels have to end when the daemon is to.
const DRAIN: Duration = Duration::from_secs(30);

/// How long a proxy may take to answer before connections go without it, unless it is
/// said otherwise: its SYN may be lost once, and be repeated after a second (RFC 6298).
pub const PATIENCE: Duration = Duration::from_secs(3);

/// The port of a listener whose address names none: RFC 8803 assigns no number to
/// converters; it is that of the laboratory's.
pub const PORT: u16 = 8803;

/// Threads that serve tunnels at most (our choice: as many as one of HAProxy's groups of threads
/// has).
pub const MOST_THREADS: usize = 64;

/// What a daemon is to do.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file that it comes from, to be read again.
    pub file: Option<PathBuf>,
    /// Whom the process becomes once its sockets are open.
    pub user: Option<String>,
    /// How many threads serve tunnels, from 1 to [`MOST_THREADS`]; where nothing is said, as
    /// many as there are processors that the process may use.
    pub threads: Option<usize>,
    /// The socket at which it tells its state.
    pub status: Option<PathBuf>,
    /// Where it answers with metrics.
    pub metrics: Option<SocketAddr>,
    /// How long tunnels have to end by themselves.
    pub drain: Duration,
    /// The shortest round trip to senders of whom more is read than goes out at once; what
    /// nearer ones send waits in the kernel's buffers.
    pub read_ahead: Duration,
    /// How much it bears.
    pub limits: narrows_pep::Limits,
    /// Bytes that its tunnels and the kernel's buffers of TCP may hold together; half of what the
    /// process may use where nothing is said.
    pub memory: Option<u64>,
    /// Where clients come to.
    pub listeners: Vec<ListenerConfig>,
}

/// Where clients come to, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerConfig {
    /// The address that clients connect to.
    pub listen: SocketAddr,
    /// How it learns where they want to go.
    pub intake: Intake,
    /// Who may come, and where to.
    pub policy: Policy,
    /// Whether the layout of Bayer's thesis is taken too.
    pub thesis: bool,
    /// Whether clients show a cookie.
    pub cookies: bool,
    /// Load balancers, whose connections say by the PROXY protocol whose they are.
    pub balancers: Vec<Network>,
    /// The header of that protocol that destinations are sent.
    pub send_proxy: Option<HeaderVersion>,
    /// Whether connections to destinations come from the clients' own addresses.
    pub keep_source: bool,
    /// The address that connections to destinations come from.
    pub from: Option<IpAddr>,
    /// The proxy that they go by in turn.
    pub parent: Option<Parent>,
    pub(super) near: LegConfig,
    pub(super) far: LegConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            file: None,
            user: None,
            threads: None,
            status: None,
            metrics: None,
            drain: DRAIN,
            read_ahead: READ_AHEAD,
            memory: None,
            limits: narrows_pep::Limits {
                budget: Memory::of_process().limit / PART_OF_MEMORY,
                // A sixteenth of all (our choice).
                tunnels_per_client: 4_096,
                ..narrows_pep::Limits::default()
            },
            listeners: Vec::new(),
        }
    }
}

impl ListenerConfig {
    /// One at `listen` that clients ask by RFC 8803, by these words for networks.
    ///
    /// # Errors
    /// If one is no network.
    pub fn plain(
        listen: SocketAddr,
        clients: &[String],
        destinations: &[String],
    ) -> Result<Self, Refusal> {
        let refuse =
            |key: &str, word: &str, allowed: &str| Refusal::new(key, format!("`{word}`"), allowed);
        let clients = clients.iter().map(|word| {
            let read = word.parse::<Network>();
            read.map_err(|()| refuse("--clients", word, NETWORK))
        });
        let destinations = destinations
            .iter()
            .map(|word| read_destinations(word).ok_or_else(|| refuse("--to", word, DESTINATIONS)));
        Ok(Self {
            listen,
            intake: Intake::Request,
            policy: Policy {
                clients: clients.collect::<Result<_, _>>()?,
                destinations: destinations.collect::<Result<_, _>>()?,
                anywhere: false,
            },
            thesis: false,
            cookies: false,
            balancers: Vec::new(),
            send_proxy: None,
            keep_source: false,
            from: None,
            parent: None,
            near: Leg::plain(true, false),
            far: Leg::plain(false, false),
        })
    }
}

impl Config {
    /// Bytes that its tunnels and the kernel's buffers may hold together, where the process may
    /// use `memory`.
    pub(super) fn memory(&self, memory: &Memory) -> u64 {
        self.memory.unwrap_or(memory.limit / 2)
    }

    /// How many threads serve tunnels.
    pub fn threads(&self) -> usize {
        let processors = || thread::available_parallelism().map_or(1, NonZeroUsize::get);
        self.threads
            .unwrap_or_else(processors)
            .clamp(1, MOST_THREADS)
    }

    /// Checks what hangs on the machine: that the user is there, and that it can read the file
    /// again at a reload.
    ///
    /// # Errors
    /// What is missing, and what to do.
    pub fn check(&self) -> Result<(), Refusal> {
        let Some(name) = &self.user else {
            return Ok(());
        };
        let user = User::from_name(name).ok().flatten();
        let refuse = |found: String, allowed| Err(Refusal::new("user", found, allowed));
        let Some(user) = user else {
            return refuse(format!("`{name}`"), "a user of this machine");
        };
        let about = self
            .file
            .as_deref()
            .and_then(|file| fs::metadata(file).ok());
        let Some(about) = about else {
            return Ok(());
        };
        // inode(7); supplementary groups are given up.
        let readable = match () {
            () if user.uid.is_root() => true,
            () if about.uid() == user.uid.as_raw() => about.mode() & 0o400 != 0,
            () if about.gid() == user.gid.as_raw() => about.mode() & 0o040 != 0,
            () => about.mode() & 0o004 != 0,
        };
        if readable {
            return Ok(());
        }
        refuse(
            format!("`{name}`, who cannot read this file, so that SIGHUP would be refused"),
            "a user that may read it (chgrp, chmod g+r)",
        )
    }

    /// Reads and checks a file.
    ///
    /// # Errors
    /// Where in it what is wrong, and what is allowed.
    pub fn load(file: &Path) -> Result<Self, Refusal> {
        let name = file.display().to_string();
        let refuse = |found: String| Refusal::new(name.clone(), found, "a readable file of TOML");
        let about = fs::metadata(file).map_err(|e| refuse(e.to_string()))?;
        /// `S_IWOTH` (inode(7)).
        const OTHERS_WRITE: u32 = 0o002;
        if about.mode() & OTHERS_WRITE != 0 {
            let found = format!("mode {:04o}: anybody may change it", about.mode() & 0o7777);
            return Err(Refusal::new(
                name,
                found,
                "a file that others cannot write (chmod o-w)",
            ));
        }
        let size = about.len();
        if size > LONGEST as u64 {
            return Err(refuse(format!("{size} bytes")));
        }
        let text = fs::read_to_string(file).map_err(|e| refuse(e.to_string()))?;
        let mut config = Self::read(&name, &text)?;
        config.file = Some(file.to_path_buf());
        Ok(config)
    }

    /// Reads and checks a configuration; `name` is that of its file in messages.
    ///
    /// # Errors
    /// See [`load`](Self::load).
    pub fn read(name: &str, text: &str) -> Result<Self, Refusal> {
        let page = Page { name, text };
        let document: Document = toml::from_str(text).map_err(|e| page.toml(&e))?;
        if *document.version.get_ref() != 1 {
            let found = document.version.get_ref().to_string();
            return Err(page.refuse(document.version.span(), "version", &found, "`version = 1`"));
        }
        let mut config = Self {
            user: document.user,
            status: Some(document.status.unwrap_or_else(|| STATUS.into())),
            ..Self::default()
        };
        if let Some(metrics) = &document.metrics {
            let address = page.socket(metrics, "metrics", None)?;
            if !address.ip().is_loopback() {
                let allowed = "an address of loopback such as 127.0.0.1:9464, as metrics are \
                               answered to whoever asks";
                return Err(page.text(metrics, "metrics", allowed));
            }
            config.metrics = Some(address);
        }
        page.set(
            document.drain.as_ref(),
            "drain",
            Duration::from_secs(0),
            &mut config.drain,
        )?;
        page.limits(&document.limits, &mut config.limits)?;
        if let Some(word) = &document.limits.memory {
            let mut memory = Size(0);
            page.set(Some(word), "memory", Size(1 << 20), &mut memory)?;
            config.memory = Some(memory.0);
        }
        if let Some(threads) = &document.threads {
            let count = *threads.get_ref();
            if !(1..=MOST_THREADS).contains(&count) {
                let allowed = format!("from 1 to {MOST_THREADS}");
                return Err(page.refuse(threads.span(), "threads", &count.to_string(), &allowed));
            }
            config.threads = Some(count);
        }
        let rtt = document.limits.read_ahead.as_ref();
        page.set(rtt, "read_ahead", Duration::ZERO, &mut config.read_ahead)?;
        let mut places = BTreeMap::new();
        for listener in &document.listener {
            let checked = page.listener(listener.get_ref())?;
            if let Some(word) = listener.get_ref().keep_source.as_ref() {
                if checked.keep_source && config.user.is_some() {
                    let allowed = "no `user` beside it, as each connection needs CAP_NET_ADMIN \
                                   (AmbientCapabilities= of the service manager gives it alone)";
                    return Err(page.refuse(word.span(), "keep_source", "true", allowed));
                }
            }
            let listen = &listener.get_ref().listen;
            if places.insert(checked.listen, ()).is_some() {
                let allowed = "one listener at each address";
                return Err(page.text(listen, "listen", allowed));
            }
            config.listeners.push(checked);
        }
        if config.listeners.is_empty() {
            let allowed = "at least one `[[listener]]`";
            return Err(page.refuse(0..0, "listener", "none", allowed));
        }
        Ok(config)
    }
}
