//! The daemon: the proxy over the machine's sockets, in one thread, with the signals and
//! the questions that come meanwhile.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use narrows_packet::{App, SocketError};
use narrows_pep::{Cookies, Limits, Listener, Proxy, Terms};
use narrows_units::{Duration, Instant};
use nix::sys::epoll::{Epoll, EpollCreateFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use tracing::{error, info, warn};

use super::config::{Config, ListenerConfig};
use super::controls::LegControls;
use super::error::PepError;
use super::names::Names;
use super::server::Server;
use super::service;
use super::sockets::Machine;
use super::status::{LARGEST, Status, Teller, TunnelStatus};
use crate::random::random_bytes;
use crate::world::given_sockets;

/// Descriptors that a daemon has beside those of its tunnels.
const OWN_DESCRIPTORS: u64 = 64;

/// How old metrics are at most.
const METRICS: Duration = Duration::from_secs(1);

/// Tokens of what is no socket of the proxy's.
const SIGNALS: u64 = u64::MAX;
const STATUS: u64 = u64::MAX - 1;
const NAMES: u64 = u64::MAX - 2;

/// A daemon that listens.
pub struct Daemon {
    config: Config,
    server: Server,
    cookies: Cookies,
    controls: LegControls,
    signals: SignalFd,
    teller: Option<Teller>,
    names: Names,
    /// The most tunnels for which there are descriptors.
    most_tunnels: usize,
    /// When those that are still there are reset.
    ends: Option<Instant>,
    next_metrics: Instant,
}

impl std::fmt::Debug for Daemon {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Daemon")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Daemon {
    /// Opens the sockets, takes those that a service manager has handed over, and gives up
    /// rights. SIGTERM, SIGINT and SIGHUP are held back from then on. To be called in the
    /// process's first thread, before others are started.
    ///
    /// # Errors
    /// If the machine refuses a step; nothing is served then.
    pub fn open(config: Config) -> Result<Self, PepError> {
        let user = config.user.as_deref().map(service::user).transpose()?;
        service::gain_no_rights()?;
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
            mask.add(signal);
        }
        mask.thread_block()
            .map_err(PepError::setup("hold signals"))?;
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let signals = SignalFd::with_flags(&mask, flags);
        let signals = signals.map_err(PepError::setup("read signals"))?;
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC);
        let epoll = epoll.map_err(PepError::setup("wait for sockets"))?;
        let teller = config.status.as_deref();
        let teller = teller
            .map(|path| Teller::open(path, user.as_ref()))
            .transpose()?;
        let descriptors = service::all_descriptors().saturating_sub(OWN_DESCRIPTORS) / 2;
        let most_tunnels = usize::try_from(descriptors).unwrap_or(usize::MAX).max(1);
        let given = given_sockets().into_iter().map(TcpListener::from).collect();
        // Connections that a rule of TPROXY led here have the address that they were
        // opened to.
        let origin = Box::new(|socket: &OwnedFd, _| {
            let socket = socket.try_clone().ok()?;
            TcpStream::from(socket).local_addr().ok()
        });
        let machine = Machine::new(epoll, given, origin);
        let mut machine = machine.map_err(PepError::setup("use the sockets handed over"))?;
        machine.read_ahead_from(config.read_ahead);
        // The key lasts as long as the process.
        let key = random_bytes().map_err(PepError::setup("read /dev/urandom"))?;
        let cookies = Cookies::new(key);
        let mut controls = LegControls::new();
        controls.load(&config)?;
        machine.use_controls(controls.options()?);
        let listeners = listeners(&mut machine, &config, &cookies, &mut controls);
        let limits = limits(&config, most_tunnels);
        let mut proxy = Proxy::new(listeners, limits);
        proxy
            .start(&mut machine)
            .map_err(|e| not_listened(&machine, e))?;
        if let Some(address) = machine.not_taken().next() {
            return Err(PepError::NotTaken(address));
        }
        if let Some(user) = &user {
            service::become_user(user)?;
        }
        for warning in warnings(&config) {
            warn!("{warning}");
        }
        for listener in &config.listeners {
            info!(address = %listener.listen, "listening");
        }
        let server = Server::new(machine, proxy);
        let names = Names::new().map_err(PepError::setup("wait for names"))?;
        let told = teller.iter().map(|t| (t.listener.as_fd(), STATUS));
        let own = [(signals.as_fd(), SIGNALS), (names.signal(), NAMES)];
        for (fd, token) in told.chain(own) {
            let watched = server.watch(fd, token);
            watched.map_err(PepError::setup("wait for signals"))?;
        }
        service::notify("READY=1");
        Ok(Self {
            config,
            server,
            cookies,
            controls,
            signals,
            teller,
            names,
            most_tunnels,
            ends: None,
            next_metrics: Instant::ZERO,
        })
    }

    /// Serves until a signal asks to end: no more clients are taken then, and those that
    /// are there have the time of `drain`, or until the next signal. `metrics` is called
    /// once a second if the configuration asks for such.
    ///
    /// # Errors
    /// If the kernel cannot be waited for, which it can on a working system.
    pub fn run(mut self, metrics: &mut dyn FnMut(&Status)) -> Result<Status, PepError> {
        loop {
            let longest = self.patience();
            let others = self.server.turn(longest);
            let others = others.map_err(PepError::setup("wait for sockets"))?;
            for token in others {
                match (token, &self.teller) {
                    (STATUS, Some(teller)) => teller.answer(|| self.status()),
                    (STATUS, None) => {}
                    (NAMES, _) => self.resolved(),
                    _ => self.serve_signals(),
                }
            }
            self.names.ask(self.server.proxy.take_names());
            let now = self.server.now();
            if self.config.metrics.is_some() && now >= self.next_metrics {
                self.next_metrics = now + METRICS;
                metrics(&self.status());
            }
            if self.ends.is_some_and(|at| at <= now) {
                let tunnels = self.server.proxy.tunnels();
                warn!(tunnels, "reset at the end of the time to drain");
                self.abandon();
            }
            if self.server.proxy.is_drained() {
                info!("ended");
                return Ok(self.status());
            }
        }
    }

    fn resolved(&mut self) {
        let Server { machine, proxy, .. } = &mut self.server;
        for (id, addresses) in self.names.found() {
            proxy.resolved(machine, id, &addresses);
            machine.end_turn();
        }
    }

    fn abandon(&mut self) {
        let Server { machine, proxy, .. } = &mut self.server;
        proxy.abandon(machine);
    }

    /// How long to wait for events.
    fn patience(&self) -> Option<Duration> {
        let now = self.server.now();
        let metrics = self.config.metrics.map(|_| self.next_metrics.since(now));
        let ends = self.ends.map(|at| at.since(now));
        [metrics, ends].into_iter().flatten().min()
    }

    fn serve_signals(&mut self) {
        while let Ok(Some(signal)) = self.signals.read_signal() {
            match Signal::try_from(signal.ssi_signo as i32) {
                Ok(Signal::SIGHUP) => self.reload(),
                _ if self.ends.is_some() => self.abandon(),
                _ => {
                    info!(tunnels = self.server.proxy.tunnels(), "draining");
                    service::notify("STOPPING=1");
                    self.ends = Some(self.server.now() + self.config.drain);
                    let Server { machine, proxy, .. } = &mut self.server;
                    proxy.drain(machine);
                }
            }
        }
    }

    /// Reads the configuration again. If it is refused, all stays as it is.
    fn reload(&mut self) {
        let Some(file) = self.config.file.clone() else {
            warn!("SIGHUP: there is no configuration file to read again");
            return;
        };
        if self.ends.is_some() {
            return;
        }
        let config = match Config::load(&file) {
            Ok(config) => config,
            Err(refusal) => {
                error!("not reloaded: {}", refusal.to_line());
                return;
            }
        };
        let fixed = |config: &Config| (config.user.clone(), config.status.clone(), config.metrics);
        if fixed(&config) != fixed(&self.config) {
            warn!("user, status and metrics are changed by a restart alone");
        }
        let loaded = self.controls.load(&config);
        let options = match loaded.and_then(|()| self.controls.options()) {
            Ok(options) => options,
            Err(refused) => {
                error!("not reloaded: {refused}");
                return;
            }
        };
        let Server { machine, proxy, .. } = &mut self.server;
        machine.use_controls(options);
        let listeners = listeners(machine, &config, &self.cookies, &mut self.controls);
        let limits = limits(&config, self.most_tunnels);
        match proxy.reconfigure(machine, listeners, limits) {
            Ok(()) => {
                machine.read_ahead_from(config.read_ahead);
                self.controls.set_rates(&config);
                let (user, status, metrics) = fixed(&self.config);
                self.config = Config {
                    user,
                    status,
                    metrics,
                    ..config
                };
                info!(listeners = self.config.listeners.len(), "reloaded");
            }
            Err(e) => error!("not reloaded: {}", not_listened(&self.server.machine, e)),
        }
    }

    /// What is told of it.
    fn status(&self) -> Status {
        let (proxy, now) = (&self.server.proxy, self.server.now());
        let counters = proxy.counters();
        let mut tunnels: Vec<_> = proxy.facts().collect();
        let waits = |t: &narrows_pep::TunnelFacts| t.backlog_up + t.backlog_down;
        tunnels.sort_by_key(|t| std::cmp::Reverse((waits(t), t.bytes_up + t.bytes_down)));
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
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_s: now.as_secs_f64(),
            draining: self.ends.is_some(),
            listeners: self
                .config
                .listeners
                .iter()
                .map(|l| l.listen.to_string())
                .collect(),
            tunnels: proxy.tunnels() as u64,
            backlog_bytes: proxy.backlog(),
            budget_bytes: self.config.limits.budget,
            accepted: counters.accepted,
            denied: counters.denied,
            opened: counters.opened,
            refused: counters.refused,
            closed: counters.closed,
            broken: counters.broken,
            direct: counters.direct,
            request_timeouts: counters.request_timeouts,
            connect_timeouts: counters.connect_timeouts,
            idle_timeouts: counters.idle_timeouts,
            bytes_up: counters.bytes_up,
            bytes_down: counters.bytes_down,
            largest: largest.collect(),
        }
    }
}

fn limits(config: &Config, most: usize) -> Limits {
    let asked = config.limits.tunnels;
    // Who has said no number wants as many as there may be.
    if asked > most && asked != Limits::default().tunnels {
        warn!(
            tunnels = most,
            "there are descriptors for fewer tunnels than {asked} (ulimit -n, LimitNOFILE=)"
        );
    }
    Limits {
        tunnels: asked.min(most),
        ..config.limits
    }
}

/// The listeners of `config`, for the proxy.
fn listeners(
    machine: &mut Machine,
    config: &Config,
    cookies: &Cookies,
    controls: &mut LegControls,
) -> Vec<Listener> {
    let mut listener = |l: &ListenerConfig| {
        let [(near, near_rate), (far, far_rate)] = controls.legs(l);
        Listener {
            near: machine.add_profile(near),
            local: l.listen,
            terms: Terms {
                thesis: l.thesis,
                cookies: l.cookies.then(|| cookies.clone()),
                fast_open: far.fast_open,
                intake: l.intake,
                policy: l.policy.clone(),
            },
            far: machine.add_profile(far),
            onward_from: l.from.map(|from| (from, 0).into()),
            parent: l.parent,
            flow: None,
            near_rate,
            far_rate,
        }
    };
    config.listeners.iter().map(&mut listener).collect()
}

/// What will not be as it might be.
fn warnings(config: &Config) -> Vec<String> {
    let mut all = Vec::new();
    let switch = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_fastopen").unwrap_or_default();
    // 1: as a client, 2: as a server (Documentation/networking/ip-sysctl.rst).
    let bits: u32 = switch.trim().parse().unwrap_or(0);
    if bits & 2 == 0 {
        all.push(
            "clients' requests come a round trip later than need be, as this machine takes no \
             data with a SYN (sysctl -w net.ipv4.tcp_fastopen=3)"
                .to_owned(),
        );
    }
    for listener in &config.listeners {
        let nobody = listener.policy.clients.is_empty();
        if nobody || listener.policy.destinations.is_empty() {
            let what = if nobody { "clients" } else { "destinations" };
            all.push(format!("{} allows no {what}", listener.listen));
        }
    }
    all
}

fn not_listened(machine: &Machine, reason: SocketError) -> PepError {
    PepError::Listen {
        address: machine.refused().unwrap_or_else(|| ([0; 4], 0).into()),
        reason,
    }
}
